//! Sinks: pairs into a table, in transactions of bounded size.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::lsm::Db;
use hedgerow::stream::{self, Cut, Mode, OnReject};
use hedgerow::tree::Store;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::{OfOption, OrRaise, closed};
use crate::fork::Born;
use crate::store::durability_of;
use crate::stream::{seconds, takes};
use crate::table::{Codecs, Pairs, put_rows, two};

/// Where the pairs go.
enum Target {
    Tree(Box<stream::Sink<Store>>),
    Log(Box<stream::Sink<Db>>),
    Over,
}

/// Runs an expression over the sink of either engine.
macro_rules! sink {
    ($target:expr, |$sink:ident| $body:expr, $over:expr) => {
        match $target {
            Target::Tree($sink) => $body,
            Target::Log($sink) => $body,
            Target::Over => $over,
        }
    };
}

/// Takes pairs and commits them from time to time: in a ``with`` statement, the rest at its end.
/// Made by ``sink``.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Sink {
    target: Mutex<Target>,
    codecs: Arc<Codecs>,
    born: Born,
    report: stream::SinkReport,
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(mem::replace(self.get(), Target::Over));
        }
    }
}

/// A sink with the options of `sink`.
pub(crate) fn sink_of<T: stream::Target>(
    py: Python<'_>,
    target: &T,
    table: &[u8],
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<stream::Sink<T>> {
    let mut sink = takes(py, stream::Sink::new(target, table))?;
    let (mut cut, mut is_cut) = (Cut::never(), false);
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        let wrong = || PyValueError::new_err(format!("{value} is no {name} of a sink"));
        is_cut |= matches!(&*name, "pairs" | "bytes" | "seconds");
        match &*name {
            "pairs" => cut = cut.pairs(value.extract().of_option(&name, &value)?),
            "bytes" => cut = cut.bytes(value.extract().of_option(&name, &value)?),
            "seconds" => cut = cut.time(seconds(&value)?),
            "durability" => sink = sink.durability(durability_of(value.extract()?)?),
            "mode" => {
                sink = sink.mode(match value.extract::<&str>()? {
                    "put" => Mode::Put,
                    "new" => Mode::New,
                    "replace" => Mode::Replace,
                    "append" => Mode::Append,
                    _ => return Err(wrong()),
                });
            }
            "on_reject" => {
                sink = sink.on_reject(match value.extract::<&str>()? {
                    "fail" => OnReject::Fail,
                    "fail unless same" => OnReject::FailUnlessSame,
                    "ignore" => OnReject::Ignore,
                    "stop" => OnReject::Stop,
                    _ => return Err(wrong()),
                });
            }
            _ => {
                let reason = format!(
                    "a sink has no option {name:?}: it has pairs, bytes, seconds, durability, mode \
                     and on_reject"
                );
                return Err(PyTypeError::new_err(reason));
            }
        }
    }
    Ok(if is_cut { sink.cut(cut) } else { sink })
}

impl Sink {
    pub(crate) fn of_tree(sink: stream::Sink<Store>, codecs: Codecs) -> Self {
        Self::new(Target::Tree(Box::new(sink)), codecs)
    }

    pub(crate) fn of_log(sink: stream::Sink<Db>, codecs: Codecs) -> Self {
        Self::new(Target::Log(Box::new(sink)), codecs)
    }

    fn new(target: Target, codecs: Codecs) -> Self {
        let (target, report) = (Mutex::new(target), stream::SinkReport::default());
        let codecs = Arc::new(codecs);
        Self { target, codecs, born: Born::now(), report }
    }

