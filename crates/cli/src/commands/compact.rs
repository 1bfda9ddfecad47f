//! `compact`: makes the file smaller while it is in use.

use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::StoreArg;
use crate::progress::{Progress, Unit};
use crate::wait;

/// Move pages towards the front in small steps and cut the file, while others use it
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.write()?;
    drop(wait::begin_write(&store)?);
    let progress = Progress::new("compacting", Unit::Items, Some(0));
    let report = store.compact(&mut |done, total| progress.at_of(done, total))?;
    drop(progress);
    let (before, after, pages, steps) =
        (report.before, report.after, report.moved_pages, report.steps);
    let value = json!({ "before": before, "after": after, "moved_pages": pages, "steps": steps });
    json::answer(json, value, |out| {
        writeln!(out, "{before} bytes before, {after} after; {pages} pages moved in {steps} steps")
    })
}
