//! Reading a table: opening it, and searching it for a key.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::super::entry::Kind;
use super::super::files::Handle;
use super::super::filter::Filter;
use super::super::tombstones::{Pieces, Tombstone};
use super::super::varint::Reader;
use super::at_hand::AtHand;
use super::block::{Block, Heads, Place};
use super::finder::Finder;
use super::{BlockPlace, FOOTER_BYTES, Footer, TableMeta};
use crate::lsm::files::cache::BlockKey;
use crate::lsm::files::cached::{Cached, table_key};
use crate::lsm::files::piece::Piece;
use crate::lsm::read::fetch::Wanted;
use crate::os::Bytes;
use crate::{Error, Result};

/// An estimate looks into at most this many blocks between those at its ends.
const SAMPLES_MAX: u32 = 6;

const NO_INDEX: &str = "the index of a table makes no sense";

/// An entry that was found: its sequence number, kind and value.
pub(crate) type Found<'b> = (u64, Kind, &'b [u8]);

/// An open table.
#[derive(Clone)]
pub(crate) struct Table {
    pub(super) handle: Arc<Handle>,
    pub(super) finder: Arc<Finder>,
}

impl Finder {
    /// Reads what is needed to find anything in the table.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn read(handle: &Arc<Handle>, meta: &TableMeta) -> Result<Self> {
        let path = handle.path();
        let len = handle.len()?;
        if len != meta.bytes || len < FOOTER_BYTES as u64 {
            return Err(Error::corrupt_at(path, len, "a table is not as long as it was"));
        }
        let at = len - FOOTER_BYTES as u64;
        let tail = BlockPlace { offset: at, len: FOOTER_BYTES as u32 };
        handle.directory().reads.others.fetch_add(1, Relaxed);
        let footer = piece(handle, tail, len)?.read(|bytes| {
            let footer = bytes.first_chunk().ok_or("a footer of that length");
            let footer = footer.and_then(|bytes| Footer::decode(bytes, meta.number));
            footer.map_err(|reason| Error::corrupt_at(path, at, reason))
        })?;
        let index = read_block(handle, meta.number, footer.index, at)?;
        let lines = match index.count() {
            0 => Some(Heads::default()),
            _ => Heads::of(&index),
        };
        let no_index = || damaged(handle, footer.index.offset, NO_INDEX);
        let lines = lines.ok_or_else(no_index)?;
        let list = match footer.ranges.len {
            0 => Vec::new(),
            _ => {
                let block = read_block(handle, meta.number, footer.ranges, at)?;
                let what = "the range tombstones of a table make no sense";
                let damaged = || Error::corrupt_at(path, footer.ranges.offset, what);
                decode_ranges(&block).ok_or_else(damaged)?
            }
        };
        let (pieces, ranges) = (Pieces::new(&list), list.len() as u64);
        let filter = match footer.filter.len {
            0 => None,
            _ => Filter::new(read_block(handle, meta.number, footer.filter, at)?.content()),
        };
        let at_hand = AtHand::new(lines.len());
        let others = [footer.ranges, footer.filter, footer.index].into_iter();
        let others = others.filter(|block| block.len > 0).map(|block| block.offset);
        let data_end = others.fold(at, u64::min);
        let (number, newest) = (meta.number, meta.seqs.1);
        let end = at;
        Ok(Self { number, newest, end, data_end, index, lines, filter, pieces, ranges, at_hand })
    }

    /// How many data blocks it has.
    pub(super) fn blocks(&self) -> usize {
        self.lines.len()
    }

    /// How many blocks only have keys before `key`.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(super) fn blocks_before(&self, key: &[u8]) -> Result<usize, &'static str> {
        let Some((mut before, may_be)) = self.lines.around(&self.index, key) else { return Ok(0) };
        if before < may_be {
            let mut place = Place::default();
            place.nth(&self.index, before as u32)?;
            while before < may_be && place.entry(&self.index).is_some_and(|line| line.key < key) {
                before += 1;
                place.next(&self.index)?;
            }
        }
        Ok(before)
    }

    /// Where a data block stands, by its number; `None` after the last one.
    fn place(&self, number: usize) -> Result<Option<BlockPlace>, &'static str> {
        let Some(start) = self.lines.start(number) else { return Ok(None) };
        let value = self.index.value_at(start).ok_or(NO_INDEX)?;
        BlockPlace::decode(value).map(Some).ok_or(NO_INDEX)
    }

    /// By what the cache knows its data blocks.
    pub(crate) fn keys(&self) -> impl Iterator<Item = BlockKey> {
        let places = (0..self.blocks()).filter_map(|number| self.place(number).ok().flatten());
        places.map(|place| BlockKey { file: u64::from(self.number), offset: place.offset })
    }

    /// The number of the first block in which a key may be; that of no block if it would be after
    /// the last one.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn number_of(&self, handle: &Handle, key: &[u8]) -> Result<usize> {
        self.blocks_before(key).map_err(|reason| damaged(handle, 0, reason))
    }

    /// The error of a block by its number.
    pub(crate) fn damage(
        &self,
        handle: &Arc<Handle>,
        number: usize,
        reason: &'static str,
    ) -> Error {
        let place = self.place(number).ok().flatten();
        damaged(handle, place.map_or(0, |place| place.offset), reason)
    }

    /// The block with that number, if the cache has it and it was asked for before.
    #[inline]
    pub(crate) fn at_hand(&self, number: usize) -> Option<Arc<Block>> {
        self.at_hand.with(number, Arc::clone)
    }

    /// Has the processor fetch what a search in that block needs first, if the cache has it.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize) {
        self.at_hand.prefetch(number);
    }

    /// The block with that number, looked into where it is: that waits for memory less.
    #[inline]
    pub(crate) fn look_at_hand<R>(
        &self,
        number: usize,
        look: impl FnOnce(&Arc<Block>) -> R,
    ) -> Option<R> {
        self.at_hand.with(number, look)
    }

    /// The block after another one.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn behind<'h>(&self, site: &Site<'h>) -> Result<Option<Site<'h>>> {
        self.site(site.handle, site.number + 1)
    }

    /// A block by its number; `None` after the last one.
    pub(crate) fn site<'h>(
        &self,
        handle: &'h Arc<Handle>,
        number: usize,
    ) -> Result<Option<Site<'h>>> {
        let place = self.place(number).map_err(|reason| damaged(handle, 0, reason))?;
        place.map(|place| Site::new(handle, self, place, number)).transpose()
    }
}

