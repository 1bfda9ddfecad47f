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

use crate::lsm::files::cache::{BlockKey, Load, Lookup, Wait};
use crate::lsm::files::cached::{Blocks, Cached, Unread, table_key};
use crate::lsm::files::piece::Piece;
use crate::lsm::files::queue::Queue;
use crate::lsm::files::{Directory, Handle};
use crate::lsm::table::{Finder, Site, TableMeta};
use crate::lsm::values::place::ValuePlace;
use crate::{Error, Result};

/// This many reads are gathered before the system gets them, fewer if none are in flight: the
/// device has something to do while the next ones are searched for.
const READS_A_TURN: RangeInclusive<usize> = 8..=32;

/// While the cache has room, a read brings this many bytes of a table: the blocks after the one
/// that is wanted are there then without a read of their own.
const TOGETHER_BYTES: u64 = 64 << 10;

/// A thread keeps the memory of at most this many values, of at most this many bytes, for the next
/// ones: where all values are as long as each other, most need no memory of their own.
const SPARES_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 4 << 10;

thread_local! {
    static SPARES: RefCell<Vec<Arc<[u8]>>> = const { RefCell::new(Vec::new()) };
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
                site.open(bytes.into()).map(|block| Cached::Block(Arc::new(block)))
            }
            Self::Value(place) => place.open(bytes).map(|value| Cached::Value(share(value))),
        }
    }

    /// Reads it from the disk.
    fn load(&self) -> Result<Cached> {
        let piece = self.piece();
        let directory = piece.handle.directory();
        match self {
            Self::Block(site) => {
                directory.reads.blocks.fetch_add(1, Relaxed);
                let more = blocks_after(site, &directory.blocks);
                let together = |more: Vec<_>| load_together(site, &more, &directory.blocks).ok();
                // What is wrong with the others does not concern this one.
                if let Some(loaded) = more.and_then(together) {
                    return Ok(loaded);
                }
            }
            Self::Value(_) => _ = directory.reads.values.fetch_add(1, Relaxed),
        }
        piece.read(|bytes| self.open(bytes))
    }

    /// It, from the cache or the disk.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn get(&self, blocks: &Blocks) -> Result<Cached> {
        let cached = get_or_load(blocks, self.key(), || self.load())?;
        self.put_at_hand(&cached);
        Ok(cached)
    }

    /// Has a block, which the cache gave, at hand for others.
    fn put_at_hand(&self, cached: &Cached) {
        if let (Self::Block(site), Cached::Block(block)) = (self, cached) {
            site.put_at_hand(block);
        }
    }
}

/// The blocks after a data block, if the cache has room for them and knows where they are.
fn blocks_after<'v>(site: &Site<'v>, blocks: &Blocks) -> Option<Vec<Site<'v>>> {
    if !blocks.has_room(site.key(), TOGETHER_BYTES) {
        return None;
    }
    let cached;
    let finder = match site.finder() {
        Some(finder) => finder,
        None => {
            let Some(Cached::Table(finder)) = blocks.peek(site.finder_key()) else { return None };
            cached = finder;
            &*cached
        }
    };
    let (mut more, mut last) = (Vec::new(), *site);
    // What is damaged is an error of the one that wants it.
    while let Ok(Some(next)) = finder.behind(&last) {
        if next.end() > site.piece().offset + TOGETHER_BYTES || !next.follows(&last) {
            break;
        }
        more.push(next);
        last = next;
    }
    Some(more).filter(|more| !more.is_empty())
}

/// Reads a data block and others that follow it, which go to the cache.
fn load_together(site: &Site<'_>, more: &[Site<'_>], blocks: &Blocks) -> Result<Cached> {
    let first = site.piece();
    let end = more.last().map_or(site.end(), Site::end);
    let whole = Piece { len: (end - first.offset) as usize, ..first };
    whole.read(|bytes| {
        let open = |site: &Site<'_>| {
            let Piece { offset, len, .. } = site.piece();
            let from = (offset - first.offset) as usize;
            Wanted::Block(*site).open(&bytes[from..from + len])
        };
        for site in more {
            blocks.offer(site.key(), site.piece().len as u64, || open(site).ok());
        }
        open(site)
    })
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

/// What finds the entries of the table that a handle leads to, from the cache or the disk.
///
/// # Errors
/// If it cannot be read or is damaged.
pub(crate) fn finder(handle: &Arc<Handle>, meta: &TableMeta) -> Result<Arc<Finder>> {
    let key = table_key(meta.number);
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
        let waiting = Vec::new();
        let ready = Vec::new();
        let landed = Vec::new();
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
                Lookup::Hit(cached) => {
                    wanted.put_at_hand(&cached);
                    next = Next::Got(Some(cached));
                }
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
