//! Encodings of strings and byte strings, and the escaping that lets them be parts of a tuple.

use super::{DecodeError, KeyCode, take};

/// A zero byte inside a part is followed by this one.
const ESCAPE: u8 = 0xFF;
/// A part ends with a zero byte followed by this byte. It is smaller than [`ESCAPE`], so a string
/// comes before all longer strings that begin with it.
const END: u8 = 0x00;

/// Adds `bytes` in escaped form, and the mark of its end.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut pieces = bytes.split(|&byte| byte == 0);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&[0, ESCAPE]);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&[0, END]);
}

/// Takes an escaped byte string off the front of `bytes`.
fn unescape(bytes: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut plain = Vec::new();
    loop {
        let zero = bytes.iter().position(|&byte| byte == 0);
        let zero = zero.ok_or(DecodeError::new("the end of a string is missing"))?;
        let (piece, rest) = bytes.split_at(zero);
        plain.extend_from_slice(piece);
        *bytes = rest;
        match take::<2>(bytes)? {
            [_, ESCAPE] => plain.push(0),
            [_, END] => return Ok(plain),
            _ => return Err(DecodeError::new("a zero byte in a string is not escaped")),
        }
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String, DecodeError> {
    String::from_utf8(bytes).map_err(|_| DecodeError::new("a string is not UTF-8"))
}

impl KeyCode for String {
    type Ref<'a> = &'a str;
    const FIXED_WIDTH: Option<usize> = None;

    fn type_name(name: &mut String) {
        name.push_str("string");
    }

    fn to_ref(&self) -> &str {
        self
    }

    fn encode_part(value: &str, out: &mut Vec<u8>) {
        escape(value.as_bytes(), out);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        unescape(bytes).and_then(utf8)
    }

    fn encode(value: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(value.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        utf8(bytes.to_vec())
    }
}

impl KeyCode for Vec<u8> {
    type Ref<'a> = &'a [u8];
    const FIXED_WIDTH: Option<usize> = None;

    fn type_name(name: &mut String) {
        name.push_str("bytes");
    }

    fn to_ref(&self) -> &[u8] {
        self
    }

    fn encode_part(value: &[u8], out: &mut Vec<u8>) {
        escape(value, out);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        unescape(bytes)
    }

    fn encode(value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(bytes.to_vec())
    }
}

impl<const N: usize> KeyCode for [u8; N] {
    type Ref<'a> = &'a [u8; N];
    const FIXED_WIDTH: Option<usize> = Some(N);

    fn type_name(name: &mut String) {
        name.push_str("bytes;");
        name.push_str(&N.to_string());
    }

    fn to_ref(&self) -> &[u8; N] {
        self
    }

    fn encode_part(value: &[u8; N], out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        take(bytes)
    }
}
