//! Drives the engine and the model through a stream of operations, side by side.
//!
//! This file holds the run itself: what is open, and transactions. Reads, writes, cursors, misuses
//! and whole-table comparisons have files of their own.

mod compare;
mod control;
mod cursor;
mod disk;
mod group;
mod misuse;
mod read;
mod verify;
mod write;

use std::path::PathBuf;

use hedgerow::Durability;
use hedgerow::tree::{Builder, ReadTxn, Snapshot, Store, Table, WriteTxn};

use crate::config::{Config, TableSpec};
use crate::generate::{CURSORS, READERS};
use crate::model::{State, TableModel};
use crate::op::{Commit, Control, Op, View};

pub use compare::{Disagreement, Outcome};
use compare::{ok, same};
use cursor::Held;
use disk::Disk;
pub use disk::{Ledger, Loss, Mark};
use read::Beside;

/// How a level of a write transaction ended.
enum End {
    Commit(Commit),
    Abort,
    Drop,
    /// The stream of operations is at its end.
    Stream,
}

/// What one transaction sees: its model, and what was opened in it.
struct Side {
    state: State,
    handles: Vec<Option<(u32, Table)>>,
    cursors: Vec<Option<Held>>,
}

impl Side {
    fn new(state: State) -> Self {
        let handles = vec![None; state.tables.len()];
        Self { state, handles, cursors: (0..CURSORS).map(|_| None).collect() }
    }

    /// The handle of a table, opening it if need be; `None` if the table does not exist.
    fn handle<S: Snapshot>(
        &mut self,
        config: &Config,
        txn: &S,
        table: u8,
    ) -> Outcome<Option<Table>> {
        let Some(model) = self.state.table(table) else { return Ok(None) };
        let slot = &mut self.handles[usize::from(table)];
        if let Some((incarnation, handle)) = *slot
            && incarnation == model.incarnation
        {
            return Ok(Some(handle));
        }
        let spec = &config.tables[usize::from(table)];
        let name = table_name(table, model.renamed);
        let handle = if spec.needs_functions() {
            ok("table_with", txn.table_with(&name, &spec.options(model.user_flags)))?
        } else {
            ok("table", txn.table(&name))?
        };
        *slot = Some((model.incarnation, handle));
        Ok(Some(handle))
    }
}

/// A held read transaction.
struct Reader {
    txn: ReadTxn,
    side: Side,
    /// Its snapshot was released.
    reset: bool,
}

/// A run in progress.
pub struct Runner<'c> {
    config: &'c Config,
    folder: PathBuf,
    store: Option<Store>,
    /// What the store holds for a transaction that begins now.
    committed: State,
    readers: Vec<Option<Reader>>,
    /// A handle and a cursor of a transaction that is over.
    stale: Option<(Table, hedgerow::tree::Cursor)>,
    next_incarnation: u32,
    copies: u32,
    done: u64,
    /// The simulated disk, if the run is not on the real one.
    disk: Option<Disk>,
}

impl<'c> Runner<'c> {
    /// Creates the store of a run in an empty folder.
    pub fn new(config: &'c Config, folder: PathBuf) -> Outcome<Self> {
        let store = ok("open_or_create", config.builder().open_or_create(folder.join("store")))?;
        same("page_size", store.page_size(), config.page_size)?;
        Ok(Self::with(config, folder, store, State::new(config.tables.len())))
    }

    fn with(config: &'c Config, folder: PathBuf, store: Store, committed: State) -> Self {
        // Whatever was created before came earlier than what will be.
        let incarnations = committed.tables.iter().flatten().map(|table| table.incarnation);
        let next_incarnation = incarnations.max().unwrap_or(0);
        Self {
            config,
            folder,
            store: Some(store),
            committed,
            readers: (0..READERS).map(|_| None).collect(),
            stale: None,
            next_incarnation,
            copies: 0,
            done: 0,
            disk: None,
        }
    }

