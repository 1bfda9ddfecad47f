//! Range tombstones: which keys a set of deleted ranges covers, and since when. This module is pure
//! and knows no file.

use std::collections::BTreeSet;

use super::table::Bounds;
use super::varint::{self, Reader};

/// A range of full keys that was deleted: every older entry in it is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tombstone {
    /// The first key that is deleted.
    pub(crate) start: Vec<u8>,
    /// The first key after it that is not.
    pub(crate) end: Vec<u8>,
    /// Its sequence number.
    pub(crate) seq: u64,
}

impl Tombstone {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        varint::push_bytes(bytes, &self.start);
        varint::push_bytes(bytes, &self.end);
        varint::push(bytes, self.seq);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (start, end) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
        let tombstone = Self { start, end, seq: reader.number()? };
        (tombstone.start < tombstone.end).then_some(tombstone)
    }
}

/// Range tombstones cut at each other's ends, so that a key lies in one piece at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    /// Ascending, not overlapping.
    pieces: Vec<Piece>,
}

/// What a reader sees to lie over the keys from `start` on and before `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cover<'p> {
    pub(crate) start: &'p [u8],
    pub(crate) end: &'p [u8],
    /// The sequence number of the newest tombstone: every older entry is hidden.
    pub(crate) seq: u64,
}

#[derive(Clone, Debug)]
struct Piece {
    start: Vec<u8>,
    end: Vec<u8>,
    /// The sequence numbers of the tombstones over this piece that readers need, the newest first.
    seqs: Vec<u64>,
}

impl Pieces {
    /// For readers at any sequence number.
    pub(crate) fn new(tombstones: &[Tombstone]) -> Self {
        Self::of_classes(tombstones, |seq| seq)
    }

    /// For readers that see everything. The work grows with the number of tombstones, however many
    /// of them lie over each other.
    pub(crate) fn newest(tombstones: &[Tombstone]) -> Self {
        Self::of_classes(tombstones, |_| 0)
    }

    /// For readers that see of each class of sequence numbers all or nothing: over each key the
    /// newest tombstone of a class stands for the others of it. `class` must not descend.
    pub(crate) fn of_classes(tombstones: &[Tombstone], class: impl Fn(u64) -> u64) -> Self {
        let mut cuts: Vec<(&[u8], bool, usize)> = Vec::with_capacity(2 * tombstones.len());
        let whole = tombstones.iter().enumerate().filter(|(_, t)| t.start < t.end);
        for (at, tombstone) in whole {
            cuts.push((&tombstone.start, true, at));
            cuts.push((&tombstone.end, false, at));
        }
        cuts.sort_unstable();
        // Those over the keys that come next: class, sequence number, and place in the list.
        let mut over: BTreeSet<(u64, u64, usize)> = BTreeSet::new();
        let mut pieces = Self::default();
        let mut start: &[u8] = &[];
        for (key, begins, at) in cuts {
            if start < key {
                pieces.push(start, key, newest_of_classes(&over));
                start = key;
            }
            let seq = tombstones[at].seq;
            let one = (class(seq), seq, at);
            if begins {
                over.insert(one)
            } else {
                over.remove(&one)
            };
        }
        pieces
    }

