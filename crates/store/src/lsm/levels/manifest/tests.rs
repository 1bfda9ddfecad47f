//! A manifest is read as it was written; a torn end is cut, damage is reported.

use super::*;
use crate::lsm::files::memory::Budget;
use crate::os::sim::{self, SimSystem};

fn directory() -> (SimSystem, Arc<Directory>) {
    let system = SimSystem::new(1, sim::Config::default());
    let (path, budget) = (PathBuf::from("/d"), Budget::new(0, 0));
    let directory = Directory::new(Arc::new(system.clone()), path, 0o600, budget);
    directory.system.create_directory(&directory.path, 0o700).unwrap();
    (system, Arc::new(directory))
}

fn edits(number: u32) -> Vec<Edit> {
    let identity = Identity { number, salt: u64::MAX - 5, first_seq: 77 };
    let sealed = Sealed { len: 500, last_seq: 1 << 40, remap_len: 0 };
    vec![
        Edit::AddSegment(identity),
        Edit::SealSegment { number, sealed },
        Edit::NextFile { number: number + 1 },
    ]
}

fn shape(version: &Version) -> Vec<Edit> {
    version.edits()
}

/// A manifest with three records after the first one, and the versions after each.
fn manifest() -> (SimSystem, Arc<Directory>, Vec<Vec<Edit>>, Vec<u64>) {
    let (system, directory) = directory();
    let mut version = Version::empty(Arc::clone(&directory));
    let mut manifest = Manifest::create(&version, 42).unwrap();
    let (mut shapes, mut ends) = (vec![shape(&version)], vec![manifest.extent.end]);
    for number in 1..=3 {
        manifest.append(&edits(number)).unwrap();
        version = version.apply(&edits(number)).unwrap();
        shapes.push(shape(&version));
        ends.push(manifest.extent.end);
    }
    (system, directory, shapes, ends)
}

#[test]
fn it_is_read_as_it_was_written() {
    let (_, directory, shapes, _) = manifest();
    let version = read(&directory).unwrap().unwrap();
    assert_eq!(Some(&shape(&version)), shapes.last());
    let again = Manifest::create(&version, 43).unwrap();
    assert!(!again.is_long());
    assert_eq!(shape(&read(&directory).unwrap().unwrap()), shape(&version));
}

#[test]
fn a_torn_end_is_cut_and_all_else_is_damage() {
    let (system, directory, shapes, ends) = manifest();
    let path = directory.file(Name::Manifest);
    let whole = system.content(&path).unwrap();
    for len in 0..=whole.len() {
        let result = replay(&directory, &path, &whole[..len]);
        let kept = ends.iter().filter(|&&end| end <= len as u64).count();
        match kept {
            0 => assert!(result.is_err(), "{len} bytes"),
            _ => assert_eq!(shape(&result.unwrap().0), shapes[kept - 1], "{len} bytes"),
        }
    }
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match replay(&directory, &path, &changed) {
            // Only in the last record a change may be taken for a torn end.
            Ok(version) => {
                assert!(bit / 8 >= ends[2] as usize, "bit {bit}");
                assert_eq!(shape(&version.0), shapes[2]);
            }
            Err(Error::Corrupt { .. } | Error::NotAStore { .. }) => {}
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn edits_that_do_not_fit_are_refused() {
    let (_, directory) = directory();
    let version = Version::empty(directory);
    let refused = [
        Edit::RemoveTable { number: 5 },
        Edit::MoveTable { number: 5, level: 1 },
        Edit::RemoveSegment { number: 5 },
        Edit::SealSegment { number: 5, sealed: Sealed { len: 1, last_seq: 1, remap_len: 0 } },
    ];
    for edit in refused {
        assert!(version.apply(&[edit]).is_err());
    }
    let twice = [edits(1), edits(1)].concat();
    assert!(version.apply(&twice).is_err());
}

/// Hunts for a damaged end that passes for a torn one, although a record follows, because much of
/// what stands before that record could be the beginning of a long one.
#[test]
fn a_record_after_what_looks_like_many_long_ones_is_found() {
    let (system, directory, ..) = manifest();
    let path = directory.file(Name::Manifest);
    let mut bytes = system.content(&path).unwrap();
    assert!(replay(&directory, &path, &bytes).is_ok());
    for len in [20_000_u32, 64] {
        bytes.extend(std::iter::repeat_n(len.to_le_bytes(), 4 << 10).flatten());
    }
    assert!(replay(&directory, &path, &bytes).is_ok(), "torn");
    let salt = read_header(&path, &bytes).unwrap();
    let offset = bytes.len() as u64;
    bytes.extend(record(salt, offset, &vec![Edit::NextFile { number: 1 << 20 }; 20]).unwrap());
    assert!(replay(&directory, &path, &bytes).is_err(), "damaged");
}

/// What a long history has left is what its edits lead to one after the other.
#[test]
fn a_history_is_what_is_left_of_it() {
    let (_, directory) = directory();
    let mut manifest = Manifest::create(&Version::empty(Arc::clone(&directory)), 42).unwrap();
    let mut version = Version::empty(Arc::clone(&directory));
    let tables = crate::lsm::levels::compact::tests::version(&[(0, 1, 50, "a", "m")]);
    let table = |number: u32| {
        let mut meta = tables.level(0)[0].meta.clone();
        (meta.number, meta.seqs) = (number, (number.into(), number.into()));
        Edit::AddTable { level: 0, meta }
    };
    for number in 1..40_u32 {
        let mut edits = vec![table(number), Edit::NextFile { number: number + 1 }];
        match number % 4 {
            0 => edits.push(Edit::RemoveTable { number: number / 4 }),
            1 if number > 4 => edits.push(Edit::RemoveTable { number: number - 1 }),
            2 => edits.push(Edit::Flushed { seq: number.into() }),
            3 if number == 39 => edits.push(Edit::MoveTable { number, level: 3 }),
            _ => {}
        }
        let Ok(next) = version.apply(&edits) else { continue };
        version = next;
        manifest.append(&edits).unwrap();
        assert_eq!(shape(&read(&directory).unwrap().unwrap()), shape(&version), "{number}");
    }
    assert!(version.level(3).len() == 1 && version.level(0).len() > 10);
}
