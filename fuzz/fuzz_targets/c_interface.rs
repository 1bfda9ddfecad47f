//! libFuzzer on the C interface of `liblmdb.so.0`: the bytes are a program of calls, in the order
//! and with the arguments that the interface allows, sizes and flags of every kind; a second run of
//! the program finds the store that the first one left. Everything that a call hands out is read
//! while it is valid.
#![no_main]
#![allow(unsafe_op_in_unsafe_fn, reason = "every line speaks to C")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

// Only its symbols are needed.
use lmdb as _;

#[repr(C)]
#[derive(Clone, Copy)]
struct Val {
    size: usize,
    data: *mut c_void,
}

unsafe extern "C" {
    fn mdb_env_create(env: *mut *mut c_void) -> c_int;
    fn mdb_env_open(env: *mut c_void, path: *const c_char, flags: c_uint, mode: c_uint) -> c_int;
    fn mdb_env_close(env: *mut c_void);
    fn mdb_env_set_maxdbs(env: *mut c_void, most: c_uint) -> c_int;
    fn mdb_env_set_mapsize(env: *mut c_void, size: usize) -> c_int;
    fn mdb_env_sync(env: *mut c_void, force: c_int) -> c_int;
    fn mdb_txn_begin(
        env: *mut c_void,
        parent: *mut c_void,
        flags: c_uint,
        txn: *mut *mut c_void,
    ) -> c_int;
    fn mdb_txn_commit(txn: *mut c_void) -> c_int;
    fn mdb_txn_abort(txn: *mut c_void);
    fn mdb_dbi_open(
        txn: *mut c_void,
        name: *const c_char,
        flags: c_uint,
        dbi: *mut c_uint,
    ) -> c_int;
    fn mdb_drop(txn: *mut c_void, dbi: c_uint, delete: c_int) -> c_int;
    fn mdb_get(txn: *mut c_void, dbi: c_uint, key: *mut Val, data: *mut Val) -> c_int;
    fn mdb_put(
        txn: *mut c_void,
        dbi: c_uint,
        key: *mut Val,
        data: *mut Val,
        flags: c_uint,
    ) -> c_int;
    fn mdb_del(txn: *mut c_void, dbi: c_uint, key: *mut Val, data: *mut Val) -> c_int;
    fn mdb_cursor_open(txn: *mut c_void, dbi: c_uint, cursor: *mut *mut c_void) -> c_int;
    fn mdb_cursor_close(cursor: *mut c_void);
    fn mdb_cursor_get(cursor: *mut c_void, key: *mut Val, data: *mut Val, op: c_uint) -> c_int;
    fn mdb_cursor_put(cursor: *mut c_void, key: *mut Val, data: *mut Val, flags: c_uint) -> c_int;
    fn mdb_cursor_del(cursor: *mut c_void, flags: c_uint) -> c_int;
    fn mdb_cursor_count(cursor: *mut c_void, count: *mut usize) -> c_int;
    fn mdb_count_all(txn: *mut c_void, dbi: c_uint, flags: c_uint, count: *mut u64) -> c_int;
}

const RDONLY: c_uint = 0x20000;
const NOSYNC: c_uint = 0x10000;
const CREATE: c_uint = 0x40000;
const RESERVE: c_uint = 0x10000;
const MULTIPLE: c_uint = 0x80000;
/// The names of the databases; the first one is the main one.
const NAMES: [Option<&str>; 3] = [None, Some("one"), Some("two")];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir() else { return };
    for _ in 0..2 {
        // SAFETY: the machine gives handles only while they are open, and memory that is its own.
        unsafe { Machine::run(folder.path(), bytes) };
    }
});

/// The program's bytes from the front; zeros after the end.
struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A key or a value: short ones of few letters, integers, and now and then a long one.
    fn datum(&mut self) -> Vec<u8> {
        let (kind, byte) = (self.byte(), self.byte());
        match kind % 8 {
            0 => u64::from(byte).to_ne_bytes().to_vec(),
            1 => u32::from(byte).to_ne_bytes().to_vec(),
            2 => vec![byte; usize::from(kind) * 2],
            3 => vec![byte; usize::from(kind) * 40],
            _ => vec![b'a' + byte % 4; usize::from(kind / 8 % 8)],
        }
    }
}

struct Machine {
    env: *mut c_void,
    /// Write transactions, each the parent of the next, or one that reads.
    txns: Vec<*mut c_void>,
    /// Cursors of the last transaction.
    cursors: Vec<*mut c_void>,
    reads: bool,
    dbis: [Option<c_uint>; 3],
}

impl Machine {
    unsafe fn run(folder: &std::path::Path, bytes: &[u8]) {
        let Ok(path) = CString::new(folder.as_os_str().as_encoded_bytes()) else { return };
        let mut program = Program(bytes);
        let mut env = null_mut();
        assert_eq!(mdb_env_create(&mut env), 0);
        mdb_env_set_maxdbs(env, 2);
        if program.byte() % 4 == 0 {
            mdb_env_set_mapsize(env, 1 << 20);
        }
        if mdb_env_open(env, path.as_ptr(), NOSYNC, 0o600) == 0 {
            let mut machine =
                Self { env, txns: vec![], cursors: vec![], reads: false, dbis: [None; 3] };
            while !program.0.is_empty() {
                machine.step(&mut program);
            }
            while !machine.txns.is_empty() {
                machine.end(false);
            }
        }
        mdb_env_close(env);
    }

