//! What `src/c` calls: C functions over [`Conn`] and [`Position`]. Each checks nothing but what C
//! cannot know; the pointers are those that these functions have handed out.

#![expect(unsafe_code, reason = "the functions of a C interface, which get pointers")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use hedgerow::{Durability, FileKind};
use libsqlite3_sys as sys;

use crate::check;
use crate::code::{Answer, code_of};
use crate::conn::Conn;
use crate::cursor::{CHECK_FAILS, Position, Row, Step, Way};
use crate::opening::{Mode, kind_of};
use crate::order::{self, Probe};
use crate::renew;
use crate::rowid::key_of;
use crate::sums::{CORRUPT_ROW, Kind};

// SAFETY: the addresses are followed only by calls of the connection that the row is of, which come
// one after the other.
unsafe impl Send for Row {}

/// Runs a call. A panic, which would be an error in this library, does not reach C.
fn call(f: impl FnOnce() -> Answer) -> c_int {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => sys::SQLITE_OK,
        Ok(Err(code)) => code,
        Err(_) => sys::SQLITE_INTERNAL,
    }
}

/// What a pointer that this library has handed out, or C's own, points to.
///
/// # Safety
/// It is not null, lives during the call, and nothing else refers to it.
unsafe fn at<'a, T>(pointer: *mut T) -> &'a mut T {
    debug_assert!(!pointer.is_null());
    // SAFETY: as above.
    unsafe { &mut *pointer }
}

/// Bytes of C's.
///
/// # Safety
/// There are as many, and nothing changes them during the call.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// A path of C's.
///
/// # Safety
/// It is a string that ends with a zero byte.
unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: as above.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// What a file is: 0 nothing, an empty file or something else that cannot be told; 1 a file of
/// SQLite's or of others; 2 a store.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_kind(name: *const c_char) -> c_int {
    // SAFETY: as the caller says.
    let path = unsafe { path(name) };
    match kind_of(path) {
        Some(FileKind::Tree) => 2,
        _ => c_int::from(std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0)),
    }
}

/// Opens a store.
///
/// # Safety
/// `name` is a string, and `conn` is where the connection goes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_open(
    name: *const c_char,
    mode: c_int,
    conn: *mut *mut Conn,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (path, to) = unsafe { (path(name), at(conn)) };
        *to = Box::into_raw(Box::new(Conn::open(path, Mode::of(mode))?));
        Ok(())
    })
}

/// Says which checksums the rows of a store get that has nothing in it yet.
///
/// # Safety
/// The connection is of `hg_open`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_want_sums(conn: *mut Conn, kind: u32) {
    // SAFETY: as the caller says.
    unsafe { at(conn) }.sums.wanted = Kind::of(kind).unwrap_or(Kind::Off);
}

/// Closes a connection.
///
/// # Safety
/// It is of `hg_open`, and is not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_close(conn: *mut Conn) {
    // SAFETY: as the caller says.
    let conn = unsafe { Box::from_raw(conn) };
    call(|| {
        drop(conn);
        Ok(())
    });
}

/// Declares functions of C that get a connection and give a code.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($conn:ident $(, $arg:ident: $type:ty)*) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The pointers are those of this library, or lead to where the result goes.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($conn: *mut Conn $(, $arg: $type)*) -> c_int {
                // SAFETY: as the caller says.
                let $conn = unsafe { at($conn) };
                call(|| $body)
            }
        )*
    };
}

