//! The scripts of `testdata`, on both engines.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use hedgerow::lsm::{Db, Keyspace, Readable};
use hedgerow::tree::{Order, ReadTxn, Savepoint, Snapshot, Store, Table, TableOptions, WriteTxn};
use hedgerow::{Durability, Error, lsm};
use scripts::{Ends, Face, Operation, or_none, pair, shown};

type Answer = Result<Vec<String>, Error>;

#[test]
fn the_tree_does_what_the_scripts_say() {
    let run = scripts::run_all(Tree::new).unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 34, "{run} scripts");
}

#[test]
fn the_lsm_engine_does_what_the_scripts_say() {
    let run = scripts::run_all(Lsm::new).unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 20, "{run} scripts");
}

/// The word of a script for an error.
fn word(error: &Error) -> String {
    match error {
        Error::Size { .. } => "size".into(),
        Error::NoTable { .. } => "no-table".into(),
        other => other.to_string(),
    }
}

fn bounds((from, to): &Ends) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let from = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
    (from, to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
}

struct Tree {
    path: PathBuf,
    store: Option<Store>,
    table: String,
    txn: Option<(WriteTxn, Vec<Savepoint>)>,
    old: Option<ReadTxn>,
    reads_old: bool,
}

impl Tree {
    fn new(folder: &Path) -> Self {
        let path = folder.join("store");
        let store = Store::builder().durability(Durability::None).create(&path).unwrap();
        let mut face = Self {
            path,
            store: Some(store),
            table: String::new(),
            txn: None,
            old: None,
            reads_old: false,
        };
        face.use_table("main", &[]).unwrap();
        face
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn use_table(&mut self, name: &str, options: &[String]) -> Answer {
        let mut made = TableOptions::new();
        for option in options {
            made = match option.as_str() {
                "duplicates" => made.duplicates(),
                "reverse" => made.order(Order::Reverse),
                "integer" => made.order(Order::Integer),
                other => panic!("no table is {other}"),
            };
        }
        self.table = name.into();
        self.change(|txn, _| txn.create_table(name, &made).map(drop))
    }

    /// A change, in the transaction that is open or in one of its own.
    fn change(&mut self, change: impl FnOnce(&mut WriteTxn, &str) -> Result<(), Error>) -> Answer {
        if let Some((txn, _)) = &mut self.txn {
            change(txn, &self.table)?;
            return Ok(vec![]);
        }
        let mut txn = self.store().begin_write()?;
        change(&mut txn, &self.table)?;
        txn.commit()?;
        Ok(vec![])
    }

    fn read(&self, operation: &Operation) -> Answer {
        if let (true, Some(old)) = (self.reads_old, &self.old) {
            return read(old, &self.table, operation);
        }
        match &self.txn {
            Some((txn, _)) => read(txn, &self.table, operation),
            None => read(&self.store().begin_read()?, &self.table, operation),
        }
    }

    fn control(&mut self, operation: &Operation) -> Answer {
        let (txn, savepoints) = match (operation, &mut self.txn) {
            (Operation::Begin, _) => {
                self.txn = Some((self.store().begin_write()?, vec![]));
                return Ok(vec![]);
            }
            (_, Some((txn, savepoints))) => (txn, savepoints),
            (other, None) => panic!("{other:?} outside of a transaction"),
        };
        match operation {
            Operation::Savepoint => savepoints.push(txn.savepoint()?),
            Operation::Rollback => txn.rollback_to(savepoints.pop().unwrap())?,
            Operation::Release => txn.release(savepoints.pop().unwrap())?,
            Operation::Commit => self.txn.take().unwrap().0.commit()?,
            _ => self.txn = None,
        }
        Ok(vec![])
    }

    fn whole(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Snapshot => self.old = Some(self.store().begin_read()?),
            Operation::Old => self.reads_old = true,
            Operation::New => self.reads_old = false,
            Operation::Reopen => {
                (self.store, self.old) = (None, None);
                self.store = Some(Store::open(&self.path)?);
            }
            _ => {
                let report = self.store().check(&mut |_, _| {})?;
                let is_sound = report.problems.is_empty();
                return Ok(if is_sound { vec!["sound".into()] } else { report.problems });
            }
        }
        Ok(vec![])
    }

    fn answer(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Table { name, options } => self.use_table(name, options),
            Operation::Put { key, value } => self.change(|txn, table| {
                let table = txn.table(table)?;
                txn.put(table, key, value)
            }),
            Operation::Delete { key } => self.change(|txn, table| {
                let table = txn.table(table)?;
                txn.delete(table, key).map(drop)
            }),
            Operation::DeleteRange { ends } => self.change(|txn, table| {
                let table = txn.table(table)?;
                txn.delete_range(table, bounds(ends)).map(drop)
            }),
            Operation::Snapshot
            | Operation::Old
            | Operation::New
            | Operation::Reopen
            | Operation::Check => self.whole(operation),
            Operation::Begin
            | Operation::Commit
            | Operation::Abort
            | Operation::Savepoint
            | Operation::Rollback
            | Operation::Release => self.control(operation),
            reads => self.read(reads),
        }
    }
}

impl Face for Tree {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn run(&mut self, operation: &Operation) -> Result<Vec<String>, String> {
        self.answer(operation).map_err(|error| word(&error))
    }
}

