//! A cursor on a tree of SQLite's: a cursor of the engine, and the entry that it stands on as
//! SQLite asks for it.

use hedgerow::tree::raw::Passed;
use hedgerow::tree::{Cursor, Entry, Snapshot, Table};
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::conn::{Body, Conn, on_body};
use crate::rowid::{key_of, rowid_of};
use crate::steps::{Found, Shown, run_in, seek_in, step_in};
use crate::sums::{self, CORRUPT_ROW, Kind, Owner};

/// Of a longer row that stands in pages of its own only the first page is read when a cursor comes
/// to it, and the rest when it is asked for.
const WHOLE_MAX: u32 = 32 << 10;

/// The entry under a cursor, as C reads it: `HgRow` in `store.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Its first bytes. They stay until the cursor moves.
    pub(crate) data: *const u8,
    /// How many of them there are.
    pub(crate) local: u32,
    /// How many bytes it has.
    pub(crate) len: u32,
    /// The number of the row, in a table.
    pub(crate) rowid: i64,
    /// Its checksum, which stays as long as `data`.
    pub(crate) sum: *const u8,
    /// How many bytes that has.
    pub(crate) sum_len: u8,
    /// What is to be done before it is read: [`CHECK_NOTHING`] and so on.
    pub(crate) check: u8,
    /// Of one that is not at hand as a whole: a number that no other one has, nor the same one when
    /// it is shown again.
    pub(crate) showing: u32,
}

impl Row {
    const NONE: Self = Self {
        data: std::ptr::null(),
        local: 0,
        len: 0,
        rowid: 0,
        sum: std::ptr::null(),
        sum_len: 0,
        check: CHECK_NOTHING,
        showing: 0,
    };
}

/// In [`Row::check`]: nothing.
pub(crate) const CHECK_NOTHING: u8 = 0;
/// It is to be compared with its checksum.
pub(crate) const CHECK_SUM: u8 = 1;
/// It has lost its checksum: every row of this store has one.
pub(crate) const CHECK_FAILS: u8 = 2;

/// What there is to know of a tree to show its entries.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) is_index: bool,
    /// Every row carries a checksum.
    pub(crate) is_complete: bool,
}

/// A step of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    First,
    Last,
    Next,
    Previous,
    /// None: the entry is shown again.
    Stay,
    /// To the last row, of which only the number is wanted; to nowhere if that is not known.
    LastNumber,
}

/// In which direction steps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    On,
    Back,
}

mod last;
mod parts;

use parts::{FRONT_MIN, note_long};

/// A cursor.
pub(crate) struct Position {
    root: u32,
    is_index: bool,
    /// Its entries are derived from the rows of a table.
    is_derived: bool,
    /// The generation of the connection that the cursor is of.
    generation: u64,
    /// `None` where there is no tree yet.
    cursor: Option<(Table, Cursor)>,
    /// Whether an entry of an index was just deleted here: one that takes its place may be near.
    has_deleted: bool,
    /// The number of the last row, and which change of the table put it there; of an index that
    /// change, and the last record.
    last: Option<(i64, u64)>,
    last_record: Vec<u8>,
    /// Whether something was looked for in an index since an entry was appended.
    is_sought: bool,
    /// A copy of the entry, where the store may change beneath it.
    copy: Copied,
    /// By which the store knows the cursor whose leaf it has to keep in memory.
    seat: usize,
    /// The rows that the cursor has gone ahead over, of which C reads.
    ahead: [Row; AHEAD],
}

/// A copy of an entry.
#[derive(Default)]
pub(crate) struct Copied {
    /// Its checksum and its record.
    bytes: Vec<u8>,
    /// The address at which the store has the record.
    place: usize,
}

impl Copied {
    fn keep(&mut self, sum: &[u8], record: &[u8]) -> (&[u8], &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(sum);
        self.bytes.extend_from_slice(record);
        self.place = record.as_ptr().addr();
        self.bytes.split_at(sum.len())
    }
}

/// The most rows that a cursor goes ahead: `HG_AHEAD` in `hedgerow.c`.
const AHEAD: usize = 128;

