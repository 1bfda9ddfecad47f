//! A disk and a file system in memory that lose power, run full and fail on command.
//!
//! Everything is deterministic: the same seed and the same calls give the same disk.
//!
//! # The fault model
//!
//! A power cut ([`SimSystem::crash`], [`SimSystem::image_at`]) leaves for each file
//! - all that was written and cut before its last successful `sync`, always;
//! - of each later write, by [`CrashMode`]: nothing, everything, or a random subset, of whole
//!   writes or of the sectors that they touch. Which parts survive has nothing to do with the order
//!   of the writes, but a sector never holds an older write *over* a newer one that survived, since
//!   there is one cached copy of it; a sector itself is never torn; and bytes that were not written
//!   do not change;
//! - one of the lengths that the file had since then, chosen independently of the data: data beyond
//!   it are gone, and a length that survived without its data reads as zeros. Lengths are kept in
//!   order: a later one is never kept without the effect of an earlier cut.
//!
//! Names (created, linked, renamed, removed) survive in their order up to some point, which is at
//! least the last change that touches a folder of which `sync_directory` was called since. A file
//! whose name did not survive is gone, however often it was synced. A rename is never half done.
//! Folders themselves always survive.
//!
//! A range that was written durably survives as after a `sync`; what else is pending stays so.
//!
//! A `sync` that fails leaves of the pending writes none, all or some on the disk, *and forgets
//! that the rest is pending*, as Linux does: reads still show it, a later sync that succeeds does
//! not bring it to the disk. The length stays pending or was kept.
//!
//! A process that dies ([`SimSystem::kill`]) leaves the files as they are in the cache, and its
//! entries in lock files as those of a dead process; nothing that it does afterwards has an effect.
//! If all processes die and the machine goes on ([`SimSystem::killed_at`]), the cache is as it was,
//! and what is pending stays pending.
//!
//! Every call through the seam that can fail can be made to fail, by its kind or by its number:
//! opening, asking for a length, mapping, reading, writing, flushing, cutting and extending,
//! names, and taking the writer's lock or a reader slot. A call that fails has no effect but what
//! [`Kept`] says of writes and syncs.
//!
//! Nothing happens in the background, unless [`Config::flushes_in_background`] asks for it: one
//! seed is one order of calls.
//!
//! What does not happen here: synced bytes that change by themselves (tests flip them with
//! [`SimSystem::edit`]), writes that land in a wrong place, mapped reads that fail.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::file::DataFile;
use super::lock::SharedLock;
use super::system::{Open, Rights, System, random};
use super::unix::evidence::mix;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;

mod content;
mod fault;
mod file;
mod image;
mod lock;
mod machine;
mod memory;
#[cfg(test)]
mod tests;

pub use fault::{Fault, Kept, Operation};
use file::SimFile;
pub use image::CrashMode;
use image::{Event, Image};
use machine::{Cached, Holder, Machine, Recorder, State};
pub use machine::{Config, SimSystem};
use memory::Memory;

/// The time at which the clocks of machines stand that repeat what they did.
const REPEATED: Duration = Duration::from_secs(1_000_000_000);

impl SimSystem {
    /// A machine with an empty disk.
    pub fn new(seed: u64, config: Config) -> Self {
        Self::boot(Image::default(), seed, config)
    }

    /// Starts a machine with what is on a disk, nothing of which is pending.
    fn boot(image: Image, seed: u64, config: Config) -> Self {
        Self::run(image, mix(seed), config)
    }

    fn run(image: Image, boot: u64, config: Config) -> Self {
        let state = Mutex::new(State::new(image, boot, config));
        let machine = Machine { config, boot, drawn: AtomicU64::new(0), state };
        Self { machine: Arc::new(machine), process: Arc::default() }
    }

    /// Another process on the same machine.
    pub fn process(&self) -> Self {
        Self { machine: self.machine.clone(), process: Arc::default() }
    }

    /// Ends this process at once: what it still does has no effect, its locks are those of a dead
    /// process. What it had not yet handed to the system in writes is lost with it.
    pub fn kill(&self) {
        let state = self.state();
        self.process.dead.store(true, Ordering::SeqCst);
        for lock in state.locks.values() {
            lock.someone_died();
        }
    }

    /// Lets this process, of which only the calling thread runs, die at its n-th access to
    /// something that processes share. It unwinds then, which the caller has to catch before it
    /// calls [`SimSystem::kill`], so that others notice.
    #[cfg(shuttle)]
    pub fn die_at(&self, access: u64) {
        let process = Arc::clone(&self.process);
        crate::sync::die_at(access, move || process.dead.store(true, Ordering::SeqCst));
    }

    /// Kills this process and starts another one on the same machine.
    pub fn restart_process(&self) -> Self {
        self.kill();
        self.process()
    }

