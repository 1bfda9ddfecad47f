//! The cached content of a simulated file, at an address that never changes.
//!
//! The engine reads a simulated file through the same raw pointers as a real one. The pages beyond
//! the end are closed, so that a read there ends the process as it would on a mapped file.
//!
//! Memory that is no longer read is kept by its thread for the next file of the same size: images
//! of one disk differ in few blocks, and only those are copied.
#![expect(unsafe_code, reason = "the content lies behind a raw pointer, as a mapped file does")]

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use super::super::file::Map;
use super::super::map::Region;
use super::content::{BLOCK, Block, Content};

/// A thread keeps at most this many pieces of memory.
const SPARE_MAX: usize = 6;

thread_local! {
    static SPARE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// A file's content.
pub(super) struct Memory {
    region: Arc<Region>,
    len: u64,
    /// The blocks that the memory is known to show; `None` where it was written to since.
    shown: Vec<Option<Block>>,
}

impl Memory {
    /// A file with a content, which can grow to `reserve` bytes.
    pub(super) fn holding(reserve: u64, content: &Content) -> io::Result<Self> {
        let mut memory = Self::spare_or_new(reserve)?;
        memory.set_len(content.len())?;
        for (number, block) in content.blocks().iter().enumerate() {
            let known = memory.shown[number].as_ref();
            if !known.is_some_and(|known| Arc::ptr_eq(known, block)) {
                let rest = content.len() as usize - number * BLOCK;
                memory.write((number * BLOCK) as u64, &block[..rest.min(BLOCK)])?;
                memory.shown[number] = Some(Arc::clone(block));
            }
        }
        Ok(memory)
    }

    fn spare_or_new(reserve: u64) -> io::Result<Self> {
        let spare = SPARE.with_borrow_mut(|spare| {
            let fits = spare.iter().rposition(|memory| memory.len_max() == reserve)?;
            Some(spare.remove(fits))
        });
        if let Some(memory) = spare {
            return Ok(memory);
        }
        let reserve = usize::try_from(reserve).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { region: Arc::new(Region::closed(reserve)?), len: 0, shown: Vec::new() })
    }

    /// Keeps the memory for the next file, unless it may still be read.
    pub(super) fn give_back(mut self) {
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX && Arc::get_mut(&mut self.region).is_some() {
                spare.push(self);
            }
        });
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes that a file may have at most.
    pub(super) fn len_max(&self) -> u64 {
        self.region.len() as u64
    }

    /// A view of the file for the engine.
    pub(super) fn map(&self) -> Map {
        let base = self.region.base().cast_const();
        Map { base, reserved: self.len_max(), owner: self.region.clone() }
    }

    /// Fills `buffer`, all of which must lie inside the file.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the range lies inside of the file, which lies inside of the region and is
        // readable; nothing writes at the same time, as writing takes `&mut self`.
        unsafe {
            let from = self.region.base().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
        }
        Ok(())
    }

    /// Writes, growing the file if need be.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if end > self.len {
            self.set_len(end)?;
        }
        self.forget(offset as usize..end as usize);
        // SAFETY: the range lies inside of the file, which lies inside of the region and is
        // writable. Readers of the map read only what no write changes under them: that is the
        // engine's promise for real files too.
        unsafe {
            let to = self.region.base().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(())
    }

    fn forget(&mut self, range: std::ops::Range<usize>) {
        self.shown[range.start / BLOCK..range.end.div_ceil(BLOCK)].fill(None);
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len > self.len_max() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if len < self.len {
            self.forget(len as usize..self.len as usize);
            // SAFETY: the range lies inside of the old length; the engine reads nothing beyond the
            // end that it sets.
            unsafe {
                let from = self.region.base().add(len as usize);
                std::ptr::write_bytes(from, 0, (self.len - len) as usize);
            }
        }
        // SAFETY: as above for a cut; growing takes nothing from anybody.
        unsafe { self.region.reopen(self.len as usize, len as usize)? };
        self.shown.resize((len as usize).div_ceil(BLOCK), None);
        self.len = len;
        Ok(())
    }
}

/// The bytes that a map shows, for tests.
#[cfg(test)]
pub(super) fn bytes_of(map: &Map, offset: usize, len: usize) -> Vec<u8> {
    assert!((offset + len) as u64 <= map.reserved);
    // SAFETY: the range lies inside of the reservation, and a test asks only for what the file
    // holds.
    unsafe { std::slice::from_raw_parts(map.base.add(offset), len).to_vec() }
}
