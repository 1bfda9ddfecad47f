//! A request that is served while the thread that began it does something else.

use std::sync::Arc;

use super::threads::Mailbox;
use super::{Completion, Request, complete};

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
