//! A request that is served while the thread that began it does something else.

use std::io;
use std::sync::{Arc, PoisonError};

use super::buffer::{ALIGN, Buffer};
use super::queue::{Completion, Request, complete};
use crate::os::Token;
use crate::sync::{Condvar, Mutex, locked};

/// A read or write that a thread, not necessarily the one that began it, waits for later. Dropping
/// it waits for what has begun, and lets go of the buffer and the file.
pub struct Begun(Stage);

enum Stage {
    /// It is served when it is waited for.
    Later(Request),
    /// A thread of this process serves it.
    Handed(Arc<Mailbox>, Token),
    Over,
}

impl Begun {
    pub(super) fn later(request: Request) -> Self {
        Self(Stage::Later(request))
    }

    pub(super) fn handed(mailbox: Arc<Mailbox>) -> Self {
        Self(Stage::Handed(mailbox, Token::of_this()))
    }

    /// Waits for its end. In a child process after a fork, where no thread serves it, it has failed
    /// unless it had ended.
    ///
    /// # Panics
    ///
    /// Never: it is waited for once.
    pub fn wait(mut self) -> Completion {
        match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Later(request) => complete(request),
            Stage::Handed(mailbox, process) if process.is_of_this() => mailbox.take_one(),
            Stage::Handed(mailbox, _) => mailbox.landed().unwrap_or_else(lost),
            Stage::Over => unreachable!("nobody waits for it a second time"),
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Stage::Handed(mailbox, process) = &self.0
            && process.is_of_this()
        {
            drop(mailbox.take_one());
        }
    }
}

/// The end of a request that a fork has cut off.
fn lost() -> Completion {
    let result = Err(io::Error::other("it was begun before a fork, by a thread of the parent"));
    Completion { token: 0, buffer: Buffer::new(ALIGN), result }
}

/// Where requests that a thread serves come back.
#[derive(Default)]
pub(super) struct Mailbox {
    done: Mutex<Vec<Completion>>,
    landed: Condvar,
}

impl Mailbox {
    pub(super) fn put(&self, completion: Completion) {
        locked(&self.done).push(completion);
        self.landed.notify_one();
    }

    /// Waits until at least `want` requests came back here, and appends to `done` all that did.
    pub(super) fn take(&self, want: usize, done: &mut Vec<Completion>) {
        let mut landed = locked(&self.done);
        while landed.len() < want {
            landed = self.landed.wait(landed).unwrap_or_else(PoisonError::into_inner);
        }
        done.append(&mut landed);
    }

    /// A request that has come back here.
    fn landed(&self) -> Option<Completion> {
        self.done.try_lock().ok()?.pop()
    }

    /// Waits for a request that comes back here.
    fn take_one(&self) -> Completion {
        let mut done = locked(&self.done);
        loop {
            if let Some(completion) = done.pop() {
                return completion;
            }
            done = self.landed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