    /// Both together, for readers that each of the two is for.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let all = || self.pieces.iter().chain(&other.pieces);
        let mut cuts: Vec<&[u8]> = all().flat_map(|piece| [&*piece.start, &*piece.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let (mut here, mut there) = (self.pieces.as_slice(), other.pieces.as_slice());
        let mut joined = Self::default();
        for cut in cuts.windows(2) {
            let mut seqs = [over(&mut here, cut[0]), over(&mut there, cut[0])].concat();
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            joined.push(cut[0], cut[1], seqs);
        }
        joined
    }

    /// Adds a piece behind all others; one that goes on as the last one does makes that longer.
    fn push(&mut self, start: &[u8], end: &[u8], seqs: Vec<u64>) {
        if seqs.is_empty() {
            return;
        }
        match self.pieces.last_mut().filter(|last| last.end == start && last.seqs == seqs) {
            Some(last) => last.end = end.to_vec(),
            None => self.pieces.push(Piece { start: start.to_vec(), end: end.to_vec(), seqs }),
        }
    }

    /// How many sequence numbers all pieces have.
    pub(crate) fn weight(&self) -> usize {
        self.pieces.iter().map(|piece| piece.seqs.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        let of = |piece: &Piece| {
            size_of::<Piece>() + piece.start.len() + piece.end.len() + 8 * piece.seqs.len()
        };
        self.pieces.iter().map(of).sum()
    }

    /// The newest tombstone over `key` that a reader at `at` sees; 0 if there is none.
    pub(crate) fn cover(&self, key: &[u8], at: u64) -> u64 {
        self.over(key, at).map_or(0, |cover| cover.seq)
    }

    /// The same, with the keys around this one over which it also is the newest.
    pub(crate) fn over(&self, key: &[u8], at: u64) -> Option<Cover<'_>> {
        let behind = self.pieces.partition_point(|piece| piece.start.as_slice() <= key);
        let piece = self.pieces.get(behind.checked_sub(1)?)?;
        if key >= piece.end.as_slice() {
            return None;
        }
        let seq = piece.seqs.iter().copied().find(|&seq| seq <= at)?;
        Some(Cover { start: &piece.start, end: &piece.end, seq })
    }

    /// Whether a reader at `at`, and every later one, sees nothing at all in `bounds` of what has
    /// sequence numbers up to `last_seq`.
    pub(crate) fn hide(&self, bounds: &Bounds, last_seq: u64, at: u64) -> bool {
        let from = self.pieces.partition_point(|piece| piece.end <= bounds.first);
        let mut reached = &bounds.first;
        for piece in &self.pieces[from..] {
            if piece.start > *reached || !piece.seqs.iter().any(|&seq| seq > last_seq && seq <= at)
            {
                return false;
            }
            reached = &piece.end;
            if *reached > bounds.last || bounds.excludes_last && *reached == bounds.last {
                return true;
            }
        }
        false
    }

    /// The ranges over which there is a tombstone that is newer than `after`, but not than `at`: of
    /// those with a part from one key on and before another one.
    pub(crate) fn newer<'a>(
        &'a self,
        (after, at): (u64, u64),
        (from, to): (&[u8], &[u8]),
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let is_newer = move |piece: &&Piece| piece.seqs.iter().any(|&seq| after < seq && seq <= at);
        let begin = self.pieces.partition_point(|piece| piece.end.as_slice() <= from);
        let end = self.pieces.partition_point(|piece| piece.start.as_slice() < to);
        let met = self.pieces.get(begin..end).unwrap_or_default();
        met.iter().filter(is_newer).map(|piece| (&*piece.start, &*piece.end))
    }

    /// The tombstones again, cut to the keys from `low` on and before `high`, those left out of
    /// whose sequence numbers `keep` leaves nothing.
    pub(crate) fn within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        keep: impl Fn(&[u64]) -> Vec<u64>,
    ) -> Vec<Tombstone> {
        let mut found = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.end.as_slice() <= low);
        let is_before = |piece: &&Piece| high.is_none_or(|high| piece.start.as_slice() < high);
        for piece in self.pieces[first..].iter().take_while(is_before) {
            let start = piece.start.as_slice().max(low);
            let end = high.map_or(piece.end.as_slice(), |high| piece.end.as_slice().min(high));
            if start < end {
                let cut = |seq| Tombstone { start: start.to_vec(), end: end.to_vec(), seq };
                found.extend(keep(&piece.seqs).into_iter().map(cut));
            }
        }
        found
    }
}

/// Of the tombstones that are open, the newest one of each class; the newest first.
fn newest_of_classes(over: &BTreeSet<(u64, u64, usize)>) -> Vec<u64> {
    let mut seqs = Vec::new();
    let mut next = over.last();
    while let Some(&(class, seq, _)) = next {
        seqs.push(seq);
        next = over.range(..(class, 0, 0)).next_back();
    }
    seqs
}

