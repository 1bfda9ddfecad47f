//! The subcommands for stores of the engine lsm: what each does there, or why it cannot.

mod entries;
mod fill;
mod html;
mod pins;
mod portable;
mod salvage;
mod whole;

pub(super) use fill::Filler;
pub(super) use whole::new_store;

use std::path::Path;

use hedgerow::lsm::{Db, Keyspace, Options, Reader};
use hedgerow::{Error, Result as StoreResult};

use super::Command;
use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::leveldb::face::store_at;
use crate::open::{self, Name, StoreArg};
use crate::signals;
use crate::wait;

/// Runs a subcommand.
pub(crate) fn run(command: Command, json: bool) -> Result<Exit, Failure> {
    match command {
        Command::Create(args) => whole::create(&args, json),
        Command::Tables(args) => whole::tables(&args, json),
        Command::Put(args) => entries::put(&args, json),
        Command::Get(args) => entries::get(&args, json),
        Command::Delete(args) => entries::delete(&args, json),
        Command::Scan(args) => entries::scan(&args, json),
        Command::Count(args) => entries::count(&args, json),
        Command::Rank(_) => Err(counts_are_the_trees("rank")),
        Command::Nth(_) => Err(counts_are_the_trees("nth")),
        Command::Sample(_) => Err(counts_are_the_trees("sample")),
        Command::Stat(args) => whole::stat(&args, json),
        Command::Check(args) => whole::check(&args, json),
        Command::Salvage(args) => salvage::run(&args, json),
        Command::Copy(args) => whole::copy(&args, json),
        Command::Limit(_) => Err(Failure::usage(
            "a maximum size is for stores of the engine tree; this one is of the engine lsm",
        )),
        Command::Compact(args) => whole::compact(&args, json),
        Command::Pin(args) => pins::pin(&args, json),
        Command::Diff(args) => pins::diff(&args, json),
        Command::Follow(args) => pins::follow(&args, json),
        Command::Dump(args) => portable::dump(&args, json),
        Command::Load(args) => portable::load(&args, json),
        Command::Convert(args) => super::convert::run(args, json),
        Command::Demo(args) => super::demo::run(args, json),
        #[cfg(feature = "sql")]
        Command::Sql(args) => super::sql::run(args, json),
        Command::Completions(args) => super::completions::run(args),
        Command::Man(args) => super::man::run(args),
    }
}

fn counts_are_the_trees(subcommand: &str) -> Failure {
    Failure::other(format!(
        "a store of the engine lsm does not know where its entries stand, so there is no \
         {subcommand}; make one of the engine tree with: hedgerow convert --from OLD NEW"
    ))
}

/// The message for a table that this engine cannot have.
pub(super) fn only_plain(name: Option<&[u8]>) -> Failure {
    let name = name.map_or_else(String::new, |name| format!(" {}", shown(name)));
    Failure::other(format!(
        "a store of the engine lsm has tables in bytewise order with one value a key; the table\
         {name} is another kind"
    ))
}

/// Opens the store.
fn open(store: &StoreArg) -> Result<Db, Failure> {
    open_at(&store.store)
}

/// Opens the store at a path.
pub(super) fn open_at(path: &Path) -> Result<Db, Failure> {
    let path = &store_at(path);
    wait::opening(path, || Options::new().open(path))
}

/// Opens the store for reading: nothing is written for that.
fn read(store: &StoreArg) -> Result<Reader, Failure> {
    read_at(&store.store)
}

/// Opens the store at a path for reading.
pub(super) fn read_at(path: &Path) -> Result<Reader, Failure> {
    let path = &store_at(path);
    wait::opening(path, || Options::new().open_read_only(path))
}

/// A keyspace of a store that is read, which must be there.
fn keyspace(reader: &Reader, name: &Name) -> Result<Keyspace, Failure> {
    reader.find_keyspace(&name.0)?.map_or_else(|| missing(name, &reader.keyspaces()?), Ok)
}

/// A keyspace to be written to, which must be there.
fn keyspace_to_write(db: &Db, name: &Name) -> Result<Keyspace, Failure> {
    db.find_keyspace(&name.0)?.map_or_else(|| missing(name, &db.keyspaces()?), Ok)
}

fn missing(name: &Name, names: &[Vec<u8>]) -> Result<Keyspace, Failure> {
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    Err(Failure::from(Error::NoTable { name: name.0.clone() }).and(&open::hint(&names)))
}

/// The entries, until the user asks to stop.
pub(super) fn while_wanted(
    scan: impl Iterator<Item = StoreResult<(Vec<u8>, Vec<u8>)>>,
) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Failure>> {
    scan.map(|entry| signals::check().and_then(|()| Ok(entry?)))
}
