//! What a reader slot holds: nothing, a transaction, or one that has ended and waits to be begun
//! again, with what it knows of its tables.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::txn::Txn;

/// In a word: null, [`BUSY`], or the address of a box with the transaction that waits, which is the
/// seat's. Such a transaction was for reading, has no cursors and no family, and what else it has
/// may go from thread to thread.
#[derive(Default)]
pub(crate) struct Seat(AtomicPtr<Txn>);

/// Of no transaction.
const BUSY: *mut Txn = std::ptr::dangling_mut();

/// Takes a transaction from the address that a seat had.
///
/// # Safety
/// The seat had it, and has another word now.
unsafe fn waiting(address: *mut Txn) -> Option<Box<Txn>> {
    if address.is_null() || address == BUSY {
        return None;
    }
    // SAFETY: `leave` made the address of a box, and as promised it is taken once.
    Some(unsafe { Box::from_raw(address) })
}

impl Seat {
    /// Takes the seat, and the transaction that waits there; `Err` if it is taken.
    pub(crate) fn enter(&self) -> Result<Option<Box<Txn>>, ()> {
        match self.0.swap(BUSY, Ordering::AcqRel) {
            BUSY => Err(()),
            // SAFETY: it was swapped for another word a moment ago.
            address => Ok(unsafe { waiting(address) }),
        }
    }

    /// Leaves the seat, to a transaction that has ended or empty.
    pub(crate) fn leave(&self, txn: Option<Box<Txn>>) {
        debug_assert!(txn.as_ref().is_none_or(|txn| txn.is_at_rest()));
        self.0.store(txn.map_or(std::ptr::null_mut(), Box::into_raw), Ordering::Release);
    }

    /// Whether a transaction reads.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.load(Ordering::Acquire) == BUSY
    }

    /// Lets the transaction that waits go.
    pub(crate) fn clear(&self) {
        let address = self.0.load(Ordering::Acquire);
        let (new, order) = (std::ptr::null_mut(), Ordering::AcqRel);
        if address != BUSY
            && self.0.compare_exchange(address, new, order, Ordering::Relaxed).is_ok()
        {
            // SAFETY: the seat had it until a moment ago.
            drop(unsafe { waiting(address) });
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.clear();
    }
}
