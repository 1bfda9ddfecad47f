//! The number of the last row of a table to which rows are appended, which SQLite asks for before
//! each: that of the row that was appended last, if nothing has changed since.

use super::{Position, Row};
use crate::conn::{Body, Conn};

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
}
