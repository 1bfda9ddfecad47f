//! Databases that are written and read again; tables with every compression; damage.

use std::path::Path;

use super::source::Database;
use super::target::Target;
use crate::exit::Failure;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(count: u32) -> Entries {
    let entry = |n: u32| {
        let value = match n % 50 {
            0 => Vec::new(),
            1 => vec![n as u8; 5_000],
            _ => n.to_le_bytes().repeat(1 + n as usize % 20),
        };
        (n.to_be_bytes().repeat(1 + n as usize % 3), value)
    };
    let mut entries: Entries = (0..count).map(entry).collect();
    entries.push((Vec::new(), b"of the empty key".to_vec()));
    entries.sort();
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

fn write(folder: &Path, entries: &Entries) {
    let list = tempfile::NamedTempFile::new().unwrap();
    let mut target = Target::begin(folder, list.path()).unwrap();
    entries.iter().for_each(|(key, value)| target.put(key, value).unwrap());
    target.finish().unwrap();
}

fn read(database: &mut Database, after: Option<&[u8]>) -> Result<Entries, Failure> {
    let mut found = Entries::new();
    database.for_each(after, &mut |key, value, _| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn what_is_written_is_read_from_any_key_on() {
    for count in [0, 1, 60_000] {
        let folder = tempfile::tempdir().unwrap();
        let entries = entries(count);
        write(folder.path(), &entries);
        let mut database = Database::open(folder.path(), false).unwrap();
        assert_eq!(read(&mut database, None).unwrap(), entries);
        for at in (0..entries.len()).step_by(7_001) {
            let after = &entries[at].0;
            assert_eq!(read(&mut database, Some(after)).unwrap(), entries[at + 1..]);
        }
    }
}

/// Stopped after any number of entries, it goes on after the last table that was complete, and the
/// files are those of a database that was written in one go.
#[test]
fn writing_goes_on_after_the_last_complete_table() {
    let mut random = 1_u64;
    let mut value = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 16).to_le_bytes()
    };
    let mut entry = |n: u32| (n.to_be_bytes().to_vec(), (0..40).flat_map(|_| value()).collect());
    let entries: Entries = (0..100_000).map(&mut entry).collect();
    let [whole, part] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write(whole.path(), &entries);
    let list = tempfile::NamedTempFile::new().unwrap();
    let mut done = 0;
    for stop in [10, 30_000, 30_001, 85_000, entries.len()] {
        let mut target = Target::begin(part.path(), list.path()).unwrap();
        let from = match target.last() {
            Some(last) => entries.partition_point(|(key, _)| key.as_slice() <= last),
            None => 0,
        };
        assert!(from >= done, "{from} entries are kept, {done} were");
        done = from;
        let put = |(key, value): &(Vec<u8>, Vec<u8>)| target.put(key, value).unwrap();
        entries[from..stop.max(from)].iter().for_each(put);
        if stop == entries.len() {
            assert!(done > 60_000, "{done} entries were kept");
            target.finish().unwrap();
        }
    }
    for file in std::fs::read_dir(whole.path()).unwrap() {
        let file = file.unwrap();
        let written = std::fs::read(part.path().join(file.file_name())).unwrap();
        assert!(written == std::fs::read(file.path()).unwrap(), "{:?}", file.file_name());
    }
    let mut database = Database::open(part.path(), false).unwrap();
    assert!(read(&mut database, None).unwrap() == entries);
}

#[test]
fn a_flipped_byte_is_refused_and_salvage_names_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let entries = entries(60_000);
    write(folder.path(), &entries);
    let path = folder.path().join("000002.ldb");
    let sound = std::fs::read(&path).unwrap();
    for at in [1_000, sound.len() / 2, sound.len() - 2_000, sound.len() - 4] {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let mut database = Database::open(folder.path(), false).unwrap();
        assert!(read(&mut database, None).is_err(), "{at}");
        let mut database = Database::open(folder.path(), true).unwrap();
        let found = read(&mut database, None).unwrap();
        assert!(found.len() < entries.len());
        let lost = database.lost().to_vec();
        assert!(!lost.is_empty());
        let is_named = |key: &[u8]| {
            lost.iter().any(|lost| {
                lost.after.as_deref().is_none_or(|after| after <= key)
                    && lost.until.as_deref().is_none_or(|until| key <= until)
            })
        };
        let mut found = found.into_iter().peekable();
        for entry in &entries {
            match found.next_if(|there| there == entry) {
                Some(_) => {}
                None => assert!(is_named(&entry.0), "{at}: {:?}", entry.0),
            }
        }
        assert!(found.peek().is_none());
    }
}

/// Without the manifest all tables are read. What counted as deleted may be back, which is said.
#[test]
fn a_damaged_manifest_is_refused_and_salvage_reads_all_tables() {
    let folder = tempfile::tempdir().unwrap();
    let entries = entries(6_000);
    write(folder.path(), &entries);
    let [manifest, current] = ["MANIFEST-000001", "CURRENT"].map(|name| folder.path().join(name));
    let sound = [&manifest, &current].map(|path| std::fs::read(path).unwrap());
    let holds = |what: &str| {
        let refusal = Database::open(folder.path(), false).map(drop).unwrap_err();
        assert!(format!("{refusal:?}").contains("--salvage"), "{what}: {refusal:?}");
        let mut database = Database::open(folder.path(), true).unwrap();
        assert!(read(&mut database, None).unwrap() == entries, "{what}");
        let after = &entries[3_000].0;
        assert!(read(&mut database, Some(after)).unwrap() == entries[3_001..], "{what}");
        assert_eq!(database.lost().len(), 1, "{what}");
    };
    for at in 0..sound[0].len() {
        let mut bytes = sound[0].clone();
        bytes[at] ^= 4;
        std::fs::write(&manifest, bytes).unwrap();
        holds("a flipped byte");
    }
    std::fs::remove_file(&manifest).unwrap();
    holds("no manifest");
    std::fs::write(&manifest, &sound[0]).unwrap();
    for at in 0..sound[1].len() {
        let mut bytes = sound[1].clone();
        bytes[at] ^= 4;
        std::fs::write(&current, bytes).unwrap();
        holds("another CURRENT");
    }
    std::fs::remove_file(&current).unwrap();
    holds("no CURRENT");
}

/// As they would be in a database of another order whose manifest cannot be read.
#[test]
fn keys_that_are_not_in_their_order_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [b"a", b"c", b"b", b"d"].map(|key| (key.to_vec(), Vec::new()));
    write(folder.path(), &entries.to_vec());
    let mut database = Database::open(folder.path(), false).unwrap();
    assert!(read(&mut database, None).is_err());
    let mut database = Database::open(folder.path(), true).unwrap();
    assert_eq!(read(&mut database, None).unwrap(), entries[..2]);
    assert_eq!(database.lost()[0].after.as_deref(), Some(&b"c"[..]));
}

#[test]
fn other_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Database::open(folder.path(), false).is_err());
    std::fs::write(folder.path().join("CURRENT"), "hedgerow leveldb 1\n").unwrap();
    assert!(Database::open(folder.path(), false).is_err());
    std::fs::write(folder.path().join("CURRENT"), "MANIFEST-/../x\n").unwrap();
    assert!(Database::open(folder.path(), false).is_err());
    std::fs::write(folder.path().join("CURRENT"), "MANIFEST-000009\n").unwrap();
    assert!(Database::open(folder.path(), false).is_err());
}
