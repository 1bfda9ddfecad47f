//! Extents: runs of pages that hold one long key or value each.
//!
//! ```text
//! | bytes of the value, from the start of the run in one piece ... | zeros                      |
//! | ... trailer in the last bytes of the run: birth u64, then a CRC-32C for each page of the run |
//! |     up to where the trailer begins, over what of the page lies before the trailer            |
//! ```
//!
//! The cell that names an extent carries the CRC-32C of the trailer, so that a part of a long value
//! is verified by reading that part and the trailer only.

use std::io::IoSlice;

use super::page_ref::{ExtentRef, FIRST_PAGE, PageNo, PageRef, Run};
use super::pages::{PageFile, Pages, ReadPages, WritePages};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::{Error, Result};

/// Where things stand in an extent of `len` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Pages of the run.
    pub(crate) pages: u32,
    /// Where the trailer begins.
    trailer: usize,
    /// Checksums in the trailer.
    sums: usize,
    page_size: usize,
}

/// At most this many bytes of a trailer are prefetched.
const TRAILER_FETCHED: usize = 256;

impl Plan {
    /// The layout for `len` bytes. The last page may hold bytes and trailer both.
    pub(crate) fn new(len: u64, page_size: usize) -> Self {
        let size = page_size as u64;
        // Each page adds a sum; the fixed point is reached after one step or two.
        let mut sums = len.div_ceil(size);
        loop {
            let pages = (len + 8 + 4 * sums).div_ceil(size);
            let trailer = pages * size - 8 - 4 * sums;
            let covered = trailer.div_ceil(size);
            if covered <= sums {
                let sums = sums as usize;
                return Self { pages: pages as u32, trailer: trailer as usize, sums, page_size };
            }
            sums = covered;
        }
    }

    fn trailer_len(&self) -> usize {
        8 + 4 * self.sums
    }

    /// What of page `i` of the run its sum covers.
    fn covered(&self, i: usize) -> std::ops::Range<usize> {
        let start = (i * self.page_size).min(self.trailer);
        start..((i + 1) * self.page_size).min(self.trailer)
    }
}

/// The sum of the part of page `no` that holds bytes.
fn page_sum(no: PageNo, bytes: &[u8]) -> u32 {
    crc32c(u64::from(no), bytes)
}

/// Writes the trailer of an extent whose bytes stand in `run_bytes`; returns its sum.
pub(crate) fn finish(run_bytes: &mut [u8], first: PageNo, plan: &Plan, txn: u64) -> u32 {
    let (bytes, trailer) = run_bytes.split_at_mut(plan.trailer);
    let sums = (0..plan.sums).map(|i| page_sum(first + i as u32, &bytes[plan.covered(i)]));
    put_trailer(trailer, txn, sums, first)
}

/// Fills a trailer in; returns its sum.
fn put_trailer(
    trailer: &mut [u8],
    txn: u64,
    sums: impl Iterator<Item = u32>,
    first: PageNo,
) -> u32 {
    put_u64(trailer, 0, txn);
    for (i, sum) in sums.enumerate() {
        put_u32(trailer, 8 + 4 * i, sum);
    }
    crc32c(u64::from(first), trailer)
}

/// Puts a long key or value into pages of its own. They are written at once, out of the caller's
/// memory, where the commit does not gain by waiting; but pages that the file does not have yet are
/// gathered, since the system keeps in one unit what one call brings.
pub(crate) fn store(pages: &mut WritePages, bytes: &[u8]) -> Result<ExtentRef> {
    let end = pages.base.end;
    make(pages, bytes.len(), |pages, run, plan| {
        if pages.long_values_wait() || pages.base.end > end {
            keep(pages, run, plan, bytes)
        } else {
            write_now(pages, run, plan, bytes)
        }
    })
}

/// Takes an extent of zeros whose content the caller fills later through
/// [`WritePages::extents`]; [`reseal`] must follow.
pub(crate) fn reserve(pages: &mut WritePages, len: usize) -> Result<ExtentRef> {
    make(pages, len, |pages, run, plan| keep(pages, run, plan, &[]))
}

/// Takes a run for `len` bytes, which `put` puts there; it returns the sum of the trailer.
fn make(
    pages: &mut WritePages,
    len: usize,
    put: impl FnOnce(&mut WritePages, Run, &Plan) -> Result<u32>,
) -> Result<ExtentRef> {
    let plan = Plan::new(len as u64, pages.page_size());
    let run = pages.take_extent(plan.pages)?;
    match put(pages, run, &plan) {
        Ok(sum) => Ok(ExtentRef { first: run.start, len: len as u32, sum }),
        Err(error) => {
            pages.free_run(run, pages.txn)?;
            Err(error)
        }
    }
}

