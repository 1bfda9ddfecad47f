//! Steps and searches of a cursor in a transaction of one kind, and how what it comes to is shown
//! to SQLite.

use std::cmp::Ordering;

use hedgerow::tree::{Cursor, Entry, Snapshot};

use crate::code::{Answer, code_of};
use crate::cursor::{Found, Front, Row, Shape, Step, parts, show, show_bytes};

/// How an entry is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Its bytes stay for as long as the transaction goes on.
    Lasting,
    /// A copy of them, which stays until the next one is made.
    Copied,
    /// They stand in a changed page, which has to be kept where it is: until the tree is written
    /// to, they stay then.
    InLeaf,
}

/// Shows an entry on which a cursor is in a transaction of one kind; a writer has room for a copy.
#[inline(always)]
pub(crate) fn show_in<S: Snapshot>(
    txn: &S,
    cursor: &Cursor,
    shape: Shape,
    entry: &Entry<'_>,
    copy: Option<&mut Vec<u8>>,
    row: &mut Row,
) -> Answer<Shown> {
    let Some(copy) = copy else { return show(shape, entry, None, row).map(|()| Shown::Lasting) };
    let (sum, record) = parts(shape.is_index, entry)?;
    let is_in_leaf =
        cursor.is_in_changed_leaf(record) && (sum.is_empty() || cursor.is_in_changed_leaf(sum));
    if is_in_leaf {
        return show(shape, entry, None, row).map(|()| Shown::InLeaf);
    }
    if cursor.is_on_lasting_entry(txn) {
        return show(shape, entry, None, row).map(|()| Shown::Lasting);
    }
    show(shape, entry, Some(copy), row).map(|()| Shown::Copied)
}

/// Steps in a transaction of one kind, as many as there is room for rows, or fewer: none after an
/// entry that was copied. How many there were, and how the rows are shown.
#[inline(always)]
pub(crate) fn run_in<S: Snapshot, const BACK: bool>(
    txn: &S,
    cursor: &mut Cursor,
    shape: Shape,
    mut copy: Option<&mut Vec<u8>>,
    rows: &mut [Row],
) -> Answer<(usize, Shown)> {
    let mut result = Ok(Shown::Lasting);
    let mut rows = rows.iter_mut();
    let (mut is_first, mut front) = (true, Front::NONE);
    let most = rows.len();
    let show_next = |cursor: &Cursor, entry: &Entry<'_>| {
        let Some(row) = rows.next() else { return false };
        if std::mem::take(&mut is_first) {
            result = show_in(txn, cursor, shape, entry, copy.take(), row);
            return matches!(result, Ok(Shown::Lasting | Shown::InLeaf));
        }
        // The others stand in the same leaf.
        let rowid = if shape.is_index { Ok(0) } else { front.rowid(&entry.key) };
        let shown = rowid.and_then(|rowid| {
            row.rowid = rowid;
            show_bytes(shape, entry, None, row)
        });
        if let Err(code) = shown {
            result = Err(code);
        }
        result.is_ok()
    };
    let count = match BACK {
        false => cursor.next_run(txn, most, show_next),
        true => cursor.prev_run(txn, most, show_next),
    };
    let count = count.map_err(|e| code_of(&e))?;
    Ok((count, result?))
}

/// A step in a transaction of one kind; `None` at the end.
#[inline]
pub(crate) fn step_in<S: Snapshot>(
    txn: &S,
    cursor: &mut Cursor,
    step: Step,
    shape: Shape,
    copy: Option<&mut Vec<u8>>,
    row: &mut Row,
) -> Answer<Option<Shown>> {
    let entry = match step {
        Step::Next => cursor.next(txn),
        Step::Previous => cursor.prev(txn),
        Step::First => cursor.first(txn),
        Step::Last => cursor.last(txn),
        Step::Stay => cursor.current(txn),
    };
    match entry {
        Ok(Some(entry)) => show_in(txn, cursor, shape, &entry, copy, row).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(code_of(&error)),
    }
}

/// A search in a transaction of one kind.
#[inline]
pub(crate) fn seek_in<S: Snapshot>(
    txn: &S,
    cursor: &mut Cursor,
    key: &[u8],
    shape: Shape,
    copy: Option<&mut Vec<u8>>,
    row: &mut Row,
) -> Answer<(Found, Shown)> {
    let Some((entry, seen)) = cursor.seek_beside(txn, key).map_err(|e| code_of(&e))? else {
        return Ok((Found::Empty, Shown::Lasting));
    };
    let shown = show_in(txn, cursor, shape, &entry, copy, row)?;
    let found = match seen {
        Ordering::Less => Found::Before,
        Ordering::Equal => Found::Exactly,
        Ordering::Greater => Found::After,
    };
    Ok((found, shown))
}
