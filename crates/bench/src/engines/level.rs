//! The adapter of LevelDB and of RocksDB, whose C interfaces differ only in their prefix: a small
//! safe layer over the libraries that Debian ships.
//!
//! Settings: filters of 10 bits a key, a cache of 4 GiB by default, otherwise the engine's
//! defaults. A write transaction is a batch; one that grows beyond 1,000 changes is written in
//! parts, only the last of which is durable, as programs load such stores. After loading everything
//! is compacted, which is not part of the time. "Unsynced" leaves the log to the system, as their
//! default does.
#![expect(unsafe_code, reason = "C libraries")]

use std::ffi::{CString, c_char, c_double, c_int, c_uchar, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use hedgerow::tree::Bytes;
use libloading::Library;

use super::library::{self, functions};
use crate::engine::{Cursor, Engine, Missing, Promise, Reader, Result, Table, Unsupported, Writer};

/// The default size of the cache in bytes.
const CACHE: usize = 4 << 30;
/// Any handle of theirs.
type Handle = *mut c_void;
type Fault = *mut *mut c_char;

functions! {
    open: fn(Handle, *const c_char, Fault) -> Handle;
    close: fn(Handle);
    write: fn(Handle, Handle, Handle, Fault);
    get: fn(Handle, Handle, *const u8, usize, *mut usize, Fault) -> *mut u8;
    free: fn(*mut c_void);
    compact_range: fn(Handle, *const u8, usize, *const u8, usize);
    create_snapshot: fn(Handle) -> Handle;
    release_snapshot: fn(Handle, Handle);
    create_iterator: fn(Handle, Handle) -> Handle;
    iter_destroy: fn(Handle);
    iter_valid: fn(Handle) -> c_uchar;
    iter_seek_to_first: fn(Handle);
    iter_seek_to_last: fn(Handle);
    iter_prev: fn(Handle);
    iter_seek: fn(Handle, *const u8, usize);
    iter_next: fn(Handle);
    iter_key: fn(Handle, *mut usize) -> *const u8;
    iter_value: fn(Handle, *mut usize) -> *const u8;
    iter_get_error: fn(Handle, Fault);
    writebatch_create: fn() -> Handle;
    writebatch_destroy: fn(Handle);
    writebatch_clear: fn(Handle);
    writebatch_put: fn(Handle, *const u8, usize, *const u8, usize);
    writebatch_delete: fn(Handle, *const u8, usize);
    options_create: fn() -> Handle;
    options_set_create_if_missing: fn(Handle, c_uchar);
    readoptions_create: fn() -> Handle;
    readoptions_destroy: fn(Handle);
    readoptions_set_snapshot: fn(Handle, Handle);
    writeoptions_create: fn() -> Handle;
    writeoptions_set_sync: fn(Handle, c_uchar);
    cache_create_lru: fn(usize) -> Handle;
}

/// An open database of either kind. Its options live until the process ends: they are few.
pub(crate) struct Database {
    functions: Functions,
    raw: Handle,
    /// The options of all reads, where reads have no snapshot.
    reads: Option<Handle>,
    /// Write options that do not flush, and that do.
    writes: [Handle; 2],
    /// Changes after which a batch is written.
    batch: u64,
}

// SAFETY: databases and options may be used by any thread, the libraries say; snapshots, iterators
// and batches are made by the thread that uses them.
unsafe impl Sync for Database {}

/// Which library it is: an engine of its own type each.
pub(crate) trait Kind {
    const PREFIX: &'static str;
    /// Changes after which a batch is written.
    const BATCH: u64 = 1000;
    /// Whether each read has a snapshot. Programs that link LevelDB seldom take one: a get sees the
    /// newest state, and an iterator that of the moment in which it is made.
    const SNAPSHOTS: bool = true;
    fn load() -> Result<Library>;
    /// Gives the options a cache and filters; each library has its own way.
    fn set_cache(library: &Library, options: Handle, cache: Handle) -> Result<()>;
}

/// LevelDB.
pub(crate) struct LevelDb;

/// RocksDB.
pub(crate) struct RocksDb;

impl Kind for LevelDb {
    const PREFIX: &'static str = "leveldb";

    fn load() -> Result<Library> {
        library::load(&["libleveldb.so.1d", "libleveldb.so"], "libleveldb-dev")
    }

    fn set_cache(library: &Library, options: Handle, cache: Handle) -> Result<()> {
        type Filter = unsafe extern "C" fn(c_int) -> Handle;
        type Set = unsafe extern "C" fn(Handle, Handle);
        // SAFETY: the names and types are those of leveldb/c.h; the handles are new and live.
        unsafe {
            let filter = library.get::<Filter>("leveldb_filterpolicy_create_bloom")?(10);
            library.get::<Set>("leveldb_options_set_filter_policy")?(options, filter);
            library.get::<Set>("leveldb_options_set_cache")?(options, cache);
        }
        Ok(())
    }
}

impl Kind for RocksDb {
    const PREFIX: &'static str = "rocksdb";

    fn load() -> Result<Library> {
        library::load(&["librocksdb.so", "librocksdb.so.7.8"], "librocksdb-dev")
    }

    fn set_cache(library: &Library, options: Handle, cache: Handle) -> Result<()> {
        type Create = unsafe extern "C" fn() -> Handle;
        type Filter = unsafe extern "C" fn(c_double) -> Handle;
        type Set = unsafe extern "C" fn(Handle, Handle);
        // SAFETY: the names and types are those of rocksdb/c.h; the handles are new and live.
        unsafe {
            let blocks = library.get::<Create>("rocksdb_block_based_options_create")?();
            let filter = library.get::<Filter>("rocksdb_filterpolicy_create_bloom")?(10.0);
            let set = library.get::<Set>("rocksdb_block_based_options_set_filter_policy")?;
            set(blocks, filter);
            let set = library.get::<Set>("rocksdb_block_based_options_set_block_cache")?;
            set(blocks, cache);
            let set = library.get::<Set>("rocksdb_options_set_block_based_table_factory")?;
            set(options, blocks);
        }
        Ok(())
    }
}

/// LevelDB as Bitcoin Core sets it: without compression, with long tables, and with every batch
/// written as a whole.
pub(crate) struct CoreLevelDb;

impl Kind for CoreLevelDb {
    const PREFIX: &'static str = "leveldb";
    const BATCH: u64 = u64::MAX;
    const SNAPSHOTS: bool = false;

    fn load() -> Result<Library> {
        LevelDb::load()
    }

    fn set_cache(library: &Library, options: Handle, cache: Handle) -> Result<()> {
        LevelDb::set_cache(library, options, cache)?;
        type SetInt = unsafe extern "C" fn(Handle, c_int);
        type SetSize = unsafe extern "C" fn(Handle, usize);
        // SAFETY: the names and types are those of leveldb/c.h; the handle is live.
        unsafe {
            library.get::<SetInt>("leveldb_options_set_compression")?(options, 0);
            library.get::<SetSize>("leveldb_options_set_max_file_size")?(options, 32 << 20);
            library.get::<SetSize>("leveldb_options_set_write_buffer_size")?(options, 2 << 20);
        }
        Ok(())
    }
}

/// Our library with LevelDB's interface, on one of its engines, set as [`CoreLevelDb`].
pub(crate) struct Face<const LSM: bool>;

impl<const LSM: bool> Kind for Face<LSM> {
    const PREFIX: &'static str = "leveldb";
    const BATCH: u64 = u64::MAX;
    const SNAPSHOTS: bool = false;

    fn load() -> Result<Library> {
        let path = std::env::current_exe()?.with_file_name("libleveldb.so.1d");
        // SAFETY: it has no constructors but those of the libraries of Rust and C++.
        unsafe { Library::new(&path) }.map_err(|_| {
            let (folder, shared) = (path.parent().unwrap_or(Path::new(".")), path.display());
            let archive = folder.join("libleveldb.a");
            let what = format!(
                "{shared} is not there: `cargo build --release -p leveldb && sh \
                 crates/leveldb/link.sh {} {shared}`, then run this again",
                archive.display()
            );
            Missing(what).into()
        })
    }

    fn set_cache(library: &Library, options: Handle, cache: Handle) -> Result<()> {
        CoreLevelDb::set_cache(library, options, cache)?;
        type Choose = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
        let engine = if LSM { c"lsm" } else { c"tree" };
        // SAFETY: the name and type are those of leveldb/hedgerow.h; the handle is live.
        unsafe {
            library.get::<Choose>("hedgerow_leveldb_options_set_engine")?(options, engine.as_ptr());
        }
        Ok(())
    }
}

impl Database {
    fn open<K: Kind>(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let (library, functions) = (K::load()?, Functions::load(K::load()?, K::PREFIX)?);
        let path = CString::new(folder.join("data").as_os_str().as_bytes())?;
        // SAFETY: options are new handles of this library; the path ends with a zero; `fault`
        // takes a message.
        unsafe {
            let options = (functions.options_create)();
            (functions.options_set_create_if_missing)(options, 1);
            K::set_cache(&library, options, (functions.cache_create_lru)(memory.unwrap_or(CACHE)))?;
            let writes = [(functions.writeoptions_create)(), (functions.writeoptions_create)()];
            (functions.writeoptions_set_sync)(writes[1], 1);
            let mut fault = ptr::null_mut();
            let raw = (functions.open)(options, path.as_ptr(), &raw mut fault);
            let reads = (!K::SNAPSHOTS).then(|| (functions.readoptions_create)());
            let database = Self { functions, raw, reads, writes, batch: K::BATCH };
            database.check(fault)?;
            Ok(database)
        }
    }

    /// Turns a message of the library into an error.
    fn check(&self, fault: *mut c_char) -> Result<()> {
        // SAFETY: the library has just given it, to be freed by us.
        unsafe { library::check(fault, self.functions.free) }
    }

    fn read<T>(&self, work: impl FnOnce(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        if let Some(options) = self.reads {
            return work(&Snapshot { database: self, snapshot: ptr::null_mut(), options });
        }
        // SAFETY: the database is open; both handles are released when the snapshot is dropped.
        let snapshot = unsafe {
            let snapshot = (self.functions.create_snapshot)(self.raw);
            let options = (self.functions.readoptions_create)();
            (self.functions.readoptions_set_snapshot)(options, snapshot);
            Snapshot { database: self, snapshot, options }
        };
        work(&snapshot)
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T>,
    ) -> Result<T> {
        if table.duplicates {
            return Err(Unsupported("several values of a key").into());
        }
        // SAFETY: a new handle, destroyed when the batch is dropped.
        let raw = unsafe { (self.functions.writebatch_create)() };
        let mut batch = Batch { database: self, raw, changes: 0 };
        let answer = work(&mut batch)?;
        batch.write(promise)?;
        Ok(answer)
    }

    fn compact(&self) {
        // SAFETY: the database is open; null bounds mean all of it.
        unsafe { (self.functions.compact_range)(self.raw, ptr::null(), 0, ptr::null(), 0) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the handle is live, and all that was made from it borrows it.
            unsafe { (self.functions.close)(self.raw) }
        }
    }
}

/// A database of one kind.
pub(crate) struct Of<K>(Database, PhantomData<fn(K)>);

impl<K: Kind> Engine for Of<K> {
    type Reader<'e>
        = Snapshot<'e>
    where
        K: 'e;
    type Writer<'e>
        = Batch<'e>
    where
        K: 'e;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        Ok(Self(Database::open::<K>(folder, memory)?, PhantomData))
    }

    fn read<T>(&self, _table: Table, work: impl FnOnce(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        self.0.read(work)
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T>,
    ) -> Result<T> {
        self.0.write(table, promise, work)
    }

    fn compact(self, _folder: &Path) -> Result<Self> {
        self.0.compact();
        Ok(self)
    }

    fn settle(&self) -> Result<()> {
        self.0.compact();
        Ok(())
    }
}

/// A snapshot with the options that read it.
pub(crate) struct Snapshot<'d> {
    database: &'d Database,
    /// Null where reads have none; then the options are those of all reads.
    snapshot: Handle,
    options: Handle,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if self.snapshot.is_null() {
            return;
        }
        let functions = &self.database.functions;
        // SAFETY: both handles are live, and iterators borrow this value.
        unsafe {
            (functions.readoptions_destroy)(self.options);
            (functions.release_snapshot)(self.database.raw, self.snapshot);
        }
    }
}

