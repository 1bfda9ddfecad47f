//! What each engine does with the pairs of a sink.

use super::{Mode, Rejected, Target, sealed};
use crate::lsm::{Batch, Db, Keyspace, Transaction};
use crate::tree::{Snapshot as _, Store, Table, TableOptions, WriteTxn};
use crate::{Durability, Error, Result};

impl Target for Store {}
impl Target for Db {}

/// A transaction of the tree engine.
pub struct TreeTxn {
    txn: WriteTxn,
    table: Table,
    has_duplicates: bool,
    run: Run,
}

/// Whether pairs come in order, so that they can be appended.
#[derive(Default)]
struct Run {
    /// How many keys have come in ascending order.
    len: u32,
    /// Appending failed in this transaction: something comes after.
    is_barred: bool,
}

/// After this many keys in order, appending is tried.
const RUN: u32 = 8;

impl Run {
    /// Whether the pair is worth an attempt to append it.
    fn takes(&mut self, before: &[u8], key: &[u8]) -> bool {
        if self.is_barred {
            return false;
        }
        if self.len < RUN {
            self.len = if key > before { self.len + 1 } else { 0 };
        }
        // From then on appending itself tells whether they still do.
        self.len == RUN
    }

    /// A pair could not be appended.
    fn ends(&mut self, before: &[u8], key: &[u8]) {
        (self.len, self.is_barred) = (0, key > before);
    }
}

impl TreeTxn {
    fn put(&mut self, before: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
        if self.run.takes(before, key) {
            match self.txn.append(self.table, key, value) {
                Err(Error::NotLast) => self.run.ends(before, key),
                done => return done,
            }
        }
        self.txn.put(self.table, key, value)
    }
}

impl sealed::Sealed for Store {
    type Txn = TreeTxn;

    fn begin_txn(&self, table: &[u8], mode: &Mode) -> Result<TreeTxn> {
        let mut txn = self.begin_write()?;
        let table = match txn.table(table) {
            Err(Error::NoTable { .. }) => txn.create_table(table, &TableOptions::new())?,
            found => found?,
        };
        let has_duplicates = txn.table_info(table)?.duplicates;
        if has_duplicates && matches!(mode, Mode::Merge(_)) {
            let reason = "values of a table with duplicates cannot be merged";
            return Err(Error::WrongTable { reason: reason.into() });
        }
        Ok(TreeTxn { txn, table, has_duplicates, run: Run::default() })
    }

    fn put(
        own: &mut TreeTxn,
        mode: &mut Mode,
        before: &[u8],
        (key, value): (&[u8], &[u8]),
        rejected: &mut dyn FnMut(Rejected<'_>) -> Result<()>,
    ) -> Result<bool> {
        let table = own.table;
        match mode {
            Mode::Put => own.put(before, key, value)?,
            Mode::New if own.has_duplicates => {
                if !own.txn.put_pair(table, key, value)? {
                    rejected(Rejected { key, value, old: Some(value) })?;
                    return Ok(false);
                }
            }
            Mode::New => {
                if let Some(old) = own.txn.put_new(table, key, value)? {
                    rejected(Rejected { key, value, old: Some(&old.to_cow()) })?;
                    return Ok(false);
                }
            }
            Mode::Replace => {
                if own.txn.get(table, key)?.is_none() {
                    rejected(Rejected { key, value, old: None })?;
                    return Ok(false);
                }
                own.txn.put(table, key, value)?;
            }
            Mode::Append => match own.txn.append(table, key, value) {
                Err(Error::NotLast) => {
                    let old = own.txn.get(table, key)?.map(|old| old.to_vec());
                    rejected(Rejected { key, value, old: old.as_deref() })?;
                    return Ok(false);
                }
                done => done?,
            },
            Mode::Merge(merge) => {
                let old = own.txn.get(table, key)?.map(|old| old.to_vec());
                match merge(key, old.as_deref(), value) {
                    Some(merged) => own.txn.put(table, key, &merged)?,
                    None => drop(own.txn.delete(table, key)?),
                }
            }
        }
        Ok(true)
    }

    fn value_of(own: &TreeTxn, mode: &Mode, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if !Self::tells_values(own, mode) {
            return Ok(None);
        }
        Ok(own.txn.get(own.table, key)?.map(|value| value.to_vec()))
    }

    fn tells_values(own: &TreeTxn, mode: &Mode) -> bool {
        // What a merge stores is not the pair that was put.
        !own.has_duplicates && !matches!(mode, Mode::Merge(_))
    }

    fn commit(&self, own: TreeTxn, durability: Durability) -> Result<()> {
        own.txn.commit_with(durability)
    }
}

/// A transaction of the lsm engine.
pub struct LsmTxn {
    keyspace: Keyspace,
    writes: Writes,
    /// The last key of the keyspace, where that matters.
    last: Option<Vec<u8>>,
}

/// Pairs that are only stored need no reading.
enum Writes {
    Blind(Batch),
    Seeing(Box<Transaction>),
}

impl sealed::Sealed for Db {
    type Txn = LsmTxn;

