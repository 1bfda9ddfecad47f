//! The entries of a range of keys in order, from both ends.

use std::borrow::Cow;
use std::iter::FusedIterator;

use super::cursor::{Cursor, Stored};
use super::view::View;
use super::window::{Piece, Window};
use crate::Result;
use crate::key::KeyRange;
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, full_range};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A way through a range from one of its ends.
pub(crate) trait Walk {
    /// Shows the next pair in the direction of the walk; `None` after the last one.
    fn step<T>(&mut self, see: impl FnOnce(Piece<'_>, Piece<'_>) -> T) -> Result<Option<T>>;
}

/// A range that is walked from one end, or from both until they meet.
pub(crate) struct Ends<W> {
    front: Option<W>,
    back: Option<W>,
    /// The last key that each end gave.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    is_over: bool,
}

impl<W> Default for Ends<W> {
    fn default() -> Self {
        Self { front: None, back: None, front_key: None, back_key: None, is_over: false }
    }
}

/// Keeps a copy of a key, in the memory of the one before.
fn keep(kept: &mut Option<Vec<u8>>, key: &[u8]) {
    match kept {
        Some(kept) => {
            kept.clear();
            kept.extend_from_slice(key);
        }
        None => *kept = Some(key.to_vec()),
    }
}

impl<W: Walk> Ends<W> {
    /// Shows the first pair that is left; `make` begins a walk from the front.
    pub(crate) fn next<T>(
        &mut self,
        make: impl FnOnce() -> Result<W>,
        see: impl FnOnce(Piece<'_>, Piece<'_>) -> T,
    ) -> Option<Result<T>> {
        let Self { front, front_key, back_key, is_over, .. } = self;
        let seen = step(front, *is_over, make, |key, value| {
            let meets = back_key.as_deref().is_some_and(|back| *key >= *back);
            (!meets).then(|| {
                keep(front_key, &key);
                see(key, value)
            })
        });
        self.end_after(seen)
    }

    /// Shows the last pair that is left; `make` begins a walk from the back.
    pub(crate) fn next_back<T>(
        &mut self,
        make: impl FnOnce() -> Result<W>,
        see: impl FnOnce(Piece<'_>, Piece<'_>) -> T,
    ) -> Option<Result<T>> {
        let Self { back, back_key, front_key, is_over, .. } = self;
        let seen = step(back, *is_over, make, |key, value| {
            let meets = front_key.as_deref().is_some_and(|front| *key <= *front);
            (!meets).then(|| {
                keep(back_key, &key);
                see(key, value)
            })
        });
        self.end_after(seen)
    }

    /// After the last pair, or a failure, nothing follows, and nothing is held.
    fn end_after<T>(&mut self, seen: Option<Result<T>>) -> Option<Result<T>> {
        if !matches!(seen, Some(Ok(_))) {
            (self.front, self.back, self.is_over) = (None, None, true);
        }
        seen
    }
}

/// A step of a walk; `see` answers nothing if the pair is one that the other end has given.
fn step<W: Walk, T>(
    walk: &mut Option<W>,
    is_over: bool,
    make: impl FnOnce() -> Result<W>,
    see: impl FnOnce(Piece<'_>, Piece<'_>) -> Option<T>,
) -> Option<Result<T>> {
    if is_over {
        return None;
    }
    let walk = match walk {
        Some(walk) => walk,
        None => match make() {
            Ok(made) => walk.insert(made),
            Err(error) => return Some(Err(error)),
        },
    };
    walk.step(see).map(Option::flatten).transpose()
}

/// A pair that its taker keeps.
pub(crate) fn owned(key: Piece<'_>, value: Piece<'_>) -> Pair {
    (key.into_owned(), value.into_owned())
}

/// The entries of a range of keys in order, from both ends: an iterator.
///
/// It sees the store as of the moment at which it was made, and keeps those files on the disk. An
/// error ends it. Separated values are read ahead, many at a time.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::key::prefix;
/// use hedgerow::lsm::Readable;
///
/// let files = db.keyspace("files", Default::default())?;
/// for name in ["a/1", "b/1", "b/2", "c/1"] {
///     db.put(&files, name.as_bytes(), b"")?;
/// }
/// let names = db.range(&files, prefix("b/"))?.keys_only().rev();
/// let names: Vec<_> = names.map(|entry| entry.map(|(name, _)| name)).collect::<Result<_, _>>()?;
/// assert_eq!(names, [b"b/2", b"b/1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Range {
    part: Part,
    ends: Ends<Way>,
}

/// Which entries a range gives.
#[derive(Clone)]
pub(crate) struct Part {
    view: View,
    keyspace: u32,
    /// Full keys.
    from: Vec<u8>,
    to: Vec<u8>,
    with_values: bool,
}

impl Range {
    pub(crate) fn new(view: View, keyspace: u32, keys: &impl KeyRange) -> Self {
        Self { part: Part::new(view, keyspace, keys), ends: Ends::default() }
    }

    /// Leaves the values empty: separated ones are not read.
    pub fn keys_only(mut self) -> Self {
        self.part.with_values = false;
        self
    }

