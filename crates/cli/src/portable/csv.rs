//! Comma-separated values as RFC 4180 has them: a heading `key,value`, then one record an entry,
//! its fields in their formats.

use std::io::Read;

use super::{BadInput, Event};
use crate::codec::FormatArgs;

/// The first line.
pub(crate) const HEADING: &[u8] = b"key,value\n";

/// Reads the format.
pub(crate) struct Reader {
    records: csv::Reader<Box<dyn Read>>,
    record: csv::ByteRecord,
    formats: FormatArgs,
    heading: bool,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>, formats: FormatArgs) -> Self {
        let records =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
        Self { records, record: csv::ByteRecord::new(), formats, heading: false }
    }

    /// The next entry.
    pub(crate) fn next(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Event, BadInput> {
        if !self.heading {
            self.heading = true;
            if !self.read()? {
                return Ok(Event::End);
            }
            if self.record.iter().ne([&b"key"[..], b"value"]) {
                return Err(self.bad("the first line must be the heading: key,value"));
            }
        }
        if !self.read()? {
            return Ok(Event::End);
        }
        let (Some(first), Some(second), 2) =
            (self.record.get(0), self.record.get(1), self.record.len())
        else {
            return Err(self.bad(format!("{} fields instead of 2", self.record.len())));
        };
        let decoded = (self.formats.key().decode_to(first, key))
            .and_then(|()| self.formats.value().decode_to(second, value));
        decoded.map_err(|error| self.bad(error))?;
        Ok(Event::Entry)
    }

    fn read(&mut self) -> Result<bool, BadInput> {
        let read = self.records.read_byte_record(&mut self.record);
        read.map_err(|error| BadInput {
            line: self.records.position().line(),
            reason: format!("cannot be read: {error}"),
        })
    }

    fn bad(&self, reason: impl Into<String>) -> BadInput {
        BadInput { line: self.line(), reason: reason.into() }
    }

    /// The line where the last record that was read begins.
    pub(crate) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }
}

/// Writes the format.
pub(crate) struct Writer {
    formats: FormatArgs,
    field: Vec<u8>,
}

impl Writer {
    /// In these formats of keys and values.
    pub(crate) fn new(formats: FormatArgs) -> Self {
        Self { formats, field: Vec::new() }
    }

    /// Writes one entry.
    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.field.clear();
        self.formats.key().encode_to(key, &mut self.field);
        quote(&self.field, out);
        out.push(b',');
        self.field.clear();
        self.formats.value().encode_to(value, &mut self.field);
        quote(&self.field, out);
        out.push(b'\n');
    }
}

/// Adds a field. Encoded ones have no line ends: only commas and quotation marks ask for
/// quoting.
fn quote(field: &[u8], out: &mut Vec<u8>) {
    if !field.iter().any(|byte| matches!(byte, b',' | b'"')) {
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