/// Fills in what C reads of an entry of these parts; `copy` is for one that may change beneath it.
/// `whole_len` says how long its value is, if only the first bytes of that were given.
#[inline(always)]
pub(crate) fn show(
    shape: Shape,
    entry: &Entry<'_>,
    (mut sum, mut record): (&[u8], &[u8]),
    copy: Option<&mut Copied>,
    row: &mut Row,
    whole_len: impl FnOnce() -> Option<u32>,
) -> Answer {
    if !shape.is_index {
        row.rowid = rowid_of(&entry.key)?;
    }
    row.len = record.len() as u32;
    if record.len() >= FRONT_MIN {
        let whole_len = || if shape.is_index { None } else { whole_len() };
        note_long(row, record.len(), sum.len(), whole_len)?;
    }
    if let Some(copy) = copy {
        (sum, record) = copy.keep(sum, record);
    }
    show_parts(shape, sum, record, row);
    Ok(())
}

/// The same for an entry that a run of steps has come to, but for the number of a row.
#[inline(always)]
pub(crate) fn show_passed(shape: Shape, passed: &Passed<'_>, row: &mut Row) -> Answer {
    let len = sums::len_of(passed.value)?;
    let (sum, record) = if shape.is_index {
        if !passed.shared.is_empty() || len != passed.value.len() {
            return Err(if passed.shared.is_empty() { CORRUPT_ROW } else { sys::SQLITE_CORRUPT });
        }
        (passed.value, passed.rest)
    } else {
        passed.value.split_at(len)
    };
    // It stands in a page.
    row.len = record.len() as u32;
    show_parts(shape, sum, record, row);
    Ok(())
}

/// Where the parts of an entry are.
#[inline(always)]
fn show_parts(shape: Shape, sum: &[u8], record: &[u8], row: &mut Row) {
    (row.data, row.local) = (record.as_ptr(), record.len() as u32);
    (row.sum, row.sum_len) = (sum.as_ptr(), sum.len() as u8);
    row.check = match sum {
        [] if !shape.is_complete => CHECK_NOTHING,
        [] => CHECK_FAILS,
        _ => CHECK_SUM,
    };
}

/// The checksum of an entry, which may be none, and its record.
#[inline(always)]
pub(crate) fn parts<'e>(is_index: bool, entry: &'e Entry<'_>) -> Answer<(&'e [u8], &'e [u8])> {
    let value = entry.value.as_slice().ok_or(sys::SQLITE_CORRUPT)?;
    let len = sums::len_of(value)?;
    if !is_index {
        return Ok(value.split_at(len));
    }
    let record = entry.key.as_slice().ok_or(sys::SQLITE_CORRUPT)?;
    if len == value.len() { Ok((value, record)) } else { Err(CORRUPT_ROW) }
}

impl Position {
    pub(crate) fn new(seat: usize) -> Self {
        Self {
            root: 0,
            is_index: false,
            is_derived: false,
            generation: 0,
            cursor: None,
            has_deleted: false,
            last: None,
            last_record: Vec::new(),
            is_sought: false,
            copy: Copied::default(),
            seat,
            ahead: [Row::NONE; AHEAD],
        }
    }

    /// Whether it was of this tree when it was used last.
    pub(crate) fn is_of(&self, root: u32, is_index: bool) -> bool {
        (self.root, self.is_index) == (root, is_index)
    }

    /// Makes it a cursor of a tree. If it was one of that before, it may still know its place.
    pub(crate) fn begin(&mut self, root: u32, is_index: bool) {
        if !self.is_of(root, is_index) {
            self.generation = 0;
        }
        (self.root, self.is_index) = (root, is_index);
        (self.is_derived, self.has_deleted) = (false, false);
    }

    /// If it was of the tree of this root, it no longer knows its place.
    pub(crate) fn forget(&mut self, root: u32) {
        if self.root == root {
            self.generation = 0;
        }
    }

    /// By which the store knows it.
    pub(crate) fn seat(&self) -> usize {
        self.seat
    }

    /// What the entry is that a row shows, and the address at which the store has its record.
    pub(crate) fn shown(&self, row: &Row) -> (Owner, usize) {
        let owner = if self.is_index { Owner::Entry } else { Owner::Row(row.rowid) };
        let is_copy = self.copy.bytes.as_ptr_range().contains(&row.data);
        (owner, if is_copy { self.copy.place } else { row.data.addr() })
    }

