//! Which tables there are, where the manifest cannot be read: all whose files are there, as if each
//! might overlap all others. The newest word on each key counts then, as it does anyway; but tables
//! that no longer counted may bring entries back that were deleted.

use std::fs;
use std::io;
use std::path::Path;

use super::BYTEWISE;
use super::manifest::{Manifest, TableFile};

/// The number in the name of a file of LevelDB, and which kind of file it is.
pub(super) fn parse(name: &str) -> Option<(u64, &str)> {
    let (number, kind) = match name.strip_prefix("MANIFEST-") {
        Some(number) => (number, "manifest"),
        None => name.split_once('.')?,
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = ["manifest", "ldb", "sst", "log"].contains(&kind);
    Some((number.parse().ok().filter(|_| is_number && is_known)?, kind))
}

/// Whether a folder has files of LevelDB beside `CURRENT`.
pub(super) fn has_files(folder: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    entries.any(|entry| {
        let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
        name.to_str().is_some_and(|name| parse(name).is_some())
    })
}

/// A manifest of all tables of a folder; all logs count, too.
pub(super) fn manifest(folder: &Path) -> io::Result<Manifest> {
    let mut manifest = Manifest { comparator: BYTEWISE.to_vec(), ..Manifest::default() };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((number, "ldb" | "sst")) = name.to_str().and_then(parse) else { continue };
        let (smallest, largest) = (Vec::new(), Vec::new());
        let table = TableFile { number, bytes: entry.metadata()?.len(), smallest, largest };
        manifest.tables.insert((0, number), table);
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told() {
        assert_eq!(parse("000007.ldb"), Some((7, "ldb")));
        assert_eq!(parse("12345678.log"), Some((12_345_678, "log")));
        assert_eq!(parse("MANIFEST-000002"), Some((2, "manifest")));
        for other in ["CURRENT", "LOCK", "LOG", "LOG.old", "+7.ldb", ".ldb", "MANIFEST-", "7.dbtmp"]
        {
            assert_eq!(parse(other), None);
        }
    }
}
