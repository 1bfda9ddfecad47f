//! Rows that are written in parts, as incremental blobs are.

use hedgerow::tree::Snapshot as _;
use libsqlite3_sys as sys;

use super::Position;
use crate::code::{Answer, code_of};
use crate::conn::Conn;
use crate::rowid::key_of;
use crate::sums;

impl Position {
    /// Writes into a row, which keeps its length and gets the checksum that rows get now. A long
    /// one that this transaction has written, and that carries none, is changed where it is.
    pub(crate) fn write_part(
        &mut self,
        conn: &mut Conn,
        rowid: i64,
        from: usize,
        data: &[u8],
    ) -> Answer {
        let (table, key) = (self.table_to_write(conn)?, key_of(rowid));
        if !conn.may_have_sums() {
            let txn = conn.writer()?;
            if txn.write_part(table, &key, from, data).map_err(|e| code_of(&e))? {
                return Ok(());
            }
        }
        // Else a damaged row would get a checksum that is right.
        self.verify(conn, rowid)?;
        let kind = self.kind(conn);
        let (txn, sums) = conn.writer_and_sums()?;
        let row = txn.get(table, &key).map_err(|e| code_of(&e))?;
        let mut row = row.ok_or(sys::SQLITE_ABORT)?.to_vec();
        row.drain(..sums::len_of(&row)?);
        let part = row.get_mut(from..).and_then(|rest| rest.get_mut(..data.len()));
        part.ok_or(sys::SQLITE_CORRUPT)?.copy_from_slice(data);
        txn.put(table, &key, sums.row(kind, rowid, &row, 0)).map_err(|e| code_of(&e))
    }
}
