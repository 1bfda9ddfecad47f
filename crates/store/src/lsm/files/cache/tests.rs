//! The cache beside a plain clock, its bounds, and many threads that want the same blocks.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

const TRIED: u8 = 0x80;

type Bytes = Cache<Arc<Vec<u8>>, String>;

/// Blocks whose first byte says with how many hits they begin, and whether they are tried.
impl Item for Arc<Vec<u8>> {
    fn weight(&self) -> u64 {
        self.len() as u64
    }

    fn kind(&self) -> usize {
        self.len() % KINDS
    }

    fn credit(&self) -> u8 {
        self.first().map_or(0, |credit| credit % 4)
    }

    fn is_tried(&self) -> bool {
        self.first().is_some_and(|&first| first >= TRIED)
    }
}

fn cache(capacity: u64) -> Bytes {
    Cache::new(capacity)
}

fn key(number: u64) -> BlockKey {
    BlockKey { file: number % 3, offset: number / 3 * 4_096 }
}

/// A block that weighs this many bytes, with the cost of keeping it.
fn block(weight: u64) -> Arc<Vec<u8>> {
    Arc::new(vec![0; (weight - OVERHEAD) as usize])
}

fn is_kept(cache: &Bytes, key: BlockKey) -> bool {
    cache.peek(key).is_some()
}

