//! Pairs as columns of Arrow, and columns as pairs. A tuple is a column for each part.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hedgerow::key::KeyCode;
use hedgerow::tree::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::codec::Codec;

/// Name and format of a column.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) format: String,
    pub(crate) is_nullable: bool,
}

/// The rows of a column in a batch; without a column all of them are null.
pub(crate) struct Filled {
    pub(crate) column: Option<Column>,
    /// A bit for each row that is not null, if any is.
    pub(crate) valid: Option<Vec<u8>>,
    pub(crate) nulls: usize,
}

impl From<Column> for Filled {
    fn from(column: Column) -> Self {
        Self { column: Some(column), valid: None, nulls: 0 }
    }
}

/// A column that is written.
pub(crate) enum Column {
    /// Byte strings or texts: where each begins, and the last one ends.
    Bytes { ends: Vec<i32>, data: Vec<u8>, is_text: bool },
    /// Numbers of 64 bits: integers, floats, times.
    Words { data: Vec<u64>, format: &'static str },
    /// Truth values.
    Bits { data: Vec<u8>, len: usize },
}

impl Column {
    pub(crate) fn push_bytes(&mut self, bytes: &[&[u8]]) -> Result<(), String> {
        let Self::Bytes { ends, data, .. } = self else { return Ok(()) };
        for part in bytes {
            data.extend_from_slice(part);
        }
        ends.push(i32::try_from(data.len()).map_err(|_| "a batch of more than 2 GiB")?);
        Ok(())
    }

    pub(crate) fn push_word(&mut self, word: u64) {
        if let Self::Words { data, .. } = self {
            data.push(word);
        }
    }

    fn push_bit(&mut self, bit: bool) {
        if let Self::Bits { data, len } = self {
            if len.is_multiple_of(8) {
                data.push(0);
            }
            if let Some(last) = data.last_mut() {
                *last |= u8::from(bit) << (*len % 8);
            }
            *len += 1;
        }
    }

    /// Without rows; the room for them stays.
    fn clear(&mut self) {
        match self {
            Self::Bytes { ends, data, .. } => {
                ends.truncate(1);
                data.clear();
            }
            Self::Words { data, .. } => data.clear(),
            Self::Bits { data, len } => {
                data.clear();
                *len = 0;
            }
        }
    }

    /// An empty one of the same kind, with as much room.
    fn empty(&self) -> Self {
        match self {
            Self::Bytes { ends: old, data, is_text } => {
                let mut ends = Vec::with_capacity(old.len());
                ends.push(0);
                Self::Bytes { ends, data: Vec::with_capacity(data.len()), is_text: *is_text }
            }
            Self::Words { data, format } => {
                Self::Words { data: Vec::with_capacity(data.len()), format }
            }
            Self::Bits { data, .. } => Self::Bits { data: Vec::with_capacity(data.len()), len: 0 },
        }
    }

    pub(crate) fn format(&self) -> &'static str {
        match self {
            Self::Bytes { is_text: true, .. } => "u",
            Self::Bytes { .. } => "z",
            Self::Words { format, .. } => format,
            Self::Bits { .. } => "b",
        }
    }
}

/// What a key or value is, without what is Python's.
enum Shape {
    Bytes,
    Text,
    Int,
    Float,
    Bool,
    Time,
    Parts(Vec<Shape>),
}

impl Shape {
    fn of(codec: &Codec) -> Self {
        match codec {
            Codec::Bytes | Codec::View | Codec::Custom { .. } => Self::Bytes,
            Codec::Str => Self::Text,
            Codec::Int => Self::Int,
            Codec::Float => Self::Float,
            Codec::Bool => Self::Bool,
            Codec::Datetime => Self::Time,
            Codec::Tuple(parts) => Self::Parts(parts.iter().map(Self::of).collect()),
        }
    }

