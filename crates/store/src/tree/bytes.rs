//! A byte string in at most two pieces: how keys and values that share a stored prefix are handed
//! out without a copy.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A key or value inside a store: `first` followed by `second`, both borrowed from the page.
///
/// A page stores the prefix that its keys share once, so a key is usually in two pieces. Values of
/// tables without duplicates are in one piece: [`Bytes::as_slice`] gives it.
///
/// ```
/// use hedgerow::tree::Bytes;
/// let key = Bytes::new(b"/usr/share/", b"doc");
/// assert_eq!(key, b"/usr/share/doc");
/// assert_eq!(key.to_vec(), b"/usr/share/doc");
/// ```
#[derive(Clone, Copy, Default)]
pub struct Bytes<'t> {
    first: &'t [u8],
    second: &'t [u8],
}

/// A key or a value in one piece, as the short steps of a [`Cursor`](super::Cursor) give it.
#[derive(Clone, Copy, Debug)]
pub enum Joined<'t> {
    /// It is stored so.
    Stored(&'t [u8]),
    /// It was copied, and has this length.
    Copied(usize),
}

impl<'t> Bytes<'t> {
    /// The string `first` followed by `second`.
    #[inline(always)]
    pub fn new(first: &'t [u8], second: &'t [u8]) -> Self {
        Self { first, second }
    }

    /// Its length in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// True for the empty string.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The two pieces; either may be empty. A string in one piece is usually the first.
    #[inline(always)]
    pub fn parts(&self) -> (&'t [u8], &'t [u8]) {
        (self.first, self.second)
    }

    /// The string in one piece, if it is stored so (values of tables without duplicates are).
    #[inline]
    pub fn as_slice(&self) -> Option<&'t [u8]> {
        if self.second.is_empty() {
            Some(self.first)
        } else if self.first.is_empty() {
            Some(self.second)
        } else {
            None
        }
    }

    /// Borrowed if it is stored in one piece, else copied.
    pub fn to_cow(&self) -> Cow<'t, [u8]> {
        match self.as_slice() {
            Some(whole) => Cow::Borrowed(whole),
            None => Cow::Owned(self.to_vec()),
        }
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len());
        self.append_to(&mut copy);
        copy
    }

    /// Adds the string to the end of `buffer`.
    #[inline]
    pub fn append_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self.first);
        buffer.extend_from_slice(self.second);
    }

    /// Replaces the content of `buffer` with the string.
    #[inline]
    pub fn copy_to(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        self.append_to(buffer);
    }

    /// Its bytes, one by one.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u8> + 't {
        self.first.iter().chain(self.second).copied()
    }

    /// True if the string begins with `prefix`.
    pub fn starts_with(&self, prefix: &[u8]) -> bool {
        let in_first = prefix.len().min(self.first.len());
        self.first[..in_first] == prefix[..in_first] && self.second.starts_with(&prefix[in_first..])
    }

    /// The bytes from `from` up to `to`, which must lie inside.
    #[inline(always)]
    pub(crate) fn sub(&self, from: usize, to: usize) -> Self {
        let cut = self.first.len();
        let first = &self.first[from.min(cut)..to.min(cut)];
        let second = &self.second[from.max(cut) - cut..to.max(cut) - cut];
        Self { first, second }
    }

    /// Copies the string into `out` from `at` on.
    #[inline(always)]
    pub(crate) fn write(&self, out: &mut [u8], at: usize) {
        let cut = at + self.first.len();
        out[at..cut].copy_from_slice(self.first);
        out[cut..cut + self.second.len()].copy_from_slice(self.second);
    }

    /// How many bytes two strings share at their fronts.
    pub(crate) fn shared_front(&self, other: &Self) -> usize {
        let mut done = 0;
        loop {
            let (a, b) = (self.piece_from(done), other.piece_from(done));
            let n = a.len().min(b.len());
            // Two keys of one page have the very same shared bytes.
            let same = std::ptr::eq(a.as_ptr(), b.as_ptr());
            let shared = if same { n } else { shared_front(&a[..n], &b[..n]) };
            done += shared;
            if shared < n || n == 0 {
                return done;
            }
        }
    }

    /// What lies in one piece from `at` on; empty at the end.
    fn piece_from(&self, at: usize) -> &'t [u8] {
        match self.first.get(at..) {
            Some(piece) if !piece.is_empty() => piece,
            _ => self.second.get(at - self.first.len()..).unwrap_or_default(),
        }
    }

    /// How many bytes two strings share at their ends.
    pub(crate) fn shared_back(&self, other: &Self) -> usize {
        self.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count()
    }

    /// Compares from the end with a string in one piece.
    pub(crate) fn cmp_slice_reversed(&self, other: &[u8]) -> Ordering {
        let cut = other.len().saturating_sub(self.second.len());
        let behind = self.second.iter().rev().cmp(other[cut..].iter().rev());
        behind.then_with(|| self.first.iter().rev().cmp(other[..cut].iter().rev()))
    }

    /// Compares bytewise with a string in one piece.
    #[inline]
    pub fn cmp_slice(&self, other: &[u8]) -> Ordering {
        let cut = other.len().min(self.first.len());
        match compare_front(self.first, &other[..cut]) {
            Ordering::Equal => compare_front(self.second, &other[cut..]),
            unequal => unequal,
        }
    }
}

