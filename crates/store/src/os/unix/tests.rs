//! Real files in a temporary folder: what was written is read, mapped, cut and extended.

use super::*;

fn create(folder: &tempfile::TempDir) -> (std::path::PathBuf, Arc<dyn DataFile>) {
    let path = folder.path().join("data");
    let file = RealSystem.open_data(&path, Open::Create, 0o600).unwrap();
    (path, file)
}

#[test]
fn many_and_empty_parts_are_written_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_, file) = create(&folder);
    let parts: Vec<Vec<u8>> = (0..3000_usize).map(|i| vec![i as u8; i % 7]).collect();
    let slices: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part)).collect();
    file.write_at(&slices, 5).unwrap();
    let expected = parts.concat();
    let mut found = vec![0; expected.len()];
    file.read_at(&mut found, 5).unwrap();
    assert_eq!(found, expected);
    assert_eq!(file.len().unwrap(), 5 + expected.len() as u64);
    file.write_at(&[], 0).unwrap();
    file.write_at(&[io::IoSlice::new(&[])], 0).unwrap();
    assert_eq!(file.len().unwrap(), 5 + expected.len() as u64);
}

#[test]
fn what_is_stored_in_shared_bytes_is_in_the_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (_, file) = create(&folder);
    assert!(file.share(1).is_err(), "there is nothing yet");
    file.set_len(5000).unwrap();
    // A file system that gives changed files other places has no such thing.
    let Some(mut shared) = file.share(5000).unwrap() else { return };
    shared.store(4090, &[7; 10]);
    let mut found = [0; 12];
    file.read_at(&mut found, 4089).unwrap();
    assert_eq!(found, [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    // It outlives the handle, as a write does.
    drop(file);
    shared.store(4999, &[8]);
    drop(shared);
    let file = RealSystem.open_data(&folder.path().join("data"), Open::Read, 0).unwrap();
    file.read_at(&mut found[..1], 4999).unwrap();
    assert_eq!(found[0], 8);
}

#[test]
#[should_panic(expected = "behind the end")]
fn nothing_is_stored_behind_what_is_shared() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (_, file) = create(&folder);
    file.set_len(5000).unwrap();
    match file.share(100).unwrap() {
        Some(mut shared) => shared.store(91, &[7; 10]),
        None => panic!("behind the end of what this file system has"),
    }
}

#[test]
fn what_is_appended_and_released_is_read() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (_, file) = create(&folder);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 251) as u8).collect();
    let parts = [&bytes[..700_001], &[], &bytes[700_001..]].map(io::IoSlice::new);
    file.append_at(&parts, 11).unwrap();
    file.release(0, 1 << 20);
    file.sync().unwrap();
    file.release(0, 4 << 20);
    let mut found = vec![0; bytes.len()];
    file.read_at(&mut found, 11).unwrap();
    assert!(found == bytes && file.len().unwrap() == 11 + bytes.len() as u64);
}

#[test]
fn a_position_in_parts_moves_over_empty_ones() {
    let parts = [&b""[..], b"abc", b"", b"d", b""].map(io::IoSlice::new);
    let (mut first, mut skip) = (0, 0);
    calls::advance(&parts, &mut first, &mut skip, 0);
    assert_eq!((first, skip), (1, 0));
    calls::advance(&parts, &mut first, &mut skip, 2);
    assert_eq!((first, skip), (1, 2));
    calls::advance(&parts, &mut first, &mut skip, 1);
    assert_eq!((first, skip), (3, 0));
    calls::advance(&parts, &mut first, &mut skip, 1);
    assert_eq!((first, skip), (5, 0));
}

#[test]
fn growing_allocates_zeros_and_shrinking_cuts() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = create(&folder);
    file.write_at(&[io::IoSlice::new(b"head")], 0).unwrap();
    let len = (2 << 20) + 12_345;
    file.set_len(len).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), len);
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= len, "the zeros are not holes");
    let content = std::fs::read(&path).unwrap();
    assert!(content.starts_with(b"head") && content[4..].iter().all(|&byte| byte == 0));
    file.set_len(2).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"he");
    file.start_writeback(0, 2);
}

