//! Every read of a table, through a read or a write transaction.

use std::io::{Read as _, Seek, SeekFrom};
use std::ops::Bound;

use hedgerow::tree::{Count, Entry, Rank, Snapshot, Table};

use super::compare::{Disagreement, Outcome, differ, ok, same, same_entry, same_value};
use super::verify;
use crate::config::{DuplicateSpec, TableSpec};
use crate::model::{Pair, TableModel};
use crate::op::{Edge, PairEdge, Read};

/// A table in a transaction, and beside it what the model says of it.
pub(super) struct Beside<'a, S> {
    pub(super) txn: &'a S,
    pub(super) handle: Table,
    pub(super) spec: &'a TableSpec,
    pub(super) model: &'a TableModel,
}

impl<S> Clone for Beside<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Beside<'_, S> {}

/// Asks both and compares.
pub(super) fn read<S: Snapshot>(at: Beside<'_, S>, read: Read) -> Outcome {
    let Beside { txn, handle, spec, model } = at;
    match read {
        Read::Get(key) => {
            let found = ok("get", txn.get(handle, spec.keys.get(key)))?;
            same_value("get", spec, found, model.get(key))
        }
        Read::ContainsPair(key, value) if model.has_duplicates() => {
            let found = txn.contains_pair(handle, spec.keys.get(key), spec.values.get(value));
            same(
                "contains_pair",
                ok("contains_pair", found)?,
                model.find_pair(Pair { key, value }).is_some(),
            )
        }
        Read::GetMany { from, step, count } => get_many(at, (from, step, count)),
        Read::ForEachValue(key) => for_each_value(at, key),
        Read::ValueReader(key, part) if !model.has_duplicates() => value_reader(at, key, part),
        Read::Range { low, high, pattern, limit } => range(at, (low, high), (pattern, limit)),
        Read::Sample(n) => {
            let sample = ok("sample", txn.sample(handle, usize::from(n)))?;
            even_sample(&positions("sample", spec, model, &sample)?, model.len(), usize::from(n))
        }
        Read::SampleRandom(n, seed) => {
            let drawn =
                ok("sample_random", txn.sample_random(handle, usize::from(n), u64::from(seed)))?;
            let positions = positions("sample_random", spec, model, &drawn)?;
            let expected = if model.is_empty() { 0 } else { usize::from(n) };
            same("number of entries of sample_random", positions.len(), expected)
        }
        Read::Split(n) => {
            let cuts = ok("split", txn.split(handle, usize::from(n)))?;
            even_split(&positions("split", spec, model, &cuts)?, model.len(), usize::from(n))
        }
        Read::Info => info(at),
        Read::Scan => verify::scan(at),
        counted => statistic(at, counted),
    }
}

/// Reads that are answered from the counters.
fn statistic<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    read: Read,
) -> Outcome {
    match read {
        Read::Count => {
            let expected = count_of(model, 0..model.len());
            same("count", ok("count", txn.count(handle))?, expected)
        }
        Read::CountRange(low, high) => {
            let found = txn.count_range(handle, (bound(spec, low), bound(spec, high)));
            let expected = count_of(model, model.range(low, high));
            same("count_range", ok("count_range", found)?, expected)
        }
        Read::CountPairs(low, high) if model.has_duplicates() => {
            let found = txn.count_pairs(handle, pair_bound(spec, low), pair_bound(spec, high));
            let expected = model.count_pairs(low, high) as u64;
            same("count_pairs", ok("count_pairs", found)?, expected)
        }
        Read::CountValues(key) => {
            let found = ok("count_values", txn.count_values(handle, spec.keys.get(key)))?;
            same("count_values", found, model.values(key).len() as u64)
        }
        Read::Nth(part) => {
            let n = scaled(part, model.len());
            same_entry("nth", spec, txn.nth(handle, n as u64), model.at(n))
        }
        Read::NthKey(part) => {
            let n = scaled(part, model.distinct(0..model.len()));
            let expected = model.nth_key(n).and_then(|i| model.at(i));
            same_entry("nth_key", spec, txn.nth_key(handle, n as u64), expected)
        }
        Read::Rank(key) => {
            let found = ok("rank", txn.rank(handle, spec.keys.get(key)))?;
            let before = model.lower(key);
            same(
                "rank",
                found,
                Rank {
                    keys: model.distinct(0..before) as u64,
                    values: before as u64,
                    found: model.get(key).is_some(),
                },
            )
        }
        Read::RankPair(key, value) if model.has_duplicates() => {
            let found = txn.rank_pair(handle, spec.keys.get(key), spec.values.get(value));
            let pair = Pair { key, value };
            same(
                "rank_pair",
                ok("rank_pair", found)?,
                Rank {
                    keys: model.distinct(0..model.lower(key)) as u64,
                    values: model.lower_pair(pair) as u64,
                    found: model.find_pair(pair).is_some(),
                },
            )
        }
        _ => Ok(()),
    }
}

