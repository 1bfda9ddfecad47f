//! Rows of SQL as columns of Arrow.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rusqlite::types::{Type, Value};

use super::rows::Found;
use crate::arrow::{Batches, export_all};
use crate::columns::{Column, Field, Filled, Spare};
use crate::errors::raise;

/// A batch has at most this many rows, and no further one after about this many bytes.
const ROWS_MAX: usize = 64 << 10;
const BYTES_MAX: usize = 16 << 20;

/// Rows, and the type of each column.
struct Rows {
    found: Arc<Found>,
    types: Vec<Type>,
    at: usize,
}

/// The type that holds values of both; `None` if there is none.
fn common(one: Type, other: Type) -> Option<Type> {
    match (one, other) {
        (Type::Null, of) | (of, Type::Null) => Some(of),
        (one, other) if one == other => Some(one),
        (Type::Integer, Type::Real) | (Type::Real, Type::Integer) => Some(Type::Real),
        _ => None,
    }
}

fn empty(of: Type) -> Option<Column> {
    match of {
        Type::Null => None,
        Type::Integer => Some(Column::Words { data: Vec::new(), format: "l" }),
        Type::Real => Some(Column::Words { data: Vec::new(), format: "g" }),
        Type::Text => Some(Column::Bytes { ends: vec![0], data: Vec::new(), is_text: true }),
        Type::Blob => Some(Column::Bytes { ends: vec![0], data: Vec::new(), is_text: false }),
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(blob) => blob.len(),
        _ => 8,
    }
}

/// The values of a column of some rows.
fn fill<'a>(of: Type, values: impl ExactSizeIterator<Item = &'a Value>) -> Result<Filled, String> {
    let mut valid = vec![0_u8; values.len().div_ceil(8)];
    let (mut column, mut nulls) = (empty(of), 0);
    for (n, value) in values.enumerate() {
        let is_null = matches!(value, Value::Null);
        nulls += usize::from(is_null);
        if let Some(byte) = valid.get_mut(n / 8) {
            *byte |= u8::from(!is_null) << (n % 8);
        }
        let Some(column) = &mut column else { continue };
        match (value, of) {
            (Value::Integer(int), Type::Real) => column.push_word((*int as f64).to_bits()),
            (Value::Integer(int), _) => column.push_word(int.cast_unsigned()),
            (Value::Real(float), _) => column.push_word(float.to_bits()),
            (Value::Text(text), _) => column.push_bytes(&[text.as_bytes()])?,
            (Value::Blob(blob), _) => column.push_bytes(&[blob])?,
            (Value::Null, Type::Text | Type::Blob) => column.push_bytes(&[])?,
            (Value::Null, _) => column.push_word(0),
        }
    }
    Ok(Filled { column, valid: (nulls > 0).then_some(valid), nulls })
}

impl Batches for Rows {
    fn fields(&self) -> Vec<Field> {
        let field = |(name, of): (&String, &Type)| {
            let format = empty(*of).map_or("n", |column| column.format()).to_owned();
            Field { name: name.clone(), format, is_nullable: true }
        };
        self.found.columns.iter().zip(&self.types).map(field).collect()
    }

    fn next(&mut self) -> Result<(usize, Vec<Filled>), String> {
        let (found, width, from) = (&self.found, self.types.len(), self.at);
        let row = |n: usize| &found.values[n * width..(n + 1) * width];
        let mut bytes = 0;
        while self.at < found.len && self.at - from < ROWS_MAX && bytes < BYTES_MAX {
            bytes += row(self.at).iter().map(size).sum::<usize>();
            self.at += 1;
        }
        let rows = from..self.at;
        let column = |(n, of): (usize, &Type)| fill(*of, rows.clone().map(|at| &row(at)[n]));
        let columns = self.types.iter().enumerate().map(column);
        Ok((rows.len(), columns.collect::<Result<_, _>>()?))
    }
}

/// The rows as an Arrow stream.
pub(super) fn export<'py>(py: Python<'py>, found: &Arc<Found>) -> PyResult<Bound<'py, PyCapsule>> {
    let mut types = vec![Type::Null; found.columns.len()];
    for row in found.values.chunks(types.len().max(1)) {
        for (n, value) in row.iter().enumerate() {
            let Some(of) = common(types[n], value.data_type()) else {
                let (one, other) = (types[n], value.data_type());
                let name = &found.columns[n];
                let reason = format!("column {name:?} holds {one} and {other}: cast it to one");
                return raise(py, "ArgumentError", &reason);
            };
            types[n] = of;
        }
    }
    let rows = Rows { found: Arc::clone(found), types, at: 0 };
    export_all(py, Box::new(rows), Arc::new(Spare::new()))
}
