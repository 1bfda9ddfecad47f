//! The block cache: it holds what was read, up to a number of bytes, and makes sure that each piece
//! is read by only one thread at a time.
//!
//! # What is kept
//!
//! A *block* here is anything that is read as one: it says itself what it weighs. Blocks are dealt
//! to shards by the hash of their key, each with a lock and an equal part of the capacity. A shard
//! is a clock: its blocks stand in a circle, a hit counts up to [`HITS_MAX`] on a block, and when
//! room is needed a hand goes round, takes one off each count and evicts the first block that it
//! finds at zero. So a block that was needed once goes before one that is needed often, and a hit
//! changes nothing but a count. A block may be found without the cache as long as it is kept: then
//! it notes that itself, and the hand asks it. Blocks by which others are found begin with a count
//! above zero ([`Item::credit`]). What a shard keeps never weighs more than its part; a block that
//! weighs more by itself is passed on and not kept. A block that was handed out lives until its
//! user lets go of it, whether it is kept or not.
//!
//! Room that no block takes can be lent to guests. They are the first to go when a block needs the
//! room, and no block is evicted or refused for them.
//!
//! # Which thread reads
//!
//! [`Cache::look_up`] answers with the block, with the duty to read it, or with the prospect of
//! getting it from a thread that already has this duty:
//!
//! ```text
//!            look_up                  fill(Ok)
//!   absent ----------> being read ------------------> kept, and given to all waiters
//!      ^                 |      |     fill(Err)
//!      |                 |      +-------------------> absent, the error given to all waiters
//!      +-----------------+
//!          load dropped: all waiters look it up again
//! ```
//!
//! Nothing is read while a lock is held, and nothing is read here: a thread can collect many
//! duties, fulfil them with one submission, and then wait for what others read.
//!
//! This module knows neither files nor what a block holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError};

use crate::sync::{Condvar, Mutex, locked};

#[cfg(test)]
mod tests;

/// What a count of hits goes up to: as many rounds of the hand a block survives without a hit.
const HITS_MAX: u8 = 3;
/// A shard gets at least this part of the capacity, so that large blocks fit in small caches.
const SHARD_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 64;
/// A shard remembers one block that it did not keep for each this many bytes of its part.
const MARK_PART: u64 = 512;
const MARKS_MIN: u64 = 64;
/// However large the cache may become.
const MARKS_MAX: u64 = 32 << 20;
/// What a block takes beside its own bytes: its place in circle and map, with their free room.
const OVERHEAD: u64 = 120;

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    /// The number of its file, never used for another one.
    pub(crate) file: u64,
    /// Where it begins in the file.
    pub(crate) offset: u64,
}

/// What a cache keeps: a handle, by which its users share one block.
pub(crate) trait Item: Clone {
    /// The bytes that the block takes, always the same number for the same block.
    fn weight(&self) -> u64;
    /// The kind of the block, below [`KINDS`]: bytes are counted for each kind.
    fn kind(&self) -> usize;
    /// What its count of hits begins with, at most [`HITS_MAX`].
    fn credit(&self) -> u8;
    /// Whether it is kept at once only where there is room, and else when it is read again.
    fn is_tried(&self) -> bool;

    /// It is kept from now on.
    fn enter(&self) {}

    /// It is not kept any more; what else refers to it since it was kept lets go of it, too.
    fn leave(&self) {}

    /// Whether it was found elsewhere since this was last asked: that counts as a hit.
    fn take_use(&self) -> bool {
        false
    }
}

/// The number of kinds of blocks.
pub(crate) const KINDS: usize = 3;

/// What the cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Blocks that were there.
    pub(crate) hits: u64,
    /// Blocks that had to be read.
    pub(crate) misses: u64,
    /// Blocks that another thread was already reading.
    pub(crate) joined: u64,
    /// The bytes that are kept now, with what it takes to keep them, by kind.
    pub(crate) bytes: [u64; KINDS],
    /// The bytes that are lent.
    pub(crate) lent: u64,
}

