//! Which data files this process has open: a file that is opened twice is one store. Locks that
//! processes share cannot tell two openings of one process apart.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::Builder;
use super::store::Inner;
use crate::{Error, Result};

/// What makes two paths the same file: its device and its number there.
type Identity = (u64, u64);

struct Entry {
    identity: Identity,
    store: Weak<Inner>,
}

static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static CLOSED: Condvar = Condvar::new();

fn list() -> MutexGuard<'static, Vec<Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the store from the list when it is dropped: after everything else of the store.
struct Registered(Weak<Inner>);

impl Drop for Registered {
    fn drop(&mut self) {
        list().retain(|entry| !entry.store.ptr_eq(&self.0));
        CLOSED.notify_all();
    }
}

fn identify(path: &Path) -> Option<Identity> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Opens a data file with `open`, or returns the store of this process that has it open if that is
/// `welcome`. A store on a simulated system is not listed: each opening stands for a process of its
/// own.
pub(crate) fn open_once(
    path: &Path,
    options: &Builder,
    welcome: impl FnOnce(Arc<Inner>) -> Result<Arc<Inner>>,
    open: impl FnOnce() -> Result<Inner>,
) -> Result<Arc<Inner>> {
    if options.system.is_some() {
        return open().map(Arc::new);
    }
    let mut list = list();
    while let Some(identity) = identify(path)
        && let Some(at) = list.iter().position(|entry| entry.identity == identity)
    {
        match list[at].store.upgrade() {
            Some(store) if store.lock.is_same_process() => {
                // The guard is released first: the last handle may be dropped on the way out.
                drop(list);
                return welcome(store);
            }
            // Copied by a fork: it belongs to the parent.
            Some(store) => {
                list.swap_remove(at);
                std::mem::forget(store);
            }
            // It is being closed at this moment.
            None => list = CLOSED.wait(list).unwrap_or_else(PoisonError::into_inner),
        }
    }
    let store = Arc::new(open()?);
    if let Some(identity) = identify(path) {
        let weak = Arc::downgrade(&store);
        list.push(Entry { identity, store: Weak::clone(&weak) });
        // It was made a moment ago and is registered once.
        let _ = store.registered.set(Box::new(Registered(weak)));
    }
    Ok(store)
}

fn way_of_reading(options: &Builder) -> (bool, bool, u64) {
    (options.map, options.always_check, options.verified_max)
}

/// Answers a store that is open if it was opened in the same way.
pub(crate) fn agree(store: Arc<Inner>, wanted: &Builder) -> Result<Arc<Inner>> {
    let open = &store.options;
    let differs = if open.read_only != wanted.read_only {
        "read-only"
    } else if open.durability != wanted.durability {
        "durability"
    } else if open.max_size != wanted.max_size {
        "maximum size"
    } else if open.write_budget != wanted.write_budget {
        "write budget"
    } else if way_of_reading(open) != way_of_reading(wanted) {
        "way of reading"
    } else {
        return Ok(store);
    };
    let reason = format!(
        "this process has it open with another option ({differs}); use the store that is open"
    );
    Err(Error::Locked { path: store.paths.data.clone(), reason })
}
