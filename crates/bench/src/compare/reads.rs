//! The measurements that change nothing: what each does, and what its answers must sum up to.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::tree::Bytes;

use super::entry::{self, Maker};
use super::model::Model;
use super::spec::{Operation, Step};
use crate::data::Generator;
use crate::engine::{Cursor, Engine, Reader, Result, Table};
use crate::workload::touch;

/// What a measurement took, and the sum of its answers.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Run {
    pub(crate) operations: u64,
    pub(crate) time: Duration,
    pub(crate) sum: u64,
}

impl Run {
    /// Nanoseconds for one operation of `parts` parts.
    pub(crate) fn nanos(self, parts: u64) -> f64 {
        self.time.as_nanos() as f64 / (self.operations * parts) as f64
    }

    /// Operations of `parts` parts a second.
    pub(crate) fn rate(self, parts: u64) -> f64 {
        (self.operations * parts) as f64 / self.time.as_secs_f64()
    }
}

/// The error for a wrong answer, which ends the benchmark.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a wrong answer: {}", self.0)
    }
}

impl std::error::Error for Wrong {}

/// Looks at an entry. The key's length says that the key was found out.
#[inline(always)]
fn touch_entry(key: Bytes<'_>, value: Bytes<'_>) -> u64 {
    key.len() as u64 + touch(value)
}

/// Does chunks of 1, 2, 4 and so on operations until all are done or the time is over. `chunk` does
/// a number of operations and returns the sum of their answers.
fn repeat(step: &Step, mut chunk: impl FnMut(u64) -> Result<u64>) -> Result<Run> {
    let mut run = Run::default();
    let mut size = 1;
    while run.operations < step.operations && run.time.as_secs_f64() < step.seconds {
        let count = size.min(step.operations - run.operations);
        let start = Instant::now();
        run.sum += chunk(count)?;
        run.time += start.elapsed();
        run.operations += count;
        size *= 2;
    }
    Ok(run)
}

/// Gets random keys that are there.
#[inline(always)]
fn gets<R: Reader>(
    txn: &R,
    model: &Model,
    maker: &mut Maker,
    random: &mut Generator,
    count: u64,
) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..count {
        let word = entry::word(model.draw(random));
        sum += txn.get(maker.key(word), touch)?.unwrap_or(0);
    }
    Ok(sum)
}

/// A measurement that has one read transaction of one thread.
pub(crate) fn run<R: Reader>(txn: &R, step: &Step, model: &Model) -> Result<Run> {
    let random = &mut model.random(0);
    match step.operation {
        Operation::Get => {
            let maker = &mut Maker::new(model.shape);
            repeat(step, |count| gets(txn, model, maker, random, count))
        }
        Operation::GetMany => get_many(txn, step, model),
        Operation::Miss => {
            let maker = &mut Maker::new(model.shape);
            repeat(step, |count| {
                let mut found = 0;
                for _ in 0..count {
                    let word = entry::word(model.next + random.below(1 << 30));
                    found += u64::from(txn.get(maker.key(word), |_| ())?.is_some());
                }
                Ok(found)
            })
        }
        // What these leave in memory is measured: no maker, which has the memory of a value.
        Operation::Scan => repeat(step, |count| (0..count).map(|_| scan(txn)).sum()),
        Operation::ScanPages => repeat(step, |count| {
            let mut sum = 0;
            for _ in 0..count {
                txn.scan(|key, value| sum += touch_entry(key, value))?;
            }
            Ok(sum)
        }),
        Operation::Range => range(txn, step, model),
        Operation::Values => values(txn, step, model),
        Operation::Len => repeat(step, |count| (0..count).map(|_| txn.len()).sum()),
        _ => order_statistics(txn, step, model),
    }
}

fn get_many<R: Reader>(txn: &R, step: &Step, model: &Model) -> Result<Run> {
    let batch = step.batch as usize;
    let maker = &mut Maker::new(model.shape);
    let mut keys = vec![maker.own_key(0); batch];
    let random = &mut model.random(0);
    repeat(step, |count| {
        let mut sum = 0;
        for _ in 0..count {
            for key in &mut keys {
                *key = maker.own_key(entry::word(model.draw(random)));
            }
            let slices: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            txn.get_many(&slices, |value| sum += value.map_or(0, touch))?;
        }
        Ok(sum)
    })
}

