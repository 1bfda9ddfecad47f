//! The adapter of Hedgerow's log-structured engine.

use std::path::Path;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};

use super::{Key, Kind};
use crate::engine::Result;

/// Values of at least this many bytes stay in the log, where they are separated.
const SEPARATED: u32 = 256;

pub(super) struct Store {
    db: Db,
    keyspace: Keyspace,
    durability: Durability,
}

impl Store {
    pub(super) fn open(kind: Kind, folder: &Path, memory: u64) -> Result<Self> {
        let options = Options::new().create(true).memory_limit(memory);
        let db = options.open(folder.join("data"))?;
        let separation_threshold = if kind == Kind::HedgerowInline { u32::MAX } else { SEPARATED };
        let keyspace =
            db.keyspace("table", KeyspaceOptions { separation_threshold, ..Default::default() })?;
        let is_held = kind == Kind::HedgerowHeld;
        let durability = if is_held { Durability::None } else { Durability::Eventual };
        Ok(Self { db, keyspace, durability })
    }

    fn commit(
        &self,
        durable: bool,
        fill: impl FnOnce(&mut Batch) -> hedgerow::Result<()>,
    ) -> Result<()> {
        let mut batch = Batch::new();
        fill(&mut batch)?;
        let durability = if durable { Durability::Durable } else { self.durability };
        Ok(self.db.write_with(batch, durability)?)
    }
}

impl super::Store for Store {
    fn put(&self, key: &Key, value: &[u8], durable: bool) -> Result<()> {
        self.commit(durable, |batch| batch.put(&self.keyspace, key, value))
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.commit(false, |batch| batch.delete(&self.keyspace, key))
    }

    fn get(&self, key: &Key, see: &mut dyn FnMut(Option<&[u8]>)) -> Result<()> {
        Ok(self.db.get_with(&self.keyspace, key, see)?)
    }

    fn get_many(
        &self,
        keys: &[Key],
        see: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Option<Result<()>> {
        let mut seen = 0;
        let read = self.db.multi_get_with(&self.keyspace, keys, |number, value| {
            seen += 1;
            see(number, value);
        });
        Some(match read {
            Ok(()) if seen == keys.len() => Ok(()),
            Ok(()) => Err(format!("{seen} answers for {} keys", keys.len()).into()),
            Err(error) => Err(error.into()),
        })
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.db.range(&self.keyspace, ..)? {
            let (key, value) = entry?;
            see(&key, &value);
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(self.db.compact()?)
    }
}
