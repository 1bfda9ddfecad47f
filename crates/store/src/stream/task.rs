//! Asynchronous streams: a thread of their own does what may wait, once a run of pairs and never
//! once a pair. Any executor can poll them.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::held::Run;
use super::kept::{Kept, Lender};
use super::pairs::Pairs;
use super::sink::{Sink, SinkReport, Target};
use super::source::{Snapshot, Source};
use crate::tree::Bytes;
use crate::{Error, Result};

/// This many runs are read ahead at most.
const AHEAD: usize = 8;
/// When at most this many of them are left, the thread goes on. A consumer that waits is woken when
/// this many are there, since a thread takes as long to wake as it takes to read some thousand
/// pairs; meanwhile the other half is read.
const AHEAD_HALF: usize = AHEAD / 2;
/// A consumer that waits is woken at once if reading a run takes longer than this.
const SLOW: Duration = Duration::from_micros(250);

/// What a thread and the tasks that use it share: a queue, and the task that waits for it.
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

/// The pairs of a store in runs, for any executor; made by [`Scan::stream`](super::Scan::stream).
///
/// A thread reads at most eight runs ahead, and waits for the consumer then. A consumer that waits
/// is woken with the first run, and then by fours where reading them is quick.
///
/// In the tree engine nothing is copied: the runs, also those that nobody has asked for yet, keep
/// the snapshot until they are dropped. Their pages were in memory when the thread gave them. A
/// consumer that may be slow sets a [time after which the stream is
/// parked](super::Scan::park_after); then the runs are copies, and keep nothing.
///
/// With the feature `futures` it is a `futures_core::Stream`.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::stream::{Run, Scan, Sink};
///
/// let mut sink = Sink::new(&store, "words")?;
/// sink.extend(["ash", "elm"].map(|word| Ok::<_, hedgerow::Error>((word, "tree"))))?;
/// sink.finish()?;
/// let mut stream = Scan::new("words").stream(&store)?;
/// let mut pairs = Scan::new("words").stream(&store)?.into_pairs();
/// drop(store);
/// pollster::block_on(async {
///     let (mut run, mut words) = (Run::default(), Vec::new());
///     while stream.fill(&mut run).await? {
///         words.extend(run.iter().map(|(word, _)| word.to_vec()));
///     }
///     assert_eq!(words, [b"ash", b"elm"]);
///     let ash = pairs.next_pair().await?.unwrap();
///     drop(pairs);
///     assert_eq!(ash.value(), b"tree");
///     Ok::<_, hedgerow::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RunStream<S: Snapshot> {
    queue: Arc<Queue<Result<Run<S>>>>,
    spare: Arc<Spare<S>>,
}

/// Runs that the consumer has done with, whose memory the thread fills again.
struct Spare<S: Snapshot>(Mutex<Vec<Run<S>>>);

impl<S: Snapshot> Spare<S> {
    fn lock(&self) -> MutexGuard<'_, Vec<Run<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, mut run: Run<S>) {
        let is_used = !run.is_empty();
        // It keeps no snapshot while it waits.
        run.clear();
        let mut runs = self.lock();
        if is_used && runs.len() <= AHEAD {
            runs.push(run);
        }
    }
}

/// What the thread of a stream does.
struct Reading<S: Source> {
    queue: Arc<Queue<Result<Run<S::Snapshot>>>>,
    spare: Arc<Spare<S::Snapshot>>,
    /// How much room the last run needed.
    room: (usize, usize, usize),
}

impl<S: Source> Reading<S> {
    fn run(mut self, mut pairs: Pairs<S>) {
        let mut is_first = true;
        while self.has_room() {
            let begin = Instant::now();
            // A function of an order is the caller's, and may panic.
            let read = catch_unwind(AssertUnwindSafe(|| self.read(&mut pairs).transpose()));
            let read = read.unwrap_or_else(|_| {
                Some(Err(Error::argument("the thread of a stream panicked while it read")))
            });
            let is_slow = std::mem::take(&mut is_first) || begin.elapsed() > SLOW;
            let is_over = !matches!(read, Some(Ok(_)));
            if is_over {
                // When the consumer sees the end, nothing is held any more.
                drop(pairs);
                self.tell(read, true, true);
                return;
            }
            self.tell(read, is_slow, false);
        }
    }

    /// Waits until there is room in the queue; false if nobody reads it any more.
    fn has_room(&self) -> bool {
        let mut state = self.queue.lock();
        if state.items.len() >= AHEAD {
            while state.items.len() > AHEAD_HALF && !state.is_dropped {
                state = self.queue.wait(state);
            }
        }
        !state.is_dropped
    }

    /// The next run; `None` after the last one.
    fn read(&mut self, pairs: &mut Pairs<S>) -> Result<Option<Run<S::Snapshot>>> {
        let mut run = self.spare.lock().pop().unwrap_or_default();
        // A new one gets memory once, and not in steps that each copy what is there.
        run.reserve(self.room);
        pairs.fill_for_another(&mut run)?;
        self.room = run.room();
        Ok((!run.is_empty()).then_some(run))
    }

    fn tell(&self, read: Option<Result<Run<S::Snapshot>>>, at_once: bool, is_ended: bool) {
        let mut state = self.queue.lock();
        state.is_ended = is_ended;
        state.items.extend(read);
        if at_once || state.items.len() >= AHEAD_HALF {
            self.queue.tell(state);
        }
    }
}

