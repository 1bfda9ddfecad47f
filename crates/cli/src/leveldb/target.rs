//! Writing a database: sorted tables at the lowest level, so that nothing is left to be merged, the
//! manifest, and `CURRENT` last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::build::{Builder, SEQUENCE};
use super::coding::parts_of;
use super::kept::{self, Kept};
use super::manifest::{LEVELS, Manifest, TableFile};
use super::{BYTEWISE, CURRENT};
use crate::exit::Failure;

/// A table is ended at this length.
const TABLE_BYTES: u64 = 8 << 20;
const MANIFEST: &str = "MANIFEST-000001";

/// A database that is being written.
pub(crate) struct Target {
    folder: PathBuf,
    manifest: Manifest,
    table: Option<Builder>,
    kept: Kept,
}

impl Target {
    /// Begins one in a folder, or goes on with one that was left there; `list` is a file that says
    /// which tables are complete.
    pub(crate) fn begin(folder: &Path, list: &Path) -> Result<Self, Failure> {
        let (kept, tables) = Kept::begin(list, folder)?;
        let manifest = Manifest {
            comparator: BYTEWISE.to_vec(),
            next_file: kept::FIRST,
            ..Manifest::default()
        };
        let mut target = Self { folder: folder.to_path_buf(), manifest, table: None, kept };
        tables.into_iter().for_each(|table| target.note(table));
        Ok(target)
    }

    /// The last key that is there.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        let (_, table) = self.manifest.tables.last_key_value()?;
        parts_of(&table.largest).map(|(key, ..)| key)
    }

    fn note(&mut self, table: TableFile) {
        self.manifest.next_file = table.number + 1;
        self.manifest.tables.insert((LEVELS - 1, table.number), table);
    }

    fn refused(&self, error: &io::Error) -> Failure {
        Failure::io("write to", self.folder.display(), error)
    }

    /// Adds an entry, whose key comes after all others.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let number = self.manifest.next_file;
                let path = kept::path_of(&self.folder, number);
                let table = Builder::new(&path, number).map_err(|e| self.refused(&e))?;
                self.table.insert(table)
            }
        };
        let is_full = table.add(key, value).map(|()| table.bytes() >= TABLE_BYTES);
        if is_full.map_err(|e| self.refused(&e))? { self.end_table() } else { Ok(()) }
    }

    fn end_table(&mut self) -> Result<(), Failure> {
        if let Some(table) = self.table.take() {
            let complete = table.finish().map_err(|e| self.refused(&e))?;
            self.kept.add(&complete)?;
            self.note(complete.table);
        }
        Ok(())
    }

    /// Makes it a database; everything is on stable storage then.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.end_table()?;
        self.manifest.log_number = self.manifest.next_file;
        self.manifest.next_file += 1;
        self.manifest.last_sequence = SEQUENCE;
        let manifest = self.manifest.write();
        let written = write(&self.folder.join(MANIFEST), &manifest)
            .and_then(|()| write(&self.folder.join(CURRENT), format!("{MANIFEST}\n").as_bytes()))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        written.map_err(|e| self.refused(&e))
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    File::open(path)?.sync_all()
}
