//! Checkpoints and backups hold what they say, share what they may, and survive a stop anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::Durability;
use crate::lsm::{Keyspace, KeyspaceOptions, Options, Readable};
use crate::os::sim::{self, CrashMode, SimSystem};

fn options() -> Options {
    Options::new()
        .create(true)
        .durability(Durability::None)
        .memtable_bytes(4 << 10)
        .segment_bytes(8 << 10)
        .table_bytes(4 << 10)
}

fn space(db: &Db) -> Keyspace {
    db.keyspace("space", KeyspaceOptions { separation_threshold: 200, ..Default::default() })
        .unwrap()
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store and what should be in it.
struct Pair {
    db: Db,
    space: Keyspace,
    state: State,
}

impl Pair {
    fn new(db: Db) -> Self {
        let space = space(&db);
        Self { db, space, state: State::new() }
    }

    fn write(&mut self, keys: std::ops::Range<u32>, salt: u8) {
        for n in keys {
            let key = format!("{:04}", n * 7919 % 1000).into_bytes();
            let value = vec![salt; if n.is_multiple_of(5) { 300 } else { 20 }];
            self.db.put(&self.space, &key, &value).unwrap();
            self.state.insert(key, value);
        }
    }

    fn delete(&mut self, from: &[u8], to: &[u8]) {
        self.db.delete_range(&self.space, from..to).unwrap();
        self.state.retain(|key, _| key.as_slice() < from || key.as_slice() >= to);
    }
}

fn read(options: &Options, path: &Path) -> crate::Result<State> {
    let db = options.open(path)?;
    assert!(db.check()?.is_sound());
    match db.find_keyspace("space")? {
        Some(space) => db.range(&space, ..)?.collect(),
        None => Ok(State::new()),
    }
}

fn quiet(_: u64, _: u64) {}

#[test]
fn a_checkpoint_shares_files_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(options().open(folder.path().join("db")).unwrap());
    pair.write(0..400, 1);
    pair.db.flush().unwrap();
    pair.write(400..430, 2);
    let path = folder.path().join("then");
    pair.db.checkpoint(&path).unwrap();
    let then = pair.state.clone();
    let shared = std::fs::read_dir(&path).unwrap().filter(|file| {
        let file = file.as_ref().unwrap();
        let ours = folder.path().join("db").join(file.file_name());
        let inode = |path: &Path| {
            use std::os::unix::fs::MetadataExt;
            path.metadata().ok().map(|meta| meta.ino())
        };
        inode(&ours).is_some() && inode(&ours) == inode(&file.path())
    });
    assert!(shared.count() > 3, "tables and segments have two names");
    assert!(matches!(pair.db.checkpoint(&path), Err(Error::Path { .. })));
    pair.write(0..900, 3);
    pair.delete(b"01", b"08");
    pair.db.compact().unwrap();
    assert_eq!(read(&options(), &path).unwrap(), then);
    // The copy goes its own way, and the store does not notice.
    let mut copy = Pair::new(options().open(&path).unwrap());
    copy.state = then;
    copy.write(0..500, 9);
    copy.db.compact().unwrap();
    drop(copy.db);
    assert_eq!(read(&options(), &path).unwrap(), copy.state);
    let (db, state) = (pair.db, pair.state);
    db.close().unwrap();
    assert_eq!(read(&options(), &folder.path().join("db")).unwrap(), state);
}

#[test]
fn a_backup_copies_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let (path, restored) = (folder.path().join("backup"), folder.path().join("restored"));
    let mut pair = Pair::new(options().open(folder.path().join("db")).unwrap());
    for round in 0..6 {
        pair.write(round * 150..round * 150 + 200, round as u8);
        if round == 3 {
            pair.delete(b"02", b"05");
            pair.db.compact().unwrap();
        }
        let mut told = Vec::new();
        let report = pair.db.backup(&path, &mut |done, total| told.push((done, total))).unwrap();
        assert_eq!(told.first(), Some(&(0, report.copied_bytes)));
        assert_eq!(told.last(), Some(&(report.copied_bytes, report.copied_bytes)));
        // How many are new is up to the threads in the background.
        assert!(report.copied_files <= report.files, "{round}: {report:?}");
        assert!(round > 0 || report.copied_files == report.files, "{report:?}");
        std::fs::create_dir(&restored).unwrap();
        let mut bytes = 0;
        for file in std::fs::read_dir(&path).unwrap().map(Result::unwrap) {
            let is_data = !["MANIFEST", "LOCK"].map(Into::into).contains(&file.file_name());
            bytes += if is_data { file.metadata().unwrap().len() } else { 0 };
            std::fs::copy(file.path(), restored.join(file.file_name())).unwrap();
        }
        assert_eq!(bytes, report.bytes, "nothing else is in the backup");
        assert_eq!(read(&options(), &restored).unwrap(), pair.state);
        std::fs::remove_dir_all(&restored).unwrap();
    }
    let rests = || pair.db.backup(&path, &mut quiet).unwrap().copied_files == 0;
    assert!((0..1000).any(|_| rests()), "each copies something, though nothing happens");
}

