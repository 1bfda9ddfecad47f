//! Pairs that are collected and then put with one call.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Pairs that are put with one call of the store, and about how many bytes.
const PAIRS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Pairs as bytes, to be put.
#[derive(Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((end, self.bytes.len()));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= PAIRS_AT_ONCE || self.bytes.len() >= BYTES_AT_ONCE
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let pairs = starts.zip(&self.ends);
        pairs.map(|(start, (key, end))| (&self.bytes[start..*key], &self.bytes[*key..*end]))
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Key and value of a tuple that holds two `bytes` and nothing of other types, which Python may do
/// with as it likes.
#[inline]
pub(super) fn strings<'a>(pair: &'a Bound<'_, PyAny>) -> Option<(&'a [u8], &'a [u8])> {
    fn string<'a>(pair: &'a Bound<'_, PyTuple>, place: usize) -> Option<&'a [u8]> {
        pair.get_borrowed_item(place).ok()?.cast_exact::<PyBytes>().ok()?.extract().ok()
    }
    let pair = pair.cast_exact::<PyTuple>().ok().filter(|pair| pair.len() == 2)?;
    Some((string(pair, 0)?, string(pair, 1)?))
}

/// The two parts of a pair of any kind.
pub(crate) fn two<'py>(
    pair: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let parts = pair.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    match <[_; 2]>::try_from(parts) {
        Ok([key, value]) => Ok((key, value)),
        Err(_) => Err(PyValueError::new_err("a pair has a key and a value")),
    }
}
