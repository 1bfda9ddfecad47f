//! The identity of this process and thread, whether another one lives, and how one waits for
//! another.
//!
//! Nothing here touches a lock file.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::memory;
#[cfg(not(all(target_os = "linux", not(shuttle))))]
use crate::sync;
use crate::sync::atomic::AtomicU32;

/// How much a look at a process may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::os) enum Care {
    /// A system call or two.
    Quick,
    /// Reads what the system tells about the process.
    Full,
}

/// What tells one process from all others, ever.
#[derive(Clone, Copy, Debug)]
pub(in crate::os) struct Identity {
    /// The process number.
    pub(super) id: u32,
    /// When it started, in the system's ticks; 0 if unknown.
    pub(super) start: u64,
    /// The namespaces that number and start belong to; 0 if unknown.
    pub(super) namespace: u64,
}

/// This process.
pub(in crate::os) fn this() -> Identity {
    let id = std::process::id();
    let start = stat(id).map_or(0, |stat| stat.start);
    Identity { id, start, namespace: namespace() }
}

/// If /proc shows another namespace than that of this process, its numbers say nothing about other
/// processes; the namespace then counts as unknown.
#[cfg(target_os = "linux")]
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let shown = std::fs::read_link("/proc/self").unwrap_or_default();
    if shown.as_os_str() != std::process::id().to_string().as_str() {
        return 0;
    }
    let number = |name| std::fs::metadata(name).map_or(0, |found| found.ino());
    match number("/proc/self/ns/pid") {
        0 => 0,
        // Processes of different namespaces of time are shown different starts of a process.
        pid => pid ^ number("/proc/self/ns/time").rotate_left(32),
    }
}

/// Other systems have one namespace.
#[cfg(not(target_os = "linux"))]
fn namespace() -> u64 {
    1
}

/// What /proc tells about a process.
struct Stat {
    state: char,
    threads: u64,
    start: u64,
}

impl Stat {
    /// Whether the process has ended. If its first thread has ended before others, it shows as a
    /// zombie although these go on: after a kill they may still be in the middle of a write.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

fn stat(id: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{id}/stat")).ok()?)
}

/// The second field is the program's name in parentheses and may hold anything, so that fields
/// are counted from the last closing one: the third is the state, the 20th the number of threads,
/// the 22nd the start.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(line.get(name_end + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let (threads, start) = (fields.nth(16)?.parse().ok()?, fields.nth(1)?.parse().ok()?);
    Some(Stat { state, threads, start })
}

/// True if `other` is certainly dead. Numbers of other namespaces say nothing to `this` process.
pub(super) fn is_dead(other: Identity, this: Identity, care: Care) -> bool {
    if other.namespace == 0 || other.namespace != this.namespace {
        return false;
    }
    let Some(id) = i32::try_from(other.id).ok().filter(|&id| id > 0) else {
        return false;
    };
    let Some(pid) = rustix::process::Pid::from_raw(id) else {
        return false;
    };
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    care == Care::Full
        && stat(other.id).is_some_and(|now| {
            let another = other.start != 0 && now.start != other.start;
            another || now.has_ended()
        })
}

/// What tells a process from its children without a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    /// A word that differs in a child after a fork; `None`: the process number is used.
    word: Option<&'static AtomicU64>,
    number: u64,
}

impl Token {
    /// That of this process.
    pub(crate) fn of_this() -> Self {
        let word = token_word();
        let number = match word.map(|word| (word, word.load(Ordering::Relaxed))) {
            Some((word, 0)) => new_number(word),
            Some((_, number)) => number,
            None => u64::from(std::process::id()),
        };
        Self { word, number }
    }

    /// Whether this is still the process that it was made in.
    #[inline]
    pub(crate) fn is_of_this(self) -> bool {
        match self.word {
            Some(word) => word.load(Ordering::Relaxed) == self.number,
            None => u64::from(std::process::id()) == self.number,
        }
    }
}

/// Gives a number to a process that has none: it is the first, or a fork wiped its parent's.
#[cold]
fn new_number(word: &AtomicU64) -> u64 {
    // Two processes of one number do not start within the same nanosecond.
    let number = now_unix_ns() << 22 | u64::from(std::process::id()) & 0x3f_ffff | 1 << 63;
    match word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => number,
        Err(number) => number,
    }
}