    /// Shows the next pair from the front or the back, without a copy where it can be lent.
    #[inline]
    pub(crate) fn see<T>(
        &mut self,
        at_back: bool,
        see: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Option<Result<T>> {
        let (ends, part) = (&mut self.ends, &self.part);
        let see = |key: Piece<'_>, value: Piece<'_>| see(&key, &value);
        match at_back {
            false => ends.next(|| part.walk(false), see),
            true => ends.next_back(|| part.walk(true), see),
        }
    }

    /// The last key that was given from the front, or from the back; `None` if there is none yet.
    pub(crate) fn reached(&self, at_back: bool) -> Option<&[u8]> {
        let Ends { front_key, back_key, .. } = &self.ends;
        if at_back { back_key.as_deref() } else { front_key.as_deref() }
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next(|| self.part.walk(false), owned)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ends.next_back(|| self.part.walk(true), owned)
    }
}

impl FusedIterator for Range {}

impl Part {
    pub(crate) fn new(view: View, keyspace: u32, keys: &impl KeyRange) -> Self {
        let (from, to) = full_range(keyspace, keys);
        Self { view, keyspace, from, to, with_values: true }
    }

    /// The keys that a view has between two full keys of a keyspace.
    pub(crate) fn keys_between(view: View, keyspace: u32, (from, to): (Vec<u8>, Vec<u8>)) -> Self {
        Self { view, keyspace, from, to, with_values: false }
    }

    /// The full keys from which on it reaches, and before which it ends.
    pub(crate) fn bounds(&self) -> (&[u8], &[u8]) {
        (&self.from, &self.to)
    }

    /// The same between two other full keys.
    pub(crate) fn between(&self, from: &[u8], to: &[u8]) -> Self {
        Self { from: from.to_vec(), to: to.to_vec(), ..self.clone() }
    }

    pub(crate) fn keyspace(&self) -> u32 {
        self.keyspace
    }

    pub(crate) fn with_values(&self) -> bool {
        self.with_values
    }

    /// Without the values.
    pub(crate) fn leave_values(&mut self) {
        self.with_values = false;
    }

    /// A way through it.
    pub(crate) fn walk(&self, backwards: bool) -> Result<Way> {
        let window = || Window::new(self.view.version().directory());
        Ok(Way {
            cursor: Cursor::new(self.view.clone(), self.keyspace)?,
            part: self.clone(),
            backwards,
            state: State::New,
            window: window(),
            coming: window(),
        })
    }
}

/// How far a way through a range is.
enum State {
    New,
    Inside,
    Over,
}

/// A way through the entries that a view has of a range.
pub(crate) struct Way {
    cursor: Cursor,
    part: Part,
    backwards: bool,
    state: State,
    /// The entries that are being handed out, and those after them.
    window: Window,
    coming: Window,
}

impl Way {
    /// Whether the cursor moved to another entry, or looked for the first one.
    fn move_on(&mut self, state: State) -> Result<bool> {
        let Part { from, to, .. } = &self.part;
        match (state, self.backwards) {
            (State::New, false) => self.cursor.seek_full(from, to)?,
            (State::New, true) => self.cursor.seek_full_before(to, from)?,
            (State::Inside, false) => return self.cursor.step(to),
            (State::Inside, true) => return self.cursor.step_back(from),
            (State::Over, _) => return Ok(false),
        }
        Ok(true)
    }

    /// Moves to the next entry; false after the last one.
    fn advance(&mut self) -> Result<bool> {
        // It is over also after a failure.
        let state = std::mem::replace(&mut self.state, State::Over);
        if !self.move_on(state)? {
            return Ok(false);
        }
        let (from, to) = (self.part.from.as_slice(), self.part.to.as_slice());
        let is_inside = self.cursor.here().is_some_and(|(full, ..)| (from..to).contains(&full));
        if is_inside {
            self.state = State::Inside;
        }
        Ok(is_inside)
    }

    /// The entry to which it moved, as it stands in its source, with the user's key.
    fn here(&self) -> (&[u8], Kind, &[u8]) {
        let (full, kind, value) = self.cursor.here().unwrap_or((&[], Kind::Tombstone, &[]));
        (full.get(KEYSPACE_BYTES..).unwrap_or_default(), kind, value)
    }

    /// A copy of the next entry; `None` after the last one.
    fn advance_to_copy(&mut self) -> Result<Option<Stored>> {
        Ok(self.advance()?.then(|| self.copy_here()))
    }

    fn copy_here(&self) -> Stored {
        let (key, kind, value) = self.here();
        Stored { key: key.to_vec(), kind, value: value.to_vec() }
    }

    /// Collects entries whose values are read together.
    fn collect(&mut self, first: Result<Option<Stored>>) {
        self.coming.begin(&self.window);
        let mut next = first;
        while let Ok(Some(Stored { key, kind, value })) = next {
            self.coming.add(key, kind, value);
            next = if self.coming.is_full() { Ok(None) } else { self.advance_to_copy() };
        }
        // Reported after the entries that were found before it.
        if let Err(error) = next {
            self.coming.end(error);
        }
    }
}

impl Walk for Way {
    /// The next entry with its value; a separated one is read together with those that follow.
    fn step<T>(&mut self, see: impl FnOnce(Piece<'_>, Piece<'_>) -> T) -> Result<Option<T>> {
        loop {
            if let Some((key, value)) = self.window.next(self.cursor.view())? {
                return Ok(Some(see(Cow::Owned(key), value)));
            }
            if self.coming.is_empty() {
                if !self.advance()? {
                    return Ok(None);
                }
                let with_values = self.part.with_values;
                let (key, kind, value) = self.here();
                if !with_values || kind != Kind::Separated {
                    let value = if with_values { value } else { &[] };
                    return Ok(Some(see(Cow::Borrowed(key), Cow::Borrowed(value))));
                }
                let first = self.copy_here();
                self.collect(Ok(Some(first)));
            }
            std::mem::swap(&mut self.window, &mut self.coming);
            if self.window.is_large() {
                // Before the reads of this window have ended, so that the device always has some.
                let first = self.advance_to_copy();
                self.collect(first);
                self.coming.begin_reading(self.cursor.view());
            }
            self.window.read(self.cursor.view());
        }
    }
}
