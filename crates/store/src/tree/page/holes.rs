//! Holes among the records of a changed leaf: what a record leaves behind that was taken out.
//!
//! Closing a hole moves the records before it and shifts their offsets. That is put off until the
//! room is needed or the page is finished, and is then done for all holes together. So no page in
//! the file has holes, and no branch.
//!
//! ```text
//! next u16 | length u16 | sum u16
//! ```
//!
//! The header names the newest hole at [`HOLE_OFFSET`], each hole the one that was made before it;
//! 0 ends the list. The sum is the length of this hole and of all that were made before it.

use super::join::shift_offsets;
use super::{HOLE_OFFSET, Page, PageMut};
use crate::coding::put_u16;

/// A shorter record leaves no hole.
const LEAST: usize = 6;
/// The offsets of this many holes are shifted hole by hole, those of more by a table.
const FEW: usize = 6;

/// Where a hole begins, and its length.
type Hole = (usize, usize);

impl Page<'_> {
    /// The newest hole; 0 if there is none.
    #[inline(always)]
    fn newest_hole(self) -> usize {
        self.half(HOLE_OFFSET)
    }

    /// Whether there are holes among the records.
    #[inline(always)]
    pub(crate) fn has_holes(self) -> bool {
        self.newest_hole() != 0
    }

    /// The length of all holes.
    #[inline(always)]
    pub(super) fn holes_len(self) -> usize {
        match self.newest_hole() {
            0 => 0,
            at => self.half(at + 4),
        }
    }

    /// The holes as they stand in the page; neighbours are one.
    fn holes(self) -> Vec<Hole> {
        // Where holes begin, a bit for each byte.
        let mut marks = vec![0_u64; self.size.div_ceil(64)];
        let mut at = self.newest_hole();
        while at != 0 {
            marks[at / 64] |= 1 << (at % 64);
            at = self.half(at);
        }
        let mut holes: Vec<Hole> = Vec::with_capacity(64);
        for (i, word) in marks.into_iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let at = 64 * i + left.trailing_zeros() as usize;
                let len = self.half(at + 2);
                match holes.last_mut() {
                    Some(last) if last.0 + last.1 == at => last.1 += len,
                    _ => holes.push((at, len)),
                }
                left &= left - 1;
            }
        }
        holes
    }
}

impl PageMut<'_> {
    /// Takes the record of `len` bytes at `at`, that of slot `i`, out of a leaf's heap. What offset
    /// the slot has then is of no meaning.
    #[inline(always)]
    pub(super) fn leave_hole(&mut self, i: usize, (at, len): Hole) {
        let view = self.view();
        let (heap, newest) = (view.heap_len(), view.newest_hole());
        if at == self.bytes.len() - heap {
            // The first one in the heap: nothing stands before it.
            self.set_heap_len(heap - len);
        } else if len < LEAST {
            self.cut_short_record(i, len);
        } else {
            let sum = view.holes_len() + len;
            put_u16(self.bytes, at, newest as u16);
            put_u16(self.bytes, at + 2, len as u16);
            put_u16(self.bytes, at + 4, sum as u16);
            put_u16(self.bytes, HOLE_OFFSET, at as u16);
        }
    }

    #[inline(never)]
    fn cut_short_record(&mut self, i: usize, len: usize) {
        // The holes before it would move with the records.
        self.tidy();
        let at = self.view().record_offset(i);
        self.cut_heap(at, len);
    }

    /// Closes the holes of a leaf that has no room as it is, if that makes enough room for another
    /// `need` bytes. False, and no change, otherwise.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, need: usize) -> bool {
        let view = self.view();
        let has_room = view.has_holes() && view.free() >= need;
        if has_room {
            self.close_holes();
        }
        has_room
    }

    /// Closes all holes, so that the records are dense up to the end of the page.
    #[inline(always)]
    pub(crate) fn tidy(&mut self) {
        if self.view().has_holes() {
            self.close_holes();
        }
    }

    #[inline(never)]
    fn close_holes(&mut self) {
        let view = self.view();
        let at = view.newest_hole();
        if view.half(at) == 0 {
            self.cut_heap(at, view.half(at + 2));
        } else {
            let holes = view.holes();
            self.shift_over(&holes);
            self.move_over(&holes);
        }
        put_u16(self.bytes, HOLE_OFFSET, 0);
    }

    /// Moves the records between ascending holes towards the end of the page.
    fn move_over(&mut self, holes: &[Hole]) {
        let heap = self.view().heap_len();
        let mut by = 0;
        for (i, (at, len)) in holes.iter().enumerate().rev() {
            by += len;
            let from = match i.checked_sub(1) {
                Some(before) => holes[before].0 + holes[before].1,
                None => self.bytes.len() - heap,
            };
            if from < *at {
                self.bytes.copy_within(from..*at, from + by);
            }
        }
        self.set_heap_len(heap - by);
    }

    /// Gives the records before ascending holes the offsets that they will have.
    fn shift_over(&mut self, holes: &[Hole]) {
        let view = self.view();
        let (offsets, step, start) =
            (view.offsets_at(), view.step(), self.bytes.len() - view.heap_len());
        let offsets = offsets..offsets + step * view.len();
        let slots = &mut self.bytes[offsets];
        if holes.len() <= FEW {
            for (at, len) in holes {
                shift_offsets(slots, step, *at, *len as u16);
            }
        } else if step == 4 {
            shift_by_table::<4>(slots.as_chunks_mut().0, start, holes);
        } else {
            shift_by_table::<2>(slots.as_chunks_mut().0, start, holes);
        }
    }
}

/// Adds the length of all holes behind it to every offset, of records in a heap from `start` on.
fn shift_by_table<const STEP: usize>(slots: &mut [[u8; STEP]], start: usize, holes: &[Hole]) {
    // In leaves with wide slots records and holes stand at even offsets.
    let shift = STEP / 4;
    let mut by: usize = holes.iter().map(|(_, len)| len).sum();
    let last = holes.last().map_or(start, |(at, _)| *at);
    let mut moves: Vec<u16> = Vec::with_capacity(((last - start) >> shift) + 1);
    for (at, len) in holes {
        // For the records between the hole before and this one, and for that hole.
        moves.resize((at - start) >> shift, by as u16);
        by -= len;
    }
    for slot in slots {
        let at = u16::from_le_bytes([slot[0], slot[1]]);
        let by = moves.get(usize::from(at).wrapping_sub(start) >> shift).copied().unwrap_or(0);
        [slot[0], slot[1]] = at.wrapping_add(by).to_le_bytes();
    }
}
