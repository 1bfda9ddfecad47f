//! Which segments are written anew, and by writing which tables.

use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::lsm::files::Directory;
use crate::lsm::files::memory::Budget;
use crate::lsm::levels::version::{Edit, Sealed};
use crate::lsm::log::segment::Identity;
use crate::lsm::table::{Bounds, Reference, TableMeta};
use crate::os::RealSystem;

/// A version with tables of 1,000 bytes one after the other, each with segments that it points to
/// and how many bytes; segments have 10,000 bytes.
pub(crate) fn version(tables: &[&[(u32, u64)]]) -> Version {
    let (path, budget) = (PathBuf::from("/nowhere"), Budget::new(0, 0));
    let directory = Directory::new(Arc::new(RealSystem), path, 0, budget);
    let mut segments: Vec<u32> = tables.iter().flat_map(|t| t.iter().map(|r| r.0)).collect();
    segments.sort_unstable();
    segments.dedup();
    let mut edits: Vec<Edit> = vec![Edit::Flushed { seq: 9 }];
    for number in segments {
        edits.push(Edit::AddSegment(Identity { number, salt: 0, first_seq: 1 }));
        let sealed = Sealed { len: 10_000, last_seq: 9, remap_len: 0 };
        edits.push(Edit::SealSegment { number, sealed });
    }
    for (at, references) in (0_u8..).zip(tables) {
        let references = references.iter().map(|&(segment, bytes)| Reference { segment, bytes });
        let meta = TableMeta {
            number: 100 + u32::from(at),
            bytes: 1000,
            entries: 10,
            tombstones: 0,
            ranges: 0,
            shadowed: 0,
            seqs: (1, 9),
            bounds: Bounds { first: vec![at, 0], last: vec![at, 9], excludes_last: false },
            references: references.collect(),
        };
        edits.push(Edit::AddTable { level: BOTTOM as u8, meta });
    }
    Version::empty(Arc::new(directory)).apply(&edits).unwrap()
}

#[test]
fn what_is_out_of_order_is_written_only_where_much_else_is() {
    let order = Order::from([(1, (100, 100)), (2, (100, 100)), (3, (100, 2))]);
    let choose = |live: u64| choose(&version(&[&[(1, live), (2, 10_000), (3, 10_000)]]), &order);
    assert!(choose(10_000).is_empty());
    assert!(choose(7000).is_empty(), "that is not worth it");
    let whole: &[(u32, u64)] = &[(2, 10_000), (3, 10_000), (4, 10_000), (5, 10_000), (6, 10_000)];
    let large = [&[(1, 5500)], whole, &[(7, 10_000), (8, 10_000), (9, 10_000)]].concat();
    assert_eq!(super::choose(&version(&[&large]), &order), [1]);
    assert_eq!(choose(5000), [1, 2]);
    assert_eq!(super::choose(&version(&[&[(1, 5000), (2, 3000)]]), &order), [2, 1]);
}

#[test]
fn batches_take_as_much_as_there_is_room_for() {
    let each: Vec<(u32, u64)> = (1..=40).map(|number| (number, 10_000)).collect();
    let version = version(&[&each]);
    let mut list: Vec<u32> = (1..=40).collect();
    assert_eq!(next_batch(&version, &mut list, 1, u64::MAX).len(), 7, "a fifth, less the table");
    assert_eq!(next_batch(&version, &mut list, 150_000, u64::MAX).len(), 15, "a segment at least");
    assert_eq!(list.first(), Some(&23));
}

#[test]
fn tables_that_are_written_together_are_neighbours() {
    let with: &[(u32, u64)] = &[(1, 90_000)];
    let without: &[(u32, u64)] = &[(2, 90_000)];
    let version = version(&[with, with, without, with, without, without, with, with]);
    let plans = |segments: &[u32]| -> Vec<Vec<u32>> {
        plans(&version, segments).into_iter().map(|plan| plan.upper).collect()
    };
    assert_eq!(plans(&[1]), [vec![100, 101], vec![103], vec![106, 107]]);
    assert_eq!(plans(&[1, 2]), [(100..108).collect::<Vec<_>>()]);
    assert!(plans(&[3]).is_empty());
}