impl Reader for Snapshot<'_> {
    type Cursor<'r>
        = Iterator<'r>
    where
        Self: 'r;

    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        let functions = &self.database.functions;
        let (mut len, mut fault) = (0, ptr::null_mut());
        // SAFETY: the handles are live; the key is only read; the answer is null or `len` bytes
        // that are ours to free, which happens after they were seen.
        unsafe {
            let value = (functions.get)(
                self.database.raw,
                self.options,
                key.as_ptr(),
                key.len(),
                &raw mut len,
                &raw mut fault,
            );
            self.database.check(fault)?;
            if value.is_null() {
                return Ok(None);
            }
            let seen = see(slice::from_raw_parts(value, len).into());
            (functions.free)(value.cast());
            Ok(Some(seen))
        }
    }

    fn cursor(&self) -> Result<Iterator<'_>> {
        // SAFETY: the handles are live; the iterator borrows them.
        let raw =
            unsafe { (self.database.functions.create_iterator)(self.database.raw, self.options) };
        Ok(Iterator { database: self.database, raw, began: false })
    }

    fn scan_back(&self, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let functions = &self.database.functions;
        let iterator = self.cursor()?;
        // SAFETY: the iterator is live; it is moved on only where it is valid.
        unsafe { (functions.iter_seek_to_last)(iterator.raw) };
        while let Some((key, value)) = iterator.at()? {
            see(key, value);
            // SAFETY: as above.
            unsafe { (functions.iter_prev)(iterator.raw) };
        }
        Ok(())
    }

    /// There is no other way than to look.
    fn len(&self) -> Result<u64> {
        let mut entries = 0;
        self.scan(|_, _| entries += 1)?;
        Ok(entries)
    }
}

