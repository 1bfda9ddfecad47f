//! To LMDB: every table of a store to a database of a new environment.
//!
//! The data file is written beside its place, in one pass, and takes its place when it was read
//! back through LMDB and every entry of both was compared. What a command left that was killed is
//! written over.

use std::fs::File;
use std::path::Path;

use hedgerow::lsm::{Readable as _, Reader};
use hedgerow::stream::PairSum;
use hedgerow::tree::{ReadTxn, Snapshot as _, Store, TableInfo};
use serde_json::{Value, json};

use super::super::lsm;
use super::Args;
use super::part::{self, Part};
use crate::codec::shown;
use crate::draft::check_vacant;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leveldb::face;
use crate::lmdb::{Database, Environment};
use crate::lmdb_flags::Flags;
use crate::lmdb_target::{Refused, Table, Target, wrong_name};
use crate::open::{self, Engine, StoreArg};
use crate::progress::{Progress, Unit};
use crate::sums;

/// The data file in the environment's folder.
const DATA: &str = "data.mdb";

/// Entries one after the other.
type Entries<'s> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Failure>> + 's>;

/// A table of the store.
struct Kept {
    name: Vec<u8>,
    /// LMDB's flags of its database.
    flags: u16,
    /// How it is opened, in a store of the tree.
    info: Option<TableInfo>,
    /// How many entries it has, about.
    entries: u64,
}

/// Makes an environment of LMDB of a store.
pub(super) fn run(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    check_vacant(&args.store)?;
    let source = Source::open(from)?;
    let (main, named) = parted(source.tables()?, args)?;
    let about = format!(
        "{}, to LMDB, the main database of the table {}: {}",
        super::full(from).display(),
        main.as_ref().map_or_else(|| "(none)".to_owned(), |main| shown(&main.name)),
        source.identity()
    );
    let part = Part::begin(&args.store, &about)?;
    let file = part.path().join(DATA);
    let made = write(&source, main.as_ref(), &named, &file)
        .and_then(|()| compare(&source, main.as_ref(), &named, part.path()));
    // A file that is not complete is of no use.
    let sums = made.inspect_err(|_| part.remove())?;
    part.publish(part.path(), &args.store)?;
    report(&sums, json)
}

/// The table that becomes the main database, if there is one, and the others.
fn parted(mut tables: Vec<Kept>, args: &Args) -> Result<(Option<Kept>, Vec<Kept>), Failure> {
    // In a store of our library with LMDB's interface the main database has no name.
    let wanted = match tables.iter().any(|table| table.name.is_empty()) {
        true => b"",
        false => &*args.main_table().0,
    };
    let is_alone = tables.len() == 1;
    let can_be_main = |table: &Kept| is_alone || Flags::can_hold_others(table.flags);
    let at = tables.iter().position(|table| table.name == wanted && can_be_main(table));
    let main = at.map(|at| tables.remove(at));
    for table in &tables {
        if let Some(wrong) = wrong_name(&table.name) {
            let name = shown(&table.name);
            return Err(Failure::other(format!(
                "LMDB cannot have a database with the name of the table \"{name}\": {wrong}"
            )));
        }
    }
    Ok((main, tables))
}

/// Writes all tables.
fn write(source: &Source, main: Option<&Kept>, named: &[Kept], path: &Path) -> Result<(), Failure> {
    let refused = |error| Failure::io("write to", path.display(), &error);
    let file = File::create(path).map_err(refused)?;
    let mut target = Target::new(file).map_err(refused)?;
    let progress = progress("converting", main, named);
    let mut put = 0;
    for table in named {
        progress.message(shown(&table.name));
        let mut database = Table::new(table.flags);
        for entry in source.entries(table)? {
            let (key, value) = entry?;
            let added = target.put(&mut database, &key, &value);
            added.map_err(|error| explained(error, table, &key, path))?;
            step(&progress, &mut put)?;
        }
        target.end(&table.name, database).map_err(refused)?;
    }
    let mut database = target.begin_main(main.map_or(0, |main| main.flags));
    if let Some(table) = main {
        progress.message(shown(&table.name));
        for entry in source.entries(table)? {
            let (key, value) = entry?;
            let added = target.put_main(&mut database, &key, &value);
            added.map_err(|error| explained(error, table, &key, path))?;
            step(&progress, &mut put)?;
        }
    }
    target.finish(database).map_err(|error| match error {
        Refused::Io(error) => refused(error),
        Refused::Entry(wrong) => Failure::other(format!("LMDB cannot hold the tables: {wrong}")),
    })
}

fn explained(error: Refused, table: &Kept, key: &[u8], path: &Path) -> Failure {
    match error {
        Refused::Io(error) => Failure::io("write to", path.display(), &error),
        Refused::Entry(wrong) => Failure::other(format!(
            "LMDB cannot hold the key \"{}\" of the table {}: {wrong}; nothing was made",
            shown(key),
            shown(&table.name)
        )),
    }
}

fn progress(doing: &'static str, main: Option<&Kept>, named: &[Kept]) -> Progress {
    let total = main.into_iter().chain(named).map(|table| table.entries).sum();
    Progress::new(doing, Unit::Items, Some(total))
}

/// Counts an entry, and now and then says how far it is.
fn step(progress: &Progress, done: &mut u64) -> Result<(), Failure> {
    *done += 1;
    progress.entry(*done, *done)
}

/// What a table and its database have in common.
struct Same<'t> {
    table: &'t [u8],
    sum: PairSum,
}

