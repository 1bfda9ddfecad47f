//! The clock of a store: the sequence number up to which readers see, and the snapshots that are
//! held.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Condvar, Mutex, locked};

/// Numbers that only go up, and the snapshots that are held.
pub(crate) struct Clock {
    /// Readers see everything up to this sequence number.
    pub(crate) visible: AtomicU64,
    pub(crate) next_file: AtomicU32,
    snapshots: Mutex<Held>,
    /// How many wait for `visible` to rise.
    waiting: AtomicU32,
    /// Operations that readers may see once they see all before: from a sequence number on, up to
    /// before another one.
    complete: Mutex<BTreeMap<u64, u64>>,
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
        let (waiting, complete) = (AtomicU32::new(0), Mutex::default());
        let (snapshots, risen) = (Mutex::default(), Condvar::default());
        Self { visible, next_file, snapshots, waiting, complete, risen }
    }

    /// Waits until readers see everything up to a sequence number.
    pub(crate) fn wait_for(&self, seq: u64) {
        self.wait_until(seq, None);
    }

    /// The same, but no longer than to a moment; whether readers see it.
    pub(crate) fn wait_until(&self, seq: u64, end: Option<Instant>) -> bool {
        self.is_seen_soon(seq) || self.sleep_until(seq, end, None)
    }

    fn is_seen(&self, seq: u64) -> bool {
        self.visible.load(Ordering::SeqCst) >= seq
    }

    /// Whether readers see it now, or in a few microseconds.
    fn is_seen_soon(&self, seq: u64) -> bool {
        for _ in 0..SPINS {
            if self.visible.load(Ordering::Acquire) >= seq {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until readers see it, or to a moment; whether they do. Operations that are complete
    /// are left to the thread that lets readers see those before.
    fn sleep_until(&self, seq: u64, end: Option<Instant>, complete: Option<(u64, u64)>) -> bool {
        // A thread that lets readers see more looks for others after that. So it either finds this
        // one, or is seen here.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut left_to = locked(&self.complete);
        if let Some((first, end)) = complete {
            left_to.insert(first, end);
            self.go_on(&mut left_to);
        }
        while !self.is_seen(seq) {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            left_to = match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.risen.wait_timeout(left_to, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.risen.wait(left_to).unwrap_or_else(PoisonError::into_inner),
            };
        }
        drop(left_to);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.is_seen(seq)
    }

    /// Lets readers see the operations from `first` on and before `end`, once they see all before.
    /// Readers see them when this returns.
    ///
    /// One thread at a time may raise what is seen: the one whose operations come next, unless it
    /// sleeps; then one that has the lock. A thread that was late lets all that wait for it go on
    /// at once: if each one let only the next one go on, every commit after that would sleep.
    pub(crate) fn publish(&self, first: u64, end: u64) {
        if first == end {
            return self.wait_for(end - 1);
        }
        if !self.is_seen_soon(first - 1) {
            self.sleep_until(end - 1, None, Some((first, end)));
            return;
        }
        self.visible.store(end - 1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.go_on(&mut locked(&self.complete));
        }
    }

    /// Lets readers see what is complete, and those who wait look.
    fn go_on(&self, complete: &mut BTreeMap<u64, u64>) {
        let next = || self.visible.load(Ordering::SeqCst) + 1;
        while let Some(end) = complete.remove(&next()) {
            self.visible.store(end - 1, Ordering::SeqCst);
        }
        self.risen.notify_all();
    }

    /// Pins what is visible now; returns its sequence number.
    pub(crate) fn pin(&self) -> u64 {
        let mut snapshots = locked(&self.snapshots);
        let seq = self.visible.load(Ordering::Acquire);
        snapshots.add(seq);
        seq
    }

    /// Pins what a snapshot or a name keeps already.
    pub(crate) fn pin_at(&self, seq: u64) {
        let mut snapshots = locked(&self.snapshots);
        snapshots.add(seq);
    }

    pub(crate) fn unpin(&self, seq: u64) {
        let mut snapshots = locked(&self.snapshots);
        snapshots.remove(seq);
    }

    /// All readers that a merge must serve, in ascending order: held snapshots, and new readers.
    pub(crate) fn readers(&self) -> Vec<u64> {
        let snapshots = locked(&self.snapshots);
        let mut readers: Vec<u64> = snapshots.seqs().collect();
        readers.push(self.visible.load(Ordering::Acquire));
        readers.dedup();
        readers
    }

    pub(crate) fn snapshots(&self) -> usize {
        locked(&self.snapshots).len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Any order of adding and removing leaves what a map of counts has.
    #[test]
    fn held_snapshots_are_those_of_a_map() {
        let (mut held, mut model) = (Held::default(), BTreeMap::<u64, usize>::new());
        let (mut state, mut newest) = (9_u64, 5);
        for _ in 0..if cfg!(miri) { 100 } else { 5_000 } {
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

    /// Commits that are published by several threads.
    struct Publishing {
        clock: Clock,
        next: Mutex<u64>,
        complete: Mutex<BTreeSet<u64>>,
    }

    impl Publishing {
        fn new() -> Self {
            let (next, complete) = (Mutex::new(1), Mutex::default());
            Self { clock: Clock::new(0, 1), next, complete }
        }

        /// Takes the next numbers, publishes them after `meanwhile`, and sees them.
        fn publish(&self, count: u64, meanwhile: impl FnOnce()) {
            let end = {
                let mut next = locked(&self.next);
                *next += count;
                *next
            };
            let first = end - count;
            meanwhile();
            locked(&self.complete).extend(first..end);
            self.clock.publish(first, end);
            assert!(self.look() >= end - 1, "{first} {end}");
        }

        /// What is visible is complete.
        fn look(&self) -> u64 {
            let visible = self.clock.visible.load(Ordering::SeqCst);
            let complete = locked(&self.complete);
            assert_eq!(complete.range(..=visible).count() as u64, visible);
            visible
        }
    }

    #[test]
    #[cfg_attr(shuttle, ignore = "threads of the system")]
    fn commits_are_published_in_order() {
        let publishing = &Publishing::new();
        let each = if cfg!(miri) { 20 } else { 200 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for turn in 0..each {
                        // Some are empty, and some late.
                        publishing.publish((turn + thread) % 4, || {
                            if turn % 16 == 5 * thread % 16 {
                                std::thread::sleep(Duration::from_micros(200));
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(publishing.look(), 6 * each);
        assert!(locked(&publishing.clock.complete).is_empty());
    }

    /// The same under schedules chosen by a seed.
    #[cfg(shuttle)]
    #[test]
    fn schedules() {
        use std::sync::Arc;

        let model = || {
            let publishing = Arc::new(Publishing::new());
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let publishing = Arc::clone(&publishing);
                    shuttle::thread::spawn(move || {
                        for turn in 0..3 {
                            publishing.publish((turn + thread) % 3, || {});
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(publishing.look(), 9);
            assert!(locked(&publishing.clock.complete).is_empty());
        };
        let schedules = std::env::var("SCHEDULES").map_or(300, |text| text.parse().unwrap());
        shuttle::check_random(model, schedules);
        shuttle::check_pct(model, schedules, 3);
    }
}
