//! Values of a table, found by their keys.

use hedgerow::stream::Value;
use hedgerow::tree::{Bytes, Snapshot, WriteTxn};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Table;
use crate::buffer;
use crate::codec::{Codec, joined};
use crate::errors::{OrRaise, closed};
use crate::long;
use crate::txn::State;

impl Table {
    /// The (first) value of a key.
    #[inline]
    pub(super) fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, codec) = (key.py(), &self.codecs.value);
        let key = self.key(key)?;
        if matches!(codec, Codec::Bytes) {
            return self.find_bytes(py, &key);
        }
        let Some(snapshot) = self.txn.get().snapshot(py)? else {
            let found = self.copied(py, |txn| txn.get(self.handle, &key))?;
            return found.map(|value| codec.decode(py, Bytes::from(&*value))).transpose();
        };
        if matches!(codec, Codec::View) {
            let found = py.detach(|| Value::get(&snapshot, self.handle, &key));
            self.txn.get().passed(py)?;
            let found = found.or_raise(py)?;
            return found.map(|value| buffer::view(py, value)).transpose();
        }
        let found = py.detach(|| snapshot.get(self.handle, &key));
        self.txn.get().passed(py)?;
        found.or_raise(py)?.map(|value| codec.decode(py, value)).transpose()
    }

    /// The same where values are bytes: the short way, with nothing but the lock taken.
    #[inline]
    fn find_bytes<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let guard = self.txn.get().look(py)?;
        let found = match &*guard {
            State::Read(txn, _) => py.detach(|| txn.get(self.handle, key)),
            State::Write(txn, _) => py.detach(|| txn.get(self.handle, key)),
            State::Closed => {
                drop(guard);
                return closed(py, "the transaction");
            }
        };
        // Making bytes runs nothing of Python's.
        let found = found.map(|found| found.map(|value| joined(py, value)));
        drop(guard);
        self.txn.get().passed(py)?;
        Ok(found.or_raise(py)?.transpose()?.map(Bound::into_any))
    }

    /// The values of many keys, in the order of the keys.
    pub(super) fn find_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let given = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let keys = given.iter().map(|key| self.key(key)).collect::<PyResult<Vec<_>>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let shown = |value: Option<Bytes<'_>>| match value {
            Some(value) => self.codecs.value.decode(py, value),
            None => Ok(default.clone()),
        };
        let (txn, snapshot) = (self.txn.get(), self.txn.get().snapshot(py)?);
        let (mut values, mut found) = (Vec::with_capacity(keys.len()), Vec::new());
        for keys in keys.chunks(long::KEYS) {
            if let Some(snapshot) = &snapshot {
                let got = py.detach(|| snapshot.get_many(self.handle, keys, &mut found));
                txn.passed(py)?;
                got.or_raise(py)?;
                for value in &found {
                    values.push(shown(*value)?);
                }
            } else {
                let get = |txn: &WriteTxn| {
                    let mut found = Vec::new();
                    txn.get_many(self.handle, keys, &mut found)?;
                    Ok(found.iter().map(|value| value.map(|v| v.to_vec())).collect::<Vec<_>>())
                };
                for value in txn.inspect(py, get)? {
                    values.push(shown(value.as_deref().map(Bytes::from))?);
                }
            }
            py.check_signals()?;
        }
        PyList::new(py, values)
    }

    /// A copy of what a write transaction finds.
    fn copied(
        &self,
        py: Python<'_>,
        find: impl FnOnce(&WriteTxn) -> hedgerow::Result<Option<Bytes<'_>>> + Send,
    ) -> PyResult<Option<Vec<u8>>> {
        let find = |txn: &WriteTxn| Ok(find(txn)?.map(|value| value.to_vec()));
        self.txn.get().inspect(py, find)
    }
}
