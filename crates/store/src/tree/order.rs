//! How keys compare: the three orders that pages know, their heads and common parts.
//!
//! Little-endian integers of one size are byte strings compared from their ends, so that
//! [`KeyOrder::Reverse`] serves them too.

use std::cmp::Ordering;

use super::Bytes;
use super::options::{AnySearch, Compare};

/// An order of byte strings.
#[derive(Clone)]
pub(crate) enum KeyOrder {
    /// From the front.
    Bytewise,
    /// From the back.
    Reverse,
    /// By a function. Nothing is known of what equal or neighbouring keys share.
    Custom(Custom),
}

/// An order by a function of the caller's.
#[derive(Clone)]
pub(crate) struct Custom {
    pub(crate) compare: Compare,
    /// The same order, for a search among the keys of a page.
    pub(crate) search: Option<AnySearch>,
}

impl KeyOrder {
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Reverse => a.iter().rev().cmp(b.iter().rev()),
            Self::Custom(by) => (by.compare)(a, b),
        }
    }
}

impl KeyOrder {
    /// As [`Self::compare`], with a string in two pieces.
    #[inline]
    pub(crate) fn compare_bytes(&self, a: &Bytes<'_>, b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp_slice(b),
            Self::Reverse => a.cmp_slice_reversed(b),
            Self::Custom(by) => (by.compare)(&a.to_cow(), b),
        }
    }

    /// How many bytes two strings share on the side from which they are compared.
    pub(crate) fn shared(&self, a: &Bytes<'_>, b: &Bytes<'_>) -> usize {
        match self {
            Self::Bytewise => a.shared_front(b),
            Self::Reverse => a.shared_back(b),
            Self::Custom(_) => 0,
        }
    }

    /// What a key has besides the shared bytes of a page; `None` if it does not have those.
    #[inline(always)]
    pub(crate) fn strip<'k>(&self, key: &'k [u8], shared: &[u8]) -> Option<&'k [u8]> {
        match self {
            _ if shared.is_empty() => Some(key),
            Self::Bytewise => key.strip_prefix(shared),
            Self::Reverse => key.strip_suffix(shared),
            // Nothing is shared, but on a damaged page.
            Self::Custom(_) => None,
        }
    }

    pub(crate) fn is_reverse(&self) -> bool {
        matches!(self, Self::Reverse)
    }
}

/// The first four bytes of `rest` as a number that orders like it; shorter ones end in zeros.
#[inline(always)]
pub(crate) fn head_of(rest: &[u8]) -> u32 {
    if let Some(four) = rest.first_chunk::<4>() {
        return u32::from_be_bytes(*four);
    }
    let mut four = [0; 4];
    four[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(four)
}

/// As [`head_of`], from the back.
#[inline(always)]
pub(crate) fn head_of_reversed(rest: &[u8]) -> u32 {
    if let Some(four) = rest.last_chunk::<4>() {
        return u32::from_le_bytes(*four);
    }
    let mut four = [0; 4];
    four[4 - rest.len()..].copy_from_slice(rest);
    u32::from_le_bytes(four)
}

/// How the pairs of a tree are ordered, and how its leaves keep them.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) keys: KeyOrder,
    /// `Some` if a key may have several values.
    pub(crate) values: Option<KeyOrder>,
    pub(crate) leaves: Leaves,
}

/// How leaves keep keys and values. (Branches share bytes of separators in all cases: these are
/// never handed out.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Keys of a leaf, and values of a key, keep the bytes that they share once.
    Compressed,
    /// Each stands in one piece: nothing is shared.
    Whole,
    /// The same, at even addresses.
    Aligned,
    /// As [`Leaves::Whole`], without heads: under an order that is a caller's function.
    Headless,
}

impl Form {
    /// Bytewise order, one value a key: the form of the catalog and of the free-space trees.
    pub(crate) const PLAIN: Self =
        Self { keys: KeyOrder::Bytewise, values: None, leaves: Leaves::Compressed };

    /// Whether keys and values stand in the leaves in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        self.leaves != Leaves::Compressed
    }

    /// How many bytes of two keys a leaf that has both keeps once.
    pub(crate) fn shared_of_keys(&self, a: &Bytes<'_>, b: &Bytes<'_>) -> usize {
        if self.is_whole() { 0 } else { self.keys.shared(a, b) }
    }

    /// How many bytes of two values of a key a group that has both keeps once.
    pub(crate) fn shared_of_values(&self, a: &Bytes<'_>, b: &Bytes<'_>) -> usize {
        match &self.values {
            Some(order) if !self.is_whole() => order.shared(a, b),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::bytes::{compare_back, compare_front};

    #[test]
    fn fast_compares_agree_with_plain_ones() {
        let mut seed = 1_u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize
        };
        for _ in 0..20_000 {
            let a: Vec<u8> = (0..next() % 20).map(|_| (next() % 2) as u8 * 255).collect();
            let b: Vec<u8> = (0..next() % 20).map(|_| (next() % 2) as u8 * 255).collect();
            assert_eq!(compare_front(&a, &b), a.cmp(&b));
            let reversed = a.iter().rev().cmp(b.iter().rev());
            assert_eq!(compare_back(&a, &b), reversed);
            for cut in 0..=a.len() {
                let parts = Bytes::new(&a[..cut], &a[cut..]);
                assert_eq!(parts.cmp_slice(&b), a.cmp(&b));
                assert_eq!(parts.cmp_slice_reversed(&b), reversed);
            }
        }
    }
}
