//! A sink that tasks put into: a queue, and a thread that writes.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{LetGo, Queue, Slot, lock, start};
use crate::stream::sink::{Sink, SinkReport, Target};
use crate::{Error, Result};

/// A pair on its way into a store.
struct Sent {
    key: Vec<u8>,
    value: Vec<u8>,
    fate: Promise,
}

/// That a task will be told what became of its pair: if the thread panics, that it did.
struct Promise(Option<Arc<Fate>>);

impl Promise {
    fn settle(mut self, outcome: Result<bool>) {
        if let Some(fate) = self.0.take() {
            fate.settle(outcome);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(fate) = self.0.take() {
            fate.settle(Err(panicked()));
        }
    }
}

fn panicked() -> Error {
    Error::CommitFailed { reason: "the thread that wrote it panicked".into() }
}

/// What became of a pair.
#[derive(Default)]
struct Fate {
    state: Mutex<(Option<Result<bool>>, Option<Waker>)>,
}

impl Fate {
    fn settle(&self, outcome: Result<bool>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(outcome);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Resolves when a pair is committed: to whether it was stored, or rejected.
#[must_use = "it tells when the pair is committed, and whether"]
pub struct Ack(Arc<Fate>);

impl Future for Ack {
    type Output = Result<bool>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.0.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A sink that any number of tasks put into: a bounded queue, and one thread that writes.
///
/// The thread commits when the queue is empty, or the sink's [`Cut`](crate::stream::Cut) is
/// reached: so many tasks share a commit, and each learns when its pair is durable.
///
/// What is in the queue when the last clone is dropped is still written. If all tasks have learned
/// what became of their pairs, nothing of the store is held after that.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::stream::{AsyncSink, Sink};
///
/// let sink = AsyncSink::new(Sink::new(&store, "words")?, 1_000)?;
/// pollster::block_on(async {
///     let first = sink.put(b"ash".to_vec(), b"tree".to_vec()).await;
///     let second = sink.put(b"elm".to_vec(), b"tree".to_vec()).await;
///     assert!(first.await? && second.await?);
///     Ok::<_, hedgerow::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AsyncSink {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue<Sent>>,
    room: usize,
    report: Arc<Mutex<SinkReport>>,
    sink: Arc<dyn LetGo>,
}

impl AsyncSink {
    /// A sink of which the queue takes this number of pairs, at least one.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be had.
    pub fn new<T: Target + Send + 'static>(sink: Sink<T>, room: usize) -> Result<Self> {
        let (queue, report) = (Queue::new(), Arc::default());
        let (own, told) = (Arc::clone(&queue), Arc::clone(&report));
        let sink = Arc::new(Mutex::new(Some(sink)));
        let slot = Arc::clone(&sink);
        start("hedgerow-sink", move || write_all(&slot, &own, &told))?;
        Ok(Self { shared: Arc::new(Shared { queue, room: room.max(1), report, sink }) })
    }

    /// Waits for room in the queue and puts a pair there; what it returns resolves when the pair is
    /// committed. Dropping that changes nothing.
    pub async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Ack {
        let mut sent = Some((key, value));
        poll_fn(|context| {
            let Shared { queue, room, .. } = &*self.shared;
            let mut state = queue.lock();
            if state.items.len() >= *room && !state.is_dropped {
                // It may be polled many times before there is room.
                if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.wakers.push(context.waker().clone());
                }
                return Poll::Pending;
            }
            let told = Arc::<Fate>::default();
            let (key, value) = sent.take().unwrap_or_default();
            let fate = Promise(Some(Arc::clone(&told)));
            if state.is_dropped {
                fate.settle(Err(Error::Rejected { key }));
            } else {
                state.items.push_back(Sent { key, value, fate });
                queue.tell(state);
            }
            Poll::Ready(Ack(told))
        })
        .await
    }

    /// What is committed so far.
    pub fn report(&self) -> SinkReport {
        self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_ended = true;
        if state.items.is_empty() {
            // Unless the thread is at work with it.
            self.sink.let_go();
        }
        self.queue.tell(state);
    }
}

/// Waits for the next pair, and takes the sink for it, if it is not in hand; `None` if no pair can
/// come any more.
fn next_sent<T: Target>(
    in_hand: Option<Sink<T>>,
    slot: &Slot<Sink<T>>,
    queue: &Queue<Sent>,
) -> Option<(Sent, Sink<T>)> {
    let mut state = queue.lock();
    while state.items.is_empty() && !state.is_ended {
        state = queue.wait(state);
    }
    let sent = state.items.pop_front()?;
    // Before the queue can be seen to be empty.
    let sink = in_hand.or_else(|| lock(slot).take())?;
    queue.tell(state);
    Some((sent, sink))
}

/// Writes what comes, until no more can come, or the sink takes no more.
fn write_all<T: Target>(slot: &Slot<Sink<T>>, queue: &Queue<Sent>, report: &Mutex<SinkReport>) {
    let mut waiting: Vec<(Promise, bool)> = Vec::new();
    let mut in_hand = None;
    let _end = End(queue);
    while let Some((Sent { key, value, fate }, mut sink)) = next_sent(in_hand.take(), slot, queue) {
        let commits = sink.report().commits;
        let (committed, failed) = match sink.put(&key, &value) {
            Ok(stored) => {
                waiting.push((fate, stored));
                let is_cut = sink.report().commits > commits || sink.is_over();
                if !is_cut && !queue.lock().items.is_empty() {
                    in_hand = Some(sink);
                    continue;
                }
                (sink.commit(), None)
            }
            Err(error) => {
                let lost = Err(Error::CommitFailed { reason: "a pair before it failed".into() });
                (lost, Some((fate, error)))
            }
        };
        *report.lock().unwrap_or_else(PoisonError::into_inner) = sink.report().clone();
        let is_over = sink.is_over();
        // Who learns what became of a pair finds the sink at rest.
        if is_over {
            drop(sink);
        } else {
            *lock(slot) = Some(sink);
        }
        failed.into_iter().for_each(|(fate, error)| fate.settle(Err(error)));
        settle(&mut waiting, committed);
        if is_over {
            return refuse(queue);
        }
    }
}

/// Takes nothing more.
fn refuse(queue: &Queue<Sent>) {
    let mut state = queue.lock();
    state.is_dropped = true;
    let rest = std::mem::take(&mut state.items);
    queue.tell(state);
    for Sent { key, fate, .. } in rest {
        fate.settle(Err(Error::Rejected { key }));
    }
}

/// Dropped by a panic it ends the queue: nothing is taken from it any more.
struct End<'q>(&'q Queue<Sent>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.is_dropped = true;
            let rest = std::mem::take(&mut state.items);
            self.0.tell(state);
            drop(rest);
        }
    }
}

/// Tells the tasks what became of their pairs.
fn settle(waiting: &mut Vec<(Promise, bool)>, committed: Result<()>) {
    let reason = committed.err().map(|error| error.to_string());
    for (fate, stored) in waiting.drain(..) {
        fate.settle(match &reason {
            None => Ok(stored),
            Some(reason) => Err(Error::CommitFailed { reason: reason.clone() }),
        });
    }
}
