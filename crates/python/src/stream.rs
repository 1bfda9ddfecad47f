//! Streams: pairs of a table that go on in another process, and need not hold one snapshot.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow::lsm::{Db, Reader};
use hedgerow::stream::{Batch, Input, Pairs, Renewal, Scan, Token, Values};
use hedgerow::tree::{Snapshot as _, Store};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};

use crate::arrow;
use crate::codec::{Codec, bytes_of};
use crate::columns::Columns;
use crate::errors::{OfOption, OrRaise, closed, raise};
use crate::fork::Born;
use crate::table::{Codecs, bounds, check};
use crate::view::{Kind, give};

/// A length of time in seconds.
pub(crate) fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value.extract()?)
        .map_err(|_| PyValueError::new_err("that is no length of time"))
}

/// What a stream reads, from the arguments of `scan`.
pub(crate) fn scan_of(
    table: &[u8],
    codec: &Codec,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Scan> {
    let (mut start, mut stop, mut prefix) = (None, None, None);
    let mut scan = Scan::new(table);
    let rest = match options {
        Some(options) => options.copy()?,
        None => return Ok(scan),
    };
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        scan = match &*name {
            "start" => {
                start = Some(value);
                scan
            }
            "stop" => {
                stop = Some(value);
                scan
            }
            "prefix" => {
                prefix = Some(value);
                scan
            }
            "reverse" if value.extract()? => scan.reverse(),
            "reverse" => scan,
            "skip" => scan.skip(value.extract().of_option(&name, &value)?),
            "limit" => match value.extract::<Option<u64>>().of_option(&name, &value)? {
                Some(limit) => scan.limit(limit),
                None => scan,
            },
            "values" => scan.values(match value.extract::<&str>()? {
                "each" => Values::Each,
                "first" => Values::First,
                "last" => Values::Last,
                _ => {
                    let reason = "the values are \"each\", \"first\" or \"last\"";
                    return Err(PyValueError::new_err(reason));
                }
            }),
            _ => continue,
        };
        rest.del_item(&name)?;
    }
    let keys = bounds(codec, start.as_ref(), stop.as_ref(), prefix.as_ref())?;
    held_for(scan.range(keys), Some(&rest))
}

/// How long a stream holds a snapshot, from the arguments of `scan` and `resume`.
fn held_for(mut scan: Scan, options: Option<&Bound<'_, PyDict>>) -> PyResult<Scan> {
    let mut renewal = Renewal::never();
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        renewal = match &*name {
            "park_after" => {
                scan = scan.park_after(seconds(&value)?);
                renewal
            }
            "renew_pairs" => renewal.pairs(value.extract()?),
            "renew_bytes" => renewal.bytes(value.extract()?),
            "renew_commits" => renewal.commits(value.extract()?),
            "renew_seconds" => renewal.time(seconds(&value)?),
            _ => {
                let reason = format!(
                    "a stream has no option {name:?}: see Store.scan, and for how long it holds a \
                     snapshot also resume"
                );
                return Err(PyTypeError::new_err(reason));
            }
        };
    }
    Ok(scan.renewal(renewal))
}

/// What a stream or a sink of a table answers: those whose order is a function are not taken.
pub(crate) fn takes<T>(py: Python<'_>, made: hedgerow::Result<T>) -> PyResult<T> {
    match made {
        Err(hedgerow::Error::TableOptions { name, .. }) => {
            let name = String::from_utf8_lossy(&name);
            let reason = format!(
                "table {name:?} is in the order of a function: streams and sinks do not know it; \
                 use a transaction's table"
            );
            raise(py, "TableError", &reason)
        }
        made => made.or_raise(py),
    }
}

/// How many pairs are read before signals are looked for.
const AT_ONCE: usize = 4096;

/// Where the pairs come from.
enum Source {
    Tree(Box<Pairs<Store>>),
    Log(Box<Pairs<Db>>),
    Reader(Box<Pairs<Arc<Reader>>>),
    Over,
}

