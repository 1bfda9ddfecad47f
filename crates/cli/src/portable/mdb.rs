//! The text format of LMDB's mdb_dump and mdb_load (which is Berkeley DB's, version 3), with our
//! additional options in header lines that mdb_load passes over with a warning.
//!
//! ```text
//! VERSION=3
//! format=print                 or bytevalue: hexadecimal digits, also without this line
//! database=NAME                not for the main database
//! type=btree
//! mapsize=1048576
//! maxreaders=126
//! duplicates=1                 and dupsort=1, reversekey=1, integerkey=1, dupfixed=1,
//!                              integerdup=1, reversedup=1; of DLMDB's databases counted=1,
//!                              prefix_compression=1
//! hedgerow_table=NAME          where NAME needs escapes
//! hedgerow_order=NAME          the keys' order is a function under this name
//! hedgerow_value_order=NAME    the same for values
//! hedgerow_value_size=BYTES    of tables whose values have one size
//! hedgerow_duplicates=any      where the flags above say dupfixed but the sizes are free
//! hedgerow_prefix_compression=0  of tables that keep keys and values whole
//! hedgerow_user_flags=NUMBER
//! HEADER=END
//!  key                         one blank before each
//!  value
//! DATA=END
//! ```

use std::io::Read;

use super::text_lines::TextLines;
use super::{BadInput, DuplicatesHeader, Event, TableHeader};
use crate::codec::{Format, escape_to, hex_to, shown};
use crate::lmdb_flags::Flags;
use crate::open::{MAIN, OrderName};

/// The line that ends a table.
pub(crate) const DATA_END: &[u8] = b"DATA=END\n";

/// A line of data.
#[derive(Clone, Copy)]
enum Datum {
    Key,
    Value,
}

/// Reads the format.
pub(crate) struct Reader {
    lines: TextLines,
    /// The format of the table that is being read; `None` between tables.
    format: Option<Format>,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>) -> Self {
        Self { lines: TextLines::new(input), format: None }
    }

    /// Reads a key or a value; false at the end of the table.
    fn datum(&mut self, what: Datum, format: Format, out: &mut Vec<u8>) -> Result<bool, BadInput> {
        let line = match what {
            Datum::Key => self.lines.short(),
            Datum::Value => self.lines.next(|_| Ok(())),
        };
        let decoded = match line? {
            Some([b' ', written @ ..]) => format.decode_to(written, out),
            Some(b"DATA=END") => return Ok(false),
            Some(_) => Err("a line of data begins with a blank; DATA=END ends them".into()),
            None => Err("the input ends before DATA=END: it was cut off".into()),
        };
        decoded.map(|()| true).map_err(|error| self.lines.bad(error))
    }

    fn header(&mut self) -> Result<Event, BadInput> {
        let mut header = Header::default();
        let mut begun = false;
        loop {
            let Some(line) = self.lines.short()? else {
                if begun {
                    return Err(self.lines.bad("the input ends before HEADER=END: it was cut off"));
                }
                return Ok(Event::End);
            };
            if line == b"HEADER=END" {
                break;
            }
            let taken = header.line(line, begun);
            taken.map_err(|error| self.lines.bad(error))?;
            begun = true;
        }
        self.format = Some(header.format.unwrap_or(Format::Hex));
        Ok(Event::Table(header.table()))
    }
}

