//! What the features `tracing` and `metrics` tell of a few operations of both engines, and that the
//! table of names in the documentation is neither short nor long of one.
//!
//! The stores are on a simulated disk, where background work is done by the thread that causes it:
//! a recorder and a subscriber of this thread see all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use hedgerow::lsm::Readable;
use hedgerow::os::sim::{CrashMode, Fault, Kept, Operation, SimSystem};
use hedgerow::tree::{Store, TableOptions};
use hedgerow::{Durability, lsm};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An event: its level, its name, its fields. A span has the name alone.
#[derive(Clone, Debug, Default)]
struct Told {
    level: String,
    name: String,
    fields: BTreeMap<String, String>,
}

impl Told {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap()
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.name = format!("{value:?}"),
            name => drop(self.fields.insert(name.to_string(), format!("{value:?}"))),
        }
    }
}

/// Everything that is told, in its order; of what other threads tell nothing is kept.
#[derive(Clone, Default)]
struct Listener(Option<Arc<Mutex<Vec<Told>>>>);

impl Listener {
    fn keep(&self, told: impl FnOnce() -> Told) {
        if let Some(list) = &self.0 {
            list.lock().unwrap().push(told());
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "hedgerow"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.keep(|| {
            let (level, name) = ("SPAN".to_string(), span.metadata().name().to_string());
            let mut told = Told { level, name, ..Told::default() };
            span.record(&mut told);
            told
        });
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        self.keep(|| {
            let level = event.metadata().level().to_string();
            let mut told = Told { level, ..Told::default() };
            event.record(&mut told);
            told
        });
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A number's name and, where it has them, its labels beside the store.
type Numbers = BTreeMap<String, DebugValue>;

/// What is told while `f` runs.
fn watch(f: impl FnOnce()) -> (Vec<Told>, Numbers) {
    let (list, recorder) = (Arc::default(), DebuggingRecorder::new());
    let listener = Listener(Some(Arc::clone(&list)));
    let numbers = recorder.snapshotter();
    let run = || metrics::with_local_recorder(&recorder, f);
    tracing::subscriber::with_default(listener, run);
    let mut found = Numbers::new();
    for (key, _, _, value) in numbers.snapshot().into_vec() {
        let mut name = key.key().name().to_string();
        let mut labels = key.key().labels();
        assert!(labels.any(|label| label.key() == "store" && label.value().starts_with("/disk/")));
        labels.for_each(|label| name.push_str(&format!(" {}", label.value())));
        found.insert(name, value);
    }
    let told = list.lock().unwrap().clone();
    (told, found)
}

/// The events of a name.
fn events<'t>(told: &'t [Told], name: &str) -> Vec<&'t Told> {
    told.iter().filter(|told| told.name == name && told.level != "SPAN").collect()
}

fn counter(numbers: &Numbers, name: &str) -> u64 {
    match numbers.get(name) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name} is {other:?}"),
    }
}

fn gauge(numbers: &Numbers, name: &str) -> u64 {
    match numbers.get(name) {
        Some(DebugValue::Gauge(value)) => value.0 as u64,
        other => panic!("{name} is {other:?}"),
    }
}

/// How often a histogram was told something, and the sum.
fn histogram(numbers: &Numbers, name: &str) -> (usize, f64) {
    match numbers.get(name) {
        Some(DebugValue::Histogram(values)) => {
            (values.len(), values.iter().map(|value| value.0).sum())
        }
        other => panic!("{name} is {other:?}"),
    }
}

const STORE: &str = "/disk/store";

/// Gives a subscriber to the threads of other tests, too. Without one, a place that tells something
/// and is reached by such a thread for the first time, while this one gets its subscriber, may
/// count as of interest to nobody from then on.
fn subscribe_all_threads() {
    tracing::subscriber::set_global_default(Listener::default()).unwrap();
    // A thread that is looking at such a place without it is done with that now.
    std::thread::sleep(Duration::from_millis(100));
    tracing::callsite::rebuild_interest_cache();
}

