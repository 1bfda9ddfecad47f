//! Queues of reads, one for each thread that reads much at once, with the buffers that they fill.
//!
//! A thread makes its queue when it first needs one and keeps it for the next time: a ring belongs
//! to the thread that made it. A queue is given back with nothing in flight, so that a store that
//! is closed has no reads left. This module knows neither what is read nor why.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::Directory;
use super::charge::Charge;
use super::memory::Part;
use super::piece::{BUFFER_BYTES, Piece};
use crate::Result;
use crate::os::Token;
use crate::os::aio::{self, Action, Buffer, Completion, Pool, Request};

/// Longer buffers have a multiple of this length, so that they can be reused; buffers up to this
/// length are kept for that, and at most this many.
const LARGE_UNIT: usize = 64 << 10;
const LARGE_MAX: usize = 2 << 20;
const LARGE_COUNT: usize = 8;
/// A turn waits until one in this many reads is back: fewer calls, while the rest keeps the device
/// busy.
const TURN_PART: usize = 8;

thread_local! {
    /// The queues of this thread that are not in use.
    static QUEUES: RefCell<Vec<Queue>> = const { RefCell::new(Vec::new()) };
}

/// A thread's reads of one store.
pub(crate) struct Queue {
    directory: Weak<Directory>,
    queue: Box<dyn aio::Queue>,
    /// Where the span of each read in flight begins, by token.
    offsets: Vec<u64>,
    free: Vec<usize>,
    /// Buffers of the pool that no read has.
    buffers: Vec<Buffer>,
    /// Longer ones, for as long as one call has the queue.
    large: Vec<Buffer>,
    done: Vec<Completion>,
    /// The process that made it: a child after a fork must not use it.
    process: Token,
    /// Of the buffers.
    _charge: Charge,
}

impl Queue {
    fn new(directory: &Arc<Directory>) -> Self {
        let depth = directory.budget.depth(BUFFER_BYTES);
        let mut charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        charge.set(depth * BUFFER_BYTES);
        let pool = Pool::new(BUFFER_BYTES, depth);
        let queue = directory.io.queue(depth, Some(&pool));
        Self {
            directory: Arc::downgrade(directory),
            queue,
            offsets: vec![0; depth],
            free: (0..depth).rev().collect(),
            buffers: std::iter::from_fn(|| pool.take()).collect(),
            large: Vec::new(),
            done: Vec::new(),
            process: Token::of_this(),
            _charge: charge,
        }
    }

    /// Calls `f` with a queue of this thread.
    pub(crate) fn with<R>(directory: &Arc<Directory>, f: impl FnOnce(&mut Self) -> R) -> R {
        let mut queue = Self::take(directory).unwrap_or_else(|| Self::new(directory));
        let result = f(&mut queue);
        queue.large.clear();
        if queue.free.len() == queue.offsets.len() {
            // A thread that ends has no place for it any more.
            let _ = QUEUES.try_with(|queues| queues.borrow_mut().push(queue));
        }
        result
    }

    /// An unused queue of that store. Queues of closed stores, and of a process from which this one
    /// was forked, are dropped on the way.
    fn take(directory: &Arc<Directory>) -> Option<Self> {
        let take = |queues: &RefCell<Vec<Self>>| {
            let mut queues = queues.borrow_mut();
            queues.retain(|queue| queue.directory.strong_count() > 0 && queue.process.is_of_this());
            let its_own = |queue: &Self| queue.directory.as_ptr() == Arc::as_ptr(directory);
            queues.iter().position(its_own).map(|at| queues.swap_remove(at))
        };
        QUEUES.try_with(take).ok().flatten()
    }

