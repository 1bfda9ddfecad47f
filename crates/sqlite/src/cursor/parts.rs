//! Long rows: of one that is longer than [`WHOLE_MAX`](super::WHOLE_MAX), or than a page if that
//! is longer, only the first page is at hand, and verified, when a cursor comes to it. The rest is
//! read and verified in the parts that are asked for. And rows that are written in parts, as
//! incremental blobs are.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::atomic::{AtomicU32, Ordering};

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Table};
use libsqlite3_sys as sys;

use super::{Position, Row};
use crate::code::{Answer, Code, code_of};
use crate::conn::{Body, Conn, on_body};
use crate::rowid::key_of;
use crate::sums::{self, Owner, Sums};

/// When only the first bytes of a row are given, they are at least as many: no store has smaller
/// pages than of 4 KiB.
pub(super) const FRONT_MIN: usize = 4096 - sums::LONG_LEN;

/// How many long rows were shown.
static SHOWINGS: AtomicU32 = AtomicU32::new(0);

/// Notes the length of a row that is not short: what was given of its record has `given` bytes, and
/// its checksum `sum_len`. `whole_len` as in [`show`](super::show).
#[cold]
#[inline(never)]
pub(super) fn note_long(
    row: &mut Row,
    given: usize,
    sum_len: usize,
    whole_len: impl FnOnce() -> Option<u32>,
) -> Answer {
    let len = match whole_len() {
        Some(len) => {
            row.showing = SHOWINGS.fetch_add(1, Ordering::Relaxed);
            (len as usize).saturating_sub(sum_len)
        }
        None => given,
    };
    row.len = u32::try_from(len).map_err(|_| sys::SQLITE_CORRUPT)?;
    Ok(())
}

/// The code of an error of reading a part of a value.
fn code_of_part(error: &std::io::Error) -> Code {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    // Else the row is shorter than it was shown.
    cause.map_or(sys::SQLITE_CORRUPT, code_of)
}

/// The checksum and the record of the row of a number, which were compared.
fn verify_in<'t, S: Snapshot>(
    txn: &'t S,
    table: Table,
    sums: &mut Sums,
    rowid: i64,
) -> Answer<(&'t [u8], &'t [u8])> {
    let value = txn.get(table, &key_of(rowid)).map_err(|e| code_of(&e))?;
    let value = value.and_then(|value| value.as_slice()).ok_or(sys::SQLITE_CORRUPT)?;
    let (sum, record) = value.split_at(sums::len_of(value)?);
    sums.verify(Owner::Row(rowid), sum, record, record.as_ptr().addr())?;
    Ok((sum, record))
}

impl Position {
    /// Reads a part of the value of a key.
    pub(crate) fn read(
        &mut self,
        conn: &mut Conn,
        key: &[u8],
        from: u32,
        out: &mut [u8],
    ) -> Answer {
        self.ready(conn)?;
        let Some((table, _)) = &self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        on_body!(&conn.body, txn => {
            let reader = txn.value_reader(*table, key).map_err(|e| code_of(&e))?;
            let mut reader = reader.ok_or(sys::SQLITE_CORRUPT)?;
            let found = reader.seek(SeekFrom::Start(from.into()));
            found.and_then(|_| reader.read_exact(out)).map_err(|e| code_of_part(&e))
        })
    }

    /// Compares a long row that is shown with its checksum, which reads all of it. In a transaction
    /// that only reads all of it is at hand then.
    pub(crate) fn verify_long(&mut self, conn: &mut Conn, row: &mut Row) -> Answer {
        self.ready(conn)?;
        let Some((table, _)) = self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        let Conn { body, sums, .. } = conn;
        let Body::Read(txn) = &*body else {
            return on_body!(&*body, txn => verify_in(txn, table, sums, row.rowid).map(|_| ()));
        };
        let (sum, record) = verify_in(&**txn, table, sums, row.rowid)?;
        if record.len() != row.len as usize {
            return Err(sys::SQLITE_CORRUPT);
        }
        (row.data, row.local, row.sum) = (record.as_ptr(), row.len, sum.as_ptr());
        Ok(())
    }

    /// Compares the row of a number with its checksum.
    fn verify(&mut self, conn: &mut Conn, rowid: i64) -> Answer {
        self.ready(conn)?;
        let Some((table, _)) = self.cursor else { return Err(sys::SQLITE_CORRUPT) };
        let Conn { body, sums, .. } = conn;
        on_body!(&*body, txn => verify_in(txn, table, sums, rowid).map(|_| ()))
    }

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
