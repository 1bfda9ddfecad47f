//! The entries that a scan comes to next, whose separated values are read together: in the order in
//! which they stand on the disk, neighbours by one read.
//!
//! A window begins small, since most scans are short, and grows with the scan up to what the memory
//! limit has for it. If a few reads bring all values of a window, they are begun while the window
//! before it is handed out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::search::{self, Separated};
use super::view::View;
use crate::lsm::entry::{Kind, Pointer};
use crate::lsm::files::Directory;
use crate::lsm::files::cached::Cached;
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::values::gather::{self, Early, Missing};
use crate::os::aio::Buffer;
use crate::{Error, Result};

/// This many entries are in the first window.
const ENTRIES_MIN: usize = 8;
/// And this many in the largest one.
const ENTRIES_MAX: usize = 4096;
/// About how much memory an entry of the window takes besides its value.
const ENTRY_BYTES: usize = 128;

/// A key, or a value, as a way through a range comes to it: lent where it stands, or given away.
pub(crate) type Piece<'w> = Cow<'w, [u8]>;

/// The entries ahead of a scan.
pub(crate) struct Window {
    entries: VecDeque<Pending>,
    /// The values that were read together, one after the other: each is copied when the scan comes
    /// to it, perhaps into memory of the one before.
    values: Vec<u8>,
    /// Reads of values that were begun.
    early: Vec<Early>,
    /// Buffers of earlier reads.
    spare: Vec<Buffer>,
    /// What ended it: reported after its entries.
    failure: Option<Error>,
    /// How many entries it takes, and how many bytes of values.
    entries_max: usize,
    bytes_max: usize,
    /// Bytes of the values that are to be read.
    bytes: usize,
    charge: Charge,
}

/// An entry.
struct Pending {
    key: Vec<u8>,
    value: Content,
}

/// Its value.
enum Content {
    Here(Vec<u8>),
    /// It stands there among those that were read together.
    Read(Range<usize>),
    /// It was not read; this points to it.
    Pointer(Vec<u8>),
}

impl Window {
    /// An empty one.
    pub(crate) fn new(directory: &Arc<Directory>) -> Self {
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let bytes_max = directory.budget.window_bytes();
        let entries = VecDeque::new();
        let values = Vec::new();
        let early = Vec::new();
        let spare = Vec::new();
        let failure = None;
        let entries_max = 0;
        let bytes = 0;
        Self { entries, values, early, spare, failure, entries_max, bytes_max, bytes, charge }
    }

    /// The next entry and its value, which is lent where it was read with the others; one that
    /// could not be is read now.
    ///
    /// # Errors
    /// If that fails too; and after the last entry, what ended the window.
    pub(crate) fn next(&mut self, view: &View) -> Result<Option<(Vec<u8>, Piece<'_>)>> {
        let Some(Pending { key, value }) = self.entries.pop_front() else {
            return self.failure.take().map_or(Ok(None), Err);
        };
        let value = match value {
            Content::Here(value) => value,
            Content::Read(range) => return Ok(Some((key, Cow::Borrowed(&self.values[range])))),
            Content::Pointer(value) => view.value(Kind::Separated, &value)?.unwrap_or_default(),
        };
        Ok(Some((key, Cow::Owned(value))))
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.failure.is_none()
    }

    /// Whether windows do not become larger, so that the scan is a long one.
    pub(crate) fn is_large(&self) -> bool {
        self.entries_max == ENTRIES_MAX || self.bytes >= self.bytes_max
    }

    /// Begins anew, when it is empty, after another one.
    pub(crate) fn begin(&mut self, before: &Self) {
        self.entries_max = (before.entries_max * 2).clamp(ENTRIES_MIN, ENTRIES_MAX);
        self.bytes = 0;
        self.values.clear();
        // What one long value needed, the others do not.
        self.values.shrink_to(2 * self.bytes_max);
    }

    /// Adds an entry after the others.
    pub(crate) fn add(&mut self, key: Vec<u8>, kind: Kind, value: Vec<u8>) {
        let of_value = match kind {
            Kind::Separated => Pointer::decode(&value).map_or(0, |p| p.len as usize),
            Kind::Inline | Kind::Tombstone => value.len(),
        };
        self.bytes += of_value + key.len() + ENTRY_BYTES;
        let value = match kind {
            Kind::Separated => Content::Pointer(value),
            Kind::Inline | Kind::Tombstone => Content::Here(value),
        };
        self.entries.push_back(Pending { key, value });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.entries_max || self.bytes >= self.bytes_max
    }

    /// No entries follow for now.
    pub(crate) fn end(&mut self, failure: Error) {
        self.failure = Some(failure);
    }

    /// Begins to read the values, if few reads bring them.
    pub(crate) fn begin_reading(&mut self, view: &View) {
        self.charge.set(2 * self.bytes);
        let directory = view.version().directory();
        // What fails here is met again when the values are needed.
        if let Ok(missing) = missing(&mut self.entries, view) {
            self.early = gather::begin(directory, missing, &mut self.spare);
        }
    }

    /// Reads the values that are missing. A value that cannot be read is reported when the scan
    /// comes to it.
    pub(crate) fn read(&mut self, view: &View) {
        // The values, and the same once more as it was read.
        self.charge.set(2 * self.bytes);
        // What a damaged pointer says of its length is believed when the value was read.
        self.values.reserve(self.bytes.min(2 * self.bytes_max));
        let (entries, together) = (&mut self.entries, &mut self.values);
        let mut take = |entry: usize, value: &[u8]| {
            let from = together.len();
            together.extend_from_slice(value);
            entries[entry].value = Content::Read(from..together.len());
        };
        self.spare.extend(self.early.drain(..).map(|early| early.finish(&mut take)));
        // Those that are missing after a failure are read one by one, and the failure is met again.
        let _ = self.read_missing(view);
    }

    fn read_missing(&mut self, view: &View) -> Result<()> {
        let missing = missing(&mut self.entries, view)?;
        let (entries, together) = (&mut self.entries, &mut self.values);
        gather::read(view.version().directory(), missing, &mut self.spare, |entry, value| {
            let from = together.len();
            together.extend_from_slice(value);
            entries[entry].value = Content::Read(from..together.len());
            Ok(())
        })
    }
}

/// The values that neither memory nor the cache has; entries get those which these have.
fn missing<'v>(entries: &mut VecDeque<Pending>, view: &'v View) -> Result<Vec<Missing<'v>>> {
    let mut missing = Vec::new();
    for (at, entry) in entries.iter_mut().enumerate() {
        let Content::Pointer(pointer) = &entry.value else { continue };
        match search::separated(view, Pointer::decode(pointer))? {
            Separated::Held(value) => entry.value = Content::Here(value),
            Separated::There(place) => match view.version().directory().blocks.peek(place.key()) {
                Some(Cached::Value(value)) => entry.value = Content::Here(value.to_vec()),
                _ => missing.push(Missing { entry: at, place }),
            },
        }
    }
    Ok(missing)
}
