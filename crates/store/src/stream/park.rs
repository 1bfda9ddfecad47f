//! Giving the snapshots of idle streams back: one thread for all of them.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// What can be parked when it was not used for some time.
pub(super) trait Idle: Send {
    /// When it was last used.
    fn used(&self) -> Instant;
    /// Gives back what it holds. It may be called again.
    fn park(&mut self);
}

/// Something that is watched, and after which time it is parked.
struct Watched {
    what: Weak<Mutex<dyn Idle>>,
    after: Duration,
}

#[derive(Default)]
struct Watch {
    all: Mutex<Vec<Watched>>,
    changed: Condvar,
}

/// Parks it whenever it was not used for this time, until it is dropped.
///
/// # Errors
/// If there can be no thread for it.
pub(super) fn watch<T: Idle + 'static>(what: &Arc<Mutex<T>>, after: Duration) -> Result<()> {
    static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();
    let watch = WATCH.get_or_init(Arc::default);
    let what: Arc<Mutex<dyn Idle>> = what.clone();
    let mut all = watch.all.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Watched { what: Arc::downgrade(&what), after });
    if all.len() == 1 {
        // The thread ends when there is nothing to watch: the first one begins it.
        let own = Arc::clone(watch);
        let thread = std::thread::Builder::new().name("hedgerow-park".into());
        if let Err(source) = thread.spawn(move || own.run()) {
            all.clear();
            return Err(Error::io("start a thread for", "idle streams".as_ref(), source));
        }
    }
    watch.changed.notify_one();
    Ok(())
}

impl Watch {
    /// Waits for the first of all that are watched to be idle for long enough.
    fn run(&self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut wait = Duration::MAX;
            all.retain(|watched| {
                let Some(what) = watched.what.upgrade() else { return false };
                // A stream that is in use at this moment is not idle.
                let idle = match what.try_lock() {
                    Ok(mut what) => {
                        let idle = what.used().elapsed();
                        if idle >= watched.after {
                            what.park();
                        }
                        idle
                    }
                    Err(_) => Duration::ZERO,
                };
                // One that is parked already is looked at again when it may have gone on.
                let left = watched.after.saturating_sub(idle);
                let left = if left.is_zero() { watched.after } else { left };
                wait = wait.min(left.max(Duration::from_millis(1)));
                true
            });
            if all.is_empty() {
                return;
            }
            let waited = self.changed.wait_timeout(all, wait);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
