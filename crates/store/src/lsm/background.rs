//! What the background threads wait for, and how writers are slowed where these are late. The
//! threads stand in `threads`, their work in `engine` and `rotate`.

use std::io;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::buffer::ENTRY_BYTES;
use super::commit::pool::Pool;
use super::levels::pace::{self, Behind, Rate, Standing};
use super::log::wal::Notice;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Condvar, Mutex, MutexGuard, locked};
use crate::{Error, Result};

pub(crate) mod threads;

/// How many threads there are. The first one writes buffers to tables.
const THREADS: usize = 3;

/// Starts the thread of a number.
type Start = Box<dyn Fn(usize) -> io::Result<JoinHandle<()>> + Send>;

#[derive(Default)]
struct State {
    /// Empty until there is work for one of them.
    threads: Vec<JoinHandle<()>>,
    start: Option<Start>,
    /// Why not all of them could be started.
    refusal: Option<String>,
    stop: bool,
    flush: bool,
    merge: bool,
    log: bool,
    /// Hints about the log that the system is to get.
    notices: Vec<Notice>,
    /// The last failure; work is tried again when there is more of it.
    failure: Option<String>,
    /// A thread has panicked, and does nothing any more.
    panic: Option<String>,
}

impl State {
    /// Starts the threads that are not there yet. If the system refuses, it is asked again when
    /// there is more work.
    fn start_threads(&mut self) {
        let Some(start) = &self.start else { return };
        while self.threads.len() < THREADS && !self.stop {
            match start(self.threads.len()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    self.refusal = Some(format!("the system starts no thread: {error}"));
                    return;
                }
            }
        }
        self.refusal = None;
    }

    /// Why no buffer becomes a table.
    fn hindrance(&self) -> Option<&String> {
        let refusal = self.refusal.as_ref().filter(|_| self.threads.is_empty());
        self.panic.as_ref().or(self.failure.as_ref()).or(refusal)
    }
}

/// How fast garbage is removed, and how fast buffers become tables.
#[derive(Default)]
struct Rates {
    removing: Rate,
    flushing: Rate,
}

/// What a kibibyte costs writers, see `pace`.
struct Prices {
    /// For the files of the store, while merging and collecting are late.
    files: AtomicU64,
    /// For the room in memory, while all buffers wait for their tables.
    room: AtomicU64,
}

/// What the threads wait for. Without threads, the thread that makes work necessary does it.
pub(crate) struct Background {
    is_on: bool,
    state: Mutex<State>,
    changed: Condvar,
    /// For the thread that looks after the log.
    log_changed: Condvar,
    /// Besides them: threads for asynchronous calls.
    pub(crate) pool: Pool,
    /// What writers must know of the version.
    standing: Mutex<Standing>,
    rates: Mutex<Rates>,
    prices: Prices,
    begun: Instant,
    /// Writers are slowed up to this moment, in microseconds after `begun`.
    paced_us: AtomicU64,
    /// Whether writers had to wait for space since it was last asked.
    is_pressed: AtomicBool,
    /// Whether the disk was nearly full when that was last looked at.
    is_short: AtomicBool,
}

/// The shortest time that a slowed writer sleeps, since sleeping has a cost, and the longest at
/// once.
const SLEEP_US: RangeInclusive<u64> = 500..=100_000;
/// If more notices about the log are waiting, the writer handles them itself, so that the system's
/// cache holds no more of the log.
const NOTICES_MAX: usize = 4;
/// A writer that wrote nothing for this long may catch up.
const CREDIT_US: u64 = 20_000;