impl<S: Snapshot> RunStream<S> {
    pub(super) fn new(pairs: Pairs<impl Source<Snapshot = S>>) -> Result<Self> {
        let (queue, spare) = (Queue::new(), Arc::new(Spare(Mutex::default())));
        let reading =
            Reading { queue: Arc::clone(&queue), spare: Arc::clone(&spare), room: (0, 0, 0) };
        start("hedgerow-stream", move || reading.run(pairs))?;
        Ok(Self { queue, spare })
    }

    /// The next run, or how the task is woken when there is one.
    pub fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Run<S>>>> {
        let mut state = self.queue.lock();
        if let Some(run) = state.items.pop_front() {
            if state.items.len() <= AHEAD_HALF {
                self.queue.tell(state);
            }
            return Poll::Ready(Some(run));
        }
        if state.is_ended {
            return Poll::Ready(None);
        }
        state.wakers = vec![context.waker().clone()];
        Poll::Pending
    }

    /// The next run; `None` after the last one.
    ///
    /// # Errors
    /// As [`Pairs::event`](super::Pairs::event); nothing follows.
    pub async fn next_run(&mut self) -> Result<Option<Run<S>>> {
        poll_fn(|context| self.poll_run(context)).await.transpose()
    }

    /// Puts the next run in the place of one, whose memory is filled again; false after the last
    /// one.
    ///
    /// # Errors
    /// As [`RunStream::next_run`].
    pub async fn fill(&mut self, run: &mut Run<S>) -> Result<bool> {
        // The snapshot is not kept while there is nothing to be read.
        self.spare.put(std::mem::take(run));
        let next = self.next_run().await?;
        let is_more = next.is_some();
        *run = next.unwrap_or_default();
        Ok(is_more)
    }

    /// One pair after the other.
    pub fn into_pairs(self) -> PairStream<S> {
        PairStream { runs: self, run: None, n: 0, len: 0 }
    }
}

impl<S: Snapshot> Drop for RunStream<S> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_dropped = true;
        self.queue.tell(state);
    }
}

/// A pair of a [`PairStream`], which stays readable as long as this is kept: also after the stream
/// and the handle of the store are gone. It keeps the [`Run`] that it was read in, and so, in the
/// tree engine, the snapshot.
pub struct RunPair<S: Snapshot> {
    run: Kept<Run<S>>,
    n: usize,
}

impl<S: Snapshot> RunPair<S> {
    /// The key.
    #[inline]
    pub fn key(&self) -> Bytes<'_> {
        self.run.get(self.n).unwrap_or_default().0
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> Bytes<'_> {
        self.run.get(self.n).unwrap_or_default().1
    }

    /// A copy of key and value, which keeps nothing.
    pub fn to_owned(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key().to_vec(), self.value().to_vec())
    }
}

impl<S: Snapshot> Clone for RunPair<S> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone(), n: self.n }
    }
}

impl<S: Snapshot> fmt::Debug for RunPair<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPair").field("key", &self.key()).field("value", &self.value()).finish()
    }
}

/// The pairs of a store, one after the other, for any executor; made by [`RunStream::into_pairs`].
/// With the feature `futures` it is a `futures_core::Stream`.
pub struct PairStream<S: Snapshot> {
    runs: RunStream<S>,
    run: Option<Lender<Run<S>>>,
    /// The next pair of it, and how many it has.
    n: usize,
    len: usize,
}

impl<S: Snapshot> PairStream<S> {
    /// The next pair, or how the task is woken when there is one.
    #[inline]
    pub fn poll_pair(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RunPair<S>>>> {
        loop {
            if let Some(run) = &mut self.run
                && self.n < self.len
            {
                self.n += 1;
                return Poll::Ready(Some(Ok(RunPair { run: run.lend(), n: self.n - 1 })));
            }
            match self.poll_run(context) {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Lets go of the run that was read, unless the caller has a pair of it, and takes the next
    /// one.
    #[inline(never)]
    fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<()>>> {
        let used = self.run.take().and_then(Lender::into_inner);
        used.into_iter().for_each(|run| self.runs.spare.put(run));
        self.runs.poll_run(context).map_ok(|run| {
            (self.n, self.len) = (0, run.len());
            self.run = Some(Lender::new(run));
        })
    }

    /// The next pair; `None` after the last one.
    ///
    /// # Errors
    /// As [`RunStream::next_run`].
    pub async fn next_pair(&mut self) -> Result<Option<RunPair<S>>> {
        poll_fn(|context| self.poll_pair(context)).await.transpose()
    }
}

#[cfg(feature = "futures")]
impl<S: Snapshot> futures_core::Stream for RunStream<S> {
    type Item = Result<Run<S>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_run(context)
    }
}

#[cfg(feature = "futures")]
impl<S: Snapshot> futures_core::Stream for PairStream<S> {
    type Item = Result<RunPair<S>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_pair(context)
    }
}

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
/// The thread commits when the queue is empty, or the sink's [`Cut`](super::Cut) is reached: so
/// many tasks share a commit, and each learns when its pair is durable.
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
        // What is in the queue is still written.
        let mut state = self.queue.lock();
        state.is_ended = true;
        self.queue.tell(state);
    }
}

/// Writes what comes, until no more can come, or the sink takes no more.
fn write_all<T: Target>(mut sink: Sink<T>, queue: &Queue<Sent>, report: &Mutex<SinkReport>) {
    let mut waiting: Vec<(Promise, bool)> = Vec::new();
    let _end = End(queue);
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
            for Sent { key, fate, .. } in rest {
                fate.settle(Err(Error::Rejected { key }));
            }
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
fn settle<T: Target>(
    sink: &mut Sink<T>,
    report: &Mutex<SinkReport>,
    waiting: &mut Vec<(Promise, bool)>,
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

#[cfg(test)]
#[path = "task/tests.rs"]
mod tests;
