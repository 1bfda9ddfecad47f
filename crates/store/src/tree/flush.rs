//! Making commits durable after the fact: `sync`, and the background thread that calls it soon
//! after an eventual commit.

use std::io::{ErrorKind, IoSlice};
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::catalog::Opened;
use super::commit::{announce, withdraw, write_meta, write_slot};
use super::group::{EndTurn, Wait};
use super::log;
use super::meta::{Kind, Meta, SnapshotMeta};
use super::page_ref::Run;
use super::recover::{META_SLOTS, is_copy, is_spare};
use super::store::Inner;
use super::words::{CLEAN, NEW, WORD_DIRTY, WORD_DURABLE, slot_of, word_of};
use crate::canary::{Bug, is_planted};
use crate::observe::{Done, Work, tell, within};
use crate::os::is_one_too_many;
use crate::sync::{Condvar, Mutex, locked};
use crate::{Error, Result};

/// How long after an eventual commit the flush begins: commits until then share it.
const DELAY: Duration = Duration::from_millis(20);
/// How long no commit goes to the log before what is in it is flushed.
const REST: Duration = Duration::from_secs(1);

impl Inner {
    /// Makes all commits so far durable. Writers go on while the bulk is flushed.
    ///
    /// 1. The newest commit N is pinned, so that its pages stay, and everything is flushed.
    /// 2. With the writer's lock, N's record is written once more, as a flushed one, into the meta
    ///    page that holds neither the durable record nor the newest one, and flushed: a short
    ///    flush, since nearly everything is on the disk already. The lock is kept during the flush,
    ///    because all three meta pages are then in use.
    ///
    /// A crash in between leaves the older durable record, and the newest one under its evidence.
    pub(crate) fn sync(&self) -> Result<()> {
        self.checkpoint(false, Wait::Ever)
    }

    /// The same, when the store is about to be closed or not: then the log is shut. If no time is
    /// left to wait for another writer, the commits do not become durable.
    pub(crate) fn checkpoint(&self, closing: bool, wait: Wait) -> Result<()> {
        self.check_process()?;
        // A store that was opened and not written to since may hold writes that were never flushed.
        let is_clean = self.lock.word(WORD_DIRTY).load(SeqCst) == CLEAN;
        if (is_clean || self.options.read_only) && self.durable_number() >= self.latest_number() {
            return Ok(());
        }
        let flush = || self.flush_newest(closing, wait);
        within(Work::TREE_CHECKPOINT, &self.pages.path, flush)
    }

    /// What [`Inner::checkpoint`] does if there is something to be flushed.
    fn flush_newest(&self, closing: bool, wait: Wait) -> Result<()> {
        self.check_writable()?;
        self.flush_name()?;
        let (newest, slot, opened) = self.pin()?;
        let own = (slot, newest.meta.txn);
        locked(&self.flusher.pins).push((own, opened));
        let flush = || self.pages.file.sync_beside();
        let flush = || if is_planted(Bug::LogFreedEarly) { Ok(()) } else { self.flush_by(flush) };
        let flushed = flush().inspect_err(|_| self.retract_beside_writers());
        let result = flushed.and_then(|()| self.make_durable(&newest, closing, wait));
        self.unpin_flushed(own);
        result
    }

    /// Lets the commit go that a flush has pinned, and those of other flushes that are durable by
    /// now: an older one may still be running, but the pages need not stay for it.
    fn unpin_flushed(&self, own: (u32, u64)) {
        let durable = self.durable_number();
        let is_done = |pin: &(u32, u64)| *pin == own || pin.1 <= durable;
        let mut pins = locked(&self.flusher.pins);
        for ((slot, commit), opened) in pins.extract_if(.., |(pin, _)| is_done(pin)) {
            self.unpin(slot, commit, opened);
        }
    }