    /// Where C finds the rows ahead.
    pub(crate) fn ahead(&self) -> *const Row {
        self.ahead.as_ptr()
    }

    /// The tree is an index whose entries are derived from the rows of a table.
    pub(crate) fn say_derived(&mut self) {
        self.is_derived = true;
    }

    /// What an entry carries that is put.
    #[inline]
    fn kind(&self, conn: &Conn) -> Kind {
        let kind = conn.setting().kind;
        if self.is_derived { kind.of_derived() } else { kind }
    }

    /// What its entries are.
    #[inline]
    fn shape(&self, conn: &Conn) -> Shape {
        Shape { is_index: self.is_index, is_complete: conn.setting().is_complete }
    }

    /// The cursor of the engine, of the transaction that there is now.
    #[inline]
    fn ready(&mut self, conn: &mut Conn) -> Answer {
        if self.generation == conn.generation { Ok(()) } else { self.renew(conn) }
    }

    #[cold]
    fn renew(&mut self, conn: &mut Conn) -> Answer {
        (self.generation, self.last) = (0, None);
        let table = conn.table(self.root, self.is_index)?;
        match (table, &mut self.cursor) {
            (Some(table), Some((of, cursor))) => {
                let bound = on_body!(&conn.body, txn => cursor.rebind(txn, table));
                bound.map_err(|e| code_of(&e))?;
                *of = table;
            }
            (Some(table), none) => {
                let cursor = on_body!(&conn.body, txn => {
                    let mut cursor = txn.cursor(table).map_err(|e| code_of(&e))?;
                    cursor.give_fronts(txn, WHOLE_MAX);
                    cursor
                });
                *none = Some((table, cursor));
            }
            (None, cursor) => *cursor = None,
        }
        // The schema's tree may be made later in this transaction.
        self.generation = if table.is_some() { conn.generation } else { 0 };
        Ok(())
    }

    /// The table to write to.
    #[inline]
    fn table_to_write(&mut self, conn: &mut Conn) -> Answer<Table> {
        self.ready(conn)?;
        match &self.cursor {
            Some((table, _)) => Ok(*table),
            None => conn.table_to_write(self.root, self.is_index),
        }
    }

    /// Makes a step; false at the end.
    #[inline]
    pub(crate) fn step(&mut self, conn: &mut Conn, step: Step, row: &mut Row) -> Answer<bool> {
        self.ready(conn)?;
        if step == Step::LastNumber {
            return Ok(self.shows_last_number(conn, row));
        }
        let shape = self.shape(conn);
        let Self { cursor: Some((_, cursor)), copy, seat, .. } = self else { return Ok(false) };
        match &mut conn.body {
            Body::Read(txn) => Ok(step_in(&**txn, cursor, step, shape, None, row)?.is_some()),
            Body::Write(txn) => {
                let shown = step_in(&**txn, cursor, step, shape, Some(copy), row)?;
                if shown == Some(Shown::InLeaf) {
                    cursor.hold(txn, *seat);
                }
                Ok(shown.is_some())
            }
            Body::None => Err(sys::SQLITE_INTERNAL),
        }
    }

    /// Makes up to `most` steps to the next entries, or to those before, whose rows are then those
    /// ahead, and says how many there were: 0 only at the end.
    pub(crate) fn next_rows(&mut self, conn: &mut Conn, way: Way, most: usize) -> Answer<usize> {
        match way {
            Way::On => self.rows_on_way::<false>(conn, most),
            Way::Back => self.rows_on_way::<true>(conn, most),
        }
    }

    #[inline(always)]
    fn rows_on_way<const BACK: bool>(&mut self, conn: &mut Conn, most: usize) -> Answer<usize> {
        self.ready(conn)?;
        let shape = self.shape(conn);
        let Self { cursor: Some((_, cursor)), copy, seat, ahead, .. } = self else {
            return Ok(0);
        };
        match &mut conn.body {
            Body::Read(txn) => {
                let (count, _) =
                    run_in::<_, BACK>(&**txn, cursor, shape, None, &mut ahead[..most])?;
                Ok(count)
            }
            Body::Write(txn) => {
                let (count, shown) =
                    run_in::<_, BACK>(&**txn, cursor, shape, Some(copy), &mut ahead[..most])?;
                if shown == Shown::InLeaf {
                    cursor.hold(txn, *seat);
                }
                Ok(count)
            }
            Body::None => Err(sys::SQLITE_INTERNAL),
        }
    }

