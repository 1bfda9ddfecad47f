//! The adapter of libmdbx, a descendant of LMDB: its Rust binding, and one call of its C interface
//! that the binding lacks. "Unsynced" is `MDBX_SAFE_NOSYNC`, which keeps the file whole.
#![expect(unsafe_code, reason = "whether commits are flushed is changed through C")]

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow::tree::Bytes;
use libmdbx::{
    Database, DatabaseOptions, Mode, NoWriteMap, PageSize, RO, RW, ReadWriteOptions, TableFlags,
    Transaction, WriteFlags,
};

use crate::engine::{Cursor, Engine, Promise, Reader, Result, Table, Unsupported, Writer};

/// The most that a file may grow to; it is sparse.
const BYTES_MAX: isize = 64 << 30;

type Txn<'e, K> = Transaction<'e, K, NoWriteMap>;
type Slice<'r> = Cow<'r, [u8]>;

/// An open environment.
pub(crate) struct Environment {
    database: Database<NoWriteMap>,
    /// Whether its commits are flushed now.
    is_synced: AtomicBool,
}

impl Environment {
    fn promise(&self, promise: Promise) -> Result<()> {
        let wanted = promise == Promise::Durable;
        if self.is_synced.swap(wanted, Ordering::SeqCst) == wanted {
            return Ok(());
        }
        // SAFETY: the environment is open, and its flag may be changed at any time.
        let code = unsafe {
            let flag = mdbx_sys::MDBX_SAFE_NOSYNC;
            mdbx_sys::mdbx_env_set_flags(self.database.ptr().0, flag, !wanted)
        };
        if code == 0 { Ok(()) } else { Err(format!("libmdbx: error {code}").into()) }
    }
}

impl Engine for Environment {
    type Reader<'e> = View<'e>;
    type Writer<'e> = Changing<'e>;

    fn open(folder: &Path, _memory: Option<usize>) -> Result<Self> {
        let options = DatabaseOptions {
            max_tables: Some(4),
            page_size: Some(PageSize::Set(4096)),
            mode: Mode::ReadWrite(ReadWriteOptions {
                max_size: Some(BYTES_MAX),
                ..ReadWriteOptions::default()
            }),
            ..DatabaseOptions::default()
        };
        let database = Database::open_with_options(folder, options)?;
        Ok(Self { database, is_synced: AtomicBool::new(true) })
    }

    #[inline(always)]
    fn read<T>(&self, table: Table, work: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        let txn = self.database.begin_ro_txn()?;
        let table = txn.open_table(Some(table.name))?;
        work(&View { txn: &txn, table })
    }

    #[inline(always)]
    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Changing<'_>) -> Result<T>,
    ) -> Result<T> {
        if table.duplicates {
            return Err(Unsupported("several values of a key here").into());
        }
        self.promise(promise)?;
        let txn = self.database.begin_rw_txn()?;
        let table = txn.create_table(Some(table.name), TableFlags::empty())?;
        let answer = work(&mut Changing { txn: &txn, table })?;
        txn.commit()?;
        Ok(answer)
    }
}

/// A read transaction with its table.
pub(crate) struct View<'t> {
    txn: &'t Txn<'t, RO>,
    table: libmdbx::Table<'t>,
}

impl<'t> Reader for View<'t> {
    type Cursor<'r>
        = Place<'t>
    where
        Self: 'r;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        let found: Option<Slice<'t>> = self.txn.get(&self.table, key)?;
        Ok(found.map(|value| see((&*value).into())))
    }

    fn cursor(&self) -> Result<Place<'t>> {
        Ok(Place { cursor: self.txn.cursor(&self.table)?, at: None })
    }

    fn len(&self) -> Result<u64> {
        Ok(self.txn.table_stat(&self.table)?.entries() as u64)
    }
}

/// A cursor and the entry that it stands on.
pub(crate) struct Place<'t> {
    cursor: libmdbx::Cursor<'t, RO>,
    at: Option<(Slice<'t>, Slice<'t>)>,
}

impl Place<'_> {
    #[inline(always)]
    fn entry(&self) -> Option<(Bytes<'_>, Bytes<'_>)> {
        self.at.as_ref().map(|(key, value)| ((&**key).into(), (&**value).into()))
    }
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.at = self.cursor.next()?;
        Ok(self.entry())
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.at = self.cursor.set_range(key)?;
        Ok(self.entry())
    }
}

/// A write transaction with its table.
pub(crate) struct Changing<'t> {
    txn: &'t Txn<'t, RW>,
    table: libmdbx::Table<'t>,
}

impl Writer for Changing<'_> {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.txn.put(&self.table, key, value, WriteFlags::empty())?)
    }

    #[inline(always)]
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.txn.put(&self.table, key, value, WriteFlags::APPEND)?)
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.txn.del(&self.table, key, None)?;
        Ok(())
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        let mut cursor = self.txn.cursor(&self.table)?;
        let mut at: Option<(Slice<'_>, ())> = cursor.set_range(low)?;
        while at.is_some_and(|(key, ())| *key < *high) {
            cursor.del(WriteFlags::empty())?;
            at = cursor.get_current()?;
        }
        Ok(())
    }
}