    /// Step 2. If a transaction of this process is open, it holds the writer's lock for us: it
    /// publishes nothing while `meta_turn` is held. So a thread may sync with a transaction open.
    fn make_durable(&self, flushed: &SnapshotMeta, closing: bool, wait: Wait) -> Result<()> {
        let held = locked(&self.meta_turn);
        if *held {
            return self.note_durable(flushed, closing);
        }
        drop(held);
        if !self.enter_alone(wait)? {
            return Ok(());
        }
        let mut end = EndTurn::new(self, false);
        if !end.lock(wait)? {
            return Ok(());
        }
        let _held = locked(&self.meta_turn);
        self.note_durable(flushed, closing)
    }

    /// Writes the record of a flushed commit anew. The caller has the writer's lock and the turn of
    /// the meta pages.
    fn note_durable(&self, flushed: &SnapshotMeta, closing: bool) -> Result<()> {
        self.check_writable()?;
        self.clean()?;
        if self.durable_number() >= flushed.meta.txn {
            // No other process writes it now.
            self.lock.word(WORD_DIRTY).store(CLEAN, SeqCst);
            return Ok(());
        }
        let mut meta = flushed.meta.clone();
        meta.kind = Kind::Flushed;
        let is_newest = self.latest_number() == meta.txn;
        meta.log = log::place_at_checkpoint(&meta, closing && is_newest);
        let slot = self.free_slot();
        write_meta(self, &meta, slot, &mut self.pages.new_buffer()?)?;
        if let Err(error) = self.flush() {
            withdraw(self, slot);
            return Err(error);
        }
        self.expect_no_failure(slot)?;
        let commit = Some(meta.txn);
        tell(&self.pages.path, || Done { commit, ..Work::TREE_CHECKPOINT.done() });
        if is_newest {
            announce(self, SnapshotMeta { meta, slot }, true);
        } else {
            self.lock.word(WORD_DURABLE).store(word_of(meta.txn, slot), SeqCst);
            self.lock.word(WORD_DIRTY).store(CLEAN, SeqCst);
        }
        Ok(())
    }

    /// When the store is closed: notes that the pages of the newest commit are on the disk, and
    /// that no record of the log follows it, so that the next opening need not read them. The
    /// newest commit then has two records, so that damage to one of them does not bring an older
    /// commit back.
    ///
    /// The copy of the record needs no flush: the original stays the durable one, so that it is
    /// there if the copy does not reach the disk. A copy that shuts the log is published, because
    /// others may have the store open: what they commit must not follow the original in a log that
    /// the copy calls shut.
    pub(crate) fn note_clean_close(&self) -> Result<()> {
        let newest = self.newest()?;
        // Of a new store nothing is on the disk before the first flush.
        let is_new = self.lock.word(WORD_DIRTY).load(SeqCst) == NEW;
        if is_new || newest.meta.txn != self.durable_number() || self.has_copy(&newest) {
            return Ok(());
        }
        if !self.queue.try_enter() {
            return Ok(());
        }
        let mut end = EndTurn::new(self, false);
        if !end.lock(Wait::No)? || self.latest_number() != newest.meta.txn {
            return Ok(());
        }
        let _held = locked(&self.meta_turn);
        self.clean()?;
        let (meta, slot) = (closing_copy(&newest.meta), self.free_slot());
        write_meta(self, &meta, slot, &mut self.pages.new_buffer()?)?;
        self.expect_no_failure(slot)?;
        match meta.kind == Kind::SPARE {
            // Who opens the store takes the original, unless that is damaged.
            true => self.lock.word(WORD_DIRTY).store(CLEAN, SeqCst),
            false => drop(announce(self, SnapshotMeta { meta, slot }, false)),
        }
        Ok(())
    }

