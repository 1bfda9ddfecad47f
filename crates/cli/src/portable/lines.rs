//! One entry a line: the key, a tab, the value, each in its format. A tab inside of a key or value
//! is escaped by every format, so the first one parts them.

use std::io::Read;

use super::text_lines::TextLines;
use super::{BadInput, Event};
use crate::codec::FormatArgs;

/// Reads the format.
pub(crate) struct Reader {
    lines: TextLines,
    formats: FormatArgs,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>, formats: FormatArgs) -> Self {
        Self { lines: TextLines::new(input), formats }
    }

    /// The next entry.
    pub(crate) fn next(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Event, BadInput> {
        let Some(line) = self.lines.next()? else { return Ok(Event::End) };
        let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
            return Err(self.lines.bad("there is no tab between a key and a value"));
        };
        let decoded = (self.formats.key().decode_to(&line[..tab], key))
            .and_then(|()| self.formats.value().decode_to(&line[tab + 1..], value));
        decoded.map_err(|error| self.lines.bad(error))?;
        Ok(Event::Entry)
    }

    /// The last line that was read.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Writes the format.
pub(crate) struct Writer {
    formats: FormatArgs,
}

impl Writer {
    /// In these formats of keys and values.
    pub(crate) fn new(formats: FormatArgs) -> Self {
        Self { formats }
    }

    /// Writes one entry.
    pub(crate) fn entry(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.formats.key().encode_to(key, out);
        out.push(b'\t');
        self.formats.value().encode_to(value, out);
        out.push(b'\n');
    }
}