#[test]
fn a_backup_goes_over_no_store_and_no_other_backup() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut pair = Pair::new(options().open(at("db")).unwrap());
    pair.write(0..200, 1);
    pair.db.backup(at("backup"), &mut quiet).unwrap();
    pair.db.checkpoint(at("twin")).unwrap();
    let is_refused = |result: crate::Result<BackupReport>| {
        assert!(matches!(result, Err(Error::Path { .. })), "{result:?}");
    };
    is_refused(pair.db.backup(at("twin"), &mut quiet));
    let mut other = Pair::new(options().open(at("other")).unwrap());
    other.write(0..20, 2);
    is_refused(other.db.backup(at("backup"), &mut quiet));
    // A twin has the same files at first, then others under the same numbers.
    let mut twin = Pair::new(options().open(at("twin")).unwrap());
    twin.write(0..300, 3);
    pair.write(0..300, 4);
    twin.db.flush().unwrap();
    pair.db.flush().unwrap();
    pair.db.backup(at("backup"), &mut quiet).unwrap();
    is_refused(twin.db.backup(at("backup"), &mut quiet));
    assert_eq!(read(&options(), &at("backup")).unwrap(), pair.state);
    is_refused(pair.db.backup(at("backup"), &mut quiet));
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full").join("letter"), "dear").unwrap();
    let refused = pair.db.backup(at("full"), &mut quiet);
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{refused:?}");
}

/// What is left of a store that has lost its manifest can be salvaged: nobody removes it.
#[test]
fn nothing_goes_over_a_store_without_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut pair = Pair::new(options().open(at("db")).unwrap());
    pair.write(0..300, 1);
    pair.db.backup(at("backup"), &mut quiet).unwrap();
    std::fs::remove_file(at("backup").join("MANIFEST")).unwrap();
    let files = || {
        let mut files: Vec<PathBuf> =
            ["log", "table"].into_iter().flat_map(|kind| files_of(&at("backup"), kind)).collect();
        files.sort();
        files
    };
    let before = files();
    let refusals =
        [pair.db.backup(at("backup"), &mut quiet).map(drop), pair.db.checkpoint(at("backup"))];
    for refused in refusals {
        let Err(Error::NotAStore { path, .. }) = refused else { panic!("{refused:?}") };
        assert!(before.contains(&path), "{path:?}");
    }
    assert!(before.len() > 2 && files() == before);
}

#[test]
fn damage_does_not_go_to_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("db"), folder.path().join("backup"));
    let mut pair = Pair::new(options().open(&path).unwrap());
    pair.write(0..300, 1);
    pair.db.flush().unwrap();
    pair.db.backup(&backup, &mut quiet).unwrap();
    pair.write(300..600, 2);
    pair.db.compact().unwrap();
    let before = read_copy(folder.path(), &backup);
    let files = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
    for kind in ["table", "log"] {
        let newest = files_of(&path, kind).into_iter().next_back().unwrap();
        let bytes = std::fs::read(&newest).unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() / 3] ^= 4;
        std::fs::write(&newest, changed).unwrap();
        match pair.db.backup(&backup, &mut quiet) {
            Err(Error::Corrupt { path, .. }) => assert_eq!(path, newest),
            other => panic!("{kind}: {other:?}"),
        }
        std::fs::write(&newest, bytes).unwrap();
        assert_eq!(read_copy(folder.path(), &backup), before, "the old backup is there");
    }
    drop(files);
    pair.db.backup(&backup, &mut quiet).unwrap();
    assert_eq!(read_copy(folder.path(), &backup), pair.state);
}

/// Files of a kind that have content, by number.
fn files_of(path: &Path, kind: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == kind))
        .filter(|path| path.metadata().unwrap().len() > 500)
        .collect();
    files.sort();
    files
}

/// What a copy of a directory holds; the directory stays a backup.
fn read_copy(folder: &Path, path: &Path) -> State {
    let copy = folder.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let state = read(&options(), &copy).unwrap();
    std::fs::remove_dir_all(&copy).unwrap();
    state
}

