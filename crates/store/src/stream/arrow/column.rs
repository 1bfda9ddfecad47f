//! One column: bytes, text or numbers, being written and being read.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int32Builder, Int64Builder, StringBuilder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::Form;
use crate::key::KeyCode;

/// A column that is being written.
pub(super) struct Column {
    form: Form,
    builder: Builder,
}

enum Builder {
    Bytes(BinaryBuilder),
    Text(StringBuilder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F64(Float64Builder),
}

impl Form {
    /// What it is called in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Utf8 => "UTF-8",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::NativeU32 => "native integer of 4 bytes",
            Self::NativeU64 => "native integer of 8 bytes",
            Self::Text(_) => "text",
        }
    }
}

impl Column {
    pub(super) fn new(form: Form) -> Self {
        let builder = match form {
            Form::Bytes => Builder::Bytes(BinaryBuilder::new()),
            Form::Utf8 | Form::Text(_) => Builder::Text(StringBuilder::new()),
            Form::U32 | Form::NativeU32 => Builder::U32(UInt32Builder::new()),
            Form::U64 | Form::NativeU64 => Builder::U64(UInt64Builder::new()),
            Form::I32 => Builder::I32(Int32Builder::new()),
            Form::I64 => Builder::I64(Int64Builder::new()),
            Form::F64 => Builder::F64(Float64Builder::new()),
        };
        Self { form, builder }
    }

    pub(super) fn data_type(&self) -> DataType {
        match self.builder {
            Builder::Bytes(_) => DataType::Binary,
            Builder::Text(_) => DataType::Utf8,
            Builder::U32(_) => DataType::UInt32,
            Builder::U64(_) => DataType::UInt64,
            Builder::I32(_) => DataType::Int32,
            Builder::I64(_) => DataType::Int64,
            Builder::F64(_) => DataType::Float64,
        }
    }