/// Keeps an extent, which begins with these bytes and goes on with zeros, in memory.
fn keep(pages: &mut WritePages, run: Run, plan: &Plan, bytes: &[u8]) -> Result<u32> {
    let mut whole = Vec::new();
    pad(&mut whole, bytes, plan.pages as usize * plan.page_size)?;
    let sum = finish(&mut whole, run.start, plan, pages.txn);
    pages.extents.insert(run.start, whole.into_boxed_slice());
    Ok(sum)
}

/// Writes an extent; only its last pages are put together in memory.
fn write_now(pages: &mut WritePages, run: Run, plan: &Plan, bytes: &[u8]) -> Result<u32> {
    let size = plan.page_size;
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % size);
    let mut tail = std::mem::take(&mut pages.scratch);
    pad(&mut tail, rest, plan.pages as usize * size - whole.len())?;
    let (last, trailer) = tail.split_at_mut(plan.trailer - whole.len());
    let sums = (0..plan.sums).map(|i| {
        let covered = plan.covered(i);
        let in_tail = || &last[covered.start - whole.len()..covered.end - whole.len()];
        page_sum(run.start + i as u32, whole.get(covered.clone()).unwrap_or_else(in_tail))
    });
    let sum = put_trailer(trailer, pages.txn, sums, run.start);
    pages.early.written = true;
    let parts = [IoSlice::new(whole), IoSlice::new(&tail)];
    let written = write(&pages.base.file, &parts, u64::from(run.start) * size as u64);
    pages.scratch = tail;
    written.map(|()| sum)
}

/// Makes `padded` these bytes with zeros after them.
fn pad(padded: &mut Vec<u8>, bytes: &[u8], len: usize) -> Result<()> {
    padded.clear();
    padded.try_reserve_exact(len).map_err(|_| Error::OutOfMemory)?;
    padded.extend_from_slice(bytes);
    padded.resize(len, 0);
    Ok(())
}

/// Computes the sums of an extent in memory anew, after its bytes were changed in place.
pub(crate) fn reseal(pages: &mut WritePages, reference: &ExtentRef) -> Option<ExtentRef> {
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    let txn = pages.txn;
    let whole = pages.extents.get_mut(reference.first)?;
    let sum = finish(whole, reference.first, &plan, txn);
    Some(ExtentRef { sum, ..*reference })
}

/// Changes a part of an extent where it is, if this transaction made it and no savepoint may want
/// it as it was; `None`, and no change, otherwise. It looks at the pages that the part lies in and
/// at the trailer, however long the extent is.
pub(crate) fn change_part(
    pages: &mut WritePages,
    reference: &ExtentRef,
    offset: usize,
    part: &[u8],
) -> Result<Option<ExtentRef>> {
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    let is_kept = pages.new_extent(reference)?.is_some();
    let is_own = is_kept || birth(&pages.base, reference)? == pages.txn;
    if !is_own || !pages.may_change_extent(reference.first) {
        return Ok(None);
    }
    if part.is_empty() {
        return Ok(Some(*reference));
    }
    let changed = offset / plan.page_size..(offset + part.len()).div_ceil(plan.page_size);
    let sum = match pages.extents.get_mut(reference.first) {
        Some(whole) => {
            whole[offset..offset + part.len()].copy_from_slice(part);
            let (bytes, trailer) = whole.split_at_mut(plan.trailer);
            for i in changed {
                let sum = page_sum(reference.first + i as u32, &bytes[plan.covered(i)]);
                put_u32(trailer, 8 + 4 * i, sum);
            }
            crc32c(u64::from(reference.first), trailer)
        }
        None => change_written(pages, reference, &plan, (offset, part), changed)?,
    };
    Ok(Some(ExtentRef { sum, ..*reference }))
}

