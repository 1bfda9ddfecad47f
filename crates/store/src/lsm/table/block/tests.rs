//! Blocks answer as a sorted list does, and say no to bytes that make no sense.

use super::*;
use crate::random;

type Owned = (Vec<u8>, u64, Kind, Vec<u8>);

fn entries(n: u64) -> Vec<Owned> {
    let mut all = Vec::new();
    for i in 0..n {
        let key = format!("key{:05}", i / 3 * 7).into_bytes();
        let kind = if i % 5 == 0 { Kind::Tombstone } else { Kind::Inline };
        all.push((key, 1000 - i, kind, vec![i as u8; (i % 11) as usize]));
    }
    all
}

fn block(entries: &[Owned]) -> Block {
    let mut builder = BlockBuilder::default();
    for (key, seq, kind, value) in entries {
        builder.add(Entry { key, seq: *seq, kind: *kind, value });
    }
    Block::open(builder.finish(3, 77), 3, 77).unwrap()
}

fn owned(place: &Place, block: &Block) -> Option<Owned> {
    let entry = place.entry(block)?;
    Some((entry.key.to_vec(), entry.seq, entry.kind, entry.value.to_vec()))
}

/// What looking up finds, with the key that was sought or that of the place.
fn found(block: &Block, key: &[u8], seq: u64) -> Option<Owned> {
    let spot = block.find(key, seq).unwrap()?;
    let mut place = Place::default();
    place.seek(block, key, seq).unwrap();
    let at = place.entry(block).unwrap();
    assert_eq!(spot.is_key, at.key == key);
    Some((at.key.to_vec(), spot.seq, spot.kind, block.value(&spot).to_vec()))
}

/// Keys that share much and little with each other, in a block with marks and in one without, which
/// a block is in its first search: looking up finds what a list says.
#[test]
fn looking_up_finds_what_a_list_says() {
    let mut random = random::numbers(7);
    for round in 0..if cfg!(miri) { 4 } else { 200 } {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1 + random(120) {
            let prefix = match keys.last() {
                Some(last) => last[..random(last.len() as u64 + 1) as usize].to_vec(),
                None => vec![1; round % 20],
            };
            let rest = (0..random(12)).map(|_| random(4) as u8 * 85);
            keys.push(prefix.into_iter().chain(rest).collect());
        }
        keys.sort();
        let entry = |key: &Vec<u8>| (key.clone(), random(9_000), Kind::Inline, vec![9]);
        let mut list: Vec<Owned> = keys.iter().map(entry).collect();
        list.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
        let quick = block(&list);
        assert!((0..SEARCHES_UNMARKED).all(|_| quick.marks().is_none()));
        assert!(quick.marks().is_some());
        let absent = (0..40).map(|_| (0..random(24)).map(|_| random(4) as u8 * 85).collect());
        for key in absent.chain(keys.iter().cloned()).collect::<Vec<Vec<u8>>>() {
            for seq in [0, random(9_001), u64::MAX] {
                let expected = list.iter().find(|e| compare((&e.0, e.1), (&key, seq)).is_ge());
                let plain = block(&list);
                let first = plain.find(&key, seq).unwrap().map(|spot| (spot.seq, spot.is_key));
                assert_eq!(first, expected.map(|entry| (entry.1, entry.0 == key)));
                assert_eq!(found(&quick, &key, seq).as_ref(), expected);
            }
            let lines = Heads::of(&quick).unwrap();
            let (before, may_be) = lines.around(&quick, &key).unwrap();
            assert!((before..=may_be).contains(&list.partition_point(|entry| entry.0 < key)));
            assert!(list[may_be..].iter().all(|entry| entry.0 > key));
        }
    }
}

#[test]
fn both_directions_and_every_seek() {
    for n in [1, 2, 15, 16, 17, 100] {
        let list = entries(n);
        let block = block(&list);
        assert_eq!(u64::from(block.count()), n);
        let mut place = Place::default();
        place.first(&block).unwrap();
        for entry in &list {
            assert_eq!(owned(&place, &block).as_ref(), Some(entry));
            place.next(&block).unwrap();
        }
        assert!(place.entry(&block).is_none());
        place.last(&block).unwrap();
        for entry in list.iter().rev() {
            assert_eq!(owned(&place, &block).as_ref(), Some(entry));
            place.prev(&block).unwrap();
        }
        assert!(place.entry(&block).is_none());
        for key in 0..n * 7 {
            for seq in [0, 950, 1000, 2000] {
                let key = format!("key{key:05}").into_bytes();
                place.seek(&block, &key, seq).unwrap();
                let expected = list.iter().find(|e| compare((&e.0, e.1), (&key, seq)).is_ge());
                assert_eq!(owned(&place, &block).as_ref(), expected);
                assert_eq!(found(&block, &key, seq).as_ref(), expected);
            }
        }
    }
}

