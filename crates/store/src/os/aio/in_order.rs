//! Requests served one after the other, in the calling thread.

use std::io;

use super::buffer::Pool;
use super::queue::{self, Completion, Io, Queue, Request, complete};

/// Queues that serve in the order of the pushes, when a turn is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct InOrder;

struct InOrderQueue {
    depth: usize,
    pushed: Vec<Request>,
}

impl Io for InOrder {
    fn back(&self) -> &'static str {
        "in order"
    }

    fn queue(&self, depth: usize, _pool: Option<&Pool>) -> Box<dyn Queue> {
        Box::new(InOrderQueue { depth: queue::depth(depth), pushed: Vec::new() })
    }
}

impl Queue for InOrderQueue {
    fn back(&self) -> &'static str {
        "in order"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.pushed.len()
    }

    fn push(&mut self, request: Request) {
        assert!(self.pushed.len() < self.depth, "more than {} requests at a time", self.depth);
        self.pushed.push(request);
    }

    fn turn(&mut self, _want: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        done.extend(self.pushed.drain(..).map(complete));
        Ok(())
    }
}
