//! The simulated disk keeps to its fault model: what must survive does, what may be lost is lost
//! in some crash, and the same seed does the same again.

use std::collections::BTreeSet;

use super::*;
use crate::os::Access;

const PATH: &str = "/d/file";

fn new_file(config: Config) -> (SimSystem, Arc<dyn DataFile>) {
    let system = SimSystem::new(1, config);
    let file = system.open_data(Path::new(PATH), Open::Create, 0o600).unwrap();
    system.sync_directory(Path::new(PATH)).unwrap();
    (system, file)
}

fn write(file: &Arc<dyn DataFile>, offset: u64, bytes: &[u8]) {
    file.write_at(&[io::IoSlice::new(bytes)], offset).unwrap();
}

/// A new file with these bytes, on stable storage.
fn synced(bytes: &[u8]) -> (SimSystem, Arc<dyn DataFile>) {
    let (system, file) = new_file(Config::default());
    write(&file, 0, bytes);
    file.sync().unwrap();
    (system, file)
}

fn content(system: &SimSystem) -> Vec<u8> {
    system.content(Path::new(PATH)).unwrap()
}

/// All contents that crashes in a mode leave.
fn crashes(system: &SimSystem, mode: CrashMode) -> BTreeSet<Vec<u8>> {
    (0..200).map(|seed| content(&system.crash(seed, mode))).collect()
}

#[test]
fn synced_writes_survive_every_crash() {
    let (system, _file) = synced(&[7; 10_000]);
    for mode in CrashMode::ALL {
        assert_eq!(crashes(&system, mode), BTreeSet::from([vec![7; 10_000]]), "{mode:?}");
    }
}

#[test]
fn whole_writes_are_lost_or_kept_in_any_combination() {
    let (system, file) = synced(&[0; 30]);
    for part in 0..3_u8 {
        write(&file, u64::from(part) * 10, &[part + 1; 10]);
    }
    let found = crashes(&system, CrashMode::Whole);
    assert_eq!(found.len(), 8, "every subset of three writes occurs, and nothing else");
    for content in found {
        for (part, bytes) in content.chunks(10).enumerate() {
            assert!([0, part as u8 + 1].iter().any(|&byte| bytes == [byte; 10]));
        }
    }
    assert_eq!(crashes(&system, CrashMode::LoseAll), BTreeSet::from([vec![0; 30]]));
    assert_eq!(crashes(&system, CrashMode::KeepAll), BTreeSet::from([content(&system)]));
}

#[test]
fn torn_writes_are_torn_at_sectors_only() {
    for (mode, sector) in [(CrashMode::Torn512, 512), (CrashMode::Torn4096, 4096)] {
        let (system, file) = synced(&vec![0; 4 * sector]);
        // Begins and ends in the middle of a sector.
        write(&file, 100, &vec![1; 3 * sector]);
        let found = crashes(&system, mode);
        assert_eq!(found.len(), 16, "four pieces, each there or not");
        for content in found {
            let start = |sector_number: usize| (sector_number * sector).max(100);
            for number in 0..4 {
                let end = ((number + 1) * sector).min(100 + 3 * sector);
                let piece = &content[start(number)..end];
                assert!(piece.iter().all(|byte| *byte == piece[0]));
            }
        }
    }
}

#[test]
fn a_newer_write_that_survived_is_never_under_an_older_one() {
    let (system, file) = synced(&[0; 4]);
    write(&file, 0, &[1; 4]);
    write(&file, 0, &[2; 4]);
    assert_eq!(crashes(&system, CrashMode::Whole).len(), 3);
    let (system, file) = new_file(Config::default());
    write(&file, 0, &[1; 512]);
    write(&file, 256, &[2; 256]);
    for content in crashes(&system, CrashMode::Torn512) {
        let tail = content.get(256..).unwrap_or(&[]);
        assert!(tail.iter().all(|byte| Some(byte) == tail.first()));
    }
}

