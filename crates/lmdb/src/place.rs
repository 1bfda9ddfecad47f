//! Where a cursor of the interface stands: LMDB's states, kept beside a cursor of the engine.
//!
//! LMDB's cursor is an index in a page, and that shows: after its entry was deleted it stands on
//! the next one, which the next MDB_NEXT gives out instead of leaving; after the last one it is
//! past the end. The engine's cursor stands on an entry, and these bits say the rest.

use hedgerow::Error;
use hedgerow::tree::{Cursor, Entry, Snapshot, Table, WriteTxn};

use crate::abi::*;
use crate::arena::Arena;
use crate::code::Code;

/// A cursor's place in one table.
#[derive(Clone)]
pub(crate) struct Place {
    state: u8,
    /// `None` while there is no table, and after the transaction was reset.
    cursor: Option<Cursor>,
    /// Where the cursor stands in a main database with named ones, or stood when its transaction
    /// was reset.
    pub(crate) key: Vec<u8>,
    /// The value on which it stood then, if a key may have several.
    value: Vec<u8>,
    /// The key that was handed out last with one of several values, and the group that has it: its
    /// other values are handed out with the same one.
    given: (usize, Val),
}

/// It stands somewhere.
const SET: u8 = 1;
/// Past the last entry.
const END: u8 = 2;
/// Its key was deleted: it stands on the next one.
const KEY_GONE: u8 = 4;
/// Its value was deleted: it stands on the next one of the key.
const VALUE_GONE: u8 = 8;
/// The last value of its key was deleted: it stands after the others, logically; the engine's
/// cursor is on the last one left.
const PAST_VALUES: u8 = 16;
/// A search for a key that is missing ended on this one, and on none of its several values: a step
/// by value goes to the first or the last of them. The engine's cursor is on the first.
const NO_VALUE: u8 = 32;

/// Why a call gives nothing.
pub(crate) enum Stop {
    /// Something that is said by a code alone.
    Code(Code),
    /// A failure of the engine.
    Engine(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Code> for Stop {
    fn from(code: Code) -> Self {
        Self::Code(code)
    }
}

/// What a step gives.
pub(crate) type Found<'t> = Result<Entry<'t>, Stop>;

/// Of no group.
const NOT_GIVEN: (usize, Val) = (0, Val { size: 0, data: std::ptr::null_mut() });

const NOTHING: Stop = Stop::Code(MDB_NOTFOUND);
const NOWHERE: Stop = Stop::Code(libc::EINVAL);

fn or_nothing<'t>(found: hedgerow::Result<Option<Entry<'t>>>) -> Found<'t> {
    found?.ok_or(NOTHING)
}

impl Place {
    /// Nowhere, in no table.
    pub(crate) const fn new() -> Self {
        Self { state: 0, cursor: None, key: Vec::new(), value: Vec::new(), given: NOT_GIVEN }
    }

