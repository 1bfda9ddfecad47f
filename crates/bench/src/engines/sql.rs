//! SQLite twice, both of the same source and compiled with the same options: as it is, and cut at
//! its b-tree so that files can be stores. A thin safe layer over the functions that statements
//! need; knows no engine.
#![expect(unsafe_code, reason = "a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::{ptr, slice};

use sqlite as _;

use crate::engine::Result;

type Handle = *mut c_void;

/// Read and write, create, names as URIs, a connection for one thread at a time.
const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x40 | 0x8000;
const ROW: c_int = 100;
const DONE: c_int = 101;

/// Declares the functions of both libraries, whose names begin differently, and tables of them.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        /// The functions of a library.
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $answer,)*
        }
        functions!(@of ours "sqlite3_" $($name $symbol ($($argument: $type),*) $answer;)*);
        functions!(@of stock "stock3_" $($name $symbol ($($argument: $type),*) $answer;)*);
    };
    (@of $module:ident $prefix:literal
        $($name:ident $symbol:literal ($($argument:ident: $type:ty),*) $answer:ty;)*) => {
        mod $module {
            use super::*;
            unsafe extern "C" {
                $(#[link_name = concat!($prefix, $symbol)]
                fn $name($($argument: $type),*) -> $answer;)*
            }
            pub(super) static FUNCTIONS: Functions = Functions { $($name,)* };
        }
    };
}

functions! {
    open = "open_v2" (n: *const c_char, to: *mut Handle, f: c_int, v: *const c_char) -> c_int;
    close = "close" (db: Handle) -> c_int;
    message = "errmsg" (db: Handle) -> *const c_char;
    source = "sourceid" () -> *const c_char;
    prepare = "prepare_v2"
        (db: Handle, z: *const c_char, n: c_int, to: *mut Handle, r: *mut *const c_char) -> c_int;
    finalize = "finalize" (s: Handle) -> c_int;
    reset = "reset" (s: Handle) -> c_int;
    step = "step" (s: Handle) -> c_int;
    bind_int = "bind_int64" (s: Handle, i: c_int, v: i64) -> c_int;
    bind_text = "bind_text" (s: Handle, i: c_int, z: *const u8, n: c_int, d: isize) -> c_int;
    columns = "column_count" (s: Handle) -> c_int;
    kind = "column_type" (s: Handle, i: c_int) -> c_int;
    int = "column_int64" (s: Handle, i: c_int) -> i64;
    double = "column_double" (s: Handle, i: c_int) -> f64;
    blob = "column_blob" (s: Handle, i: c_int) -> *const u8;
    bytes = "column_bytes" (s: Handle, i: c_int) -> c_int;
}

/// Which of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// The one that keeps files as stores.
    Ours,
    /// SQLite as it is.
    Stock,
}

impl Library {
    fn functions(self) -> &'static Functions {
        match self {
            Self::Ours => &ours::FUNCTIONS,
            Self::Stock => &stock::FUNCTIONS,
        }
    }

    /// Which source of SQLite's it was made of.
    pub(crate) fn source(self) -> String {
        // SAFETY: it answers a string that lives for ever.
        let text = unsafe { CStr::from_ptr((self.functions().source)()) };
        text.to_string_lossy().into_owned()
    }
}

/// A value of a row.
#[derive(Debug, PartialEq)]
pub(crate) enum Cell<'r> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'r [u8]),
    Blob(&'r [u8]),
}

/// A connection.
pub(crate) struct Database {
    library: &'static Functions,
    raw: Handle,
}

impl Database {
    /// Opens a file by its URI.
    pub(crate) fn open(library: Library, uri: &str) -> Result<Self> {
        let (library, uri) = (library.functions(), CString::new(uri)?);
        let mut raw = ptr::null_mut();
        // SAFETY: the name ends with a zero; `raw` takes the handle, also where it fails.
        let code = unsafe { (library.open)(uri.as_ptr(), &raw mut raw, OPEN_FLAGS, ptr::null()) };
        let opened = Self { library, raw };
        opened.check(code)?;
        Ok(opened)
    }

    fn check(&self, code: c_int) -> Result<()> {
        if matches!(code, 0 | ROW | DONE) {
            return Ok(());
        }
        // SAFETY: the connection is live, or null where memory ran out; the answer is a string.
        let text = unsafe { CStr::from_ptr((self.library.message)(self.raw)) };
        Err(format!("{} ({code})", text.to_string_lossy()).into())
    }

