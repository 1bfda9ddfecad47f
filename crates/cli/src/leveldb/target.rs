//! Writing a database: sorted tables at the lowest level, so that nothing is left to be merged, the
//! manifest, and `CURRENT` last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::build::{Builder, SEQUENCE};
use super::manifest::{LEVELS, Manifest};
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
}

impl Target {
    /// Begins one in a folder that is empty.
    pub(crate) fn new(folder: &Path) -> Self {
        // The manifest has the first number.
        let manifest =
            Manifest { comparator: BYTEWISE.to_vec(), next_file: 2, ..Manifest::default() };
        Self { folder: folder.to_path_buf(), manifest, table: None }
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
                self.manifest.next_file += 1;
                let path = self.folder.join(format!("{number:06}.ldb"));
                let table = Builder::new(&path, number).map_err(|e| self.refused(&e))?;
                self.table.insert(table)
            }
        };
        let is_full = table.add(key, value).map(|()| table.bytes() >= TABLE_BYTES);
        if is_full.map_err(|e| self.refused(&e))? { self.end_table() } else { Ok(()) }
    }

    fn end_table(&mut self) -> Result<(), Failure> {
        if let Some(table) = self.table.take() {
            let table = table.finish().map_err(|e| self.refused(&e))?;
            self.manifest.tables.insert((LEVELS - 1, table.number), table);
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
