//! Keys and values as people write them: text with or without escapes, hexadecimal digits, base64,
//! numbers. Pure functions over bytes.

mod number;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, ValueEnum};

use number::Number;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How bytes are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Printable ASCII as it is, every other byte as `\xx` in hexadecimal, a backslash as `\\`.
    Text,
    /// UTF-8 as it is; what is none is refused (in JSON lines: in base64, under another name).
    Utf8,
    /// Bytes as they are.
    Raw,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Base64 with padding.
    Base64,
    /// A number as typed tables keep it.
    U32,
    /// The same of 64 bits.
    U64,
    /// The same of 32 bits with a sign.
    I32,
    /// The same of 64 bits with a sign.
    I64,
    /// A floating-point number as typed tables keep it.
    F64,
    /// An integer of 4 bytes as tables in integer order keep it.
    Native32,
    /// The same of 8 bytes.
    Native64,
}

/// The options that choose the formats of keys and values.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct FormatArgs {
    /// How keys and values are written and read [default: text; in csv and jsonl: utf8]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
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
        self.key_format.or(self.format).unwrap_or(Format::Text)
    }

    /// The format of values.
    pub(crate) fn value(&self) -> Format {
        self.value_format.or(self.format).unwrap_or(Format::Text)
    }

    /// The format of keys, if one was given.
    #[cfg(feature = "columns")]
    pub(crate) fn key_asked(&self) -> Option<Format> {
        self.key_format.or(self.format)
    }

    /// The format of values, if one was given.
    #[cfg(feature = "columns")]
    pub(crate) fn value_asked(&self) -> Option<Format> {
        self.value_format.or(self.format)
    }

    /// The same, where another format than text is meant if none is given.
    pub(crate) fn or(self, default: Format) -> Self {
        Self { format: self.format.or(Some(default)), ..self }
    }
}

/// Bytes as messages show them, and names of tables: in the text format.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    escape_to(bytes, &mut out);
    out.into_iter().map(char::from).collect()
}

/// Adds bytes in the text format.
pub(crate) fn escape_to(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.iter().for_each(|&byte| escape(byte, out));
}

/// Adds bytes as hexadecimal digits.
pub(crate) fn hex_to(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.iter().for_each(|&byte| push_hex(byte, out));
}

impl Format {
    /// Adds `bytes`, as this format writes them, to `out`: printable ASCII, except in plain
    /// formats.
    pub(crate) fn encode_to(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Text => escape_to(bytes, out),
            Self::Utf8 => out.extend_from_slice(utf8(bytes)?.as_bytes()),
            Self::Raw => out.extend_from_slice(bytes),
            Self::Hex => hex_to(bytes, out),
            Self::Base64 => out.extend_from_slice(BASE64.encode(bytes).as_bytes()),
            _ => out.extend_from_slice(self.number().show(bytes)?.as_bytes()),
        }
        Ok(())
    }

    /// `bytes` as this format writes them, if that is text.
    pub(crate) fn encode(self, bytes: &[u8]) -> Result<String, String> {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        self.encode_to(bytes, &mut out)?;
        utf8(&out).map(str::to_owned)
    }

    /// Whether it writes bytes as they are.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Self::Utf8 | Self::Raw)
    }

    fn number(self) -> Number {
        match self {
            Self::U32 => Number::U32,
            Self::I32 => Number::I32,
            Self::I64 => Number::I64,
            Self::F64 => Number::F64,
            Self::Native32 => Number::Native32,
            Self::Native64 => Number::Native64,
            _ => Number::U64,
        }
    }

    /// Replaces the content of `out` with what `written` stands for.
    pub(crate) fn decode_to(self, written: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        match self {
            Self::Text => unescape(written, out),
            Self::Utf8 => utf8(written).map(|text| out.extend_from_slice(text.as_bytes())),
            Self::Raw => {
                out.extend_from_slice(written);
                Ok(())
            }
            Self::Hex => unhex(written, out),
            Self::Base64 => BASE64
                .decode_vec(written, out)
                .map_err(|error| format!("not base64 with padding: {error}")),
            _ => self.number().read(written, out),
        }
    }

    /// What `written` stands for.
    pub(crate) fn decode(self, written: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(written.len());
        self.decode_to(written, &mut out)?;
        Ok(out)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| {
        "not UTF-8: --format raw takes bytes as they are; text, hex and base64 write any".to_owned()
    })
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
                let written = format.encode(bytes).unwrap();
                assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written}");
                assert_eq!(format.decode(written.as_bytes()).unwrap(), bytes, "{format:?}");
            }
        }
    }

    #[test]
    fn text_is_what_mdb_dump_prints() {
        assert_eq!(shown(b"a\\b\x00\xff~"), "a\\\\b\\00\\ff~");
    }

    #[test]
    fn text_takes_bytes_beyond_ascii_as_they_are() {
        assert_eq!(Format::Text.decode("h\u{e4}\\5C".as_bytes()).unwrap(), "h\u{e4}\\".as_bytes());
    }

    #[test]
    fn plain_formats_change_nothing() {
        let every: Vec<u8> = (0..=255).collect();
        for bytes in ["C:\\dead", "h\u{e4}\n", ""] {
            assert_eq!(Format::Utf8.encode(bytes.as_bytes()).unwrap(), bytes);
            assert_eq!(Format::Utf8.decode(bytes.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert!(Format::Utf8.encode(&every).is_err() && Format::Utf8.decode(b"\xff").is_err());
        let mut out = Vec::new();
        Format::Raw.encode_to(&every, &mut out).unwrap();
        assert_eq!((&out, &Format::Raw.decode(&out).unwrap()), (&every, &every));
    }

    #[test]
    fn numbers_keep_their_order_and_their_length() {
        for (format, numbers) in [
            (Format::U32, &["0", "9", "10", "4294967295"][..]),
            (Format::U64, &["0", "10", "18446744073709551615"]),
            (Format::I32, &["-2147483648", "-1", "0", "5"]),
            (Format::I64, &["-10", "-9", "0", "9223372036854775807"]),
            (Format::F64, &["-inf", "-1.5", "0.0", "0.1", "1e300", "inf"]),
        ] {
            let encoded = |text: &&str| format.decode(text.as_bytes()).unwrap();
            let all: Vec<Vec<u8>> = numbers.iter().map(encoded).collect();
            assert!(all.is_sorted(), "{format:?}");
            let back: Vec<String> = all.iter().map(|bytes| format.encode(bytes).unwrap()).collect();
            assert_eq!(back, numbers, "{format:?}");
            assert!(format.encode(b"abc").is_err(), "{format:?}");
            assert!(format.decode(b"1x").is_err() && format.decode(b"").is_err(), "{format:?}");
        }
        for bits in [f64::NAN.to_bits(), (-f64::NAN).to_bits()] {
            let mut bytes = Vec::new();
            <f64 as hedgerow::key::KeyCode>::encode(f64::from_bits(bits), &mut bytes);
            let shown = Format::F64.encode(&bytes).unwrap();
            assert_eq!(Format::F64.decode(shown.as_bytes()).unwrap(), bytes, "{shown}");
            // One bit more is lost in digits.
            *bytes.last_mut().unwrap() ^= 1;
            assert!(Format::F64.encode(&bytes).unwrap_err().contains("NaN"));
        }
        assert_eq!(Format::Native32.decode(b"7").unwrap(), 7_u32.to_le_bytes());
        assert_eq!(Format::Native64.encode(&7_u64.to_le_bytes()).unwrap(), "7");
        assert!(Format::U32.decode(b"4294967296").is_err());
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
