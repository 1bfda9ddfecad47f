//! The simulated machine: its processes, the files that they see, and what reaches the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::fault::{Faults, Operation};
use super::image::{Event, Image};
use super::lock::LockFile;
use super::memory::Memory;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard, locked};

/// What a simulated machine has.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Address space of each file, which is also the longest a file can be.
    pub reserve: u64,
    /// Whether files can be mapped; if not, they are read.
    pub map: bool,
    /// The size of the disk in bytes: no more than this can be in all files together.
    pub capacity: Option<u64>,
    /// Whether threads may flush soon after a commit, so that the order of calls is not that of a
    /// seed any more.
    pub flushes_in_background: bool,
    /// Whether what is drawn at random depends on nothing but the seed, and the time stands still:
    /// then the same calls make the same files, byte for byte. Two stores that are made on two
    /// machines of one seed are then taken for one another.
    pub repeats: bool,
}

impl Default for Config {
    fn default() -> Self {
        // Even if address space is short, many disks must fit in it.
        let reserve = if cfg!(target_pointer_width = "64") { 256 << 20 } else { 16 << 20 };
        Self { reserve, map: true, capacity: None, flushes_in_background: false, repeats: false }
    }
}

/// A simulated process on a simulated machine. Clones are the same process;
/// [`SimSystem::process`] starts another one on the same machine.
#[derive(Clone)]
pub struct SimSystem {
    pub(super) machine: Arc<Machine>,
    pub(super) process: Arc<Process>,
}

/// A simulated process.
#[derive(Default)]
pub(super) struct Process {
    pub(super) dead: AtomicBool,
}

impl Process {
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Refuses whatever a dead process does.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.is_dead() {
            Err(io::Error::other("the simulated process was killed"))
        } else {
            Ok(())
        }
    }
}

pub(super) struct Machine {
    pub(super) config: Config,
    /// Tells this run of the machine from all others.
    pub(super) boot: u64,
    /// How often something was drawn at random.
    pub(super) drawn: AtomicU64,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    /// What is on the disk, and what is on its way there.
    pub(super) image: Image,
    /// What processes see: the cached files by number, and their names. A file that has no name
    /// and is not open is gone.
    pub(super) files: BTreeMap<usize, Cached>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) locks: BTreeMap<PathBuf, Arc<LockFile>>,
    /// Which processes have locked which files, exclusively or shared.
    pub(super) held: BTreeMap<PathBuf, Vec<Arc<Holder>>>,
    pub(super) faults: Faults,
    pub(super) capacity: Option<u64>,
    /// How often the disk was told to begin writing.
    pub(super) writebacks: u64,
    pub(super) recorder: Option<Recorder>,
}

/// A file as processes see it.
pub(super) struct Cached {
    pub(super) memory: Memory,
    /// How often it is open.
    pub(super) handles: usize,
}

/// A log of all that happened to the disk, and an image that follows it.
pub(super) struct Recorder {
    pub(super) start: Image,
    pub(super) log: Vec<Event>,
    pub(super) image: Image,
    pub(super) at: usize,
}

impl Recorder {
    /// The image after the first `cut` events.
    pub(super) fn advance(&mut self, cut: usize) -> &Image {
        if cut < self.at {
            self.image = self.start.clone();
            self.at = 0;
        }
        for event in &self.log[self.at..cut] {
            self.image.apply(event);
        }
        self.at = cut;
        &self.image
    }
}

impl State {
    /// A machine on which nothing runs yet, with what is on a disk and on its way there.
    pub(super) fn new(image: Image, seed: u64, config: Config) -> Self {
        let (contents, names) = image.seen();
        let load = |(number, content)| {
            let memory = Memory::holding(config.reserve, content)?;
            Ok((number, Cached { memory, handles: 0 }))
        };
        let files = contents.iter().enumerate().map(load).collect::<io::Result<_>>();
        Self {
            files: files.expect("a simulated disk needs its address space"),
            names,
            folders: image.folders().clone(),
            image,
            locks: BTreeMap::new(),
            held: BTreeMap::new(),
            faults: Faults::new(seed),
            capacity: config.capacity,
            writebacks: 0,
            recorder: None,
        }
    }

    /// Notes what happens to the disk.
    pub(super) fn note(&mut self, event: Event) {
        self.image.apply(&event);
        if let Some(recorder) = &mut self.recorder {
            recorder.log.push(event);
        }
    }

    /// The bytes that still fit on the disk.
    pub(super) fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// The bytes in all files together.
    pub(super) fn used(&self) -> u64 {
        self.files.values().map(|file| file.memory.len()).sum()
    }

    /// What processes see of a file that has a name or is open.
    pub(super) fn memory(&mut self, file: usize) -> &mut Memory {
        match self.files.get_mut(&file) {
            Some(cached) => &mut cached.memory,
            None => unreachable!("file {file} has no name and is not open"),
        }
    }

    /// Changes the number of open handles of a file, and drops the file if it cannot be reached any
    /// more.
    pub(super) fn count_handles(&mut self, file: usize, change: isize) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        cached.handles = cached.handles.saturating_add_signed(change);
        if cached.handles == 0
            && self.names.values().all(|named| *named != file)
            && let Some(cached) = self.files.remove(&file)
        {
            cached.memory.give_back();
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let files = std::mem::take(&mut self.files);
        files.into_values().for_each(|file| file.memory.give_back());
    }
}

impl SimSystem {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.machine.state)
    }

    /// Begins an operation: takes the machine, unless the process is dead or a fault is due.
    pub(super) fn begin(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        self.process.check()?;
        match state.faults.next(operation) {
            Some(fault) => Err(fault.error()),
            None => Ok(state),
        }
    }
}

/// A process that has locked a file.
pub(super) struct Holder {
    pub(super) process: Arc<Process>,
    pub(super) is_alone: bool,
}
