//! What the machine itself allows, measured in the same rounds as the engines: not a store, but
//! only the memory accesses, writes and flushes that the best store would need for the same rows.
//!
//! | row | what is done |
//! |---|---|
//! | get | three loads from an array as large as the entries, one after the other |
//! | gets in batches | three loads a get that do not depend on each other |
//! | scan | one pass over an array as large as the entries |
//! | load | writing as many bytes as the entries have, and a flush |
//! | put, durable, one thread | one write of six neighbouring pages of written space, and a flush |
//! | put, unsynced, one thread | one write of five neighbouring pages and one of a sixth |
//! | churn of long values, unsynced | each written over others by a call, a sum of each page |
//! | batch, durable | 1.15 pages an entry side by side in written space, and a flush |
//! | larger than memory | random reads of 4 KiB past the system's cache |

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crc_fast::CrcAlgorithm;
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::entry::{self, Maker};
use super::model::Model;
use super::session::Session;
use super::spec::{Operation, Step, Workload};
use crate::data::Generator;
use crate::engine::{Promise, Result, Unsupported};

const PAGE: usize = 4096;
/// Bytes of one write of many pages.
const PIECE: usize = 512 << 10;
/// Bytes of written space that commits go round in.
const SPACE: usize = 64 << 20;
/// Loads of a get, which the best tree needs at least.
const LOADS: u64 = 3;

/// A folder for files, and an array as large as the entries.
pub(crate) struct Limit {
    folder: TempDir,
    words: Vec<u64>,
    /// What is written.
    piece: Vec<u8>,
}

impl Limit {
    /// For one workload.
    pub(crate) fn new(folder: &Path, workload: &Workload) -> Result<Self> {
        let entry = workload.shape.key + workload.shape.value;
        let bytes = workload.keys * workload.duplicates.max(1) * entry as u64;
        let words = (0..bytes / 8).map(entry::word).collect();
        Ok(Self { folder: tempfile::tempdir_in(folder)?, words, piece: noise() })
    }

    /// Nanoseconds of one load; each depends on the one before, or none does.
    fn load_nanos(&self, dependent: bool) -> f64 {
        let (len, mut at, mut sum) = (self.words.len() as u64, 0, 0u64);
        let mut random = Generator::new(1);
        let count = 1_000_000;
        let start = Instant::now();
        for _ in 0..count {
            let word = self.words[at];
            sum = sum.wrapping_add(word);
            let step = random.below(len);
            at = if dependent { (step ^ (word & 1)).min(len - 1) } else { step } as usize;
        }
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as f64 / f64::from(count)
    }

