//! Following a store: steps from one commit to a later one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hedgerow::lsm::Db;
use hedgerow::stream::{self, Followed, Mark};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::codec::{Codec, bytes_of};
use crate::either::{Either, either};
use crate::errors::OrRaise;
use crate::fork::Ours;
use crate::lasts::{Lasts, TURN};
use crate::log::Held;
use crate::long;
use crate::step::{Found, Home, Step};
use crate::table::{KeyBounds, bounds};
use crate::txn::{locked, name_of};

/// The follower of either engine, and what its moments are made with.
type Kind = Either<(stream::Follow, Home), (stream::Follow<Db>, Arc<Held>)>;

/// Follows a store: an iterator over the steps from one commit to a later one, which waits for the
/// next. Made by ``Store.follow`` and ``Log.follow``.
///
/// A follower with a name goes on where it stopped, also after a restart: asking for the next step,
/// or ``done()``, says that the last one was dealt with. If the process dies before, the same step
/// is given again. A consumer that keeps each step's ``mark`` with what it makes of the step sees
/// each change exactly once.
///
/// Closing it, or the store, ends a call that waits in another thread, with ``ClosedError``.
#[pyclass(frozen, generic, module = "hedgerow")]
pub(crate) struct Follow {
    follow: Mutex<Ours<Kind>>,
    lasts: Lasts,
    /// To which commit it has come.
    commit: AtomicU64,
    /// Whether it has a name, and so writes to the store.
    is_named: bool,
    /// The table that is followed, if it is one, and its keys.
    only: Option<(Vec<u8>, KeyBounds)>,
}

/// The options of `follow`.
#[derive(Default)]
pub(crate) struct Asked {
    everything: bool,
    durable: bool,
    mark: Option<Mark>,
    name: Option<Vec<u8>>,
    only: Option<(Vec<u8>, KeyBounds)>,
}

impl Asked {
    pub(crate) fn new(
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let name = name.map(name_of).transpose()?;
        let mut asked = Self { name, ..Self::default() };
        let (mut table, mut key, mut start, mut stop, mut prefix) = Default::default();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            let into = match &*name {
                "everything" => {
                    asked.everything = value.extract()?;
                    continue;
                }
                "durable" => {
                    asked.durable = value.extract()?;
                    continue;
                }
                "mark" if value.is_none() => continue,
                "mark" => {
                    asked.mark = Some(Mark::from_bytes(&bytes_of(&value)?).or_raise(py)?);
                    continue;
                }
                "table" | "keyspace" => &mut table,
                "key" => &mut key,
                "start" => &mut start,
                "stop" => &mut stop,
                "prefix" => &mut prefix,
                _ => {
                    let reason = format!(
                        "a follower has no option {name:?}: it has everything, durable, mark, \
                         table, key, start, stop and prefix"
                    );
                    return Err(PyTypeError::new_err(reason));
                }
            };
            *into = Some(value).filter(|value| !value.is_none());
        }
        match &table {
            Some(table) => {
                let codec = Codec::new(key.as_ref())?;
                let keys = bounds(&codec, start.as_ref(), stop.as_ref(), prefix.as_ref())?;
                asked.only = Some((name_of(table)?, keys));
            }
            None if start.or(stop).or(prefix).is_some() => {
                return Err(PyTypeError::new_err("a range of keys is one of a table: say which"));
            }
            None => {}
        }
        if asked.mark.is_some() && asked.name.is_none() {
            let reason = "a mark says where a follower with a name goes on: give its name, too";
            return Err(PyTypeError::new_err(reason));
        }
        Ok(asked)
    }

    /// The follower of a store.
    fn follow<S: Followed>(&self, store: &S) -> hedgerow::Result<stream::Follow<S>> {
        let mut follow = match &self.name {
            Some(name) => stream::Follow::named(store, name)?,
            None if self.everything => stream::Follow::from_start(store),
            None => stream::Follow::from_now(store)?,
        };
        if let Some(mark) = &self.mark {
            follow = follow.resume(mark)?;
        }
        if let Some((table, keys)) = &self.only {
            follow = follow.only(table, keys.clone());
        }
        let follow = follow.write_timeout(long::TURN);
        Ok(if self.durable { follow.durable() } else { follow })
    }
}

impl Follow {
    pub(crate) fn of_tree(
        py: Python<'_>,
        home: Home,
        lasts: Lasts,
        asked: Asked,
    ) -> PyResult<Self> {
        let follow = py.detach(|| asked.follow(&home.store)).or_raise(py)?;
        Ok(Self::new(Either::Tree((follow, home)), lasts, asked))
    }

    pub(crate) fn of_log(
        py: Python<'_>,
        held: Arc<Held>,
        lasts: Lasts,
        asked: Asked,
    ) -> PyResult<Self> {
        let db = held.db(py)?;
        let follow = py.detach(|| asked.follow(db)).or_raise(py)?;
        Ok(Self::new(Either::Log((follow, held)), lasts, asked))
    }

    fn new(kind: Kind, lasts: Lasts, asked: Asked) -> Self {
        let commit = AtomicU64::new(either!(&kind, |(follow, _)| follow.commit()));
        let (follow, is_named) = (Mutex::new(Ours::new(kind)), asked.name.is_some());
        Self { follow, lasts, commit, is_named, only: asked.only }
    }

    fn refuse_own(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_named { self.lasts.refuse_own(py) } else { Ok(()) }
    }
}

#[pymethods]
impl Follow {
    /// The next step, once there is one; ``None`` if there is none for ``timeout`` seconds. Commits
    /// that were made in the meantime come as one step.
    ///
    /// A follower with a name writes to the store before it gives a step, and waits for other
    /// writers: with a timeout for as long, but at least 5 seconds, after which it raises
    /// ``LockedError``. It can be asked again then.
    #[pyo3(signature = (timeout=None))]
    fn step(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Step>> {
        self.refuse_own(py)?;
        let found = self.lasts.wait_and_write(py, (timeout, Some(TURN)), None, |most| {
            Ok(match &mut **locked(&self.follow) {
                None => None,
                Some(Either::Tree((follow, home))) => {
                    follow.step(most)?.map(|step| Found::Tree((step, home.clone())))
                }
                Some(Either::Log((follow, held))) => {
                    follow.step(most)?.map(|step| Found::Log((step, Arc::clone(held))))
                }
            })
        })?;
        if let Some(found) = &found {
            self.commit.store(either!(found, |(step, _)| step.to()), Ordering::Relaxed);
        }
        Ok(found.map(|found| Step::new(found, self.only.clone())))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Step>> {
        self.step(py, None)
    }

    /// Says that the last step was dealt with, so that it is not given again after a restart.
    /// Durable when this returns.
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        self.lasts.check(py)?;
        self.refuse_own(py)?;
        let done = || match &mut **locked(&self.follow) {
            Some(kind) => either!(kind, |(follow, _)| follow.done()),
            None => Ok(()),
        };
        self.lasts.write(py, done)
    }

    /// The number of the commit to which it has come; 0 before the first step.
    #[getter]
    fn commit(&self) -> u64 {
        self.commit.load(Ordering::Relaxed)
    }

    /// Lets the commit go that it keeps. What a name keeps stays.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.lasts.end(py)?;
        py.detach(|| drop(locked(&self.follow).take()));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.lasts.lets_pass(raised) { Ok(()) } else { self.close(py) }
    }

    fn __repr__(&self) -> String {
        let state = if self.lasts.is_over() { ", closed" } else { "" };
        format!("<hedgerow.Follow at commit {}{state}>", self.commit())
    }
}
