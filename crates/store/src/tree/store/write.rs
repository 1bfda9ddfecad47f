//! Functions that run as transactions: alone, or together with those of other threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Store;
use crate::tree::combine::{Job, unfinished};
use crate::tree::txn::WriteTxn;
use crate::{Durability, Error, Result};

/// Does some work in a transaction of its own.
fn alone(
    store: &Store,
    durability: Durability,
    work: &mut dyn FnMut(&mut WriteTxn) -> bool,
) -> Result<()> {
    let mut txn = store.begin_write()?;
    if work(&mut txn) { txn.commit_with(durability) } else { Ok(()) }
}

/// Does the work of several threads in one transaction, a savepoint each, and commits it durably.
fn together(store: &Store, jobs: &mut [Job<WriteTxn>]) -> Result<()> {
    if let [job] = jobs {
        return alone(store, Durability::Durable, &mut |txn| job.call(txn));
    }
    let mut txn = store.begin_write()?;
    for job in jobs {
        let mark = txn.savepoint()?;
        if !job.call(&mut txn) {
            txn.rollback_to(mark)?;
        }
        txn.release(mark)?;
    }
    txn.commit_with(Durability::Durable)
}

/// What a function did: its own answer, or that it panicked.
type Answer<T, E> = std::result::Result<std::result::Result<T, E>, Box<dyn Any + Send>>;

impl Store {
    /// Runs `work` in a write transaction and commits it with the store's durability; see
    /// [`Store::write_with`].
    ///
    /// # Errors
    /// As [`Store::write_with`].
    pub fn write<T: Send, E: From<Error> + Send>(
        &self,
        work: impl FnOnce(&mut WriteTxn) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        self.write_with(self.inner.options.durability, work)
    }

    /// Runs `work` in a write transaction and commits it. If `work` returns an error, its changes
    /// are rolled back.
    ///
    /// **For many threads that commit a little each, durably, this is the fast way**: calls that
    /// come at the same time are run one after the other by one of the threads, and become one
    /// commit with one flush. Each call sees what those before it did; one that answers with an
    /// error leaves no trace in the others. Either all of them are committed or, if the commit
    /// fails, none; every caller is told. A call that is not durable is a transaction of its own.
    ///
    /// `work` may run on another thread. It must not wait for another thread that writes to this
    /// store, and must write to the store only through the transaction: otherwise it would wait for
    /// itself for ever. If it panics, its changes are rolled back, and the panic continues in the
    /// calling thread.
    ///
    /// # Errors
    /// The error of `work`; those of [`Store::begin_write`] and [`WriteTxn::commit`], as
    /// [`Error::CommitFailed`] in threads for which another thread committed.
    ///
    /// ```
    /// # use hedgerow::tree::{Snapshot, Store, TableOptions};
    /// # use hedgerow::Durability;
    /// # fn main() -> hedgerow::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::create(dir.path().join("s"))?;
    /// store.write(|txn| txn.create_table("visits", &TableOptions::new()).map(drop))?;
    /// std::thread::scope(|scope| {
    ///     for visitor in 0..8_u64 {
    ///         let store = &store;
    ///         scope.spawn(move || {
    ///             store.write_with(Durability::Durable, |txn| {
    ///                 let visits = txn.table("visits")?;
    ///                 txn.put(visits, &visitor.to_be_bytes(), b"once")
    ///             })
    ///         });
    ///     }
    /// });
    /// let txn = store.begin_read()?;
    /// assert_eq!(txn.count(txn.table("visits")?)?.keys, 8);
    /// # Ok(()) }
    /// ```
    pub fn write_with<T: Send, E: From<Error> + Send>(
        &self,
        durability: Durability,
        work: impl FnOnce(&mut WriteTxn) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let mut work = Some(work);
        let mut answer: Option<Answer<T, E>> = None;
        let mut call = |txn: &mut WriteTxn| {
            let Some(work) = work.take() else { return false };
            let done = catch_unwind(AssertUnwindSafe(|| {
                let value = work(txn)?;
                // Needed if `work` ignored the error of a write that failed half-way.
                txn.check_failed()?;
                Ok(value)
            }));
            let stays = matches!(done, Ok(Ok(_)));
            answer = Some(done);
            stays
        };
        // A commit without a flush takes less than to sleep and to be woken.
        let committed = match durability {
            Durability::Durable => {
                self.inner.combiner.run(&mut call, &mut |jobs| together(self, jobs))
            }
            Durability::Eventual | Durability::None => alone(self, durability, &mut call),
        };
        match (answer, committed) {
            (Some(Ok(Ok(value))), Ok(())) => Ok(value),
            (Some(Ok(Err(error))), _) => Err(error),
            (Some(Err(panic)), _) => resume_unwind(panic),
            (_, Err(error)) => Err(error.into()),
            (None, Ok(())) => Err(Error::CommitFailed { reason: unfinished() }.into()),
        }
    }
}
