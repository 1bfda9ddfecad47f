//! The commit, from top to bottom: [`publish`]. A durable one goes one of two ways: its pages are
//! flushed, or a record of them is written to the log ([`super::log`]) and flushed there.
//! [`Inner::clean`] removes what a writer that died (or a power cut) left in the meta pages.
//!
//! # What holds while a commit runs
//!
//! Let D be the newest commit known to be on stable storage and L the newest one; they may be the
//! same. A commit writes only pages that no protected snapshot uses, D and L among them, and of the
//! three meta pages the one that holds neither. So whatever happens at whatever instruction, D can
//! be read after a power cut, and L after the death of the process.
//!
//! A meta record that is in the file but was never published is dangerous: recovery might take it,
//! although a later writer has reused its pages. Therefore the shared word [`WORD_DIRTY`] is raised
//! before a meta page is written and lowered after its publication; a writer that finds it raised
//! removes such records before it does anything else.

use std::sync::atomic::Ordering::SeqCst;

use super::image::{Flush, Image, Numbers, Pieces};
use super::log::{self, Ring, Way};
use super::meta::{
    FreePages, FreeRun, Kind, META_LEN, Meta, ONE_FLUSH_PAGES, RUNS_MAX, SnapshotMeta,
};
use super::page_ref::{PageNo, PageRef};
use super::pages::{Buffer, Pages, WritePages};
use super::recover::{META_SLOTS, read_metas};
use super::state::WriteState;
use super::store::Inner;
use super::tree::Root;
use super::words::{CLEAN, DIRTY, WORD_DIRTY, WORD_DURABLE, WORD_NUMBER, word_of};
use crate::Durability;
use crate::observe::{Done, Work, tell};
use crate::os::Shared;
use crate::sync::locked;
use crate::{Error, Result};

/// At most this many branches below a root are expected to be written again soon.
const FEW_BRANCHES: usize = 4;
/// The file grows ahead of small commits by an eighth of itself within these bounds.
const GROW_PAGES_MIN: u64 = 16;
const GROW_BYTES_MAX: u64 = 4 << 20;
/// The file is cut when it is longer than the store by this and by a quarter.
const CUT_BYTES: u64 = 8 << 20;

/// Commits a write transaction whose savepoints are all released. The caller has the writer's turn.
///
/// # Errors
/// Before the meta page is written, a failure leaves the store as it was. A failed flush or meta
/// page poisons it.
pub(crate) fn publish(store: &Inner, state: &mut WriteState, durability: Durability) -> Result<()> {
    // 1. Number the changed pages and bring the free space to rest. Only memory changes, and pages
    //    that are free: a crash here leaves nothing.
    let durable = durability == Durability::Durable;
    let ring = prepare(store, state, durable)?;
    let (mut image, mut meta) = number(state)?;

    // 2. Choose the way to stable storage. Make the file longer, ahead of the pages, if small
    //    commits are likely to follow.
    let mut record = state.pages.take_frame()?;
    let pieces = Pieces::new(&image, &state.pages);
    let mut way = log::way(store, state, &pieces, (durable, ring));
    // The file is long enough for every commit that was published.
    let grows = meta.end > state.end;
    let is_ahead = grows && is_one_of_many(state, &pieces, way);
    if is_ahead {
        grow_ahead(store, &meta, state.pages.space.max_size)?;
    }

    // 3. Write pages and extents, to pages that no protected snapshot uses: a crash here leaves D
    //    and L untouched. If the commit goes that way, the log is written first, and the pages
    //    while the disk works on it: once the record is there, it can be replayed from D.
    let turn = (way == Way::Log).then(|| locked(&store.meta_turn));
    let mut write = || pieces.write(&store.pages, Flush::Later);
    if way == Way::Log && !log::append(store, state, &image, &mut meta, &mut write)? {
        way = Way::Flush;
    }
    match way {
        Way::Log => {}
        Way::Flush => pieces.write(&store.pages, Flush::Next)?,
        Way::Later => pieces.write(&store.pages, Flush::Later)?,
    }
    if meta.end >= state.end {
        // Below a lowered end a damaged store may have children beyond it, which validation finds.
        image.note_written(&store.pages);
    }
    if grows && !is_ahead {
        grow(store, meta.file_len())?;
    }
    let _turn = turn.unwrap_or_else(|| locked(&store.meta_turn));
    if way != Way::Log {
        let place = ring.place(store.newest()?.meta.log);
        meta.log = log::place_of(place, way == Way::Flush, &meta);
    }

    // 4. Write the meta record. Its kind says what recovery has to make sure before it takes it.
    meta.kind = if way == Way::Flush {
        one_flush(store, state, &pieces).map_or_else(|| flushed(store), Ok)?
    } else {
        Kind::Unsynced { evidence: store.pages.file.uptime_evidence() }
    };
    let slot = store.free_slot();
    write_meta(store, &meta, slot, &mut record)?;

    // 5. One flush, unless the log has it. A crash before its end leaves a record that recovery can
    //    judge: of one flush by the digest, flushed by its own checksum.
    flush_record(store, slot, way)?;
    told(store, &meta, &pieces, way);
    // 6. Publish. From here on readers and the next writer see the commit.
    store.hints.note(state.free.ready.hint, pieces.end(), durable);
    state.end = meta.end;
    state.recent = announce(store, SnapshotMeta { meta, slot }, way == Way::Flush);
    if way == Way::Flush {
        cut(store);
    }
    state.pages.give_frames(image.take_frames().chain([record]));
    state.image = image;
    Ok(())
}

