//! Ranges of a table as Python's sequences, and going through them.

use std::collections::Bound as End;
use std::ops::Range;
use std::sync::Arc;

use hedgerow::stream::{Pairs, Run, Scan, Value, Values};
use hedgerow::tree::{self, Bytes, Cursor, Snapshot};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyList, PySlice};

use crate::arrow;
use crate::buffer;
use crate::codec::Codec;
use crate::columns::Columns;
use crate::errors::{OrRaise, raise};
use crate::html;
use crate::places::place_of;
use crate::strings;
use crate::table::{Codecs, Table, bounds, owned};
use crate::txn::{Transaction, look};

/// What of each pair is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Items,
    Keys,
    Values,
}

/// A part of a table.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) low: End<Vec<u8>>,
    pub(crate) high: End<Vec<u8>>,
    pub(crate) is_reverse: bool,
    /// How many entries at its beginning are left out, and how many follow at most.
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
}

impl Default for Span {
    fn default() -> Self {
        let (low, high) = (End::Unbounded, End::Unbounded);
        Self { low, high, is_reverse: false, skip: 0, limit: None }
    }
}

impl Span {
    pub(crate) fn new(
        codec: &Codec,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        is_reverse: bool,
    ) -> PyResult<Self> {
        let (low, high) = bounds(codec, start, stop, prefix)?;
        Ok(Self { low, high, is_reverse, ..Self::default() })
    }

    /// How many of `total` entries it has.
    pub(crate) fn len(&self, total: u64) -> u64 {
        total.saturating_sub(self.skip).min(self.limit.unwrap_or(u64::MAX))
    }

    /// The entries from number `from` up to `to`.
    fn part(&self, from: u64, to: u64) -> Self {
        let limit = Some(to.saturating_sub(from));
        Self { skip: self.skip + from, limit, ..self.clone() }
    }

    /// The entries from number `from` up to `to` of `total` in the other order.
    fn turned(&self, from: u64, to: u64, total: u64) -> Self {
        let skip = total.saturating_sub(self.skip + to);
        let (is_reverse, limit) = (!self.is_reverse, Some(to.saturating_sub(from)));
        Self { is_reverse, skip, limit, ..self.clone() }
    }

    /// What a stream reads.
    fn scan(&self, table: &[u8], kind: Kind) -> Scan {
        let mut scan = Scan::new(table).range((self.low.clone(), self.high.clone()));
        scan = scan.skip(self.skip);
        if self.is_reverse {
            scan = scan.reverse();
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if kind == Kind::Keys {
            scan = scan.keys_only().values(Values::First);
        }
        scan
    }
}

/// Pairs, keys or values of a part of a table: a sequence that is read when it is asked for.
///
/// Its length, ``view[i]`` and ``view[i:j]`` cost a few descents, whatever the numbers.
#[pyclass(frozen, generic, module = "hedgerow")]
pub(crate) struct View {
    pub(crate) table: Py<Table>,
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

impl View {
    /// How many entries the range has, without regard to positions.
    pub(crate) fn total(&self, py: Python<'_>) -> PyResult<u64> {
        let table = self.table.get();
        let keys = (self.span.low.clone(), self.span.high.clone());
        let count = look!(table.txn.get(), py, |txn| txn.count_range(table.handle, keys))?;
        Ok(if self.kind == Kind::Keys { count.keys } else { count.values })
    }

    fn with(&self, py: Python<'_>, span: Span) -> Self {
        Self { table: self.table.clone_ref(py), span, kind: self.kind }
    }

    /// The view as an Arrow stream.
    pub(crate) fn arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let table = self.table.get();
        let Some(snapshot) = table.txn.get().snapshot(py)? else {
            return raise(py, "ArgumentError", "only a read transaction gives Arrow streams");
        };
        let (scan, store) = (self.span.scan(&table.name, self.kind), table.txn.get().store(py)?);
        let pairs = py.detach(|| scan.pairs_of(&store, snapshot)).or_raise(py)?;
        let key = (self.kind != Kind::Values).then_some(&table.codecs.key);
        let value = (self.kind != Kind::Keys).then_some(&table.codecs.value);
        arrow::export(py, pairs, Columns::new(key, value))
    }

