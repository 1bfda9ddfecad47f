//! The folder of a database: `CURRENT`, which says what it is; files of ours and of others.
//!
//! `CURRENT` is a text of three lines: what wrote it, the engine, and the comparator's name. It is
//! there once the engine's files are. Programs written for LevelDB look for files of this name and
//! of the name `LOCK`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::options::Kind;
use crate::status::{Code, Result, Status};

/// The file that says what the folder is.
pub(crate) const CURRENT: &str = "CURRENT";
/// The file whose lock keeps a second opener out.
pub(crate) const LOCK: &str = "LOCK";
/// `CURRENT` while the engine's files are being made.
const CURRENT_NEW: &str = "CURRENT.new";
/// `CURRENT` as a repair makes it anew.
const CURRENT_REPAIRED: &str = "CURRENT.repaired";
/// The folder of the log-structured engine.
pub(crate) const LSM: &str = "lsm";
/// The files of the tree engine.
pub(crate) const TREE: [&str; 2] = ["data.hdg", "lock.hdg"];
/// What the file begins with.
const MAGIC: &str = "hedgerow leveldb 1";
/// The permission bits of new files and folders, of which the mask of the process takes some:
/// LevelDB's.
pub(crate) const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
/// What a program's log is called, and the one before it.
const LOGS: [&str; 2] = ["LOG", "LOG.old"];
/// The folder of what a repair has brought over, until it takes the place of the engine's files.
pub(crate) const SALVAGED: &str = "salvaged";
/// The folder of the engine's files whose place that took.
pub(crate) const REPLACED: &str = "replaced";

/// What `CURRENT` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) kind: Kind,
    /// The comparator's name, with everything escaped that is not plain ASCII.
    pub(crate) comparator: String,
}

/// What a folder is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A database of this library.
    Ours(Current),
    /// There is no database.
    Nothing,
}

