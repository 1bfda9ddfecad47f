//! Every form of a stream beside a sorted list.

use std::ops::Bound;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::lsm::{Db, Options};
use crate::tree::{Order, Snapshot as _, Store, TableOptions};
use crate::{Error, Result};

type Owned = (Vec<u8>, Vec<u8>);

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    (folder, store)
}

fn db() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    (folder, db)
}

/// A table of which each key has up to four values.
fn with_duplicates(keys: u8) -> (tempfile::TempDir, Store, Vec<Owned>) {
    let (folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    let mut all = Vec::new();
    for key in 0..keys {
        for value in 0..=key % 4 {
            txn.put(table, &[key], &[value]).unwrap();
            all.push((vec![key], vec![value]));
        }
    }
    txn.commit().unwrap();
    (folder, store, all)
}

fn fill<T: Target>(target: &T, keys: impl IntoIterator<Item = u8>) {
    let mut sink = Sink::new(target, "t").unwrap();
    for key in keys {
        sink.put(&[key], &[key, key]).unwrap();
    }
    sink.finish().unwrap();
}

fn collect<S: Source>(pairs: Pairs<S>) -> Vec<Owned> {
    pairs.map(|pair| pair.unwrap().to_owned()).collect()
}

/// What a scan of `all` should give.
fn expected(all: &[Owned], scan: &Scan) -> Vec<Owned> {
    let bounds = &scan.keys;
    let is_inside = |key: &[u8]| {
        let low = match &bounds.0 {
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
            Bound::Unbounded => true,
        };
        low && match &bounds.1 {
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
            Bound::Unbounded => true,
        }
    };
    let mut found: Vec<Owned> = all.iter().filter(|pair| is_inside(&pair.0)).cloned().collect();
    match scan.values {
        Values::Each => {}
        Values::First => found.dedup_by(|next, first| next.0 == first.0),
        Values::Last => {
            found.reverse();
            found.dedup_by(|next, first| next.0 == first.0);
            found.reverse();
        }
    }
    if scan.is_reverse {
        found.reverse();
    }
    let limit = scan.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut found: Vec<Owned> = found.into_iter().skip(scan.skip as usize).take(limit).collect();
    if scan.keys_only {
        found.iter_mut().for_each(|pair| pair.1.clear());
    }
    found
}

fn any_scan() -> impl Strategy<Value = Scan> {
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..40_u8).prop_map(|key| Bound::Included(vec![key])),
            (0..40_u8).prop_map(|key| Bound::Excluded(vec![key])),
        ]
    };
    let values = prop_oneof![Just(Values::Each), Just(Values::First), Just(Values::Last)];
    let limit = prop_oneof![Just(None), (0..60_u64).prop_map(Some)];
    let skip = prop_oneof![Just(0), 0..60_u64];
    (bound(), bound(), any::<bool>(), any::<bool>(), values, limit, skip).prop_map(
        |(low, high, is_reverse, keys_only, values, limit, skip)| {
            let mut scan = Scan::new("t").range((low, high)).values(values).skip(skip);
            (scan.is_reverse, scan.keys_only, scan.limit) = (is_reverse, keys_only, limit);
            scan
        },
    )
}

/// Reads a scan in every form, and with renewals, parking and tokens at every place.
fn read_in_every_way<S: Source>(source: &S, all: &[Owned], scan: &Scan, every: u64) {
    let wanted = expected(all, scan);
    let snapshot = source.begin().unwrap();
    let owned = |pair: Result<<S::Snapshot as Snapshot>::Item<'_>>| {
        let pair = pair.unwrap();
        (pair.key().to_vec(), pair.value().to_vec())
    };
    let walk = scan.walk(&snapshot).unwrap();
    if let Some(remaining) = walk.remaining() {
        assert_eq!(remaining, wanted.len() as u64);
    }
    assert_eq!(walk.map(owned).collect::<Vec<_>>(), wanted, "borrowed");
    assert_eq!(collect(scan.pairs(source).unwrap()), wanted, "owned");

    let renewing = scan.clone().renewal(Renewal::never().pairs(every));
    assert_eq!(collect(renewing.pairs(source).unwrap()), wanted, "renewing");

    let mut batched = Vec::new();
    for batch in renewing.batches(source, 3, 100).unwrap() {
        let batch = batch.unwrap();
        assert!(batch.len() <= 3);
        batched.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    assert_eq!(batched, wanted, "batches");

    let mut resumed = Vec::new();
    let mut pairs = scan.pairs(source).unwrap();
    while let Some(pair) = pairs.next() {
        resumed.push(pair.unwrap().to_owned());
        if (resumed.len() as u64).is_multiple_of(every) {
            let token: Token = pairs.token().unwrap().to_string().parse().unwrap();
            pairs = Scan::resume(&token, source).unwrap().pairs(source).unwrap();
        } else {
            pairs.park().unwrap();
            assert!(pairs.is_parked());
        }
    }
    assert_eq!(resumed, wanted, "parked and resumed");

    // From both ends, where both ends are known.
    if scan.limit.is_none() && scan.skip == 0 {
        let mut pairs = renewing.pairs(source).unwrap();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        for n in 0.. {
            let from_back = n % 3 == 1;
            let next = if from_back { pairs.next_back() } else { pairs.next() };
            let Some(pair) = next else { break };
            let end = if from_back { &mut back } else { &mut front };
            end.push(pair.unwrap().to_owned());
        }
        front.extend(back.into_iter().rev());
        assert_eq!(front, wanted, "from both ends");
    }
}