    pub(crate) fn iterate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let table = self.table.get();
        let source = match table.txn.get().snapshot(py)? {
            Some(snapshot) => {
                let scan = self.span.scan(&table.name, self.kind);
                let store = table.txn.get().store(py)?;
                let pairs = py.detach(|| scan.pairs_of(&store, snapshot)).or_raise(py)?;
                let is_viewed =
                    self.kind != Kind::Keys && matches!(table.codecs.value, Codec::View);
                if !is_viewed {
                    let codecs = Arc::clone(&table.codecs);
                    return read_ahead(py, Batches::new(pairs), codecs, self.kind);
                }
                Source::Held(Box::new(pairs))
            }
            None => Source::Live(Box::new(Live::new(py, table, &self.span, self.kind)?)),
        };
        let codecs = Arc::clone(&table.codecs);
        Ok(Bound::new(py, Walk { source, codecs, kind: self.kind })?.into_any())
    }
}

#[pymethods]
impl View {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.span.len(self.total(py)?) as usize)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.iterate(py)
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let total = self.total(py)?;
        let span = self.span.turned(0, self.span.len(total), total);
        self.with(py, span).iterate(py)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Ok(slice) = index.cast::<PySlice>() else {
            return self.at(py, place_of(index)?);
        };
        let total = self.total(py)?;
        let at = slice.indices(self.span.len(total) as isize)?;
        let (start, count) = (at.start as u64, at.slicelength as u64);
        let span = match at.step {
            1 => self.span.part(start, start + count),
            -1 => {
                let end = if count == 0 { 0 } else { start + 1 };
                self.span.turned(end - count, end, total)
            }
            _ => return Err(PyValueError::new_err("a view has steps of 1 or -1")),
        };
        Ok(Bound::new(py, self.with(py, span))?.into_any())
    }

    /// The view as a stream of the Arrow C data interface, which pyarrow, polars, duckdb and others
    /// take: columns ``key`` and ``value``, of a tuple ``key.0``, ``key.1`` and so on.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.arrow(py)
    }

    /// Whether it has an entry: a key or a pair is looked up, unless positions were asked for.
    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.holds(item)
    }

    /// What the view refers to.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.table)
    }

    /// What a notebook shows: the first entries and the last one.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        const SHOWN: usize = 10;
        let len = self.__len__(py)?;
        let places = (0..len.min(SHOWN)).chain((len > SHOWN).then(|| len - 1));
        let rows = places.map(|place| {
            let entry = self.at(py, place as isize)?;
            let entry = match self.kind {
                Kind::Items => entry.try_iter()?.collect::<PyResult<Vec<_>>>()?,
                _ => vec![entry],
            };
            let mut row = vec![place.to_string()];
            row.extend(html::cells(entry)?);
            Ok(row)
        });
        let head: &[&str] = match self.kind {
            Kind::Items => &["", "key", "value"],
            Kind::Keys => &["", "key"],
            Kind::Values => &["", "value"],
        };
        let grid = html::grid(head, &rows.collect::<PyResult<Vec<_>>>()?);
        Ok(format!("<div>{}{grid}</div>", html::escaped(&self.__repr__(py))))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let what = match self.kind {
            Kind::Items => "items",
            Kind::Keys => "keys",
            Kind::Values => "values",
        };
        let name = String::from_utf8_lossy(&self.table.get().name);
        match self.__len__(py) {
            Ok(len) => format!("<{len} {what} of hedgerow.Table {name:?}>"),
            Err(_) => format!("<{what} of hedgerow.Table {name:?}, closed>"),
        }
    }
}

/// What is given of a pair.
#[inline(always)]
pub(crate) fn give<'py>(
    py: Python<'py>,
    codecs: &Codecs,
    kind: Kind,
    key: Bytes<'_>,
    value: Bytes<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        Kind::Items => {
            let pair = (codecs.key.decode(py, key)?, codecs.value.decode(py, value)?);
            Ok(pair.into_pyobject(py)?.into_any())
        }
        Kind::Keys => codecs.key.decode(py, key),
        Kind::Values => codecs.value.decode(py, value),
    }
}

/// The first batch has this many pairs, and later ones up to that many, and bytes.
const PAIRS_FIRST: usize = 8;
const PAIRS_MAX: usize = 512;
const BYTES_MAX: u64 = 64 << 10;

/// Runs of a stream, read ahead: while one is read, other threads run.
pub(crate) struct Batches<S: hedgerow::stream::Source> {
    pairs: Pairs<S>,
    run: Run<S::Snapshot>,
    at: usize,
    size: usize,
}

impl<S: hedgerow::stream::Source> Batches<S> {
    pub(crate) fn new(pairs: Pairs<S>) -> Self {
        Self { pairs, run: Run::default(), at: 0, size: PAIRS_FIRST }
    }