    /// Makes steps back over rows that were fetched in a direction and are not wanted.
    pub(crate) fn back(&mut self, conn: &mut Conn, way: Way, steps: usize) -> Answer {
        self.ready(conn)?;
        let Some((_, cursor)) = &mut self.cursor else { return Ok(()) };
        // They are of one leaf, as a rule.
        let is_back = way == Way::On;
        let is_there = on_body!(&conn.body, txn => cursor.pass_over(txn, is_back, steps));
        if is_there.map_err(|e| code_of(&e))? {
            return Ok(());
        }
        for _ in 0..steps {
            let step = on_body!(&conn.body, txn => match way {
                Way::On => cursor.prev(txn).map(|_| ()),
                Way::Back => cursor.next(txn).map(|_| ()),
            });
            step.map_err(|e| code_of(&e))?;
        }
        Ok(())
    }

    /// Moves to a key, or to a neighbour of where it would be.
    pub(crate) fn seek(&mut self, conn: &mut Conn, key: &[u8], row: &mut Row) -> Answer<Found> {
        self.ready(conn)?;
        self.is_sought = true;
        if self.is_index && self.is_behind_last(conn, key, row) {
            return Ok(Found::Behind);
        }
        let shape = self.shape(conn);
        let Self { cursor: Some((_, cursor)), copy, seat, .. } = self else {
            return Ok(Found::Empty);
        };
        match &mut conn.body {
            Body::Read(txn) => Ok(seek_in(&**txn, cursor, key, shape, None, row)?.0),
            Body::Write(txn) => {
                let (found, shown) = seek_in(&**txn, cursor, key, shape, Some(copy), row)?;
                if shown == Shown::InLeaf {
                    cursor.hold(txn, *seat);
                }
                Ok(found)
            }
            Body::None => Err(sys::SQLITE_INTERNAL),
        }
    }

    /// Whether the tree has no entry.
    pub(crate) fn is_empty(&mut self, conn: &mut Conn) -> Answer<bool> {
        Ok(self.count(conn)? == 0)
    }

    /// How many entries the tree has.
    pub(crate) fn count(&mut self, conn: &mut Conn) -> Answer<u64> {
        self.ready(conn)?;
        let Some((table, _)) = &self.cursor else { return Ok(0) };
        let count = on_body!(&conn.body, txn => txn.count(*table));
        Ok(count.map_err(|e| code_of(&e))?.values)
    }

    /// How many entries stand before the one that the cursor is on.
    pub(crate) fn rank(&mut self, conn: &mut Conn) -> Answer<u64> {
        self.ready(conn)?;
        let Some((_, cursor)) = &mut self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        let rank = on_body!(&conn.body, txn => cursor.rank(txn));
        rank.map_err(|e| code_of(&e))?.ok_or(sys::SQLITE_CORRUPT)
    }

    /// How many entries stand before a key, which need not be there.
    pub(crate) fn rank_of(&mut self, conn: &mut Conn, key: &[u8]) -> Answer<u64> {
        self.ready(conn)?;
        let Some((table, _)) = &self.cursor else { return Ok(0) };
        let rank = on_body!(&conn.body, txn => txn.rank(*table, key));
        Ok(rank.map_err(|e| code_of(&e))?.keys)
    }

    /// How many entries there are to a key, which need not be there, if the leaf says it.
    pub(crate) fn count_to(&mut self, conn: &mut Conn, key: &[u8]) -> Answer<Option<u64>> {
        self.ready(conn)?;
        let Some((_, cursor)) = &mut self.cursor else { return Ok(None) };
        on_body!(&conn.body, txn => cursor.count_to(txn, key)).map_err(|e| code_of(&e))
    }

