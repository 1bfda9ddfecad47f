//! Cursors: a place among the entries of a keyspace, as a view sees them.

use std::sync::Arc;

use super::view::{Current, View};
use crate::Result;
use crate::lsm::buffer::{BufferCursor, PASSED_MAX};
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, full_range, with_full_key};
use crate::lsm::levels::cursor::LevelCursor;
use crate::lsm::merge::{Merge, Source, VERSIONS_MAX};
use crate::lsm::table::{Pace, Table, TableCursor};
use crate::lsm::tombstones::{Cover, Pieces};

/// A cursor that is not used leaves buffers of at most this many bytes for the next one.
const SPARE_BYTES_MAX: usize = 1 << 10;

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
    kind: Kind,
    value: &'c [u8],
    view: &'c View,
}

impl Default for Stored {
    fn default() -> Self {
        Self { key: Vec::new(), kind: Kind::Tombstone, value: Vec::new() }
    }
}

impl Stored {
    /// Becomes a copy of an entry of its key.
    fn set(&mut self, entry: crate::lsm::entry::Entry<'_>) {
        self.kind = entry.kind;
        copy(&mut self.value, entry.value);
    }
}

/// Makes `to` a copy of `from`.
fn copy(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    to.extend_from_slice(from);
}

impl<'c> Entry<'c> {
    /// The value, where it stands beside the key; `None` if it is a separated one.
    pub fn value_here(&self) -> Option<&'c [u8]> {
        (self.kind == Kind::Inline).then_some(self.value)
    }

    /// The value. A separated one is read now.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) or [`Error::Io`](crate::Error::Io) if it cannot be
    /// read.
    pub fn value(&self) -> Result<Vec<u8>> {
        Ok(self.view.value(self.kind, self.value)?.unwrap_or_default())
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
        let layers = view.current.buffers().filter_map(|buffer| buffer.some_pieces());
        let mut buffers = Vec::new();
        layers.for_each(|layers| buffers.extend(layers.iter().cloned()));
        let tables = view.version().ranged().iter().map(|table| table.open());
        Ok(Self { buffers, tables: tables.collect::<Result<_>>()? })
    }

    /// The one over a key that hides an entry of it.
    #[inline]
    fn hides(&self, key: &[u8], seq: u64, at: u64) -> Option<Cover<'_>> {
        if self.is_empty() { None } else { self.newest(key, at).filter(|cover| cover.seq >= seq) }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.buffers.is_empty() && self.tables.is_empty()
    }

    /// The newest one over a key.
    fn newest(&self, key: &[u8], at: u64) -> Option<Cover<'_>> {
        let buffers = self.buffers.iter().filter_map(|pieces| pieces.over(key, at));
        let tables = self.tables.iter().filter_map(|table| table.pieces().over(key, at));
        buffers.chain(tables).max_by_key(|cover| cover.seq)
    }
}

/// After this many keys that deleted ranges hide, a step passes the rest of the range at once:
/// where only a few follow, stepping on is quicker.
const HIDDEN_MAX: u32 = 16;

/// How many keys one step has passed that deleted ranges hide, since it last passed the rest of
/// one.
#[derive(Default)]
struct Hidden(u32);

impl Hidden {
    /// Whether to pass the rest of the range that hides another key.
    fn note(&mut self) -> bool {
        self.0 = (self.0 + 1) % HIDDEN_MAX;
        self.0 == 0
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
    parts: Box<Parts>,
    covers: Covers,
    standing: Standing,
}

/// What of a cursor does not depend on up to where it sees: others use it again.
#[derive(Default)]
struct Parts {
    merge: Merge,
    /// The entry here, if that is where the cursor stands.
    kept: Stored,
}

impl Parts {
    fn new(view: &View) -> Result<Self> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for buffer in view.current.buffers() {
            sources.push(Box::new(BufferCursor::new(Arc::clone(buffer))));
        }
        for table in view.version().level(0) {
            sources.push(Box::new(TableCursor::new(table.open()?, Pace::Searching)));
        }
        for level in view.version().filled() {
            let tables = Arc::clone(view.version().list(level));
            sources.push(Box::new(LevelCursor::new(tables, Pace::Searching)));
        }
        let (kept, merge) = (Stored::default(), Merge::new(sources));
        Ok(Self { merge, kept })
    }

