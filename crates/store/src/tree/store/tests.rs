//! Commit, recovery and free space on a simulated disk, seen from below: the catalog's tree serves
//! as the data, so that only the store side and the plain trees are at work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::super::ReadTxn;
use super::super::commit::{announce, write_meta};
use super::super::free::{pending_runs, ready_entry};
use super::super::insert::put_plain;
use super::super::meta::{Kind, Meta, SnapshotMeta};
use super::super::page::search::{LIKELY_BYTES, Side, branch_slot, leaf_slot, likely_place};
use super::super::pages::Pages;
use super::super::recover::{META_SLOTS, read_metas};
use super::super::remove::delete_plain;
use super::super::search::scan_plain;
use super::super::spill::spill;
use super::super::tree::{Root, Tree};
use super::*;
use crate::Error;
use crate::os::sim::{Config, CrashMode, Fault, Kept, Operation, SimSystem};
use crate::random::Random;
use crate::sync::locked;
use crate::tree::order::Form;
use crate::tree::page_ref::{FIRST_PAGE, PageNo, PageRef};
use crate::tree::words::{WORD_DIRTY, WORD_DURABLE, WORD_LATEST, WORD_NUMBER};
use crate::tree::{Snapshot, Table, TableOptions, WriteTxn};

mod full;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const PATH: &str = "/store";

fn builder(system: &SimSystem) -> Builder {
    Builder::new().system(Arc::new(system.clone()))
}

fn created(system: &SimSystem) -> Store {
    builder(system).create(PATH).unwrap()
}

fn fresh() -> (SimSystem, Store) {
    let system = SimSystem::new(1, Config::default());
    let store = created(&system);
    (system, store)
}

fn opened(system: &SimSystem) -> Store {
    builder(system).open(PATH).unwrap()
}

/// Changes `n` random keys below `keys` in a transaction and in the model; a third is deleted.
fn change(turn: &mut Turn, model: &mut Model, random: &mut Random, n: u64, keys: u64) {
    let state = turn.state_mut();
    for _ in 0..n {
        let key = (random.below(keys) as u32).to_be_bytes();
        if random.below(3) == 0 {
            delete_plain(&mut state.pages, &mut state.catalog, &key).unwrap();
            model.remove(&key[..]);
        } else {
            let value = [random.below(256) as u8; 50];
            put_plain(&mut state.pages, &mut state.catalog, &key, &value).unwrap();
            model.insert(key.to_vec(), value.to_vec());
        }
    }
}

fn begin(store: &Store) -> Turn {
    Turn::begin(&store.inner, Wait::Ever).unwrap().unwrap()
}

/// A commit of `n` such changes below `keys`.
fn commit(
    store: &Store,
    durability: Durability,
    model: &mut Model,
    random: &mut Random,
    (n, keys): (u64, u64),
) {
    let mut turn = begin(store);
    change(&mut turn, model, random, n, keys);
    turn.commit(durability).unwrap();
}

fn content(txn: &ReadTxn) -> Model {
    let mut model = Model::new();
    let tree = Tree::new(txn.meta.meta.catalog, Form::PLAIN);
    scan_plain(&txn.pages, &tree, &[], &mut |key, value| {
        model.insert(key.to_vec(), value.to_vec());
        true
    })
    .unwrap();
    model
}

fn newest_content(store: &Store) -> Model {
    content(&store.begin_read().unwrap())
}

fn collect_pages(pages: &impl Pages, at: PageRef, level: u8, found: &mut Vec<PageNo>) {
    found.push(at.0);
    if level > 0 {
        for i in 0..pages.page(at, level).unwrap().len() {
            let child = pages.page(at, level).unwrap().child(i);
            collect_pages(pages, child, level - 1, found);
        }
    }
}

