//! The threads that serve asynchronous calls: reads, and leading commits if there is no waiting
//! thread that could lead. They are started when there is work for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::reply::Reply;
use crate::lsm::engine::Inner;
use crate::lsm::entry::full_key;
use crate::lsm::keyspace::Keyspace;
use crate::lsm::read::search::Value;
use crate::lsm::read::view::View;
use crate::sync::{Condvar, Mutex, locked};

/// The upper bound of threads.
const THREADS_MAX: usize = 8;
/// A thread takes at most this many reads at once.
const READS_MAX: usize = 128;

/// Something to do.
pub(crate) enum Task {
    /// Reading one key: keys that are requested at the same time are read together.
    Get(Get),
    /// Anything else.
    Other(Box<dyn FnOnce(&Inner) + Send>),
}

/// A key to be read.
pub(crate) struct Get {
    pub(crate) keyspace: Keyspace,
    pub(crate) key: Vec<u8>,
    pub(crate) reply: Reply<Option<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    is_stopped: bool,
}

/// The threads and what they are to do.
pub(crate) struct Pool {
    /// Without threads, the calling thread does everything.
    is_on: bool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Pool {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, state: Mutex::default(), changed: Condvar::default() }
    }

    /// The tasks that a thread does next; `None`: stop.
    fn next(&self) -> Option<Vec<Task>> {
        let mut state = locked(&self.state);
        loop {
            if !state.tasks.is_empty() {
                return Some(take(&mut state.tasks));
            }
            if state.is_stopped {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Ends the threads when they have done everything. From then on, the calling thread does
    /// everything.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = locked(&self.state);
            state.is_stopped = true;
            std::mem::take(&mut state.threads)
        };
        self.changed.notify_all();
        let own = std::thread::current().id();
        // A callback may close the store, on one of these threads.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
    }
}

/// The first tasks: one, or a fair share of the reads there.
fn take(tasks: &mut VecDeque<Task>) -> Vec<Task> {
    let reads = tasks.iter().take_while(|task| matches!(task, Task::Get(_))).count();
    let share = reads.div_ceil(THREADS_MAX).clamp(1, READS_MAX);
    tasks.drain(..share.min(tasks.len())).collect()
}

impl Inner {
    /// Has a task done by a thread of the pool, or here and now if no thread is available.
    pub(crate) fn ask(self: &Arc<Self>, task: Task) {
        if let Some(task) = self.push(task, Some(self)) {
            self.run(vec![task]);
        }
    }

    /// The same where threads are there already, if they are to be at all.
    pub(crate) fn ask_again(&self, task: Task) {
        if let Some(task) = self.push(task, None) {
            self.run(vec![task]);
        }
    }

    /// Gives the task back if no thread will do it.
    fn push(&self, task: Task, starter: Option<&Arc<Self>>) -> Option<Task> {
        if !self.directory.is_ours() {
            return Some(task);
        }
        let mut state = locked(&self.background.pool.state);
        if !self.background.pool.is_on || state.is_stopped {
            return Some(task);
        }
        if state.idle <= state.tasks.len() && state.threads.len() < THREADS_MAX {
            state.threads.extend(starter.and_then(start));
        }
        if state.threads.is_empty() {
            return Some(task);
        }
        state.tasks.push_back(task);
        drop(state);
        self.background.pool.changed.notify_one();
        None
    }

    fn run(&self, tasks: Vec<Task>) {
        let mut gets: BTreeMap<u32, Vec<Get>> = BTreeMap::new();
        for task in tasks {
            match task {
                Task::Get(get) => gets.entry(get.keyspace.id()).or_default().push(get),
                Task::Other(work) => work(self),
            }
        }
        gets.into_values().for_each(|gets| self.answer(gets));
    }

    /// Reads keys of a keyspace together, and answers each.
    fn answer(&self, gets: Vec<Get>) {
        let Some(keyspace) = gets.first().map(|get| get.keyspace.clone()) else { return };
        let view = View::now(self);
        let (keys, replies): (Vec<_>, Vec<_>) =
            gets.into_iter().map(|get| (get.key, get.reply)).unzip();
        match view.values(&keyspace, &keys) {
            Ok(values) => {
                replies.into_iter().zip(values).for_each(|(reply, value)| reply.send(Ok(value)));
            }
            // Each learns whether it is its own key that cannot be read.
            Err(_) => {
                for (key, reply) in keys.iter().zip(replies) {
                    let value = view.get(&full_key(keyspace.id(), key));
                    reply.send(value.map(|value| value.map(Value::into_vec)));
                }
            }
        }
    }
}

/// A new thread, if the system grants it.
fn start(inner: &Arc<Inner>) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(inner);
    let work = move || {
        while let Some(tasks) = shared.background.pool.next() {
            // A task that panics tells its waiter; the thread goes on.
            let run = std::panic::AssertUnwindSafe(|| shared.run(tasks));
            let _ = std::panic::catch_unwind(run);
        }
    };
    std::thread::Builder::new().name("hedgerow-ask".to_string()).spawn(work).ok()
}
