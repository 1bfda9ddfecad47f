//! An entry of the engine: a full key, a sequence number, a kind and its data. This module is pure
//! and knows no file.
//!
//! A *full key* is the number of the keyspace, four bytes big-endian, followed by the user's key:
//! so all keyspaces share one order, each as a range of it. Entries are ordered by full key
//! bytewise ascending, then by sequence number descending: the newest first.

use std::cmp::Ordering;
use std::ops::Bound;

use super::varint::Reader;
use crate::key::{KeyRange, end_of_prefix};

/// The longest key of a user.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 20;
/// The number of a keyspace in front of a key.
pub(crate) const KEYSPACE_BYTES: usize = 4;
/// Sequence numbers stay below this: two bits of a word are for the kind.
pub(crate) const SEQUENCE_END: u64 = 1 << 61;

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The value stands in the entry.
    Inline = 1,
    /// The entry holds a [`Pointer`] to the value, which stands in a log segment.
    Separated = 2,
    /// The key was deleted.
    Tombstone = 3,
}

impl Kind {
    /// The kind of a byte that was read; `None` if there is no such kind.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Inline),
            2 => Some(Self::Separated),
            3 => Some(Self::Tombstone),
            _ => None,
        }
    }
}

/// Where a separated value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pointer {
    /// The number of the segment.
    pub(crate) segment: u32,
    /// Where in it the value begins.
    pub(crate) offset: u64,
    /// The value's length.
    pub(crate) len: u32,
    /// [`value_sum`] of the value.
    pub(crate) sum: u32,
}

impl Pointer {
    /// Its length as bytes.
    pub(crate) const BYTES: usize = 20;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    /// `None` if these bytes are no pointer.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (segment, offset) = (reader.u32()?, reader.u64()?);
        let pointer = Self { segment, offset, len: reader.u32()?, sum: reader.u32()? };
        reader.is_empty().then_some(pointer)
    }
}

/// The checksum of a separated value. It does not depend on where the value stands, so that it
/// stays right when the value is moved.
pub(crate) fn value_sum(value: &[u8]) -> u32 {
    crate::checksum::crc32c(value.len() as u64, value)
}

/// An entry, borrowed from wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The full key.
    pub(crate) key: &'a [u8],
    /// The sequence number.
    pub(crate) seq: u64,
    /// What the entry says.
    pub(crate) kind: Kind,
    /// The value, the bytes of a [`Pointer`], or nothing: as the kind says.
    pub(crate) value: &'a [u8],
}

impl Entry<'_> {
    /// The pointer of a separated entry; `None` if it is another one, or holds no pointer.
    #[inline]
    pub(crate) fn pointer(&self) -> Option<Pointer> {
        (self.kind == Kind::Separated).then(|| Pointer::decode(self.value)).flatten()
    }
}

/// The order of entries.
#[inline]
pub(crate) fn compare(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    order(a.0, b.0).then(b.1.cmp(&a.1))
}

/// With how many bytes both begin.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let first = |differing: u64| differing.trailing_zeros() as usize / 8;
    for (at, (one, other)) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).enumerate() {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return at * 8 + first(differing);
        }
    }
    // What is left is in the last bytes, of which the first ones may have been compared already.
    if let (Some(one), Some(other)) = (a.last_chunk(), b.last_chunk()) {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        return if differing == 0 { len } else { len - 8 + first(differing) };
    }
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What follows `prefix` in a key that begins with it.
#[inline]
pub(crate) fn after<'k>(prefix: &[u8], key: &'k [u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(prefix.len())?;
    (common(front, prefix) == prefix.len()).then_some(rest)
}

/// The order of keys, for keys that are short.
#[inline]
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    let same = common(a, b);
    a.get(same).cmp(&b.get(same))
}

/// The first eight bytes of a key, zeros after its end, as a number that orders like them.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    // Both ends of what there is, which may overlap.
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let last = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - key.len()));
        return u64::from(u32::from_be_bytes(*first)) << 32 | last;
    }
    key.iter().zip([56, 48, 40]).fold(0, |head, (&byte, shift)| head | u64::from(byte) << shift)
}

/// Of keys that ascend, by the [`head`] of each: how many come before another one for certain, and
/// how many may.
#[inline]
pub(crate) fn around(heads: &[u64], key: &[u8]) -> (usize, usize) {
    let head = head(key);
    let low = heads.partition_point(|&other| other < head);
    let same = heads[low..].iter().take_while(|&&other| other == head).count();
    (low, low + same)
}

/// The same of the first 24 bytes: several numbers.
#[inline(always)]
pub(crate) fn heads(key: &[u8]) -> [u64; 3] {
    let word = |at: usize| {
        let bytes = key.get(at..).and_then(|rest| rest.first_chunk());
        u64::from_be_bytes(bytes.copied().unwrap_or_default())
    };
    // What is left before `end`, in the last bytes, of which the first ones may stand in the number
    // before.
    let rest = |end: usize| word(key.len() - 8).unbounded_shl(8 * (end - key.len()) as u32);
    match key.len() {
        24.. => [word(0), word(8), word(16)],
        16..24 => [word(0), word(8), rest(24)],
        8..16 => [word(0), rest(16), 0],
        _ => [head(key), 0, 0],
    }
}

/// The beginning of a key, and its length: this much nearly always tells the order of two keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    heads: [u64; 3],
    len: usize,
}

impl Start {
    #[inline(always)]
    pub(crate) fn of(key: &[u8]) -> Self {
        Self { heads: heads(key), len: key.len() }
    }

