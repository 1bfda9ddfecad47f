//! What changed between two read transactions.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::Arc;

use hedgerow::tree::{Change, Diff, ReadTxn, Snapshot};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::codec::Codec;
use crate::errors::{OrRaise, raise};
use crate::table::{Codecs, KeyBounds};

/// A change, copied: the key, and the values before and after.
struct Owned {
    key: Vec<u8>,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl From<Change<'_>> for Owned {
    fn from(change: Change<'_>) -> Self {
        let (before, after) = match change {
            Change::Added { value, .. } => (None, Some(value.to_vec())),
            Change::Removed { value, .. } => (Some(value.to_vec()), None),
            Change::Changed { old, new, .. } => (Some(old.to_vec()), Some(new.to_vec())),
        };
        Self { key: change.key().to_vec(), before, after }
    }
}

/// Two moments; the first one may be before there was anything.
pub(crate) type Both = (Option<Arc<ReadTxn>>, Arc<ReadTxn>);

/// The differences in a table.
fn between<'t>((old, new): &'t Both, table: &[u8]) -> hedgerow::Result<Diff<'t>> {
    match old {
        Some(old) => Diff::new(old, new, table),
        None => Diff::of_tables((new, None), (new, Some(new.table(table)?))),
    }
}

/// Goes through what changed in a table from one moment to another, in the order of the keys: each
/// change is the key, the value before, and the value after, where ``None`` stands for none.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Changes {
    /// The moments; none once all is read.
    both: Option<Both>,
    table: Vec<u8>,
    codecs: Codecs,
    /// What has yet to be read.
    keys: KeyBounds,
    waiting: VecDeque<Owned>,
    /// The tables have not one order, so that changes cannot be read in parts.
    is_whole: bool,
}

/// This many changes are read at once, and the rest of the last one's key.
const AT_ONCE: usize = 256;

impl Changes {
    pub(crate) fn new(
        py: Python<'_>,
        both: Both,
        table: Vec<u8>,
        codecs: Codecs,
        keys: KeyBounds,
    ) -> PyResult<Self> {
        let look = || -> hedgerow::Result<_> {
            between(&both, &table)?;
            let old = both.0.as_ref().map(|old| old.find_table(&table)).transpose()?;
            Ok((old.flatten(), both.1.find_table(&table)?))
        };
        let is_whole = match py.detach(look).or_raise(py)? {
            (Some(old), Some(new)) => {
                (old.order, old.duplicates, old.value_order)
                    != (new.order, new.duplicates, new.value_order)
            }
            _ => false,
        };
        Ok(Self { both: Some(both), table, codecs, keys, waiting: VecDeque::new(), is_whole })
    }

    /// Reads the next changes; afterwards the snapshots are let go if there are no more.
    fn refill(&mut self) -> hedgerow::Result<()> {
        let Some(both) = &self.both else { return Ok(()) };
        let low = self.keys.0.as_ref().map(Vec::as_slice);
        let high = self.keys.1.as_ref().map(Vec::as_slice);
        for change in between(both, &self.table)?.within(low, high)? {
            let change = Owned::from(change?);
            if !self.is_whole && self.waiting.len() >= AT_ONCE {
                let last = &self.waiting[self.waiting.len() - 1];
                if last.key != change.key {
                    self.keys.0 = End::Excluded(last.key.clone());
                    return Ok(());
                }
            }
            self.waiting.push_back(change);
        }
        self.both = None;
        Ok(())
    }
}

#[pymethods]
impl Changes {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if self.waiting.is_empty() {
            py.detach(|| self.refill()).or_raise(py)?;
        }
        let Some(change) = self.waiting.pop_front() else { return Ok(None) };
        let value = |value: Option<Vec<u8>>| {
            value.map(|value| self.codecs.value.decode(py, (&*value).into())).transpose()
        };
        let key = self.codecs.key.decode(py, (&*change.key).into())?;
        (key, value(change.before)?, value(change.after)?).into_pyobject(py).map(Some)
    }
}

/// Two snapshots whose differences are asked for.
pub(crate) fn both(
    py: Python<'_>,
    old: Option<Arc<ReadTxn>>,
    new: Option<Arc<ReadTxn>>,
) -> PyResult<(Arc<ReadTxn>, Arc<ReadTxn>)> {
    match (old, new) {
        (Some(old), Some(new)) => Ok((old, new)),
        _ => raise(py, "ArgumentError", "only read transactions are compared"),
    }
}

/// The codecs of a comparison.
pub(crate) fn codecs(
    key: Option<&Bound<'_, PyAny>>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<Codecs> {
    Ok(Codecs { key: Codec::new(key)?, value: Codec::new(value)? })
}
