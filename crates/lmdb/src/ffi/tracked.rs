//! The cursors that are open in a transaction: those of a write transaction are moved on when
//! others delete their entries, saved for nested transactions, and closed with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use hedgerow::tree::ReadTxn;

use crate::cursor::Cursor;
use crate::place::Place;
use crate::txn::Txn;

/// The open cursors of a transaction. Each address is that of a cursor that `mdb_cursor_open` made
/// and `mdb_cursor_close` has not been called for; nothing else keeps a reference to one.
#[derive(Default)]
pub(crate) struct Tracked {
    all: Vec<*mut Cursor>,
}

/// Cursors that were closed with their transaction. Some programs (CFEngine) close them once more,
/// which LMDB forbids and mostly survives: so the newest ones stay for a while, known as closed.
static CLOSED: Mutex<VecDeque<AtomicPtr<Cursor>>> = Mutex::new(VecDeque::new());
/// How many of them are kept.
const CLOSED_MAX: usize = 64;

/// Closes a cursor whose write transaction ends.
///
/// # Safety
/// It was made by `Box::into_raw`, is in no list, and is closed in this way once.
unsafe fn close_with_txn(address: *mut Cursor) {
    // SAFETY: as promised, there is no other reference to it.
    let cursor = unsafe { &mut *address };
    cursor.txn = std::ptr::null_mut();
    *cursor.place() = Place::new();
    let mut closed = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    closed.push_back(AtomicPtr::new(address));
    if closed.len() > CLOSED_MAX
        && let Some(oldest) = closed.pop_front()
    {
        // SAFETY: it was made by `Box::into_raw`, and is freed once: it leaves this list, and
        // `mdb_cursor_close` does not touch the list.
        drop(unsafe { Box::from_raw(oldest.load(Ordering::Relaxed)) });
    }
}

impl Tracked {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn add(&mut self, cursor: *mut Cursor) {
        self.all.push(cursor);
    }

    pub(crate) fn remove(&mut self, cursor: *mut Cursor) {
        self.all.retain(|other| *other != cursor);
    }

    fn cursors(&mut self) -> impl Iterator<Item = &mut Cursor> {
        // SAFETY: the addresses are those of live cursors (see above), all different, and the
        // caller's `&mut self` is the only way to them.
        self.all.iter().map(|cursor| unsafe { &mut **cursor })
    }

    /// Calls `f` with the places of the cursors of a database but one, which the caller holds.
    pub(crate) fn each(
        &mut self,
        dbi: usize,
        but: Option<*const Cursor>,
        mut f: impl FnMut(&mut Place),
    ) {
        for cursor in self.all.iter().filter(|cursor| but != Some(cursor.cast_const())) {
            // SAFETY: as in `cursors`; the one that the caller holds a reference to is left out.
            let cursor = unsafe { &mut **cursor };
            if cursor.dbi == dbi {
                f(cursor.place());
            }
        }
    }

    /// A child begins: each cursor remembers where it stands.
    pub(crate) fn save(&mut self) {
        self.cursors().for_each(|cursor| {
            let place = cursor.place().clone();
            cursor.saved.push(place);
        });
    }

    /// A child ends: its own cursors are closed; the others stay where they are, or with `back` go
    /// back to where they stood when it began.
    pub(crate) fn end_child(&mut self, back: bool) {
        let all = std::mem::take(&mut self.all);
        for address in all {
            // SAFETY: as in `cursors`.
            let cursor = unsafe { &mut *address };
            match cursor.saved.pop() {
                Some(place) => {
                    if back {
                        *cursor.place() = place;
                    }
                    self.all.push(address);
                }
                // SAFETY: it was made by `Box::into_raw`, and leaves the list.
                None => unsafe { close_with_txn(address) },
            }
        }
    }

    /// Sets the transaction that they belong to from now on.
    pub(crate) fn belong_to(&mut self, txn: *mut Txn) {
        self.cursors().for_each(|cursor| cursor.txn = txn);
    }

    /// The transaction is reset: what its cursors know of its pages is not to be used.
    pub(crate) fn rest(&mut self, txn: &ReadTxn) {
        self.cursors().for_each(|cursor| cursor.place().rest(txn));
    }

    /// The transaction ends: cursors of a write transaction are closed, the others have none.
    pub(crate) fn end(&mut self) {
        for address in std::mem::take(&mut self.all) {
            // SAFETY: as in `cursors`.
            let cursor = unsafe { &mut *address };
            if cursor.is_writing {
                // SAFETY: as in `end_child`.
                unsafe { close_with_txn(address) };
            } else {
                cursor.settle();
                cursor.txn = std::ptr::null_mut();
            }
        }
    }
}
