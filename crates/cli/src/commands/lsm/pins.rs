//! Commits under a name, and what changes from one to another: pin, diff, follow.

use hedgerow::lsm::{Db, Diff, Pin, Snapshot};
use serde_json::{Value, json};

use super::super::{diff, follow, pin};
use super::{open, read};
use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::Name;

/// `pin`.
pub(super) fn pin(args: &pin::Args, is_json: bool) -> Result<Exit, Failure> {
    let Some(Name(name)) = &args.name else {
        return json::list(is_json, &read(&args.store)?.stat().pins, json, line);
    };
    let db = open(&args.store)?;
    if args.drop {
        let is_dropped = db.drop_pin(name)?;
        db.close()?;
        return pin::dropped(is_dropped, is_json);
    }
    let commit = db.pin(name)?;
    db.close()?;
    pin::made(name, commit, is_json)
}

/// A pin as a line.
pub(super) fn line(pin: &Pin) -> String {
    let (name, commit, age) = (shown(&pin.name), pin.commit, pin::age(pin.created));
    format!("{name}: commit {commit}, since {age:.1} s")
}

/// A pin as an object.
pub(super) fn json(pin: &Pin) -> Value {
    let (name, age) = (shown(&pin.name), pin::age(pin.created));
    json!({ "name": name, "commit": pin.commit, "age_seconds": age })
}

/// `diff`.
pub(super) fn diff(args: &diff::Args, json: bool) -> Result<Exit, Failure> {
    let db = open(&args.store)?;
    let (old, new) = match args.pins.as_slice() {
        [old] => (pinned(&db, old)?, db.snapshot()),
        [old, new] => (pinned(&db, old)?, pinned(&db, new)?),
        _ => return Err(diff::not_two()),
    };
    let mut printer = diff::Printer::new(json, args.formats);
    match &args.table {
        Some(Name(name)) => printer.changes(name, Diff::new(&old, &new, name)?)?,
        None => {
            for change in Diff::keyspaces(&old, &new)? {
                printer.changes(change.name(), Diff::new(&old, &new, change.name())?)?;
            }
        }
    }
    printer.finish()
}

fn pinned(db: &Db, name: &Name) -> Result<Snapshot, Failure> {
    db.read_pin(&name.0).ok_or_else(|| diff::no_pin(db.path(), name))
}

/// `follow`. Nobody commits while this has the store: so it does not wait.
pub(super) fn follow(args: &follow::Args, json: bool) -> Result<Exit, Failure> {
    let db = open(&args.store)?;
    if args.forget {
        return follow::forget(&db, args, json);
    }
    let mut follower = follow::begin_whole(&db, args)?;
    if let Some(Name(name)) = &args.table {
        follower = follower.only(name, args.range.bytewise_keys(args.formats.key())?);
    }
    let printed = follow::print_all(follower, args, &follow::Waits::FOR_NOTHING, json)?;
    db.close()?;
    Ok(printed)
}
