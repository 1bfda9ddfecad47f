//! Reading a table: opening it, one key, and a cursor over all entries.

use std::sync::Arc;

use super::super::cache::BlockKey;
use super::super::entry::{Entry, Kind};
use super::super::files::{Handle, Unread};
use super::super::filter::{self, Filter};
use super::super::merge::Source;
use super::super::tombstones::{Pieces, Tombstone};
use super::super::varint::Reader;
use super::block::{Block, Place};
use super::{BlockPlace, FOOTER_BYTES, Footer, TableMeta};
use crate::{Error, Result};

/// An estimate looks into so many blocks between those at its ends.
const SAMPLES_MAX: u32 = 6;

/// An entry that was found.
pub(crate) type Found = (u64, Kind, Vec<u8>);

/// An open table.
pub(crate) struct Table {
    number: u32,
    /// Of the file without its footer: blocks end before.
    end: u64,
    handle: Arc<Handle>,
    index: Block,
    filter: Option<Block>,
    pieces: Pieces,
}

impl Table {
    /// Reads what is needed to find anything in the table.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn open(handle: Arc<Handle>, meta: &TableMeta) -> Result<Self> {
        let (file, path) = (handle.file()?, handle.path());
        let len = file.len().map_err(|e| Error::io("ask for the length of", path, e))?;
        if len != meta.bytes || len < FOOTER_BYTES as u64 {
            return Err(Error::damaged(path, len, "a table is not as long as it was"));
        }
        let mut bytes = [0; FOOTER_BYTES];
        let at = len - FOOTER_BYTES as u64;
        file.read_at(&mut bytes, at).map_err(|e| Error::io("read", path, e))?;
        let footer = Footer::decode(&bytes, meta.number);
        let footer = footer.map_err(|reason| Error::damaged(path, at, reason))?;
        let index = read_block(&handle, meta.number, footer.index, at)?;
        let pieces = match footer.ranges.len {
            0 => Pieces::default(),
            _ => {
                let block = read_block(&handle, meta.number, footer.ranges, at)?;
                let list = decode_ranges(&block);
                let what = "the range tombstones of a table make no sense";
                let damaged = || Error::damaged(path, footer.ranges.offset, what);
                Pieces::new(&list.ok_or_else(damaged)?)
            }
        };
        let filter = match footer.filter.len {
            0 => None,
            _ => Some(read_block(&handle, meta.number, footer.filter, at)?),
        };
        Ok(Self { number: meta.number, end: at, handle, index, filter, pieces })
    }

    /// The range tombstones.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Bytes of memory that it takes while it is open.
    pub(crate) fn memory(&self) -> usize {
        self.index.memory() + self.filter.as_ref().map_or(0, Block::memory)
    }

    /// The newest entry of `key` that a reader at `at` sees, range tombstones left aside.
    ///
    /// # Errors
    /// If the table cannot be read or is damaged.
    pub(crate) fn get(self: &Arc<Self>, key: &[u8], at: u64) -> Result<Option<Found>> {
        if !self.may_hold(key) {
            return Ok(None);
        }
        let mut cursor = TableCursor::new(Arc::clone(self), 0);
        cursor.seek(key, at)?;
        let found = cursor.entry().filter(|entry| entry.key == key);
        Ok(found.map(|entry| (entry.seq, entry.kind, entry.value.to_vec())))
    }

    /// False if it surely has no entry of the key.
    pub(crate) fn may_hold(&self, key: &[u8]) -> bool {
        let filter = self.filter.as_ref().and_then(|block| Filter::new(block.content()));
        filter.is_none_or(|filter| filter.may_contain(filter::hash(key)))
    }

    /// About how many entries it has from `from` on and before `to`: exactly in the blocks in which
    /// these two lie, and in those between them by some that are spread evenly.
    ///
    /// # Errors
    /// If the table cannot be read or is damaged.
    pub(crate) fn estimate(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let of_index = |reason| self.damaged(0, reason);
        let rank = |number: u32, key: &[u8]| -> Result<u64> {
            let Some((at, block)) = self.nth_block(number)? else { return Ok(0) };
            let rank = block.rank(key).map_err(|reason| self.damaged(at.offset, reason));
            rank.map(u64::from)
        };
        let count = |number: u32| -> Result<u64> {
            Ok(self.nth_block(number)?.map_or(0, |(_, block)| u64::from(block.count())))
        };
        let first = self.index.rank(from).map_err(of_index)?;
        let last = self.index.rank(to).map_err(of_index)?;
        let before = rank(first, from)?;
        if last <= first {
            return Ok(rank(last, to)?.saturating_sub(before));
        }
        let between = last - first - 1;
        let samples = between.min(SAMPLES_MAX);
        let mut sampled = 0;
        for sample in 0..samples {
            let share = u64::from(between) * (2 * u64::from(sample) + 1) / (2 * u64::from(samples));
            sampled += count(first + 1 + share as u32)?;
        }
        let inside = sampled * u64::from(between) / u64::from(samples.max(1));
        Ok(count(first)?.saturating_sub(before) + inside + rank(last, to)?)
    }

    /// A data block by its number, and where it stands; `None` behind the last one.
    fn nth_block(&self, number: u32) -> Result<Option<(BlockPlace, Arc<Block>)>> {
        let mut place = Place::default();
        let found = place.nth(&self.index, number);
        found.map_err(|reason| self.damaged(0, reason))?;
        let Some(line) = place.entry(&self.index) else { return Ok(None) };
        let what = "the index of a table makes no sense";
        let at = BlockPlace::decode(line.value).ok_or_else(|| self.damaged(0, what))?;
        Ok(Some((at, self.block(at)?)))
    }

    /// A data block, from the cache if it is there.
    fn block(&self, place: BlockPlace) -> Result<Arc<Block>> {
        let read = || read_block(&self.handle, self.number, place, self.end);
        let key = BlockKey { file: u64::from(self.number), offset: place.offset };
        // Whoever gets no block from another thread reads it, to learn the error itself.
        match self.handle.blocks().get_or_load(key, || read().map_err(|_| Unread)) {
            Ok(block) => Ok(block),
            Err(Unread) => read().map(Arc::new),
        }
    }

    fn damaged(&self, offset: u64, reason: &'static str) -> Error {
        Error::damaged(self.handle.path(), offset, reason)
    }
}

