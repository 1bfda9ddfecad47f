//! Arrow and Parquet files of two columns, key and value. What is in the columns, the library
//! knows ([`hedgerow::stream::arrow`]); the files are read and written by the crates of these
//! formats.
//!
//! A file that `dump` wrote says how many entries it has, and their checksum ([`PairSum`]). If
//! the file was changed and still says the same of itself, loading it says so.

mod lengths;
mod read;
mod write;

use clap::ValueEnum;
use hedgerow::stream::PairSum;
use hedgerow::stream::arrow::{Form, TextForm};

pub(crate) use read::{Input, Reader};
pub(crate) use write::Writer;

use crate::codec::Format;
use crate::sums::written;

/// What a file says of itself.
const ENTRIES: &str = "hedgerow.entries";
const CHECKSUM: &str = "hedgerow.checksum";
const TABLE: &str = "hedgerow.table";
/// What a Parquet file says about its writer.
const CREATED_BY: &str = concat!("hedgerow ", env!("CARGO_PKG_VERSION"));

/// How files of columns are compressed. Whatever it is, they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// Not at all.
    None,
    /// Snappy (parquet only).
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// What a file says of what went through: the entries, and their checksum.
fn said(sum: &PairSum) -> (String, String) {
    (sum.pairs().to_string(), written(sum))
}

/// What stands in a column of a format.
fn form(format: Format) -> Form {
    /// Text as a format writes it.
    macro_rules! text {
        ($format:expr) => {
            Form::Text(TextForm {
                write: |bytes| $format.encode(bytes),
                read: |text, out| $format.decode_to(text.as_bytes(), out),
            })
        };
    }
    match format {
        Format::Raw => Form::Bytes,
        Format::Utf8 => Form::Utf8,
        Format::Text => text!(Format::Text),
        Format::Hex => text!(Format::Hex),
        Format::Base64 => text!(Format::Base64),
        Format::U32 => Form::U32,
        Format::U64 => Form::U64,
        Format::I32 => Form::I32,
        Format::I64 => Form::I64,
        Format::F64 => Form::F64,
        Format::Native32 => Form::NativeU32,
        Format::Native64 => Form::NativeU64,
    }
}

#[cfg(test)]
mod tests;
