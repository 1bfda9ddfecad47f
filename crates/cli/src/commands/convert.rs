//! `convert`: a store from another system's files, or from one of the other engine; and back.

mod engines;
#[cfg(feature = "lmdb")]
mod from_lmdb;
mod leveldb;
mod part;
#[cfg(feature = "lmdb")]
mod to_lmdb;

use std::path::{Path, PathBuf};

use hedgerow::{FileKind, identify};
use serde_json::{Value, json};

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leveldb::face::is_face;
use crate::open::Name;

/// A path in full, as far as that can be said.
fn full(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

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

/// Make a store from a database of LMDB or LevelDB or of the other engine, or one for them
///
/// From LMDB, the entries of the main database go to the table "main", and each named database to a
/// table of its name, with its options. A database of LevelDB becomes one of our library with
/// LevelDB's interface; --to-leveldb does the reverse with a table of a store. The source is only
/// read, and every entry of both is compared at the end. Stopped or killed, the same command goes
/// on where it came to: what came over so far is beside the new store, in a folder of its name and
/// ".part".
///
/// --to-lmdb does the reverse of --from-lmdb: a folder with a data.mdb, in which the table "main" is
/// the main database (in a store of our library with LMDB's interface the one without a name is).
/// Where that table cannot have the others in it, as LMDB keeps them, it is a named database.
/// Killed, the same command begins anew; stopped or refused, nothing is left.
///
/// A store of the engine tree becomes one of the engine lsm, and the other way round. The number of
/// entries of each table is compared at the end. Killed, the same command begins anew; what it had
/// made stays beside the new store, with a number and ".part" after its name, and may be removed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// LMDB's folder (with its data.mdb) or data file. It may be in use by programs with LMDB
    /// 0.9.70, whose lock file is taken part in; other versions have locks of another form. LMDB's
    /// own code reads it, and trusts it: damage inside it may end the command by a signal
    #[arg(long, value_name = "PATH")]
    from_lmdb: Option<PathBuf>,
    /// A store
    #[arg(long, value_name = "STORE", conflicts_with = "from_lmdb")]
    from: Option<PathBuf>,
    /// LevelDB's folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["from_lmdb", "from", "main_table"])]
    from_leveldb: Option<PathBuf>,
    /// Make a database of LevelDB, with the entries of one table
    #[arg(long, requires = "from", conflicts_with_all = ["from_lmdb", "from_leveldb"])]
    to_leveldb: bool,
    /// Make an environment of LMDB, with all tables
    #[arg(long, requires = "from", conflicts_with_all = ["from_lmdb", "from_leveldb",
        "to_leveldb"])]
    to_lmdb: bool,
    /// The table that becomes a database of LevelDB; by default the one of our library with
    /// LevelDB's interface, or "main"
    #[arg(long, requires = "to_leveldb", value_name = "NAME", value_parser = crate::open::parse_name)]
    table: Option<Name>,
    /// The engine of what is made of a database of LevelDB [default: lsm]
    #[arg(long, requires = "from_leveldb")]
    engine: Option<crate::open::Engine>,
    /// Leave out what is damaged in a database of LevelDB, and list it
    #[arg(long, requires = "from_leveldb")]
    salvage: bool,
    /// The new store
    store: PathBuf,
    /// The table that has the entries of LMDB's main database, in the text format [default: main]
    #[arg(long, value_name = "NAME", value_parser = crate::open::parse_name)]
    main_table: Option<Name>,
    /// Store common beginnings of keys, and of the values of a key, once: the store is smaller, but
    /// programs that use it through LMDB's interface then get copies
    #[arg(long, requires = "from_lmdb")]
    prefix_compression: bool,
}

#[cfg(feature = "lmdb")]
impl Args {
    /// The table that has the entries of LMDB's main database.
    fn main_table(&self) -> Name {
        self.main_table.clone().unwrap_or_else(|| Name(crate::open::MAIN.into()))
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    if args.main_table.is_some() && args.from.is_some() && !args.to_lmdb {
        return Err(Failure::usage("--main-table is for --from-lmdb and --to-lmdb"));
    }
    let of_others = [&args.from_lmdb, &args.from_leveldb];
    of_others.into_iter().flatten().try_for_each(|from| refuse_store(from))?;
    match (&args.from, &args.from_leveldb) {
        (Some(from), _) if args.to_leveldb => return leveldb::to_leveldb(from, &args, json),
        (None, Some(from)) => return leveldb::from_leveldb(from, &args, json),
        _ => {}
    }
    match (&args.from, &args.from_lmdb) {
        (Some(from), _) if args.to_lmdb => to_lmdb::run(from, &args, json),
        (Some(from), _) => engines::run(from, &args.store, json),
        (None, Some(from_lmdb)) => from_lmdb::run(from_lmdb, &args, json),
        (None, None) => Err(Failure::usage(
            "say what is converted: --from STORE (a store, to the other engine or with --to-lmdb \
             or --to-leveldb), --from-lmdb PATH (a database of LMDB), or --from-leveldb FOLDER \
             (one of LevelDB); text goes through `load`",
        )),
    }
}

/// Refuses a store where a database of another library is meant.
fn refuse_store(from: &Path) -> Result<(), Failure> {
    let is_store = |path: &Path| matches!(identify(path), Ok(Some(FileKind::Tree | FileKind::Lsm)));
    let inside = ["data.hdg", "data.mdb", "MANIFEST"].map(|name| from.join(name));
    if is_face(from) || !(is_store(from) || inside.iter().any(|path| is_store(path))) {
        return Ok(());
    }
    let from = from.display();
    Err(Failure::other(format!("{from} is a store already, which is converted with --from {from}")))
}

#[cfg(not(feature = "lmdb"))]
mod to_lmdb {
    use std::path::Path;

    use super::Args;
    use crate::exit::{Exit, Failure};

    pub(super) fn run(from: &Path, args: &Args, _json: bool) -> Result<Exit, Failure> {
        let (from, to) = (from.display(), args.store.display());
        Err(Failure::other(format!(
            "this build of hedgerow cannot write a database of LMDB: it was made without the \
             feature \"lmdb\"; either use one that has it, or: hedgerow dump {from} --all | \
             mdb_load {to}"
        )))
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