    /// What a power cut now may leave: a new machine with that disk. This one goes on.
    pub fn crash(&self, seed: u64, mode: CrashMode) -> Self {
        let state = self.state();
        let config = Config { capacity: state.capacity, ..self.machine.config };
        Self::boot(state.image.after_crash(mode, seed), self.next_boot(seed), config)
    }

    /// A boot seed unlike this machine's own.
    fn next_boot(&self, seed: u64) -> u64 {
        self.machine.boot ^ mix(seed | 1)
    }

    /// How often the disk was told to begin writing something before its flush.
    pub fn writebacks(&self) -> u64 {
        self.state().writebacks
    }

    /// How many operations of a kind were called so far, those that failed included.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.state().faults.calls(operation)
    }

    /// Lets the `nth` operation of a kind from now on (1 is the next one) fail, and the `times - 1`
    /// ones after it.
    pub fn fail(&self, operation: Operation, nth: u64, times: u64, fault: Fault) {
        self.state().faults.add(operation, nth, times, fault);
    }

    /// How many calls of all kinds there have been, including those that failed.
    pub fn all_calls(&self) -> u64 {
        self.state().faults.all_calls()
    }

    /// Lets the `nth` call of any kind from now on fail, and the `times - 1` ones after it.
    pub fn fail_any(&self, nth: u64, times: u64, fault: Fault) {
        self.state().faults.add_any(nth, times, fault);
    }

    /// The kinds of the calls that failed so far by command, in their order.
    pub fn failed(&self) -> Vec<Operation> {
        self.state().faults.failed().to_vec()
    }

    /// How many data files are open, and lock files in processes that live.
    pub fn open_handles(&self) -> usize {
        let state = self.state();
        let locks: usize = state.locks.values().map(|lock| lock.open_handles()).sum();
        locks + state.files.values().map(|file| file.handles).sum::<usize>()
    }

    /// Forgets all faults that did not happen yet.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// The bytes in all files together.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Sets the size of the disk.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Begins to keep a log of everything that happens to the disk from now on, or ends it.
    pub fn record(&self, yes: bool) {
        let mut state = self.state();
        let (start, image) = (state.image.clone(), state.image.clone());
        state.recorder = yes.then(|| Recorder { start, log: Vec::new(), image, at: 0 });
    }

    /// The number of events in the log; cuts go from 0 to this number.
    pub fn recorded(&self) -> usize {
        self.state().recorder.as_ref().map_or(0, |recorder| recorder.log.len())
    }

    /// Puts a mark of the caller's in the log, for example "commit n was acknowledged".
    pub fn mark(&self, mark: u64) {
        self.state().note(Event::Mark(mark));
    }

    /// The last mark among the first `cut` events of the log.
    pub fn last_mark(&self, cut: usize) -> Option<u64> {
        let state = self.state();
        let log = &state.recorder.as_ref()?.log;
        log[..cut].iter().rev().find_map(|event| match event {
            Event::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    /// The event before which a cut comes, in words; `None` at the end of the log.
    pub fn describe(&self, cut: usize) -> Option<String> {
        let state = self.state();
        state.recorder.as_ref()?.log.get(cut).map(Event::to_string)
    }

    /// What a power cut between the first `cut` events of the log and the rest may have left, as
    /// a new machine. Cheap when `cut` goes up from call to call.
    ///
    /// # Panics
    /// If nothing is recorded, or less than `cut` events are.
    pub fn image_at(&self, cut: usize, mode: CrashMode, seed: u64) -> Self {
        let mut state = self.state();
        let config = Config { capacity: state.capacity, ..self.machine.config };
        let recorder = state.recorder.as_mut().expect("record(true) comes before image_at");
        let image = recorder.advance(cut).after_crash(mode, seed);
        Self::boot(image, self.next_boot(seed ^ (cut as u64) << 1), config)
    }

    /// Whether all power cuts between the first `cut` events of the log and the rest leave the
    /// same, since nothing is pending.
    ///
    /// # Panics
    /// As [`SimSystem::image_at`].
    pub fn is_settled_at(&self, cut: usize) -> bool {
        let mut state = self.state();
        let recorder = state.recorder.as_mut().expect("record(true) comes before is_settled_at");
        recorder.advance(cut).is_settled()
    }

    /// The machine between the first `cut` events of the log and the rest, all processes having
    /// died there: everything written is still in the cache, and may still be lost by a power cut.
    ///
    /// # Panics
    /// As [`SimSystem::image_at`].
    pub fn killed_at(&self, cut: usize) -> Self {
        let mut state = self.state();
        let config = Config { capacity: state.capacity, ..self.machine.config };
        let recorder = state.recorder.as_mut().expect("record(true) comes before killed_at");
        Self::run(recorder.advance(cut).clone(), self.machine.boot, config)
    }

    /// A copy of the machine as it is now, all processes of which have died.
    pub fn killed_copy(&self) -> Self {
        let state = self.state();
        let config = Config { capacity: state.capacity, ..self.machine.config };
        Self::run(state.image.clone(), self.machine.boot, config)
    }

    /// Changes a file unnoticed, in the cache and on the disk, as a failing medium or another
    /// program would.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn edit(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(path)?;
        state.memory(file).write(offset, bytes)?;
        state.note(Event::Edit { file, offset, bytes: bytes.into() });
        Ok(())
    }

    /// The content of a file as processes see it.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        let file = state.find(path)?;
        let memory = state.memory(file);
        let mut content = vec![0; memory.len() as usize];
        memory.read(0, &mut content)?;
        Ok(content)
    }

    /// The names of all files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// Locks a file, alone or together with others; `None` if others are against it.
    fn hold(&self, path: &Path, is_alone: bool) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut state = self.begin(Operation::Lock)?;
        let holders = state.held.entry(path.to_path_buf()).or_default();
        holders.retain(|holder| !holder.process.is_dead());
        if holders.iter().any(|holder| is_alone || holder.is_alone) {
            return Ok(None);
        }
        let holder = Arc::new(Holder { process: Arc::clone(&self.process), is_alone });
        holders.push(Arc::clone(&holder));
        Ok(Some(Box::new(Held { system: self.clone(), path: path.to_path_buf(), holder })))
    }
}

