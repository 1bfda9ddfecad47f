//! Putting and deleting where a cursor stands, and where it stands then.

use hedgerow::Error;

use super::Cursor;
use crate::abi::*;
use crate::code::Answer;
use crate::data::{Put, is_led};
use crate::ffi::bytes_of;
use crate::handles::View;
use crate::place::Place;
use crate::txn::{Body, Txn};

/// What a put was refused by.
#[derive(Clone, Copy)]
enum RefusedBy {
    /// The key has a value (MDB_NOOVERWRITE).
    Key,
    /// The last entry does not come before the key (MDB_APPEND).
    Entries,
    /// The last value of the key does not come before the value (MDB_APPENDDUP).
    Values,
    /// The key has this value (MDB_NODUPDATA).
    Pair,
}

impl RefusedBy {
    /// `has_old`: the program gets the value that the key has.
    fn new(flags: u32, has_old: bool) -> Self {
        match flags {
            _ if has_old => Self::Key,
            _ if flags & MDB_APPEND != 0 => Self::Entries,
            _ if flags & MDB_APPENDDUP != 0 => Self::Values,
            _ => Self::Pair,
        }
    }
}

impl Txn {
    /// The usual put through a cursor, as [`Txn::put_usual`] is one without; `None`, and nothing
    /// done, for all that [`Txn::cursor_put`] has to see to.
    #[inline(always)]
    pub(crate) fn cursor_put_usual(
        &mut self,
        dbi: usize,
        place: &mut Place,
        key: &[u8],
        data: &Val,
        flags: u32,
    ) -> Option<Answer> {
        let done = self.put_usual(dbi, key, data, flags, Some(&mut *place))?;
        if done == Err(MDB_KEYEXIST) {
            let refused = RefusedBy::new(flags, false);
            let stands = match self.arena.has_given() {
                // The scratch has the key, or nothing was ever given out that this might have been.
                true => self.stand_on_scratch(dbi, place, key.len(), refused),
                false => self.stand_on(dbi, place, key, bytes_of(data), refused),
            };
            return Some(stands.and(done));
        }
        Some(done)
    }

    /// Puts a value after all others of the database, and stands on it: then its place is not
    /// looked for. False, and nothing done, if it does not belong there, and for all that
    /// [`Txn::cursor_put`] has to see to. Neither key nor value stands where this writes.
    pub(crate) fn cursor_append_value(
        &mut self,
        dbi: usize,
        place: &mut Place,
        key: &[u8],
        data: &Val,
    ) -> Answer<bool> {
        let (Some((table, stored)), Body::Write(_)) = (self.ready(dbi), &self.body) else {
            return Ok(false);
        };
        let sizes = 1..=KEY_MAX;
        let is_usual = stored & MDB_DUPSORT != 0 && !is_led(stored, data.size);
        if !is_usual || !sizes.contains(&data.size) || !sizes.contains(&key.len()) {
            return Ok(false);
        }
        self.arena.renew();
        let Body::Write(txn) = &mut self.body else { return Ok(false) };
        let value = bytes_of(data);
        let done = txn.append(table, key, value);
        match done.and_then(|()| place.stand(txn, Some(table), key, value)) {
            Ok(()) => Ok(true),
            Err(Error::NotLast) => Ok(false),
            Err(error) => Err(self.fail_by(error)),
        }
    }

    /// A call of `mdb_cursor_put`. `data` gets the existing value, or the room that was made.
    pub(crate) fn cursor_put(
        &mut self,
        dbi: usize,
        place: &mut Place,
        key: &[u8],
        data: &mut Val,
        flags: u32,
    ) -> Answer {
        let view = self.prepared(dbi)?;
        Self::check_sizes(&view, key, data.size)?;
        if flags == MDB_CURRENT {
            return self.put_current(dbi, &view, place, data);
        }
        let flags = flags & !MDB_CURRENT;
        match self.put(dbi, key, *data, flags)? {
            Put::Done => self.stand(dbi, place, key.len(), data.size),
            Put::Reserved(address) => {
                data.data = address.cast();
                self.stand(dbi, place, key.len(), 0)
            }
            Put::Exists(old) => {
                let refused = RefusedBy::new(flags, old.is_some());
                self.stand_on_scratch(dbi, place, key.len(), refused)?;
                if let Some(old) = old {
                    *data = old;
                }
                Err(MDB_KEYEXIST)
            }
        }
    }