/// Every page is used once or free once; those of the log's ring are used.
fn check_space(store: &Store) {
    let txn = store.begin_read().unwrap();
    let meta = &txn.meta.meta;
    let mut found: Vec<PageNo> = (0..FIRST_PAGE).collect();
    let collect_root = |root: &Root, found: &mut Vec<PageNo>| {
        if !root.page.is_none() {
            collect_pages(&txn.pages, root.page, root.level, found);
        }
    };
    for root in [&meta.catalog, &meta.ready, &meta.pending] {
        collect_root(root, &mut found);
    }
    let ring = meta.log.iter().map(|place| place.run);
    found.extend(ring.flat_map(|run| run.start..run.start + run.len));
    let mut free = meta.recent.iter().map(|free| free.run).collect::<Vec<_>>();
    let (mut ready_pages, mut pending_pages) = (0, 0);
    scan_plain(&txn.pages, &Tree::new(meta.ready, Form::PLAIN), &[], &mut |key, value| {
        let run = ready_entry(key, value).unwrap();
        ready_pages += u64::from(run.len);
        free.push(run);
        true
    })
    .unwrap();
    scan_plain(&txn.pages, &Tree::new(meta.pending, Form::PLAIN), &[], &mut |key, value| {
        for run in pending_runs(key, value).unwrap() {
            pending_pages += u64::from(run.len);
            free.push(run);
        }
        true
    })
    .unwrap();
    assert_eq!((meta.free.ready, meta.free.pending), (ready_pages, pending_pages));
    found.extend(free.iter().flat_map(|run| run.start..run.start + run.len));
    found.sort_unstable();
    assert!(found.iter().copied().eq(0..meta.end), "pages {found:?} of {}", meta.end);
}

#[test]
fn commits_are_seen_and_every_page_is_used_once() {
    let (system, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(7));
    let mut readers: Vec<(ReadTxn, Model)> = Vec::new();
    for round in 0..400_u64 {
        let mut turn = begin(&store);
        let n = if round % 50 == 49 { 3000 } else { 1 + random.below(20) };
        change(&mut turn, &mut model, &mut random, n, 4000);
        let modes = [Durability::Durable, Durability::Eventual, Durability::None];
        turn.commit(modes[random.below(3) as usize]).unwrap();
        assert_eq!(newest_content(&store), model, "round {round}");
        check_space(&store);
        if random.below(8) == 0 {
            readers.push((store.begin_read().unwrap(), model.clone()));
        }
        if readers.len() > 4 {
            let at = random.below(5) as usize;
            let (reader, seen) = readers.swap_remove(at);
            assert_eq!(content(&reader), seen, "an old snapshot in round {round}");
        }
    }
    drop(readers);
    drop(store);
    let store = opened(&system);
    assert_eq!(newest_content(&store), model);
    check_space(&store);
}

#[test]
fn a_store_that_is_overwritten_again_and_again_stays_small() {
    let (_, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(3));
    let mut ends = Vec::new();
    for _ in 0..1500 {
        commit(&store, Durability::Durable, &mut model, &mut random, (5, 3000));
        ends.push(store.inner.newest().unwrap().meta.end);
    }
    check_space(&store);
    assert!(ends[1499] < 2 * ends[700], "grew from {} to {} pages", ends[700], ends[1499]);
}

#[test]
fn an_aborted_transaction_leaves_no_trace() {
    let (_, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(5));
    commit(&store, Durability::Durable, &mut model, &mut random, (100, 100));
    let number = store.inner.latest_number();
    let mut turn = begin(&store);
    change(&mut turn, &mut model.clone(), &mut random, 100, 100);
    drop(turn);
    assert!(Turn::begin(&store.inner, Wait::No).unwrap().is_some(), "the turn was given back");
    assert_eq!(store.inner.latest_number(), number);
    assert_eq!(newest_content(&store), model);
}

#[test]
fn pages_written_early_are_part_of_the_commit() {
    let (_, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(5));
    for _ in 0..3 {
        let mut turn = begin(&store);
        for _ in 0..10 {
            change(&mut turn, &mut model, &mut random, 500, 5000);
            spill(turn.state_mut(), 10 * 4096).unwrap();
            assert!(turn.state().pages.changed_pages() <= 12);
        }
        turn.commit(Durability::Durable).unwrap();
        assert_eq!(newest_content(&store), model);
        check_space(&store);
    }
}

/// Every cut of a run must open to the state after some commit, at or after the last durable one.
#[test]
fn a_power_cut_at_any_point_leaves_a_prefix_with_all_durable_commits() {
    for seed in 1..=3 {
        cut_everywhere(seed);
    }
}

