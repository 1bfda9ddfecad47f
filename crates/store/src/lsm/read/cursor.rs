//! Cursors and scans: the entries of a keyspace in order, as a view sees them.

use std::sync::Arc;

use super::view::{Current, View};
use super::window::Window;
use crate::Result;
use crate::lsm::buffer::BufferCursor;
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, end_of_prefix, full_key};
use crate::lsm::levels::version::{LEVELS, LevelCursor};
use crate::lsm::merge::{Merge, Source};
use crate::lsm::table::{Pace, Table, TableCursor};
use crate::lsm::tombstones::Pieces;

/// The entry at a cursor.
struct Here {
    /// The full key.
    key: Vec<u8>,
    kind: Kind,
    value: Vec<u8>,
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
        let tables = version.tables().map(|(_, table)| table);
        let tables = tables.filter(|table| table.meta.ranges > 0).map(|table| table.open());
        Ok(Self {
            buffers: pieces.filter(|pieces| !pieces.is_empty()).collect(),
            tables: tables.collect::<Result<_>>()?,
        })
    }

    /// The newest one over a key.
    fn newest(&self, key: &[u8], at: u64) -> u64 {
        let buffers = self.buffers.iter().map(|pieces| pieces.cover(key, at));
        let tables = self.tables.iter().map(|table| table.pieces().cover(key, at));
        buffers.chain(tables).max().unwrap_or(0)
    }
}