#[test]
fn the_length_is_kept_apart_from_the_data() {
    let (system, file) = synced(&[1; 100]);
    write(&file, 100, &[2; 100]);
    let found = crashes(&system, CrashMode::Whole);
    let lost = vec![1; 100];
    let (zeros, data) =
        ([lost.clone(), vec![0; 100]].concat(), [lost.clone(), vec![2; 100]].concat());
    assert_eq!(found, BTreeSet::from([lost, zeros, data]));
}

#[test]
fn a_cut_file_that_grew_again_shows_zeros_or_its_old_end() {
    let (system, file) = synced(&[1; 1000]);
    file.set_len(100).unwrap();
    file.set_len(1000).unwrap();
    let cut = vec![1; 100];
    let regrown = [cut.clone(), vec![0; 900]].concat();
    assert_eq!(content(&system), regrown);
    let expected = BTreeSet::from([vec![1; 1000], cut, regrown.clone()]);
    assert_eq!(crashes(&system, CrashMode::Torn512), expected);
    file.sync().unwrap();
    assert_eq!(crashes(&system, CrashMode::Torn512), BTreeSet::from([regrown]));
}

#[test]
fn names_survive_only_synced_or_by_chance_and_in_order() {
    let system = SimSystem::new(1, Config::default());
    let path = |name: &str| PathBuf::from(format!("/d/{name}"));
    let file = system.open_data(&path("a"), Open::Create, 0).unwrap();
    write(&file, 0, b"x");
    file.sync().unwrap();
    assert!(
        system.crash(0, CrashMode::LoseAll).files().is_empty(),
        "a synced file has no name yet"
    );
    system.sync_directory(&path("a")).unwrap();
    system.rename(&path("a"), &path("b")).unwrap();
    system.open_data(&path("c"), Open::Create, 0).unwrap();
    system.remove(&path("c")).unwrap();
    let crash = |seed| system.crash(seed, CrashMode::Whole).files();
    let found: BTreeSet<_> = (0..100).map(crash).collect();
    let expected = [vec![path("a")], vec![path("b")], vec![path("b"), path("c")]];
    assert_eq!(found, BTreeSet::from(expected));
    system.sync_directory(Path::new("/elsewhere/x")).unwrap();
    assert_eq!(system.crash(0, CrashMode::LoseAll).files(), [path("a")]);
    system.sync_directory(&path("b")).unwrap();
    assert_eq!(system.crash(0, CrashMode::LoseAll).files(), [path("b")]);
    let after = system.crash(0, CrashMode::LoseAll);
    assert_eq!(after.content(&path("b")).unwrap(), b"x");
}

#[test]
fn the_log_is_cut_anywhere_and_swept_forward() {
    let (system, file) = synced(b"before");
    system.record(true);
    for round in 1..=5_u8 {
        write(&file, 0, &[round; 6]);
        file.sync().unwrap();
        system.mark(u64::from(round));
    }
    assert_eq!(system.recorded(), 15);
    for cut in (0..=15).chain([3, 0, 14]) {
        let synced = ((cut + 1) / 3) as u8;
        let lost = content(&system.image_at(cut, CrashMode::LoseAll, 9));
        let expected = if synced == 0 { b"before".to_vec() } else { vec![synced; 6] };
        assert_eq!(lost, expected, "cut {cut}");
        assert_eq!(system.last_mark(cut), (cut >= 3).then_some(cut as u64 / 3));
    }
    assert_eq!(system.describe(1).unwrap(), "sync file 0");
    assert_eq!(system.describe(15), None);
}

