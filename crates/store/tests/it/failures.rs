//! What is left after a call of the system has failed, a thread has panicked, or a record is
//! damaged: what was committed durably stays, and nobody waits for ever.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::channel;
use std::time::Duration;

use hedgerow::lsm::{Batch, Db, Keyspace, Options, Readable as _};
use hedgerow::os::sim::{Config, CrashMode, Fault, Kept, Operation, SimSystem};
use hedgerow::os::{Access, DataFile, Map, Open, RealSystem, Rights, SharedLock, System};
use hedgerow::stream::{AsyncSink, Mode, OnReject, Sink};
use hedgerow::tree::{Snapshot as _, Store, TableOptions};
use hedgerow::{Durability, Error};

fn open(disk: &SimSystem) -> hedgerow::Result<Store> {
    let system = Arc::new(disk.clone());
    Store::builder().log_size(256 << 10).system(system).open_or_create("/store")
}

/// Two keys far from each other, so that a durable commit goes to the log.
fn put(store: &Store, key: u32, durability: Durability) -> hedgerow::Result<()> {
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", &TableOptions::new())?;
    let value = [key as u8; 200];
    txn.put(table, &key.to_be_bytes(), &value)?;
    txn.put(table, &(key.wrapping_mul(2_654_435_761) | 1 << 31).to_be_bytes(), &value)?;
    txn.commit_with(durability)
}

fn with_two_hundred(disk: &SimSystem) -> Store {
    let store = open(disk).unwrap();
    (0..200).for_each(|key| put(&store, key, Durability::Durable).unwrap());
    store
}

/// That the store is sound and has all of these keys.
fn expect_keys(store: &Store, keys: impl Iterator<Item = u32>, of: &str) {
    let problems = store.check(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{of}: {problems:?}");
    let txn = store.begin_read().unwrap();
    let table = txn.table("t").unwrap();
    for key in keys {
        assert!(txn.get(table, &key.to_be_bytes()).unwrap().is_some(), "{of}: {key}");
    }
}

/// Other pages than those of the log may be what could not be written: the system shows them, and
/// forgets them at some time.
#[test]
fn what_a_failed_flush_of_the_log_has_shown_is_not_built_on() {
    for kept in [Kept::None, Kept::Some, Kept::All] {
        let disk = SimSystem::new(7, Config::default());
        let store = with_two_hundred(&disk);
        disk.fail(Operation::Sync, 1, 1, Fault::io(kept));
        put(&store, 200, Durability::Durable).unwrap_err();
        drop(store);
        let store = open(&disk).unwrap();
        put(&store, 300, Durability::Durable).unwrap();
        store.sync().unwrap();
        let store = open(&disk.crash(1, CrashMode::LoseAll)).unwrap();
        expect_keys(&store, (0..200).chain([300]), &format!("{kept:?}"));
    }
}

/// A store that was made without a flush and closed is not taken for one that is on the disk.
#[test]
fn an_empty_durable_commit_brings_a_new_store_to_the_disk() {
    let disk = SimSystem::new(7, Config::default());
    let options = || Store::builder().system(Arc::new(disk.clone()));
    drop(options().durability(Durability::None).create("/store").unwrap());
    let store = options().open("/store").unwrap();
    store.begin_write().unwrap().commit_with(Durability::Durable).unwrap();
    let left = disk.crash(1, CrashMode::LoseAll);
    Store::builder().system(Arc::new(left)).open("/store").unwrap();
}

#[test]
fn a_replay_that_could_not_flush_is_done_again() {
    for (nth, seed) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)] {
        let disk = SimSystem::new(7, Config::default());
        let store = with_two_hundred(&disk);
        let cut = disk.crash(1, CrashMode::LoseAll);
        drop(store);
        cut.fail(Operation::Sync, nth, 1, Fault::io(Kept::None));
        open(&cut).unwrap_err();
        let store = open(&cut).unwrap();
        (1000..1000 + seed * 3).for_each(|key| put(&store, key, Durability::Eventual).unwrap());
        let modes = [CrashMode::Whole, CrashMode::KeepAll, CrashMode::Torn4096];
        let store = open(&cut.crash(seed.into(), modes[seed as usize % 3])).unwrap();
        expect_keys(&store, 0..200, &format!("flush {nth}, seed {seed}"));
    }
}