    /// Whether it stands on an entry about which there is nothing to add, so that
    /// [`Place::cursor_mut`] may be moved on.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.state == SET
    }

    #[inline(always)]
    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    #[inline(always)]
    pub(crate) fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        self.cursor.as_mut()
    }

    /// The key under the cursor, which stands on an entry, if it is short. What was handed out
    /// before for the same group is handed out again, unless the transaction `changes` its pages.
    #[inline(always)]
    pub(crate) fn key_here<S: Snapshot>(
        &mut self,
        txn: &S,
        arena: &mut Arena,
        changes: bool,
    ) -> Option<Val> {
        let cursor = self.cursor.as_mut()?;
        let group = cursor.group_id();
        if changes || self.given.0 != group {
            let key = cursor.key_joined(txn, arena.room())?;
            let key = arena.joined(key);
            self.note_given(group, key);
        }
        Some(self.given.1)
    }

    /// A key was handed out for a group.
    #[inline(always)]
    pub(crate) fn note_given(&mut self, group: usize, key: Val) {
        self.given = (group, key);
    }

    /// Goes to the first or last entry, if there is a table.
    #[inline(always)]
    pub(crate) fn move_to_end<S: Snapshot>(
        &mut self,
        txn: &S,
        last: bool,
    ) -> Option<hedgerow::Result<bool>> {
        let moved = self.cursor.as_mut()?.move_to_end(txn, last);
        match moved {
            Ok(true) => self.state = SET,
            _ => self.forget_gone(),
        }
        Some(moved)
    }

    /// Whether it stands somewhere.
    pub(crate) fn is_set(&self) -> bool {
        self.state & SET != 0
    }

    /// Whether it stands after the values of its key, on none of them.
    pub(crate) fn is_past_values(&self) -> bool {
        self.state & PAST_VALUES != 0
    }

    /// Past the last entry.
    pub(crate) fn is_at_end(&self) -> bool {
        self.state & END != 0
    }

    /// Whether its key was deleted, so that a step forward gives the entry on which it stands.
    pub(crate) fn is_key_gone(&self) -> bool {
        self.state & KEY_GONE != 0
    }

    /// Whether it stands on a key of several values, and on none of them.
    pub(crate) fn is_on_no_value(&self) -> bool {
        self.state & NO_VALUE != 0
    }

    /// Stands on an entry, past the end, or where one was deleted. For the main database.
    pub(crate) fn set(&mut self, at_end: bool, key_gone: bool) {
        self.state = SET | if at_end { END } else { 0 } | if key_gone { KEY_GONE } else { 0 };
    }

    /// Stands nowhere.
    pub(crate) fn unset(&mut self) {
        self.state = 0;
    }

    /// Every call but a delete ends the memory of a deleted key.
    #[inline(always)]
    pub(crate) fn forget_gone(&mut self) {
        self.state &= !KEY_GONE;
    }

    /// Moves to a table, or makes sure that it is in that table.
    #[inline(always)]
    pub(crate) fn attach<S: Snapshot>(
        &mut self,
        txn: &S,
        table: Option<Table>,
    ) -> Result<(), Error> {
        if self.cursor.as_ref().map(Cursor::table) != table {
            return self.move_to(txn, table);
        }
        Ok(())
    }

    #[cold]
    fn move_to<S: Snapshot>(&mut self, txn: &S, table: Option<Table>) -> Result<(), Error> {
        let rests = self.cursor.is_none() && self.is_set();
        self.cursor = table.map(|table| txn.cursor(table)).transpose()?;
        self.given = NOT_GIVEN;
        if rests {
            return self.wake(txn);
        }
        self.state = 0;
        Ok(())
    }

    /// The snapshot goes; keeps what finds the place again in another one. LMDB's cursor is still
    /// on its page then, and programs go on from there without `mdb_cursor_renew`.
    pub(crate) fn rest<S: Snapshot>(&mut self, txn: &S) {
        let Some(mut cursor) = self.cursor.take() else { return };
        let kept = cursor.copy_entry(txn, &mut self.key, &mut self.value);
        if !matches!(kept, Ok(true)) && !self.is_at_end() {
            self.unset();
        }
    }

    /// Stands where it rests, or where its entry was.
    fn wake<S: Snapshot>(&mut self, txn: &S) -> Result<(), Error> {
        let Some(cursor) = self.cursor.as_mut().filter(|_| self.state & END == 0) else {
            return Ok(());
        };
        let (key, value) = (&self.key, &self.value);
        let dups = cursor.has_duplicates();
        if dups && cursor.seek_pair(txn, key, value)?.is_some() {
            return Ok(());
        }
        if dups && cursor.seek_value_at_or_after(txn, key, value)?.is_some() {
            self.state = SET | VALUE_GONE;
            return Ok(());
        }
        match cursor.seek_near(txn, key)?.map(|(_, exact)| exact) {
            Some(true) if dups => {
                cursor.last_value(txn)?;
                self.state = SET | PAST_VALUES;
            }
            Some(true) => {}
            Some(false) => self.state = SET | KEY_GONE,
            None => self.state = SET | END | KEY_GONE,
        }
        Ok(())
    }

    /// Moves the engine's cursor and stands on its new place.
    fn go<'t>(
        &mut self,
        step: impl FnOnce(&mut Cursor) -> hedgerow::Result<Option<Entry<'t>>>,
    ) -> Found<'t> {
        let Some(cursor) = &mut self.cursor else { return Err(NOTHING) };
        let entry = or_nothing(step(cursor))?;
        self.state = SET;
        Ok(entry)
    }

    /// MDB_FIRST and MDB_LAST, and a step to a neighbour, or none, from an entry about which there
    /// is nothing to add. `None`, and nothing done, elsewhere and for other operations.
    #[inline(always)]
    pub(crate) fn step<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        op: u32,
    ) -> Option<hedgerow::Result<Option<Entry<'t>>>> {
        let is_plain = self.state == SET;
        let cursor = self.cursor.as_mut()?;
        let found = match op {
            op::FIRST => cursor.first(txn),
            op::LAST => cursor.last(txn),
            op::NEXT if is_plain => cursor.next(txn),
            op::NEXT_DUP if is_plain => cursor.next_value(txn),
            op::NEXT_NODUP if is_plain => cursor.next_key(txn),
            op::PREV if is_plain => cursor.prev(txn),
            op::PREV_DUP if is_plain => cursor.prev_value(txn),
            op::PREV_NODUP if is_plain => cursor.prev_key(txn),
            op::GET_CURRENT if is_plain => cursor.current(txn),
            _ => return None,
        };
        if let Ok(Some(_)) = found {
            self.state = SET;
        }
        Some(found)
    }

    /// MDB_FIRST.
    pub(crate) fn first<'t, S: Snapshot>(&mut self, txn: &'t S) -> Found<'t> {
        self.go(|cursor| cursor.first(txn))
    }

    /// MDB_LAST.
    pub(crate) fn last<'t, S: Snapshot>(&mut self, txn: &'t S) -> Found<'t> {
        self.go(|cursor| cursor.last(txn))
    }

    /// MDB_GET_CURRENT.
    pub(crate) fn current<'t, S: Snapshot>(&mut self, txn: &'t S) -> Found<'t> {
        if !self.is_set() {
            return Err(NOWHERE);
        }
        if self.state & (END | PAST_VALUES) != 0 {
            return Err(NOTHING);
        }
        if self.is_on_no_value() {
            return Err(NOWHERE);
        }
        self.go(|cursor| cursor.current(txn))
    }

    /// The key after whose values it stands.
    pub(crate) fn key_of_values<'t, S: Snapshot>(&mut self, txn: &'t S) -> Found<'t> {
        let cursor = self.cursor.as_mut().ok_or(NOTHING)?;
        or_nothing(cursor.current(txn))
    }

    /// MDB_NEXT, MDB_NEXT_DUP, MDB_NEXT_NODUP.
    pub(crate) fn next<'t, S: Snapshot>(&mut self, txn: &'t S, op: u32, dups: bool) -> Found<'t> {
        if op == op::NEXT_DUP && (self.is_key_gone() || self.is_set() && !dups) {
            return Err(NOTHING);
        }
        if !self.is_set() {
            return self.first(txn);
        }
        if self.is_at_end() {
            return Err(NOTHING);
        }
        if self.state & PAST_VALUES != 0 {
            return match op {
                op::NEXT_DUP => Err(NOTHING),
                _ => self.go(|cursor| cursor.next_key(txn)),
            };
        }
        let is_before_value = self.state & (VALUE_GONE | NO_VALUE) != 0;
        if self.is_key_gone() || is_before_value && op != op::NEXT_NODUP {
            return self.go(|cursor| cursor.current(txn));
        }
        self.go(|cursor| match op {
            op::NEXT => cursor.next(txn),
            op::NEXT_DUP => cursor.next_value(txn),
            _ => cursor.next_key(txn),
        })
    }

    /// MDB_PREV, MDB_PREV_DUP, MDB_PREV_NODUP.
    pub(crate) fn prev<'t, S: Snapshot>(&mut self, txn: &'t S, op: u32, dups: bool) -> Found<'t> {
        if !self.is_set() {
            return self.last(txn);
        }
        if op == op::PREV_DUP && (!dups || self.is_at_end()) {
            return Err(NOTHING);
        }
        if self.is_at_end() {
            return self.last(txn);
        }
        // Others may have put values behind those that were left.
        if self.state & (PAST_VALUES | NO_VALUE) != 0 && op != op::PREV_NODUP {
            return self.go(|cursor| cursor.last_value(txn));
        }
        self.go(|cursor| match op {
            op::PREV => cursor.prev(txn),
            op::PREV_DUP => cursor.prev_value(txn),
            _ => cursor.prev_key(txn),
        })
    }

    /// MDB_FIRST_DUP (or, with `last`, MDB_LAST_DUP).
    pub(crate) fn within_key<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        dups: bool,
        last: bool,
    ) -> Found<'t> {
        if !self.is_set() {
            return Err(NOWHERE);
        }
        if !dups {
            return Err(Stop::Code(MDB_INCOMPATIBLE));
        }
        if self.is_at_end() {
            return Err(NOTHING);
        }
        if self.is_on_no_value() {
            return Err(NOWHERE);
        }
        let kept = self.state & VALUE_GONE;
        let found = self.go(|cursor| match last {
            true => cursor.last_value(txn),
            false => cursor.first_value(txn),
        });
        self.state |= kept;
        found
    }

    /// MDB_SET, MDB_SET_KEY, or with `range` MDB_SET_RANGE. Where the key is missing the cursor
    /// stands on the next one, but if that has several values, on none of them.
    pub(crate) fn seek<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        range: bool,
    ) -> Found<'t> {
        if key.is_empty() {
            return Err(Stop::Code(MDB_BAD_VALSIZE));
        }
        let Some(cursor) = &mut self.cursor else { return Err(NOTHING) };
        match cursor.seek_near(txn, key)? {
            Some((entry, exact)) if exact || range => {
                self.state = SET;
                Ok(entry)
            }
            Some(_) => {
                let has_several = cursor.has_duplicates() && !cursor.has_one_value(txn)?;
                self.state = SET | if has_several { NO_VALUE } else { 0 };
                Err(NOTHING)
            }
            None => {
                self.state = if txn.count(cursor.table())?.values == 0 { 0 } else { SET | END };
                Err(NOTHING)
            }
        }
    }

    /// MDB_GET_BOTH, or with `range` MDB_GET_BOTH_RANGE. If only the value is missing, the cursor
    /// stands on the key's next one, or after all of them.
    pub(crate) fn seek_pair<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
        range: bool,
    ) -> Found<'t> {
        if key.is_empty() {
            return Err(Stop::Code(MDB_BAD_VALSIZE));
        }
        let found = self.go(|cursor| match range {
            true => cursor.seek_value_at_or_after(txn, key, value),
            false => cursor.seek_pair(txn, key, value),
        });
        if let Err(Stop::Code(MDB_NOTFOUND)) = found {
            _ = self.seek(txn, key, false)?;
            self.stand_near_value(txn, key, value)?;
        }
        found
    }

    /// Stands on the first value that is not before the missing one, or after all values. The key
    /// is there, and the cursor is on its first value; if that is the only one, the cursor stays.
    fn stand_near_value<S: Snapshot>(
        &mut self,
        txn: &S,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if !cursor.has_one_value(txn)? && cursor.seek_value_at_or_after(txn, key, value)?.is_none()
        {
            cursor.seek_near(txn, key)?;
            cursor.last_value(txn)?;
            self.state = SET | PAST_VALUES;
        }
        Ok(())
    }

    /// Stands on the pair with `n` pairs before it.
    pub(crate) fn seek_nth<'t, S: Snapshot>(&mut self, txn: &'t S, n: u64) -> Found<'t> {
        self.go(|cursor| cursor.seek_nth(txn, n))
    }

    /// Whether the key that it stands on has one value.
    pub(crate) fn has_one_value<S: Snapshot>(&mut self, txn: &S) -> Result<bool, Error> {
        self.cursor.as_mut().map_or(Ok(false), |cursor| cursor.has_one_value(txn))
    }

    /// How many values the key has.
    pub(crate) fn count<S: Snapshot>(&mut self, txn: &S) -> Result<u64, Stop> {
        if !self.is_set() || self.is_on_no_value() {
            return Err(NOWHERE);
        }
        match &mut self.cursor {
            Some(cursor) if self.state & END == 0 => Ok(cursor.value_count(txn)?),
            _ => Err(NOTHING),
        }
    }

    /// Stands on an entry that was just put.
    #[inline(always)]
    pub(crate) fn stand(
        &mut self,
        txn: &WriteTxn,
        table: Option<Table>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        self.attach(txn, table)?;
        if let Some(cursor) = &mut self.cursor {
            cursor.stand_on(txn, key, value)?;
            self.state = SET;
        }
        Ok(())
    }

    /// Replaces the value under the cursor.
    pub(crate) fn put_current(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<(), Stop> {
        if !self.is_set() || self.is_on_no_value() {
            return Err(NOWHERE);
        }
        if self.is_at_end() {
            return Err(NOTHING);
        }
        let Some(cursor) = &mut self.cursor else { return Err(NOTHING) };
        or_nothing(cursor.current(txn))?;
        cursor.put_current(txn, value)?;
        self.state = SET;
        Ok(())
    }

    /// Deletes where the cursor stands: the key with all its values, or one value.
    pub(crate) fn delete(
        &mut self,
        txn: &mut WriteTxn,
        dups: bool,
        whole_key: bool,
    ) -> Result<(), Stop> {
        if !self.is_set() || self.is_on_no_value() && !whole_key {
            return Err(NOWHERE);
        }
        if self.is_at_end() || self.state & PAST_VALUES != 0 && !whole_key {
            return Err(NOTHING);
        }
        let Some(cursor) = &mut self.cursor else { return Err(NOTHING) };
        or_nothing(cursor.current(txn))?;
        match whole_key && dups {
            true => cursor.delete_key(txn)?,
            false => cursor.delete(txn)?,
        };
        Ok(self.settle(txn, dups)?)
    }

    /// After something was deleted by another cursor or by key: if it was this cursor's entry, the
    /// cursor stands on the next one.
    pub(crate) fn heal<S: Snapshot>(&mut self, txn: &S, dups: bool) -> Result<(), Error> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if self.state & SET == 0 {
            return Ok(());
        }
        if txn.count(cursor.table())?.values == 0 {
            self.state = 0;
        } else if self.state & END == 0 && !cursor.is_on_entry(txn)? {
            self.settle(txn, dups)?;
        }
        Ok(())
    }

    /// The entry under the cursor is gone.
    fn settle<S: Snapshot>(&mut self, txn: &S, dups: bool) -> Result<(), Error> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if !dups {
            let at_end = cursor.current(txn)?.is_none();
            let is_empty = at_end && txn.count(cursor.table())?.values == 0;
            self.state = match (is_empty, at_end) {
                (true, _) => 0,
                (false, true) => SET | END | KEY_GONE,
                (false, false) => SET | KEY_GONE,
            };
            return Ok(());
        }
        let key = cursor.last_key().to_vec();
        let behind = cursor.current(txn)?;
        if behind.as_ref().is_some_and(|entry| entry.key == key) {
            self.state = SET | VALUE_GONE;
            return Ok(());
        }
        let at_end = behind.is_none();
        let mut before = cursor.clone();
        let previous = before.prev(txn)?;
        if previous.as_ref().is_some_and(|entry| entry.key == key) {
            self.state = SET | PAST_VALUES;
            *cursor = before;
            return Ok(());
        }
        self.state = match (previous.is_none() && at_end, at_end) {
            (true, _) => 0,
            (false, true) => SET | END | KEY_GONE,
            (false, false) => SET | KEY_GONE,
        };
        Ok(())
    }
}
