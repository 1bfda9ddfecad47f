//! The workload of Bitcoin Core's chain state: a cache of coins that is flushed in large batches,
//! gets of what is not in it. Every get is checked; the counts at the end must be those that were
//! made.

use std::path::Path;
use std::time::{Duration, Instant};

use super::coins::{FIXED_OFFSET, Id, Map, Random, key, value};
use super::resources::Usage;
use crate::engine::{Engine, Promise, Reader, Result, Table, Writer};

/// The table of the entries.
pub(super) const TABLE: Table = Table { name: "coins", duplicates: false };
/// A batch is written at this many bytes, as Core counts them.
const BATCH_BYTES: usize = 32 << 20;
/// The cache that Core gives to LevelDB's blocks.
pub(super) const CACHE_BYTES: usize = 4 << 20;
/// Gets at the end.
const GETS: u64 = 300_000;

/// How large the workload is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Size {
    Smoke,
    Standard,
    Big,
}

struct Numbers {
    blocks: u64,
    transactions: u64,
    cache: usize,
    seed: usize,
}

impl Size {
    fn numbers(self) -> Numbers {
        let (blocks, transactions, cache, seed) = match self {
            Self::Smoke => (200, 50, 20_000, 100_000),
            Self::Standard => (300, 2_000, 300_000, 1_500_000),
            Self::Big => (2_000, 3_000, 2_000_000, 20_000_000),
        };
        Numbers { blocks, transactions, cache, seed }
    }
}

/// What was measured.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Measured {
    pub(super) load: Usage,
    pub(super) blocks: Usage,
    /// The flushes of the blocks, and the gets of coins that are not in the cache.
    pub(super) flush_seconds: f64,
    pub(super) get_us: f64,
    pub(super) gets: u64,
    pub(super) scan_us: f64,
    pub(super) random_get_us: f64,
    pub(super) missing_get_us: f64,
    pub(super) live: u64,
    pub(super) file_bytes: u64,
}

/// A coin in the cache.
struct Cached {
    value: Vec<u8>,
    fresh: bool,
    spent: bool,
}

struct Chain<'e, E> {
    engine: &'e E,
    random: Random,
    cache: Map<Cached>,
    live: Vec<Id>,
    dead: usize,
    transaction: u64,
    height: u64,
    best: [u8; 32],
    gets: (u64, Duration),
    flushes: Duration,
}

fn wrong(what: &str) -> crate::engine::Error {
    format!("a wrong answer: {what}").into()
}

