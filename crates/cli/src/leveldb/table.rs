//! Reading a sorted table: its footer, its index, and its blocks one after the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::Damage;
use super::block::Entries;
use super::coding::{Reader, has_sum};
use super::compression::decompress;

/// What a table ends with: the places of two blocks, padded, and a number.
pub(super) const FOOTER_BYTES: usize = 48;
pub(super) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// After a block: its compression and its checksum.
pub(super) const TRAILER_BYTES: usize = 5;

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Place {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { offset: reader.varint()?, bytes: reader.varint()? })
    }
}

/// Why something of a table cannot be had.
#[derive(Debug)]
pub(super) enum Problem {
    Damage(Damage),
    Io(PathBuf, io::Error),
}

/// An open table.
pub(super) struct Table {
    path: PathBuf,
    file: File,
    len: u64,
    /// Where its blocks are, in order, each with a key that none of its keys come after.
    pub(super) blocks: Vec<(Vec<u8>, Place)>,
}

impl Table {
    /// Opens a table and reads its index.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let io = |error| Problem::Io(path.to_path_buf(), error);
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        let mut table = Self { path: path.to_path_buf(), file, len, blocks: Vec::new() };
        let at = len.saturating_sub(FOOTER_BYTES as u64);
        let footer = table.bytes(at, FOOTER_BYTES)?;
        let mut reader = Reader(&footer);
        let index = Place::read(&mut reader).and_then(|_| Place::read(&mut reader));
        let is_table = footer.ends_with(&MAGIC.to_le_bytes());
        let index = index.filter(|_| is_table);
        let index = index.ok_or_else(|| table.damage(at, "a table without a footer"))?;
        let mut entries = table.entries(index)?;
        while let Some(entry) = entries.next() {
            let (key, place) = entry.map_err(|what| table.damage(index.offset, what))?;
            let place = Place::read(&mut Reader(place));
            let place = place.ok_or_else(|| table.damage(index.offset, "a place of no block"))?;
            table.blocks.push((key.to_vec(), place));
        }
        Ok(table)
    }

    /// Damage at some byte of it.
    pub(super) fn damage_at(&self, offset: u64, what: &'static str) -> Damage {
        Damage::new(&self.path, offset, what)
    }

    fn damage(&self, offset: u64, what: &'static str) -> Problem {
        Problem::Damage(self.damage_at(offset, what))
    }

    fn bytes(&self, offset: u64, len: usize) -> Result<Vec<u8>, Problem> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(self.damage(offset, "the file ends before it"));
        }
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| Problem::Io(self.path.clone(), error))?;
        Ok(bytes)
    }

    /// The entries of a block.
    pub(super) fn entries(&self, place: Place) -> Result<Entries, Problem> {
        let nonsense = || self.damage(place.offset, "a block that makes no sense");
        let len = usize::try_from(place.bytes).map_err(|_| nonsense())?;
        let len = len.checked_add(TRAILER_BYTES).ok_or_else(nonsense)?;
        let mut stored = self.bytes(place.offset, len)?;
        let mut trailer = Reader(&stored[len - TRAILER_BYTES..]);
        let (Some(kind), Some(sum)) = (trailer.byte(), trailer.u32()) else {
            return Err(nonsense());
        };
        stored.truncate(len - TRAILER_BYTES);
        if !has_sum([&stored, &[kind]], sum) {
            return Err(self.damage(place.offset, "a block has another checksum than it should"));
        }
        let block = decompress(stored, kind).map_err(|what| self.damage(place.offset, what))?;
        Entries::new(block).ok_or_else(nonsense)
    }
}