/// The word that holds the number, which reads as 0 in a child after a fork.
#[cfg(target_os = "linux")]
fn token_word() -> Option<&'static AtomicU64> {
    static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *WORD.get_or_init(memory::wiped_word)
}

#[cfg(not(target_os = "linux"))]
fn token_word() -> Option<&'static AtomicU64> {
    None
}

/// This thread's number, as the system prints it.
pub(super) fn thread() -> u64 {
    thread_local! {
        static THREAD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }
    THREAD.with(|known| {
        let (process, (at, thread)) = (Token::of_this().number, known.get());
        if at == process {
            return thread;
        }
        let thread = thread_number();
        known.set((process, thread));
        thread
    })
}

#[cfg(target_os = "linux")]
fn thread_number() -> u64 {
    rustix::thread::gettid().as_raw_pid() as u64
}

#[cfg(not(target_os = "linux"))]
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The wall clock, to a few milliseconds, without a system call.
pub(super) fn now_unix_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Realtime;
    let now = rustix::time::clock_gettime(clock);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Sleeps until another process wakes this one or `word` is not `seen` any more, at most `most`;
/// may return early.
#[cfg(all(target_os = "linux", not(shuttle)))]
pub(super) fn wait(word: &AtomicU32, seen: u32, most: Duration) {
    use rustix::thread::futex;
    let Ok(most) = futex::Timespec::try_from(most) else { return };
    // The caller looks at the word again, whatever made this return.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&most));
}

/// Sleeps a little, at most `most`.
#[cfg(not(all(target_os = "linux", not(shuttle))))]
pub(super) fn wait(_word: &AtomicU32, _seen: u32, most: Duration) {
    sync::sleep(most.min(Duration::from_millis(1)));
}

/// Wakes one of those that wait for `word`.
pub(super) fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all that wait for `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX as u32);
}

#[cfg(all(target_os = "linux", not(shuttle)))]
fn wake(word: &AtomicU32, most: u32) {
    use rustix::thread::futex;
    // A waiter that is not woken looks again by itself before long.
    let _ = futex::wake(word, futex::Flags::empty(), most);
}

/// Waiters look again by themselves.
#[cfg(not(all(target_os = "linux", not(shuttle))))]
fn wake(_word: &AtomicU32, _most: u32) {}

#[cfg(test)]
mod tests {
    //! A process' line in /proc is read whatever its name, and dead processes are distinguished
    //! from living ones.

    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"12 (a) R 9 (\xff) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.state, stat.start), ('Z', 777));
        assert!(parse_stat(b"12 (short) R 1 2").is_none());
        assert!(parse_stat(b"").is_none());
    }

    #[test]
    fn a_zombie_of_which_threads_go_on_has_not_ended() {
        let line = |state: char, threads: u32| {
            format!("12 (a) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 18 777 20\n")
        };
        let has_ended = |state, threads| parse_stat(line(state, threads).as_bytes());
        let has_ended = |state, threads| has_ended(state, threads).unwrap().has_ended();
        assert!(has_ended('Z', 1) && has_ended('X', 0));
        assert!(!has_ended('Z', 2) && !has_ended('R', 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_start_or_no_such_process_is_dead() {
        let me = this();
        assert!(me.start != 0 && me.namespace != 0);
        assert!(!is_dead(me, me, Care::Full));
        assert!(is_dead(Identity { start: me.start + 1, ..me }, me, Care::Full));
        assert!(!is_dead(Identity { namespace: me.namespace + 1, start: 1, ..me }, me, Care::Full));
        assert!(!is_dead(Identity { id: 0, ..me }, me, Care::Full));
        assert!(!is_dead(Identity { id: u32::MAX, ..me }, me, Care::Full));
        let mut child =
            crate::os::children::spawn(&mut std::process::Command::new("true")).unwrap();
        let id = child.id();
        child.wait().unwrap();
        assert!(is_dead(Identity { id, ..me }, me, Care::Quick));
    }

    #[test]
    fn a_token_is_steady() {
        assert!(Token::of_this().is_of_this());
        assert_eq!(Token::of_this().number, Token::of_this().number);
        assert_eq!(thread(), thread());
        assert_ne!(thread(), std::thread::spawn(thread).join().unwrap());
    }
}