impl<E: Engine> Chain<'_, E> {
    fn outputs(&mut self) -> u64 {
        let most = if self.random.below(20) == 0 { 30 } else { 3 };
        1 + self.random.below(most)
    }

    fn add_outputs(&mut self, outputs: u64) {
        for output in 0..outputs {
            let id = self.transaction << 8 | output;
            self.live.push(id);
            let value = value(id, self.height);
            self.cache.insert(id, Cached { value, fresh: true, spent: false });
        }
        self.transaction += 1;
    }

    fn flush(&mut self, best: [u8; 32]) -> Result<()> {
        let begin = Instant::now();
        let engine = self.engine;
        let heads = [best, self.best].concat();
        let mut entries = self.cache.iter().peekable();
        let mut is_first = true;
        loop {
            engine.write(TABLE, Promise::Unsynced, |batch| {
                if std::mem::take(&mut is_first) {
                    batch.delete(b"B")?;
                    batch.put(b"H", &heads)?;
                }
                let mut bytes = 12;
                while bytes <= BATCH_BYTES
                    && let Some((&id, coin)) = entries.next()
                {
                    match coin.spent {
                        true => batch.delete(&key(id))?,
                        false => batch.put(&key(id), &coin.value)?,
                    }
                    bytes += 38 + if coin.spent { 0 } else { coin.value.len() };
                }
                if entries.peek().is_none() {
                    batch.delete(b"H")?;
                    batch.put(b"B", &best)?;
                }
                Ok(())
            })?;
            if entries.peek().is_none() {
                break;
            }
        }
        self.cache.clear();
        self.best = best;
        self.flushes += begin.elapsed();
        Ok(())
    }

    fn spend(&mut self) -> Result<()> {
        let len = self.live.len() as u64;
        let kind = self.random.unit();
        let age = match kind {
            _ if kind < 0.45 => self.random.below(len.min(20_000)),
            _ if kind < 0.80 => {
                let age = (self.random.unit() * (len as f64).ln()).exp() as u64;
                age.min(len - 1)
            }
            _ => self.random.below(len),
        };
        let from = (len - 1 - age) as usize;
        let Some(position) = (0..=from).rev().find(|&at| self.live[at] != 0) else {
            return Ok(());
        };
        let id = std::mem::take(&mut self.live[position]);
        self.dead += 1;
        match self.cache.get_mut(&id) {
            Some(coin) if coin.fresh => drop(self.cache.remove(&id)),
            Some(coin) => coin.spent = true,
            None => {
                self.get(id)?;
                let spent = Cached { value: Vec::new(), fresh: false, spent: true };
                self.cache.insert(id, spent);
            }
        }
        Ok(())
    }

    fn get(&mut self, id: Id) -> Result<()> {
        let (key, expected) = (key(id), value(id, self.height));
        let begin = Instant::now();
        let is_right = self.engine.read(TABLE, |txn| {
            txn.get(&key, |value| {
                let value = value.to_cow();
                value.len() == expected.len() && value[FIXED_OFFSET..] == expected[FIXED_OFFSET..]
            })
        })?;
        self.gets.0 += 1;
        self.gets.1 += begin.elapsed();
        if is_right == Some(true) { Ok(()) } else { Err(wrong("a coin")) }
    }

    fn load(&mut self, numbers: &Numbers) -> Result<()> {
        while self.live.len() < numbers.seed {
            let outputs = self.outputs();
            self.add_outputs(outputs);
            if self.cache.len() >= numbers.cache {
                self.flush([2; 32])?;
            }
        }
        self.flush([2; 32])
    }

    fn block(&mut self, numbers: &Numbers) -> Result<()> {
        self.height += 1;
        if 4 * self.dead > self.live.len() {
            self.live.retain(|&id| id != 0);
            self.dead = 0;
        }
        for _ in 0..numbers.transactions {
            let most = if self.random.below(12) == 0 { 12 } else { 2 };
            let inputs = 1 + self.random.below(most);
            let outputs = self.outputs();
            for _ in 0..inputs {
                if self.live.len() > 1000 {
                    self.spend()?;
                }
            }
            self.add_outputs(outputs);
        }
        Ok(())
    }

    fn blocks(&mut self, numbers: &Numbers) -> Result<()> {
        for block in 1..=numbers.blocks {
            self.block(numbers)?;
            if self.cache.len() >= numbers.cache {
                let best = format!("{block:032}");
                self.flush(best.as_bytes().try_into()?)?;
            }
        }
        self.flush([3; 32])
    }

    fn end(&mut self, measured: &mut Measured) -> Result<()> {
        measured.live = self.live.iter().filter(|&&id| id != 0).count() as u64;
        let begin = Instant::now();
        let mut rows = 0_u64;
        self.engine.read(TABLE, |txn| txn.scan(|_, _| rows += 1))?;
        if rows != measured.live + 1 {
            return Err(wrong("the number of entries"));
        }
        measured.scan_us = begin.elapsed().as_secs_f64() * 1e6 / rows as f64;
        self.live.retain(|&id| id != 0);
        let len = self.live.len() as u64;
        let there: Vec<_> =
            (0..GETS).map(|_| key(self.live[self.random.below(len) as usize])).collect();
        let next = self.transaction + 1;
        let missing: Vec<_> = (0..GETS).map(|n| key((next + n) << 8)).collect();
        for (keys, is_there, us) in [
            (there, true, &mut measured.random_get_us),
            (missing, false, &mut measured.missing_get_us),
        ] {
            let begin = Instant::now();
            for key in &keys {
                let found = self.engine.read(TABLE, |txn| txn.get(key, |_| ()))?;
                if found.is_some() != is_there {
                    return Err(wrong("whether a coin is there"));
                }
            }
            *us = begin.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
        }
        Ok(())
    }
}

/// Runs the workload in an empty folder.
pub(super) fn run<E: Engine>(folder: &Path, size: Size) -> Result<Measured> {
    let numbers = size.numbers();
    let engine = E::open(folder, Some(CACHE_BYTES))?;
    let mut chain = Chain {
        engine: &engine,
        random: Random(42),
        cache: Map::default(),
        live: Vec::new(),
        dead: 0,
        transaction: 1,
        height: 700_000,
        best: [1; 32],
        gets: (0, Duration::ZERO),
        flushes: Duration::ZERO,
    };
    let load = Usage::of(|| chain.load(&numbers))?;
    let mut measured = Measured { load, ..Measured::default() };
    chain.flushes = Duration::ZERO;
    measured.blocks = Usage::of(|| chain.blocks(&numbers))?;
    measured.flush_seconds = chain.flushes.as_secs_f64();
    measured.gets = chain.gets.0;
    measured.get_us = chain.gets.1.as_secs_f64() * 1e6 / chain.gets.0.max(1) as f64;
    chain.end(&mut measured)?;
    drop(engine);
    measured.file_bytes = super::resources::bytes_of(folder)?;
    Ok(measured)
}
