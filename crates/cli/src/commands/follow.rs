//! `follow`: what each commit changes.

use std::time::Duration;

use hedgerow::Error;
use hedgerow::stream::{Follow, Mark, Step};
use hedgerow::tree::{Snapshot, Store};
use serde_json::{Value, json};

use super::diff::Shown;
use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::open::{self, Name, StoreArg, parse_name};
use crate::output::Output;
use crate::range::RangeArgs;
use crate::{json, wait};

/// Print what is in a store, and then what each commit changes, until Ctrl-C
///
/// Each line is a table, `-` or `+`, key and value, with tabs between them; a value that changed
/// takes two lines. After the changes of a commit comes a line of the word `commit`, its number and
/// a mark. Commits that follow each other faster than they are printed come as one.
///
/// With a name, the store keeps what is needed to go on: the next `follow` of that name begins
/// where this one ended. `--forget` lets that go.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The follower's name, in the text format
    #[arg(value_parser = parse_name)]
    name: Option<Name>,
    /// Only this table [default: all]
    #[arg(short, long, value_name = "NAME", value_parser = parse_name)]
    table: Option<Name>,
    #[command(flatten)]
    range: RangeArgs,
    /// Leave out what is in the store now
    #[arg(long, conflicts_with = "name")]
    from_now: bool,
    /// Go on after the commit of this mark, which a follower of the name has printed
    #[arg(long, value_name = "MARK", requires = "name")]
    mark: Option<Mark>,
    /// End when nothing was committed for this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = wait::parse_seconds)]
    idle: Option<Duration>,
    /// Forget the follower of the name, so that the store keeps nothing for it
    #[arg(long, requires = "name", conflicts_with_all = ["table", "mark", "idle"])]
    forget: bool,
    #[command(flatten)]
    formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = match &args.name {
        Some(_) => args.store.write()?,
        None => args.store.read()?,
    };
    if args.forget {
        return forget(&store, &args, json);
    }
    let mut follow = begin(&store, &args)?;
    let mut out = Output::stdout();
    let mut printer = Shown::new(args.formats);
    loop {
        match follow.step(args.idle) {
            Ok(Some(step)) => print(&mut out, &mut printer, &step, json)?,
            Ok(None) => break,
            Err(Error::Interrupted) => {
                store.interrupt().set(false);
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // What was printed is not printed again.
    follow.done()?;
    out.finish()?;
    Ok(Exit::Done)
}

fn begin(store: &Store, args: &Args) -> Result<Follow, Failure> {
    let follow = match (&args.name, &args.mark) {
        (Some(Name(name)), Some(mark)) => Follow::named(store, name)?.resume(mark)?,
        (Some(Name(name)), None) => Follow::named(store, name)?,
        (None, _) if args.from_now => Follow::from_now(store)?,
        (None, _) => Follow::from_start(store),
    };
    let follow = follow.durable();
    let Some(name) = &args.table else {
        return match args.range.is_everything() {
            true => Ok(follow),
            false => Err(Failure::usage("a range of keys needs --table")),
        };
    };
    let txn = store.begin_read()?;
    // A table that is not there yet may come, in whatever order; then its keys are not checked.
    let keys = match txn.find_table(&name.0)? {
        Some(_) => {
            let table = open::table(&txn, name)?;
            args.range.keys(&txn, table, args.formats.key())?
        }
        None => args.range.bytewise_keys(args.formats.key())?,
    };
    Ok(follow.only(&name.0, keys))
}

/// Prints a step so that a reader sees all of it now.
fn print(out: &mut Output, printer: &mut Shown, step: &Step, json: bool) -> Result<(), Failure> {
    for table in step.tables()? {
        for change in step.changes(table.name())? {
            match json {
                true => line(out, &printer.object(table.name(), &change?)?)?,
                false => printer.lines(out, table.name(), &change?)?,
            }
        }
    }
    let (commit, mark) = (step.to(), step.mark().to_string());
    match json {
        true => line(out, &json!({ "commit": commit, "from": step.from(), "mark": mark }))?,
        false => writeln!(out, "commit\t{commit}\t{mark}")?,
    }
    out.flush()
}

/// An object on a line of its own.
fn line(out: &mut Output, object: &Value) -> Result<(), Failure> {
    writeln!(out, "{object}")
}

fn forget(store: &Store, args: &Args, json: bool) -> Result<Exit, Failure> {
    let Some(Name(name)) = &args.name else { return Ok(Exit::No) };
    drop(wait::begin_write(store)?);
    let is_forgotten = Follow::forget(store, name)?;
    let mut out = Output::stdout();
    match json {
        true => json::print(&mut out, &json!({ "forgotten": is_forgotten }))?,
        false if !is_forgotten => eprintln!("there is no follower {}", shown(name)),
        false => {}
    }
    out.finish()?;
    Ok(if is_forgotten { Exit::Done } else { Exit::No })
}
