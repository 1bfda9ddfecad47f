//! Asynchronous streams: a thread of their own does what may wait, once a run of pairs and never
//! once a pair. Any executor can poll them.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "futures")]
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::held::Run;
use super::kept::{Kept, Lender};
use super::pairs::Pairs;
use super::source::{Snapshot, Source};
use crate::tree::Bytes;
use crate::{Error, Result};

mod sink;

pub use sink::{Ack, AsyncSink};

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

/// What a thread works with. It takes the lock while it does, and never while it tells others.
type Slot<T> = Mutex<Option<T>>;

fn lock<T>(slot: &Slot<T>) -> MutexGuard<'_, Option<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What can be taken from the thread that works with it, once that does not.
trait LetGo: Send + Sync {
    /// Drops it.
    fn let_go(&self);
}

impl<T: Send> LetGo for Slot<T> {
    fn let_go(&self) {
        let taken = lock(self).take();
        drop(taken);
    }
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
/// Dropping it waits for the run that is being read, if one is, and then holds nothing of the store
/// any more.
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
    pairs: Arc<dyn LetGo>,
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
    fn run(mut self, slot: &Slot<Pairs<S>>) {
        let mut is_first = true;
        while self.has_room() {
            let begin = Instant::now();
            let mut held = lock(slot);
            let Some(pairs) = &mut *held else { return };
            // A function of an order is the caller's, and may panic.
            let read = catch_unwind(AssertUnwindSafe(|| self.read(pairs).transpose()));
            let read = read.unwrap_or_else(|_| {
                Some(Err(Error::argument("the thread of a stream panicked while it read")))
            });
            let is_slow = std::mem::take(&mut is_first) || begin.elapsed() > SLOW;
            let is_over = !matches!(read, Some(Ok(_)));
            if is_over {
                // When the consumer sees the end, nothing is held any more.
                *held = None;
            }
            let mut state = self.queue.lock();
            state.is_ended = is_over;
            match state.is_dropped {
                true => drop(read),
                false => state.items.extend(read),
            }
            // Whoever drops the stream finds the run in the queue, or gone.
            drop(held);
            if is_slow || is_over || state.items.len() >= AHEAD_HALF {
                self.queue.tell(state);
            }
            if is_over {
                return;
            }
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
}

impl<S: Snapshot> RunStream<S> {
    pub(super) fn new(pairs: Pairs<impl Source<Snapshot = S>>) -> Result<Self> {
        let (queue, spare) = (Queue::new(), Arc::new(Spare(Mutex::default())));
        let reading =
            Reading { queue: Arc::clone(&queue), spare: Arc::clone(&spare), room: (0, 0, 0) };
        let pairs = Arc::new(Mutex::new(Some(pairs)));
        let own = Arc::clone(&pairs);
        start("hedgerow-stream", move || reading.run(&own))?;
        Ok(Self { queue, spare, pairs })
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
        let rest = std::mem::take(&mut state.items);
        self.queue.tell(state);
        drop(rest);
        self.pairs.let_go();
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

#[cfg(test)]
#[path = "task/tests.rs"]
mod tests;
