//! Opening stores and tables for a subcommand, with the hint that a person needs when they are not
//! there.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use hedgerow::tree::{
    Builder, Duplicates, Order, Paths, Snapshot, Store, Table, TableInfo, TableOptions,
};
use hedgerow::{Error, FileKind, Result as StoreResult, identify};

use crate::codec::{Format, shown};
use crate::exit::Failure;
use crate::leveldb;
use crate::lmdb_flags;
use crate::progress::{Progress, Unit};
use crate::signals;

/// The default table.
pub(crate) const MAIN: &str = "main";

/// The engines that a store may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// One file that counts: the default engine
    Tree,
    /// A directory, log-structured: for many writes, and for more data than fits in memory
    Lsm,
}

impl Engine {
    /// The engine of the store at a path, known by its files, even if some are missing; the tree if
    /// there is no store.
    pub(crate) fn of(path: &Path) -> Self {
        let path = &leveldb::face::store_at(path);
        let kinds = ["table", "log"].map(OsStr::new);
        let is_part = |name: &Path| name.extension().is_some_and(|kind| kinds.contains(&kind));
        let has_part = || {
            let entries = std::fs::read_dir(path).ok()?;
            let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
            names.find(|name| {
                let digits = Path::new(name).file_stem().and_then(OsStr::to_str);
                let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
                is_part(Path::new(name)) && digits.is_some_and(|d| d.len() >= 8 && is_number(d))
            })
        };
        match path.join("MANIFEST").is_file() || has_part().is_some() {
            true => Self::Lsm,
            false => Self::Tree,
        }
    }
}

/// The store that a subcommand works on.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArg {
    /// The store: a file, or a folder that holds one
    pub(crate) store: PathBuf,
}

/// The store and the table that a subcommand works on.
#[derive(Args, Clone, Debug)]
pub(crate) struct TableArg {
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// The table, in the text format
    #[arg(short, long, default_value = MAIN, value_name = "NAME", value_parser = parse_name)]
    pub(crate) table: Name,
}

/// A table's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) Vec<u8>);

/// Reads a table's name from the command line.
pub(crate) fn parse_name(written: &str) -> Result<Name, String> {
    Format::Text.decode(written.as_bytes()).map(Name)
}

/// Reads a key or value from the command line.
pub(crate) fn argument(written: &OsStr, format: Format, what: &str) -> Result<Vec<u8>, Failure> {
    format
        .decode(written.as_encoded_bytes())
        .map_err(|error| Failure::usage(format!("the {what} cannot be read: {error}")))
}

impl StoreArg {
    /// Opens the store for reading.
    pub(crate) fn read(&self) -> Result<Store, Failure> {
        self.open(Store::builder().read_only(true))
    }

    /// Opens the store for reading and writing.
    pub(crate) fn write(&self) -> Result<Store, Failure> {
        self.open(Store::builder())
    }

    fn open(&self, builder: Builder) -> Result<Store, Failure> {
        if !self.store.try_exists().unwrap_or(true) {
            let path = self.store.display();
            return Err(Failure::other(format!(
                "there is no store at {path}; make one with: hedgerow create {path}"
            )));
        }
        leveldb::check_not(&self.store)?;
        // Where a folder may not be searched, nobody knows what is in it.
        if let Err(error) = fs::metadata(Paths::of(&self.store).data)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return Err(Failure::io("open", self.store.display(), &error));
        }
        // After a power cut the log is replayed.
        let mut bar = None;
        let mut told = |done, most| {
            let new = || Progress::new("replaying the log", Unit::Bytes, Some(most));
            bar.get_or_insert_with(new).at(done);
        };
        let open = || builder.open_with_progress(&self.store, &mut told);
        let opened = signals::while_opening(open)?;
        Ok(watched(opened.map_err(|error| told_apart(&self.store, error))?))
    }
}

