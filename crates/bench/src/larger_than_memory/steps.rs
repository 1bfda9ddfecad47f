//! What a process in the control group does with one store, step by step. It prints a line for each
//! step: the time, the device's work and the space that it took. Reads are done several times;
//! before each read that is compared with the device the process says so and waits for a line, so
//! that the device can be measured at the same time. All answers are checked.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::items::{ITEM, State, VALUE, Values, nth_deleted, nth_overwritten};
use super::queues::cpu_seconds;
use crate::compare::beyond::forget;
use crate::data::{Generator, random_key};
use crate::engine::Result;
use crate::engines::beyond::{Kind, Store};
use crate::group;

/// Puts, overwrites and deletions are made by this many threads.
const WRITERS: u64 = 2;
/// Engines that cannot read several keys at once from one thread read with this many threads.
const READERS: u64 = 64;
/// Keys of one call that reads several.
const GETS: usize = 1024;
/// Latencies are taken for this many times the time of other measurements: background work comes
/// round about once a second.
const STEADY_TIMES: u32 = 4;
/// Each step that reads is done this often, but no further scan is begun after this many times the
/// time of other measurements.
const TURNS: usize = 3;
const SCANS: f64 = 2.0;
/// How often the space is looked at.
const WATCH: Duration = Duration::from_millis(100);

/// The arguments of the process.
#[derive(clap::Args)]
pub(crate) struct Options {
    engine: Kind,
    folder: PathBuf,
    items: u64,
    memory: u64,
    seconds: f64,
    steps: String,
    #[arg(long)]
    group: Option<PathBuf>,
    /// What was done to the store before
    #[arg(long, default_value_t = 0)]
    state: u8,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// All items are put by two threads.
    Load,
    /// Everything is merged and collected.
    Compact,
    /// Random items, from one thread, the best way.
    MultiGet,
    /// The same from two threads.
    MultiGet2,
    /// Random items one after the other.
    Get,
    /// All items in order.
    Scan,
    /// Every second item once more.
    Overwrite,
    /// Half of the items.
    Delete,
    /// All items in order, after another compaction: a place of its own in the report.
    CompactAgain,
    ScanAgain,
    /// Durable puts from one thread, and from 64.
    Durable,
    Durable64,
    /// Overwrites at 70 % of the rate that the store keeps up, compaction running.
    Latency,
    /// Puts with an end by force; it prints what is durable.
    UntilKilled,
    /// Looks for the items that are durable, which stand in the store's folder.
    Recovered,
}

/// What a step took.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) operations: u64,
    pub(super) seconds: f64,
    /// Of processors, the kernel's work included.
    pub(super) cpu_seconds: f64,
    /// Bytes given to the device.
    pub(super) written: u64,
    /// Bytes that the store takes at the end.
    pub(super) space: u64,
    /// The most space that it took during the step for each byte that was live at the time.
    pub(super) space_ratio: f64,
    /// Of a latency.
    pub(super) slowness: Slowness,
}

/// How slow single operations are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Slowness {
    /// The 99.9th percentile in seconds,
    pub(super) percentile: f64,
    /// at 70 % of this many a second.
    pub(super) kept_up: f64,
}

impl Taken {
    pub(super) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

impl Step {
    /// The device's work that this is compared with: how many reads at a time, by how many threads.
    pub(super) fn beside(self) -> Option<(usize, usize)> {
        match self {
            Self::Get => Some((1, 1)),
            Self::MultiGet => Some((64, 1)),
            Self::MultiGet2 => Some((64, 2)),
            _ => None,
        }
    }

    /// Whether it changes nothing, and begins with the system's cache empty.
    fn only_reads(self) -> bool {
        self.beside().is_some() || matches!(self, Self::Scan | Self::ScanAgain)
    }
}

/// Reads a list of steps.
fn parse(steps: &str) -> Result<Vec<Step>> {
    Ok(steps
        .split(',')
        .map(|step| serde_json::from_value(step.into()))
        .collect::<Result<_, _>>()?)
}

/// Random gets.
#[derive(Clone, Copy)]
struct Gets {
    /// Each thread adds its number to that.
    seed: u64,
    time: Duration,
}

/// A store that is worked on.
struct Run<'o> {
    options: &'o Options,
    store: Box<dyn Store>,
    values: Values,
    state: State,
    /// Bytes of the items that are there, as of now.
    live: AtomicU64,
}

