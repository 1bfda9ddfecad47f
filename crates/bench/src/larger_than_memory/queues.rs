//! The library's queues of reads and writes, measured without an engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hedgerow::os::aio::{self, Action, Buffer, Completion, Io, Pool, Queue, Request};
use hedgerow::os::{DataFile, Open, RealSystem, System};
use tempfile::TempDir;

use super::reads::{Load, Rate};
use crate::data::Generator;
use crate::engine::{Missing, Result};

const BLOCK: usize = 4096;
/// Bytes of one write while the file is made.
const PIECE: usize = 1 << 20;

/// Which back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Back {
    Ring,
    Threads,
}

/// A file, each block of which begins with its number, and the backs that read it.
pub(super) struct Device {
    _folder: TempDir,
    path: PathBuf,
    blocks: u64,
    ring: Arc<dyn Io>,
    threads: Arc<dyn Io>,
}

impl Device {
    /// Makes the file.
    pub(super) fn new(folder: &Path, bytes: u64) -> Result<Self> {
        let folder = tempfile::tempdir_in(folder)?;
        let device = Self {
            path: folder.path().join("blocks"),
            _folder: folder,
            blocks: bytes / BLOCK as u64,
            ring: RealSystem.aio(aio::Choice::Ring),
            threads: RealSystem.aio(aio::Choice::Threads),
        };
        device.fill(bytes)?;
        Ok(device)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What serves a back here.
    pub(super) fn back(&self, back: Back) -> &'static str {
        self.io(back).back()
    }

    fn io(&self, back: Back) -> &Arc<dyn Io> {
        match back {
            Back::Ring => &self.ring,
            Back::Threads => &self.threads,
        }
    }

    fn open(&self, how: Open) -> Result<Arc<dyn DataFile>> {
        let file = RealSystem.open_data(&self.path, how, 0o600)?;
        if !file.set_direct(true) {
            let what = "a file system that is read past the cache (O_DIRECT) is needed: --folder";
            return Err(Missing(what.to_owned()).into());
        }
        Ok(file)
    }

    /// Writes the file, a few pieces at a time.
    fn fill(&self, bytes: u64) -> Result<()> {
        let file = self.open(Open::Create)?;
        let pool = Pool::new(PIECE, 8);
        let mut queue = self.ring.queue(8, Some(&pool));
        let mut done = Vec::new();
        for offset in (0..bytes).step_by(PIECE) {
            while queue.in_flight() == queue.depth() {
                queue.turn(1, &mut done)?;
                check_written(&mut done)?;
            }
            let mut buffer = pool.take().ok_or("a buffer for each write")?;
            let numbers = offset / BLOCK as u64..;
            for (block, number) in buffer.chunks_mut(BLOCK).zip(numbers) {
                mark(block, number);
            }
            let file = Arc::clone(&file);
            queue.push(Request { token: 0, action: Action::Write, file, offset, buffer });
        }
        queue.turn(usize::MAX, &mut done)?;
        check_written(&mut done)?;
        Ok(file.sync()?)
    }

    /// Reads random blocks by several threads for a while; each is checked.
    pub(super) fn read(&self, back: Back, load: Load) -> Result<Rate> {
        let before = cpu_seconds()?;
        let (reads, seconds) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..load.threads as u64)
                .map(|seed| scope.spawn(move || self.read_alone(back, load, seed)))
                .collect();
            threads.into_iter().try_fold((0, 0.0_f64), |(reads, seconds), thread| -> Result<_> {
                let own = thread.join().map_err(|_| "a reader panicked")??;
                Ok((reads + own.0, seconds.max(own.1)))
            })
        })?;
        let cpu = cpu_seconds()? - before;
        Ok(Rate {
            reads_per_second: reads as f64 / seconds,
            cpu_micros_per_read: cpu * 1e6 / reads as f64,
        })
    }

    /// One thread of these: how many blocks in how many seconds.
    fn read_alone(&self, back: Back, load: Load, seed: u64) -> Result<(u64, f64)> {
        let file = self.open(Open::Read)?;
        let pool = Pool::new(BLOCK, load.depth);
        let mut queue = self.io(back).queue(load.depth, Some(&pool));
        let mut random = Generator::new(seed + 1);
        let mut push = |queue: &mut dyn Queue, buffer: Buffer| {
            let token = random.below(self.blocks);
            let (file, offset) = (Arc::clone(&file), token * BLOCK as u64);
            queue.push(Request { token, action: Action::Read, file, offset, buffer });
        };
        while let Some(buffer) = pool.take() {
            push(&mut *queue, buffer);
        }
        // A quarter of the queue is filled anew while three are under way.
        let want = (load.depth / 4).max(1);
        let (start, mut count, mut done) = (Instant::now(), 0_u64, Vec::with_capacity(load.depth));
        while start.elapsed() < load.time {
            queue.turn(want, &mut done)?;
            count += done.len() as u64;
            for completion in done.drain(..) {
                push(&mut *queue, check_read(completion)?);
            }
        }
        Ok((count, start.elapsed().as_secs_f64()))
    }
}

/// What this process has had of the processors so far.
pub(super) fn cpu_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The 12th and 13th number after the name in brackets, which may hold anything; hundredths.
    let (_, numbers) = text.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let times = numbers.split_whitespace().skip(11).take(2);
    Ok(times.filter_map(|time| time.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

/// Fills a block so that no two are equal and none can be stored as zeros.
fn mark(block: &mut [u8], number: u64) {
    let mut word = number;
    for part in block.chunks_exact_mut(8) {
        part.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
}

/// Takes the buffer of a block that was read, if it is the right one.
fn check_read(completion: Completion) -> Result<Buffer> {
    let len = completion.result?;
    let number = completion.buffer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    if len != BLOCK || number != Some(completion.token) {
        let what = format!("block {} was read as {number:?}, {len} bytes", completion.token);
        return Err(what.into());
    }
    Ok(completion.buffer)
}

fn check_written(done: &mut Vec<Completion>) -> Result<()> {
    for completion in done.drain(..) {
        completion.result?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_block_is_noticed() {
        let read = |token, len| {
            let mut buffer = Buffer::new(BLOCK);
            mark(&mut buffer, 7);
            check_read(Completion { token, buffer, result: Ok(len) })
        };
        assert!(read(7, BLOCK).is_ok());
        assert!(read(8, BLOCK).is_err());
        assert!(read(7, BLOCK - 1).is_err());
    }
}
