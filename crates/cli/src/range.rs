//! The options that choose a range of keys, shared by `scan`, `count` and `delete`.

use std::ffi::OsString;
use std::ops::Bound;

use clap::Args;
use hedgerow::tree::{Order, Snapshot, Table};

use crate::codec::Format;
use crate::exit::Failure;
use crate::open::{argument, check_key};

/// Two ends, or a prefix.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// Keys at or after this one
    #[arg(long, allow_negative_numbers = true, value_name = "KEY")]
    from: Option<OsString>,
    /// Keys after this one
    #[arg(long, allow_negative_numbers = true, value_name = "KEY", conflicts_with = "from")]
    after: Option<OsString>,
    /// Keys at or before this one
    #[arg(long, allow_negative_numbers = true, value_name = "KEY")]
    to: Option<OsString>,
    /// Keys before this one
    #[arg(long, allow_negative_numbers = true, value_name = "KEY", conflicts_with = "to")]
    before: Option<OsString>,
    /// Keys that begin with this (tables in bytewise order only)
    #[arg(long, allow_negative_numbers = true, value_name = "KEY", conflicts_with_all = ["from", "after", "to", "before"])]
    prefix: Option<OsString>,
}

/// A range of keys with ends of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl RangeArgs {
    /// Whether no end was given.
    pub(crate) fn is_everything(&self) -> bool {
        let ends = [&self.from, &self.after, &self.to, &self.before, &self.prefix];
        ends.iter().all(|end| end.is_none())
    }

    /// The range of keys of a table.
    pub(crate) fn keys<S: Snapshot>(
        &self,
        txn: &S,
        table: Table,
        format: Format,
    ) -> Result<Keys, Failure> {
        if self.prefix.is_some() && !matches!(txn.order(table)?, Order::Bytewise) {
            return Err(Failure::usage(
                "--prefix needs a table in bytewise order: in another one the keys of a prefix \
                 are no range",
            ));
        }
        let keys = self.bytewise_keys(format)?;
        for end in [&keys.low, &keys.high] {
            if let Bound::Included(key) | Bound::Excluded(key) = end {
                check_key(txn, table, key)?;
            }
        }
        Ok(keys)
    }

    /// The range of keys of a table in bytewise order.
    pub(crate) fn bytewise_keys(&self, format: Format) -> Result<Keys, Failure> {
        if let Some(prefix) = &self.prefix {
            return Ok(Keys::with_prefix(argument(prefix, format, "prefix")?));
        }
        let key = |end: &Option<OsString>, option: &str| {
            end.as_ref().map(|end| argument(end, format, option)).transpose()
        };
        let low = match (key(&self.from, "--from")?, key(&self.after, "--after")?) {
            (Some(key), _) => Bound::Included(key),
            (None, Some(key)) => Bound::Excluded(key),
            (None, None) => Bound::Unbounded,
        };
        let high = match (key(&self.to, "--to")?, key(&self.before, "--before")?) {
            (Some(key), _) => Bound::Included(key),
            (None, Some(key)) => Bound::Excluded(key),
            (None, None) => Bound::Unbounded,
        };
        Ok(Keys { low, high })
    }
}

impl Keys {
    /// The keys that begin with `prefix`, in bytewise order.
    pub(crate) fn with_prefix(prefix: Vec<u8>) -> Self {
        let mut next = prefix.clone();
        while next.last() == Some(&u8::MAX) {
            next.pop();
        }
        let high = match next.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(next)
            }
            None => Bound::Unbounded,
        };
        Self { low: Bound::Included(prefix), high }
    }

    /// The low end.
    pub(crate) fn low(&self) -> Bound<&[u8]> {
        self.low.as_ref().map(Vec::as_slice)
    }

    /// In bytewise order: the first key that may be in it.
    pub(crate) fn start(&self) -> Vec<u8> {
        match &self.low {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => [key.as_slice(), &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        }
    }

    /// In bytewise order: the first key after it, if there may be any.
    pub(crate) fn end(&self) -> Option<Vec<u8>> {
        match &self.high {
            Bound::Included(key) => Some([key.as_slice(), &[0]].concat()),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        }
    }

    /// The high end.
    pub(crate) fn high(&self) -> Bound<&[u8]> {
        self.high.as_ref().map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_string_that_lacks_it() {
        let end = |prefix: &[u8]| Keys::with_prefix(prefix.to_vec()).high;
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(end(b"\xff"), Bound::Unbounded);
        assert_eq!(end(b""), Bound::Unbounded);
    }
}
