//! What changed between two moments of a store.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::lsm;
use hedgerow::stream::AsChange as _;
use hedgerow::tree::{Change, Diff, ReadTxn, Snapshot, TableChange, TableInfo};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::codec::Codec;
use crate::either::Either;
use crate::errors::{OrRaise, raise};
use crate::fork::Ours;
use crate::table::{Codecs, KeyBounds, check};
use crate::txn::{locked, name_to};

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

/// What has yet to be read of a table.
struct Rest {
    both: Both,
    table: Vec<u8>,
    keys: KeyBounds,
    /// The tables have not one order, so that changes cannot be read in parts.
    is_whole: bool,
}

/// This many changes are read at once, and the rest of the last one's key.
const AT_ONCE: usize = 256;

impl Rest {
    /// With what is known of the table.
    fn new(
        both: Both,
        table: Vec<u8>,
        keys: KeyBounds,
    ) -> hedgerow::Result<(Self, Option<TableInfo>)> {
        between(&both, &table)?;
        let old = both.0.as_ref().map(|old| old.find_table(&table)).transpose()?.flatten();
        let new = both.1.find_table(&table)?;
        let is_whole = match (&old, &new) {
            (Some(old), Some(new)) => {
                (&old.order, old.duplicates, &old.value_order)
                    != (&new.order, new.duplicates, &new.value_order)
            }
            _ => false,
        };
        Ok((Self { both, table, keys, is_whole }, new.or(old)))
    }

    /// Reads the next changes; whether there may be more.
    fn fill(&mut self, waiting: &mut VecDeque<Owned>) -> hedgerow::Result<bool> {
        let low = self.keys.0.as_ref().map(Vec::as_slice);
        let high = self.keys.1.as_ref().map(Vec::as_slice);
        for change in between(&self.both, &self.table)?.within(low, high)? {
            let change = Owned::from(change?);
            if !self.is_whole && waiting.len() >= AT_ONCE {
                let last = &waiting[waiting.len() - 1];
                if last.key != change.key {
                    self.keys.0 = End::Excluded(last.key.clone());
                    return Ok(true);
                }
            }
            waiting.push_back(change);
        }
        Ok(false)
    }
}

/// Goes through what changed in a table from one moment to another, in the order of the keys: each
/// change is the key, the value before, and the value after, where ``None`` stands for none.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Changes {
    /// What has yet to be read; nothing once all is read, so that the moments are let go.
    rest: Mutex<Ours<Either<Rest, Box<lsm::Diff>>>>,
    codecs: Codecs,
    waiting: VecDeque<Owned>,
}

impl Changes {
    pub(crate) fn of_tree(
        py: Python<'_>,
        both: Both,
        table: Vec<u8>,
        codecs: Codecs,
        keys: KeyBounds,
    ) -> PyResult<Self> {
        let (rest, found) = py.detach(|| Rest::new(both, table, keys)).or_raise(py)?;
        if let Some(found) = &found {
            check(py, found, &codecs)?;
        }
        Ok(Self::new(Either::Tree(rest), codecs))
    }

    pub(crate) fn of_log(diff: lsm::Diff, codecs: Codecs) -> Self {
        Self::new(Either::Log(Box::new(diff)), codecs)
    }

    fn new(rest: Either<Rest, Box<lsm::Diff>>, codecs: Codecs) -> Self {
        Self { rest: Mutex::new(Ours::new(rest)), codecs, waiting: VecDeque::new() }
    }

    /// Reads the next changes.
    fn refill(&mut self) -> hedgerow::Result<()> {
        let rest = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        let has_more = match &mut **rest {
            None => return Ok(()),
            Some(Either::Tree(rest)) => rest.fill(&mut self.waiting)?,
            Some(Either::Log(diff)) => {
                for change in diff.by_ref().take(AT_ONCE) {
                    self.waiting.push_back(Owned::from(change?.as_change()));
                }
                self.waiting.len() == AT_ONCE
            }
        };
        if !has_more {
            **rest = None;
        }
        Ok(())
    }
}

#[pymethods]
impl Changes {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        locked(&self.rest).check(py)?;
        if self.waiting.is_empty() {
            py.check_signals()?;
            py.detach(|| self.refill()).or_raise(py)?;
        }
        let Some(change) = self.waiting.pop_front() else { return Ok(None) };
        let value = |value: Option<Vec<u8>>| {
            value.map(|value| self.codecs.value.decode(py, (&*value).into())).transpose()
        };
        let key = self.codecs.key.decode(py, (&*change.key).into())?;
        (key, value(change.before)?, value(change.after)?).into_pyobject(py).map(Some)
    }

    fn __repr__(&self) -> &'static str {
        let is_over = locked(&self.rest).is_none() && self.waiting.is_empty();
        if is_over { "<hedgerow.Changes, all given>" } else { "<hedgerow.Changes>" }
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

/// Tables that differ, by their names.
pub(crate) fn named<'py>(py: Python<'py>, changes: &[TableChange]) -> PyResult<Bound<'py, PyDict>> {
    let tables = PyDict::new(py);
    for change in changes {
        let what = match change {
            TableChange::Added(_) => "added",
            TableChange::Removed(_) => "removed",
            TableChange::Changed(_) => "changed",
        };
        tables.set_item(name_to(py, change.name())?, what)?;
    }
    Ok(tables)
}