    fn begin_txn(&self, table: &[u8], mode: &Mode) -> Result<LsmTxn> {
        let keyspace = self.keyspace(table, Default::default())?;
        let writes = match mode {
            Mode::Put => Writes::Blind(Batch::new()),
            Mode::New | Mode::Replace | Mode::Append | Mode::Merge(_) => {
                Writes::Seeing(Box::new(self.transaction()))
            }
        };
        let last = match (mode, &writes) {
            // The transaction notices what others put behind it.
            (Mode::Append, Writes::Seeing(txn)) => {
                let last = txn.range(&keyspace, ..)?.keys_only().next_back();
                last.transpose()?.map(|(key, _)| key)
            }
            _ => None,
        };
        Ok(LsmTxn { keyspace, writes, last })
    }

    fn put(
        own: &mut LsmTxn,
        mode: &mut Mode,
        _: &[u8],
        (key, value): (&[u8], &[u8]),
        rejected: &mut dyn FnMut(Rejected<'_>) -> Result<()>,
    ) -> Result<bool> {
        let LsmTxn { keyspace, writes, last } = own;
        let txn = match writes {
            Writes::Seeing(txn) => txn,
            Writes::Blind(batch) => {
                batch.put(keyspace, key, value)?;
                return Ok(true);
            }
        };
        if matches!(mode, Mode::Append) {
            if last.as_deref().is_some_and(|last| key <= last) {
                let old = txn.get(keyspace, key)?;
                rejected(Rejected { key, value, old: old.as_deref() })?;
                return Ok(false);
            }
            *last = Some(key.to_vec());
            txn.put(keyspace, key, value)?;
            return Ok(true);
        }
        let old = txn.get(keyspace, key)?;
        let is_rejected = match mode {
            Mode::New => old.is_some(),
            Mode::Replace => old.is_none(),
            Mode::Put | Mode::Append | Mode::Merge(_) => false,
        };
        if is_rejected {
            rejected(Rejected { key, value, old: old.as_deref() })?;
            return Ok(false);
        }
        match mode {
            Mode::Merge(merge) => match merge(key, old.as_deref(), value) {
                Some(merged) => txn.put(keyspace, key, &merged)?,
                None => txn.delete(keyspace, key)?,
            },
            _ => txn.put(keyspace, key, value)?,
        }
        Ok(true)
    }

    fn value_of(_: &LsmTxn, _: &Mode, _: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn tells_values(_: &LsmTxn, _: &Mode) -> bool {
        false
    }

    fn commit(&self, own: LsmTxn, durability: Durability) -> Result<()> {
        match own.writes {
            Writes::Blind(batch) => self.write_with(batch, durability),
            Writes::Seeing(txn) => txn.commit_with(durability),
        }
    }
}
