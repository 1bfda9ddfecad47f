//! Writing a table from entries in their order.

use std::sync::Arc;

use super::super::entry::{Entry, Kind};
use super::super::files::{Directory, Name};
use super::super::filter;
use super::super::numbers::NumberMap;
use super::super::tombstones::Tombstone;
use super::block::{Block, BlockBuilder, seal_raw};
use super::{BlockPlace, Bounds, Footer, Reference, TableMeta};
use crate::lsm::files::append::Appender;
use crate::lsm::files::cache::BlockKey;
use crate::lsm::files::cached::Cached;
use crate::{Error, Result};

/// A data block is closed when it has this many bytes.
const BLOCK_BYTES: usize = 8 << 10;
/// What surrounds a separated value in a segment of collected ones, at most: the headers of its
/// group and of the operation, and its line in the remap.
const FRAME_BYTES: u64 = 64;

/// A table that is being written.
pub(crate) struct TableBuilder {
    number: u32,
    salt: u64,
    out: Appender,
    block: BlockBuilder,
    index: BlockBuilder,
    /// The last data block, whose line in the index waits for the first key after it.
    closed: Option<BlockPlace>,
    references: NumberMap<u64>,
    /// The hashes of all keys, for the filter.
    hashes: Vec<u64>,
    meta: TableMeta,
}