/// How many bytes two slices share at their fronts, eight at a time.
pub(crate) fn shared_front(a: &[u8], b: &[u8]) -> usize {
    let mut done = 0;
    let mut pairs = a.chunks_exact(8).zip(b.chunks_exact(8));
    for (x, y) in &mut pairs {
        let (mut p, mut q) = ([0; 8], [0; 8]);
        p.copy_from_slice(x);
        q.copy_from_slice(y);
        let differ = u64::from_le_bytes(p) ^ u64::from_le_bytes(q);
        if differ != 0 {
            return done + differ.trailing_zeros() as usize / 8;
        }
        done += 8;
    }
    done + a[done..].iter().zip(&b[done..]).take_while(|(x, y)| x == y).count()
}

impl<'t> From<&'t [u8]> for Bytes<'t> {
    #[inline(always)]
    fn from(whole: &'t [u8]) -> Self {
        Self { first: whole, second: &[] }
    }
}

impl<'t> From<&Bytes<'t>> for Vec<u8> {
    fn from(bytes: &Bytes<'t>) -> Self {
        bytes.to_vec()
    }
}

impl PartialEq for Bytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Bytes<'_> {}

impl Ord for Bytes<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match other.as_slice() {
            Some(whole) => self.cmp_slice(whole),
            None => self.iter().cmp(other.iter()),
        }
    }
}

impl PartialOrd for Bytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Bytes<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_cow().hash(state);
    }
}

impl PartialEq<[u8]> for Bytes<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.len() == other.len() && self.cmp_slice(other).is_eq()
    }
}

impl PartialEq<&[u8]> for Bytes<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        *self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Bytes<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Bytes<'_> {
    fn eq(&self, other: &&[u8; N]) -> bool {
        *self == other[..]
    }
}

impl PartialEq<Vec<u8>> for Bytes<'_> {
    fn eq(&self, other: &Vec<u8>) -> bool {
        *self == other[..]
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}{}\"", self.first.escape_ascii(), self.second.escape_ascii())
    }
}

/// Compares two slices from the front, eight bytes at a time: keys are short.
#[inline(always)]
pub(crate) fn compare_front(a: &[u8], b: &[u8]) -> Ordering {
    let n = a.len().min(b.len());
    let lengths = a.len().cmp(&b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut at = 0;
    while at + 8 <= n {
        let (x, y) = (front(a, at), front(b, at));
        if x != y {
            return x.cmp(&y);
        }
        at += 8;
    }
    if n >= 8 {
        // The bytes before are equal, so that looking at some of them again does no harm.
        let (x, y) = (front(a, n - 8), front(b, n - 8));
        if x != y {
            return x.cmp(&y);
        }
    } else {
        for (x, y) in a.iter().zip(b) {
            if x != y {
                return x.cmp(y);
            }
        }
    }
    lengths
}

#[inline(always)]
fn front(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(raw)
}

/// Compares two slices from the back, eight bytes at a time.
#[inline(always)]
pub(crate) fn compare_back(a: &[u8], b: &[u8]) -> Ordering {
    let (mut i, mut j) = (a.len(), b.len());
    while i >= 8 && j >= 8 {
        let (x, y) = (front(a, i - 8).swap_bytes(), front(b, j - 8).swap_bytes());
        if x != y {
            return x.cmp(&y);
        }
        (i, j) = (i - 8, j - 8);
    }
    a[..i].iter().rev().cmp(b[..j].iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_equality_do_not_depend_on_where_the_cut_is() {
        let whole = b"abcabd";
        for i in 0..=6 {
            let a = Bytes::new(&whole[..i], &whole[i..]);
            for j in 0..=6 {
                let b = Bytes::new(&whole[..j], &whole[j..]);
                assert_eq!(a, b);
                assert_eq!(a.cmp(&b), Ordering::Equal);
            }
            assert_eq!(a.cmp_slice(b"abcabc"), Ordering::Greater);
            assert_eq!(a.cmp_slice(b"abcabda"), Ordering::Less);
            assert!(a.starts_with(b"abca") && !a.starts_with(b"abd"));
        }
    }
}