/// [`change_part`] of an extent that is in the file already; the new sum of its trailer.
fn change_written(
    pages: &mut WritePages,
    reference: &ExtentRef,
    plan: &Plan,
    (offset, part): (usize, &[u8]),
    changed: std::ops::Range<usize>,
) -> Result<u32> {
    let first = reference.first;
    let run = Run { start: first + changed.start as u32, len: changed.len() as u32 };
    let start = u64::from(first) * plan.page_size as u64;
    {
        // What stays of the pages must not get a sum that is right if it is damaged.
        let trailer = trailer(&pages.base, reference, plan)?;
        let bytes = pages.base.run(run)?;
        for i in [changed.start, changed.end - 1] {
            let (no, at) = (first + i as u32, (i - changed.start) * plan.page_size);
            if !pages.base.file.is_extent_checked(no) {
                let covered = &bytes[at..at + plan.covered(i).len()];
                verify(&pages.base, no, covered, u32_at(trailer, 8 + 4 * i))?;
            }
        }
    }
    pages.early.written = true;
    write(&pages.base.file, &[IoSlice::new(part)], start + offset as u64)?;
    pages.base.forget(run);
    let bytes = pages.base.run(run)?;
    let mut sums = vec![0; 4 * changed.len()];
    for i in changed.clone() {
        let at = (i - changed.start) * plan.page_size;
        let sum = page_sum(first + i as u32, &bytes[at..at + plan.covered(i).len()]);
        put_u32(&mut sums, 4 * (i - changed.start), sum);
    }
    let at = plan.trailer + 8 + 4 * changed.start;
    write(&pages.base.file, &[IoSlice::new(&sums)], start + at as u64)?;
    let first_page = plan.trailer / plan.page_size;
    let run = Run { start: first + first_page as u32, len: plan.pages - first_page as u32 };
    pages.base.forget(run);
    let trailer = &pages.base.run(run)?[plan.trailer - first_page * plan.page_size..];
    Ok(crc32c(u64::from(first), trailer))
}

/// Gives the pages of an extent back.
pub(crate) fn free(pages: &mut WritePages, reference: &ExtentRef) -> Result<()> {
    fetch_trailer(&pages.base, reference);
    pages.check_freed()?;
    let run = run_of(reference, pages.page_size());
    let birth = match pages.new_extent(reference)? {
        Some(_) => pages.txn,
        None => birth(&pages.base, reference)?,
    };
    pages.free_run(run, birth)
}

/// The pages of an extent.
pub(crate) fn run_of(reference: &ExtentRef, page_size: usize) -> Run {
    let plan = Plan::new(u64::from(reference.len), page_size);
    Run { start: reference.first, len: plan.pages }
}

/// Prefetches a trailer, mostly several cache lines of a page that nothing looked at for long.
fn fetch_trailer(pages: &ReadPages, reference: &ExtentRef) {
    let plan = Plan::new(u64::from(reference.len), pages.file.page_size());
    let end = plan.trailer + plan.trailer_len().min(TRAILER_FETCHED);
    pages.fetch(PageRef(reference.first), plan.trailer..end);
}

/// The trailer of an extent, verified.
fn trailer<'p>(pages: &'p ReadPages, reference: &ExtentRef, plan: &Plan) -> Result<&'p [u8]> {
    let first_page = plan.trailer / plan.page_size;
    let start = u64::from(reference.first) + first_page as u64;
    let run = Run { start: start as PageNo, len: plan.pages - first_page as u32 };
    let is_inside = start + u64::from(run.len) <= u64::from(pages.end);
    if !is_inside || reference.first < FIRST_PAGE {
        return Err(pages
            .file
            .corrupt(reference.first, "a long value outside of the pages of the store"));
    }
    let bytes = pages.run(run)?;
    let trailer = &bytes[plan.trailer - first_page * plan.page_size..];
    debug_assert_eq!(trailer.len(), plan.trailer_len());
    if crc32c(u64::from(reference.first), trailer) != reference.sum {
        return Err(pages.file.corrupt(run.start, "the checksums of a long value are damaged"));
    }
    Ok(trailer)
}

/// The commit that wrote an extent.
fn birth(pages: &ReadPages, reference: &ExtentRef) -> Result<u64> {
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    Ok(u64_at(trailer(pages, reference, &plan)?, 0))
}

/// The bytes of an extent of a snapshot, every page verified (each once in a process); of one that
/// is handed out unread, the last page with the trailer.
pub(crate) fn read_whole<'p>(pages: &'p ReadPages, reference: &ExtentRef) -> Result<&'p [u8]> {
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    let bytes = pages.run(Run { start: reference.first, len: plan.pages })?;
    let end = (reference.len as usize).div_ceil(plan.page_size);
    let all = if pages.file.is_verified_whole(reference.len) {
        0..end
    } else {
        end.saturating_sub(1)..end
    };
    if !all.clone().all(|i| pages.file.is_extent_checked(reference.first + i as u32)) {
        let trailer = trailer(pages, reference, &plan)?;
        for i in all {
            let no = reference.first + i as u32;
            verify(pages, no, &bytes[plan.covered(i)], u32_at(trailer, 8 + 4 * i))?;
        }
    }
    Ok(&bytes[..reference.len as usize])
}