impl TableBuilder {
    /// Begins the table with this number; of the disk, `leaves` bytes stay free.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn new(directory: &Arc<Directory>, number: u32, leaves: u64) -> Result<Self> {
        let out = Appender::create(directory, Name::Table(number), leaves)?;
        let bounds = Bounds { first: Vec::new(), last: Vec::new(), excludes_last: false };
        let meta = TableMeta {
            number,
            bytes: 0,
            entries: 0,
            tombstones: 0,
            ranges: 0,
            shadowed: 0,
            seqs: (u64::MAX, 0),
            bounds,
            references: Vec::new(),
        };
        Ok(Self {
            number,
            salt: directory.random(),
            out,
            block: BlockBuilder::default(),
            index: BlockBuilder::default(),
            closed: None,
            references: NumberMap::default(),
            hashes: Vec::new(),
            meta,
        })
    }

    /// The key of the last entry.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.block.last_key()
    }

    /// The length of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.out.len() + self.block.len() as u64
    }

    /// Adds an entry, which comes after all before it; `is_shadowed` says that it is kept for
    /// snapshots only.
    ///
    /// # Errors
    /// If the system refuses to write.
    pub(crate) fn add(&mut self, entry: Entry<'_>, is_shadowed: bool) -> Result<()> {
        if let Some(place) = self.closed.take() {
            let separator = separator(self.last_key(), entry.key);
            self.add_to_index(&separator, place);
        }
        if self.meta.entries == 0 {
            self.meta.bounds.first = entry.key.to_vec();
        }
        if self.meta.entries == 0 || self.last_key() != entry.key {
            self.hashes.push(filter::hash(entry.key));
        }
        self.block.add(entry);
        self.meta.entries += 1;
        self.meta.tombstones += u64::from(entry.kind == Kind::Tombstone);
        self.meta.shadowed += u64::from(is_shadowed);
        self.note_seq(entry.seq);
        if let Some(pointer) = entry.pointer() {
            let bytes = u64::from(pointer.len) + entry.key.len() as u64 + FRAME_BYTES;
            *self.references.entry(pointer.segment).or_default() += bytes;
        }
        if self.block.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn note_seq(&mut self, seq: u64) {
        let (low, high) = self.meta.seqs;
        self.meta.seqs = (low.min(seq), high.max(seq));
    }

    fn add_to_index(&mut self, separator: &[u8], place: BlockPlace) {
        let mut value = Vec::new();
        place.encode(&mut value);
        self.index.add(Entry { key: separator, seq: 0, kind: Kind::Inline, value: &value });
    }

    fn close_block(&mut self) -> Result<()> {
        if self.block.count() == 0 {
            return Ok(());
        }
        let offset = self.out.len();
        let block = self.block.finish(self.number, offset);
        self.closed = Some(self.put(&block)?);
        self.offer(&block, offset);
        self.block.reuse(block);
        Ok(())
    }

    /// Offers a data block to the cache: what was written just now is often read soon, and what was
    /// in the cache before a merge is to be there after it. Those that will stand in a map are
    /// offered when the file is whole.
    fn offer(&self, bytes: &[u8], offset: u64) {
        let Some(directory) = self.out.directory().filter(|directory| !directory.is_cached) else {
            return;
        };
        let key = BlockKey { file: u64::from(self.number), offset };
        directory.blocks.offer(key, bytes.len() as u64, || {
            Block::written(bytes.to_vec().into()).map(|block| Cached::Block(Arc::new(block)))
        });
    }

    fn put(&mut self, block: &[u8]) -> Result<BlockPlace> {
        let offset = self.out.len();
        let len = u32::try_from(block.len());
        let len = len.map_err(|_| Error::argument("a block of a table outgrew 4 GiB"))?;
        let beside = self.memory();
        self.out.push(&[block], beside)?;
        Ok(BlockPlace { offset, len })
    }

    /// Bytes of memory that it takes beside the piece that is written next: hashes, and the filter
    /// that is made of them; the index.
    fn memory(&self) -> usize {
        let filter = self.hashes.len() * filter::BITS_PER_KEY as usize / 8;
        self.hashes.capacity() * size_of::<u64>() + filter + 2 * self.index.len()
    }

    /// Ends the table with its range tombstones; it is then on stable storage, except its name.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn finish(mut self, tombstones: &[Tombstone]) -> Result<TableMeta> {
        self.close_block()?;
        let last_key = self.last_key().to_vec();
        if let Some(place) = self.closed.take() {
            self.add_to_index(&last_key, place);
        }
        self.meta.bounds.last = last_key;
        let ranges = self.put_ranges(tombstones)?;
        let filter = self.put_filter()?;
        let offset = self.out.len();
        let index = self.index.finish(self.number, offset);
        let index = self.put(&index)?;
        let (number, salt) = (self.number, self.salt);
        let footer = Footer { number, index, filter, ranges, salt };
        self.out.push(&[&footer.encode()], 0)?;
        self.meta.bytes = self.out.finish()?;
        let references = self.references.iter();
        self.meta.references =
            references.map(|(&segment, &bytes)| Reference { segment, bytes }).collect();
        self.meta.references.sort_unstable_by_key(|reference| reference.segment);
        Ok(self.meta)
    }

    fn put_filter(&mut self) -> Result<BlockPlace> {
        if self.hashes.is_empty() {
            return Ok(BlockPlace { offset: 0, len: 0 });
        }
        let bytes = filter::build(&self.hashes, filter::BITS_PER_KEY);
        let offset = self.out.len();
        self.put(&seal_raw(bytes, 0, self.number, offset))
    }

    fn put_ranges(&mut self, tombstones: &[Tombstone]) -> Result<BlockPlace> {
        let mut bytes = Vec::new();
        for tombstone in tombstones {
            tombstone.encode(&mut bytes);
            self.note_seq(tombstone.seq);
            let own = Bounds {
                first: tombstone.start.clone(),
                last: tombstone.end.clone(),
                excludes_last: true,
            };
            let is_first = self.meta.entries == 0 && self.meta.ranges == 0;
            self.meta.bounds = if is_first { own } else { self.meta.bounds.join(&own) };
            self.meta.ranges += 1;
        }
        if tombstones.is_empty() {
            return Ok(BlockPlace { offset: 0, len: 0 });
        }
        let offset = self.out.len();
        let block = seal_raw(bytes, tombstones.len() as u32, self.number, offset);
        self.put(&block)
    }
}

/// A short key that is not before `last` and before `next`, or `last` if that is the same key.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    let (Some(&here), Some(&there)) = (last.get(common), next.get(common)) else {
        return last.to_vec();
    };
    let mut short = last[..common].to_vec();
    if here < there && there - here > 1 {
        short.push(here + 1);
        return short;
    }
    for &byte in &last[common..] {
        let raise = short.len() > common && byte < 0xff;
        short.push(byte + u8::from(raise));
        if raise {
            break;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::separator;

    #[test]
    fn separators_separate() {
        let keys: [&[u8]; 9] =
            [b"", b"a", b"a\xff", b"a\xff\xff", b"ab", b"abc", b"b", b"bcd\xff", b"z"];
        for last in keys {
            for next in keys {
                if last < next {
                    let middle = separator(last, next);
                    assert!(last <= middle.as_slice() && middle.as_slice() < next);
                    assert!(middle.len() <= last.len().max(1));
                }
            }
            assert_eq!(separator(last, last), last);
        }
        assert_eq!(separator(b"apple", b"banana"), b"aq");
        assert_eq!(separator(b"apple", b"cat"), b"b");
    }
}
