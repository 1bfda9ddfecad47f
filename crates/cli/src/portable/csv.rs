//! Comma-separated values as RFC 4180 has them: a heading `key,value`, then one record an entry,
//! its fields in their formats.

use std::io::Read;

use super::quotes::Closed;
use super::{BadInput, Event, Fields};
use crate::codec::{Format, FormatArgs};

/// Reads the format.
pub(crate) struct Reader {
    records: csv::Reader<Closed<Box<dyn Read>>>,
    record: csv::ByteRecord,
    formats: FormatArgs,
    fields: Fields,
    /// Once the heading was read.
    columns: Option<Columns>,
}

/// Where key and value stand.
struct Columns {
    key: usize,
    /// `None`: the whole record is the value.
    value: Option<usize>,
    all: usize,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>, formats: FormatArgs, fields: Fields) -> Self {
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(fields.layout.delimiter);
        let input = Closed::new(input, fields.layout.delimiter);
        let (records, record) = (builder.from_reader(input), csv::ByteRecord::new());
        Self { records, record, formats: formats.or(Format::Utf8), fields, columns: None }
    }

    fn heading(&self) -> Result<Columns, BadInput> {
        let find = |name: &str| {
            let found = self.record.iter().position(|field| field == name.as_bytes());
            found.ok_or_else(|| {
                let mut heading = Vec::new();
                line(self.record.iter(), self.fields.layout.delimiter, &mut heading);
                self.bad(format!(
                    "the first line must be a heading with the columns {} and {}, not \"{}\"; \
                     --key-field, --value-field and --whole say which ones are meant",
                    self.fields.key,
                    self.fields.value,
                    heading.escape_ascii()
                ))
            })
        };
        let value = if self.fields.whole { None } else { Some(find(&self.fields.value)?) };
        Ok(Columns { key: find(&self.fields.key)?, value, all: self.record.len() })
    }

    fn read(&mut self) -> Result<bool, BadInput> {
        let read = self.records.read_byte_record(&mut self.record);
        read.map_err(|error| BadInput {
            line: self.records.position().line(),
            reason: format!("cannot be read: {error}"),
        })
    }

    fn bad(&self, reason: impl Into<String>) -> BadInput {
        BadInput { line: super::Reader::line(self), reason: reason.into() }
    }
}

impl super::Reader for Reader {
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput> {
        if self.columns.is_none() {
            if !self.read()? {
                return Ok(Event::End);
            }
            self.columns = Some(self.heading()?);
        }
        if !self.read()? {
            return Ok(Event::End);
        }
        let Some(columns) = &self.columns else { return Ok(Event::End) };
        if self.record.len() != columns.all {
            let found = self.record.len();
            return Err(self.bad(format!("{found} fields instead of {}", columns.all)));
        }
        let field = |column| self.record.get(column).unwrap_or_default();
        let decoded = self.formats.key().decode_to(field(columns.key), key);
        let decoded = decoded.and_then(|()| match columns.value {
            Some(column) => self.formats.value().decode_to(field(column), value),
            None => {
                value.clear();
                line(self.record.iter(), self.fields.layout.delimiter, value);
                Ok(())
            }
        });
        decoded.map_err(|error| self.bad(error))?;
        Ok(Event::Entry)
    }

    /// The line where the last record that was read begins.
    fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }
}

/// Writes the format.
pub(crate) struct Writer {
    formats: FormatArgs,
    delimiter: u8,
    field: Vec<u8>,
}

impl Writer {
    /// In these formats of keys and values.
    pub(crate) fn new(formats: FormatArgs, delimiter: u8) -> Self {
        Self { formats: formats.or(Format::Utf8), delimiter, field: Vec::new() }
    }

    /// Writes the first line.
    pub(crate) fn heading(&self, out: &mut Vec<u8>) {
        line([&b"key"[..], b"value"].into_iter(), self.delimiter, out);
        out.push(b'\n');
    }

    /// Writes one entry.
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.field.clear();
        self.formats.key().encode_to(key, &mut self.field)?;
        quote(&self.field, self.delimiter, out);
        out.push(self.delimiter);
        self.field.clear();
        self.formats.value().encode_to(value, &mut self.field)?;
        quote(&self.field, self.delimiter, out);
        out.push(b'\n');
        Ok(())
    }
}

/// Adds the fields of a record.
fn line<'f>(fields: impl Iterator<Item = &'f [u8]>, delimiter: u8, out: &mut Vec<u8>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(delimiter);
        }
        quote(field, delimiter, out);
    }
}

/// Adds a field, in quotation marks where its bytes ask for them.
fn quote(field: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let asks = |byte: &u8| matches!(byte, b'"' | b'\r' | b'\n') || *byte == delimiter;
    if !field.iter().any(asks) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for (index, part) in field.split(|&byte| byte == b'"').enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"\"\"" });
        out.extend_from_slice(part);
    }
    out.push(b'"');
}
