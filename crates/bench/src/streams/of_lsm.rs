//! The same of the log-structured engine: what streams add to the engine's own range, and sinks to
//! its own batches and transactions.

use std::path::Path;
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Options as LsmOptions, Readable as _, Reader};
use hedgerow::stream::Sink;

use super::{
    Options, Pairs, Row, TABLE, each, forms, in_turns, pairs_to_write, sink_again, sink_new,
    write_rows,
};
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
    let times = in_turns(options, &create, [&put_all, &sink_new], [&put_again, &sink_again])?;
    Ok(write_rows("lsm ", pairs_to_write(options), &times))
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
