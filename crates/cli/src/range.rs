//! The options that choose a range of keys, shared by `scan`, `count` and `delete`.

use std::ffi::OsString;
use std::ops::Bound;

use clap::Args;
use hedgerow::key::{self, KeyRange};
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

/// A range of keys.
pub(crate) type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

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
        for end in [&keys.0, &keys.1] {
            if let Bound::Included(key) | Bound::Excluded(key) = end {
                check_key(txn, table, key)?;
            }
        }
        Ok(keys)
    }

    /// The range of keys of a table in bytewise order.
    pub(crate) fn bytewise_keys(&self, format: Format) -> Result<Keys, Failure> {
        if let Some(prefix) = &self.prefix {
            let keys = key::prefix(argument(prefix, format, "prefix")?);
            return Ok((keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec)));
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
        Ok((low, high))
    }
}