/// The counters of a range of the model's positions.
pub(super) fn count_of(model: &TableModel, positions: std::ops::Range<usize>) -> Count {
    let values = positions.len() as u64;
    Count { keys: model.distinct(positions) as u64, values }
}

/// A position from its operand: 65,536 is the end of a list, more lies beyond it.
pub(super) fn scaled(part: u32, len: usize) -> usize {
    (u64::from(part) * len as u64 / 65_536) as usize
}

/// An edge as the engine takes it.
pub(super) fn bound(spec: &TableSpec, edge: Edge) -> Bound<&[u8]> {
    match edge {
        Edge::Open => Bound::Unbounded,
        Edge::Included(key) => Bound::Included(spec.keys.get(within(key, spec))),
        Edge::Excluded(key) => Bound::Excluded(spec.keys.get(within(key, spec))),
    }
}

/// Operands made by adding may lie beyond the pool's end; the last key stands for them.
pub(super) fn within(key: u32, spec: &TableSpec) -> u32 {
    key.min(spec.keys.len() as u32 - 1)
}

fn pair_bound(spec: &TableSpec, edge: PairEdge) -> Bound<(&[u8], &[u8])> {
    let pair = |key, value| (spec.keys.get(key), spec.values.get(value));
    match edge {
        PairEdge::Open => Bound::Unbounded,
        PairEdge::Included(key, value) => Bound::Included(pair(key, value)),
        PairEdge::Excluded(key, value) => Bound::Excluded(pair(key, value)),
    }
}

fn get_many<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    (from, step, count): (u32, u32, u32),
) -> Outcome {
    let end = spec.keys.len() as u32;
    let numbers: Vec<u32> = (0..count).map(|i| (from + i * step) % end).collect();
    let keys: Vec<&[u8]> = numbers.iter().map(|&n| spec.keys.get(n)).collect();
    let mut found = vec![None];
    ok("get_many", txn.get_many(handle, &keys, &mut found))?;
    same("number of answers of get_many", found.len(), keys.len())?;
    for (number, value) in numbers.into_iter().zip(found) {
        same_value("get_many", spec, value, model.get(number))?;
    }
    Ok(())
}

fn for_each_value<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    key: u32,
) -> Outcome {
    let expected = model.values(key);
    let mut seen = 0;
    let mut wrong = None;
    let told = txn.for_each_value(handle, spec.keys.get(key), |value| {
        let right = expected.get(seen).is_some_and(|p| value == *spec.values.get(p.value));
        if !right && wrong.is_none() {
            wrong = Some(seen);
        }
        seen += 1;
    });
    same("for_each_value", ok("for_each_value", told)?, expected.len() as u64)?;
    same("calls of for_each_value", seen, expected.len())?;
    same("first wrong value of for_each_value", wrong, None)
}