/// An iterator; before its first step it stands nowhere.
pub(crate) struct Iterator<'r> {
    database: &'r Database,
    raw: Handle,
    began: bool,
}

impl Iterator<'_> {
    /// The entry that it stands on.
    fn at(&self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let functions = &self.database.functions;
        // SAFETY: the iterator is live; where it is valid, key and value stay until it is moved,
        // which needs this value for itself.
        unsafe {
            if (functions.iter_valid)(self.raw) == 0 {
                let mut fault = ptr::null_mut();
                (functions.iter_get_error)(self.raw, &raw mut fault);
                return self.database.check(fault).map(|()| None);
            }
            let (mut key_len, mut value_len) = (0, 0);
            let key = (functions.iter_key)(self.raw, &raw mut key_len);
            let value = (functions.iter_value)(self.raw, &raw mut value_len);
            let key = slice::from_raw_parts(key, key_len);
            Ok(Some((key.into(), slice::from_raw_parts(value, value_len).into())))
        }
    }
}

impl Cursor for Iterator<'_> {
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let functions = &self.database.functions;
        // SAFETY: the iterator is live; it is moved on only where it is valid.
        unsafe {
            if !self.began {
                (functions.iter_seek_to_first)(self.raw);
            } else if (functions.iter_valid)(self.raw) != 0 {
                (functions.iter_next)(self.raw);
            }
        }
        self.began = true;
        self.at()
    }

    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        // SAFETY: the iterator is live, the key is only read.
        unsafe { (self.database.functions.iter_seek)(self.raw, key.as_ptr(), key.len()) };
        self.began = true;
        self.at()
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live.
        unsafe { (self.database.functions.iter_destroy)(self.raw) }
    }
}

