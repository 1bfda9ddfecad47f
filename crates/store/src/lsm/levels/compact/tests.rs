//! Plans as data: what is chosen for which version.

use std::path::PathBuf;

use super::*;
use crate::lsm::files::Directory;
use crate::lsm::files::memory::Budget;
use crate::lsm::levels::version::Edit;
use crate::os::RealSystem;

const SIZES: Sizes = Sizes { level_bytes_min: 4000, hidden_bytes_min: 1000, hidden_percent: 6 };

/// A version with tables of (level, number, bytes, first key, last key).
pub(crate) fn version(tables: &[(u8, u32, u64, &str, &str)]) -> Version {
    let (path, budget) = (PathBuf::from("/nowhere"), Budget::new(0, 0));
    let directory = Directory::new(Arc::new(RealSystem), path, 0, budget);
    let add = |&(level, number, bytes, first, last): &(u8, u32, u64, &str, &str)| {
        let (first, last) = (first.as_bytes().to_vec(), last.as_bytes().to_vec());
        let meta = TableMeta {
            number,
            bytes,
            entries: bytes / 10,
            tombstones: u64::from(number >= 100),
            ranges: 0,
            shadowed: 0,
            seqs: (u64::from(number), u64::from(number)),
            bounds: Bounds { first, last, excludes_last: false },
            references: Vec::new(),
        };
        Edit::AddTable { level, meta }
    };
    let edits: Vec<Edit> = tables.iter().map(add).collect();
    Version::empty(Arc::new(directory)).apply(&edits).unwrap()
}

fn plan(from: usize, upper: &[u32], to: usize, lower: &[u32], is_last: bool) -> Plan {
    Plan { from, upper: upper.to_vec(), to, lower: lower.to_vec(), is_last }
}

#[test]
fn few_tables_are_left_alone() {
    assert_eq!(choose(&version(&[]), &SIZES), None);
    let three = [(0, 3, 50, "a", "z"), (0, 2, 50, "a", "z"), (0, 1, 50, "a", "z")];
    assert_eq!(choose(&version(&three), &SIZES), None);
}

#[test]
fn level_0_goes_to_the_first_level_in_use() {
    let four: [_; 4] = std::array::from_fn(|n| (0, 4 - n as u32, 50, "a", "m"));
    let chosen = choose(&version(&four), &SIZES);
    assert_eq!(chosen, Some(plan(0, &[4, 3, 2, 1], BOTTOM, &[], true)));
    let more = [&four[..], &[(6, 10, 50, "c", "d"), (6, 11, 50, "n", "z")]].concat();
    let chosen = choose(&version(&more), &SIZES);
    assert_eq!(chosen, Some(plan(0, &[4, 3, 2, 1], BOTTOM, &[10], true)));
    let deep = [&four[..], &[(5, 10, 50, "c", "d"), (6, 11, 50_000, "k", "z")]].concat();
    let chosen = choose(&version(&deep), &SIZES);
    assert_eq!(chosen, Some(plan(0, &[4, 3, 2, 1], 5, &[10], false)));
}

#[test]
fn level_0_waits_until_it_is_as_large_as_what_it_is_merged_with_or_has_many_tables() {
    let tables = |count: u32, below| {
        let mut tables: Vec<_> = (0..count).rev().map(|n| (0, n + 1, 50, "a", "m")).collect();
        tables.push((6, 90, below, "a", "z"));
        choose(&version(&tables), &SIZES).map(|plan| plan.upper.len())
    };
    assert_eq!(tables(4, 101), None);
    assert_eq!(tables(4, 100), Some(4));
    assert_eq!(tables(11, 900), None);
    assert_eq!(tables(12, 900), Some(12));
}

/// The deletions of a queue would else be passed at each step until there are four tables of them.
#[test]
fn deletions_are_merged_at_once_where_little_is_merged_with_them() {
    let chosen = |number, below| {
        choose(&version(&[(0, number, 10, "a", "m"), (6, 1, below, "a", "z")]), &SIZES)
    };
    // The one entry of a table whose number has three digits is a deletion.
    assert_eq!(chosen(100, 5), Some(plan(0, &[100], BOTTOM, &[1], true)));
    assert_eq!(chosen(100, 6), None);
    assert_eq!(chosen(99, 5), None);
}

#[test]
fn what_is_hidden_is_merged_where_it_is_too_much() {
    let hiding = |entries: &[(u32, u64)]| {
        let version =
            version(&[(0, 1, 100, "a", "m"), (5, 2, 800, "c", "d"), (6, 3, 9000, "a", "z")]);
        for (_, table) in version.tables() {
            let found = entries.iter().find(|(number, _)| *number == table.meta.number);
            table.set_hidden(found.map_or(0, |(_, entries)| *entries));
        }
        choose(&version, &Sizes { level_bytes_min: 1000, hidden_bytes_min: 0, ..SIZES })
    };
    // Entries take 10 bytes each.
    assert_eq!(hiding(&[(1, 10), (2, 40)]), None);
    assert_eq!(hiding(&[(1, 10), (2, 90)]), Some(plan(5, &[2], 6, &[3], true)));
    assert_eq!(hiding(&[(1, 60)]), Some(plan(0, &[1], 5, &[2], false)));
}

#[test]
fn a_level_holds_a_tenth_of_the_next() {
    let tables = |upper| {
        [
            (5, 1, upper, "a", "c"),
            (5, 2, upper, "d", "f"),
            (6, 10, 9000, "a", "b"),
            (6, 11, 9000, "c", "z"),
        ]
    };
    assert_eq!(choose(&version(&tables(899)), &SIZES), None);
    // The one that overlaps less.
    let chosen = choose(&version(&tables(950)), &SIZES);
    assert_eq!(chosen, Some(plan(5, &[2], 6, &[11], true)));
}

#[test]
fn everything_becomes_one_level_without_leftovers() {
    let mixed =
        [(0, 3, 50, "a", "z"), (4, 2, 50, "a", "c"), (6, 1, 50, "b", "d"), (6, 100, 50, "x", "y")];
    let chosen = choose_full(&version(&mixed), |_| true);
    assert_eq!(chosen, Some(plan(0, &[3], 4, &[2], false)));
    let chosen = choose_full(&version(&mixed[1..]), |_| true);
    assert_eq!(chosen, Some(plan(4, &[2], 6, &[1], true)));
    let bottom = version(&mixed[2..]);
    let chosen = choose_full(&bottom, |meta| meta.tombstones > 0);
    assert_eq!(chosen, Some(plan(6, &[100], 6, &[], true)));
    assert_eq!(choose_full(&bottom, |_| false), None);
}
