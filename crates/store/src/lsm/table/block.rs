//! A block as bytes: entries that omit the bytes that their key shares with the key before, whole
//! keys at restarts, a tail with checksum and count. This module knows no file.
//!
//! ```text
//! entry:  shared, rest length, value length, sequence * 4 + kind (numbers), rest of key, value
//! tail:   restarts (u32 each), their number u32, entries u32, codec u8, checksum u32
//! ```

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use super::super::entry::{Entry, Kind, common, compare};
use super::super::varint::{self, Reader};
use crate::checksum::crc32c;
use crate::coding::u32_at;
use crate::os::Bytes;
use crate::prefetch::prefetch_range;

mod heads;
mod passed;
mod place;
mod rows;
mod stay;
pub(crate) use heads::Heads;
use heads::Marks;
pub(crate) use place::Place;
pub(crate) use rows::{Rows, Run};
pub(super) use stay::Home;
use stay::Stay;

/// One in this many entries has a whole key.
pub(super) const RESTART_EVERY: u32 = 16;
/// Number of restarts, number of entries, codec, checksum.
pub(super) const TAIL_BYTES: usize = 4 + 4 + 1 + 4;
/// The entries are stored as they are.
const CODEC_PLAIN: u8 = 0;

/// To find the beginnings of the keys of a block takes as long as some searches without them: it is
/// done for blocks that were searched this many times, and for those of a table that is new.
const SEARCHES_UNMARKED: u8 = 3;

/// What the checksum of a block starts from: a block in another place does not pass.
fn seed(table: u32, offset: u64) -> u64 {
    u64::from(table).rotate_left(40) ^ offset
}

/// Appends the tail of a block that begins at the front of `bytes`.
fn seal(bytes: &mut Vec<u8>, restarts: &[u32], count: u32, table: u32, offset: u64) {
    restarts.iter().for_each(|restart| bytes.extend_from_slice(&restart.to_le_bytes()));
    bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.push(CODEC_PLAIN);
    let sum = crc32c(seed(table, offset), bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// Makes a block of raw bytes, without entries.
pub(crate) fn seal_raw(mut bytes: Vec<u8>, count: u32, table: u32, offset: u64) -> Vec<u8> {
    seal(&mut bytes, &[], count, table, offset);
    bytes
}

/// Builds a block from entries in their order.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    count: u32,
    last: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn add(&mut self, entry: Entry<'_>) {
        let shared = match self.count % RESTART_EVERY {
            0 => {
                self.restarts.push(self.bytes.len() as u32);
                0
            }
            _ => common(&self.last, entry.key),
        };
        let rest = &entry.key[shared..];
        for len in [shared, rest.len(), entry.value.len()] {
            varint::push(&mut self.bytes, len as u64);
        }
        varint::push(&mut self.bytes, entry.seq << 2 | entry.kind as u64);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(entry.value);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        self.count += 1;
    }

    /// The bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + TAIL_BYTES
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The key of the last entry, also of the block before.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// The block for this place of a table; the builder begins anew.
    pub(crate) fn finish(&mut self, table: u32, offset: u64) -> Vec<u8> {
        let mut block = std::mem::take(&mut self.bytes);
        seal(&mut block, &self.restarts, self.count, table, offset);
        self.restarts.clear();
        self.count = 0;
        block
    }

    /// Begins in the memory of a block that is not needed any more.
    pub(crate) fn reuse(&mut self, mut block: Vec<u8>) {
        block.clear();
        self.bytes = block;
    }
}

/// A block whose checksum was right. What its entries say is still not trusted.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    /// Where the restarts begin: the entries end there.
    end: usize,
    restarts: usize,
    count: u32,
    /// The beginnings of its keys, for a block that is looked into again. They stand in here, so
    /// that a search waits for memory once less.
    marks: OnceLock<Marks>,
    /// How many times it was searched without them.
    searches: AtomicU8,
    /// Whether the cache has it, and where else it is found then.
    stay: Stay,
}

/// What an entry begins with, and where the rest of its key and its value stand.
struct Header {
    shared: usize,
    rest: Range<usize>,
    value: Range<usize>,
    tag: u64,
}

/// An entry, without its key.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) seq: u64,
    pub(crate) kind: Kind,
    /// Whether its key is the one that was sought.
    pub(crate) is_key: bool,
    /// Where it begins.
    start: usize,
    /// Its key begins with this many bytes of the one that was sought; `rest` is the other part.
    shared: usize,
    rest: Range<usize>,
    value: Range<usize>,
}