    /// The options of the run's stores, on the run's disk.
    fn builder(&self) -> Builder {
        match &self.disk {
            Some(disk) => disk.builder(self.config),
            None => self.config.builder(),
        }
    }

    /// Runs all operations, then verifies every table, reopens the store and verifies it again.
    pub fn run(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Outcome {
        self.run_on(ops)?;
        self.verify_committed()?;
        self.reopen()?;
        self.verify_committed()?;
        self.check()
    }

    /// Runs all operations.
    pub fn run_on(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Outcome {
        while let Some(op) = self.next(ops) {
            match op {
                Op::Control(Control::BeginWrite) => self.write_txn(ops)?,
                other => self.outside(other)?,
            }
        }
        Ok(())
    }

    fn next(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Option<Op> {
        let op = ops.next()?;
        self.done += 1;
        Some(op)
    }

    /// An operation while there is no write transaction.
    fn outside(&mut self, op: Op) -> Outcome {
        match op {
            Op::Control(control) => self.control_outside(control),
            Op::Read(View::Reader(slot), table, read) => self.reader_read(slot, table, read),
            Op::Cursor(View::Reader(slot), cursor, step) => self.reader_cursor(slot, cursor, step),
            _ => Ok(()),
        }
    }

    /// One write transaction, from its begin to its end.
    fn write_txn(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Outcome {
        let mut txn = ok("begin_write", self.store().begin_write())?;
        let mut side = Side::new(self.committed.clone());
        let end = self.level(&mut txn, &mut side, ops, 0)?;
        self.keep_stale(&txn, &mut side)?;
        let durability = match end {
            End::Commit(Commit::Durable) => Durability::Durable,
            End::Commit(Commit::Eventual) => Durability::Eventual,
            End::Commit(Commit::None) => Durability::None,
            End::Commit(Commit::Default) | End::Stream => self.config.durability,
            End::Commit(Commit::Group(members, seed)) => {
                return self.commit_group(txn, side, members, seed);
            }
            End::Abort => {
                txn.abort();
                return Ok(());
            }
            End::Drop => return Ok(()),
        };
        let id = txn.id();
        self.note_begin(id, &side.state);
        match end {
            End::Commit(Commit::Default) | End::Stream => ok("commit", txn.commit())?,
            _ => ok("commit_with", txn.commit_with(durability))?,
        }
        self.committed = side.state;
        let committed = (id, self.committed.clone());
        self.note_commits([committed], durability == Durability::Durable)
    }

    /// Operations of a write transaction or of one nested in it, up to its end.
    fn level(
        &mut self,
        txn: &mut WriteTxn,
        side: &mut Side,
        ops: &mut dyn Iterator<Item = Op>,
        depth: u32,
    ) -> Outcome<End> {
        let mut savepoints = Vec::new();
        while let Some(op) = self.next(ops) {
            match op {
                Op::Control(Control::Commit(how)) => return Ok(End::Commit(how)),
                Op::Control(Control::Abort) => return Ok(End::Abort),
                Op::Control(Control::Drop) => return Ok(End::Drop),
                Op::Control(Control::BeginNested) if depth < 4 => {
                    if let End::Stream = self.nested(txn, side, ops, depth + 1)? {
                        return Ok(End::Stream);
                    }
                }
                Op::Control(control) => {
                    self.control_inside(txn, side, &mut savepoints, control)?;
                }
                Op::Read(View::Writer, table, read) => {
                    if let Some(handle) = side.handle(self.config, txn, table)?
                        && let Some(model) = side.state.table(table)
                    {
                        read::read(Beside { txn, handle, spec: self.spec(table), model }, read)?;
                    }
                }
                Op::Read(View::Reader(slot), table, read) => {
                    self.reader_read(slot, table, read)?;
                }
                Op::Cursor(View::Writer, slot, step) => {
                    cursor::step(self.config, txn, side, slot, step)?;
                }
                Op::Cursor(View::Reader(slot), cursor, step) => {
                    self.reader_cursor(slot, cursor, step)?;
                }
                Op::Write(table, write) => {
                    let handle = self.ensure_table(txn, side, table)?;
                    let spec = self.spec(table);
                    let longest = self.store().max_duplicate_size();
                    if let Some(model) = side.state.table_mut(table) {
                        write::write(txn, handle, spec, model, longest, write)?;
                    }
                }
                Op::CursorWrite(slot, write) => {
                    let longest = self.store().max_duplicate_size();
                    cursor::write(self.config, txn, side, slot, longest, write)?;
                }
                Op::Misuse(table, misuse) => self.misuse(txn, side, table, misuse)?,
            }
        }
        Ok(End::Stream)
    }

    /// One nested transaction, from its begin to its end.
    fn nested(
        &mut self,
        txn: &mut WriteTxn,
        side: &mut Side,
        ops: &mut dyn Iterator<Item = Op>,
        depth: u32,
    ) -> Outcome<End> {
        let before = side.state.clone();
        let mut nested = ok("begin_nested", txn.begin_nested())?;
        let end = self.level(&mut nested, side, ops, depth)?;
        match end {
            End::Commit(_) | End::Stream => ok("nested commit", nested.commit())?,
            End::Abort => {
                nested.abort();
                side.state = before;
            }
            End::Drop => {
                drop(nested);
                side.state = before;
            }
        }
        Ok(end)
    }

    /// Keeps a handle and a cursor to misuse in a later transaction.
    fn keep_stale(&mut self, txn: &WriteTxn, side: &mut Side) -> Outcome {
        if self.stale.is_none()
            && let Some(handle) = side.handle(self.config, txn, 0)?
        {
            let mut cursor = ok("cursor", txn.cursor(handle))?;
            ok("first", cursor.first(txn))?;
            self.stale = Some((handle, cursor));
        }
        Ok(())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("a store is open but for a moment while it is reopened")
    }

    fn spec(&self, table: u8) -> &'c TableSpec {
        &self.config.tables[usize::from(table)]
    }

    /// The handle of a table, which is created if it does not exist.
    fn ensure_table(&mut self, txn: &mut WriteTxn, side: &mut Side, table: u8) -> Outcome<Table> {
        if let Some(handle) = side.handle(self.config, txn, table)? {
            return Ok(handle);
        }
        let spec = self.spec(table);
        let flags = self.next_incarnation.wrapping_mul(77);
        let handle =
            ok("create_table", txn.create_table(table_name(table, false), &spec.options(flags)))?;
        self.next_incarnation += 1;
        let model = TableModel::new(spec.has_duplicates(), self.next_incarnation, flags);
        side.handles[usize::from(table)] = Some((model.incarnation, handle));
        side.state.tables[usize::from(table)] = Some(model);
        Ok(handle)
    }

    fn reader_read(&mut self, slot: u8, table: u8, read: crate::op::Read) -> Outcome {
        let spec = self.spec(table);
        let Some(Reader { txn, side, reset: false }) = &mut self.readers[usize::from(slot)] else {
            return Ok(());
        };
        if let Some(handle) = side.handle(self.config, txn, table)?
            && let Some(model) = side.state.table(table)
        {
            read::read(Beside { txn, handle, spec, model }, read)?;
        }
        Ok(())
    }

    fn reader_cursor(&mut self, slot: u8, cursor: u8, step: crate::op::Move) -> Outcome {
        match &mut self.readers[usize::from(slot)] {
            Some(Reader { txn, side, reset: false }) => {
                cursor::step(self.config, txn, side, cursor, step)
            }
            _ => Ok(()),
        }
    }
}

/// The name of a table; every table has two, to be renamed between.
fn table_name(table: u8, renamed: bool) -> Vec<u8> {
    if renamed { format!("renamed {table}") } else { format!("table {table}") }.into_bytes()
}
