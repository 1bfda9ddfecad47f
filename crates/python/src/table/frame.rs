//! Rows of Arrow streams as pairs of a table.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::{Codecs, Pairs};
use crate::arrow;
use crate::codec::Codec;
use crate::columns::{self, Columns, Field};

/// Has the rows of a stream put as pairs; how many there were. The columns have these names.
pub(crate) fn put_rows(
    data: &Bound<'_, PyAny>,
    codecs: &Codecs,
    (key, value): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    mut put: impl FnMut(&mut Pairs) -> PyResult<()>,
) -> PyResult<u64> {
    let Codecs { key: key_codec, value: value_codec } = codecs;
    let keys = column_names("key", key_codec, key)?;
    let values = column_names("value", value_codec, value)?;
    let choose = |fields: &[Field]| {
        let find = |name: &String| {
            let found = fields.iter().position(|field| field.name == *name);
            found.ok_or_else(|| {
                let names: Vec<_> = fields.iter().map(|field| &*field.name).collect();
                let names = names.join(", ");
                PyKeyError::new_err(format!("there is no column {name:?}, only {names}"))
            })
        };
        keys.iter().chain(&values).map(find).collect::<PyResult<Vec<_>>>()
    };
    let (mut waiting, mut rows) = (Pairs::default(), 0);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    arrow::import(data, choose, |len, columns| {
        let (of_key, of_value) = columns.split_at(keys.len());
        for row in 0..len {
            key.clear();
            value.clear();
            columns::encode(key_codec, of_key, row, &mut key)?;
            if !of_value.is_empty() {
                columns::encode(value_codec, of_value, row, &mut value)?;
            }
            waiting.push(&key, &value);
            if waiting.is_full() {
                put(&mut waiting)?;
            }
        }
        rows += len as u64;
        Ok(())
    })?;
    put(&mut waiting)?;
    Ok(rows)
}

/// The names of the columns of keys or values.
fn column_names(
    what: &str,
    codec: &Codec,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<String>> {
    let width = columns::width(codec);
    let names: Vec<String> = match given {
        None if width == 1 && !matches!(codec, Codec::Tuple(_)) => vec![what.to_owned()],
        None => Columns::new(Some(codec), None)
            .fields()
            .into_iter()
            .map(|field| field.name.replacen("key", what, 1))
            .collect(),
        Some(name) if name.is_instance_of::<PyString>() => vec![name.extract()?],
        Some(names) => names.extract()?,
    };
    match names.len() == width || (names.is_empty() && what == "value") {
        true => Ok(names),
        false => Err(PyTypeError::new_err(format!("the table takes {width} columns for a {what}"))),
    }
}
