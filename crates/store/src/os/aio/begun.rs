//! A request that is served while the thread that began it does something else.

use std::sync::{Arc, PoisonError};

use super::queue::{Completion, Request, complete};
use crate::sync::{Condvar, Mutex};

/// A read or write that a thread, not necessarily the one that began it, waits for later. Dropping
/// it waits for what has begun, and lets go of the buffer and the file.
pub struct Begun(Stage);

enum Stage {
    /// It is served when it is waited for.
    Later(Request),
    /// A thread serves it.
    Handed(Arc<Mailbox>),
    Over,
}

impl Begun {
    pub(super) fn later(request: Request) -> Self {
        Self(Stage::Later(request))
    }

    pub(super) fn handed(mailbox: Arc<Mailbox>) -> Self {
        Self(Stage::Handed(mailbox))
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// Never: it is waited for once.
    pub fn wait(mut self) -> Completion {
        match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Later(request) => complete(request),
            Stage::Handed(mailbox) => mailbox.take_one(),
            Stage::Over => unreachable!("nobody waits for it a second time"),
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Stage::Handed(mailbox) = &self.0 {
            drop(mailbox.take_one());
        }
    }
}

/// Where requests that a thread serves come back.
#[derive(Default)]
pub(super) struct Mailbox {
    done: Mutex<Vec<Completion>>,
    landed: Condvar,
}

impl Mailbox {
    pub(super) fn put(&self, completion: Completion) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(completion);
        self.landed.notify_one();
    }

    /// Waits until at least `want` requests came back here, and appends to `done` all that did.
    pub(super) fn take(&self, want: usize, done: &mut Vec<Completion>) {
        let mut landed = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        while landed.len() < want {
            landed = self.landed.wait(landed).unwrap_or_else(PoisonError::into_inner);
        }
        done.append(&mut landed);
    }

    /// Waits for a request that comes back here.
    fn take_one(&self) -> Completion {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(completion) = done.pop() {
                return completion;
            }
            done = self.landed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