impl CacheStats {
    /// The bytes that are kept now.
    pub(crate) fn kept(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

/// Blocks of type `V`. `E` is why one could not be read.
pub(crate) struct Cache<V, E> {
    shards: Box<[Mutex<Shard<V, E>>]>,
}

type BlockMap<T> = HashMap<BlockKey, T, BuildHasherDefault<BlockHasher>>;

struct Shard<V, E> {
    /// The circle.
    places: Vec<Option<Kept>>,
    /// The count of hits of each place. They stand beside each other, so that a look-up does not
    /// wait for memory to note a hit.
    hits: Vec<u8>,
    /// What is known of a block.
    index: BlockMap<Slot<V, E>>,
    /// Places without a block.
    free: Vec<usize>,
    guests: Vec<Guest>,
    /// Some bits of the hashes of blocks that were read and not kept, each in the place that other
    /// bits say. They take memory from the first such block on.
    marks: Vec<u16>,
    marks_len: usize,
    /// The place that is looked at next.
    hand: usize,
    capacity: u64,
    stats: CacheStats,
}

/// The holder of room that no block takes.
struct Guest {
    key: BlockKey,
    weight: u64,
    /// What gives the memory back when it is dropped.
    _memory: Box<dyn Send + Sync>,
}

/// A block in the circle.
struct Kept {
    key: BlockKey,
    weight: u64,
    kind: usize,
}

/// What is known of a block that is kept or being read.
enum Slot<V, E> {
    /// It, and its place in the circle.
    Kept(V, usize),
    /// A thread is reading it. Its waiters, if there are any.
    Read(Option<Arc<Flight<V, E>>>),
}

/// A block that has waiters.
struct Flight<V, E> {
    outcome: Mutex<Outcome<V, E>>,
    landed: Condvar,
}

enum Outcome<V, E> {
    Pending,
    Abandoned,
    Done(Result<V, E>),
}

/// What [`Cache::look_up`] finds.
pub(crate) enum Lookup<'c, V: Item, E: Clone> {
    /// The block.
    Hit(V),
    /// Nothing: the caller reads it now, for all.
    Load(Load<'c, V, E>),
    /// Another thread is reading it.
    Wait(Wait<V, E>),
}

/// The duty to read a block and to hand it over by [`Load::fill`]. To drop it gives it back.
pub(crate) struct Load<'c, V: Item, E: Clone> {
    cache: &'c Cache<V, E>,
    key: BlockKey,
    is_filled: bool,
}

/// The prospect of a block that another thread reads.
pub(crate) struct Wait<V, E>(Arc<Flight<V, E>>);

impl<V: Item, E: Clone> Cache<V, E> {
    /// An empty one for `capacity` bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        let count = (capacity / SHARD_MIN).clamp(1, SHARDS_MAX);
        let shards = (0..count).map(|_| Mutex::new(Shard::new(capacity / count))).collect();
        Self { shards }
    }