/// A file that its process has locked.
struct Held {
    system: SimSystem,
    path: PathBuf,
    holder: Arc<Holder>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(holders) = self.system.state().held.get_mut(&self.path) {
            holders.retain(|holder| !Arc::ptr_eq(holder, &self.holder));
        }
    }
}

impl System for SimSystem {
    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        let state = self.state();
        state.capacity.map(|_| state.room())
    }

    fn open_data(&self, path: &Path, how: Open, _mode: u32) -> io::Result<Arc<dyn DataFile>> {
        let mut state = self.begin(Operation::Open)?;
        let file = match (how, state.find(path)) {
            (Open::Create, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Open::Create, Err(_)) => {
                let file = state.image.files_so_far();
                let empty = content::Content::default();
                let memory = Memory::holding(self.machine.config.reserve, &empty)?;
                state.files.insert(file, Cached { memory, handles: 0 });
                state.names.insert(path.to_path_buf(), file);
                state.note(Event::Create { file, path: path.to_path_buf() });
                file
            }
            (_, found) => found?,
        };
        state.count_handles(file, 1);
        Ok(Arc::new(SimFile::new(self, file, how != Open::Read)))
    }

    fn open_lock(
        &self,
        path: &Path,
        _read_only: bool,
        _rights: Rights<'_>,
    ) -> io::Result<Arc<SharedLock>> {
        let mut state = self.begin(Operation::Open)?;
        let lock = match state.locks.get(path) {
            Some(lock) => lock.clone(),
            None => Arc::new(lock::LockFile::new()?),
        };
        state.locks.insert(path.to_path_buf(), lock.clone());
        // A process that waits for another opener must not hold the machine's lock.
        drop(state);
        Ok(Arc::new(lock::open(lock, self)?))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::SyncDirectory)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        state.note(Event::SyncDirectory { folder });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Name)?;
        if state.locks.remove(path).is_some() {
            return Ok(());
        }
        let file = state.find(path)?;
        state.names.remove(path);
        state.count_handles(file, 0);
        state.note(Event::Remove { path: path.to_path_buf() });
        Ok(())
    }

    fn flushes_in_background(&self) -> bool {
        self.machine.config.flushes_in_background
    }

    fn random(&self) -> u64 {
        if !self.machine.config.repeats {
            return random();
        }
        mix(self.machine.boot ^ mix(self.machine.drawn.fetch_add(1, Ordering::SeqCst)))
    }

    fn now(&self) -> SystemTime {
        if self.machine.config.repeats {
            SystemTime::UNIX_EPOCH + REPEATED
        } else {
            SystemTime::now()
        }
    }

    fn create_directory(&self, path: &Path, _mode: u32) -> io::Result<()> {
        let mut state = self.begin(Operation::Name)?;
        if !state.folders.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.note(Event::CreateFolder { path: path.to_path_buf() });
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let state = self.begin(Operation::Open)?;
        if !state.folders.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| name.file_name()).map(OsString::from).collect())
    }

    fn lock_exclusive(&self, path: &Path, _mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.hold(path, true)
    }

    /// Files that are locked take no room, and are always there.
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.hold(path, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Name)?;
        let file = state.find(from)?;
        state.names.remove(from);
        if let Some(replaced) = state.names.insert(to.to_path_buf(), file) {
            state.count_handles(replaced, 0);
        }
        state.note(Event::Rename { file, from: from.to_path_buf(), to: to.to_path_buf() });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Name)?;
        let file = state.find(from)?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(to.to_path_buf(), file);
        state.note(Event::Link { file, from: from.to_path_buf(), to: to.to_path_buf() });
        Ok(())
    }
}
