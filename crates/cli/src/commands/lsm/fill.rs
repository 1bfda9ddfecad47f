//! Fills keyspaces from a stream of entries, committing in batches.

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Readable};

use crate::codec::shown;
use crate::exit::Failure;
use crate::loader::{Fill, Loaded, Target};
use crate::open::Name;

/// A batch is committed when it has this many bytes: the log takes any number of them.
const BATCH_BYTES: usize = 1 << 20;

/// Fills keyspaces of a store.
pub(crate) struct Filler {
    db: Db,
    space: Option<Keyspace>,
    /// Keys that are there keep their values.
    keep: bool,
    batch: Batch,
    bytes: usize,
    loaded: Loaded,
    /// The keyspaces that were made since entries were committed.
    made: Vec<Vec<u8>>,
}

impl Filler {
    /// Begins. With `keep`, keys that are there keep their values.
    pub(crate) fn new(db: Db, keep: bool) -> Self {
        let (batch, loaded) = (Batch::new(), Loaded::default());
        Self { db, space: None, keep, batch, bytes: 0, loaded, made: Vec::new() }
    }

    /// Commits what was put. Unless it is without durability, a death of the process does not take
    /// any of what was put since the beginning.
    fn commit(&mut self, durability: Durability) -> Result<(), Failure> {
        self.db.write_with(std::mem::take(&mut self.batch), durability)?;
        if durability != Durability::None {
            self.bytes = 0;
        }
        if self.loaded.put > self.loaded.committed {
            self.made.clear();
        }
        self.loaded.committed = self.loaded.put;
        Ok(())
    }
}

impl Fill for Filler {
    fn begin_table(&mut self, name: Name, target: &Target<'_>) -> Result<(), Failure> {
        self.commit(Durability::Eventual)?;
        let (user_flags, is_exact) = match target {
            Target::Exactly(_, user_flags) => (*user_flags, true),
            Target::AsItIs | Target::Made(_) => (0, false),
        };
        let options = KeyspaceOptions { user_flags, ..KeyspaceOptions::default() };
        let is_new = self.db.find_keyspace(&name.0)?.is_none();
        let space = self.db.keyspace(&name.0, options)?;
        if is_new {
            self.made.push(name.0.clone());
        }
        if is_exact && space.user_flags() != user_flags {
            return Err(Failure::other(format!(
                "the table {} is there with the user flags {:#x}, not {user_flags:#x}",
                shown(&name.0),
                space.user_flags()
            )));
        }
        self.space = Some(space);
        self.loaded.tables += 1;
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let Some(space) = &self.space else {
            return Err(Failure::other("an entry came before its table"));
        };
        if self.keep && self.db.get(space, key)?.is_some() {
            self.loaded.kept += 1;
            return Ok(false);
        }
        self.batch.put(space, key, value)?;
        self.bytes += key.len() + value.len();
        self.loaded.put += 1;
        if self.bytes >= BATCH_BYTES {
            self.commit(Durability::Eventual)?;
        } else if self.keep {
            // The next entry may have this key.
            self.commit(Durability::None)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<Loaded, Failure> {
        self.commit(Durability::Durable)?;
        self.made.clear();
        Ok(self.loaded)
    }

    /// What cannot be dropped is left: the user is told of the first failure only.
    fn give_up(&mut self) {
        for name in self.made.drain(..) {
            let _ = self.db.drop_keyspace(name);
        }
    }

    fn loaded(&self) -> Loaded {
        self.loaded
    }

    fn is_plain(&self) -> bool {
        true
    }
}
