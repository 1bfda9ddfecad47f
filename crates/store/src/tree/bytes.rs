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

    /// The two pieces; either may be empty.
    #[inline(always)]
    pub fn parts(&self) -> (&'t [u8], &'t [u8]) {
        (self.first, self.second)
    }

    /// The string in one piece, if it is stored so (values of tables without duplicates are).
    #[inline]
    pub fn as_slice(&self) -> Option<&'t [u8]> {
        if self.first.is_empty() {
            Some(self.second)
        } else if self.second.is_empty() {
            Some(self.first)
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

    /// Compares bytewise with a string in one piece.
    #[inline]
    pub fn cmp_slice(&self, other: &[u8]) -> Ordering {
        let cut = other.len().min(self.first.len());
        match self.first.cmp(&other[..cut]) {
            Ordering::Equal => self.second.cmp(&other[cut..]),
            unequal => unequal,
        }
    }
}

impl<'t> From<&'t [u8]> for Bytes<'t> {
    fn from(whole: &'t [u8]) -> Self {
        Self { first: &[], second: whole }
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
