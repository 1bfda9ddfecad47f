//! Reads an LMDB environment through LMDB's own C library: its databases, their options and their
//! entries, all in one read transaction. The only file of this package with `unsafe`; it translates
//! pointers and decides nothing about stores.
//!
//! LMDB trusts its files. What can be checked from outside is checked before the first page is
//! walked (the file must be as long as its own meta page says); a file that is damaged further
//! inside may still bring LMDB, and this process, down. It is opened read-only and comes to no
//! harm.

#![expect(unsafe_code, reason = "LMDB is a C library")]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::raw::c_int;
use std::path::{Path, PathBuf};
use std::ptr;

use lmdb_master_sys as ffi;

use crate::exit::Failure;

/// A record of the main database that stands for a named one has this length (`MDB_db`).
const RECORD_BYTES: usize = 48;

/// What is done with a key and a value.
type Take<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Failure> + 'a;

/// A key and a value in LMDB's map.
type Pair<'t> = (&'t [u8], &'t [u8]);

/// One database: the main one, or a named one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Database {
    /// Its name; `None` for the main one.
    pub(crate) name: Option<Vec<u8>>,
    /// How many entries it has; of the main one: beside the records of named ones.
    pub(crate) entries: u64,
    /// MDB_INTEGERKEY.
    pub(crate) integer_keys: bool,
    /// MDB_REVERSEKEY.
    pub(crate) reverse_keys: bool,
    /// MDB_DUPSORT.
    pub(crate) duplicates: bool,
    /// MDB_DUPFIXED.
    pub(crate) fixed_values: bool,
    /// MDB_INTEGERDUP.
    pub(crate) integer_values: bool,
    /// MDB_REVERSEDUP.
    pub(crate) reverse_values: bool,
    handle: ffi::MDB_dbi,
    /// Names whose records in the main database are no entries of it.
    records: BTreeSet<Vec<u8>>,
}

/// An open environment with one read transaction.
pub(crate) struct Environment {
    // Fields drop in this order: the transaction must end before its environment.
    txn: Txn,
    _env: Env,
    main: ffi::MDB_dbi,
}

impl Environment {
    /// Opens a folder with a `data.mdb`, or a data file.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let file = if path.is_dir() { path.join("data.mdb") } else { path.to_path_buf() };
        let length = std::fs::metadata(&file)
            .map_err(|error| format!("could not open {}: {error}", file.display()))?
            .len();
        if length == 0 {
            return Err(format!("{} is empty, not an LMDB database", file.display()));
        }
        let probe = Env::open(path, &file, 0)?;
        let candidates = Txn::begin(&probe).and_then(|txn| {
            let main = txn.open_database(None)?;
            probe.check_length(length)?;
            txn.candidates(main)
        });
        let candidates = candidates.map_err(|error| format!("{}: {error}", file.display()))?.len();
        drop(probe);
        // The number of databases that will be opened must be known when the environment is.
        let named = u32::try_from(candidates).map_err(|_| "too many databases".to_owned())?;
        let env = Env::open(path, &file, named)?;
        let (txn, main) = Txn::begin(&env)
            .and_then(|txn| txn.open_database(None).map(|main| (txn, main)))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { txn, _env: env, main })
    }

    /// All databases; the main one first, unless it only has the records of named ones.
    pub(crate) fn databases(&self) -> Result<Vec<Database>, String> {
        let mut named = Vec::new();
        for name in self.txn.candidates(self.main)? {
            if let Some(handle) = self.txn.open_named(&name)? {
                named.push(self.txn.describe(handle, Some(name))?);
            }
        }
        let mut main = self.txn.describe(self.main, None)?;
        main.entries = main.entries.saturating_sub(named.len() as u64);
        main.records = named.iter().filter_map(|database| database.name.clone()).collect();
        let is_needed = main.entries > 0 || named.is_empty();
        Ok(is_needed.then_some(main).into_iter().chain(named).collect())
    }

    /// The number of the commit that is read.
    pub(crate) fn commit(&self) -> usize {
        // SAFETY: the transaction is live.
        unsafe { ffi::mdb_txn_id(self.txn.raw) }
    }

    /// Calls `take` with every entry in order.
    pub(crate) fn for_each(&self, database: &Database, take: &mut Take<'_>) -> Result<(), Failure> {
        let mut cursor = Cursor::open(&self.txn, database.handle).map_err(Failure::Other)?;
        while let Some((key, value)) = cursor.next().map_err(Failure::Other)? {
            if value.len() != RECORD_BYTES || !database.records.contains(key) {
                take(key, value)?;
            }
        }
        Ok(())
    }
}

