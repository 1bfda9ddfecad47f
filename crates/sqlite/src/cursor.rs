//! A cursor on a tree of SQLite's: a cursor of the engine, and the entry that it stands on as SQLite
//! asks for it.

use std::io::{Read as _, Seek as _, SeekFrom};

use hedgerow::tree::{Bytes, Cursor, Entry, Snapshot, Table};
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::conn::{Body, Conn, on_body};

/// How many bytes of a long row are copied when a cursor of a writer comes to it.
const LOCAL_MAX: usize = 32 << 10;

/// The entry under a cursor, as C reads it: `HgRow` in `hedgerow.c`.
#[repr(C)]
pub(crate) struct Row {
    /// Its first bytes. They stay until the cursor moves.
    data: *const u8,
    /// How many of them there are.
    local: u32,
    /// How many bytes it has.
    len: u32,
    /// The number of the row, in a table.
    rowid: i64,
}

/// A step of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    First,
    Last,
    Next,
    Previous,
}

/// Where a search ended: what `sqlite3BtreeTableMoveto` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no entry.
    Empty,
    /// On an entry before what was looked for.
    Before,
    /// On it.
    Exactly,
    /// On an entry after it.
    After,
}

/// A cursor.
pub(crate) struct Position {
    root: u32,
    is_index: bool,
    /// The generation of the connection that the cursor is of.
    generation: u64,
    /// `None` where there is no tree yet.
    cursor: Option<(Table, Cursor)>,
    /// A copy of the entry's bytes, where the store may change beneath it.
    copy: Vec<u8>,
}

/// The key of a row: numbers order as their keys do.
pub(crate) fn key_of(rowid: i64) -> [u8; 8] {
    (rowid.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// The row that a key belongs to.
fn rowid_of(key: &Bytes<'_>) -> Answer<i64> {
    let (first, second) = key.parts();
    let mut bytes = [0; 8];
    if first.len() + second.len() != bytes.len() {
        return Err(sys::SQLITE_CORRUPT);
    }
    bytes[..first.len()].copy_from_slice(first);
    bytes[first.len()..].copy_from_slice(second);
    Ok((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

impl Position {
    pub(crate) fn new(root: u32, is_index: bool) -> Self {
        Self { root, is_index, generation: 0, cursor: None, copy: Vec::new() }
    }

    /// The cursor of the engine, of the transaction that there is now.
    fn ready(&mut self, conn: &mut Conn) -> Answer {
        if self.generation != conn.generation {
            let table = conn.table(self.root, self.is_index)?;
            self.cursor = match table {
                Some(table) => {
                    let cursor = on_body!(&conn.body, txn => txn.cursor(table));
                    Some((table, cursor.map_err(|e| code_of(&e))?))
                }
                None => None,
            };
            // The schema's tree may be made later in this transaction.
            self.generation = if table.is_some() { conn.generation } else { 0 };
        }
        Ok(())
    }

    /// Fills in what C reads of an entry.
    fn show(&mut self, entry: &Entry<'_>, writes: bool, row: &mut Row) -> Answer {
        let bytes = if self.is_index {
            &entry.key
        } else {
            row.rowid = rowid_of(&entry.key)?;
            &entry.value
        };
        let len = bytes.len();
        row.len = u32::try_from(len).map_err(|_| sys::SQLITE_CORRUPT)?;
        match bytes.as_slice() {
            Some(whole) if !writes => (row.data, row.local) = (whole.as_ptr(), row.len),
            whole => {
                let local = if self.is_index || whole.is_none() { len } else { len.min(LOCAL_MAX) };
                self.copy.clear();
                match whole {
                    Some(whole) => self.copy.extend_from_slice(&whole[..local]),
                    None => bytes.copy_to(&mut self.copy),
                }
                (row.data, row.local) = (self.copy.as_ptr(), local as u32);
            }
        }
        Ok(())
    }

    /// Makes a step; false at the end.
    pub(crate) fn step(&mut self, conn: &mut Conn, step: Step, row: &mut Row) -> Answer<bool> {
        self.ready(conn)?;
        let Some((table, mut cursor)) = self.cursor.take() else { return Ok(false) };
        let writes = matches!(conn.body, Body::Write(_));
        let moved = on_body!(&conn.body, txn => {
            let entry = match step {
                Step::First => cursor.first(txn),
                Step::Last => cursor.last(txn),
                Step::Next => cursor.next(txn),
                Step::Previous => cursor.prev(txn),
            };
            match entry {
                Ok(Some(entry)) => self.show(&entry, writes, row).map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(code_of(&error)),
            }
        });
        self.cursor = Some((table, cursor));
        moved
    }

    /// Moves to a key, or to a neighbour of where it would be.
    pub(crate) fn seek(&mut self, conn: &mut Conn, key: &[u8], row: &mut Row) -> Answer<Found> {
        self.ready(conn)?;
        let Some((table, mut cursor)) = self.cursor.take() else { return Ok(Found::Empty) };
        let writes = matches!(conn.body, Body::Write(_));
        let found = on_body!(&conn.body, txn => {
            match cursor.seek_near(txn, key).map_err(|e| code_of(&e))? {
                Some((entry, exactly)) => {
                    self.show(&entry, writes, row)?;
                    if exactly { Found::Exactly } else { Found::After }
                }
                None => match cursor.last(txn).map_err(|e| code_of(&e))? {
                    Some(entry) => {
                        self.show(&entry, writes, row)?;
                        Found::Before
                    }
                    None => Found::Empty,
                }
            }
        });
        self.cursor = Some((table, cursor));
        Ok(found)
    }

    /// Whether the tree has no entry.
    pub(crate) fn is_empty(&mut self, conn: &mut Conn) -> Answer<bool> {
        Ok(conn.count(self.root, self.is_index)? == 0)
    }

    /// Reads a part of the entry of a key.
    pub(crate) fn read(&self, conn: &mut Conn, key: &[u8], from: u32, out: &mut [u8]) -> Answer {
        let Some(table) = conn.table(self.root, self.is_index)? else {
            return Err(sys::SQLITE_CORRUPT);
        };
        on_body!(&conn.body, txn => {
            let reader = txn.value_reader(table, key).map_err(|e| code_of(&e))?;
            let mut reader = reader.ok_or(sys::SQLITE_CORRUPT)?;
            reader.seek(SeekFrom::Start(from.into())).map_err(|_| sys::SQLITE_IOERR)?;
            reader.read_exact(out).map_err(|_| sys::SQLITE_CORRUPT)
        })
    }
}