#[test]
fn faults_come_when_they_are_due() {
    let (system, file) = new_file(Config::default());
    write(&file, 0, &[1; 100]);
    system.fail(Operation::Write, 2, 1, Fault::io(Kept::None));
    write(&file, 0, &[2; 100]);
    let error = file.write_at(&[io::IoSlice::new(&[3; 100])], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert_eq!(content(&system), [2; 100]);
    write(&file, 0, &[4; 100]);
    system.fail(Operation::Read, 1, 2, Fault::io(Kept::None));
    assert!(file.read_at(&mut [0], 0).is_err() && file.read_at(&mut [0], 0).is_err());
    file.read_at(&mut [0], 0).unwrap();
    system.fail(Operation::SetLen, 1, u64::MAX, Fault::full(Kept::None));
    assert_eq!(file.set_len(500).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(file.set_len(500).is_err());
    system.heal();
    file.set_len(500).unwrap();
    assert_eq!((system.calls(Operation::Write), system.calls(Operation::SetLen)), (4, 3));
}

#[test]
fn a_failed_sync_forgets_what_was_pending() {
    for (kept, expected) in [(Kept::None, [1; 600]), (Kept::All, [2; 600])] {
        let (system, file) = synced(&[1; 600]);
        write(&file, 0, &[2; 600]);
        write(&file, 600, &[3; 10]);
        system.fail(Operation::Sync, 1, 1, Fault::io(kept));
        assert!(file.sync().is_err());
        assert_eq!(content(&system)[..600], [2; 600], "the cache still shows it");
        file.sync().unwrap();
        for content in crashes(&system, CrashMode::KeepAll) {
            assert_eq!(content[..600], expected, "{kept:?}");
            assert_eq!(content.len(), 610);
        }
    }
}

#[test]
fn a_failed_sync_may_keep_some_sectors() {
    let mut found = BTreeSet::new();
    let (system, file) = new_file(Config::default());
    for round in 0..100 {
        write(&file, 0, &[0; 1024]);
        file.sync().unwrap();
        write(&file, 0, &[1; 1024]);
        system.fail(Operation::Sync, 1, 1, Fault::io(Kept::Some));
        assert!(file.sync().is_err());
        let content = content(&system.crash(round, CrashMode::KeepAll));
        found.insert((content[0], content[512]));
    }
    assert_eq!(found.len(), 4);
}

#[test]
fn a_full_disk_takes_what_fits() {
    let (system, file) = new_file(Config { capacity: Some(1000), ..Config::default() });
    let other = system.open_data(Path::new("/d/other"), Open::Create, 0).unwrap();
    write(&other, 0, &[1; 300]);
    let error = file.write_at(&[io::IoSlice::new(&[2; 800])], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 700);
    write(&file, 100, &[3; 600]);
    assert!(file.set_len(701).is_err());
    assert!(file.write_at(&[io::IoSlice::new(&[2; 8])], 5000).is_err());
    assert_eq!(file.len().unwrap(), 700);
    system.set_capacity(None);
    file.set_len(10_000).unwrap();
}

#[test]
fn the_map_follows_the_file() {
    let (_, file) = new_file(Config::default());
    let map = file.map(1 << 40, Access::Read).unwrap().unwrap();
    write(&file, 5000, b"hello");
    assert_eq!(map.base, file.map(1 << 40, Access::Read).unwrap().unwrap().base);
    assert_eq!(map.reserved, Config::default().reserve);
    assert_eq!(memory::bytes_of(&map, 5000, 5), b"hello");
    let (_, unmapped) = new_file(Config { map: false, ..Config::default() });
    assert!(unmapped.map(1 << 40, Access::Read).unwrap().is_none());
    let small = Config { reserve: 1 << 20, ..Config::default() };
    assert!(new_file(small).1.set_len((1 << 20) + 1).is_err());
}

#[test]
fn the_same_seed_does_the_same() {
    let run = || {
        let (system, file) = new_file(Config::default());
        for i in 0..50 {
            write(&file, i * 300, &[i as u8; 700]);
        }
        (0..20).map(|seed| content(&system.crash(seed, CrashMode::Torn512))).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.iter().collect::<BTreeSet<_>>().len() > 10, "seeds differ");
}

#[test]
fn a_dead_process_does_nothing_and_its_cache_stays() {
    let (system, file) = new_file(Config::default());
    write(&file, 0, b"cached");
    let evidence = file.uptime_evidence();
    let next = system.restart_process();
    assert!(file.write_at(&[io::IoSlice::new(b"ghost!")], 0).is_err());
    assert!(file.sync().is_err() && file.set_len(0).is_err());
    assert!(system.open_data(Path::new(PATH), Open::Read, 0).is_err());
    assert_eq!(content(&next), b"cached");
    let again = next.open_data(Path::new(PATH), Open::Write, 0).unwrap();
    assert_eq!(again.uptime_evidence(), evidence);
    let crashed = next.crash(1, CrashMode::KeepAll);
    let after = crashed.open_data(Path::new(PATH), Open::Write, 0).unwrap();
    assert_ne!(after.uptime_evidence(), evidence);
}

#[test]
fn locks_tell_the_dead_from_the_living() {
    let system = SimSystem::new(1, Config::default());
    let path = Path::new("/d/lock");
    let first = system.open_lock(path, false, Rights::Mode(0)).unwrap();
    assert!(first.is_first());
    first.word(0).store(5, Ordering::SeqCst);
    first.publish_opened();
    let other_process = system.process();
    let second = other_process.open_lock(path, false, Rights::Mode(0)).unwrap();
    assert!(!second.is_first());
    assert_eq!(second.word(0).load(Ordering::SeqCst), 5);
    assert!(second.lock_writer(None).unwrap());
    let slot = second.take_slot().unwrap();
    second.slot_word(slot).store(9, Ordering::SeqCst);
    let zero = Some(std::time::Duration::ZERO);
    assert!(!first.lock_writer(zero).unwrap());
    assert_eq!(first.readers().0.len(), 1);
    other_process.kill();
    drop(second);
    assert!(first.lock_writer(zero).unwrap(), "the dead owner's lock is taken over");
    let (readers, freed) = first.readers();
    assert_eq!((readers.len(), freed), (0, 1));
    let next = system.restart_process();
    let third = next.open_lock(path, false, Rights::Mode(0)).unwrap();
    assert!(third.is_first());
    assert_eq!(third.word(0).load(Ordering::SeqCst), 0);
    assert!(third.lock_writer(zero).unwrap());
}

#[test]
fn the_table_of_processes_is_full_at_some_point() {
    let system = SimSystem::new(1, Config::default());
    let open = || system.open_lock(Path::new("/d/lock"), false, Rights::Mode(0));
    let first = open().unwrap();
    first.publish_opened();
    let others: Vec<_> = (1..1024).map(|_| open().unwrap()).collect();
    assert!(open().err().unwrap().to_string().contains("1024 processes"));
    drop(others);
    assert!(!open().unwrap().is_first());
}

#[test]
fn one_who_dies_while_opening_lets_the_next_one_in() {
    let system = SimSystem::new(1, Config::default());
    let path = Path::new("/d/lock");
    let first = system.open_lock(path, false, Rights::Mode(0)).unwrap();
    assert!(first.is_first());
    let other = system.process();
    let waiter = std::thread::spawn(move || {
        other.open_lock(path, false, Rights::Mode(0)).unwrap().is_first()
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!waiter.is_finished());
    system.kill();
    assert!(waiter.join().unwrap());
}

#[test]
fn a_file_with_two_names_is_one_file() {
    let (system, file) = synced(b"first");
    let (other, taken) = (Path::new("/d/other"), Path::new(PATH));
    system.link(Path::new(PATH), other).unwrap();
    assert_eq!(system.link(other, taken).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    write(&file, 0, b"again");
    assert_eq!(system.content(other).unwrap(), b"again");
    let names = |system: &SimSystem| system.files().len();
    assert_eq!(names(&system.crash(1, CrashMode::LoseAll)), 1, "the name was not flushed");
    system.sync_directory(other).unwrap();
    file.sync().unwrap();
    system.remove(Path::new(PATH)).unwrap();
    assert_eq!(system.content(other).unwrap(), b"again");
    let after = system.crash(1, CrashMode::KeepAll);
    assert_eq!((names(&after), after.content(other).unwrap()), (1, b"again".to_vec()));
    assert_eq!(names(&system.crash(1, CrashMode::LoseAll)), 2, "the removal was not flushed");
}
