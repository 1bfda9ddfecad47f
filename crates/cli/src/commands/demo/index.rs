//! Walks a folder as `find FOLDER -type f` does and fills the two tables.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use hedgerow::Durability;
use hedgerow::tree::{Snapshot, Store, Table, TableOptions, WriteTxn};
use walkdir::{DirEntry, WalkDir};

use crate::exit::Failure;
use crate::progress::{Progress, Unit};
use crate::signals;

/// path -> record.
pub(super) const FILES: &str = "files";
/// extension -> paths.
pub(super) const EXTENSIONS: &str = "extensions";

/// This many files are committed together: few enough for bounded memory.
const BATCH_FILES: u64 = 200_000;
/// At most this many warnings are shown one by one.
const WARNINGS_MAX: u64 = 10;

/// What was indexed.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// Files in the table.
    pub(super) files: u64,
    /// Bytes of their paths and records.
    pub(super) entry_bytes: u64,
    /// Files under each folder right below the one indexed; the names end with a slash.
    pub(super) folders: BTreeMap<Vec<u8>, u64>,
    /// Folders and files that could not be looked at.
    pub(super) warnings: u64,
}

/// Indexes all files under `folder`, but not those under `skip`.
pub(super) fn index(folder: &Path, store: &Store, skip: Option<&Path>) -> Result<Indexed, Failure> {
    let mut indexer = Indexer::new(folder, store)?;
    // Sorted by name, so that most entries are inserted near the previous one.
    let walk = WalkDir::new(folder).follow_root_links(false).sort_by_file_name();
    for entry in walk.into_iter().filter_entry(|entry| Some(entry.path()) != skip) {
        signals::check()?;
        match entry {
            Ok(entry) if entry.file_type().is_file() => indexer.add(&entry)?,
            Ok(_) => {}
            Err(error) if error.depth() == 0 => {
                return Err(Failure::other(format!("the folder cannot be read: {error}")));
            }
            Err(error) => indexer.warn(&error.to_string()),
        }
    }
    indexer.finish()
}

struct Indexer<'a> {
    root: usize,
    store: &'a Store,
    txn: Option<Open>,
    progress: Progress,
    indexed: Indexed,
    record: Vec<u8>,
}

/// A write transaction and its tables.
struct Open {
    txn: WriteTxn,
    files: Table,
    extensions: Table,
}

impl<'a> Indexer<'a> {
    fn new(folder: &Path, store: &'a Store) -> Result<Self, Failure> {
        let mut txn = store.begin_write()?;
        txn.create_table(FILES, &TableOptions::new())?;
        txn.create_table(EXTENSIONS, &TableOptions::new().duplicates())?;
        txn.commit_with(Durability::Eventual)?;
        Ok(Self {
            root: folder.as_os_str().len(),
            store,
            txn: None,
            progress: Progress::new("indexing files", Unit::Items, None),
            indexed: Indexed::default(),
            record: Vec::new(),
        })
    }

    fn add(&mut self, entry: &DirEntry) -> Result<(), Failure> {
        let path = entry.path().as_os_str().as_encoded_bytes();
        match entry.metadata() {
            Ok(metadata) => encode(&metadata, &mut self.record),
            Err(error) => {
                // `find` counts it all the same: the folder says that it is a file.
                self.warn(&error.to_string());
                encode_unknown(&mut self.record);
            }
        }
        let longest = self.store.max_duplicate_size();
        let mut open = self.open()?;
        open.txn.put(open.files, path, &self.record)?;
        let extension = entry.path().extension().filter(|extension| !extension.is_empty());
        if let Some(extension) = extension {
            if path.len() <= longest {
                open.txn.put(open.extensions, extension.as_encoded_bytes(), path)?;
            } else {
                self.warn(&format!("a path of {} bytes has no place as a value", path.len()));
            }
        }
        self.count(path);
        if self.indexed.files.is_multiple_of(BATCH_FILES) {
            open.txn.commit_with(Durability::Eventual)?;
        } else {
            self.txn = Some(open);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Open, Failure> {
        if let Some(open) = self.txn.take() {
            return Ok(open);
        }
        let txn = self.store.begin_write()?;
        let (files, extensions) = (txn.table(FILES)?, txn.table(EXTENSIONS)?);
        Ok(Open { txn, files, extensions })
    }

    fn count(&mut self, path: &[u8]) {
        self.indexed.files += 1;
        self.indexed.entry_bytes += (path.len() + self.record.len()) as u64;
        if let Some(folder) = top_folder(path, self.root) {
            match self.indexed.folders.get_mut(folder) {
                Some(files) => *files += 1,
                None => {
                    self.indexed.folders.insert(folder.to_vec(), 1);
                }
            }
        }
        if self.indexed.files.is_multiple_of(256) {
            self.progress.at(self.indexed.files);
        }
    }

    fn warn(&mut self, message: &str) {
        self.indexed.warnings += 1;
        if self.indexed.warnings <= WARNINGS_MAX {
            self.progress.warn(message);
        }
    }

    fn finish(mut self) -> Result<Indexed, Failure> {
        self.open()?.txn.commit_with(Durability::Durable)?;
        if self.indexed.warnings > WARNINGS_MAX {
            let more = self.indexed.warnings - WARNINGS_MAX;
            self.progress.warn(&format!("{more} more files or folders could not be read"));
        }
        Ok(self.indexed)
    }
}

/// The folder right below the root that holds the path, with its slash.
fn top_folder(path: &[u8], root: usize) -> Option<&[u8]> {
    let is_slash = |byte: &u8| std::path::is_separator(char::from(*byte));
    let below = path.get(root..)?;
    let name = root + below.iter().position(|byte| !is_slash(byte))?;
    let end = path.get(name..)?.iter().position(is_slash)?;
    path.get(..=name + end)
}

/// The record of a file: its kind (one byte: 1 executable, 2 with several names, 4 read-only, 128
/// nothing is known), its size, and the second of its last change, both as variable-length numbers
/// of 7 bits a byte, the second one with its sign in the lowest bit.
fn encode(metadata: &Metadata, record: &mut Vec<u8>) {
    let changed = metadata.modified().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::from(after.as_secs()),
        Err(before) => -i128::from(before.duration().as_secs()),
    });
    let folded = (changed.unsigned_abs() as u64) << 1 | u64::from(changed < 0);
    record.clear();
    record.push(kind(metadata));
    push_number(metadata.len(), record);
    push_number(folded, record);
}

fn encode_unknown(record: &mut Vec<u8>) {
    record.clear();
    record.extend_from_slice(&[128, 0, 0]);
}

fn kind(metadata: &Metadata) -> u8 {
    let read_only = if metadata.permissions().readonly() { 4 } else { 0 };
    let executable = u8::from(metadata.mode() & 0o111 != 0);
    let several = if metadata.nlink() > 1 { 2 } else { 0 };
    read_only | executable | several
}

fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 128 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_below_the_root_is_found() {
        assert_eq!(top_folder(b"/usr/share/doc/x", 4), Some(&b"/usr/share/"[..]));
        assert_eq!(top_folder(b"/usr/share/doc/x", 5), Some(&b"/usr/share/"[..]));
        assert_eq!(top_folder(b"/usr/x", 4), None);
        assert_eq!(top_folder(b"/etc/x", 1), Some(&b"/etc/"[..]));
        assert_eq!(top_folder(b"/usr", 4), None);
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let mut out = Vec::new();
        for number in [0, 127, 128, 300, u64::MAX] {
            push_number(number, &mut out);
        }
        let largest = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(out[..6], [0, 127, 128, 1, 172, 2]);
        assert_eq!(out[6..], largest);
    }
}
