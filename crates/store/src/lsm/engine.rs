//! The inside of a store: what its threads share, how the next version is made, and the background
//! work (flushing buffers, compacting, collecting values).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use super::background::Background;
use super::buffer::Buffer;
use super::commit::Queue;
use super::commit::rotate::Logs;
use super::files::{Directory, Name, random};
use super::levels::compact::{self, Plan, Sizes};
use super::levels::debt;
use super::levels::manifest::{Extent, Manifest};
use super::levels::pace::{Standing, Unmerged};
use super::levels::run::{self, Output, Rules};
use super::levels::version::{Edit, Segment, TableFile, Version};
use super::log::wal::{Closed, Identity, Log};
use super::names::Catalog;
use super::options::Options;
use super::read::view::{Current, Frozen};
use super::values::moving::Moves;
use super::values::needed::Needed;
use super::values::{arrange, gc};
use crate::Durability;
use crate::canary::{Bug, is_planted};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};

/// Work on tables and segments.
enum Due {
    /// Forgetting tables of which nothing is needed.
    Forget(Vec<u32>),
    Merge(Plan),
    /// To collect values of segments.
    Collect(Vec<u32>),
}

impl Due {
    /// How much garbage it removes; `None` if removing garbage is not its purpose.
    fn removed_bytes(&self, version: &Version) -> Option<u64> {
        match self {
            Self::Forget(_) => None,
            // It is known then, and not yet removed.
            Self::Merge(plan) => {
                let mut tables = version.tables().map(|(_, table)| table);
                let hides = |table: &TableFile| {
                    plan.upper.contains(&table.meta.number) && table.hidden() > 0
                };
                tables.any(|table| hides(table)).then_some(0)
            }
            Self::Collect(victims) => {
                let chosen = version.segments().filter(|s| victims.contains(&s.identity.number));
                let garbage = |segment: &Segment| {
                    segment.bytes().saturating_sub(version.live(segment.identity.number))
                };
                Some(chosen.map(garbage).sum())
            }
        }
    }
}

/// Frozen buffers wait for their tables; with more of them, writers wait.
pub(crate) const FROZEN_MAX: usize = 2;

/// What a commit writes to.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) next_seq: u64,
    /// The buffer that readers see as the newest.
    pub(crate) active: Arc<Buffer>,
    /// Whether a segment is made before this one is full.
    pub(crate) has_asked: bool,
    /// About how many bytes were added since it was last looked whether there is room.
    pub(crate) unlooked: u64,
}

/// Numbers that only go up, and the snapshots that are held.
pub(crate) struct Clock {
    /// Readers see everything up to this sequence number.
    pub(crate) visible: AtomicU64,
    pub(crate) next_file: AtomicU32,
    snapshots: Mutex<BTreeMap<u64, usize>>,
    /// How many wait for `visible` to rise, and where they wait.
    waiting: AtomicU32,
    turn: Mutex<()>,
    risen: Condvar,
}

/// A thread that waits for another commit spins this often before it sleeps: the other one needs a
/// few microseconds for a short write, or to put its entries in.
const SPINS: usize = 200;

impl Clock {
    pub(crate) fn new(visible: u64, next_file: u32) -> Self {
        let (visible, next_file) = (AtomicU64::new(visible), AtomicU32::new(next_file));
        let (waiting, turn) = (AtomicU32::new(0), Mutex::default());
        let (snapshots, risen) = (Mutex::default(), Condvar::default());
        Self { visible, next_file, snapshots, waiting, turn, risen }
    }

    /// Waits until readers see everything up to a sequence number.
    pub(crate) fn wait_for(&self, seq: u64) {
        self.wait_until(seq, None);
    }

    /// The same, but no longer than to a moment; whether readers see it.
    pub(crate) fn wait_until(&self, seq: u64, end: Option<Instant>) -> bool {
        let is_seen = || self.visible.load(Ordering::SeqCst) >= seq;
        for _ in 0..SPINS {
            if self.visible.load(Ordering::Acquire) >= seq {
                return true;
            }
            std::hint::spin_loop();
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_seen() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            turn = match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.risen.wait_timeout(turn, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.risen.wait(turn).unwrap_or_else(PoisonError::into_inner),
            };
        }
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        is_seen()
    }