/// What every test begins with.
fn disk() -> Arc<SimSystem> {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(subscribe_all_threads);
    Arc::new(SimSystem::new(3, Default::default()))
}

/// Puts some entries that are scattered in a table of some pages.
fn put(store: &Store, round: u8, durability: Durability) {
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for i in 0..6_u8 {
        txn.put(table, &[i], &[round; 1500]).unwrap();
    }
    txn.commit_with(durability).unwrap();
}

#[test]
fn commits_and_checkpoints_of_the_tree_engine() {
    let disk = disk();
    let mut pages = 0;
    let (told, numbers) = watch(|| {
        let store = Store::builder().log_size(64 << 10).system(disk.clone()).create(STORE).unwrap();
        for round in 0..4 {
            put(&store, round, Durability::Durable);
        }
        put(&store, 4, Durability::None);
        store.sync().unwrap();
        pages = store.stat().unwrap().pages;
    });
    let commits = events(&told, "commit");
    assert!(commits.iter().all(|told| told.level == "TRACE" && told.number("pages") > 2));
    let ways: Vec<_> = commits.iter().map(|told| told.fields["way"].as_str()).collect();
    assert_eq!((ways[0], ways[4]), ("\"flush\"", "\"none\""));
    let logged = ways.iter().filter(|way| **way == "\"log\"").count() as u64;
    assert!((1..4).contains(&logged), "{ways:?}");
    let numbers_of: Vec<u64> = commits.iter().map(|told| told.number("commit")).collect();
    assert!(numbers_of.is_sorted() && numbers_of[0] > 0);
    assert!(commits.iter().all(|told| told.fields["store"] == STORE));
    assert!(commits.iter().all(|told| told.number("bytes") == 4096 * told.number("pages")));
    let spans = told.iter().filter(|told| told.level == "SPAN" && told.name == "commit");
    assert_eq!(spans.count(), 5);
    let checkpoint = *events(&told, "checkpoint").last().unwrap();
    assert_eq!((&*checkpoint.level, checkpoint.number("commit")), ("DEBUG", numbers_of[4]));

    assert_eq!(counter(&numbers, "hedgerow_tree_commit_count none"), 1);
    assert_eq!(counter(&numbers, "hedgerow_tree_commit_count log"), logged);
    let sum: u64 = commits.iter().map(|told| told.number("pages")).sum();
    assert_eq!(histogram(&numbers, "hedgerow_tree_commit_pages"), (5, sum as f64));
    let (count, seconds) = histogram(&numbers, "hedgerow_tree_commit_seconds");
    assert!(count == 5 && seconds > 0.0);
    assert_eq!(gauge(&numbers, "hedgerow_tree_pages"), pages);
    assert_eq!(gauge(&numbers, "hedgerow_tree_commit"), numbers_of[4]);
    assert_eq!(gauge(&numbers, "hedgerow_tree_durable_commit"), numbers_of[4]);
}

#[test]
fn what_an_opening_replays() {
    let disk = disk();
    let store = Store::builder().log_size(64 << 10).system(disk.clone()).create(STORE).unwrap();
    let db = lsm::Options::new().create(true).system(disk.clone()).open("/disk/db").unwrap();
    let space = db.keyspace("k", Default::default()).unwrap();
    for round in 0..4 {
        put(&store, round, Durability::Durable);
        db.put(&space, &[round], b"value").unwrap();
    }
    let newest = store.begin_read().unwrap().id();
    let after = Arc::new(disk.crash(7, CrashMode::LoseAll));
    let (told, numbers) = watch(|| {
        drop(Store::builder().system(after.clone()).open(STORE).unwrap());
        let db = lsm::Options::new().system(after.clone()).open("/disk/db").unwrap();
        assert_eq!(db.newest_commit(), 5);
    });
    let replayed = events(&told, "replay");
    assert_eq!(replayed.iter().map(|told| &*told.level).collect::<Vec<_>>(), ["DEBUG"; 2]);
    let records = replayed[0].number("records");
    assert!((1..=4).contains(&records));
    assert_eq!(replayed[0].number("commit"), newest);
    // The keyspace and the four values.
    assert_eq!((replayed[1].number("entries"), replayed[1].number("commit")), (5, 5));
    let opened: Vec<u64> = events(&told, "open").iter().map(|told| told.number("commit")).collect();
    assert_eq!(opened, [newest, 5]);
    assert_eq!(histogram(&numbers, "hedgerow_tree_replay_records"), (1, records as f64));
    assert_eq!(histogram(&numbers, "hedgerow_lsm_replay_entries"), (1, 5.0));
}

