//! The operations whose instructions are counted: what each does, and what its answers must sum up
//! to. This module knows nothing of valgrind or of any particular engine.

use std::path::Path;

use hedgerow::tree::Bytes;

use crate::data::{self, Generator};
use crate::engine::{Cursor, Engine, Paged, Promise, Reader, Result, Table, Writer};

/// Entries of the plain table.
pub(crate) const ENTRIES: u64 = 200_000;
/// Keys of the table with duplicates.
pub(crate) const DUPLICATE_KEYS: u64 = 10_000;
/// Values of each of them.
pub(crate) const DUPLICATES: u64 = 20;

const PLAIN: Table = Table { name: "plain", duplicates: false };
const PACKED: Table = Table { name: "packed", duplicates: false };
const DUPLICATE: Table = Table { name: "duplicates", duplicates: true };
const EMPTY: Table = Table { name: "empty", duplicates: false };
const SEED: u64 = 42;
/// Copies of keys are kept in pieces of memory of this length.
const KEPT_BYTES: usize = 64 << 10;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// A step of a scan from the first entry on.
    CursorNext,
    /// The same, each key in one piece that stays until the transaction ends.
    CursorNextKept,
    /// The value of a random key.
    Get,
    /// The entry at a random rank.
    Nth,
    /// The rank of a random key.
    Rank,
    /// The number of entries between two random keys.
    CountRange,
    /// The number of distinct keys in a range of 500 keys with 20 values each.
    DistinctKeys,
    /// The same in a range of 5,000 keys.
    #[value(name = "distinct_keys_5000")]
    DistinctKeysLong,
    /// A new random key in a large transaction, the table having grown in random order.
    PutRandom,
    /// The same, the table having been filled in order.
    PutRandomPacked,
    /// A new last key in a large transaction.
    Append,
    /// The deletion of the first key in a large transaction, the table having been filled in order.
    DeleteFirst,
    /// A new random key in a transaction of its own, committed unsynced.
    CommitOne,
    /// All 20 values of a random key.
    #[value(name = "duplicates_20")]
    Duplicates20,
}

/// How much more an operation may take than it does. A change elsewhere in the engine moves what
/// the compiler inlines, and with it each of these numbers by up to a hundredth.
const SLACK: f64 = 1.02;

/// How a workload is measured and what it is expected to cost.
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    /// Its name in the output.
    pub(crate) name: &'static str,
    /// The two numbers of operations whose difference is counted.
    pub(crate) operations: [u64; 2],
    /// Instructions that Hedgerow must stay within.
    pub(crate) limit: f64,
}

/// All workloads. Those that write in one transaction begin at 0: what the first operations cost
/// beyond the others (pages copied, memory taken) is part of a large transaction. The generator's
/// own loop differs by one instruction between builds, and what is left for the engine with it. The
/// last number is what an operation of Hedgerow takes, to which [`SLACK`] is added.
pub(crate) const PLANS: [Plan; 14] = [
    plan(Workload::CursorNext, "cursor_next", [20_000, 200_000], 31.0),
    plan(Workload::CursorNextKept, "cursor_next_kept", [20_000, 200_000], 93.0),
    plan(Workload::Get, "get", [10_000, 60_000], 792.0),
    plan(Workload::Nth, "nth", [10_000, 60_000], 364.0),
    plan(Workload::Rank, "rank", [10_000, 60_000], 789.0),
    plan(Workload::CountRange, "count_range", [10_000, 60_000], 1537.0),
    plan(Workload::DistinctKeys, "distinct_keys", [10_000, 60_000], 1828.0),
    plan(Workload::DistinctKeysLong, "distinct_keys_5000", [10_000, 60_000], 1828.0),
    plan(Workload::PutRandom, "put_random", [0, 20_000], 3235.0),
    plan(Workload::PutRandomPacked, "put_random_packed", [0, 20_000], 5165.0),
    plan(Workload::Append, "append", [0, 100_000], 545.0),
    plan(Workload::DeleteFirst, "delete_first", [0, 20_000], 2440.0),
    plan(Workload::CommitOne, "commit_one", [1_000, 6_000], 29_700.0),
    plan(Workload::Duplicates20, "duplicates_20", [5_000, 25_000], 971.0),
];

const fn plan(workload: Workload, name: &'static str, operations: [u64; 2], takes: f64) -> Plan {
    Plan { workload, name, operations, limit: takes * SLACK }
}

