//! What a page is made of whose records were laid out anew: parts of older pages, and what is new
//! in it. Pure functions over bytes.
//!
//! When a leaf is full, its records are spread over its neighbours. Compared word by word with the
//! leaf that it replaces, nearly all of such a page differs; but nearly all of it stands in one of
//! the old leaves, at another place. So the old pages are indexed by strings of [`STRING`] bytes at
//! every [`STEP`]-th place, the new page is searched for these strings at every place, and each one
//! found is extended to both sides (as `rsync` and the compressors of the LZ77 family do it).
//!
//! The list of parts makes the page from left to right: how many bytes follow that are new (u16),
//! how many are then copied (u16), from which old page (u16: its place in the list of pages that
//! comes first), from where in it (u16), and the new bytes.

use crate::coding::{put_u16, put_u32, u16_at, u32_at};

/// The length of the strings that are looked for.
const STRING: usize = 8;
/// An old page is indexed at multiples of this: each part of `STRING + STEP - 1` bytes is found.
const STEP: usize = 32;
/// The head of a part.
const PART_LEN: usize = 8;
/// Where nothing is found for long only some places are looked at: after this many bytes every
/// second one, after twice as many every third one, and so on (as LZ4 does it). A part that is
/// found is extended to those that were left out.
const PACE: usize = 64;
/// Shorter parts are not worth their heads.
const COPY_MIN: usize = 2 * PART_LEN;
/// This many bytes are compared at once.
const BLOCK: usize = 32;
/// The largest number that a u16 holds.
const MOST: usize = u16::MAX as usize;
/// The list of old pages has at most this many.
pub(crate) const SOURCES_MAX: usize = 32;
/// The largest number of a place: there are at most 32 times 2,048.
const NUMBER_MAX: u32 = (1 << 17) - 1;

/// Where strings stand in old pages.
pub(crate) struct Index<'p> {
    sources: Vec<(u32, &'p [u8])>,
    /// By a string's hash: more of the hash, and 1 + the number of its place, counted in steps over
    /// all pages; 0: none.
    places: Vec<u32>,
    /// How many steps a page has, as a power of two.
    steps: u32,
}

impl<'p> Index<'p> {
    /// Indexes pages of one length; those beyond [`SOURCES_MAX`] are left out.
    pub(crate) fn new(mut sources: Vec<(u32, &'p [u8])>) -> Self {
        sources.truncate(SOURCES_MAX);
        let page_len = sources.first().map_or(STEP, |(_, page)| page.len());
        let steps = (page_len / STEP).trailing_zeros();
        let places = vec![0; (2 * sources.len()).next_power_of_two() << steps];
        let mut index = Self { sources, places, steps };
        let strings = index.sources.iter().flat_map(|(_, page)| page.chunks_exact(STEP));
        for (number, string) in (1..).zip(strings) {
            let Some(string) = string.first_chunk() else { break };
            let (slot, tag) = hash(string, index.places.len());
            // Of equal strings the first: what follows it is the longest.
            if index.places[slot] == 0 {
                index.places[slot] = tag | number;
            }
        }
        index
    }

    /// The next place of `new` from `from` on whose string an older page has, in which one, and
    /// where there.
    fn find(&self, new: &[u8], from: usize) -> Option<(usize, (usize, usize))> {
        let places = &self.places[..];
        let mut at = from;
        while let Some(string) = new.get(at..).and_then(<[u8]>::first_chunk::<STRING>) {
            let (slot, tag) = hash(string, places.len());
            let place = places[slot];
            // Most are something else.
            if (place ^ tag) & !NUMBER_MAX == 0
                && let Some(number) = (place & NUMBER_MAX).checked_sub(1)
            {
                let number = number as usize;
                let (source, from) = (number >> self.steps, number % (1 << self.steps) * STEP);
                if self.sources[source].1[from..from + STRING] == *string {
                    return Some((at, (source, from)));
                }
            }
            at += 1 + (at - from) / PACE;
        }
        None
    }

    /// Adds the list of parts that makes `new`, which is as long as the old pages.
    pub(crate) fn put_parts(&self, out: &mut Vec<u8>, new: &[u8]) {
        let start = out.len();
        out.resize(start + 4 + 4 * self.sources.len(), 0);
        put_u32(&mut out[start..], 0, self.sources.len() as u32);
        for (i, (no, _)) in self.sources.iter().enumerate() {
            put_u32(&mut out[start..], 4 + 4 * i, *no);
        }
        // Without old pages there is nothing to look for.
        let mut from = if self.sources.is_empty() { new.len() } else { 0 };
        let mut done = 0;
        while let Some((at, found)) = self.find(new, from) {
            let copy = self.extend(new, done, at, found);
            from = at + 1;
            if copy.len >= COPY_MIN {
                put_new(out, &new[done..copy.at], &copy);
                done = copy.at + copy.len;
                from = done;
            }
        }
        if done < new.len() {
            put_new(out, &new[done..], &Copy::default());
        }
    }

    /// Extends a string that was found to both sides, but not to before `done`.
    fn extend(&self, new: &[u8], done: usize, at: usize, found: (usize, usize)) -> Copy {
        let (source, from) = found;
        let old = self.sources[source].1;
        let back = same_len_back(&new[done..at], &old[..from]);
        let after = STRING + same_len(&new[at + STRING..], &old[from + STRING..]);
        let len = (back + after).min(MOST);
        Copy { source, from: from - back, at: at - back, len }
    }
}

/// A part that is copied.
#[derive(Default)]
struct Copy {
    source: usize,
    from: usize,
    /// Where it stands in the new page.
    at: usize,
    len: usize,
}

/// The slot of a string, and what of its hash stands there.
#[inline(always)]
fn hash(string: &[u8; STRING], slots: usize) -> (usize, u32) {
    let hash = u64::from_le_bytes(*string).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash >> 32) as usize & (slots - 1), (hash >> 24) as u32 & !NUMBER_MAX)
}

