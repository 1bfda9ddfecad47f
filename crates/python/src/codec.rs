//! Keys and values of Python as bytes of the store, and back. The encodings are those of
//! `hedgerow::key`, so that a typed table of Rust and one of Python are the same.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use hedgerow::key::{DecodeError, KeyCode};
use hedgerow::tree::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{
    PyBool, PyBytes, PyDateTime, PyDelta, PyDeltaAccess, PyFloat, PyInt, PyMemoryView, PyString,
    PyTuple, PyType, PyTzInfo,
};

/// How a key or a value is written.
pub(crate) enum Codec {
    /// Bytes as they are; anything with a buffer is taken.
    Bytes,
    /// The same, read as a `memoryview` without a copy where that is possible.
    View,
    Str,
    Int,
    Float,
    Bool,
    Datetime,
    Tuple(Vec<Codec>),
    /// An object with `dumps` and `loads`, as `json` is.
    Custom {
        dumps: Py<PyAny>,
        loads: Py<PyAny>,
    },
}

/// A type of an annotation.
fn is_type<T: pyo3::PyTypeInfo>(of: &Bound<'_, PyAny>) -> bool {
    of.is(of.py().get_type::<T>())
}

impl Codec {
    /// What `key=` or `value=` says: a type, a tuple of types, or an object with `dumps` and
    /// `loads`.
    pub(crate) fn new(of: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(of) = of.filter(|of| !of.is_none()) else { return Ok(Self::Bytes) };
        if let Ok(parts) = of.cast::<PyTuple>() {
            let parts = parts.iter().map(|part| match Self::new(Some(&part))? {
                Self::Custom { .. } => Err(unknown(&part)),
                codec => Ok(codec),
            });
            return Ok(Self::Tuple(parts.collect::<PyResult<_>>()?));
        }
        if is_type::<PyBytes>(of) {
            Ok(Self::Bytes)
        } else if is_type::<PyMemoryView>(of) {
            Ok(Self::View)
        } else if is_type::<PyString>(of) {
            Ok(Self::Str)
        } else if is_type::<PyInt>(of) {
            Ok(Self::Int)
        } else if is_type::<PyFloat>(of) {
            Ok(Self::Float)
        } else if is_type::<PyBool>(of) {
            Ok(Self::Bool)
        } else if is_type::<PyDateTime>(of) {
            Ok(Self::Datetime)
        } else if !of.is_instance_of::<PyType>() && of.hasattr("dumps")? && of.hasattr("loads")? {
            Ok(Self::Custom {
                dumps: of.getattr("dumps")?.unbind(),
                loads: of.getattr("loads")?.unbind(),
            })
        } else {
            Err(unknown(of))
        }
    }

    /// The name that Rust's typed tables have for the type.
    pub(crate) fn type_name(&self, name: &mut String) {
        match self {
            Self::Bytes | Self::View | Self::Custom { .. } => name.push_str("bytes"),
            Self::Str => name.push_str("string"),
            Self::Int => name.push_str("i64"),
            Self::Float => name.push_str("f64"),
            Self::Bool => name.push_str("bool"),
            Self::Datetime => name.push_str("time"),
            Self::Tuple(parts) => {
                name.push('(');
                for part in parts {
                    part.type_name(name);
                    name.push(',');
                }
                name.push(')');
            }
        }
    }

