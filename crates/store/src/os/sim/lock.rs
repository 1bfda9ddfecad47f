//! The lock file on the simulated machine: the real table in plain memory, with simulated
//! processes as its openers.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::super::lock as table;
use super::super::lock::{Backing, Care, Memory, PROCESSES, SLOTS_MAX, Table};
use super::Process;

/// Slots of a new lock file: few, so that growth is exercised.
const SLOTS_NEW: u32 = 8;

/// What all openers share.
pub(super) struct LockFile {
    memory: Arc<Memory>,
    slots: AtomicU32,
    openers: Mutex<Openers>,
    changed: Condvar,
}

struct Openers {
    /// Who opens now; the others wait.
    opening: Option<Arc<Process>>,
    /// The process of each entry in the table.
    entries: Vec<Option<Arc<Process>>>,
}

impl LockFile {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            memory: Memory::private()?,
            slots: AtomicU32::new(SLOTS_NEW),
            openers: Mutex::new(Openers { opening: None, entries: vec![None; PROCESSES] }),
            changed: Condvar::new(),
        })
    }

    fn openers(&self) -> MutexGuard<'_, Openers> {
        self.openers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those look again who wait for a process that died.
    pub(super) fn someone_died(&self) {
        let _openers = self.openers();
        self.changed.notify_all();
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

/// Joins the processes that have the lock file open.
pub(super) fn open(file: Arc<LockFile>, process: &Arc<Process>) -> io::Result<Table> {
    file.begin_opening(process);
    let opener = Opener { file: file.clone(), process: process.clone() };
    Table::join(file.memory.clone(), Box::new(opener)).inspect_err(|_| file.end_opening())
}

/// One opener: a store in a simulated process.
struct Opener {
    file: Arc<LockFile>,
    process: Arc<Process>,
}

impl Backing for Opener {
    fn slots(&self) -> u32 {
        self.file.slots.load(Ordering::SeqCst)
    }

    fn grow(&self, have: u32) -> io::Result<u32> {
        // Who holds the openers is the only one to grow.
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

    fn is_alive(&self, index: usize, _process: &table::Process, _care: Care) -> bool {
        let openers = self.file.openers();
        let process = openers.entries.get(index).and_then(Option::as_ref);
        process.is_some_and(|process| !process.is_dead())
    }

    fn try_join(&self, index: usize) -> io::Result<bool> {
        self.file.openers().entries[index] = Some(self.process.clone());
        Ok(true)
    }

    fn end_opening(&self) {
        self.file.end_opening();
    }

    fn leave(&self, index: usize) {
        self.file.openers().entries[index] = None;
    }

    fn is_same_process(&self) -> bool {
        !self.process.is_dead()
    }
}
