//! How writers are slowed down while background work is late: to about the rate at which that work
//! gets done, so that no writer ever waits for all of it at once. What they must know of the
//! version, and the prices, are pure functions.

use std::time::Duration;

use super::compact;
use super::debt::Survey;
use super::version::{Sealed, Segment, Version};
use crate::lsm::buffer::Buffer;
use crate::lsm::options::Options;

/// Writers begin to wait when files hold more than this percentage of the needed bytes, and more
/// than this many segments besides; the further beyond, the longer. What merges and collections
/// write before they remove something comes on top. The overhead of keys and values is part of the
/// needed bytes: a tenth for values of a kibibyte.
const SPACE_PERCENT: u64 = 115;
const SLACK_SEGMENTS: u64 = 3;
/// At this many thousandths beyond that, writers make as much garbage as is collected; and half as
/// much for each further step of this many.
const LEVEL_MILLE: u64 = 40;
const HALF_MILLE: u64 = 20;
/// For each table of level 0 that should be merged: this many nanoseconds a kibibyte (64 MB/s), and
/// twice as many for each one more.
const LEVEL0_NS: u64 = 16_000;
/// A price is doubled no more often than that.
const DOUBLINGS_MAX: u64 = 12;
/// However little room is left in memory, it costs no more than if it were this many thousandths.
const LEFT_MILLE_MIN: u64 = 8;
/// A writer waits no longer than this at once, whatever it costs.
const WAIT_US_MAX: u64 = 100_000;
/// Garbage that is due to a buffer takes at most this percentage of the needed bytes, and its
/// entries with their values at most this many segments, whatever they hide.
const UNKNOWN_PERCENT: u64 = 4;
const UNKNOWN_SEGMENTS: u64 = 3;

/// How fast garbage is removed while it is removed: bytes, and the time that it took, of which the
/// newest counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    bytes: u64,
    us: u64,
}

/// What is assumed before anything was removed.
const BYTES_A_SECOND: u64 = 32 << 20;
/// Earlier work counts as at most this much time.
const REMEMBERED_US: u64 = 4_000_000;
/// However slow the work is, writers go on.
const BYTES_A_SECOND_MIN: u64 = 1 << 20;

impl Default for Rate {
    fn default() -> Self {
        Self { bytes: BYTES_A_SECOND, us: 1_000_000 }
    }
}

impl Rate {
    /// The rate after this many more bytes were removed in some time.
    pub(crate) fn after(self, bytes: u64, time: Duration) -> Self {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(REMEMBERED_US);
        let (bytes, us) = (self.bytes.saturating_add(bytes), self.us + us);
        match us > REMEMBERED_US {
            true => Self { bytes: bytes / 2, us: us / 2 },
            false => Self { bytes, us },
        }
    }

    /// How many nanoseconds it takes for a kibibyte.
    fn ns_per_kib(self) -> u64 {
        let bytes = u128::from(self.bytes) * 1_000_000 / u128::from(self.us.max(1));
        1024 * 1_000_000_000 / u64::try_from(bytes).unwrap_or(u64::MAX).max(BYTES_A_SECOND_MIN)
    }
}

/// How late the background work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Tables of level 0 that should be merged.
    level0: u64,
    /// Thousandths of what is needed that the files hold beyond their bound.
    space: u64,
}

/// This far behind, writers wait as long as they ever do; only by being opened for short times does
/// a store come to have so many tables of level 0 or thousandths beyond its bound.
const LEVEL0_FAR: u64 = 16;
const SPACE_FAR_MILLE: u64 = 200;

impl Behind {
    /// Whether work should be done before anything else is.
    pub(crate) fn is_far(self) -> bool {
        self.level0 >= LEVEL0_FAR || self.space >= SPACE_FAR_MILLE
    }

    /// What a kibibyte costs its writer, in nanoseconds: nothing at first, then more and more.
    pub(crate) fn price(self, rate: Rate) -> u64 {
        let more = self.level0.checked_sub(1);
        let level0 = more.map_or(0, |more| LEVEL0_NS << more.min(DOUBLINGS_MAX));
        if self.space == 0 {
            return level0;
        }
        // Half as fast again and again, and evenly between.
        let mille = self.space.min(HALF_MILLE * DOUBLINGS_MAX);
        let least = rate.ns_per_kib() * (HALF_MILLE + mille % HALF_MILLE) / HALF_MILLE;
        let space = (least << (mille / HALF_MILLE)) >> (LEVEL_MILLE / HALF_MILLE);
        level0.max(space)
    }
}