    /// Changes the capacity; what does not fit any more is evicted before this returns.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        for shard in &self.shards {
            let mut shard = locked(shard);
            shard.capacity = capacity / self.shards.len() as u64;
            shard.make_room(0);
        }
    }

    /// The block if it is there, and what to do if it is not.
    pub(crate) fn look_up(&self, key: BlockKey) -> Lookup<'_, V, E> {
        let mut shard = locked(self.shard(key));
        let Shard { index, hits, stats, .. } = &mut *shard;
        match index.entry(key) {
            Entry::Occupied(mut slot) => match slot.get_mut() {
                Slot::Kept(block, place) => {
                    note_hit(&mut hits[*place], stats);
                    Lookup::Hit(block.clone())
                }
                Slot::Read(flight) => {
                    stats.joined += 1;
                    Lookup::Wait(Wait(Arc::clone(flight.get_or_insert_default())))
                }
            },
            Entry::Vacant(slot) => {
                slot.insert(Slot::Read(None));
                stats.misses += 1;
                Lookup::Load(Load { cache: self, key, is_filled: false })
            }
        }
    }

    /// The block if it is there.
    pub(crate) fn peek(&self, key: BlockKey) -> Option<V> {
        let mut shard = locked(self.shard(key));
        let Shard { index, hits, stats, .. } = &mut *shard;
        let Slot::Kept(block, place) = index.get(&key)? else { return None };
        note_hit(&mut hits[*place], stats);
        Some(block.clone())
    }

    /// The block, read by `load` unless it is there or another thread reads it.
    pub(crate) fn get_or_load(
        &self,
        key: BlockKey,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        loop {
            match self.look_up(key) {
                Lookup::Hit(block) => return Ok(block),
                Lookup::Load(duty) => return duty.fill(load()),
                Lookup::Wait(wait) => {
                    if let Some(outcome) = wait.wait() {
                        return outcome;
                    }
                }
            }
        }
    }

    /// Whether that many more bytes fit without another block leaving.
    pub(crate) fn has_room(&self, key: BlockKey, bytes: u64) -> bool {
        let shard = locked(self.shard(key));
        shard.taken().saturating_add(bytes) <= shard.capacity
    }

    /// Keeps a block that the caller made, if there is room that nothing takes: nobody asked for it
    /// yet, so nothing is evicted for it. `make` is called where there is room for `bytes` bytes.
    pub(crate) fn offer(&self, key: BlockKey, bytes: u64, make: impl FnOnce() -> Option<V>) {
        let has_room = |shard: &Shard<V, E>, bytes: u64| {
            let weight = bytes.saturating_add(OVERHEAD);
            let fits = shard.taken().saturating_add(weight) <= shard.capacity;
            (fits && !shard.index.contains_key(&key)).then_some(weight)
        };
        if has_room(&locked(self.shard(key)), bytes).is_none() {
            return;
        }
        let Some(block) = make() else { return };
        let mut shard = locked(self.shard(key));
        if let Some(weight) = has_room(&shard, block.weight()) {
            shard.keep(key, weight, block);
        }
    }

    /// Lets go of a block that will not be asked for any more.
    pub(crate) fn remove(&self, key: BlockKey) {
        let mut shard = locked(self.shard(key));
        if let Some(&Slot::Kept(_, place)) = shard.index.get(&key) {
            shard.put_out(place);
        }
    }

    /// Lets go of all blocks of a file. This looks at everything that is kept.
    pub(crate) fn remove_file(&self, file: u64) {
        for shard in &self.shards {
            let mut shard = locked(shard);
            for place in 0..shard.places.len() {
                if shard.places[place].as_ref().is_some_and(|kept| kept.key.file == file) {
                    shard.put_out(place);
                }
            }
        }
    }

    /// Lends `bytes` unused bytes to `guest`, until a block needs them. Dropping the guest gives
    /// them back; it is dropped at once if there are not enough.
    pub(crate) fn lend(&self, key: BlockKey, bytes: u64, guest: impl Send + Sync + 'static) {
        let mut shard = locked(self.shard(key));
        let weight = bytes.saturating_add(OVERHEAD);
        if shard.taken().saturating_add(weight) <= shard.capacity {
            shard.stats.lent += weight;
            shard.guests.push(Guest { key, weight, _memory: Box::new(guest) });
        }
    }

    /// Makes a guest give its memory back; returns whether it had any.
    pub(crate) fn take_back(&self, key: BlockKey) -> bool {
        let mut shard = locked(self.shard(key));
        let place = shard.guests.iter().position(|guest| guest.key == key);
        let guest = place.map(|place| shard.guests.swap_remove(place));
        shard.stats.lent -= guest.as_ref().map_or(0, |guest| guest.weight);
        drop(shard);
        guest.is_some()
    }

    /// Whether a guest has something.
    pub(crate) fn has_lent(&self, key: BlockKey) -> bool {
        locked(self.shard(key)).guests.iter().any(|guest| guest.key == key)
    }

    /// What it did so far, and what it keeps.
    pub(crate) fn stats(&self) -> CacheStats {
        self.shards.iter().map(|shard| locked(shard).stats).fold(
            CacheStats::default(),
            |sum, one| CacheStats {
                hits: sum.hits + one.hits,
                misses: sum.misses + one.misses,
                joined: sum.joined + one.joined,
                bytes: std::array::from_fn(|kind| sum.bytes[kind] + one.bytes[kind]),
                lent: sum.lent + one.lent,
            },
        )
    }

    fn shard(&self, key: BlockKey) -> &Mutex<Shard<V, E>> {
        // The middle of the hash: maps use its lowest bits for the place, and its highest seven to
        // tell blocks of one place apart.
        let place = u64::from((hash(key) >> 24) as u32) * self.shards.len() as u64;
        &self.shards[(place >> 32) as usize]
    }
}

