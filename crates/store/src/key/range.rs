//! Ranges of keys as byte strings.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: what Rust writes as `..`, `low..high`, `low..=high`, `low..`, `..high` or
/// `..=high` of anything that is a byte string; a pair of [`Bound`]s; or a [`prefix`].
///
/// ```
/// use hedgerow::key::{KeyRange, prefix};
/// use std::ops::Bound;
///
/// assert_eq!(("a".."c").high(), Bound::Excluded(&b"c"[..]));
/// assert_eq!(prefix("ab").high(), Bound::Excluded(&b"ac"[..]));
/// ```
pub trait KeyRange {
    /// The lower bound.
    fn low(&self) -> Bound<&[u8]>;
    /// The upper bound.
    fn high(&self) -> Bound<&[u8]>;
}

impl KeyRange for RangeFull {
    fn low(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn high(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn low(&self) -> Bound<&[u8]> {
        self.0.as_ref().map(AsRef::as_ref)
    }

    fn high(&self) -> Bound<&[u8]> {
        self.1.as_ref().map(AsRef::as_ref)
    }
}

/// Implements it for the ranges of the standard library that have a bound of some type.
macro_rules! key_range {
    ($($name:ident),*) => { $(
        impl<K: AsRef<[u8]>> KeyRange for $name<K> {
            fn low(&self) -> Bound<&[u8]> {
                self.start_bound().map(AsRef::as_ref)
            }

            fn high(&self) -> Bound<&[u8]> {
                self.end_bound().map(AsRef::as_ref)
            }
        }
    )* };
}

key_range!(Range, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn low(&self) -> Bound<&[u8]> {
        (**self).low()
    }

    fn high(&self) -> Bound<&[u8]> {
        (**self).high()
    }
}

/// The keys that begin with some bytes; made by [`prefix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    low: Vec<u8>,
    high: Bound<Vec<u8>>,
}

/// The keys that begin with `bytes`, in a table in bytewise order.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::key::prefix;
/// use hedgerow::tree::{Snapshot, TableOptions};
///
/// let mut txn = store.begin_write()?;
/// let files = txn.create_table("files", &TableOptions::new())?;
/// for name in ["bin/awk", "etc/fstab", "etc/hosts"] {
///     txn.put(files, name.as_bytes(), b"")?;
/// }
/// assert_eq!(txn.count_range(files, prefix("etc/"))?.keys, 2);
/// # Ok(()) }
/// ```
pub fn prefix(bytes: impl AsRef<[u8]>) -> Prefix {
    let low = bytes.as_ref().to_vec();
    let high = end_of_prefix(&low).map_or(Bound::Unbounded, Bound::Excluded);
    Prefix { low, high }
}

impl KeyRange for Prefix {
    fn low(&self) -> Bound<&[u8]> {
        Bound::Included(&self.low)
    }

    fn high(&self) -> Bound<&[u8]> {
        self.high.as_ref().map(Vec::as_slice)
    }
}

/// The first byte string that comes after all that begin with `prefix`; `None` if there is none.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_string_that_lacks_it() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }

    #[test]
    fn every_range_of_the_language_is_one_of_keys() {
        fn bounds(keys: impl KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
            (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec))
        }
        let key = |text: &str| text.as_bytes().to_vec();
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(bounds(..), (Unbounded, Unbounded));
        assert_eq!(bounds("a".."b"), (Included(key("a")), Excluded(key("b"))));
        assert_eq!(bounds("a"..="b"), (Included(key("a")), Included(key("b"))));
        assert_eq!(bounds([1]..), (Included(vec![1]), Unbounded));
        assert_eq!(bounds(..b"b"), (Unbounded, Excluded(key("b"))));
        assert_eq!(bounds(..=key("b")), (Unbounded, Included(key("b"))));
        assert_eq!(bounds((Excluded("a"), Unbounded)), (Excluded(key("a")), Unbounded));
        assert_eq!(bounds(prefix("a")), (Included(key("a")), Excluded(key("b"))));
    }
}
