//! The manifest: edits, each a list of tagged fields, which together say which tables there are.

use std::collections::BTreeMap;
use std::path::Path;

use super::coding::{Reader, put_string, put_varint};
use super::{Damage, log};

/// How many levels there are.
pub(super) const LEVELS: usize = 7;

const COMPARATOR: u64 = 1;
const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const COMPACT_POINTER: u64 = 5;
const DELETED_FILE: u64 = 6;
const NEW_FILE: u64 = 7;
const PREVIOUS_LOG: u64 = 9;

/// A table, as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableFile {
    pub(super) number: u64,
    pub(super) bytes: u64,
    /// The first and the last key, with their numbers.
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// What all edits of a manifest amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) comparator: Vec<u8>,
    /// Logs from this number on are in no table, and the one before that number below.
    pub(super) log_number: u64,
    pub(super) previous_log: u64,
    pub(super) next_file: u64,
    pub(super) last_sequence: u64,
    /// By level and number.
    pub(super) tables: BTreeMap<(usize, u64), TableFile>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// Damage: what it says must be known as a whole.
    pub(super) fn read(path: &Path, file: &[u8]) -> Result<Self, Damage> {
        let records = log::read(path, file);
        if let Some(damage) = records.damage.into_iter().next() {
            return Err(damage);
        }
        let mut manifest = Self::default();
        for (at, record) in &records.whole {
            let nonsense = || Damage::new(path, *at, "an edit that makes no sense");
            manifest.apply(Reader(record)).ok_or_else(nonsense)?;
        }
        match records.whole.is_empty() {
            true => Err(Damage::new(path, 0, "a manifest without an edit")),
            false => Ok(manifest),
        }
    }

    fn apply(&mut self, mut edit: Reader<'_>) -> Option<()> {
        let mut gone = Vec::new();
        let mut new = Vec::new();
        while !edit.0.is_empty() {
            match edit.varint()? {
                COMPARATOR => self.comparator = edit.string()?.to_vec(),
                LOG_NUMBER => self.log_number = edit.varint()?,
                PREVIOUS_LOG => self.previous_log = edit.varint()?,
                NEXT_FILE => self.next_file = edit.varint()?,
                LAST_SEQUENCE => self.last_sequence = edit.varint()?,
                COMPACT_POINTER => {
                    edit.size()?;
                    edit.string()?;
                }
                DELETED_FILE => gone.push((edit.size()?, edit.varint()?)),
                NEW_FILE => {
                    let level = edit.size().filter(|&level| level < LEVELS)?;
                    let (number, bytes) = (edit.varint()?, edit.varint()?);
                    let (smallest, largest) = (edit.string()?.to_vec(), edit.string()?.to_vec());
                    new.push((level, TableFile { number, bytes, smallest, largest }));
                }
                _ => return None,
            }
        }
        // A table that moves to another level is both.
        gone.iter().for_each(|place| drop(self.tables.remove(place)));
        let places = new.into_iter().map(|(level, table)| ((level, table.number), table));
        self.tables.extend(places);
        Some(())
    }

    /// A manifest of one edit.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut edit = Vec::new();
        put_varint(&mut edit, COMPARATOR);
        put_string(&mut edit, &self.comparator);
        let numbers = [
            (LOG_NUMBER, self.log_number),
            (PREVIOUS_LOG, self.previous_log),
            (NEXT_FILE, self.next_file),
            (LAST_SEQUENCE, self.last_sequence),
        ];
        for (tag, number) in numbers {
            put_varint(&mut edit, tag);
            put_varint(&mut edit, number);
        }
        for ((level, number), table) in &self.tables {
            let fields = [NEW_FILE, *level as u64, *number, table.bytes];
            fields.iter().for_each(|&field| put_varint(&mut edit, field));
            put_string(&mut edit, &table.smallest);
            put_string(&mut edit, &table.largest);
        }
        log::write(&[edit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let table = |number| TableFile {
            number,
            bytes: 1 << 40,
            smallest: vec![1; 300],
            largest: vec![2; 8],
        };
        let tables = [(0, 9), (6, 3), (6, 300)].map(|(level, n)| ((level, n), table(n)));
        let manifest = Manifest {
            comparator: b"c".to_vec(),
            log_number: 7,
            previous_log: 0,
            next_file: 400,
            last_sequence: u64::MAX >> 8,
            tables: tables.into_iter().collect(),
        };
        let path = Path::new("MANIFEST-000001");
        assert_eq!(Manifest::read(path, &manifest.write()).unwrap(), manifest);
        assert!(Manifest::read(path, &[]).is_err());
        assert!(Manifest::read(path, &log::write(&[vec![8]])).is_err());
        assert!(Manifest::read(path, &log::write(&[vec![7, 7, 1, 1, 0, 0]])).is_err());
    }
}