    /// Lets readers see the operations from `first` on and before `end`, once they see all before.
    pub(crate) fn publish(&self, first: u64, end: u64) {
        self.wait_for(first - 1);
        self.visible.store(end - 1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // A thread that is about to wait either has the lock, or sees the new number.
            drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
            self.risen.notify_all();
        }
    }

    /// Pins what is visible now; returns its sequence number.
    pub(crate) fn pin(&self) -> u64 {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = self.visible.load(Ordering::Acquire);
        *snapshots.entry(seq).or_default() += 1;
        seq
    }

    /// Pins what a snapshot or a name keeps already.
    pub(crate) fn pin_at(&self, seq: u64) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        *snapshots.entry(seq).or_default() += 1;
    }

    pub(crate) fn unpin(&self, seq: u64) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = snapshots.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&seq);
            }
        }
    }

    /// All readers that a merge must serve, in ascending order: held snapshots, and new readers.
    fn readers(&self) -> Vec<u64> {
        let snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut readers: Vec<u64> = snapshots.keys().copied().collect();
        readers.push(self.visible.load(Ordering::Acquire));
        readers.dedup();
        readers
    }

    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// Whether something failed after which the content of the disk is unknown.
#[derive(Default)]
pub(crate) struct Health {
    is_poisoned: AtomicBool,
    poison: Mutex<Option<String>>,
    /// Whether an edit of the manifest failed, so that it may be there or not.
    edit_is_unsure: AtomicBool,
}

impl Health {
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        Err(Error::Poisoned { reason: reason.clone().unwrap_or_default() })
    }

    /// Refuses everything that writes, from now on.
    pub(crate) fn poison(&self, error: &Error) {
        let mut reason = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        reason.get_or_insert_with(|| error.to_string());
        self.is_poisoned.store(true, Ordering::Release);
    }
}

/// The kinds of work: at most one thread does each of them.
#[derive(Default)]
pub(crate) struct Turns {
    flushing: Mutex<()>,
    /// Held by the thread that gives names to commits, or takes them.
    pub(crate) pinning: Mutex<()>,
    /// Set if the last round of collecting gained nothing, so that the next one waits for a change:
    /// the last sequence number in tables at that time.
    merging: Mutex<Option<u64>>,
}

/// The bytes of those of these segments that are there and not written to any more.
fn segment_bytes(version: &Version, numbers: &[u32]) -> u64 {
    let chosen = version.segments().filter(|s| numbers.contains(&s.identity.number));
    chosen.map(Segment::bytes).sum()
}

