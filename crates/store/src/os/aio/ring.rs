//! Requests served by an io_uring, one for each queue.
//!
//! A request stands in a slot of the queue from its push until it comes back; the ring is given the
//! number of the slot. Nothing is allocated for a request. A turn is one system call: it takes the
//! pushed requests, and waits if that is wanted.
//!
//! Kernels differ; this uses what is granted: rings that defer their work to the thread that waits
//! for it (6.1), the memory of a pool registered once. Files are not registered: the ring would
//! keep them open, and a removed file its room on the disk while its thread rests.
#![expect(unsafe_code, reason = "memory and descriptors that the system uses on its own")]

use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, squeue, types};

use super::begun::Begun;
use super::buffer::{Buffer, Pool};
use super::queue::{self, Action, Completion, Io, Queue, Request, complete};
use super::threads::Threads;
use crate::os::Token;
use crate::os::unix::calls;

/// One call moves at most this much; the rest follows by another one.
const CALL_MAX: usize = 1 << 30;

/// Queues with a ring each.
pub(super) struct Rings {
    /// For queues whose ring is refused, though another one was granted; and for what is waited for
    /// by another thread than the one that began it, which no ring takes.
    threads: Threads,
}

impl Rings {
    /// `None` where a ring is refused.
    pub(super) fn probe() -> Option<Self> {
        build(1).ok().map(|_| Self { threads: Threads::new() })
    }
}

impl Io for Rings {
    fn back(&self) -> &'static str {
        "ring"
    }

    fn queue(&self, depth: usize, pool: Option<&Pool>) -> Box<dyn Queue> {
        match Ring::new(queue::depth(depth), pool) {
            Ok(ring) => Box::new(ring),
            Err(_) => self.threads.queue(depth, pool),
        }
    }

    fn begin(&self, request: Request) -> Begun {
        self.threads.begin(request)
    }
}

/// A ring as good as the kernel has them.
fn build(depth: usize) -> io::Result<IoUring> {
    let entries = depth.next_power_of_two() as u32;
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_taskrun_flag();
    match builder.build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().build(entries)
        }
        other => other,
    }
}

/// A request in the hands of the system.
struct Flight {
    request: Request,
    /// Bytes that earlier calls for it moved.
    moved: usize,
}

struct Ring {
    ring: IoUring,
    /// One for each request that may be in flight.
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// What was done without the ring, for the next turn.
    ready: Vec<Completion>,
    /// The memory that is registered. The kernel pins its pages, and the pool keeps it in place.
    pool: Option<Pool>,
    /// A child after a fork shares the ring with its parent, which goes on with it.
    process: Token,
}

impl Ring {
    fn new(depth: usize, pool: Option<&Pool>) -> io::Result<Self> {
        let ring = build(depth)?;
        let is_registered = |pool: &&Pool| {
            let (start, len) = pool.span();
            let whole = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len };
            // SAFETY: the memory is the pool's, which is kept as long as the ring: the field `pool`
            // is dropped after the field `ring`.
            unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok()
        };
        let pool = pool.filter(is_registered).cloned();
        let slots = (0..depth).map(|_| None).collect();
        let free = (0..depth as u32).rev().collect();
        let (ready, process) = (Vec::with_capacity(depth), Token::of_this());
        Ok(Self { ring, slots, free, ready, pool, process })
    }

    /// Puts the request of a slot, or what is left of it, into the ring.
    fn submit(&mut self, slot: u32) {
        let Some(flight) = &mut self.slots[slot as usize] else { return };
        let entry = entry(flight, self.pool.as_ref());
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: the entry names a buffer and a file that the flight in its slot owns. Both stay
        // until the ring says that it is done, or for ever (see `drop`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("as many entries as slots");
    }

    /// Takes what the ring brought back; what moved a part only goes in again.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            let slot = entry.user_data() as u32;
            let Some(flight) = &mut self.slots[slot as usize] else { continue };
            let Some(result) = flight.outcome(entry.result()) else {
                self.submit(slot);
                continue;
            };
            if let Some(Flight { request, .. }) = self.slots[slot as usize].take() {
                self.free.push(slot);
                done.push(Completion { token: request.token, buffer: request.buffer, result });
            }
        }
    }
}

