//! Reading pieces of files, one at a time or as many at once as the device takes.
//!
//! What is read is a [`Wanted`]: a block of a table or a separated value. It comes from the cache,
//! or from another reader that is already reading it, or from the disk: past the system's cache if
//! the file system supports that. A [`Task`] is whatever needs one piece after the other until it
//! is done; [`run`] drives any number of them, each of which waits for its own reads only:
//!
//! ```text
//!   tasks ---> step ---> done
//!               ^ |
//!      a piece  | | wants a piece
//!               | v
//!              cache ---> the thread's queue ---> disk
//! ```
//!
//! This module knows neither keys nor versions.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::cache::{BlockKey, Cache, CacheStats, Item, Load, Lookup, Wait};
use super::files::{Directory, Handle};
use super::queue::{self, Queue};
use super::table::{Block, Finder, Site, Table, TableMeta};
use super::vlog::ValuePlace;
use crate::os::DataFile;
use crate::os::aio::ALIGN;
use crate::sync::atomic::AtomicU64;
use crate::{Error, Result};

/// Where in the file of a table its index and filter count as one block.
const TABLE_OFFSET: u64 = u64::MAX;

/// This many reads are gathered before the system gets them, fewer if none are in flight: the
/// device has something to do while the next ones are searched for.
const READS_A_TURN: RangeInclusive<usize> = 8..=32;

/// A thread keeps the memory of at most this many values, of at most this many bytes, for the next
/// ones: where all values are as long as each other, most need no memory of their own.
const SPARES_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 4 << 10;

thread_local! {
    static SPARES: RefCell<Vec<Arc<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A block could not be read. The next thread that tries learns why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread;

/// What the cache keeps.
#[derive(Clone)]
pub(crate) enum Cached {
    /// Index, filter and range tombstones of a table.
    Table(Arc<Finder>),
    /// A data block of a table.
    Block(Arc<Block>),
    /// A separated value.
    Value(Arc<[u8]>),
}

impl Item for Cached {
    fn weight(&self) -> u64 {
        match self {
            Self::Table(table) => table.memory() as u64,
            Self::Block(block) => block.memory() as u64,
            Self::Value(value) => value.len() as u64,
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Table(_) => 0,
            Self::Block(_) => 1,
            Self::Value(_) => 2,
        }
    }

    /// A table finds many blocks, a block many values.
    fn credit(&self) -> u8 {
        2 - self.kind() as u8
    }

    /// A value finds nothing.
    fn is_tried(&self) -> bool {
        matches!(self, Self::Value(_))
    }
}

/// The cache of a store.
pub(crate) type Blocks = Cache<Cached, Unread>;

/// What the cache holds, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) tables: u64,
    pub(crate) blocks: u64,
    pub(crate) values: u64,
    /// What it has lent.
    pub(crate) lent: u64,
}

impl From<CacheStats> for Kept {
    fn from(stats: CacheStats) -> Self {
        let [tables, blocks, values] = stats.bytes;
        Self { tables, blocks, values, lent: stats.lent }
    }
}

/// Look-ups, and reads of the disk, so far.
#[derive(Default)]
pub(crate) struct ReadCounts {
    /// Keys that were looked up.
    pub(crate) gets: AtomicU64,
    /// Data blocks of tables.
    pub(crate) blocks: AtomicU64,
    /// Separated values.
    pub(crate) values: AtomicU64,
    /// Pieces of tables of several blocks: for scans and merges.
    pub(crate) ahead: AtomicU64,
    /// Pieces of segments of one or several values: for scans.
    pub(crate) prefetched: AtomicU64,
    /// Pieces of tables that are opened.
    pub(crate) others: AtomicU64,
    /// Calls of the system that served queues.
    pub(crate) turns: AtomicU64,
    /// The most reads that were in flight at a time in one thread.
    pub(crate) depth: AtomicU64,
}

/// A piece of a file.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'h> {
    pub(crate) handle: &'h Arc<Handle>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The file is still written to: what stands there may not have left the system's cache yet.
    pub(crate) grows: bool,
}