/// Reads and verifies a block, which ends before `limit`.
fn read_block(handle: &Handle, number: u32, place: BlockPlace, limit: u64) -> Result<Block> {
    let damaged = |reason| Error::damaged(handle.path(), place.offset, reason);
    if place.offset.checked_add(u64::from(place.len)).is_none_or(|end| end > limit) {
        return Err(damaged("a block lies outside of its table"));
    }
    let mut bytes = vec![0; place.len as usize];
    let read = handle.file()?.read_at(&mut bytes, place.offset);
    read.map_err(|e| Error::io("read", handle.path(), e))?;
    Block::open(bytes, number, place.offset).map_err(damaged)
}

fn decode_ranges(block: &Block) -> Option<Vec<Tombstone>> {
    let mut reader = Reader::new(block.content());
    let list: Option<Vec<_>> = (0..block.count()).map(|_| Tombstone::decode(&mut reader)).collect();
    list.filter(|_| reader.is_empty())
}

/// A place among the entries of a table.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    index: Place,
    block: Option<(BlockPlace, Arc<Block>)>,
    place: Place,
    /// Bytes of the file that were read ahead, and where they stand.
    ahead: Vec<u8>,
    ahead_offset: u64,
    /// So much is read at once; 0: a block at a time.
    ahead_bytes: usize,
}

impl TableCursor {
    pub(crate) fn new(table: Arc<Table>, ahead_bytes: usize) -> Self {
        Self {
            table,
            index: Place::default(),
            block: None,
            place: Place::default(),
            ahead: Vec::new(),
            ahead_offset: 0,
            ahead_bytes,
        }
    }