/// Joins the group and does the steps.
pub(crate) fn main(options: &Options) -> Result<()> {
    if let Some(path) = &options.group {
        group::join(path)?;
    }
    let steps = parse(&options.steps)?;
    let start = Instant::now();
    let store = options.engine.open(&options.folder, options.memory)?;
    let opened = start.elapsed().as_secs_f64();
    let state = State {
        items: if options.state > 0 { options.items } else { 0 },
        overwritten: options.state > 1,
        deleted: options.state > 2,
    };
    let live = AtomicU64::new(state.count() * ITEM);
    let values = Values::new();
    let mut run = Run { options, store, values, state, live };
    for step in steps {
        let begun = Instant::now();
        for turn in 0..if step.only_reads() { TURNS } else { 1 } {
            if step.beside().is_none() && begun.elapsed().as_secs_f64() > SCANS * options.seconds {
                break;
            }
            if step.beside().is_some() {
                say(step, None)?;
                std::io::stdin().read_line(&mut String::new())?;
            }
            let mut taken = run.watched(step, turn)?;
            if step == Step::Recovered {
                taken.seconds = opened;
            }
            say(step, Some(taken))?;
        }
    }
    Ok(())
}

/// Says what a step took; `None`: it is about to begin, once a line comes.
fn say(step: Step, taken: Option<Taken>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&(step, taken))?)?;
    Ok(out.flush()?)
}

