//! The entries that a scan comes to next, whose separated values are read together: in the order in
//! which they stand on the disk, neighbours by one read.
//!
//! A window begins small, since most scans are short, and grows with the scan up to what the memory
//! limit has for it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::Kind;
use super::fetch::Cached;
use super::files::Directory;
use super::memory::{Charge, Part};
use super::search::{self, Separated};
use super::snapshot::View;
use super::values::{self, Missing};
use crate::Result;

/// So many entries are in the first window.
const ENTRIES_MIN: usize = 8;
/// And so many in the largest one.
const ENTRIES_MAX: usize = 4096;
/// What an entry of the window takes besides its value, about.
const ENTRY_BYTES: usize = 128;

/// The entries ahead of a scan.
pub(crate) struct Window {
    entries: VecDeque<Pending>,
    /// How many entries the next one takes, and how many bytes of values.
    entries_max: usize,
    bytes_max: usize,
    /// Bytes of the values that are to be read.
    bytes: usize,
    charge: Charge,
}

/// An entry: its value, or what stands for it while that is not read.
struct Pending {
    key: Vec<u8>,
    kind: Kind,
    value: Vec<u8>,
    is_read: bool,
}

impl Pending {
    fn fill(&mut self, value: Vec<u8>) {
        (self.value, self.is_read) = (value, true);
    }
}

impl Window {
    /// An empty one.
    pub(crate) fn new(directory: &Arc<Directory>) -> Self {
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let bytes_max = directory.budget.window_bytes();
        Self { entries: VecDeque::new(), entries_max: 0, bytes_max, bytes: 0, charge }
    }

    /// The next entry and its value; one that could not be read with the others is read now.
    ///
    /// # Errors
    /// If that fails too.
    pub(crate) fn next(&mut self, view: &View) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(Pending { key, kind, value, is_read }) = self.entries.pop_front() else {
            return Ok(None);
        };
        let value = if is_read { Some(value) } else { view.value(kind, &value)? };
        Ok(Some((key, value.unwrap_or_default())))
    }

    /// Lets go of the entries.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Begins the next window, when this one is empty.
    pub(crate) fn begin(&mut self) {
        self.entries_max = (self.entries_max * 2).clamp(ENTRIES_MIN, ENTRIES_MAX);
        self.bytes = 0;
    }

    /// Adds an entry behind the others.
    pub(crate) fn add(&mut self, key: Vec<u8>, kind: Kind, value: Vec<u8>) {
        let of_value = match kind {
            Kind::Separated => super::entry::Pointer::decode(&value).map_or(0, |p| p.len as usize),
            Kind::Inline | Kind::Tombstone => value.len(),
        };
        self.bytes += of_value + key.len() + ENTRY_BYTES;
        let is_read = kind != Kind::Separated;
        self.entries.push_back(Pending { key, kind, value, is_read });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.entries_max || self.bytes >= self.bytes_max
    }

    /// Reads the values that are missing. What cannot be read is told when the scan comes to it.
    pub(crate) fn read(&mut self, view: &View) {
        // The values, and the same once more as it was read.
        self.charge.set(2 * self.bytes);
        // Those that are missing after a failure are read one by one, and the failure is met again.
        let _ = self.read_missing(view);
    }

    fn read_missing(&mut self, view: &View) -> Result<()> {
        let directory = view.version().directory();
        let mut missing = Vec::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if entry.is_read {
                continue;
            }
            let place = match search::separated(view, &entry.value)? {
                Separated::Held(value) => {
                    entry.fill(value);
                    continue;
                }
                Separated::There(place) => place,
            };
            match directory.blocks.peek(place.key()) {
                Some(Cached::Value(value)) => entry.fill(value.to_vec()),
                _ => missing.push(Missing { entry: at, place }),
            }
        }
        values::read(directory, missing, |entry, value| {
            self.entries[entry].fill(value.to_vec());
            Ok(())
        })
    }
}
