//! The memtable beside an ordered map, and under threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::sync::atomic::AtomicBool;

type Place = (Vec<u8>, Reverse<u64>);
type Content = (Kind, Vec<u8>);
type Model = BTreeMap<Place, Content>;

fn entry_of<'a>((key, value): (&'a Place, &'a Content)) -> MemEntry<'a> {
    (&key.0, key.1.0, value.0, &value.1)
}

/// Keys that share much, are empty, or end where others go on.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop::sample::select(vec![0, 1, 127, 255]);
    prop_oneof![
        4 => prop::collection::vec(letters.clone(), 0..4),
        2 => prop::collection::vec(letters, 6..11),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Inline, Kind::Separated, Kind::Tombstone])
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..20), 1 => Just(vec![7; 3_000])]
}

fn put(memtable: &Memtable, key: &[u8], seq: u64, kind: Kind, value: &[u8]) {
    memtable.insert(key, filter::hash(key), seq, kind, value);
}

fn made<'m>(memtable: &'m Memtable, key: &[u8], seq: u64, value: &[u8]) -> Made<'m> {
    memtable.make(key, filter::hash(key), seq, Kind::Inline, value)
}

fn get<'m>(memtable: &'m Memtable, key: &[u8], at: u64) -> Option<(u64, Kind, &'m [u8])> {
    memtable.get(key, filter::hash(key), at)
}

fn walk_forward(memtable: &Memtable) -> Vec<MemEntry<'_>> {
    let mut iter = memtable.iter();
    iter.first();
    let mut found = Vec::new();
    while let Some(entry) = iter.entry() {
        found.push(entry);
        iter.next();
    }
    found
}

fn walk_backward(memtable: &Memtable) -> Vec<MemEntry<'_>> {
    let mut iter = memtable.iter();
    iter.last();
    let mut found = Vec::new();
    while let Some(entry) = iter.entry() {
        found.push(entry);
        iter.prev();
    }
    found
}

fn is_like(memtable: &Memtable, model: &Model, key: &[u8], seq: u64) {
    let place = (key.to_vec(), Reverse(seq));
    let from = model.range(place.clone()..).next().map(entry_of);
    let got = from.filter(|entry| entry.0 == key).map(|(_, seq, kind, value)| (seq, kind, value));
    assert_eq!(get(memtable, key, seq), got);
    let mut iter = memtable.iter();
    iter.seek(key, seq);
    assert_eq!(iter.entry(), from);
    iter.next();
    assert_eq!(iter.entry(), model.range(place.clone()..).nth(1).map(entry_of));
    iter.seek_before(key, seq);
    assert_eq!(iter.entry(), model.range(..place.clone()).next_back().map(entry_of));
    iter.prev();
    assert_eq!(iter.entry(), model.range(..place).rev().nth(1).map(entry_of));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_like_an_ordered_map(
        entries in prop::collection::vec((keys(), 0..5_u64, kinds(), values()), 0..60),
        probes in prop::collection::vec((keys(), 0..6_u64), 0..20),
    ) {
        let memtable = Memtable::new(8);
        let mut model = Model::new();
        for (key, seq, kind, value) in entries {
            let place = (key, Reverse(seq));
            if let Entry::Vacant(vacant) = model.entry(place) {
                put(&memtable, &vacant.key().0, seq, kind, &value);
                vacant.insert((kind, value));
            }
        }
        let expected: Vec<_> = model.iter().map(entry_of).collect();
        prop_assert_eq!(walk_forward(&memtable), expected.clone());
        prop_assert_eq!(walk_backward(&memtable), expected.into_iter().rev().collect::<Vec<_>>());
        for (key, seq) in probes.into_iter().chain(model.keys().map(|(k, s)| (k.clone(), s.0))) {
            is_like(&memtable, &model, &key, seq);
        }
    }

    /// Entries that are set aside are not found; put in, they stand among those that were there, as
    /// if each had been inserted by itself.
    #[test]
    fn what_is_set_aside_is_put_in_together(
        entries in prop::collection::vec((keys(), 0..5_u64, kinds(), values(), 0..4), 0..80),
        is_sorted in any::<bool>(),
    ) {
        let memtable = Memtable::new(8);
        let (mut model, mut aside) = (Model::new(), Model::new());
        let mut entries = entries;
        if is_sorted {
            entries.sort_by(|a, b| (&a.0, Reverse(a.1)).cmp(&(&b.0, Reverse(b.1))));
        }
        for (key, seq, kind, value, choice) in entries {
            let place = (key, Reverse(seq));
            if model.contains_key(&place) || aside.contains_key(&place) {
                continue;
            }
            if choice == 0 {
                put(&memtable, &place.0, seq, kind, &value);
                model.insert(place, (kind, value));
            } else {
                memtable.set_aside(&place.0, seq, kind, &value);
                aside.insert(place, (kind, value));
            }
            if choice == 1 && aside.len() > 20 {
                memtable.put_in();
                model.append(&mut aside);
            }
            prop_assert_eq!(walk_forward(&memtable).len(), model.len());
        }
        memtable.put_in();
        model.append(&mut aside);
        let expected: Vec<_> = model.iter().map(entry_of).collect();
        prop_assert_eq!(walk_forward(&memtable), expected.clone());
        prop_assert_eq!(walk_backward(&memtable), expected.into_iter().rev().collect::<Vec<_>>());
        for (key, seq) in model.keys().map(|(key, seq)| (key.clone(), seq.0)) {
            is_like(&memtable, &model, &key, seq);
        }
        put(&memtable, b"\x01\x02\x03", 9, Kind::Inline, b"new");
        prop_assert_eq!(get(&memtable, b"\x01\x02\x03", 9), Some((9, Kind::Inline, &b"new"[..])));
    }
}