/// How full a buffer is, in thousandths.
pub(crate) fn filled_mille(buffer: &Buffer, options: &Options) -> u64 {
    let part = |bytes: u64, most: u64| (u128::from(bytes) * 1000 / u128::from(most.max(1))) as u64;
    let entries = part(buffer.bytes() as u64, options.memtable_bytes as u64);
    entries.max(part(buffer.data_bytes(), covered_bytes_max(options)))
}

/// What a kibibyte costs its writer, in nanoseconds, while all buffers before the newest one wait
/// for their tables, and this one is so full. At first half of what it takes to write it to a
/// table, and the more the less room is left: filling the buffer takes over twice as long as
/// writing one, so that no writer waits for all of that at once.
pub(crate) fn room_price(flushing: Rate, filled_mille: u64) -> u64 {
    let left = 1000_u64.saturating_sub(filled_mille).max(LEFT_MILLE_MIN);
    flushing.ns_per_kib() * 1000 / (2 * left)
}

/// How long a writer of this weight waits at this price, in microseconds.
pub(crate) fn delay_us(price: u64, weight: u64) -> u64 {
    (weight.saturating_mul(price) / (1024 * 1000)).min(WAIT_US_MAX)
}

/// Whether a buffer whose entries take this many bytes, with their separated values, should go to a
/// table although there is room in it. Until then none of the log that it covers can be removed,
/// and an opening reads all of that. A table costs some flushes, so the bound is a few segments:
/// what these take to write is far more, and the log grows in steps of one segment anyway. Where
/// segments are shorter than a buffer it is the buffer's own.
pub(crate) fn covers_much(bytes: u64, options: &Options) -> bool {
    bytes >= covered_bytes_max(options)
}

fn covered_bytes_max(options: &Options) -> u64 {
    let segments = options.segment_bytes.saturating_mul(UNKNOWN_SEGMENTS);
    segments.max(options.memtable_bytes as u64)
}

/// Puts leave at least this part of what the files take free on the disk, but no more than what
/// merging and collecting write at a time: a segment, and
const KEPT_FREE_PART: u64 = 4;
/// this many buffers and tables.
const KEPT_FREE_TABLES: u64 = 16;
/// Merging and collecting leave this part of that, but no more than a segment and
const KEPT_BY_MERGES_PART: u64 = 4;
/// this many buffers: as much can be deleted before it goes to tables.
const KEPT_BY_MERGES_BUFFERS: u64 = 2;
/// What is deleted leaves this part of it, so that it goes to tables.
const KEPT_BY_DELETES_PART: u64 = 2;

/// What is left free on the disk, and by whom: who writes so that others can give room back may
/// use what these leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptFree {
    pub(crate) by_puts: u64,
    /// By merging and collecting.
    pub(crate) by_merges: u64,
    pub(crate) by_deletes: u64,
}

/// What is written but stands in no table yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmerged {
    /// Operations in buffers.
    pub(crate) operations: u64,
    /// Bytes of the segment that is written to.
    pub(crate) bytes: u64,
}

/// What a version holds, as far as writers must know it at each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Tables of level 0 that should be merged.
    level0: u64,
    /// Bytes of all files but the segment that is written to.
    space: u64,
    /// Of these, those of segments that no table points to yet.
    unflushed: u64,
    /// What would be left of the rest if everything were merged, by estimate; tables that were not
    /// looked at yet hide as much as those that were.
    needed: u64,
    /// What an entry takes, with its value.
    entry_bytes: u64,
    /// How many of a hundred new entries hide an older one: by the newest tables that were
    /// examined, if any were.
    hiding: Option<u64>,
    segment_bytes: u64,
}