/// Whether small durable commits are likely to follow this one, which is one itself.
fn is_one_of_many(state: &WriteState, pieces: &Pieces<'_>, way: Way) -> bool {
    let is_small = pieces.len() <= ONE_FLUSH_PAGES && !state.pages.early.written;
    match way {
        Way::Log => true,
        Way::Flush => is_small,
        Way::Later => false,
    }
}

/// What has to be done before a durable commit, and whether the log is made or given up with it.
fn prepare(store: &Inner, state: &mut WriteState, durable: bool) -> Result<Ring> {
    if durable {
        store.flush_name()?;
    }
    log::change_ring(store, state, durable)
}

/// Makes a record durable that is written, if it is to be, and has it published only if no flush
/// has failed.
fn flush_record(store: &Inner, slot: u32, way: Way) -> Result<()> {
    if way == Way::Flush
        && let Err(error) = store.flush()
    {
        withdraw(store, slot);
        return Err(error);
    }
    store.expect_no_failure(slot)
}

/// Tells what a commit wrote.
fn told(store: &Inner, meta: &Meta, pieces: &Pieces<'_>, way: Way) {
    tell(&store.pages.path, || {
        let pages = pieces.len() as u64;
        let bytes = pages * u64::from(meta.page_size);
        let (commit, pages, bytes) = (Some(meta.txn), Some(pages), Some(bytes));
        Done { way: Some(way.name()), commit, pages, bytes, ..Work::TREE_COMMIT.done() }
    });
}

/// Flushes the pages of a durable commit before its record is written.
fn flushed(store: &Inner) -> Result<Kind> {
    store.flush()?;
    Ok(Kind::Flushed)
}

/// What the record says of a durable commit whose pages are flushed together with it; `None` if
/// they must be flushed before: because recovery could not judge them, or not by them alone.
fn one_flush(store: &Inner, state: &WriteState, pieces: &Pieces<'_>) -> Option<Kind> {
    let is_alone = !state.pages.early.written && store.durable_number() == store.latest_number();
    if !is_alone || pieces.len() > ONE_FLUSH_PAGES {
        return None;
    }
    let runs = pieces.runs();
    (runs.len() <= RUNS_MAX).then(|| Kind::OneFlush { digest: pieces.digest(), runs })
}