#[test]
fn failures_and_readers_that_hold_back_pages() {
    let disk = disk();
    let store = Store::builder().log_size(0).system(disk.clone()).create(STORE).unwrap();
    put(&store, 0, Durability::Durable);
    let (told, numbers) = watch(|| {
        let reader = store.begin_read().unwrap();
        put(&store, 1, Durability::Durable);
        put(&store, 2, Durability::Durable);
        let stat = store.stat().unwrap();
        assert!(stat.pinned_pages > 0);
        drop(reader);
        disk.fail(Operation::Sync, 1, 1, Fault::io(Kept::None));
        let mut txn = store.begin_write().unwrap();
        txn.create_table("u", &TableOptions::new()).unwrap();
        assert!(txn.commit().is_err());
        let absent = Store::builder().system(disk.clone()).open("/disk/absent");
        assert!(absent.is_err());
    });
    let held = events(&told, "a reader holds back pages");
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].number("process"), u64::from(std::process::id()));
    assert_eq!(held[0].number("pages"), gauge(&numbers, "hedgerow_tree_pinned_pages"));
    assert_eq!(gauge(&numbers, "hedgerow_tree_readers"), 1);
    let errors: Vec<_> = told.iter().filter(|told| told.level == Level::ERROR.as_str()).collect();
    assert_eq!(errors.len(), 1, "{told:?}");
    assert_eq!((&*errors[0].name, &*errors[0].fields["store"]), ("commit", STORE));
    assert!(errors[0].fields["error"].contains(STORE));
    assert_eq!(counter(&numbers, "hedgerow_tree_commit_failure"), 1);
    // That there is no store is what a caller may find out.
    let expected = told.iter().find(|told| told.level == "DEBUG" && told.name == "open").unwrap();
    assert_eq!(expected.fields["store"], "/disk/absent");
    assert!(!numbers.contains_key("hedgerow_tree_open_failure"));
}

#[test]
fn writing_merging_and_collecting_in_the_log_structured_engine() {
    let disk = disk();
    let mut stat = lsm::DbStat::default();
    let (told, numbers) = watch(|| {
        let db = crate::golden::lsm::options().system(disk.clone()).open("/disk/db").unwrap();
        crate::golden::lsm::fill(&db);
        let small = db.find_keyspace("small").unwrap().unwrap();
        assert!(db.get(&small, b"key-00").unwrap().is_some());
        stat = db.stat();
    });
    let tables: u64 = events(&told, "flush").iter().map(|told| told.number("tables")).sum();
    assert_eq!(histogram(&numbers, "hedgerow_lsm_flush_tables").1, tables as f64);
    assert!(events(&told, "merge").iter().any(|told| told.number("entries") > 20));
    let collected = events(&told, "collect");
    assert!(
        collected.iter().any(|told| told.number("segments") > 0 && told.number("bytes") > 4000)
    );
    assert_eq!(counter(&numbers, "hedgerow_lsm_collect_count"), collected.len() as u64);
    assert_eq!(counter(&numbers, "hedgerow_lsm_compact_count"), 1);
    let commits = events(&told, "commit");
    let operations: u64 = commits.iter().map(|told| told.number("entries")).sum();
    assert_eq!(
        (operations, commits.last().unwrap().number("commit")),
        (stat.last_seq, stat.last_seq)
    );
    assert_eq!(counter(&numbers, "hedgerow_lsm_commit_count none"), 1);
    assert_eq!(counter(&numbers, "hedgerow_lsm_commit_count log"), commits.len() as u64 - 1);
    assert_eq!(counter(&numbers, "hedgerow_lsm_reads_gets"), stat.reads.gets);
    assert!(stat.reads.gets > 0);
    assert_eq!(gauge(&numbers, "hedgerow_lsm_segment_bytes"), stat.segment_bytes);
    let levels = (0..stat.levels.len()).map(|i| format!("hedgerow_lsm_levels_bytes {i}"));
    assert_eq!(levels.map(|name| gauge(&numbers, &name)).sum::<u64>(), stat.table_bytes());
    assert_eq!(gauge(&numbers, "hedgerow_lsm_memory_memtables"), stat.memory.memtables);
}

