//! What `VACUUM` does about checksums: every row gets the one that rows get now, or loses it.

use hedgerow::tree::{ReadTxn, Snapshot as _};

use crate::code::{Answer, code_of};
use crate::conn::{Conn, FOLDER, any_table};
use crate::cursor::parts;
use crate::order;
use crate::rowid::{key_of, rowid_of};
use crate::sums::{self, CORRUPT_ROW, Kind, Owner, Setting};

/// Gives every row the checksum that rows get now, in a transaction that has written nothing yet.
/// The trees of `derived` are indexes whose entries are derived from rows.
///
/// # Errors
/// `SQLITE_CORRUPT` for a row that does not match the one it has.
pub(crate) fn renew_rows(conn: &mut Conn, derived: &[u32]) -> Answer {
    // While this connection writes no other one commits: what is read is what it began with. A
    // cursor of its own would have to look its place up, for which an index asks SQLite.
    let reader = conn.store().begin_read().map_err(|e| code_of(&e))?;
    let kind = conn.setting().kind;
    let tables = reader.tables().map_err(|e| code_of(&e))?;
    let names = tables.iter().filter_map(|info| std::str::from_utf8(&info.name).ok());
    for root in names.filter_map(|name| name.strip_prefix(FOLDER)?.parse().ok()) {
        let is_index = conn.is_index(root)?;
        let kind = if derived.contains(&root) { kind.of_derived() } else { kind };
        if !is_done(&reader, root, is_index, kind)? {
            renew(conn, &reader, root, is_index, kind)?;
        }
    }
    let setting = (kind != Kind::Off).then_some(Setting { kind, is_complete: true });
    conn.set_setting(setting)
}

/// Whether every row of a tree carries what rows get now.
fn is_done(reader: &ReadTxn, root: u32, is_index: bool, kind: Kind) -> Answer<bool> {
    let mut cursor = reader.cursor(any_table(reader, root)?).map_err(|e| code_of(&e))?;
    while let Some(entry) = cursor.next(reader).map_err(|e| code_of(&e))? {
        if !sums::is_of(kind, parts(is_index, &entry)?.0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a tree anew, in its order, and puts it in the place of the old one.
fn renew(conn: &mut Conn, reader: &ReadTxn, root: u32, is_index: bool, kind: Kind) -> Answer {
    let is_complete = conn.setting().is_complete;
    let mut cursor = reader.cursor(any_table(reader, root)?).map_err(|e| code_of(&e))?;
    let new = conn.create_beside(is_index)?;
    while let Some(entry) = cursor.next(reader).map_err(|e| code_of(&e))? {
        let (txn, sums) = conn.writer_and_sums()?;
        let owner = if is_index { Owner::Entry } else { Owner::Row(rowid_of(&entry.key)?) };
        let (sum, record) = parts(is_index, &entry)?;
        if sum.is_empty() && is_complete {
            return Err(CORRUPT_ROW);
        }
        sums.verify(owner, sum, record, record.as_ptr().addr())?;
        let appended = match owner {
            Owner::Entry => {
                let sum = sums.entry(kind, record);
                order::as_last(record, || txn.append(new, record, sum))
            }
            Owner::Row(rowid) => txn.append(new, &key_of(rowid), sums.row(kind, rowid, record, 0)),
        };
        appended.map_err(|e| code_of(&e))?;
    }
    conn.replace_tree(root)
}