/// How a piece is requested.
pub(crate) struct Span<'h> {
    pub(crate) file: &'h Arc<dyn DataFile>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl<'h> Piece<'h> {
    /// The pieces requested from the disk.
    pub(crate) fn span(&self) -> Result<Span<'h>> {
        let direct = if self.grows { None } else { self.handle.direct()? };
        let Some(file) = direct else {
            return Ok(Span { file: self.handle.file()?, offset: self.offset, len: self.len });
        };
        let offset = self.offset / ALIGN as u64 * ALIGN as u64;
        let len = ((self.offset - offset) as usize).saturating_add(self.len);
        Ok(Span { file, offset, len: len.next_multiple_of(ALIGN) })
    }

    /// The piece, in what was read of a span that began at `offset`.
    pub(crate) fn cut<'b>(&self, offset: u64, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let from = (self.offset - offset) as usize;
        bytes.get(from..).and_then(|bytes| bytes.get(..self.len)).ok_or_else(|| {
            let ended = std::io::ErrorKind::UnexpectedEof.into();
            Error::read(self.handle.path(), self.offset, ended)
        })
    }

    /// Reads it here and now, and hands its bytes to `take`.
    ///
    /// # Errors
    /// If the system refuses, or the file ends before it.
    pub(crate) fn read<R>(&self, take: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        let span = self.span()?;
        queue::with_buffer(span.len, |buffer| {
            let read = span.file.read_some(buffer, span.offset);
            let count = read.map_err(|e| Error::io("read", self.handle.path(), e))?;
            take(self.cut(span.offset, &buffer[..count])?)
        })
    }
}

/// Something to be read.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'v> {
    /// A data block.
    Block(Site<'v>),
    /// A separated value.
    Value(ValuePlace<'v>),
}

impl<'v> Wanted<'v> {
    pub(crate) fn key(&self) -> BlockKey {
        match self {
            Self::Block(site) => site.key(),
            Self::Value(place) => place.key(),
        }
    }

    /// Where it stands.
    pub(crate) fn piece(&self) -> Piece<'v> {
        match self {
            Self::Block(site) => site.piece(),
            Self::Value(place) => place.piece(),
        }
    }

    /// What the bytes that were read say, verified.
    fn open(&self, bytes: &[u8]) -> Result<Cached> {
        match self {
            Self::Block(site) => {
                let block = site.open(bytes.to_vec())?;
                Ok(Cached::Block(Arc::new(block.with_heads())))
            }
            Self::Value(place) => place.open(bytes).map(|value| Cached::Value(share(value))),
        }
    }

    /// Reads it from the disk.
    fn load(&self) -> Result<Cached> {
        let piece = self.piece();
        let counts = &piece.handle.directory().reads;
        match self {
            Self::Block(_) => counts.blocks.fetch_add(1, Relaxed),
            Self::Value(_) => counts.values.fetch_add(1, Relaxed),
        };
        piece.read(|bytes| self.open(bytes))
    }

    /// It, from the cache or the disk.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn get(&self, blocks: &Blocks) -> Result<Cached> {
        get_or_load(blocks, self.key(), || self.load())
    }
}

/// A value to be shared: in the memory that was left last, if it has this length. If not, that
/// memory is freed: values have become longer or shorter, and memory that cannot be used is not
/// kept.
fn share(value: &[u8]) -> Arc<[u8]> {
    let take = |spares: &RefCell<Vec<Arc<[u8]>>>| spares.borrow_mut().pop();
    if let Some(mut spare) = SPARES.try_with(take).ok().flatten()
        && spare.len() == value.len()
        && let Some(memory) = Arc::get_mut(&mut spare)
    {
        memory.copy_from_slice(value);
        return spare;
    }
    Arc::from(value)
}

/// Leaves the memory of a value that was read for the next one, unless others have it too.
pub(crate) fn leave(value: Arc<[u8]>) {
    if value.len() > SPARE_BYTES_MAX || Arc::strong_count(&value) > 1 {
        return;
    }
    // A thread that ends has no place for it any more.
    let _ = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(value);
        }
    });
}

/// From the cache, or by `load`. A thread that gets nothing from another thread loads it, to learn
/// the error itself.
fn get_or_load(
    blocks: &Blocks,
    key: BlockKey,
    load: impl Fn() -> Result<Cached>,
) -> Result<Cached> {
    let mut failure = None;
    let note = |error| failure = Some(error);
    match blocks.get_or_load(key, || load().map_err(note).map_err(|()| Unread)) {
        Ok(cached) => Ok(cached),
        Err(Unread) => failure.map_or_else(load, Err),
    }
}