fn cut_everywhere(seed: u64) {
    let system = SimSystem::new(seed, Config::default());
    let mut store = created(&system);
    system.record(true);
    let (mut model, mut random) = (Model::new(), Random(seed));
    let mut states = vec![Model::new()];
    system.mark(0);
    for round in 1..=60_u64 {
        let mut turn = begin(&store);
        let n = if round % 20 == 9 { 1500 } else { 1 + random.below(10) };
        change(&mut turn, &mut model, &mut random, n, 2000);
        let durability = if random.below(2) == 0 { Durability::Durable } else { Durability::None };
        turn.commit(durability).unwrap();
        states.push(model.clone());
        if durability == Durability::Durable {
            system.mark(round);
        } else if random.below(3) == 0 {
            store.sync().unwrap();
            system.mark(round);
        }
        if round % 15 == 0 {
            drop(store);
            system.mark(round);
            store = opened(&system);
        }
    }
    let all = system.recorded();
    assert!(all > 200);
    for cut in 0..=all {
        let mode = CrashMode::ALL[(cut + seed as usize) % 5];
        let durable = system.last_mark(cut).unwrap_or(0) as usize;
        let after = system.image_at(cut, mode, cut as u64 ^ seed);
        let store = opened(&after);
        let found = newest_content(&store);
        let at = states.iter().rposition(|state| *state == found);
        assert!(at >= Some(durable), "cut {cut} {mode:?}: {at:?}, durable {durable}");
        check_space(&store);
        let mut turn = begin(&store);
        let mut model = found;
        change(&mut turn, &mut model, &mut Random(cut as u64), 20, 2000);
        turn.commit(Durability::Durable).unwrap();
        drop(store);
        let store = opened(&after.crash(3, CrashMode::LoseAll));
        assert_eq!(newest_content(&store), model, "cut {cut} {mode:?}, after going on");
        check_space(&store);
    }
}

#[test]
fn a_process_that_dies_loses_no_commit_and_leaves_no_record_behind() {
    let system = SimSystem::new(1, Config::default());
    let (mut model, mut random) = (Model::new(), Random(9));
    drop(created(&system));
    let mut process = system.process();
    for round in 0..40 {
        let store = opened(&process);
        assert_eq!(newest_content(&store), model, "round {round}");
        check_space(&store);
        for _ in 0..3 {
            let mut turn = begin(&store);
            change(&mut turn, &mut model, &mut random, 8, 500);
            turn.commit(Durability::None).unwrap();
        }
        let mut turn = begin(&store);
        change(&mut turn, &mut model.clone(), &mut random, 30, 500);
        process = process.restart_process();
    }
}

/// A process ends at any point of opening, committing and closing; the next one commits, and the
/// power fails at any point of that. Answers how many commits went to the log.
fn power_fails_after_an_end(
    opened: impl Fn(&SimSystem) -> Store,
    commits: &[&[Durability]],
    (filled, changed): ((u64, u64), (u64, u64)),
) -> usize {
    let system = SimSystem::new(7, Config::default());
    let (mut model, mut random) = (Model::new(), Random(7));
    let store = created(&system);
    commit(&store, Durability::Durable, &mut model, &mut random, filled);
    drop(store);
    let (mut states, mut logged) = (vec![model.clone()], 0);
    system.record(true);
    for durabilities in commits {
        let store = opened(&system);
        for durability in *durabilities {
            commit(&store, *durability, &mut model, &mut random, changed);
            logged += usize::from(store.inner.is_newest_in_log().unwrap());
            states.push(model.clone());
            if *durability == Durability::Durable {
                system.mark(states.len() as u64 - 1);
            }
        }
        drop(store);
        system.mark(states.len() as u64 - 1);
    }
    for end in 0..=system.recorded() {
        let durable = system.last_mark(end).unwrap_or(0) as usize;
        let next = system.killed_at(end);
        next.record(true);
        let store = opened(&next);
        let mut model = newest_content(&store);
        let found = states.iter().rposition(|state| *state == model);
        assert!(found >= Some(durable), "ended at {end}: {found:?}, durable {durable}");
        commit(&store, Durability::Durable, &mut model, &mut Random(end as u64), changed);
        next.mark(1);
        drop(store);
        for draw in 0..(next.recorded() + 1) * 10 {
            let (cut, mode) = (draw / 10, CrashMode::ALL[draw % 5]);
            let content = newest_content(&opened(&next.image_at(cut, mode, draw as u64)));
            let before = states.iter().rposition(|state| *state == content);
            let is_kept =
                content == model || next.last_mark(cut).is_none() && before >= Some(durable);
            assert!(is_kept, "ended at {end}, cut {cut} {mode:?}: {before:?}, durable {durable}");
        }
    }
    logged
}