proptest! {
    #[test]
    fn every_form_gives_the_same(scan in any_scan(), every in 1..7_u64) {
        let (_folder, store, all) = with_duplicates(40);
        read_in_every_way(&store, &all, &scan, every);
        let (_folder, db) = db();
        fill(&db, 0..40);
        let all: Vec<Owned> = (0..40).map(|key| (vec![key], vec![key, key])).collect();
        read_in_every_way(&db, &all, &scan, every);
    }

    #[test]
    fn damaged_tokens_are_refused(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (_folder, store) = store();
        fill(&store, 0..9);
        let mut pairs = Scan::new("t").range([1]..).limit(5).pairs(&store).unwrap();
        pairs.next().unwrap().unwrap();
        let token = pairs.token().unwrap();
        let mut bytes = token.to_bytes();
        prop_assert_eq!(&Token::from_bytes(&bytes).unwrap(), &token);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Token::from_bytes(&bytes).is_err());
        prop_assert!(Token::from_bytes(&bytes[..at]).is_err());
    }
}

#[test]
fn skipping_and_stepping_do_not_walk() {
    let (_folder, store) = store();
    fill(&store, 0..200);
    let scan = Scan::new("t").range([10]..).reverse();
    let keys: Vec<u8> = scan
        .pairs(&store)
        .unwrap()
        .step_by(50)
        .map(|pair| pair.unwrap().key().to_vec()[0])
        .collect();
    assert_eq!(keys, [199, 149, 99, 49]);
    let mut pairs = scan.pairs(&store).unwrap();
    assert_eq!(pairs.nth(100).unwrap().unwrap().key(), [99]);
    assert_eq!((pairs.given(), pairs.remaining()), (101, Some(89)));
    assert_eq!(pairs.token().unwrap().after().unwrap().key, [99]);
    assert!(pairs.nth(100).is_none());
}

#[test]
fn a_renewed_stream_sees_what_was_written_since() {
    let (_folder, store) = store();
    fill(&store, (0..100).step_by(2));
    let scan = Scan::new("t").renewal(Renewal::never().commits(1));
    let mut pairs = scan.pairs(&store).unwrap();
    assert_eq!(pairs.next().unwrap().unwrap().key(), [0]);
    let before = pairs.commit();
    fill(&store, [1, 51]);
    let Some(Event::Renewed { from, to }) = pairs.event().unwrap() else { panic!("no boundary") };
    assert_eq!((from, to), (before, store.newest_commit()));
    let rest: Vec<u8> = pairs.map(|pair| pair.unwrap().key().to_vec()[0]).collect();
    let expected: Vec<u8> = (1..100).filter(|key| key % 2 == 0 || [1, 51].contains(key)).collect();
    assert_eq!(rest, expected);

    let mut pairs = Scan::new("t").pairs(&store).unwrap();
    pairs.next().unwrap().unwrap();
    fill(&store, [3]);
    assert_eq!(pairs.count(), 51, "without renewal it sees one moment");
}

#[test]
fn a_pair_that_was_deleted_is_still_a_place() {
    let (_folder, store, all) = with_duplicates(20);
    let scan = Scan::new("t").renewal(Renewal::never().pairs(1));
    for reverse in [false, true] {
        let scan = if reverse { scan.clone().reverse() } else { scan.clone() };
        let mut pairs = scan.pairs(&store).unwrap();
        let mut wanted = all.clone();
        if reverse {
            wanted.reverse();
        }
        for (n, pair) in wanted.iter().enumerate() {
            assert_eq!(pairs.next().unwrap().unwrap().to_owned(), *pair);
            if n % 3 == 0 {
                let mut txn = store.begin_write().unwrap();
                let table = txn.table("t").unwrap();
                assert!(txn.delete_pair(table, &pair.0, &pair.1).unwrap());
                txn.commit().unwrap();
            }
        }
        assert!(pairs.next().is_none());
        let mut sink = Sink::new(&store, "t").unwrap();
        sink.extend(all.iter().map(|(key, value)| Ok::<_, Error>((key, value)))).unwrap();
        sink.finish().unwrap();
    }
}