impl<V: Item, E> Shard<V, E> {
    fn new(capacity: u64) -> Self {
        let marks_len = (capacity / MARK_PART).clamp(MARKS_MIN, MARKS_MAX) as usize;
        Self {
            places: Vec::new(),
            hits: Vec::new(),
            index: BlockMap::default(),
            free: Vec::new(),
            guests: Vec::new(),
            marks: Vec::new(),
            marks_len,
            hand: 0,
            capacity,
            stats: CacheStats::default(),
        }
    }

    /// Keeps a block that was read if it fits at all; gives its waiters, and the last block that
    /// was evicted for it.
    fn keep(
        &mut self,
        key: BlockKey,
        weight: u64,
        block: V,
    ) -> (Option<Arc<Flight<V, E>>>, Option<V>) {
        let is_full = self.stats.kept() + weight > self.capacity;
        let is_too_much = weight > self.capacity;
        if is_too_much || (is_full && block.is_tried() && !self.was_read(key)) {
            return (self.forget(key), None);
        }
        let out = self.make_room(weight);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.hits.push(0);
            self.places.len() - 1
        });
        let kind = block.kind();
        self.stats.bytes[kind] += weight;
        self.places[place] = Some(Kept { key, weight, kind });
        self.hits[place] = block.credit();
        block.enter();
        let before = self.index.insert(key, Slot::Kept(block, place));
        (before.and_then(Slot::flight), out)
    }

    /// Whether a block was read lately and not kept; it is remembered that it was now.
    fn was_read(&mut self, key: BlockKey) -> bool {
        let hash = hash(key);
        let mark = (hash >> 48) as u16 | 1;
        let place = hash as u32 as usize % self.marks_len;
        self.marks.resize(self.marks_len, 0);
        std::mem::replace(&mut self.marks[place], mark) == mark
    }

    /// Notes that the block is no longer being read; gives its waiters.
    fn forget(&mut self, key: BlockKey) -> Option<Arc<Flight<V, E>>> {
        self.index.remove(&key).and_then(Slot::flight)
    }

    /// Evicts guests, then moves the hand round, until this many more bytes fit into the capacity.
    /// The caller knows that they can. Each round takes one off each count, so that the fourth
    /// round evicts any block that it meets. Gives the last evicted block.
    fn make_room(&mut self, bytes: u64) -> Option<V> {
        let mut out = None;
        while self.taken() + bytes > self.capacity {
            if let Some(guest) = self.guests.pop() {
                self.stats.lent -= guest.weight;
                continue;
            }
            self.hand = if self.hand < self.places.len() { self.hand } else { 0 };
            match self.hits[self.hand] {
                0 if self.take_use(self.hand) => self.hits[self.hand] = 1,
                0 => out = self.put_out(self.hand).or(out),
                hits => self.hits[self.hand] = hits - 1,
            }
            self.hand += 1;
        }
        out
    }

    /// The bytes that blocks and guests take.
    fn taken(&self) -> u64 {
        self.stats.kept() + self.stats.lent
    }

    fn put_out(&mut self, place: usize) -> Option<V> {
        let kept = self.places[place].take()?;
        self.stats.bytes[kept.kind] -= kept.weight;
        self.hits[place] = 0;
        self.free.push(place);
        match self.index.remove(&kept.key) {
            Some(Slot::Kept(block, _)) => {
                block.leave();
                Some(block)
            }
            _ => None,
        }
    }

    /// Whether the block in a place was found without a look-up since this was last asked.
    fn take_use(&self, place: usize) -> bool {
        let kept = self.places[place].as_ref();
        match kept.and_then(|kept| self.index.get(&kept.key)) {
            Some(Slot::Kept(block, _)) => block.take_use(),
            _ => false,
        }
    }
}

