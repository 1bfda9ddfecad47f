//! The clock of a store: the sequence number up to which readers see, and the snapshots that are
//! held.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Condvar, Mutex};

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
pub(crate) const SPINS: usize = 200;

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
    pub(crate) fn readers(&self) -> Vec<u64> {
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
