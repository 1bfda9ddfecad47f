//! Memory that somebody has: charged to the budget of the store, so that its cache makes room.

use std::sync::Weak;

use super::Directory;
use super::memory::Part;
use crate::sync::locked;

/// Memory in use, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    directory: Weak<Directory>,
    part: Part,
    bytes: u64,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(directory: Weak<Directory>, part: Part) -> Self {
        Self { directory, part, bytes: 0 }
    }

    /// Whether it stands for any memory.
    pub(crate) fn is_some(&self) -> bool {
        self.bytes > 0
    }

    /// From now on it stands for this many bytes: the cache makes room before this returns.
    pub(crate) fn set(&mut self, bytes: usize) {
        let (before, now) = (std::mem::replace(&mut self.bytes, bytes as u64), bytes as u64);
        if before == now {
            return;
        }
        // In a child process after a fork, a thread of the parent may have had the lock for ever.
        let directory = self.directory.upgrade().filter(|directory| directory.is_ours());
        let Some(directory) = directory else { return };
        let budget = &directory.budget;
        let mut charged = locked(&budget.charged);
        let part = &mut charged[self.part as usize];
        *part = part.saturating_sub(before) + now;
        directory.blocks.set_capacity(budget.rest_of(&charged));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::lsm::files::memory::Budget;
    use crate::os::sim::{Config, SimSystem};

    #[test]
    fn what_is_charged_is_the_caches_no_more() {
        let system = Arc::new(SimSystem::new(1, Config::default()));
        let budget = Budget::new(64 << 20, 4 << 20);
        let whole = budget.rest();
        assert_eq!(whole, (64 << 20) - 3 * ((5 << 20) + (64 << 10) + (256 << 10)) - 3 * (1 << 20));
        let directory = Arc::new(Directory::new(system, PathBuf::from("/d"), 0o600, budget));
        let charge = |part, bytes| {
            let mut charge = Charge::new(Arc::downgrade(&directory), part);
            charge.set(bytes);
            charge
        };
        let (mut one, other) = (charge(Part::Buffers, 1000), charge(Part::Moved, 500));
        assert_eq!(directory.budget.rest(), whole - 1500);
        one.set(200);
        assert_eq!(directory.budget.charged(|| ()).0, [200, 500, 0]);
        let third = charge(Part::Buffers, 100 << 20);
        assert_eq!(directory.budget.rest(), 0);
        drop((one, third));
        assert_eq!(directory.budget.rest(), whole - 500);
        drop(other);
        assert_eq!(directory.budget.rest(), whole);
    }
}