#[test]
fn the_power_fails_at_any_point_after_a_process_has_ended_at_any_point() {
    use Durability::{Durable, None};
    power_fails_after_an_end(opened, &[&[Durable], &[None], &[Durable]], ((1, 100), (6, 100)));
}

#[test]
fn the_same_where_there_is_a_log() {
    use Durability::{Durable, None};
    let with_log = |system: &SimSystem| builder(system).log_size(64 << 10).open(PATH).unwrap();
    let commits: &[&[Durability]] = &[&[Durable; 4], &[Durable], &[Durable, Durable], &[None]];
    let logged = power_fails_after_an_end(with_log, commits, ((2000, 3000), (6, 3000)));
    assert!(logged >= 2, "{logged}");
}

#[test]
fn a_process_that_closes_shuts_the_log_for_the_others() {
    let system = SimSystem::new(7, Config::default());
    let (mut model, mut random) = (Model::new(), Random(7));
    system.record(true);
    drop(created(&system));
    let with_log = |system: &SimSystem| builder(system).log_size(64 << 10).open(PATH).unwrap();
    let (first, other) = (with_log(&system), with_log(&system.process()));
    for n in [2000, 6] {
        commit(&first, Durability::Durable, &mut model, &mut random, (n, 3000));
    }
    assert_eq!(newest_content(&other), model);
    assert!(other.inner.newest().unwrap().meta.log.is_some_and(|place| place.open));
    drop(first);
    assert!(other.inner.newest().unwrap().meta.log.is_some_and(|place| !place.open));
    for in_log in [false, true] {
        commit(&other, Durability::Durable, &mut model, &mut random, (6, 3000));
        assert_eq!(other.inner.is_newest_in_log().unwrap(), in_log);
        for mode in CrashMode::ALL {
            let image = system.image_at(system.recorded(), mode, 3);
            assert_eq!(newest_content(&opened(&image)), model, "{mode:?}");
        }
    }
}

/// Closes a store on a thread while another process has a transaction open; whether the close
/// ended before it.
fn closes_before(first: Store, transaction: impl FnOnce()) -> bool {
    let (sender, closed) = mpsc::channel();
    let closing = std::thread::spawn(move || {
        drop(first);
        sender.send(()).unwrap();
    });
    // So long only if the close waits for the end of the transaction.
    let ended = closed.recv_timeout(Duration::from_secs(60)).is_ok();
    transaction();
    closing.join().unwrap();
    ended
}

#[test]
fn a_close_does_not_wait_for_a_long_transaction_of_another_process() {
    for commits in [false, true] {
        let system = SimSystem::new(7, Config::default());
        let (mut model, mut random) = (Model::new(), Random(7));
        system.record(true);
        drop(created(&system));
        let (first, other) = (opened(&system), opened(&system.process()));
        commit(&first, Durability::None, &mut model, &mut random, (6, 100));
        let turn = begin(&other);
        let finish =
            || if commits { turn.commit(Durability::Durable).unwrap() } else { drop(turn) };
        assert!(closes_before(first, finish));
        // What the closed process left becomes durable by the commit of the other, or its close.
        assert_eq!(other.inner.durable_number() == other.inner.latest_number(), commits);
        let other = commits.then_some(other);
        for mode in CrashMode::ALL {
            let image = system.image_at(system.recorded(), mode, 3);
            assert_eq!(newest_content(&opened(&image)), model, "{mode:?}");
        }
        drop(other);
    }
}