/// Also where the snapshot is exchanged twice and no pair is given in between.
#[test]
fn a_place_whose_pair_was_deleted_stays_where_it_is() {
    let (_folder, store) = store();
    let change = |put: &[u8], delete: &[u8]| {
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
        put.iter().for_each(|value| txn.put(table, b"k", &[*value]).unwrap());
        delete.iter().for_each(|value| assert!(txn.delete_pair(table, b"k", &[*value]).unwrap()));
        txn.commit().unwrap();
    };
    let values = |pairs: Pairs<Store>| -> Vec<u8> {
        pairs.map(|pair| pair.unwrap().value().to_vec()[0]).collect()
    };
    change(&[1, 2, 3, 4, 5], &[]);
    for (scan, left) in [(Scan::new("t"), [4, 5]), (Scan::new("t").reverse(), [2, 1])] {
        let mut pairs = scan.pairs(&store).unwrap();
        assert_eq!(pairs.nth(2).unwrap().unwrap().value(), [3]);
        pairs.park().unwrap();
        change(&[], &[2, 3, 4]);
        assert!(matches!(pairs.event().unwrap(), Some(Event::Renewed { .. })));
        let token = pairs.token().unwrap();
        pairs.park().unwrap();
        change(&[2, 3, 4], &[]);
        assert_eq!(values(pairs), left);
        assert_eq!(values(Scan::resume(&token, &store).unwrap().pairs(&store).unwrap()), left);
    }
}

#[test]
fn events_are_shown() {
    let (_folder, store) = store();
    fill(&store, 1..=2);
    let mut pairs = Scan::new("t").renewal(Renewal::fresh()).pairs(&store).unwrap();
    let first = pairs.event().unwrap().unwrap();
    let pair = Scan::new("t").pairs(&store).unwrap().next().unwrap().unwrap();
    assert_eq!(format!("{first:?}"), format!("Pair({pair:?})"));
    fill(&store, [3]);
    let text = format!("{:?}", pairs.event());
    assert!(text.starts_with("Ok(Some(Renewed { from: "), "{text}");
}

#[test]
fn an_idle_stream_gives_its_snapshot_back() {
    let (_folder, store) = store();
    fill(&store, 0..50);
    let mut pairs = Scan::new("t").park_after(Duration::from_millis(20)).pairs(&store).unwrap();
    assert_eq!(pairs.next().unwrap().unwrap().key(), [0]);
    // Where this thread had to wait for the processor, the stream may be parked by now.
    let readers = store.readers().unwrap().len();
    assert!(readers == 1 || readers == 0 && pairs.is_parked());
    while !store.readers().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(pairs.is_parked());
    fill(&store, [60]);
    assert_eq!(pairs.count(), 50, "it goes on, with the newest snapshot");
}

#[test]
fn guards_outlive_everything() {
    let (folder, store, all) = with_duplicates(30);
    let mut pairs = Scan::new("t").pairs(&store).unwrap();
    let guards: Vec<_> = pairs.by_ref().map(Result::unwrap).collect();
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.clear_table(table).unwrap();
    txn.commit().unwrap();
    drop((pairs, store, folder));
    let found: Vec<Owned> = guards.iter().map(Pair::to_owned).collect();
    assert_eq!(found, all);
}

#[test]
fn tokens_belong_to_a_store() {
    let (_folder, store) = store();
    let (_other_folder, other) = self::store();
    let (db_folder, db) = db();
    fill(&store, 0..3);
    fill(&other, 0..3);
    fill(&db, 0..3);
    let token = Scan::new("t").pairs(&store).unwrap().token().unwrap();
    assert!(matches!(Scan::resume(&token, &other), Err(Error::Argument { .. })));
    assert!(matches!(Scan::resume(&token, &db), Err(Error::Argument { .. })));
    let id = db.id().unwrap();
    drop(db);
    let db = Options::new().open(db_folder.path().join("db")).unwrap();
    assert_eq!(db.id().unwrap(), id);
    assert!("zz".parse::<Token>().is_err());
    assert!(matches!(Scan::new("none").pairs(&db), Err(Error::NoTable { .. })));
}

#[test]
fn parts_are_even_and_whole() {
    let (_folder, store, all) = with_duplicates(100);
    for (n, reverse) in [(1, false), (7, true), (64, false), (1_000, false)] {
        let scan = Scan::new("t").skip(3).limit(200);
        let scan = if reverse { scan.reverse() } else { scan };
        let parts = scan.split(&store, n).unwrap();
        assert_eq!(parts.len(), n);
        let parts: Vec<Vec<Owned>> =
            parts.into_iter().map(|part| collect(part.pairs().unwrap())).collect();
        let lens = parts.iter().map(Vec::len);
        assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1);
        assert_eq!(parts.concat(), expected(&all, &scan));
    }
    let too_many = Scan::new("t").split(&store, usize::MAX);
    assert!(matches!(too_many, Err(Error::Argument { .. })));
    let (_folder, db) = db();
    fill(&db, 0..3);
    assert!(matches!(Scan::new("t").split(&db, 2), Err(Error::Argument { .. })));
}

