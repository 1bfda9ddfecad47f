//! JSON lines: one object a line, its members "key" and "value" strings in their formats. Bytes
//! that are no UTF-8 stand in members "key_base64" and "value_base64", where UTF-8 is the format.

use std::collections::HashMap;
use std::io::Read;

use serde_json::Value;
use serde_json::value::RawValue;

use super::text_lines::TextLines;
use super::{BadInput, Event, Fields};
use crate::codec::{Format, FormatArgs};

/// What is added to the name of a member in base64.
const BASE64: &str = "_base64";

/// A line: its members as they stand there.
type Object<'l> = HashMap<String, &'l RawValue>;

/// Reads the format.
pub(crate) struct Reader {
    lines: TextLines,
    formats: FormatArgs,
    fields: Fields,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>, formats: FormatArgs, fields: Fields) -> Self {
        Self { lines: TextLines::new(input), formats: formats.or(Format::Utf8), fields }
    }
}

impl super::Reader for Reader {
    /// The next entry; empty lines are passed over.
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput> {
        loop {
            let Some(line) = self.lines.next(goes_on)? else { return Ok(Event::End) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let (formats, fields) = (&self.formats, &self.fields);
            let decoded = (serde_json::from_slice(line).map_err(|error| error.to_string()))
                .and_then(|object: Object<'_>| {
                    member(&object, &fields.key, formats.key(), key)?;
                    if !fields.whole {
                        return member(&object, &fields.value, formats.value(), value);
                    }
                    value.clear();
                    value.extend_from_slice(line);
                    Ok(())
                });
            decoded.map_err(|error| self.lines.bad(error))?;
            return Ok(Event::Entry);
        }
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Whether a line that is longer than a key can be may have this beginning.
fn goes_on(begun: &[u8]) -> Result<(), String> {
    match begun.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        _ => Err(format!("its first {} bytes begin no object of JSON", begun.len())),
    }
}

/// A string or a number of the object.
fn member(
    object: &Object<'_>,
    name: &str,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let Some(raw) = object.get(name) else {
        let encoded = object.get(&format!("{name}{BASE64}")).and_then(|raw| string(raw));
        let encoded = encoded.ok_or_else(|| format!("no member \"{name}\" in an object"))?;
        return Format::Base64.decode_to(encoded.as_bytes(), out);
    };
    let is_number = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let written = match is_number {
        true => raw.get().to_owned(),
        false => {
            string(raw).ok_or_else(|| format!("neither a string nor a number under \"{name}\""))?
        }
    };
    format.decode_to(written.as_bytes(), out)
}

/// A member of an object: its name and its value.
pub(crate) fn field(name: &str, bytes: &[u8], format: Format) -> Result<(String, Value), String> {
    if format.is_plain() && str::from_utf8(bytes).is_err() {
        let encoded = Format::Base64.encode(bytes)?;
        return Ok((format!("{name}{BASE64}"), encoded.into()));
    }
    Ok((name.to_owned(), format.encode(bytes)?.into()))
}

/// Writes the format.
pub(crate) struct Writer {
    formats: FormatArgs,
}

impl Writer {
    /// In these formats of keys and values.
    pub(crate) fn new(formats: FormatArgs) -> Self {
        Self { formats: formats.or(Format::Utf8) }
    }

    /// Writes one entry.
    pub(crate) fn entry(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let key = field("key", key, self.formats.key())?;
        let value = field("value", value, self.formats.value())?;
        let member = |(name, value): (String, Value)| format!("\"{name}\":{value}");
        out.extend_from_slice(format!("{{{},{}}}\n", member(key), member(value)).as_bytes());
        Ok(())
    }
}