/// Gives every changed page its number; the pages, and the new commit's record but for its kind.
fn number(state: &mut WriteState) -> Result<(Image, Meta)> {
    let changed_tables = state.tables.iter().filter(|table| table.changed).count();
    let (pages, free) = (&mut state.pages, &mut state.free);
    // The catalog's path comes on top of what is changed, and what the free-space trees need where
    // they change: that is seen to when free space settles.
    let more = usize::from(state.catalog.root.level) + changed_tables / 16 + 1;
    let need = pages.changed_pages() + more;
    // The roots are written again by the next commit, few branches below one soon.
    let changed = || state.tables.iter().filter(|table| table.changed);
    let below = changed().filter(|table| is_hot_below_root(pages, &table.tree.root)).count();
    let hot = more + changed_tables + below;
    free.begin_commit(pages, need as u32, hot as u32)?;
    let mut image = std::mem::take(&mut state.image);
    image.reserve(need);
    let mut numbers = Numbers::take(pages, need);
    for table in state.tables.iter_mut().filter(|table| table.changed) {
        image.add_tree(pages, &mut table.tree, &mut numbers);
    }
    state.store_records()?;

    let (pages, free) = (&mut state.pages, &mut state.free);
    if pages.changed_pages() <= numbers.len() {
        // The catalog stands beside what it names.
        image.add_tree(pages, &mut state.catalog, &mut numbers);
    }
    numbers.give_back(pages);
    free.settle(pages)?;
    let mut numbers = Numbers::take(pages, pages.changed_pages());
    let own = [&mut free.pins.tree, &mut free.ready.tree, &mut free.pending.tree];
    for tree in [&mut state.catalog].into_iter().chain(own) {
        image.add_tree(pages, tree, &mut numbers);
    }
    numbers.give_back(pages);
    debug_assert_eq!(pages.changed_pages(), 0, "a changed page that no tree refers to");
    free.finish_commit(pages);

    let mut recent = std::mem::take(&mut state.recent);
    free.recent.copy_to(&mut recent);
    let meta = Meta {
        page_size: pages.page_size() as u32,
        id: state.kept.id,
        txn: pages.txn,
        end: pages.base.end,
        max_pages: state.kept.max_pages,
        catalog: state.catalog.root,
        ready: free.ready.tree.root,
        pending: free.pending.tree.root,
        free: FreePages {
            ready: free.ready.pages,
            pending: free.pending.pages,
            pins: free.pins.tree.root,
        },
        kind: Kind::Flushed,
        recent,
        log: None,
    };
    // Where a damaged file calls pages free that are in use, its end may have been lowered too far.
    for root in [&meta.catalog, &meta.ready, &meta.pending, &meta.free.pins] {
        if !root.page.is_none() && root.page.0 >= meta.end {
            return Err(store_end(pages, root.page));
        }
    }
    Ok((image, meta))
}

/// Whether a changed root has few enough branches below it that a small commit soon finds the
/// places of those that it writes free again.
fn is_hot_below_root(pages: &WritePages, root: &Root) -> bool {
    let is_changed = root.page.is_changed() && !root.page.is_none();
    is_changed && root.level >= 2 && pages.changed(root.page).len() <= FEW_BRANCHES
}

fn store_end(pages: &WritePages, at: PageRef) -> Error {
    pages.corrupt(at, "in use, but noted as free at the end of the store")
}

/// Makes the file long enough for a small commit, and somewhat longer: a flush into space that is
/// written already costs less.
fn grow_ahead(store: &Inner, meta: &Meta, max_size: Option<u64>) -> Result<()> {
    let len = store.file_len()?;
    if len >= meta.file_len() {
        return Ok(());
    }
    let ahead = ahead_of(len, meta).min(max_size.unwrap_or(u64::MAX));
    let ahead = ahead - ahead % u64::from(meta.page_size);
    if grow(store, ahead.max(meta.file_len())).is_ok() {
        return Ok(());
    }
    // A disk that is nearly full may still have room for what is needed.
    grow(store, meta.file_len())
}