impl Block {
    /// The block of these bytes; else what is wrong with them.
    pub(crate) fn open(
        bytes: impl Into<Bytes>,
        table: u32,
        offset: u64,
    ) -> Result<Self, &'static str> {
        let bytes = bytes.into();
        let tail = bytes.len().checked_sub(TAIL_BYTES).ok_or("a block is too short")?;
        if crc32c(seed(table, offset), &bytes[..tail + 9]) != u32_at(&bytes, tail + 9) {
            return Err("the checksum of a block is wrong");
        }
        Self::parse(bytes)
    }

    /// The same, whatever its checksum.
    fn parse(bytes: Bytes) -> Result<Self, &'static str> {
        let tail = bytes.len().checked_sub(TAIL_BYTES).ok_or("a block is too short")?;
        if bytes[tail + 8] != CODEC_PLAIN {
            return Err("a block has an unknown codec");
        }
        let restarts = u32_at(&bytes, tail) as usize;
        let end = restarts.checked_mul(4).and_then(|len| tail.checked_sub(len));
        let end = end.ok_or("a block has more restarts than bytes")?;
        let count = u32_at(&bytes, tail + 4);
        let (marks, searches) = (OnceLock::new(), AtomicU8::new(0));
        Ok(Self { bytes, end, restarts, count, marks, searches, stay: Stay::default() })
    }

    /// The block of bytes that a builder made just now, with the beginnings of its keys: what was
    /// written is often read soon.
    pub(crate) fn written(bytes: Bytes) -> Option<Self> {
        let mut block = Self::parse(bytes).ok()?;
        block.marks = Marks::of(&block).unwrap_or_default().into();
        block.searches = SEARCHES_UNMARKED.into();
        Some(block)
    }

    /// Whether the cache has it, and where else it is found then.
    #[inline]
    pub(crate) fn stay(&self) -> &Stay {
        &self.stay
    }

    /// Bytes of it.
    pub(crate) fn at(&self, place: &Range<usize>) -> &[u8] {
        &self.bytes[place.clone()]
    }

    /// Where some bytes of this block stand.
    pub(crate) fn place_of(&self, part: &[u8]) -> Range<usize> {
        let from = part.as_ptr().addr() - self.bytes.as_ptr().addr();
        from..from + part.len()
    }

    /// How many entries it has, as it says.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many it can have: what it says is not trusted, and each takes four bytes at least.
    fn entries_max(&self) -> usize {
        (self.count as usize).min(self.end / 4)
    }

    /// Has the processor fetch what a search needs first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_range(std::ptr::from_ref(self).cast(), 0..size_of::<Self>());
    }

    /// Has the processor fetch what a search for a key looks at last, if the block was searched
    /// before.
    #[inline]
    pub(crate) fn prefetch_entry(&self, key: &[u8]) {
        if let Some(marks) = self.marks.get() {
            marks.prefetch(self, key);
        }
    }

    /// Where its bytes begin in memory: for prefetching.
    pub(crate) fn address(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// All bytes before the tail.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// Bytes of memory that it takes: those in the map of a file are the system's.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory() + size_of::<Self>()
    }

    /// The beginnings of its keys, once it was searched several times: a store that is larger than
    /// its memory reads most blocks for one search or two.
    #[inline]
    fn marks(&self) -> Option<&Marks> {
        let searches = self.searches.load(Relaxed);
        if searches < SEARCHES_UNMARKED {
            // Two threads may count as one.
            self.searches.store(searches + 1, Relaxed);
            return None;
        }
        let marks = self.marks.get_or_init(|| Marks::of(self).unwrap_or_default());
        (!marks.is_empty()).then_some(marks)
    }

    /// The first entry that is not before (`key`, `seq`); `None` if all are.
    ///
    /// # Errors
    /// If the entries make no sense.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seq: u64) -> Result<Option<Spot>, &'static str> {
        let find = || {
            let from = match self.marks() {
                Some(marks) => marks.begin(self, key)?,
                None => {
                    let restart = self.restart_to(key, seq).ok()?;
                    From::entry(restart.map_or(0, |restart| self.restart(restart)))
                }
            };
            self.find_from(from, key, seq)
        };
        find().ok_or(MALFORMED)
    }

    /// The last restart whose entry is before (`key`, `seq`).
    #[inline]
    fn restart_to(&self, key: &[u8], seq: u64) -> Result<Option<usize>, &'static str> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.at_restart(middle)? {
                Some(here) => compare(here, (key, seq)).is_lt(),
                None => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        Ok(low.checked_sub(1))
    }

    /// The same from an entry on, with no key put together: of an entry that shares more with the
    /// one before than that one shares with `key`, the order to `key` is the same. The entry before
    /// the first one is before `key`. `None` if the entries make no sense.
    #[inline]
    fn find_from(&self, from: From, key: &[u8], seq: u64) -> Option<Option<Spot>> {
        let From { mut at, mut len, mut known } = from;
        while at < self.end {
            let Header { shared, rest, value, tag } = self.header(at)?;
            if shared > len {
                return None;
            }
            let (place, rest, next) = (rest.clone(), &self.bytes[rest], value.end);
            len = shared + rest.len();
            if shared <= known {
                let left = &key[shared..];
                let same = common(rest, left);
                known = shared + same;
                let order = rest.get(same).cmp(&left.get(same));
                if order.then_with(|| seq.cmp(&(tag >> 2))).is_ge() {
                    let kind = Kind::from_byte((tag & 3) as u8)?;
                    return Some(Some(Spot {
                        seq: tag >> 2,
                        kind,
                        is_key: order == Ordering::Equal,
                        start: at,
                        shared,
                        rest: place,
                        value,
                    }));
                }
            }
            at = next;
        }
        Some(None)
    }

    /// The value of the entry that begins there; `None` if it makes no sense.
    pub(crate) fn value_at(&self, start: usize) -> Option<&[u8]> {
        self.header(start).map(|header| &self.bytes[header.value])
    }

    /// What an entry begins with, and where its parts stand: before the end of the entries. `None`
    /// if that makes no sense.
    #[inline(always)]
    fn header(&self, at: usize) -> Option<Header> {
        let ([shared, rest, value], tag, len) = match self.bytes.get(at..)?.first_chunk() {
            // Eight bytes nearly always hold all numbers, and the lengths have one each.
            Some(bytes) if u64::from_le_bytes(*bytes) & 0x0080_8080 == 0 => {
                let word = u64::from_le_bytes(*bytes);
                let lens = [word, word >> 8, word >> 16].map(|byte| (byte & 0x7f) as usize);
                // What is not there does not end a number.
                match varint::short(word >> 24 | 0xffff_ff00_0000_0000) {
                    Some((tag, len)) => (lens, tag, 3 + len),
                    None => self.long_header(at)?,
                }
            }
            _ => self.long_header(at)?,
        };
        let from = at + len;
        let middle = from.checked_add(rest)?;
        let end = middle.checked_add(value).filter(|end| *end <= self.end)?;
        Some(Header { shared, rest: from..middle, value: middle..end, tag })
    }

    /// The three lengths, sequence number and kind of any entry, and how many bytes they take.
    #[cold]
    fn long_header(&self, at: usize) -> Option<([usize; 3], u64, usize)> {
        let mut reader = Reader::new(self.bytes.get(at..self.end)?);
        let lens = [reader.size()?, reader.size()?, reader.size()?];
        Some((lens, reader.number()?, reader.position()))
    }

    /// The value of an entry of this block.
    pub(crate) fn value(&self, spot: &Spot) -> &[u8] {
        &self.bytes[spot.value.clone()]
    }

    /// Key and sequence number of the entry at a restart, which has its key whole; `None` after the
    /// last entry.
    #[inline]
    fn at_restart(&self, index: usize) -> Result<Option<(&[u8], u64)>, &'static str> {
        let bytes = self.bytes[..self.end].get(self.restart(index)..).filter(|b| !b.is_empty());
        let Some(bytes) = bytes else { return Ok(None) };
        let mut reader = Reader::new(bytes);
        let mut read = || -> Option<(&[u8], u64)> {
            let (shared, rest) = (reader.size()?, reader.size()?);
            reader.size()?;
            let tag = reader.number()?;
            Kind::from_byte((tag & 3) as u8)?;
            let key = reader.take(rest)?;
            (shared == 0).then_some((key, tag >> 2))
        };
        read().map(Some).ok_or(MALFORMED)
    }

    #[inline]
    fn restart(&self, index: usize) -> usize {
        u32_at(&self.bytes, self.end + 4 * index) as usize
    }
}

/// Where a search among entries begins.
#[derive(Clone, Copy, Debug)]
struct From {
    /// Where the first of them begins.
    at: usize,
    /// The length of the key before it, at least,
    len: usize,
    /// and how many of its bytes are the beginning of the key that is sought, as far as it goes.
    known: usize,
}

impl From {
    /// From an entry with a whole key on.
    fn entry(at: usize) -> Self {
        Self { at, len: 0, known: 0 }
    }
}

/// What is said of a block with a right checksum whose entries make no sense.
const MALFORMED: &str = "the entries of a block make no sense";

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
