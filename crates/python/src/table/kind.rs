//! What a table is made as: its types, its order, its duplicates.

use std::sync::Arc;

use hedgerow::tree::{Duplicates, Order, TableInfo, TableOptions, type_flags};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::codec::Codec;
use crate::errors::raise;

/// How keys and values are written.
pub(crate) struct Codecs {
    pub(crate) key: Codec,
    pub(crate) value: Codec,
}

impl Codecs {
    /// Visits what they refer to, if the one who asks has them alone: a reference that several have
    /// must not be counted for each of them.
    pub(crate) fn traverse(self: &Arc<Self>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(self) > 1 {
            return Ok(());
        }
        self.key.traverse(visit)?;
        self.value.traverse(visit)
    }

    /// Whether others write the same bytes.
    pub(crate) fn agree(&self, other: &Self) -> bool {
        self.key.agrees(&other.key) && self.value.agrees(&other.value)
    }
}

/// The orders that were asked for.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) key: Option<Order>,
    pub(crate) value: Option<Order>,
}

impl Orders {
    /// Whether any was asked for.
    pub(super) fn are_given(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }
}

/// What a table keeps of its types; 0 for bytes.
pub(super) fn flags(key: &Codec, value: &Codec, has_duplicates: bool) -> u32 {
    if key.is_plain() && value.is_plain() {
        return 0;
    }
    let (mut key_name, mut value_name) = (String::new(), String::new());
    key.type_name(&mut key_name);
    value.type_name(&mut value_name);
    type_flags(has_duplicates, &key_name, &value_name)
}

/// Refuses types other than those that a table was made for.
pub(crate) fn check(py: Python<'_>, found: &TableInfo, codecs: &Codecs) -> PyResult<()> {
    let Codecs { key, value } = codecs;
    if (key.is_plain() && value.is_plain()) || fits(found.user_flags, key, value, found.duplicates)
    {
        return Ok(());
    }
    let name = String::from_utf8_lossy(&found.name);
    raise(py, "TableError", &format!("table {name:?} was made for other types of keys or values"))
}

/// Whether a table that keeps these flags can be read so. What is read as bytes may be of any type
/// that is no tuple.
fn fits(stored: u32, key: &Codec, value: &Codec, has_duplicates: bool) -> bool {
    let names = |codec: &Codec| match codec.is_plain() {
        true => SIMPLE.iter().map(ToString::to_string).collect(),
        false => {
            let mut name = String::new();
            codec.type_name(&mut name);
            vec![name]
        }
    };
    let (keys, values): (Vec<String>, Vec<String>) = (names(key), names(value));
    let pairs = keys.iter().flat_map(|key| values.iter().map(move |value| (key, value)));
    stored == 0 || pairs.into_iter().any(|(k, v)| stored == type_flags(has_duplicates, k, v))
}

/// The names of Rust's types that are no tuples.
const SIMPLE: &[&str] = &[
    "bytes", "string", "i64", "f64", "bool", "time", "u64", "u32", "i32", "u128", "i128", "u16",
    "i16", "u8", "i8", "f32", "char", "duration", "()",
];

/// The options of a new table, or those with which one is opened that is there.
pub(super) fn options(
    value: &Codec,
    has_duplicates: bool,
    orders: &Orders,
    found: Option<&TableInfo>,
) -> TableOptions {
    let order = orders.value.clone().unwrap_or_default();
    let width = match found {
        Some(found) => found.value_size,
        None => value.width(),
    };
    let duplicates = match (has_duplicates, width) {
        (false, _) => Duplicates::No,
        (true, None) => Duplicates::Any { order },
        (true, size) => Duplicates::Fixed { size, order },
    };
    let options = TableOptions::new().order(orders.key.clone().unwrap_or_default());
    let options = options.duplicates_in(duplicates);
    match found {
        Some(found) => {
            options.user_flags(found.user_flags).prefix_compression(found.prefix_compression)
        }
        None => options,
    }
}
