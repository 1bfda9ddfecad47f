//! The log-structured engine compared with a model: what a seed chooses, and the operations.
//!
//! `run` drives engine and model side by side, `crash` cuts the power around every write of such a
//! run, `faults` lets every call of it fail, `processes` kills it; `growth` watches how long its
//! files get. `flips` and `hostile` damage the files of a store, which `template` makes and
//! `format` reads a second time. `still` reads stores without writing to them, and salvages them.

pub mod crash;
pub mod faults;
pub mod flips;
pub mod format;
pub mod growth;
pub mod hostile;
mod ledger;
pub mod processes;
pub mod run;
pub mod still;
pub mod template;

use std::collections::BTreeSet;

use hedgerow::Durability;
use hedgerow::lsm::Options;

use crate::rng::Rng;

/// Keyspaces and their separation thresholds: nearly everything, some, nothing.
pub const SPACES: [(&str, u32); 3] = [("separated", 16), ("mixed", 200), ("inline", u32::MAX)];
/// Snapshots that may be held.
pub const HELD: usize = 3;

/// What a seed chooses for a whole run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The seed.
    pub seed: u64,
    /// Sorted, so that numbers of keys compare as the keys do.
    pub keys: Vec<Vec<u8>>,
    /// Longer values are rare.
    pub value_bytes: usize,
    memtable_bytes: usize,
    segment_bytes: u64,
    table_bytes: u64,
    /// On files of the system, with background threads; otherwise on a simulated disk.
    pub is_real: bool,
}

impl Config {
    /// What `seed` chooses.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 30);
        let count = rng.pick(&[20, 100, 400]);
        let keys = pool(&mut rng, count);
        Self {
            seed,
            keys,
            value_bytes: rng.pick(&[20, 100, 400]),
            memtable_bytes: rng.pick(&[2, 6, 20]) << 10,
            segment_bytes: rng.pick(&[4, 16, 64]) << 10,
            // The smallest ones make several levels of little data.
            table_bytes: rng.pick(&[200, 2 << 10, 8 << 10, 32 << 10]),
            is_real: rng.chance(1, 4),
        }
    }

    /// What `seed` chooses for short runs on a simulated disk.
    pub fn small(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 31);
        let keys = pool(&mut rng, 30);
        let (memtable_bytes, segment_bytes) =
            (rng.pick(&[600, 1500, 5000]), rng.pick(&[400, 2000, 8000]));
        let (value_bytes, table_bytes) = (rng.pick(&[20, 100]), rng.pick(&[100, 600, 3000]));
        let is_real = false;
        Self { seed, keys, value_bytes, memtable_bytes, segment_bytes, table_bytes, is_real }
    }

    /// The store's options.
    pub fn options(&self) -> Options {
        Options::new()
            .create(true)
            .memtable_bytes(self.memtable_bytes)
            .segment_bytes(self.segment_bytes)
            .table_bytes(self.table_bytes)
            .system_cache(self.is_cached())
    }

    /// Whether blocks stand in the maps of their files.
    fn is_cached(&self) -> bool {
        self.seed % 2 == 1
    }

    /// In words.
    pub fn describe(&self) -> String {
        format!(
            "{} keys, memtable {} B, segments {} B, tables {} B, {}, {}",
            self.keys.len(),
            self.memtable_bytes,
            self.segment_bytes,
            self.table_bytes,
            if self.is_cached() { "mapped" } else { "read" },
            if self.is_real { "files, threads" } else { "simulated disk" }
        )
    }

    /// The bytes of a value.
    pub fn value(&self, value: u32) -> Vec<u8> {
        let mut rng = Rng::new(u64::from(value), 32);
        let most = if rng.chance(1, 30) { self.value_bytes * 8 } else { self.value_bytes };
        let len = rng.index(most + 1);
        rng.bytes(len)
    }
}

/// Different keys: short and long ones, neighbours, prefixes of each other, lowest and highest
/// bytes.
fn pool(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let mut keys = BTreeSet::from([Vec::new(), vec![0xff; 3]]);
    while keys.len() < count {
        let key = match rng.index(4) {
            0 => (0..rng.index(4)).map(|_| rng.pick(&[0, b'a', 0xff])).collect(),
            1 => format!("folder/{:04}", rng.below(2000)).into_bytes(),
            2 => [vec![b'k'; rng.index(300)], rng.bytes(2)].concat(),
            _ => {
                let len = rng.index(12);
                rng.bytes(len)
            }
        };
        keys.insert(key);
    }
    keys.into_iter().collect()
}