/// The names of the documentation's tables, those of each piece of work among them.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../src/observe.rs");
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let mut names: BTreeSet<String> =
        rows.filter(|name| !name.contains("WORK")).map(str::to_string).collect();
    let works = page.split("//! WORK of").nth(1).unwrap().split("are part of").next().unwrap();
    let (tree, lsm) = works.split_once("log-structured").unwrap();
    for (engine, works) in [("tree", tree), ("lsm", lsm.rsplit_once(';').unwrap().0)] {
        for work in works.split('`').skip(1).step_by(2) {
            names.extend(
                ["count", "seconds"].map(|what| format!("hedgerow_{engine}_{work}_{what}")),
            );
        }
    }
    let untimed = ["hedgerow_tree_replay_seconds", "hedgerow_tree_spill_seconds"];
    names.retain(|name| !untimed.contains(&&**name) && name != "hedgerow_lsm_replay_seconds");
    names
}

#[test]
fn the_documentation_names_what_is_told() {
    let disk = disk();
    let (_, numbers) = watch(|| {
        let builder = Store::builder().log_size(64 << 10).write_budget(64 << 10);
        let store = builder.system(disk.clone()).create(STORE).unwrap();
        crate::golden::tree::pages(&store);
        for name in ["prefixes", "levels", "many values", "long"] {
            let mut txn = store.begin_write().unwrap();
            txn.drop_table(name).unwrap();
            txn.commit().unwrap();
        }
        store.compact(&mut |_, _| {}).unwrap();
        put(&store, 1, Durability::None);
        store.sync().unwrap();
        store.stat().unwrap();
        let builder = Store::builder().log_size(64 << 10).system(disk.clone());
        let logged = builder.create("/disk/logged").unwrap();
        for round in 0..4 {
            put(&logged, round, Durability::Durable);
        }
        let after = Arc::new(disk.crash(7, CrashMode::LoseAll));
        drop(Store::builder().system(after).open("/disk/logged").unwrap());
        let db = crate::golden::lsm::options().system(disk.clone()).open("/disk/db").unwrap();
        crate::golden::lsm::fill(&db);
        db.stat();
        let after = Arc::new(disk.crash(7, CrashMode::LoseAll));
        drop(lsm::Options::new().system(after).open("/disk/db").unwrap());
    });
    let told: BTreeSet<String> =
        numbers.keys().map(|name| name.split(' ').next().unwrap().to_string()).collect();
    let documented = documented();
    assert!(documented.len() > 60, "{documented:?}");
    let missing: Vec<_> = told.difference(&documented).collect();
    assert!(missing.is_empty(), "these are told and not documented: {missing:?}");
    let absent: Vec<_> = documented.difference(&told).collect();
    assert!(absent.is_empty(), "these are documented and were not told: {absent:?}");
}
