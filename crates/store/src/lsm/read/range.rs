//! The entries of a range of keys in order, from both ends.

use std::iter::FusedIterator;

use super::cursor::{Cursor, Stored};
use super::view::View;
use super::window::Window;
use crate::Result;
use crate::key::KeyRange;
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, full_range};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A way through a range from one of its ends.
pub(crate) trait Walk {
    /// The next pair in the direction of the walk; `None` after the last one.
    fn step(&mut self) -> Result<Option<Pair>>;
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
    /// The first pair that is left; `make` begins a walk from the front.
    pub(crate) fn next(&mut self, make: impl FnOnce() -> Result<W>) -> Option<Result<Pair>> {
        let Self { front, back_key, is_over, .. } = self;
        let meets = |key: &[u8]| back_key.as_deref().is_some_and(|back| key >= back);
        let pair = step(front, is_over, make, meets);
        if let Some(Ok((key, _))) = &pair {
            keep(&mut self.front_key, key);
        }
        self.end_after(pair)
    }

    /// The last pair that is left; `make` begins a walk from the back.
    pub(crate) fn next_back(&mut self, make: impl FnOnce() -> Result<W>) -> Option<Result<Pair>> {
        let Self { back, front_key, is_over, .. } = self;
        let meets = |key: &[u8]| front_key.as_deref().is_some_and(|front| key <= front);
        let pair = step(back, is_over, make, meets);
        if let Some(Ok((key, _))) = &pair {
            keep(&mut self.back_key, key);
        }
        self.end_after(pair)
    }

    /// After the last pair, or a failure, nothing follows, and nothing is held.
    fn end_after(&mut self, pair: Option<Result<Pair>>) -> Option<Result<Pair>> {
        if !matches!(pair, Some(Ok(_))) {
            (self.front, self.back, self.is_over) = (None, None, true);
        }
        pair
    }
}

fn step<W: Walk>(
    walk: &mut Option<W>,
    is_over: &bool,
    make: impl FnOnce() -> Result<W>,
    meets: impl FnOnce(&[u8]) -> bool,
) -> Option<Result<Pair>> {
    if *is_over {
        return None;
    }
    let walk = match walk {
        Some(walk) => walk,
        None => match make() {
            Ok(made) => walk.insert(made),
            Err(error) => return Some(Err(error)),
        },
    };
    walk.step().transpose().filter(|pair| !pair.as_ref().is_ok_and(|(key, _)| meets(key)))
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

    /// The last key that was given from the front, or from the back; `None` if there is none yet.
    pub(crate) fn reached(&self, at_back: bool) -> Option<&[u8]> {
        let Ends { front_key, back_key, .. } = &self.ends;
        if at_back { back_key.as_deref() } else { front_key.as_deref() }
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next(|| self.part.walk(false))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ends.next_back(|| self.part.walk(true))
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
        match (state, self.backwards) {
            (State::New, false) => self.cursor.seek_full(&self.part.from)?,
            (State::New, true) => self.cursor.seek_full_before(&self.part.to)?,
            (State::Inside, false) => return self.cursor.step(),
            (State::Inside, true) => return self.cursor.step_back(),
            (State::Over, _) => return Ok(false),
        }
        Ok(true)
    }

    /// The next entry as it stands in its source, with the user's key; `None` after the last one.
    fn advance(&mut self) -> Result<Option<Stored>> {
        // It is over also after a failure.
        let state = std::mem::replace(&mut self.state, State::Over);
        if !self.move_on(state)? {
            return Ok(None);
        }
        let (from, to) = (self.part.from.as_slice(), self.part.to.as_slice());
        let here = self.cursor.here().filter(|(full, ..)| (from..to).contains(full));
        let Some((full, kind, value)) = here else { return Ok(None) };
        self.state = State::Inside;
        Ok(Some(Stored { key: full[KEYSPACE_BYTES..].to_vec(), kind, value: value.to_vec() }))
    }

    /// Collects entries whose values are read together.
    fn collect(&mut self, first: Result<Option<Stored>>) {
        self.coming.begin(&self.window);
        let mut next = first;
        while let Ok(Some(Stored { key, kind, value })) = next {
            self.coming.add(key, kind, value);
            next = if self.coming.is_full() { Ok(None) } else { self.advance() };
        }
        // Reported after the entries that were found before it.
        if let Err(error) = next {
            self.coming.end(error);
        }
    }
}

impl Walk for Way {
    /// The next entry with its value; a separated one is read together with those that follow.
    fn step(&mut self) -> Result<Option<Pair>> {
        loop {
            if let Some(ready) = self.window.next(self.cursor.view())? {
                return Ok(Some(ready));
            }
            if self.coming.is_empty() {
                let Some(first) = self.advance()? else { return Ok(None) };
                if !self.part.with_values || first.kind != Kind::Separated {
                    let value = if self.part.with_values { first.value } else { Vec::new() };
                    return Ok(Some((first.key, value)));
                }
                self.collect(Ok(Some(first)));
            }
            std::mem::swap(&mut self.window, &mut self.coming);
            if self.window.is_large() {
                // Before the reads of this window have ended, so that the device always has some.
                let first = self.advance();
                self.collect(first);
                self.coming.begin_reading(self.cursor.view());
            }
            self.window.read(self.cursor.view());
        }
    }
}