impl Table {
    pub(crate) fn new(handle: Arc<Handle>, finder: Arc<Finder>) -> Self {
        Self { handle, finder }
    }

    /// How many data blocks it has.
    pub(crate) fn blocks(&self) -> u32 {
        self.finder.blocks() as u32
    }

    /// A data block, from the cache or the disk.
    pub(super) fn block(&self, place: BlockPlace, number: usize) -> Result<Arc<Block>> {
        let site = self.site(place, number)?;
        match Wanted::Block(site).get(&self.handle.directory().blocks)? {
            Cached::Block(block) => Ok(block),
            // Nothing else is known by the place of a block.
            Cached::Table(_) | Cached::Value(_) => {
                site.piece().read(|bytes| site.open(bytes.into())).map(Arc::new)
            }
        }
    }

    /// Where a data block stands.
    ///
    /// # Errors
    /// If that is outside of the table.
    pub(super) fn site(&self, place: BlockPlace, number: usize) -> Result<Site<'_>> {
        let site = Site::new(&self.handle, &self.finder, place, number)?;
        Ok(site.of(&self.finder))
    }

    /// Offers the cache all data blocks where they stand in the map of the file, which was written
    /// just now, and has them at hand.
    pub(crate) fn offer_blocks(&self) {
        let blocks = &self.handle.directory().blocks;
        let numbers = 0..self.finder.blocks();
        for site in numbers.map_while(|number| self.finder.site(&self.handle, number).ok()?) {
            let mut taken = None;
            blocks.offer(site.key(), size_of::<Block>() as u64, || {
                let block = Arc::new(Block::written(site.mapped()?)?);
                taken = Some(Arc::clone(&block));
                Some(Cached::Block(block))
            });
            if let Some(block) = taken {
                self.finder.at_hand.put(site.number, &block);
            }
        }
    }

    /// The range tombstones.
    pub(crate) fn pieces(&self) -> &Pieces {
        self.finder.pieces()
    }

    /// False if it surely has no entry of the key with that hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.finder.may_hold(hash)
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
        let first = self.finder.blocks_before(from).map_err(of_index)? as u32;
        let last = self.finder.blocks_before(to).map_err(of_index)? as u32;
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

    /// A key with about as many blocks before it as after it.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn middle(&self) -> Result<Option<Vec<u8>>> {
        let (mut place, index) = (Place::default(), &self.finder.index);
        let found = place.nth(index, self.blocks() / 2);
        found.map_err(|reason| self.damaged(0, reason))?;
        Ok(place.entry(index).map(|line| line.key.to_vec()))
    }

    /// A data block by its number, and where it stands; `None` after the last one.
    fn nth_block(&self, number: u32) -> Result<Option<(BlockPlace, Arc<Block>)>> {
        let Some(at) = self.place(number as usize)? else { return Ok(None) };
        self.block(at, number as usize).map(|block| Some((at, block)))
    }

    /// Where a data block stands, by its number; `None` after the last one.
    pub(super) fn place(&self, number: usize) -> Result<Option<BlockPlace>> {
        self.finder.place(number).map_err(|reason| self.damaged(0, reason))
    }

    pub(super) fn damaged(&self, offset: u64, reason: &'static str) -> Error {
        damaged(&self.handle, offset, reason)
    }
}

fn damaged(handle: &Handle, offset: u64, reason: &'static str) -> Error {
    Error::corrupt_at(handle.path(), offset, reason)
}

