//! Steps of a cursor to the entries beside it, of which it knows already where they stand.

use hedgerow::tree::raw::{Ahead, Joined, KeyRoom};
use hedgerow::tree::{self, ReadTxn};

use super::Cursor;
use crate::abi::Val;
use crate::txn::{BLOCKED, Body, Txn};

/// What a step gives: a key, of which a copy stands in the room that it was given, and a value.
type Pair = (Joined<'static>, &'static [u8]);

impl Cursor {
    /// MDB_NEXT to the next key of the leaf, if it is known to stand in one piece and its value is
    /// short: by as few steps as that takes, none of which asks whether the transaction may go on.
    /// `None`, and nothing done, elsewhere.
    #[inline(always)]
    pub(crate) fn next_short(&mut self) -> Option<(Val, Val)> {
        self.ahead.step_short(|key, value| (Val::of(key), Val::of(value)))
    }

    /// The same for MDB_PREV.
    #[inline(always)]
    pub(crate) fn prev_short(&mut self) -> Option<(Val, Val)> {
        self.ahead.back_short(|key, value| (Val::of(key), Val::of(value)))
    }

    /// MDB_PREV to a key that is known to stand in one piece, in the same leaf or in the one before
    /// if the cursor knows that already; key and value go to `give`. `None`, and nothing done,
    /// elsewhere. `txn` is the cursor's.
    #[inline(always)]
    pub(crate) fn prev_stored<R>(
        &mut self,
        txn: &Txn,
        give: impl FnOnce((Val, Val)) -> R,
    ) -> Option<R> {
        if !txn.goes_on() {
            return None;
        }
        match self.ahead.back_stored() {
            Some((key, value)) => Some(give((Val::of(key), Val::of(value)))),
            None => self.ahead.back_stored_leaf(|key, value| give((Val::of(key), Val::of(value)))),
        }
    }

    /// Whether [`Cursor::prev_dense`] may be the step to the key before.
    #[inline(always)]
    pub(crate) fn is_dense(&self) -> bool {
        self.ahead.is_of_dense_leaf()
    }

    /// As [`Cursor::prev_stored`], to a key that does not stand in one piece.
    #[inline(always)]
    pub(crate) fn prev_dense(&mut self, txn: &mut Txn) -> Option<(Val, Val)> {
        if !txn.goes_on() {
            return None;
        }
        if self.is_brief {
            return self.in_own_room(|ahead, room| match ahead.back() {
                Some(step) => Some(step.joined_again(room)),
                None => ahead.back_leaf(room),
            });
        }
        let room = txn.arena.key_room()?;
        let (key, value) = match self.ahead.back() {
            Some(step) => step.joined(room),
            None => self.ahead.back_leaf(room)?,
        };
        Some((txn.arena.short(key), Val::of(value)))
    }

    /// MDB_NEXT inside a leaf whose keys share a beginning, of a cursor with its own memory, as
    /// [`Cursor::next_short`]; nothing is asked of the transaction.
    #[inline(always)]
    pub(crate) fn next_brief(&mut self) -> Option<(Val, Val)> {
        self.in_own_room(|ahead, room| Some(ahead.step()?.joined_again(room)))
    }

    /// The same for MDB_PREV.
    #[inline(always)]
    pub(crate) fn prev_brief(&mut self) -> Option<(Val, Val)> {
        self.in_own_room(|ahead, room| Some(ahead.back()?.joined_again(room)))
    }

