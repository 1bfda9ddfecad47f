//! All backs do the same: what is read and written, short reads, errors of single requests; and
//! what becomes of a process that may not have rings.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::*;
use crate::os::sim::{Config, SimSystem};
use crate::os::{Access, DataFile, Open, RealSystem, System};

/// Set in a child process that may not have rings.
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
const DENIED: &str = "HEDGEROW_TEST_RINGS_DENIED";

/// Each back, with a system whose files it serves.
fn backs() -> Vec<(Arc<dyn Io>, Box<dyn System>)> {
    let disk = SimSystem::new(1, Config::default());
    vec![
        (open(Choice::Auto), Box::new(RealSystem)),
        (open(Choice::Threads), Box::new(RealSystem)),
        (Arc::new(InOrder), Box::new(RealSystem)),
        (disk.aio(Choice::Auto), Box::new(disk)),
    ]
}

/// A file of `len` bytes, each of which says where it stands.
fn file(system: &dyn System, folder: &Path, len: usize) -> Arc<dyn DataFile> {
    let file = system.open_data(&folder.join("file"), Open::Create, 0o600).unwrap();
    file.write_at(&[io::IoSlice::new(&content(0, len))], 0).unwrap();
    file
}

fn content(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8 ^ (at / 4_096) as u8).collect()
}

fn request(
    token: u64,
    action: Action,
    file: &Arc<dyn DataFile>,
    at: u64,
    buffer: Buffer,
) -> Request {
    Request { token, action, file: Arc::clone(file), offset: at, buffer }
}

fn read(token: u64, file: &Arc<dyn DataFile>, at: u64, len: usize) -> Request {
    request(token, Action::Read, file, at, Buffer::new(len))
}

/// All that is in flight, by token.
fn finish(queue: &mut dyn Queue) -> BTreeMap<u64, Completion> {
    let mut done = Vec::new();
    queue.turn(usize::MAX, &mut done).unwrap();
    assert_eq!(queue.in_flight(), 0);
    done.into_iter().map(|completion| (completion.token, completion)).collect()
}

#[test]
fn all_backs_read_and_write_the_same_bytes() {
    const LEN: usize = 100_000;
    for (io, system) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&*system, folder.path(), LEN);
        let pool = Pool::new(ALIGN, 16);
        let mut queue = io.queue(16, Some(&pool));
        assert_eq!((queue.back(), queue.depth()), (io.back(), 16));
        for round in 0..20_u64 {
            for token in 0..16 {
                let buffer = pool.take().unwrap_or_else(|| Buffer::new(ALIGN));
                let at = (round * 16 + token) * 37 % 90_000;
                queue.push(request(token, Action::Read, &file, at, buffer));
            }
            for (token, completion) in finish(&mut *queue) {
                let at = (round * 16 + token) * 37 % 90_000;
                assert_eq!(completion.result.unwrap(), ALIGN, "{}", io.back());
                assert_eq!(completion.buffer[..], content(at as usize, ALIGN));
            }
        }
        for token in 0..16 {
            let mut buffer = Buffer::new(1_000 * token as usize);
            buffer.fill(token as u8);
            queue.push(request(token, Action::Write, &file, LEN as u64 + token * 20_000, buffer));
        }
        let written = finish(&mut *queue);
        assert!(
            written.iter().all(|(token, it)| *it.result.as_ref().unwrap() as u64 == token * 1_000)
        );
        let mut bytes = vec![0; 15_000];
        file.read_at(&mut bytes, LEN as u64 + 15 * 20_000).unwrap();
        assert_eq!(bytes, [15; 15_000], "{}", io.back());
    }
}

#[test]
fn a_read_stops_where_the_file_ends() {
    for (io, system) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&*system, folder.path(), 10_000);
        let mut queue = io.queue(8, None);
        for (token, at) in [0, 9_000, 10_000, 50_000].into_iter().enumerate() {
            queue.push(read(token as u64, &file, at, 5_000));
        }
        let done = finish(&mut *queue);
        let lens: Vec<usize> = done.values().map(|it| *it.result.as_ref().unwrap()).collect();
        assert_eq!(lens, [5_000, 1_000, 0, 0], "{}", io.back());
        assert_eq!(done[&1].buffer[..1_000], content(9_000, 1_000));
    }
}

