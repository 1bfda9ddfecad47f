//! One entry a line: the key, a tab, the value, each in its format; or only keys, a line each. A
//! tab inside of a key or value is escaped by every format but the plain ones, so the first one
//! parts them; where plain bytes would be read as something else they are refused.

use std::io::Read;

use super::text_lines::{HEAD_BYTES, TextLines};
use super::{BadInput, Event, Layout};
use crate::codec::{Format, FormatArgs};

/// What lines are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    formats: FormatArgs,
    keys_only: bool,
    /// A line feed, or a zero byte.
    end: u8,
}

impl Shape {
    /// Between zero bytes stand bytes as they are, unless another format is given.
    fn new(formats: FormatArgs, layout: Layout) -> Self {
        let (formats, end) = match layout.null {
            true => (formats.or(Format::Raw), 0),
            false => (formats, b'\n'),
        };
        Self { formats, keys_only: layout.keys_only, end }
    }

    /// Whether a line that is longer than a key can be may have this beginning.
    fn goes_on(&self, begun: &[u8]) -> Result<(), String> {
        match (self.keys_only, begun.contains(&b'\t')) {
            (false, true) => Ok(()),
            (true, _) => Err(format!("a key of more than {HEAD_BYTES} bytes")),
            (false, false) => Err(format!(
                "there is no tab between a key and a value in its first {HEAD_BYTES} bytes; --as \
                 says which other format it is"
            )),
        }
    }

    fn decode(&self, line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
        value.clear();
        let (written, rest) = match line.iter().position(|&byte| byte == b'\t') {
            _ if self.keys_only => (line, None),
            Some(tab) => (&line[..tab], Some(&line[tab + 1..])),
            None => {
                return Err("there is no tab between a key and a value; --keys-only takes whole \
                            lines for keys"
                    .to_owned());
            }
        };
        let decoded = self.formats.key().decode_to(written, key);
        let decoded = decoded
            .and_then(|()| rest.map_or(Ok(()), |rest| self.formats.value().decode_to(rest, value)));
        decoded.map_err(|error| match line.contains(&b'\\') {
            true => format!("{error}; --format raw takes lines as they are"),
            false => error,
        })
    }
}

/// Reads the format.
pub(crate) struct Reader {
    lines: TextLines,
    shape: Shape,
}

impl Reader {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>, formats: FormatArgs, layout: Layout) -> Self {
        let shape = Shape::new(formats, layout);
        let is_plain = shape.formats.key().is_plain() || shape.formats.value().is_plain();
        Self { lines: TextLines::ending_with(input, shape.end, !is_plain), shape }
    }
}

impl super::Reader for Reader {
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput> {
        let Some(line) = self.lines.next(|begun| self.shape.goes_on(begun))? else {
            return Ok(Event::End);
        };
        let decoded = self.shape.decode(line, key, value);
        decoded.map_err(|error| self.lines.bad(error))?;
        Ok(Event::Entry)
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Writes the format.
pub(crate) struct Writer {
    shape: Shape,
}

impl Writer {
    /// In these formats of keys and values.
    pub(crate) fn new(formats: FormatArgs, layout: Layout) -> Self {
        Self { shape: Shape::new(formats, layout) }
    }

    /// Writes one entry.
    pub(crate) fn entry(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let Shape { formats, keys_only, end } = self.shape;
        let from = out.len();
        formats.key().encode_to(key, out)?;
        if !keys_only {
            if out[from..].contains(&b'\t') {
                return Err(unfit("a key with a tab"));
            }
            out.push(b'\t');
            formats.value().encode_to(value, out)?;
        }
        if out[from..].contains(&end) {
            return Err(unfit(if end == 0 { "a zero byte" } else { "a line feed" }));
        }
        out.push(end);
        Ok(())
    }
}

fn unfit(what: &str) -> String {
    format!("{what} would be read as something else; --format text escapes it")
}