fn scan<R: Reader>(txn: &R) -> Result<u64> {
    let mut cursor = txn.cursor()?;
    let mut sum = 0;
    while let Some((key, value)) = cursor.next()? {
        sum += touch_entry(key, value);
    }
    Ok(sum)
}

fn range<R: Reader>(txn: &R, step: &Step, model: &Model) -> Result<Run> {
    let maker = &mut Maker::new(model.shape);
    let random = &mut model.random(0);
    let mut cursor = txn.cursor()?;
    repeat(step, |count| {
        let mut sum = 0;
        for _ in 0..count {
            let word = entry::word(model.draw(random));
            let mut at = cursor.seek(maker.key(word))?;
            for left in (0..step.batch).rev() {
                let Some((key, value)) = at else { break };
                sum += touch_entry(key, value);
                at = if left > 0 { cursor.next()? } else { None };
            }
        }
        Ok(sum)
    })
}

fn values<R: Reader>(txn: &R, step: &Step, model: &Model) -> Result<Run> {
    let maker = &mut Maker::new(model.shape);
    let random = &mut model.random(0);
    let mut cursor = txn.cursor()?;
    repeat(step, |count| {
        let mut sum = 0;
        for _ in 0..count {
            let word = entry::word(model.draw(random));
            sum += cursor.each_value(maker.key(word), |value| sum += touch(value))?;
        }
        Ok(sum)
    })
}

/// The bounds of ranges of `step.batch` keys, drawn before the clock runs.
fn ranges(step: &Step, model: &Model) -> Vec<(u64, u64)> {
    let random = &mut model.random(0);
    let from = |random: &mut Generator| random.below(model.keys() - step.batch) as usize;
    (0..1024)
        .map(|_| from(random))
        .map(|low| (model.sorted[low], model.sorted[low + step.batch as usize]))
        .collect()
}

fn order_statistics<R: Reader>(txn: &R, step: &Step, model: &Model) -> Result<Run> {
    let (maker, high_maker) = (&mut Maker::new(model.shape), &mut Maker::new(model.shape));
    let random = &mut model.random(0);
    match step.operation {
        Operation::Count | Operation::CountKeys => {
            let ranges = ranges(step, model);
            let mut ranges = ranges.iter().cycle();
            repeat(step, |count| {
                let mut sum = 0;
                for (low, high) in ranges.by_ref().take(count as usize) {
                    let (low, high) = (maker.key(*low), high_maker.key(*high));
                    sum += match step.operation {
                        Operation::Count => txn.count_range(low, high)?,
                        _ => txn.count_keys(low, high)?,
                    };
                }
                Ok(sum)
            })
        }
        Operation::Nth => repeat(step, |count| {
            let mut sum = 0;
            for _ in 0..count {
                sum += txn.nth(random.below(model.entries()), touch_entry)?.unwrap_or(0);
            }
            Ok(sum)
        }),
        Operation::Rank => repeat(step, |count| {
            let mut sum = 0;
            for _ in 0..count {
                sum += txn.rank(maker.key(entry::word(model.draw(random))))?;
            }
            Ok(sum)
        }),
        Operation::Page | Operation::Iterated => {
            let from = maker.key(model.sorted[0]);
            let skip = model.entries() / 2;
            repeat(step, |count| {
                let mut sum = 0;
                for _ in 0..count {
                    match step.operation {
                        Operation::Page => txn.page(from, skip, step.batch, |key, value| {
                            sum += touch_entry(key, value);
                        })?,
                        _ => sum += txn.iterated(from)?,
                    }
                }
                Ok(sum)
            })
        }
        Operation::Sample => repeat(step, |count| {
            let mut sum = 0;
            for _ in 0..count {
                txn.sample(step.batch, |key, value| sum += touch_entry(key, value))?;
            }
            Ok(sum)
        }),
        other => Err(format!("{other:?} is no measurement of a read transaction").into()),
    }
}

