//! What a transaction answers with: handles of tables, entries, counts and ranks. Plain data; the
//! pages below count in these, too.

use super::Bytes;

/// A table as seen by one transaction: a small handle, valid in that transaction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) index: u32,
    pub(crate) txn: u32,
}

/// A key and one of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The key.
    pub key: Bytes<'t>,
    /// The value.
    pub value: Bytes<'t>,
}

/// A number of distinct keys and of values; the same in a table without duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Distinct keys.
    pub keys: u64,
    /// Values, that is pairs of a key and a value.
    pub values: u64,
}

/// Where a key or a pair stands, or would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many distinct keys come before the key.
    pub keys: u64,
    /// How many pairs come before the key's first value (or before the pair asked for).
    pub values: u64,
    /// Whether it is there.
    pub found: bool,
}

/// A table's name, options and size.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// The order of its keys; a custom order shows the stored name.
    pub order: String,
    /// Whether keys may have several values.
    pub duplicates: bool,
    /// The fixed size of the values of a key, where the table has one.
    pub value_size: Option<u32>,
    /// The order of the values of a key.
    pub value_order: String,
    /// Whether the common beginning of a leaf's keys, and of a key's values, is stored once
    /// ([`TableOptions::prefix_compression`](crate::tree::TableOptions::prefix_compression)).
    pub prefix_compression: bool,
    /// The caller's own bits.
    pub user_flags: u32,
    /// Its entries.
    pub count: Count,
}
