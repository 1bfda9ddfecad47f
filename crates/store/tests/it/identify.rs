//! What belongs to a store is known by its content, whatever its name and damage.

use std::fs;

use hedgerow::{FileKind, identify};

#[test]
fn every_file_of_a_store_is_known_but_for_empty_ones() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let _tree = hedgerow::tree::Store::create(&tree).unwrap();
    assert_eq!(identify(&tree).unwrap(), Some(FileKind::Tree));
    let lock = folder.path().join("tree-lock");
    assert_eq!(identify(&lock).unwrap(), Some(FileKind::Lock));
    let lsm = folder.path().join("lsm");
    let db = hedgerow::lsm::Options::new().create(true).open(&lsm).unwrap();
    let space = db.keyspace(b"main", Default::default()).unwrap();
    db.put(&space, b"key", b"value").unwrap();
    db.compact().unwrap();
    let mut kinds = 0;
    for file in fs::read_dir(&lsm).unwrap() {
        let path = file.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 0 {
            assert_eq!(identify(&path).unwrap(), Some(FileKind::Lsm), "{}", path.display());
            kinds += 1;
        }
    }
    assert!(kinds >= 3, "a manifest, a table and a segment");
}

#[test]
fn a_store_without_its_first_pages_is_one_and_other_files_are_none() {
    let folder = tempfile::tempdir().unwrap();
    for size in [4096_u32, 65536] {
        let path = folder.path().join(size.to_string());
        drop(hedgerow::tree::Store::builder().page_size(size).create(&path).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        bytes[..2 * size as usize].fill(0);
        fs::write(&path, bytes).unwrap();
        assert_eq!(identify(&path).unwrap(), Some(FileKind::Tree));
    }
    let text = folder.path().join("text");
    for content in ["", "short", "a text that is longer than all magic numbers\n"] {
        fs::write(&text, content).unwrap();
        assert_eq!(identify(&text).unwrap(), None);
    }
    assert_eq!(identify(folder.path()).unwrap(), None);
    assert!(identify(folder.path().join("absent")).is_err());
    let mut lmdb = vec![0; 4096];
    lmdb[16..20].copy_from_slice(&0xBEEF_C0DE_u32.to_ne_bytes());
    fs::write(&text, lmdb).unwrap();
    assert_eq!(identify(&text).unwrap(), Some(FileKind::Lmdb));
}