/// Owns an `MDB_env`; null if it could not be made.
struct Env {
    raw: *mut ffi::MDB_env,
}

impl Env {
    /// Opens for reading, beside writers if there are any. If there is a lock file, we take a slot
    /// in it, so that no page is reused while we read; if there is none, no other process has the
    /// environment open, and we leave no lock file.
    fn open(path: &Path, file: &Path, named: u32) -> Result<Self, String> {
        let is_folder = path.is_dir();
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| format!("{} has a zero byte in its name", path.display()))?;
        let folder_flag = if is_folder { 0 } else { ffi::MDB_NOSUBDIR };
        let flags = ffi::MDB_RDONLY | ffi::MDB_NOTLS | folder_flag;
        let first = if lock_file(path).exists() { 0 } else { ffi::MDB_NOLOCK };
        let opened = match Self::try_open(&name, flags | first, named) {
            // No right to the lock file: a reader that writers do not see is better than none.
            Err(code) if is_refusal(code) => Self::try_open(&name, flags | ffi::MDB_NOLOCK, named),
            other => other,
        };
        opened.map_err(|code| {
            let hint = match code {
                ffi::MDB_VERSION_MISMATCH => "; close programs with another version of LMDB first",
                _ => "",
            };
            let (file, text) = (file.display(), text(code));
            format!("{file} cannot be opened as an LMDB database: {text}{hint}")
        })
    }

    fn try_open(name: &CStr, flags: u32, named: u32) -> Result<Self, c_int> {
        let mut env = Self { raw: ptr::null_mut() };
        // SAFETY: `raw` is a place for the pointer that LMDB gives.
        check(unsafe { ffi::mdb_env_create(&raw mut env.raw) })?;
        // SAFETY: the environment was created above and is not open yet.
        check(unsafe { ffi::mdb_env_set_maxdbs(env.raw, named) })?;
        // SAFETY: the environment was created above, and `name` ends with a zero byte. Should the
        // opening fail, dropping `env` closes it, as LMDB asks for.
        check(unsafe { ffi::mdb_env_open(env.raw, name.as_ptr(), flags, 0o600) })?;
        Ok(env)
    }

    /// A file that was cut would kill the process at the first touch beyond its end.
    fn check_length(&self, length: u64) -> Result<(), String> {
        // SAFETY: both are plain C structs of numbers and a pointer, for which zero is a value.
        let (mut info, mut stat): (ffi::MDB_envinfo, ffi::MDB_stat) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: the environment is open and the structs are ours.
        let codes = unsafe {
            (ffi::mdb_env_info(self.raw, &raw mut info), ffi::mdb_env_stat(self.raw, &raw mut stat))
        };
        check(codes.0).and(check(codes.1)).map_err(text)?;
        let pages = info.me_last_pgno as u64 + 1;
        let needed = pages.saturating_mul(stat.ms_psize.into());
        if length < needed {
            return Err(format!("the file is cut off: {length} bytes instead of {needed}"));
        }
        Ok(())
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: created by `try_open` and closed only here; its owner ends its transactions
            // first.
            unsafe { ffi::mdb_env_close(self.raw) };
        }
    }
}

/// Owns a read transaction. It must end before its environment does.
struct Txn {
    raw: *mut ffi::MDB_txn,
}