    fn get(&mut self) -> &mut Target {
        self.target.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sink, if it is open and of this process.
    fn open(&mut self, py: Python<'_>) -> PyResult<&mut Target> {
        self.born.check(py)?;
        match self.get() {
            Target::Over => closed(py, "the sink"),
            target => Ok(target),
        }
    }

    fn put_all(&mut self, py: Python<'_>, pairs: &mut Pairs) -> PyResult<()> {
        let target = self.open(py)?;
        let put = || {
            pairs.iter().try_for_each(|(key, value)| {
                sink!(
                    target,
                    |sink| if sink.is_over() { Ok(()) } else { sink.put(key, value).map(drop) },
                    Ok(())
                )
            })
        };
        py.detach(put).or_raise(py)?;
        pairs.clear();
        py.check_signals()
    }
}

#[pymethods]
impl Sink {
    /// Takes a pair; whether it was stored.
    fn put(
        &mut self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let key = self.codecs.key.encode(key)?.into_owned();
        let value = self.codecs.value.encode(value)?.into_owned();
        let target = self.open(py)?;
        py.detach(|| sink!(target, |sink| sink.put(&key, &value), Ok(false))).or_raise(py)
    }

    /// Takes all pairs of a mapping, or of an iterable of pairs.
    fn update(&mut self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match pairs.hasattr("keys")? {
            true => pairs.call_method0("items")?,
            false => pairs.clone(),
        };
        let mut waiting = Pairs::default();
        for pair in pairs.try_iter()? {
            let (key, value) = two(&pair?)?;
            waiting.push(&self.codecs.key.encode(&key)?, &self.codecs.value.encode(&value)?);
            if waiting.is_full() {
                self.put_all(py, &mut waiting)?;
            }
        }
        self.put_all(py, &mut waiting)
    }

    /// Takes the rows of an Arrow stream, as ``Table.update_arrow``; answers how many there were.
    #[pyo3(signature = (data, key=None, value=None))]
    fn update_arrow(
        &mut self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let codecs = Arc::clone(&self.codecs);
        put_rows(data, &codecs, (key, value), |pairs| self.put_all(py, pairs))
    }

    /// Commits what it has taken so far.
    fn commit(&mut self, py: Python<'_>) -> PyResult<()> {
        let target = self.open(py)?;
        py.detach(|| sink!(target, |sink| sink.commit(), Ok(()))).or_raise(py)
    }

    /// Commits the rest, and ends.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        let target = mem::replace(self.get(), Target::Over);
        self.report = sink!(&target, |sink| sink.report().clone(), return Ok(()));
        let finish = || sink!(target, |sink| sink.finish(), Ok(stream::SinkReport::default()));
        self.report = py.detach(finish).or_raise(py)?;
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, *raised))]
    fn __exit__(
        &mut self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        raised: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if self.born.lets_pass(raised) {
            return Ok(());
        }
        if kind.is_none() {
            return self.close(py);
        }
        self.born.check(py)?;
        let target = mem::replace(self.get(), Target::Over);
        self.report = sink!(&target, |sink| sink.report().clone(), return Ok(()));
        py.detach(|| drop(target));
        Ok(())
    }

    /// What is committed: ``pairs``, ``rejected`` and ``commits``, and ``last``, the last pair.
    #[getter]
    fn report<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let over = self.report.clone();
        let report = sink!(self.get(), |sink| sink.report().clone(), over);
        let dict = PyDict::new(py);
        dict.set_item("pairs", report.pairs)?;
        dict.set_item("rejected", report.rejected)?;
        dict.set_item("commits", report.commits)?;
        let last = match &report.last {
            Some(last) => {
                let key = self.codecs.key.decode(py, (&*last.key).into())?;
                let value = last.value.as_deref().unwrap_or_default();
                Some((key, self.codecs.value.decode(py, value.into())?))
            }
            None => None,
        };
        dict.set_item("last", last)?;
        Ok(dict)
    }

    fn __repr__(&mut self) -> String {
        let closed = (self.report.pairs, ", closed");
        let (pairs, state) = sink!(self.get(), |sink| (sink.report().pairs, ""), closed);
        format!("<hedgerow.Sink, {pairs} pairs committed{state}>")
    }
}
