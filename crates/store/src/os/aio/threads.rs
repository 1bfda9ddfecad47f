//! Requests served by a pool of threads, which all queues of the pool share.
//!
//! A thread is started when there are more requests than idle threads; all threads end with the
//! pool. If a queue has a single request and its owner waits for it, the owner serves it: waking a
//! thread takes longer than reading from the system's cache.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::begun::{Begun, Mailbox};
use super::buffer::Pool;
use super::queue::{self, Completion, Io, Queue, Request, complete};
use crate::os::Token;
use crate::sync::{Condvar, Mutex, locked};

/// This many reads at a time fill the queue of most devices.
const THREADS_MAX: usize = 32;

/// A pool of threads and the queues that they serve.
pub struct Threads(Arc<Owner>);

/// Ends the threads when the pool and all its queues are gone.
struct Owner {
    shared: Arc<Shared>,
    running: Mutex<Vec<JoinHandle<()>>>,
    /// The process of the threads: a child after a fork has none of them.
    process: Token,
}

struct Shared {
    work: Mutex<Work>,
    more: Condvar,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<(Request, Arc<Mailbox>)>,
    /// Threads that wait for a job.
    idle: usize,
    is_over: bool,
}

impl Threads {
    /// A pool without a thread as yet.
    pub fn new() -> Self {
        let shared = Shared { work: Mutex::default(), more: Condvar::new() };
        let (shared, process) = (Arc::new(shared), Token::of_this());
        Self(Arc::new(Owner { shared, running: Mutex::default(), process }))
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Io for Threads {
    fn back(&self) -> &'static str {
        "threads"
    }

    fn queue(&self, depth: usize, _pool: Option<&Pool>) -> Box<dyn Queue> {
        Box::new(ThreadQueue {
            owner: Arc::clone(&self.0),
            mailbox: Arc::default(),
            depth: queue::depth(depth),
            pushed: Vec::new(),
            in_flight: 0,
        })
    }

    fn begin(&self, request: Request) -> Begun {
        let mailbox = Arc::default();
        self.0.hand_over(&mut vec![request], &mailbox);
        Begun::handed(mailbox)
    }
}

impl Owner {
    /// Hands jobs over and ensures that threads do them. If no thread can be started, the caller
    /// does them.
    fn hand_over(&self, pushed: &mut Vec<Request>, mailbox: &Arc<Mailbox>) {
        if !self.process.is_of_this() {
            return pushed.drain(..).for_each(|request| mailbox.put(complete(request)));
        }
        let count = pushed.len();
        let mut work = locked(&self.shared.work);
        work.jobs.extend(pushed.drain(..).map(|request| (request, Arc::clone(mailbox))));
        let missing = work.jobs.len().saturating_sub(work.idle);
        drop(work);
        if self.start(missing) == 0 {
            while let Some((request, mailbox)) = locked(&self.shared.work).jobs.pop_front() {
                mailbox.put(complete(request));
            }
        }
        for _ in 0..count {
            self.shared.more.notify_one();
        }
    }

    /// Starts up to `missing` threads; returns how many run.
    fn start(&self, missing: usize) -> usize {
        let mut running = locked(&self.running);
        for _ in 0..missing.min(THREADS_MAX - running.len()) {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("hedgerow-io".to_string());
            match thread.spawn(move || shared.work()) {
                Ok(handle) => running.push(handle),
                Err(_) => break,
            }
        }
        running.len()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.process.is_of_this() {
            let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
            return running.drain(..).for_each(std::mem::forget);
        }
        locked(&self.shared.work).is_over = true;
        self.shared.more.notify_all();
        for thread in locked(&self.running).drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Does jobs until the pool is gone.
    fn work(&self) {
        let mut work = locked(&self.work);
        loop {
            if let Some((request, mailbox)) = work.jobs.pop_front() {
                drop(work);
                mailbox.put(complete(request));
                work = locked(&self.work);
            } else if work.is_over {
                return;
            } else {
                work.idle += 1;
                work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
                work.idle -= 1;
            }
        }
    }
}

struct ThreadQueue {
    owner: Arc<Owner>,
    mailbox: Arc<Mailbox>,
    depth: usize,
    /// Requests that were not handed over yet.
    pushed: Vec<Request>,
    in_flight: usize,
}

impl Queue for ThreadQueue {
    fn back(&self) -> &'static str {
        "threads"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn push(&mut self, request: Request) {
        assert!(self.in_flight < self.depth, "more than {} requests at a time", self.depth);
        self.in_flight += 1;
        self.pushed.push(request);
    }

    fn turn(&mut self, want: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let want = want.min(self.in_flight);
        let before = done.len();
        if self.in_flight == 1 && want == 1 && self.pushed.len() == 1 {
            done.extend(self.pushed.drain(..).map(complete));
        } else {
            if !self.pushed.is_empty() {
                self.owner.hand_over(&mut self.pushed, &self.mailbox);
            }
            self.mailbox.take(want, done);
        }
        self.in_flight -= done.len() - before;
        Ok(())
    }
}
