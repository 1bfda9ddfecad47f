//! Who may open the files of a store.

use std::fs;
use std::path::Path;

use hedgerow::tree::Store;

use crate::{Scratch, begin};

#[test]
fn new_files_are_private_and_follow_no_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, b"key", b"value").unwrap();
    txn.commit().unwrap();
    let mode =
        |name: &str| fs::metadata(scratch.beside(name)).unwrap().permissions().mode() & 0o777;
    let copy = hedgerow::tree::CopyOptions::default();
    scratch.store.copy_to(scratch.beside("copy"), copy, &mut |_, _| {}).unwrap();
    let interrupt = scratch.store.interrupt();
    Store::salvage(scratch.path(), scratch.beside("new"), &interrupt, &mut |_, _| {}).unwrap();
    for name in ["store", "store-lock", "copy", "new"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(Store::builder().file_mode(0o640).create(scratch.beside("shared")).unwrap());
    assert_eq!((mode("shared"), mode("shared-lock")), (0o640, 0o640));
    let victim = scratch.beside("victim");
    for link in ["a", "b-lock"] {
        symlink(&victim, scratch.beside(link)).unwrap();
    }
    assert!(Store::create(scratch.beside("a")).is_err(), "a link in the place of the data file");
    assert!(Store::create(scratch.beside("b")).is_err(), "a link in the place of the lock file");
    assert!(!victim.exists());
}

#[test]
fn a_lock_file_is_for_those_whom_the_data_file_is_for() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let scratch = Scratch::new();
    let (data, lock) = (scratch.beside("shared"), scratch.beside("shared-lock"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let again = |given: u32| {
        set(&data, given).unwrap();
        fs::remove_file(&lock).unwrap();
        drop(Store::builder().file_mode(0o640).open(&data).unwrap());
        mode(&lock)
    };
    // Whatever the mask of the process says, and what this opener asks for a new store.
    drop(Store::create(&data).unwrap());
    assert_eq!(again(0o666), 0o666);
    assert_eq!(again(0o600), 0o600);
    assert_eq!(again(0o444), 0o644, "its owner writes into it also as a reader");
    // One that is there gets what it lacks and loses nothing.
    set(&data, 0o666).unwrap();
    drop(Store::open(&data).unwrap());
    assert_eq!(mode(&lock), 0o666);
    set(&data, 0o600).unwrap();
    drop(Store::open(&data).unwrap());
    assert_eq!(mode(&lock), 0o666);
    // But not under a second name, which may be another store's.
    fs::hard_link(&lock, scratch.beside("second")).unwrap();
    set(&lock, 0o600).unwrap();
    set(&data, 0o666).unwrap();
    drop(Store::open(&data).unwrap());
    assert_eq!(mode(&lock), 0o600);
    // A store that is made in an empty file.
    let (empty, its_lock) = (scratch.beside("empty"), scratch.beside("empty-lock"));
    fs::write(&empty, "").unwrap();
    set(&empty, 0o666).unwrap();
    drop(Store::create(&empty).unwrap());
    assert_eq!(mode(&its_lock), 0o666);
    if chown(&data, Some(4321), Some(1234)).is_ok() {
        assert_eq!(again(0o660), 0o660);
        let found = fs::metadata(&lock).unwrap();
        assert_eq!((found.uid(), found.gid()), (4321, 1234), "root makes it the owner's");
    }
}