/// Short keys, and keys of which not all that were passed are remembered.
#[test]
fn any_walk_is_that_of_the_list() {
    for (more, steps) in [(0, 20_000), (9_000, 2_000)] {
        let mut list = entries(90);
        list.iter_mut().for_each(|entry| entry.0.resize(entry.0.len() + more, b'-'));
        let block = block(&list);
        let (mut place, mut at, mut state) = (Place::default(), list.len(), 5_u64);
        for _ in 0..if cfg!(miri) { 100 } else { steps } {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (action, number) = (state >> 60, (state >> 33) as usize % list.len());
            match action {
                0 => (at, _) = (list.len() - 1, place.last(&block).unwrap()),
                1 => {
                    place.seek(&block, &list[number].0, list[number].1).unwrap();
                    at = number;
                }
                _ if at == list.len() => (at, _) = (0, place.first(&block).unwrap()),
                2..=5 => (at, _) = (at + 1, place.next(&block).unwrap()),
                _ => (at, _) = (at.wrapping_sub(1), place.prev(&block).unwrap()),
            }
            at = at.min(list.len());
            assert_eq!(owned(&place, &block).as_ref(), list.get(at));
        }
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let mut builder = BlockBuilder::default();
    for (key, seq, kind, value) in &entries(20) {
        builder.add(Entry { key, seq: *seq, kind: *kind, value });
    }
    let bytes = builder.finish(3, 77);
    assert!(Block::open(bytes.clone(), 4, 77).is_err(), "of another table");
    assert!(Block::open(bytes.clone(), 3, 78).is_err(), "of another place");
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Block::open(changed, 3, 77).is_err());
    }
}

/// Forged entries, under a right checksum: they give errors or entries, and an end.
#[test]
fn hostile_entries_do_no_harm() {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    for _ in 0..3000 {
        let mut builder = BlockBuilder::default();
        for (key, seq, kind, value) in &entries(1 + u64::from(random() % 40)) {
            builder.add(Entry { key, seq: *seq, kind: *kind, value });
        }
        let mut bytes = builder.finish(3, 77);
        bytes.truncate(bytes.len() - 4);
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % (bytes.len() - 1);
            bytes[at] = random() as u8;
        }
        let sum = crc32c(seed(3, 77), &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let Ok(block) = Block::open(bytes, 3, 77) else { continue };
        // The first one of them is sought without marks, the others with marks.
        let _ = block.find(b"key00050", 900);
        for key in [&b""[..], b"key", b"key00050", b"z"] {
            if let Ok(Some(spot)) = block.find(key, 900) {
                let _ = block.value(&spot);
            }
        }
        let mut place = Place::default();
        let mut steps = 0;
        let mut result = place.first(&block);
        while result.is_ok() && place.entry(&block).is_some() {
            result = place.next(&block);
            steps += 1;
        }
        assert!(steps <= block.content().len());
        let _ = place.seek(&block, b"key00050", 900);
        let _ = place.last(&block);
        let mut steps = 0;
        while place.entry(&block).is_some() && steps < 100 {
            if place.prev(&block).is_err() {
                break;
            }
            steps += 1;
        }
    }
}

#[test]
fn ranks_and_numbers_are_those_of_the_list() {
    for n in [1, 15, 16, 17, 100] {
        let list = entries(n);
        let block = block(&list);
        let mut place = Place::default();
        for number in 0..n + 20 {
            place.nth(&block, number as u32).unwrap();
            assert_eq!(owned(&place, &block).as_ref(), list.get(number as usize), "{number}");
        }
        let mut keys: Vec<Vec<u8>> = list.iter().map(|entry| entry.0.clone()).collect();
        keys.extend([b"".to_vec(), b"key00001".to_vec(), b"z".to_vec()]);
        for key in keys {
            let before = list.iter().filter(|entry| entry.0 < key).count();
            assert_eq!(block.rank(&key).unwrap() as usize, before);
        }
    }
}