    /// The order of two keys; `None` if only their rests tell it, which both have.
    #[inline(always)]
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        for (head, of) in self.heads.iter().zip(&other.heads) {
            if head != of {
                return Some(head.cmp(of));
            }
        }
        // Zeros stand for what a short key does not have.
        let is_told = !self.has_rest() || !other.has_rest();
        is_told.then(|| self.len.cmp(&other.len))
    }

    /// Whether the key has more bytes than its beginning.
    #[inline(always)]
    pub(crate) fn has_rest(&self) -> bool {
        self.len > size_of_val(&self.heads)
    }
}

/// A key up to which entries are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<'k> {
    pub(crate) start: Start,
    /// All of the key, if it has more than its beginning.
    pub(crate) key: &'k [u8],
}

impl<'k> Limit<'k> {
    pub(crate) fn of(key: &'k [u8]) -> Self {
        Self { start: Start::of(key), key }
    }

    /// The order of a key and this one.
    #[inline(always)]
    pub(crate) fn order(&self, key: &[u8]) -> Ordering {
        Start::of(key).order(&self.start).unwrap_or_else(|| order(key, self.key))
    }
}

/// The full key of a user's key.
pub(crate) fn full_key(keyspace: u32, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(KEYSPACE_BYTES + key.len());
    full.extend_from_slice(&keyspace.to_be_bytes());
    full.extend_from_slice(key);
    full
}

/// Calls `f` with the full key of a user's key; most need no memory of their own.
pub(crate) fn with_full_key<R>(keyspace: u32, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
    let mut few = [0; 64];
    match few.get_mut(..KEYSPACE_BYTES + key.len()) {
        Some(full) => {
            full[..KEYSPACE_BYTES].copy_from_slice(&keyspace.to_be_bytes());
            full[KEYSPACE_BYTES..].copy_from_slice(key);
            f(full)
        }
        None => f(&full_key(keyspace, key)),
    }
}

/// The first key after `key` that can exist: a full key, of which none comes after the last one of
/// its keyspace's.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    if key.len() < KEYSPACE_BYTES + KEY_BYTES_MAX {
        key.push(0);
        return key;
    }
    // A keyspace's number has a successor.
    end_of_prefix(&key).unwrap_or_default()
}

/// The full keys of a range of a user's keys: from the first one on, before the second one.
pub(crate) fn full_range(keyspace: u32, keys: &impl KeyRange) -> (Vec<u8>, Vec<u8>) {
    let from = match keys.low() {
        Bound::Included(key) => full_key(keyspace, key),
        Bound::Excluded(key) => successor(full_key(keyspace, key)),
        Bound::Unbounded => full_key(keyspace, &[]),
    };
    let to = match keys.high() {
        Bound::Included(key) => successor(full_key(keyspace, key)),
        Bound::Excluded(key) => full_key(keyspace, key),
        Bound::Unbounded => full_key(keyspace + 1, &[]),
    };
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn the_newest_of_a_key_comes_first() {
        let mut entries = [(&b"b"[..], 1), (b"a", 1), (b"a", 9), (b"ab", 5), (b"", 2)];
        entries.sort_by(|a, b| compare(*a, *b));
        assert_eq!(entries, [(&b""[..], 2), (b"a", 9), (b"a", 1), (b"ab", 5), (b"b", 1)]);
    }

    #[test]
    fn keys_are_compared_as_lists_of_bytes() {
        let mut random = random::numbers(11);
        for _ in 0..if cfg!(miri) { 300 } else { 30_000 } {
            let mut key =
                |end: u64| (0..random(end)).map(|_| random(24) as u8 / 23).collect::<Vec<u8>>();
            let (front, rest, other) = (key(30), key(12), key(12));
            let (a, b) = ([&front[..], &rest].concat(), [&front[..], &other].concat());
            let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            assert_eq!(common(&a, &b), same);
            assert_eq!(order(&a, &b), a.cmp(&b));
            assert_eq!(after(&a, &b), b.strip_prefix(&a[..]));
            assert_eq!(after(&front, &b), Some(&other[..]));
            let filled = |key: &[u8]| {
                let mut filled = [0; 24];
                let len = key.len().min(24);
                filled[..len].copy_from_slice(&key[..len]);
                filled
            };
            assert_eq!(heads(&a).map(u64::to_be_bytes).concat(), filled(&a));
            assert_eq!(head(&other).to_be_bytes(), filled(&other)[..8]);
        }
    }

    #[test]
    fn pointers_are_their_bytes() {
        let pointer = Pointer { segment: 7, offset: 1 << 40, len: 5, sum: 9 };
        assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
        assert_eq!(Pointer::decode(&pointer.encode()[1..]), None);
        assert_eq!(Pointer::decode(&[0; Pointer::BYTES + 1]), None);
    }

    #[test]
    fn the_longest_keys_have_a_successor_too() {
        assert_eq!(successor(full_key(7, b"a")), full_key(7, b"a\0"));
        let mut longest = vec![3; KEY_BYTES_MAX];
        let after = successor(full_key(7, &longest));
        longest[KEY_BYTES_MAX - 1] = 4;
        assert_eq!(after, full_key(7, &longest));
        let last = full_key(7, &vec![u8::MAX; KEY_BYTES_MAX]);
        assert_eq!(successor(last), full_key(8, &[]));
    }

    #[test]
    fn a_range_has_full_keys() {
        assert_eq!(full_range(7, &..), (full_key(7, &[]), full_key(8, &[])));
        assert_eq!(full_range(7, &("a"..="b")), (full_key(7, b"a"), full_key(7, b"b\0")));
        let after = (Bound::Excluded("a"), Bound::Excluded("b"));
        assert_eq!(full_range(7, &after), (full_key(7, b"a\0"), full_key(7, b"b")));
    }
}