/// A change of a keyspace, by the numbers of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Puts a value under a key.
    Put(u8, u16, u32),
    /// Deletes a key.
    Delete(u8, u16),
    /// Deletes from the first key up to the second one; up to the last one if there is none.
    DeleteRange(u8, u16, Option<u16>),
}

impl Write {
    /// The number of its keyspace.
    pub fn space(self) -> usize {
        let (Self::Put(space, ..) | Self::Delete(space, _) | Self::DeleteRange(space, ..)) = self;
        usize::from(space)
    }

    /// The keys that it is about: from the first number to before the second.
    fn keys(self) -> (u16, u16) {
        match self {
            Self::Put(_, key, _) | Self::Delete(_, key) => (key, key + 1),
            Self::DeleteRange(_, from, to) => (from, to.unwrap_or(u16::MAX)),
        }
    }

    /// Whether another one is about some of its keys.
    pub fn meets(self, other: Self) -> bool {
        let ((from, to), (start, end)) = (self.keys(), other.keys());
        self.space() == other.space() && from.max(start) < to.min(end)
    }
}

/// An operation on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A commit of one change.
    Commit(Write, Durability),
    /// A commit of several changes, drawn from a seed.
    Batch(u64, Durability),
    /// A transaction of reads and changes, drawn from a seed; sometimes others change something
    /// before it commits, and it must notice if that is what it read or wrote.
    Transact(u64, Durability),
    /// Reads keys: now, or in a held snapshot.
    Get(Option<u8>, u64),
    /// Reads a part of a keyspace.
    Scan(Option<u8>, u64),
    /// Moves a cursor about.
    Walk(Option<u8>, u64),
    /// Takes a snapshot in place of a held one.
    Hold(u8),
    /// Drops a held snapshot.
    Release(u8),
    /// Writes what is in memory to tables.
    Flush,
    /// Merges and collects everything.
    Compact,
    /// Makes everything durable.
    Sync,
    /// Drops a keyspace and makes it anew.
    Drop(u8),
    /// Makes a checkpoint, and reads it as a store.
    Checkpoint,
    /// Verifies everything.
    Check,
    /// Closes the store and opens it again.
    Reopen,
}

/// A change that `rng` chooses.
pub fn random_write(rng: &mut Rng, keys: usize) -> Write {
    let space = rng.index(SPACES.len()) as u8;
    let key = rng.index(keys) as u16;
    match rng.index(40) {
        0..26 => Write::Put(space, key, rng.next_u64() as u32),
        26..39 => Write::Delete(space, key),
        _ => {
            let end = (key as usize + rng.index(keys / 3)).min(keys) as u16;
            Write::DeleteRange(space, key, ((end as usize) < keys).then_some(end))
        }
    }
}

/// The operations of a seed, without end.
pub struct Generator {
    rng: Rng,
    keys: usize,
    /// How much of the work is about the store as a whole.
    whole: u32,
    /// How often keyspaces and copies come and go.
    lives: u32,
}

impl Generator {
    /// Mostly reads and writes.
    pub fn new(config: &Config) -> Self {
        let rng = Rng::new(config.seed, 33);
        Self { rng, keys: config.keys.len(), whole: 4, lives: 1 }
    }

    /// Mostly writes, and often work on the whole store.
    pub fn brisk(config: &Config, rng: Rng) -> Self {
        Self { rng, keys: config.keys.len(), whole: 60, lives: 0 }
    }
}

impl Iterator for Generator {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let rng = &mut self.rng;
        let durability = rng.pick(&[Durability::None, Durability::Eventual, Durability::Durable]);
        let held = rng.chance(1, 3).then(|| rng.index(HELD) as u8);
        let seed = rng.next_u64();
        let slot = rng.index(HELD) as u8;
        let reads = if self.whole > 10 { 60 } else { 250 };
        Some(rng.weighted(&[
            (500, Op::Commit(random_write(&mut Rng::new(seed, 34), self.keys), durability)),
            (150, Op::Batch(seed, durability)),
            (60, Op::Transact(seed, durability)),
            (reads, Op::Get(held, seed)),
            (reads / 4, Op::Scan(held, seed)),
            (reads / 4, Op::Walk(held, seed)),
            (10, Op::Hold(slot)),
            (8, Op::Release(slot)),
            (self.whole, Op::Flush),
            (self.whole / 4 + 1, Op::Compact),
            (self.whole / 2, Op::Sync),
            (self.lives, Op::Drop(slot)),
            (self.lives, Op::Checkpoint),
            (self.whole / 4, Op::Check),
            (self.whole / 4 + 1, Op::Reopen),
        ]))
    }
}