    /// Adds what these bytes stand for; if they stand for nothing, why.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let no_number = || format!("{} bytes that are no {}", bytes.len(), self.form.name());
        match (&mut self.builder, self.form) {
            (Builder::Bytes(builder), _) => builder.append_value(bytes),
            (Builder::Text(builder), Form::Text(form)) => {
                let text = (form.write)(bytes)?;
                check_room(builder.values_slice().len(), text.len())?;
                builder.append_value(text);
            }
            (Builder::Text(builder), _) => {
                let text = str::from_utf8(bytes);
                builder.append_value(text.map_err(|_| "bytes that are no UTF-8".to_owned())?);
            }
            (Builder::U32(builder), Form::NativeU32) => {
                let bytes = bytes.try_into().map_err(|_| no_number())?;
                builder.append_value(u32::from_le_bytes(bytes));
            }
            (Builder::U64(builder), Form::NativeU64) => {
                let bytes = bytes.try_into().map_err(|_| no_number())?;
                builder.append_value(u64::from_le_bytes(bytes));
            }
            (Builder::U32(builder), _) => builder.append_value(decoded(bytes, no_number)?),
            (Builder::U64(builder), _) => builder.append_value(decoded(bytes, no_number)?),
            (Builder::I32(builder), _) => builder.append_value(decoded(bytes, no_number)?),
            (Builder::I64(builder), _) => builder.append_value(decoded(bytes, no_number)?),
            (Builder::F64(builder), _) => builder.append_value(decoded(bytes, no_number)?),
        }
        Ok(())
    }

    /// Takes what was added.
    pub(super) fn take(&mut self) -> ArrayRef {
        match &mut self.builder {
            Builder::Bytes(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::U32(builder) => Arc::new(builder.finish()),
            Builder::U64(builder) => Arc::new(builder.finish()),
            Builder::I32(builder) => Arc::new(builder.finish()),
            Builder::I64(builder) => Arc::new(builder.finish()),
            Builder::F64(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Refuses a text that makes a column longer than its offsets of 31 bits can tell: it may be
/// several times as long as the bytes that it stands for.
fn check_room(there: usize, more: usize) -> Result<(), String> {
    match there.checked_add(more) {
        Some(sum) if i32::try_from(sum).is_ok() => Ok(()),
        _ => Err(format!("the text has {more} bytes, and a column holds less than 2 GiB")),
    }
}

fn decoded<T: KeyCode>(bytes: &[u8], no_number: impl Fn() -> String) -> Result<T, String> {
    T::decode(bytes).map_err(|_| no_number())
}

/// In what form a column of this type is read, if `asked` says nothing; `None` for a type that
/// stands for no bytes.
pub(super) fn form_of(data_type: &DataType, asked: Option<Form>) -> Option<Form> {
    let default = match data_type {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => return Some(Form::Bytes),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Utf8,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Form::U32,
        DataType::UInt64 => Form::U64,
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Form::I32,
        DataType::Int64 => Form::I64,
        DataType::Float32 | DataType::Float64 => Form::F64,
        _ => return None,
    };
    Some(asked.filter(|asked| !matches!(asked, Form::Bytes)).unwrap_or(default))
}

/// Replaces the content of `out` with the bytes that a row of a column stands for.
pub(super) fn read(
    array: &dyn Array,
    row: usize,
    form: Form,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if array.is_null(row) {
        return Err("there is no value (null)".to_owned());
    }
    out.clear();
    match array.data_type() {
        DataType::Binary => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => out.extend_from_slice(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => out.extend_from_slice(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => {
            out.extend_from_slice(array.as_fixed_size_binary().value(row));
        }
        _ => return cell(array, row)?.read(form, out),
    }
    Ok(())
}

/// What stands in a row.
enum Cell<'a> {
    Text(&'a str),
    Integer(i128),
    Float(f64),
}

fn cell(array: &dyn Array, row: usize) -> Result<Cell<'_>, String> {
    Ok(match array.data_type() {
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row)),
        DataType::UInt8 => Cell::Integer(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Cell::Integer(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Cell::Integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Int8 => Cell::Integer(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Cell::Integer(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Cell::Integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        other => return Err(format!("a column of {other} holds no bytes")),
    })
}

impl Cell<'_> {
    /// Adds the bytes that it stands for in a form.
    fn read(&self, form: Form, out: &mut Vec<u8>) -> Result<(), String> {
        let no_number = || format!("\"{}\" is no {}", self.text(), form.name());
        match form {
            Form::Bytes | Form::Utf8 => out.extend_from_slice(self.text().as_bytes()),
            Form::Text(form) => (form.read)(&self.text(), out)?,
            Form::U32 => <u32 as KeyCode>::encode(self.integer().ok_or_else(no_number)?, out),
            Form::U64 => <u64 as KeyCode>::encode(self.integer().ok_or_else(no_number)?, out),
            Form::I32 => <i32 as KeyCode>::encode(self.integer().ok_or_else(no_number)?, out),
            Form::I64 => <i64 as KeyCode>::encode(self.integer().ok_or_else(no_number)?, out),
            Form::F64 => <f64 as KeyCode>::encode(self.float().ok_or_else(no_number)?, out),
            Form::NativeU32 => {
                let number: u32 = self.integer().ok_or_else(no_number)?;
                out.extend_from_slice(&number.to_le_bytes());
            }
            Form::NativeU64 => {
                let number: u64 = self.integer().ok_or_else(no_number)?;
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        Ok(())
    }

    /// As text; a number as one reads it again.
    fn text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(text) => (*text).into(),
            Self::Integer(number) => number.to_string().into(),
            Self::Float(number) => format!("{number:?}").into(),
        }
    }

    fn integer<T: TryFrom<i128> + FromStr>(&self) -> Option<T> {
        match self {
            Self::Integer(number) => T::try_from(*number).ok(),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Float(_) => None,
        }
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Float(number) => Some(*number),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What has no place in a column.

    use super::check_room;

    #[test]
    fn a_column_is_shorter_than_two_gib() {
        let most = i32::MAX as usize;
        assert_eq!((check_room(0, most), check_room(most, 0)), (Ok(()), Ok(())));
        for (there, more) in [(0, most + 1), (most, 1), (1, most), (1, usize::MAX)] {
            let reason = check_room(there, more).unwrap_err();
            assert!(reason.starts_with(&format!("the text has {more} bytes")), "{reason}");
        }
    }
}