/// Reads both sides, entry by entry.
fn compare<'t>(
    source: &Source,
    main: Option<&'t Kept>,
    named: &'t [Kept],
    folder: &Path,
) -> Result<Vec<Same<'t>>, Failure> {
    let environment = Environment::open(folder).map_err(Failure::Other)?;
    let databases = environment.databases().map_err(Failure::Other)?;
    let progress = progress("comparing", main, named);
    let (mut same, mut done) = (Vec::new(), 0);
    for table in main.into_iter().chain(named) {
        let is_main = main.is_some_and(|main| std::ptr::eq(main, table));
        let name = (!is_main).then_some(&table.name);
        let database = databases.iter().find(|database| database.name.as_ref() == name);
        progress.message(shown(&table.name));
        let sum = compare_table(source, table, (&environment, database), &mut || {
            step(&progress, &mut done)
        })?;
        same.push(Same { table: &table.name, sum });
    }
    Ok(same)
}

/// The sum over a table, which its database must have, too. The main database is not shown where it
/// is empty.
fn compare_table(
    source: &Source,
    table: &Kept,
    (environment, database): (&Environment, Option<&Database>),
    step: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<PairSum, Failure> {
    let name = shown(&table.name);
    let differ = |key: &[u8]| {
        let key = shown(key);
        Failure::other(format!(
            "the table {name} differs from its database at the key \"{key}\"; nothing was made"
        ))
    };
    let (mut sums, mut ours) = ([PairSum::new(), PairSum::new()], source.entries(table)?);
    if let Some(database) = database {
        environment.for_each(database, &mut |key, value| {
            let (our_key, our_value) = match ours.next().transpose()? {
                Some(entry) if (key, value) == (&entry.0, &entry.1) => entry,
                _ => return Err(differ(key)),
            };
            sums[0].add(key, value);
            sums[1].add(&our_key, &our_value);
            step()
        })?;
    }
    if let Some((key, _)) = ours.next().transpose()? {
        return Err(differ(&key));
    }
    let [sum, our_sum] = sums;
    let counted = database.map_or(0, |database| database.entries);
    if sum != our_sum || sum.pairs() != counted {
        return Err(Failure::other(format!(
            "the table {name} and its database differ in their sums; nothing was made"
        )));
    }
    Ok(sum)
}

fn report(same: &[Same<'_>], json: bool) -> Result<Exit, Failure> {
    let table = |Same { table, sum }: &Same<'_>| {
        let hash = sums::written(sum);
        json!({ "name": shown(table), "values": sum.pairs(), "hash": hash })
    };
    let value = json!({ "tables": same.iter().map(table).collect::<Vec<Value>>() });
    json::answer(json, value, |out| {
        same.iter().try_for_each(|Same { table, sum }| {
            let (name, entries, hash) = (shown(table), sum.pairs(), sums::written(sum));
            writeln!(out, "{name}: {entries} entries on both sides, hash {hash}")
        })
    })
}

/// A store that is read: one state of it.
enum Source {
    Tree(Store, ReadTxn),
    Lsm(Reader),
}

impl Source {
    fn open(from: &Path) -> Result<Self, Failure> {
        Ok(match Engine::of(from) {
            Engine::Tree => {
                let store = StoreArg { store: face::store_at(from) }.read()?;
                let txn = store.begin_read()?;
                Self::Tree(store, txn)
            }
            Engine::Lsm => Self::Lsm(lsm::read_at(from)?),
        })
    }

    /// What tells this state of the store from others.
    fn identity(&self) -> String {
        match self {
            Self::Tree(store, txn) => part::state(Some(store.id()), txn.id()),
            // It may have no identity yet, and a reader gives it none.
            Self::Lsm(db) => part::state(db.id().ok(), db.newest_commit()),
        }
    }

    fn tables(&self) -> Result<Vec<Kept>, Failure> {
        let mut tables = Vec::new();
        match self {
            Self::Tree(_, txn) => {
                for info in txn.tables()? {
                    let name = info.name.clone();
                    let flags = Flags::of_lmdb(&info).map_err(|reason| {
                        let name = shown(&name);
                        Failure::other(format!("LMDB cannot hold the table {name}: {reason}"))
                    })?;
                    let entries = info.count.values;
                    tables.push(Kept { name, flags, info: Some(info), entries });
                }
            }
            Self::Lsm(db) => {
                for name in db.keyspaces()? {
                    let Some(space) = db.find_keyspace(&name)? else { continue };
                    let entries = db.estimate_count(&space, ..)?;
                    tables.push(Kept { name, flags: 0, info: None, entries });
                }
            }
        }
        Ok(tables)
    }

    /// The entries of a table in its order.
    fn entries(&self, table: &Kept) -> Result<Entries<'_>, Failure> {
        let missing = || hedgerow::Error::NoTable { name: table.name.clone() };
        Ok(match self {
            Self::Tree(_, txn) => {
                let info = table.info.as_ref().ok_or_else(missing)?;
                let mut cursor = txn.cursor(open::table_to_walk(txn, info)?)?;
                Box::new(std::iter::from_fn(move || {
                    let entry = cursor.next(txn).transpose()?;
                    Some(entry.map_err(Failure::from).map(|e| (e.key.to_vec(), e.value.to_vec())))
                }))
            }
            Self::Lsm(db) => {
                let space = db.find_keyspace(&table.name)?.ok_or_else(missing)?;
                Box::new(db.range(&space, ..)?.map(|entry| Ok(entry?)))
            }
        })
    }
}
