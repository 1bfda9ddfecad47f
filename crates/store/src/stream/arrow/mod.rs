//! Streams as record batches of Arrow, and rows of record batches as pairs: with the feature
//! `arrow`.
//!
//! A batch has two columns, one of the keys and one of the values. [`Columns`] says what they are
//! called and what stands in them: the bytes, text, or the numbers that typed tables have
//! ([`Form`]). [`Scan::record_batches`](super::Scan::record_batches) gives a
//! [`RecordBatchReader`](arrow_array::RecordBatchReader), which any library that reads Arrow takes:
//! a data frame, a query engine, a writer of files. [`Rows`] gives the rows of any such reader as
//! pairs, for a [`Sink`](super::Sink).
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
//! use hedgerow::key::KeyCode;
//! use hedgerow::stream::arrow::{Columns, Form, Rows};
//! use hedgerow::stream::{Scan, Sink};
//!
//! let mut sink = Sink::new(&store, "squares")?;
//! for n in 0..1_000_u32 {
//!     let (mut key, mut value) = (Vec::new(), Vec::new());
//!     <u32 as KeyCode>::encode(n, &mut key);
//!     <u64 as KeyCode>::encode(u64::from(n).pow(2), &mut value);
//!     sink.put(&key, &value)?;
//! }
//! sink.finish()?;
//!
//! let columns = Columns::new().named("n", "square").forms(Form::U32, Form::U64);
//! let batches = Scan::new("squares").record_batches(&store, &columns)?;
//! let mut rows = 0;
//! for batch in batches {
//!     rows += batch?.num_rows();
//! }
//! assert_eq!(rows, 1_000);
//!
//! let batches = Scan::new("squares").record_batches(&store, &columns)?;
//! let mut sink = Sink::new(&store, "copy")?;
//! sink.extend(Rows::new(batches, &columns)?)?;
//! assert_eq!(sink.finish()?.pairs, 1_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod column;
mod read;
mod write;

use std::collections::HashMap;
use std::fmt;

use crate::Error;

pub use read::Rows;
pub use write::{RecordBatches, RowBuilder};

/// What stands in a column for the bytes of a key or a value.
///
/// Columns are written in the Arrow type that is named here. They are read whatever type they have:
/// any width of binary, text, integers and floating-point numbers; of a column of binary the bytes
/// are taken, whatever the form.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Form {
    /// The bytes: `Binary`.
    #[default]
    Bytes,
    /// The bytes, which are UTF-8: `Utf8`.
    Utf8,
    /// The number that is encoded as [`KeyCode`](crate::key::KeyCode) does it: `UInt32`.
    U32,
    /// The same: `UInt64`.
    U64,
    /// The same: `Int32`.
    I32,
    /// The same: `Int64`.
    I64,
    /// The same: `Float64`.
    F64,
    /// The integer of 4 bytes of tables in integer order: `UInt32`.
    NativeU32,
    /// The integer of 8 bytes of tables in integer order: `UInt64`.
    NativeU64,
    /// Text that functions of the caller write and read: `Utf8`.
    Text(TextForm),
}

/// How bytes are written as text, and read again: see [`Form::Text`].
#[derive(Clone, Copy, Debug)]
pub struct TextForm {
    /// The text of these bytes, or why there is none.
    pub write: fn(&[u8]) -> Result<String, String>,
    /// Adds the bytes of a text, or says why there are none.
    pub read: fn(&str, &mut Vec<u8>) -> Result<(), String>,
}

/// The columns of keys and values: what they are called, and what stands in them.
#[derive(Clone, Debug)]
pub struct Columns {
    names: [String; 2],
    forms: [Option<Form>; 2],
    metadata: HashMap<String, String>,
}

impl Default for Columns {
    fn default() -> Self {
        Self::new()
    }
}

impl Columns {
    /// The columns `key` and `value`. They are written as bytes, and read in the form of their
    /// type: `UInt64` as [`Form::U64`], `Utf8` as [`Form::Utf8`] and so on.
    pub fn new() -> Self {
        let names = ["key".to_owned(), "value".to_owned()];
        Self { names, forms: [None; 2], metadata: HashMap::new() }
    }

    /// The names of the column of keys and of that of values.
    pub fn named(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.names = [key.into(), value.into()];
        self
    }

    /// What stands in them.
    pub fn forms(mut self, key: Form, value: Form) -> Self {
        self.forms = [Some(key), Some(value)];
        self
    }

    /// What stands in them, where something else than [`Columns::new`] says is wanted.
    pub fn forms_if(mut self, key: Option<Form>, value: Option<Form>) -> Self {
        self.forms = [key, value];
        self
    }

    /// Something that the schema says beside the columns.
    pub fn metadata(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), text.into());
        self
    }
}

/// Why a row is no pair, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The number of the row, from 1 on.
    pub row: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.row, self.reason)
    }
}

impl std::error::Error for RowError {}

impl From<RowError> for Error {
    fn from(error: RowError) -> Self {
        Self::argument(error.to_string())
    }
}

#[cfg(test)]
mod tests;
