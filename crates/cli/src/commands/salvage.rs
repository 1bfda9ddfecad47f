//! `salvage`: copies what is still readable of a damaged store to a new one.

use std::path::PathBuf;

use hedgerow::tree::{Interrupt, Loss, SalvageReport, Store};
use serde_json::{Value, json};

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::signals;

/// Copy what is still readable of a damaged store to a new one
///
/// The old store is only read; no process may write to it at the same time. What cannot be read is
/// listed: table, first key, key after the last one, and how many entries were there according to
/// the counters above. After a power cut the commits of the redo log are replayed, as by an
/// opening. For a store of the engine lsm: file, byte, and the keys between which
/// something is missing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The damaged store: a file, a folder that holds one, or the folder of the engine lsm
    pub(super) old: PathBuf,
    /// The new store: a file that does not exist, or an empty folder
    pub(super) new: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let interrupt = Interrupt::default();
    signals::attach(interrupt.clone());
    let report = {
        let progress = Progress::new("reading pages", Unit::Items, Some(0));
        let mut told = |done, total| progress.at_of(done, total);
        Store::salvage(&args.old, &args.new, &interrupt, &mut told)?
    };
    let lost: Vec<String> = report.losses.iter().map(sentence).collect();
    let object = json.then(|| as_json(&report));
    if !json {
        let mut out = Output::stdout();
        notes(&report).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        out.finish()?;
    }
    show(object, &lost, (report.tables, report.entries))
}

/// Shows how many tables and entries were brought over, and what was lost; or that object.
pub(super) fn show(
    object: Option<Value>,
    lost: &[String],
    (tables, entries): (u64, u64),
) -> Result<Exit, Failure> {
    let mut out = Output::stdout();
    if let Some(object) = object {
        json::print(&mut out, &object)?;
    } else {
        lost.iter().try_for_each(|loss| writeln!(out, "lost: {loss}"))?;
        let verdict = match lost.len() {
            0 => "nothing was lost".to_owned(),
            1 => "1 loss".to_owned(),
            many => format!("{many} losses"),
        };
        writeln!(out, "{tables} tables, {entries} entries brought over: {verdict}")?;
    }
    out.finish()?;
    Ok(if lost.is_empty() { Exit::Done } else { Exit::No })
}

fn as_json(report: &SalvageReport) -> Value {
    let text = |bytes: &Vec<u8>| shown(bytes);
    let loss = |loss: &Loss| {
        json!({
            "table": text(&loss.table),
            "from": loss.from.as_ref().map(text),
            "to": loss.to.as_ref().map(text),
            "entries": loss.entries,
            "page": loss.page,
            "reason": loss.reason,
        })
    };
    let log = report.log.as_ref().map(|log| {
        json!({
            "commits": log.records,
            "last_commit": log.commit,
            "after_a_gap": log.apart,
            "unused": log.unused,
        })
    });
    let filled =
        report.filled.map(|(commit, entries)| json!({"commit": commit, "entries": entries}));
    json!({
        "complete": report.losses.is_empty(),
        "commit": report.commit,
        "log": log,
        "filled": filled,
        "tables": report.tables,
        "entries": report.entries,
        "lost": report.losses.iter().map(loss).collect::<Vec<_>>(),
    })
}

/// What was read besides the newest commit that has a meta record.
fn notes(report: &SalvageReport) -> Vec<String> {
    let log = report.log.as_ref().map(|log| {
        let (commits, last) = (log.records + log.apart, log.commit);
        format!("{commits} commits of the redo log were replayed, up to commit {last}")
    });
    let filled = report.filled.map(|(commit, entries)| {
        format!("commit {commit} is the newest that is surely whole; {entries} entries are from it")
    });
    log.into_iter().chain(filled).collect()
}

/// What was lost, for a person.
fn sentence(loss: &Loss) -> String {
    let text = |bytes: &[u8]| shown(bytes);
    let whose = match &loss.table[..] {
        [] => "of the store itself".to_owned(),
        name => format!("of table {}", text(name)),
    };
    let entries = loss.entries.map_or("all".to_owned(), |count| format!("{count} entries"));
    let range = match (&loss.from, &loss.to) {
        (None, None) => String::new(),
        (Some(from), Some(to)) if from == to => format!(" with key {}", text(from)),
        (Some(from), None) => format!(" from key {} on", text(from)),
        (None, Some(to)) => format!(" up to key {}", text(to)),
        (Some(from), Some(to)) => format!(" from key {} up to key {}", text(from), text(to)),
    };
    let page = loss.page.map_or(String::new(), |page| format!("page {page}: "));
    match (&loss.table[..], loss.entries) {
        ([], None) => format!("{page}{}", loss.reason),
        _ => format!("{entries} {whose}{range}: {page}{}", loss.reason),
    }
}