impl Run<'_> {
    /// Does a step while another thread looks at the space.
    fn watched(&mut self, step: Step, turn: usize) -> Result<Taken> {
        // Scans begin anew, gets go on with what the ones before left in the caches.
        if step.only_reads() && (turn == 0 || step.beside().is_none()) {
            forget(&self.options.folder)?;
        }
        let folder = self.options.folder.clone();
        let (cpu, written, start) = (cpu_seconds()?, written()?, Instant::now());
        let done = AtomicBool::new(false);
        let mut next = self.state;
        let (operations, slowness, seconds, ratio) = thread::scope(|scope| {
            let watch = scope.spawn(|| watch(&folder, &self.live, &done));
            let result = self.run(step, turn, &mut next);
            let seconds = start.elapsed().as_secs_f64();
            done.store(true, Ordering::SeqCst);
            let ratio = watch.join().map_err(|_| "the watching thread panicked")??;
            let (operations, slowness) = result?;
            Ok::<_, crate::engine::Error>((operations, slowness, seconds, ratio))
        })?;
        self.state = next;
        Ok(Taken {
            operations,
            seconds,
            cpu_seconds: cpu_seconds()? - cpu,
            written: self::written()? - written,
            space: space(&self.options.folder)?,
            space_ratio: ratio,
            slowness,
        })
    }

    /// How many operations it was, and how slow they were, if that is measured.
    fn run(&self, step: Step, turn: usize, next: &mut State) -> Result<(u64, Slowness)> {
        let seconds = Duration::from_secs_f64(self.options.seconds);
        // Other items in each turn.
        let gets = Gets { seed: turn as u64 * READERS, time: seconds / 2 };
        let operations = match step {
            Step::Load => {
                next.items = self.options.items;
                self.put_all(0, |number| number)?
            }
            Step::Overwrite => {
                next.overwritten = true;
                self.put_all(1, nth_overwritten)?
            }
            Step::Delete => {
                next.deleted = true;
                self.delete_half()?
            }
            Step::Compact | Step::CompactAgain => self.store.compact().map(|()| 1)?,
            Step::MultiGet => self.get_many(1, gets)?,
            Step::MultiGet2 => self.get_many(2, gets)?,
            Step::Get => self.get_by(1, gets, 1)?,
            Step::Scan | Step::ScanAgain => self.scan()?,
            Step::Durable => self.put_durably(1, seconds)?,
            Step::Durable64 => self.put_durably(64, seconds)?,
            Step::Latency => return self.latency(seconds),
            Step::UntilKilled => self.until_killed()?,
            Step::Recovered => self.recovered()?,
        };
        Ok((operations, Slowness::default()))
    }

    /// Lets several threads do work and adds up how much each did.
    fn by(&self, threads: u64, work: impl Fn(u64) -> Result<u64> + Sync) -> Result<u64> {
        let work = &work;
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads).map(|number| scope.spawn(move || work(number))).collect();
            let counts = threads.into_iter().map(|thread| match thread.join() {
                Ok(count) => count,
                Err(_) => Err("a thread panicked".into()),
            });
            counts.sum()
        })
    }

    /// Puts items by several threads; `nth` says which they are, as long as there are some.
    fn put_all(&self, version: u64, nth: impl Fn(u64) -> u64 + Sync) -> Result<u64> {
        self.by(WRITERS, |writer| {
            let (mut value, mut count) = ([0; VALUE], 0);
            for index in self.share(writer, &nth) {
                self.values.fill(index, version, &mut value);
                self.store.put(&random_key(index), &value, false)?;
                if version == 0 {
                    self.live.fetch_add(ITEM, Ordering::Relaxed);
                }
                count += 1;
            }
            Ok(count)
        })
    }

    /// A thread's share of some items.
    fn share(&self, writer: u64, nth: impl Fn(u64) -> u64) -> impl Iterator<Item = u64> {
        let items = self.options.items;
        let all = (writer..).step_by(WRITERS as usize).map(nth);
        all.take_while(move |&index| index < items)
    }

    fn delete_half(&self) -> Result<u64> {
        self.by(WRITERS, |writer| {
            let mut count = 0;
            for index in self.share(writer, nth_deleted) {
                self.store.delete(&random_key(index))?;
                self.live.fetch_sub(ITEM, Ordering::Relaxed);
                count += 1;
            }
            Ok(count)
        })
    }

    /// Random items for a while: by `threads` threads the best way, or by many threads.
    fn get_many(&self, threads: u64, gets: Gets) -> Result<u64> {
        let has_batches = self.store.get_many(&[], &mut |_, _| {}).is_some();
        if !has_batches {
            return self.get_by(READERS, gets, 1);
        }
        self.get_by(threads, gets, GETS)
    }

    fn get_by(&self, threads: u64, gets: Gets, batch: usize) -> Result<u64> {
        self.by(threads, |thread| {
            let mut random = Generator::new(gets.seed + thread + 1);
            let start = Instant::now();
            let mut count = 0;
            let (mut indexes, mut keys) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
            while start.elapsed() < gets.time {
                indexes.clear();
                keys.clear();
                for _ in 0..batch {
                    indexes.push(random.below(self.state.items));
                }
                keys.extend(indexes.iter().map(|&index| random_key(index)));
                self.get_batch(&indexes, &keys)?;
                count += batch as u64;
            }
            Ok(count)
        })
    }

    fn get_batch(&self, indexes: &[u64], keys: &[crate::engines::beyond::Key]) -> Result<()> {
        let mut answer = Ok(());
        let mut see = |number: usize, value: Option<&[u8]>| {
            let checked = self.values.check(self.state, indexes[number], value);
            answer = std::mem::replace(&mut answer, Ok(())).and(checked);
        };
        match keys {
            [key] => self.store.get(key, &mut |value| see(0, value))?,
            keys => self.store.get_many(keys, &mut see).unwrap_or(Ok(()))?,
        }
        answer
    }

    fn scan(&self) -> Result<u64> {
        let (mut count, mut last, mut answer) = (0, Vec::new(), Ok(()));
        self.store.scan(&mut |key, value| {
            let in_order =
                if last.as_slice() < key || count == 0 { Ok(()) } else { Err(disorder()) };
            let checked = in_order.and_then(|()| self.values.check_entry(self.state, key, value));
            answer = std::mem::replace(&mut answer, Ok(())).and(checked);
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        })?;
        answer?;
        match count == self.state.count() {
            true => Ok(count),
            false => Err(format!("a wrong answer: a scan finds {count} items").into()),
        }
    }

    /// New items, each durable when its put returns.
    fn put_durably(&self, threads: u64, time: Duration) -> Result<u64> {
        let start = Instant::now();
        self.by(threads, |writer| {
            let (mut value, mut count) = ([0; VALUE], 0);
            while start.elapsed() < time {
                let index = self.options.items + count * threads + writer;
                self.values.fill(index, 0, &mut value);
                self.store.put(&random_key(index), &value, true)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Overwrites random items, by all writers, as long as `goes_on` returns true for the count and
    /// the time of a writer; returns the rate a second.
    fn overwrite_while(
        &self,
        seed: u64,
        goes_on: impl Fn(u64, Duration) -> bool + Sync,
    ) -> Result<f64> {
        let begun = Instant::now();
        let count = self.by(WRITERS, |writer| {
            let (mut random, mut value) = (Generator::new(seed + writer), [0; VALUE]);
            let mut count = 0;
            while goes_on(count, begun.elapsed()) {
                let index = random.below(self.options.items);
                self.values.fill(index, 0, &mut value);
                self.store.put(&random_key(index), &value, false)?;
                count += 1;
            }
            Ok(count)
        })?;
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }

    /// Overwrites as fast as it goes until half as much was written as there is: what that left of
    /// garbage is being collected by then. Then for a while, which gives the rate that the store
    /// keeps up, and last at a steady 70 % of it, of which the 99.9th percentile is taken; each of
    /// these counts from when it should have begun.
    fn latency(&self, time: Duration) -> Result<(u64, Slowness)> {
        self.overwrite_while(1, |count, _| count * WRITERS * 2 < self.options.items)?;
        let kept_up = self.overwrite_while(4, |_, elapsed| elapsed < time)?;
        let rate = kept_up * 0.7 / WRITERS as f64;
        let slow = std::sync::Mutex::new(Vec::new());
        let start = Instant::now();
        let count = self.by(WRITERS, |writer| {
            let mut random = Generator::new(writer + 7);
            let (mut value, mut times) = ([0; VALUE], Vec::new());
            loop {
                let due = Duration::from_secs_f64(times.len() as f64 / rate);
                if due >= time * STEADY_TIMES {
                    break;
                }
                thread::sleep(due.saturating_sub(start.elapsed()));
                let index = random.below(self.options.items);
                self.values.fill(index, 0, &mut value);
                self.store.put(&random_key(index), &value, false)?;
                times.push(start.elapsed().saturating_sub(due).as_secs_f32());
            }
            let count = times.len() as u64;
            slow.lock().map_err(|_| "a thread panicked")?.extend(times);
            Ok(count)
        })?;
        let mut times = slow.into_inner().map_err(|_| "a thread panicked")?;
        times.sort_unstable_by(f32::total_cmp);
        let at = (times.len() as f64 * 0.999) as usize;
        let percentile = times.get(at).copied().map_or(0.0, f64::from);
        Ok((count, Slowness { percentile, kept_up }))
    }

    /// Puts items in their order, every hundredth of them durably, and says which those were.
    fn until_killed(&self) -> Result<u64> {
        let (mut value, mut out) = ([0; VALUE], std::io::stdout().lock());
        for index in 0.. {
            let durable = index % 100 == 99;
            self.values.fill(index, 0, &mut value);
            self.store.put(&random_key(index), &value, durable)?;
            if durable {
                writeln!(out, "{index}")?;
                out.flush()?;
            }
        }
        Ok(0)
    }

    /// The existing items are a prefix of all that were put, and include those that were durable.
    fn recovered(&self) -> Result<u64> {
        let state = State { items: u64::MAX, ..State::default() };
        let (mut count, mut last, mut answer) = (0, 0, Ok(()));
        self.store.scan(&mut |key, value| {
            let checked = self.values.check_entry(state, key, value);
            answer = std::mem::replace(&mut answer, Ok(())).and(checked);
            let index = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
            last = last.max(index);
            count += 1;
        })?;
        answer?;
        if count < self.options.items {
            return Err("a wrong answer: what was durable is lost".into());
        }
        // No key is there twice: with the last number known, the count says that none is missing.
        match count == 0 || last == count - 1 {
            true => Ok(count),
            false => Err("a wrong answer: what survived is no prefix".into()),
        }
    }
}

fn disorder() -> crate::engine::Error {
    "a wrong answer: a scan is not in order".into()
}

/// Watches the space until it is told to stop; returns the most space for each live byte, once
/// there was a fair amount of data.
fn watch(folder: &Path, live: &AtomicU64, done: &AtomicBool) -> Result<f64> {
    let mut most = 0.0_f64;
    while !done.load(Ordering::SeqCst) {
        thread::sleep(WATCH);
        let (space, live) = (space(folder)?, live.load(Ordering::SeqCst));
        if live > 0 {
            most = most.max(space as f64 / live as f64);
        }
    }
    Ok(most)
}

/// Bytes that the files of a folder take on the disk.
fn space(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be gone by now.
        let Ok(about) = entry.metadata() else { continue };
        bytes += if about.is_dir() { space(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}

/// Bytes that this process has given to the device so far.
fn written() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    // What was to be written of files that were removed before never was.
    let (given, cancelled) = (line("write_bytes:"), line("cancelled_write_bytes:"));
    let given = given.ok_or("/proc/self/io lacks a line")?;
    Ok(given.saturating_sub(cancelled.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_names() {
        let steps = [Step::Load, Step::MultiGet2, Step::UntilKilled];
        assert_eq!(parse("load,multi-get2,until-killed").unwrap(), steps);
        assert!(parse("load,sleep").is_err());
    }
}