    /// Adds the columns of it, which it names.
    fn columns(&self, name: &str, names: &mut Vec<String>, columns: &mut Vec<Column>) {
        let words = |format| Column::Words { data: Vec::new(), format };
        let column = match self {
            Self::Parts(parts) => {
                for (n, part) in parts.iter().enumerate() {
                    part.columns(&format!("{name}.{n}"), names, columns);
                }
                return;
            }
            Self::Bytes => Column::Bytes { ends: vec![0], data: Vec::new(), is_text: false },
            Self::Text => Column::Bytes { ends: vec![0], data: Vec::new(), is_text: true },
            Self::Int => words("l"),
            Self::Float => words("g"),
            Self::Time => words("tsu:UTC"),
            Self::Bool => Column::Bits { data: Vec::new(), len: 0 },
        };
        names.push(name.to_owned());
        columns.push(column);
    }

    /// Adds a part of a tuple, or the whole, to the columns from the first one on.
    fn push(&self, bytes: &mut &[u8], is_part: bool, to: &mut &mut [Column]) -> Result<(), String> {
        if let Self::Parts(parts) = self {
            return parts.iter().try_for_each(|part| part.push(bytes, true, to));
        }
        let Some((column, rest)) = std::mem::take(to).split_first_mut() else { return Ok(()) };
        *to = rest;
        let unfit = |error: hedgerow::key::DecodeError| error.to_string();
        match self {
            Self::Bytes | Self::Text if is_part => {
                column.push_bytes(&[&Vec::<u8>::decode_part(bytes).map_err(unfit)?])
            }
            Self::Bytes | Self::Text => column.push_bytes(&[std::mem::take(bytes)]),
            Self::Int => {
                column.push_word(i64::decode_part(bytes).map_err(unfit)?.cast_unsigned());
                Ok(())
            }
            Self::Float => {
                column.push_word(f64::decode_part(bytes).map_err(unfit)?.to_bits());
                Ok(())
            }
            Self::Bool => {
                column.push_bit(bool::decode_part(bytes).map_err(unfit)?);
                Ok(())
            }
            Self::Time => {
                let time = SystemTime::decode_part(bytes).map_err(unfit)?;
                column.push_word(micros(time)?.cast_unsigned());
                Ok(())
            }
            Self::Parts(_) => Ok(()),
        }
    }
}

/// Whole microseconds since 1970.
fn micros(time: SystemTime) -> Result<i64, String> {
    let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(1_000)).ok().map(|n| -n),
    };
    micros.ok_or_else(|| "a time that 64 bits of microseconds do not reach".to_owned())
}

/// Columns whose rows nobody needs any more: their memory is there already, where new memory would
/// have to be cleared by the system first.
pub(crate) struct Spare(Mutex<Vec<(usize, Column)>>);

/// At most this many columns are kept for each that is filled.
const SPARE_MAX: usize = 2;

impl Spare {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Puts an empty column in the place of one, which it gives.
    fn exchange(&self, n: usize, column: &mut Column) -> Column {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(of, _)| *of == n).map(|at| kept.swap_remove(at).1);
        std::mem::replace(column, found.unwrap_or_else(|| column.empty()))
    }

    /// Keeps a column whose rows are over.
    pub(crate) fn keep(&self, n: usize, mut column: Column) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().filter(|(of, _)| *of == n).count() < SPARE_MAX {
            column.clear();
            kept.push((n, column));
        }
    }
}

/// The columns of keys and values.
pub(crate) struct Columns {
    key: Option<Shape>,
    value: Option<Shape>,
    names: Vec<String>,
    columns: Vec<Column>,
    len: usize,
    bytes: usize,
}

impl Columns {
    /// Those of keys, of values, or of both.
    pub(crate) fn new(key: Option<&Codec>, value: Option<&Codec>) -> Self {
        let (key, value) = (key.map(Shape::of), value.map(Shape::of));
        let (mut names, mut columns) = (Vec::new(), Vec::new());
        if let Some(key) = &key {
            key.columns("key", &mut names, &mut columns);
        }
        if let Some(value) = &value {
            value.columns("value", &mut names, &mut columns);
        }
        Self { key, value, names, columns, len: 0, bytes: 0 }
    }

    pub(crate) fn fields(&self) -> Vec<Field> {
        let fields = self.names.iter().zip(&self.columns);
        let field = |(name, column): (&String, &Column)| Field {
            name: name.clone(),
            format: column.format().to_owned(),
            is_nullable: false,
        };
        fields.map(field).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Without rows, also those of a pair that was added in part.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        (self.len, self.bytes) = (0, 0);
    }