/// What the handles of a store share.
pub(crate) struct Inner {
    pub(crate) directory: Arc<Directory>,
    pub(crate) options: Options,
    pub(crate) queue: Queue,
    pub(crate) logs: Logs,
    pub(crate) current: RwLock<Arc<Current>>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    pub(crate) background: Background,
    pub(crate) turns: Turns,
    pub(crate) catalog: Catalog,
    /// Keeps others out; dropped after everything else.
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl Inner {
    /// What a reader that begins now reads.
    pub(crate) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at what readers read now.
    fn with_current<R>(&self, f: impl FnOnce(&Current) -> R) -> R {
        f(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The writer. This thread spins for a while before it sleeps: the holder needs it for the time
    /// of a short write, which is less than it takes to sleep and be woken.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        for _ in 0..SPINS {
            match self.logs.writer.try_lock() {
                Ok(writer) => return writer,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.logs.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn new_number(&self) -> u32 {
        self.clock.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes edits to the manifest and lets readers see what they lead to, together with what
    /// `change` does.
    pub(crate) fn install(
        &self,
        mut edits: Vec<Edit>,
        change: impl FnOnce(&mut Current),
    ) -> Result<()> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        self.health.check()?;
        edits.push(Edit::NextFile { number: self.clock.next_file.load(Ordering::Relaxed) });
        let before = Arc::clone(&self.current().version);
        let next = before.apply(&edits).map_err(|misfit| {
            Error::argument(format!("an edit does not fit the store: {misfit}"))
        })?;
        self.write_edits(&mut manifest, &edits, &next)?;
        before.mark_obsolete(&next);
        self.note(&next);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Current { version: Arc::new(next), ..Current::clone(&current) };
        change(&mut changed);
        *current = Arc::new(changed);
        // No thread waits while `before` is dropped, perhaps with its files.
        drop((current, manifest));
        Ok(())
    }

    /// Lets writers know how the version stands.
    pub(crate) fn note(&self, version: &Version) {
        let segment_bytes = self.options.segment_bytes;
        self.background.update(|before| Standing::new(version, segment_bytes, before));
    }

    /// Writes edits that lead to `next`. If they cannot be added to the manifest, or could not be
    /// the last time, a new manifest takes its place.
    ///
    /// That is safe: the edits of a failed write may be there or not, and all files of the store
    /// with them and without them are there until a manifest is written whole.
    fn write_edits(&self, manifest: &mut Manifest, edits: &[Edit], next: &Version) -> Result<()> {
        let unsure = &self.health.edit_is_unsure;
        let may_add = !unsure.load(Ordering::Acquire) && manifest.takes(next);
        let is_added = may_add && manifest.append(edits).is_ok();
        if is_added && !manifest.is_long() {
            return Ok(());
        }
        let renewed = Manifest::create(next, random()).map(|new| *manifest = new);
        unsure.store(renewed.is_err(), Ordering::Release);
        // An edit that was added counts, whichever of the two manifests is there.
        if is_added { Ok(()) } else { renewed }
    }

    /// Before something is written: goes on in a new segment and a new buffer if need be. That is
    /// looked at now and then.
    pub(crate) fn make_room(&self, writer: &mut Writer) -> Result<()> {
        if self.health.edit_is_unsure.load(Ordering::Acquire) {
            self.install(Vec::new(), |_| {})?;
        }
        if writer.unlooked < self.options.look_bytes() {
            return Ok(());
        }
        self.look_for_room(writer)?;
        writer.unlooked = 0;
        Ok(())
    }

    fn look_for_room(&self, writer: &mut Writer) -> Result<()> {
        // Borrowed, not held: dropping the last reference to a version removes files.
        let (begun, flushed) = self.with_current(|current| {
            let flushed = current.version.flushed;
            (current.frozen.first().map_or(flushed, |frozen| frozen.last_seq), flushed)
        });
        let last = writer.next_seq - 1;
        let unmerged = Unmerged {
            operations: last.saturating_sub(flushed),
            bytes: writer.log.end() + self.logs.unsealed_bytes(),
        };
        let standing = self.background.standing();
        self.background.set_behind(standing.behind(unmerged));
        let is_full = writer.active.is_full(self.options.memtable_bytes)
            || standing.may_hide_much(last.saturating_sub(begun));
        if is_full && self.background.is_on() {
            let waiting = || self.with_current(|current| current.frozen.len());
            self.background.wait_for_room(|| waiting() < FROZEN_MAX)?;
        }
        if is_full || writer.log.end() >= self.options.segment_bytes {
            self.rotate(writer)?;
        } else if !writer.has_asked && self.is_half_full(writer) {
            writer.has_asked = true;
            self.background.wake_log();
        }
        if is_full {
            self.freeze(writer);
            self.work()?;
        }
        Ok(())
    }

    fn is_half_full(&self, writer: &Writer) -> bool {
        writer.log.end() >= self.options.segment_bytes / 2
            || writer.active.is_full(self.options.memtable_bytes / 2)
    }

    /// Lets the buffer wait for its table.
    fn freeze(&self, writer: &mut Writer) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Current::clone(&current);
        let buffer = std::mem::replace(&mut changed.active, Arc::new(Buffer::new()));
        writer.active = Arc::clone(&changed.active);
        changed.frozen.insert(0, Frozen { buffer, last_seq: writer.next_seq - 1 });
        *current = Arc::new(changed);
    }

    /// Has the work done that is due: by threads in the background, or here and now.
    pub(crate) fn work(&self) -> Result<()> {
        if self.background.is_on() {
            self.background.wake();
            return Ok(());
        }
        self.flush_frozen()?;
        while self.merge_once()? {}
        Ok(())
    }

    /// Writes all frozen buffers to tables, the oldest first.
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        let _turn = self.turns.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let current = self.current();
            let Some(oldest) = current.frozen.last() else { return Ok(()) };
            // All that is to be in it is; and its table may point to where its values stand.
            self.clock.wait_for(oldest.last_seq);
            self.seal_ended()?;
            let output = Output {
                version: &current.version,
                rules: Rules { snapshots: self.clock.readers(), is_last: false },
                table_bytes: u64::MAX,
                number: &|| self.new_number(),
                may_share: false,
            };
            let mut source = oldest.buffer.walk();
            let tables = run::write_tables(&output, &mut source, &oldest.buffer.pieces())?;
            let added = tables.into_iter().map(|meta| Edit::AddTable { level: 0, meta });
            let edits = added.chain([Edit::Flushed { seq: oldest.last_seq }]).collect();
            self.install(edits, |current| {
                current.frozen.pop();
            })?;
            // Writers learn now how much they hid, not only when a merge is done.
            let version = Arc::clone(&self.current().version);
            debt::estimate(&version);
            self.note(&version);
            if let Some(first) = version.log().map(|segment| segment.identity.number).min() {
                self.logs.warm.let_go(&self.directory.blocks, first);
            }
            self.background.made_room();
        }
    }

    /// Does one piece of due work; returns whether there was any.
    pub(crate) fn merge_once(&self) -> Result<bool> {
        let mut idle = self.turns.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let is_futile = *idle == Some(self.current().version.flushed);
        let Some(due) = self.due(is_futile)? else { return Ok(false) };
        let (begun, version) = (Instant::now(), Arc::clone(&self.current().version));
        let removed = due.removed_bytes(&version);
        // What follows may make that worth while again.
        *idle = None;
        match due {
            Due::Forget(tables) => {
                let removed = tables.into_iter().map(|number| Edit::RemoveTable { number });
                self.install(removed.collect(), |_| {})?;
            }
            Due::Merge(plan) => self.run_plan(&version, &plan, Moves::NONE, false)?,
            Due::Collect(victims) => {
                let flushed = version.flushed;
                *idle = (!self.collect(version, victims)?).then_some(flushed);
            }
        }
        if let Some(bytes) = removed {
            self.background.removed(bytes, begun.elapsed());
        }
        Ok(true)
    }

    /// What should be done next; while writers wait for space, that is more. Nothing is collected
    /// where that `is_futile`: what surrounds values, and where they were, takes space, too.
    fn due(&self, is_futile: bool) -> Result<Option<Due>> {
        let version = Arc::clone(&self.current().version);
        let hidden = run::hidden(&version, &self.clock.readers())?;
        if !hidden.is_empty() {
            return Ok(Some(Due::Forget(hidden)));
        }
        debt::estimate(&version);
        self.note(&version);
        let sizes = Sizes::new(self.options.table_bytes, self.options.segment_bytes);
        let bounds = gc::Bounds::steady(&version, self.options.segment_bytes);
        let next = |sizes: &Sizes, bounds: &gc::Bounds| {
            let merge = compact::choose(&version, sizes).map(Due::Merge);
            let victims = || Some(gc::choose(&version, bounds)).filter(|list| !list.is_empty());
            merge.or_else(|| if is_futile { None } else { victims().map(Due::Collect) })
        };
        Ok(match next(&sizes, &bounds) {
            None if self.background.take_pressure() => next(&sizes.pressed(), &bounds.pressed()),
            due => due,
        })
    }

    /// Does what a plan says, by two threads if it `may_share` the work.
    fn run_plan(
        &self,
        version: &Version,
        plan: &Plan,
        moves: Moves<'_>,
        may_share: bool,
    ) -> Result<()> {
        let output = Output {
            version,
            rules: Rules {
                snapshots: self.clock.readers(),
                is_last: plan.is_last || is_planted(Bug::TombstoneDropped),
            },
            table_bytes: self.options.table_bytes,
            number: &|| self.new_number(),
            may_share,
        };
        self.install(run::compact(&output, plan, moves)?, |_| {})
    }

    /// Collects segments, step by step, in one round; returns whether what was written in their
    /// place is shorter.
    fn collect(&self, version: Arc<Version>, mut victims: Vec<u32>) -> Result<bool> {
        let needed = Needed::find(&version, &victims)?;
        // A held version holds its files: each is let go before the next one is made.
        drop(version);
        let (mut before, mut after) = (0, 0);
        while !victims.is_empty() && !self.background.is_stopped() {
            let version = Arc::clone(&self.current().version);
            let step = gc::next_step(&version, &mut victims, self.options.segment_bytes);
            let identity = Identity { number: self.new_number(), salt: random(), first_seq: 0 };
            before += segment_bytes(&version, &step);
            self.install(gc::collect(&version, &needed, &step, identity)?, |_| {})?;
            after += segment_bytes(&self.current().version, &[identity.number]);
        }
        Ok(after < before)
    }

    /// Writes everything in memory to tables.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        if !self.current().active.is_empty() {
            self.rotate(&mut writer)?;
            self.freeze(&mut writer);
        }
        drop(writer);
        self.flush_frozen()
    }

    /// Merges everything into one level, and collects values until little else is left.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        let mut idle = self.turns.merging.lock().unwrap_or_else(PoisonError::into_inner);
        *idle = None;
        let begun = self.clock.next_file.load(Ordering::Relaxed);
        loop {
            let version = Arc::clone(&self.current().version);
            // What was written since then holds what must be remembered only.
            let may_forget = |meta: &super::table::TableMeta| {
                meta.number < begun && meta.tombstones + meta.ranges + meta.shadowed > 0
            };
            let Some(plan) = compact::choose_full(&version, may_forget) else { break };
            // The caller waits for it, so it may use the processors.
            self.run_plan(&version, &plan, Moves::NONE, self.background.is_on())?;
        }
        self.arrange()
    }

    /// Writes segments anew until they hold little else than what is needed, and values stand in
    /// the order of keys where much is written for it.
    fn arrange(&self) -> Result<()> {
        // A held version holds its files: each is let go before the next one is made.
        let now = || Arc::clone(&self.current().version);
        let chosen = |version: Arc<Version>| -> Result<Vec<u32>> {
            Ok(arrange::choose(&version, &arrange::sample(&version)?))
        };
        let (mut left, segment_bytes) = (chosen(now())?, self.options.segment_bytes);
        while !left.is_empty() {
            let segments = arrange::next_batch(&now(), &mut left, segment_bytes);
            let plans = arrange::plans(&now(), &segments);
            for plan in plans {
                let moves = Moves { segments: &segments, segment_bytes };
                self.run_plan(&now(), &plan, moves, false)?;
            }
        }
        Ok(())
    }

    /// Hands everything to stable storage, and says at the end of the log that this was the end:
    /// the next opening goes on there, if nothing has changed since.
    pub(crate) fn close(&self) -> Result<()> {
        self.settle(Durability::Durable)?;
        let writer = self.writer();
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.health.edit_is_unsure.load(Ordering::Acquire) {
            let Extent { salt, end, .. } = manifest.extent();
            let (manifest_salt, manifest_len) = (salt, end);
            let last_seq = writer.next_seq - 1;
            writer.log.mark_closed(&Closed { manifest_salt, manifest_len, last_seq });
        }
        Ok(())
    }

    /// Hands everything that was committed to the system, or to stable storage.
    pub(crate) fn settle(&self, durability: Durability) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        match durability {
            Durability::None => Ok(()),
            Durability::Eventual => self.write_out_log(&mut writer),
            Durability::Durable => self.flush_log(&mut writer),
        }
    }
}