impl Workload {
    /// True if only an engine with order statistics can do it.
    pub(crate) fn counts(self) -> bool {
        matches!(
            self,
            Self::Nth | Self::Rank | Self::CountRange | Self::DistinctKeys | Self::DistinctKeysLong
        )
    }

    /// True if it changes the store.
    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Self::PutRandom
                | Self::PutRandomPacked
                | Self::Append
                | Self::DeleteFirst
                | Self::CommitOne
        )
    }

    /// The table that it works on.
    fn table(self) -> Table {
        match self {
            Self::DistinctKeys | Self::DistinctKeysLong | Self::Duplicates20 => DUPLICATE,
            Self::PutRandomPacked | Self::DeleteFirst => PACKED,
            Self::Append => EMPTY,
            _ => PLAIN,
        }
    }

    /// How many keys a range has, where the workload counts the keys of one.
    fn span(self) -> u64 {
        if self == Self::DistinctKeysLong { 5000 } else { 500 }
    }
}

/// Fills a new store with the tables that the workloads use. But for the packed one the entries
/// come in random order, as their keys are hashes.
pub(crate) fn prepare<E: Engine>(folder: &Path) -> Result<()> {
    let store = E::open(folder, None)?;
    store.write(PLAIN, Promise::Unsynced, |txn| {
        (0..ENTRIES).try_for_each(|index| txn.put(&data::random_key(index), &data::value(index)))
    })?;
    store.write(PACKED, Promise::Unsynced, |txn| {
        let mut entries = sorted_keys(ENTRIES).into_iter();
        entries.try_for_each(|(key, index)| txn.put(&key, &data::value(index)))
    })?;
    store.write(DUPLICATE, Promise::Unsynced, |txn| {
        for number in 0..DUPLICATES {
            for index in 0..DUPLICATE_KEYS {
                txn.put(&data::random_key(index), &data::random_duplicate(index, number))?;
            }
        }
        Ok(())
    })?;
    store.write(EMPTY, Promise::Unsynced, |_| Ok(()))
}

/// Runs a workload and gives the sum of its answers to `end`. A workload that writes in one
/// transaction calls it inside the transaction, since the cost of ending it depends on the number
/// of operations.
pub(crate) fn run<E>(
    store: &E,
    workload: Workload,
    operations: u64,
    end: impl FnOnce(u64) -> Result<()>,
) -> Result<()>
where
    E: Engine + 'static,
    for<'e> E::Writer<'e>: Paged,
{
    let sum = store.read(workload.table(), |txn| {
        // So that every page is in memory and has been looked at.
        txn.scan(|_, _| {})?;
        read(txn, workload, operations)
    })?;
    if !workload.writes() {
        return end(sum);
    }
    if workload == Workload::CommitOne {
        return end(commit_each(store, workload.table(), operations)?);
    }
    let promise = Promise::Unsynced;
    store.write(workload.table(), promise, |txn| end(write(txn, workload, operations)?))
}

/// Puts each entry in a transaction of its own; returns how many entries the table then has.
fn commit_each<E: Engine>(store: &E, table: Table, operations: u64) -> Result<u64> {
    for index in ENTRIES..ENTRIES + operations {
        let (key, value) = (data::random_key(index), data::value(index));
        store.write(table, Promise::Unsynced, |txn| txn.put(&key, &value))?;
    }
    store.read(table, |txn| txn.len())
}

/// Runs a workload that reads; returns the sum of its answers.
fn read<R: Reader>(txn: &R, workload: Workload, operations: u64) -> Result<u64> {
    match workload {
        Workload::CursorNext => cursor_next(txn, operations),
        Workload::CursorNextKept => cursor_next_kept(txn, operations),
        Workload::Get => get(txn, operations),
        Workload::Duplicates20 => duplicates_20(txn, operations),
        Workload::Nth => nth(txn, operations),
        Workload::Rank => rank(txn, operations),
        Workload::CountRange => count_range(txn, operations),
        Workload::DistinctKeys | Workload::DistinctKeysLong => {
            distinct_keys(txn, workload.span(), operations)
        }
        Workload::PutRandom
        | Workload::PutRandomPacked
        | Workload::Append
        | Workload::DeleteFirst
        | Workload::CommitOne => Ok(0),
    }
}