/// A sink into either engine, in a mode; what it reports and what is there afterwards.
fn sunk<T: Target + Source>(
    target: &T,
    mode: Mode,
    on_reject: OnReject,
) -> (SinkReport, Vec<Owned>) {
    fill(target, [2, 4]);
    let mut sink = Sink::new(target, "t").unwrap().mode(mode).on_reject(on_reject);
    for key in [1, 2, 3, 5] {
        if sink.is_over() {
            break;
        }
        sink.put(&[key], b"new").unwrap();
    }
    (sink.finish().unwrap(), collect(Scan::new("t").pairs(target).unwrap()))
}

fn modes<T: Target + Source>(make: impl Fn() -> T) {
    let pair = |key: u8, value: &[u8]| (vec![key], value.to_vec());
    let new = |key: u8| pair(key, b"new");
    let (report, found) = sunk(&make(), Mode::Put, OnReject::Fail);
    assert_eq!((report.pairs, report.rejected, report.commits), (4, 0, 1));
    assert_eq!(report.last, Some(Position { key: vec![5], value: Some(b"new".to_vec()) }));
    assert_eq!(found, [new(1), new(2), new(3), pair(4, &[4, 4]), new(5)]);

    let (report, found) = sunk(&make(), Mode::New, OnReject::Ignore);
    assert_eq!((report.pairs, report.rejected), (3, 1));
    assert_eq!(found, [new(1), pair(2, &[2, 2]), new(3), pair(4, &[4, 4]), new(5)]);

    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = seen.clone();
    let call = OnReject::Call(Box::new(move |rejected| {
        told.lock().unwrap().push((rejected.key.to_vec(), rejected.old.map(<[u8]>::to_vec)));
        Ok(true)
    }));
    let (report, found) = sunk(&make(), Mode::Replace, call);
    assert_eq!((report.pairs, report.rejected), (1, 3));
    assert_eq!(found, [new(2), pair(4, &[4, 4])]);
    assert_eq!(*seen.lock().unwrap(), [(vec![1], None), (vec![3], None), (vec![5], None)]);

    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = seen.clone();
    let call = OnReject::Call(Box::new(move |rejected| {
        told.lock().unwrap().push(rejected.old.map(<[u8]>::to_vec));
        Ok(true)
    }));
    let (report, found) = sunk(&make(), Mode::Append, call);
    assert_eq!((report.pairs, report.rejected), (1, 3));
    assert_eq!(*seen.lock().unwrap(), [None, Some(vec![2, 2]), None]);
    assert_eq!(report.last, Some(Position { key: vec![5], value: Some(b"new".to_vec()) }));
    assert_eq!(found, [pair(2, &[2, 2]), pair(4, &[4, 4]), new(5)]);

    let (report, found) = sunk(&make(), Mode::New, OnReject::Stop);
    assert_eq!((report.pairs, report.rejected), (1, 1));
    assert_eq!(found.len(), 3);

    let merge = |_: &[u8], old: Option<&[u8]>, new: &[u8]| old.is_none().then(|| new.to_vec());
    let (report, found) = sunk(&make(), Mode::Merge(Box::new(merge)), OnReject::Fail);
    assert_eq!((report.pairs, report.rejected), (4, 0));
    assert_eq!(found, [new(1), new(3), pair(4, &[4, 4]), new(5)]);

    let target = make();
    fill(&target, [2]);
    let mut sink = Sink::new(&target, "t").unwrap();
    sink = sink.mode(Mode::New).on_reject(OnReject::FailUnlessSame).cut(Cut::never().pairs(2));
    assert!(!sink.put(&[2], &[2, 2]).unwrap());
    assert!(sink.put(&[3], b"").unwrap() && sink.put(&[4], b"").unwrap());
    assert!(sink.put(&[5], b"").unwrap());
    assert!(matches!(sink.put(&[2], b"other"), Err(Error::Rejected { key }) if key == [2]));
    assert!(sink.put(&[6], b"").is_err());
    assert_eq!(sink.report().last.as_ref().unwrap().key, [4]);
    let keys = collect(Scan::new("t").pairs(&target).unwrap());
    assert!(keys.iter().map(|pair| pair.0[0]).eq([2, 3, 4]), "the pair 5 was not committed");
}

#[test]
fn sinks_do_as_their_mode_says() {
    let folders = std::cell::RefCell::new(Vec::new());
    modes(|| {
        let (folder, store) = store();
        folders.borrow_mut().push(folder);
        store
    });
    modes(|| {
        let (folder, db) = db();
        folders.borrow_mut().push(folder);
        db
    });
}