#[test]
fn the_first_commit_after_a_clean_close_takes_one_flush() {
    let (system, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(5));
    commit(&store, Durability::Durable, &mut model, &mut random, (6, 100));
    drop(store);
    for (process, expected) in [(system.process(), 1), (system.killed_copy(), 1)] {
        let store = opened(&process);
        let before = process.calls(Operation::Sync);
        commit(&store, Durability::Durable, &mut model.clone(), &mut random, (6, 100));
        assert_eq!(process.calls(Operation::Sync) - before, expected);
    }
    // The same with a log, which the first commit after a close does not go to.
    let with_log = |system: &SimSystem| builder(system).log_size(64 << 10).open(PATH).unwrap();
    for counts in [&[2000, 6][..], &[6]] {
        let store = with_log(&system);
        for n in counts {
            commit(&store, Durability::Durable, &mut model, &mut random, (*n, 3000));
        }
    }
    for process in [system.process(), system.killed_copy()] {
        let store = with_log(&process);
        assert!(store.inner.newest().unwrap().meta.log.is_some());
        let before = process.calls(Operation::Sync);
        commit(&store, Durability::Durable, &mut model.clone(), &mut random, (6, 100));
        drop(store);
        assert_eq!(process.calls(Operation::Sync) - before, 1);
    }
    // Without a close, what the process wrote is flushed first.
    let store = opened(&system);
    commit(&store, Durability::Durable, &mut model, &mut random, (6, 100));
    let process = system.killed_copy();
    let store = opened(&process);
    let before = process.calls(Operation::Sync);
    commit(&store, Durability::Durable, &mut model, &mut random, (6, 100));
    assert_eq!(process.calls(Operation::Sync) - before, 2);
}

/// How many of 1,000 keys have their record where it is predicted, in a store of `entries` entries.
fn foreseen(entries: u64, key_len: usize, value: &[u8]) -> usize {
    let mut random = Random(15);
    let mut draw = || (random.below(u64::MAX) << 33) ^ (random.below(u64::MAX) << 2);
    let keys: Vec<Vec<u8>> =
        (0..entries).map(|_| draw().to_be_bytes().repeat(3)[..key_len].to_vec()).collect();
    let store = created(&SimSystem::new(1, Config::default()));
    let mut turn = begin(&store);
    let state = turn.state_mut();
    for key in &keys {
        put_plain(&mut state.pages, &mut state.catalog, key, value).unwrap();
    }
    turn.commit(Durability::None).unwrap();
    let txn = store.begin_read().unwrap();
    let tree = Tree::new(txn.meta.meta.catalog, Form::PLAIN);
    let hits = keys.iter().step_by(entries as usize / 1000).filter(|key| {
        let (mut at, mut place) = (tree.root.page, None);
        for level in (1..=tree.root.level).rev() {
            let page = txn.pages.page(at, level).unwrap();
            let slot = branch_slot(&txn.pages, &tree.form, page, key, Side::First).unwrap();
            at = page.child(slot);
            place = likely_place(&tree.form.keys, (page, slot), key, tree.front(), 4096);
        }
        let page = txn.pages.page(at, 0).unwrap();
        let (slot, found) = leaf_slot(&txn.pages, &tree.form.keys, page, key).unwrap();
        assert!(found);
        place.is_some_and(|from| (from..from + LIKELY_BYTES).contains(&page.record_offset(slot)))
    });
    hits.count()
}

#[test]
fn most_records_stand_where_they_are_foreseen() {
    // A fifth of a page is fetched, so that a fifth of all would be there by chance.
    let long = foreseen(30_000, 24, &[0; 150]);
    assert!(long >= 500, "{long} of 1,000");
    let short = foreseen(60_000, 16, &[0; 8]);
    assert!(short >= 550, "{short} of 1,000");
}

