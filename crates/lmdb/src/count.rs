//! DLMDB's calls: counts, ranks and lists. The engine counts in every table, so that they work on
//! all of them.

use std::ops::Bound;

use hedgerow::tree::{Count, Snapshot};

use crate::abi::*;
use crate::code::Answer;
use crate::cursor::Given;
use crate::handles::View;
use crate::place::{Place, Stop};
use crate::txn::{Txn, on_body};

/// What of a range is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Keys of a database without duplicates.
    PlainKeys,
    /// Distinct keys of any database.
    Keys,
    /// Values of a database with duplicates.
    Values,
}

/// The bound of a range. A string of no bytes is none.
fn bound(key: Option<&[u8]>, included: bool) -> Answer<Bound<&[u8]>> {
    match key {
        None => Ok(Bound::Unbounded),
        Some([]) => Err(MDB_BAD_VALSIZE),
        Some(key) if included => Ok(Bound::Included(key)),
        Some(key) => Ok(Bound::Excluded(key)),
    }
}

impl Txn {
    /// What a handle means to a call that counts, and whether the records of named databases stand
    /// between its entries.
    fn counted(&mut self, dbi: usize) -> Answer<(View, bool)> {
        self.view(dbi)?;
        self.check()?;
        let view = self.prepared(dbi)?;
        let named = dbi == MAIN && view.state & View::PLAIN == 0 && self.has_names()?;
        Ok((view, named))
    }

    /// `mdb_count_all`.
    pub(crate) fn count_all(&mut self, dbi: usize, flags: u32) -> Answer<u64> {
        check_count_flags(flags)?;
        let (view, named) = self.counted(dbi)?;
        if named {
            return self.count_in_main(&view, Bound::Unbounded, Bound::Unbounded);
        }
        let Some(table) = view.table else { return Ok(0) };
        let count = on_body!(&self.body, txn => txn.count(table));
        count.map(|count| count.values).map_err(|e| self.fail(&e))
    }

    /// `mdb_count_range`, `mdb_range_count_keys`, `mdb_range_count_values`.
    pub(crate) fn count_range(
        &mut self,
        dbi: usize,
        what: What,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        flags: u32,
    ) -> Answer<u64> {
        check_count_flags(flags)?;
        let (view, named) = self.counted(dbi)?;
        let fits = match what {
            What::PlainKeys => !view.has_duplicates(),
            What::Keys => true,
            What::Values => view.has_duplicates(),
        };
        if !fits {
            return Err(MDB_INCOMPATIBLE);
        }
        let low = bound(low, flags & MDB_COUNT_LOWER_INCL != 0)?;
        let high = bound(high, flags & MDB_COUNT_UPPER_INCL != 0)?;
        if named {
            return self.count_in_main(&view, low, high);
        }
        let Some(table) = view.table else { return Ok(0) };
        let count = on_body!(&self.body, txn => txn.count_range(table, (low, high)));
        let count: Count = count.map_err(|e| self.fail(&e))?;
        Ok(if what == What::Values { count.values } else { count.keys })
    }

    fn count_in_main(&mut self, view: &View, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Answer<u64> {
        let (names, arena) = (&mut self.names, &mut self.arena);
        let count = on_body!(&self.body, txn => {
            Self::main(txn, view.table, names, arena).count_range(low, high)
        });
        count.map_err(|e| self.fail(&e))
    }

    /// `mdb_get_rank`, `mdb_cursor_get_rank`: the place of the pair with `rank` pairs before it.
    pub(crate) fn get_rank(&mut self, dbi: usize, place: &mut Place, rank: u64) -> Answer<Given> {
        let (view, named) = self.counted(dbi)?;
        let (names, arena) = (&mut self.names, &mut self.arena);
        let found: Result<Given, Stop> = (|| {
            on_body!(&self.body, txn => {
                if named {
                    let pair = Self::main(txn, view.table, names, arena).seek_nth(place, rank)?;
                    return Ok(Given { key: Some(pair.key), data: Some(pair.value) });
                }
                place.attach(txn, view.table)?;
                let entry = place.seek_nth(txn, rank)?;
                let (key, value) = (arena.val(entry.key), arena.val(entry.value));
                Ok(Given { key: Some(key), data: Some(value) })
            })
        })();
        found.map_err(|stop| self.stopped(stop))
    }

    /// `mdb_get_key_rank`, `mdb_cursor_key_rank`: how many pairs come before a pair, or before a
    /// key. In a database without duplicates the value is ignored.
    pub(crate) fn key_rank(&mut self, dbi: usize, key: &[u8], value: Option<&[u8]>) -> Answer<u64> {
        let (view, named) = self.counted(dbi)?;
        if key.is_empty() {
            return Err(MDB_BAD_VALSIZE);
        }
        if named {
            let (names, arena) = (&mut self.names, &mut self.arena);
            let rank = on_body!(&self.body, txn => {
                Self::main(txn, view.table, names, arena).rank(key)
            });
            return rank.map_err(|e| self.fail(&e))?.ok_or(MDB_NOTFOUND);
        }
        let Some(table) = view.table else { return Err(MDB_NOTFOUND) };
        let value = value.filter(|_| view.has_duplicates());
        let rank = on_body!(&self.body, txn => match value {
            Some(value) => txn.rank_pair(table, key, value),
            None => txn.rank(table, key),
        });
        let rank = rank.map_err(|e| self.fail(&e))?;
        if rank.found { Ok(rank.values) } else { Err(MDB_NOTFOUND) }
    }

    /// `mdb_cursor_list_dup`: all values of the key under the cursor, which does not move.
    pub(crate) fn list_values(
        &mut self,
        dbi: usize,
        place: &mut Place,
        values: &mut Vec<Val>,
    ) -> Answer {
        let (view, _) = self.counted(dbi)?;
        if !view.has_duplicates() {
            return Err(MDB_INCOMPATIBLE);
        }
        values.clear();
        let arena = &mut self.arena;
        let listed: Result<(), Stop> = (|| {
            on_body!(&self.body, txn => {
                place.attach(txn, view.table)?;
                let mut walk = place.clone();
                values.reserve(walk.count(txn)? as usize);
                let key = walk.within_key(txn, true, false)?.key.to_cow();
                if let Some(table) = view.table {
                    txn.for_each_value(table, &key, |value| values.push(arena.val(value)))?;
                }
                Ok(())
            })
        })();
        listed.map_err(|stop| self.stopped(stop))
    }
}

fn check_count_flags(flags: u32) -> Answer {
    match flags & !(MDB_COUNT_LOWER_INCL | MDB_COUNT_UPPER_INCL) {
        0 => Ok(()),
        _ => Err(libc::EINVAL),
    }
}
