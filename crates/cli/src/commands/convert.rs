//! `convert`: a store from another system's files, or from one of the other engine.

mod engines;
#[cfg(unix)]
mod leveldb;
#[cfg(unix)]
mod part;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::Name;

/// What came over: tables, and how many entries each has.
type Tables = Vec<(Name, u64)>;

/// Says what came over.
fn answer(tables: &Tables, json: bool) -> Result<Exit, Failure> {
    let table =
        |(name, entries): &(Name, u64)| json!({ "name": shown(&name.0), "values": entries });
    let value = json!({ "tables": tables.iter().map(table).collect::<Vec<Value>>() });
    json::answer(json, value, |out| {
        let mut lines = tables.iter();
        lines.try_for_each(|(name, entries)| writeln!(out, "{}: {entries} entries", shown(&name.0)))
    })
}

/// Make a store from a database of LMDB or LevelDB or of the other engine, or one for LevelDB
///
/// From LMDB, the entries of the main database go to the table "main", and each named database to a
/// table of its name, with its options. A store of the engine tree becomes one of the engine lsm,
/// and the other way round. The number of entries of each table is compared at the end.
///
/// A database of LevelDB becomes one of our library with LevelDB's interface; it is only read, and
/// every entry of both is compared at the end. --to-leveldb does the reverse with a table of a
/// store. Stopped or killed, the same command goes on where it came to: what came over so far is
/// beside the new store, in a folder of its name and ".part".
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// LMDB's folder (with its data.mdb) or data file
    #[arg(long, value_name = "PATH")]
    from_lmdb: Option<PathBuf>,
    /// A store
    #[arg(long, value_name = "STORE", conflicts_with_all = ["from_lmdb", "main_table"])]
    from: Option<PathBuf>,
    /// LevelDB's folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["from_lmdb", "from", "main_table"])]
    from_leveldb: Option<PathBuf>,
    /// Make a database of LevelDB, with the entries of one table
    #[arg(long, requires = "from", conflicts_with_all = ["from_lmdb", "from_leveldb"])]
    to_leveldb: bool,
    /// The table that becomes a database of LevelDB; by default the one of our library with
    /// LevelDB's interface, or "main"
    #[arg(long, requires = "to_leveldb", value_name = "NAME", value_parser = crate::open::parse_name)]
    table: Option<crate::open::Name>,
    /// The engine of what is made of a database of LevelDB
    #[arg(long, requires = "from_leveldb")]
    engine: Option<crate::open::Engine>,
    /// Leave out what is damaged in a database of LevelDB, and list it
    #[arg(long, requires = "from_leveldb")]
    salvage: bool,
    /// The new store
    store: PathBuf,
    /// The table that takes the entries of the main database, in the text format
    #[arg(long, default_value = crate::open::MAIN, value_name = "NAME",
        value_parser = crate::open::parse_name)]
    main_table: crate::open::Name,
    /// Store common beginnings of keys, and of the values of a key, once: the store is smaller, but
    /// programs that use it through LMDB's interface then get copies
    #[arg(long, requires = "from_lmdb")]
    prefix_compression: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    #[cfg(unix)]
    match (&args.from, &args.from_leveldb) {
        (Some(from), _) if args.to_leveldb => return leveldb::to_leveldb(from, &args, json),
        (None, Some(from)) => return leveldb::from_leveldb(from, &args, json),
        _ => {}
    }
    match (&args.from, &args.from_lmdb) {
        (Some(from), _) => engines::run(from, &args.store, json),
        (None, Some(from_lmdb)) => from_lmdb::run(from_lmdb, &args, json),
        (None, None) => Err(Failure::usage(
            "say what is converted: --from STORE (a store of the other engine), --from-lmdb PATH \
             (a database of LMDB), or --from-leveldb FOLDER (one of LevelDB); text goes through \
             `load`",
        )),
    }
}

#[cfg(not(feature = "lmdb"))]
mod from_lmdb {
    use std::path::Path;

    use super::Args;
    use crate::exit::{Exit, Failure};

    pub(super) fn run(from: &Path, args: &Args, _json: bool) -> Result<Exit, Failure> {
        let Args { store, main_table: _, prefix_compression: _, .. } = args;
        let (from, store) = (from.display(), store.display());
        Err(Failure::other(format!(
            "this build of hedgerow cannot read {from}: it was made without the feature \"lmdb\"; \
             either use one that has it, or: mdb_dump -a {from} | hedgerow load {store}"
        )))
    }
}