/// A place among the entries of a keyspace. It sees the store as of the moment at which it was
/// made, and keeps those files on the disk.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// db.put(&people, b"2", b"Grace")?;
/// let mut cursor = db.cursor(&people)?;
/// cursor.seek(b"15")?;
/// assert_eq!(cursor.key(), Some(&b"2"[..]));
/// cursor.prev()?;
/// assert_eq!(cursor.value()?.as_deref(), Some(&b"Ada"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor {
    view: View,
    keyspace: u32,
    merge: Merge,
    covers: Covers,
    here: Option<Here>,
    /// Whether `merge` stands at the entry here; else it stands before all entries of its key.
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
            let tables = current.version.level(level).to_vec();
            if !tables.is_empty() {
                sources.push(Box::new(LevelCursor::new(tables, Pace::Searching)));
            }
        }
        let (covers, merge) = (Covers::new(&view)?, Merge::new(sources));
        Ok(Self { view, keyspace, merge, covers, here: None, forward: true })
    }

    /// Moves to the first key that is not before `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) or [`Error::Io`](crate::Error::Io) if entries
    /// cannot be read.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek(&full_key(self.keyspace, key), u64::MAX)?;
        self.settle_forward(None)
    }

    /// Moves to the last key before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek_before(&full_key(self.keyspace, key), u64::MAX)?;
        self.settle_back()
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn first(&mut self) -> Result<()> {
        self.seek(&[])
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn last(&mut self) -> Result<()> {
        self.merge.seek_before(&full_key(self.keyspace + 1, &[]), u64::MAX)?;
        self.settle_back()
    }

    /// Moves to the next key; after the last key, and from no key, to no key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[expect(clippy::should_implement_trait, reason = "it moves; a scan is the iterator")]
    pub fn next(&mut self) -> Result<()> {
        let Some(here) = self.here.take() else { return Ok(()) };
        if !self.forward {
            self.merge.seek(&here.key, u64::MAX)?;
        }
        self.settle_forward(Some(here.key))
    }

    /// Moves to the previous key; before the first one, and from no key, to no key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn prev(&mut self) -> Result<()> {
        let Some(here) = self.here.take() else { return Ok(()) };
        if self.forward {
            self.merge.seek_before(&here.key, u64::MAX)?;
        }
        self.settle_back()
    }

    /// The key here; `None` if the cursor is at no key.
    pub fn key(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|here| &here.key[KEYSPACE_BYTES..])
    }

    /// The value here; `None` if the cursor is at no key. A separated value is read now.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn value(&self) -> Result<Option<Vec<u8>>> {
        match &self.here {
            Some(here) => self.view.value(here.kind, &here.value),
            None => Ok(None),
        }
    }

    fn is_inside(&self, key: &[u8]) -> bool {
        key.starts_with(&self.keyspace.to_be_bytes())
    }

    /// Moves to the next existing key, from the place of the merge on, but not to `skipped`.
    fn settle_forward(&mut self, mut skipped: Option<Vec<u8>>) -> Result<()> {
        (self.here, self.forward) = (None, true);
        while let Some(entry) = self.merge.entry() {
            if !self.is_inside(entry.key) {
                return Ok(());
            }
            if entry.seq <= self.view.at && skipped.as_deref() != Some(entry.key) {
                let is_there = entry.kind != Kind::Tombstone
                    && self.covers.newest(entry.key, self.view.at) < entry.seq;
                let key = entry.key.to_vec();
                if is_there {
                    let value = entry.value.to_vec();
                    self.here = Some(Here { key, kind: entry.kind, value });
                    return Ok(());
                }
                skipped = Some(key);
            }
            self.merge.next()?;
        }
        Ok(())
    }

    /// Moves to the last existing key, from the place of the merge backwards. In this direction the
    /// oldest version of a key comes first.
    fn settle_back(&mut self) -> Result<()> {
        (self.here, self.forward) = (None, false);
        while let Some(entry) = self.merge.entry() {
            if !self.is_inside(entry.key) {
                return Ok(());
            }
            let key = entry.key.to_vec();
            let mut newest = None;
            while let Some(entry) = self.merge.entry().filter(|entry| entry.key == key) {
                if entry.seq <= self.view.at {
                    newest = Some((entry.seq, entry.kind, entry.value.to_vec()));
                }
                self.merge.prev()?;
            }
            match newest {
                Some((seq, kind, value))
                    if kind != Kind::Tombstone && self.covers.newest(&key, self.view.at) < seq =>
                {
                    self.here = Some(Here { key, kind, value });
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The entries of a keyspace, or a part of them, in order: an iterator.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let files = db.keyspace("files", Default::default())?;
/// for name in ["a/1", "b/1", "b/2", "c/1"] {
///     db.put(&files, name.as_bytes(), b"")?;
/// }
/// let names = db.scan(&files)?.prefix(b"b/").reverse().keys_only();
/// let names: Vec<_> = names.map(|entry| entry.map(|(name, _)| name)).collect::<Result<_, _>>()?;
/// assert_eq!(names, [b"b/2", b"b/1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scan {
    cursor: Cursor,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    reverse: bool,
    with_values: bool,
    state: State,
    /// The entries that are being handed out, and those after them.
    window: Window,
    coming: Window,
}

/// How far a scan is.
#[derive(PartialEq, Eq)]
enum State {
    New,
    Inside,
    Over,
}

impl Scan {
    pub(crate) fn new(cursor: Cursor) -> Self {
        let from = Vec::new();
        let to = None;
        let state = State::New;
        let window = || Window::new(cursor.view.version().directory());
        let (window, coming) = (window(), window());
        Self { cursor, from, to, reverse: false, with_values: true, state, window, coming }
    }

    /// Leaves out what comes before `key`.
    pub fn from(mut self, key: &[u8]) -> Self {
        self.from = key.to_vec();
        self
    }

    /// Leaves out `key` and all keys after it.
    pub fn to(mut self, key: &[u8]) -> Self {
        self.to = Some(key.to_vec());
        self
    }

    /// Gives only the keys that begin with `prefix`.
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        self.from = prefix.to_vec();
        self.to = end_of_prefix(prefix);
        self
    }

    /// Goes from the last key to the first.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Leaves the values empty: separated ones are not read.
    pub fn keys_only(mut self) -> Self {
        self.with_values = false;
        self
    }

    fn step(&mut self) -> Result<()> {
        match (&self.state, self.reverse, &self.to) {
            (State::New, false, _) => self.cursor.seek(&self.from),
            (State::New, true, Some(to)) => self.cursor.seek_before(to),
            (State::New, true, None) => self.cursor.last(),
            (_, false, _) => self.cursor.next(),
            (_, true, _) => self.cursor.prev(),
        }
    }

    /// The next entry as it stands in its source, with the user's key; `None` after the last one.
    fn advance(&mut self) -> Result<Option<Here>> {
        if self.state == State::Over {
            return Ok(None);
        }
        self.step()?;
        self.state = State::Inside;
        let is_inside = |key: &[u8]| {
            key >= self.from.as_slice() && self.to.as_deref().is_none_or(|to| key < to)
        };
        let inside = |here: &&mut Here| is_inside(&here.key[KEYSPACE_BYTES..]);
        let Some(here) = self.cursor.here.as_mut().filter(inside) else {
            self.state = State::Over;
            return Ok(None);
        };
        let (key, value) = (here.key[KEYSPACE_BYTES..].to_vec(), std::mem::take(&mut here.value));
        Ok(Some(Here { key, kind: here.kind, value }))
    }

    /// The next entry with its value; a separated one is read together with those that follow.
    fn read(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        loop {
            if let Some(ready) = self.window.next(&self.cursor.view)? {
                return Ok(Some(ready));
            }
            if self.coming.is_empty() {
                let Some(first) = self.advance()? else { return Ok(None) };
                if !self.with_values || first.kind != Kind::Separated {
                    let value = if self.with_values { first.value } else { Vec::new() };
                    return Ok(Some((first.key, value)));
                }
                self.collect(Ok(Some(first)));
            }
            std::mem::swap(&mut self.window, &mut self.coming);
            if self.window.is_large() {
                // Before the reads of this window have ended, so that the device always has some.
                let first = self.advance();
                self.collect(first);
                self.coming.begin_reading(&self.cursor.view);
            }
            self.window.read(&self.cursor.view);
        }
    }

    /// Collects entries whose values are read together.
    fn collect(&mut self, first: Result<Option<Here>>) {
        self.coming.begin(&self.window);
        let mut next = first;
        while let Ok(Some(Here { key, kind, value })) = next {
            self.coming.add(key, kind, value);
            next = if self.coming.is_full() { Ok(None) } else { self.advance() };
        }
        // Reported after the entries that were found before it.
        if let Err(error) = next {
            self.coming.end(error);
        }
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.read().transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.state = State::Over;
            self.window.clear();
            self.coming.clear();
        }
        entry
    }
}
