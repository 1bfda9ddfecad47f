//! The Python module `hedgerow._hedgerow`: the store's two engines in Python's habits. It
//! translates; what it needs and the library lacks is added to the library.

mod arrow;
mod buffer;
mod codec;
mod columns;
mod diff;
mod either;
mod errors;
mod follow;
mod fork;
mod html;
mod join;
mod lasts;
mod log;
mod long;
mod mdb;
mod order;
mod places;
mod sink;
mod sql;
mod standby;
mod step;
mod store;
mod stream;
mod strings;
mod table;
mod txn;
mod view;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Refuses to be imported by a second interpreter of a process: classes and functions of Python's
/// that are used again and again are looked up once, and are those of the first one.
fn refuse_another_interpreter(py: Python<'_>) -> PyResult<()> {
    // Each interpreter has a module `sys` of its own.
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let sys = py.import("sys")?;
    if SYS.get_or_init(py, || sys.clone().unbind()).is(&sys) {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "another interpreter of this process has imported hedgerow, which serves one: import it in \
         that one only (in mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
    ))
}

/// What the package `hedgerow` is made of. Every object is either not changed after it was made, or
/// its parts are behind locks, or it refuses to be used by two threads at once: none of them asks
/// for the interpreter's lock.
#[pymodule(gil_used = false)]
mod _hedgerow {
    #[pymodule_export]
    use crate::diff::Changes;
    #[pymodule_export]
    use crate::follow::Follow;
    #[pymodule_export]
    use crate::join::Join;
    #[pymodule_export]
    use crate::log::{Batch, Keyspace, Log, LogTransaction, LogWalk, Snapshot};
    #[pymodule_export]
    use crate::mdb::{MdbCursor, MdbEnv, MdbTxn, mdb_message, mdb_version_of};
    #[pymodule_export]
    use crate::sink::Sink;
    #[pymodule_export]
    use crate::sql::{Rows, RowsIterator, Sql};
    #[pymodule_export]
    use crate::standby::Standby;
    #[pymodule_export]
    use crate::step::Step;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::txn::{Savepoint, Transaction};
    #[pymodule_export]
    use crate::view::{View, Walk};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::prelude::*;
        crate::refuse_another_interpreter(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::fork::watch(module)
    }
}
