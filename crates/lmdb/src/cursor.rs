//! Cursors of the interface: reading, putting and deleting where they stand.

use hedgerow::tree::{Entry, Joined, Snapshot};

use crate::abi::*;
use crate::arena::Arena;
use crate::code::Answer;
use crate::data::Put;
use crate::handles::View;
use crate::place::{Place, Stop};
use crate::txn::{BLOCKED, Body, Txn, on_body};

/// `MDB_cursor`.
pub(crate) struct Cursor {
    /// Null when the transaction has ended.
    pub(crate) txn: *mut Txn,
    pub(crate) dbi: usize,
    pub(crate) place: Place,
    /// Where it stood when each of the transactions around this one began its child.
    pub(crate) saved: Vec<Place>,
    /// Whether it was opened in a write transaction.
    pub(crate) is_writing: bool,
}

/// What a call of `mdb_cursor_get` hands out.
pub(crate) struct Given {
    pub(crate) key: Option<Val>,
    pub(crate) data: Option<Val>,
}

impl Txn {
    /// Whether a cursor stands on an entry about which there is nothing to add, and nothing keeps
    /// the transaction from going on.
    #[inline(always)]
    pub(crate) fn may_step(&self, place: &Place) -> bool {
        place.is_plain() && self.flags & BLOCKED == 0 && !self.interrupt.is_set()
    }

    /// What needs no other page than the leaf under the cursor, in a read transaction: in the fewest
    /// steps. `None`, and nothing done, for all that [`Txn::cursor_usual`] has to see to.
    #[inline(always)]
    pub(crate) fn cursor_here(&mut self, place: &mut Place, op: u32) -> Option<Answer<(Val, Val)>> {
        if !self.may_step(place) {
            return None;
        }
        let (Body::Read(txn), arena) = (&self.body, &mut self.arena) else { return None };
        let cursor = place.cursor_mut()?;
        let value = match op {
            op::PREV if let Some((key, value)) = cursor.prev_joined(txn, arena.room()) => {
                return Some(Ok((arena.joined(key), arena.joined(Joined::Stored(value)))));
            }
            op::NEXT | op::NEXT_DUP => cursor.value_joined(txn, false, arena.room())?,
            op::PREV | op::PREV_DUP => cursor.value_joined(txn, true, arena.room())?,
            op::GET_CURRENT => Some(cursor.current_joined(txn, arena.room())?),
            _ => return None,
        };
        let Some(value) = value else {
            let within_key = matches!(op, op::NEXT_DUP | op::PREV_DUP);
            return within_key.then_some(Err(MDB_NOTFOUND));
        };
        let value = arena.joined(value);
        match place.key_here(txn, arena) {
            Ok(key) => Some(Ok((key, value))),
            Err(stop) => Some(Err(self.stopped(stop))),
        }
    }

    /// The usual calls: steps from an entry about which there is nothing to add, and searches, in a
    /// table that the cursor has seen before. `None`, and nothing done, for all that
    /// [`Txn::cursor_get`] has to see to.
    pub(crate) fn cursor_usual(
        &mut self,
        dbi: usize,
        place: &mut Place,
        op: u32,
        key: Option<&[u8]>,
    ) -> Option<Answer<(Val, Val)>> {
        let (table, _) = self.ready(dbi)?;
        if place.cursor_mut()?.table() != table {
            return None;
        }
        let found = match &self.body {
            Body::Read(txn) => usual(txn, place, op, key, &mut self.arena)?,
            Body::Write(txn) => usual(&**txn, place, op, key, &mut self.arena)?,
            Body::None => return None,
        };
        place.forget_gone();
        Some(found.map_err(|stop| self.stopped(stop)))
    }

    /// A call of `mdb_cursor_get`.
    pub(crate) fn cursor_get(
        &mut self,
        dbi: usize,
        place: &mut Place,
        op: u32,
        key: Option<&[u8]>,
        data: Option<&[u8]>,
    ) -> Answer<Given> {
        let view = self.prepared(dbi)?;
        if view.table.is_some() && view.state & View::PLAIN == 0 || view.table.is_none() {
            return self.cursor_get_in_main(dbi, &view, place, op, key);
        }
        let multiple = matches!(op, op::GET_MULTIPLE | op::NEXT_MULTIPLE | op::PREV_MULTIPLE);
        let result = match multiple {
            true => self.get_multiple(&view, place, op, data),
            false => self.step(&view, place, op, key, data),
        };
        place.forget_gone();
        result.map_err(|stop| self.stopped(stop))
    }

    /// The code of what stopped a call.
    pub(crate) fn stopped(&mut self, stop: Stop) -> i32 {
        match stop {
            Stop::Code(code) => code,
            Stop::Engine(error) => self.fail(&error),
        }
    }

