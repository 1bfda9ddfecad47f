//! Separated values in bulk: read together, in the order in which they stand on the disk,
//! neighbours by one read; and written one after the other to a segment of their own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::place::{Expected, ValuePlace};
use super::remap::Remap;
use crate::Result;
use crate::lsm::files::append::Appender;
use crate::lsm::files::piece::Piece;
use crate::lsm::files::{Directory, Name, queue};
use crate::lsm::levels::version::Sealed;
use crate::lsm::log::segment::{Group, Identity, OpKind, push_op};
use crate::os::aio::{Action, Begun, Buffer, Completion, Request};

/// Values with no more than this between them are read together.
const GAP_BYTES: u64 = 16 << 10;
/// At most this many reads are begun early, by threads: values that need more reads are scattered,
/// and a queue with many reads in flight is quicker for them.
const EARLY_MAX: usize = 64;

/// A value that has to be read.
pub(crate) struct Missing<'v> {
    /// The caller's name for the request.
    pub(crate) entry: usize,
    pub(crate) place: ValuePlace<'v>,
}

/// Reads values, as many at a time as the queue takes, in no order; `take` gets what the caller
/// knows a value by, and the value. `spare` is what earlier reads leave for later ones.
///
/// # Errors
/// If a value cannot be read or is damaged, or `take` refuses it.
pub(crate) fn read(
    directory: &Arc<Directory>,
    mut missing: Vec<Missing<'_>>,
    spare: &mut Vec<Buffer>,
    mut take: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let runs = sort(directory, &mut missing);
    let pieces: Vec<Piece<'_>> = runs.iter().map(|run| piece_of(&missing[run.clone()])).collect();
    queue::read_all(directory, &pieces, spare, |number, offset, bytes| {
        for Missing { entry, place } in &missing[runs[number].clone()] {
            take(*entry, place.open(place.piece().cut(offset, bytes)?)?)?;
        }
        Ok(())
    })
}

/// A read of neighbours that was begun.
pub(crate) struct Early {
    read: Begun,
    /// Where it begins in the file.
    offset: u64,
    /// What the caller knows the values by, and what they are.
    values: Vec<(usize, Expected)>,
}

impl Early {
    /// Waits for the read, and hands out the values whose checksum is right; returns its buffer.
    pub(crate) fn finish(self, mut take: impl FnMut(usize, &[u8])) -> Buffer {
        let Completion { buffer, result, .. } = self.read.wait();
        let bytes = result.map_or(&[][..], |count| &buffer[..count]);
        for (entry, expected) in self.values {
            if let Some(value) = expected.cut(self.offset, bytes) {
                take(entry, value);
            }
        }
        buffer
    }
}

/// Begins to read values, if few reads bring them; else none. `spare` is as for [`read`].
pub(crate) fn begin(
    directory: &Arc<Directory>,
    mut missing: Vec<Missing<'_>>,
    spare: &mut Vec<Buffer>,
) -> Vec<Early> {
    let runs = sort(directory, &mut missing);
    if runs.len() > EARLY_MAX {
        return Vec::new();
    }
    directory.reads.prefetched.fetch_add(runs.len() as u64, Relaxed);
    let begin = |run: Range<usize>| {
        let neighbours = &missing[run];
        // What cannot be begun is read when it is needed.
        let piece = piece_of(neighbours);
        let span = piece.span().ok()?;
        let values = neighbours.iter().map(|it| (it.entry, it.place.expected())).collect();
        let fits = spare.iter().position(|buffer| buffer.capacity() >= span.len);
        let mut buffer = fits.map_or_else(|| Buffer::new(span.len), |at| spare.swap_remove(at));
        buffer.set_len(span.len);
        let (file, offset) = (span.file, span.offset);
        let request = Request { token: 0, action: Action::Read, file, offset, buffer };
        Some(Early { read: directory.io.begin(request), offset, values })
    };
    let begun = runs.into_iter().filter_map(begin).collect();
    spare.clear();
    begun
}

