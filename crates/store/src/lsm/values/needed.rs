//! Finds the values of some segments that are needed: those that tables point to. One pass over all
//! pointers finds them, in the order in which the tables stand on the disk; no key is looked up.

use std::sync::Arc;

use crate::canary::{Bug, is_planted};
use crate::lsm::closing::Closing;
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::levels::version::Version;
use crate::lsm::merge::Source;
use crate::lsm::numbers::NumberMap;
use crate::lsm::table::{Pace, TableCursor};
use crate::{Error, Result};

/// A value that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stand {
    /// Where it stands: the segment, and the offset in it.
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    /// The same as a table says it.
    pub(crate) origin: u32,
    pub(crate) origin_offset: u64,
}

impl Stand {
    /// What one takes of memory.
    pub(crate) const BYTES: usize = size_of::<Self>();
}

/// The needed values of some segments. It stays right as long as no tables are merged: others only
/// come to be, and point to segments that were not flushed before.
pub(crate) struct Needed {
    /// Ascending.
    stands: Vec<Stand>,
    charge: Charge,
}

impl Needed {
    /// Goes through the tables that point to values in these segments.
    ///
    /// # Errors
    /// If a table or a list of moved values cannot be read or is damaged, or the store is being
    /// closed.
    pub(crate) fn find(version: &Version, segments: &[u32], closing: &Closing) -> Result<Self> {
        let origins = version.origins_in(segments).into_iter();
        let origins: NumberMap<()> = origins.map(|origin| (origin, ())).collect();
        let charge = Charge::new(Arc::downgrade(version.directory()), Part::Buffers);
        let mut needed = Self { stands: Vec::new(), charge };
        for (_, table) in version.tables() {
            let mut references = table.meta.references.iter();
            if references.any(|reference| origins.contains_key(&reference.segment)) {
                needed.add(version, table, &origins, closing)?;
            }
        }
        needed.stands.sort_unstable();
        Ok(needed)
    }

    /// Adds what a table points to.
    fn add(
        &mut self,
        version: &Version,
        table: &TableFile,
        origins: &NumberMap<()>,
        closing: &Closing,
    ) -> Result<()> {
        let mut cursor = TableCursor::new(table.open()?, Pace::Whole);
        let only_newest = is_planted(Bug::SnapshotNotServed);
        let mut last_key = Vec::new();
        cursor.first()?;
        while let Some(entry) = cursor.entry() {
            closing.check()?;
            let is_left_out = only_newest && last_key == entry.key;
            if only_newest {
                last_key = entry.key.to_vec();
            }
            let pointer = entry.pointer().filter(|p| origins.contains_key(&p.segment));
            if let Some(pointer) = pointer.filter(|_| !is_left_out) {
                let Some((segment, offset)) = version.resolve(pointer)? else {
                    let (path, at) = (table.handle().path(), cursor.block_offset());
                    return Err(Error::corrupt_at(path, at, "a table points to a value not there"));
                };
                let (origin, origin_offset) = (pointer.segment, pointer.offset);
                let segment = segment.identity.number;
                self.stands.push(Stand { segment, offset, origin, origin_offset });
            }
            cursor.next()?;
        }
        self.charge.set(self.stands.capacity() * Stand::BYTES);
        Ok(())
    }

    /// The needed values of a segment, ascending.
    pub(crate) fn of(&self, segment: u32) -> &[Stand] {
        let from = self.stands.partition_point(|stand| stand.segment < segment);
        let rest = &self.stands[from..];
        &rest[..rest.partition_point(|stand| stand.segment == segment)]
    }
}
