//! The number of the last row of a table to which rows are appended, which SQLite asks for before
//! each: that of the row that was appended last, if nothing has changed since. And the last record
//! of an index to which records are appended: for each of them SQLite looks whether it is there.

use super::{CHECK_FAILS, Position, Row};
use crate::code::{Answer, code_of};
use crate::conn::{Body, Conn};
use crate::order;

impl Position {
    /// Whether the number of the last row is known; the row is given that and nothing else. The
    /// cursor is of the transaction that there is.
    #[inline]
    pub(super) fn shows_last_number(&self, conn: &Conn, row: &mut Row) -> bool {
        let (Some((rowid, change)), Some((_, cursor))) = (self.last, &self.cursor) else {
            return false;
        };
        let Body::Write(txn) = &conn.body else { return false };
        row.rowid = rowid;
        cursor.last_change(&**txn) == change
    }

    /// Puts an entry after the last one of an index, and shows a copy of its record; if nothing is
    /// looked for between one and the next, that must not be read.
    pub(crate) fn append_key(&mut self, conn: &mut Conn, key: &[u8], row: &mut Row) -> Answer {
        let table = self.table_to_write(conn)?;
        let kind = self.kind(conn);
        let (txn, sums) = conn.writer_and_sums()?;
        txn.append(table, key, sums.entry(kind, key)).map_err(|e| code_of(&e))?;
        if !std::mem::take(&mut self.is_sought) {
            (self.last, row.check) = (None, CHECK_FAILS);
            return Ok(());
        }
        self.last_record.clear();
        self.last_record.extend_from_slice(key);
        let change = self.cursor.as_ref().map(|(_, cursor)| cursor.last_change(txn));
        self.last = change.map(|change| (0, change));
        self.show_last(row);
        Ok(())
    }

    /// Whether what is looked for comes after the last record of an index, which is known then and
    /// shown. The cursor is of the transaction that there is.
    #[inline]
    pub(super) fn is_behind_last(&self, conn: &Conn, key: &[u8], row: &mut Row) -> bool {
        let (Some((_, change)), Some((_, cursor))) = (self.last, &self.cursor) else {
            return false;
        };
        let Body::Write(txn) = &conn.body else { return false };
        let is_last = cursor.last_change(&**txn) == change;
        let is_behind = is_last && order::compare(&self.last_record, key).is_lt();
        if is_behind {
            self.show_last(row);
        }
        is_behind
    }

    /// Shows the record that is kept.
    fn show_last(&self, row: &mut Row) {
        let record = &self.last_record;
        // It was put, so that it is not longer than SQLite's records are.
        let len = record.len() as u32;
        *row = Row { data: record.as_ptr(), local: len, len, ..Row::NONE };
    }
}
