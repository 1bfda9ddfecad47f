//! Small transactions of many threads, run by one of them and committed together.
//!
//! # Concept
//!
//! [`Store::write`] takes the work of a transaction as a function. Of the threads that call it at
//! the same time one is the *leader*; the others are waiters: they leave their functions and sleep.
//! The leader begins one transaction, calls all these functions, each after a savepoint of its own,
//! commits once, and wakes all waiters at once. So a thread sleeps and wakes once for a commit,
//! however many take part. Threads that take turns are woken one after the other, which alone takes
//! longer than a small transaction. The technique is known as *flat combining* (Hendler, Incze,
//! Shavit, Tzafrir: Flat combining and the synchronization-parallelism tradeoff, SPAA 2010).
//!
//! # Invariants
//!
//! 1. While [`Waiting::is_led`] exactly one thread leads, or was told to.
//! 2. A function stands in [`Waiting::jobs`] or with the leader until its caller is told the
//!    outcome, and nowhere afterwards: it borrows from its caller, which waits for the outcome.
//! 3. Every waiter is told the outcome, also if the leader panics.

#![expect(unsafe_code, reason = "functions that borrow from a thread that waits")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Store, WriteTxn};
use crate::Durability;
use crate::sync::{Condvar, Mutex, locked, now};
use crate::{Error, Result};

/// For this long a leader goes on with functions that arrive; then it hands them to a new leader.
const LEADS_ON: Duration = Duration::from_micros(200);
/// How often a leader yields before it begins, so that the waiters of the last commit, which are
/// just waking up, can come back.
const YIELDS_MAX: usize = 64;

/// What a thread does in the transaction `X`; whether that stays.
type Work<'a, X> = dyn FnMut(&mut X) -> bool + Send + 'a;

/// What a thread left for the leader.
struct Job<X: 'static>(&'static mut Work<'static, X>);

impl<X> Job<X> {
    fn new(work: &mut Work<'_, X>) -> Self {
        // SAFETY: only the lifetimes change. `work` is used only here, and never after
        // `Combiner::run`, which got it, has returned: `run` waits for the outcome, which is told
        // when all jobs of a commit have been dropped (`Round::drop`); and a leader that panics
        // before that drops all remaining jobs (`Leading::drop`).
        Self(unsafe {
            std::mem::transmute::<&mut Work<'_, X>, &'static mut Work<'static, X>>(work)
        })
    }

    fn call(&mut self, txn: &mut X) -> bool {
        (self.0)(txn)
    }
}

/// Where the functions of one commit wait for its outcome.
#[derive(Default)]
struct Ticket {
    told: Mutex<Told>,
    changed: Condvar,
}

/// What waiters are told.
#[derive(Clone, Default)]
enum Told {
    #[default]
    Nothing,
    /// One of them leads now.
    Lead,
    Done(std::result::Result<(), String>),
}

impl Ticket {
    fn tell_all(&self, outcome: std::result::Result<(), String>) {
        *locked(&self.told) = Told::Done(outcome);
        self.changed.notify_all();
    }

    fn tell_one_to_lead(&self) {
        *locked(&self.told) = Told::Lead;
        self.changed.notify_one();
    }

    /// Waits for the outcome; `None` if the caller is to lead.
    fn wait(&self) -> Option<Result<()>> {
        let mut told = locked(&self.told);
        loop {
            match &mut *told {
                Told::Nothing => {}
                Told::Lead => {
                    *told = Told::Nothing;
                    return None;
                }
                Told::Done(outcome) => {
                    let outcome = outcome.clone();
                    return Some(outcome.map_err(|reason| Error::CommitFailed { reason }));
                }
            }
            told = self.changed.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Commits what some functions do.
type Commit<'a, X> = dyn FnMut(&mut [Job<X>]) -> Result<()> + 'a;

/// The threads of this process whose functions share commits.
pub(crate) struct Combiner<X: 'static> {
    waiting: Mutex<Waiting<X>>,
}

struct Waiting<X: 'static> {
    /// What the next commit will do, and where its callers wait.
    jobs: Vec<Job<X>>,
    ticket: Arc<Ticket>,
    is_led: bool,
    /// How many functions the last commit had.
    last: usize,
}

impl<X> Combiner<X> {
    pub(crate) fn new() -> Self {
        let (jobs, ticket) = (Vec::new(), Arc::default());
        Self { waiting: Mutex::new(Waiting { jobs, ticket, is_led: false, last: 0 }) }
    }