/// Many at once go in among those that are there, and beside those that other threads put in: all
/// of them, in their order, and in the levels that lead to them.
#[test]
fn threads_put_in_many_at_once() {
    const THREADS: u64 = 3;
    let (batches, each) = if cfg!(miri) { (2, 10) } else { (40, 300) };
    let memtable = Memtable::new(8);
    // The finaliser of SplitMix64 spreads the numbers.
    let key = |number: u64| {
        let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (bits ^ (bits >> 27)).to_be_bytes()
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let memtable = &memtable;
            scope.spawn(move || {
                for batch in 0..batches {
                    let numbers = (0..each).map(|n| (batch * each + n) * THREADS + thread);
                    if batch % 4 == 3 {
                        numbers.for_each(|n| put(memtable, &key(n), n, Kind::Inline, b"one"));
                        continue;
                    }
                    let make = |n| made(memtable, &key(n), n, b"many");
                    memtable.insert_all(numbers.map(make).collect());
                }
            });
        }
    });
    let all = THREADS * batches * each;
    let found = walk_forward(&memtable);
    assert_eq!(found.len() as u64, all);
    assert!(found.windows(2).all(|two| two[0].0 < two[1].0));
    assert!((0..all).all(|n| get(&memtable, &key(n), n).is_some_and(|found| found.0 == n)));
    // Each level has the nodes that are that high, in their order.
    for level in 1..HEIGHT_MAX {
        let high = found.iter().filter(|found| Target::new(found.0, found.1).height() > level);
        let mut last = memtable.nodes.head();
        for entry in high {
            last = last.next(level).unwrap();
            assert_eq!(last.key(), entry.0);
        }
        assert!(last.next(level).is_none());
    }
}

#[test]
fn threads_set_entries_aside() {
    let memtable = Memtable::new(8);
    let each = if cfg!(miri) { 50 } else { 5_000 };
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let memtable = &memtable;
            scope.spawn(move || {
                for number in 0..each {
                    let key = (number * 7919 % each * 2 + thread).to_be_bytes();
                    memtable.set_aside(&key, 1, Kind::Inline, &key);
                }
            });
        }
    });
    assert!(walk_forward(&memtable).is_empty());
    memtable.put_in();
    let keys: Vec<_> = walk_forward(&memtable).iter().map(|entry| entry.0.to_vec()).collect();
    assert_eq!(keys, (0..each * 2).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>());
    assert_eq!(get(&memtable, &5_u64.to_be_bytes(), 1).map(|found| found.0), Some(1));
}

#[test]
fn steps_lead_from_some_entry_before_to_each_one() {
    for count in [1_u32, 2, 5, if cfg!(miri) { 90 } else { 3000 }] {
        let memtable = Memtable::new(64);
        for number in 0..count {
            let key = (number * 7919 % count).to_be_bytes();
            put(&memtable, &key, u64::from(number), Kind::Inline, b"");
        }
        let mut here = memtable.iter();
        assert!(here.some_before(9).entry().is_none());
        here.first();
        let mut walked = 0;
        for place in 1..=count {
            for most in [1, 2, 3, 8, 32] {
                let mut iter = here.some_before(most);
                let mut steps = 1;
                while !iter.stands_with(&here) {
                    iter.next();
                    steps += 1;
                }
                assert!(steps <= most.min(place as usize));
                walked += steps;
            }
            here.next();
        }
        // About half of what is wanted: a step back each would be five.
        assert!(count < 100 || walked > 20 * count as usize);
    }
}

