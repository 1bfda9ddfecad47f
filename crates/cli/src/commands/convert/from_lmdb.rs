//! From LMDB: every database of an environment to a table of a new store.
//!
//! The store is made beside its place. Stopped or killed, the same command goes on where it came
//! to: entries come in order, so that how many a table has says how far that is.

use std::path::Path;

use hedgerow::tree::{Builder, Snapshot, Store};

use super::part::Part;
use super::{Args, Tables, answer};
use crate::codec::shown;
use crate::draft;
use crate::exit::{Exit, Failure};
use crate::lmdb::{Database, Environment};
use crate::loader::{Fill, Loader, Target};
use crate::open::{self, Name, OrderName, StoreArg};
use crate::portable::{DuplicatesHeader, TableHeader};
use crate::progress::{Progress, Unit};
use crate::signals;
use crate::table_flags::TableFlags;

/// The store while it is being made.
const STORE: &str = "data.hdg";

pub(super) fn run(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    let environment = Environment::open(from).map_err(Failure::Other)?;
    let databases = environment.databases().map_err(Failure::Other)?;
    let main = args.main_table();
    check_names(&databases, &main)?;
    let to = draft::free_file(&args.store)?;
    let total = databases.iter().map(|database| database.entries).sum();
    let about = format!(
        "{} of LMDB, the main database to the table {}, prefix compression {}: commit {}, {total} \
         entries",
        super::full(from).display(),
        shown(&main.0),
        args.prefix_compression,
        environment.commit(),
    );
    let part = Part::begin(&to, &about)?;
    let place = part.path().join(STORE);
    let compared = fill(&environment, &databases, &place, args, total).and_then(|()| {
        let store = StoreArg { store: place.clone() }.read()?;
        compare(&store, &environment, &databases, from, args)
    });
    match compared.map_err(|failure| part.kept(failure))? {
        None => part.publish(&place, &to)?,
        Some(differ) => {
            part.remove();
            return Err(differ);
        }
    }
    report(&databases, args, json)?;
    Ok(Exit::Done)
}

fn table_name(database: &Database, args: &Args) -> Name {
    database.name.clone().map_or_else(|| args.main_table(), Name)
}

fn check_names(databases: &[Database], main: &Name) -> Result<(), Failure> {
    let clash = databases.iter().any(|database| database.name.as_ref() == Some(&main.0));
    let has_main = databases.iter().any(|database| database.name.is_none());
    if clash && has_main {
        let main = shown(&main.0);
        return Err(Failure::other(format!(
            "there are both entries in the main database and a database named \"{main}\"; give the \
             main one another table with --main-table"
        )));
    }
    Ok(())
}

/// Puts the entries that are not there yet into a store.
fn fill(
    environment: &Environment,
    databases: &[Database],
    place: &Path,
    args: &Args,
    total: u64,
) -> Result<(), Failure> {
    let store = open::write_or_create(Builder::new(), place)?;
    let progress = Progress::new("converting", Unit::Items, Some(total));
    let mut loader = Loader::new(store.clone(), false);
    let put = databases.iter().try_for_each(|database| {
        let name = table_name(database, args);
        let there = store.begin_read()?.tables()?.into_iter().find(|info| info.name == name.0);
        progress.message(shown(&name.0));
        let Some(there) = there.map(|info| info.count.values) else {
            let options = header(database, args).options(&TableFlags::default());
            let options = options.map_err(Failure::Other)?;
            loader.begin_table(name, &Target::Exactly(&options, 0))?;
            return convert(environment, database, 0, &mut loader, &progress);
        };
        if there == database.entries {
            return Ok(());
        }
        loader.begin_table(name, &Target::AsItIs)?;
        convert(environment, database, there, &mut loader, &progress)
    });
    // What was put before a failure need not be put again.
    signals::calm();
    put.and(loader.finish().map(drop))
}

/// Puts the entries of a database after the first ones.
fn convert(
    environment: &Environment,
    database: &Database,
    mut skip: u64,
    loader: &mut Loader,
    progress: &Progress,
) -> Result<(), Failure> {
    environment.for_each(database, &mut |key, value| {
        if skip > 0 {
            skip -= 1;
            return Ok(());
        }
        loader.put(key, value)?;
        let put = loader.loaded().put;
        progress.entry(put, put)
    })
}

/// LMDB's flags in our words. As in LMDB, keys and values are kept in one piece by default.
fn header(database: &Database, args: &Args) -> TableHeader {
    let duplicates = database.duplicates.then(|| DuplicatesHeader {
        order: OrderName::of_lmdb_values(database.integer_values, database.reverse_values),
        fixed: database.fixed_values,
        size: None,
    });
    let order = OrderName::of_lmdb_keys(database.integer_keys, database.reverse_keys);
    let prefix_compression = Some(args.prefix_compression);
    TableHeader { name: None, order, duplicates, prefix_compression, user_flags: 0 }
}

/// Every table must have the entries of its database. Gives what is to be said where it has not.
fn compare(
    store: &Store,
    environment: &Environment,
    databases: &[Database],
    from: &Path,
    args: &Args,
) -> Result<Option<Failure>, Failure> {
    let txn = store.begin_read()?;
    let total = databases.iter().map(|database| database.entries).sum();
    let progress = Progress::new("comparing", Unit::Items, Some(total));
    let mut compared = 0_u64;
    for database in databases {
        let name = table_name(database, args);
        let info = open::info(&txn, &name)?;
        let (count, name) = (info.count.values, shown(&name.0));
        if count != database.entries {
            return Ok(Some(Failure::Other(format!(
                "{}: LMDB counts {} entries in {name}, but {count} came over; the file may be \
                 damaged, or written by a variant of LMDB with another page layout",
                from.display(),
                database.entries,
            ))));
        }
        let table = open::table_to_walk(&txn, &info)?;
        let (mut cursor, mut differs) = (txn.cursor(table)?, false);
        let seen = environment.for_each(database, &mut |key, value| {
            let ours = cursor.next(&txn)?;
            if !ours.is_some_and(|ours| ours.key == *key && ours.value == *value) {
                differs = true;
                let key = shown(key);
                return Err(Failure::other(format!(
                    "the table {name} differs from its database at the key \"{key}\"; nothing was \
                     made"
                )));
            }
            compared += 1;
            progress.entry(compared, compared)
        });
        match seen {
            Err(failure) if differs => return Ok(Some(failure)),
            seen => seen?,
        }
    }
    Ok(None)
}

fn report(databases: &[Database], args: &Args, json: bool) -> Result<(), Failure> {
    let tables: Tables =
        databases.iter().map(|database| (table_name(database, args), database.entries)).collect();
    answer(&tables, json).map(drop)
}
