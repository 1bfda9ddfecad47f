//! Single operations: keys of 16 digits, values of 100 random bytes, as LevelDB's own benchmark has
//! them. Every answer is checked by how many there are.

use std::path::Path;
use std::time::Instant;

use super::coins::Random;
use super::utxo::TABLE;
use crate::engine::{Cursor, Engine, Promise, Reader, Result, Writer};

/// The cache that LevelDB has where a program gives none.
const CACHE_BYTES: usize = 8 << 20;
/// Operations of a batch.
const BATCH: u64 = 1000;
/// Durable commits of one operation, and of a hundred.
const DURABLE: [(u64, u64); 2] = [(300, 1), (100, 100)];
/// Threads that put at the same time.
const THREADS: u64 = 8;
/// Bytes of values, of which each takes a part.
const POOL_BYTES: usize = 1 << 20;

/// Microseconds an operation, by its name; for durable commits, a commit. In their order.
pub(super) type Rows = Vec<(String, f64)>;

struct Bench<'e, E> {
    engine: &'e E,
    count: u64,
    random: Random,
    pool: Vec<u8>,
    rows: Rows,
    /// The longest single commit of the random puts.
    longest_ms: f64,
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut left = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

impl<E: Engine> Bench<'_, E> {
    fn value(&mut self) -> [u8; 100] {
        let at = self.random.below((POOL_BYTES - 100) as u64) as usize;
        self.pool[at..at + 100].try_into().unwrap_or([0; 100])
    }

    /// Times some work over a number of operations.
    fn row(
        &mut self,
        name: &str,
        operations: u64,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let begin = Instant::now();
        work(self)?;
        let us = begin.elapsed().as_secs_f64() * 1e6 / operations.max(1) as f64;
        self.rows.push((name.to_owned(), us));
        Ok(())
    }

    /// Puts in batches, at random places or in order.
    fn fill(&mut self, batch: u64, in_order: bool, promise: Promise, commits: u64) -> Result<()> {
        let mut number = 0;
        for _ in 0..commits {
            let begin = Instant::now();
            let puts: Vec<_> = (0..batch)
                .map(|_| {
                    number += 1;
                    let at = if in_order { number } else { self.random.below(self.count) };
                    (key(at), self.value())
                })
                .collect();
            self.engine.write(TABLE, promise, |writer| {
                puts.iter().try_for_each(|(key, value)| writer.put(key, value))
            })?;
            if batch == 1 && !in_order && promise == Promise::Unsynced {
                self.longest_ms = self.longest_ms.max(begin.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(())
    }

    /// Puts one value one by one at random places, from several threads.
    fn fill_beside(&mut self, puts: u64, value: [u8; 100]) -> Result<()> {
        let (engine, count) = (self.engine, self.count);
        let fill = move |thread| {
            let mut random = Random(thread);
            for _ in 0..puts / THREADS {
                let key = key(random.below(count));
                let put = engine.write(TABLE, Promise::Unsynced, |to| to.put(&key, &value));
                put.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (1..=THREADS).map(|thread| scope.spawn(move || fill(thread))).collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread that puts panicked")??;
            }
            Ok(())
        })
    }

    /// Whether all that several threads have put is there.
    fn check_beside(&self, puts: u64, value: [u8; 100]) -> Result<()> {
        for mut random in (1..=THREADS).map(Random) {
            for _ in 0..puts / THREADS {
                let key = key(random.below(self.count));
                let read =
                    self.engine.read(TABLE, |txn| txn.get(&key, |there| there == value[..]))?;
                if read != Some(true) {
                    return Err("what a thread has put is not there".into());
                }
            }
        }
        Ok(())
    }

    fn gets(&mut self, gets: u64, suffix: &[u8], is_there: bool) -> Result<()> {
        let mut found = 0;
        for _ in 0..gets {
            let key = [&key(self.random.below(self.count))[..], suffix].concat();
            let there = self.engine.read(TABLE, |txn| txn.get(&key, |value| value.len()))?;
            found += u64::from(there == Some(100));
        }
        // Of random puts about two thirds of the numbers have got one.
        let is_right = if is_there { found > gets / 2 } else { found == 0 };
        if is_right { Ok(()) } else { Err(format!("{found} of {gets} were found").into()) }
    }

    fn scans(&mut self) -> Result<()> {
        let entries = self.engine.read(TABLE, |txn| txn.len())?;
        self.row("sequential read", entries, |bench| {
            let (mut rows, mut bytes) = (0, 0);
            bench.engine.read(TABLE, |txn| {
                txn.scan(|key, value| {
                    rows += 1;
                    bytes += key.len() + value.len();
                })
            })?;
            let is_right = rows == entries && bytes as u64 == entries * 116;
            if is_right { Ok(()) } else { Err("a scan has other entries".into()) }
        })?;
        self.row("reverse read", entries, |bench| {
            let mut rows = 0;
            bench.engine.read(TABLE, |txn| txn.scan_back(|_, _| rows += 1))?;
            if rows == entries { Ok(()) } else { Err("backwards it has other entries".into()) }
        })?;
        let seeks = self.count / 4;
        self.row("seek", seeks, |bench| {
            for _ in 0..seeks {
                let key = key(bench.random.below(bench.count));
                bench.engine.read(TABLE, |txn| {
                    txn.cursor()?.seek(&key)?;
                    Ok(())
                })?;
            }
            Ok(())
        })
    }
}

/// Runs everything in an empty folder.
pub(super) fn run<E: Engine>(folder: &Path, count: u64) -> Result<(Rows, f64)> {
    let mut random = Random(301);
    let pool = (0..POOL_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let mut rows = Rows::new();
    let mut longest = 0_f64;
    // Each way to fill has a database of its own; what is read is in the last one.
    let fills = [
        ("sequential put", 1, true),
        ("sequential, batches of 1000", BATCH, true),
        ("random, batches of 1000", BATCH, false),
        ("random put", 1, false),
    ];
    let mut pool: Vec<u8> = pool;
    for (index, (name, batch, in_order)) in fills.into_iter().enumerate() {
        let folder = folder.join(index.to_string());
        std::fs::create_dir(&folder)?;
        let engine = E::open(&folder, Some(CACHE_BYTES))?;
        let taken = std::mem::take(&mut pool);
        let mut bench = Bench {
            engine: &engine,
            count,
            random: Random(42),
            pool: taken,
            rows: Rows::new(),
            longest_ms: 0.0,
        };
        bench.row(name, count, |bench| {
            bench.fill(batch, in_order, Promise::Unsynced, count / batch)
        })?;
        if index + 1 == fills.len() {
            bench
                .row("overwrite", count, |bench| bench.fill(1, false, Promise::Unsynced, count))?;
            longest = bench.longest_ms;
            bench.row("random read", count, |bench| bench.gets(count, b"", true))?;
            bench.row("missing read", count, |bench| bench.gets(count, b".", false))?;
            bench.scans()?;
            for (commits, puts) in DURABLE {
                let name = format!("durable commit of {puts}");
                bench.row(&name, commits, |bench| {
                    bench.fill(puts, false, Promise::Durable, commits)
                })?;
            }
            let puts = count / 4 / THREADS * THREADS;
            let value = bench.value();
            bench.row("random put, 8 threads", puts, |bench| bench.fill_beside(puts, value))?;
            bench.check_beside(puts, value)?;
        }
        rows.append(&mut bench.rows);
        pool = bench.pool;
        drop(engine);
        std::fs::remove_dir_all(&folder)?;
    }
    Ok((rows, longest))
}