/// Says what a file is that is no store, where that is known.
fn told_apart(path: &Path, error: Error) -> Failure {
    if !matches!(error, Error::NotAStore { .. }) {
        return error.into();
    }
    let is_sqlite = || fs::File::open(path).is_ok_and(begins_as_sqlite);
    let what = match identify(path) {
        Ok(Some(FileKind::Lock)) => "it is the lock file of a store: name the store beside it",
        Ok(Some(FileKind::Lsm)) => "it is a file of a store of the engine lsm: name its folder",
        Ok(None) if is_sqlite() => "it is a file of SQLite's: `hedgerow sql` reads and writes it",
        _ => return error.into(),
    };
    Failure::from(error).and(what)
}

/// Whether a file begins as those of SQLite do.
fn begins_as_sqlite(mut file: fs::File) -> bool {
    let mut first = [0; 16];
    file.read_exact(&mut first).is_ok() && first == *b"SQLite format 3\0"
}

/// Creates a store.
pub(crate) fn create(builder: Builder, path: &Path) -> Result<Store, Failure> {
    leveldb::check_not(path)?;
    Ok(watched(builder.create(path)?))
}

/// Opens a store for reading and writing, or makes it with the options of `builder`. A file with
/// nothing in it, which is what is left of a store whose making was cut off, becomes one too.
pub(crate) fn write_or_create(builder: Builder, path: &Path) -> Result<Store, Failure> {
    if !path.exists() {
        return create(builder, path);
    }
    match (StoreArg { store: path.to_path_buf() }).write() {
        Err(failure) if path.is_file() => create(builder, path).map_err(|_| failure),
        opened => opened,
    }
}

/// Has Ctrl-C interrupt the store.
fn watched(store: Store) -> Store {
    signals::attach(store.interrupt());
    store
}

/// Opens a table whose keys will be compared with keys of the caller's.
pub(crate) fn table<S: Snapshot>(txn: &S, name: &Name) -> Result<Table, Failure> {
    match txn.table(&name.0) {
        Err(Error::TableOptions { .. }) if has_functions(&info(txn, name)?) => {
            Ok(table_to_walk(txn, &info(txn, name)?)?)
        }
        opened => opened.map_err(|error| explained(txn, error)),
    }
}

/// Whether this command has the functions of a table's orders.
fn has_functions(info: &TableInfo) -> bool {
    let has = |order: &str| OrderName::of(order).order().is_ok();
    has(&info.order) && (!info.duplicates || has(&info.value_order))
}

/// Whether a table can have the key: those in integer order have keys of one size.
pub(crate) fn check_key<S: Snapshot>(txn: &S, table: Table, key: &[u8]) -> Result<(), Failure> {
    if !matches!(txn.order(table)?, Order::Integer) {
        return Ok(());
    }
    let first = txn.nth(table, 0)?.map(|entry| entry.key.len());
    let sizes = first.map_or(vec![4, 8], |size| vec![size]);
    if sizes.contains(&key.len()) {
        return Ok(());
    }
    let (sizes, given) = (sizes.iter().map(usize::to_string).collect::<Vec<_>>(), key.len());
    Err(Failure::other(format!(
        "a key of {given} bytes: the keys of this table are integers of {} bytes, which \
         --key-format native32 and native64 write",
        sizes.join(" or ")
    )))
}

/// Opens a table that will only be walked and counted as a whole, which needs no comparison: so it
/// opens even where its order is a function of another program's.
pub(crate) fn table_to_walk<S: Snapshot>(txn: &S, info: &TableInfo) -> StoreResult<Table> {
    txn.table_with(&info.name, &options(info))
}

/// The options of a table.
pub(crate) fn options(info: &TableInfo) -> TableOptions {
    let options = TableOptions::new()
        .order(stand_in(&info.order))
        .prefix_compression(info.prefix_compression)
        .user_flags(info.user_flags);
    if !info.duplicates {
        return options;
    }
    let order = stand_in(&info.value_order);
    options.duplicates_in(match info.value_size {
        Some(size) => Duplicates::Fixed { size: Some(size), order },
        None => Duplicates::Any { order },
    })
}

