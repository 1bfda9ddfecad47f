//! Values of a table, found by their keys.

use hedgerow::stream::Value;
use hedgerow::tree::{Bytes, Snapshot, WriteTxn};
use pyo3::prelude::*;

use super::Table;
use crate::buffer;
use crate::codec::{Codec, joined};
use crate::errors::{OrRaise, closed};
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