#[test]
fn the_record_of_a_commit_that_is_not_flushed_takes_no_write() {
    let [with, without] = [true, false].map(|map| {
        let system = SimSystem::new(12, Config { map, ..Config::default() });
        let store = created(&system);
        let (mut random, mut model) = (Random(13), Model::new());
        let before = system.calls(Operation::Write);
        for _ in 0..50 {
            let mut turn = begin(&store);
            change(&mut turn, &mut model, &mut random, 3, 100);
            turn.commit(Durability::None).unwrap();
        }
        let writes = system.calls(Operation::Write) - before;
        // It outlives the process as one that was written does.
        let survivor = system.killed_copy();
        assert_eq!(newest_content(&opened(&survivor)), model);
        // A flush is of such records, too.
        store.sync().unwrap();
        drop(store);
        let survivor = system.crash(14, CrashMode::LoseAll);
        assert_eq!(newest_content(&opened(&survivor)), model);
        writes
    });
    // Of two writes a commit one is left. Two meta pages take turns, and each is written once.
    assert_eq!(with, without / 2 + 2);
}

#[test]
fn another_process_sees_commits_and_takes_over() {
    let system = SimSystem::new(1, Config::default());
    let (mut model, mut random) = (Model::new(), Random(9));
    let first = created(&system);
    let second = opened(&system.process());
    let mut reader = second.begin_read().unwrap();
    for round in 0..60 {
        let store = if round % 3 == 0 { &second } else { &first };
        let before = content(&reader);
        assert_eq!(before, model);
        let mut turn = begin(store);
        change(&mut turn, &mut model, &mut random, 8, 500);
        turn.commit(if round % 2 == 0 { Durability::Durable } else { Durability::None }).unwrap();
        assert_eq!(content(&reader), before, "a snapshot changed in round {round}");
        reader.renew().unwrap();
        check_space(&first);
    }
}

#[test]
fn a_failed_flush_ends_all_writing_until_the_store_is_opened_again() {
    let (system, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(9));
    commit(&store, Durability::Durable, &mut model, &mut random, (8, 500));
    system.fail(Operation::Sync, 1, 1, Fault::io(Kept::Some));
    let mut turn = begin(&store);
    change(&mut turn, &mut model.clone(), &mut random, 8, 500);
    assert!(matches!(turn.commit(Durability::Durable), Err(Error::Io { .. })));
    assert!(matches!(Turn::begin(&store.inner, Wait::Ever), Err(Error::Poisoned { .. })));
    assert_eq!(newest_content(&store), model, "reading goes on");
    drop(store);
    let store = opened(&system);
    assert_eq!(newest_content(&store), model);
    commit(&store, Durability::Durable, &mut model, &mut random, (8, 500));
    assert_eq!(newest_content(&store), model);
    check_space(&store);
}

#[test]
fn threads_that_write_at_the_same_time_lose_nothing() {
    let (_, store) = fresh();
    let first = begin(&store);
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..20_u32 {
                    let mut turn = begin(store);
                    let state = turn.state_mut();
                    let key = (thread * 1000 + i).to_be_bytes();
                    put_plain(&mut state.pages, &mut state.catalog, &key, b"x").unwrap();
                    if i % 5 == 4 {
                        drop(turn);
                    } else {
                        turn.commit(Durability::Durable).unwrap();
                    }
                }
            });
        }
        drop(first);
    });
    let found = newest_content(&store);
    let expected =
        (0..8_u32).flat_map(|t| (0..20).filter(|i| i % 5 != 4).map(move |i| t * 1000 + i));
    assert!(found.keys().cloned().eq(expected.map(|key| key.to_be_bytes().to_vec())));
    check_space(&store);
}

/// Puts a key in a transaction of its own and says how it ended.
fn put_one(mut turn: Turn, key: &[u8]) -> Result<()> {
    let state = turn.state_mut();
    put_plain(&mut state.pages, &mut state.catalog, key, b"x")?;
    turn.commit(Durability::Durable)
}

/// Runs `second` in a transaction that joins the group of another one; returns both results and how
/// many flushes they took.
fn grouped(
    system: &SimSystem,
    store: &Store,
    second: impl FnOnce(Turn) -> Result<()> + Send,
) -> (Result<()>, Result<()>, u64) {
    let before = system.calls(Operation::Sync);
    let first = begin(store);
    let (first, second) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| second(begin(store)));
        while !store.inner.queue.next_joins() {
            std::thread::yield_now();
        }
        (put_one(first, b"first"), thread.join().unwrap())
    });
    (first, second, system.calls(Operation::Sync) - before)
}

