//! Range tombstones: which keys a set of deleted ranges covers, and since when. This module is pure
//! and knows no file.

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

#[derive(Clone, Debug)]
struct Piece {
    start: Vec<u8>,
    end: Vec<u8>,
    /// The sequence numbers of all tombstones over this piece, the newest first.
    seqs: Vec<u64>,
}

impl Pieces {
    pub(crate) fn new(tombstones: &[Tombstone]) -> Self {
        let mut cuts: Vec<&[u8]> =
            tombstones.iter().flat_map(|t| [t.start.as_slice(), t.end.as_slice()]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut seqs: Vec<Vec<u64>> = vec![Vec::new(); cuts.len()];
        for tombstone in tombstones {
            let from = cuts.partition_point(|cut| *cut < tombstone.start.as_slice());
            let to = cuts.partition_point(|cut| *cut < tombstone.end.as_slice());
            seqs[from..to].iter_mut().for_each(|seqs| seqs.push(tombstone.seq));
        }
        let pieces = cuts.windows(2).zip(seqs).filter(|(_, seqs)| !seqs.is_empty());
        let pieces = pieces.map(|(cuts, mut seqs)| {
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            Piece { start: cuts[0].to_vec(), end: cuts[1].to_vec(), seqs }
        });
        Self { pieces: pieces.collect() }
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
        let behind = self.pieces.partition_point(|piece| piece.start.as_slice() <= key);
        let Some(piece) = behind.checked_sub(1).and_then(|last| self.pieces.get(last)) else {
            return 0;
        };
        if key >= piece.end.as_slice() {
            return 0;
        }
        piece.seqs.iter().copied().find(|&seq| seq <= at).unwrap_or(0)
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

    /// The ranges over which there is a tombstone that is newer than `after`, but not than `at`.
    pub(crate) fn newer(&self, after: u64, at: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_newer = move |piece: &&Piece| piece.seqs.iter().any(|&seq| after < seq && seq <= at);
        self.pieces.iter().filter(is_newer).map(|piece| (&*piece.start, &*piece.end))
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
        for piece in &self.pieces {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: &[u8], end: &[u8], seq: u64) -> Tombstone {
        Tombstone { start: start.to_vec(), end: end.to_vec(), seq }
    }

    #[test]
    fn pieces_answer_as_a_list_does() {
        let mut state = 7_u64;
        let mut random = |end: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % end
        };
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
        }
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
