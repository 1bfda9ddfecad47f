//! The values beside the one that a cursor stands on, for callers that cannot afford to check at
//! each step whether the cursor still stands where it did.

use super::{Cursor, State};
use crate::tree::Snapshot;
use crate::tree::page::Layout;
use crate::tree::page::group::Group;

/// The values of a key that stand in one group, each in one piece, and the one of them that a
/// [`Cursor`] stands on. It borrows the read transaction, which therefore neither ends nor is
/// renewed, and steps by itself; [`Cursor::follow_among`] then moves the cursor to its place.
#[derive(Clone, Copy, Debug)]
pub struct Among<'t> {
    key: &'t [u8],
    group: Group<'t>,
    value: usize,
    /// The group among those of its table, and the transaction's number.
    id: usize,
    unique: u64,
}

impl<'t> Among<'t> {
    /// The key.
    #[inline(always)]
    pub fn key(&self) -> &'t [u8] {
        self.key
    }

    /// Steps to the next value of the group, if there is one.
    #[inline(always)]
    pub fn step(&mut self) -> Option<&'t [u8]> {
        let value = self.value + 1;
        if value >= self.group.count() {
            return None;
        }
        self.value = value;
        Some(self.group.rest(value))
    }

    /// The same back.
    #[inline(always)]
    pub fn back(&mut self) -> Option<&'t [u8]> {
        self.value = self.value.checked_sub(1)?;
        Some(self.group.rest(self.value))
    }
}

#[doc(hidden)]
impl Cursor {
    /// The values of its key, if the cursor stands in an ALIGNED leaf of a read transaction, where
    /// each is in one piece, on one of several in a group, and the key is short.
    #[inline(always)]
    pub fn among<'t, S: Snapshot>(&self, txn: &'t S) -> Option<Among<'t>> {
        let is_among = self.values > 1 && self.leaf.layout() == Layout::Aligned;
        if S::WRITES || !is_among || self.state != State::On || !self.has_leaf(txn) {
            return None;
        }
        let (key, group) = self.page().aligned_group_of(self.offset_here())?;
        let (value, id) = (self.value, self.group_id());
        Some(Among { key, group, value, id, unique: txn.unique() })
    }

    /// Goes to the value that the steps have led to. No effect if the cursor has been moved since.
    #[inline(always)]
    pub fn follow_among(&mut self, among: &Among<'_>) {
        let is_there = self.unique == among.unique && self.group_id() == among.id;
        if is_there && self.state == State::On && self.values == among.group.count() {
            self.set_value(among.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ReadTxn, Store, Table, TableOptions};

    type Pair = (Vec<u8>, Vec<u8>);

    /// Steps through a table in both directions, among the values where that can be, and turns
    /// round now and then. How many steps were such ones.
    fn walk(txn: &ReadTxn, table: Table, expected: &[Pair]) -> usize {
        let mut cursor = txn.cursor(table).unwrap();
        let (mut among, mut quick, mut at) = (None::<Among<'_>>, 0, usize::MAX);
        let mut random = 1_u64;
        for steps in 0.. {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Two thirds of the steps go on, so that the walk ends.
            let back = random >> 32 & 0xFFFF < 0x5555 && at > 0 && at != usize::MAX;
            let to = if back { at - 1 } else { at.wrapping_add(1) };
            if to == expected.len() {
                break;
            }
            let step = |among: &mut Among<'_>| {
                let value = if back { among.back() } else { among.step() };
                value.map(|value| (among.key().to_vec(), value.to_vec()))
            };
            if let Some(pair) = among.as_mut().and_then(step) {
                assert_eq!(pair, expected[to], "{to} after {steps}");
                quick += 1;
            } else {
                if let Some(among) = among.take() {
                    cursor.follow_among(&among);
                }
                let entry = if back { cursor.prev(txn) } else { cursor.next(txn) };
                let entry = entry.unwrap().unwrap();
                assert_eq!((entry.key.to_vec(), entry.value.to_vec()), expected[to], "{to}");
                among = cursor.among(txn);
            }
            at = to;
            if steps % 5 == 0 {
                if let Some(among) = &among {
                    cursor.follow_among(among);
                }
                let here = cursor.current(txn).unwrap().unwrap();
                assert!(here.key == expected[at].0 && here.value == expected[at].1, "{at}");
            }
        }
        quick
    }

    #[test]
    fn steps_among_values_are_those_of_the_cursor() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        // Values of one length, and of many; keys with one, and with more than a leaf holds.
        let entry = |i: usize, value: usize, is_varied: bool| {
            let len = if is_varied { 3 + value % 9 } else { 8 };
            (format!("key {i:03}").into_bytes(), format!("{value:0len$}").into_bytes())
        };
        for (name, is_varied, prefixes) in
            [("fixed", false, false), ("varied", true, false), ("shared", false, true)]
        {
            let mut entries: Vec<Pair> = (0..200_usize)
                .flat_map(|i| (0..[1, 2, 30, 1, 700][i % 5]).map(move |value| (i, value)))
                .map(|(i, value)| entry(i, value, is_varied))
                .collect();
            let options = TableOptions::new().duplicates().prefix_compression(prefixes);
            let mut txn = store.begin_write().unwrap();
            let table = txn.create_table(name, &options).unwrap();
            entries.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
            txn.commit().unwrap();
            entries.sort();
            entries.dedup();
            let txn = store.begin_read().unwrap();
            let quick = walk(&txn, txn.table(name).unwrap(), &entries);
            // Where values share their beginnings none is in one piece.
            assert_eq!(quick > entries.len(), !prefixes, "{name}: {quick} of {}", entries.len());
        }
    }
}
