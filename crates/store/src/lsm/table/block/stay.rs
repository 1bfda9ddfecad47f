//! Whether the cache has a block, and where else it is found as long as it does.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;
use std::sync::{Arc, OnceLock, Weak};

use crate::sync::atomic::AtomicBool;

/// Where blocks are found without the cache, by their numbers.
pub(crate) trait Home: Send + Sync {
    /// Lets go of a block.
    fn let_go(&self, number: usize);
}

/// What a block knows of its stay in the cache.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    is_kept: AtomicBool,
    /// Whether it was found without the cache since the cache last asked.
    was_used: AtomicBool,
    /// Where it is found, and by which number.
    home: OnceLock<(Weak<dyn Home>, usize)>,
}

impl Stay {
    /// Whether the cache has the block, which has a home. Where this does not see yet that the
    /// cache has let go of it, [`Stay::end`] sees the home.
    pub(crate) fn is_kept(&self) -> bool {
        fence(SeqCst);
        self.is_kept.load(Relaxed)
    }

    /// The cache has the block from now on.
    pub(crate) fn begin(&self) {
        self.is_kept.store(true, Relaxed);
    }

    /// The cache lets go of the block, so its home does, too. The lock of the home says which of
    /// the two was first, where the block is put there at the same time.
    pub(crate) fn end(&self) {
        self.is_kept.store(false, Relaxed);
        // One of the two threads sees what the other one has written.
        fence(SeqCst);
        if let Some((home, number)) = self.home.get()
            && let Some(home) = home.upgrade()
        {
            home.let_go(*number);
        }
    }

    /// Notes that the block was found without the cache.
    #[inline]
    pub(crate) fn note_use(&self) {
        // Most blocks that are used are used again and again: they are not written to then.
        if !self.was_used.load(Relaxed) {
            self.was_used.store(true, Relaxed);
        }
    }

    /// Whether it was, since this was last asked.
    pub(crate) fn take_use(&self) -> bool {
        self.was_used.load(Relaxed) && self.was_used.swap(false, Relaxed)
    }

    /// Gives the block a home; `false` if it has another one already, or another number there.
    pub(crate) fn settle(&self, home: &Arc<dyn Home>, number: usize) -> bool {
        let (mine, at) = self.home.get_or_init(|| (Arc::downgrade(home), number));
        *at == number && std::ptr::addr_eq(mine.as_ptr(), Arc::as_ptr(home))
    }
}
