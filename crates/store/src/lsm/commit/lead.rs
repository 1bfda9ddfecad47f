//! Committing in groups: the thread that leads commits the batches of others together with its own.

use std::sync::Arc;

use super::batch::Batch;
use super::conflict::{Changes, Footprint};
use super::logs::Writer;
use super::pool::Task;
use super::queue::{Message, Refusal, Request, Waiter};
use super::reply::Reply;
use crate::lsm::engine::Inner;
use crate::observe::{Work, within};
use crate::{Durability, Error, Result};

impl Inner {
    /// Puts a batch in line and calls `reply` when it is committed or refused.
    pub(crate) fn ask_commit(
        self: &Arc<Self>,
        batch: Batch,
        durability: Durability,
        footprint: Option<Footprint>,
        reply: Reply<()>,
    ) {
        if let Err(error) = self.check_process() {
            return reply.send(Err(error));
        }
        let request = Request { batch, durability, footprint };
        if self.queue.join(&Waiter::new(request, Some(reply))) {
            self.ask(Task::Other(Box::new(Inner::lead_next)));
        }
    }

    /// Puts a batch in line and waits until it is committed or refused. The thread becomes the
    /// leader if there is none, or when the leader tells it to.
    pub(super) fn commit_in_line(&self, waiter: &Arc<Waiter>) -> Result<()> {
        let mut leads = self.queue.join(waiter);
        let result = loop {
            if leads && let Some(result) = self.lead(Some(waiter)) {
                break result;
            }
            match waiter.wait() {
                Message::Lead => leads = true,
                Message::Outcome(outcome) => break outcome.map_err(Error::from),
            }
        };
        self.pace(&waiter.request);
        result
    }

    /// Leads without a batch of its own; the waiters are told the outcome.
    fn lead_next(&self) {
        let _ = self.lead(None);
    }

    /// Commits the first ones in line; what became of `ours`, if it was committed with them.
    fn lead(&self, ours: Option<&Arc<Waiter>>) -> Option<Result<()>> {
        let mut lead = Lead::take(self, ours);
        let path = &self.directory.path;
        let result = within(Work::LSM_COMMIT, path, || self.commit_group(&mut lead));
        lead.outcome = result.as_ref().map_err(|e| Refusal::Failed(e.to_string())).copied();
        lead.group.iter().any(|waiter| lead.is_ours(waiter)).then_some(result)
    }

    /// All steps of a commit, for a group.
    fn commit_group(&self, lead: &mut Lead<'_>) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        self.refuse(&writer, &mut lead.group);
        let Lead { group, is_passed_on, .. } = lead;
        let durabilities = group.iter().map(|waiter| waiter.request.durability);
        let durability = durabilities.max().unwrap_or(Durability::None);
        let bodies = group.iter().map(|waiter| waiter.request.body());
        let bodies: Vec<_> = bodies.filter(|(count, _)| *count > 0).collect();
        if bodies.is_empty() {
            return self.settle_log(&mut writer, durability);
        }
        self.write(writer, &bodies, durability, || *is_passed_on = self.queue.pass_on())
    }

    /// Takes those out of a group that may not be committed, and tells them.
    fn refuse(&self, writer: &Writer, group: &mut Vec<Arc<Waiter>>) {
        let checks = self.checks(writer, group.iter().map(|waiter| &waiter.request));
        let Some(checks) = checks else { return };
        let (mut refusals, mut earlier) = (Vec::with_capacity(group.len()), Changes::default());
        for waiter in group.iter() {
            let refusal = checks.refusal(&waiter.request, &earlier);
            if refusal.is_none() {
                earlier.add(&waiter.request.batch.body);
            }
            refusals.push(refusal);
        }
        let mut refusals = refusals.into_iter();
        group.retain(|waiter| match refusals.next().flatten() {
            Some(refusal) => {
                waiter.tell(Message::Outcome(Err(refusal)));
                false
            }
            None => true,
        });
    }
}

/// What the leader has in hand. When this is dropped, also by a panic, the waiters of the group
/// learn the outcome, and the lead goes to the next waiter if it has not gone there yet.
struct Lead<'i> {
    inner: &'i Inner,
    /// The waiter of the leader's own batch, which needs no message.
    ours: Option<&'i Arc<Waiter>>,
    /// The waiters whose batches are committed.
    group: Vec<Arc<Waiter>>,
    outcome: Result<(), Refusal>,
    /// All waiters with a callback, refused ones too.
    called: Vec<Arc<Waiter>>,
    is_passed_on: bool,
}

impl<'i> Lead<'i> {
    /// Leads the first ones in line.
    fn take(inner: &'i Inner, ours: Option<&'i Arc<Waiter>>) -> Self {
        let group = inner.queue.take();
        let called = group.iter().filter(|waiter| !waiter.has_thread).cloned().collect();
        let outcome = Err(Refusal::Failed("the thread that wrote it panicked".to_string()));
        Self { inner, ours, group, outcome, called, is_passed_on: false }
    }

    fn is_ours(&self, waiter: &Arc<Waiter>) -> bool {
        self.ours.is_some_and(|ours| Arc::ptr_eq(waiter, ours))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let queue = &self.inner.queue;
        let is_passed_on = self.is_passed_on || queue.pass_on();
        for waiter in self.group.iter().filter(|waiter| !self.is_ours(waiter)) {
            waiter.tell(Message::Outcome(self.outcome.clone()));
        }
        if !is_passed_on && !queue.leave() {
            self.inner.ask_again(Task::Other(Box::new(Inner::lead_next)));
        }
        self.called.iter().for_each(|waiter| waiter.call());
        // A batch without a waiting thread slows down no other thread.
        self.called.iter().for_each(|waiter| self.inner.pace(&waiter.request));
    }
}
