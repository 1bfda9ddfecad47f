//! Asynchronous streams: a thread of their own does what may wait, once a batch and never once a
//! pair. Any executor can poll them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::batch::{Batch, Batches};
use super::sink::{Sink, SinkReport, Target};
use super::source::Source;
use crate::{Error, Result};

/// This many batches are read ahead at most.
const AHEAD: usize = 8;
/// When at most this many of them are left, the thread goes on. A consumer that waits is woken when
/// this many are there, since a thread takes as long to wake as it takes to read some thousand
/// pairs; meanwhile the other half is read.
const AHEAD_HALF: usize = AHEAD / 2;
/// A consumer that waits is woken at once if reading a batch takes longer than this.
const SLOW: Duration = Duration::from_micros(250);

/// What a thread and the tasks that use it share: a queue, and who waits for it.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    /// Whether the thread waits for a change.
    is_waited: bool,
    /// The side that puts items has ended, or the one that takes them.
    is_ended: bool,
    is_dropped: bool,
    wakers: Vec<Waker>,
}

impl<T> Queue<T> {
    fn new() -> Arc<Self> {
        let (items, wakers) = (VecDeque::new(), Vec::new());
        let state = State { items, is_waited: false, is_ended: false, is_dropped: false, wakers };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread waits for a change.
    fn wait<'q>(&'q self, mut state: MutexGuard<'q, State<T>>) -> MutexGuard<'q, State<T>> {
        state.is_waited = true;
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the lock, and wakes everything that waits for a change.
    fn tell(&self, mut state: MutexGuard<'_, State<T>>) {
        let wakers = std::mem::take(&mut state.wakers);
        // Without a need it is not called: it asks the system.
        let is_waited = std::mem::take(&mut state.is_waited);
        drop(state);
        if is_waited {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    started.map(drop).map_err(|e| Error::io("start a thread for", "a stream".as_ref(), e))
}

/// The pairs of a store in batches, for any executor; made by
/// [`Scan::stream`](super::Scan::stream).
///
/// A thread reads at most eight batches ahead, and waits for the consumer then. A consumer that
/// waits is woken with the first batch, and then by fours where reading them is quick. The store's
/// snapshot is let go when the stream is dropped; a consumer that may be slow sets a [time after
/// which it is parked](super::Scan::park_after).
///
/// With the feature `futures` it is a `futures_core::Stream`.
pub struct BatchStream {
    queue: Arc<Queue<Result<Batch>>>,
    spare: Arc<Spare>,
}

/// Batches that the consumer has done with, whose memory the thread fills again.
#[derive(Default)]
struct Spare(Mutex<Vec<Batch>>);

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, batch: Batch) {
        let mut batches = self.lock();
        if !batch.is_empty() && batches.len() <= AHEAD {
            batches.push(batch);
        }
    }
}

impl BatchStream {
    pub(super) fn new<S: Source>(batches: Batches<S>) -> Result<Self> {
        let queue = Queue::new();
        let (own, spare) = (Arc::clone(&queue), Arc::<Spare>::default());
        let used = Arc::clone(&spare);
        start("hedgerow-stream", move || {
            let (mut reader, mut is_first) = (Some(batches), true);
            while let Some(batches) = &mut reader {
                let mut state = own.lock();
                if state.items.len() >= AHEAD {
                    while state.items.len() > AHEAD_HALF && !state.is_dropped {
                        state = own.wait(state);
                    }
                }
                if state.is_dropped {
                    return;
                }
                drop(state);
                let begin = Instant::now();
                let mut batch = used.lock().pop().unwrap_or_default();
                let batch =
                    batches.fill(&mut batch).map(|is_more| is_more.then_some(batch)).transpose();
                let is_ended = !matches!(batch, Some(Ok(_)));
                if is_ended {
                    // When the consumer sees the end, nothing is held any more.
                    reader = None;
                }
                let is_slow = std::mem::take(&mut is_first) || begin.elapsed() > SLOW;
                let mut state = own.lock();
                state.is_ended = is_ended;
                state.items.extend(batch);
                if is_ended || is_slow || state.items.len() >= AHEAD_HALF {
                    own.tell(state);
                }
            }
        })?;
        Ok(Self { queue, spare })
    }

    /// The next batch, or how the task is woken when there is one.
    pub fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Batch>>> {
        let mut state = self.queue.lock();
        if let Some(batch) = state.items.pop_front() {
            if state.items.len() <= AHEAD_HALF {
                self.queue.tell(state);
            }
            return Poll::Ready(Some(batch));
        }
        if state.is_ended {
            return Poll::Ready(None);
        }
        state.wakers = vec![context.waker().clone()];
        Poll::Pending
    }

    /// The next batch; `None` after the last one.
    ///
    /// # Errors
    /// As [`Pairs::event`](super::Pairs::event); nothing follows.
    pub async fn next_batch(&mut self) -> Result<Option<Batch>> {
        poll_fn(|context| self.poll_batch(context)).await.transpose()
    }

    /// Puts the next batch in the place of one, whose memory is filled again; false after the last
    /// one.
    ///
    /// # Errors
    /// As [`BatchStream::next_batch`].
    pub async fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        let Some(next) = self.next_batch().await? else { return Ok(false) };
        self.spare.put(std::mem::replace(batch, next));
        Ok(true)
    }

    /// One pair after the other.
    pub fn into_pairs(self) -> PairStream {
        PairStream { batches: self, batch: Arc::default(), n: 0 }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_dropped = true;
        self.queue.tell(state);
    }
}

/// A pair of a batch, which it keeps.
#[derive(Clone, Debug)]
pub struct BatchPair {
    batch: Arc<Batch>,
    n: usize,
}

impl BatchPair {
    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.batch.get(self.n).unwrap_or_default().0
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.batch.get(self.n).unwrap_or_default().1
    }
}

