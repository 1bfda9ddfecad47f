//! Moving values while tables that point to them are written anew. Entries wait in a window until
//! the moving values of the window have been read together. The values go to a segment of their
//! own, in key order, and the entries go to the tables with the new places.

use std::sync::Arc;

use super::gather::{self, Missing, ValueWriter};
use super::vlog;
use crate::Result;
use crate::lsm::entry::{Entry, Kind, Pointer};
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::levels::version::{Edit, Version};
use crate::lsm::log::segment::Identity;

/// At most this many entries wait.
const ENTRIES_MAX: usize = 4096;
/// About how much memory an entry takes besides key and value.
const ENTRY_BYTES: usize = 128;

/// Which values move, and where to.
#[derive(Clone, Copy)]
pub(crate) struct Moves<'o> {
    /// The values in these segments move,
    pub(crate) segments: &'o [u32],
    /// to segments of about this length.
    pub(crate) segment_bytes: u64,
}

impl Moves<'_> {
    /// None.
    pub(crate) const NONE: Self = Self { segments: &[], segment_bytes: u64::MAX };
}

/// An entry that waits.
struct Held {
    key: Vec<u8>,
    seq: u64,
    kind: Kind,
    value: Vec<u8>,
    is_shadowed: bool,
    /// The value that its pointer leads to, if it moves and was read.
    moved: Option<Vec<u8>>,
}

/// Entries on their way to tables.
pub(crate) struct Moving<'o> {
    version: &'o Version,
    moves: Moves<'o>,
    /// Of the disk, this many bytes stay free.
    leaves: u64,
    number: &'o dyn Fn() -> u32,
    held: Vec<Held>,
    missing: Vec<Missing<'o>>,
    /// What the entries take with their values, and may.
    bytes: usize,
    bytes_max: usize,
    charge: Charge,
    open: Option<ValueWriter>,
    done: Vec<Edit>,
}

impl<'o> Moving<'o> {
    pub(crate) fn new(
        version: &'o Version,
        moves: Moves<'o>,
        leaves: u64,
        number: &'o dyn Fn() -> u32,
    ) -> Self {
        let directory = version.directory();
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let bytes_max = directory.budget.window_bytes();
        let held = Vec::new();
        let missing = Vec::new();
        let (bytes, open, done) = (0, None, Vec::new());
        Self { version, moves, leaves, number, held, missing, bytes, bytes_max, charge, open, done }
    }

    /// Whether no value moves, and entries need not wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.moves.segments.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max || self.held.len() >= ENTRIES_MAX
    }

    /// Takes an entry, after those that wait.
    ///
    /// # Errors
    /// If its pointer leads nowhere.
    pub(crate) fn hold(&mut self, entry: Entry<'_>, is_shadowed: bool) -> Result<()> {
        let Entry { key, seq, kind, value } = entry;
        self.bytes += key.len() + value.len() + ENTRY_BYTES;
        if let Some(pointer) = entry.pointer() {
            let place = vlog::find(self.version, pointer)?;
            if self.moves.segments.contains(&place.span().0) {
                self.bytes += 2 * pointer.len as usize;
                self.missing.push(Missing { entry: self.held.len(), place });
            }
        }
        let (key, value) = (key.to_vec(), value.to_vec());
        self.held.push(Held { key, seq, kind, value, is_shadowed, moved: None });
        Ok(())
    }

    /// Moves the values of the entries that wait, and hands these to `put` in their order.
    ///
    /// # Errors
    /// If a value cannot be read or written, or `put` fails.
    pub(crate) fn release(
        &mut self,
        mut put: impl FnMut(Entry<'_>, bool) -> Result<()>,
    ) -> Result<()> {
        self.charge.set(self.bytes);
        let mut held = std::mem::take(&mut self.held);
        let missing = std::mem::take(&mut self.missing);
        let spare = &mut Vec::new();
        gather::read(self.version.directory(), missing, spare, |entry, value| {
            held[entry].moved = Some(value.to_vec());
            Ok(())
        })?;
        for Held { key, seq, kind, mut value, is_shadowed, moved } in held {
            if let Some(moved) = moved {
                value = self.write(&key, seq, &value, &moved)?;
            }
            put(Entry { key: &key, seq, kind, value: &value }, is_shadowed)?;
        }
        self.bytes = 0;
        Ok(())
    }

    /// Writes a value anew; returns the entry's new pointer.
    fn write(&mut self, key: &[u8], seq: u64, pointer: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let is_full = |open: &ValueWriter| open.len() >= self.moves.segment_bytes;
        if self.open.as_ref().is_some_and(is_full) {
            self.close()?;
        }
        let out = match &mut self.open {
            Some(open) => open,
            empty => {
                let salt = self.version.directory().random();
                let identity = Identity { number: (self.number)(), salt, first_seq: 0 };
                let directory = self.version.directory();
                empty.insert(ValueWriter::create(directory, identity, self.leaves)?)
            }
        };
        let offset = out.add(key, seq, value)?;
        let segment = out.identity().number;
        let moved = Pointer::decode(pointer).map(|old| Pointer { segment, offset, ..old });
        Ok(moved.map_or_else(|| pointer.to_vec(), |moved| moved.encode().to_vec()))
    }

    fn close(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let identity = open.identity();
            let sealed = open.finish(&mut [])?;
            self.done.push(Edit::AddValues { identity, sealed, origins: Vec::new() });
        }
        Ok(())
    }

    /// The edits that add the written segments, which are then on stable storage, except their
    /// names.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn finish(mut self) -> Result<Vec<Edit>> {
        self.close()?;
        Ok(self.done)
    }
}