calls! {
    /// Begins to read.
    fn hg_begin_read(conn) { conn.begin_read() }

    /// Begins to write.
    fn hg_begin_write(conn) { conn.begin_write() }

    /// Commits; `level` is SQLite's `synchronous`, and with `goes_on` the connection reads on.
    fn hg_commit(conn, goes_on: c_int) { conn.commit(goes_on != 0) }

    /// Drops what was written; with `goes_on` the connection reads on.
    fn hg_roll_back(conn, goes_on: c_int) { conn.roll_back(goes_on != 0) }

    /// Ends a transaction that reads.
    fn hg_end_read(conn) {
        conn.end_read();
        Ok(())
    }

    /// Says what commits promise: SQLite's `synchronous`, 1 to 4 for off to extra.
    fn hg_set_synchronous(conn, level: c_int) {
        conn.durability = match level {
            1 => Durability::None,
            2 => Durability::Eventual,
            _ => Durability::Durable,
        };
        Ok(())
    }

    /// Says how many pages the store may have when the connection writes.
    fn hg_set_max_pages(conn, pages: u32) {
        conn.set_max_pages(pages);
        Ok(())
    }

    /// Makes all commits durable.
    fn hg_sync(conn) {
        if conn.store().is_read_only() {
            return Ok(());
        }
        conn.store().sync().map_err(|e| code_of(&e))
    }

    /// Moves pages to the front and cuts the file.
    fn hg_compact(conn) {
        conn.store().compact(&mut |_, _| {}).map(|_| ()).map_err(|e| code_of(&e))
    }

    /// Opens savepoints until there are `count`.
    fn hg_open_savepoints(conn, count: c_int) {
        conn.open_savepoints(usize::try_from(count).unwrap_or(0))
    }

    /// Releases a savepoint, or rolls back to it.
    fn hg_savepoint(conn, rolls_back: c_int, index: c_int) {
        if rolls_back != 0 {
            conn.roll_back_to(index as isize)
        } else {
            conn.release(usize::try_from(index).map_err(|_| sys::SQLITE_MISUSE)?)
        }
    }

    /// Sets one of SQLite's numbers.
    fn hg_set_number(conn, index: c_int, value: u32) {
        conn.set_number(usize::try_from(index).map_err(|_| sys::SQLITE_MISUSE)?, value)
    }

    /// Makes a tree.
    fn hg_create(conn, is_index: c_int, root: *mut u32) {
        // SAFETY: as the caller says.
        let to = unsafe { at(root) };
        *to = conn.create(is_index != 0)?;
        Ok(())
    }

    /// Makes a tree of a given root.
    fn hg_create_at(conn, is_index: c_int, root: u32) { conn.create_at(root, is_index != 0) }

    /// Says whether a tree is an index.
    fn hg_is_index(conn, root: u32, is_index: *mut c_int) {
        // SAFETY: as the caller says.
        let to = unsafe { at(is_index) };
        *to = c_int::from(conn.is_index(root)?);
        Ok(())
    }

    /// Removes everything that is SQLite's.
    fn hg_empty(conn) { conn.empty() }

    /// Removes a tree.
    fn hg_drop(conn, root: u32) { conn.drop_tree(root) }

    /// Removes all entries of a tree.
    fn hg_clear(conn, root: u32, count: *mut i64) {
        // SAFETY: as the caller says.
        let to = unsafe { at(count) };
        *to = i64::try_from(conn.clear(root)?).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Counts the entries of the tree of a cursor.
    fn hg_count(conn, cursor: *mut Position, count: *mut i64) {
        // SAFETY: as the caller says.
        let (cursor, to) = unsafe { (at(cursor), at(count)) };
        *to = i64::try_from(cursor.count(conn)?).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Counts the entries before the one that a cursor is on.
    fn hg_rank(conn, cursor: *mut Position, probe: *const Probe, before: *mut i64) {
        // SAFETY: as the caller says.
        let (cursor, probe, to) = unsafe { (at(cursor), probe.as_ref(), at(before)) };
        *to = i64::try_from(order::with_order(probe, || cursor.rank(conn))?).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Counts the rows before a row, which need not be there.
    fn hg_rank_of_row(conn, cursor: *mut Position, rowid: i64, before: *mut i64) {
        // SAFETY: as the caller says.
        let (cursor, to) = unsafe { (at(cursor), at(before)) };
        *to = cursor.rank_of(conn, &key_of(rowid))?.cast_signed();
        Ok(())
    }

    /// Counts the entries of an index before what is looked for, which equals none of them.
    fn hg_rank_of_key(conn, cursor: *mut Position, probe: *const Probe, before: *mut i64) {
        // SAFETY: as the caller says.
        let (cursor, probe, to) = unsafe { (at(cursor), &*probe, at(before)) };
        let rank = order::with(probe, |key| cursor.rank_of(conn, key));
        *to = i64::try_from(rank?).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Counts the entries of an index from the one that a cursor is on to what is looked for, which
    /// equals none of them; -1 if that would have to be looked up.
    fn hg_count_to(conn, cursor: *mut Position, probe: *const Probe, count: *mut i64) {
        // SAFETY: as the caller says.
        let (cursor, probe, to) = unsafe { (at(cursor), &*probe, at(count)) };
        *to = order::with(probe, |key| cursor.count_to(conn, key))?.map_or(-1, u64::cast_signed);
        Ok(())
    }

    /// Moves a cursor to the entry with `n` entries before it.
    fn hg_seek_nth(conn, cursor: *mut Position, n: i64, row: *mut Row, is_there: *mut c_int) {
        // SAFETY: as the caller says.
        let (cursor, row, is_there) = unsafe { (at(cursor), at(row), at(is_there)) };
        let n = u64::try_from(n).map_err(|_| sys::SQLITE_MISUSE)?;
        *is_there = c_int::from(cursor.seek_nth(conn, n, row)?);
        Ok(())
    }

    /// Puts a row, which `zeros` zero bytes follow.
    fn hg_put_row(
        conn,
        cursor: *mut Position,
        rowid: i64,
        data: *const u8,
        len: u32,
        zeros: u32
    ) {
        // SAFETY: as the caller says.
        let (cursor, data) = unsafe { (at(cursor), bytes(data, len as usize)) };
        cursor.put_row(conn, rowid, data, zeros as usize)
    }

    /// Puts an entry into an index, in place of one that is equal to it.
    fn hg_put_key(conn, cursor: *mut Position, probe: *const Probe) {
        // SAFETY: as the caller says.
        let (cursor, probe) = unsafe { (at(cursor), &*probe) };
        order::with(probe, |key| cursor.put_key(conn, key))
    }

    /// Puts an entry into an index in place of the one that the cursor is on.
    fn hg_replace_key(conn, cursor: *mut Position, probe: *const Probe) {
        // SAFETY: as the caller says.
        let (cursor, probe) = unsafe { (at(cursor), &*probe) };
        order::with(probe, |key| cursor.replace_key(conn, key))
    }

    /// Puts a new entry into an index near the one that the cursor is on, if that is its place.
    /// `is_put` says before whether it comes just before that one, and then whether it was put.
    fn hg_put_key_near(conn, cursor: *mut Position, probe: *const Probe, is_put: *mut c_int) {
        // SAFETY: as the caller says.
        let (cursor, probe, is_put) = unsafe { (at(cursor), &*probe, at(is_put)) };
        let put = order::with(probe, |key| cursor.put_key_near(conn, key, *is_put != 0));
        *is_put = c_int::from(put?);
        Ok(())
    }

    /// Puts an entry after the last one of an index, and shows a copy of its record.
    fn hg_append_key(conn, cursor: *mut Position, probe: *const Probe, row: *mut Row) {
        // SAFETY: as the caller says.
        let (cursor, probe, row) = unsafe { (at(cursor), &*probe, at(row)) };
        order::with(probe, |key| cursor.append_key(conn, key, row))
    }

    /// Deletes the entry that a cursor is on; its place may have to be looked for.
    fn hg_delete(conn, cursor: *mut Position, probe: *const Probe) {
        // SAFETY: as the caller says.
        let (cursor, probe) = unsafe { (at(cursor), probe.as_ref()) };
        order::with_order(probe, || cursor.delete(conn))
    }

    /// Writes into a row, which keeps its length.
    fn hg_write_part(
        conn,
        cursor: *mut Position,
        rowid: i64,
        from: u32,
        data: *const u8,
        len: u32
    ) {
        // SAFETY: as the caller says.
        let (cursor, data) = unsafe { (at(cursor), bytes(data, len as usize)) };
        cursor.write_part(conn, rowid, from as usize, data)
    }

    /// Compares the row that a cursor shows with its checksum.
    fn hg_verify(conn, cursor: *mut Position, row: *mut Row) {
        // SAFETY: as the caller says.
        let (cursor, row) = unsafe { (at(cursor), at(row)) };
        if row.check == CHECK_FAILS {
            return Err(CORRUPT_ROW);
        }
        if row.local < row.len {
            return cursor.verify_long(conn, row);
        }
        // SAFETY: `show` has stored what C gives back, and the cursor has not moved since.
        let (sum, record) = unsafe {
            (bytes(row.sum, row.sum_len.into()), bytes(row.data, row.local as usize))
        };
        let (owner, place) = cursor.shown(row);
        conn.sums.verify(owner, sum, record, place)
    }

    /// Gives every row the checksum that rows get now; the trees of some roots are indexes whose
    /// entries are derived from rows.
    fn hg_renew_rows(conn, derived: *const u32, count: c_int) {
        let count = usize::try_from(count).map_err(|_| sys::SQLITE_MISUSE)?;
        let derived = match count {
            0 => &[],
            // SAFETY: as the caller says.
            _ => unsafe { std::slice::from_raw_parts(derived, count) },
        };
        renew::renew_rows(conn, derived)
    }

    /// Moves a cursor by a step ([`Step::of`]); `is_there` says whether it is on an entry then.
    fn hg_step(
        conn,
        cursor: *mut Position,
        step: c_int,
        probe: *const Probe,
        row: *mut Row,
        is_there: *mut c_int
    ) {
        // SAFETY: as the caller says.
        let (cursor, probe, row, is_there) =
            unsafe { (at(cursor), probe.as_ref(), at(row), at(is_there)) };
        let go = || cursor.step(conn, Step::of(step), row);
        *is_there = c_int::from(order::with_order(probe, go)?);
        Ok(())
    }

    /// Moves a cursor back by a number of steps, which it has gone on, or with `is_back` back.
    fn hg_back(
        conn,
        cursor: *mut Position,
        probe: *const Probe,
        is_back: c_int,
        steps: c_int
    ) {
        // SAFETY: as the caller says.
        let (cursor, probe) = unsafe { (at(cursor), probe.as_ref()) };
        let steps = usize::try_from(steps).map_err(|_| sys::SQLITE_MISUSE)?;
        order::with_order(probe, || cursor.back(conn, way(is_back), steps))
    }

    /// Moves a cursor on by up to `most` steps, or with `is_back` back; the rows that it came to
    /// are those ahead.
    fn hg_next_rows(
        conn,
        cursor: *mut Position,
        probe: *const Probe,
        is_back: c_int,
        most: c_int,
        count: *mut c_int
    ) {
        // SAFETY: as the caller says.
        let (cursor, probe, count) = unsafe { (at(cursor), probe.as_ref(), at(count)) };
        let go = || cursor.next_rows(conn, way(is_back), most as usize);
        *count = order::with_order(probe, go)? as c_int;
        Ok(())
    }

    /// Moves a cursor to a row; `result` as `sqlite3BtreeTableMoveto` says it, 2 for an empty tree.
    fn hg_seek_row(conn, cursor: *mut Position, rowid: i64, row: *mut Row, result: *mut c_int) {
        // SAFETY: as the caller says.
        let (cursor, row, result) = unsafe { (at(cursor), at(row), at(result)) };
        *result = cursor.seek(conn, &key_of(rowid), row)?.result();
        Ok(())
    }

    /// The same for an index; `result` may be 3 (`Found::Behind`).
    fn hg_seek_key(
        conn,
        cursor: *mut Position,
        probe: *const Probe,
        row: *mut Row,
        result: *mut c_int
    ) {
        // SAFETY: as the caller says.
        let (cursor, probe, row, result) =
            unsafe { (at(cursor), &*probe, at(row), at(result)) };
        let found = order::with(probe, |key| cursor.seek(conn, key, row));
        *result = found?.result();
        Ok(())
    }

    /// Whether the tree of a cursor has no entry.
    fn hg_is_empty(conn, cursor: *mut Position, is_empty: *mut c_int) {
        // SAFETY: as the caller says.
        let (cursor, is_empty) = unsafe { (at(cursor), at(is_empty)) };
        *is_empty = c_int::from(cursor.is_empty(conn)?);
        Ok(())
    }

    /// Reads a part of a row.
    fn hg_read_row(conn, cursor: *mut Position, rowid: i64, from: u32, len: u32, out: *mut u8) {
        // SAFETY: as the caller says.
        let (cursor, out) =
            unsafe { (at(cursor), std::slice::from_raw_parts_mut(out, len as usize)) };
        cursor.read(conn, &key_of(rowid), from, out)
    }
}

fn way(is_back: c_int) -> Way {
    if is_back != 0 { Way::Back } else { Way::On }
}

/// A cursor on a tree; `ahead` is where the address goes of the rows that it goes ahead over.
///
/// # Safety
/// The connection is of `hg_open`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_cursor(
    conn: *mut Conn,
    root: u32,
    is_index: c_int,
    ahead: *mut *const Row,
) -> *mut Position {
    // SAFETY: as the caller says.
    let (conn, ahead) = unsafe { (at(conn), at(ahead)) };
    let position = conn.rested().take(root, is_index != 0);
    *ahead = position.ahead();
    Box::into_raw(position)
}

/// Says of the tree of a cursor that its entries are derived from the rows of a table.
///
/// # Safety
/// The cursor is of `hg_cursor`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_cursor_derived(cursor: *mut Position) {
    // SAFETY: as the caller says.
    unsafe { at(cursor) }.say_derived();
}

/// Closes a cursor.
///
/// # Safety
/// Connection and cursor are of `hg_open` and `hg_cursor`; the cursor is not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_cursor_close(conn: *mut Conn, cursor: *mut Position) {
    // SAFETY: as the caller says.
    let (conn, cursor) = unsafe { (at(conn), Box::from_raw(cursor)) };
    conn.rested().give(cursor);
}

/// Declares functions of C that read a number of a connection.
macro_rules! numbers {
    ($($(#[$doc:meta])* fn $name:ident($conn:ident $(, $arg:ident: $type:ty)*) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The connection is of `hg_open`.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($conn: *mut Conn $(, $arg: $type)*) -> u32 {
                // SAFETY: as the caller says.
                let $conn = unsafe { at($conn) };
                $body
            }
        )*
    };
}

numbers! {
    /// One of SQLite's numbers.
    fn hg_number(conn, index: c_int) { conn.number(usize::try_from(index).unwrap_or(usize::MAX)) }

    /// The version of the schema.
    fn hg_schema_version(conn) { conn.schema_version() }

    /// Changes when another connection has committed.
    fn hg_data_version(conn) { conn.data_version() }

    /// Changes with every commit that the connection notices, its own ones included.
    fn hg_seen(conn) { conn.seen() as u32 }

    /// Whether another process reads.
    fn hg_others_read(conn) {
        let readers = conn.store().readers().unwrap_or_default();
        readers.iter().any(|reader| reader.process != std::process::id()).into()
    }

    /// Pages of the store.
    fn hg_page_count(conn) { conn.page_count() }

    /// Free pages of the store.
    fn hg_free_pages(conn) { conn.free_pages() }

    /// Whether rows may carry checksums.
    fn hg_may_have_sums(conn) { conn.may_have_sums().into() }

    /// Bytes of a page.
    fn hg_page_size(conn) { conn.store().page_size() }
}

/// Checks the store and the trees of some roots. `report` is called with what is wrong.
///
/// # Safety
/// `roots` and `counts` have `len` members.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_check(
    conn: *mut Conn,
    roots: *const u32,
    counts: *mut i64,
    len: c_int,
    report: extern "C" fn(*mut c_void, *const c_char, c_int),
    argument: *mut c_void,
) -> c_int {
    call(|| {
        let len = usize::try_from(len).map_err(|_| sys::SQLITE_MISUSE)?;
        // SAFETY: as the caller says.
        let (conn, roots, counts) = unsafe {
            let counts = std::slice::from_raw_parts_mut(counts, len);
            (at(conn), std::slice::from_raw_parts(roots, len), counts)
        };
        check::check(conn, roots, counts, &mut |problem: &str| {
            report(argument, problem.as_ptr().cast(), problem.len() as c_int);
        })
    })
}
