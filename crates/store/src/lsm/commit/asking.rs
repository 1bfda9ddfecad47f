//! Asynchronous calls: callbacks and futures. They need no runtime: an answer wakes the task that
//! polls, in any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::batch::Batch;
use super::pool::{Get, Task};
use super::reply::Reply;
use super::transaction::Transaction;
use crate::Durability;
use crate::lsm::db::Db;
use crate::lsm::engine::Inner;
use crate::lsm::keyspace::Keyspace;
use crate::lsm::read::view::View;
use crate::sync::{Mutex, locked};
use crate::{Error, Result};

/// A pending answer: a future that any executor can poll, or several executors.
///
/// The request is carried out whether or not the future is polled, even if the future is dropped.
/// It gives its answer once.
#[must_use = "the answer says whether it was done"]
pub struct Pending<T>(Arc<Mutex<Answer<T>>>);

struct Answer<T> {
    answer: Option<Result<T>>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Pending<T> {
    /// The future, and what is called with its answer.
    fn new() -> (Self, Reply<T>) {
        let shared = Arc::new(Mutex::new(Answer { answer: None, waker: None }));
        let ours = Arc::clone(&shared);
        let reply = Reply::new(move |answer| {
            let mut shared = locked(&ours);
            shared.answer = Some(answer);
            let waker = shared.waker.take();
            drop(shared);
            waker.into_iter().for_each(Waker::wake);
        });
        (Self(shared), reply)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut shared = locked(&self.0);
        match shared.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A future for what `ask` does with a reply.
fn pending<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Pending<T> {
    let (pending, reply) = Pending::new();
    ask(reply);
    pending
}

/// # Without waiting
///
/// Each of these comes in two forms. Those that end in `_async` answer a future, which needs no
/// particular runtime. Those that end in `_then` call a function with the answer, on a thread of
/// the store or on one that commits at that moment: it should be quick, and must not wait for
/// something else of the same store. If a store has no threads, as on a simulated disk, everything
/// is done before they return.
///
/// Reads are done by a few threads of the store; reads that were requested at the same time are
/// done together. A commit holds no thread while it waits for its turn and the flush: any number of
/// them shares one.
impl Db {
    /// The value of a key, as of some moment after the call: a future.
    ///
    /// # Errors
    /// It answers as [`Readable::get`](crate::lsm::Readable::get).
    pub fn get_async(&self, keyspace: &Keyspace, key: &[u8]) -> Pending<Option<Vec<u8>>> {
        pending(|reply| self.ask_get(keyspace, key, reply))
    }

    /// Calls `then` with the value of a key, as of some moment after the call.
    ///
    /// # Errors
    /// It is called with those of [`Readable::get`](crate::lsm::Readable::get).
    pub fn get_then(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        then: impl FnOnce(Result<Option<Vec<u8>>>) + Send + 'static,
    ) {
        self.ask_get(keyspace, key, Reply::new(then));
    }

    fn ask_get(&self, keyspace: &Keyspace, key: &[u8], reply: Reply<Option<Vec<u8>>>) {
        match keyspace.check(self.inner.catalog.store) {
            Ok(()) => {
                let (keyspace, key) = (keyspace.clone(), key.to_vec());
                self.inner.ask(Task::Get(Get { keyspace, key, reply }));
            }
            Err(error) => reply.send(Err(error)),
        }
    }

    /// The values of several keys, in their order, all as of one moment after the call: a future.
    ///
    /// # Errors
    /// It answers as [`Readable::multi_get`](crate::lsm::Readable::multi_get).
    pub fn multi_get_async(
        &self,
        keyspace: &Keyspace,
        keys: Vec<Vec<u8>>,
    ) -> Pending<Vec<Option<Vec<u8>>>> {
        pending(|reply| self.ask_multi_get(keyspace, keys, reply))
    }

    /// Calls `then` with the values of several keys, in their order, all as of one moment after the
    /// call.
    ///
    /// # Errors
    /// It is called with those of [`Readable::multi_get`](crate::lsm::Readable::multi_get).
    pub fn multi_get_then(
        &self,
        keyspace: &Keyspace,
        keys: Vec<Vec<u8>>,
        then: impl FnOnce(Result<Vec<Option<Vec<u8>>>>) + Send + 'static,
    ) {
        self.ask_multi_get(keyspace, keys, Reply::new(then));
    }

    fn ask_multi_get(
        &self,
        keyspace: &Keyspace,
        keys: Vec<Vec<u8>>,
        reply: Reply<Vec<Option<Vec<u8>>>>,
    ) {
        if let Err(error) = keyspace.check(self.inner.catalog.store) {
            return reply.send(Err(error));
        }
        let keyspace = keyspace.clone();
        let read = move |inner: &Inner| {
            reply.send(View::now(inner).values(&keyspace, &keys));
        };
        self.inner.ask(Task::Other(Box::new(read)));
    }

    /// Commits a batch: a future, ready when the batch is as durable as asked for. Batches that are
    /// handed over one after the other are committed in that order.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// # use hedgerow::lsm::Batch;
    /// # use hedgerow::Durability;
    /// let people = db.keyspace("people", Default::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&people, b"1", b"Ada")?;
    /// let written = db.write_async(batch, Durability::Durable);
    /// let task = async { written.await };
    /// # pollster::block_on(task)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It answers as [`Db::write`].
    pub fn write_async(&self, batch: Batch, durability: Durability) -> Pending<()> {
        pending(|reply| self.ask_write(batch, durability, reply))
    }

    /// Commits a batch and calls `then` when it is as durable as asked for.
    ///
    /// # Errors
    /// It is called with those of [`Db::write`].
    pub fn write_then(
        &self,
        batch: Batch,
        durability: Durability,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.ask_write(batch, durability, Reply::new(then));
    }

    fn ask_write(&self, batch: Batch, durability: Durability, reply: Reply<()>) {
        match batch.store() {
            Some(store) if store != self.inner.catalog.store => {
                let what = "the batch names keyspaces of another store";
                reply.send(Err(Error::argument(what)));
            }
            // An empty one takes its turn too: it makes those in front of it as durable.
            _ => self.inner.ask_commit(batch, durability, None, reply),
        }
    }
}

impl Transaction {
    /// Commits: a future, ready when the transaction is as durable as asked for, or has failed.
    ///
    /// # Errors
    /// It answers as [`Transaction::commit`].
    pub fn commit_async(self, durability: Durability) -> Pending<()> {
        pending(|reply| self.ask_commit(durability, reply))
    }

    /// Commits and calls `then` when the transaction is as durable as asked for, or has failed.
    ///
    /// # Errors
    /// It is called with those of [`Transaction::commit`].
    pub fn commit_then(
        self,
        durability: Durability,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.ask_commit(durability, Reply::new(then));
    }
}

#[cfg(test)]
#[path = "asking/tests.rs"]
mod tests;