fn note_hit(hits: &mut u8, stats: &mut CacheStats) {
    *hits = HITS_MAX.min(*hits + 1);
    stats.hits += 1;
}

impl<V, E> Slot<V, E> {
    fn flight(self) -> Option<Arc<Flight<V, E>>> {
        match self {
            Self::Kept(..) => None,
            Self::Read(flight) => flight,
        }
    }
}

impl<V: Item, E: Clone> Load<'_, V, E> {
    /// Hands the block over, or why it could not be read, to the cache and to all waiters.
    pub(crate) fn fill(self, read: Result<V, E>) -> Result<V, E> {
        self.swap(&read);
        read
    }

    /// The same; gives a block that was evicted for it, if there is one.
    pub(crate) fn swap(mut self, read: &Result<V, E>) -> Option<V> {
        let mut shard = locked(self.cache.shard(self.key));
        let (flight, out) = match read {
            Ok(block) => {
                let (key, weight) = (self.key, block.weight().saturating_add(OVERHEAD));
                shard.keep(key, weight, block.clone())
            }
            Err(_) => (shard.forget(self.key), None),
        };
        drop(shard);
        self.is_filled = true;
        if let Some(flight) = flight {
            flight.land(Outcome::Done(read.clone()));
        }
        out
    }
}

impl<V: Item, E: Clone> Drop for Load<'_, V, E> {
    fn drop(&mut self) {
        if !self.is_filled {
            let flight = locked(self.cache.shard(self.key)).forget(self.key);
            if let Some(flight) = flight {
                flight.land(Outcome::Abandoned);
            }
        }
    }
}

impl<V, E> Default for Flight<V, E> {
    fn default() -> Self {
        Self { outcome: Mutex::new(Outcome::Pending), landed: Condvar::new() }
    }
}

impl<V, E> Flight<V, E> {
    fn land(&self, outcome: Outcome<V, E>) {
        *locked(&self.outcome) = outcome;
        self.landed.notify_all();
    }
}

impl<V: Clone, E: Clone> Wait<V, E> {
    /// Whether there is nothing to wait for any more.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(*locked(&self.0.outcome), Outcome::Pending)
    }

    /// Waits for the block. `None` if it was not read after all: look it up again. A thread that
    /// has a duty to read fulfils it before it waits, so that two threads never wait for each
    /// other.
    pub(crate) fn wait(self) -> Option<Result<V, E>> {
        let mut outcome = locked(&self.0.outcome);
        loop {
            match &*outcome {
                Outcome::Done(read) => return Some(read.clone()),
                Outcome::Abandoned => return None,
                Outcome::Pending => {
                    outcome = self.0.landed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Offsets are multiples of large powers of two: each bit has to reach all others.
fn hash(key: BlockKey) -> u64 {
    let mut x = key.offset.wrapping_add(key.file.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// Takes the two numbers of a [`BlockKey`], in their order.
#[derive(Default)]
struct BlockHasher {
    before: u64,
    last: u64,
}

impl Hasher for BlockHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a block's key consists of two numbers");
    }

    fn write_u64(&mut self, number: u64) {
        (self.before, self.last) = (self.last, number);
    }

    fn finish(&self) -> u64 {
        hash(BlockKey { file: self.before, offset: self.last })
    }
}