impl super::Reader for Reader {
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput> {
        let Some(format) = self.format else { return self.header() };
        if !self.datum(Datum::Key, format, key)? {
            self.format = None;
            return self.header();
        }
        if !self.datum(Datum::Value, format, value)? {
            return Err(self.lines.bad("a key without a value"));
        }
        Ok(Event::Entry)
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// The header's lines as far as they were read.
#[derive(Default)]
struct Header {
    /// Without a line that says so it is bytevalue.
    format: Option<Format>,
    name: Option<Vec<u8>>,
    escaped_name: Option<Vec<u8>>,
    reverse_key: bool,
    integer_key: bool,
    duplicates: bool,
    dup_fixed: bool,
    reverse_dup: bool,
    integer_dup: bool,
    /// The flags of all lines of LMDB's and DLMDB's.
    flags: Flags,
    any_size: bool,
    own: OwnLines,
}

/// The lines that only Hedgerow writes.
#[derive(Default)]
struct OwnLines {
    order: Option<String>,
    value_order: Option<String>,
    value_size: Option<u32>,
    prefix_compression: Option<bool>,
    user_flags: u32,
}

impl Header {
    fn line(&mut self, line: &[u8], begun: bool) -> Result<(), String> {
        let Some(equals) = line.iter().position(|&byte| byte == b'=') else {
            return Err(match begun {
                true => "a header line reads NAME=VALUE; HEADER=END ends them".into(),
                false => "this is no dump of mdb_dump's format, which begins with VERSION=3; \
                          --as says which other format it is"
                    .into(),
            });
        };
        let (word, value) = (&line[..equals], &line[equals + 1..]);
        if flag(value) {
            self.flags.read(word);
        }
        match word {
            b"VERSION" if !matches!(number(value)?, 1..=3) => {
                return Err(format!("version {} is not known", value.escape_ascii()));
            }
            b"format" => match value {
                b"bytevalue" => self.format = Some(Format::Hex),
                b"print" => self.format = Some(Format::Text),
                _ => return Err("the format must be bytevalue or print".into()),
            },
            b"type" if value != b"btree" => {
                return Err(format!("type {} instead of btree", value.escape_ascii()));
            }
            b"database" => self.name = Some(value.to_vec()),
            b"reversekey" => self.reverse_key = flag(value),
            b"integerkey" => self.integer_key = flag(value),
            b"duplicates" | b"dupsort" => self.duplicates |= flag(value),
            b"dupfixed" => self.dup_fixed = flag(value),
            b"integerdup" => self.integer_dup = flag(value),
            b"reversedup" => self.reverse_dup = flag(value),
            b"prefix_compression" | b"hedgerow_prefix_compression" => {
                self.own.prefix_compression = Some(flag(value));
            }
            _ => return self.own_line(word, value),
        }
        Ok(())
    }

    /// Our own lines; others (mapsize, maxreaders, db_pagesize, ...) say nothing that we need.
    fn own_line(&mut self, word: &[u8], value: &[u8]) -> Result<(), String> {
        let decoded = || Format::Text.decode(value);
        let text = || String::from_utf8(decoded()?).map_err(|_| "not UTF-8".to_owned());
        match word {
            b"hedgerow_table" => self.escaped_name = Some(decoded()?),
            b"hedgerow_order" => self.own.order = Some(text()?),
            b"hedgerow_value_order" => self.own.value_order = Some(text()?),
            b"hedgerow_value_size" => self.own.value_size = Some(number(value)?),
            b"hedgerow_duplicates" => self.any_size = value == b"any",
            b"hedgerow_user_flags" => self.own.user_flags = number(value)?,
            _ => {}
        }
        Ok(())
    }

    fn table(self) -> TableHeader {
        let several = self.duplicates || self.dup_fixed || self.integer_dup || self.reverse_dup;
        let custom = |name: Option<String>| name.map(OrderName::Custom);
        let order = custom(self.own.order)
            .unwrap_or_else(|| OrderName::of_lmdb_keys(self.integer_key, self.reverse_key));
        let value_order = custom(self.own.value_order)
            .unwrap_or_else(|| OrderName::of_lmdb_values(self.integer_dup, self.reverse_dup));
        let fixed = (self.dup_fixed || self.own.value_size.is_some()) && !self.any_size;
        let duplicates = several.then_some(DuplicatesHeader {
            order: value_order,
            fixed,
            size: self.own.value_size,
        });
        let user_flags = match self.own.user_flags {
            0 if self.flags.has_dlmdb() => self.flags.user_flags(),
            user_flags => user_flags,
        };
        let prefix_compression = self.own.prefix_compression;
        let name = self.escaped_name.or(self.name);
        TableHeader { name, order, duplicates, prefix_compression, user_flags }
    }
}

fn flag(value: &[u8]) -> bool {
    value != b"0"
}

fn number(value: &[u8]) -> Result<u32, String> {
    let digits = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    digits.ok_or_else(|| format!("\"{}\" is not a number", value.escape_ascii()))
}

/// What an entry takes of LMDB's pages, beside their free space.
pub(crate) fn entry_bytes(key: usize, value: usize) -> u64 {
    key as u64 + value as u64 + 16
}

/// Writes the format.
pub(crate) struct Writer {
    print: bool,
    map_size: u64,
    page_size: u32,
    name_main: bool,
}

impl Writer {
    /// With printable bytes as they are, or all as hexadecimal digits. The map size is what LMDB
    /// needs for keys and values of `bytes` bytes ([`entry_bytes`]), with half-full pages. The
    /// table "main" becomes LMDB's main database unless `name_main`.
    pub(crate) fn new(print: bool, bytes: u64, page_size: u32, name_main: bool) -> Self {
        let map_size = bytes.saturating_mul(4).max(64 << 20).next_multiple_of(1 << 20);
        Self { print, map_size, page_size, name_main }
    }

    /// Writes a table's header.
    pub(crate) fn table(&self, header: &TableHeader, out: &mut Vec<u8>) {
        let format = if self.print { "print" } else { "bytevalue" };
        line(out, format_args!("VERSION=3"));
        line(out, format_args!("format={format}"));
        self.name(header.name.as_deref().unwrap_or(MAIN.as_bytes()), out);
        line(out, format_args!("type=btree"));
        line(out, format_args!("mapsize={}", self.map_size));
        line(out, format_args!("maxreaders=126"));
        for option in option_lines(header) {
            line(out, format_args!("{option}"));
        }
        line(out, format_args!("db_pagesize={}", self.page_size));
        line(out, format_args!("HEADER=END"));
    }

    fn name(&self, name: &[u8], out: &mut Vec<u8>) {
        if name == MAIN.as_bytes() && !self.name_main {
            return;
        }
        // mdb_load takes the name as it stands, without escapes.
        match str::from_utf8(name) {
            Ok(plain) if !plain.is_empty() && !plain.contains(char::is_control) => {
                line(out, format_args!("database={plain}"));
            }
            _ => {
                let shown = shown(name);
                line(out, format_args!("database={shown}"));
                line(out, format_args!("hedgerow_table={shown}"));
            }
        }
    }

    /// Writes one entry.
    pub(crate) fn entry(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let write = if self.print { escape_to } else { hex_to };
        for datum in [key, value] {
            out.push(b' ');
            write(datum, out);
            out.push(b'\n');
        }
    }
}

fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.extend_from_slice(text.to_string().as_bytes());
    out.push(b'\n');
}

/// A table's options as header lines, in mdb_dump's order, ours last.
fn option_lines(header: &TableHeader) -> Vec<String> {
    let mut lines = Vec::new();
    let mut own = Vec::new();
    let mut when = |yes: bool, line: &str| {
        if yes {
            lines.push(line.to_owned());
        }
    };
    let duplicates = header.duplicates.as_ref();
    let value_order = duplicates.map(|duplicates| &duplicates.order);
    let integer_dup = value_order == Some(&OrderName::Integer);
    let fixed = duplicates.is_some_and(|duplicates| duplicates.fixed);
    when(duplicates.is_some(), "duplicates=1");
    when(header.order == OrderName::Reverse, "reversekey=1");
    when(duplicates.is_some(), "dupsort=1");
    when(header.order == OrderName::Integer, "integerkey=1");
    // LMDB takes integers as values only where all have one size, as they have.
    when(fixed || integer_dup, "dupfixed=1");
    when(integer_dup, "integerdup=1");
    when(value_order == Some(&OrderName::Reverse), "reversedup=1");
    if let OrderName::Custom(name) = &header.order {
        own.push(format!("hedgerow_order={}", shown(name.as_bytes())));
    }
    if let Some(OrderName::Custom(name)) = value_order {
        own.push(format!("hedgerow_value_order={}", shown(name.as_bytes())));
    }
    if let Some(size) = duplicates.and_then(|duplicates| duplicates.size) {
        own.push(format!("hedgerow_value_size={size}"));
    }
    if integer_dup && !fixed {
        own.push("hedgerow_duplicates=any".to_owned());
    }
    if header.prefix_compression == Some(false) {
        own.push("hedgerow_prefix_compression=0".to_owned());
    }
    if header.user_flags != 0 {
        own.push(format!("hedgerow_user_flags={}", header.user_flags));
    }
    lines.extend(own);
    lines
}
