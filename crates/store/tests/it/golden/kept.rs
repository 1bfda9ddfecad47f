//! Stores that were kept as bytes when the format was as it is: they still open, are sound, and
//! hold what the same calls put into a store today.

use std::fs;
use std::path::Path;

use hedgerow::Result;
use hedgerow::lsm::{Db, Options, Range, Readable};
use hedgerow::tree::{ReadTxn, Snapshot, Store, TableOptions};

use super::{lsm, tree};

/// What a store holds: the name of each table and of each pin, with its entries.
type Entries = Vec<(String, Vec<crate::Owned>)>;

/// Files in one piece, compressed: before each stands its name and its length.
fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let head = |name: &str, bytes: &[u8]| format!("{name} {}\n", bytes.len()).into_bytes();
    let parts = files.iter().map(|(name, bytes)| [head(name, bytes), bytes.clone()].concat());
    miniz_oxide::deflate::compress_to_vec(&parts.collect::<Vec<_>>().concat(), 10)
}

/// Unpacks a kept store into a folder. It is made of these files if it is asked for and missing: a
/// kept store is never written anew, since others have such stores, too.
fn unpack(name: &str, files: impl FnOnce() -> Vec<(String, Vec<u8>)>, folder: &Path) {
    let path = super::path(name);
    if super::renews() && !path.exists() {
        fs::write(&path, pack(&files())).unwrap();
    }
    let all = miniz_oxide::inflate::decompress_to_vec(&fs::read(path).unwrap()).unwrap();
    let mut rest = &all[..];
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (name, len) = str::from_utf8(&rest[..end]).unwrap().split_once(' ').unwrap();
        let (bytes, after) = rest[end + 1..].split_at(len.parse().unwrap());
        fs::write(folder.join(name), bytes).unwrap();
        rest = after;
    }
}

fn tree_entries(store: &Store) -> Entries {
    let check = store.check(&mut |_, _| {}).unwrap();
    assert!(check.problems.is_empty(), "{:?}", check.problems);
    let mut entries = Entries::new();
    let mut note = |moment: &[u8], txn: &ReadTxn| {
        for info in txn.tables().unwrap() {
            let table = match &info.name[..] {
                b"custom" => txn.table_with("custom", &tree::custom()).unwrap(),
                name => txn.table(name).unwrap(),
            };
            let name = String::from_utf8_lossy(&info.name).into_owned();
            entries.push((format!("{moment:?} {name} {info:?}"), crate::all(txn, table)));
        }
    };
    note(b"newest", &store.begin_read().unwrap());
    for pin in store.pins().unwrap() {
        note(&pin.name, &store.read_pin(&pin.name).unwrap().unwrap());
    }
    entries
}

fn lsm_entries(db: &Db) -> Entries {
    let check = db.check().unwrap();
    assert!(check.is_sound(), "{check:?}");
    let mut entries = Entries::new();
    for name in db.keyspaces().unwrap() {
        let keyspace = db.find_keyspace(&name).unwrap().unwrap();
        let mut note = |moment: &[u8], range: Range| {
            let pairs = range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
            entries.push((format!("{moment:?} {name:?}"), pairs.collect::<Result<_>>().unwrap()));
        };
        note(b"newest", db.range(&keyspace, ..).unwrap());
        for pin in db.pins() {
            let snapshot = db.read_pin(&pin.name).unwrap();
            note(&pin.name, snapshot.range(&keyspace, ..).unwrap());
        }
    }
    entries
}

/// Holds what a kept store has to what the same calls make today.
fn same(kept: &Entries, made: &Entries) {
    assert!(kept.iter().any(|(_, entries)| !entries.is_empty()));
    let names =
        |entries: &Entries| entries.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(kept), names(made));
    for ((name, kept), (_, made)) in kept.iter().zip(made) {
        assert_eq!(kept.len(), made.len(), "{name}");
        kept.iter().zip(made).for_each(|(kept, made)| assert_eq!(kept, made, "{name}"));
    }
}

/// A kept store of the tree engine: what it holds, and that it can be written to.
fn tree_store(name: &str, log_size: u64, fill: impl Fn(&Store)) {
    let disk = super::disk();
    let made = tree::builder().log_size(log_size).system(disk.clone()).create(tree::PATH).unwrap();
    fill(&made);
    let files = || vec![("store".to_string(), disk.content(Path::new(tree::PATH)).unwrap())];
    let folder = tempfile::tempdir().unwrap();
    unpack(name, files, folder.path());
    let path = folder.path().join("store");
    let kept = Store::open(&path).unwrap();
    same(&tree_entries(&kept), &tree_entries(&made));
    let mut txn = kept.begin_write().unwrap();
    txn.create_table("one more", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    assert_eq!(tree_entries(&kept).len(), tree_entries(&made).len() + 1);
}

#[test]
fn a_kept_store_of_pages_opens() {
    tree_store("kept-tree-pages.deflate", 0, tree::pages);
}

#[test]
fn a_kept_store_with_a_log_opens() {
    tree_store("kept-tree-log.deflate", 64 << 10, tree::logged);
}

#[test]
fn a_kept_store_of_the_log_structured_engine_opens() {
    let disk = super::disk();
    let made = lsm::options().system(disk.clone()).open(lsm::PATH).unwrap();
    lsm::fill(&made);
    let folder = tempfile::tempdir().unwrap();
    unpack("kept-lsm.deflate", || lsm::files(&disk), folder.path());
    let read = Options::new().open_read_only(folder.path()).unwrap();
    assert!(read.check().unwrap().is_sound());
    drop(read);
    let kept = Options::new().open(folder.path()).unwrap();
    same(&lsm_entries(&kept), &lsm_entries(&made));
    assert_eq!(kept.id().unwrap(), made.id().unwrap());
    kept.keyspace("one more", Default::default()).unwrap();
    kept.close().unwrap();
    let kept = Options::new().open(folder.path()).unwrap();
    assert_eq!(lsm_entries(&kept).len(), lsm_entries(&made).len() + 2);
}
