//! A connection to a store: its transaction, the savepoints in it, and the tables that hold
//! SQLite's trees.
//!
//! A tree of SQLite's is known by a number, its *root*; tree 1 is the schema. Here it is a table of
//! the store named `sqlite/` and the root in decimal. The table `sqlite/meta` keeps SQLite's
//! sixteen numbers, the root that the next tree gets, and in a store in which checksums of rows
//! were ever on what it says about them.

use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use hedgerow::tree::AnyTxn as Body;
use hedgerow::tree::{ReadTxn, Savepoint, Snapshot, Store, Table, TableOptions, WriteTxn};
use hedgerow::{Durability, Error, on_txn};
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::meta::{META, META_KEY, Meta, SCHEMA, load_meta};
use crate::opening::{Mode, open_store};
use crate::order::index_options;
use crate::rested::Rested;
use crate::sums::{Kind, Setting, Sums};
use crate::trees::Trees;

/// What the names of its tables begin with.
pub(crate) const FOLDER: &str = "sqlite/";
/// The name of a table that is to replace another one.
const BESIDE: &str = "sqlite/beside";
/// In SQLite's numbers: the version of the schema.
const SCHEMA_VERSION: usize = 1;
/// The same: not 0 where a file is to be shortened, by commits or, if the second number is not 0
/// either, by a pragma.
const LARGEST_ROOT: usize = 4;
const INCREMENTAL: usize = 7;
/// Beyond SQLite's numbers: what `PRAGMA row_checksum` says (`HG_ROW_CHECKSUM` in `sums.c`).
const ROW_CHECKSUM: usize = 16;

/// Runs an expression on the transaction; an error if there is none.
macro_rules! on_body {
    ($body:expr, $txn:ident => $run:expr) => {
        hedgerow::on_txn!($body, $txn => $run, else {
            return Err(libsqlite3_sys::SQLITE_INTERNAL.into())
        })
    };
}
pub(crate) use on_body;

/// How long a writer waits for a flush in the background, of this process, or of another one: of
/// that nobody knows whether it is a flush.
const FLUSH_WAIT: Duration = Duration::from_secs(10);
const FOREIGN_WAIT: Duration = Duration::from_millis(50);

/// A connection's part in the turns of writers.
#[derive(Default)]
struct Turns {
    /// A flush has gone on for longer than it is waited for: the turn is asked for again as often
    /// as the busy handler says, and each time it is not waited for that long.
    is_missed: bool,
    /// The most pages that the store may have when this connection writes; `None` if it has not
    /// said so.
    max_pages: Option<u32>,
}

/// Read transactions that are kept beside the one that goes on.
#[derive(Default)]
struct Readers {
    /// The snapshot of one that became a writing one: what was read from it may still be in use.
    held: Option<Box<ReadTxn>>,
    /// One at rest, for the next one.
    rested: Option<Box<ReadTxn>>,
}

/// A connection.
pub(crate) struct Conn {
    store: Store,
    pub(crate) body: Body,
    readers: Readers,
    trees: Trees,
    savepoints: Vec<Savepoint>,
    turns: Turns,
    /// Those of the transaction; `None` until they are read.
    meta: Option<Meta>,
    /// A number that changes when cursors have to be made anew.
    pub(crate) generation: u64,
    /// The commit that the last transaction saw or made.
    seen: u64,
    /// How often another connection has committed, as far as this one has noticed.
    data_version: u32,
    pub(crate) durability: Durability,
    pub(crate) sums: Sums,
}

/// The name of the table of a root.
fn name_of(root: u32) -> String {
    format!("{FOLDER}{root}")
}

/// The table of a root in a snapshot.
fn find_table<S: Snapshot>(txn: &S, root: u32, is_index: bool) -> Answer<Option<Table>> {
    let name = name_of(root);
    let found = if is_index { txn.table_with(name, index_options()) } else { txn.table(name) };
    match found {
        Ok(table) => Ok(Some(table)),
        Err(Error::NoTable { .. }) => Ok(None),
        // The schema says something else than the table is.
        Err(Error::TableOptions { .. }) => Err(sys::SQLITE_CORRUPT),
        Err(error) => Err(code_of(&error)),
    }
}

/// The table of a root in a snapshot, whatever it is.
pub(crate) fn any_table<S: Snapshot>(txn: &S, root: u32) -> Answer<Table> {
    let name = name_of(root);
    let found = txn.table_with(&name, index_options()).or_else(|_| txn.table(&name));
    found.map_err(|e| code_of(&e))
}

