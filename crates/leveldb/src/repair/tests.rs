//! Repairs that are cut off, of damaged files, and of lost ones, on both engines.

use std::sync::Arc;

use super::*;
use crate::batch::{Batch, Op};
use crate::db::{Db, destroy};
use crate::folder::CURRENT;
use crate::options::Comparator;
use crate::status::Code;

const KINDS: [Kind; 2] = [Kind::Tree, Kind::Lsm];

fn options(kind: Kind) -> Options {
    Options { create: true, engine: Some(kind), ..Options::default() }
}

fn name(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// A database with 2,000 entries that have all been written to its files.
fn filled(path: &Path, kind: Kind) {
    let db = Db::open(name(path), &options(kind)).unwrap();
    let mut batch = Batch::new();
    for key in 0..2_000_u32 {
        batch.add(Op { key: &key.to_be_bytes(), value: Some(&[7; 100]) }).unwrap();
    }
    db.write_batch(batch.bytes(), true).unwrap();
    db.compact(true);
}

/// How many entries are there, by a database that is opened as it is.
fn count(path: &Path) -> Result<u64> {
    Db::open(name(path), &Options::default())?.count()
}

/// The files whose bytes are most of the database.
fn largest(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn what_is_not_there_is_made_and_a_lost_current_made_anew() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        // What is not there is made, as LevelDB does.
        repair(name(&path), &options(kind)).unwrap();
        assert_eq!(count(&path).unwrap(), 0);
        filled(&path, kind);
        let db = Db::open(name(&path), &Options::default()).unwrap();
        assert!(repair(name(&path), &options(kind)).unwrap_err().message.contains("already held"));
        drop(db);
        let named_wrongly = fs::read_to_string(path.join(CURRENT)).unwrap().replace("wise", "wisf");
        for current in ["", &named_wrongly] {
            fs::write(path.join(CURRENT), current).unwrap();
            assert!(count(&path).is_err());
            repair(name(&path), &Options::default()).unwrap();
            assert_eq!(count(&path).unwrap(), 2_000);
        }
        fs::remove_file(path.join(CURRENT)).unwrap();
        assert_eq!(count(&path).unwrap_err().code, Code::Corruption);
        repair(name(&path), &Options::default()).unwrap();
        assert_eq!(count(&path).unwrap(), 2_000);
        let names = ["salvaged", "replaced"];
        assert!(names.iter().all(|name| !path.join(name).exists()), "nothing was lost");
        assert_eq!(Db::open(name(&path), &Options::default()).unwrap().kind(), kind);
    }
}

/// A process can be killed before there is a first file of the engine. Whatever engine is asked for
/// then, nothing of the other one is left.
#[test]
fn what_was_hardly_begun_is_made() {
    for (kind, has_lock) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        fs::create_dir_all(path.join(LSM)).unwrap();
        if has_lock {
            fs::write(path.join(LSM).join(LOCK), "").unwrap();
        }
        let empty = repair(name(&path), &options(kind)).unwrap_err();
        assert!(empty.message.contains("no table and no log"), "what was lost is told of");
        current(Kind::Lsm, &Comparator::default()).announce(&path).unwrap();
        repair(name(&path), &options(kind)).unwrap();
        assert_eq!(path.join(LSM).exists(), kind == Kind::Lsm);
        assert_eq!(Db::open(name(&path), &Options::default()).unwrap().kind(), kind);
        assert_eq!(count(&path).unwrap(), 0);
    }
}

/// Every state in which a kill can leave the files, with and without `CURRENT`.
#[test]
fn a_repair_that_is_cut_off_loses_nothing() {
    for kind in KINDS {
        let main = main_of(kind);
        for (state, has_current) in (0..5).flat_map(|state| [(state, true), (state, false)]) {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("db");
            filled(&path, kind);
            let [salvaged, replaced] = [SALVAGED, REPLACED].map(|name| path.join(name));
            fs::create_dir(&salvaged).unwrap();
            if state > 0 {
                engine::salvage(kind, &path, &salvaged, &Options::default()).unwrap();
            }
            if state > 1 {
                fs::create_dir(&replaced).unwrap();
            }
            if state > 2 {
                fs::rename(path.join(main), replaced.join(main)).unwrap();
            }
            if state > 3 {
                fs::rename(salvaged.join(main), path.join(main)).unwrap();
            }
            if state == 0 {
                fs::write(salvaged.join(main), "half").unwrap();
            }
            if has_current {
                assert_eq!(count(&path).unwrap(), 2_000, "{kind:?} {state}");
            } else {
                fs::remove_file(path.join(CURRENT)).unwrap();
            }
            repair(name(&path), &options(kind)).unwrap();
            assert_eq!(count(&path).unwrap(), 2_000, "{kind:?} {state}");
            assert!(!salvaged.exists() && !replaced.exists());
            destroy(name(&path)).unwrap();
            assert!(!path.exists());
        }
    }
}

