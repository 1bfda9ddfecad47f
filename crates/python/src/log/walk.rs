//! Going through a keyspace.

use std::mem;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::lsm::{self, Db, Reader};
use hedgerow::tree::Bytes;
use pyo3::prelude::*;

use super::Held;
use super::transaction::LogTransaction;
use crate::table::Codecs;
use crate::view::{Batches, Kind, give};

/// What a transaction has yet to go through.
pub(super) struct Left {
    pub(super) low: End<Vec<u8>>,
    pub(super) high: End<Vec<u8>>,
    pub(super) is_reverse: bool,
    /// Pairs that were read and not given, the next one last.
    pub(super) waiting: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) is_over: bool,
}

/// Pairs that are read ahead, of a snapshot or of a store that nobody changes.
pub(super) enum Runs {
    Snapshot(Box<Batches<Db>>),
    Reader(Box<Batches<Arc<Reader>>>),
}

/// Where an iterator's pairs come from.
pub(super) enum Source {
    /// With the store, which both are let go at the end.
    Batches(Option<(Runs, Arc<Held>)>),
    Transaction {
        txn: Py<LogTransaction>,
        handle: lsm::Keyspace,
        left: Left,
    },
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Batches(open) = self
            && open.as_ref().is_some_and(|(_, held)| !held.born.is_here())
            && let Some((runs, _held)) = open.take()
        {
            mem::forget(runs);
        }
    }
}

/// Goes through a keyspace.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct LogWalk {
    pub(super) source: Mutex<Source>,
    pub(super) codecs: Arc<Codecs>,
    pub(super) kind: Kind,
}

/// Reads the next pairs of a transaction.
fn refill(
    py: Python<'_>,
    txn: &LogTransaction,
    handle: &lsm::Keyspace,
    left: &mut Left,
) -> PyResult<()> {
    const AT_ONCE: usize = 64;
    let keys = (left.low.clone(), left.high.clone());
    let is_reverse = left.is_reverse;
    let mut read = txn.with(py, |txn| {
        let range = txn.range(handle, keys)?;
        match is_reverse {
            false => range.take(AT_ONCE).collect::<hedgerow::Result<Vec<_>>>(),
            true => range.rev().take(AT_ONCE).collect(),
        }
    })?;
    left.is_over = read.len() < AT_ONCE;
    if let Some((key, _)) = read.last() {
        let end = End::Excluded(key.clone());
        if is_reverse { left.high = end } else { left.low = end }
    }
    read.reverse();
    left.waiting = read;
    Ok(())
}

#[pymethods]
impl LogWalk {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.source.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Source::Batches(open) => {
                let Some((runs, held)) = open else { return Ok(None) };
                held.born.check(py)?;
                let pair = match runs {
                    Runs::Snapshot(batches) => batches.next(py)?,
                    Runs::Reader(batches) => batches.next(py)?,
                };
                if let Some((key, value)) = pair {
                    return give(py, &self.codecs, self.kind, key, value).map(Some);
                }
                let over = open.take();
                py.detach(|| drop(over));
                Ok(None)
            }
            Source::Transaction { txn, handle, left } => {
                if left.waiting.is_empty() && !left.is_over {
                    refill(py, txn.get(), handle, left)?;
                }
                let Some((key, value)) = left.waiting.pop() else { return Ok(None) };
                let (key, value) = (Bytes::from(&*key), Bytes::from(&*value));
                give(py, &self.codecs, self.kind, key, value).map(Some)
            }
        }
    }
}
