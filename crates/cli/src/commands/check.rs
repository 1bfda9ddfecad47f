//! `check`: verifies every page of a store.

use hedgerow::Error;
use hedgerow::tree::CheckReport;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::StoreArg;
use crate::progress::{Progress, Unit};

/// Verify every page, the order of the entries and every counter
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let report = match check(&args.store) {
        // Damage that stops the check is a finding, not a failure.
        Err(Failure::Store(error @ Error::Corrupt { .. })) => {
            CheckReport { problems: vec![error.to_string()], ..CheckReport::default() }
        }
        other => other?,
    };
    let sound = report.problems.is_empty();
    let (pages, entries) = (report.pages, report.entries);
    let (problems, notes) = (&report.problems, &report.notes);
    let value = json!({
        "sound": sound, "pages": pages, "entries": entries, "problems": problems, "notes": notes,
    });
    json::answer(json, value, |out| {
        problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
        notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
        let verdict = verdict(problems.len());
        match (sound, pages) {
            (true, _) => writeln!(out, "{pages} pages, {entries} entries: {verdict}"),
            (false, 0) => writeln!(out, "nothing could be counted: {verdict}"),
            (false, _) => {
                writeln!(out, "{pages} pages, {entries} entries could be read: {verdict}")
            }
        }
    })?;
    Ok(if sound { Exit::Done } else { Exit::No })
}

/// How many problems there are, in words.
pub(super) fn verdict(problems: usize) -> String {
    match problems {
        0 => "all is well".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    }
}

fn check(store: &StoreArg) -> Result<CheckReport, Failure> {
    let store = store.read()?;
    let progress = Progress::new("checking pages", Unit::Items, Some(0));
    Ok(store.check(&mut |done, total| progress.at_of(done, total))?)
}