/// The length to which a file of length `len` grows.
fn ahead_of(len: u64, meta: &Meta) -> u64 {
    let least = GROW_PAGES_MIN * u64::from(meta.page_size);
    let ahead = len + (len / 8).clamp(least, GROW_BYTES_MAX.max(least));
    ahead - ahead % u64::from(meta.page_size)
}

fn grow(store: &Inner, wanted: u64) -> Result<()> {
    let (len, pages) = (store.file_len()?, &store.pages);
    if len < wanted {
        let at = (len / pages.page_size() as u64) as PageNo;
        pages.file.set_len(wanted).map_err(|e| pages.not_written("extend", at, e))?;
    }
    Ok(())
}

/// Cuts the file where it is much longer than the store. All pages beyond the end of both D and L
/// are free in every protected snapshot, so no reader touches them.
fn cut(store: &Inner) {
    let (Ok(len), Ok(newest)) = (store.file_len(), store.newest()) else { return };
    if store.durable_number() != newest.meta.txn {
        return;
    }
    let needed = newest.meta.file_len();
    if len > needed + CUT_BYTES && len > needed + needed / 4 {
        // A file that stays long is no failure.
        let _ = shorten(store, needed);
    }
}

/// Cuts the file after the newest commit, unless a reader has an older one: where a damaged file
/// calls pages free that are in use, its pages may still be asked for. For the same reason no page
/// counts as checked any more: it was, when its children were inside of the file.
fn shorten(store: &Inner, len: u64) -> std::io::Result<()> {
    let (newest, mut is_alone) = (store.latest_number(), true);
    store.lock.for_each_pinned(|snapshot| is_alone &= snapshot == newest);
    if !is_alone {
        return Ok(());
    }
    store.pages.forget_checked();
    store.pages.file.set_len(len)
}

/// After a transaction that was given up, cuts off what the file grew by for it: where the disk is
/// full, others need the space; see [`cut`]. The caller has the writer's lock.
pub(crate) fn give_back(store: &Inner) {
    let (Ok(len), Ok(newest)) = (store.file_len(), store.newest()) else { return };
    if store.check_writable().is_err() || store.durable_number() != newest.meta.txn {
        return;
    }
    let needed = ahead_of(newest.meta.file_len(), &newest.meta);
    if len > needed {
        let _ = shorten(store, needed);
    }
}

/// Cuts the file to what the newest commit needs, if that is durable; see [`cut`]. The caller has
/// the writer's lock.
pub(crate) fn trim(store: &Inner) -> Result<()> {
    let newest = store.newest()?;
    let needed = newest.meta.file_len();
    if store.durable_number() == newest.meta.txn && store.file_len()? > needed {
        let cut = shorten(store, needed);
        cut.map_err(|e| Error::io("cut", &store.pages.path, e))?;
    }
    Ok(())
}

/// Writes a record, built in a frame, into a meta page that holds neither D's nor L's. A failure
/// poisons the store: what the page holds then is not known.
pub(crate) fn write_meta(store: &Inner, meta: &Meta, slot: u32, record: &mut Buffer) -> Result<()> {
    meta.encode_into(record.bytes_mut(), slot);
    store.lock.word(WORD_NUMBER).fetch_max(meta.txn, SeqCst);
    store.lock.word(WORD_DIRTY).store(DIRTY, SeqCst);
    let bytes = &record.bytes()[..META_LEN];
    let result = match meta.kind {
        Kind::Unsynced { .. } => locked(&store.hints.slots).put(store, bytes, slot),
        Kind::OneFlush { .. } | Kind::Flushed => write_slot(store, bytes, slot),
    };
    result.map_err(|e| {
        withdraw(store, slot);
        store.poison(e)
    })
}

