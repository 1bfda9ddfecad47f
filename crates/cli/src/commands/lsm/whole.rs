//! Stores as a whole: create, tables, stat, check, compact, copy.

use std::io;
use std::path::Path;

use hedgerow::Error;
use hedgerow::lsm::{CheckReport, Db, DbStat, KeyspaceOptions, Options, Readable, Reader};
use serde_json::{Value, json};

use super::super::{check, compact, copy, create, follow, stat, tables};
use super::{html, keyspace, only_plain, open, pins, read};
use crate::codec::shown;
use crate::draft::check_vacant;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leveldb::face::{self, store_at};
use crate::open::{Engine, Name};
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::signals;

/// `create`.
pub(super) fn create(args: &create::Args, json: bool) -> Result<Exit, Failure> {
    let path = &args.store.store;
    if args.page_size.is_some() || args.max_size.is_some() {
        return Err(Failure::usage("--page-size and --max-size are for the engine tree"));
    }
    if args.flags.need_tree() {
        return Err(only_plain(args.table.as_ref().map(|name| name.0.as_slice())));
    }
    if args.separate_from.is_some() && args.table.is_none() {
        return Err(Failure::usage("--separate-from is for the table that --table makes"));
    }
    let db = match (Engine::of(path), &args.table) {
        (Engine::Lsm, Some(_)) => open(&args.store)?,
        _ => new_store(path)?,
    };
    if let Some(name) = &args.table {
        if db.find_keyspace(&name.0)?.is_some() {
            return Err(Error::TableExists { name: name.0.clone() }.into());
        }
        let mut options = KeyspaceOptions::default();
        options.separation_threshold = args.separate_from.unwrap_or(options.separation_threshold);
        db.keyspace(&name.0, options)?;
    }
    db.close()?;
    let table = args.table.as_ref().map(|name| shown(&name.0));
    let value = json!({ "store": path.display().to_string(), "engine": "lsm", "table": table });
    json::answer(json, value, |_| Ok(()))
}

/// A store in a directory that does not exist or is empty.
pub(in super::super) fn new_store(path: &Path) -> Result<Db, Failure> {
    if !is_only_lock(path) {
        check_vacant(path)?;
    }
    Ok(Options::new().create(true).open(path)?)
}

/// Whether a directory has a lock file and nothing else: what is left where one could not be made.
fn is_only_lock(path: &Path) -> bool {
    let names = path.read_dir().map(|entries| entries.map(|entry| entry.map(|e| e.file_name())));
    let names = names.and_then(Iterator::collect::<io::Result<Vec<_>>>);
    names.is_ok_and(|names| names == ["LOCK"])
}

/// `tables`.
pub(super) fn tables(args: &tables::Args, json: bool) -> Result<Exit, Failure> {
    let db = read(&args.store)?;
    let tables = spaces(&db)?;
    let name = |table: &Value| table["name"].as_str().unwrap_or_default().to_owned();
    let width = tables.iter().map(|table| name(table).len()).max().unwrap_or(0);
    let line = |table: &Value| {
        let (name, about, from) = (name(table), &table["about_keys"], &table["separate_from"]);
        let flags = match table["user_flags"].as_u64() {
            Some(flags @ 1..) => format!(", flags {flags:#x}"),
            _ => String::new(),
        };
        format!("{name:width$}  about {about} keys, values from {from} bytes on apart{flags}")
    };
    json::list(json, &tables, Value::clone, line)
}

/// The keyspaces as objects.
fn spaces(db: &Reader) -> Result<Vec<Value>, Failure> {
    let describe = |name: Vec<u8>| {
        let space = keyspace(db, &Name(name))?;
        Ok(json!({
            "name": shown(space.name()),
            "about_keys": db.estimate_count(&space, ..)?,
            "separate_from": space.separation_threshold(),
            "user_flags": space.user_flags(),
        }))
    };
    db.keyspaces()?.into_iter().map(describe).collect()
}

/// `stat`.
pub(super) fn stat(args: &stat::Args, json: bool) -> Result<Exit, Failure> {
    let db = read(&args.store)?;
    let (stat, tables) = (db.stat(), spaces(&db)?);
    if let Some(file) = &args.html {
        let mut out = Output::to(file, args.force.existing())?;
        let path = db.path().display().to_string();
        out.bytes(html::page(&path, &stat, &tables).as_bytes())?;
        out.finish()?;
        if !json {
            return Ok(Exit::Done);
        }
    }
    let value = stat_json(db.path(), &stat, &tables);
    json::answer(json, value, |out| print_stat(out, db.path(), &stat, &tables))
}

fn stat_json(path: &Path, stat: &DbStat, tables: &[Value]) -> Value {
    let levels: Vec<Value> = stat
        .levels
        .iter()
        .map(|level| {
            json!({
                "tables": level.tables, "bytes": level.bytes, "entries": level.entries,
                "tombstones": level.tombstones,
            })
        })
        .collect();
    json!({
        "store": path.display().to_string(),
        "engine": "lsm",
        "bytes": stat.bytes(),
        "table_bytes": stat.table_bytes(),
        "segments": stat.segments,
        "segment_bytes": stat.segment_bytes,
        "live_segment_bytes": stat.live_segment_bytes,
        "log_bytes": stat.log_bytes,
        "memtable_bytes": stat.memory.memtables,
        "last_seq": stat.last_seq,
        "pins": stat.pins.iter().map(pins::json).collect::<Vec<_>>(),
        "kept_entries": stat.kept_entries,
        "levels": levels,
        "tables": tables,
    })
}