    /// The statement at the beginning of a text, if there is one, and what comes after it.
    fn prepare_first<'s>(&self, sql: &'s CStr) -> Result<(Option<Statement<'_>>, &'s CStr)> {
        let (mut raw, mut rest) = (ptr::null_mut(), ptr::null());
        // SAFETY: the connection is live, the text ends with a zero; both pointers are taken.
        let code = unsafe {
            (self.library.prepare)(self.raw, sql.as_ptr(), -1, &raw mut raw, &raw mut rest)
        };
        self.check(code)?;
        // SAFETY: it points into the text, which ends with a zero.
        let rest = unsafe { CStr::from_ptr::<'s>(rest) };
        Ok(((!raw.is_null()).then_some(Statement { database: self, raw }), rest))
    }

    /// Prepares a text of one statement.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        let sql = CString::new(sql)?;
        self.prepare_first(&sql)?.0.ok_or_else(|| "no statement".into())
    }

    /// Runs all statements of a text and shows their rows.
    pub(crate) fn run(&self, sql: &str, row: &mut dyn FnMut(&[Cell<'_>])) -> Result<()> {
        let sql = CString::new(sql)?;
        let mut rest = sql.as_c_str();
        loop {
            let (statement, after) = self.prepare_first(rest)?;
            let Some(mut statement) = statement else { return Ok(()) };
            statement.run(row)?;
            rest = after;
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: it is live; its statements, which borrow it, are gone.
        unsafe { (self.library.close)(self.raw) };
    }
}

/// A prepared statement.
pub(crate) struct Statement<'d> {
    database: &'d Database,
    raw: Handle,
}

impl Statement<'_> {
    /// Sets a parameter, counted from 1.
    pub(crate) fn bind(&mut self, at: usize, number: i64) -> Result<()> {
        // SAFETY: the statement is live, and not being run.
        let code = unsafe { (self.database.library.bind_int)(self.raw, at as c_int, number) };
        self.database.check(code)
    }

    /// Sets a parameter to a text, of which it makes a copy.
    pub(crate) fn bind_text(&mut self, at: usize, text: &str) -> Result<()> {
        let (data, len) = (text.as_ptr(), c_int::try_from(text.len())?);
        // SAFETY: the statement is live and not being run; -1 asks for a copy.
        let code =
            unsafe { (self.database.library.bind_text)(self.raw, at as c_int, data, len, -1) };
        self.database.check(code)
    }

    /// Runs it to its end and shows its rows.
    pub(crate) fn run(&mut self, row: &mut dyn FnMut(&[Cell<'_>])) -> Result<()> {
        // SAFETY: the statement is live.
        let columns = unsafe { (self.database.library.columns)(self.raw) };
        loop {
            // SAFETY: as above.
            let code = unsafe { (self.database.library.step)(self.raw) };
            if code != ROW {
                let result = self.database.check(code);
                // SAFETY: as above; what it answers is the error that is known already.
                unsafe { (self.database.library.reset)(self.raw) };
                return result;
            }
            let cells: Vec<Cell<'_>> = (0..columns).map(|column| self.cell(column)).collect();
            row(&cells);
        }
    }

    /// A value of the row that it is on.
    fn cell(&self, column: c_int) -> Cell<'_> {
        let functions = self.database.library;
        // SAFETY: the statement is on a row that has the column. The bytes stay until the next
        // step, which needs `self` mutably; no conversion moves them, since the value is asked
        // for as what it is.
        unsafe {
            let bytes = || {
                let data = (functions.blob)(self.raw, column);
                let len = (functions.bytes)(self.raw, column);
                if data.is_null() { &[] } else { slice::from_raw_parts(data, len as usize) }
            };
            match (functions.kind)(self.raw, column) {
                1 => Cell::Integer((functions.int)(self.raw, column)),
                2 => Cell::Real((functions.double)(self.raw, column)),
                3 => Cell::Text(bytes()),
                4 => Cell::Blob(bytes()),
                _ => Cell::Null,
            }
        }
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used again.
        unsafe { (self.database.library.finalize)(self.raw) };
    }
}