/// A segment, its file and its path.
pub(crate) type NewSegment = (Identity, Arc<dyn crate::os::DataFile>, std::path::PathBuf);

/// Makes a segment; it is on stable storage then, name included.
pub(crate) fn new_segment(
    directory: &Directory,
    number: u32,
    first_seq: u64,
) -> Result<NewSegment> {
    let (identity, file, path) = begin_segment(directory, number, first_seq)?;
    let flushed = file.sync().map_err(|e| Error::io("flush", &path, e));
    let flushed = flushed.and_then(|()| directory.sync());
    flushed.inspect_err(|_| directory.give_up(&path))?;
    Ok((identity, file, path))
}

/// Makes a segment and leaves it to the caller to flush it.
pub(crate) fn begin_segment(
    directory: &Directory,
    number: u32,
    first_seq: u64,
) -> Result<NewSegment> {
    let identity = Identity { number, salt: random(), first_seq };
    let (path, file) = directory.create(Name::Segment(number))?;
    let written = file.write_at(&[std::io::IoSlice::new(&identity.header())], 0);
    written.map_err(|e| {
        directory.give_up(&path);
        Error::io("write to", &path, e)
    })?;
    Ok((identity, file, path))
}

#[cfg(test)]
#[path = "engine/tests.rs"]
mod tests;
