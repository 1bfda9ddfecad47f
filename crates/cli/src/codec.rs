//! Keys and values as people write them: text with escapes, hexadecimal digits, base64. Pure
//! functions over bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, ValueEnum};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How bytes are written and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Printable ASCII as it is, every other byte as `\xx` in hexadecimal, a backslash as `\\`.
    #[default]
    Text,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// The options that choose the formats of keys and values.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct FormatArgs {
    /// How keys and values are written and read
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// The same, for keys only
    #[arg(long, value_enum, value_name = "FORMAT")]
    key_format: Option<Format>,
    /// The same, for values only
    #[arg(long, value_enum, value_name = "FORMAT")]
    value_format: Option<Format>,
}

impl FormatArgs {
    /// The format of keys.
    pub(crate) fn key(&self) -> Format {
        self.key_format.unwrap_or(self.format)
    }

    /// The format of values.
    pub(crate) fn value(&self) -> Format {
        self.value_format.unwrap_or(self.format)
    }
}

impl Format {
    /// Adds `bytes`, as this format writes them, to `out`. The result is printable ASCII.
    pub(crate) fn encode_to(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text => bytes.iter().for_each(|&byte| escape(byte, out)),
            Self::Hex => bytes.iter().for_each(|&byte| push_hex(byte, out)),
            Self::Base64 => out.extend_from_slice(BASE64.encode(bytes).as_bytes()),
        }
    }

    /// `bytes` as this format writes them.
    pub(crate) fn encode(self, bytes: &[u8]) -> String {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        self.encode_to(bytes, &mut out);
        out.into_iter().map(char::from).collect()
    }

    /// Replaces the content of `out` with what `written` stands for.
    pub(crate) fn decode_to(self, written: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        match self {
            Self::Text => unescape(written, out),
            Self::Hex => unhex(written, out),
            Self::Base64 => BASE64
                .decode_vec(written, out)
                .map_err(|error| format!("not base64 with padding: {error}")),
        }
    }

    /// What `written` stands for.
    pub(crate) fn decode(self, written: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(written.len());
        self.decode_to(written, &mut out)?;
        Ok(out)
    }
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\\' => out.extend_from_slice(b"\\\\"),
        b' '..=b'~' => out.push(byte),
        _ => {
            out.push(b'\\');
            push_hex(byte, out);
        }
    }
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn unescape(written: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = written;
    while let Some(backslash) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..backslash]);
        rest = &rest[backslash + 1..];
        match rest {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [high, low, after @ ..] => {
                let pair = digit(*high).zip(digit(*low));
                let (high, low) = pair.ok_or_else(|| bad_escape(rest))?;
                out.push(high << 4 | low);
                rest = after;
            }
            _ => return Err(bad_escape(rest)),
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn bad_escape(rest: &[u8]) -> String {
    let shown = rest[..rest.len().min(2)].escape_ascii();
    format!(
        "a backslash must be followed by two hexadecimal digits or a backslash, not \"{shown}\""
    )
}

fn unhex(written: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let pairs = written.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(format!("an odd number ({}) of hexadecimal digits", written.len()));
    }
    for pair in pairs {
        let wrong = || format!("\"{}\" is not a pair of hexadecimal digits", pair.escape_ascii());
        let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or_else(wrong)?;
        out.push(high << 4 | low);
    }
    Ok(())
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_every_format() {
        let all: Vec<u8> = (0..=255).collect();
        for format in [Format::Text, Format::Hex, Format::Base64] {
            for bytes in [&all[..], b"", b"\\", b"\\\\41", b"plain", b"a\tb\n"] {
                let written = format.encode(bytes);
                assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written}");
                assert_eq!(format.decode(written.as_bytes()).unwrap(), bytes, "{format:?}");
            }
        }
    }

    #[test]
    fn text_is_what_mdb_dump_prints() {
        assert_eq!(Format::Text.encode(b"a\\b\x00\xff~"), "a\\\\b\\00\\ff~");
    }

    #[test]
    fn text_takes_bytes_beyond_ascii_as_they_are() {
        assert_eq!(Format::Text.decode("h\u{e4}\\5C".as_bytes()).unwrap(), "h\u{e4}\\".as_bytes());
    }

    #[test]
    fn nonsense_is_refused() {
        for (format, written) in [
            (Format::Text, "a\\"),
            (Format::Text, "a\\4"),
            (Format::Text, "\\4x"),
            (Format::Hex, "abc"),
            (Format::Hex, "0g"),
            (Format::Base64, "a"),
            (Format::Base64, "????"),
        ] {
            assert!(format.decode(written.as_bytes()).is_err(), "{format:?} {written}");
        }
    }
}