#[test]
fn commits_of_a_group_share_a_flush_and_an_outcome() {
    let (system, store) = fresh();
    let (first, second, flushes) = grouped(&system, &store, |turn| put_one(turn, b"second"));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(flushes, 1);
    assert!(newest_content(&store).into_keys().eq([b"first".to_vec(), b"second".to_vec()]));

    // The second one aborts: the first one is committed nevertheless, and without its changes.
    let (first, _, _) = grouped(&system, &store, |mut turn| {
        let state = turn.state_mut();
        put_plain(&mut state.pages, &mut state.catalog, b"third", b"x")
    });
    assert!(first.is_ok());
    assert_eq!(newest_content(&store).len(), 2);

    // A failed flush fails all of its waiters.
    system.fail(Operation::Sync, 1, 1, Fault::io(Kept::None));
    let (first, second, _) = grouped(&system, &store, |turn| put_one(turn, b"fourth"));
    assert!(matches!(first, Err(Error::CommitFailed { .. })));
    assert!(matches!(second, Err(Error::Io { .. })));
    assert_eq!(newest_content(&store).len(), 2);
    check_space(&store);
}

#[test]
fn an_eventual_commit_is_flushed_soon() {
    let config = Config { flushes_in_background: true, ..Config::default() };
    let system = SimSystem::new(1, config);
    let store = created(&system);
    commit(&store, Durability::Eventual, &mut Model::new(), &mut Random(1), (8, 500));
    let began = std::time::Instant::now();
    while store.inner.durable_number() < store.inner.latest_number() {
        assert!(began.elapsed() < Duration::from_secs(60), "never flushed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn closing_makes_everything_durable() {
    let (system, store) = fresh();
    let mut model = Model::new();
    commit(&store, Durability::None, &mut model, &mut Random(1), (8, 500));
    drop(store);
    assert_eq!(newest_content(&opened(&system.crash(1, CrashMode::LoseAll))), model);
}

#[test]
fn the_disk_begins_with_a_small_commit_only_if_it_is_flushed_next() {
    let system = SimSystem::new(1, Config { map: true, ..Config::default() });
    let store = created(&system);
    let begun = |keys, durability| {
        let (mut turn, before) = (begin(&store), system.writebacks());
        change(&mut turn, &mut Model::new(), &mut Random(1), keys, 100_000);
        turn.commit(durability).unwrap();
        system.writebacks() - before
    };
    assert!(begun(20, Durability::Durable) > 0);
    assert_eq!(begun(20, Durability::None), 0);
    assert_eq!(begun(4000, Durability::Durable), 0, "the flush sorts many scattered pages");
}

#[test]
fn a_file_that_was_cut_off_is_named_damaged() {
    let (system, store) = fresh();
    commit(&store, Durability::Durable, &mut Model::new(), &mut Random(1), (2000, 5000));
    store.sync().unwrap();
    store.inner.pages.file.set_len(5 * 4096).unwrap();
    drop(store);
    let error = builder(&system).open(PATH).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

/// A process may be killed, and a disk may be full, at any page of the first write.
#[test]
fn a_store_whose_making_was_cut_off_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(Store::builder().page_size(8192).create(path("whole")).unwrap());
    let mut whole = std::fs::read(path("whole")).unwrap();
    whole.truncate(META_SLOTS as usize * 8192);
    for len in (0..whole.len()).step_by(512) {
        let name = len.to_string();
        std::fs::write(path(&name), &whole[..len]).unwrap();
        let error = Store::open(path(&name)).unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. } | Error::Corrupt { .. }), "{len}: {error}");
        let store = match len % 1024 {
            0 => Store::create(path(&name)),
            _ => Store::builder().open_or_create(path(&name)),
        };
        let store = store.unwrap_or_else(|error| panic!("{len}: {error}"));
        assert!(store.check(&mut |_, _| {}).unwrap().problems.is_empty());
    }
    // What is as short, but holds more, stays as it is.
    let store = Store::open(path("whole")).unwrap();
    commit(&store, Durability::Durable, &mut Model::new(), &mut Random(1), (8, 500));
    drop(store);
    let whole = std::fs::read(path("whole")).unwrap();
    for len in [8192, 16384, 20000, 24576] {
        std::fs::write(path("short"), &whole[..len]).unwrap();
        let error = Store::builder().open_or_create(path("short")).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. } | Error::Path { .. }), "{len}: {error}");
        assert!(std::fs::read(path("short")).unwrap() == whole[..len]);
    }
}