/// The pairs of a store, one after the other, for any executor; made by
/// [`BatchStream::into_pairs`]. With the feature `futures` it is a `futures_core::Stream`.
pub struct PairStream {
    batches: BatchStream,
    batch: Arc<Batch>,
    n: usize,
}

impl PairStream {
    /// The next pair, or how the task is woken when there is one.
    #[inline]
    pub fn poll_pair(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<BatchPair>>> {
        while self.n == self.batch.len() {
            match self.batches.poll_batch(context) {
                Poll::Ready(Some(Ok(batch))) => {
                    let used = std::mem::replace(&mut self.batch, Arc::new(batch));
                    self.n = 0;
                    // Unless the caller still has a pair of it.
                    Arc::into_inner(used).into_iter().for_each(|used| self.batches.spare.put(used));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.n += 1;
        Poll::Ready(Some(Ok(BatchPair { batch: Arc::clone(&self.batch), n: self.n - 1 })))
    }

    /// The next pair; `None` after the last one.
    ///
    /// # Errors
    /// As [`BatchStream::next_batch`].
    pub async fn next_pair(&mut self) -> Result<Option<BatchPair>> {
        poll_fn(|context| self.poll_pair(context)).await.transpose()
    }
}

#[cfg(feature = "futures")]
impl futures_core::Stream for BatchStream {
    type Item = Result<Batch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_batch(context)
    }
}

#[cfg(feature = "futures")]
impl futures_core::Stream for PairStream {
    type Item = Result<BatchPair>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_pair(context)
    }
}

/// A pair on its way into a store.
struct Sent {
    key: Vec<u8>,
    value: Vec<u8>,
    fate: Arc<Fate>,
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
/// The thread commits when the queue is empty, or the sink's [`Cut`](super::Cut) is reached: so
/// many tasks share a commit, and each learns when its pair is durable.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # fn block_on<T>(task: impl Future<Output = T>) -> T {
/// #     let mut task = std::pin::pin!(task);
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop {
/// #         let polled = task.as_mut().poll(&mut context);
/// #         if let std::task::Poll::Ready(done) = polled { return done; }
/// #         std::thread::yield_now();
/// #     }
/// # }
/// use hedgerow::stream::{AsyncSink, Sink};
///
/// let sink = AsyncSink::new(Sink::new(&store, "words")?, 1_000)?;
/// block_on(async {
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
}

impl AsyncSink {
    /// A sink of which the queue takes this number of pairs, at least one.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be had.
    pub fn new<T: Target + Send + 'static>(sink: Sink<T>, room: usize) -> Result<Self> {
        let (queue, report) = (Queue::new(), Arc::default());
        let (own, told) = (Arc::clone(&queue), Arc::clone(&report));
        start("hedgerow-sink", move || write_all(sink, &own, &told))?;
        Ok(Self { shared: Arc::new(Shared { queue, room: room.max(1), report }) })
    }

    /// Waits for room in the queue and puts a pair there; what it returns resolves when the pair is
    /// committed. Dropping that changes nothing.
    pub async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Ack {
        let mut sent = Some((key, value));
        poll_fn(|context| {
            let Shared { queue, room, .. } = &*self.shared;
            let mut state = queue.lock();
            if state.items.len() >= *room && !state.is_dropped {
                state.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            let fate = Arc::<Fate>::default();
            let (key, value) = sent.take().unwrap_or_default();
            if state.is_dropped {
                fate.settle(Err(Error::Rejected { key }));
            } else {
                state.items.push_back(Sent { key, value, fate: Arc::clone(&fate) });
                queue.tell(state);
            }
            Poll::Ready(Ack(fate))
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
        // What is in the queue is still written.
        let mut state = self.queue.lock();
        state.is_ended = true;
        self.queue.tell(state);
    }
}

/// Writes what comes, until no more can come, or the sink takes no more.
fn write_all<T: Target>(mut sink: Sink<T>, queue: &Queue<Sent>, report: &Mutex<SinkReport>) {
    let mut waiting: Vec<(Arc<Fate>, bool)> = Vec::new();
    loop {
        let mut state = queue.lock();
        if state.items.is_empty() && !waiting.is_empty() {
            drop(state);
            let committed = sink.commit();
            settle(&mut sink, report, &mut waiting, committed);
            state = queue.lock();
        }
        while state.items.is_empty() && !state.is_ended && !sink.is_over() {
            state = queue.wait(state);
        }
        if sink.is_over() {
            state.is_dropped = true;
            let rest = std::mem::take(&mut state.items);
            queue.tell(state);
            rest.into_iter().for_each(|sent| refuse(sent.key, &sent.fate));
            return;
        }
        let Some(Sent { key, value, fate }) = state.items.pop_front() else { return };
        queue.tell(state);
        let commits = sink.report().commits;
        match sink.put(&key, &value) {
            Ok(stored) => {
                waiting.push((fate, stored));
                if sink.report().commits > commits || sink.is_over() {
                    let committed = sink.commit();
                    settle(&mut sink, report, &mut waiting, committed);
                }
            }
            Err(error) => {
                fate.settle(Err(error));
                let lost = Err(Error::CommitFailed { reason: "a pair before it failed".into() });
                settle(&mut sink, report, &mut waiting, lost);
            }
        }
    }
}

fn refuse(key: Vec<u8>, fate: &Fate) {
    fate.settle(Err(Error::Rejected { key }));
}

/// Tells the tasks what became of their pairs.
fn settle<T: Target>(
    sink: &mut Sink<T>,
    report: &Mutex<SinkReport>,
    waiting: &mut Vec<(Arc<Fate>, bool)>,
    committed: Result<()>,
) {
    *report.lock().unwrap_or_else(PoisonError::into_inner) = sink.report().clone();
    let reason = committed.err().map(|error| error.to_string());
    for (fate, stored) in waiting.drain(..) {
        fate.settle(match &reason {
            None => Ok(stored),
            Some(reason) => Err(Error::CommitFailed { reason: reason.clone() }),
        });
    }
}