#[test]
fn a_search_in_two_parts_leads_where_one_does_and_its_node_stays() {
    let memtable = Arc::new(Memtable::new(64));
    let mut kept = Kept::new(Arc::clone(&memtable));
    for number in 0..if cfg!(miri) { 60 } else { 3000_u32 } {
        // Every second key is there, each of them twice.
        let key = (number * 7919 % 1009 * 2).to_be_bytes();
        put(&memtable, &key, u64::from(number), Kind::Inline, b"value");
        let sought = (number * 31 % 2020).to_be_bytes();
        for seq in [0, u64::from(number / 2), u64::MAX] {
            kept.change(|memtable, _| vec![memtable.aim(&sought, u64::MAX)]);
            kept.change(|memtable, aimed| {
                memtable.land(aimed[0], &sought, seq).into_iter().collect()
            });
            let mut iter = memtable.iter();
            iter.seek(&sought, seq);
            assert!(kept.nodes().first().copied() == iter.node());
        }
    }
    kept.change(|memtable, _| vec![memtable.aim(&[0, 0, 9], 0)]);
    drop(memtable);
    assert_eq!(kept.nodes()[0].entry().value, b"value");
}

#[test]
fn a_pair_that_is_put_in_twice_answers_with_the_newer_one() {
    let memtable = Memtable::new(8);
    put(&memtable, b"key", 1, Kind::Inline, b"old");
    put(&memtable, b"key", 1, Kind::Tombstone, b"");
    assert_eq!(get(&memtable, b"key", 5), Some((1, Kind::Tombstone, &b""[..])));
}

#[test]
fn keys_and_values_have_any_length() {
    let memtable = Memtable::new(8);
    let mut inserted = 0;
    let longest = if cfg!(miri) { 1_000 } else { 65_536 };
    for len in [0, 1, 7, 8, 9, 100, longest] {
        let (key, value) = (vec![1; len], vec![2; len * 3]);
        put(&memtable, &key, 1, Kind::Inline, &value);
        inserted += key.len() + value.len();
        assert_eq!(get(&memtable, &key, 1), Some((1, Kind::Inline, &value[..])), "{len}");
        assert!(memtable.bytes() >= inserted, "{} bytes after {len}", memtable.bytes());
    }
    assert_eq!(get(&memtable, &[1; 10], 1), None);
    assert_eq!(get(&memtable, &[1; 9], 0), None);
}

#[test]
fn what_it_holds_is_charged_and_not_much_more_than_what_is_in_it() {
    let memtable = Memtable::new(8);
    let empty = memtable.bytes();
    let count: u64 = if cfg!(miri) { 2_000 } else { 100_000 };
    for n in 0..count {
        put(&memtable, &n.to_be_bytes().repeat(2), n, Kind::Separated, &[0; 16]);
    }
    // 16 + 16 bytes, 36 of fields, 8 * 4 / 3 of links, rounding; a chunk may be half empty.
    let each = (memtable.bytes() - empty) as f64 / count as f64;
    assert!((60.0..130.0).contains(&each), "{each} bytes an entry");
}

#[test]
fn threads_put_entries_in_while_others_read_them() {
    const THREADS: u64 = 4;
    let each: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let memtable = Memtable::new(8);
    // Neighbours come from different threads, so that they race for the same links.
    let key = |n: u64| n.to_be_bytes();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let memtable = &memtable;
            scope.spawn(move || {
                for n in 0..each {
                    // Up and down in turn.
                    let place = if n % 2 == 0 { n } else { each - n };
                    let number = place * THREADS + thread;
                    put(memtable, &key(number), n, Kind::Inline, &number.to_le_bytes());
                    assert_eq!(get(memtable, &key(number), n).map(|found| found.0), Some(n));
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let found = walk_forward(&memtable);
                    let in_order = |two: &[MemEntry<'_>]| {
                        (two[0].0, Reverse(two[0].1)) < (two[1].0, Reverse(two[1].1))
                    };
                    assert!(found.windows(2).all(in_order));
                    for (key, _, kind, value) in found {
                        let number = u64::from_be_bytes(key.try_into().unwrap());
                        assert_eq!((kind, value), (Kind::Inline, &number.to_le_bytes()[..]));
                    }
                }
            });
        }
    });
    assert_eq!(walk_forward(&memtable).len() as u64, THREADS * each);
    let mut backward = walk_backward(&memtable);
    backward.reverse();
    assert_eq!(backward, walk_forward(&memtable));
}

