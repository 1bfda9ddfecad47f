//! Which tables of a database that is being written are complete, so that it is gone on with after
//! the last one: a text with a line for each, added once the table is on stable storage.
//!
//! A line has the table's number, its length, a checksum of all its bytes, its first and its last
//! key, and a checksum of the line.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};

use super::coding::parts_of;
use super::manifest::TableFile;
use crate::codec::{Format, hex_to};
use crate::exit::Failure;
use crate::signals;

/// The number of the first table: the manifest has the one before it.
pub(super) const FIRST: u64 = 2;

/// A table that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complete {
    pub(super) table: TableFile,
    /// Over all its bytes.
    pub(super) sum: u64,
}

/// A sum over the bytes of a table.
pub(super) fn new_sum() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// Where a table of a number is.
pub(super) fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.ldb"))
}

impl Complete {
    fn line(&self) -> String {
        let Self { table: TableFile { number, bytes, smallest, largest }, sum } = self;
        let hex = |key: &[u8]| {
            let mut out = Vec::new();
            hex_to(key, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let text = format!("{number} {bytes} {sum:016x} {} {}", hex(smallest), hex(largest));
        format!("{text} {:016x}", sum_of(text.as_bytes()))
    }

    fn parse(line: &str) -> Option<Self> {
        let (text, check) = line.rsplit_once(' ')?;
        let sum = |hex| u64::from_str_radix(hex, 16).ok();
        let mut fields = text.split(' ');
        let (number, bytes) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let all = sum(fields.next()?)?;
        let mut key = || {
            let key = Format::Hex.decode(fields.next()?.as_bytes()).ok()?;
            parts_of(&key).is_some().then_some(key)
        };
        let table = TableFile { number, bytes, smallest: key()?, largest: key()? };
        (sum(check)? == sum_of(text.as_bytes())).then_some(Self { table, sum: all })
    }

    /// Whether a file is this table, byte by byte.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let (mut sum, mut bytes, mut part) = (new_sum(), 0, vec![0; 1 << 18]);
        loop {
            match file.read(&mut part)? {
                0 => return Ok(bytes == self.table.bytes && sum.finalize() == self.sum),
                read => {
                    sum.update(&part[..read]);
                    bytes += read as u64;
                }
            }
        }
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut sum = new_sum();
    sum.update(bytes);
    sum.finalize()
}

/// The list, to which tables are added.
pub(super) struct Kept {
    path: PathBuf,
    file: File,
}

impl Kept {
    /// Reads the list at a path, if there is one, and finds the tables in a folder: the first ones
    /// of the list that are there as it says. All other files are removed from the folder.
    pub(super) fn begin(path: &Path, folder: &Path) -> Result<(Self, Vec<TableFile>), Failure> {
        let refused = |error: io::Error| Failure::io("go on with", path.display(), &error);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(refused)?;
        let mut listed = Vec::new();
        file.read_to_end(&mut listed).map_err(refused)?;
        let (mut tables, mut end) = (Vec::new(), 0);
        for line in listed.split_inclusive(|&byte| byte == b'\n') {
            signals::check()?;
            let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
            let Some(complete) = text.and_then(Complete::parse) else { break };
            let number = FIRST + tables.len() as u64;
            let place = path_of(folder, number);
            let is_there = || complete.is_at(&place);
            if complete.table.number != number || !is_there().map_err(refused)? {
                break;
            }
            tables.push(complete.table);
            end += line.len() as u64;
        }
        file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(refused)?;
        remove_others(folder, FIRST + tables.len() as u64).map_err(refused)?;
        Ok((Self { path: path.to_path_buf(), file }, tables))
    }

    /// Adds a table, which is on stable storage.
    pub(super) fn add(&mut self, complete: &Complete) -> Result<(), Failure> {
        let line = complete.line() + "\n";
        let added = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        added.map_err(|error| Failure::io("write to", self.path.display(), &error))
    }
}

/// Removes every file but the tables before a number.
fn remove_others(folder: &Path, end: u64) -> io::Result<()> {
    let kept: HashSet<PathBuf> = (FIRST..end).map(|number| path_of(folder, number)).collect();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !kept.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leveldb::coding::{Kind, numbered};

    fn complete(folder: &Path, number: u64) -> Complete {
        let bytes = vec![number as u8; 300_000];
        fs::write(path_of(folder, number), &bytes).unwrap();
        let key = |byte| numbered(&[byte, b' ', 0], 1, Kind::Value);
        let (smallest, largest) = (key(number as u8), key(number as u8 + 1));
        let table = TableFile { number, bytes: bytes.len() as u64, smallest, largest };
        Complete { table, sum: sum_of(&bytes) }
    }

    /// Writes five tables, spoils something, and says how many are still taken for complete.
    fn left_after(spoil: impl FnOnce(&Path, &Path)) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let (list, tables) = (folder.path().join("list"), folder.path().join("tables"));
        fs::create_dir(&tables).unwrap();
        let (mut kept, none) = Kept::begin(&list, &tables).unwrap();
        assert!(none.is_empty());
        let all: Vec<Complete> = (FIRST..FIRST + 5).map(|n| complete(&tables, n)).collect();
        all.iter().for_each(|complete| kept.add(complete).unwrap());
        fs::write(tables.join("MANIFEST-000001"), "").unwrap();
        spoil(&list, &tables);
        let (mut kept, found) = Kept::begin(&list, &tables).unwrap();
        assert!(found.iter().eq(all.iter().map(|complete| &complete.table).take(found.len())));
        assert_eq!(fs::read_dir(&tables).unwrap().count(), found.len());
        // What comes now is added after them.
        let next = complete(&tables, FIRST + found.len() as u64);
        kept.add(&next).unwrap();
        let (_, again) = Kept::begin(&list, &tables).unwrap();
        assert_eq!(again.len(), found.len() + 1);
        found.len()
    }

    #[test]
    fn tables_are_kept_up_to_the_first_one_that_is_not_as_the_list_says() {
        assert_eq!(left_after(|_, _| {}), 5);
        assert_eq!(left_after(|_, tables| fs::remove_file(path_of(tables, 4)).unwrap()), 2);
        assert_eq!(left_after(|_, tables| fs::write(path_of(tables, 3), "short").unwrap()), 1);
        let flip = |path: &Path, at: usize| {
            let mut bytes = fs::read(path).unwrap();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        };
        assert_eq!(left_after(|_, tables| flip(&path_of(tables, 6), 200_000)), 4);
        assert_eq!(left_after(|list, _| flip(list, 0)), 0);
        let cut = |list: &Path, by: u64| {
            let file = OpenOptions::new().write(true).open(list).unwrap();
            file.set_len(file.metadata().unwrap().len() - by).unwrap();
        };
        assert_eq!(left_after(|list, _| cut(list, 1)), 4);
        assert_eq!(left_after(|list, _| cut(list, 100)), 3);
    }
}