    /// Has the next pair read if need be.
    #[inline]
    pub(crate) fn refill(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.at == self.run.len() {
            // What Python goes through with loops of its own looks for signals nowhere else.
            py.check_signals()?;
            let (run, pairs, size) = (&mut self.run, &mut self.pairs, self.size);
            self.at = 0;
            py.detach(|| pairs.fill(run, size, BYTES_MAX)).or_raise(py)?;
            self.size = (2 * size).min(PAIRS_MAX);
        }
        Ok(())
    }

    /// The next pair, in a run that is read if need be.
    #[inline]
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.refill(py)?;
        Ok(self.step())
    }

    /// Whether the next pair has been read.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.at < self.run.len()
    }

    /// The next pair, if it has been read.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<(Bytes<'_>, Bytes<'_>)> {
        let pair = self.run.get(self.at);
        self.at += usize::from(pair.is_some());
        pair
    }

    /// The pair that was given last.
    #[inline]
    pub(crate) fn last(&self) -> Option<(Bytes<'_>, Bytes<'_>)> {
        self.run.get(self.at.checked_sub(1)?)
    }

    /// The places of the next pairs in the run, at most `n`; none after the last pair.
    fn take(&mut self, py: Python<'_>, n: usize) -> PyResult<Range<usize>> {
        self.refill(py)?;
        let start = self.at;
        self.at = self.run.len().min(start + n);
        Ok(start..self.at)
    }
}

/// A way through a table that its write transaction may change in between.
struct Live {
    txn: Py<Transaction>,
    cursor: Cursor,
    /// Before which entry it begins; `None` once it has begun.
    first: Option<u64>,
    left: u64,
    stop: End<Vec<u8>>,
    is_reverse: bool,
    by_keys: bool,
}

impl Live {
    fn new(py: Python<'_>, table: &Table, span: &Span, kind: Kind) -> PyResult<Self> {
        let by_keys = kind == Kind::Keys;
        let before = match &span.low {
            End::Unbounded => None,
            End::Included(key) => Some((End::Unbounded, End::Excluded(key.clone()))),
            End::Excluded(key) => Some((End::Unbounded, End::Included(key.clone()))),
        };
        let keys = (span.low.clone(), span.high.clone());
        let (before, total, cursor) = look!(table.txn.get(), py, |txn| {
            let before = match before {
                Some(keys) => txn.count_range(table.handle, keys)?,
                None => tree::Count::default(),
            };
            let total = txn.count_range(table.handle, keys)?;
            Ok((before, total, txn.cursor(table.handle)?))
        })?;
        let number = |count: tree::Count| if by_keys { count.keys } else { count.values };
        let (before, total) = (number(before), number(total));
        let left = span.len(total);
        let first = match span.is_reverse {
            false => before + span.skip,
            true => (before + total).saturating_sub(span.skip + 1),
        };
        // What is added to the range while it is read is read, unless positions were asked for. In
        // other orders than that of bytes it is not known here where the range ends.
        let follows = span.limit.is_none() && table.is_bytewise;
        let stop = match (follows, span.is_reverse) {
            (false, _) => End::Unbounded,
            (true, false) => span.high.clone(),
            (true, true) => span.low.clone(),
        };
        Ok(Self {
            txn: table.txn.clone_ref(py),
            cursor,
            first: Some(first).filter(|_| left > 0),
            left: if left > 0 && follows { u64::MAX } else { left },
            stop,
            is_reverse: span.is_reverse,
            by_keys,
        })
    }

    fn next(&mut self, py: Python<'_>) -> PyResult<Option<(Vec<u8>, Vec<u8>)>> {
        if self.left == 0 {
            return Ok(None);
        }
        py.check_signals()?;
        self.left -= 1;
        let Self { cursor, first, is_reverse, by_keys, txn, .. } = self;
        let (first, is_reverse, by_keys) = (first.take(), *is_reverse, *by_keys);
        let found = look!(txn.get(), py, |txn| {
            let table = cursor.table();
            let entry = match (first, by_keys, is_reverse) {
                (Some(n), false, _) => cursor.seek_nth(txn, n)?,
                (Some(n), true, _) => match txn.nth_key(table, n)?.map(|e| e.key.to_vec()) {
                    Some(key) => cursor.seek(txn, &key)?,
                    None => None,
                },
                (None, false, false) => cursor.next(txn)?,
                (None, false, true) => cursor.prev(txn)?,
                (None, true, false) => cursor.next_key(txn)?,
                (None, true, true) => cursor.prev_key(txn)?,
            };
            Ok(owned(entry))
        })?;
        let found = found.filter(|(key, _)| match (&self.stop, self.is_reverse) {
            (End::Unbounded, _) => true,
            (End::Included(stop), false) => key <= stop,
            (End::Excluded(stop), false) => key < stop,
            (End::Included(stop), true) => key >= stop,
            (End::Excluded(stop), true) => key > stop,
        });
        if found.is_none() {
            self.left = 0;
        }
        Ok(found)
    }
}