    /// Nanoseconds of a pass over the array.
    fn pass_nanos(&self) -> f64 {
        let start = Instant::now();
        std::hint::black_box(self.words.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)));
        start.elapsed().as_nanos() as f64
    }

    /// A file of written space.
    fn written(&self, bytes: usize) -> Result<File> {
        let path = self.folder.path().join("data");
        let file = File::options().create(true).truncate(true).write(true).open(path)?;
        write_pieces(&file, &self.piece, bytes, 0)?;
        file.sync_all()?;
        Ok(file)
    }

    /// Seconds to write and flush the bytes of all entries.
    fn load_seconds(&self, promise: Promise) -> Result<f64> {
        let file = File::create(self.folder.path().join("load"))?;
        let start = Instant::now();
        write_pieces(&file, &self.piece, self.words.len() * 8, 0)?;
        if promise == Promise::Durable {
            file.sync_data()?;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Commits a second of `pages` pages each, as the step promises.
    fn commits(&self, step: &Step, pages: usize) -> Result<f64> {
        if step.threads > 1 {
            return Err(Unsupported("several threads").into());
        }
        let file = self.written(SPACE)?;
        let bytes = pages * PAGE;
        let commits = step.operations.min(2000) as usize;
        let start = Instant::now();
        for commit in 0..commits {
            let at = commit * bytes % (SPACE - bytes) / PAGE * PAGE;
            if step.promise() == Promise::Durable {
                write_pieces(&file, &self.piece, bytes, at)?;
                file.sync_data()?;
            } else {
                write_pieces(&file, &self.piece, bytes - PAGE, at + PAGE)?;
                file.write_all_at(&self.piece[..PAGE], 0)?;
            }
        }
        Ok(commits as f64 / start.elapsed().as_secs_f64())
    }

    /// Values a second that are written over others, with checksums and nothing else.
    fn churn(&self, step: &Step, model: &Model) -> Result<f64> {
        let average = (model.shape.value_least + model.shape.value) / 2;
        if step.promise() == Promise::Durable || average <= PAGE {
            return Err(Unsupported("such a row").into());
        }
        let space = model.keys() as usize * (average + PAGE);
        let file = self.written(space)?;
        let (mut at, mut sums) = (0, 0);
        let start = Instant::now();
        for first in (0..step.operations * step.batch).step_by(step.batch as usize) {
            let mut maker = Maker::new(model.shape);
            for index in first..first + step.batch {
                let value = maker.value(entry::value_word(entry::word(index), 0));
                let pages = value.chunks(PAGE);
                let sum = |page| crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, page);
                sums = pages.fold(sums, |sums, page| sums ^ sum(page));
                if at + value.len() > space {
                    at = 0;
                }
                file.write_all_at(value, at as u64)?;
                at += value.len().next_multiple_of(PAGE);
            }
        }
        std::hint::black_box(sums);
        Ok((step.operations * step.batch) as f64 / start.elapsed().as_secs_f64())
    }

    /// Reads a second of random pages past the cache.
    fn reads(&self, step: &Step) -> Result<f64> {
        let bytes = self.words.len() * 8;
        drop(self.written(bytes)?);
        let path = self.folder.path().join("data");
        let file = File::from(rustix::fs::open(path, OFlags::DIRECT, Mode::empty())?);
        let pages = (bytes / PAGE) as u64;
        let time = Duration::from_secs_f64(step.seconds);
        let reads = thread::scope(|scope| {
            let read = |seed| {
                let (file, mut random) = (&file, Generator::new(seed));
                // A piece of this buffer begins at a multiple of the page size.
                let mut buffer = vec![0; 2 * PAGE];
                let skip = buffer.as_ptr().align_offset(PAGE);
                let start = Instant::now();
                let mut reads = 0;
                while start.elapsed() < time {
                    let at = random.below(pages) * PAGE as u64;
                    file.read_exact_at(&mut buffer[skip..skip + PAGE], at)?;
                    reads += 1;
                }
                Ok(reads)
            };
            let threads: Vec<_> =
                (0..step.threads).map(|seed| scope.spawn(move || read(seed))).collect();
            let reads = threads.into_iter().map(|thread| match thread.join() {
                Ok(reads) => reads,
                Err(_) => Err("a thread panicked".into()),
            });
            reads.sum::<Result<u64>>()
        })?;
        Ok(reads as f64 / step.seconds)
    }
}

/// A piece that no disk can save itself from storing.
fn noise() -> Vec<u8> {
    (0..PIECE as u64 / 8).flat_map(|index| entry::word(index).to_le_bytes()).collect()
}

/// Writes from a place on, in large pieces.
fn write_pieces(file: &File, piece: &[u8], bytes: usize, at: usize) -> Result<()> {
    for done in (0..bytes).step_by(PIECE) {
        let len = PIECE.min(bytes - done);
        file.write_all_at(&piece[..len], (at + done) as u64)?;
    }
    Ok(())
}

impl Session for Limit {
    fn run(&mut self, step: &Step, model: &Model) -> Result<f64> {
        let entries = model.entries() as f64;
        if step.fresh.is_some() {
            return Err(Unsupported("process").into());
        }
        match step.operation {
            Operation::Get => Ok(self.load_nanos(true) * LOADS as f64),
            Operation::GetMany => Ok(self.load_nanos(false) * LOADS as f64),
            Operation::Scan | Operation::ScanPages => Ok(self.pass_nanos() / entries),
            Operation::Load | Operation::Append => {
                Ok(self.load_seconds(step.promise())? * 1e9 / entries)
            }
            Operation::Put => self.commits(step, 6),
            Operation::PutBatch => {
                let pages = (step.batch as f64 * 1.15) as usize;
                Ok(self.commits(step, pages)? * step.batch as f64)
            }
            Operation::Churn => self.churn(step, model),
            Operation::Beyond => self.reads(step),
            _ => Err(Unsupported("such a row").into()),
        }
    }

    fn verify(&self, _model: &Model) -> Result<()> {
        Ok(())
    }

    fn lacks_rows(&self) -> bool {
        true
    }
}
