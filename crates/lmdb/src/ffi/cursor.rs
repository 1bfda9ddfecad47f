//! `mdb_cursor_*`.

use std::ffi::{c_int, c_uint};

use super::{bytes_of, on_cursor, on_txn, store, tell};
use crate::abi::*;
use crate::code::Answer;
use crate::cursor::{Cursor, Here, MadeStep};
use crate::handles::View;
use crate::txn::{BLOCKED, Txn};

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_open(
    txn: *mut Txn,
    dbi: c_uint,
    result: *mut *mut Cursor,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |this| {
            let dbi = dbi as usize;
            let known = this.views.get(dbi).is_some_and(|view| view.state & View::VALID != 0);
            if result.is_null() || !known {
                return Err(libc::EINVAL);
            }
            this.check()?;
            let is_writing = this.flags & MDB_RDONLY == 0;
            if dbi == 0 && is_writing {
                return Err(libc::EINVAL);
            }
            let cursor = Cursor::new(txn, dbi, &this.views[dbi], is_writing);
            let cursor = Box::into_raw(Box::new(cursor));
            this.cursors.add(cursor);
            store(result, cursor);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_close(cursor: *mut Cursor) {
    // SAFETY: the promises of `ffi`; the cursor was made by `mdb_cursor_open`, and leaves the list
    // of its transaction before it is freed.
    unsafe {
        let Some(this) = cursor.as_ref() else { return };
        if !this.saved.is_empty() || this.is_writing && this.txn.is_null() {
            // The parent's transaction closes it, or its own one has.
            return;
        }
        on_txn(this.txn, |txn| {
            txn.cursors.remove(cursor);
            Ok(())
        });
        drop(Box::from_raw(cursor));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_renew(txn: *mut Txn, cursor: *mut Cursor) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let Some(this) = cursor.as_mut() else { return libc::EINVAL };
        on_txn(txn, |next| {
            let view = next.views.get(this.dbi).filter(|view| view.state & View::VALID != 0);
            let Some(view) = view.copied() else { return Err(libc::EINVAL) };
            if this.is_writing || next.flags & MDB_RDONLY == 0 {
                return Err(libc::EINVAL);
            }
            if next.flags & BLOCKED != 0 {
                return Err(MDB_BAD_TXN);
            }
            if this.txn == txn {
                next.cursors.remove(cursor);
            } else if let Some(last) = this.txn.as_mut() {
                last.cursors.remove(cursor);
            }
            next.cursors.add(cursor);
            this.txn = txn;
            this.renew(&view);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_txn(cursor: *const Cursor) -> *mut Txn {
    // SAFETY: the promises of `ffi`.
    unsafe { cursor.as_ref().map_or(std::ptr::null_mut(), |cursor| cursor.txn) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_dbi(cursor: *const Cursor) -> c_uint {
    // SAFETY: the promises of `ffi`.
    unsafe { cursor.as_ref().map_or(0, |cursor| cursor.dbi as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_get(
    cursor: *mut Cursor,
    key: *mut Val,
    data: *mut Val,
    op: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let Some(this) = cursor.as_mut() else { return libc::EINVAL };
        // A cursor that knows what is beside it has a read transaction.
        if op == op::NEXT {
            if let Some(pair) = this.next_short() {
                return give(key, data, pair);
            }
            if this.is_next_dense() {
                return get_next_brief(cursor, key, data, op);
            }
            if this.is_among() {
                return get_among(cursor, key, data, op);
            }
            if this.knows_beside() {
                return get_next(cursor, key, data, op);
            }
            return get_next_from_here(cursor, key, data, op);
        }
        if op == op::PREV && this.knows_beside() {
            if let Some(pair) = this.prev_short() {
                return give(key, data, pair);
            }
            if this.is_among() {
                return get_among(cursor, key, data, op);
            }
            if this.is_dense() {
                return get_prev_brief(cursor, key, data, op);
            }
            return get_prev_beside(cursor, key, data, op);
        }
        if this.is_among() && matches!(op, op::NEXT_DUP | op::PREV_DUP) {
            return get_among(cursor, key, data, op);
        }
        match this.is_writing {
            _ if this.txn.is_null() => MDB_BAD_TXN,
            true => get_writing(cursor, key, data, op),
            false => get_other(cursor, key, data, op),
        }
    }
}

/// Functions that are given what [`mdb_cursor_get`] is. Each is called last in the one before, and
/// has a frame no larger than its own part needs.
macro_rules! parts {
    ($($(#[doc = $doc:literal])+
        fn $name:ident($cursor:ident, $key:ident, $data:ident, $op:ident) $part:block)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            /// The promises of `ffi`; the cursor is not null and has a transaction.
            #[inline(never)]
            unsafe extern "C" fn $name(
                $cursor: *mut Cursor,
                $key: *mut Val,
                $data: *mut Val,
                $op: c_uint,
            ) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { $part }
            }
        )*
    };
}

/// Functions that try a step inside a leaf, where nothing can panic, and leave everything else to
/// another one.
macro_rules! stepping {
    ($($doc:literal
        $name:ident: $here:ident $step:ident, otherwise $otherwise:ident;)*) => {
        parts! {
            $(
                #[doc = $doc]
                fn $name(cursor, key, data, op) {
                    let this = &mut *cursor;
                    match (*this.txn).$here(this).and_then(Here::$step) {
                        Some(pair) => give(key, data, pair),
                        None => $otherwise(cursor, key, data, op),
                    }
                }
            )*
        }
    };
}

stepping! {
    "MDB_NEXT where the key may have more values."
    get_next_in_group: reading next_value, otherwise get_beyond_values;
    "MDB_PREV."
    get_prev: reading prev, otherwise get_prev_value;
    "MDB_PREV of a cursor with its own memory."
    get_prev_briefly: briefly prev, otherwise get_usual;
    "MDB_NEXT_DUP."
    get_next_value: reading next_value, otherwise get_end_of_values;
    "MDB_PREV_DUP, and MDB_PREV where the key or the one before may have several values."
    get_prev_value: reading prev_value, otherwise get_usual;
    "MDB_GET_CURRENT."
    get_current: reading current, otherwise get_usual;
    "MDB_NEXT in a write transaction."
    get_next_writing: writing next, otherwise get_next_value_writing;
    "MDB_NEXT in a write transaction, of a cursor with its own memory."
    get_next_writing_briefly: writing_briefly next, otherwise get_usual;
    "MDB_PREV in a write transaction, of a cursor with its own memory."
    get_prev_writing_briefly: writing_briefly prev, otherwise get_usual;
    "MDB_PREV in a write transaction."
    get_prev_writing: writing prev, otherwise get_prev_value_writing;
    "MDB_NEXT_DUP in a write transaction, and MDB_NEXT where the key may have more values."
    get_next_value_writing: writing next_value, otherwise get_usual;
    "MDB_PREV_DUP in a write transaction, and MDB_PREV where keys may have several values."
    get_prev_value_writing: writing prev_value, otherwise get_usual;
    "MDB_GET_CURRENT in a write transaction."
    get_current_writing: writing current, otherwise get_usual;
}

parts! {
    /// MDB_NEXT of a cursor that knows, or knew, what is ahead in its leaf.
    fn get_next(cursor, key, data, op) {
        let this = &mut *cursor;
        if this.is_next_stored() {
            return get_next_stored(cursor, key, data, op);
        }
        let txn = this.txn;
        match this.next_stored_leaf(&*txn, |pair| give(key, data, pair)) {
            Some(code) => code,
            None => get_next_leaf(cursor, key, data, op),
        }
    }

    /// MDB_NEXT to a key that is known to stand in one piece.
    fn get_next_stored(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        match this.next_stored(&*txn) {
            Some(pair) => give(key, data, pair),
            None => get_next_in_group(cursor, key, data, op),
        }
    }

    /// MDB_NEXT where the cursor knows what is ahead, and keys do not stand in one piece.
    fn get_next_brief(cursor, key, data, op) {
        let this = &mut *cursor;
        if !this.is_brief() {
            return get_next_ahead(cursor, key, data, op);
        }
        match this.next_brief() {
            Some(pair) => give(key, data, pair),
            None => get_next_in_group(cursor, key, data, op),
        }
    }

    /// The same of a cursor without its own memory.
    fn get_next_ahead(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        match this.next_ahead(&mut *txn) {
            Some(pair) => give(key, data, pair),
            None => get_next_in_group(cursor, key, data, op),
        }
    }

    /// MDB_NEXT to another leaf, where the cursor knows which one.
    fn get_next_leaf(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        match this.next_leaf(&mut *txn) {
            Some(pair) => give(key, data, pair),
            None => get_next_anew(cursor, key, data, op),
        }
    }

    /// MDB_NEXT of a cursor that does not know what is ahead, or whose transaction has ended.
    fn get_next_from_here(cursor, key, data, op) {
        let this = &mut *cursor;
        match this.is_writing {
            _ if this.txn.is_null() => MDB_BAD_TXN,
            true => get_writing(cursor, key, data, op),
            false if this.has_next_value() => get_value(cursor, key, data, op),
            false => get_next_anew(cursor, key, data, op),
        }
    }

    /// MDB_NEXT in a read transaction, where the cursor does not know what is ahead.
    fn get_next_anew(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        // The pages of its transaction's snapshot live until that ends or is reset: both first
        // settle its cursors, of which this is one.
        match this.look_ahead(&mut *txn) {
            true if this.is_next_stored() => get_next_stored(cursor, key, data, op),
            true => get_next_brief(cursor, key, data, op),
            false => get_next_in_group(cursor, key, data, op),
        }
    }

    /// MDB_PREV of a cursor that knows its leaf, whose keys stand in one piece.
    fn get_prev_beside(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        match this.prev_stored(&*txn, |pair| give(key, data, pair)) {
            Some(code) => code,
            None => get_prev_anew(cursor, key, data, op),
        }
    }

    /// MDB_PREV of a cursor that does not know what is beside it.
    fn get_prev_from_here(cursor, key, data, op) {
        let this = &mut *cursor;
        if this.is_among_values() && !this.is_brief() {
            return get_value(cursor, key, data, op);
        }
        get_prev_anew(cursor, key, data, op)
    }

    /// MDB_PREV where the cursor knows its leaf, whose keys do not stand in one piece.
    fn get_prev_brief(cursor, key, data, op) {
        let this = &mut *cursor;
        if !this.is_brief() {
            return get_prev_dense(cursor, key, data, op);
        }
        match this.prev_brief() {
            Some(pair) => give(key, data, pair),
            None => get_prev_dense(cursor, key, data, op),
        }
    }

    /// The same of a cursor without its own memory, and to another leaf.
    fn get_prev_dense(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        match this.prev_dense(&mut *txn) {
            Some(pair) => give(key, data, pair),
            None => get_prev_anew(cursor, key, data, op),
        }
    }

    /// MDB_PREV in a read transaction, where the cursor does not know what is beside it, or no
    /// longer.
    fn get_prev_anew(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        // As in `get_next_anew`.
        let pair = match this.look_back(&mut *txn) {
            true if this.is_dense() => this.prev_dense(&mut *txn),
            true => this.prev_stored(&*txn, |pair| pair),
            false => None,
        };
        match pair {
            Some(pair) => give(key, data, pair),
            None if (*cursor).is_brief() => get_prev_briefly(cursor, key, data, op),
            None => get_prev(cursor, key, data, op),
        }
    }

    /// Any call in a write transaction.
    fn get_writing(cursor, key, data, op) {
        match op {
            op::NEXT if (*cursor).is_brief() => get_next_writing_briefly(cursor, key, data, op),
            op::PREV if (*cursor).is_brief() => get_prev_writing_briefly(cursor, key, data, op),
            op::NEXT => get_next_writing(cursor, key, data, op),
            op::PREV => get_prev_writing(cursor, key, data, op),
            op::NEXT_DUP => get_next_value_writing(cursor, key, data, op),
            op::PREV_DUP => get_prev_value_writing(cursor, key, data, op),
            op::GET_CURRENT => get_current_writing(cursor, key, data, op),
            _ => get_usual(cursor, key, data, op),
        }
    }

    /// All but MDB_NEXT in a read transaction.
    fn get_other(cursor, key, data, op) {
        match op {
            op::PREV => get_prev_from_here(cursor, key, data, op),
            op::NEXT_DUP | op::PREV_DUP => get_value(cursor, key, data, op),
            op::NEXT_NODUP => get_next_group(cursor, key, data, op),
            op::PREV_NODUP => get_prev_group(cursor, key, data, op),
            op::GET_CURRENT => get_current(cursor, key, data, op),
            op::FIRST | op::LAST => get_end(cursor, key, data, op),
            _ => get_usual(cursor, key, data, op),
        }
    }

    /// A step that probably leads to another value of the key, where the cursor does not know them.
    fn get_value(cursor, key, data, op) {
        let this = &mut *cursor;
        let txn = this.txn;
        // As in `get_next_anew`.
        if this.look_among(&*txn) {
            return get_among(cursor, key, data, op);
        }
        match op {
            op::NEXT => get_next_in_group(cursor, key, data, op),
            op::NEXT_DUP => get_next_value(cursor, key, data, op),
            _ => get_prev_value(cursor, key, data, op),
        }
    }

    /// The same, where it does.
    fn get_among(cursor, key, data, op) {
        let this = &mut *cursor;
        let pair = match op {
            op::NEXT | op::NEXT_DUP => this.next_among(),
            _ => this.prev_among(),
        };
        match (pair, op) {
            (Some(pair), _) => give(key, data, pair),
            (None, op::NEXT | op::PREV) => get_beyond_values(cursor, key, data, op),
            (None, op::NEXT_DUP) => get_end_of_values(cursor, key, data, op),
            (None, _) => get_usual(cursor, key, data, op),
        }
    }

    /// MDB_NEXT_DUP that found no value in the leaf.
    fn get_end_of_values(cursor, key, data, op) {
        let this = &mut *cursor;
        match (*this.txn).reading(this).and_then(Here::at_last_value) {
            Some(()) => MDB_NOTFOUND,
            None => get_usual(cursor, key, data, op),
        }
    }

    /// MDB_NEXT_NODUP.
    fn get_next_group(cursor, key, data, op) {
        get_group(cursor, key, data, op, false)
    }

    /// MDB_PREV_NODUP.
    fn get_prev_group(cursor, key, data, op) {
        get_group(cursor, key, data, op, true)
    }

    /// MDB_NEXT from the last value of a key, and MDB_PREV from the first.
    fn get_beyond_values(cursor, key, data, op) {
        let this = &mut *cursor;
        let (txn, back) = (this.txn, op == op::PREV);
        match (*txn).reading(this).and_then(|here| here.beyond_values(back)) {
            Some(Ok(pair)) => {
                // As in `get_next_anew`.
                this.look_among(&*txn);
                give(key, data, pair)
            }
            Some(Err(MadeStep)) => get_usual(cursor, key, data, op::GET_CURRENT),
            None => get_usual(cursor, key, data, op),
        }
    }

    /// MDB_FIRST and MDB_LAST in a read transaction.
    fn get_end(cursor, key, data, op) {
        let (this, mut made) = (&mut *cursor, None);
        let code = on_txn(this.txn, |txn| {
            let moved = txn.cursor_to_end(this.dbi, this.place(), op == op::LAST);
            made = moved.transpose()?;
            Ok(())
        });
        match made {
            Some(MadeStep) => get_current(cursor, key, data, op::GET_CURRENT),
            None if code != 0 => code,
            None => get_usual(cursor, key, data, op),
        }
    }

    /// The calls that may need another page.
    fn get_usual(cursor, key, data, op) {
        let this = &mut *cursor;
        on_txn(this.txn, |txn| {
            let takes_key = matches!(op, op::SET | op::SET_KEY | op::SET_RANGE);
            let wanted = key.as_ref().filter(|_| takes_key).map(bytes_of);
            let (dbi, (place, own, _)) = (this.dbi, this.parts());
            let usual = txn.with_memory(own, |txn| txn.cursor_usual(dbi, place, op, wanted));
            let Some(pair) = usual else { return get_any(txn, this, key, data, op) };
            give(if op == op::SET { std::ptr::null_mut() } else { key }, data, pair?);
            Ok(())
        })
    }
}

/// MDB_NEXT_NODUP, and `back` MDB_PREV_NODUP: in each of the two callers made for its direction.
///
/// # Safety
/// As for the functions of [`parts`].
#[inline(always)]
unsafe fn get_group(
    cursor: *mut Cursor,
    key: *mut Val,
    data: *mut Val,
    op: c_uint,
    back: bool,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let this = &mut *cursor;
        match (*this.txn).reading(this).and_then(|here| here.next_group(back)) {
            Some(Ok(pair)) => give(key, data, pair),
            Some(Err(MadeStep)) => get_usual(cursor, key, data, op::GET_CURRENT),
            None => get_usual(cursor, key, data, op),
        }
    }
}

/// Tells the caller a key and a value.
///
/// # Safety
/// The promises of `ffi`.
#[inline(always)]
unsafe fn give(key: *mut Val, data: *mut Val, (whole_key, value): (Val, Val)) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        store(key, whole_key);
        store(data, value);
    }
    0
}

/// A call of any kind.
///
/// # Safety
/// The promises of `ffi`.
#[cold]
#[inline(never)]
unsafe fn get_any(
    txn: &mut Txn,
    this: &mut Cursor,
    key: *mut Val,
    data: *mut Val,
    op: c_uint,
) -> Answer {
    txn.check()?;
    // Only these read what is given; elsewhere it need not name anything.
    let takes_pair = matches!(op, op::GET_BOTH | op::GET_BOTH_RANGE);
    let takes_key = takes_pair || matches!(op, op::SET | op::SET_KEY | op::SET_RANGE);
    // SAFETY: the promises of `ffi`.
    unsafe {
        let wanted = key.as_ref().filter(|_| takes_key).map(bytes_of);
        let wanted_data = data.as_ref().map(|data| if takes_pair { bytes_of(data) } else { &[] });
        let (dbi, (place, own, _)) = (this.dbi, this.parts());
        let given =
            txn.with_memory(own, |txn| txn.cursor_get(dbi, place, op, wanted, wanted_data))?;
        if let Some(value) = given.key {
            store(key, value);
        }
        match given.data {
            Some(value) => store(data, value),
            None if !data.is_null() => return Err(MDB_NOTFOUND),
            None => {}
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_count(cursor: *mut Cursor, count: *mut usize) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_cursor(cursor, MDB_BAD_TXN, |txn, this| {
            tell(count, || {
                txn.check()?;
                Ok(txn.cursor_count(this.dbi, this.place())? as usize)
            })
        })
    }
}