/// Backups while others write: each is a moment, with everything that was there when it began.
#[test]
fn a_backup_is_taken_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let db = options().open(folder.path().join("db")).unwrap();
    let (space, backup) = (space(&db), folder.path().join("backup"));
    let done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let returned = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u64.. {
                let mut batch = crate::lsm::Batch::new();
                for part in 0..3_u8 {
                    let key = [&[part], &n.to_be_bytes()[..]].concat();
                    batch.put(&space, &key, &vec![7; 50 * usize::from(part) * 3]).unwrap();
                }
                db.write(batch).unwrap();
                returned.store(n + 1, order);
                if done.load(order) {
                    return;
                }
            }
        });
        for round in 0..8 {
            let before = returned.load(order);
            let result = match round % 4 {
                3 => db.checkpoint(folder.path().join(format!("checkpoint {round}"))).map(drop),
                _ => db.backup(&backup, &mut quiet).map(drop),
            };
            let after = returned.load(order);
            let state = match round % 4 {
                3 => read(&options(), &folder.path().join(format!("checkpoint {round}"))).unwrap(),
                _ => read_copy(folder.path(), &backup),
            };
            if let Err(error) = result {
                done.store(true, order);
                panic!("{error}");
            }
            let batches = state.len() as u64 / 3;
            assert_eq!(state.len() as u64 % 3, 0, "whole batches");
            assert!((before..=after + 1).contains(&batches), "{before} {batches} {after}");
            assert!(
                (0..batches).all(|n| state.contains_key(&[&[2], &n.to_be_bytes()[..]].concat()))
            );
        }
        done.store(true, order);
    });
}

/// Cuts the power around every change of the disk while checkpoints and backups are made: the store
/// is as it was, a directory holds no store or the whole one, a backup is the old one or the new.
#[test]
fn a_stop_anywhere_leaves_whole_stores() {
    for seed in 0..3 {
        let config = sim::Config { reserve: 1 << 20, ..sim::Config::default() };
        let disk = SimSystem::new(seed, config);
        let on = |disk: &SimSystem| options().system(Arc::new(disk.clone()));
        let (store, twin, backup) = (Path::new("/db"), Path::new("/twin"), Path::new("/backup"));
        disk.record(true);
        let mut pair = Pair::new(on(&disk).open(store).unwrap());
        let (mut states, mut twins) = (vec![State::new()], vec![]);
        for round in 0..4_u32 {
            pair.write(round * 40..round * 40 + 60, round as u8);
            if round == 1 {
                twins = vec![pair.state.clone()];
                pair.db.checkpoint(twin).unwrap();
                pair.db.compact().unwrap();
            }
            states.push(pair.state.clone());
            pair.db.backup(backup, &mut quiet).unwrap();
            disk.mark(u64::from(round) + 1);
        }
        drop(pair);
        for cut in 0..=disk.recorded() {
            let mode = CrashMode::ALL[(cut + seed as usize) % CrashMode::ALL.len()];
            let image = disk.image_at(cut, mode, seed);
            let done = disk.last_mark(cut).unwrap_or(0) as usize;
            let place = || format!("seed {seed}, {mode:?} at {cut} of {:?}", disk.describe(cut));
            match read(&on(&image), backup) {
                Ok(found) => {
                    let is_known = states[done..].iter().take(2).any(|state| *state == found);
                    // A segment that grew since the last backup is read as far as it is named.
                    assert!(is_known, "{}: the backup is neither", place());
                }
                // The first one did not end: nothing of it is taken for a store, or removed.
                Err(Error::NotAStore { .. }) if done == 0 => {
                    let image = disk.image_at(cut, mode, seed);
                    let again = on(&image).open(store).unwrap().backup(backup, &mut quiet);
                    assert!(again.is_ok(), "{}: {:?}", place(), again.err());
                }
                Err(error) => panic!("{}: {error}", place()),
            }
            let without = Options { create: false, ..on(&image) };
            match read(&without, twin) {
                Ok(found) => assert!(twins.contains(&found), "{}: the twin differs", place()),
                Err(Error::Path { .. } | Error::NotAStore { .. }) => {
                    assert!(done < 2, "{}: the twin is gone", place())
                }
                Err(error) => panic!("{}: {error}", place()),
            }
            let found = read(&on(&image), store);
            assert!(found.is_ok(), "{}: {:?}", place(), found.err());
        }
    }
}
