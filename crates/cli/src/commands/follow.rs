//! `follow`: what each commit changes.

use std::time::Duration;

use hedgerow::stream::{AsChange as _, Follow, Followed, Mark, Step};
use hedgerow::tree::{Snapshot, Store};
use serde_json::json;

use super::diff::Shown;
use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::open::{self, Name, StoreArg, parse_name};
use crate::output::Output;
use crate::range::RangeArgs;
use crate::{json, signals, wait};

/// Print what is in a store, and then what each commit changes, until Ctrl-C
///
/// Each line is a table, `-` or `+`, key and value, with tabs between them; a value that changed
/// takes two lines. After the changes of a commit comes a line of the word `commit`, its number and
/// a mark. Commits that follow each other faster than they are printed come as one.
///
/// With a name, the store keeps what is needed to go on: the next `follow` of that name begins
/// where this one ended. `--forget` lets that go.
///
/// A store of the engine lsm is open in one process at a time: while this command has it, nobody
/// commits. So there it prints what was committed since, and ends.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The follower's name, in the text format
    #[arg(value_parser = parse_name)]
    pub(super) name: Option<Name>,
    /// Only this table [default: all]
    #[arg(short, long, value_name = "NAME", value_parser = parse_name)]
    pub(super) table: Option<Name>,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Leave out what is in the store now
    #[arg(long, conflicts_with = "name")]
    pub(super) from_now: bool,
    /// Go on after the commit of this mark, which a follower of the name has printed
    #[arg(long, value_name = "MARK", requires = "name")]
    pub(super) mark: Option<Mark>,
    /// End when nothing was committed for this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = wait::parse_seconds)]
    idle: Option<Duration>,
    /// Forget the follower of the name, so that the store keeps nothing for it
    #[arg(long, requires = "name", conflicts_with_all = ["table", "mark", "idle"])]
    pub(super) forget: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = match &args.name {
        Some(_) => args.store.write()?,
        None => args.store.read()?,
    };
    if args.forget {
        drop(wait::begin_write(&store)?);
        return forget(&store, &args, json);
    }
    let follow = begin(&store, &args)?;
    let waits = Waits { idle: args.idle, writer: &|| store.writer() };
    print_all(follow, &args, &waits, json)
}

/// What a follower waits for.
pub(super) struct Waits<'a> {
    /// For the next commit, this long.
    pub(super) idle: Option<Duration>,
    /// For this process, which writes to the store.
    pub(super) writer: &'a dyn Fn() -> Option<u32>,
}

impl Waits<'_> {
    /// Nothing: nobody else has the store.
    pub(super) const FOR_NOTHING: Self = Self { idle: Some(Duration::ZERO), writer: &|| None };
}

/// Prints all steps, until Ctrl-C.
pub(super) fn print_all<S: Followed>(
    mut follow: Follow<S>,
    args: &Args,
    waits: &Waits<'_>,
    json: bool,
) -> Result<Exit, Failure> {
    let mut out = Output::stdout();
    let (mut printer, mut is_given) = (Shown::new(args.formats), false);
    loop {
        match wait::writing(waits.writer, || follow.step(waits.idle)) {
            Ok(Some(step)) => {
                is_given = true;
                print(&mut out, &mut printer, &step, json)?;
            }
            Ok(None) => break,
            Err(Failure::Interrupted(_)) => {
                signals::calm();
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    if is_given {
        // What was printed is not printed again.
        wait::writing(waits.writer, || follow.done())?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn begin(store: &Store, args: &Args) -> Result<Follow, Failure> {
    let follow = begin_whole(store, args)?;
    let Some(name) = &args.table else { return Ok(follow) };
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

/// A follower of all tables.
pub(super) fn begin_whole<S: Followed>(store: &S, args: &Args) -> Result<Follow<S>, Failure> {
    if args.table.is_none() && !args.range.is_everything() {
        return Err(Failure::usage("a range of keys needs --table"));
    }
    let follow = match (&args.name, &args.mark) {
        (Some(Name(name)), Some(mark)) => Follow::named(store, name)?.resume(mark)?,
        (Some(Name(name)), None) => Follow::named(store, name)?,
        (None, _) if args.from_now => Follow::from_now(store)?,
        (None, _) => Follow::from_start(store),
    };
    Ok(follow.durable().write_timeout(wait::round()))
}

/// Prints a step so that a reader sees all of it now.
fn print<S: Followed>(
    out: &mut Output,
    printer: &mut Shown,
    step: &Step<S>,
    json: bool,
) -> Result<(), Failure> {
    for table in step.tables()? {
        for change in step.changes(table.name())? {
            let change = change?;
            match json {
                true => json::print(out, &printer.object(table.name(), &change.as_change())?)?,
                false => printer.lines(out, table.name(), &change.as_change())?,
            }
        }
    }
    let (commit, mark) = (step.to(), step.mark().to_string());
    match json {
        true => json::print(out, &json!({ "commit": commit, "from": step.from(), "mark": mark }))?,
        false => writeln!(out, "commit\t{commit}\t{mark}")?,
    }
    out.flush()
}

/// `--forget`.
pub(super) fn forget<S: Followed>(store: &S, args: &Args, json: bool) -> Result<Exit, Failure> {
    let Some(Name(name)) = &args.name else { return Ok(Exit::No) };
    let is_forgotten = Follow::forget(store, name)?;
    let if_not = format!("there is no follower {}", shown(name));
    json::outcome(json, json!({ "forgotten": is_forgotten }), is_forgotten, &if_not)
}
