//! Models of concurrency: readers, writers, groups of commits and the death of processes, on the
//! simulated disk, under a scheduler that chooses by a seed which thread goes on at each access to
//! what they share (see the module `sync` of the library). Run with
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/schedules \
//!     cargo test -p hedgerow --test it schedules::
//! ```
//!
//! `SCHEDULES` in the environment says how many are tried of each model. What fails prints a
//! schedule that `shuttle::replay` runs again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use hedgerow::Durability;
use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::tree::{ReadTxn, Snapshot, Store, TableOptions, WriteTxn};
use hedgerow::{Error, Result};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn, yield_now};

const PATH: &str = "/disk/store";
/// All commits write these many entries, with values that fill a few pages.
const KEYS: u64 = 40;

/// Tries many schedules of a model.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("SCHEDULES").map_or(300, |text| text.parse().unwrap());
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let model = Arc::new(model);
    // Threads in small steps, and threads that run far before another one does.
    let (small, far) = (Arc::clone(&model), model);
    shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(move || small());
    shuttle::Runner::new(PctScheduler::new(3, schedules), config).run(move || far());
}

fn open(disk: &SimSystem) -> Result<Store> {
    Store::builder().system(Arc::new(disk.clone())).open(PATH)
}

/// A store in which every entry has the number 0.
fn create(disk: &SimSystem) -> Store {
    let store = Store::builder().system(Arc::new(disk.clone())).create(PATH).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for key in 0..KEYS {
        txn.put(table, &key.to_be_bytes(), &value(0)).unwrap();
    }
    txn.commit().unwrap();
    store
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(40)
}

/// One transaction: every entry gets the next number, which is the answer.
fn raise(store: &Store, durability: Durability) -> Result<u64> {
    let mut txn = store.begin_write()?;
    let number = raise_in(&mut txn)?;
    txn.commit_with(durability)?;
    Ok(number)
}

