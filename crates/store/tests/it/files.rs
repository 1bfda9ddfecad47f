//! Files that are not what they should be: each gives a clear error, no panic, and nothing is lost.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::tree::{Paths, Snapshot, Store, TableOptions};

use crate::{Owned, Scratch, all, begin, begin_read, pair};

/// Opening a file of these bytes must say that it is no store, without changing it.
fn no_store(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    for builder in [Store::builder(), Store::builder().read_only(true)] {
        match builder.open(&path) {
            Err(error @ Error::NotAStore { .. }) => {
                assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            }
            Err(other) => panic!("expected NotAStore, not {other:?}"),
            Ok(_) => panic!("a file of {} bytes opened", bytes.len()),
        }
    }
    assert!(Store::builder().create(&path).is_err());
    assert!(fs::read(&path).unwrap() == bytes, "a file that is no store was changed");
}

#[test]
fn a_text_file() {
    no_store(&b"It was a dark and stormy night.\n".repeat(1000));
    no_store(b"short");
}

/// It cannot be opened, and becomes a store where one is to be made.
#[test]
fn an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"").unwrap();
    assert!(matches!(Store::open(&path), Err(Error::NotAStore { .. })));
    let store = Store::create(&path).unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.create_table("t", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    drop(store);
    assert!(Store::open(&path).unwrap().begin_read().unwrap().table("t").is_ok());
    assert!(matches!(Store::create(&path), Err(Error::Path { .. })));
}

/// Whichever way a store is named, its lock file is the same.
#[test]
fn the_lock_file_does_not_depend_on_the_way_a_store_is_named() {
    for (data, lock) in [("data.hdg", "lock.hdg"), ("data.mdb", "lock.mdb")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(data);
        drop(Store::create(&file).unwrap());
        assert_eq!(Paths::of(folder.path()), Paths::of(&file));
        assert_eq!(Paths::of(&file).lock, folder.path().join(lock));
        drop(Store::open(folder.path()).unwrap());
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [data, lock]);
    }
    let folder = tempfile::tempdir().unwrap();
    let (store, link) = (folder.path().join("store"), folder.path().join("link"));
    std::os::unix::fs::symlink("store", &link).unwrap();
    assert_eq!(Paths::of(&link).data, link, "it leads nowhere");
    let opened = Store::create(&store).unwrap();
    assert_eq!(Paths::of(&link), Paths::of(store.canonicalize().unwrap()));
    assert_eq!(Store::open(&link).unwrap().path(), opened.path());
    assert!(!folder.path().join("link-lock").exists());
    let plain = Paths::of("somewhere/else");
    assert_eq!(plain.lock, Path::new("somewhere/else-lock"));
}

#[test]
fn zeros() {
    no_store(&[0; 100_000]);
}

#[test]
fn an_lmdb_file() {
    let mut page = vec![0u8; 4096];
    page[10] = 8; // the flag of a meta page
    page[16..20].copy_from_slice(&0xbeef_c0deu32.to_le_bytes());
    page[20..24].copy_from_slice(&1u32.to_le_bytes());
    no_store(&page.repeat(4));
}

#[test]
fn paths_that_are_there_or_not() {
    let scratch = Scratch::new();
    assert!(matches!(Store::create(scratch.path()), Err(Error::Path { .. })));
    assert!(matches!(Store::open(scratch.beside("absent")), Err(Error::Path { .. })));
    assert!(!scratch.beside("absent").exists());
    let folder = scratch.beside("folder");
    fs::create_dir(&folder).unwrap();
    let store = Store::create(&folder).unwrap();
    assert!(folder.join("data.hdg").exists());
    assert_eq!(store.path(), folder.join("data.hdg"));
    drop(store);
    Store::open(&folder).unwrap();
}

#[test]
fn page_sizes_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [0, 1, 512, 2048, 4097, 12_288, 131_072, u32::MAX] {
        let path = folder.path().join(bytes.to_string());
        let result = Store::builder().page_size(bytes).create(&path);
        assert!(matches!(result, Err(Error::Argument { .. })), "{bytes} bytes");
        assert!(!path.exists());
    }
    let path = folder.path().join("store");
    drop(Store::builder().page_size(16_384).create(&path).unwrap());
    assert_eq!(Store::builder().page_size(4096).open(&path).unwrap().page_size(), 16_384);
}

