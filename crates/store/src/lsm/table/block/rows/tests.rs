//! All entries of a block are those of a walk through it, and runs end where they should.

use super::*;
use crate::lsm::table::block::{BlockBuilder, Place};

/// Keys with one to three versions each, of very different lengths.
fn block(count: u64, long: usize) -> Arc<Block> {
    let mut builder = BlockBuilder::default();
    for number in 0..count {
        let mut key = format!("key{:04}", number / 3 * 3).into_bytes();
        let len = key.len() + if number / 3 % 4 == 1 { long } else { 0 };
        key.resize(len, b'.');
        let kind = if number % 7 == 3 { Kind::Tombstone } else { Kind::Inline };
        let value = vec![number as u8; number as usize % 50];
        let seq = 10_000 - number;
        builder.add(Entry { key: &key, seq, kind, value: &value });
    }
    Arc::new(Block::open(builder.finish(3, 77), 3, 77).unwrap())
}

#[test]
fn the_entries_are_those_of_a_walk() {
    let mut rows = Rows::default();
    for (count, long) in [(1, 0), (16, 40), (90, 0), (90, 200), (0, 0), (33, 31)] {
        let block = block(count, long);
        assert!(rows.fill(&block, None));
        assert_eq!(rows.len() as u64, count);
        let (mut place, mut before) = (Place::default(), None);
        place.first(&block).unwrap();
        for at in 0..count as usize {
            let entry = place.entry(&block).unwrap();
            assert_eq!(rows.entry(at), Some(entry));
            let is_other = before.as_ref().is_some_and(|before| *before != entry.key);
            assert_eq!(rows.is_other(at), is_other);
            before = Some(entry.key.to_vec());
            place.next(&block).unwrap();
        }
        assert_eq!(rows.entry(count as usize), None);
    }
}

#[test]
fn keys_that_take_much_memory_are_refused() {
    let mut rows = Rows::default();
    assert!(!rows.fill(&block(90, 9_000), None));
    assert_eq!((rows.len(), rows.entry(0)), (0, None));
    assert!(rows.fill(&block(90, 90), None));
}

/// A run leads over the entries that a reader sees, up to a limit, and stops before any other.
#[test]
fn runs_are_parts_of_the_list() {
    let mut rows = Rows::default();
    let block = block(90, 20);
    assert!(rows.fill(&block, None));
    let rows = Arc::new(rows);
    let key = |at: usize| rows.entry(at).unwrap().key;
    let mut skimmed = 0;
    for at in 0..90 {
        for limit in (0..90).map(|at| key(at).to_vec()).chain([b"".to_vec(), b"z".to_vec()]) {
            for (forward, seen) in [(true, 20_000), (false, 20_000), (true, 9_950), (false, 9_950)]
            {
                let mut run = rows.run(at, forward, &Limit::of(&limit));
                let mut here = at;
                loop {
                    let to = if forward { here + 1 } else { here.wrapping_sub(1) };
                    let is_alone = |at: usize| at > 0 && key(at - 1) != key(at);
                    let may = rows.entry(to).is_some_and(|entry| {
                        let is_before =
                            if forward { entry.key < &limit[..] } else { entry.key > &limit[..] };
                        let is_seen = entry.seq <= seen && entry.kind != Kind::Tombstone;
                        is_before && is_seen && is_alone(to) && (forward || is_alone(here))
                    });
                    assert_eq!(run.as_mut().is_some_and(|run| run.skim(forward, seen)), may);
                    if !may {
                        break;
                    }
                    here = to;
                    skimmed += 1;
                    let run = run.as_ref().unwrap();
                    assert_eq!((run.at(), run.entry()), (here, rows.entry(here)));
                }
            }
        }
    }
    assert!(skimmed > 1_000, "{skimmed}");
}
