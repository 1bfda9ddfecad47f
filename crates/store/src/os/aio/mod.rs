//! Batched reads and writes: many to a submission, done in any order.
//!
//! A worker has a [`Queue`] of its own. It pushes [`Request`]s, each with the buffer to fill or to
//! write, and takes turns: a [`Queue::turn`] gives the system what was pushed and brings back what
//! is done. Three backs serve a queue:
//!
//! - *ring*: an io_uring for each queue; one system call for any number of requests;
//! - *threads*: positioned reads and writes in a pool of threads, where the system refuses rings
//!   (containers often do) or has none;
//! - *in order*: one after the other in the calling thread, in the order in which they were pushed.
//!   The simulated disk is served so, since its order of calls is that of a seed.
//!
//! Making a ring shows whether the system grants rings. If not, threads serve the queue and
//! [`Queue::back`] says so; this is no error.
//!
//! A single request that is waited for much later, perhaps by another thread, is [`Begun`].
//!
//! A request's buffer belongs to the queue until it comes back with its [`Completion`], so that the
//! system never writes into memory that is used for something else. This module knows neither what
//! is read nor why.

use std::sync::Arc;

mod begun;
mod buffer;
mod in_order;
mod queue;
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
mod ring;
#[cfg(test)]
mod tests;
mod threads;

pub use begun::Begun;
pub use buffer::{ALIGN, Buffer, Pool};
pub use in_order::InOrder;
pub use queue::{Action, Choice, Completion, DEPTH_MAX, Io, Queue, Request};
pub use threads::Threads;

/// The queues of the real system. This never fails: see [`Io::back`] for what was granted.
pub fn open(choice: Choice) -> Arc<dyn Io> {
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    if choice != Choice::Threads
        && let Some(rings) = ring::Rings::probe()
    {
        return Arc::new(rings);
    }
    let _ = choice;
    Arc::new(Threads::new())
}
