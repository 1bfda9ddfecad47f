//! Folders of our own library with LevelDB's interface (crates/leveldb): `CURRENT` says in three
//! lines what is there, and the entries are in one table of a store in the same folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{BYTEWISE, CURRENT};
use crate::draft::check_vacant;
use crate::exit::Failure;
use crate::open::{Engine, Name};

/// What `CURRENT` begins with.
const MAGIC: &str = "hedgerow leveldb 1\n";
/// The folder of a store of the engine lsm; one of the engine tree has its files beside `CURRENT`.
const LSM: &str = "lsm";
/// The name of the table.
const TABLE: &[u8] = b"leveldb";

/// The table with the entries.
pub(crate) fn table() -> Name {
    Name(TABLE.to_vec())
}

/// Whether a folder is one of these.
pub(crate) fn is_face(folder: &Path) -> bool {
    fs::read(folder.join(CURRENT)).is_ok_and(|bytes| bytes.starts_with(MAGIC.as_bytes()))
}

/// Where the store at a path is: in a folder of its own, where the path is a folder of our library
/// with a store of the engine lsm.
pub(crate) fn store_at(path: &Path) -> PathBuf {
    let inside = path.join(LSM);
    if inside.is_dir() && is_face(path) { inside } else { path.to_path_buf() }
}

/// Where the store of an engine is made, in a folder that is made for it.
pub(crate) fn place_for(engine: Engine, folder: &Path) -> PathBuf {
    match engine {
        Engine::Tree => folder.join("data.hdg"),
        Engine::Lsm => folder.join(LSM),
    }
}

/// Makes `CURRENT`; what is in the folder is on stable storage then.
pub(crate) fn publish(folder: &Path, engine: Engine) -> Result<(), Failure> {
    let engine = match engine {
        Engine::Tree => "tree",
        Engine::Lsm => "lsm",
    };
    let comparator = BYTEWISE.escape_ascii();
    let text = format!("{MAGIC}engine {engine}\ncomparator {comparator}\n");
    write_current(folder, text.as_bytes())
}

fn write_current(folder: &Path, text: &[u8]) -> Result<(), Failure> {
    let path = folder.join(CURRENT);
    let written = || -> io::Result<()> {
        fs::write(&path, text)?;
        File::open(&path)?.sync_all()?;
        File::open(folder)?.sync_all()
    };
    written().map_err(|error| Failure::io("write", path.display(), &error))
}

/// Has the store of a folder copied. If the folder is one of these, so is the copy: it gets
/// `CURRENT` when the store is there. If not, the store itself is the copy.
pub(crate) fn copied<T>(
    from: &Path,
    to: &Path,
    engine: Engine,
    copy: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !is_face(from) || is_bare(to) {
        return copy(to);
    }
    let is_again = engine == Engine::Lsm && to.join(LSM).is_dir();
    if !is_again {
        check_vacant(to)?;
        fs::create_dir_all(to).map_err(|error| Failure::io("make", to.display(), &error))?;
    }
    let copied = copy(&place_for(engine, to));
    if copied.is_err() && !is_again {
        // It goes if nothing is in it, which was there before neither.
        let _ = fs::remove_dir(to);
    }
    let copied = copied?;
    let current = fs::read(from.join(CURRENT));
    let current = current.map_err(|error| Failure::io("read", from.display(), &error))?;
    if fs::read(to.join(CURRENT)).ok().as_ref() != Some(&current) {
        write_current(to, &current)?;
    }
    Ok(copied)
}

/// Whether a folder is itself a store of the engine lsm.
fn is_bare(folder: &Path) -> bool {
    folder.join("MANIFEST").is_file()
}
