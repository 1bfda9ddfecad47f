//! Cursors of the interface: reading where they stand. Steps to what they know to be beside them
//! are in `beside`; putting and deleting there is in `change`.

use std::mem::MaybeUninit;

use hedgerow::tree::raw::{Ahead, Among, KeyRoom};
use hedgerow::tree::{Entry, ReadTxn, Snapshot, WriteTxn};

use crate::abi::*;
use crate::arena::Arena;
use crate::code::Answer;
use crate::handles::View;
use crate::place::{Place, Stop};
use crate::txn::{Body, Txn, on_body};

mod beside;
mod change;

/// `MDB_cursor`.
pub(crate) struct Cursor {
    /// Null when the transaction has ended.
    pub(crate) txn: *mut Txn,
    pub(crate) dbi: usize,
    /// Whether it knows what is beside it, which is one of the two that follow.
    knows_beside: bool,
    /// What MDB_NEXT and MDB_PREV give without asking where the cursor stands, which `place` does
    /// not know yet. Nothing but in a read transaction of which it is [`Txn::reading`]'s to say so.
    ahead: Ahead<'static>,
    /// The same among the values of a key.
    among: Option<Among<'static>>,
    place: Place,
    /// Where it stood when each of the transactions around this one began its child.
    pub(crate) saved: Vec<Place>,
    /// Whether it was opened in a write transaction.
    pub(crate) is_writing: bool,
    /// Whether copies of what it hands out stand in its own memory, until its next call, and not in
    /// the transaction's.
    is_brief: bool,
    own: Arena,
    /// Where such copies of keys stand that are steps to what is ahead.
    room: KeyRoom,
    /// The list that `mdb_cursor_list_dup` has handed out.
    list: Vec<Val>,
}

impl Cursor {
    /// A cursor of a transaction on a database, nowhere yet.
    pub(crate) fn new(txn: *mut Txn, dbi: usize, view: &View, is_writing: bool) -> Self {
        Self {
            txn,
            dbi,
            knows_beside: false,
            ahead: Ahead::NONE,
            among: None,
            place: Place::new(),
            saved: Vec::new(),
            is_writing,
            is_brief: view.is_brief(),
            own: Arena::new(),
            room: [MaybeUninit::uninit(); _],
            list: Vec::new(),
        }
    }

    /// Goes over to a database as another transaction sees it, nowhere yet.
    pub(crate) fn renew(&mut self, view: &View) {
        *self.place() = Place::new();
        self.is_brief = view.is_brief();
    }

    /// Where the cursor stands.
    #[inline(always)]
    pub(crate) fn place(&mut self) -> &mut Place {
        self.settle();
        &mut self.place
    }

    /// Whether copies of what it hands out stand in its own memory.
    #[inline(always)]
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Where the cursor stands, its own memory if that is where copies go, and its list.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut Place, Option<&mut Arena>, &mut Vec<Val>) {
        self.settle();
        (&mut self.place, self.is_brief.then_some(&mut self.own), &mut self.list)
    }

    /// Gives up what it knows of its leaf, having made sure that its place is right.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        if self.knows_beside {
            self.knows_beside = false;
            if self.is_among() {
                return self.settle_among();
            }
            if let Some(cursor) = self.place.cursor_mut() {
                cursor.follow(&mut self.ahead);
            }
            self.ahead.forget();
        }
    }

    #[inline(never)]
    fn settle_among(&mut self) {
        if let (Some(among), Some(cursor)) = (&self.among, self.place.cursor_mut()) {
            cursor.follow_among(among);
        }
        self.among = None;
    }
}

/// A cursor that stands on an entry about which there is nothing to add. Its calls are steps inside
/// a leaf: they fail in no way, and `None` means that nothing was done, since it is no such step or
/// a string is too long.
pub(crate) struct Here<'a, S> {
    txn: &'a S,
    place: &'a mut Place,
    arena: &'a mut Arena,
    /// Whether what was handed out last may be something else now: pages change, or memory is used
    /// again.
    changes: bool,
}

