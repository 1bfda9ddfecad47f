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
    snapshots: Mutex<Held>,
    /// How many wait for `visible` to rise, and where they wait.
    waiting: AtomicU32,
    turn: Mutex<()>,
    risen: Condvar,
}

/// The snapshots that are held: how many at each sequence number. Most are of the newest one and
/// released soon, so that one stands by itself.
#[derive(Debug, Default)]
struct Held {
    newest: (u64, usize),
    others: BTreeMap<u64, usize>,
}

impl Held {
    fn add(&mut self, seq: u64) {
        if self.newest.1 == 0 {
            if self.others.last_key_value().is_none_or(|(&last, _)| last < seq) {
                self.newest.0 = seq;
            }
        } else if self.newest.0 < seq {
            self.others.insert(self.newest.0, self.newest.1);
            self.newest = (seq, 0);
        }
        match seq == self.newest.0 {
            true => self.newest.1 += 1,
            false => *self.others.entry(seq).or_default() += 1,
        }
    }

    fn remove(&mut self, seq: u64) {
        if seq == self.newest.0 && self.newest.1 > 0 {
            self.newest.1 -= 1;
        } else if let Some(count) = self.others.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                self.others.remove(&seq);
            }
        }
    }

    /// The sequence numbers in ascending order.
    fn seqs(&self) -> impl Iterator<Item = u64> {
        let newest = Some(self.newest.0).filter(|_| self.newest.1 > 0);
        self.others.keys().copied().chain(newest)
    }

    fn len(&self) -> usize {
        self.newest.1 + self.others.values().sum::<usize>()
    }
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
        snapshots.add(seq);
        seq
    }

    /// Pins what a snapshot or a name keeps already.
    pub(crate) fn pin_at(&self, seq: u64) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.add(seq);
    }

    pub(crate) fn unpin(&self, seq: u64) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.remove(seq);
    }

    /// All readers that a merge must serve, in ascending order: held snapshots, and new readers.
    pub(crate) fn readers(&self) -> Vec<u64> {
        let snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut readers: Vec<u64> = snapshots.seqs().collect();
        readers.push(self.visible.load(Ordering::Acquire));
        readers.dedup();
        readers
    }

    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any order of adding and removing leaves what a map of counts has.
    #[test]
    fn held_snapshots_are_those_of_a_map() {
        let (mut held, mut model) = (Held::default(), BTreeMap::<u64, usize>::new());
        let (mut state, mut newest) = (9_u64, 5);
        for _ in 0..5_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = state >> 33;
            newest += u64::from(random % 7 == 0);
            // Nearly always the newest one, sometimes an older one.
            let seq = if random % 5 == 0 { newest - random / 8 % 5 } else { newest };
            let any = model.keys().copied().nth(random as usize / 64 % model.len().max(1));
            match any.filter(|_| random % 3 != 1 && model.len() > 1 || random % 16 == 0) {
                Some(seq) => {
                    held.remove(seq);
                    let count = model.get_mut(&seq).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&seq);
                    }
                }
                None => {
                    held.add(seq);
                    *model.entry(seq).or_default() += 1;
                }
            }
            assert!(held.seqs().eq(model.keys().copied()), "{held:?} {model:?}");
            assert_eq!(held.len(), model.values().sum::<usize>());
        }
    }
}
