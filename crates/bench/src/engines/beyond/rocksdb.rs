//! The adapter of RocksDB through its C interface, its library loaded when it is asked for: reads,
//! flushes and compactions past the system's cache, four memtables, filters of 10 bits, four
//! background jobs, no compression.
#![expect(unsafe_code, reason = "the C interface of RocksDB")]

use std::ffi::{CString, c_char, c_double, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use super::{Key, Kind};
use crate::engine::Result;
use crate::engines::library::{self, functions};

const NAMES: &[&str] = &["librocksdb.so", "librocksdb.so.9.10", "librocksdb.so.7.8"];
const PACKAGE: &str = "librocksdb-dev";
/// Compaction and scans read this much at once.
const AHEAD: usize = 2 << 20;
/// Compaction reads ahead of each file of values that it comes across, and there is one for each
/// memtable: such a part of a memtable is an eighth of the memory for all of them, where data are
/// four times the memory.
const BLOB_AHEAD_PART: u64 = 32;

type Handle = *mut c_void;
type Fault = *mut *mut c_char;
/// The type of a function whose name cannot be that of a field.
type SetInt = unsafe extern "C" fn(Handle, c_int);

functions! {
    open: fn(Handle, *const c_char, Fault) -> Handle;
    close: fn(Handle);
    put: fn(Handle, Handle, *const u8, usize, *const u8, usize, Fault);
    delete: fn(Handle, Handle, *const u8, usize, Fault);
    get_pinned: fn(Handle, Handle, *const u8, usize, Fault) -> Handle;
    pinnableslice_value: fn(Handle, *mut usize) -> *const u8;
    pinnableslice_destroy: fn(Handle);
    free: fn(*mut c_void);
    compact_range: fn(Handle, *const u8, usize, *const u8, usize);
    create_iterator: fn(Handle, Handle) -> Handle;
    iter_destroy: fn(Handle);
    iter_valid: fn(Handle) -> c_uchar;
    iter_seek_to_first: fn(Handle);
    iter_next: fn(Handle);
    iter_key: fn(Handle, *mut usize) -> *const u8;
    iter_value: fn(Handle, *mut usize) -> *const u8;
    iter_get_error: fn(Handle, Fault);
    options_create: fn() -> Handle;
    options_set_create_if_missing: fn(Handle, c_uchar);
    options_set_write_buffer_size: fn(Handle, usize);
    options_set_max_write_buffer_number: fn(Handle, c_int);
    options_set_max_background_jobs: fn(Handle, c_int);
    options_set_compression: fn(Handle, c_int);
    options_set_use_direct_reads: fn(Handle, c_uchar);
    options_set_use_direct_io_for_flush_and_compaction: fn(Handle, c_uchar);
    options_set_enable_blob_files: fn(Handle, c_uchar);
    options_set_min_blob_size: fn(Handle, u64);
    options_set_enable_blob_gc: fn(Handle, c_uchar);
    options_set_blob_gc_age_cutoff: fn(Handle, c_double);
    options_set_blob_gc_force_threshold: fn(Handle, c_double);
    options_set_blob_compaction_readahead_size: fn(Handle, u64);
    options_set_block_based_table_factory: fn(Handle, Handle);
    block_based_options_create: fn() -> Handle;
    block_based_options_set_filter_policy: fn(Handle, Handle);
    block_based_options_set_block_cache: fn(Handle, Handle);
    filterpolicy_create_bloom: fn(c_double) -> Handle;
    cache_create_lru: fn(usize) -> Handle;
    readoptions_create: fn() -> Handle;
    readoptions_set_readahead_size: fn(Handle, usize);
    writeoptions_create: fn() -> Handle;
    writeoptions_set_sync: fn(Handle, c_uchar);
}

/// An open database. Its options live until the process ends: they are few.
pub(super) struct Store {
    functions: Functions,
    raw: Handle,
    reads: Handle,
    scans: Handle,
    /// Write options that do not flush, and that do.
    writes: [Handle; 2],
}

// SAFETY: databases and options may be used by any thread, the library says.
unsafe impl Sync for Store {}

/// Whether the library is there.
pub(super) fn check() -> Result<()> {
    library::load(NAMES, PACKAGE).map(drop)
}

impl Store {
    pub(super) fn open(kind: Kind, folder: &Path, memtable: u64, cache: u64) -> Result<Self> {
        let library = library::load(NAMES, PACKAGE)?;
        let functions = Functions::load(library::load(NAMES, PACKAGE)?, "rocksdb")?;
        let path = CString::new(folder.join("data").as_os_str().as_bytes())?;
        // SAFETY: all handles are new ones of this library; the path ends with a zero; `fault`
        // takes a message.
        unsafe {
            let options = options(&functions, kind, memtable, cache);
            let reads = (functions.readoptions_create)();
            let scans = (functions.readoptions_create)();
            (functions.readoptions_set_readahead_size)(scans, AHEAD);
            let writes = [(functions.writeoptions_create)(), (functions.writeoptions_create)()];
            let disable_log = library.get::<SetInt>("rocksdb_writeoptions_disable_WAL")?;
            disable_log(writes[0], (kind != Kind::Rocksdb).into());
            (functions.writeoptions_set_sync)(writes[1], 1);
            let mut fault = ptr::null_mut();
            let raw = (functions.open)(options, path.as_ptr(), &raw mut fault);
            let store = Self { functions, raw, reads, scans, writes };
            store.check(fault)?;
            Ok(store)
        }
    }

    /// Turns a message of the library into an error.
    fn check(&self, fault: *mut c_char) -> Result<()> {
        // SAFETY: the library has just given it, to be freed by us.
        unsafe { library::check(fault, self.functions.free) }
    }
}

/// The options of a database.
///
/// # Safety
/// The functions are those of the library.
unsafe fn options(functions: &Functions, kind: Kind, memtable: u64, cache: u64) -> Handle {
    // SAFETY: the handles are new and live, the types are those of rocksdb/c.h.
    unsafe {
        let options = (functions.options_create)();
        (functions.options_set_create_if_missing)(options, 1);
        (functions.options_set_write_buffer_size)(options, memtable as usize);
        (functions.options_set_max_write_buffer_number)(options, 4);
        (functions.options_set_max_background_jobs)(options, 4);
        (functions.options_set_compression)(options, 0);
        (functions.options_set_use_direct_reads)(options, 1);
        (functions.options_set_use_direct_io_for_flush_and_compaction)(options, 1);
        if kind == Kind::Blobdb {
            (functions.options_set_enable_blob_files)(options, 1);
            (functions.options_set_min_blob_size)(options, 256);
            (functions.options_set_enable_blob_gc)(options, 1);
            (functions.options_set_blob_gc_age_cutoff)(options, 0.5);
            (functions.options_set_blob_gc_force_threshold)(options, 0.4);
            let ahead = memtable / BLOB_AHEAD_PART;
            (functions.options_set_blob_compaction_readahead_size)(options, ahead);
        }
        let blocks = (functions.block_based_options_create)();
        let filter = (functions.filterpolicy_create_bloom)(10.0);
        (functions.block_based_options_set_filter_policy)(blocks, filter);
        let cache = (functions.cache_create_lru)(cache as usize);
        (functions.block_based_options_set_block_cache)(blocks, cache);
        (functions.options_set_block_based_table_factory)(options, blocks);
        options
    }
}

impl super::Store for Store {
    fn put(&self, key: &Key, value: &[u8], durable: bool) -> Result<()> {
        let (options, mut fault) = (self.writes[usize::from(durable)], ptr::null_mut());
        let (len, value_len) = (key.len(), value.len());
        let (key, value) = (key.as_ptr(), value.as_ptr());
        // SAFETY: the handles are live, both strings are only read, `fault` takes a message.
        unsafe {
            (self.functions.put)(self.raw, options, key, len, value, value_len, &raw mut fault);
        }
        self.check(fault)
    }

    fn delete(&self, key: &Key) -> Result<()> {
        let mut fault = ptr::null_mut();
        // SAFETY: as in `put`.
        unsafe {
            let delete = self.functions.delete;
            delete(self.raw, self.writes[0], key.as_ptr(), key.len(), &raw mut fault);
        }
        self.check(fault)
    }

    fn get(&self, key: &Key, see: &mut dyn FnMut(Option<&[u8]>)) -> Result<()> {
        let (mut len, mut fault) = (0, ptr::null_mut());
        // SAFETY: the handles are live, the key is only read; the answer is null, or holds `len`
        // bytes until it is destroyed, which is after they were seen.
        unsafe {
            let get = self.functions.get_pinned;
            let found = get(self.raw, self.reads, key.as_ptr(), key.len(), &raw mut fault);
            self.check(fault)?;
            if found.is_null() {
                see(None);
                return Ok(());
            }
            let value = (self.functions.pinnableslice_value)(found, &raw mut len);
            see(Some(slice::from_raw_parts(value, len)));
            (self.functions.pinnableslice_destroy)(found);
        }
        Ok(())
    }

    fn get_many(&self, _: &[Key], _: &mut dyn FnMut(usize, Option<&[u8]>)) -> Option<Result<()>> {
        None
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let functions = &self.functions;
        let (mut len, mut value_len, mut fault) = (0, 0, ptr::null_mut());
        // SAFETY: the iterator is destroyed at the end and only moved on while it is valid; key
        // and value stay until then.
        unsafe {
            let iterator = (functions.create_iterator)(self.raw, self.scans);
            (functions.iter_seek_to_first)(iterator);
            while (functions.iter_valid)(iterator) != 0 {
                let key = (functions.iter_key)(iterator, &raw mut len);
                let value = (functions.iter_value)(iterator, &raw mut value_len);
                see(slice::from_raw_parts(key, len), slice::from_raw_parts(value, value_len));
                (functions.iter_next)(iterator);
            }
            (functions.iter_get_error)(iterator, &raw mut fault);
            (functions.iter_destroy)(iterator);
        }
        self.check(fault)
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: the database is open; null bounds mean all of it.
        unsafe { (self.functions.compact_range)(self.raw, ptr::null(), 0, ptr::null(), 0) }
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the handle is live, and nothing that was made from it is left.
            unsafe { (self.functions.close)(self.raw) }
        }
    }
}
