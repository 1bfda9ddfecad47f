//! The pages of a file, one after the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::page::{HEADER_BYTES, OVERFLOW, PAGE_BYTES, header};
use crate::appender::Appender;

/// The file.
pub(super) struct Pages {
    out: Appender,
}

impl Pages {
    /// Over an empty file; its first pages are written last.
    pub(super) fn new(file: File, first: usize) -> io::Result<Self> {
        let mut pages = Self { out: Appender::new(file) };
        pages.out.append(&vec![0; first * PAGE_BYTES])?;
        Ok(pages)
    }

    /// The number of the next page.
    pub(super) fn next(&self) -> u64 {
        self.out.bytes() / PAGE_BYTES as u64
    }

    /// Adds the next page.
    pub(super) fn append(&mut self, page: &[u8]) -> io::Result<()> {
        self.out.append(page)
    }

    /// Adds the pages of a long value: the number of the first, and how many there are.
    pub(super) fn append_long(&mut self, value: &[u8]) -> io::Result<(u64, u64)> {
        let first = self.next();
        let count = (HEADER_BYTES + value.len()).div_ceil(PAGE_BYTES);
        // The number of pages stands where others say where their free space is.
        let room = (count as u16, (count >> 16) as u16);
        self.out.append(&header(first, 0, OVERFLOW, room))?;
        self.out.append(value)?;
        let rest = count * PAGE_BYTES - HEADER_BYTES - value.len();
        self.out.append(&[0; PAGE_BYTES][..rest])?;
        Ok((first, count as u64))
    }

    /// Writes the first pages; all is on stable storage then.
    pub(super) fn finish(self, first: &[u8]) -> io::Result<()> {
        let file = self.out.finish()?;
        // The others first: without its first pages a file is no database.
        file.sync_data()?;
        file.write_all_at(first, 0)?;
        file.sync_all()
    }
}