    /// Whether there is a copy of the newest record already, from this closing of the store or an
    /// earlier one.
    fn has_copy(&self, newest: &SnapshotMeta) -> bool {
        let is_copied = |meta: Meta| is_copy(&newest.meta, &meta) || is_spare(&meta, &newest.meta);
        (0..META_SLOTS)
            .filter(|slot| *slot != newest.slot)
            .any(|slot| self.read_meta(slot).is_ok_and(is_copied))
    }

    /// Lets the background thread flush soon.
    pub(crate) fn flush_soon(self: &Arc<Self>) {
        if self.flushes_in_background() {
            self.flusher.wake(self, false);
        }
    }

    /// Called after a commit that went to the log: ensures that a checkpoint follows, soon if the
    /// log is half full, otherwise when no other commit comes for a while.
    pub(crate) fn checkpoint_when_due(self: &Arc<Self>) {
        let Ok(newest) = self.newest() else { return };
        let logged = newest.meta.log.filter(|place| place.chained);
        let Some(place) = logged.filter(|_| self.durable_number() < newest.meta.txn) else {
            return;
        };
        if self.flushes_in_background() {
            self.flusher.note_logged(self, log::is_half_full(self, &place));
        }
    }

    /// Whether the newest commit is durable because the log has it.
    pub(crate) fn is_newest_in_log(&self) -> Result<bool> {
        let newest = self.newest()?;
        let is_logged = newest.meta.log.is_some_and(|place| place.chained);
        Ok(is_logged && self.durable_number() < newest.meta.txn)
    }

    fn flushes_in_background(&self) -> bool {
        let system = self.options.system.as_ref();
        system.is_none_or(|handle| handle.0.flushes_in_background())
    }

    /// Flushes the data file, and its name if that was not done before. The caller has the writer's
    /// lock.
    pub(crate) fn flush(&self) -> Result<()> {
        self.flush_name()?;
        self.flush_by(|| self.pages.file.sync()).inspect_err(|_| self.retract(true))
    }

    /// Before a record that was written to a meta page is published: if a flush of another process
    /// has failed since this one began to write it, takes it back, because that process may have
    /// removed it, and knew nothing of the commits that it follows. The caller has the writer's
    /// lock.
    pub(crate) fn expect_no_failure(&self, slot: u32) -> Result<()> {
        self.check_writable().inspect_err(|_| {
            withdraw(self, slot);
            self.retract(true);
        })
    }

    /// As [`Inner::retract`], for a caller that may not have the writer's lock. It is taken if that
    /// needs no waiting: where another process has it, that one is about to notice the failure.
    fn retract_beside_writers(&self) {
        // A transaction of this process publishes nothing meanwhile.
        let turn = locked(&self.meta_turn);
        if *turn {
            return self.retract(true);
        }
        drop(turn);
        let mut end = self.queue.try_enter().then(|| EndTurn::new(self, false));
        let has_lock = end.as_mut().is_some_and(|end| matches!(end.lock(Wait::No), Ok(true)));
        let _turn = locked(&self.meta_turn);
        self.retract(has_lock);
    }

    /// After a failed flush the system may have dropped what it was to write, still show it, and
    /// never write it. Processes that have the store open go on reading; the next opener must not
    /// build on it.
    ///
    /// - What was durable when the store was opened may have been written by a process that died
    ///   before its flush, so this one may have been the first. It is written once more, so that
    ///   the next flush, which comes before anything is built on it, knows of it.
    /// - Commits that are not durable have written too much for that: the newest record loses its
    ///   evidence, and one that it has superseded is removed. A record that is newer is one that
    ///   another process is writing, unless the caller has the writer's lock: it stays, and that
    ///   process takes it back ([`Inner::expect_no_failure`]).
    ///
    /// If these writes fail too, there is nothing left to try.
    pub(crate) fn retract(&self, has_lock: bool) {
        let _ = self.write_durable_again();
        let Ok(newest) = self.newest() else { return };
        if self.durable_number() >= newest.meta.txn {
            return;
        }
        let meta = Meta { kind: Kind::Unsynced { evidence: None }, ..newest.meta.clone() };
        let _ = write_slot(self, &meta.encode(newest.slot), newest.slot);
        let free = self.free_slot();
        let is_newer = |meta: Meta| meta.txn > newest.meta.txn;
        if has_lock || !self.read_meta(free).is_ok_and(is_newer) {
            withdraw(self, free);
        }
    }