/// The table that a handle leads to, with its index and filter, from the cache or the disk.
///
/// # Errors
/// If it cannot be read or is damaged.
pub(crate) fn table(handle: &Arc<Handle>, meta: &TableMeta) -> Result<Table> {
    finder(handle, meta).map(|finder| Table::new(Arc::clone(handle), finder))
}

/// What finds the entries of the table that a handle leads to, from the cache or the disk.
///
/// # Errors
/// If it cannot be read or is damaged.
pub(crate) fn finder(handle: &Arc<Handle>, meta: &TableMeta) -> Result<Arc<Finder>> {
    let key = BlockKey { file: u64::from(meta.number), offset: TABLE_OFFSET };
    let load = || Finder::read(handle, meta).map(Arc::new);
    let cached = get_or_load(&handle.directory().blocks, key, || load().map(Cached::Table))?;
    match cached {
        Cached::Table(finder) => Ok(finder),
        // No block begins there.
        Cached::Block(_) | Cached::Value(_) => load(),
    }
}

/// Something that needs one piece after the other.
pub(crate) trait Task<'v> {
    /// Continues with the piece that it wanted (at first `None`); returns what it wants next, or
    /// `None` when it is done.
    ///
    /// # Errors
    /// If what it got is damaged.
    fn step(&mut self, got: Option<Cached>) -> Result<Option<Wanted<'v>>>;
}

/// Drives one task: its reads wait for each other anyway.
///
/// # Errors
/// If something cannot be read or is damaged.
pub(crate) fn run_one<'v>(blocks: &Blocks, task: &mut impl Task<'v>) -> Result<()> {
    let mut got = None;
    while let Some(wanted) = task.step(got)? {
        got = Some(wanted.get(blocks)?);
    }
    Ok(())
}

/// Drives tasks, many at a time, and hands each one that is done to `finish`.
///
/// # Errors
/// If something cannot be read or is damaged: then tasks that were not done are not.
pub(crate) fn run<'v, T: Task<'v>>(
    directory: &Arc<Directory>,
    mut tasks: impl Iterator<Item = T>,
    finish: impl FnMut(T),
) -> Result<()> {
    Queue::with(directory, |queue| {
        let flights = (0..queue.depth()).map(|_| None).collect();
        let (waiting, ready, landed) = (Vec::new(), Vec::new(), Vec::new());
        let (reads, failure) = ((0, 0), None);
        let blocks = &directory.blocks;
        let mut run =
            Run { blocks, queue, flights, waiting, ready, landed, finish, reads, failure };
        while run.go_on(&mut tasks) {}
        directory.reads.blocks.fetch_add(run.reads.0, Relaxed);
        directory.reads.values.fetch_add(run.reads.1, Relaxed);
        run.failure.map_or(Ok(()), Err)
    })
}

/// What a task goes on with.
enum Next<'v> {
    Got(Option<Cached>),
    Wants(Wanted<'v>),
}

/// A read in flight.
struct Flight<'b, 'v, T> {
    task: T,
    wanted: Wanted<'v>,
    duty: Load<'b, Cached, Unread>,
}

/// A task whose piece is read by another thread, or by this very run for another task.
struct Joined<'v, T> {
    task: T,
    wanted: Wanted<'v>,
    wait: Wait<Cached, Unread>,
}

struct Run<'b, 'q, 'v, T, F> {
    blocks: &'b Blocks,
    queue: &'q mut Queue,
    /// By their tokens.
    flights: Vec<Option<Flight<'b, 'v, T>>>,
    waiting: Vec<Joined<'v, T>>,
    /// The tasks that need not wait any more.
    ready: Vec<Joined<'v, T>>,
    /// The tasks whose reads came back; empty between turns.
    landed: Vec<(T, Result<Cached>)>,
    finish: F,
    /// How many blocks and values were read.
    reads: (u64, u64),
    /// The first one.
    failure: Option<Error>,
}