/// Runs an expression over the pairs of either engine.
macro_rules! pairs {
    ($source:expr, |$pairs:ident| $body:expr, $over:expr) => {
        match $source {
            Source::Tree($pairs) => $body,
            Source::Log($pairs) => $body,
            Source::Reader($pairs) => $body,
            Source::Over => $over,
        }
    };
}

/// What a stream was made of: another one can be.
pub(crate) struct Origin {
    scan: Scan,
    store: Engine,
}

enum Engine {
    Tree(Store),
    Log(Db),
    Reader(Arc<Reader>),
}

impl Origin {
    /// The stream as an input of a join: of the store as it is now.
    pub(crate) fn input(&self) -> hedgerow::Result<Input> {
        match &self.store {
            Engine::Tree(store) => {
                // A join compares keys as bytes.
                let info = store.begin_read()?.find_table(self.scan.table())?;
                if info.is_some_and(|info| info.order != "bytewise") {
                    let reason = "a join is one of tables in bytewise order";
                    return Err(hedgerow::Error::WrongTable { reason: reason.into() });
                }
                Input::new(&self.scan, store)
            }
            Engine::Log(db) => Input::new(&self.scan, db),
            Engine::Reader(reader) => Input::new(&self.scan, reader),
        }
    }
}

/// Pairs of a table, one after the other: an iterator that tells where it is. Made by ``scan`` and
/// ``resume``.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Stream {
    source: Mutex<Source>,
    /// Until it is closed.
    origin: Option<Origin>,
    codecs: Arc<Codecs>,
    born: Born,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget((mem::replace(self.get(), Source::Over), self.origin.take()));
        }
    }
}

impl Stream {
    fn get(&mut self) -> &mut Source {
        self.source.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(source: Source, scan: &Scan, store: Engine, codecs: Codecs) -> Self {
        let origin = Some(Origin { scan: scan.clone(), store });
        let (source, codecs) = (Mutex::new(source), Arc::new(codecs));
        Self { source, origin, codecs, born: Born::now() }
    }

    /// What it was made of, and what keys and values are; `None` once it has begun.
    pub(crate) fn whole(&mut self) -> Option<(&Origin, &Arc<Codecs>)> {
        let given = pairs!(self.get(), |pairs| pairs.given(), u64::MAX);
        self.origin.as_ref().filter(|_| given == 0).map(|origin| (origin, &self.codecs))
    }

    pub(crate) fn of_tree(
        py: Python<'_>,
        store: &Store,
        scan: &Scan,
        codecs: Codecs,
    ) -> PyResult<Self> {
        let found = || store.begin_read()?.find_table(scan.table());
        if let Some(found) = py.detach(found).or_raise(py)? {
            check(py, &found, &codecs)?;
        }
        let pairs = takes(py, py.detach(|| scan.pairs(store)))?;
        let source = Source::Tree(Box::new(pairs));
        Ok(Self::new(source, scan, Engine::Tree(store.clone()), codecs))
    }

    pub(crate) fn of_log(py: Python<'_>, db: &Db, scan: &Scan, codecs: Codecs) -> PyResult<Self> {
        let pairs = py.detach(|| scan.pairs(db)).or_raise(py)?;
        Ok(Self::new(Source::Log(Box::new(pairs)), scan, Engine::Log(db.clone()), codecs))
    }

    pub(crate) fn of_reader(
        py: Python<'_>,
        reader: &Arc<Reader>,
        scan: &Scan,
        codecs: Codecs,
    ) -> PyResult<Self> {
        let pairs = py.detach(|| scan.pairs(reader)).or_raise(py)?;
        let source = Source::Reader(Box::new(pairs));
        Ok(Self::new(source, scan, Engine::Reader(Arc::clone(reader)), codecs))
    }

    /// What is left of the stream of a token.
    pub(crate) fn rest<S: hedgerow::stream::Source>(
        py: Python<'_>,
        store: &S,
        token: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        let token = Token::from_bytes(&bytes_of(token)?).or_raise(py)?;
        held_for(Scan::resume(&token, store).or_raise(py)?, options)
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.born.check(py)?;
        py.check_signals()?;
        let source = self.get();
        let copy = |key: hedgerow::tree::Bytes<'_>, value: hedgerow::tree::Bytes<'_>| {
            (key.to_vec(), value.to_vec())
        };
        let pair = py.detach(|| pairs!(source, |pairs| pairs.see(copy), Ok(None))).or_raise(py)?;
        let Some((key, value)) = pair else { return Ok(None) };
        give(py, &self.codecs, Kind::Items, (&*key).into(), (&*value).into()).map(Some)
    }

    /// The next pairs, at most ``n`` of them, read with one call; an empty list after the last.
    /// What was read when Ctrl-C ends the call is gone: a token from before it has that again.
    fn take<'py>(&mut self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyList>> {
        self.born.check(py)?;
        let (codecs, mut batch, mut pairs) =
            (Arc::clone(&self.codecs), Batch::default(), Vec::new());
        let source = self.get();
        // In parts, so that signals are handled in between.
        while pairs.len() < n {
            if !pairs.is_empty() {
                py.check_signals()?;
            }
            let most = (n - pairs.len()).min(AT_ONCE);
            py.detach(|| pairs!(source, |from| batch.fill(from, most, usize::MAX), Ok(())))
                .or_raise(py)?;
            let read = pairs.len();
            for (key, value) in batch.iter() {
                pairs.push(give(py, &codecs, Kind::Items, key.into(), value.into())?);
            }
            if pairs.len() == read {
                break;
            }
        }
        PyList::new(py, pairs)
    }

