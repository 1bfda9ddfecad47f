//! Fills tables from a stream of entries, committing in batches of bounded size: `load` and
//! `convert` differ only in where the entries come from.

use hedgerow::Error;
use hedgerow::tree::{Duplicates, Snapshot, Store, Table, TableOptions, WriteTxn};

use crate::exit::Failure;
use crate::lmdb_flags;
use crate::open::{self, Name};
use crate::wait;

/// A batch is committed when its keys and values reach this many bytes: few enough to stay in
/// memory, many enough that the flushes do not count.
const BATCH_BYTES: usize = 64 << 20;

/// What was put so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Entries that are committed.
    pub(crate) committed: u64,
    /// Entries that are put, committed or not.
    pub(crate) put: u64,
    /// Entries left alone because their key was there.
    pub(crate) kept: u64,
    /// Tables begun.
    pub(crate) tables: u64,
}

/// How a table that entries go to is had.
pub(crate) enum Target<'a> {
    /// With these options, of which the user flags stand beside: made, or checked if it is there.
    Exactly(&'a TableOptions, u32),
    /// Take the table as it is; make it with default options if it does not exist.
    AsItIs,
    /// Take the table as it is; make it with these options if it does not exist.
    Made(&'a TableOptions),
}

/// What fills tables of a store.
pub(crate) trait Fill {
    /// The entries that follow go to this table.
    fn begin_table(&mut self, name: Name, target: &Target<'_>) -> Result<(), Failure>;
    /// Puts one entry. True if a batch was committed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure>;
    /// Commits what is left.
    fn finish(&mut self) -> Result<Loaded, Failure>;
    /// Takes back what was begun and not committed, after a failure.
    fn give_up(&mut self);
    /// What was put so far.
    fn loaded(&self) -> Loaded;
    /// Whether its tables are all plain: bytewise, one value a key.
    fn is_plain(&self) -> bool;
}

/// Fills tables of a store of the tree.
pub(crate) struct Loader {
    store: Store,
    name: Option<Name>,
    /// Whether the next entry is the first one since its table was begun.
    is_first: bool,
    /// Keys that are there keep their values.
    keep: bool,
    batch: Option<Batch>,
    loaded: Loaded,
}

/// What will be committed together.
struct Batch {
    txn: WriteTxn,
    table: Option<Table>,
    bytes: usize,
}

impl Loader {
    /// Begins. With `keep`, keys that are there keep their values.
    pub(crate) fn new(store: Store, keep: bool) -> Self {
        Self { store, name: None, is_first: false, keep, batch: None, loaded: Loaded::default() }
    }

    /// The batch that is being filled; beginning a batch waits for other writers.
    fn batch(&mut self) -> Result<&mut Batch, Failure> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => {
                let txn = wait::begin_write(&self.store)?;
                let table = self.name.as_ref().map(|name| open::table(&txn, name)).transpose()?;
                Batch { txn, table, bytes: 0 }
            }
        };
        Ok(self.batch.insert(batch))
    }

    /// Makes an empty table of integers anew as our liblmdb does, if its first value only begins
    /// with one.
    fn lead(&mut self, value: &[u8]) -> Result<(), Failure> {
        let Batch { txn, table, .. } = self.batch()?;
        let Some(begun) = *table else { return Ok(()) };
        let info = txn.table_info(begun)?;
        if lmdb_flags::is_led(&info, value) {
            txn.drop_table(&info.name)?;
            let order = Duplicates::Fixed { size: None, order: lmdb_flags::leading() };
            let options = open::options(&info).duplicates_in(order);
            *table = Some(txn.create_table(&info.name, &options)?);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        if let Some(batch) = self.batch.take() {
            batch.txn.commit()?;
            self.loaded.committed = self.loaded.put;
        }
        Ok(())
    }
}

impl Fill for Loader {
    fn begin_table(&mut self, name: Name, target: &Target<'_>) -> Result<(), Failure> {
        self.name = None;
        let Batch { txn, table, .. } = self.batch()?;
        *table = Some(match target {
            Target::Exactly(options, _) => txn.create_table(&name.0, options)?,
            Target::AsItIs => found_or_made(txn, &name, &TableOptions::new())?,
            Target::Made(options) => found_or_made(txn, &name, options)?,
        });
        self.name = Some(name);
        self.is_first = true;
        self.loaded.tables += 1;
        Ok(())
    }

    /// Sorted input needs nothing of us: the engine notices it.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        if std::mem::take(&mut self.is_first) {
            self.lead(value)?;
        }
        let keep = self.keep;
        let batch = self.batch()?;
        let Some(table) = batch.table else {
            return Err(Failure::other("an entry came before its table"));
        };
        if keep && batch.txn.get(table, key)?.is_some() {
            self.loaded.kept += 1;
            return Ok(false);
        }
        batch.txn.put(table, key, value)?;
        batch.bytes += key.len() + value.len();
        let full = batch.bytes >= BATCH_BYTES;
        self.loaded.put += 1;
        if full {
            self.commit()?;
        }
        Ok(full)
    }

    fn finish(&mut self) -> Result<Loaded, Failure> {
        self.commit()?;
        Ok(self.loaded)
    }

    fn give_up(&mut self) {
        self.batch = None;
    }

    fn loaded(&self) -> Loaded {
        self.loaded
    }

    fn is_plain(&self) -> bool {
        false
    }
}

fn found_or_made(
    txn: &mut WriteTxn,
    name: &Name,
    options: &TableOptions,
) -> Result<Table, Failure> {
    match txn.table(&name.0) {
        Err(Error::NoTable { .. }) => Ok(txn.create_table(&name.0, options)?),
        Ok(table) => Ok(table),
        Err(_) => open::table(txn, name),
    }
}
