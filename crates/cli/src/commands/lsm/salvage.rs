//! `salvage`: copies what is still readable of a damaged store to a new one.

use hedgerow::Error;
use hedgerow::lsm::{Loss, Options, SalvageReport};
use serde_json::{Value, json};

use super::super::salvage;
use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::leveldb::face::store_at;
use crate::progress::{Progress, Unit};
use crate::signals;

/// A keyspace and a key.
type Place = Option<(Vec<u8>, Vec<u8>)>;

/// Runs the subcommand.
pub(super) fn run(args: &salvage::Args, json: bool) -> Result<Exit, Failure> {
    let report = {
        let progress = Progress::new("reading files", Unit::Items, Some(0));
        let mut told = |done, total| {
            progress.at_of(done, total);
            if signals::is_raised() { Err(Error::Interrupted) } else { Ok(()) }
        };
        Options::new().salvage(store_at(&args.old), &args.new, &mut told)?
    };
    let lost: Vec<String> = report.losses.iter().map(sentence).collect();
    let object = json.then(|| as_json(&report));
    salvage::show(object, &lost, (report.keyspaces, report.entries))
}

fn as_json(report: &SalvageReport) -> Value {
    let place = |place: &Place| {
        place.as_ref().map(|(name, key)| json!({ "table": shown(name), "key": shown(key) }))
    };
    let loss = |loss: &Loss| {
        json!({
            "file": loss.path.display().to_string(),
            "offset": loss.offset,
            "reason": loss.reason,
            "entries": loss.count,
            "after": place(&loss.after),
            "before": place(&loss.before),
            "keys_known": loss.has_keys,
        })
    };
    json!({
        "complete": report.losses.is_empty(),
        "tables": report.keyspaces,
        "entries": report.entries,
        "lost": report.losses.iter().map(loss).collect::<Vec<_>>(),
    })
}

/// What was lost, for a person.
fn sentence(loss: &Loss) -> String {
    let count = match loss.count {
        Some(1) => "1 entry".to_owned(),
        Some(count) => format!("{count} entries"),
        None => "entries".to_owned(),
    };
    let key =
        |(name, key): &(Vec<u8>, Vec<u8>)| format!("key {} of table {}", shown(key), shown(name));
    let keys = match (&loss.after, &loss.before) {
        _ if !loss.has_keys => " of unknown keys".to_owned(),
        (Some(after), Some(before)) if after == before => format!(" with {}", key(after)),
        (Some(after), Some(before)) if loss.count.is_some() => {
            format!(" from {} to {}", key(after), key(before))
        }
        (Some(after), Some(before)) => format!(" between {} and {}", key(after), key(before)),
        (Some(after), None) => format!(" behind {}", key(after)),
        (None, Some(before)) => format!(" before {}", key(before)),
        (None, None) => " of any key".to_owned(),
    };
    let (path, offset) = (loss.path.display(), loss.offset);
    format!("{count}{keys}: {path}, byte {offset}: {}", loss.reason)
}
