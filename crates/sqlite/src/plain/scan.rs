//! A way through the rows of a plain table: a range of keys, forwards or backwards, with rows
//! passed over at its beginning.

use std::ops::Bound;

use hedgerow::tree::{Cursor, Entry, Snapshot, Table};

use super::{Equal, Outcome, Plain, Problem, Value};
use crate::conn::{Conn, on_body};

/// What a plan asks for, as bits; values come in this order.
pub(crate) const EQUAL: u32 = 1;
pub(crate) const LOW: u32 = 2;
pub(crate) const HIGH: u32 = 4;
pub(crate) const OFFSET: u32 = 8;
/// The bounds are not in the range.
pub(crate) const LOW_OPEN: u32 = 16;
pub(crate) const HIGH_OPEN: u32 = 32;
/// From the last row to the first.
pub(crate) const BACKWARDS: u32 = 64;

/// A way through the rows.
pub(crate) struct Scan {
    generation: u64,
    cursor: Option<(Table, Cursor)>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    backwards: bool,
    /// The entry that it is on.
    key: Vec<u8>,
    value: Vec<u8>,
    is_on: bool,
}

impl Scan {
    /// One that is on no row.
    pub(crate) fn new() -> Self {
        Self {
            generation: 0,
            cursor: None,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            backwards: false,
            key: Vec::new(),
            value: Vec::new(),
            is_on: false,
        }
    }

    /// The key and the value of the row.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.is_on.then_some((&self.key, &self.value))
    }

    /// Goes to the first row of a plan.
    pub(crate) fn begin(
        &mut self,
        conn: &mut Conn,
        plain: &Plain,
        plan: u32,
        values: &[Value<'_>],
    ) -> Outcome {
        *self = Self { backwards: plan & BACKWARDS != 0, ..Self::new() };
        let mut values = values.iter();
        let mut next = |bit: u32| if plan & bit != 0 { values.next().copied() } else { None };
        let (equal, low, high) = (next(EQUAL), next(LOW), next(HIGH));
        if [equal, low, high].contains(&Some(Value::Null)) {
            return Ok(());
        }
        // No key is that low, and none lower.
        if high.is_some_and(|value| plain.key_kind().is_below_all(value)) {
            return Ok(());
        }
        let offset = match next(OFFSET) {
            Some(Value::Integer(offset)) => u64::try_from(offset).unwrap_or(0),
            _ => 0,
        };
        // A value of another type bounds nothing here; SQLite looks at each row.
        let bound = |value: Option<Value<'_>>, is_open: bool| {
            let key = value.and_then(|value| plain.key_kind().exact(value));
            match (key, is_open) {
                (Some(key), true) => Bound::Excluded(key),
                (Some(key), false) => Bound::Included(key),
                (None, _) => Bound::Unbounded,
            }
        };
        (self.low, self.high) = match equal.map(|value| plain.key_kind().equal(value)) {
            Some(Equal::Key(key)) => (Bound::Included(key.clone()), Bound::Included(key)),
            Some(Equal::None) => return Ok(()),
            Some(Equal::Any) => (Bound::Unbounded, Bound::Unbounded),
            None => (bound(low, plan & LOW_OPEN != 0), bound(high, plan & HIGH_OPEN != 0)),
        };
        let table = plain.table(conn)?;
        on_body!(&conn.body, txn => self.first(txn, table, offset))?;
        self.generation = conn.generation;
        Ok(())
    }

    /// The first row after `offset` of the range.
    fn first<S: Snapshot>(&mut self, txn: &S, table: Table, offset: u64) -> Outcome {
        let mut cursor = txn.cursor(table)?;
        let entry = match (&self.low, self.backwards) {
            (Bound::Included(low), false) if offset == 0 => cursor.seek_at_or_after(txn, low)?,
            (Bound::Unbounded, false) if offset == 0 => cursor.first(txn)?,
            (low, false) => {
                let passed = before(txn, table, low, false)?.saturating_add(offset);
                cursor.seek_nth(txn, passed)?
            }
            (_, true) => {
                let left = before(txn, table, &self.high, true)?;
                match left.checked_sub(1).and_then(|last| last.checked_sub(offset)) {
                    Some(n) => cursor.seek_nth(txn, n)?,
                    None => None,
                }
            }
        };
        self.stand(entry);
        self.cursor = Some((table, cursor));
        Ok(())
    }

    /// Is on an entry, unless it is outside of the range.
    fn stand(&mut self, entry: Option<Entry<'_>>) {
        self.is_on = false;
        if let Some(entry) = entry {
            entry.key.copy_to(&mut self.key);
            let is_in = match (self.backwards, &self.low, &self.high) {
                (true, Bound::Included(low), _) => self.key >= *low,
                (true, Bound::Excluded(low), _) => self.key > *low,
                (false, _, Bound::Included(high)) => self.key <= *high,
                (false, _, Bound::Excluded(high)) => self.key < *high,
                _ => true,
            };
            if is_in {
                entry.value.copy_to(&mut self.value);
                self.is_on = true;
            }
        }
    }

    /// Goes to the next row.
    pub(crate) fn next(&mut self, conn: &mut Conn, plain: &Plain) -> Outcome {
        if !self.is_on {
            return Ok(());
        }
        if self.generation != conn.generation {
            let table = plain.table(conn)?;
            on_body!(&conn.body, txn => self.again(txn, table, plain.has_duplicates()))?;
            self.generation = conn.generation;
            return Ok(());
        }
        on_body!(&conn.body, txn => self.step(txn))
    }

    fn step<S: Snapshot>(&mut self, txn: &S) -> Outcome {
        let Some((table, mut cursor)) = self.cursor.take() else { return Ok(()) };
        let entry = if self.backwards { cursor.prev(txn)? } else { cursor.next(txn)? };
        self.stand(entry);
        self.cursor = Some((table, cursor));
        Ok(())
    }

    /// The next row in another transaction, found by the entry.
    fn again<S: Snapshot>(&mut self, txn: &S, table: Table, has_duplicates: bool) -> Outcome {
        let mut cursor = txn.cursor(table)?;
        let rank = match has_duplicates {
            true => txn.rank_pair(table, &self.key, &self.value)?,
            false => txn.rank(table, &self.key)?,
        };
        let next = match self.backwards {
            true => rank.values.checked_sub(1),
            false => Some(rank.values + u64::from(rank.found)),
        };
        let entry = match next {
            Some(n) => cursor.seek_nth(txn, n)?,
            None => None,
        };
        self.stand(entry);
        self.cursor = Some((table, cursor));
        Ok(())
    }
}

/// How many rows come before a bound; `is_end` says that it ends the range.
fn before<S: Snapshot>(
    txn: &S,
    table: Table,
    bound: &Bound<Vec<u8>>,
    is_end: bool,
) -> Outcome<u64> {
    let (key, with_key) = match bound {
        Bound::Unbounded if is_end => return Ok(txn.count(table)?.values),
        Bound::Unbounded => return Ok(0),
        Bound::Included(key) => (key, is_end),
        Bound::Excluded(key) => (key, !is_end),
    };
    let own = if with_key { txn.count_values(table, key)? } else { 0 };
    Ok::<_, Problem>(txn.rank(table, key)?.values + own)
}