/// What a cut-off removal leaves is no database.
#[test]
fn a_removal_that_is_cut_off_is_gone_on_with() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        filled(&path, kind);
        fs::rename(path.join(CURRENT), path.join("CURRENT.new")).unwrap();
        fs::create_dir(path.join(REPLACED)).unwrap();
        assert!(count(&path).unwrap_err().message.contains("does not exist"));
        assert!(!path.join(main_of(kind)).exists() && !path.join(REPLACED).exists());
        filled(&path, kind);
        assert_eq!(count(&path).unwrap(), 2_000);
    }
}

#[test]
fn damaged_files_are_kept_and_the_rest_can_be_opened() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        filled(&path, kind);
        let main = path.join(main_of(kind));
        let damaged = if kind == Kind::Tree { main.clone() } else { largest(&main) };
        let file = fs::OpenOptions::new().write(true).open(&damaged).unwrap();
        file.set_len(damaged.metadata().unwrap().len() / 2).unwrap();
        drop(file);
        repair(name(&path), &Options::default()).unwrap();
        assert!(count(&path).unwrap() < 2_000, "{kind:?}");
        let kept = path.join(REPLACED).join(main_of(kind));
        assert!(kept.exists(), "{kind:?}");
        // A repair of what is whole now has nothing to keep.
        repair(name(&path), &Options::default()).unwrap();
        assert!(!kept.exists());
    }
}

/// No page costs more than the entries of a leaf. Where the root of the catalog is damaged, an
/// older one names the table as it was when the database was made: without an entry. Where that of
/// the table is, nothing leads to its leaves.
#[test]
fn entries_outlive_any_page_but_their_own() {
    const PAGE: usize = 4096;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let db = Db::open(name(&path), &options(Kind::Tree)).unwrap();
    for key in 0..600_u32 {
        let mut batch = Batch::new();
        batch.add(Op { key: &key.to_be_bytes(), value: Some(&[7; 100]) }).unwrap();
        db.write_batch(batch.bytes(), false).unwrap();
    }
    drop(db);
    let data = path.join(TREE[0]);
    let whole = fs::read(&data).unwrap();
    let mut damaged_roots = 0;
    for page in 3..whole.len() / PAGE {
        let mut bytes = whole.clone();
        bytes[page * PAGE..][..PAGE].fill(0);
        fs::write(&data, bytes).unwrap();
        repair(name(&path), &Options::default()).unwrap();
        let said = fs::read_to_string(path.join("LOG")).unwrap();
        let found = count(&path).unwrap();
        assert!(found > 540, "page {page}: {found} entries");
        if said.contains("the root of the catalog") {
            damaged_roots += 1;
            assert_eq!(found, 600, "page {page}");
        }
    }
    assert_eq!(damaged_roots, 1);
}

#[test]
fn another_order_is_refused_and_nothing_changed() {
    let backwards = |a: &[u8], b: &[u8]| b.cmp(a);
    let comparator = Comparator { name: b"back".to_vec(), compare: Some(Arc::new(backwards)) };
    let ordered = Options { comparator, ..options(Kind::Tree) };
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        filled(&path, kind);
        let refusal = repair(name(&path), &ordered).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert_eq!(count(&path).unwrap(), 2_000);
        assert!(!path.join(SALVAGED).exists());
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    drop(Db::open(name(&path), &ordered).unwrap());
    assert_eq!(repair(name(&path), &Options::default()).unwrap_err().code, Code::InvalidArgument);
    repair(name(&path), &ordered).unwrap();
    drop(Db::open(name(&path), &ordered).unwrap());
}
