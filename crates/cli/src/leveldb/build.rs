//! Building a sorted table: blocks of entries, a filter, an index, a footer. Keys come in order.

use std::fs::File;
use std::io;
use std::path::Path;

use crc_fast::Digest;

use super::bloom;
use super::coding::{Kind, masked_sum, numbered, put_varint};
use super::compression::{NONE, SNAPPY, snap};
use super::kept::{self, Complete};
use super::manifest::TableFile;
use super::table::{FOOTER_BYTES, MAGIC, Place};
use crate::appender::Appender;

/// A block of entries is ended at this length.
const BLOCK_BYTES: usize = 4096;
/// The key of every entry of this many stands in full.
const RESTART_EVERY: usize = 16;
/// A filter is for the keys of blocks that begin in one part of this many bytes.
const FILTER_PART_SHIFT: u8 = 11;
/// The sequence number of every entry: each key is there once.
pub(super) const SEQUENCE: u64 = 1;

/// A block that is being filled.
struct Block {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    since: usize,
    last: Vec<u8>,
    every: usize,
}

impl Block {
    fn new(every: usize) -> Self {
        Self { bytes: Vec::new(), restarts: vec![0], since: 0, last: Vec::new(), every }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.since == self.every {
            self.restarts.push(self.bytes.len() as u32);
            self.since = 0;
        } else {
            shared = key.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        }
        let lens = [shared, key.len() - shared, value.len()];
        lens.iter().for_each(|&len| put_varint(&mut self.bytes, len as u64));
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.since += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    fn finish(self) -> Vec<u8> {
        let Self { mut bytes, restarts, .. } = self;
        let numbers = restarts.iter().copied().chain([restarts.len() as u32]);
        numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }
}

/// The file of a table.
struct Output {
    file: Appender,
    /// Over all that was written.
    sum: Digest,
}

impl Output {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Appender::new(File::create_new(path)?), sum: kept::new_sum() })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)?;
        self.sum.update(bytes);
        Ok(())
    }

    /// Brings all to stable storage; the length and the sum.
    fn finish(self) -> io::Result<(u64, u64)> {
        let bytes = self.file.bytes();
        self.file.finish()?.sync_all()?;
        Ok((bytes, self.sum.finalize()))
    }
}

/// A table that is being written.
pub(super) struct Builder {
    out: Output,
    number: u64,
    block: Block,
    index: Block,
    smallest: Option<Vec<u8>>,
    largest: Vec<u8>,
    /// Of the keys of the block, and of the blocks before it that begin in the same part.
    hashes: Vec<u32>,
    part_hashes: Vec<u32>,
    filters: Vec<u8>,
    filter_ends: Vec<u32>,
}

impl Builder {
    /// Makes a table of a number; its name is `path`.
    pub(super) fn new(path: &Path, number: u64) -> io::Result<Self> {
        Ok(Self {
            out: Output::new(path)?,
            number,
            block: Block::new(RESTART_EVERY),
            index: Block::new(1),
            smallest: None,
            largest: Vec::new(),
            hashes: Vec::new(),
            part_hashes: Vec::new(),
            filters: Vec::new(),
            filter_ends: Vec::new(),
        })
    }

    /// How long the table is by now.
    pub(super) fn bytes(&self) -> u64 {
        self.out.file.bytes() + self.block.bytes.len() as u64
    }

    /// Adds an entry, whose key comes after all others.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let full = numbered(key, SEQUENCE, Kind::Value);
        self.hashes.push(bloom::hash(key));
        self.block.add(&full, value);
        self.smallest.get_or_insert_with(|| full.clone());
        self.largest = full;
        if self.block.bytes.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.bytes.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.block, Block::new(RESTART_EVERY)).finish();
        self.end_filters_before(self.out.file.bytes());
        self.part_hashes.append(&mut self.hashes);
        let place = match snap(&block) {
            Some(snapped) => self.write(&snapped, SNAPPY)?,
            None => self.write(&block, NONE)?,
        };
        self.index.add(&self.largest, &encoded(place));
        Ok(())
    }

    /// Ends the filters of all parts before the one with a byte. That of a part in which no block
    /// begins is empty.
    fn end_filters_before(&mut self, offset: u64) {
        while (self.filter_ends.len() as u64) < offset >> FILTER_PART_SHIFT {
            let hashes = std::mem::take(&mut self.part_hashes);
            if !hashes.is_empty() {
                bloom::push(&mut self.filters, &hashes);
            }
            self.filter_ends.push(self.filters.len() as u32);
        }
    }

    /// Writes a block with what stands after it.
    fn write(&mut self, block: &[u8], kind: u8) -> io::Result<Place> {
        let place = Place { offset: self.out.file.bytes(), bytes: block.len() as u64 };
        let sum = masked_sum([block, &[kind]]).to_le_bytes();
        self.out.append(block)?;
        self.out.append(&[kind])?;
        self.out.append(&sum)?;
        Ok(place)
    }

    /// Ends the table; it is on stable storage then.
    pub(super) fn finish(mut self) -> io::Result<Complete> {
        self.end_block()?;
        let next = (self.filter_ends.len() as u64 + 1) << FILTER_PART_SHIFT;
        self.end_filters_before(next);
        let filter = self.filter_block();
        let filter = self.write(&filter, NONE)?;
        let mut names = Block::new(RESTART_EVERY);
        names.add(bloom::NAME, &encoded(filter));
        let names = self.write(&names.finish(), NONE)?;
        let index = std::mem::replace(&mut self.index, Block::new(1)).finish();
        let index = self.write(&index, NONE)?;
        let mut footer = [encoded(names), encoded(index)].concat();
        footer.resize(FOOTER_BYTES - size_of::<u64>(), 0);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.out.append(&footer)?;
        let (bytes, sum) = self.out.finish()?;
        let smallest = self.smallest.unwrap_or_default();
        let table = TableFile { number: self.number, bytes, smallest, largest: self.largest };
        Ok(Complete { table, sum })
    }

    /// All filters, where each begins, where that list begins, and the size of a part.
    fn filter_block(&mut self) -> Vec<u8> {
        let mut block = std::mem::take(&mut self.filters);
        let list = block.len() as u32;
        let mut begin = 0_u32;
        for end in std::mem::take(&mut self.filter_ends) {
            block.extend_from_slice(&begin.to_le_bytes());
            begin = end;
        }
        block.extend_from_slice(&list.to_le_bytes());
        block.push(FILTER_PART_SHIFT);
        block
    }
}

fn encoded(place: Place) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, place.offset);
    put_varint(&mut bytes, place.bytes);
    bytes
}
