//! `diff`: what changed between two commits.

use std::path::Path;

use hedgerow::stream::AsChange;
use hedgerow::tree::{Bytes, Change, Diff, ReadTxn, Snapshot, Store, Table};
use serde_json::{Map, Value};

use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::json::{self, List};
use crate::open::{self, Name, StoreArg, parse_name};
use crate::output::Output;
use crate::signals;

/// Print what changed from a pinned commit to another one, or to the newest
///
/// Each line is a table, `-` or `+`, key and value, with tabs between them; a value that changed
/// takes two lines. Pages that both commits share are not read (engine lsm: tables that hold
/// nothing newer than the first commit).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The older commit, by the name of its pin; given twice, the newer one, too
    #[arg(long = "pin", value_name = "NAME", required = true, value_parser = parse_name)]
    pub(super) pins: Vec<Name>,
    /// Only this table [default: all that differ]
    #[arg(short, long, value_name = "NAME", value_parser = parse_name)]
    pub(super) table: Option<Name>,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    let (old, new) = match args.pins.as_slice() {
        [old] => (pinned(&store, old)?, store.begin_read()?),
        [old, new] => (pinned(&store, old)?, pinned(&store, new)?),
        _ => return Err(not_two()),
    };
    let mut printer = Printer::new(json, args.formats);
    match args.table {
        Some(table) => printer.changes(&table.0, changes(&old, &new, &table)?)?,
        None => {
            for change in Diff::tables(&old, &new)? {
                let name = Name(change.name().to_vec());
                printer.changes(&name.0, changes(&old, &new, &name)?)?;
            }
        }
    }
    printer.finish()
}

/// The message for another number of pins.
pub(super) fn not_two() -> Failure {
    Failure::usage("--pin is given once or twice")
}

fn pinned(store: &Store, name: &Name) -> Result<ReadTxn, Failure> {
    store.read_pin(&name.0)?.ok_or_else(|| no_pin(store.path(), name))
}

/// The message for a pin that is not there.
pub(super) fn no_pin(path: &Path, Name(name): &Name) -> Failure {
    let list = format!("list them with: hedgerow pin {} --list", path.display());
    Failure::other(format!("there is no pin {}; {list}", shown(name)))
}

/// What is different in a table.
fn changes<'t>(old: &'t ReadTxn, new: &'t ReadTxn, name: &Name) -> Result<Diff<'t>, Failure> {
    let tables = (table(old, name)?, table(new, name)?);
    if tables == (None, None) {
        return Err(hedgerow::Error::NoTable { name: name.0.clone() }.into());
    }
    Ok(Diff::of_tables((old, tables.0), (new, tables.1))?)
}

/// The table, if the commit has one of that name.
fn table(txn: &ReadTxn, name: &Name) -> Result<Option<Table>, Failure> {
    match txn.find_table(&name.0)? {
        Some(_) => open::table(txn, name).map(Some),
        None => Ok(None),
    }
}

/// Prints changes as lines or as one JSON array.
pub(super) struct Printer {
    list: List,
    shown: Shown,
}

impl Printer {
    pub(super) fn new(json: bool, formats: FormatArgs) -> Self {
        Self { list: List::new(json), shown: Shown::new(formats) }
    }

    /// Prints the changes of a table.
    pub(super) fn changes<C: AsChange>(
        &mut self,
        table: &[u8],
        changes: impl Iterator<Item = hedgerow::Result<C>>,
    ) -> Result<(), Failure> {
        let Self { list, shown } = self;
        for change in changes {
            signals::check()?;
            let change = change?;
            match list.is_json {
                true => list.push(&shown.object(table, &change.as_change())?)?,
                false => shown.lines(&mut list.out, table, &change.as_change())?,
            }
        }
        Ok(())
    }

    /// Ends the output.
    pub(super) fn finish(self) -> Result<Exit, Failure> {
        self.list.finish()
    }
}

/// How a change is shown.
pub(super) struct Shown {
    formats: FormatArgs,
    line: Vec<u8>,
}

impl Shown {
    pub(super) fn new(formats: FormatArgs) -> Self {
        Self { formats, line: Vec::new() }
    }

    /// As one line or two.
    pub(super) fn lines(
        &mut self,
        out: &mut Output,
        table: &[u8],
        change: &Change<'_>,
    ) -> Result<(), Failure> {
        let table = shown(table);
        let mut line = |sign, key: &Bytes<'_>, value: &Bytes<'_>| {
            self.line(out, &table, sign, &key.to_cow(), &value.to_cow())
        };
        match change {
            Change::Added { key, value } => line('+', key, value),
            Change::Removed { key, value } => line('-', key, value),
            Change::Changed { key, old, new } => {
                line('-', key, old)?;
                line('+', key, new)
            }
        }
    }

    fn line(
        &mut self,
        out: &mut Output,
        table: &str,
        sign: char,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Failure> {
        self.line.clear();
        self.line.extend_from_slice(format!("{table}\t{sign}\t").as_bytes());
        json::add_key(key, self.formats, &mut self.line)?;
        self.line.push(b'\t');
        json::add_value(value, self.formats.value(), &mut self.line)?;
        self.line.push(b'\n');
        out.bytes(&self.line)
    }

    /// As an object.
    pub(super) fn object(&self, table: &[u8], change: &Change<'_>) -> Result<Value, Failure> {
        let (kind, values) = match change {
            Change::Added { value, .. } => ("added", vec![("value", value)]),
            Change::Removed { value, .. } => ("removed", vec![("value", value)]),
            Change::Changed { old, new, .. } => ("changed", vec![("old", old), ("new", new)]),
        };
        let mut object = Map::new();
        object.insert("table".into(), shown(table).into());
        object.insert("change".into(), kind.into());
        object.extend([json::key_field(&change.key().to_cow(), self.formats)?]);
        for (name, value) in values {
            object.extend([json::value_field(name, &value.to_cow(), self.formats)?]);
        }
        Ok(Value::Object(object))
    }
}
