//! Requests and queues, and where queues come from: what all backs of a queue have in common.

use std::io;
use std::sync::Arc;

use super::super::file::DataFile;
use super::begun::Begun;
use super::buffer::{Buffer, Pool};

/// The most requests that a queue takes at once.
pub const DEPTH_MAX: usize = 1024;

/// Whether to read into the buffer or to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill the buffer from the file.
    Read,
    /// Write all of the buffer to the file, which grows if need be.
    Write,
}

/// One read or write.
pub struct Request {
    /// The caller's name for the request.
    pub token: u64,
    /// Whether it reads or writes.
    pub action: Action,
    /// The file; it stays open until the request is done.
    pub file: Arc<dyn DataFile>,
    /// Where in the file.
    pub offset: u64,
    /// The bytes; its length is that of the read or write.
    pub buffer: Buffer,
}

/// A request that is done.
pub struct Completion {
    /// The request's.
    pub token: u64,
    /// The request's buffer; after the bytes that were read its content is undefined.
    pub buffer: Buffer,
    /// How many bytes were read or written: less than the buffer's length only where the file ends,
    /// since backs go on after a short transfer.
    pub result: io::Result<usize>,
}

/// Which back a program wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Rings where they are granted, else threads.
    #[default]
    Auto,
    /// The same: asking for rings never fails.
    Ring,
    /// Threads.
    Threads,
}

/// Where queues come from.
pub trait Io: Send + Sync {
    /// The back of its queues: "ring", "threads" or "in order".
    fn back(&self) -> &'static str;
    /// A queue for at most `depth` requests at a time, at least 1 and at most [`DEPTH_MAX`]. The
    /// buffers of `pool` are registered with the system once, if it supports that.
    ///
    /// A queue may be used by the thread that made it and no other: a ring refuses others, by an
    /// error.
    fn queue(&self, depth: usize, pool: Option<&Pool>) -> Box<dyn Queue>;
    /// Begins a single request, which any thread may wait for later. Rings leave it to threads,
    /// too. If requests are served in order, nothing happens before it is waited for.
    fn begin(&self, request: Request) -> Begun {
        Begun::later(request)
    }
}

/// One worker's reads and writes.
pub trait Queue {
    /// What serves it.
    fn back(&self) -> &'static str;
    /// How many requests it takes at a time.
    fn depth(&self) -> usize;
    /// Requests that were pushed and did not come back yet.
    fn in_flight(&self) -> usize;
    /// Adds a request to those of the next turn.
    ///
    /// # Panics
    ///
    /// When `depth` requests are in flight.
    fn push(&mut self, request: Request);
    /// Hands over what was pushed and appends to `done` what came back: at least `want` requests,
    /// or all that are in flight if they are fewer, waiting for them; and what else is done then.
    ///
    /// # Errors
    ///
    /// When the system refuses the call itself. What became of the requests is unknown then, and
    /// their buffers do not come back. A read or write that fails is no error here.
    fn turn(&mut self, want: usize, done: &mut Vec<Completion>) -> io::Result<()>;
}

/// A depth that can be had.
pub(super) fn depth(wanted: usize) -> usize {
    wanted.clamp(1, DEPTH_MAX)
}

/// Reads or writes here and now; the number of bytes as a [`Completion`] has it.
fn serve(request: &mut Request) -> io::Result<usize> {
    let Request { action, file, offset, buffer, .. } = request;
    match action {
        Action::Write => {
            file.write_at(&[io::IoSlice::new(buffer)], *offset)?;
            Ok(buffer.len())
        }
        Action::Read => file.read_some(buffer, *offset),
    }
}

/// Serves a request and says how it ended.
pub(super) fn complete(mut request: Request) -> Completion {
    let result = serve(&mut request);
    Completion { token: request.token, buffer: request.buffer, result }
}