/// Gets by several threads, each in a transaction of its own; `step.operations` are those of each.
pub(crate) fn threads<E: Engine>(
    store: &E,
    table: Table,
    step: &Step,
    model: &Model,
    threads: u64,
) -> Result<Run> {
    let barrier = Barrier::new(threads as usize);
    let one = |thread| {
        store.read(table, |txn| {
            let (maker, random) = (&mut Maker::new(model.shape), &mut model.random(thread));
            barrier.wait();
            let start = Instant::now();
            let sum = gets(txn, model, maker, random, step.operations)?;
            Ok((start, Instant::now(), sum))
        })
    };
    let done: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|i| scope.spawn(move || one(i))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().map_err(|_| "a thread panicked")?)
            .collect::<Result<_>>()
    })?;
    let start = done.iter().map(|(start, ..)| *start).min();
    let end = done.iter().map(|(_, end, _)| *end).max();
    let time = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let sum = done.iter().map(|(.., sum)| sum).sum();
    Ok(Run { operations: threads * step.operations, time, sum })
}

/// What looking at a string of a maker sums up to.
fn touched(bytes: &[u8]) -> u64 {
    touch(bytes.into())
}

/// The sum of looking at all values of a key.
fn all_values(model: &Model, maker: &mut Maker, word: u64) -> u64 {
    model.values_of(word).into_iter().map(|value| touched(maker.value(value))).sum()
}

/// What the answers of `operations` operations must sum up to.
pub(crate) fn expected(step: &Step, model: &Model, thread: u64, operations: u64) -> u64 {
    let maker = &mut Maker::new(model.shape);
    let key = model.shape.key as u64;
    let random = &mut model.random(thread);
    let mut value = |word| touched(maker.value(word));
    let sum = |operation: &mut dyn FnMut() -> u64| (0..operations).map(|_| operation()).sum();
    let nth = |n, value: &mut dyn FnMut(u64) -> u64| key + value(model.nth(n).1);
    match step.operation {
        Operation::Get | Operation::ReadThreads | Operation::Speedup => {
            sum(&mut || value(model.value_of(model.draw(random))))
        }
        Operation::GetMany => {
            (0..operations * step.batch).map(|_| value(model.value_of(model.draw(random)))).sum()
        }
        Operation::Scan | Operation::ScanPages => {
            let each = model.entries() / model.keys().max(1);
            let one = |word: &u64| key * each + all_values(model, maker, *word);
            operations * model.sorted.iter().map(one).sum::<u64>()
        }
        Operation::Range => sum(&mut || {
            let from = model.rank(model.draw(random));
            let end = (from + step.batch).min(model.entries());
            (from..end).map(|n| nth(n, &mut value)).sum()
        }),
        Operation::Values => sum(&mut || {
            let word = entry::word(model.draw(random));
            model.duplicates + all_values(model, maker, word)
        }),
        Operation::Len => operations * model.entries(),
        Operation::Count => operations * step.batch * model.duplicates.max(1),
        Operation::CountKeys => operations * step.batch,
        Operation::Nth => sum(&mut || nth(random.below(model.entries()), &mut value)),
        Operation::Rank => sum(&mut || model.rank(model.draw(random)) * model.duplicates.max(1)),
        Operation::Page => {
            let from = model.entries() / 2;
            let end = (from + step.batch).min(model.entries());
            operations * (from..end).map(|n| nth(n, &mut value)).sum::<u64>()
        }
        Operation::Iterated => operations * model.entries(),
        Operation::Sample => {
            let all = model.entries();
            let each = |i| nth(i * all / step.batch, &mut value);
            operations * (0..step.batch.min(all)).map(each).sum::<u64>()
        }
        _ => 0,
    }
}

/// Compares a store with the model: every entry, in order.
pub(crate) fn verify<R: Reader>(txn: &R, model: &Model) -> Result<()> {
    let maker = &mut Maker::new(model.shape);
    let mut pairs = model
        .sorted
        .iter()
        .flat_map(|word| model.values_of(*word).into_iter().map(|value| (*word, value)));
    let (mut at, mut wrong) = (0, None);
    txn.scan(|key, value| {
        let right = pairs.next().is_some_and(|(word, value_word)| {
            let (wanted_key, wanted_value) = maker.entry(word, value_word);
            key == *wanted_key && value == *wanted_value
        });
        if !right && wrong.is_none() {
            wrong = Some(at);
        }
        at += 1;
    })?;
    match wrong {
        Some(at) => Err(Wrong(format!("entry {at} of a full scan")).into()),
        None if at != model.entries() => {
            Err(Wrong(format!("{at} entries, not {}", model.entries())).into())
        }
        None => Ok(()),
    }
}