    /// How many reads it takes at a time; their tokens are less.
    pub(crate) fn depth(&self) -> usize {
        self.offsets.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.offsets.len() - self.free.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds a read to those of the next turn; returns its token. There must be room for it.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn push(&mut self, piece: &Piece<'_>) -> Result<usize> {
        let span = piece.span()?;
        let mut buffer = self.buffer(span.len);
        buffer.set_len(span.len);
        let token = self.free.pop().expect("room for a read");
        self.offsets[token] = span.offset;
        self.queue.push(Request {
            token: token as u64,
            action: Action::Read,
            file: span.file,
            offset: span.offset,
            buffer,
        });
        Ok(token)
    }

    /// A buffer for `len` bytes.
    fn buffer(&mut self, len: usize) -> Buffer {
        if len <= BUFFER_BYTES {
            return self.buffers.pop().unwrap_or_else(|| Buffer::new(len));
        }
        match self.large.iter().position(|buffer| buffer.capacity() >= len) {
            Some(at) => self.large.swap_remove(at),
            None => Buffer::new(len.next_multiple_of(LARGE_UNIT)),
        }
    }

    /// A read has its buffer no more.
    fn take_back(&mut self, buffer: Buffer) {
        if buffer.capacity() == BUFFER_BYTES {
            self.buffers.push(buffer);
        } else if buffer.capacity() <= LARGE_MAX && self.large.len() < LARGE_COUNT {
            self.large.push(buffer);
        }
    }

    /// Hands over what was pushed, and waits for some of it unless there is room for more that the
    /// caller has: `take` gets the token of each read that
    /// is back, the offset at which it began, and its bytes or why there are none.
    ///
    /// # Errors
    /// If the system refuses to serve the queue: then the outcome of the reads is unknown.
    pub(crate) fn turn(
        &mut self,
        has_more: bool,
        mut take: impl FnMut(usize, u64, io::Result<&[u8]>),
    ) -> Result<()> {
        let (directory, in_flight) = (self.directory.upgrade(), self.in_flight());
        if let Some(directory) = &directory {
            directory.reads.turns.fetch_add(1, Relaxed);
            directory.reads.depth.fetch_max(in_flight as u64, Relaxed);
        }
        let is_urgent = !has_more || !self.has_room();
        let want = if is_urgent { in_flight.div_ceil(TURN_PART) } else { 0 };
        let turned = self.queue.turn(want, &mut self.done);
        let mut done = std::mem::take(&mut self.done);
        for Completion { token, buffer, result } in done.drain(..) {
            let token = token as usize;
            self.free.push(token);
            take(token, self.offsets[token], result.map(|count| &buffer[..count]));
            self.take_back(buffer);
        }
        self.done = done;
        turned.map_err(|e| {
            let path = directory.map(|directory| directory.path.clone()).unwrap_or_default();
            crate::Error::io("read", &path, e)
        })
    }
}

/// Reads pieces, as many at a time as the queue takes, in no order: `take` gets the number of a
/// piece, the offset at which the read began, and its bytes. Long reads use buffers of `spare`, and
/// leave theirs there.
///
/// # Errors
/// If one cannot be read, or `take` refuses it.
pub(crate) fn read_all(
    directory: &Arc<Directory>,
    pieces: &[Piece<'_>],
    spare: &mut Vec<Buffer>,
    mut take: impl FnMut(usize, u64, &[u8]) -> Result<()>,
) -> Result<()> {
    directory.reads.prefetched.fetch_add(pieces.len() as u64, Relaxed);
    Queue::with(directory, |queue| {
        queue.large.append(spare);
        let mut numbers = vec![0; queue.depth()];
        let (mut next, mut outcome) = (0, Ok(()));
        while queue.in_flight() > 0 || (next < pieces.len() && outcome.is_ok()) {
            while outcome.is_ok() && queue.has_room() && next < pieces.len() {
                match queue.push(&pieces[next]) {
                    Ok(token) => (numbers[token], next) = (next, next + 1),
                    Err(error) => outcome = Err(error),
                }
            }
            queue.turn(false, |token, offset, read| {
                let number = numbers[token];
                let path = pieces[number].handle.path();
                let read = read.map_err(|e| crate::Error::io("read", path, e));
                let taken = read.and_then(|bytes| take(number, offset, bytes));
                if outcome.is_ok() {
                    outcome = taken;
                }
            })?;
        }
        spare.append(&mut queue.large);
        outcome
    })
}
