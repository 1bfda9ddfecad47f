//! How keys compare: the three orders that pages know, their heads and common parts.
//!
//! Native integers of one size on a little-endian machine are byte strings compared from their
//! ends, so that [`KeyOrder::Reverse`] serves them too.

use std::cmp::Ordering;

use super::options::Compare;

/// An order of byte strings.
#[derive(Clone)]
pub(crate) enum KeyOrder {
    /// From the front.
    Bytewise,
    /// From the back.
    Reverse,
    /// By a function. Nothing is known of what equal or neighbouring keys share.
    Custom(Compare),
}

impl KeyOrder {
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Reverse => a.iter().rev().cmp(b.iter().rev()),
            Self::Custom(compare) => compare(a, b),
        }
    }
}
