//! `PRAGMA integrity_check`: the pages and counters of the store, and the trees that the schema
//! names. Whether indexes and tables agree is looked at by SQLite itself.

use hedgerow::tree::Snapshot as _;
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::conn::{Conn, on_body};
use crate::cursor::parts;
use crate::rowid::rowid_of;
use crate::sums::{CORRUPT_ROW, Owner};

/// Checks a store, and counts the entries of some trees; root 0 stands for none. A check of some
/// trees only, which begins with root 0, does not look at the whole store.
pub(crate) fn check(
    conn: &mut Conn,
    roots: &[u32],
    counts: &mut [i64],
    report: &mut dyn FnMut(&str),
) -> Answer {
    let is_partial = roots.first() == Some(&0);
    if !is_partial || roots.get(1) == Some(&1) {
        let checked = conn.store().check(&mut |_, _| {}).map_err(|e| code_of(&e))?;
        checked.problems.iter().for_each(|problem| report(problem));
    }
    for (root, count) in roots.iter().zip(counts) {
        *count = 0;
        if *root == 0 {
            continue;
        }
        match conn.count_of(*root)? {
            Some(counted) => {
                let walked = match walk(conn, *root, report) {
                    // What was found before is said all the same.
                    Err(sys::SQLITE_CORRUPT) => {
                        report(&format!("Tree {root}: some of its entries cannot be read"));
                        counted
                    }
                    walked => walked?,
                };
                if walked != counted {
                    report(&format!("Tree {root}: {walked} entries where {counted} are counted"));
                }
                *count = i64::try_from(walked).unwrap_or(i64::MAX);
            }
            None if *root == 1 => {}
            None => report(&format!("Tree {root} does not exist")),
        }
    }
    Ok(())
}

/// Steps through all entries of a tree, compares them with their checksums, and counts them.
fn walk(conn: &mut Conn, root: u32, report: &mut dyn FnMut(&str)) -> Answer<u64> {
    let table = conn.any_table(root)?;
    let is_index = conn.is_index(root)?;
    let is_complete = conn.setting().is_complete;
    let Conn { body, sums, .. } = conn;
    on_body!(&*body, txn => {
        let mut cursor = txn.cursor(table).map_err(|e| code_of(&e))?;
        let mut count = 0;
        while let Some(entry) = cursor.next(txn).map_err(|e| code_of(&e))? {
            count += 1;
            let owner = if is_index { Owner::Entry } else { Owner::Row(rowid_of(&entry.key)?) };
            let is_right = parts(is_index, &entry).and_then(|(sum, record)| {
                if sum.is_empty() && is_complete {
                    return Err(CORRUPT_ROW);
                }
                sums.verify(owner, sum, record, record.as_ptr().addr())
            });
            match (is_right, owner) {
                (Ok(()), _) => {}
                (Err(CORRUPT_ROW), Owner::Row(rowid)) => {
                    report(&format!("Tree {root}: row {rowid} does not match its checksum"));
                }
                (Err(CORRUPT_ROW), Owner::Entry) => {
                    report(&format!("Tree {root}: entry {count} does not match its checksum"));
                }
                (Err(code), _) => return Err(code),
            }
        }
        Ok(count)
    })
}
