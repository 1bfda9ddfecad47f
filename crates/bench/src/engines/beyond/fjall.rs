//! The adapter of fjall: values in files of their own, no compression. Its journal is always
//! written; each put hands it to the system.

use std::path::Path;

use fjall::config::CompressionPolicy;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};
use fjall::{PersistMode, Readable as _};

use super::Key;
use crate::engine::Result;

pub(super) struct Store {
    database: Database,
    keyspace: Keyspace,
}

impl Store {
    pub(super) fn open(folder: &Path, memtable: u64, cache: u64) -> Result<Self> {
        let database = Database::builder(folder.join("data")).cache_size(cache).open()?;
        let blobs = KvSeparationOptions::default().separation_threshold(256);
        let blobs = blobs.file_target_size(256 << 20).compression(CompressionType::None);
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memtable)
                .data_block_compression_policy(CompressionPolicy::disabled())
                .with_kv_separation(Some(blobs.clone()))
        };
        let keyspace = database.keyspace("table", options)?;
        Ok(Self { database, keyspace })
    }
}

impl super::Store for Store {
    fn put(&self, key: &Key, value: &[u8], durable: bool) -> Result<()> {
        if durable {
            let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&self.keyspace, key, value);
            return Ok(batch.commit()?);
        }
        Ok(self.keyspace.insert(key, value)?)
    }

    fn delete(&self, key: &Key) -> Result<()> {
        Ok(self.keyspace.remove(key)?)
    }

    fn get(&self, key: &Key, see: &mut dyn FnMut(Option<&[u8]>)) -> Result<()> {
        see(self.keyspace.get(key)?.as_deref());
        Ok(())
    }

    fn get_many(&self, _: &[Key], _: &mut dyn FnMut(usize, Option<&[u8]>)) -> Option<Result<()>> {
        None
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let snapshot = self.database.snapshot();
        for entry in snapshot.iter(&self.keyspace) {
            let (key, value) = entry.into_inner()?;
            see(&key, &value);
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.keyspace.major_compact()?)
    }
}
