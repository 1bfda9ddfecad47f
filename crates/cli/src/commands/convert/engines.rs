//! Between the engines: every table of a store to a new store of the other one.

use std::path::Path;

use hedgerow::tree::{Snapshot, Store, TableInfo, TableOptions};

use super::super::lsm::{self, Filler};
use super::{Tables, answer};
use crate::codec::shown;
use crate::draft::{self, Draft};
use crate::exit::{Exit, Failure};
use crate::loader::{Fill, Loader, Target};
use crate::open::{self, Engine, Name, StoreArg};
use crate::portable::TableHeader;
use crate::progress::{Progress, Unit};
use crate::table_flags::TableFlags;
use hedgerow::lsm::Readable;

/// Makes a store of the other engine.
pub(super) fn run(from: &Path, to: &Path, json: bool) -> Result<Exit, Failure> {
    let tables = match Engine::of(from) {
        Engine::Tree => to_lsm(from, to)?,
        Engine::Lsm => to_tree(from, to)?,
    };
    answer(&tables, json)
}

/// Puts an entry, and now and then says how far it is.
fn put(
    fill: &mut dyn Fill,
    progress: &Progress,
    (key, value): (&[u8], &[u8]),
) -> Result<(), Failure> {
    fill.put(key, value)?;
    let put = fill.loaded().put;
    progress.entry(put, put)
}

fn to_lsm(from: &Path, to: &Path) -> Result<Tables, Failure> {
    let store = StoreArg { store: from.to_path_buf() }.read()?;
    let txn = store.begin_read()?;
    let tables = txn.tables()?;
    let is_plain = |info: &&TableInfo| TableHeader::of(info).is_plain(&TableFlags::default());
    if let Some(other) = tables.iter().find(|info| !is_plain(info)) {
        return Err(lsm::only_plain(Some(&other.name)));
    }
    let total = tables.iter().map(|info| info.count.values).sum();
    let progress = Progress::new("converting", Unit::Items, Some(total));
    let draft = Draft::lsm(to)?;
    let mut filler = Filler::new(lsm::new_store(draft.path())?, false);
    let mut done = 0;
    for info in &tables {
        copy_table(&txn, info, &mut filler, &progress)?;
        expect(info, filler.loaded().put - done)?;
        done = filler.loaded().put;
    }
    filler.finish()?;
    drop(filler);
    draft.publish()?;
    Ok(tables.into_iter().map(|info| (Name(info.name), info.count.values)).collect())
}

fn copy_table<S: Snapshot>(
    txn: &S,
    info: &TableInfo,
    filler: &mut Filler,
    progress: &Progress,
) -> Result<(), Failure> {
    progress.message(shown(&info.name));
    let flags = info.user_flags;
    let options = TableOptions::new().user_flags(flags);
    filler.begin_table(Name(info.name.clone()), &Target::Exactly(&options, flags))?;
    let table = open::table_to_walk(txn, info)?;
    let mut cursor = txn.cursor(table)?;
    while let Some(entry) = cursor.next(txn)? {
        put(filler, progress, (&entry.key.to_cow(), &entry.value.to_cow()))?;
    }
    Ok(())
}

fn expect(info: &TableInfo, came: u64) -> Result<(), Failure> {
    match came == info.count.values {
        true => Ok(()),
        false => Err(Failure::other(format!(
            "the table {} counts {} entries, but {came} came over; `hedgerow check` looks for \
             damage",
            shown(&info.name),
            info.count.values
        ))),
    }
}

fn to_tree(from: &Path, to: &Path) -> Result<Tables, Failure> {
    let db = lsm::read_at(from)?;
    let (mut spaces, mut total) = (Vec::new(), 0);
    for name in db.keyspaces()? {
        if let Some(space) = db.find_keyspace(&name)? {
            total += db.estimate_count(&space, ..)?;
            spaces.push(space);
        }
    }
    let progress = Progress::new("converting", Unit::Items, Some(total));
    let draft = Draft::tree(to)?;
    let store = draft::create(&draft)?;
    let mut loader = Loader::new(store.clone(), false);
    let mut tables = Tables::new();
    for space in &spaces {
        progress.message(shown(space.name()));
        let (name, before) = (Name(space.name().to_vec()), loader.loaded().put);
        let flags = space.user_flags();
        let options = TableOptions::new().user_flags(flags);
        loader.begin_table(name.clone(), &Target::Exactly(&options, flags))?;
        for entry in lsm::while_wanted(db.range(space, ..)?) {
            let (key, value) = entry?;
            put(&mut loader, &progress, (&key, &value))?;
        }
        tables.push((name, loader.loaded().put - before));
    }
    loader.finish()?;
    compare(&store, &tables)?;
    drop((loader, store));
    draft.publish()?;
    Ok(tables)
}

/// The new store counts by itself.
fn compare(store: &Store, tables: &Tables) -> Result<(), Failure> {
    let txn = store.begin_read()?;
    for (name, came) in tables {
        let count = open::info(&txn, name)?.count.values;
        if count != *came {
            return Err(Failure::other(format!(
                "{came} entries of {} were read, but the new store counts {count}",
                shown(&name.0)
            )));
        }
    }
    Ok(())
}
