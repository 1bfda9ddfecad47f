//! The data blocks of a table that the cache has, by their numbers: a block whose number is known
//! need not be looked up. A block leaves together with the cache's own reference to it, so nothing
//! is kept here that the cache does not count.

use std::sync::Arc;

use super::block::{Block, Home};
use crate::sync::{RwLock, read_locked, write_locked};

/// The blocks by their numbers.
pub(crate) struct AtHand {
    slots: Box<[RwLock<Option<Arc<Block>>>]>,
}

impl AtHand {
    /// For a table with this many blocks, none of which is there.
    pub(super) fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Self { slots: (0..blocks).map(|_| RwLock::new(None)).collect() })
    }

    /// Bytes of memory that it takes besides the blocks.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Calls `f` with the block with that number, if it is there. Nobody is kept from reading it
    /// meanwhile; `f` must not wait for anything.
    #[inline]
    pub(super) fn with<R>(&self, number: usize, f: impl FnOnce(&Arc<Block>) -> R) -> Option<R> {
        let slot = read_locked(self.slots.get(number)?);
        let block = slot.as_ref()?;
        block.prefetch();
        block.stay().note_use();
        Some(f(block))
    }

    /// Has the processor fetch what a search in that block needs first, if it is there.
    #[inline]
    pub(super) fn prefetch(&self, number: usize) {
        if let Some(slot) = self.slots.get(number)
            && let Some(block) = &*read_locked(slot)
        {
            block.prefetch();
        }
    }

    /// Has a block that the cache gave at hand, as long as the cache keeps it.
    pub(crate) fn put(self: &Arc<Self>, number: usize, block: &Arc<Block>) {
        let Some(slot) = self.slots.get(number) else { return };
        let home: Arc<dyn Home> = Arc::<Self>::clone(self);
        if !block.stay().settle(&home, number) {
            return;
        }
        let mut slot = write_locked(slot);
        // If it leaves the cache after this, it leaves the slot once that is not locked any more.
        if block.stay().is_kept() {
            *slot = Some(Arc::clone(block));
        }
    }
}

impl Home for AtHand {
    fn let_go(&self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            let out = write_locked(slot).take();
            drop(out);
        }
    }
}

#[cfg(test)]
#[path = "at_hand/tests.rs"]
mod tests;
