//! Giving the snapshots of idle streams back: one thread for all of them. It sleeps until the first
//! of them may have been idle for long enough; one that holds nothing is not looked at.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// What can be parked when it was not used for some time.
pub(super) trait Idle: Send {
    /// When it was last used.
    fn used(&self) -> Instant;
    /// Gives back what it holds; false if it cannot. Then it holds it still. Otherwise nobody looks
    /// at it any more until [`Watched::again`].
    fn park(&mut self) -> bool;
}

/// That something is watched, until this is dropped. What is watched must be dropped after it: then
/// it is never the thread here that drops it.
pub(super) struct Watched {
    number: u64,
    after: Duration,
}

/// What the thread knows of one that is watched.
struct Entry {
    what: Weak<Mutex<dyn Idle>>,
    after: Duration,
    /// When it is looked at next.
    next: Option<Instant>,
}

#[derive(Default)]
struct All {
    entries: HashMap<u64, Entry>,
    /// The moments of those that are to be looked at, and their numbers.
    next: BTreeSet<(Instant, u64)>,
    numbers_given: u64,
    /// It runs as long as there are entries.
    has_thread: bool,
}

impl All {
    /// Chooses when one is looked at next, if it is there still.
    fn look_at(&mut self, number: u64, next: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut entry.next, next) {
            self.next.remove(&(before, number));
        }
        self.next.extend(next.map(|next| (next, number)));
    }

    /// Looks at those whose time has come.
    fn look(&mut self) {
        let now = Instant::now();
        while let Some(&(_, number)) = self.next.first().filter(|(next, _)| *next <= now) {
            let next = self.entries.get(&number).and_then(|entry| entry.look(now));
            self.look_at(number, next);
        }
    }
}

impl Entry {
    /// Parks it if it was idle for long enough; when it is looked at next.
    fn look(&self, now: Instant) -> Option<Instant> {
        let what = self.what.upgrade()?;
        // A stream that is in use at this moment is not idle.
        let Ok(mut what) = what.try_lock() else { return now.checked_add(self.after) };
        let due = what.used().checked_add(self.after)?;
        if due > now {
            return Some(due);
        }
        if what.park() { None } else { now.checked_add(self.after) }
    }
}

#[derive(Default)]
struct Watch {
    all: Mutex<All>,
    changed: Condvar,
}

/// A thread that was woken sleeps at least so long again.
const SLEEP_MIN: Duration = Duration::from_millis(1);

impl Watch {
    fn of_all() -> &'static Self {
        static WATCH: OnceLock<Watch> = OnceLock::new();
        WATCH.get_or_init(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut all = self.lock();
        loop {
            all.look();
            if all.entries.is_empty() {
                all.has_thread = false;
                return;
            }
            let first = all.next.first().map(|(next, _)| *next);
            all = match first {
                None => self.changed.wait(all).unwrap_or_else(PoisonError::into_inner),
                Some(first) => {
                    let sleep = first.saturating_duration_since(Instant::now()).max(SLEEP_MIN);
                    let waited = self.changed.wait_timeout(all, sleep);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Chooses when one is looked at next; wakes the thread if it sleeps for longer.
    fn look_at(&self, mut all: MutexGuard<'_, All>, number: u64, next: Option<Instant>) {
        all.look_at(number, next);
        let is_first = all.next.first().is_some_and(|first| first.1 == number);
        drop(all);
        if is_first {
            self.changed.notify_one();
        }
    }
}

/// Parks it whenever it was not used for this time.
///
/// # Errors
/// If there can be no thread for it.
pub(super) fn watch<T: Idle + 'static>(what: &Arc<Mutex<T>>, after: Duration) -> Result<Watched> {
    let watch = Watch::of_all();
    let what: Arc<Mutex<dyn Idle>> = what.clone();
    let mut all = watch.lock();
    if !all.has_thread {
        let thread = std::thread::Builder::new().name("hedgerow-park".into());
        let started = thread.spawn(|| Watch::of_all().run());
        started.map_err(|e| Error::io("start a thread for", "idle streams".as_ref(), e))?;
        all.has_thread = true;
    }
    all.numbers_given += 1;
    let number = all.numbers_given;
    all.entries.insert(number, Entry { what: Arc::downgrade(&what), after, next: None });
    watch.look_at(all, number, Instant::now().checked_add(after));
    Ok(Watched { number, after })
}

impl Watched {
    /// What was parked has something to give back again.
    pub(super) fn again(&self) {
        let watch = Watch::of_all();
        watch.look_at(watch.lock(), self.number, Instant::now().checked_add(self.after));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let watch = Watch::of_all();
        let mut all = watch.lock();
        all.look_at(self.number, None);
        all.entries.remove(&self.number);
        let is_last = all.entries.is_empty();
        drop(all);
        if is_last {
            watch.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What counts how often it was looked at and parked.
    struct Counting {
        used: Instant,
        looks: Arc<Mutex<(u32, u32)>>,
    }

    impl Idle for Counting {
        fn used(&self) -> Instant {
            self.looks.lock().unwrap().0 += 1;
            self.used
        }

        fn park(&mut self) -> bool {
            self.looks.lock().unwrap().1 += 1;
            true
        }
    }

    fn wait_until(looks: &Mutex<(u32, u32)>, parked: u32) {
        while looks.lock().unwrap().1 < parked {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_parked_is_not_looked_at_until_it_is_used_again() {
        let looks = Arc::new(Mutex::new((0, 0)));
        let counting = Counting { used: Instant::now(), looks: Arc::clone(&looks) };
        let what = Arc::new(Mutex::new(counting));
        let after = Duration::from_millis(2);
        let watched = watch(&what, after).unwrap();
        wait_until(&looks, 1);
        let before = *looks.lock().unwrap();
        // Another one is parked again and again meanwhile: the thread is at work.
        let others = Arc::new(Mutex::new((0, 0)));
        let counting = Counting { used: Instant::now(), looks: Arc::clone(&others) };
        let other = Arc::new(Mutex::new(counting));
        let other_watched = watch(&other, after).unwrap();
        for parked in 1..=10 {
            wait_until(&others, parked);
            other_watched.again();
        }
        assert_eq!(*looks.lock().unwrap(), before);
        watched.again();
        wait_until(&looks, 2);
        drop((watched, other_watched));
        assert_eq!((Arc::strong_count(&what), Arc::weak_count(&what)), (1, 0));
    }

    #[test]
    fn a_time_without_end_is_no_time() {
        let counting = Counting { used: Instant::now(), looks: Arc::default() };
        let what = Arc::new(Mutex::new(counting));
        let watched = watch(&what, Duration::MAX).unwrap();
        watched.again();
        assert_eq!(what.lock().unwrap().looks.lock().unwrap().1, 0);
    }
}
