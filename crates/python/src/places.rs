//! Views as sequences: positions, and whether an entry is there. Keys are looked up, and pairs by
//! their keys; values are walked.

use std::ops::{Bound as End, RangeBounds};

use hedgerow::tree::{self, Bytes, Snapshot};
use pyo3::exceptions::{PyException, PyIndexError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::table::owned;
use crate::txn::look;
use crate::view::{Kind, View, give};

impl View {
    /// The entry at a position.
    pub(crate) fn at<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let (table, total) = (self.table.get(), self.total(py)?);
        let len = self.span.len(total);
        let index = if index < 0 { index.saturating_add_unsigned(len as usize) } else { index };
        let Some(index) = u64::try_from(index).ok().filter(|index| *index < len) else {
            return Err(PyIndexError::new_err("there are fewer entries"));
        };
        let place = self.span.skip + index;
        let place = if self.span.is_reverse { total - 1 - place } else { place };
        let before = match &self.span.low {
            End::Unbounded => None,
            End::Included(key) => Some((End::Unbounded, End::Excluded(key.clone()))),
            End::Excluded(key) => Some((End::Unbounded, End::Included(key.clone()))),
        };
        let by_keys = self.kind == Kind::Keys;
        let entry = look!(table.txn.get(), py, |txn| {
            let before = match before {
                Some(keys) => txn.count_range(table.handle, keys)?,
                None => tree::Count::default(),
            };
            match by_keys {
                true => Ok(owned(txn.nth_key(table.handle, before.keys + place)?)),
                false => Ok(owned(txn.nth(table.handle, before.values + place)?)),
            }
        })?;
        match entry {
            Some((key, value)) => {
                let (key, value) = (Bytes::from(&*key), Bytes::from(&*value));
                give(py, &table.codecs, self.kind, key, value)
            }
            None => Err(PyIndexError::new_err("there are fewer entries")),
        }
    }

    /// Whether one of its entries is the item, or is equal to it.
    pub(crate) fn holds(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, table) = (item.py(), self.table.get());
        let Some(key) = self.key_of(item)? else { return self.walks_past(item) };
        let bytes = match table.codecs.key.encode(&key) {
            Ok(bytes) => bytes,
            // A key of another type may be equal to one of the table's.
            Err(error) if error.is_instance_of::<PyException>(py) => return self.walks_past(item),
            Err(error) => return Err(error),
        };
        if !(self.span.low.clone(), self.span.high.clone()).contains(&bytes.to_vec()) {
            return Ok(false);
        }
        if self.kind == Kind::Keys {
            return look!(table.txn.get(), py, |txn| Ok(txn.get(table.handle, &bytes)?.is_some()));
        }
        let value = item.get_item(1)?;
        is_among(table.values_of(&key)?.into_iter().map(Ok), &value)
    }

    /// The key by which an entry is found, if there is one, and what is found so is in the view.
    fn key_of<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let span = &self.span;
        let is_whole = matches!((&span.low, &span.high), (End::Unbounded, End::Unbounded));
        if span.skip > 0 || span.limit.is_some() || !(is_whole || self.table.get().is_bytewise) {
            return Ok(None);
        }
        match (self.kind, item.cast::<PyTuple>()) {
            (Kind::Keys, _) => Ok(Some(item.clone())),
            (Kind::Items, Ok(pair)) if pair.len() == 2 => pair.get_item(0).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether a walk comes to the item.
    fn walks_past(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        is_among(self.iterate(item.py())?.try_iter()?, item)
    }
}

/// A position, as sequences take it: where a number is too large for one, nothing stands.
pub(crate) fn place_of(index: &Bound<'_, PyAny>) -> PyResult<isize> {
    index.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(index.py()) {
            true => PyIndexError::new_err("there are fewer entries"),
            false => error,
        }
    })
}

/// Whether one is the item, or equal to it.
fn is_among<'py>(
    all: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    item: &Bound<'py, PyAny>,
) -> PyResult<bool> {
    for one in all {
        let one = one?;
        if one.is(item) || one.eq(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
