//! What tells a page apart from another one, in words of eight bytes: pure functions over bytes.
//!
//! A delta is a list of pieces: how many words are the same (u16), how many follow (u16), these.

use crate::coding::{put_u16, u16_at};

const WORD: usize = 8;
/// Pages are compared in blocks of this many bytes first.
const BLOCK: usize = 64;
/// At most this many equal words between two pieces cost no more than another piece.
const GAP: usize = 1;

/// Adds what tells `new` apart from `old`, or from zeros, to `out`. Both are of the same length, a
/// multiple of 64.
pub(crate) fn put_delta(out: &mut Vec<u8>, old: Option<&[u8]>, new: &[u8]) {
    let mut done = 0;
    let mut from = 0;
    while let Some((start, end)) = next_difference(old, new, from) {
        put_piece(out, start - done, &new[start * WORD..end * WORD]);
        (done, from) = (end, end);
    }
}

fn put_piece(out: &mut Vec<u8>, skip: usize, words: &[u8]) {
    let at = out.len();
    out.resize(at + 4, 0);
    put_u16(&mut out[at..], 0, skip as u16);
    put_u16(&mut out[at..], 2, (words.len() / WORD) as u16);
    out.extend_from_slice(words);
}

/// The next words from `from` on that differ, as a range.
fn next_difference(old: Option<&[u8]>, new: &[u8], from: usize) -> Option<(usize, usize)> {
    let words = new.len() / WORD;
    let mut start = from;
    while start < words && is_same(old, new, start) {
        let at = start * WORD;
        // Whole blocks at once.
        let block = at.is_multiple_of(BLOCK) && is_same_block(old, new, at);
        start += if block { BLOCK / WORD } else { 1 };
    }
    if start >= words {
        return None;
    }
    let (mut end, mut same) = (start + 1, 0);
    while end + same < words && same <= GAP {
        if is_same(old, new, end + same) {
            same += 1;
        } else {
            (end, same) = (end + same + 1, 0);
        }
    }
    Some((start, end))
}

fn word(bytes: &[u8], at: usize) -> [u8; WORD] {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[at * WORD..(at + 1) * WORD]);
    word
}

fn is_same(old: Option<&[u8]>, new: &[u8], at: usize) -> bool {
    word(new, at) == old.map_or([0; WORD], |old| word(old, at))
}

fn is_same_block(old: Option<&[u8]>, new: &[u8], at: usize) -> bool {
    match (old, new.get(at..at + BLOCK)) {
        (Some(old), Some(new)) => old[at..at + BLOCK] == *new,
        (None, Some(new)) => *new == [0; BLOCK],
        (_, None) => false,
    }
}

/// Makes a page of the one that it replaces, which `page` holds, or of zeros. False if the delta is
/// none of a page of that length.
pub(crate) fn apply_delta(page: &mut [u8], mut delta: &[u8]) -> bool {
    let mut at = 0;
    while !delta.is_empty() {
        let Some((head, rest)) = delta.split_at_checked(4) else { return false };
        at += usize::from(u16_at(head, 0)) * WORD;
        let len = usize::from(u16_at(head, 2)) * WORD;
        let (Some(place), Some((words, rest))) =
            (page.get_mut(at..at + len), rest.split_at_checked(len))
        else {
            return false;
        };
        place.copy_from_slice(words);
        at += len;
        delta = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    //! A delta makes of the old page the new one, and no bytes make it panic.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_delta_makes_the_new_page(
            seed in any::<u64>(),
            edits in prop::collection::vec((0..4096_usize, 1..300_usize, any::<u8>()), 0..12),
            has_old: bool,
        ) {
            let mut old = vec![0_u8; 4096];
            if has_old {
                let mut number = seed | 1;
                old.iter_mut().for_each(|byte| {
                    number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    *byte = (number >> 56) as u8;
                });
            }
            let mut new = old.clone();
            for (at, len, fill) in edits {
                let end = (at + len).min(new.len());
                new[at..end].fill(fill);
            }
            let mut delta = Vec::new();
            put_delta(&mut delta, has_old.then_some(&old[..]), &new);
            prop_assert!(delta.len() <= 4096 + 4 * 512);
            prop_assert!(apply_delta(&mut old, &delta));
            prop_assert_eq!(old, new);
        }

        #[test]
        fn no_bytes_make_it_panic(delta in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut page = vec![0_u8; 4096];
            let _ = apply_delta(&mut page, &delta);
        }
    }

    #[test]
    fn equal_pages_have_an_empty_delta() {
        let mut delta = Vec::new();
        put_delta(&mut delta, Some(&[7; 65536]), &[7; 65536]);
        put_delta(&mut delta, None, &[0; 4096]);
        assert!(delta.is_empty());
    }
}