#[test]
fn pairs_in_and_out_of_order_arrive() {
    let (_folder, store) = store();
    let mut sink = Sink::new(&store, "t").unwrap().cut(Cut::never().pairs(100));
    let keys = |n: u32| if n % 50 == 49 { n / 2 * 2 } else { 2 * n + 1 };
    for n in 0..1_000 {
        sink.put(&keys(n).to_be_bytes(), b"").unwrap();
    }
    assert_eq!(sink.finish().unwrap().commits, 10);
    let found = collect(Scan::new("t").pairs(&store).unwrap());
    let mut wanted: Vec<u32> = (0..1_000).map(keys).collect();
    wanted.sort_unstable();
    wanted.dedup();
    assert!(found.iter().map(|pair| pair.0.as_slice()).eq(wanted.iter().map(|n| n.to_be_bytes())));
    assert!(store.check(&mut |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn asynchronous_streams_give_all_and_let_go() {
    let (_folder, store, all) = with_duplicates(200);
    let mut pairs = Scan::new("t").stream(&store).unwrap().into_pairs();
    let mut found = Vec::new();
    while let Some(pair) = pollster::block_on(pairs.next_pair()).unwrap() {
        found.push((pair.key().to_vec(), pair.value().to_vec()));
    }
    assert_eq!(found, all);
    let (mut stream, mut run) = (Scan::new("t").stream(&store).unwrap(), Run::default());
    let mut found = Vec::new();
    while pollster::block_on(stream.fill(&mut run)).unwrap() {
        found.extend(run.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    assert_eq!(found, all);
    let mut stream = Scan::new("t").stream(&store).unwrap();
    assert!(!pollster::block_on(stream.next_run()).unwrap().unwrap().is_empty());
    drop((pairs, stream));
    while !store.readers().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_tasks_share_a_sink() {
    let (_folder, store) = store();
    let sink = Sink::new(&store, "t").unwrap().mode(Mode::New).on_reject(OnReject::Ignore);
    let sink = AsyncSink::new(sink, 4).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let sink = sink.clone();
            scope.spawn(move || {
                let acks: Vec<Ack> = (0..50)
                    .map(|n| pollster::block_on(sink.put(vec![thread, n], vec![])))
                    .collect();
                assert!(acks.into_iter().all(|ack| pollster::block_on(ack).unwrap()));
            });
        }
    });
    assert!(
        !pollster::block_on(pollster::block_on(sink.put(vec![1, 1], vec![]))).unwrap(),
        "it is there already"
    );
    assert_eq!(sink.report().pairs, 200);
    assert_eq!(collect(Scan::new("t").pairs(&store).unwrap()).len(), 200);
}

#[test]
fn a_flag_ends_a_join_that_looks_for_a_key() {
    let (_folder, store) = store();
    for table in ["a", "b"] {
        let mut sink = Sink::new(&store, table).unwrap();
        (0..100_u8).for_each(|key| assert!(sink.put(&[key], b"").unwrap()));
        sink.finish().unwrap();
    }
    for kind in [Kind::Intersection, Kind::Difference] {
        let flag = crate::tree::Interrupt::default();
        let inputs = ["a", "b"].map(|table| Input::new(&Scan::new(table), &store).unwrap());
        let mut join = Join::new(kind, inputs.into()).unwrap().interrupt(flag.clone());
        flag.set(true);
        assert!(matches!(join.next(), Some(Err(Error::Interrupted))));
        assert!(join.next().is_none());
    }
}

#[test]
fn a_table_in_another_order_is_not_joined() {
    let (_folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    for (name, order) in [("r", Order::Reverse), ("i", Order::Integer), ("b", Order::Bytewise)] {
        txn.create_table(name, &TableOptions::new().order(order)).unwrap();
    }
    txn.commit().unwrap();
    for name in ["r", "i"] {
        let refused = Input::new(&Scan::new(name), &store).err().unwrap();
        assert!(matches!(refused, Error::WrongTable { .. }), "{refused}");
    }
    assert!(Input::new(&Scan::new("b"), &store).is_ok());
}

/// What is left out counts towards the limit, also where that ends the stream.
#[test]
fn a_token_of_a_stream_that_left_out_its_rest_gives_no_more() {
    let (_folder, store) = store();
    let (_db_folder, db) = db();
    fill(&store, 0..40);
    fill(&db, 0..40);
    fn left_out<S: Source>(source: &S, scan: Scan, n: usize) -> (u64, Vec<u8>) {
        let mut pairs = scan.pairs(source).unwrap();
        assert!(pairs.nth(n).is_none());
        let rest = Scan::resume(&pairs.token().unwrap(), source).unwrap();
        let rest = rest.pairs(source).unwrap().map(|pair| pair.unwrap().key().to_vec()[0]);
        (pairs.given(), rest.collect())
    }
    for n in [3, 5, 30, 39] {
        let limited = Scan::new("t").limit(3);
        assert_eq!(left_out(&store, limited.clone(), n), (3, vec![]), "{n}");
        assert_eq!(left_out(&store, limited.clone().reverse(), n), (3, vec![]), "{n}");
        assert_eq!(left_out(&db, limited, n), (3, vec![]), "{n}");
    }
    // The range ends before the limit does.
    let ends = Scan::new("t").range(&[30_u8][..]..).limit(100);
    assert_eq!(left_out(&store, ends.clone(), 50), (10, vec![]));
    assert_eq!(left_out(&db, ends, 50), (10, vec![]));
}

proptest! {
    #[test]
    fn joins_are_those_of_sets(
        sets in prop::collection::vec(prop::collection::btree_set(0..60_u8, 0..40), 1..4),
    ) {
        let (_folder, store) = store();
        let (_db_folder, db) = db();
        for (n, set) in sets.iter().enumerate() {
            let pairs = || set.iter().map(|&key| Ok::<_, Error>(([key], [n as u8])));
            let mut sink = Sink::new(&store, [n as u8]).unwrap();
            sink.extend(pairs()).unwrap();
            sink.finish().unwrap();
            let mut sink = Sink::new(&db, [n as u8]).unwrap();
            sink.extend(pairs()).unwrap();
            sink.finish().unwrap();
        }
        for kind in [Kind::Union, Kind::Intersection, Kind::Difference] {
            let input = |n: usize| {
                let scan = Scan::new([n as u8]);
                if n == 1 { Input::new(&scan, &db) } else { Input::new(&scan, &store) }
            };
            // A table that nothing was put into does not exist.
            let Ok(inputs) = (0..sets.len()).map(input).collect() else { continue };
            let joined: Result<Vec<_>> = Join::new(kind, inputs).unwrap().collect();
            let wanted = (0..60_u8).filter(|key| match kind {
                Kind::Union => sets.iter().any(|set| set.contains(key)),
                Kind::Intersection => sets.iter().all(|set| set.contains(key)),
                Kind::Difference => {
                    sets[0].contains(key) && !sets[1..].iter().any(|set| set.contains(key))
                }
            });
            let value = |key: u8, n: usize| sets[n].contains(&key).then(|| vec![n as u8]);
            let wanted = wanted.map(|key| Joined {
                key: vec![key],
                values: (0..sets.len()).map(|n| value(key, n)).collect(),
            });
            prop_assert_eq!(joined.unwrap(), wanted.collect::<Vec<_>>());
        }
    }
}

#[test]
fn values_and_pairs_of_a_snapshot_outlive_store_and_transaction() {
    let (_folder, store, all) = with_duplicates(200);
    let snapshot = std::sync::Arc::new(store.begin_read().unwrap());
    let table = snapshot.table("t").unwrap();
    // What is written later is not in the snapshot.
    let mut txn = store.begin_write().unwrap();
    let written = txn.table("t").unwrap();
    txn.clear_table(written).unwrap();
    txn.commit().unwrap();
    let pairs = Scan::new("t").pairs_of(&store, snapshot.clone()).unwrap();
    let value = Value::get(&snapshot, table, &[7]).unwrap().unwrap();
    assert!(Value::get(&snapshot, table, &[250]).unwrap().is_none());
    drop((snapshot, store));
    assert_eq!(value.bytes(), [0]);
    let kept: Vec<Value> = pairs.map(|pair| Value::from(pair.unwrap())).collect();
    assert!(kept.iter().zip(&all).all(|(kept, (_, value))| kept.bytes() == *value));
    assert_eq!(kept.len(), all.len());
}

#[test]
fn runs_are_the_pairs_and_outlive_the_stream() {
    let (_folder, store, all) = with_duplicates(150);
    for reverse in [false, true] {
        let scan = Scan::new("t");
        let scan = if reverse { scan.reverse() } else { scan };
        // An empty one would be the end.
        let mut one = Run::default();
        scan.clone().pairs(&store).unwrap().fill(&mut one, 9, 0).unwrap();
        assert_eq!(one.len(), 1);
        let mut pairs = scan.pairs(&store).unwrap();
        let (mut runs, mut sizes) = (Vec::new(), [1, 7, 0, 500, 20].iter().cycle());
        while pairs.remaining() != Some(0) {
            let mut run = Run::default();
            pairs.fill(&mut run, *sizes.next().unwrap(), 50).unwrap();
            assert!(run.len() <= 50);
            runs.push(run);
        }
        assert_eq!(pairs.given(), all.len() as u64);
        let mut last = Run::default();
        pairs.fill(&mut last, 9, 9).unwrap();
        assert!(last.is_empty() && last.get(0).is_none());
        drop(pairs);
        let mut found: Vec<Owned> = runs
            .iter()
            .flat_map(|run| (0..run.len()).filter_map(|n| run.get(n)))
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        if reverse {
            found.reverse();
        }
        assert_eq!(found, all);
    }
    let (_folder, db) = db();
    let mut sink = Sink::new(&db, "k").unwrap();
    for n in 0..100_u8 {
        sink.put(&[n], &[n; 3]).unwrap();
    }
    sink.finish().unwrap();
    let mut pairs = Scan::new("k").renewal(Renewal::never().pairs(1)).pairs(&db).unwrap();
    let mut run = Run::default();
    pairs.fill(&mut run, 1000, u64::MAX).unwrap();
    assert_eq!(run.len(), 100);
    assert_eq!(run.get(99).unwrap().1, [99; 3]);
}

#[test]
fn a_sink_stops_at_a_flag_or_a_moment_and_keeps_what_it_has() {
    let (_folder, store) = store();
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let now = std::time::Instant::now();
    let sink = || Sink::new(&store, "t").unwrap();
    for mut sink in [sink().stop_flag(flag), sink().deadline(now)] {
        let pairs = (0..1_000_u32).map(|n| Ok::<_, Error>((n.to_be_bytes(), [0; 96])));
        sink.extend(pairs).unwrap();
        assert!(sink.is_over());
        assert!(matches!(sink.put(b"more", b""), Err(Error::Rejected { .. })));
        assert_eq!(sink.finish().unwrap().pairs, 41, "the first page that is full");
    }
    let later = now + Duration::from_secs(3_600);
    let mut sink = sink().deadline(later);
    sink.extend((0..1_000_u32).map(|n| Ok::<_, Error>((n.to_be_bytes(), [0; 96])))).unwrap();
    assert_eq!(sink.finish().unwrap().pairs, 1_000);
}

#[test]
fn pairs_are_moved_between_tables() {
    let (_folder, store, all) = with_duplicates(200);
    let mut txn = store.begin_write().unwrap();
    let (from, long) = (txn.table("t").unwrap(), vec![7; 300_000]);
    let to = txn.create_table("to", &TableOptions::new().duplicates()).unwrap();
    txn.put(to, &[20], b"old").unwrap();
    assert!(matches!(transfer(&mut txn, from, .., from), Err(Error::Argument { .. })));
    let keys = &[20][..]..=&[90][..];
    let inside = |pair: &&Owned| (20..=90).contains(&pair.0[0]);
    let moved: Vec<_> = all.iter().filter(inside).cloned().collect();
    assert_eq!(transfer(&mut txn, from, keys, to).unwrap(), moved.len() as u64);
    let pairs = |txn: &crate::tree::WriteTxn, table| -> Vec<Owned> {
        let all = txn.range(table, ..).unwrap().map(Result::unwrap);
        all.map(|entry| (entry.key.to_vec(), entry.value.to_vec())).collect()
    };
    let rest: Vec<_> = all.iter().filter(|pair| !inside(pair)).cloned().collect();
    assert_eq!(pairs(&txn, from), rest);
    let mut both = moved;
    both.push((vec![20], b"old".to_vec()));
    both.sort();
    assert_eq!(pairs(&txn, to), both);

    // More than one batch.
    let one = txn.create_table("one", &TableOptions::new()).unwrap();
    let two = txn.create_table("two", &TableOptions::new()).unwrap();
    for key in 0..5_u8 {
        txn.put(one, &[key], &long).unwrap();
    }
    assert_eq!(transfer(&mut txn, one, .., two).unwrap(), 5);
    assert_eq!((txn.count(one).unwrap().keys, txn.count(two).unwrap().keys), (0, 5));
}

#[test]
fn pairs_are_moved_between_keyspaces() {
    use crate::lsm::Readable as _;

    let folder = tempfile::tempdir().unwrap();
    let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
    let keyspace = |name| db.keyspace(name, Default::default()).unwrap();
    let (queue, done) = (keyspace("queue"), keyspace("done"));
    for key in 0..10_u8 {
        db.put(&queue, &[key], &vec![key; 100_000]).unwrap();
    }
    let mut txn = db.transaction();
    txn.delete(&queue, &[3]).unwrap();
    txn.put(&queue, &[4], b"new").unwrap();
    assert!(matches!(transfer(&mut txn, &queue, .., &queue), Err(Error::Argument { .. })));
    assert_eq!(transfer(&mut txn, &queue, &[2][..].., &done).unwrap(), 7);
    txn.commit().unwrap();
    let keys = |keyspace| -> Vec<u8> {
        db.range(keyspace, ..).unwrap().map(|pair| pair.unwrap().0[0]).collect()
    };
    assert_eq!((keys(&queue), keys(&done)), (vec![0, 1], vec![2, 4, 5, 6, 7, 8, 9]));
    assert_eq!(db.get(&done, &[4]).unwrap().unwrap(), b"new"[..]);
    assert_eq!(db.get(&done, &[9]).unwrap().unwrap(), [9; 100_000][..]);
}

/// Hunts for a place outside of the range, of a caller or of a forged token, that widens it.
#[test]
fn a_place_outside_of_the_range_does_not_widen_it() {
    fn gives<S: Source>(store: &S, reverse: bool, at: &[u8], values: Option<u8>) -> Vec<Vec<u8>> {
        let place = Position { key: at.to_vec(), value: values.map(|value| vec![value]) };
        let scan = Scan::new("t").range((Bound::Excluded(&[10][..]), Bound::Included(&[13][..])));
        let scan = if reverse { scan.reverse() } else { scan };
        let token = scan.clone().after(place.clone()).pairs(store).unwrap().token().unwrap();
        let keys = |scan: Scan| -> Vec<Vec<u8>> {
            scan.pairs(store).unwrap().map(|pair| pair.unwrap().key().to_vec()).collect()
        };
        let found = keys(scan.clone().after(place));
        assert_eq!(keys(scan.after_token(&token, store).unwrap()), found);
        found
    }
    fn check<S: Source>(store: &S, of_each: usize) {
        let values = (of_each > 1).then_some(of_each as u8 / 2);
        for (at, reverse, expected) in [
            (3, false, vec![11, 12, 13]),
            (10, false, vec![11, 12, 13]),
            (11, false, vec![12, 13]),
            (13, false, vec![]),
            (17, false, vec![]),
            (17, true, vec![13, 12, 11]),
            (13, true, vec![12, 11]),
            (10, true, vec![]),
            (3, true, vec![]),
        ] {
            let mut found = gives(store, reverse, &[at], values);
            // Of the key of the place itself some values may be left.
            found.retain(|key| key[0] != at);
            found.dedup();
            let expected: Vec<Vec<u8>> = expected.into_iter().map(|key| vec![key]).collect();
            assert_eq!(found, expected, "{at} {reverse} {of_each}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for of_each in [1, 4] {
        let store = Store::create(folder.path().join(format!("{of_each}"))).unwrap();
        let mut txn = store.begin_write().unwrap();
        let options = TableOptions::new();
        let options = if of_each > 1 { options.duplicates() } else { options };
        let table = txn.create_table("t", &options).unwrap();
        for n in 0..20 * of_each {
            txn.put(table, &[n / of_each], &[n % of_each]).unwrap();
        }
        txn.commit().unwrap();
        check(&store, usize::from(of_each));
    }
    let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
    let mut sink = Sink::new(&db, "t").unwrap();
    (0..20_u8).for_each(|n| assert!(sink.put(&[n], b"").unwrap()));
    sink.finish().unwrap();
    check(&db, 1);
}

/// Hunts for keys of an input that a stream has given from its end before.
#[test]
fn an_input_of_a_join_ends_where_the_token_says() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    for (name, keys) in [("all", (0..20).collect::<Vec<u8>>()), ("some", vec![0, 12, 13, 18])] {
        let mut sink = Sink::new(&store, name).unwrap();
        keys.iter().for_each(|&key| assert!(sink.put(&[key], b"").unwrap()));
        sink.finish().unwrap();
    }
    let mut pairs = Scan::new("all").pairs(&store).unwrap();
    assert_eq!((pairs.by_ref().take(1).count(), pairs.by_ref().rev().take(5).count()), (1, 5));
    let rest = Scan::resume(&pairs.token().unwrap(), &store).unwrap();
    let inputs = [rest, Scan::new("some")].map(|scan| Input::new(&scan, &store).unwrap());
    let both = Join::new(Kind::Intersection, inputs.into()).unwrap();
    assert_eq!(both.map(|joined| joined.unwrap().key).collect::<Vec<_>>(), [[12], [13]]);
}

/// Hunts for a pair that is appended although another writer has put one behind it meanwhile.
#[test]
fn what_others_put_behind_it_stops_an_appending_sink() {
    let (_folder, db) = db();
    let keyspace = db.keyspace("t", Default::default()).unwrap();
    db.put(&keyspace, &[1], b"").unwrap();
    let appending = || Sink::new(&db, "t").unwrap().mode(Mode::Append);
    let mut sink = appending();
    assert!(sink.put(&[5], b"").unwrap());
    db.put(&keyspace, &[9], b"").unwrap();
    assert!(sink.put(&[7], b"").unwrap());
    assert!(matches!(sink.finish(), Err(Error::Conflict)));
    let mut sink = appending();
    assert!(sink.put(&[10], b"").unwrap());
    assert!(matches!(sink.put(&[7], b""), Err(Error::Rejected { .. })));
    let mut sink = appending();
    db.put(&keyspace, &[10], b"").unwrap();
    assert!(sink.put(&[11], b"").unwrap() && sink.put(&[12], b"").unwrap());
    sink.finish().unwrap();
}