/// One shard, written plainly: blocks in the order in which the hand will come to them.
struct Model {
    circle: VecDeque<(BlockKey, u64, u8)>,
    capacity: u64,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.circle.iter().map(|kept| kept.1).sum()
    }

    fn hit(&mut self, key: BlockKey) -> bool {
        let found = self.circle.iter_mut().find(|kept| kept.0 == key);
        found.map(|kept| kept.2 = (kept.2 + 1).min(HITS_MAX)).is_some()
    }

    /// Evicts blocks; the hand stands at the front of the circle.
    fn make_room(&mut self, bytes: u64) {
        while self.bytes() + bytes > self.capacity {
            let mut kept = self.circle.pop_front().unwrap();
            if kept.2 > 0 {
                kept.2 -= 1;
                self.circle.push_back(kept);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Get(u64, u64),
    Fail(u64),
    Drop(u64),
    Capacity(u64),
    Lend(u64, u64),
    TakeBack(u64),
    Offer(u64, u64),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    let (number, weight) = (0..20_u64, OVERHEAD..OVERHEAD + 60);
    prop_oneof![
        8 => (number.clone(), weight.clone()).prop_map(|(n, weight)| Step::Get(n, weight)),
        2 => (number.clone(), weight).prop_map(|(n, weight)| Step::Offer(n, weight)),
        1 => number.clone().prop_map(Step::Remove),
        1 => number.clone().prop_map(Step::Fail),
        1 => number.prop_map(Step::Drop),
        1 => (0..1_500_u64).prop_map(Step::Capacity),
        4 => (0..8_u64, 0..300_u64).prop_map(|(n, bytes)| Step::Lend(n, bytes)),
        1 => (0..8_u64).prop_map(Step::TakeBack),
    ]
}

/// What the cache keeps, by key, and never more than it may.
fn kept(cache: &Bytes) -> Vec<(BlockKey, u64)> {
    let shard = locked(&cache.shards[0]);
    let kept: Vec<_> = shard.places.iter().flatten().collect();
    assert!(shard.taken() <= shard.capacity);
    assert_eq!(shard.stats.lent, shard.guests.iter().map(|guest| guest.weight).sum::<u64>());
    assert_eq!(shard.stats.kept(), kept.iter().map(|kept| kept.weight).sum::<u64>());
    let is_kept = |slot: &Slot<_, _>| matches!(slot, Slot::Kept(..));
    assert!(shard.index.len() == kept.len() && shard.index.values().all(is_kept));
    assert_eq!(shard.free.len(), shard.places.len() - kept.len());
    let mut list: Vec<_> = kept.iter().map(|kept| (kept.key, kept.weight)).collect();
    list.sort_by_key(|kept| (kept.0.file, kept.0.offset));
    list
}

/// Offers a block; gives it if it was taken, which it is where there is room for it and it is not
/// there. Nothing else may have changed.
fn offer(
    cache: &Bytes,
    key: BlockKey,
    weight: u64,
    before: &[(BlockKey, u64)],
) -> Option<(BlockKey, u64)> {
    let (lent, mut is_made) = (cache.stats().lent, false);
    let is_there = before.iter().any(|kept| kept.0 == key);
    let has_room = cache.has_room(key, weight);
    cache.offer(key, weight - OVERHEAD, || {
        is_made = true;
        Some(block(weight))
    });
    let (same, others): (Vec<_>, Vec<_>) =
        kept(cache).into_iter().partition(|kept| before.contains(kept));
    assert_eq!(is_made, has_room && !is_there);
    let made = Some((key, weight)).filter(|_| is_made);
    assert_eq!(others, Vec::from_iter(made));
    assert_eq!((same.as_slice(), cache.stats().lent), (before, lent));
    made
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What was kept for which weight is right whatever happens; hits and misses are counted.
    #[test]
    fn it_keeps_what_was_last_given_and_never_too_much(
        list in prop::collection::vec(steps(), 0..200),
    ) {
        let cache = cache(1_000);
        let mut given: HashMap<BlockKey, u64> = HashMap::new();
        let (mut hits, mut misses, guests) = (0, 0, Arc::new(()));
        for step in list {
            let before = kept(&cache);
            let weight_of = |key| before.iter().find(|kept| kept.0 == key).map(|kept| kept.1);
            match step {
                Step::Get(number, weight) => {
                    let found = weight_of(key(number));
                    let got = cache.get_or_load(key(number), || Ok(block(weight))).unwrap();
                    let expected = found.unwrap_or(weight);
                    prop_assert_eq!(got.len() as u64 + OVERHEAD, expected);
                    given.insert(key(number), expected);
                    *(if found.is_some() { &mut hits } else { &mut misses }) += 1;
                }
                Step::Fail(number) => match weight_of(key(number)) {
                    Some(_) => {}
                    None => {
                        let failed = cache.get_or_load(key(number), || Err("no".to_string()));
                        prop_assert_eq!(failed.unwrap_err(), "no");
                        misses += 1;
                    }
                },
                Step::Drop(number) => {
                    let found = cache.look_up(key(number));
                    *(if matches!(found, Lookup::Hit(_)) { &mut hits } else { &mut misses }) += 1;
                }
                Step::Capacity(bytes) => cache.set_capacity(bytes),
                Step::Lend(number, _) if cache.has_lent(key(number)) => {}
                Step::Lend(number, bytes) => {
                    cache.lend(key(number), bytes, Arc::clone(&guests));
                    prop_assert_eq!(kept(&cache), before);
                }
                Step::TakeBack(number) => {
                    let has_lent = cache.has_lent(key(number));
                    prop_assert_eq!(cache.take_back(key(number)), has_lent);
                }
                Step::Offer(number, weight) => {
                    given.extend(offer(&cache, key(number), weight, &before));
                }
                Step::Remove(number) => {
                    cache.remove(key(number));
                    let left = before.iter().filter(|kept| kept.0 != key(number));
                    prop_assert_eq!(kept(&cache), Vec::from_iter(left.copied()));
                }
            }
            let lent = (0..8).filter(|&n| cache.has_lent(key(n))).count();
            prop_assert_eq!(Arc::strong_count(&guests), 1 + lent);
            for (key, weight) in kept(&cache) {
                prop_assert_eq!(given.get(&key), Some(&weight));
            }
            let stats = cache.stats();
            prop_assert_eq!((stats.hits, stats.misses, stats.joined), (hits, misses, 0));
        }
    }

    /// With blocks of one weight, where a new block takes the place of the one that left, the
    /// clock puts out the very blocks that a plain one does.
    /// Guests change nothing of that.
    #[test]
    fn it_puts_out_what_a_plain_clock_does(
        wanted in prop::collection::vec((0..24_u64, any::<bool>()), 0..300),
    ) {
        const WEIGHT: u64 = 200;
        let cache = cache(10 * WEIGHT);
        let mut model = Model { circle: VecDeque::new(), capacity: 10 * WEIGHT };
        for (number, is_lent) in wanted {
            if is_lent {
                cache.lend(key(number), WEIGHT / 2, ());
            }
            cache.get_or_load(key(number), || Ok(block(WEIGHT))).unwrap();
            if !model.hit(key(number)) {
                model.make_room(WEIGHT);
                model.circle.push_back((key(number), WEIGHT, 0));
            }
            let mut expected: Vec<_> =
                model.circle.iter().map(|kept| (kept.0, kept.1)).collect();
            expected.sort_by_key(|kept| (kept.0.file, kept.0.offset));
            prop_assert_eq!(kept(&cache), expected);
        }
    }
}

#[test]
fn a_block_in_use_survives_a_scan() {
    let cache = cache(100 * 200);
    for number in (0..50).chain(0..50).chain(0..50).chain(1_000..1_100) {
        cache.get_or_load(key(number), || Ok(block(200))).unwrap();
    }
    assert!((0..50).all(|number| is_kept(&cache, key(number))));
    assert_eq!((1_000..1_100).filter(|&number| is_kept(&cache, key(number))).count(), 50);
}

/// A block that finds others goes after those that were needed as often.
#[test]
fn a_block_with_credit_survives_those_without() {
    let cache = cache(100 * 200);
    let find = |credit: u8| Arc::new(vec![credit; (200 - OVERHEAD) as usize]);
    for number in 0..100 {
        cache.get_or_load(key(number), || Ok(find(u8::from(number % 2 == 0)))).unwrap();
    }
    for number in 1_000..1_050 {
        cache.get_or_load(key(number), || Ok(find(0))).unwrap();
    }
    assert!((0..100).all(|number| is_kept(&cache, key(number)) == (number % 2 == 0)));
}

#[test]
fn a_block_that_is_too_large_is_handed_through() {
    let cache = cache(1_000);
    assert_eq!(cache.get_or_load(key(1), || Ok(block(1_000 + OVERHEAD))).unwrap().len(), 1_000);
    assert_eq!(cache.stats().kept(), 0);
    cache.get_or_load(key(1), || Ok(block(1_000 + OVERHEAD))).unwrap();
    assert_eq!(cache.stats().misses, 2);
}

#[test]
fn keys_are_dealt_to_all_shards() {
    let cache = cache(1 << 30);
    assert_eq!(cache.shards.len(), 64);
    for number in 0..64_000 {
        let key = BlockKey { file: 7, offset: number << 12 };
        cache.get_or_load(key, || Ok(Arc::default())).unwrap();
    }
    for shard in &cache.shards {
        let count = locked(shard).index.len();
        assert!((800..1_200).contains(&count), "{count} blocks of 1,000");
    }
}

#[test]
fn threads_that_miss_a_block_read_it_once() {
    const THREADS: usize = 8;
    let (cache, reads, barrier) = (cache(1 << 20), AtomicU64::new(0), Barrier::new(THREADS));
    let read = || {
        reads.fetch_add(1, Ordering::SeqCst);
        // Until all others have joined.
        while cache.stats().joined < THREADS as u64 - 1 {
            std::thread::yield_now();
        }
    };
    let all = |load: &(dyn Fn() -> Result<Arc<Vec<u8>>, String> + Sync)| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        cache.get_or_load(key(5), load)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let failed = all(&|| {
        read();
        Err("damaged".to_string())
    });
    assert!(failed.iter().all(|outcome| outcome.as_ref().unwrap_err() == "damaged"));
    assert_eq!((reads.load(Ordering::SeqCst), cache.stats().kept()), (1, 0));
    // The error was not kept.
    let blocks = all(&|| {
        reads.fetch_add(1, Ordering::SeqCst);
        Ok(block(200))
    });
    assert!(
        blocks
            .iter()
            .all(|outcome| Arc::ptr_eq(outcome.as_ref().unwrap(), blocks[0].as_ref().unwrap()))
    );
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[test]
fn whoever_waits_goes_on_when_the_reader_gives_up() {
    let cache = cache(1 << 20);
    let Lookup::Load(duty) = cache.look_up(key(1)) else { panic!("a block that was never read") };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| cache.get_or_load(key(1), || Ok(block(300))));
        while cache.stats().joined == 0 {
            std::thread::yield_now();
        }
        drop(duty);
        assert_eq!(other.join().unwrap().unwrap().len() as u64, 300 - OVERHEAD);
    });
    assert!(is_kept(&cache, key(1)));
}