    /// Writes the record of the durable commit again, and of its pages those that were not flushed
    /// before the record was written. The bytes stay the same, so a torn write does no harm.
    fn write_durable_again(&self) -> Result<()> {
        let slot = slot_of(self.lock.word(WORD_DURABLE).load(SeqCst));
        let meta = self.read_meta(slot)?;
        if let Kind::OneFlush { runs, .. } = &meta.kind {
            runs.iter().try_for_each(|run| self.write_again(*run))?;
        }
        write_slot(self, &meta.encode(slot), slot)
    }

    fn write_again(&self, run: Run) -> Result<()> {
        let file = &self.pages.file;
        let mut page = vec![0; self.pages.page_size()];
        for no in run.start..run.start + run.len {
            let offset = u64::from(no) * page.len() as u64;
            let read = file.read_at(&mut page, offset);
            let written = read.and_then(|()| file.write_at(&[IoSlice::new(&page)], offset));
            written.map_err(|e| Error::io("write again", &self.pages.path, e))?;
        }
        Ok(())
    }

    /// Flushes the data file. A failure poisons the store: what the system still holds, and what of
    /// it is on the disk, is not known then.
    fn flush_by(&self, flush: impl FnOnce() -> std::io::Result<()>) -> Result<()> {
        if is_planted(Bug::SkippedFlush) {
            return Ok(());
        }
        flush().map_err(|e| self.poison(Error::io("flush", &self.pages.path, e)))
    }

    /// Flushes the name of the data file, the first time that something is to be made durable: the
    /// process that made the file may have died before it did so, and a commit that is durable in a
    /// file without a name is lost. A failed flush poisons the store.
    pub(crate) fn flush_name(&self) -> Result<()> {
        let mut unflushed = locked(&self.flusher.unflushed_name);
        let Some(path) = &*unflushed else { return Ok(()) };
        match self.options.system_in_use().sync_directory(path) {
            Ok(()) => *unflushed = None,
            // Programs remove the folder of a store that they alone are to see, or move it: it has
            // no name of ours any more that could be lost.
            Err(e) if e.kind() == ErrorKind::NotFound => *unflushed = None,
            // Who may not read the folder has not made the file in it.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => *unflushed = None,
            Err(e) if is_one_too_many(&e) => return Err(Error::io("open the folder of", path, e)),
            Err(e) => return Err(self.poison(Error::io("flush the folder of", path, e))),
        }
        Ok(())
    }
}

/// The copy of a durable record that is written when the store is closed: a flushed one that shuts
/// the log; of a record that is such a one itself, a spare.
fn closing_copy(meta: &Meta) -> Meta {
    let log = log::place_at_checkpoint(meta, true);
    let kind = match meta.kind {
        Kind::Flushed if log == meta.log => Kind::SPARE,
        _ => Kind::Flushed,
    };
    Meta { kind, log, ..meta.clone() }
}

/// The background thread. It is started by the first eventual commit and ends with the last handle
/// of the store: transactions that are left have what they commit flushed when the store is closed.
#[derive(Default)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    running: Mutex<Running>,
    /// The slots and commits that flushes of this process have pinned.
    pins: Mutex<Vec<((u32, u64), Opened)>>,
    /// The data file's path from the root, which also leads to it when the program has changed its
    /// folder; none once it is known to be on stable storage.
    pub(crate) unflushed_name: Mutex<Option<PathBuf>>,
}

#[derive(Default)]
struct Running {
    /// The handles of the store that there are.
    handles: usize,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    wishes: Mutex<Wishes>,
    changed: Condvar,
}

