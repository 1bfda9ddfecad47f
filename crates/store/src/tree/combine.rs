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
//! [`Store::write`]: super::Store::write
//!
//! # Invariants
//!
//! 1. While [`Waiting::is_led`] exactly one thread leads, or was told to.
//! 2. A function stands in [`Waiting::jobs`] or with the leader until its caller is told the
//!    outcome, and nowhere afterwards: it borrows from its caller, which waits for the outcome.
//! 3. Every waiter is told the outcome, also if the leader panics.

#![expect(unsafe_code, reason = "functions that borrow from a thread that waits")]

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::sync::{Condvar, Mutex, locked, now};
use crate::{Error, Result};

/// For this long a leader goes on with functions that arrive; then it hands them to a new leader.
const LEADS_ON: Duration = Duration::from_micros(200);
/// How often a leader yields before it begins, so that the waiters of the last commit, which are
/// just waking up, can come back.
const YIELDS_MAX: usize = 64;

/// What a thread does in the transaction `X`; whether that stays.
pub(crate) type Work<'a, X> = dyn FnMut(&mut X) -> bool + Send + 'a;

/// What a thread left for the leader.
pub(crate) struct Job<X: 'static>(&'static mut Work<'static, X>);

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

    pub(crate) fn call(&mut self, txn: &mut X) -> bool {
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
pub(crate) type Commit<'a, X> = dyn FnMut(&mut [Job<X>]) -> Result<()> + 'a;

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
    pub(crate) fn run(&self, work: &mut Work<'_, X>, commit: &mut Commit<'_, X>) -> Result<()> {
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

/// The reason of a failure where the leader ended early.
pub(crate) fn unfinished() -> String {
    "the thread that committed for several did not finish".to_owned()
}

#[cfg(test)]
mod tests;