impl Flight {
    /// The meaning of the `result` of a call for it: `None` if it is not done yet.
    fn outcome(&mut self, result: i32) -> Option<io::Result<usize>> {
        let left = self.request.buffer.len() - self.moved;
        match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => None,
            ..0 => Some(Err(io::Error::from_raw_os_error(-result))),
            0 if left > 0 && self.request.action == Action::Write => {
                Some(Err(io::ErrorKind::WriteZero.into()))
            }
            _ => {
                self.moved += result as usize;
                let is_end = result == 0 || self.is_cut_by_the_end(result as usize);
                (result as usize >= left || is_end).then_some(Ok(self.moved))
            }
        }
    }

    /// Past the cache, a read that moved a part of a sector has come to the end of the file, and a
    /// read from there would be refused.
    fn is_cut_by_the_end(&self, moved: usize) -> bool {
        self.request.action == Action::Read && !moved.is_multiple_of(calls::SECTOR)
    }
}

/// A request as the ring gets it.
fn entry(flight: &mut Flight, pool: Option<&Pool>) -> squeue::Entry {
    let Flight { request, moved } = flight;
    let offset = request.offset + *moved as u64;
    let len = (request.buffer.len() - *moved).min(CALL_MAX) as u32;
    let is_fixed = pool.is_some_and(|pool| pool.holds(&request.buffer));
    let address = request.buffer.address(*moved);
    let file = types::Fd(request.file.descriptor().map_or(-1, |file| file.as_raw_fd()));
    match (request.action, is_fixed) {
        (Action::Read, true) => {
            opcode::ReadFixed::new(file, address, len, 0).offset(offset).build()
        }
        (Action::Read, false) => opcode::Read::new(file, address, len).offset(offset).build(),
        (Action::Write, true) => {
            opcode::WriteFixed::new(file, address, len, 0).offset(offset).build()
        }
        (Action::Write, false) => opcode::Write::new(file, address, len).offset(offset).build(),
    }
}

impl Queue for Ring {
    fn back(&self) -> &'static str {
        "ring"
    }

    fn depth(&self) -> usize {
        self.slots.len()
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.ready.len()
    }

    fn push(&mut self, request: Request) {
        assert!(self.in_flight() < self.depth(), "more than {} requests at a time", self.depth());
        let end = request.offset.saturating_add(request.buffer.len() as u64);
        let is_refused = || calls::check_limit(end).is_err();
        if request.file.descriptor().is_none() || (request.action == Action::Write && is_refused())
        {
            self.ready.push(complete(request));
        } else if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(Flight { request, moved: 0 });
            self.submit(slot);
        }
    }

    fn turn(&mut self, want: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let want = done.len() + want.min(self.in_flight());
        done.append(&mut self.ready);
        loop {
            let missing = want.saturating_sub(done.len());
            match self.ring.submit_and_wait(missing) {
                Err(error) if !passes(&error) => return Err(error),
                _ => self.reap(done),
            }
            if done.len() >= want && self.ring.submission().is_empty() {
                return Ok(());
            }
        }
    }
}

/// A signal, or a kernel that wants its completions taken first.
fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.process.is_of_this() {
            return;
        }
        let mut done = Vec::new();
        if self.turn(usize::MAX, &mut done).is_err() {
            // The system may still use the buffers: they are never given back.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(self.pool.take());
        }
    }
}

impl Pool {
    /// Whether a buffer is one of this pool.
    fn holds(&self, buffer: &Buffer) -> bool {
        let (start, len) = self.span();
        let first = start.addr().get();
        (first..first + len).contains(&buffer.as_ptr().addr())
    }
}