#[test]
fn opening_what_is_no_store_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "some words\n").unwrap();
    let error = Store::open(&text).unwrap_err();
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert!(!folder.path().join("text-lock").exists(), "no lock file beside a text file");
    let error = Store::open(folder.path().join("nothing")).unwrap_err();
    assert!(matches!(error, Error::Path { .. }), "{error}");
    assert!(!folder.path().join("nothing-lock").exists());
}

#[test]
fn a_real_file_opened_twice_is_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    assert!(folder.path().join("data.hdg").exists());
    assert!(matches!(Store::create(folder.path()), Err(Error::Path { .. })));
    let again = Store::open(folder.path()).unwrap();
    assert!(Arc::ptr_eq(&store.inner, &again.inner));
    let other = Store::builder().read_only(true).open(folder.path());
    assert!(matches!(other, Err(Error::Locked { .. })));
    let (mut model, mut random) = (Model::new(), Random(2));
    commit(&store, Durability::Durable, &mut model, &mut random, (2000, 5000));
    drop((store, again));
    let store = Store::builder().read_only(true).open(folder.path()).unwrap();
    assert_eq!(newest_content(&store), model);
    assert!(matches!(store.begin_write(), Err(Error::ReadOnly)));
    assert_eq!(store.path(), Path::new(&folder.path().join("data.hdg")));
}

/// A process that may write the lock file may write anything into it.
#[test]
fn shared_words_that_were_damaged_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let words = [WORD_LATEST, WORD_DURABLE, WORD_DIRTY, WORD_NUMBER];
    let put = || -> Result<()> {
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", &TableOptions::new())?;
        txn.put(table, b"key", b"value")?;
        txn.commit()
    };
    put().unwrap();
    let sound = words.map(|word| store.inner.lock.word(word).load(SeqCst));
    let latest = sound[0];
    for damaged in [0, 1, 3, u64::MAX, latest ^ 1, latest ^ 2, latest | 3, latest + 4, latest << 9]
    {
        for word in words {
            store.inner.lock.word(word).store(damaged, SeqCst);
            let read = store.begin_read().and_then(|txn| txn.tables());
            let told = read.err().map(|error| error.to_string());
            assert!(told.is_none_or(|told| told.contains("meta record")), "{damaged:#x}");
            for (word, value) in words.into_iter().zip(sound) {
                store.inner.lock.word(word).store(value, SeqCst);
            }
        }
    }
    put().unwrap();
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

/// A thread that begins to write does not take the record that another one is about to publish for
/// one that a writer left when it died.
#[test]
fn a_record_that_is_about_to_be_published_is_not_removed() {
    let (_system, store) = fresh();
    let mut turn = begin(&store);
    change(&mut turn, &mut Model::new(), &mut Random(1), 10, 100);
    turn.commit(Durability::Eventual).unwrap();

    let inner = &store.inner;
    let newest = inner.newest().unwrap();
    let slot = inner.free_slot();
    let held = locked(&inner.meta_turn);
    let meta = Meta { kind: Kind::Flushed, ..newest.meta.clone() };
    write_meta(inner, &meta, slot, &mut inner.pages.new_buffer().unwrap()).unwrap();
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| inner.clean_in_turn());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!begins.is_finished());
        announce(inner, SnapshotMeta { meta, slot }, true);
        drop(held);
        begins.join().unwrap().unwrap();
    });
    let found = read_metas(&*inner.pages.file, &inner.pages.path).unwrap();
    let number = found.metas[slot as usize].as_ref().map(|meta| meta.txn);
    assert_eq!(number, Some(newest.meta.txn));
}
