//! One column: bytes, text in one of the formats, or numbers.

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

use crate::codec::Format;

/// A column that is being written.
pub(super) struct Column {
    format: Format,
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

impl Column {
    pub(super) fn new(format: Format) -> Self {
        let builder = match format {
            Format::Raw => Builder::Bytes(BinaryBuilder::new()),
            Format::Text | Format::Utf8 | Format::Hex | Format::Base64 => {
                Builder::Text(StringBuilder::new())
            }
            Format::U32 | Format::Native32 => Builder::U32(UInt32Builder::new()),
            Format::U64 | Format::Native64 => Builder::U64(UInt64Builder::new()),
            Format::I32 => Builder::I32(Int32Builder::new()),
            Format::I64 => Builder::I64(Int64Builder::new()),
            Format::F64 => Builder::F64(Float64Builder::new()),
        };
        Self { format, builder }
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

    /// Adds what is shown of these bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Builder::Bytes(builder) = &mut self.builder {
            builder.append_value(bytes);
            return Ok(());
        }
        let shown = self.format.encode(bytes)?;
        match &mut self.builder {
            Builder::Bytes(_) => {}
            Builder::Text(builder) => builder.append_value(&shown),
            Builder::U32(builder) => builder.append_value(number(&shown)?),
            Builder::U64(builder) => builder.append_value(number(&shown)?),
            Builder::I32(builder) => builder.append_value(number(&shown)?),
            Builder::I64(builder) => builder.append_value(number(&shown)?),
            Builder::F64(builder) => builder.append_value(number(&shown)?),
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

fn number<T: FromStr>(shown: &str) -> Result<T, String> {
    shown.parse().map_err(|_| format!("{shown} is not a number of the column"))
}

/// In what format a column of this type holds bytes, if `asked` says nothing; `None` for a type
/// that holds none.
pub(super) fn format_of(data_type: &DataType, asked: Option<Format>) -> Option<Format> {
    let default = match data_type {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => return Some(Format::Raw),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Format::Utf8,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Format::U32,
        DataType::UInt64 => Format::U64,
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Format::I32,
        DataType::Int64 => Format::I64,
        DataType::Float32 | DataType::Float64 => Format::F64,
        _ => return None,
    };
    Some(asked.filter(|&asked| asked != Format::Raw).unwrap_or(default))
}

/// Replaces the content of `out` with the bytes that a row of a column stands for.
pub(super) fn read(
    array: &dyn Array,
    row: usize,
    format: Format,
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
        _ => return format.decode_to(&shown(array, row)?, out),
    }
    Ok(())
}

/// Text, or a number as text.
fn shown(array: &dyn Array, row: usize) -> Result<Vec<u8>, String> {
    let text = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => array.as_string_view().value(row).to_owned(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => {
            format!("{:?}", f64::from(array.as_primitive::<Float32Type>().value(row)))
        }
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        other => return Err(format!("a column of {other} holds no bytes")),
    };
    Ok(text.into_bytes())
}