    /// Moves to the entry with `n` entries before it; false if there is none.
    pub(crate) fn seek_nth(&mut self, conn: &mut Conn, n: u64, row: &mut Row) -> Answer<bool> {
        self.ready(conn)?;
        let shape = self.shape(conn);
        let Self { cursor: Some((_, cursor)), copy, .. } = self else { return Ok(false) };
        let is_writer = matches!(conn.body, Body::Write(_));
        on_body!(&conn.body, txn => {
            let Some(entry) = cursor.seek_nth(txn, n).map_err(|e| code_of(&e))? else {
                return Ok(false);
            };
            let copy = (is_writer && !cursor.is_on_lasting_entry(txn)).then_some(copy);
            let parts = parts(shape.is_index, &entry)?;
            show(shape, &entry, parts, copy, row, || cursor.len_of_front(txn)).map(|()| true)
        })
    }

    /// Puts a row, which `zeros` zero bytes follow.
    pub(crate) fn put_row(
        &mut self,
        conn: &mut Conn,
        rowid: i64,
        data: &[u8],
        zeros: usize,
    ) -> Answer {
        let table = self.table_to_write(conn)?;
        let key = key_of(rowid);
        let kind = self.kind(conn);
        let (txn, sums) = conn.writer_and_sums()?;
        let value = match (kind, zeros) {
            (Kind::Off, 0) => data,
            _ => sums.row(kind, rowid, data, zeros),
        };
        // The row under the cursor is replaced where it stands.
        if let Some((_, cursor)) = &mut self.cursor
            && zeros == 0
            && cursor.last_key() == key
            && cursor.put_if_here(txn, value).map_err(|e| code_of(&e))?
        {
            return Ok(());
        }
        let put = match &self.cursor {
            Some((_, cursor)) if txn.put_at_end(table, &key, value) => {
                self.last = Some((rowid, cursor.last_change(txn)));
                Ok(())
            }
            _ => txn.put(table, &key, value),
        };
        put.map_err(|e| code_of(&e))
    }

    /// Puts an entry into an index, in place of one that is equal to it.
    pub(crate) fn put_key(&mut self, conn: &mut Conn, key: &[u8]) -> Answer {
        if std::mem::take(&mut self.has_deleted) && self.put_key_near(conn, key, false)? {
            return Ok(());
        }
        let table = self.table_to_write(conn)?;
        let kind = self.kind(conn);
        let (txn, sums) = conn.writer_and_sums()?;
        let sum = sums.entry(kind, key);
        let put = txn.put_absent(table, key, sum).and_then(|is_put| {
            if !is_put {
                // The one that is there may have other bytes.
                txn.delete(table, key)?;
                txn.put(table, key, sum)?;
            }
            Ok(())
        });
        put.map_err(|e| code_of(&e))
    }

    /// Puts an entry into an index in place of the one that the cursor is on.
    pub(crate) fn replace_key(&mut self, conn: &mut Conn, key: &[u8]) -> Answer {
        self.ready(conn)?;
        let kind = self.kind(conn);
        let Some((_, cursor)) = &mut self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        let (txn, sums) = conn.writer_and_sums()?;
        let replaced = cursor.replace(txn, key, sums.entry(kind, key));
        if replaced.map_err(|e| code_of(&e))? {
            return Ok(());
        }
        self.delete(conn)?;
        // Its place is in another leaf, or there is no room for it in this one.
        self.has_deleted = false;
        self.put_key(conn, key)
    }

    /// Puts a new entry into an index near the one that the cursor is on, if that is its place;
    /// the cursor is on it then. It may be known to come just before that one.
    pub(crate) fn put_key_near(
        &mut self,
        conn: &mut Conn,
        key: &[u8],
        is_before: bool,
    ) -> Answer<bool> {
        self.ready(conn)?;
        let kind = self.kind(conn);
        let Some((_, cursor)) = &mut self.cursor else { return Ok(false) };
        let (txn, sums) = conn.writer_and_sums()?;
        let sum = sums.entry(kind, key);
        if is_before && cursor.put_before(txn, key, sum).map_err(|e| code_of(&e))? {
            return Ok(true);
        }
        cursor.put_near(txn, key, sum).map_err(|e| code_of(&e))
    }

    /// Deletes the entry that the cursor is on.
    pub(crate) fn delete(&mut self, conn: &mut Conn) -> Answer {
        self.ready(conn)?;
        let Some((_, cursor)) = &mut self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        let deleted = cursor.delete(conn.writer()?).map_err(|e| code_of(&e))?;
        self.has_deleted = self.is_index;
        if deleted { Ok(()) } else { Err(sys::SQLITE_CORRUPT) }
    }
}