/// The place of a data block of a table, and its key in the cache.
#[derive(Clone, Copy)]
pub(crate) struct Site<'h> {
    handle: &'h Arc<Handle>,
    /// What found it, if that stays long enough.
    finder: Option<&'h Finder>,
    table: u32,
    place: BlockPlace,
    /// How many blocks of the table are before it.
    number: usize,
}

impl<'h> Site<'h> {
    fn new(
        handle: &'h Arc<Handle>,
        finder: &Finder,
        place: BlockPlace,
        number: usize,
    ) -> Result<Self> {
        piece(handle, place, finder.end)?;
        Ok(Self { handle, finder: None, table: finder.number, place, number })
    }

    /// The same with what found it.
    pub(crate) fn of(self, finder: &'h Finder) -> Self {
        Self { finder: Some(finder), ..self }
    }

    /// What found it, if that stays long enough.
    pub(crate) fn finder(&self) -> Option<&'h Finder> {
        self.finder
    }

    /// Has the block, which the cache gave, at hand for others.
    pub(crate) fn put_at_hand(&self, block: &Arc<Block>) {
        if let Some(finder) = self.finder {
            finder.at_hand.put(self.number, block);
        }
    }

    /// What the cache knows it by.
    pub(crate) fn key(&self) -> BlockKey {
        BlockKey { file: u64::from(self.table), offset: self.place.offset }
    }

    /// What the cache knows the finder of its table by.
    pub(crate) fn finder_key(&self) -> BlockKey {
        table_key(self.table)
    }

    /// Where in the file it ends.
    pub(crate) fn end(&self) -> u64 {
        self.place.end()
    }

    /// Whether it begins where another one ends.
    pub(crate) fn follows(&self, before: &Self) -> bool {
        self.place.offset == before.end()
    }

    pub(crate) fn piece(&self) -> Piece<'h> {
        let BlockPlace { offset, len } = self.place;
        Piece { handle: self.handle, offset, len: len as usize, grows: false }
    }

    /// The data block whose bytes were read: in the map of the file, if it has one, where other
    /// readers and the next ones find it.
    ///
    /// # Errors
    /// If they are not what was written.
    pub(crate) fn open(&self, read: Cow<'_, [u8]>) -> Result<Block> {
        self.open_own(self.mapped().unwrap_or_else(|| read.into_owned().into()))
    }

    /// Its bytes in the map of the file, if that has one.
    fn mapped(&self) -> Option<Bytes> {
        let BlockPlace { offset, len } = self.place;
        self.handle.mapped()?.bytes(offset, len as usize)
    }

    /// The data block of these bytes.
    ///
    /// # Errors
    /// If they are not what was written.
    pub(crate) fn open_own(&self, bytes: Bytes) -> Result<Block> {
        let opened = Block::open(bytes, self.table, self.place.offset);
        opened.map_err(|reason| damaged(self.handle, self.place.offset, reason))
    }
}

/// Looks into a block for the newest entry of a key that a reader at `at` sees. Range tombstones
/// are left aside.
///
/// # Errors
/// If the block is damaged.
#[inline]
pub(crate) fn look<'b>(block: &'b Block, key: &[u8], at: u64) -> Result<Look<'b>, &'static str> {
    Ok(match block.find(key, at)? {
        Some(spot) if spot.is_key => Look::Found((spot.seq, spot.kind, block.value(&spot))),
        Some(_) => Look::Absent,
        None => Look::Next,
    })
}

/// Where a block stands, which ends before `limit`.
///
/// # Errors
/// If it does not.
fn piece(handle: &Arc<Handle>, place: BlockPlace, limit: u64) -> Result<Piece<'_>> {
    let BlockPlace { offset, len } = place;
    if offset.checked_add(u64::from(len)).is_none_or(|end| end > limit) {
        return Err(Error::corrupt_at(handle.path(), offset, "a block lies outside of its table"));
    }
    Ok(Piece { handle, offset, len: len as usize, grows: false })
}

/// Reads and verifies a block that is not data.
fn read_block(handle: &Arc<Handle>, number: u32, place: BlockPlace, limit: u64) -> Result<Block> {
    handle.directory().reads.others.fetch_add(1, Relaxed);
    let damaged = |reason| Error::corrupt_at(handle.path(), place.offset, reason);
    let open = |bytes: &[u8]| Block::open(bytes.to_vec(), number, place.offset).map_err(damaged);
    piece(handle, place, limit)?.read(open)
}

fn decode_ranges(block: &Block) -> Option<Vec<Tombstone>> {
    let mut reader = Reader::new(block.content());
    let list: Option<Vec<_>> = (0..block.count()).map(|_| Tombstone::decode(&mut reader)).collect();
    list.filter(|_| reader.is_empty())
}

/// What looking into a block for a key comes to.
pub(crate) enum Look<'b> {
    /// The newest entry that the reader sees.
    Found(Found<'b>),
    /// The table has no such entry.
    Absent,
    /// The versions of the key may go on in the next block.
    Next,
}