/// The first page of an extent that is longer than a page, verified: of the rest only the trailer
/// is read.
pub(crate) fn read_front<'p>(pages: &'p ReadPages, reference: &ExtentRef) -> Result<&'p [u8]> {
    let front = Run { start: reference.first, len: 1 };
    if pages.file.is_extent_checked(front.start) {
        return pages.run(front);
    }
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    let first_page = (plan.trailer / plan.page_size) as u32;
    // What touches a page that is not in memory has its neighbours read, too.
    for (from, to) in [(0, 1), (first_page, plan.pages)] {
        if u64::from(front.start) + u64::from(to) <= u64::from(pages.end) {
            pages.file.read_ahead(Run { start: front.start + from, len: to - from });
        }
    }
    let trailer = trailer(pages, reference, &plan)?;
    let bytes = pages.run(front)?;
    verify(pages, front.start, &bytes[plan.covered(0)], u32_at(trailer, 8))?;
    Ok(bytes)
}

fn verify(pages: &ReadPages, no: PageNo, covered: &[u8], sum: u32) -> Result<()> {
    if page_sum(no, covered) != sum {
        return Err(pages.file.corrupt(no, "the checksum of a page of a long value is wrong"));
    }
    if pages.file.is_mapped() {
        pages.file.set_extent_checked(no);
    }
    Ok(())
}

/// Copies `out.len()` bytes from `offset` on out of an extent.
pub(crate) fn read_part(
    pages: &ReadPages,
    reference: &ExtentRef,
    offset: u64,
    out: &mut [u8],
) -> Result<()> {
    let plan = Plan::new(u64::from(reference.len), pages.page_size());
    // It is not looked at where every page was verified before.
    let mut sums = None;
    let (mut at, mut done) = (offset as usize, 0);
    while done < out.len() {
        pages.interrupted()?;
        let i = at / plan.page_size;
        let no = reference.first + i as u32;
        let covered = plan.covered(i);
        let page = pages.run(Run { start: no, len: 1 })?;
        if !pages.file.is_extent_checked(no) {
            let trailer = match sums {
                Some(trailer) => trailer,
                None => *sums.insert(trailer(pages, reference, &plan)?),
            };
            verify(pages, no, &page[..covered.len()], u32_at(trailer, 8 + 4 * i))?;
        }
        let from = at - covered.start;
        let n = (covered.len() - from).min(out.len() - done);
        out[done..done + n].copy_from_slice(&page[from..from + n]);
        (at, done) = (at + n, done + n);
    }
    Ok(())
}

/// Reads a whole extent by positioned reads, whatever was checked before, and verifies all of it.
/// Returns its birth; its bytes are added to `out`, if they are wanted. The run must lie inside the
/// store.
pub(crate) fn inspect(
    file: &PageFile,
    reference: &ExtentRef,
    mut out: Option<&mut Vec<u8>>,
) -> Result<u64> {
    let plan = Plan::new(u64::from(reference.len), file.page_size());
    let first_page = plan.trailer / plan.page_size;
    let start = reference.first + first_page as u32;
    let mut tail = vec![0; (plan.pages as usize - first_page) * plan.page_size];
    file.read_run(Run { start, len: plan.pages - first_page as u32 }, &mut tail)?;
    let trailer = &tail[plan.trailer - first_page * plan.page_size..];
    if crc32c(u64::from(reference.first), trailer) != reference.sum {
        return Err(file.corrupt(start, "the checksums of a long value are damaged"));
    }
    let at_once = (PIECE / plan.page_size).max(1);
    let mut piece = Vec::new();
    for from in (0..plan.sums).step_by(at_once) {
        file.interrupted()?;
        let to = (from + at_once).min(plan.sums);
        let run = Run { start: reference.first + from as u32, len: (to - from) as u32 };
        piece.resize((to - from) * plan.page_size, 0);
        file.read_run(run, &mut piece)?;
        for i in from..to {
            let no = reference.first + i as u32;
            let covered = plan.covered(i).len();
            let page = &piece[(i - from) * plan.page_size..][..covered];
            if page_sum(no, page) != u32_at(trailer, 8 + 4 * i) {
                return Err(file.corrupt(no, "the checksum of a page of a long value is wrong"));
            }
        }
        if let Some(out) = &mut out {
            let wanted = (reference.len as usize).saturating_sub(from * plan.page_size);
            out.extend_from_slice(&piece[..wanted.min(piece.len())]);
        }
    }
    Ok(u64_at(trailer, 0))
}