impl<S: Snapshot> Here<'_, S> {
    /// MDB_NEXT to a key with one value.
    #[inline(always)]
    pub(crate) fn next(self) -> Option<(Val, Val)> {
        let (key, value) = self.place.cursor_mut()?.next_joined(self.txn, self.arena.room())?;
        Some((self.arena.joined(key), Val::of(value)))
    }

    /// MDB_PREV to a key with one value.
    #[inline(always)]
    pub(crate) fn prev(self) -> Option<(Val, Val)> {
        let (key, value) = self.place.cursor_mut()?.prev_joined(self.txn, self.arena.room())?;
        Some((self.arena.joined(key), Val::of(value)))
    }

    /// MDB_NEXT_DUP, or MDB_NEXT among the values of a key.
    #[inline(always)]
    pub(crate) fn next_value(self) -> Option<(Val, Val)> {
        let cursor = self.place.cursor_mut()?;
        if let Some(pair) = cursor.value_beside_stored(self.txn, false) {
            return Some(self.stored(pair));
        }
        if !cursor.has_next_value() {
            return None;
        }
        let key = self.place.key_here(self.txn, self.arena, self.changes)?;
        let cursor = self.place.cursor_mut()?;
        let value = cursor.next_value_joined(self.txn, self.arena.room())?;
        Some((key, self.arena.joined(value)))
    }

    /// MDB_PREV_DUP, or MDB_PREV among the values of a key.
    #[inline(always)]
    pub(crate) fn prev_value(self) -> Option<(Val, Val)> {
        if let Some(pair) = self.place.cursor_mut()?.value_beside_stored(self.txn, true) {
            return Some(self.stored(pair));
        }
        let key = self.place.key_here(self.txn, self.arena, self.changes)?;
        let cursor = self.place.cursor_mut()?;
        let value = cursor.prev_value_joined(self.txn, self.arena.room())?;
        Some((key, self.arena.joined(value)))
    }

    /// A key and a value of the store's, each in one piece.
    #[inline(always)]
    fn stored(self, (key, value): (&[u8], &[u8])) -> (Val, Val) {
        (self.arena.stored(key), Val::of(value))
    }

    /// MDB_GET_CURRENT.
    #[inline(always)]
    pub(crate) fn current(self) -> Option<(Val, Val)> {
        if let Some(pair) = self.place.cursor()?.current_stored(self.txn) {
            return Some(self.stored(pair));
        }
        let key = self.place.key_here(self.txn, self.arena, self.changes)?;
        let cursor = self.place.cursor_mut()?;
        let value = cursor.current_joined(self.txn, self.arena.room())?;
        Some((key, self.arena.joined(value)))
    }

    /// Whether MDB_NEXT_DUP surely finds nothing.
    #[inline(always)]
    pub(crate) fn at_last_value(self) -> Option<()> {
        self.place.cursor_mut()?.is_on_last_value(self.txn).then_some(())
    }

    /// MDB_NEXT from the last value of a key to another one in the leaf, or with `back` MDB_PREV
    /// from the first. Where the step was made, and only the value cannot be given so, that is left
    /// to MDB_GET_CURRENT.
    #[inline(always)]
    pub(crate) fn beyond_values(self, back: bool) -> Option<Result<(Val, Val), MadeStep>> {
        let cursor = self.place.cursor()?;
        let has_more = if back { cursor.has_previous_value() } else { cursor.has_next_value() };
        if has_more { None } else { self.next_group(back) }
    }

    /// The same from any value of the key.
    #[inline(always)]
    pub(crate) fn next_group(self, back: bool) -> Option<Result<(Val, Val), MadeStep>> {
        let cursor = self.place.cursor_mut()?;
        if let Some(pair) = cursor.next_group_stored(self.txn, back) {
            return Some(Ok(self.stored(pair)));
        }
        let key = cursor.next_group_joined(self.txn, back, self.arena.room())?;
        let key = self.arena.joined(key);
        let group = cursor.group_id();
        let value = cursor.current_joined(self.txn, self.arena.room());
        self.place.note_given(group, key);
        Some(value.map(|value| (key, self.arena.joined(value))).ok_or(MadeStep))
    }
}

/// The cursor was moved, and what is there is still to be given.
pub(crate) struct MadeStep;

/// What a call of `mdb_cursor_get` hands out.
pub(crate) struct Given {
    pub(crate) key: Option<Val>,
    /// `None`: the cursor is on a key, and on none of its values.
    pub(crate) data: Option<Val>,
}

impl Txn {
    /// Whether a cursor stands on an entry about which there is nothing to add, and nothing keeps
    /// the transaction from going on.
    #[inline(always)]
    pub(crate) fn may_step(&self, place: &Place) -> bool {
        place.is_plain() && self.goes_on()
    }