/// Looks at a string: its length and its first byte. The sum of these is the run's answer, so the
/// optimiser has to keep both reads. Where it is in two pieces none of them is empty.
#[inline(always)]
pub(crate) fn touch(bytes: Bytes<'_>) -> u64 {
    let first = |piece: &[u8]| u64::from(piece.first().copied().unwrap_or(0));
    match bytes.as_slice() {
        Some(whole) => whole.len() as u64 + first(whole),
        None => bytes.len() as u64 + first(bytes.parts().0),
    }
}

fn cursor_next<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut cursor = txn.cursor()?;
    let mut sum = 0;
    for _ in 0..operations {
        let Some((key, value)) = cursor.next()? else { break };
        sum += key.len() as u64 + touch(value);
    }
    Ok(sum)
}

/// What the C interface promises; where keys are not stored in one piece this copies them.
fn cursor_next_kept<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let (mut cursor, mut kept) = (txn.cursor()?, Kept::default());
    let mut sum = 0;
    for _ in 0..operations {
        let Some((key, value)) = cursor.next()? else { break };
        let key = key.as_slice().unwrap_or_else(|| kept.keep(key));
        sum += key.len() as u64 + u64::from(key.last().copied().unwrap_or(0)) + touch(value);
    }
    Ok(sum)
}

/// Copies of strings that were in two pieces, none of which moves.
#[derive(Default)]
struct Kept {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Kept {
    #[inline(always)]
    fn keep(&mut self, bytes: Bytes<'_>) -> &[u8] {
        if self.last.capacity() - self.last.len() < bytes.len() {
            let next = Vec::with_capacity(KEPT_BYTES.max(bytes.len()));
            self.full.push(std::mem::replace(&mut self.last, next));
        }
        let begin = self.last.len();
        bytes.append_to(&mut self.last);
        &self.last[begin..]
    }
}

fn get<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let key = data::random_key(random.below(ENTRIES));
        sum += txn.get(&key, touch)?.unwrap_or(0);
    }
    Ok(sum)
}

fn duplicates_20<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut cursor = txn.cursor()?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let key = data::random_key(random.below(DUPLICATE_KEYS));
        let values = cursor.each_value(&key, |value| sum += touch(value))?;
        sum += values;
    }
    Ok(sum)
}

fn nth<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let see = |key: Bytes<'_>, value: Bytes<'_>| key.len() as u64 + touch(value);
        sum += txn.nth(random.below(ENTRIES), see)?.unwrap_or(0);
    }
    Ok(sum)
}

fn rank<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        sum += txn.rank(&data::random_key(random.below(ENTRIES)))?;
    }
    Ok(sum)
}

/// Two random keys in order.
#[inline(always)]
fn random_range(random: &mut Generator) -> ([u8; 16], [u8; 16]) {
    let one = data::random_key(random.below(ENTRIES));
    let other = data::random_key(random.below(ENTRIES));
    (one.min(other), one.max(other))
}

fn count_range<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let (low, high) = random_range(&mut random);
        sum += txn.count_range(&low, &high)?;
    }
    Ok(sum)
}

fn distinct_keys<R: Reader>(txn: &R, span: u64, operations: u64) -> Result<u64> {
    let keys = sorted_keys(DUPLICATE_KEYS);
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let from = random.below(DUPLICATE_KEYS - span) as usize;
        let (low, high) = (&keys[from].0, &keys[from + span as usize].0);
        sum += txn.count_keys(low, high)?;
    }
    Ok(sum)
}

/// Runs a workload that writes; returns how many entries its table then has.
fn write<W: Writer + Paged>(txn: &mut W, workload: Workload, operations: u64) -> Result<u64> {
    match workload {
        Workload::Append => (0..operations)
            .try_for_each(|index| txn.append(&data::ascending_key(index), &data::value(index)))?,
        Workload::DeleteFirst => {
            let first = sorted_keys(ENTRIES).into_iter().take(operations as usize);
            first.map(|(key, _)| key).try_for_each(|key| txn.delete(&key))?;
        }
        _ => (ENTRIES..ENTRIES + operations)
            .try_for_each(|index| txn.put(&data::random_key(index), &data::value(index)))?,
    }
    Ok(txn.pages()?.entries)
}

/// The first `count` random keys in order, each with its index.
fn sorted_keys(count: u64) -> Vec<([u8; 16], u64)> {
    let mut keys: Vec<_> = (0..count).map(|index| (data::random_key(index), index)).collect();
    keys.sort_unstable();
    keys
}