impl Conn {
    /// Opens a store.
    ///
    /// # Errors
    /// Those of [`open_store`].
    pub(crate) fn open(path: &Path, mode: Mode) -> Answer<Self> {
        Ok(Self {
            store: open_store(path, mode)?,
            body: Body::None,
            readers: Readers::default(),
            trees: Trees::default(),
            savepoints: Vec::new(),
            turns: Turns::default(),
            meta: None,
            generation: 1,
            seen: 0,
            data_version: 1,
            durability: Durability::Durable,
            sums: Sums::new(),
        })
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The cursors that no statement uses.
    pub(crate) fn rested(&mut self) -> &mut Rested {
        &mut self.trees.rested
    }

    /// Another snapshot, or another transaction: cursors and tables have to be looked up anew.
    fn turn_over(&mut self) {
        self.trees.tables.clear();
        self.generation += 1;
    }

    /// Begins to read.
    pub(crate) fn begin_read(&mut self) -> Answer {
        let (reader, is_same) = match self.readers.rested.take() {
            Some(mut reader) => {
                let is_same = reader.refresh().map_err(|e| code_of(&e))?;
                (reader, is_same)
            }
            None => (Box::new(self.store.begin_read().map_err(|e| code_of(&e))?), false),
        };
        if !is_same {
            self.turn_over();
        }
        if !is_same || self.meta.is_none() {
            self.meta = Some(load_meta(&*reader)?);
        }
        self.note_commit(reader.id());
        self.body = Body::Read(reader);
        Ok(())
    }

    /// Notes which commit a transaction sees.
    fn note_commit(&mut self, commit: u64) {
        if self.seen != commit {
            self.seen = commit;
            self.data_version = self.data_version.wrapping_add(1);
        }
    }

    /// Begins to write; the snapshot that was read stays the base.
    ///
    /// # Errors
    /// `SQLITE_BUSY` if another connection writes, `SQLITE_BUSY_SNAPSHOT` if one has committed
    /// since this one began to read.
    pub(crate) fn begin_write(&mut self) -> Answer {
        let base = match &self.body {
            Body::Read(reader) => Some(reader.id()),
            Body::None => None,
            Body::Write(_) => return Ok(()),
        };
        let mut txn = self.take_turn()?;
        let newest = self.store.newest_commit();
        if base.is_some_and(|base| base != newest) {
            return Err(sys::SQLITE_BUSY_SNAPSHOT);
        }
        self.turns.is_missed = false;
        self.limit_pages(&mut txn);
        self.savepoints.clear();
        self.savepoints.push(txn.savepoint().map_err(|e| code_of(&e))?);
        self.turn_over();
        // What was read is of the same commit.
        if base.is_none() || self.meta.is_none() {
            self.meta = Some(load_meta(&txn)?);
        }
        self.note_commit(newest);
        match std::mem::replace(&mut self.body, Body::Write(Box::new(txn))) {
            Body::Read(reader) => self.readers.held = Some(reader),
            Body::None | Body::Write(_) => {}
        }
        if self.sums.wanted != Kind::Off && self.meta == Some(Meta::NEW) {
            self.set_kind(self.sums.wanted)?;
        }
        Ok(())
    }

    /// The writer's turn, if no other connection has it.
    fn take_turn(&mut self) -> Answer<WriteTxn> {
        let begin = Instant::now();
        loop {
            if let Some(txn) = self.store.try_begin_write().map_err(|e| code_of(&e))? {
                return Ok(txn);
            }
            let is_foreign = self.store.writer().is_some_and(|id| id != std::process::id());
            let is_short = is_foreign || self.turns.is_missed;
            let wait = if is_short { FOREIGN_WAIT } else { FLUSH_WAIT };
            if self.store.is_writing() || begin.elapsed() >= wait {
                self.turns.is_missed |= begin.elapsed() >= FLUSH_WAIT;
                return Err(sys::SQLITE_BUSY);
            }
            // A checkpoint calls this thread as soon as it is done.
            let called = self.store.begin_write_alone_within(Duration::from_micros(200));
            if let Some(txn) = called.map_err(|e| code_of(&e))? {
                return Ok(txn);
            }
        }
    }

    /// Says how many pages the store may have when this connection writes.
    pub(crate) fn set_max_pages(&mut self, pages: u32) {
        self.turns.max_pages = Some(pages);
        if let Body::Write(mut txn) = std::mem::take(&mut self.body) {
            self.limit_pages(&mut txn);
            self.body = Body::Write(txn);
        }
    }

    /// Gives a transaction the maximum size that this connection has set, if it has; one that the
    /// store has outgrown is the size that it has.
    fn limit_pages(&self, txn: &mut WriteTxn) {
        let Some(pages) = self.turns.max_pages else { return };
        let pages = u64::from(pages).max(txn.page_count());
        let own = pages * u64::from(self.store.page_size());
        txn.set_max_size(self.store.opened_max_size().into_iter().chain([own]).min());
    }

    /// The number of the commit that the last transaction saw or made.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Commits what was written; with `goes_on` it is then read.
    pub(crate) fn commit(&mut self, goes_on: bool) -> Answer {
        let Body::Write(txn) = std::mem::take(&mut self.body) else {
            return Ok(());
        };
        self.savepoints.clear();
        self.turn_over();
        let durability = self.durability;
        if goes_on {
            let reader = txn.commit_and_read(durability).map_err(|e| code_of(&e))?;
            self.seen = reader.id();
            self.body = Body::Read(Box::new(reader));
        } else {
            let number = txn.id();
            txn.commit_with(durability).map_err(|e| code_of(&e))?;
            // A transaction that changed nothing is no commit.
            if self.store.newest_commit() >= number {
                self.seen = number;
            }
        }
        self.readers.held = None;
        Ok(())
    }

    /// Drops what was written; with `goes_on` what was there before is read on.
    pub(crate) fn roll_back(&mut self, goes_on: bool) -> Answer {
        let Body::Write(txn) = std::mem::take(&mut self.body) else {
            return Ok(());
        };
        self.savepoints.clear();
        self.turn_over();
        self.meta = None;
        self.readers.held = None;
        if goes_on {
            // While this one has the writer's turn no other one commits.
            let reader = self.store.begin_read().map_err(|e| code_of(&e))?;
            self.meta = Some(load_meta(&reader)?);
            self.body = Body::Read(Box::new(reader));
        }
        drop(txn);
        Ok(())
    }

    /// Ends a transaction that reads.
    pub(crate) fn end_read(&mut self) {
        if let Body::Read(mut reader) = std::mem::take(&mut self.body) {
            reader.reset();
            self.readers.rested = Some(reader);
        }
    }

    /// Opens savepoints until there are `count`.
    pub(crate) fn open_savepoints(&mut self, count: usize) -> Answer {
        let Body::Write(txn) = &mut self.body else { return Err(sys::SQLITE_INTERNAL) };
        // The first one is the beginning of the transaction.
        while self.savepoints.len() <= count {
            self.savepoints.push(txn.savepoint().map_err(|e| code_of(&e))?);
        }
        Ok(())
    }

    /// Releases savepoint `at` and those after it.
    pub(crate) fn release(&mut self, at: usize) -> Answer {
        let Body::Write(txn) = &mut self.body else { return Ok(()) };
        let Some(savepoint) = self.savepoints.get(at + 1) else { return Ok(()) };
        txn.release(*savepoint).map_err(|e| code_of(&e))?;
        self.savepoints.truncate(at + 1);
        Ok(())
    }

    /// Rolls back to savepoint `at`, which stays; -1 is the beginning of the transaction.
    pub(crate) fn roll_back_to(&mut self, at: isize) -> Answer {
        let Body::Write(txn) = &mut self.body else { return Ok(()) };
        let Ok(at) = usize::try_from(at + 1) else { return Err(sys::SQLITE_MISUSE) };
        let Some(savepoint) = self.savepoints.get(at) else { return Ok(()) };
        txn.rollback_to(*savepoint).map_err(|e| code_of(&e))?;
        self.savepoints.truncate(at + 1);
        self.trees.tables.clear();
        self.generation += 1;
        if let Body::Write(txn) = &self.body {
            self.meta = Some(load_meta(&**txn)?);
        }
        Ok(())
    }

    /// One of SQLite's numbers, or what `PRAGMA row_checksum` says.
    pub(crate) fn number(&self, index: usize) -> u32 {
        if index == ROW_CHECKSUM {
            return self.setting().kind as u32;
        }
        self.meta.and_then(|meta| meta.numbers.get(index).copied()).unwrap_or(0)
    }

    /// What the store says about checksums of rows.
    #[inline]
    pub(crate) fn setting(&self) -> Setting {
        self.meta.as_ref().and_then(|meta| meta.sums).unwrap_or(Setting::OFF)
    }

    /// Whether rows may carry checksums.
    pub(crate) fn may_have_sums(&self) -> bool {
        self.meta.is_some_and(|meta| meta.sums.is_some())
    }

    /// The version of the schema.
    pub(crate) fn schema_version(&self) -> u32 {
        self.number(SCHEMA_VERSION)
    }

    /// Changes when another connection has committed.
    pub(crate) fn data_version(&self) -> u32 {
        self.data_version
    }

    /// Sets one of SQLite's numbers.
    pub(crate) fn set_number(&mut self, index: usize, value: u32) -> Answer {
        if index == ROW_CHECKSUM {
            return self.set_kind(Kind::of(value).ok_or(sys::SQLITE_MISUSE)?);
        }
        let mut meta = self.meta.unwrap_or(Meta::NEW);
        *meta.numbers.get_mut(index).ok_or(sys::SQLITE_MISUSE)? = value;
        self.store_meta(meta)
    }

    /// Says what rows carry that are written from now on.
    fn set_kind(&mut self, kind: Kind) -> Answer {
        let old = self.setting();
        if old.kind == kind {
            return Ok(());
        }
        let is_complete = match old.kind {
            _ if kind == Kind::Off => false,
            // Every row has an entry in the schema's tree, or comes after one.
            Kind::Off => self.count_of(SCHEMA)?.unwrap_or(0) == 0,
            _ => old.is_complete,
        };
        self.set_setting(Some(Setting { kind, is_complete }))
    }

    /// Notes what is said about checksums of rows; `None` if no row carries any.
    pub(crate) fn set_setting(&mut self, sums: Option<Setting>) -> Answer {
        self.store_meta(Meta { sums, ..self.meta.unwrap_or(Meta::NEW) })
    }

    /// The root that the next tree gets.
    fn next_root(&self) -> u32 {
        self.meta.map_or(SCHEMA + 1, |meta| meta.next_root)
    }

    fn set_next_root(&mut self, next_root: u32) -> Answer {
        self.store_meta(Meta { next_root, ..self.meta.unwrap_or(Meta::NEW) })
    }

    fn store_meta(&mut self, meta: Meta) -> Answer {
        self.meta = Some(meta);
        let bytes = meta.encode();
        let txn = self.writer()?;
        let table = txn.create_table(META, &TableOptions::new()).map_err(|e| code_of(&e))?;
        txn.put(table, META_KEY, &bytes).map_err(|e| code_of(&e))
    }

    /// The transaction that writes.
    pub(crate) fn writer(&mut self) -> Answer<&mut WriteTxn> {
        match &mut self.body {
            Body::Write(txn) => Ok(txn),
            Body::Read(_) | Body::None => Err(sys::SQLITE_READONLY),
        }
    }

    /// The transaction that writes, and what makes checksums.
    pub(crate) fn writer_and_sums(&mut self) -> Answer<(&mut WriteTxn, &mut Sums)> {
        match &mut self.body {
            Body::Write(txn) => Ok((txn, &mut self.sums)),
            Body::Read(_) | Body::None => Err(sys::SQLITE_READONLY),
        }
    }

    /// The table of a root; `None` if there is none.
    pub(crate) fn table(&mut self, root: u32, is_index: bool) -> Answer<Option<Table>> {
        if let Some(table) = self.trees.tables.get(&root) {
            return Ok(*table);
        }
        let table = on_body!(&self.body, txn => find_table(txn, root, is_index))?;
        if table.is_none() && root != SCHEMA {
            return Err(sys::SQLITE_CORRUPT);
        }
        self.trees.tables.insert(root, table);
        Ok(table)
    }

    /// The table of a root, to write to it: the schema's is made when it is needed.
    pub(crate) fn table_to_write(&mut self, root: u32, is_index: bool) -> Answer<Table> {
        if let Some(table) = self.table(root, is_index)? {
            return Ok(table);
        }
        self.create_at(root, is_index)?;
        self.table(root, is_index)?.ok_or(sys::SQLITE_CORRUPT)
    }

    /// Makes a tree of a root that is not in use.
    pub(crate) fn create_at(&mut self, root: u32, is_index: bool) -> Answer {
        let plain = TableOptions::new();
        let options = if is_index { index_options() } else { &plain };
        let made = self.writer()?.create_table(name_of(root), options);
        let table = made.map_err(|e| code_of(&e))?;
        self.trees.tables.insert(root, Some(table));
        if root >= self.next_root() {
            self.set_next_root(root.checked_add(1).ok_or(sys::SQLITE_FULL)?)?;
        }
        Ok(())
    }

    /// Makes a tree and gives its root.
    pub(crate) fn create(&mut self, is_index: bool) -> Answer<u32> {
        self.table_to_write(SCHEMA, false)?;
        let root = self.next_root();
        self.create_at(root, is_index)?;
        Ok(root)
    }

    /// Makes a tree beside the others, which is to replace one of them.
    pub(crate) fn create_beside(&mut self, is_index: bool) -> Answer<Table> {
        let plain = TableOptions::new();
        let options = if is_index { index_options() } else { &plain };
        self.writer()?.create_table(BESIDE, options).map_err(|e| code_of(&e))
    }

    /// Puts that tree in the place of another one.
    pub(crate) fn replace_tree(&mut self, root: u32) -> Answer {
        let name = name_of(root);
        let txn = self.writer()?;
        txn.drop_table(&name).map_err(|e| code_of(&e))?;
        txn.rename_table(BESIDE, &name).map_err(|e| code_of(&e))?;
        self.turn_over();
        Ok(())
    }

    /// Removes a tree.
    pub(crate) fn drop_tree(&mut self, root: u32) -> Answer {
        let dropped = self.writer()?.drop_table(name_of(root)).map_err(|e| code_of(&e))?;
        self.trees.tables.remove(&root);
        self.trees.rested.forget(root);
        if root + 1 == self.next_root() && root > SCHEMA {
            self.set_next_root(root)?;
        }
        if dropped { Ok(()) } else { Err(sys::SQLITE_CORRUPT) }
    }

    /// The table of a root, whatever it is.
    pub(crate) fn any_table(&self, root: u32) -> Answer<Table> {
        on_body!(&self.body, txn => any_table(txn, root))
    }

    /// Whether the tree of a root is an index.
    pub(crate) fn is_index(&self, root: u32) -> Answer<bool> {
        let info = on_body!(&self.body, txn => txn.find_table(name_of(root)));
        let info = info.map_err(|e| code_of(&e))?.ok_or(sys::SQLITE_CORRUPT)?;
        Ok(info.order != "bytewise")
    }

    /// Removes everything that is SQLite's, and leaves an empty schema.
    pub(crate) fn empty(&mut self) -> Answer {
        let tables = on_body!(&self.body, txn => txn.tables()).map_err(|e| code_of(&e))?;
        for info in tables {
            if info.name.starts_with(FOLDER.as_bytes()) {
                self.writer()?.drop_table(&info.name).map_err(|e| code_of(&e))?;
            }
        }
        self.turn_over();
        self.store_meta(Meta::NEW)?;
        self.table_to_write(SCHEMA, false).map(|_| ())
    }

    /// Removes all entries of a tree and says how many there were.
    pub(crate) fn clear(&mut self, root: u32) -> Answer<u64> {
        let count = self.count_of(root)?;
        let Some(count) = count else {
            return if root == SCHEMA { Ok(0) } else { Err(sys::SQLITE_CORRUPT) };
        };
        let table = self.any_table(root)?;
        self.writer()?.clear_table(table).map_err(|e| code_of(&e))?;
        Ok(count)
    }

    /// How many entries the table of a root has, whatever it is; `None` if there is no table.
    pub(crate) fn count_of(&self, root: u32) -> Answer<Option<u64>> {
        let info = on_body!(&self.body, txn => txn.find_table(name_of(root)));
        Ok(info.map_err(|e| code_of(&e))?.map(|info| info.count.values))
    }

    /// Whether the database is one whose file SQLite would shorten with each commit.
    fn is_shortened(&self) -> bool {
        self.number(LARGEST_ROOT) != 0 && self.number(INCREMENTAL) == 0
    }

    /// Pages that are in use; what a transaction frees is, until it commits.
    fn used_pages(&self) -> u64 {
        let used = |txn: &ReadTxn| txn.page_count() - txn.free_pages();
        match &self.body {
            Body::Read(txn) => used(txn),
            Body::Write(txn) => self.store.begin_read().map_or(txn.page_count(), |base| {
                used(&base) + txn.page_count().saturating_sub(base.page_count())
            }),
            Body::None => 0,
        }
    }

    /// Pages of the store, and no fewer than the highest root, as SQLite expects; 0 if it holds
    /// nothing of SQLite's. Of a database that SQLite would shorten those that are in use: programs
    /// compare the number with how much they want to keep.
    pub(crate) fn page_count(&self) -> u32 {
        let pages = match self.is_shortened() {
            true => self.used_pages(),
            false => on_txn!(&self.body, txn => txn.page_count(), else 0),
        };
        if self.meta.is_none_or(|meta| Meta { sums: None, ..meta } == Meta::NEW) {
            return 0;
        }
        u32::try_from(pages).unwrap_or(u32::MAX).max(self.next_root() - 1)
    }

    /// Free pages of the store; none of a database that SQLite would shorten.
    pub(crate) fn free_pages(&self) -> u32 {
        let free = match self.is_shortened() {
            true => 0,
            false => self.store.stat().map_or(0, |stat| stat.free_pages),
        };
        u32::try_from(free).unwrap_or(u32::MAX)
    }
}