impl Standing {
    /// The standing of a version, given that of the one before.
    pub(crate) fn new(version: &Version, segment_bytes: u64, before: &Self) -> Self {
        let tables: u64 = version.tables().map(|(_, table)| table.meta.bytes).sum();
        let is_unflushed = |sealed: &Sealed| sealed.last_seq > version.flushed;
        let unflushed = version.segments().filter(|s| s.sealed.as_ref().is_some_and(is_unflushed));
        let looked = || version.level(0).iter().filter(|table| table.is_estimated());
        let entries: u64 = looked().map(|table| table.meta.entries).sum();
        let hiding = looked().map(|table| table.hidden().min(table.meta.entries)).sum::<u64>();
        let hiding = (hiding * 100).checked_div(entries).map_or(before.hiding, Some);
        let unlooked = version.level(0).iter().filter(|table| !table.is_estimated());
        let unlooked: u64 = unlooked.map(|table| table.meta.entries).sum();
        let unlooked = unlooked.saturating_mul(hiding.unwrap_or(0)) / 100;
        let (needed, entry_bytes) = (Survey::new(version).needed_bytes(), version.entry_bytes());
        Self {
            level0: compact::level0_behind(version),
            space: tables + version.segments().map(Segment::bytes).sum::<u64>(),
            unflushed: unflushed.map(Segment::bytes).sum(),
            needed: needed - unlooked.saturating_mul(entry_bytes).min(needed / 2),
            entry_bytes,
            hiding,
            segment_bytes,
        }
    }

    /// An estimate of the bytes that this many operations make garbage.
    fn hidden_by(&self, operations: u64) -> u64 {
        let bytes = operations.saturating_mul(self.entry_bytes);
        bytes.saturating_mul(self.hiding.unwrap_or(0)) / 100
    }

    /// Whether a buffer with this many operations should go to a table although there is room in
    /// it: what it hides is not known to be garbage before.
    pub(crate) fn may_hide_much(&self, operations: u64) -> bool {
        let share = (self.needed / 100 * UNKNOWN_PERCENT).max(self.segment_bytes / 4);
        let bytes = operations.saturating_mul(self.entry_bytes);
        // What was written before need not be like what is written now.
        bytes >= self.segment_bytes.saturating_mul(UNKNOWN_SEGMENTS)
            || self.hidden_by(operations) >= share
    }

    /// How many bytes of the disk are left free, where the log has this many bytes that the version
    /// does not know.
    pub(crate) fn kept_free(&self, log_bytes: u64, options: &Options) -> KeptFree {
        let (segment, buffer) = (options.segment_bytes, options.memtable_bytes as u64);
        let table = options.table_bytes.saturating_add(buffer);
        let work = table.saturating_mul(KEPT_FREE_TABLES).saturating_add(segment);
        let by_puts = ((self.space + log_bytes) / KEPT_FREE_PART).min(work);
        let deleted = (KEPT_BY_MERGES_BUFFERS * buffer).saturating_add(segment);
        let by_merges = (by_puts / KEPT_BY_MERGES_PART).min(deleted);
        KeptFree { by_puts, by_merges, by_deletes: by_merges / KEPT_BY_DELETES_PART }
    }

    /// How late the background work is.
    pub(crate) fn behind(&self, unmerged: Unmerged) -> Behind {
        let written = self.unflushed + unmerged.bytes;
        let space = self.space + unmerged.bytes;
        // At most half: an estimate must not stop writers for ever.
        let hidden = self.hidden_by(unmerged.operations).min((self.needed + written) / 2);
        let needed = self.needed + written - hidden;
        let slack = self.segment_bytes.saturating_mul(SLACK_SEGMENTS);
        let share = (needed / 100).saturating_mul(SPACE_PERCENT - 100);
        let over = space.saturating_sub(needed + share.max(slack)).saturating_mul(1000);
        Behind { level0: self.level0, space: over / needed.max(1) }
    }

    /// The bytes that a writer of this many bytes and operations is charged for: those that it
    /// writes, or those that it makes garbage.
    pub(crate) fn weight(&self, bytes: usize, operations: u64) -> u64 {
        self.hidden_by(operations).max(bytes as u64)
    }
}

#[cfg(test)]
#[path = "pace/tests.rs"]
mod tests;
