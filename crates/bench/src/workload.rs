//! The operations whose instructions are counted: what each does, and what its answers must sum up
//! to. Knows nothing of valgrind and of any particular engine.

use std::path::Path;

use hedgerow::tree::Bytes;

use crate::data::{self, Generator};
use crate::engine::{Counting, Cursor, Engine, Reader, Result, Writer};

/// Entries of the plain table.
pub(crate) const ENTRIES: u64 = 200_000;
/// Keys of the table with duplicates.
pub(crate) const DUPLICATE_KEYS: u64 = 10_000;
/// Values of each of them.
pub(crate) const DUPLICATES: u64 = 20;

const PLAIN: &str = "plain";
const PACKED: &str = "packed";
const DUPLICATE: &str = "duplicates";
const EMPTY: &str = "empty";
const SEED: u64 = 42;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// A step of a scan from the first entry on.
    CursorNext,
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
    /// All 20 values of a random key.
    #[value(name = "duplicates_20")]
    Duplicates20,
}

/// How a workload is measured and what it is expected to cost.
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    /// Its name in the output.
    pub(crate) name: &'static str,
    /// The two numbers of operations whose difference is counted.
    pub(crate) operations: [u64; 2],
    /// Instructions that Hedgerow should stay within.
    pub(crate) limit: Option<f64>,
}

/// All workloads. Those that write begin at 0: what the first operations cost beyond the others
/// (pages copied, memory taken) is part of a large transaction.
pub(crate) const PLANS: [Plan; 11] = [
    plan(Workload::CursorNext, "cursor_next", [20_000, 200_000], Some(30.0)),
    plan(Workload::Get, "get", [10_000, 60_000], Some(700.0)),
    plan(Workload::Nth, "nth", [10_000, 60_000], Some(450.0)),
    plan(Workload::Rank, "rank", [10_000, 60_000], None),
    plan(Workload::CountRange, "count_range", [10_000, 60_000], Some(1400.0)),
    plan(Workload::DistinctKeys, "distinct_keys", [10_000, 60_000], Some(2000.0)),
    plan(Workload::DistinctKeysLong, "distinct_keys_5000", [10_000, 60_000], Some(2000.0)),
    plan(Workload::PutRandom, "put_random", [0, 20_000], Some(4500.0)),
    plan(Workload::PutRandomPacked, "put_random_packed", [0, 20_000], None),
    plan(Workload::Append, "append", [0, 100_000], Some(600.0)),
    plan(Workload::Duplicates20, "duplicates_20", [5_000, 25_000], Some(1200.0)),
];

const fn plan(
    workload: Workload,
    name: &'static str,
    operations: [u64; 2],
    limit: Option<f64>,
) -> Plan {
    Plan { workload, name, operations, limit }
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
        matches!(self, Self::PutRandom | Self::PutRandomPacked | Self::Append)
    }

    /// The table that it works on.
    fn table(self) -> &'static str {
        match self {
            Self::DistinctKeys | Self::DistinctKeysLong | Self::Duplicates20 => DUPLICATE,
            Self::PutRandomPacked => PACKED,
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
    let store = E::create(folder)?;
    let mut txn = store.write()?;
    let plain = txn.create_table(PLAIN, false)?;
    for index in 0..ENTRIES {
        txn.put(plain, &data::random_key(index), &data::value(index))?;
    }
    let packed = txn.create_table(PACKED, false)?;
    for (key, index) in sorted_keys(ENTRIES) {
        txn.put(packed, &key, &data::value(index))?;
    }
    let duplicate = txn.create_table(DUPLICATE, true)?;
    for number in 0..DUPLICATES {
        for index in 0..DUPLICATE_KEYS {
            let value = data::random_duplicate(index, number);
            txn.put(duplicate, &data::random_key(index), &value)?;
        }
    }
    txn.create_table(EMPTY, false)?;
    txn.commit()
}

/// Runs a workload that every engine can do; returns the sum of its answers.
pub(crate) fn run<E: Engine>(store: &E, workload: Workload, operations: u64) -> Result<u64> {
    let txn = store.read()?;
    txn.warm(txn.table(workload.table())?)?;
    match workload {
        Workload::CursorNext => cursor_next(&txn, operations),
        Workload::Get => get(&txn, operations),
        Workload::Duplicates20 => duplicates_20(&txn, operations),
        _ if workload.writes() => {
            drop(txn);
            let mut txn = store.write()?;
            let left = write(&mut txn, workload, operations)?;
            // Neither committed nor undone: the process is about to end, and what an abort costs
            // depends on the number of operations.
            std::mem::forget(txn);
            Ok(left)
        }
        _ => Err(format!("{workload:?} needs an engine with order statistics").into()),
    }
}

/// Runs any workload on an engine with order statistics; returns the sum of its answers.
pub(crate) fn run_counting<'e, E>(store: &'e E, workload: Workload, operations: u64) -> Result<u64>
where
    E: Engine<Reader<'e>: Counting> + 'e,
{
    if !workload.counts() {
        return run(store, workload, operations);
    }
    let txn = store.read()?;
    txn.warm(txn.table(workload.table())?)?;
    match workload {
        Workload::Nth => nth(&txn, operations),
        Workload::Rank => rank(&txn, operations),
        Workload::CountRange => count_range(&txn, operations),
        _ => distinct_keys(&txn, workload.span(), operations),
    }
}

/// Looks at a string: its length and its first byte. The sum of these is the run's answer, so the
/// optimiser has to keep both reads. Where it is in two pieces none of them is empty.
#[inline(always)]
fn touch(bytes: Bytes<'_>) -> u64 {
    let first = |piece: &[u8]| u64::from(piece.first().copied().unwrap_or(0));
    match bytes.as_slice() {
        Some(whole) => whole.len() as u64 + first(whole),
        None => bytes.len() as u64 + first(bytes.parts().0),
    }
}

