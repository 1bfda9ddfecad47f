//! Identifies a file by its first and last bytes, for programs that are about to overwrite it. It
//! opens nothing as a store, takes no lock, and decides nothing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// What a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// The data file of a store of the engine [`tree`](crate::tree), also of one whose first pages
    /// are damaged.
    Tree,
    /// The lock file of such a store.
    Lock,
    /// A file in the directory of a store of the engine [`lsm`](crate::lsm).
    Lsm,
    /// A data file or lock file of LMDB.
    Lmdb,
}

/// What the data files of the engine tree begin with.
pub(crate) const TREE: &[u8; 8] = b"HEDGEROW";
/// What its lock files begin with.
pub(crate) const LOCK: &[u8; 8] = b"hdg-lock";
/// What the files of the engine lsm begin with: manifests, segments, groups to be written.
const LSM: [&[u8; 8]; 3] = [b"HEDGEMAN", b"HEDGELOG", b"HEDGEPND"];
/// What its tables end with, and how many bytes before the end this stands.
const LSM_TABLE: (&[u8; 8], u64) = (b"HEDGETBL", 64);
const LMDB: u32 = 0xBEEF_C0DE;
/// Where it stands in data files, and in lock files.
const LMDB_AT: [usize; 2] = [16, 0];
/// Powers of two that pages may have as their size.
const PAGE_SHIFTS: std::ops::RangeInclusive<u32> = 12..=16;
/// This many bytes of a page are enough to identify it.
const HEAD: usize = 20;

/// Whether a folder is the directory of a store of the engine lsm.
pub(crate) fn is_lsm(folder: &Path) -> bool {
    matches!(identify(folder.join("MANIFEST")), Ok(Some(FileKind::Lsm)))
}

/// Says whether a file belongs to a store; `None` if it is something else, or no regular file.
///
/// # Errors
/// If the system refuses to read it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// use hedgerow::{FileKind, identify};
/// let path = folder.path().join("store");
/// hedgerow::tree::Store::create(&path)?;
/// assert_eq!(identify(&path)?, Some(FileKind::Tree));
/// # Ok(()) }
/// ```
pub fn identify(path: impl AsRef<Path>) -> io::Result<Option<FileKind>> {
    let path = path.as_ref();
    // Opening a pipe would block until a writer opens it.
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let first = head(&mut file, 0)?;
    if let Some(kind) = kind_of(&first) {
        return Ok(Some(kind));
    }
    let (magic, from_end) = LSM_TABLE;
    if let Some(at) = meta.len().checked_sub(from_end)
        && head(&mut file, at)?.starts_with(magic)
    {
        return Ok(Some(FileKind::Lsm));
    }
    // Any two of the three meta pages may be damaged.
    for at in PAGE_SHIFTS.flat_map(|shift| [1 << shift, 2 << shift]) {
        if head(&mut file, at)?.starts_with(TREE) {
            return Ok(Some(FileKind::Tree));
        }
    }
    Ok(None)
}

fn head(file: &mut File, at: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEAD);
    file.seek(SeekFrom::Start(at))?;
    file.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn kind_of(head: &[u8]) -> Option<FileKind> {
    if head.starts_with(TREE) {
        return Some(FileKind::Tree);
    }
    if head.starts_with(LOCK) {
        return Some(FileKind::Lock);
    }
    if LSM.iter().any(|magic| head.starts_with(*magic)) {
        return Some(FileKind::Lsm);
    }
    let is_lmdb = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes.is_some_and(|bytes| {
            [u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)].contains(&LMDB)
        })
    };
    LMDB_AT.into_iter().any(is_lmdb).then_some(FileKind::Lmdb)
}