    /// The rows; none are left. Columns that were given back are filled next.
    pub(crate) fn take(&mut self, spare: &Spare) -> Vec<Column> {
        (self.len, self.bytes) = (0, 0);
        let columns = self.columns.iter_mut().enumerate();
        columns.map(|(n, column)| spare.exchange(n, column)).collect()
    }

    /// Adds a pair.
    pub(crate) fn push(&mut self, key: Bytes<'_>, value: Bytes<'_>) -> Result<(), String> {
        let mut to = self.columns.as_mut_slice();
        for (shape, bytes) in [(&self.key, key), (&self.value, value)] {
            match shape {
                None => continue,
                Some(Shape::Bytes) => {
                    // The usual case, without a copy of what is in two pieces.
                    let Some((column, rest)) = std::mem::take(&mut to).split_first_mut() else {
                        continue;
                    };
                    to = rest;
                    let (first, second) = bytes.parts();
                    column.push_bytes(&[first, second])?;
                }
                Some(shape) => {
                    let whole = bytes.to_cow();
                    if matches!(shape, Shape::Text) {
                        std::str::from_utf8(&whole).map_err(|error| error.to_string())?;
                    }
                    shape.push(&mut &*whole, false, &mut to)?;
                }
            }
            self.bytes += bytes.len();
        }
        self.len += 1;
        Ok(())
    }
}

/// A column that is read.
pub(crate) struct Reader<'a> {
    format: String,
    /// A bit for each row that is no null; none if there are no nulls.
    valid: &'a [u8],
    parts: Vec<&'a [u8]>,
    offset: usize,
}

/// What a row of a column holds.
enum Cell<'a> {
    Bytes(&'a [u8]),
    Int(i128),
    Float(f64),
    Bool(bool),
    /// Nanoseconds since 1970.
    Time(i128),
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at * N..)?.first_chunk().copied()
}

impl<'a> Reader<'a> {
    pub(crate) fn new(format: &str, valid: &'a [u8], parts: Vec<&'a [u8]>, offset: usize) -> Self {
        Self { format: format.to_owned(), valid, parts, offset }
    }

    /// The bytes of a row, for formats whose rows have one size.
    pub(crate) fn width(format: &str) -> Option<usize> {
        match format {
            "c" | "C" => Some(1),
            "s" | "S" => Some(2),
            "i" | "I" | "f" => Some(4),
            "l" | "L" | "g" => Some(8),
            _ if format.starts_with("ts") => Some(8),
            _ => format.strip_prefix("w:")?.parse().ok(),
        }
    }