/// Whatever the commits were, the newest one has two records when its store is closed.
#[test]
fn a_flipped_bit_in_one_meta_page_of_a_closed_store_loses_nothing() {
    for durability in [Durability::None, Durability::Eventual, Durability::Durable] {
        for last in [durability, Durability::Durable] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let store = Store::builder().durability(durability).create(&path).unwrap();
            (0..19).for_each(|key| put(&store, key, durability).unwrap());
            put(&store, 19, last).unwrap();
            drop(store);
            let whole = std::fs::read(&path).unwrap();
            for page in 0..3 {
                let mut bytes = whole.clone();
                bytes[page * 4096 + 100] ^= 1;
                let damaged = folder.path().join(format!("damaged {page}"));
                std::fs::write(&damaged, bytes).unwrap();
                // Twice: the first one writes, and closes it.
                for key in [50, 51] {
                    let of = format!("{durability:?}, {last:?}, page {page}");
                    let store = Store::open(&damaged).unwrap();
                    expect_keys(&store, 0..20, &of);
                    put(&store, key, durability).unwrap();
                }
            }
            // Opening and closing it changes nothing.
            drop(Store::open(&path).unwrap());
            assert!(whole == std::fs::read(&path).unwrap(), "{durability:?}, {last:?}");
        }
    }
}

fn open_db(disk: &SimSystem) -> hedgerow::Result<(Db, Keyspace)> {
    let options = Options::new().create(true).segment_bytes(1 << 20);
    let options = options.durability(Durability::Eventual).system(Arc::new(disk.clone()));
    let db = options.open("/d/store")?;
    let space = db.keyspace("s", Default::default())?;
    Ok((db, space))
}

/// The segment before the one to which the write failed is not on the disk yet.
#[test]
fn a_power_cut_after_a_failed_write_of_the_log_leaves_a_store_that_opens() {
    for seed in 0..40 {
        let disk = SimSystem::new(seed, Config::default());
        let (db, space) = open_db(&disk).unwrap();
        db.sync().unwrap();
        let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "log");
        let logs = || disk.files().into_iter().filter(is_log).count();
        let put = |n: u8| db.put(&space, &[n], &vec![n | 1; 70 << 10]);
        let before = logs();
        let mut n = 0;
        while logs() == before {
            put(n).unwrap();
            n += 1;
        }
        put(n).unwrap();
        disk.fail(Operation::Write, 1, 1, Fault::full(Kept::None));
        put(n + 1).unwrap_err();
        put(n + 2).unwrap();
        open_db(&disk.crash(seed, CrashMode::Whole)).unwrap();
    }
}

#[test]
fn the_identity_of_an_lsm_store_outlives_a_power_cut() {
    let disk = SimSystem::new(1, Config::default());
    let (db, space) = open_db(&disk).unwrap();
    let id = db.id().unwrap();
    db.put(&space, b"key", b"value").unwrap();
    db.sync().unwrap();
    let (db, _) = open_db(&disk.crash(1, CrashMode::LoseAll)).unwrap();
    assert_eq!(db.id().unwrap(), id);
}

/// An empty durable batch is a barrier.
#[test]
fn an_empty_batch_takes_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let space = db.keyspace("s", Default::default()).unwrap();
    for round in 0..300_u32 {
        let mut batch = Batch::new();
        for n in 0..100_u32 {
            let key = [round.to_be_bytes(), n.to_be_bytes()].concat();
            batch.put(&space, &key, &[1; 100]).unwrap();
        }
        db.write_then(batch, Durability::None, |_| {});
        let (tell, told) = channel();
        db.write_then(Batch::new(), Durability::Durable, move |done| tell.send(done).unwrap());
        told.recv().unwrap().unwrap();
        let last = [round.to_be_bytes(), 99_u32.to_be_bytes()].concat();
        assert!(db.get(&space, &last).unwrap().is_some(), "{round}");
    }
}

/// The real system, in which some things go wrong.
#[derive(Default)]
struct Broken {
    /// Making a table of the lsm engine panics.
    tables_panic: bool,
    /// Making one is refused, as long as this holds.
    has_no_room: Arc<AtomicBool>,
    /// No descriptor is left for flushing a folder.
    has_no_descriptor: bool,
    /// Is called after each flush of a file, and says what became of it.
    after_sync: Option<AfterSync>,
}

type AfterSync = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

struct BrokenFile {
    file: Arc<dyn DataFile>,
    after_sync: AfterSync,
}

impl DataFile for BrokenFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(parts, offset)
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        self.file.start_writeback(offset, len);
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        (self.after_sync)()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn map(&self, reserve: u64, access: Access) -> io::Result<Option<Map>> {
        self.file.map(reserve, access)
    }
    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        self.file.uptime_evidence()
    }
}

impl System for Broken {
    fn open_data(&self, path: &Path, how: Open, mode: u32) -> io::Result<Arc<dyn DataFile>> {
        let is_table = path.extension().is_some_and(|end| end == "table");
        let makes_table = is_table && how == Open::Create;
        assert!(!(self.tables_panic && makes_table), "as planned");
        if makes_table && self.has_no_room.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = RealSystem.open_data(path, how, mode)?;
        Ok(match &self.after_sync {
            Some(after_sync) => Arc::new(BrokenFile { file, after_sync: Arc::clone(after_sync) }),
            None => file,
        })
    }
    fn open_lock(
        &self,
        path: &Path,
        read_only: bool,
        rights: Rights<'_>,
    ) -> io::Result<Arc<SharedLock>> {
        RealSystem.open_lock(path, read_only, rights)
    }
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match self.has_no_descriptor {
            true => Err(io::Error::from_raw_os_error(24)),
            false => RealSystem.sync_directory(path),
        }
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealSystem.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealSystem.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealSystem.link(from, to)
    }
    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        RealSystem.create_directory(path, mode)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        RealSystem.list(path)
    }
    fn lock_exclusive(&self, path: &Path, mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>> {
        RealSystem.lock_exclusive(path, mode)
    }
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        RealSystem.lock_shared(path)
    }
    fn flushes_in_background(&self) -> bool {
        self.tables_panic || self.has_no_room.load(SeqCst)
    }
}

