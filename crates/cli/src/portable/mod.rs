//! Entries as portable text: the formats of `dump` and `load`. Every format is a reader of
//! `Event`s and a writer that adds to a buffer; none of them knows a store or does output.

#[cfg(feature = "columns")]
pub(crate) mod columns;
pub(crate) mod csv;
pub mod fuzz;
pub(crate) mod jsonl;
mod layout;
pub(crate) mod lines;
pub(crate) mod mdb;
pub(crate) mod quotes;
pub(crate) mod text_lines;

use std::io::Read;

use clap::ValueEnum;
use hedgerow::tree::{Duplicates, TableInfo, TableOptions};

pub(crate) use layout::{Fields, Layout};

use crate::codec::FormatArgs;
use crate::open::OrderName;
use crate::table_flags::{OrderFlag, TableFlags};

/// The portable formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Portable {
    /// The text format of mdb_dump and mdb_load: any number of tables with their options.
    #[default]
    Mdb,
    /// One entry a line: key, tab, value.
    Lines,
    /// Comma-separated, with a heading: key,value.
    Csv,
    /// One object a line: {"key": ..., "value": ...}; what is no UTF-8 under "key_base64" and
    /// "value_base64".
    Jsonl,
    /// An Arrow file of two columns, key and value: bytes, or what the formats say.
    #[cfg(feature = "columns")]
    Arrow,
    /// The same as a Parquet file.
    #[cfg(feature = "columns")]
    Parquet,
}

impl Portable {
    /// Whether it is a file of columns.
    pub(crate) fn has_columns(self) -> bool {
        !matches!(self, Self::Mdb | Self::Lines | Self::Csv | Self::Jsonl)
    }
}

/// What a dump says about a table, beside its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableHeader {
    /// Its name, where the dump gives one.
    pub(crate) name: Option<Vec<u8>>,
    /// The order of its keys.
    pub(crate) order: OrderName,
    /// How it keeps several values of a key, if it does.
    pub(crate) duplicates: Option<DuplicatesHeader>,
    /// Whether its leaves keep once what keys share, where the dump says.
    pub(crate) prefix_compression: Option<bool>,
    /// The caller's own bits.
    pub(crate) user_flags: u32,
}

/// How several values of a key are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DuplicatesHeader {
    /// The order of the values.
    pub(crate) order: OrderName,
    /// All of one size.
    pub(crate) fixed: bool,
    /// That size, where it is known.
    pub(crate) size: Option<u32>,
}

impl TableHeader {
    /// What a dump of this table says.
    pub(crate) fn of(info: &TableInfo) -> Self {
        let duplicates = info.duplicates.then(|| DuplicatesHeader {
            order: OrderName::of(&info.value_order),
            fixed: info.value_size.is_some(),
            size: info.value_size,
        });
        Self {
            name: Some(info.name.clone()),
            order: OrderName::of(&info.order),
            duplicates,
            prefix_compression: Some(info.prefix_compression),
            user_flags: info.user_flags,
        }
    }

    /// Whether a table in bytewise order with one value a key takes the entries; orders given as
    /// flags win.
    pub(crate) fn is_plain(&self, flags: &TableFlags) -> bool {
        let order = flags.order.map_or_else(|| self.order.clone(), OrderFlag::name);
        order == OrderName::Bytewise && self.duplicates.is_none()
    }

    /// The options of a table that takes the entries; orders given as flags win.
    pub(crate) fn options(&self, flags: &TableFlags) -> Result<TableOptions, String> {
        let order = match flags.order {
            Some(flag) => flag.order(),
            None => self.order.order()?,
        };
        let shares = self.prefix_compression.unwrap_or(true) && !flags.no_prefix_compression;
        let options =
            TableOptions::new().order(order).prefix_compression(shares).user_flags(self.user_flags);
        let Some(duplicates) = &self.duplicates else { return Ok(options) };
        let order = match flags.value_order {
            Some(flag) => flag.order(),
            None => duplicates.order.order()?,
        };
        Ok(options.duplicates_in(match duplicates.fixed {
            true => Duplicates::Fixed { size: duplicates.size, order },
            false => Duplicates::Any { order },
        }))
    }
}

/// What comes next in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A table begins.
    Table(TableHeader),
    /// An entry, in the buffers that were given.
    Entry,
    /// The end.
    End,
}

/// Why a dump cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadInput {
    /// The line, counted from 1.
    pub(crate) line: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// Reads one of the formats.
pub(crate) trait Reader {
    /// What comes next; an entry replaces the content of `key` and `value`.
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput>;
    /// The last line that was read.
    fn line(&self) -> u64;
    /// What its lines are called.
    fn unit(&self) -> &'static str {
        "line"
    }
}

/// Reads `input`.
pub(crate) fn reader(
    input: Box<dyn Read>,
    portable: Portable,
    formats: FormatArgs,
    fields: &Fields,
) -> Box<dyn Reader> {
    let layout = fields.layout;
    match portable {
        Portable::Mdb => Box::new(mdb::Reader::new(input)),
        Portable::Lines => Box::new(lines::Reader::new(input, formats, layout)),
        Portable::Csv => Box::new(csv::Reader::new(input, formats, fields.clone())),
        Portable::Jsonl => Box::new(jsonl::Reader::new(input, formats, fields.clone())),
        #[cfg(feature = "columns")]
        Portable::Arrow | Portable::Parquet => {
            let input = columns::Input::Other(input);
            Box::new(columns::Reader::new(input, portable, formats, fields))
        }
    }
}

/// Writes one of the formats.
pub(crate) enum Writer {
    Mdb(mdb::Writer),
    Lines(lines::Writer),
    Csv(csv::Writer),
    Jsonl(jsonl::Writer),
    #[cfg(feature = "columns")]
    Columns(Box<columns::Writer>),
}

impl Writer {
    /// A table begins.
    pub(crate) fn table(&mut self, header: &TableHeader, out: &mut Vec<u8>) {
        match self {
            Self::Mdb(writer) => writer.table(header, out),
            Self::Csv(writer) => writer.heading(out),
            #[cfg(feature = "columns")]
            Self::Columns(_) => {}
            Self::Lines(_) | Self::Jsonl(_) => {}
        }
    }

    /// An entry of the table that was begun. One that the format cannot hold leaves no trace.
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let end = out.len();
        let written = self.try_entry(key, value, out);
        if written.is_err() {
            out.truncate(end);
        }
        written
    }

    fn try_entry(&mut self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Mdb(writer) => {
                writer.entry(key, value, out);
                Ok(())
            }
            Self::Lines(writer) => writer.entry(key, value, out),
            Self::Csv(writer) => writer.entry(key, value, out),
            Self::Jsonl(writer) => writer.entry(key, value, out),
            #[cfg(feature = "columns")]
            Self::Columns(writer) => writer.entry(key, value, out),
        }
    }

    /// The table ends.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Mdb(_) => out.extend_from_slice(mdb::DATA_END),
            Self::Lines(_) | Self::Csv(_) | Self::Jsonl(_) => {}
            #[cfg(feature = "columns")]
            Self::Columns(writer) => writer.finish(out)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
