//! `load`: tables from portable files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::tree::{Paths, Snapshot, Store};
use serde_json::json;

use crate::codec::{FormatArgs, shown};
use crate::draft::remove_tree;
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::json;
use crate::loader::{Fill, Loaded, Loader, Target};
use crate::open::{self, MAIN, Name, StoreArg};
#[cfg(feature = "columns")]
use crate::portable::columns;
use crate::portable::{self, BadInput, Event, Fields, Portable, Reader, TableHeader};
use crate::progress::{Progress, Unit};
use crate::signals;
use crate::sums::{SumArg, Sums};
use crate::table_flags::TableFlags;
use crate::wait;

/// Read tables from portable text, Arrow or Parquet files: what `dump` or another program wrote
///
/// The store and its tables are made if they do not exist. Entries are committed in batches: after
/// an error, or Ctrl-C, what was committed is kept and reported.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The file to read; `-` is standard input
    #[arg(default_value = "-")]
    pub(super) from: PathBuf,
    /// The table to fill, if the input names none [default: main]
    #[arg(short, long, value_name = "NAME", value_parser = open::parse_name)]
    pub(super) table: Option<Name>,
    /// The format
    #[arg(long = "as", value_enum, default_value_t, value_name = "PORTABLE")]
    pub(super) portable: Portable,
    /// Existing keys keep their values, also those that this input has just put: of several values
    /// of a key the first one is loaded, as by `mdb_load -N`
    #[arg(short, long)]
    pub(super) keep: bool,
    #[command(flatten)]
    pub(super) sum: SumArg,
    #[command(flatten)]
    pub(super) flags: TableFlags,
    #[command(flatten)]
    pub(super) fields: Fields,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    args.check()?;
    let input = Input::open(&args.from)?;
    let is_new = !args.store.store.exists();
    let store = open::write_or_create(Store::builder(), &args.store.store)?;
    let loaded = load(&args, input, Box::new(Loader::new(store.clone(), args.keep)), json);
    if loaded.is_err() && is_new {
        remove_if_unused(&store, &args.store.store);
    }
    loaded
}

/// Removes a new store that stayed empty, unless another process has it open. While this one has
/// the turn to write, nobody else commits. A process that opens it just between the look and the
/// removal is not seen.
fn remove_if_unused(store: &Store, path: &Path) {
    signals::calm();
    let Ok(Some(turn)) = store.begin_write_within(Duration::ZERO) else { return };
    let is_empty = turn.tables().is_ok_and(|tables| tables.is_empty());
    if is_empty && wait::holder(&Paths::of(path).lock).is_none() {
        remove_tree(path);
    }
}

impl Args {
    /// Whether the arguments fit together.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.store.store == Path::new("-") {
            return Err(Failure::usage(
                "the store comes first; - for standard input comes behind it, or is left out",
            ));
        }
        if self.portable == Portable::Mdb && self.flags.duplicates {
            let what = "a dump of --as mdb says itself which tables have duplicates";
            return Err(Failure::usage(what));
        }
        self.fields.check(self.portable).map_err(Failure::Usage)
    }
}

/// Loads into a store of any engine.
pub(super) fn load(
    args: &Args,
    input: Input,
    fill: Box<dyn Fill>,
    json: bool,
) -> Result<Exit, Failure> {
    let (loaded, sums) = Load::new(args, input, fill).run()?;
    let (entries, kept, tables) = (loaded.committed, loaded.kept, loaded.tables);
    let mut value = json!({ "entries": entries, "kept": kept, "tables": tables });
    if let Some(sums) = sums.to_json() {
        value["sums"] = sums;
    }
    if !json {
        sums.say();
    }
    json::answer(json, value, |_| Ok(()))
}

/// Reads the input.
fn reader(input: Input, args: &Args) -> Box<dyn Reader> {
    #[cfg(feature = "columns")]
    let input = match input {
        Input { regular: Some(file), .. } if args.portable.has_columns() => {
            let input = columns::Input::File(file);
            let (portable, formats) = (args.portable, args.formats);
            return Box::new(columns::Reader::new(input, portable, formats, &args.fields));
        }
        other => other,
    };
    portable::reader(Box::new(input), args.portable, args.formats, &args.fields)
}

