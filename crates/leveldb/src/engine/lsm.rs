//! A database on the log-structured engine: one keyspace of one store, in a folder of its own.

use std::ops::Bound;
use std::path::Path;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Cursor, Db, Keyspace, KeyspaceOptions, Loss, Readable, Snapshot};

use super::flusher::{DELAY, Flusher};
use super::{Here, LEVELS, Level, Move, NAME, Str};
use crate::batch::Op;
use crate::folder::{FILE_MODE, LSM};
use crate::options::Options;
use crate::status::Result;

/// An open store.
pub(crate) struct Lsm {
    // Before the store, which its thread uses.
    flusher: Option<Flusher>,
    db: Db,
    keyspace: Keyspace,
    lazy: Durability,
}

impl Lsm {
    pub(crate) fn open(folder: &Path, options: &Options, create: bool) -> Result<Self> {
        let opening = hedgerow::lsm::Options::new().create(create);
        // LevelDB, too, has most of a large database from the system's cache.
        let opening =
            opening.memory_limit(options.memory()).system_cache(true).file_mode(FILE_MODE);
        Self::of(opening, &folder.join(LSM), options)
    }

    /// Opens a store, with options that may have another system.
    pub(super) fn of(
        opening: hedgerow::lsm::Options,
        path: &Path,
        options: &Options,
    ) -> Result<Self> {
        let db = opening.open(path)?;
        let keyspace = db.keyspace(NAME, KeyspaceOptions::default())?;
        let lazy = if options.in_memory { Durability::None } else { Durability::Eventual };
        let flushed = db.clone();
        let flusher = (!options.in_memory).then(|| Flusher::new(DELAY, move || flushed.sync()));
        Ok(Self { flusher, db, keyspace, lazy })
    }

    pub(crate) fn write(&self, ops: &[Op<'_>], sync: bool) -> Result<()> {
        let mut batch = Batch::new();
        for op in ops {
            match op.value {
                Some(value) => batch.put(&self.keyspace, op.key, value)?,
                None => batch.delete(&self.keyspace, op.key)?,
            }
        }
        let durability = if sync { Durability::Durable } else { self.lazy };
        self.db.write_with(batch, durability)?;
        if !sync && let Some(flusher) = &self.flusher {
            flusher.note();
        }
        Ok(())
    }

    pub(crate) fn get<R>(
        &self,
        at: Option<&Snapshot>,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        Ok(match at {
            Some(snapshot) => snapshot.get_with(&self.keyspace, key, see)?,
            None => self.db.get_with(&self.keyspace, key, see)?,
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }

    pub(crate) fn place(&self, at: Option<&Snapshot>) -> Result<Place> {
        let cursor = match at {
            Some(snapshot) => snapshot.cursor(&self.keyspace)?,
            None => self.db.cursor(&self.keyspace)?,
        };
        Ok(Place { cursor, value: None })
    }

    /// The part of all bytes, in files and in memory, that the part of the entries takes.
    pub(crate) fn bytes_between(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let all = self.db.estimate_count(&self.keyspace, ..)?;
        let keys = (Bound::Included(from), Bound::Excluded(to));
        let part = self.db.estimate_count(&self.keyspace, keys)?.min(all);
        let stat = self.db.stat();
        let bytes = stat.table_bytes() + stat.live_segment_bytes + stat.memory.entries;
        Ok((u128::from(bytes) * u128::from(part) / u128::from(all.max(1))) as u64)
    }

    /// A part of the keys is written to tables, and merged in the background as it is anyway.
    pub(crate) fn compact(&self, all: bool) -> Result<()> {
        let done = if all { self.db.compact() } else { self.db.flush() };
        Ok(done?)
    }

    pub(crate) fn levels(&self) -> [Level; LEVELS] {
        let mut levels = [Level::default(); LEVELS];
        for (index, level) in self.db.stat().levels.iter().enumerate() {
            let shown = &mut levels[index.min(LEVELS - 1)];
            shown.files += level.tables;
            shown.bytes += level.bytes;
        }
        levels
    }

    pub(crate) fn memory(&self) -> u64 {
        self.db.stat().memory.total()
    }

    pub(crate) fn count(&self) -> Result<u64> {
        let mut count = 0;
        for entry in self.db.range(&self.keyspace, ..)?.keys_only() {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn check(&self) -> Result<Vec<String>> {
        let report = self.db.check()?;
        Ok(report.damage.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn copy_to(&self, folder: &Path) -> Result<()> {
        Ok(self.db.checkpoint(folder.join(LSM))?)
    }
}

/// A cursor, and the value under it once that was asked for.
pub(crate) struct Place {
    cursor: Cursor,
    value: Option<Vec<u8>>,
}

impl Place {
    #[inline(always)]
    pub(crate) fn go(&mut self, to: Move<'_>) -> Result<Option<Here>> {
        self.value = None;
        let found = match to {
            Move::First => self.cursor.first()?,
            Move::Last => self.cursor.last()?,
            Move::Seek(key) => self.cursor.seek_at_or_after(key)?,
            Move::Next => self.cursor.next()?,
            Move::Prev => self.cursor.prev()?,
        };
        Ok(found
            .map(|entry| Here { key: Str::of(entry.key), value: entry.value_here().map(Str::of) }))
    }

    pub(crate) fn value(&mut self) -> Result<Str> {
        if self.value.is_none() {
            let Some(entry) = self.cursor.current()? else { return Ok(Str::NONE) };
            if let Some(value) = entry.value_here() {
                return Ok(Str::of(value));
            }
            self.value = Some(entry.value()?);
        }
        Ok(self.value.as_deref().map_or(Str::NONE, Str::of))
    }
}

/// See [`super::salvage`].
pub(super) fn salvage(old: &Path, new: &Path) -> Result<Vec<String>> {
    let (old, new) = (old.join(LSM), new.join(LSM));
    let options = hedgerow::lsm::Options::new().file_mode(FILE_MODE);
    let report = options.salvage(old, &new, &mut |_, _| Ok(()))?;
    let db = options.open(&new)?;
    adopt(&db)?;
    db.close()?;
    let in_words = |loss: &Loss| {
        let count = loss.count.map_or("some".to_owned(), |count| count.to_string());
        let place = format!("{} at byte {}", loss.path.display(), loss.offset);
        format!("{count} entries are lost: {place}: {}", loss.reason)
    };
    Ok(report.losses.iter().map(in_words).collect())
}

/// Entries whose keyspace is not known any more can only be those of the one that there is.
fn adopt(db: &Db) -> Result<()> {
    let keyspace = db.keyspace(NAME, KeyspaceOptions::default())?;
    for name in db.keyspaces()?.iter().filter(|name| *name != NAME.as_bytes()) {
        let Some(found) = db.find_keyspace(name)? else { continue };
        for entry in db.range(&found, ..)? {
            let (key, value) = entry?;
            if db.get(&keyspace, &key)?.is_none() {
                db.put(&keyspace, &key, &value)?;
            }
        }
        db.drop_keyspace(name)?;
    }
    Ok(())
}
