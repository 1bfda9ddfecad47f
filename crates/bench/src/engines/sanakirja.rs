//! The adapter of sanakirja: a tree of byte strings. It syncs in every commit, so that it has no
//! unsynced ones, and its `put` adds a pair where the key is there already. Its entries are short.
#![expect(unsafe_code, reason = "making a table of byte strings is unsafe there")]

use std::path::Path;

use hedgerow::tree::Bytes;
use sanakirja::btree::{self, UDb, page_unsized};
use sanakirja::{Commit, Env, MutTxn, RootDb, Txn};

use crate::engine::{Cursor, Engine, Promise, Reader, Result, Table, Unsupported, Writer};

/// The file's first size; it is sparse.
const BYTES: u64 = 8 << 30;
/// Bytes of the longest key and of the longest value.
const LENGTH_MAX: usize = 510;

type Db = UDb<[u8], [u8]>;
type Page = page_unsized::Page<[u8], [u8]>;

/// Makes the table.
fn create(txn: &mut MutTxn<&Env, ()>) -> Result<Db> {
    // SAFETY: the kind of page is the one for entries of any length, which these are, and the one
    // that `Db` and the cursors name.
    Ok(unsafe { btree::create_db_::<_, [u8], [u8], Page>(txn)? })
}

impl Engine for Env {
    type Reader<'e> = View<'e>;
    type Writer<'e> = Changing<'e>;

    fn open(folder: &Path, _memory: Option<usize>) -> Result<Self> {
        Ok(Env::new(folder.join("data.sanakirja"), BYTES, 2)?)
    }

    fn read<T>(&self, _table: Table, work: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        let txn = Env::txn_begin(self)?;
        let db = txn.root_db(0).ok_or("the table is missing")?;
        work(&View { txn, db })
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Changing<'_>) -> Result<T>,
    ) -> Result<T> {
        if table.duplicates || promise == Promise::Unsynced {
            return Err(Unsupported("such commits").into());
        }
        let mut txn = Env::mut_txn_begin(self)?;
        let db = match txn.root_db(0) {
            Some(db) => db,
            None => create(&mut txn)?,
        };
        let mut changing = Changing { txn, db };
        let answer = work(&mut changing)?;
        changing.txn.set_root(0, changing.db.db.into());
        changing.txn.commit()?;
        Ok(answer)
    }
}

/// A read transaction.
pub(crate) struct View<'e> {
    txn: Txn<&'e Env>,
    db: Db,
}

impl Reader for View<'_> {
    type Cursor<'r>
        = Place<'r>
    where
        Self: 'r;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        // What it answers is the first pair at or after the key.
        let found = btree::get(&self.txn, &self.db, key, None)?.filter(|(at, _)| *at == key);
        Ok(found.map(|(_, value)| see(value.into())))
    }

    fn cursor(&self) -> Result<Place<'_>> {
        Ok(Place { view: self, cursor: btree::cursor::Cursor::new(&self.txn, &self.db)? })
    }

    /// There is no other way than to look.
    fn len(&self) -> Result<u64> {
        let mut entries = 0;
        self.scan(|_, _| entries += 1)?;
        Ok(entries)
    }
}

/// A cursor with its transaction.
pub(crate) struct Place<'r> {
    view: &'r View<'r>,
    cursor: btree::cursor::Cursor<[u8], [u8], Page>,
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let entry = self.cursor.next(&self.view.txn)?;
        Ok(entry.map(|(key, value)| (key.into(), value.into())))
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.cursor.set(&self.view.txn, key, None)?;
        self.next()
    }
}

/// A write transaction.
pub(crate) struct Changing<'e> {
    txn: MutTxn<&'e Env, ()>,
    db: Db,
}

impl Writer for Changing<'_> {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len().max(value.len()) > LENGTH_MAX {
            return Err(Unsupported("long entries").into());
        }
        btree::put(&mut self.txn, &mut self.db, key, value)?;
        Ok(())
    }

    fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.delete(key)?;
        self.put(key, value)
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        btree::del(&mut self.txn, &mut self.db, key, None)?;
        Ok(())
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        let mut keys = Vec::new();
        for entry in btree::iter(&self.txn, &self.db, Some((low, None)))? {
            let (key, _) = entry?;
            if key >= high {
                break;
            }
            keys.push(key.to_vec());
        }
        keys.iter().try_for_each(|key| self.delete(key))
    }
}
