//! The store's errors as exceptions, whose classes stand in `hedgerow/_errors.py`.

use hedgerow::{Error, Place};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An exception of a class of `hedgerow/_errors.py`.
fn exception<'py>(
    py: Python<'py>,
    class: &str,
    args: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("hedgerow._errors").map(Bound::unbind))?;
    module.bind(py).getattr(class)?.cast_into::<PyType>()?.call1(args)
}

/// The class of an error.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "FileError",
        Error::NotAStore { .. } | Error::Unsupported { .. } | Error::Corrupt { .. } => {
            "DamagedError"
        }
        Error::Locked { .. } => "LockedError",
        Error::Path { path, .. } if path.exists() => "ExistsError",
        Error::Path { .. } => "MissingError",
        Error::ReadOnly => "ReadOnlyError",
        Error::StoreFull { .. } => "FullError",
        Error::Interrupted => "InterruptedError",
        Error::NoTable { .. } => "NoTableError",
        Error::Conflict => "ConflictError",
        Error::TooOld { .. } => "TooOldError",
        Error::TableExists { .. } | Error::TableOptions { .. } | Error::WrongTable { .. } => {
            "TableError"
        }
        Error::WrongTransaction => "ClosedError",
        Error::Size { .. } | Error::NotLast | Error::Argument { .. } | Error::Rejected { .. } => {
            "ArgumentError"
        }
        Error::Poisoned { .. } | Error::CommitFailed { .. } => "FailedError",
        _ => "Error",
    }
}

/// The exception for an error of the store.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    if matches!(error, Error::OutOfMemory) {
        return PyMemoryError::new_err(error.to_string());
    }
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let message = error.to_string();
        let code = match error {
            Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        };
        let made = match code {
            Some(code) => exception(py, class(error), (code, message))?,
            None => exception(py, class(error), (message,))?,
        };
        let path = match error {
            Error::Io { path, .. }
            | Error::NotAStore { path, .. }
            | Error::Unsupported { path, .. }
            | Error::Corrupt { path, .. }
            | Error::Locked { path, .. }
            | Error::Path { path, .. } => Some(path),
            _ => None,
        };
        if let Some(path) = path {
            made.setattr("path", path.to_string_lossy())?;
        }
        if let Error::Corrupt { place: Place::Page(page), .. } = error {
            made.setattr("page", page)?;
        }
        Ok(made)
    };
    made().map_or_else(|failure| failure, PyErr::from_value)
}

/// What the store answers, as Python's calls answer.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for hedgerow::Result<T> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}

/// An exception that does not come from the store.
pub(crate) fn raise<T>(py: Python<'_>, class: &str, message: &str) -> PyResult<T> {
    Err(exception(py, class, (message,)).map_or_else(|failure| failure, PyErr::from_value))
}

/// Something that was closed is used.
pub(crate) fn closed<T>(py: Python<'_>, what: &str) -> PyResult<T> {
    raise(py, "ClosedError", &format!("{what} is closed"))
}

/// Says which option it is that has a value that makes no sense.
pub(crate) trait OfOption<T> {
    fn of_option(self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<T>;
}

impl<T, E: Into<PyErr>> OfOption<T> for Result<T, E> {
    fn of_option(self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
        self.map_err(|error| {
            let (py, error) = (value.py(), error.into());
            let reason = error.value(py).to_string();
            let reason = format!(
                "{name}={}: {reason}",
                value.repr().map_or_else(|_| "?".into(), |r| r.to_string())
            );
            match error.is_instance_of::<PyTypeError>(py) {
                true => PyTypeError::new_err(reason),
                false => PyValueError::new_err(reason),
            }
        })
    }
}