/// A load under way.
struct Load<'a> {
    args: &'a Args,
    input_name: String,
    reader: Box<dyn Reader>,
    loader: Box<dyn Fill>,
    progress: Progress,
    sums: Sums,
    bytes: Arc<AtomicU64>,
    committed_line: u64,
}

impl<'a> Load<'a> {
    fn new(args: &'a Args, input: Input, loader: Box<dyn Fill>) -> Self {
        Self {
            args,
            input_name: input.name.clone(),
            progress: Progress::new("loading", Unit::Bytes, input.length),
            sums: Sums::new(args.sum),
            bytes: input.counter(),
            reader: reader(input, args),
            loader,
            committed_line: 0,
        }
    }

    fn run(mut self) -> Result<(Loaded, Sums), Failure> {
        let loaded = self.entries().and_then(|()| self.loader.finish());
        match loaded {
            Ok(loaded) => Ok((loaded, self.sums)),
            Err(failure) => {
                self.loader.give_up();
                Err(self.told(failure))
            }
        }
    }

    fn entries(&mut self) -> Result<(), Failure> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if self.args.portable != Portable::Mdb {
            self.begin_headless()?;
        }
        loop {
            match self.reader.next(&mut key, &mut value).map_err(|bad| self.bad(bad))? {
                Event::End => return Ok(()),
                Event::Table(header) => self.begin_table(header)?,
                Event::Entry => {
                    self.sums.add(&key, &value);
                    if self.loader.put(&key, &value).map_err(|failure| self.at_line(failure))? {
                        self.committed_line = self.reader.line();
                    }
                    self.step()?;
                }
            }
        }
    }

    /// A table of a format that says nothing about tables.
    fn begin_headless(&mut self) -> Result<(), Failure> {
        let name = self.args.table.clone().unwrap_or_else(|| Name(MAIN.into()));
        let options = self.args.flags.options();
        let target = match self.args.flags.any() {
            true => Target::Exactly(&options, 0),
            false => Target::AsItIs,
        };
        self.sums.begin_table(&name.0);
        self.loader.begin_table(name, &target)
    }

    fn begin_table(&mut self, header: TableHeader) -> Result<(), Failure> {
        if self.loader.is_plain() && !header.is_plain(&self.args.flags) {
            return Err(self.at_line(super::lsm::only_plain(header.name.as_deref())));
        }
        let options = header.options(&self.args.flags).map_err(Failure::Other);
        let options = options.map_err(|failure| self.at_line(failure))?;
        let given = self.args.table.clone();
        let name = header.name.map(Name).or(given).unwrap_or_else(|| Name(MAIN.into()));
        self.progress.message(shown(&name.0));
        self.sums.begin_table(&name.0);
        let target = Target::Exactly(&options, header.user_flags);
        let begun = self.loader.begin_table(name, &target);
        begun.map_err(|failure| self.at_line(failure))
    }

    fn step(&self) -> Result<(), Failure> {
        let loaded = self.loader.loaded();
        self.progress.entry(loaded.put + loaded.kept, self.bytes.load(Ordering::Relaxed))
    }

    fn bad(&self, BadInput { line, reason }: BadInput) -> Failure {
        if signals::is_raised() {
            return Failure::Interrupted(None);
        }
        Failure::Other(format!("{}, {} {line}: {reason}", self.input_name, self.reader.unit()))
    }

    fn at_line(&self, failure: Failure) -> Failure {
        let place = format!("{}, {} {}", self.input_name, self.reader.unit(), self.reader.line());
        match failure {
            Failure::Store(error) => Failure::Other(format!("{place}: {error}")),
            Failure::Other(message) => Failure::Other(format!("{place}: {message}")),
            other => other,
        }
    }

    /// Adds what was committed: after a failure that is what a person must know.
    fn told(&self, failure: Failure) -> Failure {
        let committed = self.loader.loaded().committed;
        failure.and(&match committed {
            0 => "nothing of this input was committed; what was in the store before is unchanged"
                .to_owned(),
            _ => format!(
                "{committed} entries, up to {} {} of the input, are committed; nothing after it",
                self.reader.unit(),
                self.committed_line
            ),
        })
    }
}
