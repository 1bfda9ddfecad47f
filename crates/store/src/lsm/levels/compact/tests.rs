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
        let bounds = Bounds { first, last, excludes_last: false };
        Edit::AddTable { level, meta: meta(number, bytes, &bounds) }
    };
    let edits: Vec<Edit> = tables.iter().map(add).collect();
    Version::empty(Arc::new(directory)).apply(&edits).unwrap()
}

fn meta(number: u32, bytes: u64, bounds: &Bounds) -> TableMeta {
    TableMeta {
        number,
        bytes,
        entries: bytes / 10,
        tombstones: u64::from(number >= 100),
        ranges: 0,
        shadowed: 0,
        seqs: (u64::from(number), u64::from(number)),
        bounds: bounds.clone(),
        references: Vec::new(),
    }
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

#[test]
fn where_there_is_little_room_a_plan_goes_in_steps() {
    let tables = [(0, 9, 300, "a", "z"), (0, 8, 200, "c", "f")];
    let bottom = [(6, 1, 4000, "a", "h"), (6, 2, 4000, "i", "p"), (6, 3, 4000, "q", "z")];
    let below = version(&[&tables[..], &bottom[..]].concat());
    let whole = plan(0, &[9, 8], 6, &[1, 2, 3], true);
    assert_eq!(choose_full(&below, |_| false), Some(whole.clone()));
    assert_eq!(fit(&below, whole.clone(), 12_500), whole);
    let aside = plan(0, &[9, 8], 5, &[], false);
    assert_eq!(fit(&below, whole.clone(), 12_499), aside);
    assert_eq!(fit(&below, whole.clone(), 499), whole, "nothing fits");
    // Now a part of it after the other, the smallest one first.
    let parts = [(5, 11, 200, "a", "h"), (5, 12, 100, "i", "p"), (5, 13, 200, "q", "z")];
    let below = version(&[&parts[..], &bottom[..]].concat());
    let first = plan(5, &[11], 6, &[1], true);
    assert_eq!(choose_full(&below, |_| false), Some(first.clone()));
    assert_eq!(fit(&below, first.clone(), 4200), first);
    assert_eq!(fit(&below, first.clone(), 4150), plan(5, &[12], 6, &[2], true));
    assert_eq!(fit(&below, first.clone(), 4000), first);
}

#[test]
fn tables_are_cut_so_that_merging_one_with_those_below_takes_a_part_of_the_room() {
    const MIB: u64 = 1 << 20;
    let below = version(&[(0, 9, 4 * MIB, "a", "z"), (6, 1, 100 * MIB, "a", "z")]);
    let bytes = |to, room| table_bytes(&below, &plan(0, &[9], to, &[], false), room, 16 * MIB);
    assert_eq!((bytes(5, u64::MAX), bytes(6, u64::MAX)), (16 * MIB, 16 * MIB));
    assert_eq!(bytes(5, 100 * MIB), 100 * MIB / 8);
    assert_eq!(
        bytes(5, 50 * MIB),
        MIB,
        "a quarter of what lies below, for which there is room twice"
    );
    assert_eq!(bytes(6, 50 * MIB), 50 * MIB / 8, "nothing lies below");
    assert_eq!((bytes(5, 0), bytes(6, 0)), (CUT_BYTES_MIN, TABLE_BYTES_MIN));
}

/// Of all tables that touch each other or not, and of all bounds, with an end that lies inside or
/// outside.
#[test]
fn overlapping_tables_are_found_as_by_asking_each() {
    let end = |first: u8, last: u8, excludes_last| Bounds {
        first: vec![first],
        last: vec![last],
        excludes_last,
    };
    // From 1 to 3 without its end, at once from 3 to 5, 7 alone, from 8 to 10 without its end.
    let places = [end(1, 3, true), end(3, 5, false), end(7, 7, false), end(8, 10, true)];
    for chosen in 0..1 << places.len() {
        let tables = version(&[]);
        let edits: Vec<Edit> = (0..places.len())
            .filter(|place| chosen >> place & 1 == 1)
            .map(|place| Edit::AddTable { level: 6, meta: meta(place as u32, 1, &places[place]) })
            .collect();
        let tables = tables.apply(&edits).unwrap();
        for (first, last, excludes_last) in (0..12)
            .flat_map(|first| (first..12).map(move |last| (first, last)))
            .flat_map(|(first, last)| [(first, last, false), (first, last + 1, true)])
        {
            let bounds = end(first, last, excludes_last);
            let asked = tables.level(6).iter().filter(|t| t.meta.bounds.overlaps(&bounds));
            assert_eq!(
                numbers(tables.overlapping(6, &bounds).iter()),
                numbers(asked),
                "{bounds:?}"
            );
        }
    }
}
