//! A table as a mapping.

mod find;
mod frame;
mod kind;
mod pairs;
mod put;
mod range;
mod shown;

pub(crate) use frame::put_rows;
pub(crate) use kind::{Codecs, Orders, check};
pub(crate) use pairs::{Pairs, two};
pub(crate) use range::{KeyBounds, bounds};

use std::borrow::Cow;
use std::sync::Arc;

use hedgerow::stream::transfer;
use hedgerow::tree::{self, Bytes, Order, Snapshot, WriteTxn};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyCapsule, PyDict, PyList, PySlice, PyTuple};

use crate::errors::raise;
use crate::long;
use crate::txn::{Transaction, look, name_to};
use crate::view::{Kind, Span, View};

/// A table of a transaction: a mapping from keys to values, in the order of the keys.
///
/// ``t[key]``, ``key in t``, ``len(t)`` and the other calls of a ``dict`` do what they do there;
/// ``t[a:b]`` are the pairs from key ``a`` up to ``b``, and ``t.at[i:j]`` those from position ``i``
/// up to ``j``.
#[pyclass(frozen, generic, module = "hedgerow")]
pub(crate) struct Table {
    pub(crate) txn: Py<Transaction>,
    pub(crate) handle: tree::Table,
    pub(crate) name: Vec<u8>,
    pub(crate) codecs: Arc<Codecs>,
    pub(crate) has_duplicates: bool,
    pub(crate) is_bytewise: bool,
}

impl Table {
    /// Opens a table, or makes it where the transaction writes and `creates`.
    pub(crate) fn open(
        txn: &Bound<'_, Transaction>,
        name: Vec<u8>,
        codecs: Arc<Codecs>,
        has_duplicates: bool,
        orders: Orders,
        creates: bool,
    ) -> PyResult<Self> {
        let (py, Codecs { key, value }) = (txn.py(), &*codecs);
        let flags = kind::flags(key, value, has_duplicates);
        let found = look!(txn.get(), py, |txn| txn.find_table(&name))?;
        if let Some(found) = &found {
            let shown = String::from_utf8_lossy(&name);
            if found.duplicates != has_duplicates {
                let has = if found.duplicates { "has" } else { "has no" };
                return raise(py, "TableError", &format!("table {shown:?} {has} duplicates"));
            }
            check(py, found, &codecs)?;
        }
        let options = kind::options(value, has_duplicates, &orders, found.as_ref());
        let handle = match &found {
            None if creates && txn.get().snapshot(py)?.is_none() => {
                let options = options.user_flags(flags);
                txn.get().change(py, false, |txn| txn.create_table(&name, &options))?
            }
            Some(_) if orders.are_given() => {
                look!(txn.get(), py, |txn| txn.table_with(&name, &options))?
            }
            _ => look!(txn.get(), py, |txn| txn.table(&name))?,
        };
        let order = look!(txn.get(), py, |txn| txn.order(handle))?;
        let is_bytewise = matches!(order, Order::Bytewise);
        Ok(Self { txn: txn.clone().unbind(), handle, name, codecs, has_duplicates, is_bytewise })
    }

    #[inline]
    fn key<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        self.codecs.key.encode(key)
    }

    #[inline]
    fn value<'a>(&self, value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        self.codecs.value.encode(value)
    }

    /// What a range's arguments say.
    pub(crate) fn span(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        of: Option<&Bound<'_, PyAny>>,
        is_reverse: bool,
    ) -> PyResult<Span> {
        if of.is_some() && !self.is_bytewise {
            return Err(PyTypeError::new_err("only keys in bytewise order have ranges by prefix"));
        }
        Span::new(&self.codecs.key, start, stop, of, is_reverse)
    }

    /// The keys of a slice.
    fn span_of(&self, slice: &Bound<'_, PySlice>) -> PyResult<Span> {
        if !slice.getattr("step")?.is_none() {
            return Err(PyTypeError::new_err("a range of keys has no step"));
        }
        let (start, stop) = (slice.getattr("start")?, slice.getattr("stop")?);
        self.span(Some(&start), Some(&stop), None, false)
    }

    fn view(slf: &Bound<'_, Self>, span: Span, kind: Kind) -> View {
        View { table: slf.clone().unbind(), span, kind }
    }

    fn count_in(&self, py: Python<'_>, span: &Span) -> PyResult<tree::Count> {
        let keys = (span.low.clone(), span.high.clone());
        look!(self.txn.get(), py, |txn| txn.count_range(self.handle, keys))
    }

    /// An entry as Python's.
    fn pair<'py>(
        &self,
        py: Python<'py>,
        (key, value): (Vec<u8>, Vec<u8>),
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let key = self.codecs.key.decode(py, Bytes::from(&*key))?;
        Ok((key, self.codecs.value.decode(py, Bytes::from(&*value))?))
    }

    fn single(&self, py: Python<'_>) -> PyResult<()> {
        match self.has_duplicates {
            false => Ok(()),
            true => raise(py, "TableError", "a table with duplicates takes add(key, value)"),
        }
    }
}

