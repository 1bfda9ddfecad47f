//! The main database: the table without a name, and between its entries the records of the named
//! databases, which the store keeps in its catalog. Except for [`stat`], the code here only runs if
//! there are named databases.
//!
//! A cursor on it remembers the key on which it stands; each step looks for the next one on both
//! sides and takes the nearer.

use std::ops::Bound;

use hedgerow::Error;
use hedgerow::tree::{Order, Snapshot, Table};

use crate::abi::*;
use crate::arena::Arena;
use crate::handles;
use crate::place::{Place, Stop};

/// The length of the record of a named database (LMDB's `MDB_db`).
const RECORD_BYTES: usize = 48;

/// The names of the databases, in the order of the main one.
#[derive(Default)]
pub(crate) struct Names {
    /// `None`: not known, or not any more.
    list: Option<Vec<Box<[u8]>>>,
}

impl Names {
    /// A database was made or dropped.
    pub(crate) fn forget(&mut self) {
        self.list = None;
    }

    fn list<S: Snapshot>(&mut self, txn: &S, order: &Order) -> Result<&[Box<[u8]>], Error> {
        if self.list.is_none() {
            let tables = txn.tables()?.into_iter().map(|table| table.name.into_boxed_slice());
            let mut names: Vec<_> = tables.filter(|name| !name.is_empty()).collect();
            names.sort_by(|a, b| order.compare(a, b));
            self.list = Some(names);
        }
        Ok(self.list.as_deref().unwrap_or_default())
    }
}

/// Where to look from.
#[derive(Clone, Copy)]
pub(crate) enum From<'k> {
    /// The beginning, or (backwards) the end.
    Edge,
    /// This key, or the next one in the direction.
    At(&'k [u8]),
    /// The next one in the direction.
    Past(&'k [u8]),
}

/// A key and its value, handed out.
pub(crate) struct Pair {
    pub(crate) key: Val,
    pub(crate) value: Val,
}

/// A key and its value, copied.
type Row = (Vec<u8>, Vec<u8>);

/// The main database of a transaction.
pub(crate) struct Main<'t, S> {
    pub(crate) txn: &'t S,
    pub(crate) table: Option<Table>,
    pub(crate) names: &'t mut Names,
    pub(crate) arena: &'t mut Arena,
}

