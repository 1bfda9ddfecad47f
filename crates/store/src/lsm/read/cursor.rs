//! Cursors: a place among the entries of a keyspace, as a view sees them.

use std::sync::Arc;

use super::view::{Current, View};
use crate::Result;
use crate::lsm::buffer::BufferCursor;
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, full_key, full_range};
use crate::lsm::levels::version::{LEVELS, LevelCursor};
use crate::lsm::merge::{Merge, Source};
use crate::lsm::table::{Pace, Table, TableCursor};
use crate::lsm::tombstones::Pieces;

/// An entry as it stands in its source.
pub(super) struct Stored {
    /// The full key.
    pub(super) key: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

/// The entry under a [`Cursor`].
#[derive(Clone, Copy)]
pub struct Entry<'c> {
    /// The key.
    pub key: &'c [u8],
    stored: &'c Stored,
    view: &'c View,
}

impl Default for Stored {
    fn default() -> Self {
        Self { key: Vec::new(), kind: Kind::Tombstone, value: Vec::new() }
    }
}

impl Stored {
    /// A copy of an entry, in the memory of this one.
    fn with(mut self, entry: crate::lsm::entry::Entry<'_>) -> Self {
        self.kind = entry.kind;
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.value.clear();
        self.value.extend_from_slice(entry.value);
        self
    }
}

impl<'c> Entry<'c> {
    /// The value, where it stands beside the key; `None` if it is a separated one.
    pub fn value_here(&self) -> Option<&'c [u8]> {
        (self.stored.kind == Kind::Inline).then_some(self.stored.value.as_slice())
    }

    /// The value. A separated one is read now.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) or [`Error::Io`](crate::Error::Io) if it cannot be
    /// read.
    pub fn value(&self) -> Result<Vec<u8>> {
        Ok(self.view.value(self.stored.kind, &self.stored.value)?.unwrap_or_default())
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The range tombstones of all sources. What a cursor sees was there when it was made.
struct Covers {
    buffers: Vec<Arc<Pieces>>,
    tables: Vec<Table>,
}

impl Covers {
    fn new(view: &View) -> Result<Self> {
        let Current { active, frozen, version } = &*view.current;
        let frozen = frozen.iter().map(|frozen| &frozen.buffer);
        let pieces = std::iter::once(active).chain(frozen).map(|buffer| buffer.pieces());
        let tables = version.ranged().iter().map(|table| table.open());
        Ok(Self {
            buffers: pieces.filter(|pieces| !pieces.is_empty()).collect(),
            tables: tables.collect::<Result<_>>()?,
        })
    }

    /// The newest one over a key; 0 if there is none.
    fn newest(&self, key: &[u8], at: u64) -> u64 {
        if self.buffers.is_empty() && self.tables.is_empty() {
            return 0;
        }
        let buffers = self.buffers.iter().map(|pieces| pieces.cover(key, at));
        let tables = self.tables.iter().map(|table| table.pieces().cover(key, at));
        buffers.chain(tables).max().unwrap_or(0)
    }
}

/// A place among the entries of a keyspace. It sees the store as of the moment at which it was
/// made, and keeps those files on the disk.
///
/// The steps are those of the tree's [`Cursor`](crate::tree::Cursor): every call that moves gives
/// the entry to which it moved; a step over the last or first entry gives `None` and stays there;
/// the first step from nowhere leads to an end.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::lsm::Readable;
///
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// db.put(&people, b"2", b"Grace")?;
/// let mut cursor = db.cursor(&people)?;
/// assert_eq!(cursor.seek_at_or_after(b"15")?.unwrap().key, b"2");
/// assert_eq!(cursor.prev()?.unwrap().value()?, b"Ada");
/// assert!(cursor.prev()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor {
    view: View,
    keyspace: u32,
    merge: Merge,
    covers: Covers,
    here: Option<Stored>,
    /// The memory of an entry before.
    spare: Stored,
    /// Whether `merge` stands at the entry here, or after the last one of the keyspace; else it
    /// stands before all entries of the key here.
    forward: bool,
}

