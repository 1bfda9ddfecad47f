//! The lock file on the simulated machine: the real table in plain memory, with simulated
//! processes as its openers.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, PoisonError};

use super::super::lock::memory::{self, Memory, PROCESSES, SLOTS_MAX};
use super::super::lock::process::{self, Care, Identity};
use super::super::lock::{Backing, SharedLock};
use super::fault::Operation;
use super::machine::{Process, SimSystem};
use crate::sync::atomic::AtomicU32;
use crate::sync::{Condvar, Mutex, MutexGuard, locked};

/// Slots of a new lock file: few, so that growth is exercised.
const SLOTS_NEW: u32 = 8;

/// A thread keeps at most this many pieces of memory for its next lock files.
const SPARE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Arc<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// The process that simulates all others.
static THIS: LazyLock<Identity> = LazyLock::new(process::this);

/// What all openers share.
pub(super) struct LockFile {
    /// The first opener clears it, so that memory of an earlier lock file can be reused.
    memory: Arc<Memory>,
    slots: AtomicU32,
    openers: Mutex<Openers>,
    changed: Condvar,
}

struct Openers {
    /// The process that is opening now; the others wait.
    opening: Option<Arc<Process>>,
    /// The process of each entry in the table.
    entries: Vec<Option<Arc<Process>>>,
}

impl LockFile {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            memory: match SPARE.with_borrow_mut(Vec::pop) {
                Some(memory) => memory,
                None => Memory::private()?,
            },
            slots: AtomicU32::new(SLOTS_NEW),
            openers: Mutex::new(Openers { opening: None, entries: vec![None; PROCESSES] }),
            changed: Condvar::new(),
        })
    }

    fn openers(&self) -> MutexGuard<'_, Openers> {
        locked(&self.openers)
    }

    /// Wakes the waiters, so that those that wait for a dead process look again.
    pub(super) fn someone_died(&self) {
        let _openers = self.openers();
        self.changed.notify_all();
    }

    /// How many openers there are in live processes.
    pub(super) fn open_handles(&self) -> usize {
        let openers = self.openers();
        openers.entries.iter().flatten().filter(|process| !process.is_dead()).count()
    }

    fn begin_opening(&self, process: &Arc<Process>) {
        let mut openers = self.openers();
        while openers.opening.as_ref().is_some_and(|opener| !opener.is_dead()) {
            openers = self.changed.wait(openers).unwrap_or_else(PoisonError::into_inner);
        }
        openers.opening = Some(process.clone());
    }

    fn end_opening(&self) {
        self.openers().opening = None;
        self.changed.notify_all();
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let memory = &self.memory;
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX && Arc::strong_count(memory) == 1 {
                spare.push(Arc::clone(memory));
            }
        });
    }
}

/// Joins the processes that have the lock file open.
pub(super) fn open(file: Arc<LockFile>, system: &SimSystem) -> io::Result<SharedLock> {
    file.begin_opening(&system.process);
    let opener = Opener { file: file.clone(), system: system.clone() };
    let table = SharedLock::join(file.memory.clone(), Box::new(opener));
    table.inspect_err(|_| file.end_opening())
}

/// One opener: a store in a simulated process.
struct Opener {
    file: Arc<LockFile>,
    system: SimSystem,
}

impl Backing for Opener {
    fn slots(&self) -> u32 {
        self.file.slots.load(Ordering::SeqCst)
    }

    fn grow(&self, have: u32) -> io::Result<u32> {
        // Only the holder of the openers may grow it.
        let _openers = self.file.openers();
        let now = self.slots();
        if now > have {
            return Ok(now);
        }
        let more = now.saturating_mul(2).min(SLOTS_MAX);
        self.file.memory.clear(now..more);
        self.file.slots.store(more, Ordering::SeqCst);
        Ok(more)
    }

    fn is_alive(&self, index: usize, _process: &memory::Process, _care: Care) -> bool {
        let openers = self.file.openers();
        let process = openers.entries.get(index).and_then(Option::as_ref);
        process.is_some_and(|process| !process.is_dead())
    }

    fn try_join(&self, index: usize) -> io::Result<bool> {
        self.file.openers().entries[index] = Some(self.system.process.clone());
        Ok(true)
    }

    fn end_opening(&self) {
        self.file.end_opening();
    }

    fn leave(&self, index: usize) {
        self.file.openers().entries[index] = None;
    }

    fn is_same_process(&self) -> bool {
        !self.system.process.is_dead()
    }

    /// Taking one fails on command, too.
    fn may_take(&self) -> io::Result<()> {
        self.system.begin(Operation::Lock).map(drop)
    }

    fn identity(&self) -> Identity {
        *THIS
    }
}
