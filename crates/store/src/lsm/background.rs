//! What the background threads wait for, and how writers are slowed where these are late. The
//! threads stand in `threads`, their work in `engine` and `rotate`.

use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::commit::pool::Pool;
use super::levels::pace::{self, Behind, Rate, Standing};
use super::log::wal::Notice;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};

pub(crate) mod threads;

#[derive(Default)]
struct State {
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
    /// How fast garbage is removed.
    rate: Mutex<Rate>,
    /// What a kibibyte costs writers, see `pace`.
    price: AtomicU64,
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
        let (rate, price) = (Mutex::default(), AtomicU64::new(0));
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
            rate,
            price,
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
        let price = self.price.load(Ordering::Relaxed);
        if price == 0 || !self.is_on {
            return;
        }
        self.press();
        let us = pace::delay_us(price, self.standing().weight(bytes, operations));
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
        let rate = || *self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let price = if behind == Behind::default() { 0 } else { behind.price(rate()) };
        self.price.store(price, Ordering::Relaxed);
    }

    /// Notes that this much garbage was removed in some time.
    pub(crate) fn removed(&self, bytes: u64, time: Duration) {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        *rate = rate.after(bytes, time);
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
            self.change(|state| state.merge = true);
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

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.lock());
        self.changed.notify_all();
    }

    fn change_log(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.lock());
        self.log_changed.notify_one();
    }

    /// A buffer was frozen.
    pub(crate) fn wake(&self) {
        self.change(|state| (state.flush, state.failure) = (true, None));
    }

    /// The log went on in another segment, or soon will.
    pub(crate) fn wake_log(&self) {
        if self.is_on {
            self.change_log(|state| state.log = true);
        }
    }

    /// Leaves a notice about the log to a thread; gives it back if no thread can take it.
    pub(crate) fn leave(&self, notice: Notice) -> Option<Notice> {
        if !self.is_on || self.lock().notices.len() >= NOTICES_MAX {
            return Some(notice);
        }
        self.change_log(|state| state.notices.push(notice));
        None
    }

    /// A buffer went to a table.
    pub(crate) fn made_room(&self) {
        self.change(|state| state.merge = true);
    }

    fn stop(&self) {
        self.change(|state| state.stop = true);
        self.log_changed.notify_one();
    }

    /// Waits until `has_room`.
    ///
    /// # Errors
    /// If no room is made, since something failed.
    pub(crate) fn wait_for_room(&self, has_room: impl Fn() -> bool) -> Result<()> {
        let mut state = self.lock();
        if !has_room() && state.failure.take().is_some() {
            // What failed is tried again.
            state.flush = true;
            self.changed.notify_all();
        }
        // After the threads have ended, none of them makes room.
        while !has_room() && !state.stop {
            if let Some(reason) = state.panic.as_ref().or(state.failure.as_ref()) {
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
        self.lock().failure.clone()
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
    use super::*;

    /// Hunts for writers that wait for a merge that failed and that nobody tries again.
    #[test]
    fn who_is_slowed_down_has_failed_work_tried_again() {
        let background = Background::new(true);
        background.price.store(1 << 20, Ordering::Relaxed);
        let is_due = || std::mem::take(&mut background.lock().merge);
        background.pace(1, 1);
        assert!(is_due());
        background.pace(1, 1);
        assert!(!is_due(), "the thread is at it");
        background.note(Err(Error::argument("no room")));
        background.pace(1, 1);
        assert!(is_due());
    }
}