/// What `pop` gives of a key that is absent: the default, or a ``KeyError`` if there is none.
pub(crate) fn instead<'py>(
    key: &Bound<'py, PyAny>,
    default: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    match default.is_empty() {
        true => Err(PyKeyError::new_err(key.clone().unbind())),
        false => default.get_item(0),
    }
}

/// A pair as it stands in the store, copied.
pub(crate) fn owned(entry: Option<tree::Entry<'_>>) -> Option<(Vec<u8>, Vec<u8>)> {
    entry.map(|entry| (entry.key.to_vec(), entry.value.to_vec()))
}

#[pymethods]
impl Table {
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = slf.get();
        if let Ok(slice) = key.cast::<PySlice>() {
            let view = Self::view(slf, table.span_of(slice)?, Kind::Items);
            return Ok(Bound::new(slf.py(), view)?.into_any());
        }
        table.find(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = key.py();
        self.single(py)?;
        let (key, value) = (self.key(key)?, self.value(value)?);
        self.txn.get().change(py, false, |txn| txn.put(self.handle, &key, &value))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = key.py();
        if let Ok(slice) = key.cast::<PySlice>() {
            let span = self.span_of(slice)?;
            let is_long = self.count_in(py, &span)?.values > long::ENTRIES;
            let keys = (span.low, span.high);
            let delete = |txn: &mut WriteTxn| txn.delete_range(self.handle, keys);
            return self.txn.get().change(py, is_long, delete).map(drop);
        }
        let bytes = self.key(key)?;
        match self.txn.get().change(py, false, |txn| txn.delete(self.handle, &bytes))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, key) = (key.py(), self.key(key)?);
        look!(self.txn.get(), py, |txn| Ok(txn.get(self.handle, &key)?.is_some()))
    }

    /// The number of pairs.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(look!(self.txn.get(), py, |txn| txn.count(self.handle))?.values as usize)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::view(slf, Span::default(), Kind::Keys).iterate(slf.py())
    }

    fn __reversed__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let span = Span { is_reverse: true, ..Span::default() };
        Self::view(slf, span, Kind::Keys).iterate(slf.py())
    }

    /// The value of a key (its first one, if it has several), or ``default``.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// The values of many keys, in one call of the store.
    #[pyo3(signature = (keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.find_many(py, keys, default)
    }

    /// The pairs whose keys lie from ``start`` up to ``stop``, or begin with ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn items(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<View> {
        let span = slf.get().span(start, stop, prefix, reverse)?;
        Ok(Self::view(slf, span, Kind::Items))
    }

    /// The keys, each of them once, that lie from ``start`` up to ``stop``, or begin with
    /// ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn keys(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<View> {
        let span = slf.get().span(start, stop, prefix, reverse)?;
        Ok(Self::view(slf, span, Kind::Keys))
    }

    /// The values of the pairs whose keys lie from ``start`` up to ``stop``, or begin with
    /// ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn values(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<View> {
        let span = slf.get().span(start, stop, prefix, reverse)?;
        Ok(Self::view(slf, span, Kind::Values))
    }

    /// The pairs by their positions: ``t.at[0]``, ``t.at[-1]``, ``t.at[100:200]``.
    #[getter]
    fn at(slf: &Bound<'_, Self>) -> View {
        Self::view(slf, Span::default(), Kind::Items)
    }

    /// How many pairs have keys from ``start`` up to ``stop``. Two descents, whatever their number.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn count(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let span = self.span(start, stop, prefix, false)?;
        Ok(self.count_in(py, &span)?.values)
    }

    /// How many distinct keys there are.
    fn key_count(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(look!(self.txn.get(), py, |txn| txn.count(self.handle))?.keys)
    }

    /// The pair with ``n`` pairs before it, or from the end with a negative number;
    /// ``IndexError`` if there are not so many.
    fn nth<'py>(
        &self,
        py: Python<'py>,
        n: isize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let found = look!(self.txn.get(), py, |txn| {
            let total = if n < 0 { txn.count(self.handle)?.values } else { 0 };
            match u64::try_from(n).ok().or_else(|| total.checked_sub(n.unsigned_abs() as u64)) {
                Some(n) => Ok(owned(txn.nth(self.handle, n)?)),
                None => Ok(None),
            }
        });
        match found? {
            Some(entry) => self.pair(py, entry),
            None => Err(pyo3::exceptions::PyIndexError::new_err("the table has fewer pairs")),
        }
    }

    /// How many pairs come before a key, which need not be there; given a value, before that pair.
    #[pyo3(signature = (key, value=None))]
    fn rank(&self, key: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let (py, key) = (key.py(), self.codecs.key.encode_bound(key)?);
        let value = value.map(|value| self.value(value)).transpose()?;
        let rank = look!(self.txn.get(), py, |txn| match &value {
            Some(value) => txn.rank_pair(self.handle, &key, value),
            None => txn.rank(self.handle, &key),
        })?;
        Ok(rank.values)
    }

    /// ``n`` pairs: at even distances, the first one among them; given a seed, drawn at random with
    /// repetition.
    #[pyo3(signature = (n, seed=None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let sample = look!(self.txn.get(), py, |txn| {
            let sample = match seed {
                None => txn.sample(self.handle, n),
                Some(seed) => txn.sample_random(self.handle, n, seed),
            };
            Ok(sample?.into_iter().filter_map(|entry| owned(Some(entry))).collect::<Vec<_>>())
        })?;
        let pairs = sample.into_iter().map(|entry| self.pair(py, entry));
        PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// Puts all pairs of a mapping, or of an iterable of pairs. Sorted input is noticed and
    /// appended. In a table with duplicates it adds them.
    fn update(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put_each(py, pairs)
    }

    /// Puts the rows of an Arrow stream: of anything with ``__arrow_c_stream__``, such as a table
    /// of pyarrow or a data frame of polars. ``key`` and ``value`` name the columns, several for a
    /// tuple; by default they are called as this table's own stream calls them. Without a column
    /// (``value=()``) values are empty. Answers the number of rows.
    #[pyo3(signature = (data, key=None, value=None))]
    fn update_arrow(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        put_rows(data, &self.codecs, (key, value), |pairs| self.put_all(py, pairs))
    }

    /// All pairs as an Arrow stream: see ``View.__arrow_c_stream__``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        Self::view(slf, Span::default(), Kind::Items).arrow(slf.py())
    }

    /// Moves the pairs whose keys lie from ``start`` up to ``stop``, or begin with ``prefix``, to
    /// another table of the transaction; answers how many. A pair that is there under the same key
    /// is replaced, or in a table with duplicates stays beside it.
    #[pyo3(signature = (to, start=None, stop=None, *, prefix=None))]
    fn move_to(
        &self,
        py: Python<'_>,
        to: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let target = to.get();
        if !target.txn.is(&self.txn) {
            return raise(py, "ArgumentError", "both tables are of one transaction");
        }
        if !self.codecs.agree(&target.codecs) {
            return raise(py, "TableError", "both tables have keys and values of the same types");
        }
        let span = self.span(start, stop, prefix, false)?;
        let is_long = self.count_in(py, &span)?.values > long::ENTRIES;
        let keys = (span.low, span.high);
        let transfer = |txn: &mut WriteTxn| transfer(txn, self.handle, keys, target.handle);
        self.txn.get().change(py, is_long, transfer)
    }

    /// The value of a key; an absent key gets ``default`` first.
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(found) = self.find(key)? {
            return Ok(found);
        }
        let (py, key, value) = (key.py(), self.key(key)?, self.value(&default)?);
        self.txn.get().change(py, false, |txn| txn.put(self.handle, &key, &value))?;
        Ok(default)
    }

    /// Removes a key and gives its (first) value; an absent one gives ``default``, or
    /// ``KeyError``.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and one default"));
        }
        let py = key.py();
        let bytes = self.key(key)?;
        let get =
            |txn: &mut WriteTxn| Ok(txn.get(self.handle, &bytes)?.map(|value| value.to_vec()));
        while let Some(found) = self.txn.get().change(py, false, get)? {
            // What cannot be decoded stays, and so does what another thread puts meanwhile.
            let value = self.codecs.value.decode(py, Bytes::from(&*found))?;
            let is_deleted = self.txn.get().change(py, false, |txn| {
                let is_same = txn.get(self.handle, &bytes)?.is_some_and(|value| value == *found);
                Ok(is_same && txn.delete(self.handle, &bytes)?)
            })?;
            if is_deleted {
                return Ok(value);
            }
        }
        instead(key, default)
    }

    /// Removes the last pair, or the first one, and gives it; ``KeyError`` if there is none.
    #[pyo3(signature = (last=true))]
    fn popitem<'py>(
        &self,
        py: Python<'py>,
        last: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let end = |txn: &mut WriteTxn| {
            let mut cursor = txn.cursor(self.handle)?;
            Ok(owned(if last { cursor.last(txn)? } else { cursor.first(txn)? }))
        };
        while let Some((key, value)) = self.txn.get().change(py, false, end)? {
            // What cannot be decoded stays; what another thread has taken meanwhile is its own.
            let pair = self.pair(py, (key.clone(), value.clone()))?;
            let delete = |txn: &mut WriteTxn| txn.delete_pair(self.handle, &key, &value);
            if self.txn.get().change(py, false, delete)? {
                return Ok(pair);
            }
        }
        Err(PyKeyError::new_err("the table is empty"))
    }

    /// Removes all pairs.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let is_long = self.__len__(py)? as u64 > long::ENTRIES;
        self.txn.get().change(py, is_long, |txn| txn.clear_table(self.handle))
    }

    /// Adds a pair to a table with duplicates; false if it was there.
    fn add(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, key, value) = (key.py(), self.key(key)?, self.value(value)?);
        self.txn.get().change(py, false, |txn| txn.put_pair(self.handle, &key, &value))
    }

    /// Removes a pair; false if it was not there.
    fn discard(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, key, value) = (key.py(), self.key(key)?, self.value(value)?);
        self.txn.get().change(py, false, |txn| txn.delete_pair(self.handle, &key, &value))
    }

    /// Whether a pair is there.
    fn has(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, key, value) = (key.py(), self.key(key)?, self.value(value)?);
        look!(self.txn.get(), py, |txn| txn.contains_pair(self.handle, &key, &value))
    }

    /// All values of a key, in order; an empty list if it is absent.
    pub(crate) fn values_of<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, key) = (key.py(), self.key(key)?);
        let values = look!(self.txn.get(), py, |txn| {
            let mut values = Vec::new();
            txn.for_each_value(self.handle, &key, |value| values.push(value.to_vec()))?;
            Ok(values)
        })?;
        let values = values.iter().map(|v| self.codecs.value.decode(py, Bytes::from(&**v)));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// How many values a key has.
    fn count_values(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (py, key) = (key.py(), self.key(key)?);
        look!(self.txn.get(), py, |txn| txn.count_values(self.handle, &key))
    }

    /// Its name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_to(py, &self.name)
    }

    /// Whether a key may have several values.
    #[getter]
    fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    /// The table in numbers.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stat = look!(self.txn.get(), py, |txn| txn.table_stat(self.handle))?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("keys", stat.count.keys),
            ("pairs", stat.count.values),
            ("depth", u64::from(stat.depth)),
            ("branch_pages", stat.branch_pages),
            ("leaf_pages", stat.leaf_pages),
            ("overflow_pages", stat.overflow_pages),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// What the table refers to: an object with `dumps` and `loads` may refer to the table.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.txn)?;
        self.codecs.traverse(&visit)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = String::from_utf8_lossy(&self.name);
        match self.__len__(py) {
            Ok(len) => format!("<hedgerow.Table {name:?}, {len} pairs>"),
            Err(_) => format!("<hedgerow.Table {name:?}, closed>"),
        }
    }

    /// What a notebook shows: the first pairs and the last one.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        shown::page(slf.py(), slf.get())
    }
}