impl<'b, 'v, T: Task<'v>, F: FnMut(T)> Run<'b, '_, 'v, T, F> {
    /// Begins some reads, as far as the queue takes them, and brings back some; `false`: all is
    /// done.
    fn go_on(&mut self, tasks: &mut impl Iterator<Item = T>) -> bool {
        let (before, mut has_more) = (self.queue.in_flight(), true);
        let enough = before + before.clamp(*READS_A_TURN.start(), *READS_A_TURN.end());
        while self.failure.is_none() && self.queue.has_room() && self.queue.in_flight() < enough {
            if let Some(joined) = self.ready.pop() {
                self.land(joined);
            } else if let Some(task) = tasks.next() {
                self.advance(task, Next::Got(None));
            } else {
                has_more = false;
                break;
            }
        }
        if self.queue.in_flight() > 0 {
            self.turn(has_more && self.failure.is_none());
        } else if self.failure.is_some() {
            return false;
        } else if let Some(joined) = self.waiting.pop() {
            // Its reader is another thread: no read of this run is left.
            self.land(joined);
        } else {
            return !self.ready.is_empty();
        }
        true
    }

    /// Lets a task go on until it is done or has to wait.
    fn advance(&mut self, mut task: T, mut next: Next<'v>) {
        loop {
            let wanted = match next {
                Next::Wants(wanted) => wanted,
                Next::Got(got) => match task.step(got) {
                    Ok(Some(wanted)) => wanted,
                    Ok(None) => return (self.finish)(task),
                    Err(error) => return self.fail(error),
                },
            };
            match self.blocks.look_up(wanted.key()) {
                Lookup::Hit(cached) => next = Next::Got(Some(cached)),
                Lookup::Wait(wait) => return self.waiting.push(Joined { task, wanted, wait }),
                Lookup::Load(duty) => match self.take_off(task, wanted, duty) {
                    Ok(()) => return,
                    Err(error) => return self.fail(error),
                },
            }
        }
    }

    fn take_off(
        &mut self,
        task: T,
        wanted: Wanted<'v>,
        duty: Load<'b, Cached, Unread>,
    ) -> Result<()> {
        let token = self.queue.push(&wanted.piece())?;
        match wanted {
            Wanted::Block(_) => self.reads.0 += 1,
            Wanted::Value(_) => self.reads.1 += 1,
        }
        self.flights[token] = Some(Flight { task, wanted, duty });
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Takes a turn of the queue: tasks whose reads came back go on.
    fn turn(&mut self, has_more: bool) {
        let mut landed = std::mem::take(&mut self.landed);
        let flights = &mut self.flights;
        let turned = self.queue.turn(has_more, |token, offset, read| {
            let Some(Flight { task, wanted, duty }) = flights[token].take() else { return };
            let piece = wanted.piece();
            let read = read.map_err(|e| Error::io("read", piece.handle.path(), e));
            let open = |bytes| wanted.open(piece.cut(offset, bytes)?);
            let opened = read.and_then(open);
            let filled = opened.as_ref().map(Cached::clone).map_err(|_| Unread);
            if let Some(Cached::Value(out)) = duty.swap(&filled) {
                leave(out);
            }
            drop(filled);
            landed.push((task, opened));
        });
        if let Err(error) = turned {
            // The outcome of the reads is unknown: their waiters read anew.
            self.flights.iter_mut().for_each(|flight| *flight = None);
            self.fail(error);
        }
        for (task, read) in landed.drain(..) {
            match read {
                Ok(cached) if self.failure.is_none() => {
                    self.advance(task, Next::Got(Some(cached)));
                }
                Ok(_) => {}
                Err(error) => self.fail(error),
            }
        }
        self.landed = landed;
        self.ready.extend(self.waiting.extract_if(.., |joined| joined.wait.is_over()));
    }

    /// A task that waited for another reader goes on.
    fn land(&mut self, Joined { task, wanted, wait }: Joined<'v, T>) {
        match wait.wait() {
            Some(Ok(cached)) => self.advance(task, Next::Got(Some(cached))),
            None => self.advance(task, Next::Wants(wanted)),
            Some(Err(Unread)) => match wanted.load() {
                Ok(cached) => self.advance(task, Next::Got(Some(cached))),
                Err(error) => self.fail(error),
            },
        }
    }
}
