//! Waiting for the writer's turn, which SQLite does by asking again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hedgerow::tree;
use pyo3::prelude::*;
use rusqlite::{Connection, Statement, TransactionState, ffi};

use crate::long;
use crate::store::other_writer;
use crate::txn::{Writing, locked};

/// What a handler of a signal has raised while a statement ran.
pub(super) type Raised = Arc<Mutex<Option<PyErr>>>;

/// The writer's turn in a store, and how long it is waited for.
pub(super) struct Turn {
    pub(super) store: tree::Store,
    pub(super) writing: Writing,
    pub(super) timeout: Duration,
    pub(super) raised: Raised,
    /// Whether the waiting shall end.
    pub(super) waiting: Arc<AtomicBool>,
}

/// An error of SQLite's.
fn error(code: i32, message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
}

impl Turn {
    /// Waits before a statement that writes, so that SQLite finds the turn free.
    pub(super) fn wait(&self, db: &Connection, statement: &Statement<'_>) -> rusqlite::Result<()> {
        let writes = db.transaction_state(None::<&str>)? == TransactionState::Write;
        if statement.readonly() || writes || self.store.is_read_only() {
            return Ok(());
        }
        if *locked(&self.writing) == Some(std::thread::current().id()) {
            let reason = "this thread has a write transaction of the store: end that first";
            return Err(error(ffi::SQLITE_BUSY, reason));
        }
        let (begun, rounds) = (Instant::now(), long::is_main_thread());
        loop {
            let left = self.timeout.saturating_sub(begun.elapsed());
            let wait = left.min(2 * long::ROUND);
            match self.store.begin_write_alone_within(wait) {
                Ok(None) if left <= wait => {
                    return Err(error(ffi::SQLITE_BUSY, &other_writer(&self.store)));
                }
                Ok(None) => {}
                // What is wrong SQLite finds, and says.
                Ok(Some(_)) | Err(_) => return Ok(()),
            }
            if self.waiting.load(Ordering::Relaxed) || (rounds && signals(&self.raised)) {
                return Err(error(ffi::SQLITE_INTERRUPT, "interrupted"));
            }
        }
    }
}

/// Handles signals; whether a handler has raised.
pub(super) fn signals(raised: &Raised) -> bool {
    let found = Python::attach(|py| py.check_signals()).err();
    let is_raised = found.is_some();
    *locked(raised) = found;
    is_raised
}