/// Where an iterator's pairs come from.
enum Source {
    /// One by one, each with its snapshot.
    Held(Box<Pairs<tree::Store>>),
    Live(Box<Live>),
}

/// Lists of a few pairs each, which Python goes through faster than through single ones. The lists
/// are so short that they do not have it look for garbage.
#[pyclass(module = "hedgerow")]
struct Chunks {
    batches: Batches<tree::Store>,
    codecs: Arc<Codecs>,
    kind: Kind,
}

/// This many pairs are in a list.
const CHUNK: usize = 64;

#[pymethods]
impl Chunks {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Self { batches, codecs, kind } = self;
        let range = batches.take(py, CHUNK)?;
        let mut list = Vec::with_capacity(range.len());
        batches.run.each(range, |key, value| {
            list.push(give(py, codecs, *kind, key, value)?);
            PyResult::Ok(())
        })?;
        if list.is_empty() { Ok(None) } else { PyList::new(py, list).map(Some) }
    }
}

/// What Python has to put iterators together.
struct Parts {
    chain: Py<PyAny>,
    zip: Py<PyAny>,
    /// Whether its threads take turns.
    takes_turns: bool,
}

impl Parts {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static PARTS: PyOnceLock<Parts> = PyOnceLock::new();
        PARTS.get_or_try_init(py, || {
            let chain = py.import("itertools")?.getattr("chain")?.getattr("from_iterable")?;
            let zip = py.import("builtins")?.getattr("zip")?;
            let takes_turns = match py.import("sys")?.getattr_opt("_is_gil_enabled")? {
                Some(asked) => asked.call0()?.is_truthy()?,
                None => true,
            };
            Ok(Self { chain: chain.unbind(), zip: zip.unbind(), takes_turns })
        })
    }
}

/// An iterator over pairs that are read ahead.
///
/// Bytes go to Python one by one. Its `zip` makes pairs of them faster than we do, since it uses
/// one tuple again and again; but threads that do not take turns and share it would get keys with
/// values of others.
fn read_ahead<'py>(
    py: Python<'py>,
    batches: Batches<tree::Store>,
    codecs: Arc<Codecs>,
    kind: Kind,
) -> PyResult<Bound<'py, PyAny>> {
    let parts = Parts::get(py)?;
    match (&*codecs, kind) {
        (Codecs { key: Codec::Bytes, value: Codec::Bytes }, Kind::Items) if parts.takes_turns => {
            parts.zip.bind(py).call1(strings::both(py, batches)?)
        }
        (Codecs { key: Codec::Bytes, .. }, Kind::Keys) if parts.takes_turns => {
            strings::keys(py, batches)
        }
        (Codecs { value: Codec::Bytes, .. }, Kind::Values) if parts.takes_turns => {
            strings::values(py, batches)
        }
        _ => parts.chain.bind(py).call1((Bound::new(py, Chunks { batches, codecs, kind })?,)),
    }
}

/// Goes through a part of a table.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Walk {
    source: Source,
    codecs: Arc<Codecs>,
    kind: Kind,
}

#[pymethods]
impl Walk {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (codecs, kind) = (&self.codecs, self.kind);
        match &mut self.source {
            Source::Held(pairs) => {
                let Some(pair) = py.detach(|| pairs.next()).transpose().or_raise(py)? else {
                    return Ok(None);
                };
                let key = match kind {
                    Kind::Items => Some(codecs.key.decode(py, pair.key())?),
                    _ => None,
                };
                let value = buffer::view(py, Value::from(pair))?;
                match key {
                    Some(key) => Ok(Some((key, value).into_pyobject(py)?.into_any())),
                    None => Ok(Some(value)),
                }
            }
            Source::Live(live) => match live.next(py)? {
                Some((key, value)) => {
                    let (key, value) = (Bytes::from(&*key), Bytes::from(&*value));
                    give(py, codecs, kind, key, value).map(Some)
                }
                None => Ok(None),
            },
        }
    }

    /// How many pairs are left, where that is known without walking them.
    fn __length_hint__(&self) -> u64 {
        match &self.source {
            Source::Held(pairs) => pairs.remaining().unwrap_or(0),
            Source::Live(_) => 0,
        }
    }
}