/// A file that a queue keeps open would keep its room on the disk when it is removed. The lock is
/// that of the open file, until everybody has closed it.
#[test]
fn a_queue_at_rest_keeps_no_file_open() {
    for choice in [Choice::Auto, Choice::Threads] {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = open(choice).queue(8, None);
        let file = file(&RealSystem, folder.path(), 10_000);
        let own = file.descriptor().unwrap().try_clone_to_owned().unwrap();
        std::fs::File::from(own).try_lock().unwrap();
        let other = std::fs::File::open(folder.path().join("file")).unwrap();
        other.try_lock().unwrap_err();
        queue.push(read(0, &file, 0, 5_000));
        assert_eq!(*finish(&mut *queue)[&0].result.as_ref().unwrap(), 5_000);
        drop(file);
        other.try_lock().unwrap();
    }
}

#[test]
fn an_error_is_that_of_its_request() {
    for (io, _) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let good = file(&RealSystem, folder.path(), 10_000);
        let path = folder.path().join("file");
        let closed = RealSystem.open_data(&path, Open::Read, 0).unwrap();
        let mut queue = io.queue(4, None);
        queue.push(read(1, &good, 0, 100));
        queue.push(request(2, Action::Write, &closed, 0, Buffer::new(100)));
        queue.push(read(3, &closed, 100, 100));
        let done = finish(&mut *queue);
        let code = done[&2].result.as_ref().unwrap_err().raw_os_error();
        assert_eq!(code, Some(libc::EBADF), "{}", io.back());
        assert_eq!(done[&1].buffer[..], content(0, 100));
        assert_eq!(done[&3].buffer[..], content(100, 100));
    }
}

#[test]
fn a_turn_waits_for_as_many_as_are_wanted() {
    for (io, system) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&*system, folder.path(), 100_000);
        let mut queue = io.queue(8, None);
        let mut done = Vec::new();
        queue.turn(5, &mut done).unwrap();
        assert!(done.is_empty());
        (0..8).for_each(|token| queue.push(read(token, &file, token * 4_096, 4_096)));
        queue.turn(3, &mut done).unwrap();
        assert!(done.len() >= 3 && done.len() + queue.in_flight() == 8);
        while queue.in_flight() > 0 {
            queue.turn(0, &mut done).unwrap();
        }
        assert_eq!(done.len(), 8);
    }
}

#[test]
fn a_queue_that_is_dropped_waits_for_its_requests() {
    for (io, system) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&*system, folder.path(), 1 << 20);
        let pool = Pool::new(1 << 16, 8);
        for _ in 0..50 {
            let mut queue = io.queue(8, Some(&pool));
            for token in 0..8 {
                let buffer = pool.take().unwrap_or_else(|| Buffer::new(1 << 16));
                queue.push(request(token, Action::Read, &file, token << 16, buffer));
            }
            queue.turn(1, &mut Vec::new()).unwrap();
        }
    }
}

/// A file whose reads take their time; how many have ended.
struct Slow {
    file: Arc<dyn DataFile>,
    ended: AtomicUsize,
}

impl DataFile for Slow {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(5));
        self.file.read_at(buffer, offset)?;
        self.ended.fetch_add(1, SeqCst);
        Ok(())
    }
    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(parts, offset)
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        self.file.start_writeback(offset, len);
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn map(&self, reserve: u64, access: Access) -> io::Result<Option<crate::os::Map>> {
        self.file.map(reserve, access)
    }
    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        self.file.uptime_evidence()
    }
}

#[test]
fn a_request_that_was_begun_is_over_when_it_was_waited_for_or_dropped() {
    for (io, system) in backs() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&*system, folder.path(), 10_000);
        let slow = Arc::new(Slow { file, ended: AtomicUsize::new(0) });
        let slow_file: Arc<dyn DataFile> = Arc::clone(&slow) as _;
        let ended = || slow.ended.load(SeqCst);
        let begun = io.begin(read(7, &slow_file, 2_000, 9_000));
        let done = std::thread::spawn(move || begun.wait()).join().unwrap();
        assert_eq!((done.token, done.result.unwrap(), ended()), (7, 8_000, 1), "{}", io.back());
        assert_eq!(done.buffer[..8_000], content(2_000, 8_000));
        drop(io.begin(read(8, &slow_file, 0, 1_000)));
        // Where it would be served when it is waited for, it never is.
        let expected = if io.back() == "in order" { 1 } else { 2 };
        assert_eq!((ended(), Arc::strong_count(&slow)), (expected, 2), "{}", io.back());
        let begun: Vec<Begun> = (0..40).map(|at| io.begin(read(at, &slow_file, at, 10))).collect();
        for (at, begun) in (0..).zip(begun) {
            assert_eq!(begun.wait().buffer[..], content(at, 10), "{}", io.back());
        }
        let error = io.begin(request(9, Action::Write, &closed(folder.path()), 0, Buffer::new(9)));
        let refused = error.wait().result.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF), "{}", io.back());
    }
}

