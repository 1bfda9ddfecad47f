//! Entries: put, get, delete, scan, count.

use serde_json::json;

use super::super::{count, delete, get, put, scan};
use super::{keyspace, keyspace_to_write, open, read, while_wanted};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{MAIN, argument};
use crate::output::Output;
use crate::signals;
use crate::tell::tell;
use hedgerow::Error;
use hedgerow::lsm::Readable;
use hedgerow::stream::Scan;
use std::sync::Arc;

/// `put`.
pub(super) fn put(args: &put::Args, json: bool) -> Result<Exit, Failure> {
    let (key, value) = args.pair()?;
    let db = open(&args.table.store)?;
    let name = &args.table.table;
    let space = match args.create_table || name.0 == MAIN.as_bytes() {
        true => db.keyspace(&name.0, Default::default())?,
        false => keyspace_to_write(&db, name)?,
    };
    let is_put = !args.new || db.get(&space, &key)?.is_none();
    if is_put {
        db.put(&space, &key, &value)?;
    }
    db.close()?;
    json::outcome(json, json!({ "put": is_put }), is_put, put::PUT_NOTHING)
}

/// `get`.
pub(super) fn get(args: &get::Args, json: bool) -> Result<Exit, Failure> {
    let key = argument(&args.key, args.formats.key(), "key")?;
    let db = read(&args.table.store)?;
    let value = db.get(&keyspace(&db, &args.table.table)?, &key)?;
    let mut out = Output::stdout();
    match &value {
        Some(value) if args.raw => out.bytes(value)?,
        None if !json => tell!("not found"),
        _ => get::print_values(value.as_slice(), args.formats.value(), json, &mut out)?,
    }
    out.finish()?;
    Ok(if value.is_some() { Exit::Done } else { Exit::No })
}

/// `delete`.
pub(super) fn delete(args: &delete::Args, json: bool) -> Result<Exit, Failure> {
    if args.value.is_some() {
        return Err(Failure::usage("a table of the engine lsm has one value a key: give no value"));
    }
    let db = open(&args.table.store)?;
    let space = keyspace_to_write(&db, &args.table.table)?;
    let (is_found, about) = match &args.key {
        Some(key) => {
            let key = argument(key, args.formats.key(), "key")?;
            let is_found = db.get(&space, &key)?.is_some();
            db.delete(&space, &key)?;
            (is_found, u64::from(is_found))
        }
        None => {
            let keys = args.range.bytewise_keys(args.formats.key())?;
            let is_found = db.range(&space, &keys)?.keys_only().next().transpose()?.is_some();
            let about = db.estimate_count(&space, &keys)?;
            db.delete_range(&space, &keys)?;
            (is_found, about)
        }
    };
    db.close()?;
    let value = json!({ "found": is_found, "deleted": { "about": about } });
    json::outcome(json, value, is_found, "not found")
}

/// `scan`.
pub(super) fn scan(args: &scan::Args, json: bool) -> Result<Exit, Failure> {
    if args.is_part() {
        return part(args, json);
    }
    let db = read(&args.store)?;
    let space = keyspace(&db, &args.table())?;
    let keys = args.range.bytewise_keys(args.formats.key())?;
    let mut range = db.range(&space, &keys)?;
    if args.keys_only {
        range = range.keys_only();
    }
    let mut printer = scan::Printer::new(json, args.formats, args.keys_only);
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut next = || if args.reverse { range.next_back() } else { range.next() };
    for entry in while_wanted(std::iter::from_fn(&mut next)).take(limit) {
        let (key, value) = entry?;
        printer.print_pair(&key, &value)?;
    }
    printer.finish()
}

/// A part of a scan, of which the rest can follow.
fn part(args: &scan::Args, json: bool) -> Result<Exit, Failure> {
    // The first token of a store gives it an identity, which a reader cannot.
    let is_nameless = matches!(read(&args.store)?.id(), Err(Error::Argument { .. }));
    if is_nameless {
        let db = open(&args.store)?;
        db.id()?;
        db.close()?;
    }
    let db = Arc::new(read(&args.store)?);
    let scan = match &args.resume {
        Some(token) => scan::resumed(token, &db, args)?,
        None => {
            let name = args.table();
            keyspace(&db, &name)?;
            let scan = Scan::new(&name.0).range(args.range.bytewise_keys(args.formats.key())?);
            let scan = if args.reverse { scan.reverse() } else { scan };
            if args.keys_only { scan.keys_only() } else { scan }
        }
    };
    scan::print_part(scan, &db, args, json)
}

/// `count`.
pub(super) fn count(args: &count::Args, json: bool) -> Result<Exit, Failure> {
    if !args.estimate {
        return Err(Failure::other(
            "a store of the engine lsm does not count its entries: --estimate says about how many \
             there are; exactly: hedgerow scan --keys-only | wc -l, or a store of the engine tree \
             (hedgerow convert)",
        ));
    }
    let db = read(&args.table.store)?;
    let space = keyspace(&db, &args.table.table)?;
    let keys = args.range.bytewise_keys(args.formats.key())?;
    signals::check()?;
    let about = db.estimate_count(&space, &keys)?;
    json::answer(json, json!({ "about": about }), |out| writeln!(out, "{about}"))
}