/// How many bytes two strings have in common at their beginning.
fn same_len(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let blocks = a.as_chunks::<BLOCK>().0.iter().zip(b.as_chunks::<BLOCK>().0);
    let mut same = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    while let (Some(one), Some(other)) = (a[same..].first_chunk(), b[same..].first_chunk()) {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return same + differ.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// The same at their end.
fn same_len_back(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[a.len() - len..], &b[b.len() - len..]);
    let mut same = 0;
    while let (Some(one), Some(other)) =
        (a[..len - same].last_chunk(), b[..len - same].last_chunk())
    {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return same + differ.leading_zeros() as usize / 8;
        }
        same += 8;
    }
    let rest = a[..len - same].iter().rev().zip(b[..len - same].iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Adds bytes that are new, and what is copied after them.
fn put_new(out: &mut Vec<u8>, mut new: &[u8], copy: &Copy) {
    // A page of 64 KiB may be new as a whole.
    while new.len() > MOST {
        put_part(out, &new[..MOST], &Copy::default());
        new = &new[MOST..];
    }
    put_part(out, new, copy);
}

fn put_part(out: &mut Vec<u8>, new: &[u8], copy: &Copy) {
    let at = out.len();
    out.resize(at + PART_LEN, 0);
    let head = &mut out[at..];
    put_u16(head, 0, new.len() as u16);
    put_u16(head, 2, copy.len as u16);
    put_u16(head, 4, copy.source as u16);
    put_u16(head, 6, copy.from as u16);
    out.extend_from_slice(new);
}

/// The old pages that a list of parts takes from, and the parts; `None` if it is no such list.
pub(crate) fn sources(list: &[u8]) -> Option<(Vec<u32>, &[u8])> {
    let (head, rest) = list.split_at_checked(4)?;
    let count = u32_at(head, 0) as usize;
    let (pages, parts) = rest.split_at_checked(4 * count.min(SOURCES_MAX + 1))?;
    let pages: Vec<u32> = pages.chunks_exact(4).map(|no| u32_at(no, 0)).collect();
    (pages.len() <= SOURCES_MAX).then_some((pages, parts))
}

/// Makes a page of old ones. False if the parts are none of a page of that length.
pub(crate) fn apply_parts(page: &mut [u8], sources: &[Vec<u8>], parts: &[u8]) -> bool {
    filled(page, sources, parts).is_some_and(|rest| rest.is_empty())
}

/// Fills a page from left to right; what is left of it.
fn filled<'p>(
    mut page: &'p mut [u8],
    sources: &[Vec<u8>],
    mut parts: &[u8],
) -> Option<&'p mut [u8]> {
    while !parts.is_empty() {
        let (head, rest) = parts.split_at_checked(PART_LEN)?;
        let field = |i: usize| usize::from(u16_at(head, 2 * i));
        let (new, rest) = rest.split_at_checked(field(0))?;
        let (place, behind) = page.split_at_mut_checked(new.len())?;
        place.copy_from_slice(new);
        let (place, behind) = behind.split_at_mut_checked(field(1))?;
        if !place.is_empty() {
            let from = field(3);
            place.copy_from_slice(sources.get(field(2))?.get(from..from + place.len())?);
        }
        (page, parts) = (behind, rest);
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    //! Parts make the page that they were taken from, they are short where records were moved, and
    //! no bytes make them panic.

    use proptest::prelude::*;

    use super::*;

    fn random(seed: u64, len: usize) -> Vec<u8> {
        let mut number = seed | 1;
        let mut next = || {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (number >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn is_made_of(old: &[Vec<u8>], new: &[u8]) -> usize {
        let pages = (7..).zip(old).map(|(no, page)| (no, &page[..])).collect();
        let mut list = vec![];
        Index::new(pages).put_parts(&mut list, new);
        let (found, parts) = sources(&list).unwrap();
        let kept = &old[..old.len().min(SOURCES_MAX)];
        assert!(found.iter().copied().eq((7..).take(kept.len())));
        let mut page = vec![0; new.len()];
        assert!(apply_parts(&mut page, kept, parts));
        assert_eq!(page, new);
        parts.len()
    }

    #[test]
    fn records_that_moved_cost_a_few_bytes_each() {
        let old = [random(1, 4096), random(2, 4096)];
        // Every second record of 170 bytes of each page.
        let records =
            |page: &[u8]| page.chunks(170).step_by(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let moved: Vec<Vec<u8>> = old.iter().flat_map(|page| records(page)).collect();
        let new = &moved.concat()[..4096];
        // The last one of the first page is too short to be found.
        assert!(is_made_of(&old, new) <= 25 * PART_LEN + 16 + 170);
    }

    #[test]
    fn pages_of_all_lengths_that_are_new_or_equal() {
        for len in [256, 4096, 65_536] {
            let old = [random(1, len)];
            assert!(is_made_of(&old, &old[0]) <= 2 * PART_LEN + 1);
            assert!(is_made_of(&old, &random(3, len)) <= len + 2 * PART_LEN);
            assert!(is_made_of(&[], &random(3, len)) <= len + 2 * PART_LEN);
            assert!(is_made_of(&[vec![0; len]], &vec![0; len]) <= 2 * PART_LEN + 1);
        }
        is_made_of(&vec![random(5, 256); SOURCES_MAX + 3], &random(5, 256));
    }

    #[test]
    fn strings_have_in_common_what_a_loop_over_their_bytes_says() {
        for round in 0..2000_usize {
            let one = random(round as u64, 1 + round % 90);
            let mut other = one.clone();
            let at = round * 7 % one.len();
            other[at] ^= 1;
            let cut = round % 3 * (round % 5);
            other.extend(vec![1; cut]);
            assert_eq!(same_len(&one, &other), at);
            assert_eq!(same_len(&one, &one[..at]), at);
            let back = one.len() - at - 1;
            assert_eq!(same_len_back(&one, &other[..one.len()]), back);
            let longer = [&vec![2; cut][..], &one].concat();
            assert_eq!(same_len_back(&one, &longer), one.len());
        }
    }

    proptest! {
        #[test]
        fn parts_make_the_new_page(
            seed in any::<u64>(),
            cuts in prop::collection::vec((0..3_usize, 0..4096_usize, 0..600_usize), 0..40),
        ) {
            let old = [random(seed, 4096), random(!seed, 4096)];
            let mut new = vec![];
            for (source, at, len) in cuts {
                let end = (at + len).min(4096);
                match old.get(source) {
                    Some(page) => new.extend_from_slice(&page[at..end]),
                    None => new.extend(random(at as u64, len)),
                }
            }
            new.resize(4096, 0);
            is_made_of(&old, &new);
        }

        #[test]
        fn no_bytes_make_it_panic(list in prop::collection::vec(any::<u8>(), 0..200)) {
            let old = [random(1, 256)];
            let mut page = vec![0; 256];
            if let Some((_, parts)) = sources(&list) {
                apply_parts(&mut page, &old, parts);
            }
            apply_parts(&mut page, &old, &list);
        }
    }
}