/// A file that takes no writes.
fn closed(folder: &Path) -> Arc<dyn DataFile> {
    let path = folder.join("closed");
    std::fs::write(&path, b"content").unwrap();
    RealSystem.open_data(&path, Open::Read, 0).unwrap()
}

#[test]
fn more_files_than_a_ring_knows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = open(Choice::Auto).queue(4, None);
    for round in 0..2 {
        let mut kept = Vec::new();
        for number in 0..150_u8 {
            let path = folder.path().join(format!("{round}-{number}"));
            let file = RealSystem.open_data(&path, Open::Create, 0o600).unwrap();
            file.write_at(&[io::IoSlice::new(&[number; 64])], 0).unwrap();
            queue.push(read(u64::from(number), &file, 0, 64));
            let done = finish(&mut *queue);
            assert_eq!(done[&u64::from(number)].buffer[..], [number; 64]);
            if number % 3 == 0 {
                kept.push(file);
            }
        }
    }
}

#[test]
#[should_panic(expected = "more than 2 requests at a time")]
fn a_queue_takes_no_more_than_its_depth() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&RealSystem, folder.path(), 10);
    let mut queue = open(Choice::Auto).queue(2, None);
    (0..3).for_each(|token| queue.push(read(token, &file, 0, 10)));
}

#[test]
fn files_are_read_past_the_cache_where_that_is_taken() {
    // Folders of build results lie on disks, those of the system for temporary files often do not.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for choice in [Choice::Auto, Choice::Threads] {
        let path = folder.path().join(format!("{choice:?}"));
        std::fs::write(&path, content(0, 10_000)).unwrap();
        let file = RealSystem.open_data(&path, Open::Write, 0).unwrap();
        let is_direct = file.set_direct(true);
        let mut queue = open(choice).queue(4, None);
        (0..4).for_each(|token| queue.push(read(token, &file, token * 4_096, 4_096)));
        let done = finish(&mut *queue);
        let lens: Vec<usize> = done.values().map(|it| *it.result.as_ref().unwrap()).collect();
        assert_eq!(lens, [4_096, 4_096, 1_808, 0]);
        assert_eq!(done[&2].buffer[..1_808], content(8_192, 1_808));
        queue.push(read(9, &file, 1, 4_096));
        let odd = finish(&mut *queue).remove(&9).unwrap().result;
        assert_eq!(odd.is_err(), is_direct, "{odd:?}");
        assert!(!file.set_direct(false));
        queue.push(read(9, &file, 1, 4_095));
        assert_eq!(finish(&mut *queue)[&9].buffer[..], content(1, 4_095));
    }
}

/// Makes io_uring_setup answer EPERM in this process, as containers do.
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
#[expect(unsafe_code, reason = "a filter of system calls")]
fn deny_rings() -> io::Result<()> {
    /// A statement of a filter: code, jumps, constant.
    fn statement(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let mut filter = [
        // The number of the call stands at the beginning of what the filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls take numbers and a pointer to a program that is alive; the calls keep no
    // pointer. They are safe between fork and exec.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    if results == [0, 0] { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs itself in a child process that may not have rings.
#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
#[expect(unsafe_code, reason = "what a child process does before it begins")]
fn where_rings_are_denied_threads_serve() {
    use std::os::unix::process::CommandExt as _;
    if std::env::var_os(DENIED).is_some() {
        let io = open(Choice::Ring);
        assert_eq!(io.back(), "threads");
        let folder = tempfile::tempdir().unwrap();
        let file = file(&RealSystem, folder.path(), 10_000);
        let mut queue = io.queue(4, None);
        (0..4).for_each(|token| queue.push(read(token, &file, token * 2_000, 2_000)));
        let done = finish(&mut *queue);
        assert!((0..4).all(|n| done[&n].buffer[..] == content(n as usize * 2_000, 2_000)));
        let begun = io.begin(read(5, &file, 3_000, 2_000)).wait();
        assert_eq!(begun.buffer[..], content(3_000, 2_000));
        return;
    }
    let name = "os::aio::tests::where_rings_are_denied_threads_serve";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name]).env(DENIED, "1");
    // SAFETY: it makes two system calls and nothing else, as a child after fork may.
    unsafe { child.pre_exec(deny_rings) };
    child.stdout(std::process::Stdio::piped());
    let output = crate::os::children::spawn(&mut child).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