/// Sorts values as they stand on the disk; returns which ones are read together.
fn sort(directory: &Directory, missing: &mut [Missing<'_>]) -> Vec<Range<usize>> {
    missing.sort_by_key(|missing| missing.place.span());
    let spans: Vec<(u32, u64, u32)> = missing.iter().map(|missing| missing.place.span()).collect();
    runs(&spans, directory.budget.piece_bytes())
}

/// Which neighbours of a sorted list of segment, offset and length are read together: by a read of
/// at most `bytes_max`, unless a single value is longer.
pub(crate) fn runs(spans: &[(u32, u64, u32)], bytes_max: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let end = |at: usize| spans[at].1 + u64::from(spans[at].2);
    for (at, &(segment, offset, _)) in spans.iter().enumerate() {
        let joins = runs.last().is_some_and(|run| {
            let first = spans[run.start];
            first.0 == segment
                && offset.saturating_sub(end(at - 1)) <= GAP_BYTES
                && end(at) - first.1 <= bytes_max as u64
        });
        match runs.last_mut() {
            Some(run) if joins => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// What is read for neighbours.
fn piece_of<'v>(neighbours: &[Missing<'v>]) -> Piece<'v> {
    let mut piece = neighbours[0].place.piece();
    let ends = neighbours.iter().map(|missing| {
        let (_, offset, len) = missing.place.span();
        offset + u64::from(len)
    });
    piece.len = (ends.max().unwrap_or(piece.offset) - piece.offset) as usize;
    piece
}

/// A segment of values, each as a group of its own with the sequence number that it had.
pub(crate) struct ValueWriter {
    identity: Identity,
    out: Appender,
    body: Vec<u8>,
}

impl ValueWriter {
    /// Makes the file; of the disk, `leaves` bytes stay free.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn create(
        directory: &Arc<Directory>,
        identity: Identity,
        leaves: u64,
    ) -> Result<Self> {
        let mut out = Appender::create(directory, Name::Segment(identity.number), leaves)?;
        out.push(&[&identity.header()], 0)?;
        Ok(Self { identity, out, body: Vec::new() })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The length of the file so far.
    pub(crate) fn len(&self) -> u64 {
        self.out.len()
    }

    /// Adds a value; returns where it begins.
    ///
    /// # Errors
    /// If the system refuses to write.
    pub(crate) fn add(&mut self, key: &[u8], seq: u64, value: &[u8]) -> Result<u64> {
        self.body.clear();
        push_op(&mut self.body, OpKind::PutSeparated, [key, &[]], [value, &[]]);
        let offset = self.out.len();
        let group = Group { offset, seq, count: 1, flushed: 0, body: &self.body };
        self.out.push(&[&self.identity.group_header(&group), &self.body], 0)?;
        Ok(self.out.len() - value.len() as u64)
    }

    /// Ends the segment with the list of the former places of its values, as far as pointers use
    /// them; the segment is then on stable storage, except its name.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn finish(mut self, lines: &mut [(u32, u64, u64)]) -> Result<Sealed> {
        let len = self.out.len();
        let remap = Remap::encode(self.identity.salt, lines);
        self.out.push(&[&remap], 0)?;
        self.out.finish()?;
        Ok(Sealed { len, last_seq: 0, remap_len: remap.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together() {
        let far = GAP_BYTES + 11;
        let spans =
            [(1, 0, 10), (1, 10, 10), (1, 20 + GAP_BYTES, 10), (1, 20 + 2 * far, 10), (2, 0, 10)];
        assert_eq!(runs(&spans, 1 << 20), [0..3, 3..4, 4..5]);
        assert_eq!(runs(&spans, 20), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(runs(&[(1, 0, 500)], 20), vec![0..1]);
        assert!(runs(&[], 20).is_empty());
    }
}