    /// Goes back over all versions of the key that is kept, and keeps the newest one that a reader
    /// at `at` sees: its sequence number. The oldest one comes first.
    fn keep_back(&mut self, at: u64) -> Result<Option<u64>> {
        let Self { merge, kept } = self;
        let mut seq = None;
        let mut versions = 0;
        while let Some(entry) = merge.entry().filter(|entry| entry.key == kept.key) {
            if entry.seq <= at {
                seq = Some(entry.seq);
                kept.set(entry);
            }
            versions += 1;
            if versions == VERSIONS_MAX && merge.may_jump() {
                // There may be ever so many more: the one that is wanted is sought.
                merge.jump_to(&kept.key, at)?;
                if let Some(entry) = merge.entry().filter(|entry| entry.key == kept.key) {
                    seq = Some(entry.seq);
                    kept.set(entry);
                }
                merge.jump_before(&kept.key, u64::MAX)?;
                break;
            }
            merge.prev()?;
        }
        Ok(seq)
    }

    /// Lets go of what takes memory, if there is much.
    fn rest(&mut self) {
        self.merge.rest();
        for bytes in [&mut self.kept.key, &mut self.kept.value] {
            bytes.clear();
            bytes.shrink_to(SPARE_BYTES_MAX);
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.parts.rest();
        let parts = std::mem::take(&mut self.parts);
        self.view.current.spare.leave(parts);
    }
}

/// Where a cursor stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Nowhere,
    /// On the entry at which `merge` stands.
    Merge,
    /// The same, where `merge` goes backwards: there is no other version of the key.
    Back,
    /// On the entry that is kept. `merge` stands before all entries of its key.
    Kept,
}

/// How many deleted keys of the active buffer one step has passed.
#[derive(Default)]
struct Passed {
    keys: u32,
    /// Entries with higher sequence numbers than this are in the active buffer.
    before: Option<u64>,
}

impl Passed {
    /// A key whose newest version, of this sequence number, hides it.
    fn note(&mut self, seq: u64, current: &Current) {
        if seq <= *self.before.get_or_insert_with(|| current.before_active()) {
            return;
        }
        self.keys += 1;
        if self.keys == PASSED_MAX {
            current.active.note_passed();
        }
    }
}

impl Cursor {
    pub(crate) fn new(view: View, keyspace: u32) -> Result<Self> {
        let parts = match view.current.spare.take() {
            Some(parts) => parts,
            None => Box::new(Parts::new(&view)?),
        };
        let (covers, standing) = (Covers::new(&view)?, Standing::Nowhere);
        Ok(Self { view, keyspace, parts, covers, standing })
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
        self.seek_full_before(&self.end(), &self.begin())?;
        self.current()
    }