#[cfg(feature = "lmdb")]
mod from_lmdb {
    use std::path::Path;

    use hedgerow::tree::Store;

    use super::{Args, Tables, answer};
    use crate::codec::shown;
    use crate::draft::{self, Draft};
    use crate::exit::{Exit, Failure};
    use crate::lmdb::{Database, Environment};
    use crate::loader::{Fill, Loader, Target};
    use crate::open::{self, Name, OrderName};
    use crate::portable::{DuplicatesHeader, TableHeader};
    use crate::progress::{Progress, Unit};
    use crate::table_flags::TableFlags;

    pub(super) fn run(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
        let environment = Environment::open(from).map_err(Failure::Other)?;
        let databases = environment.databases().map_err(Failure::Other)?;
        check_names(&databases, &args.main_table)?;
        let draft = Draft::tree(&args.store)?;
        let store = draft::create(&draft)?;
        let total = databases.iter().map(|database| database.entries).sum();
        let progress = Progress::new("converting", Unit::Items, Some(total));
        let mut loader = Loader::new(store.clone(), false);
        for database in &databases {
            let (name, header) = (table_name(database, args), header(database, args));
            let options = header.options(&TableFlags::default()).map_err(Failure::Other)?;
            loader.begin_table(name.clone(), &Target::Exactly(&options))?;
            convert(&environment, database, &name, &mut loader, &progress)?;
        }
        loader.finish()?;
        drop((progress, loader));
        compare(&store, &databases, from, args)?;
        drop(store);
        draft.publish()?;
        report(&databases, args, json)?;
        Ok(Exit::Done)
    }

    fn table_name(database: &Database, args: &Args) -> Name {
        database.name.clone().map_or_else(|| args.main_table.clone(), Name)
    }

    fn check_names(databases: &[Database], main: &Name) -> Result<(), Failure> {
        let clash = databases.iter().any(|database| database.name.as_ref() == Some(&main.0));
        let has_main = databases.iter().any(|database| database.name.is_none());
        if clash && has_main {
            let main = shown(&main.0);
            return Err(Failure::other(format!(
                "there are both entries in the main database and a database named \"{main}\"; give \
                 the main one another table with --main-table"
            )));
        }
        Ok(())
    }

    fn convert(
        environment: &Environment,
        database: &Database,
        name: &Name,
        loader: &mut Loader,
        progress: &Progress,
    ) -> Result<(), Failure> {
        progress.message(shown(&name.0));
        environment.for_each(database, &mut |key, value| {
            loader.put(key, value)?;
            let put = loader.loaded().put;
            if put.is_multiple_of(1 << 12) {
                progress.at(put);
                crate::signals::check()?;
            }
            Ok(())
        })
    }

    /// LMDB's flags in our words. As in LMDB, keys and values are kept in one piece by default.
    fn header(database: &Database, args: &Args) -> TableHeader {
        let order = |integer: bool, reverse: bool| match (integer, reverse) {
            (true, _) => OrderName::Integer,
            (false, true) => OrderName::Reverse,
            (false, false) => OrderName::Bytewise,
        };
        let duplicates = database.duplicates.then(|| DuplicatesHeader {
            order: order(database.integer_values, database.reverse_values),
            fixed: database.fixed_values,
            size: None,
        });
        let order = order(database.integer_keys, database.reverse_keys);
        let prefix_compression = Some(args.prefix_compression);
        TableHeader { name: None, order, duplicates, prefix_compression, user_flags: 0 }
    }

    /// Every table must have the entries that its database says it has.
    fn compare(
        store: &Store,
        databases: &[Database],
        from: &Path,
        args: &Args,
    ) -> Result<(), Failure> {
        let txn = store.begin_read()?;
        for database in databases {
            let name = table_name(database, args);
            let count = open::info(&txn, &name)?.count.values;
            if count != database.entries {
                return Err(Failure::Other(format!(
                    "{}: LMDB counts {} entries in {}, but {count} came over; the file may be \
                     damaged, or written by a variant of LMDB with another page layout",
                    from.display(),
                    database.entries,
                    shown(&name.0),
                )));
            }
        }
        Ok(())
    }

    fn report(databases: &[Database], args: &Args, json: bool) -> Result<(), Failure> {
        let tables: Tables = databases
            .iter()
            .map(|database| (table_name(database, args), database.entries))
            .collect();
        answer(&tables, json).map(drop)
    }
}