impl<S: Snapshot> Main<'_, S> {
    fn order(&self) -> Result<Order, Error> {
        self.table.map_or(Ok(Order::Bytewise), |table| self.txn.order(table))
    }

    /// The nearest pair.
    pub(crate) fn find(&mut self, from: From<'_>, forward: bool) -> Result<Option<Pair>, Error> {
        let order = self.order()?;
        let name = self.find_name(&order, from, forward)?;
        let row = self.find_row(from, forward)?;
        let nearer = |name: &[u8], key: &[u8]| match forward {
            true => order.compare(name, key).is_le(),
            false => order.compare(name, key).is_ge(),
        };
        match (name, row) {
            (Some(name), Some((key, _))) if nearer(&name, &key) => self.record(&name).map(Some),
            (_, Some((key, value))) => {
                let (key, value) = (self.arena.join(&key, &[]), self.arena.join(&value, &[]));
                Ok(Some(Pair { key, value }))
            }
            (Some(name), None) => self.record(&name).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn find_name(
        &mut self,
        order: &Order,
        from: From<'_>,
        forward: bool,
    ) -> Result<Option<Box<[u8]>>, Error> {
        let names = self.names.list(self.txn, order)?;
        let below = |key: &[u8]| names.partition_point(|name| order.compare(name, key).is_lt());
        let behind = |key: &[u8]| names.partition_point(|name| order.compare(name, key).is_le());
        // Forward the name at the place, backwards the one before it.
        let place = match (from, forward) {
            (From::Edge, true) => 0,
            (From::Edge, false) => names.len(),
            (From::At(key), true) | (From::Past(key), false) => below(key),
            (From::At(key), false) | (From::Past(key), true) => behind(key),
        };
        let place = if forward { Some(place) } else { place.checked_sub(1) };
        Ok(place.and_then(|place| names.get(place)).cloned())
    }

    fn find_row(&self, from: From<'_>, forward: bool) -> Result<Option<Row>, Error> {
        let Some(table) = self.table else { return Ok(None) };
        let mut cursor = self.txn.cursor(table)?;
        let found = match (from, forward) {
            (From::Edge, true) => cursor.first(self.txn)?,
            (From::Edge, false) => cursor.last(self.txn)?,
            (From::At(key), true) => cursor.seek_at_or_after(self.txn, key)?,
            (From::At(key), false) => cursor.seek_at_or_before(self.txn, key)?,
            (From::Past(key), _) => match (cursor.seek_near(self.txn, key)?, forward) {
                (Some((_, true)), true) => cursor.next(self.txn)?,
                (Some((entry, false)), true) => Some(entry),
                (None, true) => None,
                (Some(_), false) => cursor.prev(self.txn)?,
                (None, false) => cursor.last(self.txn)?,
            },
        };
        Ok(found.map(|entry| (entry.key.to_vec(), entry.value.to_vec())))
    }

    /// The record of a named database, of which the counts are those of this moment. The page
    /// numbers of LMDB have no meaning here.
    fn record(&mut self, name: &[u8]) -> Result<Pair, Error> {
        let info = self.txn.find_table(name)?;
        let mut record = [0; RECORD_BYTES];
        if let Some(info) = info {
            record[4..6].copy_from_slice(&(handles::flags_of(&info) as u16).to_ne_bytes());
            record[32..40].copy_from_slice(&info.count.values.to_ne_bytes());
        }
        let (key, value) = (self.arena.join(name, &[]), self.arena.join(&record, &[]));
        Ok(Pair { key, value })
    }

    /// A call of `mdb_cursor_get`.
    pub(crate) fn step(
        &mut self,
        place: &mut Place,
        op: u32,
        key: Option<&[u8]>,
    ) -> Result<Pair, Stop> {
        let at = std::mem::take(&mut place.key);
        let found = self.aim(place, &at, op, key);
        place.key = at;
        let pair = match found? {
            Aim::Stay => self.find(From::At(&place.key.clone()), true)?,
            Aim::Go(from, forward) => self.find(from, forward)?,
            Aim::Key(key) => {
                let found = self.find(From::At(key), true)?;
                let order = self.order()?;
                let exact = |pair: &Pair| order.compare(pair.bytes(), key).is_eq();
                if found.as_ref().is_some_and(|pair| !exact(pair)) {
                    self.stand(place, found.as_ref());
                    return Err(Stop::Code(MDB_NOTFOUND));
                }
                found
            }
            Aim::Next => {
                let key = place.key.clone();
                self.find(From::Past(&key), true)?
            }
            Aim::Previous => {
                let key = place.key.clone();
                self.find(From::Past(&key), false)?
            }
        };
        match pair {
            Some(pair) => {
                self.stand(place, Some(&pair));
                Ok(pair)
            }
            None => Err(Stop::Code(MDB_NOTFOUND)),
        }
    }

    /// After something was deleted: if it was what the cursor stands on, it stands on the next one.
    pub(crate) fn heal(&mut self, place: &mut Place) -> Result<(), Error> {
        if !place.is_set() || !place.is_at_end() && self.has(&place.key)? {
            return Ok(());
        }
        if !place.is_at_end() {
            let key = place.key.clone();
            let next = self.find(From::At(&key), true)?;
            self.stand(place, next.as_ref());
            place.set(next.is_none(), true);
        }
        if place.is_at_end() && self.find(From::Edge, true)?.is_none() {
            place.unset();
        }
        Ok(())
    }

    fn has(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.is_name(key)?
            || match self.table {
                Some(table) => self.txn.get(table, key)?.is_some(),
                None => false,
            })
    }

    fn stand(&self, place: &mut Place, pair: Option<&Pair>) {
        if let Some(pair) = pair {
            place.key.clear();
            place.key.extend_from_slice(pair.bytes());
            place.set(false, false);
        }
    }

    /// What a call looks for.
    fn aim<'k>(
        &self,
        place: &Place,
        _at: &[u8],
        op: u32,
        key: Option<&'k [u8]>,
    ) -> Result<Aim<'k>, Stop> {
        let set = place.is_set();
        Ok(match op {
            op::FIRST => Aim::Go(From::Edge, true),
            op::LAST => Aim::Go(From::Edge, false),
            op::GET_CURRENT | op::FIRST_DUP | op::LAST_DUP if !set => {
                return Err(Stop::Code(libc::EINVAL));
            }
            op::GET_CURRENT if !place.is_at_end() => Aim::Stay,
            op::NEXT | op::NEXT_NODUP | op::NEXT_DUP if !set => Aim::Go(From::Edge, true),
            op::PREV | op::PREV_NODUP | op::PREV_DUP if !set => Aim::Go(From::Edge, false),
            op::NEXT | op::NEXT_NODUP if place.is_key_gone() && !place.is_at_end() => Aim::Stay,
            op::NEXT | op::NEXT_NODUP if !place.is_at_end() => Aim::Next,
            op::PREV | op::PREV_NODUP if place.is_at_end() => Aim::Go(From::Edge, false),
            op::PREV | op::PREV_NODUP => Aim::Previous,
            op::NEXT | op::NEXT_NODUP | op::NEXT_DUP | op::PREV_DUP | op::GET_CURRENT => {
                return Err(Stop::Code(MDB_NOTFOUND));
            }
            op::SET | op::SET_KEY | op::SET_RANGE => match key {
                None => return Err(Stop::Code(libc::EINVAL)),
                Some([]) => return Err(Stop::Code(MDB_BAD_VALSIZE)),
                Some(key) if op == op::SET_RANGE => Aim::Go(From::At(key), true),
                Some(key) => Aim::Key(key),
            },
            _ => return Err(Stop::Code(MDB_INCOMPATIBLE)),
        })
    }

    /// How many names are before a bound: for a lower bound, those that it excludes.
    fn names_before(
        &mut self,
        order: &Order,
        bound: Bound<&[u8]>,
        is_low: bool,
    ) -> Result<usize, Error> {
        let names = self.names.list(self.txn, order)?;
        Ok(match (bound, is_low) {
            (Bound::Unbounded, true) => 0,
            (Bound::Unbounded, false) => names.len(),
            (Bound::Included(key), true) | (Bound::Excluded(key), false) => {
                names.partition_point(|name| order.compare(name, key).is_lt())
            }
            (Bound::Excluded(key), true) | (Bound::Included(key), false) => {
                names.partition_point(|name| order.compare(name, key).is_le())
            }
        })
    }

    /// How many keys lie in a range.
    pub(crate) fn count_range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<u64, Error> {
        let order = self.order()?;
        let first = self.names_before(&order, low, true)?;
        let names = self.names_before(&order, high, false)?.saturating_sub(first) as u64;
        let Some(table) = self.table else { return Ok(names) };
        Ok(names + self.txn.count_range(table, (low, high))?.keys)
    }

    /// How many keys come before one that is there.
    pub(crate) fn rank(&mut self, key: &[u8]) -> Result<Option<u64>, Error> {
        let is_name = self.is_name(key)?;
        let row = self.table.map(|table| self.txn.rank(table, key)).transpose()?;
        if !is_name && !row.is_some_and(|row| row.found) {
            return Ok(None);
        }
        let order = self.order()?;
        let names = self.names_before(&order, Bound::Excluded(key), false)?;
        Ok(Some(names as u64 + row.map_or(0, |row| row.keys)))
    }

    /// Stands on the key with `n` keys before it. The names before it are bisected.
    pub(crate) fn seek_nth(&mut self, place: &mut Place, n: u64) -> Result<Pair, Stop> {
        let order = self.order()?;
        let names = self.names.list(self.txn, &order)?.to_vec();
        let (mut low, mut high) = (0, names.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rank(&names[middle])?.is_some_and(|rank| rank < n) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let pair = match names.get(low) {
            Some(name) if self.rank(name)? == Some(n) => Some(self.record(name)?),
            _ => match self.table {
                Some(table) => self.txn.nth(table, n - low as u64)?.map(|entry| Pair {
                    key: self.arena.val(entry.key),
                    value: self.arena.val(entry.value),
                }),
                None => None,
            },
        };
        let pair = pair.ok_or(Stop::Code(MDB_NOTFOUND))?;
        self.stand(place, Some(&pair));
        Ok(pair)
    }

    /// Whether a key is the name of a database.
    pub(crate) fn is_name(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(!key.is_empty() && self.txn.find_table(key)?.is_some())
    }

    /// The value of a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Val>, Error> {
        if self.is_name(key)? {
            return Ok(Some(self.record(key)?.value));
        }
        let Some(table) = self.table else { return Ok(None) };
        Ok(self.txn.get(table, key)?.map(|value| self.arena.val(value)))
    }
}