    /// Whether it is bytes as they are.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Bytes | Self::View | Self::Custom { .. })
    }

    /// Visits what it refers to of Python's.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Custom { dumps, loads } => {
                visit.call(dumps)?;
                visit.call(loads)
            }
            _ => Ok(()),
        }
    }

    /// Whether another one writes the same bytes.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let name = |codec: &Self| {
            let mut name = String::new();
            codec.type_name(&mut name);
            name
        };
        name(self) == name(other)
    }

    /// Whether it writes a `bytes` object as it is.
    pub(crate) fn takes_bytes(&self) -> bool {
        matches!(self, Self::Bytes | Self::View)
    }

    /// The length of every encoding, where there is one.
    pub(crate) fn width(&self) -> Option<u32> {
        match self {
            Self::Bytes | Self::View | Self::Custom { .. } | Self::Str => None,
            Self::Int | Self::Float => Some(8),
            Self::Bool => Some(1),
            Self::Datetime => Some(12),
            Self::Tuple(parts) => parts.iter().map(Self::width).sum(),
        }
    }

    /// A key or value that stands alone.
    #[inline]
    pub(crate) fn encode<'a>(&self, value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        match self {
            Self::Bytes | Self::View => bytes_of(value),
            Self::Str => Ok(Cow::Borrowed(text_of(value)?.as_bytes())),
            Self::Custom { dumps, .. } => {
                let made = dumps.bind(value.py()).call1((value,))?;
                match made.cast::<PyString>() {
                    Ok(text) => Ok(Cow::Owned(text.to_str()?.as_bytes().to_vec())),
                    Err(_) => Ok(Cow::Owned(bytes_of(&made)?.into_owned())),
                }
            }
            _ => {
                let mut out = Vec::with_capacity(32);
                self.encode_part(value, &mut out)?;
                Ok(Cow::Owned(out))
            }
        }
    }

    /// A bound of a range, or a prefix: of a tuple the first parts suffice.
    pub(crate) fn encode_bound<'a>(&self, value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        match (self, value.cast::<PyTuple>()) {
            (Self::Tuple(parts), Ok(given)) if given.len() < parts.len() => {
                let mut out = Vec::with_capacity(32);
                for (part, value) in parts.iter().zip(given.iter()) {
                    part.encode_part(&value, &mut out)?;
                }
                Ok(Cow::Owned(out))
            }
            _ => self.encode(value),
        }
    }

    /// A part of a tuple.
    fn encode_part(&self, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Self::Bytes | Self::View => Vec::<u8>::encode_part(&bytes_of(value)?, out),
            Self::Str => String::encode_part(text_of(value)?, out),
            Self::Int => match value.cast::<PyInt>() {
                Ok(int) => i64::encode_part(int.extract().map_err(|_| too_large())?, out),
                Err(_) => return Err(wrong("int", value)),
            },
            Self::Float => match value.extract() {
                Ok(float) => f64::encode_part(float, out),
                Err(_) => return Err(wrong("float", value)),
            },
            Self::Bool => match value.cast::<PyBool>() {
                Ok(yes) => bool::encode_part(yes.is_true(), out),
                Err(_) => return Err(wrong("bool", value)),
            },
            Self::Datetime => SystemTime::encode_part(time_of(value)?, out),
            Self::Tuple(parts) => {
                let given = value.cast::<PyTuple>().map_err(|_| wrong("tuple", value))?;
                if given.len() != parts.len() {
                    return Err(PyValueError::new_err(format!(
                        "a tuple of {} parts was given; the table takes {}",
                        given.len(),
                        parts.len()
                    )));
                }
                for (part, value) in parts.iter().zip(given.iter()) {
                    part.encode_part(&value, out)?;
                }
            }
            Self::Custom { .. } => return Err(wrong("part of a tuple", value)),
        }
        Ok(())
    }

    /// What the bytes of the store say.
    #[inline(always)]
    pub(crate) fn decode<'py>(
        &self,
        py: Python<'py>,
        bytes: Bytes<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Bytes => Ok(joined(py, bytes)?.into_any()),
            _ => self.decode_other(py, bytes),
        }
    }

    fn decode_other<'py>(&self, py: Python<'py>, bytes: Bytes<'_>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::View => Ok(PyMemoryView::from(joined(py, bytes)?.as_any())?.into_any()),
            Self::Str => match std::str::from_utf8(&bytes.to_cow()) {
                Ok(text) => Ok(PyString::new(py, text).into_any()),
                Err(error) => Err(unfit(error)),
            },
            Self::Custom { loads, .. } => loads.bind(py).call1((joined(py, bytes)?,)),
            _ => {
                let whole = bytes.to_cow();
                let mut rest = &*whole;
                let value = self.decode_part(py, &mut rest)?;
                match rest.is_empty() {
                    true => Ok(value),
                    false => Err(unfit(DecodeError::new("bytes are left over"))),
                }
            }
        }
    }

    fn decode_part<'py>(&self, py: Python<'py>, bytes: &mut &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Bytes | Self::View | Self::Custom { .. } => {
                PyBytes::new(py, &Vec::<u8>::decode_part(bytes).map_err(unfit)?).into_any()
            }
            Self::Str => PyString::new(py, &String::decode_part(bytes).map_err(unfit)?).into_any(),
            Self::Int => i64::decode_part(bytes).map_err(unfit)?.into_pyobject(py)?.into_any(),
            Self::Float => PyFloat::new(py, f64::decode_part(bytes).map_err(unfit)?).into_any(),
            Self::Bool => {
                PyBool::new(py, bool::decode_part(bytes).map_err(unfit)?).to_owned().into_any()
            }
            Self::Datetime => from_time(py, SystemTime::decode_part(bytes).map_err(unfit)?)?,
            Self::Tuple(parts) => {
                let parts = parts.iter().map(|part| part.decode_part(py, bytes));
                PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        })
    }
}