impl Txn {
    fn begin(env: &Env) -> Result<Self, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; `raw` is a place for the pointer.
        let code =
            unsafe { ffi::mdb_txn_begin(env.raw, ptr::null_mut(), ffi::MDB_RDONLY, &raw mut raw) };
        check(code).map_err(text)?;
        Ok(Self { raw })
    }

    fn open_database(&self, name: Option<&CStr>) -> Result<ffi::MDB_dbi, String> {
        self.try_open_database(name).map_err(text)
    }

    fn try_open_database(&self, name: Option<&CStr>) -> Result<ffi::MDB_dbi, c_int> {
        let mut handle = 0;
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the transaction is live; the name is null or ends with a zero byte.
        check(unsafe { ffi::mdb_dbi_open(self.raw, name, 0, &raw mut handle) })?;
        Ok(handle)
    }

    /// The named database, unless the entry of this name is a common one.
    fn open_named(&self, name: &[u8]) -> Result<Option<ffi::MDB_dbi>, String> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        match self.try_open_database(Some(&name)) {
            Ok(handle) => Ok(Some(handle)),
            Err(ffi::MDB_INCOMPATIBLE | ffi::MDB_NOTFOUND) => Ok(None),
            Err(code) => Err(text(code)),
        }
    }

    /// Keys of the main database that may name a database, by the length of their values.
    fn candidates(&self, main: ffi::MDB_dbi) -> Result<Vec<Vec<u8>>, String> {
        let mut cursor = Cursor::open(self, main)?;
        let mut names = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            if value.len() == RECORD_BYTES && !key.contains(&0) {
                names.push(key.to_vec());
            }
        }
        Ok(names)
    }

    fn describe(&self, handle: ffi::MDB_dbi, name: Option<Vec<u8>>) -> Result<Database, String> {
        let mut flags = 0;
        // SAFETY: a plain C struct of numbers, for which zero is a value.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is live and the handle is its own.
        let codes = unsafe {
            (
                ffi::mdb_dbi_flags(self.raw, handle, &raw mut flags),
                ffi::mdb_stat(self.raw, handle, &raw mut stat),
            )
        };
        check(codes.0).and(check(codes.1)).map_err(text)?;
        let has = |flag| flags & flag != 0;
        Ok(Database {
            name,
            entries: stat.ms_entries as u64,
            integer_keys: has(ffi::MDB_INTEGERKEY),
            reverse_keys: has(ffi::MDB_REVERSEKEY),
            duplicates: has(ffi::MDB_DUPSORT),
            fixed_values: has(ffi::MDB_DUPFIXED),
            integer_values: has(ffi::MDB_INTEGERDUP),
            reverse_values: has(ffi::MDB_REVERSEDUP),
            handle,
            records: BTreeSet::new(),
        })
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // SAFETY: begun by `begin` and ended only here; its cursors borrow `self` and are gone.
        unsafe { ffi::mdb_txn_abort(self.raw) };
    }
}

/// Walks one database from its first entry.
struct Cursor<'t> {
    raw: *mut ffi::MDB_cursor,
    _txn: &'t Txn,
}

impl<'t> Cursor<'t> {
    fn open(txn: &'t Txn, handle: ffi::MDB_dbi) -> Result<Self, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is live and the handle is its own.
        check(unsafe { ffi::mdb_cursor_open(txn.raw, handle, &raw mut raw) }).map_err(text)?;
        Ok(Self { raw, _txn: txn })
    }

    /// The next entry, or `None` at the end.
    fn next(&mut self) -> Result<Option<Pair<'t>>, String> {
        let mut key = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };
        let mut value = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };
        // SAFETY: the cursor is open; LMDB fills the two values.
        let code =
            unsafe { ffi::mdb_cursor_get(self.raw, &raw mut key, &raw mut value, ffi::MDB_NEXT) };
        match code {
            ffi::MDB_NOTFOUND => Ok(None),
            code => {
                check(code).map_err(text)?;
                // SAFETY: LMDB gave both, and they stay as long as the read transaction, which is
                // borrowed for 't.
                Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
            }
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed only here, before its transaction, which it borrows.
        unsafe { ffi::mdb_cursor_close(self.raw) };
    }
}

/// The bytes that LMDB points at.
///
/// # Safety
/// The value was filled by LMDB, and its transaction is live for 't.
unsafe fn bytes<'t>(value: &ffi::MDB_val) -> &'t [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: LMDB gave a pointer to that many bytes of its map; the caller vouches for the
    // lifetime.
    unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}

fn check(code: c_int) -> Result<(), c_int> {
    if code == ffi::MDB_SUCCESS { Ok(()) } else { Err(code) }
}

/// No right to write, or no way to: EACCES, EPERM, EROFS.
fn is_refusal(code: c_int) -> bool {
    let kind = std::io::Error::from_raw_os_error(code).kind();
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    code > 0 && matches!(kind, PermissionDenied | ReadOnlyFilesystem)
}

fn text(code: c_int) -> String {
    // SAFETY: LMDB gives a string that ends with a zero byte, of its own or of the system's static
    // ones, whatever the code.
    let message = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
    message.to_string_lossy().into_owned()
}

fn lock_file(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.join("lock.mdb");
    }
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}