fn raise_in(txn: &mut WriteTxn) -> Result<u64> {
    let table = txn.table("t")?;
    let number = number_of(&txn.get(table, &0_u64.to_be_bytes())?.unwrap().to_vec()) + 1;
    for key in 0..KEYS {
        txn.put(table, &key.to_be_bytes(), &value(number))?;
        if key % 16 == 0 {
            yield_now();
        }
    }
    Ok(number)
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

/// The number that all entries of the newest snapshot have.
fn look(store: &Store) -> Result<u64> {
    look_at(&store.begin_read()?)
}

/// The number that all entries of a snapshot have.
fn look_at(txn: &ReadTxn) -> Result<u64> {
    let table = txn.table("t")?;
    let number = number_of(&txn.get(table, &0_u64.to_be_bytes())?.unwrap().to_vec());
    for key in 0..KEYS {
        // Others may go on while this snapshot is looked at.
        if key % 8 == 0 {
            yield_now();
        }
        let found = txn.get(table, &key.to_be_bytes())?.unwrap().to_vec();
        assert!(found == value(number), "key {key} of snapshot {number}: {}", number_of(&found));
    }
    assert_eq!(txn.count(table)?.keys, KEYS);
    Ok(number)
}

fn any_durability() -> Durability {
    let all = [Durability::Durable, Durability::Eventual, Durability::None];
    all[thread_rng().gen_range(0..all.len())]
}

/// Looks several times: whole snapshots, and never an older one than before. Every second one is
/// the one before, refreshed.
fn reader(store: Store, times: u32) -> JoinHandle<()> {
    spawn(move || {
        let (mut last, mut txn) = (0, store.begin_read().unwrap());
        for time in 0..times {
            match time % 2 {
                0 => txn = store.begin_read().unwrap(),
                _ => _ = txn.refresh().unwrap(),
            }
            let number = look_at(&txn).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
    })
}

fn writer(store: Store, times: u64) -> JoinHandle<()> {
    spawn(move || {
        for _ in 0..times {
            let number = raise(&store, any_durability()).unwrap();
            assert!(look(&store).unwrap() >= number, "a commit is not seen by its own thread");
        }
    })
}

/// A power cut now, of any kind, takes back no commit up to that number.
fn is_durable(disk: &SimSystem, number: u64) {
    let mode = CrashMode::ALL[thread_rng().gen_range(0..CrashMode::ALL.len())];
    let image = disk.crash(thread_rng().gen_range(0..u64::MAX), mode);
    assert!(look(&open(&image).unwrap()).unwrap() >= number, "lost {number}");
}

fn is_sound(store: &Store) {
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

/// Threads of one process: no reader sees half a commit, pages that are read are not reused.
#[test]
fn readers_beside_writers() {
    explore(|| {
        let store = create(&SimSystem::new(1, Config::default()));
        let mut all = vec![writer(store.clone(), 3), writer(store.clone(), 3)];
        all.extend([reader(store.clone(), 4), reader(store.clone(), 4)]);
        let syncing = store.clone();
        all.push(spawn(move || syncing.sync().unwrap()));
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(look(&store).unwrap(), 6);
        is_sound(&store);
    });
}

/// A reader that stops anywhere in its beginning, while another process commits and reuses pages.
#[test]
fn a_reader_begins_slowly() {
    explore(|| {
        let disk = SimSystem::new(5, Config::default());
        let store = create(&disk);
        let reading = reader(open(&disk.process()).unwrap(), 2);
        for _ in 0..8 {
            raise(&store, any_durability()).unwrap();
        }
        reading.join().unwrap();
        assert_eq!(look(&store).unwrap(), 8);
        is_sound(&store);
    });
}

/// The same with processes, each of which opens the store for itself and closes it again.
#[test]
fn processes_beside_each_other() {
    explore(|| {
        let disk = SimSystem::new(2, Config::default());
        let store = create(&disk);
        let mut all = vec![writer(store.clone(), 2), reader(store.clone(), 2)];
        for _ in 0..2 {
            let disk = disk.process();
            all.push(spawn(move || {
                let store = open(&disk).unwrap();
                let (write, read) = (writer(store.clone(), 2), reader(store, 3));
                write.join().unwrap();
                read.join().unwrap();
            }));
        }
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(look(&store).unwrap(), 6);
        assert_eq!(store.readers().unwrap().len(), 0);
        is_sound(&store);
    });
}

/// Threads that commit durably share flushes: when a commit returns, no power cut takes it back.
/// One that gives up in between leaves no trace.
#[test]
fn commits_that_share_a_flush() {
    explore(|| {
        let disk = SimSystem::new(3, Config::default());
        let store = create(&disk);
        let mut all = Vec::new();
        for _ in 0..3 {
            let (store, disk) = (store.clone(), disk.clone());
            all.push(spawn(move || {
                for _ in 0..2 {
                    let number = raise(&store, Durability::Durable).unwrap();
                    is_durable(&disk, number);
                }
            }));
        }
        let quitter = store.clone();
        all.push(spawn(move || {
            for _ in 0..2 {
                let mut txn = quitter.begin_write().unwrap();
                let table = txn.table("t").unwrap();
                txn.put(table, b"trace", b"").unwrap();
                drop(txn);
            }
        }));
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(look(&store).unwrap(), 6);
        is_sound(&store);
    });
}

/// Functions that share commits, beside transactions that share flushes: when a call returns, no
/// power cut takes back what it did. One that fails leaves no trace.
#[test]
fn functions_that_share_commits() {
    explore(|| {
        let disk = SimSystem::new(5, Config::default());
        let store = create(&disk);
        let mut all = Vec::new();
        for thread in 0..3 {
            let (store, disk) = (store.clone(), disk.clone());
            all.push(spawn(move || {
                for _ in 0..2 {
                    let number = match thread {
                        0 => raise(&store, Durability::Durable).unwrap(),
                        _ => store.write_with(Durability::Durable, raise_in).unwrap(),
                    };
                    is_durable(&disk, number);
                }
            }));
        }
        let quitter = store.clone();
        all.push(spawn(move || {
            for _ in 0..2 {
                let answer = quitter.write(|txn| {
                    raise_in(txn)?;
                    Err::<(), _>(Error::Interrupted)
                });
                assert!(matches!(answer, Err(Error::Interrupted)));
            }
        }));
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(look(&store).unwrap(), 6);
        is_sound(&store);
    });
}

/// A process dies at any access to what it shares, while it opens, reads, writes or commits: the
/// others go on with every commit that had returned, and get its lock and its reader slots.
#[test]
fn a_process_dies_anywhere() {
    explore(|| {
        let disk = SimSystem::new(4, Config::default());
        let store = create(&disk);
        let mut all = vec![writer(store.clone(), 2), reader(store.clone(), 3)];
        let told = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let (disk, told) = (disk.process(), Arc::clone(&told));
            let doomed = spawn(move || {
                disk.die_at(thread_rng().gen_range(0..400));
                let life = || {
                    let store = open(&disk).unwrap();
                    for _ in 0..3 {
                        let number = raise(&store, any_durability()).unwrap();
                        told.fetch_max(number, SeqCst);
                        assert!(look(&store).unwrap() >= number);
                    }
                };
                let end = catch_unwind(AssertUnwindSafe(life));
                // It died, or it was done before.
                disk.die_at(u64::MAX);
                disk.kill();
                if let Err(panic) = end
                    && panic.downcast_ref() != Some(&"died")
                {
                    resume_unwind(panic);
                }
            });
            all.push(doomed);
        }
        all.into_iter().for_each(|thread| thread.join().unwrap());
        let last = raise(&store, Durability::Durable).unwrap();
        assert!(last > told.load(SeqCst), "a commit was lost");
        assert_eq!(look(&store).unwrap(), last);
        assert_eq!(store.readers().unwrap().len(), 0);
        is_sound(&store);
    });
}