/// Keys of one hash are found all the same, near the front of their bucket or behind it.
#[test]
fn keys_of_one_hash_are_found() {
    let memtable = Memtable::new(1 << 10);
    // The first half of such a key makes the product of both halves zero.
    let key = |number: u64| {
        let zero = 0xa076_1d64_78bd_642f_u64.to_le_bytes();
        [zero, number.to_be_bytes()].concat()
    };
    assert_eq!(filter::hash(&key(1)), filter::hash(&key(2)));
    for (round, seq) in [(0, 1_000), (1, 2_000), (2, 1_500)] {
        let numbers = (round..100).step_by(round as usize + 1);
        let made = numbers.map(|n| made(&memtable, &key(n), seq + n, &[round as u8]));
        memtable.insert_all(made.collect());
    }
    for n in 0..100 {
        let versions = [(2_000, n % 2 == 1), (1_500, n % 3 == 2), (1_000, true)];
        for at in [0, 1_000 + n, 1_500 + n, 1_999, 2_000 + n, u64::MAX] {
            let seqs = versions.iter().filter(|version| version.1).map(|version| version.0 + n);
            let newest = seqs.filter(|&seq| seq <= at).max();
            assert_eq!(get(&memtable, &key(n), at).map(|found| found.0), newest, "{n} {at}");
        }
    }
    assert_eq!(get(&memtable, &key(100), u64::MAX), None);
}

/// Entries of one key, which threads put in in any order, and which are published in theirs.
struct Versions {
    memtable: Memtable,
    are_in: Vec<AtomicBool>,
}

impl Versions {
    fn new(count: usize) -> Self {
        let are_in = (0..count).map(|_| AtomicBool::new(false)).collect();
        Self { memtable: Memtable::new(8), are_in }
    }

    fn put(&self, seq: usize, is_batch: bool) {
        let (key, value) = (b"key", seq.to_le_bytes());
        if is_batch {
            // The others are of one bucket with it, or of the ones beside.
            let others = (0..3).map(|n| made(&self.memtable, &[n, seq as u8], 1, b""));
            let all = others.chain([made(&self.memtable, key, seq as u64, &value)]);
            self.memtable.insert_all(all.collect());
        } else {
            put(&self.memtable, key, seq as u64, Kind::Inline, &value);
        }
        self.are_in[seq - 1].store(true, Ordering::Release);
    }

    /// Looks for those that are published; how many these are.
    fn read(&self) -> usize {
        let is_in = |is_in: &&AtomicBool| is_in.load(Ordering::Acquire);
        let published = self.are_in.iter().take_while(is_in).count();
        for seq in [published, published / 2] {
            let found = get(&self.memtable, b"key", seq as u64);
            assert_eq!(found.map(|found| found.0), (seq > 0).then_some(seq as u64), "{published}");
        }
        published
    }
}

#[test]
fn threads_put_versions_of_a_key_in() {
    const THREADS: usize = 4;
    let (rounds, count) = if cfg!(miri) { (3, 12) } else { (200, 200) };
    for _ in 0..rounds {
        let versions = &Versions::new(count);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let seqs = (1..=count).filter(move |seq| seq % THREADS == thread);
                scope.spawn(move || seqs.for_each(|seq| versions.put(seq, seq % 3 == 0)));
            }
            while versions.read() < count {}
        });
    }
}

/// The same under schedules chosen by a seed.
#[cfg(shuttle)]
#[test]
fn schedules_of_versions() {
    use std::sync::Arc;

    let model = || {
        let versions = Arc::new(Versions::new(4));
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let versions = Arc::clone(&versions);
                let seqs: &[usize] = [&[2, 4][..], &[1], &[3]][thread];
                shuttle::thread::spawn(move || {
                    seqs.iter().for_each(|&seq| versions.put(seq, thread == 1));
                })
            })
            .collect();
        for _ in 0..4 {
            versions.read();
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(versions.read(), 4);
    };
    let schedules = std::env::var("SCHEDULES").map_or(300, |text| text.parse().unwrap());
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

/// Two writers whose entries are neighbours, and a reader, under schedules chosen by a seed.
#[cfg(shuttle)]
#[test]
fn schedules() {
    use std::sync::Arc;

    let model = || {
        let memtable = Arc::new(Memtable::new(8));
        let writers: Vec<_> = (0..2_u64)
            .map(|thread| {
                let memtable = Arc::clone(&memtable);
                shuttle::thread::spawn(move || {
                    let key = |n: u64| [(n * 5 % 6 * 2 + thread) as u8];
                    for n in 0..3_u64 {
                        put(&memtable, &key(n), n, Kind::Inline, &[7; 3_000]);
                        assert!(get(&memtable, &key(n), n).is_some());
                    }
                    let make = |n| made(&memtable, &key(n), n, &[7; 3_000]);
                    memtable.insert_all((3..6).map(make).collect());
                    assert!((3..6).all(|n| get(&memtable, &key(n), n).is_some()));
                })
            })
            .collect();
        for _ in 0..3 {
            let found = walk_forward(&memtable);
            assert!(found.windows(2).all(|two| two[0].0 < two[1].0));
            let seen = found.len();
            assert!(walk_forward(&memtable).len() >= seen);
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(walk_forward(&memtable).len(), 12);
        assert_eq!(walk_backward(&memtable).len(), 12);
    };
    let schedules = std::env::var("SCHEDULES").map_or(300, |text| text.parse().unwrap());
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}
