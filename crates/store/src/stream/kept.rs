//! A value that is kept by many, whose keepers are counted in advance: one atomic addition for many
//! keepers, where an `Arc` does one for each.

#![expect(unsafe_code, reason = "a value that is freed by its last keeper, argued below")]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// This many keepers are counted at once.
const AT_ONCE: u64 = 64;

/// A value, and how many keep it.
///
/// What makes the uses of this sound: the count is the number of living [`Kept`] and of those that
/// living [`Lender`]s have counted in advance, and one for each `Lender`; so the value lives as
/// long as one of them, and the one that takes the count to zero is the last one.
struct Counted<T> {
    /// Keepers that are forgotten (`std::mem::forget`) stay counted. With 64 bits, also where
    /// addresses have 32, it would take centuries until the count began anew.
    count: AtomicU64,
    value: T,
}

/// Keeps a value, and gives keepers away.
pub(super) struct Lender<T> {
    own: Kept<T>,
    /// Keepers that are counted and not yet given away.
    counted: u64,
}

/// Keeps a value.
pub(super) struct Kept<T>(NonNull<Counted<T>>);

// SAFETY: it gives shared access to the value, which the last keeper drops on its own thread.
unsafe impl<T: Send + Sync> Send for Kept<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Kept<T> {}

impl<T> Lender<T> {
    pub(super) fn new(value: T) -> Self {
        let counted = Box::new(Counted { count: AtomicU64::new(1), value });
        Self { own: Kept(NonNull::from(Box::leak(counted))), counted: 0 }
    }

    /// Another keeper.
    #[inline(always)]
    pub(super) fn lend(&mut self) -> Kept<T> {
        if self.counted == 0 {
            self.count_more();
        }
        self.counted -= 1;
        Kept(self.own.0)
    }

    /// The value, if nobody else keeps it any more.
    pub(super) fn into_inner(self) -> Option<T> {
        let counted = self.own.0;
        // What the others did with the value happens before it is taken.
        if self.own.counted().count.load(Ordering::Acquire) != self.counted + 1 {
            return None;
        }
        std::mem::forget(self);
        // SAFETY: it came from a box, and nobody else refers to it: all that are counted are those
        // that were not given away, and `own`, which is forgotten.
        Some(unsafe { Box::from_raw(counted.as_ptr()) }.value)
    }

    #[inline(never)]
    fn count_more(&mut self) {
        self.own.counted().count.fetch_add(AT_ONCE, Ordering::Relaxed);
        self.counted = AT_ONCE;
    }
}

impl<T> Deref for Lender<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.own
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        self.counted().count.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<T> Drop for Lender<T> {
    fn drop(&mut self) {
        // `own` is still counted, so that this is never the last one.
        self.own.counted().count.fetch_sub(self.counted, Ordering::Release);
    }
}

impl<T> Kept<T> {
    #[inline(always)]
    fn counted(&self) -> &Counted<T> {
        // SAFETY: this keeper is counted, so the value lives.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Kept<T> {
    #[inline]
    fn drop(&mut self) {
        // What this keeper did with the value happens before the value is dropped.
        if self.counted().count.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            free(self.0);
        }
    }
}

/// Drops the value. The caller was its last keeper.
#[inline(never)]
fn free<T>(counted: NonNull<Counted<T>>) {
    // SAFETY: it came from a box, and nobody else refers to it any more.
    drop(unsafe { Box::from_raw(counted.as_ptr()) });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_last_keeper_drops_the_value() {
        for lender_is_last in [true, false] {
            let value = Arc::new(());
            let mut lender = Lender::new(Arc::clone(&value));
            let kept: Vec<_> = (0..3 * AT_ONCE + 1).map(|_| lender.lend()).collect();
            assert!(kept.iter().all(|kept| Arc::ptr_eq(kept, &value)));
            let mut last = Some(lender);
            if !lender_is_last {
                drop(last.take());
            }
            for kept in kept {
                assert_eq!(Arc::strong_count(&value), 2);
                drop(kept);
            }
            assert_eq!(Arc::strong_count(&value), if lender_is_last { 2 } else { 1 });
            drop(last);
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }

    #[test]
    fn a_value_is_taken_from_its_last_keeper() {
        let value = Arc::new(());
        assert!(Lender::new(Arc::clone(&value)).into_inner().is_some());
        let mut lender = Lender::new(Arc::clone(&value));
        drop(lender.lend());
        let (kept, more) = (lender.lend(), lender.lend());
        let again = kept.clone();
        drop((kept, more));
        assert!(lender.into_inner().is_none());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(again);
        assert_eq!(Arc::strong_count(&value), 1);
        let mut lender = Lender::new(Arc::clone(&value));
        drop((0..AT_ONCE + 1).map(|_| lender.lend()).collect::<Vec<_>>());
        assert!(lender.into_inner().is_some());
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn threads_drop_keepers_beside_the_lender() {
        let value = Arc::new(());
        let mut lender = Lender::new(Arc::clone(&value));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let kept: Vec<_> = (0..AT_ONCE / 2 + 1).map(|_| lender.lend()).collect();
                scope.spawn(move || kept.into_iter().for_each(drop));
            }
            drop(lender);
        });
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