impl Background {
    pub(crate) fn new(is_on: bool) -> Self {
        let (changed, log_changed) = (Condvar::default(), Condvar::default());
        let (state, standing) = (Mutex::default(), Mutex::default());
        let rates = Mutex::default();
        let prices = Prices { files: AtomicU64::new(0), room: AtomicU64::new(0) };
        let (begun, paced_us) = (Instant::now(), AtomicU64::new(0));
        let (pool, is_pressed) = (Pool::new(is_on), AtomicBool::new(false));
        let is_short = AtomicBool::new(false);
        Self {
            is_on,
            state,
            changed,
            log_changed,
            pool,
            standing,
            rates,
            prices,
            begun,
            paced_us,
            is_pressed,
            is_short,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// While background work is late, slows down the writer of these bytes and operations, and all
    /// others by as much.
    pub(crate) fn pace(&self, bytes: usize, operations: u64) {
        let files = self.prices.files.load(Ordering::Relaxed);
        let room = self.prices.room.load(Ordering::Relaxed);
        if (files, room) == (0, 0) || !self.is_on {
            return;
        }
        let mut us = pace::delay_us(room, bytes as u64 + operations * ENTRY_BYTES as u64);
        if files > 0 {
            self.press();
            us = us.max(pace::delay_us(files, self.standing().weight(bytes, operations)));
        }
        let now = self.begun.elapsed().as_micros() as u64;
        let later = |paced: u64| {
            let from = paced.max(now.saturating_sub(CREDIT_US));
            Some(from.saturating_add(us).min(now + SLEEP_US.end()))
        };
        let before = self.paced_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let ahead = before.ok().and_then(later).map_or(0, |until| until.saturating_sub(now));
        if ahead >= *SLEEP_US.start() {
            std::thread::sleep(Duration::from_micros(ahead));
        }
    }

    /// Notes how late the background work is.
    pub(crate) fn set_behind(&self, behind: Behind) {
        let is_late = behind != Behind::default();
        let price = if is_late { behind.price(locked(&self.rates).removing) } else { 0 };
        self.prices.files.store(price, Ordering::Relaxed);
    }

    /// Notes how full the newest buffer is, in thousandths, if those before it fill the rest of the
    /// memory.
    pub(crate) fn set_filled(&self, mille: Option<u64>) {
        let price = |mille| pace::room_price(locked(&self.rates).flushing, mille);
        self.prices.room.store(mille.map_or(0, price), Ordering::Relaxed);
    }

    /// Notes that this much garbage was removed in some time.
    pub(crate) fn removed(&self, bytes: u64, time: Duration) {
        let mut rates = locked(&self.rates);
        rates.removing = rates.removing.after(bytes, time);
    }

    /// Notes that a buffer with this many bytes became a table in some time.
    pub(crate) fn flushed(&self, bytes: u64, time: Duration) {
        let mut rates = locked(&self.rates);
        rates.flushing = rates.flushing.after(bytes, time);
    }

    /// Whether the disk was nearly full when that was last looked at.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Notes whether the disk is nearly full.
    pub(crate) fn set_short(&self, yes: bool) {
        self.is_short.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer waits for space.
    fn press(&self) {
        if !self.is_pressed.swap(true, Ordering::Relaxed) {
            self.ask(|state| state.merge = true);
        }
    }

    /// Whether one did since this was last asked.
    pub(crate) fn take_pressure(&self) -> bool {
        self.is_pressed.swap(false, Ordering::Relaxed)
    }

    /// The version changed, or what is known of it: `f` makes its standing of the one before.
    pub(crate) fn update(&self, f: impl FnOnce(&Standing) -> Standing) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        *standing = f(&standing);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How threads are started when there is work for them.
    fn start_by(&self, start: Start) {
        self.lock().start = Some(start);
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.lock());
        self.changed.notify_all();
    }

    /// There is work for a thread. False if there is none that could make a buffer a table.
    fn ask(&self, f: impl FnOnce(&mut State)) -> bool {
        let mut is_heard = false;
        self.change(|state| {
            f(state);
            state.start_threads();
            is_heard = state.stop || !state.threads.is_empty();
        });
        is_heard
    }

    /// A buffer was frozen. False if no thread makes it a table.
    pub(crate) fn wake(&self) -> bool {
        self.ask(|state| (state.flush, state.failure) = (true, None))
    }

    /// The log went on in another segment, or soon will.
    pub(crate) fn wake_log(&self) {
        let mut state = self.lock();
        state.log = true;
        state.start_threads();
        drop(state);
        self.log_changed.notify_one();
    }

    /// Leaves a notice about the log to a thread; gives it back if no thread can take it.
    pub(crate) fn leave(&self, notice: Notice) -> Option<Notice> {
        let mut state = self.lock();
        state.start_threads();
        if state.threads.len() < THREADS || state.notices.len() >= NOTICES_MAX {
            return Some(notice);
        }
        state.notices.push(notice);
        drop(state);
        self.log_changed.notify_one();
        None
    }

    /// There may be room for who waits for it.
    pub(crate) fn tell_of_room(&self) {
        self.change(|_| {});
    }

    /// A buffer went to a table.
    pub(crate) fn made_room(&self) {
        self.ask(|state| state.merge = true);
    }

    /// Tells the threads to end, and those that wait for them; gives them, to be waited for.
    fn stop(&self) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        self.change(|state| {
            state.stop = true;
            threads = std::mem::take(&mut state.threads);
        });
        self.log_changed.notify_one();
        threads
    }

    /// Waits until `has_room`.
    ///
    /// # Errors
    /// If no room is made, since something failed.
    pub(crate) fn wait_for_room(&self, has_room: impl Fn() -> bool) -> Result<()> {
        let mut state = self.lock();
        if !has_room() && state.hindrance().is_some() {
            // What failed is tried again.
            (state.flush, state.failure) = (true, None);
            state.start_threads();
            self.changed.notify_all();
        }
        // After the threads have ended, none of them makes room.
        while !has_room() && !state.stop {
            if let Some(reason) = state.hindrance() {
                return Err(Error::CommitFailed { reason: reason.clone() });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// All that is due was done, by another thread.
    pub(crate) fn went_well(&self) {
        self.change(|state| state.failure = None);
    }

    /// The last failure.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.lock();
        state.failure.as_ref().or(state.refusal.as_ref()).cloned()
    }

    /// Waits for work of a kind, and takes it; `false`: stop.
    fn next(&self, changed: &Condvar, mut take: impl FnMut(&mut State) -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if state.stop {
                return false;
            }
            if take(&mut state) {
                return true;
            }
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    /// A thread has panicked: nobody does its work any more.
    fn note_panic(&self, reason: String) {
        self.change(|state| state.panic = Some(reason));
    }

    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.change(|state| state.failure = Some(error.to_string()));
            // Who is slowed down next has it tried again: the reason may be gone.
            self.is_pressed.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::Durability;
    use crate::lsm::engine::FROZEN_MAX;
    use crate::lsm::read::view::Current;
    use crate::lsm::{Db, Keyspace, Options, Readable};

    /// Hunts for writers that wait for a merge that failed and that nobody tries again.
    #[test]
    fn who_is_slowed_down_has_failed_work_tried_again() {
        let background = Background::new(true);
        background.prices.files.store(1 << 20, Ordering::Relaxed);
        let is_due = || std::mem::take(&mut background.lock().merge);
        background.pace(1, 1);
        assert!(is_due());
        background.pace(1, 1);
        assert!(!is_due(), "the thread is at it");
        background.note(Err(Error::argument("no room")));
        background.pace(1, 1);
        assert!(is_due());
    }

    const BUFFER: usize = 32 << 10;

    fn open(folder: &tempfile::TempDir) -> (Db, Keyspace) {
        let options = Options::new().create(true).durability(Durability::None);
        let db = options.memtable_bytes(BUFFER).open(folder.path().join("db")).unwrap();
        let space = db.keyspace("space", Default::default()).unwrap();
        (db, space)
    }

    fn frozen(db: &Db) -> usize {
        db.inner.with_current(|current| current.frozen.len())
    }

    fn filled(db: &Db) -> u64 {
        let filled = |current: &Current| pace::filled_mille(&current.active, &db.inner.options);
        db.inner.with_current(filled)
    }

    /// The system starts no more threads than this.
    fn allow(db: &Db, threads: usize) {
        let store = Arc::downgrade(&db.inner);
        db.inner.background.start_by(Box::new(move |number| {
            let refused = io::Error::from(io::ErrorKind::WouldBlock);
            if number < threads { threads::start(&store, number) } else { Err(refused) }
        }));
    }

    /// Hunts for writers that fail, or wait for ever, since the system starts no thread.
    #[test]
    fn writers_do_the_work_of_threads_that_could_not_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = open(&folder);
        let put = |n: u32| db.put(&space, &n.to_be_bytes(), &[7; 100]).unwrap();
        let is_refused = || db.inner.background.failure().is_some();
        assert!(!is_refused(), "nobody has asked for one");
        let mut numbers = 0..10_000;
        // None, some, and all of them.
        for threads in 0..=THREADS {
            allow(&db, threads);
            numbers.by_ref().take(2500).for_each(put);
            let tables = db.stat().levels.iter().map(|level| level.tables).sum::<u64>();
            assert!(threads > 0 || tables > 0 && frozen(&db) == 0, "{tables} tables");
            assert_eq!(is_refused(), threads < THREADS);
            assert_eq!(db.inner.background.lock().threads.len(), threads);
        }
        assert!((0..10_000u32).all(|n| db.get(&space, &n.to_be_bytes()).unwrap().is_some()));
        assert!(db.check().unwrap().damage.is_empty());
        db.close().unwrap();
    }

    /// Hunts for writers that wait for ever for room that nobody makes.
    #[test]
    fn a_writer_that_waits_for_room_learns_that_there_is_no_thread() {
        let background = Background::new(true);
        background.start_by(Box::new(|_| Err(io::ErrorKind::WouldBlock.into())));
        assert!(!background.wake());
        let Err(Error::CommitFailed { reason }) = background.wait_for_room(|| false) else {
            panic!("there is no room");
        };
        assert!(reason.contains("thread"), "{reason}");
        background.wait_for_room(|| true).unwrap();
    }

    /// Hunts for writers that go on at full speed until all memory is full, and then wait until a
    /// whole buffer is a table.
    #[test]
    fn writers_are_slowed_the_more_the_less_room_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = open(&folder);
        let put = |n: u32| db.put(&space, &n.to_be_bytes(), &[7; 100]).unwrap();
        let price = || db.inner.background.prices.room.load(Ordering::Relaxed);
        // No buffer becomes a table.
        let sealing = locked(&db.inner.logs.sealing);
        let mut numbers = 0..;
        while frozen(&db) < FROZEN_MAX {
            assert_eq!(price(), 0);
            put(numbers.next().unwrap());
        }
        let mut prices = Vec::new();
        while filled(&db) < 900 {
            put(numbers.next().unwrap());
            prices.push(price());
        }
        assert!(prices.is_sorted() && prices.len() > 50, "{prices:?}");
        assert!(prices[10] > 0 && prices[prices.len() - 1] > 5 * prices[10], "{prices:?}");
        // Nothing of that is a reason to merge more.
        assert!(!db.inner.background.take_pressure());
        drop(sealing);
        db.flush().unwrap();
        (0..10).for_each(put);
        assert_eq!(price(), 0);
    }

    /// Hunts for writers that wait for what is done after a buffer became a table: its files are
    /// looked at, and those of an older version removed.
    #[test]
    fn who_waits_for_room_waits_for_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = open(&folder);
        let ((full, is_full), (done, is_done)) = (mpsc::channel(), mpsc::channel());
        let (go, may_go) = mpsc::channel();
        let price = &db.inner.background.prices.room;
        let sealing = locked(&db.inner.logs.sealing);
        std::thread::scope(|scope| {
            let db = &db;
            scope.spawn(move || {
                while frozen(db) < FROZEN_MAX || filled(db) < 1000 {
                    db.put(&space, &[1], &[7; 100]).unwrap();
                }
                full.send(()).unwrap();
                may_go.recv().unwrap();
                db.put(&space, &[1], &[7; 100]).unwrap();
                done.send(()).unwrap();
            });
            is_full.recv().unwrap();
            price.store(0, Ordering::Relaxed);
            go.send(()).unwrap();
            while price.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            // It waits now, or very soon. Who makes room says then how long that took.
            let rates = locked(&db.inner.background.rates);
            drop(sealing);
            let waited = is_done.recv_timeout(Duration::from_secs(60));
            drop(rates);
            waited.unwrap();
        });
    }
}
