//! Steps and searches of a cursor in a transaction of one kind, and how what it comes to is shown
//! to SQLite.

use std::cmp::Ordering;
use std::ffi::c_int;

use hedgerow::tree::raw::{Passed, Passing};
use hedgerow::tree::{Cursor, Entry, Snapshot};

use crate::code::{Answer, code_of};
use crate::cursor::{Copied, Row, Shape, Step, parts, show, show_passed};
use crate::rowid::Front;

impl Step {
    /// The step of a number: `HG_FIRST` and so on in `cursors.c`.
    pub(crate) fn of(number: c_int) -> Self {
        match number {
            0 => Self::First,
            1 => Self::Last,
            2 => Self::Next,
            3 => Self::Previous,
            4 => Self::LastNumber,
            _ => Self::Stay,
        }
    }
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
    /// Nowhere: it comes after the last entry, of which the row shows a copy.
    Behind,
}

impl Found {
    /// As C is told it.
    pub(crate) fn result(self) -> c_int {
        match self {
            Self::Empty => 2,
            Self::Before => -1,
            Self::Exactly => 0,
            Self::After => 1,
            Self::Behind => 3,
        }
    }
}

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
fn show_in<S: Snapshot>(
    txn: &S,
    cursor: &mut Cursor,
    shape: Shape,
    entry: &Entry<'_>,
    copy: Option<&mut Copied>,
    row: &mut Row,
) -> Answer<Shown> {
    let all @ (sum, record) = parts(shape.is_index, entry)?;
    let Some(copy) = copy else {
        let shown = show(shape, entry, all, None, row, || cursor.len_of_front(txn));
        return shown.map(|()| Shown::Lasting);
    };
    let is_in_leaf =
        cursor.is_in_changed_leaf(record) && (sum.is_empty() || cursor.is_in_changed_leaf(sum));
    if is_in_leaf {
        return show(shape, entry, all, None, row, || None).map(|()| Shown::InLeaf);
    }
    let is_lasting = cursor.is_on_lasting_entry(txn);
    let whole_len = || cursor.len_of_front(txn);
    if is_lasting {
        return show(shape, entry, all, None, row, whole_len).map(|()| Shown::Lasting);
    }
    show(shape, entry, all, Some(copy), row, whole_len).map(|()| Shown::Copied)
}

/// Steps in a transaction of one kind, as many as there is room for rows, or fewer: none after an
/// entry that was copied. How many there were, and how the rows are shown.
#[inline(always)]
pub(crate) fn run_in<S: Snapshot, const BACK: bool>(
    txn: &S,
    cursor: &mut Cursor,
    shape: Shape,
    copy: Option<&mut Copied>,
    rows: &mut [Row],
) -> Answer<(usize, Shown)> {
    let Some((row, rows)) = rows.split_first_mut() else { return Ok((0, Shown::Lasting)) };
    let step = if BACK { Step::Previous } else { Step::Next };
    let Some(shown) = step_in(txn, cursor, step, shape, copy, row)? else {
        return Ok((0, Shown::Lasting));
    };
    if rows.is_empty() || shown == Shown::Copied {
        return Ok((1, shown));
    }
    let Some(mut passing) = cursor.passing::<S, BACK>(txn) else { return Ok((1, shown)) };
    let count = match shape.is_index {
        false => show_passing::<BACK, false>(&mut passing, shape.is_complete, rows)?,
        true => show_passing::<BACK, true>(&mut passing, shape.is_complete, rows)?,
    };
    cursor.pass_to(txn, &passing).map_err(|e| code_of(&e))?;
    Ok((1 + count, shown))
}

/// Shows the entries that are passed, as many as there is room for; a function of its own, so that
/// what the loop needs stays in registers.
#[inline(never)]
fn show_passing<const BACK: bool, const IS_INDEX: bool>(
    passing: &mut Passing<'_, BACK>,
    is_complete: bool,
    rows: &mut [Row],
) -> Answer<usize> {
    passing.fill(&mut (is_complete, Front::NONE), rows, show_one::<IS_INDEX>)
}

/// Shows one of them. It is inlined into each of the loops of [`Passing::fill`].
#[inline(always)]
fn show_one<const IS_INDEX: bool>(
    (is_complete, front): &mut (bool, Front),
    row: &mut Row,
    passed: &Passed<'_>,
) -> Answer {
    if !IS_INDEX {
        row.rowid = front.rowid(passed)?;
    }
    show_passed(Shape { is_index: IS_INDEX, is_complete: *is_complete }, passed, row)
}

/// A step in a transaction of one kind; `None` at the end.
#[inline]
pub(crate) fn step_in<S: Snapshot>(
    txn: &S,
    cursor: &mut Cursor,
    step: Step,
    shape: Shape,
    copy: Option<&mut Copied>,
    row: &mut Row,
) -> Answer<Option<Shown>> {
    let entry = match step {
        Step::Next => cursor.next(txn),
        Step::Previous => cursor.prev(txn),
        Step::First => cursor.first(txn),
        Step::Last => cursor.last(txn),
        Step::Stay | Step::LastNumber => cursor.current(txn),
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
    copy: Option<&mut Copied>,
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
