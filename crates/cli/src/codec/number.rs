//! Numbers as keys and values: the order-preserving encodings of typed tables, and the native
//! integers of tables in integer order.

use std::fmt::Display;
use std::str::FromStr;

use hedgerow::key::KeyCode;

/// The kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    U32,
    U64,
    I32,
    I64,
    F64,
    Native32,
    Native64,
}

impl Number {
    /// What it is called in messages.
    fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Native32 => "native integer of 4 bytes",
            Self::Native64 => "native integer of 8 bytes",
        }
    }

    /// The number that the bytes are.
    pub(super) fn show(self, bytes: &[u8]) -> Result<String, String> {
        let shown = match self {
            Self::U32 => decoded::<u32>(bytes),
            Self::U64 => decoded::<u64>(bytes),
            Self::I32 => decoded::<i32>(bytes),
            Self::I64 => decoded::<i64>(bytes),
            Self::F64 => f64::decode(bytes).ok().map(float).transpose()?,
            Self::Native32 => bytes.try_into().ok().map(|b| u32::from_le_bytes(b).to_string()),
            Self::Native64 => bytes.try_into().ok().map(|b| u64::from_le_bytes(b).to_string()),
        };
        shown.ok_or_else(|| format!("{} bytes that are no {}", bytes.len(), self.name()))
    }

    /// Adds the bytes of the number that is written here.
    pub(super) fn read(self, written: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let text = str::from_utf8(written).map_or("", str::trim);
        let is_read = match self {
            Self::U32 => number(text).map(|n: u32| <u32 as KeyCode>::encode(n, out)),
            Self::U64 => number(text).map(|n: u64| <u64 as KeyCode>::encode(n, out)),
            Self::I32 => number(text).map(|n: i32| <i32 as KeyCode>::encode(n, out)),
            Self::I64 => number(text).map(|n: i64| <i64 as KeyCode>::encode(n, out)),
            Self::F64 => number(text).map(|n: f64| <f64 as KeyCode>::encode(n, out)),
            Self::Native32 => number(text).map(|n: u32| out.extend_from_slice(&n.to_le_bytes())),
            Self::Native64 => number(text).map(|n: u64| out.extend_from_slice(&n.to_le_bytes())),
        };
        let wrong = || format!("\"{}\" is no {}", written.escape_ascii(), self.name());
        is_read.ok_or_else(wrong)
    }
}

/// A number as it is read again, of which those that are none have a sign.
fn float(number: f64) -> Result<String, String> {
    let sign = if number.is_nan() && number.is_sign_negative() { "-" } else { "" };
    let shown = format!("{sign}{number:?}");
    match shown.parse::<f64>().is_ok_and(|read| read.to_bits() == number.to_bits()) {
        true => Ok(shown),
        false => Err(format!(
            "a NaN with the bits {:016x}, which no number in digits has: hex writes any",
            number.to_bits()
        )),
    }
}

fn decoded<T: KeyCode + Display>(bytes: &[u8]) -> Option<String> {
    <T as KeyCode>::decode(bytes).ok().map(|number| number.to_string())
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