/// A comparator's name as it is stored.
pub(crate) fn escaped(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

impl Current {
    fn encode(&self) -> String {
        format!("{MAGIC}\nengine {}\ncomparator {}\n", self.kind.name(), self.comparator)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(MAGIC);
        let kind = Kind::of_name(lines.next()?.strip_prefix("engine ")?)?;
        let comparator = lines.next()?.strip_prefix("comparator ")?.to_owned();
        (is_ours && lines.next().is_none()).then_some(Self { kind, comparator })
    }

    /// Says that a database is being made: what is there of it goes if that is cut off.
    pub(crate) fn announce(&self, folder: &Path) -> Result<()> {
        self.write(&folder.join(CURRENT_NEW))
    }

    /// Says that it has been made: durable when this returns.
    pub(crate) fn publish(folder: &Path) -> Result<()> {
        rename(folder, CURRENT_NEW)
    }

    /// Says anew what is there: durable when this returns.
    pub(crate) fn replace(&self, folder: &Path) -> Result<()> {
        self.write(&folder.join(CURRENT_REPAIRED))?;
        rename(folder, CURRENT_REPAIRED)
    }

    fn write(&self, path: &Path) -> Result<()> {
        let written = create_file(path).and_then(|mut file| {
            file.write_all(self.encode().as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| Status::io(path, &error))
    }
}

/// Makes a file the one that says what the folder is.
fn rename(folder: &Path, from: &str) -> Result<()> {
    let path = folder.join(CURRENT);
    let renamed = fs::rename(folder.join(from), &path);
    renamed.map_err(|error| Status::io(&path, &error))?;
    sync(folder).map_err(|error| Status::io(folder, &error))
}

/// Makes a file, or an old one empty.
fn create_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// Makes a folder.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// Makes durable which names stand in a folder.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Says what a folder is.
///
/// # Errors
/// If it holds a database of LevelDB or files that might be one, or is ours and damaged.
pub(crate) fn content(folder: &Path) -> Result<Content> {
    let path = folder.join(CURRENT);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return without_current(folder),
        Err(error) => return Err(Status::io(&path, &error)),
    };
    if bytes.starts_with(b"MANIFEST-") {
        return Err(foreign(folder));
    }
    let current = std::str::from_utf8(&bytes).ok().and_then(Current::decode);
    let unknown = || {
        let path = path.display();
        Status::corruption(format!("{path}: it was not written by this library, or is damaged"))
    };
    current.map(Content::Ours).ok_or_else(unknown)
}

fn without_current(folder: &Path) -> Result<Content> {
    let names: Vec<String> = names(folder).unwrap_or_default();
    if names.iter().any(|name| is_leveldb(name)) {
        return Err(foreign(folder));
    }
    let has_engine = names.iter().any(|name| name == TREE[0] || name == LSM);
    if !has_engine {
        return Ok(Content::Nothing);
    }
    if names.iter().any(|name| name == CURRENT_NEW) {
        // Its making was cut off before anybody could write to it, or its removal was.
        remove_engine(folder).map_err(|error| Status::io(folder, &error))?;
        return Ok(Content::Nothing);
    }
    let folder = folder.display();
    let what = "files of a store are there, and CURRENT is not; RepairDB makes it anew";
    Err(Status::corruption(format!("{folder}: {what}")))
}

/// Whether a file has a name as LevelDB gives them, other than those that we use, too.
fn is_leveldb(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(number) = name.strip_prefix("MANIFEST-") {
        return is_number(number);
    }
    let split = name.split_once('.');
    split.is_some_and(|(number, kind)| is_number(number) && ["ldb", "sst", "log"].contains(&kind))
}

fn foreign(folder: &Path) -> Status {
    let what = "this is a database of LevelDB; `hedgerow convert --from-leveldb` makes one of \
                Hedgerow of it";
    Status::new(Code::InvalidArgument, format!("{}: {what}", folder.display()))
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// Which engine's files are there, whatever `CURRENT` says.
///
/// # Errors
/// If the folder cannot be read, or holds a database of LevelDB.
pub(crate) fn engine_of(folder: &Path) -> Result<Option<Kind>> {
    let names = names(folder).map_err(|error| Status::io(folder, &error))?;
    if names.iter().any(|name| is_leveldb(name)) {
        return Err(foreign(folder));
    }
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    Ok(match (has(TREE[0]), has(LSM)) {
        (true, _) => Some(Kind::Tree),
        (_, true) => Some(Kind::Lsm),
        _ => None,
    })
}

/// Whether the making of a database was cut off before there was anything in it that a repair
/// could read.
pub(crate) fn is_unmade(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    let files = names(&folder.join(LSM)).unwrap_or_default();
    let has_data = has(TREE[0]) || files.iter().any(|name| name != LOCK);
    has(CURRENT_NEW) && !has(CURRENT) && !has_data
}

/// Removes a file that may not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    without_missing(fs::remove_file(path))
}

/// Removes a folder that may not be there, with what is in it.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    without_missing(fs::remove_dir_all(path))
}

fn without_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn remove_engine(folder: &Path) -> io::Result<()> {
    TREE.iter().try_for_each(|name| remove(&folder.join(name)))?;
    [LSM, SALVAGED, REPLACED].iter().try_for_each(|name| remove_folder(&folder.join(name)))
}

/// Removes the files of a database, its lock last. The caller has the lock. If this is cut off,
/// what remains is that of a database whose making was.
pub(crate) fn destroy(folder: &Path) -> Result<()> {
    let removed = without_missing(fs::rename(folder.join(CURRENT), folder.join(CURRENT_NEW)))
        .and_then(|()| remove_engine(folder))
        .and_then(|()| LOGS.iter().try_for_each(|name| remove(&folder.join(name))))
        .and_then(|()| remove(&folder.join(CURRENT_REPAIRED)))
        .and_then(|()| remove(&folder.join(CURRENT_NEW)))
        .and_then(|()| remove(&folder.join(LOCK)));
    removed.map_err(|error| Status::io(folder, &error))
}

/// Begins the log of an opening; the one before it stays under another name. Where that is not
/// possible there is none.
pub(crate) fn new_log(folder: &Path) -> Option<File> {
    let [log, old] = LOGS.map(|name| folder.join(name));
    let _ = fs::rename(&log, old);
    create_file(&log).ok()
}

/// The path that a program gave.
///
/// # Errors
/// If it is empty: it would be the current folder, which LevelDB does not mean by it.
pub(crate) fn path_of(name: &[u8]) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    match name {
        [] => Err(Status::invalid("no name was given")),
        _ => Ok(PathBuf::from(std::ffi::OsStr::from_bytes(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_comes_back_and_nothing_else_is_taken_for_it() {
        let comparator = escaped(b"caf\xe9\n");
        let current = Current { kind: Kind::Lsm, comparator };
        assert_eq!(Current::decode(&current.encode()), Some(current.clone()));
        for wrong in ["", "MANIFEST-000002\n", "hedgerow leveldb 2\nengine lsm\ncomparator a\n"] {
            assert_eq!(Current::decode(wrong), None);
        }
        assert_eq!(Current::decode(&(current.encode() + "more\n")), None);
    }

    #[test]
    fn a_database_of_leveldb_is_refused_with_the_name_of_the_converter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(content(path).unwrap(), Content::Nothing);
        for name in ["000005.ldb", "000003.log", "MANIFEST-000002"] {
            fs::write(path.join(name), "").unwrap();
            assert!(content(path).unwrap_err().message.contains("convert --from-leveldb"));
            fs::remove_file(path.join(name)).unwrap();
        }
        fs::write(path.join(CURRENT), "MANIFEST-000002\n").unwrap();
        assert!(content(path).unwrap_err().message.contains("convert --from-leveldb"));
        fs::write(path.join(CURRENT), "something else\n").unwrap();
        assert_eq!(content(path).unwrap_err().code, Code::Corruption);
    }

    #[test]
    fn a_creation_that_was_cut_off_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let current = Current { kind: Kind::Tree, comparator: escaped(b"c") };
        current.announce(path).unwrap();
        fs::write(path.join(TREE[0]), "half").unwrap();
        assert_eq!(content(path).unwrap(), Content::Nothing);
        assert!(!path.join(TREE[0]).exists());
        fs::write(path.join(TREE[0]), "whole").unwrap();
        Current::publish(path).unwrap();
        assert_eq!(content(path).unwrap(), Content::Ours(current));
        fs::remove_file(path.join(CURRENT)).unwrap();
        assert_eq!(content(path).unwrap_err().code, Code::Corruption);
    }
}