    /// Loads the block that the index is at; `None` at the end of the index.
    fn load(&mut self) -> Result<bool> {
        let table = Arc::clone(&self.table);
        let Some(line) = self.index.entry(&table.index) else {
            self.block = None;
            return Ok(false);
        };
        let place = BlockPlace::decode(line.value);
        let place = place.ok_or_else(|| table.damaged(0, "the index of a table makes no sense"))?;
        if self.block.as_ref().is_some_and(|(loaded, _)| *loaded == place) {
            return Ok(true);
        }
        let block = match self.ahead_bytes {
            0 => table.block(place)?,
            _ => Arc::new(self.read_ahead(place)?),
        };
        self.block = Some((place, block));
        Ok(true)
    }

    fn read_ahead(&mut self, place: BlockPlace) -> Result<Block> {
        let (table, len) = (&self.table, place.len as usize);
        let inside = |offset: u64, ahead: &[u8]| {
            let from = usize::try_from(place.offset.checked_sub(offset)?).ok()?;
            ahead.get(from..from.checked_add(len)?).map(<[u8]>::to_vec)
        };
        let bytes = match inside(self.ahead_offset, &self.ahead) {
            Some(bytes) => bytes,
            None => {
                let (file, path) = (table.handle.file()?, table.handle.path());
                let most = table.end.saturating_sub(place.offset);
                self.ahead.resize(most.min(self.ahead_bytes.max(len) as u64) as usize, 0);
                let read = file.read_at(&mut self.ahead, place.offset);
                read.map_err(|e| Error::io("read", path, e))?;
                self.ahead_offset = place.offset;
                let outside = "a block lies outside of its table";
                inside(place.offset, &self.ahead)
                    .ok_or_else(|| table.damaged(place.offset, outside))?
            }
        };
        Block::open(bytes, table.number, place.offset)
            .map_err(|reason| table.damaged(place.offset, reason))
    }

    /// Moves inside the block.
    fn step(&mut self, f: impl Fn(&mut Place, &Block) -> Result<(), &'static str>) -> Result<()> {
        let Some((at, block)) = &self.block else { return Ok(()) };
        f(&mut self.place, block).map_err(|reason| self.table.damaged(at.offset, reason))
    }

    fn step_index(
        &mut self,
        f: impl Fn(&mut Place, &Block) -> Result<(), &'static str>,
    ) -> Result<()> {
        f(&mut self.index, &self.table.index).map_err(|reason| self.table.damaged(0, reason))
    }

    /// While the place is behind its block: to the first entry of the next one.
    fn skip_forward(&mut self) -> Result<()> {
        while self.block.is_some() && self.entry().is_none() {
            self.step_index(Place::next)?;
            if self.load()? {
                self.step(Place::first)?;
            }
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while self.block.is_some() && self.entry().is_none() {
            self.step_index(Place::prev)?;
            if self.load()? {
                self.step(Place::last)?;
            }
        }
        Ok(())
    }

    /// Where the block of this place begins.
    pub(crate) fn block_offset(&self) -> u64 {
        self.block.as_ref().map_or(0, |(place, _)| place.offset)
    }
}

impl Source for TableCursor {
    fn seek(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.step_index(|index, block| index.seek(block, key, u64::MAX))?;
        // The versions of a key may go on in the next block.
        while self.load()? {
            self.step(|place, block| place.seek(block, key, seq))?;
            if self.entry().is_some() {
                break;
            }
            self.step_index(Place::next)?;
        }
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.step_index(Place::first)?;
        if self.load()? {
            self.step(Place::first)?;
        }
        self.skip_forward()
    }

    fn last(&mut self) -> Result<()> {
        self.step_index(Place::last)?;
        if self.load()? {
            self.step(Place::last)?;
        }
        self.skip_back()
    }

    fn next(&mut self) -> Result<()> {
        self.step(Place::next)?;
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Place::prev)?;
        self.skip_back()
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (_, block) = self.block.as_ref()?;
        self.place.entry(block)
    }
}