/// Changes that are written together.
pub(crate) struct Batch<'d> {
    database: &'d Database,
    raw: Handle,
    changes: u64,
}

impl Batch<'_> {
    fn write(&mut self, promise: Promise) -> Result<()> {
        let database = self.database;
        let options = database.writes[usize::from(promise == Promise::Durable)];
        let mut fault = ptr::null_mut();
        // SAFETY: all handles are live; `fault` takes a message.
        unsafe {
            (database.functions.write)(database.raw, options, self.raw, &raw mut fault);
            (database.functions.writebatch_clear)(self.raw);
        }
        self.changes = 0;
        database.check(fault)
    }

    /// Notes a change; many make a batch.
    fn changed(&mut self) -> Result<()> {
        self.changes += 1;
        if self.changes > self.database.batch { self.write(Promise::Unsynced) } else { Ok(()) }
    }
}

impl Writer for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.database.functions.writebatch_put;
        // SAFETY: the batch is live, both strings are only read.
        unsafe { put(self.raw, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
        self.changed()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: the batch is live, the key is only read.
        unsafe {
            (self.database.functions.writebatch_delete)(self.raw, key.as_ptr(), key.len());
        }
        self.changed()
    }

    /// One by one, which is the way that both support.
    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        self.database.read(|txn| {
            let mut cursor = txn.cursor()?;
            let mut at = cursor.seek(low)?;
            while let Some((key, _)) = at.filter(|(key, _)| key.cmp_slice(high).is_lt()) {
                self.delete(&key.to_cow())?;
                at = cursor.next()?;
            }
            Ok(())
        })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live.
        unsafe { (self.database.functions.writebatch_destroy)(self.raw) }
    }
}