fn read<S: Snapshot>(txn: &S, table: &str, operation: &Operation) -> Answer {
    let table: Table = txn.table(table)?;
    let shows = |entry: hedgerow::tree::Entry<'_>| pair(&entry.key.to_cow(), &entry.value.to_cow());
    Ok(match operation {
        Operation::Get { key } => {
            let value = txn.get(table, key)?;
            or_none(value.iter().map(|value| shown(&value.to_cow())).collect())
        }
        Operation::Scan { ends, backwards } => {
            let range = txn.range(table, bounds(ends))?;
            let lines: Result<Vec<_>, _> = match backwards {
                false => range.map(|entry| entry.map(shows)).collect(),
                true => range.rev().map(|entry| entry.map(shows)).collect(),
            };
            or_none(lines?)
        }
        Operation::Count { ends } => {
            vec![txn.count_range(table, bounds(ends))?.values.to_string()]
        }
        Operation::Rank { key } => vec![txn.rank(table, key)?.values.to_string()],
        Operation::Nth { n } => or_none(txn.nth(table, *n)?.map(shows).into_iter().collect()),
        other => panic!("{other:?} does not read"),
    })
}

struct Lsm {
    path: PathBuf,
    db: Option<Db>,
    table: String,
    txn: Option<lsm::Transaction>,
    old: Option<lsm::Snapshot>,
    reads_old: bool,
}

impl Lsm {
    fn new(folder: &Path) -> Self {
        let path = folder.join("store");
        let db = Self::open(&path);
        Self { path, db: Some(db), table: "main".into(), txn: None, old: None, reads_old: false }
    }

    fn open(path: &Path) -> Db {
        // Small sizes, so that some scripts are merged.
        let options = lsm::Options::new().create(true).durability(Durability::None);
        options.memtable_bytes(64 << 10).table_bytes(64 << 10).open(path).unwrap()
    }

    fn space(&self) -> Result<(Db, Keyspace), Error> {
        let db = self.db.clone().unwrap();
        let space = db.keyspace(&self.table, Default::default())?;
        Ok((db, space))
    }

    fn scan(&self, space: &Keyspace, ends: &Ends, backwards: bool) -> Answer {
        if let (false, Some(txn)) = (self.reads_old, &self.txn) {
            return pairs(txn.range(space, bounds(ends))?, backwards);
        }
        match &self.old {
            Some(old) if self.reads_old => pairs(old.range(space, bounds(ends))?, backwards),
            _ => pairs(self.space()?.0.range(space, bounds(ends))?, backwards),
        }
    }

    fn get(&self, space: &Keyspace, key: &[u8]) -> Answer {
        let value = match (&self.old, &self.txn) {
            (Some(old), _) if self.reads_old => old.get(space, key)?,
            (_, Some(txn)) => txn.get(space, key)?,
            _ => self.space()?.0.get(space, key)?,
        };
        Ok(or_none(value.iter().map(|value| shown(value)).collect()))
    }

    fn answer(&mut self, operation: &Operation) -> Answer {
        let (db, space) = self.space()?;
        match (operation, &mut self.txn) {
            (Operation::Table { name, .. }, _) => self.table.clone_from(name),
            (Operation::Get { key }, _) => return self.get(&space, key),
            (Operation::Scan { ends, backwards }, _) => return self.scan(&space, ends, *backwards),
            (Operation::Put { key, value }, Some(txn)) => txn.put(&space, key, value)?,
            (Operation::Put { key, value }, None) => db.put(&space, key, value)?,
            (Operation::Delete { key }, Some(txn)) => txn.delete(&space, key)?,
            (Operation::Delete { key }, None) => db.delete(&space, key)?,
            (Operation::DeleteRange { ends }, Some(txn)) => {
                txn.delete_range(&space, bounds(ends))?
            }
            (Operation::DeleteRange { ends }, None) => db.delete_range(&space, bounds(ends))?,
            (Operation::Begin, _) => self.txn = Some(db.transaction()),
            (Operation::Commit, _) => self.txn.take().unwrap().commit()?,
            (Operation::Abort, _) => self.txn = None,
            (Operation::Snapshot, _) => self.old = Some(db.snapshot()),
            (Operation::Old, _) => self.reads_old = true,
            (Operation::New, _) => self.reads_old = false,
            (Operation::Reopen, _) => {
                drop((self.old.take(), self.db.take()));
                db.close()?;
                self.db = Some(Self::open(&self.path));
            }
            (Operation::Check, _) => {
                db.check()?;
                return Ok(vec!["sound".into()]);
            }
            (other, _) => panic!("the engine lsm does not {other:?}"),
        }
        Ok(vec![])
    }
}

/// The pairs of a range.
fn pairs<I>(range: I, backwards: bool) -> Answer
where
    I: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>,
{
    let shows = |found: I::Item| found.map(|(key, value)| pair(&key, &value));
    let lines: Result<Vec<_>, _> = match backwards {
        false => range.map(shows).collect(),
        true => range.rev().map(shows).collect(),
    };
    lines.map(or_none)
}

impl Face for Lsm {
    fn has(&self, need: &str) -> bool {
        !["counts", "duplicates", "nested", "orders"].contains(&need)
    }

    fn run(&mut self, operation: &Operation) -> Result<Vec<String>, String> {
        self.answer(operation).map_err(|error| word(&error))
    }
}