#[derive(Default)]
struct Wishes {
    flush: bool,
    /// No further commits are waited for.
    at_once: bool,
    /// Commits that went to the log since the last flush.
    logged: u64,
    stop: bool,
}

impl Flusher {
    /// Asks for a flush, soon or at once.
    fn wake(&self, store: &Arc<Inner>, at_once: bool) {
        let mut wishes = locked(&self.shared.wishes);
        wishes.at_once |= at_once;
        let is_new = !std::mem::replace(&mut wishes.flush, true);
        drop(wishes);
        if is_new {
            self.shared.changed.notify_one();
        }
        self.start(store);
    }

    /// Notes a commit that went to the log.
    fn note_logged(&self, store: &Arc<Inner>, at_once: bool) {
        if at_once {
            return self.wake(store, true);
        }
        let mut wishes = locked(&self.shared.wishes);
        wishes.logged += 1;
        if wishes.logged == 1 {
            drop(wishes);
            self.shared.changed.notify_one();
            self.start(store);
        }
    }

    /// Starts the thread, if there is none and the store has a handle.
    fn start(&self, store: &Arc<Inner>) {
        let mut running = locked(&self.running);
        if running.thread.is_none() && running.handles > 0 {
            let (shared, store) = (Arc::clone(&self.shared), Arc::downgrade(store));
            let name = "hedgerow flusher".to_string();
            // Without the thread the commits become durable by `sync`, the next durable commit, or
            // when the store is closed; the next eventual commit tries again.
            let thread = std::thread::Builder::new().name(name).spawn(move || shared.run(&store));
            running.thread = thread.ok();
        }
    }

    /// Whether the thread is waited for.
    pub(crate) fn is_stopping(&self) -> bool {
        locked(&self.shared.wishes).stop
    }

    /// Counts a new handle of the store.
    pub(crate) fn add_handle(&self) {
        locked(&self.running).handles += 1;
    }

    /// Counts a handle that is dropped. With the last one the thread ends, and is waited for; true
    /// if there was one.
    pub(crate) fn remove_handle(&self) -> bool {
        let mut running = locked(&self.running);
        running.handles -= 1;
        let last = if running.handles == 0 { running.thread.take() } else { None };
        let Some(thread) = last else { return false };
        locked(&self.shared.wishes).stop = true;
        self.shared.changed.notify_one();
        // It returns nothing, and a panic in it was reported when it happened.
        let _ = thread.join();
        *locked(&self.shared.wishes) = Wishes::default();
        true
    }
}

impl Shared {
    fn run(&self, store: &Weak<Inner>) {
        while self.next_flush() {
            let Some(store) = store.upgrade() else { return };
            // Any other failure has poisoned the store; the next writer gets the error.
            if let Err(Error::Interrupted) = store.checkpoint(false, Wait::WhileOpen) {
                locked(&self.wishes).flush = true;
            }
        }
    }

    /// Waits until a flush is due; false if the thread shall end.
    fn next_flush(&self) -> bool {
        let mut wishes = locked(&self.wishes);
        while !wishes.flush && !wishes.stop {
            let logged = wishes.logged;
            if logged == 0 {
                wishes = self.changed.wait(wishes).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let goes_on = |wishes: &mut Wishes| !wishes.flush && !wishes.stop;
            let waited = self.changed.wait_timeout_while(wishes, REST, goes_on);
            wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
            // There was no commit for that long.
            wishes.flush |= wishes.logged == logged;
            wishes.at_once |= wishes.logged == logged;
        }
        let goes_on = |wishes: &mut Wishes| !wishes.stop && !wishes.at_once;
        let waited = self.changed.wait_timeout_while(wishes, DELAY, goes_on);
        let mut wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
        (wishes.flush, wishes.at_once, wishes.logged) = (false, false, 0);
        !wishes.stop
    }
}
