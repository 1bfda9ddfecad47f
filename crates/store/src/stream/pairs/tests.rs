//! Snapshots that are exchanged when they hold too many pages.

use crate::stream::{Event, Pairs, Renewal, Scan, Sink};
use crate::tree::{ReadTxn, Store};
use crate::{Durability, Error};

const KEYS: u32 = 2_000;

/// Replaces every `step`-th value, others with each byte, in one commit that is flushed or not.
fn write(store: &Store, byte: u8, step: usize, durability: Durability) {
    let mut sink = Sink::new(store, "t").unwrap().durability(durability);
    for key in (u32::from(byte) % step as u32..KEYS).step_by(step) {
        sink.put(&key.to_be_bytes(), &[byte; 400]).unwrap();
    }
    sink.finish().unwrap();
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().page_size(4096).create(folder.path().join("store")).unwrap();
    write(&store, 0, 1, Durability::Durable);
    (folder, store)
}

/// Pages that no snapshot but the newest and the newest durable commit would hold.
fn pinned(store: &Store) -> u64 {
    store.stat().unwrap().pinned_pages
}

#[test]
fn what_a_snapshot_holds_is_what_becomes_free_without_it() {
    let (_folder, store) = store();
    let old: ReadTxn = store.begin_read().unwrap();
    assert_eq!(old.held_pages().unwrap(), 0);
    let mut held = 0;
    for round in 0..30_u8 {
        write(&store, round, 1 + usize::from(round) * 7, Durability::Durable);
        let now = old.held_pages().unwrap();
        assert!(now >= held, "what it held it holds");
        assert_eq!(now, pinned(&store), "round {round}");
        held = now;
    }
    // All pages of the table were replaced, and two were of the free space and the catalog.
    assert!((KEYS / 10..KEYS / 5).contains(&(held as u32)), "{held}");
    // A newer one holds less, and together they hold what either does.
    let newer = store.begin_read().unwrap();
    write(&store, 99, 50, Durability::Durable);
    let (of_old, of_newer) = (old.held_pages().unwrap(), newer.held_pages().unwrap());
    assert!(of_old >= held && 0 < of_newer && of_newer < of_old / 2, "{of_old} {of_newer}");
    drop(old);
    assert_eq!(newer.held_pages().unwrap(), of_newer);
    // What only the old one held is let go by commits that need pages.
    for round in 0..5 {
        write(&store, round, 1, Durability::Durable);
    }
    assert_eq!(newer.held_pages().unwrap(), pinned(&store));
    drop(newer);
    assert_eq!(pinned(&store), 0);
}

#[test]
fn a_pinned_commit_holds_its_pages() {
    let (_folder, store) = store();
    store.pin("p").unwrap();
    write(&store, 1, 1, Durability::Durable);
    let pinned = store.read_pin("p").unwrap().unwrap();
    let held = pinned.held_pages().unwrap();
    assert!(held >= u64::from(KEYS) / 10, "{held}");
    drop(pinned);
    assert_eq!(store.stat().unwrap().holders.pins[0].held_pages, held);
}

/// Reads to the end, with a commit that replaces every 20th value after each `every` pairs; the
/// most pages that the stream held, and how often it was renewed.
fn read(store: &Store, mut pairs: Pairs<Store>, every: u32) -> (u64, u32) {
    let (mut most, mut renewed, mut next) = (0, 0, 0);
    loop {
        match pairs.event().unwrap() {
            Some(Event::Pair(pair)) => {
                assert_eq!(pair.key(), u32::to_be_bytes(next));
                next += 1;
                if next.is_multiple_of(every) {
                    write(store, (next / every) as u8, 20, Durability::None);
                }
                most = most.max(pair.snapshot().held_pages().unwrap());
            }
            Some(Event::Renewed { from, to }) => {
                assert!(from < to);
                renewed += 1;
            }
            None => break,
        }
    }
    assert_eq!(next, KEYS);
    (most, renewed)
}

#[test]
fn a_stream_holds_no_more_pages_than_it_may() {
    let (_folder, store) = store();
    let scan = Scan::new("t");
    let (most, renewed) = read(&store, scan.pairs(&store).unwrap(), 20);
    assert!(most > u64::from(KEYS) / 20 && renewed == 0, "{most} {renewed}");
    for pages in [1, 60, 150] {
        let scan = scan.clone().renewal(Renewal::never().pages(pages));
        let (most, renewed) = read(&store, scan.pairs(&store).unwrap(), 20);
        // One commit frees all leaves with a 20th value, and some pages above them.
        assert!(most < pages + u64::from(KEYS) / 20 + 20, "{pages}: {most}");
        assert!((1..=KEYS / 20).contains(&renewed), "{pages}: {renewed}");
    }
    // That many are never held.
    let scan = scan.clone().renewal(Renewal::never().pages(100_000));
    assert_eq!(read(&store, scan.pairs(&store).unwrap(), 20).1, 0);
    // Pages that others hold do not count.
    let _other = store.begin_read().unwrap();
    for round in 0..10 {
        write(&store, round, 1, Durability::None);
    }
    let scan = Scan::new("t").renewal(Renewal::never().pages(200));
    let mut pairs = scan.pairs(&store).unwrap();
    let commit = pairs.commit();
    pairs.next().unwrap().unwrap();
    write(&store, 1, 500, Durability::None);
    assert!(store.stat().unwrap().pinned_pages > 200);
    pairs.next().unwrap().unwrap();
    assert_eq!(pairs.commit(), commit);
}

#[test]
fn only_the_tree_engine_knows_what_a_snapshot_holds() {
    let folder = tempfile::tempdir().unwrap();
    let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
    let mut sink = Sink::new(&db, "t").unwrap();
    sink.put(b"k", b"v").unwrap();
    sink.finish().unwrap();
    let scan = Scan::new("t").renewal(Renewal::never().pages(5));
    assert!(matches!(scan.pairs(&db), Err(Error::Argument { .. })));
    // A stream that is fresh sees each commit, in both engines.
    let mut pairs = Scan::new("t").renewal(Renewal::fresh()).pairs(&db).unwrap();
    pairs.next().unwrap().unwrap();
    let mut sink = Sink::new(&db, "t").unwrap();
    sink.put(b"l", b"v").unwrap();
    sink.finish().unwrap();
    assert!(matches!(pairs.event().unwrap(), Some(Event::Renewed { .. })));
    assert_eq!(pairs.next().unwrap().unwrap().key(), b"l");
}