#[test]
fn threads_keep_it_within_its_capacity() {
    let cache = cache(1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = thread;
                for n in 0..20_000_u64 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let number = random >> 54;
                    let got =
                        cache.get_or_load(key(number), || Ok(Arc::new(vec![number as u8; 2_000])));
                    assert!(got.unwrap().iter().all(|byte| *byte == number as u8));
                    if n % 1_000 == 1 {
                        cache.set_capacity((thread + 1) << 18);
                    }
                    assert!(cache.stats().kept() <= 1 << 20);
                }
            });
        }
    });
    let is_read = |slot: &Slot<_, _>| matches!(slot, Slot::Read(_));
    assert!(!locked(&cache.shards[0]).index.values().any(is_read));
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses + stats.joined, 80_000);
}

/// Where there is no room, a block that is tried is kept when it is read again; others go for it
/// then. What is not tried is always kept.
#[test]
fn what_is_tried_is_kept_the_second_time() {
    let cache = cache(1_000);
    let tried = || Arc::new(vec![TRIED; (250 - OVERHEAD) as usize]);
    let read = |number| cache.get_or_load(key(number), || Ok(tried())).map(drop).unwrap();
    (0..4).for_each(read);
    assert!((0..4).all(|number| is_kept(&cache, key(number))), "there was room");
    read(7);
    assert!(!is_kept(&cache, key(7)));
    assert!((0..4).all(|number| is_kept(&cache, key(number))), "nothing goes for what is tried");
    read(7);
    assert!(is_kept(&cache, key(7)));
    assert_eq!((0..4).filter(|&number| is_kept(&cache, key(number))).count(), 3);
    cache.get_or_load(key(8), || Ok(block(250))).map(drop).unwrap();
    assert!(is_kept(&cache, key(8)));
    assert!(cache.stats().kept() <= 1_000);
}

/// Of many blocks that are read in turn none drives out another one for nothing: those that were
/// read first stay and answer.
#[test]
fn a_stream_of_blocks_that_are_tried_changes_little() {
    let cache = cache(SHARD_MIN);
    let bytes = Arc::new(vec![TRIED; 1 << 10]);
    let fitting = SHARD_MIN / ((1 << 10) + OVERHEAD);
    for number in 0..fitting * 20 {
        cache.get_or_load(key(number), || Ok(Arc::clone(&bytes))).map(drop).unwrap();
    }
    let stayed = (0..fitting).filter(|&number| is_kept(&cache, key(number))).count() as u64;
    assert!(stayed > fitting * 99 / 100, "{stayed} of {fitting}");
}

/// All blocks of a file go, and no others.
#[test]
fn the_blocks_of_a_file_go_together() {
    let cache = cache(8 << 20);
    for number in 0..30 {
        cache.get_or_load(key(number), || Ok(block(500))).unwrap();
    }
    cache.remove_file(1);
    for number in 0..30 {
        assert_eq!(is_kept(&cache, key(number)), key(number).file != 1, "{number}");
    }
    assert_eq!(cache.stats().kept(), 20 * 500);
}