/// A store of two commits with pages of every kind.
fn filled(scratch: &Scratch) -> Vec<Owned> {
    for part in 0..2 {
        let mut txn = scratch.store.begin_write().unwrap();
        let plain = txn.create_table("plain", &TableOptions::new()).unwrap();
        for i in (part..2000u32).step_by(2) {
            txn.put(plain, &i.to_be_bytes(), &[i as u8; 100]).unwrap();
        }
        txn.put(plain, b"large", &vec![part as u8; 30_000]).unwrap();
        let many = txn.create_table("many", &TableOptions::new().duplicates()).unwrap();
        for i in (part..2000u32).step_by(2) {
            txn.put(many, b"key", &i.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
    }
    // Freed pages need a list.
    let mut txn = scratch.store.begin_write().unwrap();
    let plain = txn.table("plain").unwrap();
    for i in 0..300u32 {
        txn.delete(plain, &i.to_be_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    let mut entries = all(&txn, txn.table("plain").unwrap());
    entries.extend(all(&txn, txn.table("many").unwrap()));
    entries
}

/// Opens a store and reads everything, or says what is wrong with it. Never panics.
fn examine(path: &Path) -> Result<Vec<Owned>, String> {
    let through = |map| examine_through(path, map);
    let (mapped, read) = (through(true), through(false));
    assert!(mapped == read, "the two ways of reading differ: {:?} {:?}", mapped.err(), read.err());
    mapped
}

fn examine_through(path: &Path, map: bool) -> Result<Vec<Owned>, String> {
    let read = || -> hedgerow::Result<Result<Vec<Owned>, String>> {
        let store = Store::builder().read_only(true).map(map).open(path)?;
        let report = store.check(&mut |_, _| {})?;
        if let Some(problem) = report.problems.into_iter().next() {
            return Ok(Err(problem));
        }
        let txn = store.begin_read()?;
        let mut entries = Vec::new();
        for name in ["plain", "many"] {
            let table = txn.table(name)?;
            for entry in txn.range(table, ..)? {
                entries.push(crate::owned(entry?));
            }
        }
        Ok(Ok(entries))
    };
    match catch_unwind(AssertUnwindSafe(read)).expect("a damaged file must not panic") {
        Ok(read) => read,
        Err(error) => Err(error.to_string()),
    }
}

/// One byte in every page, flipped: each is reported, unless nothing that counts depends on it.
#[test]
fn a_flipped_byte_in_every_page() {
    let scratch = Scratch::new();
    let entries = filled(&scratch);
    let stat = scratch.store.stat().unwrap();
    let pages = stat.table_pages;
    let used = (pages.branch_pages + pages.leaf_pages + pages.overflow_pages) as usize;
    let path = scratch.path();
    let Scratch { store, folder: _folder } = scratch;
    drop(store);
    assert!(examine(&path).unwrap() == entries);
    let good = fs::read(&path).unwrap();
    let mut reported = 0;
    let page_size = stat.page_size as usize;
    for (page, offset) in (0..good.len() / page_size).zip((0..page_size).step_by(61).cycle()) {
        let mut bad = good.clone();
        bad[page * page_size + offset] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        match examine(&path) {
            Err(message) => {
                assert!(!message.is_empty());
                reported += 1;
            }
            // A damaged meta page may leave the commit before; a free page is of no account.
            Ok(read) => assert!(read == entries || page < 3, "page {page} reads wrongly"),
        }
    }
    assert!(reported >= used, "{reported} pages reported, {used} are in use");
    fs::write(&path, &good).unwrap();
    assert!(examine(&path).unwrap() == entries, "nothing was lost on the way");
}

#[test]
fn a_truncated_store() {
    let scratch = Scratch::new();
    let entries = filled(&scratch);
    let path = scratch.path();
    let Scratch { store, folder: _folder } = scratch;
    drop(store);
    let good = fs::read(&path).unwrap();
    for len in [1, 100, 4095, 4096, 3 * 4096, 5 * 4096 + 17] {
        fs::write(&path, &good[..len]).unwrap();
        let message = examine(&path).expect_err("most pages are missing");
        assert!(message.contains("store"), "{message}");
    }
    for part in 2..20 {
        fs::write(&path, &good[..good.len() - good.len() / part]).unwrap();
        if let Ok(read) = examine(&path) {
            assert!(read == entries, "all but 1/{part} of the file reads wrongly");
        }
    }
    fs::write(&path, &good).unwrap();
    assert!(examine(&path).unwrap() == entries);
}

#[test]
fn read_only_stores_refuse_writes_and_change_nothing() {
    let scratch = Scratch::new();
    let entries = filled(&scratch);
    let scratch = scratch.reopen(Store::builder().read_only(true));
    assert!(scratch.store.is_read_only());
    assert!(matches!(scratch.store.begin_write(), Err(Error::ReadOnly)));
    let txn = scratch.store.begin_read().unwrap();
    let plain = all(&txn, txn.table("plain").unwrap());
    assert!(entries.starts_with(&plain));
}

#[test]
fn a_read_only_folder() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let entries = filled(&scratch);
    let path = scratch.path();
    let Scratch { store, folder } = scratch;
    drop(store);
    let lock = folder.path().join("store-lock");
    let _ = fs::remove_file(&lock);
    let mode = |bits| fs::set_permissions(folder.path(), fs::Permissions::from_mode(bits)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    mode(0o500);
    // The superuser may write everywhere: then there is no read-only folder to test.
    let may_write = fs::write(folder.path().join("probe"), b"").is_ok();
    let read = examine(&path);
    let written = Store::open(&path);
    mode(0o700);
    assert!(read.unwrap() == entries);
    if !may_write {
        assert!(matches!(written, Err(Error::Io { .. } | Error::ReadOnly)));
    }
}

/// Programs do so with stores that nobody else is to see: the files are open.
#[test]
fn a_folder_that_was_removed() {
    for durability in [Durability::Durable, Durability::Eventual, Durability::None] {
        let scratch = Scratch::with(Store::builder().durability(durability));
        fs::remove_dir_all(scratch.folder.path()).unwrap();
        for i in 0..3u32 {
            let (mut txn, table) = begin(&scratch.store);
            txn.put(table, &i.to_be_bytes(), b"v").unwrap();
            txn.commit().unwrap();
            scratch.store.sync().unwrap();
            let (txn, table) = begin_read(&scratch.store);
            assert_eq!(txn.count(table).unwrap().keys, u64::from(i) + 1);
        }
    }
}

/// A program that drops the last handle may remove the file and make another store in its place,
/// also when the background thread was flushing at that moment.
#[test]
fn a_store_is_closed_when_its_last_handle_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..12 {
        let store = Store::builder().durability(Durability::Eventual).create(&path).unwrap();
        for commit in 0..20u32 {
            let (mut txn, table) = begin(&store);
            for i in 0..200u32 {
                txn.put(table, &(i * 7919 + commit).to_be_bytes(), &[1; 500]).unwrap();
            }
            txn.commit().unwrap();
        }
        // The flush begins 20 milliseconds after the first commit.
        std::thread::sleep(Duration::from_millis(2 * round));
        drop(store);
        fs::remove_file(&path).unwrap();
    }
}

/// The lock file leads two openers together whose data files are not the same.
#[test]
fn a_file_that_was_replaced_while_it_is_open() {
    let scratch = Scratch::new();
    let put = |store: &Store, key: &[u8]| {
        let (mut txn, table) = begin(store);
        txn.put(table, key, b"v").unwrap();
        txn.commit().unwrap();
    };
    put(&scratch.store, b"a");
    let is_refused = |opened: hedgerow::Result<Store>| matches!(&opened, Err(Error::Locked { reason, .. }) if reason.contains("replaced"));
    fs::remove_file(scratch.path()).unwrap();
    fs::write(scratch.path(), b"").unwrap();
    assert!(is_refused(Store::create(scratch.path())), "it may be the same file, made empty");
    assert_eq!(fs::read(scratch.path()).unwrap(), b"", "nothing is left by the refusal");

    let other = scratch.folder.path().join("other");
    drop(Store::create(&other).unwrap());
    fs::rename(&other, scratch.path()).unwrap();
    assert!(is_refused(Store::open(scratch.path())));
    put(&scratch.store, b"b");
}

/// A transaction that is given up leaves no trace, in the length of the file either: on a full disk
/// others need the space.
#[test]
fn what_an_aborted_transaction_made_the_file_grow_by_is_given_back() {
    let scratch = Scratch::with(Store::builder().write_budget(1 << 20));
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, b"k", b"kept").unwrap();
    txn.commit().unwrap();
    let len = || fs::metadata(scratch.path()).unwrap().len();
    let before = len();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    for i in 0..40_000u32 {
        txn.put(table, &i.to_be_bytes(), &[1; 500]).unwrap();
    }
    assert!(len() > before + (10 << 20));
    txn.abort();
    assert!(len() < before + (1 << 20), "{before} bytes have become {}", len());
    scratch.check();
}

#[test]
fn a_second_writer_waits_or_is_told() {
    let scratch = Scratch::new();
    let first = scratch.store.begin_write().unwrap();
    assert!(scratch.store.try_begin_write().unwrap().is_none());
    drop(first);
    assert!(scratch.store.try_begin_write().unwrap().is_some());
}

#[test]
fn a_store_that_reached_its_maximum_size() {
    let max_size = 2 << 20;
    let scratch = Scratch::with(Store::builder().max_size(max_size));
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, b"k", b"kept").unwrap();
    txn.commit().unwrap();
    let fill = || -> hedgerow::Result<()> {
        let mut txn = scratch.store.begin_write()?;
        let table = txn.table("t")?;
        for i in 0..100_000u32 {
            txn.put(table, &i.to_be_bytes(), &[1; 500])?;
        }
        txn.commit()
    };
    assert!(matches!(fill(), Err(Error::StoreFull { max_size: told }) if told == max_size));
    assert!(fs::metadata(scratch.path()).unwrap().len() <= max_size);
    {
        let txn = scratch.store.begin_read().unwrap();
        assert_eq!(all(&txn, txn.table("t").unwrap()), [pair("k", "kept")]);
    }
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.put(table, b"small", b"fits").unwrap();
    txn.commit().unwrap();
    scratch.check();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    let expected = [pair("k", "kept"), pair("small", "fits")];
    assert_eq!(all(&txn, txn.table("t").unwrap()), expected);
}

/// A put finds the store full, not the commit; and what is full can be emptied.
#[test]
fn a_full_store_can_be_emptied() {
    let scratch = Scratch::new();
    let limit = 64 * 4096;
    let mut put = 0u32;
    loop {
        let mut txn = scratch.store.begin_write().unwrap();
        txn.set_max_size(Some(limit));
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        match txn.put(table, &put.to_be_bytes(), &[1; 400]) {
            Ok(()) => txn.commit().unwrap(),
            Err(Error::StoreFull { max_size }) => {
                assert_eq!(max_size, limit);
                assert!(matches!(txn.commit(), Err(Error::CommitFailed { .. })));
                break;
            }
            Err(other) => panic!("{other}"),
        }
        put += 1;
    }
    assert!(put > 50, "{put} entries");
    for i in 0..put {
        let mut txn = scratch.store.begin_write().unwrap();
        txn.set_max_size(Some(limit));
        let table = txn.table("t").unwrap();
        assert!(txn.delete(table, &i.to_be_bytes()).unwrap());
        txn.commit().unwrap();
    }
    assert!(fs::metadata(scratch.path()).unwrap().len() <= limit);
    scratch.check();
    // The limit is the transaction's, not the store's.
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.put(table, b"k", &vec![1; 1 << 20]).unwrap();
    txn.commit().unwrap();
}

/// Puts until the store is full; returns the maximum size that the error names.
fn fill_up(store: &Store) -> u64 {
    for n in 0..10_000_u32 {
        let mut txn = store.begin_write().unwrap();
        let table = match txn.table("t") {
            Ok(table) => table,
            Err(_) => txn.create_table("t", &TableOptions::new()).unwrap(),
        };
        match txn.put(table, &n.to_be_bytes(), &[1; 2000]).and_then(|()| txn.commit()) {
            Ok(()) => {}
            Err(Error::StoreFull { max_size }) => return max_size,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the store has no maximum size");
}

#[test]
fn a_maximum_size_is_not_less_than_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    for (page_size, least) in [(4096, 3 * 4096), (65536, 3 * 65536)] {
        let (builder, path) = (Store::builder().page_size(page_size), folder.path().join("store"));
        for most in [0, 1, least - 1] {
            let refused = builder.clone().max_size(most).create(&path);
            assert!(matches!(refused, Err(Error::Argument { .. })), "{most}: {refused:?}");
            assert!(!path.exists());
        }
        drop(builder.max_size(least).create(&path).unwrap());
        assert!(fs::metadata(&path).unwrap().len() <= least);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_maximum_size_lasts_and_is_kept_by_all() {
    let limit = 64 * 4096;
    let scratch = Scratch::with(Store::builder().max_size(limit)).reopen(Store::builder());
    assert_eq!(scratch.store.stat().unwrap().max_size, Some(limit));
    assert_eq!(fill_up(&scratch.store), limit);
    // Also by one that was opened with another one, or sets one of its own.
    let scratch = scratch.reopen(Store::builder().max_size(1 << 30));
    let mut txn = scratch.store.begin_write().unwrap();
    txn.set_max_size(None);
    let table = txn.table("t").unwrap();
    let put = txn.put(table, b"long", &[1; 1 << 20]);
    assert!(matches!(put, Err(Error::StoreFull { max_size }) if max_size == limit));
    drop(txn);
    // And by copies of every kind.
    for (name, compact) in [("plain", false), ("compact", true)] {
        let copy = scratch.beside(name);
        let options = hedgerow::tree::CopyOptions { compact };
        scratch.store.copy_to(&copy, options, &mut |_, _| {}).unwrap();
        assert_eq!(Store::open(copy).unwrap().stat().unwrap().max_size, Some(limit), "{name}");
    }
    let (new, interrupt) = (scratch.beside("new"), scratch.store.interrupt());
    Store::salvage(scratch.path(), &new, &interrupt, &mut |_, _| {}).unwrap();
    assert_eq!(Store::open(new).unwrap().stat().unwrap().max_size, Some(limit));
}

#[test]
fn a_maximum_size_is_changed_and_never_below_what_is_there() {
    let scratch = Scratch::new();
    assert_eq!(scratch.store.stat().unwrap().max_size, None);
    let before = scratch.store.stat().unwrap().commit;
    scratch.store.set_max_size(Some(100 * 4096 + 17)).unwrap();
    assert_eq!(scratch.store.stat().unwrap().max_size, Some(100 * 4096));
    assert!(scratch.store.stat().unwrap().commit > before);
    assert_eq!(fill_up(&scratch.store), 100 * 4096);
    let refused = scratch.store.set_max_size(Some(8 * 4096));
    assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
    scratch.store.set_max_size(Some(200 * 4096)).unwrap();
    let scratch = scratch.reopen(Store::builder());
    assert_eq!(fill_up(&scratch.store), 200 * 4096);
    scratch.store.set_max_size(None).unwrap();
    let scratch = scratch.reopen(Store::builder());
    assert_eq!(scratch.store.stat().unwrap().max_size, None);
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.put(table, b"long", &vec![1; 4 << 20]).unwrap();
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn no_store_is_made_among_the_files_of_another_engine() {
    let scratch = Scratch::new();
    let lsm = scratch.beside("lsm");
    drop(hedgerow::lsm::Options::new().create(true).open(&lsm).unwrap());
    let names = || fs::read_dir(&lsm).unwrap().count();
    let before = names();
    let copy = hedgerow::tree::CopyOptions::default();
    for path in [lsm.clone(), lsm.join("LOCK"), lsm.join("new")] {
        let refused = [
            Store::create(&path).map(drop),
            scratch.store.copy_to(&path, copy, &mut |_, _| {}),
            Store::salvage(scratch.path(), &path, &scratch.store.interrupt(), &mut |_, _| {})
                .map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert!(error.to_string().contains("of the engine lsm") || path.exists(), "{error}");
        }
    }
    assert_eq!(names(), before);
    let error = Store::open(&lsm).unwrap_err().to_string();
    assert!(error.contains("a store of the engine lsm"), "{error}");
}

/// The background thread waits for the writer's turn, and this one for that thread: neither may
/// wait for the other.
#[test]
fn the_last_handle_is_dropped_before_a_transaction_that_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::builder().durability(Durability::Eventual).create(&path).unwrap();
    drop(store);
    for round in 0..40 {
        let store = Store::builder().durability(Durability::Eventual).open(&path).unwrap();
        let (mut txn, table) = begin(&store);
        txn.put(table, b"round", &[round as u8; 3000]).unwrap();
        txn.commit().unwrap();
        // The flush begins about now.
        std::thread::sleep(Duration::from_millis(18) + Duration::from_micros(100 * round));
        let mut txn = store.begin_write().unwrap();
        drop(store);
        txn.put(table_of(&txn), b"more", &[round as u8]).unwrap();
        txn.commit().unwrap();
    }
    let store = Store::open(&path).unwrap();
    let (txn, table) = begin_read(&store);
    assert_eq!(txn.get(table, b"more").unwrap().unwrap(), [39][..]);
}

fn table_of(txn: &impl Snapshot) -> hedgerow::tree::Table {
    txn.table("t").unwrap()
}
