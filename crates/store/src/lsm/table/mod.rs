//! Tables: sorted files that never change. `block` is one block as bytes, `build` writes a table,
//! `read` reads one, `cursor` goes through it, `ahead` reads ahead of that, `at_hand` has the
//! blocks that the cache has, `meta` is what the manifest says of a table, `lasts` are the last
//! keys of the tables of a level.
//!
//! ```text
//! data block | ... | range tombstones | filter | index block | footer
//! ```

mod ahead;
mod at_hand;
mod block;
mod build;
mod cursor;
mod finder;
mod lasts;
mod meta;
mod read;
mod survey;

#[cfg(test)]
pub(crate) use block::seal_raw;
pub(crate) use block::{Block, Place, Run};
pub(crate) use build::TableBuilder;
pub(crate) use cursor::{Pace, TableCursor};
pub(crate) use finder::Finder;
pub(crate) use lasts::Lasts;
pub(crate) use meta::{Bounds, Reference, TableMeta};
pub(crate) use read::{Look, Site, Table, look};
pub(crate) use survey::survey;

use super::varint::{self, Reader};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};

/// The footer, at the end of the file.
pub(crate) const MAGIC_OFFSET: usize = 0;
pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const NUMBER_OFFSET: usize = 12;
pub(crate) const INDEX_OFFSET: usize = 16;
pub(crate) const INDEX_LEN_OFFSET: usize = 24;
pub(crate) const FILTER_LEN_OFFSET: usize = 28;
pub(crate) const FILTER_OFFSET: usize = 32;
pub(crate) const RANGES_OFFSET: usize = 40;
pub(crate) const RANGES_LEN_OFFSET: usize = 48;
pub(crate) const SALT_OFFSET: usize = 52;
pub(crate) const FOOTER_SUM_OFFSET: usize = 60;
pub(crate) const FOOTER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"HEDGETBL";
const VERSION: u32 = 1;

/// Where a block stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    /// 0: there is no such block.
    pub(crate) len: u32,
}

impl BlockPlace {
    /// The first byte after it.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    fn encode(self, bytes: &mut Vec<u8>) {
        varint::push(bytes, self.offset);
        varint::push(bytes, u64::from(self.len));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let place = Self { offset: reader.number()?, len: reader.number_u32()? };
        reader.is_empty().then_some(place)
    }
}

/// The places of the blocks that are not data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) number: u32,
    pub(crate) index: BlockPlace,
    pub(crate) filter: BlockPlace,
    pub(crate) ranges: BlockPlace,
    /// Random: tells tables of the same number apart.
    pub(crate) salt: u64,
}

impl Footer {
    fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, VERSION_OFFSET, VERSION);
        put_u32(&mut bytes, NUMBER_OFFSET, self.number);
        put_u64(&mut bytes, INDEX_OFFSET, self.index.offset);
        put_u32(&mut bytes, INDEX_LEN_OFFSET, self.index.len);
        put_u32(&mut bytes, FILTER_LEN_OFFSET, self.filter.len);
        put_u64(&mut bytes, FILTER_OFFSET, self.filter.offset);
        put_u64(&mut bytes, RANGES_OFFSET, self.ranges.offset);
        put_u32(&mut bytes, RANGES_LEN_OFFSET, self.ranges.len);
        put_u64(&mut bytes, SALT_OFFSET, self.salt);
        let sum = crc32c(u64::from(self.number), &bytes[..FOOTER_SUM_OFFSET]);
        put_u32(&mut bytes, FOOTER_SUM_OFFSET, sum);
        bytes
    }

    /// The footer of these bytes; else what is wrong with them.
    fn decode(bytes: &[u8; FOOTER_BYTES], number: u32) -> Result<Self, &'static str> {
        if bytes[MAGIC_OFFSET..VERSION_OFFSET] != MAGIC {
            return Err("this is no table");
        }
        let sum = crc32c(u64::from(number), &bytes[..FOOTER_SUM_OFFSET]);
        if sum != u32_at(bytes, FOOTER_SUM_OFFSET) || u32_at(bytes, NUMBER_OFFSET) != number {
            return Err("the checksum of a table's footer is wrong");
        }
        if u32_at(bytes, VERSION_OFFSET) != VERSION {
            return Err("a table of a version that is not known");
        }
        let place =
            |offset, len| BlockPlace { offset: u64_at(bytes, offset), len: u32_at(bytes, len) };
        Ok(Self {
            number,
            index: place(INDEX_OFFSET, INDEX_LEN_OFFSET),
            filter: place(FILTER_OFFSET, FILTER_LEN_OFFSET),
            ranges: place(RANGES_OFFSET, RANGES_LEN_OFFSET),
            salt: u64_at(bytes, SALT_OFFSET),
        })
    }
}

#[cfg(test)]
mod tests;
