//! What tells a page apart from another one, in words of eight bytes: pure functions over bytes.
//!
//! A delta is a list of pieces: how many words are the same (u16), how many follow (u16), these.

use crate::coding::{put_u16, u16_at};

const WORD: usize = 8;
type Word = [u8; WORD];
/// This many words are compared at once where pages are the same.
const BLOCK: usize = 8;
/// At most this many equal words between two pieces cost no more than another piece.
const GAP: usize = 1;

/// Adds what tells `new` apart from `old`, or from zeros, to `out`. Both are of the same length, a
/// multiple of 64.
pub(crate) fn put_delta(out: &mut Vec<u8>, old: Option<&[u8]>, new: &[u8]) {
    let new = new.as_chunks().0;
    match old {
        Some(old) => {
            let old = &old.as_chunks().0[..new.len()];
            put_pieces(out, new, |at| old[at]);
        }
        None => put_pieces(out, new, |_| [0; WORD]),
    }
}

/// Adds the pieces of words that differ from the old ones.
#[inline(always)]
fn put_pieces(out: &mut Vec<u8>, new: &[Word], old: impl Fn(usize) -> Word) {
    let mut done = 0;
    while let Some(start) = next_difference(new, &old, done) {
        let (mut end, mut same) = (start + 1, 0);
        while end + same < new.len() && same <= GAP {
            if new[end + same] == old(end + same) {
                same += 1;
            } else {
                (end, same) = (end + same + 1, 0);
            }
        }
        put_piece(out, start - done, &new[start..end]);
        done = end;
    }
}

fn put_piece(out: &mut Vec<u8>, skip: usize, words: &[Word]) {
    let at = out.len();
    out.resize(at + 4, 0);
    put_u16(&mut out[at..], 0, skip as u16);
    put_u16(&mut out[at..], 2, words.len() as u16);
    out.extend_from_slice(words.as_flattened());
}

/// The next word from `from` on that differs.
#[inline(always)]
fn next_difference(new: &[Word], old: &impl Fn(usize) -> Word, from: usize) -> Option<usize> {
    let mut at = from;
    let number = |word: Word| u64::from_le_bytes(word);
    while at + BLOCK <= new.len() {
        let differ = (at..at + BLOCK).fold(0, |all, i| all | (number(new[i]) ^ number(old(i))));
        if differ != 0 {
            break;
        }
        at += BLOCK;
    }
    (at..new.len()).find(|i| new[*i] != old(*i))
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