fn cursor_next<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut cursor = txn.cursor(txn.table(PLAIN)?)?;
    let mut sum = 0;
    for _ in 0..operations {
        let Some((key, value)) = cursor.next()? else { break };
        sum += key.len() as u64 + touch(value);
    }
    Ok(sum)
}

fn get<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let table = txn.table(PLAIN)?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let key = data::random_key(random.below(ENTRIES));
        sum += txn.get(table, &key)?.map_or(0, touch);
    }
    Ok(sum)
}

fn duplicates_20<R: Reader>(txn: &R, operations: u64) -> Result<u64> {
    let mut cursor = txn.cursor(txn.table(DUPLICATE)?)?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let key = data::random_key(random.below(DUPLICATE_KEYS));
        let values = cursor.each_value(&key, |value| sum += touch(value))?;
        sum += values;
    }
    Ok(sum)
}

fn nth<R: Counting>(txn: &R, operations: u64) -> Result<u64> {
    let table = txn.table(PLAIN)?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let found = txn.nth(table, random.below(ENTRIES))?;
        sum += found.map_or(0, |(key, value)| key.len() as u64 + touch(value));
    }
    Ok(sum)
}

fn rank<R: Counting>(txn: &R, operations: u64) -> Result<u64> {
    let table = txn.table(PLAIN)?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        sum += txn.rank(table, &data::random_key(random.below(ENTRIES)))?;
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

fn count_range<R: Counting>(txn: &R, operations: u64) -> Result<u64> {
    let table = txn.table(PLAIN)?;
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let (low, high) = random_range(&mut random);
        sum += txn.count_range(table, &low, &high)?.1;
    }
    Ok(sum)
}

fn distinct_keys<R: Counting>(txn: &R, span: u64, operations: u64) -> Result<u64> {
    let table = txn.table(DUPLICATE)?;
    let keys = sorted_keys(DUPLICATE_KEYS);
    let mut random = Generator::new(SEED);
    let mut sum = 0;
    for _ in 0..operations {
        let from = random.below(DUPLICATE_KEYS - span) as usize;
        let (low, high) = (&keys[from].0, &keys[from + span as usize].0);
        sum += txn.count_range(table, low, high)?.0;
    }
    Ok(sum)
}

/// Runs a workload that writes; returns how many entries its table then has.
fn write<W: Writer>(txn: &mut W, workload: Workload, operations: u64) -> Result<u64> {
    match workload {
        Workload::Append => append(txn, operations),
        _ => put_random(txn, workload, operations),
    }
}

fn put_random<W: Writer>(txn: &mut W, workload: Workload, operations: u64) -> Result<u64> {
    let table = txn.create_table(workload.table(), false)?;
    for index in ENTRIES..ENTRIES + operations {
        txn.put(table, &data::random_key(index), &data::value(index))?;
    }
    Ok(txn.pages(table)?.entries)
}

fn append<W: Writer>(txn: &mut W, operations: u64) -> Result<u64> {
    let table = txn.create_table(Workload::Append.table(), false)?;
    let entries = (0..operations).map(|index| (data::ascending_key(index), data::value(index)));
    txn.append_all(table, entries)?;
    Ok(txn.pages(table)?.entries)
}

/// The first `count` random keys in order, each with its index.
fn sorted_keys(count: u64) -> Vec<([u8; 16], u64)> {
    let mut keys: Vec<_> = (0..count).map(|index| (data::random_key(index), index)).collect();
    keys.sort_unstable();
    keys
}

/// What a workload must answer, from a sorted array in place of a store.
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
        Workload::PutRandom | Workload::PutRandomPacked | Workload::Append => 1,
    };
    let before = if workload.writes() && workload != Workload::Append { ENTRIES } else { 0 };
    before + (0..operations).map(operation).sum::<u64>()
}

/// Runs a workload that writes, commits it and looks up everything that it should have left.
pub(crate) fn verify_writes<E: Engine>(
    store: &E,
    workload: Workload,
    operations: u64,
) -> Result<()> {
    let mut txn = store.write()?;
    let all = write(&mut txn, workload, operations)?;
    txn.commit()?;
    let txn = store.read()?;
    let table = txn.table(workload.table())?;
    for index in 0..all {
        let key = match workload {
            Workload::Append => data::ascending_key(index),
            _ => data::random_key(index),
        };
        if txn.get(table, &key)?.is_none_or(|value| value != data::value(index)) {
            return Err(format!("{workload:?}: entry {index} is missing or wrong").into());
        }
    }
    match expected(workload, operations) {
        expected if expected == all => Ok(()),
        expected => Err(format!("{workload:?}: {all} entries are there, not {expected}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lmdb::Environment;

    #[test]
    fn the_expected_answers_are_those_of_a_store() {
        let folder = tempfile::tempdir().unwrap();
        prepare::<Environment>(folder.path()).unwrap();
        let store = Environment::open(folder.path()).unwrap();
        for workload in [Workload::CursorNext, Workload::Get, Workload::Duplicates20] {
            let sum = run(&store, workload, 1000).unwrap();
            assert_eq!(sum, expected(workload, 1000), "{workload:?}");
            assert_ne!(sum, expected(workload, 999), "{workload:?}");
        }
        for workload in [Workload::PutRandom, Workload::PutRandomPacked, Workload::Append] {
            verify_writes(&store, workload, 1000).unwrap();
            // Fewer operations than have been done: the number of entries gives it away.
            assert!(verify_writes(&store, workload, 500).is_err(), "{workload:?}");
        }
    }
}
