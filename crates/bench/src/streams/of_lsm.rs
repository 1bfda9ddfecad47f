//! The same of the log-structured engine: what streams add to the engine's own range, and sinks to
//! its own batches and transactions.

use std::path::Path;
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Options as LsmOptions, Readable as _, Reader};
use hedgerow::stream::{Mode, Sink};

use super::{Options, Pairs, Row, SIZES, TABLE, each, forms, sink_all, timed, write_rows};
use crate::engine::Result;

/// The forms of reading beside the engine's own range, over a store that is all in tables.
pub(super) fn reads(path: &Path, pairs: Pairs, rounds: u32) -> Result<Vec<Row>> {
    let db = create(path)?;
    let mut sink = Sink::new(&db, TABLE.name)?.durability(Durability::Eventual);
    each(pairs, |key, value| Ok(sink.put(key, value)?))?;
    sink.finish()?;
    db.compact()?;
    drop(db);
    let open = || -> Result<Arc<Reader>> { Ok(Arc::new(LsmOptions::new().open_read_only(path)?)) };
    let title = format!("lsm {}", pairs.name());
    let rows = forms((&title, pairs), (&open, &|reader: &Arc<Reader>| raw(reader)), None, rounds)?;
    std::fs::remove_dir_all(path)?;
    Ok(rows)
}

fn create(path: &Path) -> Result<Db> {
    Ok(LsmOptions::new().create(true).open(path)?)
}

fn raw(reader: &Reader) -> Result<u64> {
    let keyspace = reader.find_keyspace(TABLE.name)?.ok_or("no keyspace")?;
    let mut sum = 0;
    for pair in reader.range(&keyspace, ..)? {
        let (key, value) = pair?;
        sum += (key.len() + value.len()) as u64;
    }
    Ok(sum)
}

/// The sink beside a batch, and rejections beside a transaction that looks before it puts.
pub(super) fn writes(options: &Options) -> Result<Vec<Row>> {
    let (key, value) = SIZES[1];
    let pairs = Pairs { key, value, count: (options.megabytes << 20) / 4 / (key + value) as u64 };
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..options.rounds {
        let folder = tempfile::tempdir()?;
        let by_hand = create(&folder.path().join("a"))?;
        let by_sink = create(&folder.path().join("b"))?;
        times[0].push(timed(&|| put_all(&by_hand, pairs), pairs.count)?);
        times[1].push(timed(&|| sink_all(&by_sink, pairs, Mode::Put), pairs.count)?);
        times[2].push(timed(&|| put_again(&by_hand, pairs), 0)?);
        times[3].push(timed(&|| sink_all(&by_sink, pairs, Mode::New), 0)?);
    }
    Ok(write_rows(&format!("lsm {}", pairs.name()), pairs, &times))
}

fn put_all(db: &Db, pairs: Pairs) -> Result<u64> {
    let keyspace = db.keyspace(TABLE.name, Default::default())?;
    let mut batch = Batch::new();
    let stored = each(pairs, |key, value| Ok(batch.put(&keyspace, key, value).map(|()| true)?))?;
    db.write_with(batch, Durability::Eventual)?;
    Ok(stored)
}

fn put_again(db: &Db, pairs: Pairs) -> Result<u64> {
    let keyspace = db.keyspace(TABLE.name, Default::default())?;
    let mut txn = db.transaction();
    let stored = each(pairs, |key, value| {
        let is_new = txn.get(&keyspace, key)?.is_none();
        if is_new {
            txn.put(&keyspace, key, value)?;
        }
        Ok(is_new)
    })?;
    txn.commit_with(Durability::Eventual)?;
    Ok(stored)
}