    fn cell(&self, row: usize) -> Option<Cell<'a>> {
        let at = row + self.offset;
        if !self.valid.is_empty() && self.valid.get(at / 8)? >> (at % 8) & 1 == 0 {
            return None;
        }
        let first = *self.parts.first()?;
        Some(match self.format.as_str() {
            "u" | "z" => {
                let start = u32::from_le_bytes(number(first, at)?) as usize;
                let end = u32::from_le_bytes(number(first, at + 1)?) as usize;
                Cell::Bytes(self.parts.get(1)?.get(start..end)?)
            }
            "U" | "Z" => {
                let start = u64::from_le_bytes(number(first, at)?) as usize;
                let end = u64::from_le_bytes(number(first, at + 1)?) as usize;
                Cell::Bytes(self.parts.get(1)?.get(start..end)?)
            }
            "vu" | "vz" => {
                let view: &[u8] = first.get(at * 16..at * 16 + 16)?;
                let word = |n: usize| number::<4>(view, n).map(u32::from_le_bytes);
                let len = word(0)? as usize;
                match len <= 12 {
                    true => Cell::Bytes(view.get(4..4 + len)?),
                    false => {
                        let (buffer, start) = (word(2)? as usize, word(3)? as usize);
                        Cell::Bytes(self.parts.get(1 + buffer)?.get(start..start + len)?)
                    }
                }
            }
            "b" => Cell::Bool(first.get(at / 8)? >> (at % 8) & 1 == 1),
            "c" => Cell::Int(i8::from_le_bytes(number(first, at)?).into()),
            "C" => Cell::Int(u8::from_le_bytes(number(first, at)?).into()),
            "s" => Cell::Int(i16::from_le_bytes(number(first, at)?).into()),
            "S" => Cell::Int(u16::from_le_bytes(number(first, at)?).into()),
            "i" => Cell::Int(i32::from_le_bytes(number(first, at)?).into()),
            "I" => Cell::Int(u32::from_le_bytes(number(first, at)?).into()),
            "l" => Cell::Int(i64::from_le_bytes(number(first, at)?).into()),
            "L" => Cell::Int(u64::from_le_bytes(number(first, at)?).into()),
            "f" => Cell::Float(f32::from_le_bytes(number(first, at)?).into()),
            "g" => Cell::Float(f64::from_le_bytes(number(first, at)?)),
            format if format.starts_with("ts") => {
                let unit = match format.as_bytes().get(2)? {
                    b's' => 1_000_000_000,
                    b'm' => 1_000_000,
                    b'u' => 1_000,
                    _ => 1,
                };
                Cell::Time(i128::from(i64::from_le_bytes(number(first, at)?)) * unit)
            }
            format => {
                let width = Self::width(format)?;
                Cell::Bytes(first.get(at * width..(at + 1) * width)?)
            }
        })
    }
}

/// Encodes a row of some columns as a key or value.
pub(crate) fn encode(
    codec: &Codec,
    columns: &[Reader<'_>],
    row: usize,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let mut columns = columns.iter();
    encode_part(codec, &mut columns, row, false, out)
}

/// How many columns a key or value takes.
pub(crate) fn width(codec: &Codec) -> usize {
    match codec {
        Codec::Tuple(parts) => parts.iter().map(width).sum(),
        _ => 1,
    }
}

fn encode_part(
    codec: &Codec,
    columns: &mut std::slice::Iter<'_, Reader<'_>>,
    row: usize,
    is_part: bool,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    if let Codec::Tuple(parts) = codec {
        return parts.iter().try_for_each(|part| encode_part(part, columns, row, true, out));
    }
    let Some(column) = columns.next() else {
        return Err(PyValueError::new_err("the table takes more columns"));
    };
    let Some(cell) = column.cell(row) else {
        return Err(PyValueError::new_err("a table has no nulls, and a column has some"));
    };
    match (codec, cell) {
        (Codec::Bytes | Codec::View | Codec::Custom { .. } | Codec::Str, Cell::Bytes(bytes)) => {
            if matches!(codec, Codec::Str) {
                std::str::from_utf8(bytes)
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
            }
            match is_part {
                true => Vec::<u8>::encode_part(bytes, out),
                false => out.extend_from_slice(bytes),
            }
        }
        (Codec::Int, Cell::Int(n)) => match i64::try_from(n) {
            Ok(n) => i64::encode_part(n, out),
            Err(_) => return Err(PyValueError::new_err("a number does not fit 64 bits")),
        },
        (Codec::Float, Cell::Float(n)) => f64::encode_part(n, out),
        (Codec::Float, Cell::Int(n)) => f64::encode_part(n as f64, out),
        (Codec::Bool, Cell::Bool(yes)) => bool::encode_part(yes, out),
        (Codec::Datetime, Cell::Time(nanos)) => {
            let (seconds, part) = (nanos.unsigned_abs() / 1_000_000_000, nanos % 1_000_000_000);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            let whole = Duration::new(seconds, part.unsigned_abs() as u32);
            let time = match nanos >= 0 {
                true => SystemTime::UNIX_EPOCH.checked_add(whole),
                false => SystemTime::UNIX_EPOCH.checked_sub(whole),
            };
            let time = time.ok_or_else(|| PyValueError::new_err("a time is out of range"))?;
            SystemTime::encode_part(time, out);
        }
        _ => {
            let format = &column.format;
            let reason = format!("the table does not take a column of the Arrow format {format:?}");
            return Err(PyTypeError::new_err(reason));
        }
    }
    Ok(())
}
