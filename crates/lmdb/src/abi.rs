//! The numbers and structs of `include/lmdb.h`, as the C side lays them out. A test compares every
//! one of them with the header. No functions, no decisions.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The interface that is kept: LMDB's version.
pub(crate) const VERSION: (c_int, c_int, c_int) = (0, 9, 33);

/// Declares numbers and, for the test, a list of them with their names in C.
macro_rules! numbers {
    ($type:ty, $list:ident, $prefix:literal, $($name:ident = $value:expr;)*) => {
        $(pub(crate) const $name: $type = $value;)*
        #[cfg(test)]
        pub(crate) const $list: &[(&str, i64)] =
            &[$((concat!($prefix, stringify!($name)), $value),)*];
        // The test that reads the lists is another crate, which takes this file in.
        #[cfg(test)]
        const _: usize = $list.len();
    };
}

numbers! {
    c_uint, ENV_FLAGS, "",
    MDB_FIXEDMAP = 0x01;
    MDB_NOSUBDIR = 0x4000;
    MDB_NOSYNC = 0x10000;
    MDB_RDONLY = 0x20000;
    MDB_NOMETASYNC = 0x40000;
    MDB_WRITEMAP = 0x80000;
    MDB_MAPASYNC = 0x10_0000;
    MDB_NOTLS = 0x20_0000;
    MDB_NOLOCK = 0x40_0000;
    MDB_NORDAHEAD = 0x80_0000;
    MDB_NOMEMINIT = 0x100_0000;
    MDB_PREVSNAPSHOT = 0x200_0000;
}

numbers! {
    c_uint, DATABASE_FLAGS, "",
    MDB_REVERSEKEY = 0x02;
    MDB_DUPSORT = 0x04;
    MDB_INTEGERKEY = 0x08;
    MDB_DUPFIXED = 0x10;
    MDB_INTEGERDUP = 0x20;
    MDB_REVERSEDUP = 0x40;
    MDB_COUNTED = 0x80;
    MDB_PREFIX_COMPRESSION = 0x100;
    MDB_CREATE = 0x40000;
}

numbers! {
    c_uint, CALL_FLAGS, "",
    MDB_NOOVERWRITE = 0x10;
    MDB_NODUPDATA = 0x20;
    MDB_CURRENT = 0x40;
    MDB_RESERVE = 0x10000;
    MDB_APPEND = 0x20000;
    MDB_APPENDDUP = 0x40000;
    MDB_MULTIPLE = 0x80000;
    MDB_CP_COMPACT = 0x01;
    MDB_COUNT_LOWER_INCL = 0x02;
    MDB_COUNT_UPPER_INCL = 0x04;
}

numbers! {
    c_int, CODES, "",
    MDB_KEYEXIST = -30799;
    MDB_NOTFOUND = -30798;
    MDB_PAGE_NOTFOUND = -30797;
    MDB_CORRUPTED = -30796;
    MDB_PANIC = -30795;
    MDB_VERSION_MISMATCH = -30794;
    MDB_INVALID = -30793;
    MDB_MAP_FULL = -30792;
    MDB_DBS_FULL = -30791;
    MDB_READERS_FULL = -30790;
    MDB_TLS_FULL = -30789;
    MDB_TXN_FULL = -30788;
    MDB_CURSOR_FULL = -30787;
    MDB_PAGE_FULL = -30786;
    MDB_MAP_RESIZED = -30785;
    MDB_INCOMPATIBLE = -30784;
    MDB_BAD_RSLOT = -30783;
    MDB_BAD_TXN = -30782;
    MDB_BAD_VALSIZE = -30781;
    MDB_BAD_DBI = -30780;
    MDB_PROBLEM = -30779;
}

/// The cursor operations.
pub(crate) mod op {
    use std::ffi::c_uint;

    numbers! {
        c_uint, OPERATIONS, "MDB_",
        FIRST = 0;
        FIRST_DUP = 1;
        GET_BOTH = 2;
        GET_BOTH_RANGE = 3;
        GET_CURRENT = 4;
        GET_MULTIPLE = 5;
        LAST = 6;
        LAST_DUP = 7;
        NEXT = 8;
        NEXT_DUP = 9;
        NEXT_MULTIPLE = 10;
        NEXT_NODUP = 11;
        PREV = 12;
        PREV_DUP = 13;
        PREV_NODUP = 14;
        SET = 15;
        SET_KEY = 16;
        SET_RANGE = 17;
        PREV_MULTIPLE = 18;
    }
}

/// The main database, in which the records of named ones stand; 0 is the list of free pages.
pub(crate) const MAIN: usize = 1;
/// The first handle of a named database.
pub(crate) const CORE_DBS: usize = 2;
/// The longest key, and the longest value of a database with duplicates.
pub(crate) const KEY_MAX: usize = 511;

/// `MDB_val`: a byte string of the caller's or of the store's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Val {
    /// Bytes.
    pub(crate) size: usize,
    /// Where they stand.
    pub(crate) data: *mut c_void,
}

impl Val {
    /// A string that nothing will write through.
    pub(crate) fn new(data: *const u8, size: usize) -> Self {
        Self { size, data: data.cast_mut().cast() }
    }

    /// The same, of a slice.
    #[inline(always)]
    pub(crate) fn of(string: &[u8]) -> Self {
        Self::new(string.as_ptr(), string.len())
    }
}

/// `MDB_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stat {
    pub(crate) psize: c_uint,
    pub(crate) depth: c_uint,
    pub(crate) branch_pages: usize,
    pub(crate) leaf_pages: usize,
    pub(crate) overflow_pages: usize,
    pub(crate) entries: usize,
}

/// `MDB_envinfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvInfo {
    pub(crate) mapaddr: *mut c_void,
    pub(crate) mapsize: usize,
    pub(crate) last_pgno: usize,
    pub(crate) last_txnid: usize,
    pub(crate) maxreaders: c_uint,
    pub(crate) numreaders: c_uint,
}

/// `MDB_cmp_func`.
pub(crate) type CmpFn = unsafe extern "C" fn(*const Val, *const Val) -> c_int;
/// `MDB_rel_func`.
pub(crate) type RelFn = unsafe extern "C" fn(*mut Val, *mut c_void, *mut c_void, *mut c_void);
/// `MDB_assert_func`.
pub(crate) type AssertFn = unsafe extern "C" fn(*mut c_void, *const c_char);
/// `MDB_msg_func`.
pub(crate) type MsgFn = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
