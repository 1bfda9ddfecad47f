//! Which segments a full compaction writes anew, so that no garbage is left and, if much moves
//! anyway, a scan finds values in key order. The choice is a pure function of the version and of a
//! sample of it; `moving` moves the values.

use std::collections::BTreeMap;

use super::{gather, gc};
use crate::Result;
use crate::lsm::levels::compact::Plan;
use crate::lsm::levels::debt::Survey;
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::levels::version::{BOTTOM, Segment, Version};
use crate::lsm::merge::Source;
use crate::lsm::table::{Pace, TableCursor};

/// Less garbage than this is not worth a new segment.
const SLACK_BYTES_MIN: u64 = 4096;
/// If at least one in this many bytes of segments is garbage, values that are out of order are put
/// in order, too. Otherwise they stay as they came: a load would be written twice.
const GARBAGE_PART: u64 = 16;
/// A segment is in order if a scan reads this many of its values at once.
const TOGETHER: u64 = 4;
/// A sample of a table: places in it, and entries that follow each other there.
const SAMPLE_PLACES: u32 = 8;
const SAMPLE_ENTRIES: usize = 512;
/// While values move they are on the disk twice: at most this part of the needed bytes moves at a
/// time, and less if all files would exceed this percentage of the needed bytes.
const BATCH_PART: u64 = 4;
const BATCH_PART_MIN: u64 = 32;
const PERCENT: u64 = 120;
/// And no more than this part of what is free on the disk: the tables that point to them are
/// written anew, too.
const DISK_PART: u64 = 2;
/// The tables that are written at a time hold at most this part of the needed bytes.
const TABLES_PART: u64 = 16;

/// How values stand in segments, by a sample: how many were looked at, and how many reads a scan
/// takes for them.
pub(crate) type Order = BTreeMap<u32, (u64, u64)>;

/// Takes samples of the tables of the last level.
///
/// # Errors
/// If a table cannot be read or is damaged, or points to nowhere.
pub(crate) fn sample(version: &Version) -> Result<Order> {
    let mut order = Order::new();
    for table in version.level(BOTTOM).iter().filter(|table| !table.meta.references.is_empty()) {
        let open = table.open()?;
        let step = (open.blocks() / SAMPLE_PLACES).max(1);
        let mut cursor = TableCursor::new(open, Pace::Searching);
        cursor.first()?;
        while cursor.entry().is_some() {
            let spans = next_spans(version, &mut cursor)?;
            for run in gather::runs(&spans, usize::MAX) {
                let (looked, reads) = order.entry(spans[run.start].0).or_default();
                *looked += run.len() as u64;
                *reads += 1;
            }
            cursor.skip_blocks(step)?;
        }
    }
    Ok(order)
}

/// Where the values of the next entries stand, in the order in which they are read.
fn next_spans(version: &Version, cursor: &mut TableCursor) -> Result<Vec<(u32, u64, u32)>> {
    let mut spans = Vec::new();
    for _ in 0..SAMPLE_ENTRIES {
        let Some(entry) = cursor.entry() else { break };
        if let Some(pointer) = entry.pointer()
            && let Some((segment, offset)) = version.resolve(pointer)?
        {
            spans.push((segment.identity.number, offset, pointer.len));
        }
        cursor.next()?;
    }
    spans.sort_unstable();
    Ok(spans)
}

/// The segments that are to be written anew, those with the least needed bytes first.
pub(crate) fn choose(version: &Version, order: &Order) -> Vec<u32> {
    let of = |segment: &Segment| {
        let number = segment.identity.number;
        (version.live(number).min(segment.bytes()), segment.bytes(), number)
    };
    let is_flushed =
        |s: &&Segment| s.sealed.is_some_and(|sealed| sealed.last_seq <= version.flushed);
    let mut chosen: Vec<_> = version.segments().filter(is_flushed).map(of).collect();
    let garbage: u64 = chosen.iter().map(|(live, bytes, _)| bytes - live).sum();
    let all: u64 = chosen.iter().map(|(_, bytes, _)| bytes).sum();
    if garbage <= SLACK_BYTES_MIN {
        return Vec::new();
    }
    let is_much = garbage >= all / GARBAGE_PART;
    let is_scattered = |number: &u32| {
        order.get(number).is_some_and(|(looked, reads)| reads.saturating_mul(TOGETHER) > *looked)
    };
    chosen.retain(|(live, bytes, number)| live < bytes || (is_much && is_scattered(number)));
    // The share that is needed, ascending.
    chosen.sort_by(|a, b| {
        (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
    });
    chosen.into_iter().map(|(_, _, number)| number).collect()
}

/// Takes those from the front of a list whose values move next; on the disk there is room for this
/// many bytes.
pub(crate) fn next_batch(
    version: &Version,
    list: &mut Vec<u32>,
    segment_bytes: u64,
    disk_room: u64,
) -> Vec<u32> {
    let needed = Survey::new(version).needed_bytes();
    let tables: u64 = version.tables().map(|(_, table)| table.meta.bytes).sum();
    let space = tables + version.segments().map(Segment::bytes).sum::<u64>();
    let room = (needed / 100).saturating_mul(PERCENT).saturating_sub(space + tables);
    let most = room.clamp(needed / BATCH_PART_MIN, needed / BATCH_PART).max(segment_bytes);
    gc::next_step(version, list, most.min(disk_room / DISK_PART))
}

/// The tables to write anew for values of these segments to move, a plan for some neighbours each:
/// what is written of a plan may reach from its first key to its last one, and must not reach over
/// other tables.
pub(crate) fn plans(version: &Version, segments: &[u32]) -> Vec<Plan> {
    let points = |table: &TableFile| {
        let mut references = table.meta.references.iter();
        references.any(|reference| segments.contains(&version.stands_in(reference.segment)))
    };
    let most = Survey::new(version).needed_bytes() / TABLES_PART;
    let (mut plans, mut bytes): (Vec<Plan>, u64) = (Vec::new(), u64::MAX);
    for table in version.level(BOTTOM) {
        if !points(table) {
            bytes = u64::MAX;
            continue;
        }
        bytes = bytes.saturating_add(table.meta.bytes);
        match plans.last_mut() {
            Some(plan) if bytes <= most => plan.upper.push(table.meta.number),
            _ => {
                bytes = table.meta.bytes;
                let upper = vec![table.meta.number];
                plans.push(Plan { from: BOTTOM, upper, to: BOTTOM, lower: vec![], is_last: true });
            }
        }
    }
    plans
}

#[cfg(test)]
#[path = "arrange/tests.rs"]
pub(in crate::lsm) mod tests;
