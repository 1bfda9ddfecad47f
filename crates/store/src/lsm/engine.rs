//! The inside of a store: what its threads share, and how the next version is made. The work on
//! tables and segments stands in `merge`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use super::background::Background;
use super::buffer::Buffer;
use super::clock::{Clock, SPINS};
use super::closing::Closing;
use super::commit::logs::{Logs, Writer};
use super::commit::queue::Queue;
use super::files::{Directory, Name};
use super::levels::manifest::Manifest;
use super::levels::pace::{self, Standing, Unmerged};
use super::levels::version::{Edit, Version};
use super::names::Catalog;
use super::options::Options;
use super::read::view::{Current, Frozen};
use crate::Durability;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, MutexGuard, locked};
use crate::{Error, Result};

mod merge;

/// Frozen buffers wait for their tables; with more of them, writers wait.
pub(crate) const FROZEN_MAX: usize = 2;

/// Whether something failed after which the content of the disk is unknown.
#[derive(Default)]
pub(crate) struct Health {
    is_poisoned: AtomicBool,
    poison: Mutex<Option<String>>,
    /// Whether an edit of the manifest failed, so that it may be there or not.
    edit_is_unsure: AtomicBool,
    /// The files that such edits add.
    unsure: Mutex<Vec<Name>>,
}

impl Health {
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = locked(&self.poison);
        Err(Error::Poisoned { reason: reason.clone().unwrap_or_default() })
    }

    /// Refuses everything that writes, from now on.
    pub(crate) fn poison(&self, error: &Error) {
        let mut reason = locked(&self.poison);
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
    /// Merging and collecting end early then.
    pub(crate) closing: Closing,
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
    /// Refuses what writes, or needs the threads, in a child process after a fork.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.directory.is_ours() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    fn forked(&self) -> Error {
        let reason = "a store cannot be written to across a fork; open it in the child, once the \
                      parent has closed it";
        Error::Locked { path: self.directory.file(Name::Lock), reason: reason.to_string() }
    }

    /// What a reader that begins now reads.
    pub(crate) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at what readers read now.
    pub(crate) fn with_current<R>(&self, f: impl FnOnce(&Current) -> R) -> R {
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
        locked(&self.logs.writer)
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
        let mut manifest = locked(&self.manifest);
        self.health.check()?;
        edits.push(Edit::NextFile { number: self.clock.next_file.load(Ordering::Relaxed) });
        let before = Arc::clone(&self.current().version);
        let next = before.apply(&edits).map_err(|misfit| {
            Error::argument(format!("an edit does not fit the store: {misfit}"))
        })?;
        self.write_edits(&mut manifest, &edits, &next)?;
        before.mark_obsolete(&next);
        self.note(&next);
        let next = Arc::new(next);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Current { version: Arc::clone(&next), ..Current::clone(&current) };
        change(&mut changed);
        *current = Arc::new(changed);
        // No thread waits while `before` is dropped, perhaps with its files.
        drop((current, manifest));
        self.background.tell_of_room();
        drop(before);
        next.added(&edits).for_each(|table| table.offer_blocks());
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
        let renewed = Manifest::create(next, self.directory.random()).map(|new| *manifest = new);
        unsure.store(renewed.is_err(), Ordering::Release);
        let mut files = locked(&self.health.unsure);
        if renewed.is_ok() && !files.is_empty() {
            let named = next.names();
            let gone = files.drain(..).filter(|name| !named.contains(name));
            gone.for_each(|name| self.directory.give_up(&self.directory.file(name)));
        } else if !is_added && renewed.is_err() {
            files.extend(edits.iter().filter_map(Edit::adds));
        }
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
        let (begun, flushed, frozen) = self.with_current(|current| {
            (current.before_active(), current.version.flushed, current.frozen.len())
        });
        let last = writer.next_seq - 1;
        let unmerged = Unmerged {
            operations: last.saturating_sub(flushed),
            bytes: writer.log.end() + self.logs.unsealed_bytes(),
        };
        let standing = self.background.standing();
        self.background.set_behind(standing.behind(unmerged));
        let filled = || pace::filled_mille(&writer.active, &self.options);
        self.background.set_filled((frozen >= FROZEN_MAX).then(filled));
        let is_full = writer.active.is_full(self.options.memtable_bytes)
            || pace::covers_much(writer.active.data_bytes(), &self.options)
            || standing.may_hide_much(last.saturating_sub(begun))
            || self.should_flush_early(writer);
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
        let buffer = std::mem::replace(
            &mut changed.active,
            Arc::new(Buffer::new(self.options.memtable_bytes)),
        );
        writer.active = Arc::clone(&changed.active);
        changed.frozen.insert(0, Frozen { buffer, last_seq: writer.next_seq - 1 });
        *current = Arc::new(changed);
    }

    /// Has the work done that is due: by threads in the background, or here and now if there are
    /// none.
    pub(crate) fn work(&self) -> Result<()> {
        if self.background.wake() {
            return Ok(());
        }
        self.flush_frozen()?;
        while self.merge_once()? {}
        Ok(())
    }

    /// Writes everything in memory to tables.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_process()?;
        let mut writer = self.writer();
        self.health.check()?;
        if !self.current().active.is_empty() {
            self.rotate(&mut writer)?;
            self.freeze(&mut writer);
        }
        drop(writer);
        self.flush_frozen()
    }

    /// Hands everything to stable storage, and says at the end of the log that this was the end:
    /// the next opening goes on there, if nothing has changed since.
    pub(crate) fn close(&self) -> Result<()> {
        self.settle(Durability::Durable)?;
        let writer = self.writer();
        let manifest = locked(&self.manifest);
        if !self.health.edit_is_unsure.load(Ordering::Acquire) {
            writer.log.mark_closed(&manifest.extent().mark(writer.next_seq - 1));
        }
        Ok(())
    }

    /// Hands everything that was committed to the system, or to stable storage.
    pub(crate) fn settle(&self, durability: Durability) -> Result<()> {
        self.check_process()?;
        let mut writer = self.writer();
        self.health.check()?;
        self.settle_log(&mut writer, durability)
    }
}