    unsafe fn step(&mut self, program: &mut Program<'_>) {
        let (call, what) = (program.byte() % 16, program.byte());
        let Some(&txn) = self.txns.last() else {
            return self.begin(call % 4 == 0);
        };
        match call {
            0 => self.end(true),
            1 if what % 4 == 0 => self.end(false),
            1 if !self.reads && self.txns.len() < 3 => self.begin(false),
            2 => _ = mdb_env_sync(self.env, c_int::from(what % 2)),
            3 => self.cursor(txn, what),
            4 => drop(self.cursors.pop().map(|cursor| mdb_cursor_close(cursor))),
            5..=8 => self.with_cursor(call, what, program),
            _ => self.with_database(txn, call, what, program),
        }
    }

    unsafe fn begin(&mut self, reads: bool) {
        let parent = self.txns.last().copied().unwrap_or(null_mut());
        self.close_cursors();
        let mut txn = null_mut();
        let flags = if reads { RDONLY } else { 0 };
        if mdb_txn_begin(self.env, parent, flags, &mut txn) == 0 {
            self.txns.push(txn);
            self.reads = reads;
        }
    }

    unsafe fn end(&mut self, commit: bool) {
        self.close_cursors();
        let Some(txn) = self.txns.pop() else { return };
        let kept = match commit {
            true => mdb_txn_commit(txn) == 0,
            false => {
                mdb_txn_abort(txn);
                false
            }
        };
        if !kept {
            // Handles that were opened in it are gone, and others may have been dropped in it.
            self.dbis = [None; 3];
        }
    }

    unsafe fn close_cursors(&mut self) {
        for cursor in self.cursors.drain(..) {
            mdb_cursor_close(cursor);
        }
    }

    unsafe fn database(&mut self, txn: *mut c_void, what: u8, flags: u8) -> Option<c_uint> {
        let at = usize::from(what) % NAMES.len();
        if self.dbis[at].is_none() {
            let name = NAMES[at].and_then(|name| CString::new(name).ok());
            let create = if self.reads { 0 } else { CREATE };
            // Orders, duplicates and their orders in every combination.
            let flags = c_uint::from(flags) & 0x7e | create;
            let mut dbi = 0;
            let name = name.as_ref().map_or(null(), |name| name.as_ptr());
            if mdb_dbi_open(txn, name, flags, &mut dbi) == 0 {
                self.dbis[at] = Some(dbi);
            }
        }
        self.dbis[at]
    }

    unsafe fn cursor(&mut self, txn: *mut c_void, what: u8) {
        let Some(dbi) = self.database(txn, what, what / 3) else { return };
        let mut cursor = null_mut();
        if self.cursors.len() < 4 && mdb_cursor_open(txn, dbi, &mut cursor) == 0 {
            self.cursors.push(cursor);
        }
    }

    unsafe fn with_cursor(&mut self, call: u8, what: u8, program: &mut Program<'_>) {
        let n = self.cursors.len();
        if n == 0 {
            return;
        }
        let cursor = self.cursors[usize::from(program.byte()) % n];
        let (mut key, mut data) = (program.datum(), program.datum());
        let (mut key, mut data) = (val(&mut key), val(&mut data));
        match call {
            5 | 6 => {
                if mdb_cursor_get(cursor, &mut key, &mut data, c_uint::from(what) % 20) == 0 {
                    // Some of these leave one of the two as it was given: also readable.
                    look(key);
                    look(data);
                }
            }
            7 => {
                let flags = c_uint::from(what) & 0x70 | c_uint::from(what & 2) << 16;
                mdb_cursor_put(cursor, &mut key, &mut data, flags & !MULTIPLE & !RESERVE);
            }
            _ if what % 3 == 0 => {
                let mut count = 0;
                mdb_cursor_count(cursor, &mut count);
            }
            _ => _ = mdb_cursor_del(cursor, c_uint::from(what) & 0x20),
        }
    }

    unsafe fn with_database(
        &mut self,
        txn: *mut c_void,
        call: u8,
        what: u8,
        program: &mut Program<'_>,
    ) {
        let Some(dbi) = self.database(txn, what, program.byte()) else { return };
        let (mut key, mut data) = (program.datum(), program.datum());
        let (mut key, mut data) = (val(&mut key), val(&mut data));
        match call {
            9 | 10 => {
                if mdb_get(txn, dbi, &mut key, &mut data) == 0 {
                    look(data);
                }
            }
            11 => {
                let data = if what % 2 == 0 { null_mut() } else { &raw mut data };
                mdb_del(txn, dbi, &mut key, data);
            }
            12 if what % 8 == 0 => {
                // Handles of a database that was deleted, and cursors on it, are gone.
                self.close_cursors();
                if mdb_drop(txn, dbi, c_int::from(what % 16 == 0)) == 0 && what % 16 == 0 {
                    self.dbis = [None; 3];
                }
            }
            12 => {
                let mut count = 0;
                mdb_count_all(txn, dbi, 0, &mut count);
            }
            13 => {
                let asked = data.size;
                if mdb_put(txn, dbi, &mut key, &mut data, RESERVE) == 0 {
                    assert_eq!(data.size, asked);
                    std::ptr::write_bytes(data.data.cast::<u8>(), what, asked);
                }
            }
            _ => {
                let flags = c_uint::from(what) & 0x30 | c_uint::from(what & 2) << 16;
                mdb_put(txn, dbi, &mut key, &mut data, flags);
            }
        }
    }
}

fn val(bytes: &mut Vec<u8>) -> Val {
    Val { size: bytes.len(), data: bytes.as_mut_ptr().cast() }
}

/// Reads every byte.
unsafe fn look(val: Val) {
    if val.size > 0 {
        let bytes = std::slice::from_raw_parts(val.data.cast::<u8>(), val.size);
        std::hint::black_box(bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
    }
}