/// The table's name, options and size, found without opening it.
pub(crate) fn info<S: Snapshot>(txn: &S, name: &Name) -> Result<TableInfo, Failure> {
    let found = txn.tables()?.into_iter().find(|info| info.name == name.0);
    found.ok_or_else(|| explained(txn, Error::NoTable { name: name.0.clone() }))
}

/// An order under its stored name; a function that this command does not have compares nothing.
fn stand_in(name: &str) -> Order {
    let name = OrderName::of(name);
    name.order().unwrap_or_else(|_| Order::custom(name.function(), |_, _| Ordering::Equal))
}

/// An order as [`TableInfo`] names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum OrderName {
    #[default]
    Bytewise,
    Reverse,
    Integer,
    /// A function of another program's, under this name.
    Custom(String),
}

impl OrderName {
    /// Reads what [`TableInfo`] shows.
    pub(crate) fn of(shown: &str) -> Self {
        match shown {
            "bytewise" => Self::Bytewise,
            "reverse" => Self::Reverse,
            "integer" => Self::Integer,
            custom => {
                let bare = custom.strip_prefix("custom(").and_then(|rest| rest.strip_suffix(')'));
                Self::Custom(unescaped(bare.unwrap_or(custom)))
            }
        }
    }

    /// The order of keys in LMDB's database with these flags, of which the reversed one goes first.
    pub(crate) fn of_lmdb_keys(is_integer: bool, is_reverse: bool) -> Self {
        if is_reverse { Self::Reverse } else { Self::of_lmdb_values(is_integer, false) }
    }

    /// The order of a key's values in LMDB's database with these flags, of which integers go first.
    pub(crate) fn of_lmdb_values(is_integer: bool, is_reverse: bool) -> Self {
        match (is_integer, is_reverse) {
            (true, _) => Self::Integer,
            (false, true) => Self::Reverse,
            (false, false) => Self::Bytewise,
        }
    }

    /// The name of its function; none of an order without one.
    fn function(&self) -> &str {
        match self {
            Self::Custom(name) => name,
            _ => "",
        }
    }

    /// The order, unless it is a function that this command does not have.
    pub(crate) fn order(&self) -> Result<Order, String> {
        match self {
            Self::Bytewise => Ok(Order::Bytewise),
            Self::Reverse => Ok(Order::Reverse),
            Self::Integer => Ok(Order::Integer),
            Self::Custom(name) if name == lmdb_flags::LEADING => Ok(lmdb_flags::leading()),
            Self::Custom(name) => Err(format!(
                "the order \"{name}\" is a function of another program's; give --order to keep the \
                 entries in another one"
            )),
        }
    }
}

/// Undoes [`u8::escape_ascii`], with which names of orders are shown.
fn unescaped(shown: &str) -> String {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = Format::Hex.decode(&[*high, *low]).unwrap_or_default();
                (digits.first().copied().unwrap_or(b'?'), after)
            }
            (b'\\', [other, after @ ..]) => (*other, after),
            (plain, after) => (plain, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Names the existing tables if the requested one does not exist.
fn explained<S: Snapshot>(txn: &S, error: Error) -> Failure {
    if !matches!(error, Error::NoTable { .. }) {
        return error.into();
    }
    let Ok(tables) = txn.tables() else { return error.into() };
    let names: Vec<&[u8]> = tables.iter().map(|info| info.name.as_slice()).collect();
    Failure::from(error).and(&hint(&names))
}

/// Which tables there are, for a user who asked for another one.
pub(crate) fn hint(names: &[&[u8]]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|name| shown(name)).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    match shown.len() {
        0 => "the store has no tables yet".to_owned(),
        _ => format!("the store's tables are: {}{more}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_orders_are_read_as_they_are_shown() {
        for name in ["plain", "\u{fc}ber", "tab\tquote\"\'back\\slash\r\n", ""] {
            let shown = format!("custom({})", name.as_bytes().escape_ascii());
            assert_eq!(OrderName::of(&shown), OrderName::Custom(name.to_owned()));
        }
        assert_eq!(OrderName::of("integer"), OrderName::Integer);
    }
}