/// The bytes of a `bytes` object, or a copy of those of another buffer.
#[inline]
pub(crate) fn bytes_of<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    match PyBuffer::<u8>::get(value) {
        Ok(buffer) => Ok(Cow::Owned(buffer.to_vec(value.py())?)),
        Err(_) => Ok(Cow::Owned(of_other_elements(value)?)),
    }
}

/// A copy of the bytes of a buffer whose elements are no bytes, such as an array of numbers.
#[cold]
fn of_other_elements(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let py = value.py();
    let view = match PyMemoryView::from(value) {
        Ok(view) => view,
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            return Err(wrong("bytes-like object", value));
        }
        // It is a buffer that cannot be read any more, for example one that is closed.
        Err(error) => return Err(error),
    };
    let bytes = view.call_method0("tobytes")?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// A copy of a string of the store.
#[inline]
pub(crate) fn joined<'py>(py: Python<'py>, bytes: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
    let (first, second) = match bytes.parts() {
        (whole, []) | ([], whole) => return Ok(PyBytes::new(py, whole)),
        parts => parts,
    };
    let join = |room: &mut [u8]| {
        let (front, back) = room.split_at_mut(first.len());
        front.copy_from_slice(first);
        back.copy_from_slice(second);
    };
    // Short ones are put together before Python's room for them is had, which it would clear.
    let mut short = [0; 64];
    match short.get_mut(..bytes.len()) {
        Some(room) => {
            join(room);
            Ok(PyBytes::new(py, room))
        }
        None => PyBytes::new_with(py, bytes.len(), |room| {
            join(room);
            Ok(())
        }),
    }
}

/// 1970 began.
fn epoch(py: Python<'_>) -> PyResult<Bound<'_, PyDateTime>> {
    let utc = PyTzInfo::utc(py)?;
    PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc))
}

/// The moment of a `datetime` that knows its time zone.
fn time_of(value: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let time = value.cast::<PyDateTime>().map_err(|_| wrong("datetime", value))?;
    if time.getattr("tzinfo")?.is_none() {
        let reason = "a datetime needs a time zone, for example datetime.now(timezone.utc)";
        return Err(PyValueError::new_err(reason));
    }
    let since = time.sub(epoch(value.py())?)?.cast_into::<PyDelta>()?;
    let days = i64::from(since.get_days());
    let seconds = days * 86_400 + i64::from(since.get_seconds());
    let part = Duration::from_micros(u64::from(since.get_microseconds().unsigned_abs()));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at = match seconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(whole),
        false => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    at.and_then(|at| at.checked_add(part)).ok_or_else(too_large)
}

/// A moment as a `datetime` in UTC, of whole microseconds.
fn from_time(py: Python<'_>, time: SystemTime) -> PyResult<Bound<'_, PyAny>> {
    let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_micros()),
        Err(before) => i128::try_from(before.duration().as_nanos().div_ceil(1_000)).map(|n| -n),
    };
    let micros = micros.map_err(|_| too_large())?;
    const DAY: i128 = 86_400_000_000;
    let days = i32::try_from(micros.div_euclid(DAY)).map_err(|_| too_large())?;
    let rest = micros.rem_euclid(DAY);
    let (seconds, micros) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
    epoch(py)?.add(PyDelta::new(py, days, seconds, micros, false)?)
}

/// The text of a `str`.
fn text_of<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    value.cast::<PyString>().map_err(|_| wrong("str", value))?.to_str()
}

/// The name of a type, as a sentence has it.
fn one(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

pub(crate) fn wrong(wanted: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let name = got.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!("this takes {}, not {}", one(wanted), one(&name)))
}

fn unknown(of: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{of} is no type of keys and values: take bytes, memoryview, str, int, float, bool, \
         datetime, a tuple of these, or (alone) an object with dumps and loads, such as json"
    ))
}

fn too_large() -> PyErr {
    PyOverflowError::new_err("the number does not fit 64 bits")
}

fn unfit(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!(
        "what is stored was written as another type ({error}): read it as bytes to see"
    ))
}