/// What a step of a cursor looks for.
enum Aim<'k> {
    Stay,
    Next,
    Previous,
    Go(From<'k>, bool),
    Key(&'k [u8]),
}

impl Pair {
    /// The bytes of the key.
    pub(crate) fn bytes(&self) -> &[u8] {
        crate::ffi::bytes_of(&self.key)
    }
}

/// Pages and entries of the main database: of the table without a name, and of the catalog, where
/// the records of the named ones stand.
pub(crate) fn stat<S: Snapshot>(txn: &S, page_size: u32) -> Result<Stat, Error> {
    let mut stat = Stat { psize: page_size, ..Stat::default() };
    let mut add = |part: &hedgerow::tree::TableStat, entries: u64| {
        stat.depth = stat.depth.max(part.depth);
        stat.branch_pages += part.branch_pages as usize;
        stat.leaf_pages += part.leaf_pages as usize;
        stat.overflow_pages += part.overflow_pages as usize;
        stat.entries += entries as usize;
    };
    let main = txn.find_table(b"")?;
    let names = txn.table_count() - u64::from(main.is_some());
    if names > 0 {
        add(&txn.catalog_stat(), names);
    }
    if let Some(info) = main {
        let functions = handles::Functions::default();
        let table = txn.table_with(b"", &handles::options_of(&info, &functions))?;
        let part = txn.table_stat(table)?;
        add(&part, part.count.values);
    }
    Ok(stat)
}