/// Writes one long value in parts straight into the file.
pub(crate) struct Writer {
    run: Run,
    plan: Plan,
    len: u64,
    written: u64,
    sums: Vec<u32>,
    /// Bytes of the piece that is being filled.
    piece: Vec<u8>,
}

/// How many bytes are gathered before they are written.
const PIECE: usize = 512 << 10;

impl Writer {
    pub(crate) fn new(pages: &mut WritePages, len: u64) -> Result<Self> {
        let plan = Plan::new(len, pages.page_size());
        let run = pages.take_extent(plan.pages)?;
        // What it writes is no part of what the commit writes and makes a digest of.
        pages.early.written = true;
        Ok(Self::at(run.start, len, pages.page_size()))
    }

    /// A writer for a run that is free for it, of the pages that `len` bytes need.
    pub(crate) fn at(first: PageNo, len: u64, page_size: usize) -> Self {
        let plan = Plan::new(len, page_size);
        let run = Run { start: first, len: plan.pages };
        Self { run, plan, len, written: 0, sums: Vec::new(), piece: Vec::new() }
    }

    /// How many bytes are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.len - self.written
    }

    /// Takes the next bytes, which must not be more than are left.
    pub(crate) fn write(&mut self, file: &PageFile, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let n = (PIECE - self.piece.len()).min(bytes.len());
            self.piece.extend_from_slice(&bytes[..n]);
            self.written += n as u64;
            bytes = &bytes[n..];
            if self.piece.len() == PIECE {
                self.flush(file)?;
            }
        }
        Ok(())
    }

    /// Writes the gathered piece, which begins at a page of the run.
    fn flush(&mut self, file: &PageFile) -> Result<()> {
        file.interrupted()?;
        let first = self.sums.len();
        let size = self.plan.page_size;
        let start = first * size;
        let whole = self.piece.len() / size;
        for i in 0..whole {
            let no = self.run.start + (first + i) as u32;
            let covered = self.plan.covered(first + i).len();
            self.sums.push(page_sum(no, &self.piece[i * size..i * size + covered]));
        }
        let offset = u64::from(self.run.start) * size as u64 + start as u64;
        write(file, &[IoSlice::new(&self.piece)], offset)?;
        self.piece.clear();
        Ok(())
    }

    /// Writes the rest and the trailer, which says that commit `txn` wrote the extent.
    pub(crate) fn finish(mut self, file: &PageFile, txn: u64) -> Result<ExtentRef> {
        let size = self.plan.page_size;
        let start = self.sums.len() * size;
        let end = self.plan.pages as usize * size;
        self.piece.resize(end - start, 0);
        for i in self.sums.len()..self.plan.sums {
            let covered = self.plan.covered(i);
            let part = &self.piece[covered.start - start..covered.end - start];
            self.sums.push(page_sum(self.run.start + i as u32, part));
        }
        let trailer = &mut self.piece[self.plan.trailer - start..];
        let sum = put_trailer(trailer, txn, self.sums.into_iter(), self.run.start);
        let offset = u64::from(self.run.start) * size as u64 + start as u64;
        write(file, &[IoSlice::new(&self.piece)], offset)?;
        Ok(ExtentRef { first: self.run.start, len: self.len as u32, sum })
    }

    /// Gives the pages back after a failure.
    pub(crate) fn abandon(self, pages: &mut WritePages) -> Result<()> {
        let txn = pages.txn;
        pages.free_run(self.run, txn)
    }
}

/// Writes a part of an extent in long calls: no page of it is written by itself while it lives.
fn write(file: &PageFile, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
    let written = file.file.append_at(parts, offset);
    written.map_err(|e| Error::io("write a long value to", &file.path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_before_the_trailer_is_covered_by_one_sum() {
        for page_size in [4096_usize, 65536] {
            for len in (0..200).chain(4060..4110).chain(65500..65560).chain([1 << 20, 4_190_000]) {
                let plan = Plan::new(len, page_size);
                let end = plan.pages as usize * page_size;
                assert_eq!(plan.trailer + plan.trailer_len(), end, "{len}");
                assert!(plan.trailer as u64 >= len, "{len}");
                let covered: usize = (0..plan.sums).map(|i| plan.covered(i).len()).sum();
                assert_eq!(covered, plan.trailer, "{len}");
            }
        }
    }
}
