//! Ctrl-C (and a polite `kill`): raises the interruption flag of every open store once, so that the
//! work stops at the next safe point; when asked a second time, the command ends at once. In both
//! cases nothing that was committed is lost. A file that may not grow any more is an error, and no
//! signal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hedgerow::tree::Interrupt;
use nix::sys::signal::{SigSet, Signal};
#[cfg(feature = "sql")]
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::{Exit, Failure};
use crate::tell::tell;

static RAISED: AtomicBool = AtomicBool::new(false);
/// The command waits for another process that opens the same store.
static OPENING: AtomicBool = AtomicBool::new(false);
static STORES: Mutex<Vec<Interrupt>> = Mutex::new(Vec::new());
/// What is told first; it says whether Ctrl-C asks for nothing else.
#[cfg(feature = "sql")]
static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);
/// How the terminal was before lines were edited in it.
#[cfg(feature = "sql")]
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);
/// What is half-made, and must not be left.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Is told of a request to stop, and says whether it has done all that Ctrl-C asks for.
#[cfg(feature = "sql")]
pub(crate) type Handler = Box<dyn Fn() -> bool + Send>;

/// Has somebody told first.
#[cfg(feature = "sql")]
pub(crate) fn handle(handler: Handler) {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = Some(handler);
}

/// Has the terminal put back as it is now if the command is ended at once.
#[cfg(feature = "sql")]
pub(crate) fn keep_terminal() {
    *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(std::io::stdin()).ok();
}

#[cfg(feature = "sql")]
fn restore_terminal() {
    if let Some(kept) = &*TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) {
        // The terminal may be gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, kept);
    }
}

/// Begins to catch the signals, before there are other threads. They are blocked in all of them,
/// and one waits for them: so they come here whatever handlers a library sets, as that for typed
/// lines does.
pub(crate) fn catch() -> Result<(), Failure> {
    let asks = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    let mut blocked = asks;
    // Where it is blocked, the call that writes has an error.
    blocked.add(Signal::SIGXFSZ);
    let started = blocked.thread_block().map_err(std::io::Error::from).and_then(|()| {
        let wait = move || {
            while let Ok(signal) = asks.wait() {
                on_signal(signal);
            }
        };
        std::thread::Builder::new().name("hedgerow-signals".to_owned()).spawn(wait)
    });
    started.map(drop).map_err(|error| Failure::other(format!("could not catch Ctrl-C: {error}")))
}

/// Opens a store, or does other work that may be ended anywhere without harm. A request to stop
/// ends the command at once: opening may wait for other processes.
pub(crate) fn while_opening<T>(open: impl FnOnce() -> T) -> Result<T, Failure> {
    OPENING.store(true, Ordering::SeqCst);
    let opened = check().map(|()| open());
    OPENING.store(false, Ordering::SeqCst);
    opened
}

/// Has the flag of a store raised as well.
pub(crate) fn attach(interrupt: Interrupt) {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    // A request from now on finds the store in the list.
    if is_raised() {
        interrupt.set(true);
    }
    stores.push(interrupt);
}

/// A file or folder that is being made. It is removed here if the command is ended at once; its
/// maker removes it in all other cases.
pub(crate) struct Left {
    path: PathBuf,
}

impl Left {
    /// Begins.
    pub(crate) fn new(path: PathBuf) -> Self {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Self { path }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
    }
}

/// Removes what is half-made. At this point a failure cannot be reported.
fn remove_left() {
    for path in LEFT.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
}

/// Lowers the flags of the stores again: for what is still to be done.
pub(crate) fn calm() {
    for interrupt in STORES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        interrupt.set(false);
    }
}

/// Whether the command was asked to stop.
pub(crate) fn is_raised() -> bool {
    RAISED.load(Ordering::SeqCst)
}

/// An error if the command was asked to stop: for loops that do not call the store.
pub(crate) fn check() -> Result<(), Failure> {
    if is_raised() { Err(Failure::Interrupted(None)) } else { Ok(()) }
}

/// Tells the handler, and says whether that is all there is to do.
#[cfg(feature = "sql")]
fn is_answered(signal: Signal) -> bool {
    let handler = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    handler.as_ref().is_some_and(|handler| handler()) && signal == Signal::SIGINT
}

#[cfg(not(feature = "sql"))]
fn is_answered(_: Signal) -> bool {
    false
}

/// Runs on the thread that waits for signals, so that it may lock.
fn on_signal(signal: Signal) {
    if is_answered(signal) {
        return;
    }
    let again = RAISED.swap(true, Ordering::SeqCst);
    if again || OPENING.load(Ordering::SeqCst) {
        #[cfg(feature = "sql")]
        restore_terminal();
        tell!("interrupted");
        remove_left();
        std::process::exit(Exit::Interrupted as i32);
    }
    for interrupt in STORES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        interrupt.set(true);
    }
}