    fn step(
        &mut self,
        view: &View,
        place: &mut Place,
        op: u32,
        key: Option<&[u8]>,
        data: Option<&[u8]>,
    ) -> Result<Given, Stop> {
        let (dups, arena) = (view.has_duplicates(), &mut self.arena);
        on_body!(&self.body, txn => {
            place.attach(txn, view.table)?;
            let entry: Entry<'_> = match op {
                op::FIRST => place.first(txn)?,
                op::LAST => place.last(txn)?,
                op::GET_CURRENT => place.current(txn)?,
                op::NEXT | op::NEXT_DUP | op::NEXT_NODUP => place.next(txn, op, dups)?,
                op::PREV | op::PREV_DUP | op::PREV_NODUP => place.prev(txn, op, dups)?,
                op::FIRST_DUP | op::LAST_DUP if data.is_none() => {
                    return Err(Stop::Code(libc::EINVAL));
                }
                op::FIRST_DUP => place.within_key(txn, dups, false)?,
                op::LAST_DUP => place.within_key(txn, dups, true)?,
                op::GET_BOTH | op::GET_BOTH_RANGE => {
                    let data = data.ok_or(Stop::Code(libc::EINVAL))?;
                    if !dups {
                        return Err(Stop::Code(MDB_INCOMPATIBLE));
                    }
                    let key = key.ok_or(Stop::Code(libc::EINVAL))?;
                    place.seek_pair(txn, key, data, op == op::GET_BOTH_RANGE)?
                }
                op::SET | op::SET_KEY | op::SET_RANGE => {
                    let key = key.ok_or(Stop::Code(libc::EINVAL))?;
                    place.seek(txn, key, op == op::SET_RANGE)?
                }
                _ => return Err(Stop::Code(libc::EINVAL)),
            };
            let key = match op {
                op::SET | op::GET_BOTH | op::GET_BOTH_RANGE | op::FIRST_DUP | op::LAST_DUP => None,
                _ => Some(arena.val(entry.key)),
            };
            Ok(Given { key, data: Some(arena.val(entry.value)) })
        })
    }

    #[cold]
    fn cursor_get_in_main(
        &mut self,
        dbi: usize,
        view: &View,
        place: &mut Place,
        op: u32,
        key: Option<&[u8]>,
    ) -> Answer<Given> {
        if dbi != MAIN {
            // There is no such table in this snapshot.
            return Err(if op == op::GET_CURRENT { libc::EINVAL } else { MDB_NOTFOUND });
        }
        let (names, arena) = (&mut self.names, &mut self.arena);
        let found = on_body!(&self.body, txn => {
            Self::main(txn, view.table, names, arena).step(place, op, key)
        });
        place.forget_gone();
        let pair = found.map_err(|stop| self.stopped(stop))?;
        let key = (op != op::SET).then_some(pair.key);
        Ok(Given { key, data: Some(pair.value) })
    }

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
            // LMDB's cursor stands on the last entry then.
            return Some(self.stand_on(dbi, place, None).and(done));
        }
        Some(done)
    }

    /// A call of `mdb_cursor_put`. `data` is told what is there, or where room was made.
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
                // LMDB's cursor stands on what is there.
                let at_last = flags & MDB_APPEND != 0 && old.is_none();
                self.stand_on(dbi, place, (!at_last).then_some(key))?;
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

    /// Stands on a key that is there, or on the last entry.
    fn stand_on(&mut self, dbi: usize, place: &mut Place, key: Option<&[u8]>) -> Answer {
        let op = if key.is_some() { op::SET } else { op::LAST };
        self.cursor_get(dbi, place, op, key, None).map(|_| ())
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
        self.arena.renew();
        let value = crate::ffi::bytes_of(data).to_vec();
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
            return self.delete_in_main(dbi, place);
        }
        self.arena.renew();
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let whole_key = flags & MDB_NODUPDATA != 0;
        let deleted = place.delete(txn, view.has_duplicates(), whole_key);
        deleted.map_err(|stop| self.stopped(stop))?;
        self.heal(dbi, &view, Some(this))
    }

    fn delete_in_main(&mut self, dbi: usize, place: &mut Place) -> Answer {
        if !place.is_set() {
            return Err(libc::EINVAL);
        }
        if place.is_at_end() {
            return Err(MDB_NOTFOUND);
        }
        let key = place.key.clone();
        self.delete(dbi, &key, None)?;
        let next = self.cursor_get(dbi, place, op::SET_RANGE, Some(&key), None);
        place.set(next.is_err(), true);
        Ok(())
    }

    /// A call of `mdb_cursor_count`.
    pub(crate) fn cursor_count(&mut self, dbi: usize, place: &mut Place) -> Answer<u64> {
        let view = self.prepared(dbi)?;
        if !view.has_duplicates() {
            return Err(MDB_INCOMPATIBLE);
        }
        let counted = on_body!(&self.body, txn => {
            let attached = place.attach(txn, view.table).map_err(Stop::Engine);
            attached.and_then(|()| place.count(txn))
        });
        counted.map_err(|stop| self.stopped(stop))
    }
}

/// See [`Txn::cursor_usual`].
#[inline(always)]
fn usual<S: Snapshot>(
    txn: &S,
    place: &mut Place,
    op: u32,
    key: Option<&[u8]>,
    arena: &mut Arena,
) -> Option<Result<(Val, Val), Stop>> {
    let found = match (op, key) {
        (op::FIRST, _) => place.first(txn),
        (op::LAST, _) => place.last(txn),
        (op::SET | op::SET_KEY, Some(key)) => place.seek(txn, key, false),
        (op::SET_RANGE, Some(key)) => place.seek(txn, key, true),
        _ => place.step(txn, op)?,
    };
    Some(found.map(|entry| {
        // MDB_SET does not tell the key.
        let key = if op == op::SET { Val::new(std::ptr::null(), 0) } else { arena.val(entry.key) };
        (key, arena.val(entry.value))
    }))
}