    /// Has `work` done in a transaction and committed, by this thread or by another one. `commit`
    /// is called if this one leads.
    fn run(&self, work: &mut Work<'_, X>, commit: &mut Commit<'_, X>) -> Result<()> {
        let ticket = {
            let mut waiting = locked(&self.waiting);
            waiting.jobs.push(Job::new(work));
            let is_led = std::mem::replace(&mut waiting.is_led, true);
            is_led.then(|| Arc::clone(&waiting.ticket))
        };
        match ticket.and_then(|ticket| ticket.wait()) {
            Some(outcome) => outcome,
            None => self.lead(commit),
        }
    }

    /// Commits what was left, the caller's own work among it, and goes on for a while. Returns the
    /// outcome of the first commit.
    fn lead(&self, commit: &mut Commit<'_, X>) -> Result<()> {
        let mut leading = Leading { combiner: self, is_done: false };
        self.gather();
        let own = self.round(commit);
        let since = now();
        while !locked(&self.waiting).jobs.is_empty() && since.elapsed() < LEADS_ON {
            // The waiters of this round are told of a failure.
            let _ = self.round(commit);
        }
        leading.is_done = true;
        own
    }

    /// Lets those of the last commit come back: a commit of one costs as much as one of many.
    fn gather(&self) {
        for _ in 0..YIELDS_MAX {
            let waiting = locked(&self.waiting);
            if waiting.jobs.len() >= waiting.last {
                break;
            }
            drop(waiting);
            std::thread::yield_now();
        }
    }

    /// One commit of all that was left.
    fn round(&self, commit: &mut Commit<'_, X>) -> Result<()> {
        let mut round = {
            let mut waiting = locked(&self.waiting);
            waiting.last = waiting.jobs.len();
            let ticket = match Arc::get_mut(&mut waiting.ticket) {
                // There is no waiter.
                Some(_) => None,
                None => Some(std::mem::take(&mut waiting.ticket)),
            };
            Round { jobs: std::mem::take(&mut waiting.jobs), ticket, outcome: None }
        };
        let result = commit(&mut round.jobs);
        round.outcome = Some(result.as_ref().map_err(ToString::to_string).copied());
        result
    }
}

/// Ends leading on drop: a waiter, if there is one, becomes the leader.
struct Leading<'c, X: 'static> {
    combiner: &'c Combiner<X>,
    /// False only where this thread panics.
    is_done: bool,
}

impl<X> Drop for Leading<'_, X> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.combiner.waiting);
        if !self.is_done {
            // The work of this very thread may be among them.
            waiting.jobs.clear();
            std::mem::take(&mut waiting.ticket).tell_all(Err(unfinished()));
        }
        waiting.is_led = !waiting.jobs.is_empty();
        if waiting.is_led {
            waiting.ticket.tell_one_to_lead();
        }
    }
}

/// One commit: dropped, it lets go of the functions, and then tells their callers.
struct Round<X: 'static> {
    jobs: Vec<Job<X>>,
    ticket: Option<Arc<Ticket>>,
    outcome: Option<std::result::Result<(), String>>,
}

impl<X> Drop for Round<X> {
    fn drop(&mut self) {
        self.jobs.clear();
        if let Some(ticket) = &self.ticket {
            ticket.tell_all(self.outcome.take().unwrap_or_else(|| Err(unfinished())));
        }
    }
}

fn unfinished() -> String {
    "the thread that committed for several did not finish".to_owned()
}

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

#[cfg(test)]
mod tests;