fn print_stat(
    out: &mut Output,
    path: &Path,
    stat: &DbStat,
    tables: &[Value],
) -> Result<(), Failure> {
    writeln!(out, "store           {}", path.display())?;
    writeln!(out, "engine          lsm")?;
    writeln!(out, "bytes           {}", stat.bytes())?;
    writeln!(out, "  tables        {}", stat.table_bytes())?;
    writeln!(out, "  segments      {} in {}", stat.segment_bytes, stat.segments)?;
    writeln!(out, "    pointed to  {}", stat.live_segment_bytes)?;
    writeln!(out, "    log         {} that no table holds yet", stat.log_bytes)?;
    writeln!(out, "in memory       {} bytes not in tables yet", stat.memory.memtables)?;
    writeln!(out, "operations      {}", stat.last_seq)?;
    if !stat.pins.is_empty() {
        let kept = stat.kept_entries;
        writeln!(out, "pins            {}, {kept} entries of tables kept", stat.pins.len())?;
        stat.pins.iter().try_for_each(|pin| writeln!(out, "  {}", pins::line(pin)))?;
    }
    for (number, level) in stat.levels.iter().enumerate().filter(|(_, level)| level.tables > 0) {
        writeln!(
            out,
            "level {number:<9} {} tables, {} bytes, {} entries, {} of them deletions",
            level.tables, level.bytes, level.entries, level.tombstones
        )?;
    }
    for table in tables {
        let name = table["name"].as_str().unwrap_or_default();
        writeln!(out, "table           {name}: about {} keys", table["about_keys"])?;
    }
    Ok(())
}

/// `check`.
pub(super) fn check(args: &check::Args, json: bool) -> Result<Exit, Failure> {
    let report = match verify(args) {
        // Damage that stops the check is a finding, not a failure.
        Err(Failure::Store(error @ Error::Corrupt { .. })) => {
            CheckReport { damage: vec![error], ..CheckReport::default() }
        }
        other => other?,
    };
    let problems: Vec<String> = report.damage.iter().map(Error::to_string).collect();
    let (tables, entries) = (report.tables, report.entries);
    let (segments, values) = (report.segments, report.values);
    let value = json!({
        "sound": report.is_sound(), "tables": tables, "entries": entries, "segments": segments,
        "values": values, "problems": problems,
    });
    json::answer(json, value, |out| {
        problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
        let verdict = check::verdict(problems.len());
        writeln!(
            out,
            "{tables} tables; {entries} entries, older ones and deletions counted; {segments} \
             segments, {values} separated values: {verdict}"
        )
    })?;
    Ok(if report.is_sound() { Exit::Done } else { Exit::No })
}

fn verify(args: &check::Args) -> Result<CheckReport, Failure> {
    let db = read(&args.store)?;
    let _progress = Progress::new("checking", Unit::Items, None);
    Ok(signals::while_opening(|| db.check())??)
}

/// `compact`.
pub(super) fn compact(args: &compact::Args, json: bool) -> Result<Exit, Failure> {
    let before = bytes_of_files(&args.store.store)?;
    let db = open(&args.store)?;
    let progress = Progress::new("compacting", Unit::Items, None);
    signals::while_opening(|| db.compact())??;
    drop(progress);
    db.close()?;
    let after = bytes_of_files(&args.store.store)?;
    json::answer(json, json!({ "before": before, "after": after }), |out| {
        writeln!(out, "{before} bytes before, {after} after")
    })
}

/// The bytes of all files of the store, which is not open.
fn bytes_of_files(path: &Path) -> Result<u64, Failure> {
    let path = &store_at(path);
    let sum =
        || -> io::Result<u64> { path.read_dir()?.map(|entry| Ok(entry?.metadata()?.len())).sum() };
    sum().map_err(|error| Failure::io("list", path.display(), &error))
}

/// `copy`.
pub(super) fn copy(args: &copy::Args, json: bool) -> Result<Exit, Failure> {
    if args.compact {
        let what = "--compact is for the engine tree; here `hedgerow compact` comes first";
        return Err(Failure::usage(what));
    }
    if args.to == Path::new("-") {
        return Err(Failure::usage("a store of the engine lsm is a directory: give one"));
    }
    if let Some(name) = &args.follow {
        let db = open(&args.store)?;
        let copied = copy::keep_up(&db, args, name, &follow::Waits::FOR_NOTHING, json)?;
        db.close()?;
        return Ok(copied);
    }
    let db = read(&args.store)?;
    let progress = Progress::new("copying", Unit::Bytes, Some(0));
    let report = face::copied(&args.store.store, &args.to, Engine::Lsm, |to| {
        let copied = signals::while_opening(|| {
            db.backup(to, &mut |done, total| progress.at_of(done, total))
        });
        Ok(copied??)
    })?;
    drop(progress);
    let (files, bytes) = (report.files, report.bytes);
    let (copied_files, copied_bytes) = (report.copied_files, report.copied_bytes);
    let value = json!({
        "store": args.to.to_string_lossy(), "files": files, "bytes": bytes,
        "copied_files": copied_files, "copied_bytes": copied_bytes,
    });
    json::answer(json, value, |out| {
        writeln!(
            out,
            "{copied_files} of {files} files copied, {copied_bytes} of {bytes} bytes; the others \
             were there"
        )
    })
}
