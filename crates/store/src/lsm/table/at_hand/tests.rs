//! What is at hand is what the cache has.

use super::*;
use crate::lsm::entry::{Entry, Kind};
use crate::lsm::files::cache::BlockKey;
use crate::lsm::files::cached::{Blocks, Cached};
use crate::lsm::table::block::BlockBuilder;

/// A block of one entry with a value of that length.
fn block(len: usize) -> Arc<Block> {
    let mut builder = BlockBuilder::default();
    builder.add(Entry { key: b"key", seq: 1, kind: Kind::Inline, value: &vec![7; len] });
    Arc::new(Block::open(builder.finish(3, 77), 3, 77).unwrap())
}

fn get(at_hand: &AtHand, number: usize) -> Option<Arc<Block>> {
    at_hand.with(number, Arc::clone)
}

fn key(offset: u64) -> BlockKey {
    BlockKey { file: 1, offset }
}

fn keep(blocks: &Blocks, at: u64, block: &Arc<Block>) {
    blocks.get_or_load(key(at), || Ok(Cached::Block(Arc::clone(block)))).unwrap();
}

#[test]
fn a_block_leaves_with_the_caches_reference() {
    let (blocks, at_hand) = (Blocks::new(10_000), AtHand::new(3));
    let (one, other) = (block(1_000), block(8_000));
    at_hand.put(0, &one);
    assert!(get(&at_hand, 0).is_none(), "the cache does not have it");
    keep(&blocks, 0, &one);
    at_hand.put(0, &one);
    at_hand.put(3, &one);
    assert!(Arc::ptr_eq(&get(&at_hand, 0).unwrap(), &one));
    assert!(get(&at_hand, 1).is_none() && get(&at_hand, 3).is_none());
    assert!(one.stay().take_use() && !one.stay().take_use());
    keep(&blocks, 1, &other);
    keep(&blocks, 2, &block(1_500));
    assert!(blocks.peek(key(0)).is_none());
    assert!(get(&at_hand, 0).is_none());
    assert_eq!(Arc::strong_count(&one), 1);
    // A reader that still has it from the cache does not bring it back.
    at_hand.put(0, &one);
    assert!(get(&at_hand, 0).is_none());
}

#[test]
fn removing_a_block_or_its_table_lets_go_of_it() {
    let (blocks, at_hand) = (Blocks::new(10_000), AtHand::new(3));
    let block = block(100);
    keep(&blocks, 5, &block);
    at_hand.put(2, &block);
    assert_eq!(Arc::strong_count(&block), 3);
    // One that is opened a second time has other places.
    let again = AtHand::new(3);
    again.put(2, &block);
    assert!(get(&again, 2).is_none());
    blocks.remove(key(5));
    assert_eq!(Arc::strong_count(&block), 1);
    keep(&blocks, 6, &block);
    at_hand.put(2, &block);
    drop(at_hand);
    assert_eq!(Arc::strong_count(&block), 2);
    blocks.remove(key(6));
}

/// A block that was found at hand outlives one that was not, as one that was looked up does.
#[test]
fn a_use_counts_as_a_hit() {
    let (blocks, at_hand) = (Blocks::new(10_000), AtHand::new(2));
    let (used, other) = (block(3_000), block(3_000));
    keep(&blocks, 0, &used);
    keep(&blocks, 1, &other);
    at_hand.put(0, &used);
    for at in 2..12 {
        assert!(get(&at_hand, 0).is_some());
        keep(&blocks, at, &block(3_000));
    }
    assert!(!other.stay().is_kept());
    assert!(used.stay().is_kept());
}