    /// Moves to exactly this key. If it is not found, the cursor stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        with_full_key(self.keyspace, key, |full| self.seek_full(full, &self.end()))?;
        if self.current()?.is_none_or(|entry| entry.key != key) {
            self.standing = Standing::Nowhere;
        }
        self.current()
    }

    /// Moves to the first entry whose key is at or after `key`. If there is none, the cursor stands
    /// nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek_at_or_after(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        with_full_key(self.keyspace, key, |full| self.seek_full(full, &self.end()))?;
        self.current()
    }

    /// Moves to the last entry whose key is at or before `key`. If there is none, the cursor stands
    /// nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek_at_or_before(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        let (_, to) = full_range(self.keyspace, &..=key);
        self.seek_full_before(&to, &self.begin())?;
        self.current()
    }

    /// Moves to the next entry, or to the first one if the cursor stands nowhere. At the end it
    /// gives `None`, and the cursor stays on the last entry.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[expect(clippy::should_implement_trait, reason = "it lends; a range is the iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        if self.skim(Standing::Merge) {
            return Ok(self.skimmed());
        }
        self.next_of_any()
    }

    #[inline(never)]
    fn next_of_any(&mut self) -> Result<Option<Entry<'_>>> {
        if self.standing == Standing::Nowhere {
            return self.first();
        }
        if self.step_of_any(&self.end())? {
            return self.current();
        }
        self.last()?;
        Ok(None)
    }

    /// Moves to the previous entry, or to the last one if the cursor stands nowhere. At the
    /// beginning it gives `None`, and the cursor stays on the first entry.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[inline]
    pub fn prev(&mut self) -> Result<Option<Entry<'_>>> {
        if self.skim(Standing::Back) {
            return Ok(self.skimmed());
        }
        self.prev_of_any()
    }

    #[inline(never)]
    fn prev_of_any(&mut self) -> Result<Option<Entry<'_>>> {
        if self.standing == Standing::Nowhere {
            return self.last();
        }
        if self.step_back_of_any(&self.begin())? {
            return self.current();
        }
        self.first()?;
        Ok(None)
    }

    /// The entry under the cursor; `None` if it stands nowhere.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[inline]
    pub fn current(&self) -> Result<Option<Entry<'_>>> {
        let Some((full, kind, value)) = self.here() else { return Ok(None) };
        Ok(Some(Entry { key: &full[KEYSPACE_BYTES..], kind, value, view: &self.view }))
    }

    /// The entry to which it skimmed.
    #[inline(always)]
    fn skimmed(&self) -> Option<Entry<'_>> {
        let crate::lsm::entry::Entry { key: full, kind, value, .. } = self.parts.merge.skimmed()?;
        Some(Entry { key: full.get(KEYSPACE_BYTES..)?, kind, value, view: &self.view })
    }

    /// The full key of the entry under the cursor, and its kind and value as in its source.
    #[inline]
    pub(super) fn here(&self) -> Option<(&[u8], Kind, &[u8])> {
        match self.standing {
            Standing::Nowhere => None,
            Standing::Merge | Standing::Back => {
                self.parts.merge.entry().map(|entry| (entry.key, entry.kind, entry.value))
            }
            Standing::Kept => {
                Some((&self.parts.kept.key, self.parts.kept.kind, &self.parts.kept.value))
            }
        }
    }

    /// Whether it could move on in the direction of the last step without a look at other sources.
    #[inline(always)]
    fn skim(&mut self, standing: Standing) -> bool {
        self.standing == standing && self.parts.merge.skim(self.view.at)
    }

    /// What it sees.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Where the keyspace begins.
    fn begin(&self) -> [u8; KEYSPACE_BYTES] {
        self.keyspace.to_be_bytes()
    }

    /// Where the next keyspace begins.
    fn end(&self) -> [u8; KEYSPACE_BYTES] {
        (self.keyspace + 1).to_be_bytes()
    }

    /// Moves to the first entry at or after a full key and before `end`. If there is none, what was
    /// deleted behind `end` is not passed.
    pub(super) fn seek_full(&mut self, full: &[u8], end: &[u8]) -> Result<()> {
        self.standing = Standing::Nowhere;
        self.parts.merge.seek(full, u64::MAX)?;
        self.settle_forward(false, end)
    }

    /// Moves to the last entry before a full key and at or after `begin`. If there is none, what
    /// was deleted before `begin` is not passed.
    pub(super) fn seek_full_before(&mut self, full: &[u8], begin: &[u8]) -> Result<()> {
        self.standing = Standing::Nowhere;
        self.parts.merge.seek_before(full, u64::MAX)?;
        self.settle_back(begin)
    }

    /// Whether it moved to a next entry, which may come after `end`; it stands nowhere if there is
    /// none before `end`.
    pub(super) fn step(&mut self, end: &[u8]) -> Result<bool> {
        Ok(self.skim(Standing::Merge) || self.step_of_any(end)?)
    }

    /// The same, where another source may have to be looked at.
    fn step_of_any(&mut self, end: &[u8]) -> Result<bool> {
        let standing = std::mem::replace(&mut self.standing, Standing::Nowhere);
        let Parts { merge, kept, .. } = &mut *self.parts;
        match standing {
            Standing::Nowhere => return Ok(false),
            Standing::Merge | Standing::Back => {}
            Standing::Kept => merge.seek(&kept.key, u64::MAX)?,
        }
        merge.next_key()?;
        self.settle_forward(true, end)?;
        Ok(self.standing != Standing::Nowhere)
    }

    /// Whether it moved to a previous entry, which may come before `begin`; it stands nowhere if
    /// there is none from `begin` on.
    pub(super) fn step_back(&mut self, begin: &[u8]) -> Result<bool> {
        Ok(self.skim(Standing::Back) || self.step_back_of_any(begin)?)
    }

    /// The same, where another source may have to be looked at.
    fn step_back_of_any(&mut self, begin: &[u8]) -> Result<bool> {
        let standing = std::mem::replace(&mut self.standing, Standing::Nowhere);
        let Parts { merge, kept, .. } = &mut *self.parts;
        match standing {
            Standing::Nowhere => return Ok(false),
            Standing::Merge => {
                let entry = merge.entry();
                copy(&mut kept.key, entry.map_or(&[], |entry| entry.key));
                merge.seek_before(&kept.key, u64::MAX)?;
            }
            Standing::Back => merge.prev()?,
            Standing::Kept => {}
        }
        self.settle_back(begin)?;
        Ok(self.standing != Standing::Nowhere)
    }

    /// Finds out how many entries up to where a keyspace begins need not be compared with others.
    fn look_ahead(&mut self, keyspace: u32) {
        if self.covers.is_empty() {
            self.parts.merge.look_ahead(&keyspace.to_be_bytes());
        }
    }

    /// Goes on from the place of the merge to an entry that is seen; nowhere if there is none
    /// before `end`.
    fn settle_forward(&mut self, is_step: bool, end: &[u8]) -> Result<()> {
        let (mut passed, mut hidden) = (Passed::default(), Hidden::default());
        let keyspace = self.begin();
        let is_wanted = |key: &[u8]| key < end && key.starts_with(&keyspace);
        while let Some(entry) = self.parts.merge.entry().filter(|entry| is_wanted(entry.key)) {
            if entry.seq > self.view.at {
                self.parts.merge.next_version(self.view.at)?;
                continue;
            }
            let cover = self.covers.hides(entry.key, entry.seq, self.view.at);
            if entry.kind != Kind::Tombstone && cover.is_none() {
                self.standing = Standing::Merge;
                // One that is sought may be all that is wanted.
                if is_step {
                    self.look_ahead(self.keyspace + 1);
                }
                return Ok(());
            }
            passed.note(entry.seq, &self.view.current);
            match cover.filter(|_| hidden.note()) {
                Some(cover) => self.parts.merge.pass(cover.end, cover.seq)?,
                None => self.parts.merge.next_key()?,
            }
        }
        Ok(())
    }

    /// Goes back from the place of the merge to an entry that is seen, and keeps it; nowhere if
    /// there is none from `begin` on. In this direction the oldest version of a key comes first.
    fn settle_back(&mut self, begin: &[u8]) -> Result<()> {
        let (mut passed, mut hidden) = (Passed::default(), Hidden::default());
        let keyspace = self.begin();
        let is_wanted = |key: &[u8]| key >= begin && key.starts_with(&keyspace);
        while let Some(entry) = self.parts.merge.entry().filter(|entry| is_wanted(entry.key)) {
            let is_plain = entry.kind != Kind::Tombstone && entry.seq <= self.view.at;
            if is_plain && self.covers.is_empty() && self.parts.merge.is_alone() {
                self.standing = Standing::Back;
                self.look_ahead(self.keyspace);
                return Ok(());
            }
            copy(&mut self.parts.kept.key, entry.key);
            let Some(seq) = self.parts.keep_back(self.view.at)? else { continue };
            let Stored { key, kind, .. } = &self.parts.kept;
            let cover = self.covers.hides(key, seq, self.view.at);
            if *kind != Kind::Tombstone && cover.is_none() {
                self.standing = Standing::Kept;
                break;
            }
            passed.note(seq, &self.view.current);
            if let Some(cover) = cover.filter(|_| hidden.note()) {
                self.parts.merge.pass_back(cover.start, cover.seq)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "cursor/tests.rs"]
mod tests;