/// The meta pages in memory that is shared with the system: there a record that is not flushed is
/// handed to it as by a write, but without a call.
#[derive(Default)]
pub(crate) struct SharedSlots {
    /// Asked for once; `Some(None)` where there is no such thing.
    memory: Option<Option<Box<dyn Shared>>>,
    /// Which of them this process has written. Until then they may stand in the same place of the
    /// disk as those of a copy of the file, and storing there would end the process on a full disk.
    written: [bool; META_SLOTS as usize],
}

impl SharedSlots {
    fn put(&mut self, store: &Inner, record: &[u8], slot: u32) -> Result<()> {
        let page_size = store.pages.page_size();
        let is_written = &mut self.written[slot as usize];
        if *is_written {
            let share = || store.pages.file.share(META_SLOTS as usize * page_size).ok().flatten();
            if let Some(memory) = self.memory.get_or_insert_with(share) {
                memory.store(slot as usize * page_size, record);
                return Ok(());
            }
        }
        write_slot(store, record, slot)?;
        *is_written = true;
        Ok(())
    }
}

/// Writes the bytes of a record into a meta page.
pub(crate) fn write_slot(store: &Inner, bytes: &[u8], slot: u32) -> Result<()> {
    let offset = u64::from(slot) * store.pages.page_size() as u64;
    store
        .pages
        .file
        .write_at(&[std::io::IoSlice::new(bytes)], offset)
        .map_err(|e| Error::io("write a meta page of", &store.pages.path, e))
}

/// After a failure: tries to take an unpublished record back. If it fails too, recovery judges.
pub(crate) fn withdraw(store: &Inner, slot: u32) {
    let _ = write_slot(store, &[0; META_LEN], slot);
}

/// Publishes a commit whose record is written (and flushed, if `durable`). Gives the list of free
/// runs of the one before back if no reader has it.
pub(crate) fn announce(store: &Inner, snapshot: SnapshotMeta, durable: bool) -> Vec<FreeRun> {
    let word = word_of(snapshot.meta.txn, snapshot.slot);
    let list = store.set_newest(snapshot);
    if durable {
        store.lock.word(WORD_DURABLE).store(word, SeqCst);
    }
    store.lock.word(WORD_DIRTY).store(CLEAN, SeqCst);
    list
}

impl Inner {
    /// As [`Inner::clean`], for a caller that has only the writer's lock. A record that another
    /// thread of this process is flushing, to publish it then ([`Inner::sync`]), was not left by a
    /// writer that died: that thread has the turn of the meta pages until it has published.
    pub(crate) fn clean_in_turn(&self) -> Result<()> {
        if self.lock.word(WORD_DIRTY).load(SeqCst) != DIRTY {
            return Ok(());
        }
        let _turn = locked(&self.meta_turn);
        self.clean()
    }

    /// Removes meta records that were never published. The caller has the writer's lock and the
    /// turn of the meta pages.
    pub(crate) fn clean(&self) -> Result<()> {
        if self.lock.word(WORD_DIRTY).load(SeqCst) != DIRTY {
            return Ok(());
        }
        // What the record of one flush refers to may be in the system's memory only, and so may the
        // record after which the log is cut.
        self.flush()?;
        log::cut_tail(self)?;
        let durable = self.durable_number();
        let found = read_metas(&*self.pages.file, &self.pages.path)?;
        let mut removed = false;
        for (slot, meta) in (0..META_SLOTS).zip(&found.metas) {
            let counts = self.is_slot_in_use(slot);
            if !counts && meta.as_ref().is_some_and(|meta| meta.txn >= durable) {
                write_slot(self, &[0; META_LEN], slot).map_err(|e| self.poison(e))?;
                removed = true;
            }
        }
        if removed {
            self.flush()?;
        }
        self.lock.word(WORD_NUMBER).fetch_max(found.highest, SeqCst);
        self.lock.word(WORD_DIRTY).store(CLEAN, SeqCst);
        Ok(())
    }
}