/// The sequence numbers over the keys from a cut on. Pieces that end before it are passed by.
fn over<'p>(pieces: &mut &'p [Piece], cut: &[u8]) -> &'p [u64] {
    while let Some((first, behind)) = pieces.split_first() {
        if first.end.as_slice() > cut {
            return if first.start.as_slice() <= cut { &first.seqs } else { &[] };
        }
        *pieces = behind;
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    fn tombstone(start: &[u8], end: &[u8], seq: u64) -> Tombstone {
        Tombstone { start: start.to_vec(), end: end.to_vec(), seq }
    }

    #[test]
    fn pieces_answer_as_a_list_does() {
        let mut random = random::numbers(7);
        for _ in 0..200 {
            let list: Vec<Tombstone> = (0..random(12))
                .map(|_| {
                    let start = random(20) as u8;
                    tombstone(&[start], &[start + 1 + random(5) as u8], 1 + random(30))
                })
                .collect();
            let pieces = Pieces::new(&list);
            let again = Pieces::new(&pieces.within(b"", None, <[u64]>::to_vec));
            for key in 0..26_u8 {
                for at in [0, 5, 15, 31] {
                    let over = list.iter().filter(|t| t.seq <= at);
                    let over = over.filter(|t| t.start <= vec![key] && vec![key] < t.end);
                    let expected = over.map(|t| t.seq).max().unwrap_or(0);
                    assert_eq!(pieces.cover(&[key], at), expected);
                    assert_eq!(again.cover(&[key], at), expected);
                }
            }
            let from = random(26) as u8;
            let to = from + 1 + random(9) as u8;
            let all = pieces.newer((5, 15), (&[], &[255]));
            let met: Vec<_> = all.filter(|(a, b)| a[0] < to && b[0] > from).collect();
            let newer = pieces.newer((5, 15), (&[from], &[to]));
            assert_eq!(newer.collect::<Vec<_>>(), met);
        }
    }

    #[test]
    fn pieces_for_some_readers_answer_them_as_all_do() {
        let mut random = random::numbers(11);
        for _ in 0..200 {
            let mut list: Vec<Tombstone> = Vec::new();
            for seq in 1..=random(40) {
                let start = random(20) as u8;
                list.push(tombstone(&[start], &[start + 1 + random(9) as u8], seq));
            }
            let all = Pieces::new(&list);
            let tens = Pieces::of_classes(&list, |seq| seq / 10);
            let (even, odd): (Vec<_>, Vec<_>) = list.iter().cloned().partition(|t| t.seq % 2 == 0);
            let joined = Pieces::new(&even).join(&Pieces::new(&odd));
            for key in 0..32_u8 {
                for at in 0..42 {
                    assert_eq!(joined.cover(&[key], at), all.cover(&[key], at));
                }
                for at in [9, 19, 29, 39, 49] {
                    assert_eq!(tens.cover(&[key], at), all.cover(&[key], at));
                }
                let newest = Pieces::newest(&list);
                assert_eq!(newest.cover(&[key], u64::MAX), all.cover(&[key], u64::MAX));
            }
        }
    }

    #[test]
    fn ranges_within_each_other_are_no_more_pieces_than_their_ends() {
        let nested = |n: u32| {
            let (start, end) = (n.to_be_bytes(), (u32::MAX - n).to_be_bytes());
            tombstone(&start, &end, u64::from(n) + 1)
        };
        let list: Vec<Tombstone> = (0..20_000).map(nested).collect();
        let pieces = Pieces::newest(&list);
        assert_eq!(
            (pieces.pieces.len(), pieces.weight()),
            (2 * list.len() - 1, 2 * list.len() - 1)
        );
        let inwards: Vec<Tombstone> =
            (0..20_000).map(|n| Tombstone { seq: u64::MAX >> 4, ..nested(n) }).collect();
        assert_eq!(Pieces::newest(&inwards).pieces.len(), 1, "the same over all of it");
    }

    #[test]
    fn what_lies_under_newer_ranges_is_hidden() {
        let list = [tombstone(b"b", b"f", 5), tombstone(b"f", b"m", 9), tombstone(b"d", b"g", 7)];
        let pieces = Pieces::new(&list);
        let bounds = |first: &[u8], last: &[u8], excludes_last| Bounds {
            first: first.to_vec(),
            last: last.to_vec(),
            excludes_last,
        };
        assert!(pieces.hide(&bounds(b"b", b"lzz", false), 4, 20), "three ranges, side by side");
        assert!(pieces.hide(&bounds(b"b", b"m", true), 4, 20));
        assert!(!pieces.hide(&bounds(b"b", b"m", false), 4, 20), "the end itself stays");
        assert!(!pieces.hide(&bounds(b"a", b"c", false), 4, 20), "it begins before");
        assert!(!pieces.hide(&bounds(b"b", b"lzz", false), 5, 20), "something there is as new");
        assert!(!pieces.hide(&bounds(b"b", b"lzz", false), 4, 8), "a reader sees from before");
        assert!(pieces.hide(&bounds(b"d", b"e", false), 6, 7));
        assert!(!Pieces::default().hide(&bounds(b"", b"", false), 0, 20));
    }

    #[test]
    fn pieces_are_cut() {
        let pieces = Pieces::new(&[tombstone(b"a", b"m", 5), tombstone(b"c", b"e", 9)]);
        let cut = pieces.within(b"d", Some(b"f"), |seqs| seqs[..1].to_vec());
        assert_eq!(cut, [tombstone(b"d", b"e", 9), tombstone(b"e", b"f", 5)]);
        assert!(pieces.within(b"m", None, <[u64]>::to_vec).is_empty());
    }

    #[test]
    fn tombstones_are_their_bytes() {
        let mut bytes = Vec::new();
        tombstone(b"a", b"b", 3).encode(&mut bytes);
        assert_eq!(Tombstone::decode(&mut Reader::new(&bytes)), Some(tombstone(b"a", b"b", 3)));
        let mut backwards = Vec::new();
        tombstone(b"b", b"a", 3).encode(&mut backwards);
        assert_eq!(Tombstone::decode(&mut Reader::new(&backwards)), None);
    }
}
