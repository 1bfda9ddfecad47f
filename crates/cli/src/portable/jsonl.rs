//! JSON lines: one object a line, its members "key" and "value" strings in their formats.

use std::io::Read;

use serde_json::Value;

use super::text_lines::TextLines;
use super::{BadInput, Event};
use crate::codec::{Format, FormatArgs};

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

    /// The next entry; empty lines are passed over.
    pub(crate) fn next(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Event, BadInput> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(Event::End) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let decoded = (serde_json::from_slice(line).map_err(|error| error.to_string()))
                .and_then(|object| {
                    member(&object, "key", self.formats.key(), key)?;
                    member(&object, "value", self.formats.value(), value)
                });
            decoded.map_err(|error| self.lines.bad(error))?;
            return Ok(Event::Entry);
        }
    }

    /// The last line that was read.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number()
    }
}

fn member(object: &Value, name: &str, format: Format, out: &mut Vec<u8>) -> Result<(), String> {
    let written = object.get(name).and_then(Value::as_str);
    let written = written.ok_or_else(|| format!("no string under \"{name}\" in an object"))?;
    format.decode_to(written.as_bytes(), out)
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
        let key = Value::from(self.formats.key().encode(key));
        let value = Value::from(self.formats.value().encode(value));
        out.extend_from_slice(format!("{{\"key\":{key},\"value\":{value}}}\n").as_bytes());
    }
}