/// Two openers as of two processes: while one is between the flush of its commit and the publishing
/// of it, the other one is told that something failed. What the first one says then must be so.
#[test]
fn a_failure_in_one_process_takes_no_commit_of_another_that_was_promised() {
    for other in ["has no descriptor", "cannot flush"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        drop(Store::create(&path).unwrap());
        let open = |system: Broken| Store::builder().system(Arc::new(system)).open(&path).unwrap();
        let failing = Broken {
            has_no_descriptor: other == "has no descriptor",
            after_sync: (other == "cannot flush")
                .then(|| -> AfterSync { Arc::new(|| Err(io::ErrorKind::Other.into())) }),
            ..Broken::default()
        };
        let (failing, syncs) = (Arc::new(open(failing)), Arc::new(AtomicU32::new(u32::MAX / 2)));
        let (count, asked) = (Arc::clone(&syncs), Arc::clone(&failing));
        let after_sync: AfterSync = Arc::new(move || {
            // The pages were flushed before, and now the record was.
            if count.fetch_add(1, SeqCst) == 1 {
                asked.sync().unwrap_err();
            }
            Ok(())
        });
        let writer = open(Broken { after_sync: Some(after_sync), ..Broken::default() });
        put(&writer, 1, Durability::Durable).unwrap();
        put(&writer, 2, Durability::Eventual).unwrap();
        syncs.store(0, SeqCst);
        let promised = put(&writer, 3, Durability::Durable);
        assert!(syncs.load(SeqCst) >= 2, "{other}: the commit flushes twice");
        assert_eq!(promised.is_ok(), other == "has no descriptor", "{other}: {promised:?}");
        drop((writer, failing));
        let keys = if promised.is_ok() { 1..4 } else { 1..2 };
        expect_keys(&Store::open(&path).unwrap(), keys, other);
    }
}

#[test]
fn writers_learn_that_a_background_thread_panicked() {
    let folder = tempfile::tempdir().unwrap();
    let system = Broken { tables_panic: true, ..Broken::default() };
    let options = Options::new().create(true).memtable_bytes(64 << 10).system(Arc::new(system));
    let db = options.open(folder.path().join("db")).unwrap();
    let space = db.keyspace("s", Default::default()).unwrap();
    let (tell, told) = channel();
    let writer = db.clone();
    std::thread::spawn(move || {
        let put = |n: u32| writer.put(&space, &n.to_be_bytes(), &[1; 1000]);
        tell.send((0..10_000).try_for_each(put)).unwrap();
    });
    let error = told.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
}

#[test]
fn a_failure_of_background_work_is_told_until_it_went_well() {
    let folder = tempfile::tempdir().unwrap();
    let has_no_room = Arc::new(AtomicBool::new(true));
    let system = Broken { has_no_room: Arc::clone(&has_no_room), ..Broken::default() };
    let options = Options::new().create(true).memtable_bytes(64 << 10).system(Arc::new(system));
    let db = options.open(folder.path().join("db")).unwrap();
    let space = db.keyspace("s", Default::default()).unwrap();
    let put = |n: u32| db.put(&space, &n.to_be_bytes(), &[1; 1000]);
    (0..10_000).try_for_each(put).unwrap_err();
    assert!(db.stat().failure.is_some());
    db.compact().unwrap_err();
    has_no_room.store(false, SeqCst);
    db.compact().unwrap();
    (0..1000).try_for_each(put).unwrap();
    db.compact().unwrap();
    assert_eq!(db.stat().failure, None);
}

#[test]
fn who_waits_for_a_sink_learns_that_it_panicked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let sink = Sink::new(&store, "t").unwrap().mode(Mode::New);
    let sink = sink.on_reject(OnReject::Call(Box::new(|_| panic!("as planned"))));
    let sink = AsyncSink::new(sink, 10).unwrap();
    pollster::block_on(async {
        let mut told = Vec::new();
        for key in [b"a", b"a", b"b"] {
            told.push(sink.put(key.to_vec(), b"value".to_vec()).await);
        }
        for ack in told {
            let error = ack.await.unwrap_err();
            let is_told = matches!(error, Error::CommitFailed { .. } | Error::Rejected { .. });
            assert!(is_told, "{error}");
        }
    });
}