fn value_reader<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    key: u32,
    part: u8,
) -> Outcome {
    let reader = ok("value_reader", txn.value_reader(handle, spec.keys.get(key)))?;
    let expected = model.get(key).map(|v| spec.values.get(v));
    same("length of value_reader", reader.as_ref().map(|r| r.len()), expected.map(len_of))?;
    let (Some(mut reader), Some(expected)) = (reader, expected) else { return Ok(()) };
    let from = expected.len() * usize::from(part) / 256;
    let mut rest = Vec::new();
    let read =
        reader.seek(SeekFrom::Start(from as u64)).and_then(|_| reader.read_to_end(&mut rest));
    read.map_err(|e| Disagreement::from(format!("read of a value_reader failed: {e}")))?;
    same("value_reader", rest.as_slice(), &expected[from..])
}

fn len_of(value: &[u8]) -> u64 {
    value.len() as u64
}

/// Takes entries from both ends of a range, as the pattern says.
fn range<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    (low, high): (Edge, Edge),
    (pattern, limit): (u32, u16),
) -> Outcome {
    let mut range = ok("range", txn.range(handle, (bound(spec, low), bound(spec, high))))?;
    let mut left = model.range(low, high);
    for i in 0..limit {
        let from_back = pattern >> (i % 32) & 1 == 1;
        let (what, found, expected) = if from_back {
            ("range, from the back", range.next_back(), left.next_back())
        } else {
            ("range, from the front", range.next(), left.next())
        };
        same_entry(what, spec, found.transpose(), expected.and_then(|i| model.at(i)))?;
    }
    Ok(())
}

/// The positions of entries that were handed out; each must be one of the table's.
fn positions(
    what: &str,
    spec: &TableSpec,
    model: &TableModel,
    entries: &[Entry<'_>],
) -> Outcome<Vec<usize>> {
    let position = |entry: &Entry<'_>| {
        let key = spec.keys.find(&entry.key.to_vec())?;
        let value = spec.values.find(&entry.value.to_vec())?;
        let position = model.find_pair(Pair { key, value })?;
        (model.at(position) == Some(Pair { key, value })).then_some(position)
    };
    entries
        .iter()
        .map(|e| position(e).map_or_else(|| differ(what, e, "no such entry"), Ok))
        .collect()
}

/// All entries, or `n` of them that are as far apart as can be.
fn even_sample(positions: &[usize], len: usize, n: usize) -> Outcome {
    same("number of entries of sample", positions.len(), n.min(len))?;
    let even = positions.windows(2).all(|w| {
        let gap = w[1].wrapping_sub(w[0]);
        gap == len / n || gap == len.div_ceil(n)
    });
    if even { Ok(()) } else { differ("distances of sample", positions, len) }
}

/// Parts that differ by at most one entry.
fn even_split(cuts: &[usize], len: usize, n: usize) -> Outcome {
    same("number of cuts of split", cuts.len(), n.min(len).saturating_sub(1))?;
    let mut ends = cuts.to_vec();
    ends.push(len);
    let mut start = 0;
    for end in ends {
        let part = end.wrapping_sub(start);
        if part != len / (cuts.len() + 1) && part != len.div_ceil(cuts.len() + 1) {
            return differ("parts of split", cuts, len);
        }
        start = end;
    }
    Ok(())
}

fn info<S: Snapshot>(Beside { txn, handle, spec, model }: Beside<'_, S>) -> Outcome {
    let info = ok("table_info", txn.table_info(handle))?;
    let count = count_of(model, 0..model.len());
    same("count of table_info", info.count, count)?;
    same("duplicates of table_info", info.duplicates, spec.has_duplicates())?;
    same("compression of table_info", info.prefix_compression, !spec.whole)?;
    same("user flags of table_info", info.user_flags, model.user_flags)?;
    if let DuplicateSpec::Fixed(_, size, told) = spec.duplicates
        && (told || !model.is_empty())
    {
        same("value size of table_info", info.value_size, Some(size))?;
    }
    let stat = ok("table_stat", txn.table_stat(handle))?;
    same("count of table_stat", stat.count, count)?;
    same("whether table_stat has a depth", stat.depth > 0, !model.is_empty())?;
    same("whether table_stat has leaves", stat.leaf_pages > 0, !model.is_empty())
}