    /// Stands on what was just put: its key and (where a key may have several) its value are in the
    /// copy that was made of them, since the put may have moved what the caller named.
    fn stand(&mut self, dbi: usize, place: &mut Place, key: usize, value: usize) -> Answer {
        let view = self.prepared(dbi)?;
        let (key, behind) = self.scratch.split_at(key);
        if view.state & View::PLAIN == 0 {
            place.key.clear();
            place.key.extend_from_slice(key);
            place.set(false, false);
            return Ok(());
        }
        let Body::Write(txn) = &self.body else { return Ok(()) };
        let value = if view.has_duplicates() { &behind[..value] } else { &[] };
        place.stand(txn, view.table, key, value).map_err(|e| self.fail(&e))
    }

    /// As [`Txn::stand_on`]; the scratch has the key and what follows it.
    fn stand_on_scratch(
        &mut self,
        dbi: usize,
        place: &mut Place,
        len: usize,
        refused: RefusedBy,
    ) -> Answer {
        let scratch = std::mem::take(&mut self.scratch);
        let (key, value) = scratch.split_at(len);
        let stands = self.stand_on(dbi, place, key, value, refused);
        self.scratch = scratch;
        stands
    }

    /// Stands where LMDB's cursor does after a put that was refused: on what is there.
    fn stand_on(
        &mut self,
        dbi: usize,
        place: &mut Place,
        key: &[u8],
        value: &[u8],
        refused: RefusedBy,
    ) -> Answer {
        let (op, key, value) = match refused {
            RefusedBy::Entries => (op::LAST, None, None),
            RefusedBy::Key | RefusedBy::Values => (op::SET, Some(key), None),
            RefusedBy::Pair => (op::GET_BOTH, Some(key), Some(value)),
        };
        self.cursor_get(dbi, place, op, key, value)?;
        if let RefusedBy::Values = refused {
            self.cursor_get(dbi, place, op::LAST_DUP, None, Some(&[]))?;
        }
        Ok(())
    }

    fn put_current(
        &mut self,
        dbi: usize,
        view: &View,
        place: &mut Place,
        data: &mut Val,
    ) -> Answer {
        if !place.is_set() {
            return Err(libc::EINVAL);
        }
        if view.state & View::PLAIN == 0 {
            let key = place.key.clone();
            return self.put(dbi, &key, *data, 0).map(|_| ());
        }
        if data.size == 0 && view.has_duplicates() {
            return Err(MDB_BAD_VALSIZE);
        }
        let value = bytes_of(data).to_vec();
        self.arena.renew();
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let put = place.put_current(txn, &value);
        put.map_err(|stop| self.stopped(stop))
    }

    /// A call of `mdb_cursor_del`.
    pub(crate) fn cursor_delete(
        &mut self,
        dbi: usize,
        place: &mut Place,
        this: *const Cursor,
        flags: u32,
    ) -> Answer {
        let view = self.prepared(dbi)?;
        if view.state & View::PLAIN == 0 {
            return self.delete_in_main(dbi, place, this);
        }
        self.arena.renew();
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let whole_key = flags & MDB_NODUPDATA != 0;
        let deleted = place.delete(txn, view.has_duplicates(), whole_key);
        deleted.map_err(|stop| self.stopped(stop))?;
        self.heal(dbi, &view, Some(this))
    }

    fn delete_in_main(&mut self, dbi: usize, place: &mut Place, this: *const Cursor) -> Answer {
        if !place.is_set() {
            return Err(libc::EINVAL);
        }
        if place.is_at_end() {
            return Err(MDB_NOTFOUND);
        }
        let key = place.key.clone();
        self.delete(dbi, &key, None, Some(this))?;
        let view = self.prepared(dbi)?;
        let Body::Write(txn) = &self.body else { return Err(libc::EACCES) };
        let mut main = Self::main(&**txn, view.table, &mut self.names, &mut self.arena);
        main.heal(place).map_err(|e| self.fail(&e))
    }
}
