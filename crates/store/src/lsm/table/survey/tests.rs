//! Every byte of a table damaged in turn: all blocks but the one that holds it are found.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::super::entry::Entry;
use super::super::super::files::{Directory, Name};
use super::super::TableBuilder;
use super::*;
use crate::lsm::files::memory::Budget;
use crate::os::sim::{Config, SimSystem};

/// A table of some blocks and range tombstones, and its bytes.
fn table() -> (Vec<u8>, Vec<Tombstone>) {
    let system = Arc::new(SimSystem::new(1, Config::default()));
    let budget = Budget::new(8 << 20, 0);
    let directory = Directory::new(system.clone(), PathBuf::from("/d"), 0o600, budget);
    let mut builder = TableBuilder::new(&Arc::new(directory), 7, 0).unwrap();
    for number in 0..60_u32 {
        let key = [&1_u32.to_be_bytes()[..], format!("key{number:04}").as_bytes()].concat();
        let value = vec![number as u8; 700];
        let entry =
            Entry { key: &key, seq: u64::from(number) + 1, kind: Kind::Inline, value: &value };
        builder.add(entry, false).unwrap();
    }
    let range = |start: &[u8], end: &[u8], seq| Tombstone {
        start: [&1_u32.to_be_bytes()[..], start].concat(),
        end: [&1_u32.to_be_bytes()[..], end].concat(),
        seq,
    };
    let ranges = vec![range(b"a", b"b", 70), range(b"x", b"y", 71)];
    builder.finish(&ranges).unwrap();
    let directory = Directory::new(system.clone(), PathBuf::from("/d"), 0o600, Budget::new(0, 0));
    (system.content(&directory.file(Name::Table(7))).unwrap(), ranges)
}

#[test]
fn whatever_byte_is_damaged_the_other_blocks_are_found() {
    let (bytes, ranges) = table();
    let sound = survey(7, &bytes);
    assert!(sound.blocks.len() > 3 && sound.gaps.is_empty() && sound.lost_ranges.is_none());
    assert_eq!((&sound.ranges, sound.last_seq), (&ranges, 71));
    let data_end = sound.blocks.last().unwrap().end();
    for at in (0..bytes.len()).step_by(37).chain(bytes.len() - FOOTER_BYTES..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let found = survey(7, &damaged);
        let is_hit = |place: &&BlockPlace| (place.offset..place.end()).contains(&(at as u64));
        let expected = sound.blocks.iter().filter(|place| !is_hit(place));
        assert!(found.blocks.iter().eq(expected), "byte {at}");
        let hits_data = (at as u64) < data_end;
        assert_eq!(found.gaps.len(), usize::from(hits_data), "byte {at}: {:?}", found.gaps);
        if let [gap] = found.gaps[..] {
            assert_eq!(sound.blocks[gap.block].offset, gap.offset, "byte {at}");
        }
        assert!(found.ranges == ranges || found.lost_ranges.is_some(), "byte {at}");
    }
    for len in (0..bytes.len()).step_by(501) {
        let found = survey(7, &bytes[..len]);
        let whole = sound.blocks.iter().filter(|place| place.end() <= len as u64);
        assert!(found.blocks.iter().eq(whole), "cut to {len}");
    }
    assert!(survey(8, &bytes).blocks.is_empty(), "another table's blocks are none");
}