    /// What a step inside a leaf needs, in a read transaction; of a cursor without its own memory.
    #[inline(always)]
    pub(crate) fn reading<'a>(&'a mut self, cursor: &'a mut Cursor) -> Option<Here<'a, ReadTxn>> {
        cursor.settle();
        match &self.body {
            Body::Read(txn) if !cursor.is_brief && self.may_step(&cursor.place) => {
                let (place, arena) = (&mut cursor.place, &mut self.arena);
                Some(Here { txn, place, arena, changes: false })
            }
            _ => None,
        }
    }

    /// The same, of a cursor with its own memory.
    #[inline(always)]
    pub(crate) fn briefly<'a>(&'a mut self, cursor: &'a mut Cursor) -> Option<Here<'a, ReadTxn>> {
        cursor.settle();
        match &self.body {
            Body::Read(txn) if cursor.is_brief && self.may_step(&cursor.place) => {
                let (place, arena) = (&mut cursor.place, cursor.own.rewound());
                Some(Here { txn, place, arena, changes: true })
            }
            _ => None,
        }
    }

    /// The same in a write transaction; of a cursor without its own memory.
    #[inline(always)]
    pub(crate) fn writing<'a>(&'a mut self, cursor: &'a mut Cursor) -> Option<Here<'a, WriteTxn>> {
        debug_assert!(cursor.is_writing);
        match &self.body {
            Body::Write(txn) if !cursor.is_brief && self.may_step(&cursor.place) => {
                let (place, arena) = (&mut cursor.place, &mut self.arena);
                Some(Here { txn, place, arena, changes: true })
            }
            _ => None,
        }
    }

    /// The same in a write transaction, of a cursor with its own memory.
    #[inline(always)]
    pub(crate) fn writing_briefly<'a>(
        &'a mut self,
        cursor: &'a mut Cursor,
    ) -> Option<Here<'a, WriteTxn>> {
        match &self.body {
            Body::Write(txn) if cursor.is_brief && self.may_step(&cursor.place) => {
                self.arena.note_given(true);
                let (place, arena) = (&mut cursor.place, cursor.own.rewound());
                Some(Here { txn, place, arena, changes: true })
            }
            _ => None,
        }
    }

    /// The usual calls: steps from an entry about which there is nothing to add, and searches, in a
    /// table that the cursor has seen before. `None`, and nothing done, for all that
    /// [`Txn::cursor_get`] has to see to.
    #[inline(always)]
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
        let arena = &mut self.arena;
        let found = hedgerow::on_txn!(&self.body, txn => {
            usual(txn, place, op, key, arena)?
        }, else return None);
        place.forget_gone();
        Some(found.map_err(|stop| self.stopped(stop)))
    }

    /// Goes to the first or last entry in a table that the cursor has seen before, in a read
    /// transaction; what is there is still to be given. `None`, and nothing done, elsewhere.
    #[inline(always)]
    pub(crate) fn cursor_to_end(
        &mut self,
        dbi: usize,
        place: &mut Place,
        last: bool,
    ) -> Option<Answer<MadeStep>> {
        let (table, _) = self.ready(dbi)?;
        if place.cursor_mut()?.table() != table {
            return None;
        }
        let Body::Read(txn) = &self.body else { return None };
        Some(match place.move_to_end(&**txn, last)? {
            Ok(true) => Ok(MadeStep),
            Ok(false) => Err(MDB_NOTFOUND),
            Err(error) => Err(self.fail_by(error)),
        })
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
            if op == op::GET_CURRENT && place.is_past_values() {
                // LMDB gives the key, and an absent value.
                let key = Some(arena.val(place.key_of_values(txn)?.key));
                return Ok(Given { key, data: None });
            }
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
            let tells_key = match op {
                op::SET | op::GET_BOTH | op::GET_BOTH_RANGE => false,
                op::FIRST_DUP | op::LAST_DUP => place.has_one_value(txn)?,
                _ => true,
            };
            let key = tells_key.then(|| arena.val(entry.key));
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
        (op::SET | op::SET_KEY, Some(key)) => place.seek(txn, key, false),
        (op::SET_RANGE, Some(key)) => place.seek(txn, key, true),
        _ => match place.step(txn, op)? {
            Ok(Some(entry)) => Ok(entry),
            Ok(None) => Err(Stop::Code(MDB_NOTFOUND)),
            Err(error) => Err(Stop::Engine(error)),
        },
    };
    Some(found.map(|entry| {
        // MDB_SET does not give the key.
        let key = if op == op::SET { Val::new(std::ptr::null(), 0) } else { arena.val(entry.key) };
        (key, arena.val(entry.value))
    }))
}
