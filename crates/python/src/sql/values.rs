//! Values of Python's as SQLite's, and back.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PySequence, PyString};
use rusqlite::Statement;
use rusqlite::types::Value;

use crate::codec::bytes_of;

/// The parameters of a statement.
pub(super) enum Parameters {
    Numbered(Vec<Value>),
    Named(Vec<(String, Value)>),
}

impl Parameters {
    pub(super) fn new(given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = given else { return Ok(Self::Numbered(Vec::new())) };
        if let Ok(named) = given.cast::<PyDict>() {
            let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                Ok((name.extract::<String>()?, value_of(&value)?))
            };
            return Ok(Self::Named(named.iter().map(pair).collect::<PyResult<_>>()?));
        }
        let is_string = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
        if is_string || given.cast::<PySequence>().is_err() {
            return Err(PyTypeError::new_err("parameters are a sequence or a dict"));
        }
        let values = given.try_iter()?.map(|value| value_of(&value?));
        Ok(Self::Numbered(values.collect::<PyResult<_>>()?))
    }

    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        let wanted = statement.parameter_count();
        match self {
            Self::Numbered(values) if values.len() == wanted => {
                for (n, value) in values.iter().enumerate() {
                    statement.raw_bind_parameter(n + 1, value)?;
                }
                Ok(())
            }
            Self::Numbered(values) => {
                Err(rusqlite::Error::InvalidParameterCount(values.len(), wanted))
            }
            Self::Named(values) => {
                for n in 1..=wanted {
                    let name = statement.parameter_name(n).unwrap_or("?").to_owned();
                    let found = values.iter().find(|(given, _)| name.get(1..) == Some(given));
                    match found {
                        Some((_, value)) => statement.raw_bind_parameter(n, value)?,
                        None => return Err(rusqlite::Error::InvalidParameterName(name)),
                    }
                }
                Ok(())
            }
        }
    }
}

/// A value of Python's as one of SQLite's.
fn value_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(yes) = value.cast::<PyBool>() {
        Ok(Value::Integer(yes.is_true().into()))
    } else if let Ok(int) = value.cast::<PyInt>() {
        let too_large = |_| PyOverflowError::new_err("the number does not fit 64 bits");
        int.extract().map(Value::Integer).map_err(too_large)
    } else if let Ok(float) = value.cast::<PyFloat>() {
        Ok(Value::Real(float.value()))
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(Value::Text(text.to_str()?.to_owned()))
    } else {
        match bytes_of(value) {
            Ok(bytes) => Ok(Value::Blob(bytes.into_owned())),
            Err(_) => {
                let name = value.get_type().name()?;
                let reason = format!("SQL has no type for {name}: give int, float, str or bytes");
                Err(PyTypeError::new_err(reason))
            }
        }
    }
}

/// A value of SQLite's as one of Python's.
pub(super) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Integer(int) => int.into_pyobject(py)?.into_any(),
        Value::Real(float) => PyFloat::new(py, *float).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Blob(blob) => PyBytes::new(py, blob).into_any(),
    })
}