    /// Makes a step whose key may be put together in the cursor's room.
    #[inline(always)]
    fn in_own_room(
        &mut self,
        step: impl FnOnce(&mut Ahead<'static>, &mut KeyRoom) -> Option<Pair>,
    ) -> Option<(Val, Val)> {
        let (key, value) = step(&mut self.ahead, &mut self.room)?;
        let key = match key {
            Joined::Stored(whole) => Val::of(whole),
            Joined::Copied(len) => Val::new(self.room.as_ptr().cast(), len),
        };
        Some((key, Val::of(value)))
    }

    /// Whether the next key is known to stand in one piece.
    #[inline(always)]
    pub(crate) fn is_next_stored(&self) -> bool {
        self.ahead.is_stored()
    }

    /// MDB_NEXT to such a key. `None`, and nothing done, for all that needs the leaf itself. `txn`
    /// is the cursor's.
    #[inline(always)]
    pub(crate) fn next_stored(&mut self, txn: &Txn) -> Option<(Val, Val)> {
        if !txn.goes_on() {
            return None;
        }
        let (key, value) = self.ahead.step_stored()?;
        Some((Val::of(key), Val::of(value)))
    }

    /// Whether [`Cursor::next_ahead`] is the step to the next key.
    #[inline(always)]
    pub(crate) fn is_next_dense(&self) -> bool {
        self.ahead.is_dense()
    }

    /// MDB_NEXT, where it is a step inside a leaf of which the cursor knows already that it is one,
    /// of a cursor without its own memory. `None`, and nothing done, elsewhere. `txn` is the
    /// cursor's.
    #[inline(always)]
    pub(crate) fn next_ahead(&mut self, txn: &mut Txn) -> Option<(Val, Val)> {
        if !txn.goes_on() {
            return None;
        }
        // The room first: what was stepped over would be lost.
        let room = txn.arena.key_room()?;
        let (key, value) = self.ahead.step()?.joined(room);
        Some((txn.arena.short(key), Val::of(value)))
    }

    /// MDB_NEXT from the last key of a leaf whose keys stand in one piece, where the cursor knows
    /// already which leaf is next; key and value go to `give`. `None`, and nothing done, elsewhere.
    /// `txn` is the cursor's.
    #[inline(always)]
    pub(crate) fn next_stored_leaf<R>(
        &mut self,
        txn: &Txn,
        give: impl FnOnce((Val, Val)) -> R,
    ) -> Option<R> {
        if txn.flags & BLOCKED != 0 {
            return None;
        }
        self.ahead.next_stored_leaf(|key, value| give((Val::of(key), Val::of(value))))
    }

    /// The same from the last key of another leaf.
    #[inline(always)]
    pub(crate) fn next_leaf(&mut self, txn: &mut Txn) -> Option<(Val, Val)> {
        if txn.flags & BLOCKED != 0 {
            return None;
        }
        if self.is_brief {
            return self.in_own_room(|ahead, room| ahead.next_leaf(room));
        }
        let (key, value) = self.ahead.next_leaf(txn.arena.key_room()?)?;
        Some((txn.arena.short(key), Val::of(value)))
    }

    /// Whether it knows the values of its key.
    #[inline(always)]
    pub(crate) fn is_among(&self) -> bool {
        self.among.is_some()
    }

    /// The key and its next value, where the cursor knows that.
    #[inline(always)]
    pub(crate) fn next_among(&mut self) -> Option<(Val, Val)> {
        let among = self.among.as_mut()?;
        let value = among.step()?;
        Some((Val::of(among.key()), Val::of(value)))
    }

    /// The same of the value before.
    #[inline(always)]
    pub(crate) fn prev_among(&mut self) -> Option<(Val, Val)> {
        let among = self.among.as_mut()?;
        let value = among.back()?;
        Some((Val::of(among.key()), Val::of(value)))
    }

    /// Whether MDB_NEXT leads to another value of the key, as far as it knows. Nothing is ahead.
    #[inline(always)]
    pub(crate) fn has_next_value(&self) -> bool {
        self.place.cursor().is_some_and(tree::Cursor::has_next_value)
    }

    /// Whether MDB_PREV probably leads to another value of the key. Nothing is known beside it.
    #[inline(always)]
    pub(crate) fn is_among_values(&self) -> bool {
        self.place.cursor().is_some_and(tree::Cursor::was_among_values)
    }

    /// Whether it knows what is, or was, beside it in its leaf.
    #[inline(always)]
    pub(crate) fn knows_beside(&self) -> bool {
        self.knows_beside
    }

    /// Prepares the entries that MDB_NEXT will give without checking where the cursor stands; false
    /// if there are none. The caller ensures that the cursor's transaction neither ends nor is
    /// reset before [`Cursor::settle`].
    #[inline(always)]
    pub(crate) fn look_ahead(&mut self, txn: &'static mut Txn) -> bool {
        self.look_beside(txn, tree::Cursor::ahead)
    }

    /// The same for MDB_PREV.
    #[inline(always)]
    pub(crate) fn look_back(&mut self, txn: &'static mut Txn) -> bool {
        self.look_beside(txn, tree::Cursor::behind)
    }

    /// Looks whether the cursor stands on one of several values that stand in one piece each, and
    /// has it know them. The caller ensures what it does for [`Cursor::look_ahead`].
    #[inline(always)]
    pub(crate) fn look_among(&mut self, txn: &'static Txn) -> bool {
        self.settle();
        if txn.may_step(&self.place)
            && let Body::Read(read) = &txn.body
        {
            self.among = self.place.cursor().and_then(|cursor| cursor.among(&**read));
        }
        self.knows_beside = self.is_among();
        self.knows_beside
    }

    #[inline(always)]
    fn look_beside(
        &mut self,
        txn: &'static mut Txn,
        beside: impl FnOnce(&tree::Cursor, &'static ReadTxn) -> Option<Ahead<'static>>,
    ) -> bool {
        self.settle();
        if txn.may_step(&self.place)
            && let Body::Read(read) = &txn.body
            && let Some(ahead) = self.place.cursor().and_then(|cursor| beside(cursor, read))
        {
            (self.ahead, self.knows_beside) = (ahead, true);
            match self.is_brief {
                true => self.ahead.put_shared(&mut self.room),
                false => txn.arena.make_room(),
            }
            return true;
        }
        false
    }
}