#[test]
fn a_full_disk_leaves_the_old_length() {
    // A limit on the size of files stands in for a full disk; in a process of its own, because
    // the limit holds for all of it.
    const CHILD: &str = "HEDGEROW_TEST_FILE_LIMIT";
    if let Some(path) = std::env::var_os(CHILD) {
        let file = RealSystem.open_data(Path::new(&path), Open::Create, 0o600).unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(file.set_len(64 << 20).is_err());
        assert_eq!(file.len().unwrap(), 1 << 20);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    let mut command = std::process::Command::new("sh");
    command
        // The limit counts blocks of 512 or 1,024 bytes: 10 or 20 MiB. Its signal is ignored, so
        // that the write fails instead.
        .args(["-c", r#"trap '' XFSZ; ulimit -f 20480 && exec "$0" --exact "$1""#])
        .arg(std::env::current_exe().unwrap())
        .arg(&name)
        .env(CHILD, folder.path().join("data"))
        .stdout(std::process::Stdio::null());
    let status = crate::os::children::spawn(&mut command).unwrap().wait().unwrap();
    assert!(status.success());
    assert_eq!(std::fs::metadata(folder.path().join("data")).unwrap().len(), 1 << 20);
}

#[test]
fn opening_is_strict() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = create(&folder);
    file.write_at(&[io::IoSlice::new(b"x")], 0).unwrap();
    let refusal = |path: &Path, how| RealSystem.open_data(path, how, 0o600).err().unwrap().kind();
    assert_eq!(refusal(&path, Open::Create), io::ErrorKind::AlreadyExists);
    assert_eq!(refusal(&folder.path().join("none"), Open::Write), io::ErrorKind::NotFound);
    assert_eq!(refusal(folder.path(), Open::Read), io::ErrorKind::InvalidInput);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("target"), &link).unwrap();
    assert!(RealSystem.open_data(&link, Open::Create, 0o600).is_err());
    assert!(!folder.path().join("target").exists());
    let reader = RealSystem.open_data(&path, Open::Read, 0).unwrap();
    assert!(reader.write_at(&[io::IoSlice::new(b"y")], 0).is_err());
    let error = reader.read_at(&mut [0; 2], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn names_are_moved_removed_and_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _file) = create(&folder);
    let other = folder.path().join("other");
    RealSystem.rename(&path, &other).unwrap();
    RealSystem.sync_directory(&other).unwrap();
    assert!(!path.exists() && other.exists());
    RealSystem.remove(&other).unwrap();
    assert!(!other.exists());
}

#[test]
fn evidence_is_steady_for_a_file_and_differs_between_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = create(&folder);
    let again = RealSystem.open_data(&path, Open::Read, 0).unwrap();
    assert_eq!(file.uptime_evidence(), again.uptime_evidence());
    let other = folder.path().join("other");
    let other = RealSystem.open_data(&other, Open::Create, 0o600).unwrap();
    if let Some(evidence) = file.uptime_evidence() {
        assert_ne!(Some(evidence), other.uptime_evidence());
        assert_eq!(evidence[..16], other.uptime_evidence().unwrap()[..16]);
    }
}

#[test]
fn a_boot_identity_is_read_strictly() {
    let text = "00112233-4455-6677-8899-aabbccddeeff\n";
    assert_eq!(evidence::boot_id(text).unwrap()[..4], [0x00, 0x11, 0x22, 0x33]);
    assert_eq!(evidence::boot_id("0011"), None);
    assert_eq!(evidence::boot_id("zz112233-4455-6677-8899-aabbccddeeff"), None);
}

#[test]
fn byte_locks_belong_to_the_open_file() {
    let _no_children = crate::os::children::none();
    let folder = tempfile::tempdir().unwrap();
    let (path, _file) = create(&folder);
    let [one, two] = [(); 2].map(|()| open_regular(&path, OFlags::RDWR, 0).unwrap());
    assert!(bytes::try_lock(&one, 7).unwrap());
    assert!(!bytes::try_lock(&two, 7).unwrap());
    assert!(bytes::is_locked(&two, 0, 100).unwrap());
    assert!(!bytes::is_locked(&two, 8, 100).unwrap());
    assert!(!bytes::is_locked(&one, 0, 100).unwrap(), "one's own lock is not another's");
    bytes::unlock(&one, 7).unwrap();
    bytes::lock(&two, 7).unwrap();
    drop(two);
    assert!(bytes::try_lock(&one, 7).unwrap());
}