impl Cursor {
    pub(crate) fn new(view: View, keyspace: u32) -> Result<Self> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        let current = &view.current;
        sources.push(Box::new(BufferCursor::new(Arc::clone(&current.active))));
        for frozen in &current.frozen {
            sources.push(Box::new(BufferCursor::new(Arc::clone(&frozen.buffer))));
        }
        for table in current.version.level(0) {
            sources.push(Box::new(TableCursor::new(table.open()?, Pace::Searching)));
        }
        for level in 1..LEVELS {
            let tables = current.version.list(level);
            if !tables.is_empty() {
                sources.push(Box::new(LevelCursor::new(Arc::clone(tables), Pace::Searching)));
            }
        }
        let (covers, merge) = (Covers::new(&view)?, Merge::new(sources));
        let spare = Stored::default();
        Ok(Self { view, keyspace, merge, covers, here: None, spare, forward: true })
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) or [`Error::Io`](crate::Error::Io) if entries
    /// cannot be read: then the cursor stands nowhere.
    pub fn first(&mut self) -> Result<Option<Entry<'_>>> {
        self.seek_at_or_after(&[])
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<Entry<'_>>> {
        self.seek_full_before(&full_key(self.keyspace + 1, &[]))?;
        self.current()
    }

    /// Moves to exactly this key. If it is not found, the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        self.seek_full(&full_key(self.keyspace, key))?;
        self.here.take_if(|here| here.key[KEYSPACE_BYTES..] != *key);
        self.current()
    }

    /// Moves to the first entry whose key is at or after `key`. If there is none, the cursor stands
    /// nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek_at_or_after(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        self.seek_full(&full_key(self.keyspace, key))?;
        self.current()
    }

    /// Moves to the last entry whose key is at or before `key`. If there is none, the cursor stands
    /// nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek_at_or_before(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        let (_, to) = full_range(self.keyspace, &..=key);
        self.seek_full_before(&to)?;
        self.current()
    }

    /// Moves to the next entry, or to the first one if the cursor stands nowhere. At the end it
    /// gives `None`, and the cursor stays on the last entry.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[expect(clippy::should_implement_trait, reason = "it lends; a range is the iterator")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(if self.step()? { self.current()? } else { None })
    }

    /// Moves to the previous entry, or to the last one if the cursor stands nowhere. At the
    /// beginning it gives `None`, and the cursor stays on the first entry.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(if self.step_back()? { self.current()? } else { None })
    }

    /// The entry under the cursor; `None` if it stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn current(&self) -> Result<Option<Entry<'_>>> {
        let Some(stored) = &self.here else { return Ok(None) };
        Ok(Some(Entry { key: &stored.key[KEYSPACE_BYTES..], stored, view: &self.view }))
    }

    /// What it sees.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Takes the entry under the cursor, which stays there.
    pub(super) fn stored(&mut self) -> Option<&mut Stored> {
        self.here.as_mut()
    }

    /// Moves to the first entry at or after a full key.
    pub(super) fn seek_full(&mut self, full: &[u8]) -> Result<()> {
        self.leave();
        self.merge.seek(full, u64::MAX)?;
        self.here = self.settle_forward(None)?;
        Ok(())
    }

    /// Moves to the last entry before a full key.
    pub(super) fn seek_full_before(&mut self, full: &[u8]) -> Result<()> {
        self.leave();
        self.merge.seek_before(full, u64::MAX)?;
        self.here = self.settle_back()?;
        Ok(())
    }

    /// Whether it moved to a next entry.
    pub(super) fn step(&mut self) -> Result<bool> {
        let Some(here) = self.here.take() else { return Ok(self.first()?.is_some()) };
        if !self.forward {
            self.merge.seek(&here.key, u64::MAX)?;
        }
        let next = self.settle_forward(Some(&here.key))?;
        Ok(self.arrive(next, here))
    }

    /// Whether it moved to a previous entry.
    pub(super) fn step_back(&mut self) -> Result<bool> {
        let Some(here) = self.here.take() else { return Ok(self.last()?.is_some()) };
        if self.forward {
            self.merge.seek_before(&here.key, u64::MAX)?;
        }
        let before = self.settle_back()?;
        Ok(self.arrive(before, here))
    }

    /// Stands nowhere.
    fn leave(&mut self) {
        if let Some(here) = self.here.take() {
            self.spare = here;
        }
    }

    /// Stands on an entry if there is one, and else stays; whether there is.
    fn arrive(&mut self, at: Option<Stored>, from: Stored) -> bool {
        let moved = at.is_some();
        match at {
            Some(at) => (self.here, self.spare) = (Some(at), from),
            None => self.here = Some(from),
        }
        moved
    }

    fn is_inside(&self, key: &[u8]) -> bool {
        key.starts_with(&self.keyspace.to_be_bytes())
    }

    /// The next entry, from the place of the merge on, whose key is not `skipped`.
    fn settle_forward(&mut self, skipped: Option<&[u8]>) -> Result<Option<Stored>> {
        self.forward = true;
        // A key of which the newest version that is seen was a tombstone.
        let mut deleted: Option<Vec<u8>> = None;
        while let Some(entry) = self.merge.entry() {
            if !self.is_inside(entry.key) {
                return Ok(None);
            }
            let is = |key: Option<&[u8]>| key.is_some_and(|key| key == entry.key);
            if entry.seq <= self.view.at && !is(skipped) && !is(deleted.as_deref()) {
                let is_there = entry.kind != Kind::Tombstone
                    && self.covers.newest(entry.key, self.view.at) < entry.seq;
                if is_there {
                    return Ok(Some(std::mem::take(&mut self.spare).with(entry)));
                }
                deleted = Some(entry.key.to_vec());
            }
            self.merge.next()?;
        }
        Ok(None)
    }

    /// The last entry, from the place of the merge backwards. In this direction the oldest version
    /// of a key comes first.
    fn settle_back(&mut self) -> Result<Option<Stored>> {
        self.forward = false;
        while let Some(entry) = self.merge.entry() {
            if !self.is_inside(entry.key) {
                return Ok(None);
            }
            let mut newest = std::mem::take(&mut self.spare).with(entry);
            let mut seq = None;
            while let Some(entry) = self.merge.entry().filter(|entry| entry.key == newest.key) {
                if entry.seq <= self.view.at {
                    seq = Some(entry.seq);
                    newest.kind = entry.kind;
                    newest.value.clear();
                    newest.value.extend_from_slice(entry.value);
                }
                self.merge.prev()?;
            }
            let is_seen = |seq| self.covers.newest(&newest.key, self.view.at) < seq;
            if newest.kind != Kind::Tombstone && seq.is_some_and(is_seen) {
                return Ok(Some(newest));
            }
            self.spare = newest;
        }
        Ok(None)
    }
}