/// The right answer of a workload, from a sorted array in place of a store.
pub(crate) fn expected(workload: Workload, operations: u64) -> u64 {
    let sorted = sorted_keys(ENTRIES);
    let mut rank = vec![0; sorted.len()];
    for (place, (_, index)) in sorted.iter().enumerate() {
        rank[*index as usize] = place as u64;
    }
    let value = |index: u64| 64 + u64::from(data::first_byte_of_value(index));
    let pair = |place: u64| {
        let (_, index) = sorted[place as usize];
        16 + value(index)
    };
    let mut random = Generator::new(SEED);
    let operation = |number| match workload {
        Workload::CursorNext => pair(number),
        Workload::CursorNextKept => pair(number) + u64::from(sorted[number as usize].0[15]),
        Workload::Get => value(random.below(ENTRIES)),
        Workload::Nth => pair(random.below(ENTRIES)),
        Workload::Rank => rank[random.below(ENTRIES) as usize],
        Workload::CountRange => {
            let one = rank[random.below(ENTRIES) as usize];
            one.abs_diff(rank[random.below(ENTRIES) as usize])
        }
        Workload::DistinctKeys | Workload::DistinctKeysLong => workload.span(),
        Workload::Duplicates20 => {
            let key = random.below(DUPLICATE_KEYS);
            let value = |number| u64::from(data::random_duplicate(key, number)[0]);
            DUPLICATES + (0..DUPLICATES).map(|number| 16 + value(number)).sum::<u64>()
        }
        Workload::PutRandom
        | Workload::PutRandomPacked
        | Workload::Append
        | Workload::DeleteFirst
        | Workload::CommitOne => 1,
    };
    let sum = (0..operations).map(operation).sum::<u64>();
    match workload {
        Workload::DeleteFirst => ENTRIES - sum,
        Workload::Append => sum,
        _ if workload.writes() => ENTRIES + sum,
        _ => sum,
    }
}

/// Runs a workload that writes, commits it and looks up everything that it should have left.
pub(crate) fn verify_writes<E>(store: &E, workload: Workload, operations: u64) -> Result<()>
where
    E: Engine + 'static,
    for<'e> E::Writer<'e>: Paged,
{
    let table = workload.table();
    let all = match workload {
        Workload::CommitOne => commit_each(store, table, operations)?,
        _ => store.write(table, Promise::Unsynced, |txn| write(txn, workload, operations))?,
    };
    let left: Vec<([u8; 16], u64)> = match workload {
        Workload::Append => (0..all).map(|index| (data::ascending_key(index), index)).collect(),
        Workload::DeleteFirst => sorted_keys(ENTRIES).split_off(operations as usize),
        _ => (0..all).map(|index| (data::random_key(index), index)).collect(),
    };
    store.read(table, |txn| {
        for (key, index) in left {
            if txn.get(&key, |value| value == data::value(index))? != Some(true) {
                return Err(format!("{workload:?}: entry {index} is missing or wrong").into());
            }
        }
        Ok(())
    })?;
    match expected(workload, operations) {
        expected if expected == all => Ok(()),
        expected => Err(format!("{workload:?}: {all} entries are there, not {expected}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::lmdb::Environment;

    #[test]
    fn the_expected_answers_are_those_of_a_store() {
        let folder = tempfile::tempdir().unwrap();
        prepare::<Environment>(folder.path()).unwrap();
        let store = Environment::open(folder.path(), None).unwrap();
        for Plan { workload, .. } in PLANS.iter().filter(|plan| !plan.workload.writes()) {
            let check = |sum| {
                assert_eq!(sum, expected(*workload, 10), "{workload:?}");
                assert_ne!(sum, expected(*workload, 9), "{workload:?}");
                Ok(())
            };
            run(&store, *workload, 10, check).unwrap();
        }
        for workload in [Workload::PutRandom, Workload::PutRandomPacked, Workload::Append] {
            verify_writes(&store, workload, 1000).unwrap();
            // Fewer operations than have been done: the number of entries gives it away.
            assert!(verify_writes(&store, workload, 500).is_err(), "{workload:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        prepare::<Environment>(folder.path()).unwrap();
        let store = Environment::open(folder.path(), None).unwrap();
        verify_writes(&store, Workload::DeleteFirst, 1000).unwrap();
        assert!(verify_writes(&store, Workload::DeleteFirst, 500).is_err());
    }
}