    /// How far it came, as bytes: ``resume`` goes on from here, also in another process.
    fn token<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.born.check(py)?;
        let closed = Err(hedgerow::Error::WrongTransaction);
        let token = pairs!(self.get(), |pairs| pairs.token(), closed).or_raise(py)?;
        Ok(PyBytes::new(py, &token.to_bytes()))
    }

    /// Gives the snapshot back. The stream goes on with the newest one, after the last pair.
    fn park(&mut self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        pairs!(self.get(), |pairs| pairs.park(), Ok(())).or_raise(py)
    }

    /// Ends the stream, and lets its snapshot go.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        let taken = (mem::replace(self.get(), Source::Over), self.origin.take());
        py.detach(|| drop(taken));
        Ok(())
    }

    /// What is left as a stream of the C data interface of Arrow, as ``View.__arrow_c_stream__``.
    /// This one is over then.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &mut self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.born.check(py)?;
        let Codecs { key, value } = &*self.codecs;
        let columns = Columns::new(Some(key), Some(value));
        self.origin = None;
        match mem::replace(self.get(), Source::Over) {
            Source::Tree(pairs) => arrow::export(py, *pairs, columns),
            Source::Log(pairs) => arrow::export(py, *pairs, columns),
            Source::Reader(pairs) => arrow::export(py, *pairs, columns),
            Source::Over => closed(py, "the stream"),
        }
    }

    fn __repr__(&mut self) -> String {
        let over = ", closed".to_owned();
        let state = pairs!(
            self.get(),
            |pairs| format!(", {} given, at commit {}", pairs.given(), pairs.commit()),
            over
        );
        match &self.origin {
            Some(origin) => {
                let name = String::from_utf8_lossy(origin.scan.table());
                format!("<hedgerow.Stream of {name:?}{state}>")
            }
            None => format!("<hedgerow.Stream{state}>"),
        }
    }

    /// Whether it holds no snapshot at this moment.
    #[getter]
    fn parked(&mut self) -> bool {
        pairs!(self.get(), |pairs| pairs.is_parked(), true)
    }

    /// How many pairs are left, where that is known.
    #[getter]
    fn remaining(&mut self) -> Option<u64> {
        pairs!(self.get(), |pairs| pairs.remaining(), Some(0))
    }

    /// How many pairs were given.
    #[getter]
    fn given(&mut self) -> u64 {
        pairs!(self.get(), |pairs| pairs.given(), 0)
    }

    /// The number of the commit that it sees, or saw before it was parked.
    #[getter]
    fn commit(&mut self) -> u64 {
        pairs!(self.get(), |pairs| pairs.commit(), 0)
    }
}
