//! The files of a store that are open for reading: no more than a part of what the process may have
//! open, so that a store can have any number of tables. A file that was closed is opened again when
//! it is needed.
//!
//! Open files stand in a queue. Where there are too many, the first one is closed if it was not
//! used since it came there, and else goes to the end once more. A read that is under way keeps its
//! file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};

use crate::os::DataFile;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, locked};

/// The open file of a handle, if it is open.
#[derive(Default)]
pub(super) struct Place {
    file: Mutex<Option<Arc<dyn DataFile>>>,
    /// Whether it was used since it came to its place in the queue.
    was_used: AtomicBool,
}

impl Place {
    /// The file, if it is open.
    pub(super) fn get(&self) -> Option<Arc<dyn DataFile>> {
        let file = locked(&self.file).clone();
        if file.is_some() {
            self.was_used.store(true, Relaxed);
        }
        file
    }

    /// Closes it once no read needs it.
    pub(super) fn close(&self) {
        let closed = locked(&self.file).take();
        drop(closed);
    }
}

/// The open files of a store.
pub(crate) struct Opened(Arc<Mutex<Queue>>);

/// Those of all stores of the process.
static STORES: std::sync::Mutex<Vec<Weak<Mutex<Queue>>>> = std::sync::Mutex::new(Vec::new());

struct Queue {
    most: usize,
    places: VecDeque<Weak<Place>>,
}

impl Opened {
    /// None yet, and never more than that many.
    pub(super) fn new(most: usize) -> Self {
        let queue = Queue { most: most.max(1), places: VecDeque::new() };
        let queue = Arc::new(Mutex::new(queue));
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&queue));
        Self(queue)
    }

    /// From now on none is closed: they may lose their names.
    pub(crate) fn keep_all(&self) {
        locked(&self.0).most = usize::MAX;
    }

    /// Puts a file that was opened in its place; gives the one that is there. Two threads may open
    /// it at once; one of the two is used.
    pub(super) fn keep(&self, place: &Arc<Place>, opened: Arc<dyn DataFile>) -> Arc<dyn DataFile> {
        let mut file = locked(&place.file);
        if let Some(other) = &*file {
            return Arc::clone(other);
        }
        *file = Some(Arc::clone(&opened));
        drop(file);
        let mut queue = locked(&self.0);
        let others = queue.most - 1;
        queue.close_down_to(others);
        queue.places.push_back(Arc::downgrade(place));
        opened
    }

    /// Closes half of the files, since the process has too many; false where none may be.
    pub(super) fn close_some(&self) -> bool {
        locked(&self.0).close_half()
    }

    /// The same for all stores of the process.
    pub(super) fn close_some_of_all(&self) -> bool {
        let stores = STORES.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stores = stores.iter().filter_map(Weak::upgrade);
        stores.filter(|store| locked(store).close_half()).count() > 0
    }
}

impl Queue {
    fn close_half(&mut self) -> bool {
        let here = self.places.len();
        if here == 0 || self.most == usize::MAX {
            return false;
        }
        self.close_down_to(here / 2);
        true
    }

    fn close_down_to(&mut self, most: usize) {
        let places = &mut self.places;
        if places.len() > most {
            places.retain(|place| place.strong_count() > 0);
        }
        // Each of them goes to the end once at most.
        let mut passes = places.len();
        while places.len() > most {
            let Some(first) = places.pop_front() else { break };
            let Some(place) = first.upgrade() else { continue };
            if passes > 0 && place.was_used.swap(false, Relaxed) {
                passes -= 1;
                places.push_back(first);
            } else {
                place.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::os::sim::{Config, SimSystem};
    use crate::os::{Open, System as _};

    #[test]
    fn those_that_are_not_used_are_closed() {
        let system = SimSystem::new(1, Config::default());
        let file = system.open_data(Path::new("a"), Open::Create, 0o600).unwrap();
        let opened = Opened::new(3);
        let places: Vec<Arc<Place>> = (0..6).map(|_| Arc::default()).collect();
        let keep = |number: usize| drop(opened.keep(&places[number], Arc::clone(&file)));
        let open = |numbers: &[usize]| {
            let is_open = |number: usize| locked(&places[number].file).is_some();
            assert_eq!((0..6).filter(|&number| is_open(number)).collect::<Vec<_>>(), numbers);
        };
        (0..3).for_each(keep);
        open(&[0, 1, 2]);
        assert!(places[0].get().is_some());
        keep(3);
        open(&[0, 2, 3]);
        assert!(places[1].get().is_none());
        keep(1);
        open(&[0, 1, 3]);
        // All of them were used: the first one goes all the same.
        [0, 1, 3].iter().for_each(|&number| assert!(places[number].get().is_some()));
        keep(4);
        open(&[1, 3, 4]);
        assert!(opened.close_some());
        assert_eq!(locked(&opened.0).places.len(), 1);
        assert!(Opened::new(1).close_some_of_all());
        assert_eq!(locked(&opened.0).places.len(), 0);
        opened.keep_all();
        (0..6).for_each(keep);
        open(&[0, 1, 2, 3, 4, 5]);
        assert!(!opened.close_some());
    }

    #[test]
    fn what_is_gone_takes_no_place() {
        let system = SimSystem::new(1, Config::default());
        let file = system.open_data(Path::new("a"), Open::Create, 0o600).unwrap();
        let opened = Opened::new(2);
        let (first, second) = (Arc::<Place>::default(), Arc::<Place>::default());
        opened.keep(&first, Arc::clone(&file));
        for _ in 0..5 {
            opened.keep(&Arc::default(), Arc::clone(&file));
        }
        opened.keep(&second, Arc::clone(&file));
        assert!(first.get().is_some() && second.get().is_some());
    }
}
