//! Which keys commits have touched, as the log says it: for followers, which go from one commit
//! to a later one. Where the log is not there any more, or says too much to be kept in
//! memory, the tables say it (`newer`).

use crate::Result;
use crate::lsm::levels::version::{Segment, Version};
use crate::lsm::log::groups::{Groups, Stretch};
use crate::lsm::log::segment::{Group, HEADER_BYTES, OpKind, Ops};
use std::sync::Arc;

/// What of the log is not written yet: its segment, its place there, and the bytes.
pub(crate) type HeldTail = (u32, u64, Arc<Vec<u8>>);

/// The keys, and a group that is read, take up to this many bytes of memory, but no more than
const BYTES_MAX: u64 = 32 << 20;
/// this part of what the store may take.
const MEMORY_PART: u64 = 8;
/// What a key takes besides its bytes.
const KEY_BYTES: u64 = 48;

/// Up to where the log was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogPlace {
    segment: u32,
    offset: u64,
    /// The last sequence number before it.
    seq: u64,
}

/// What was written between two commits.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Full keys that were put or deleted, ascending.
    keys: Vec<Vec<u8>>,
    /// Deleted ranges: the first full key, and the first one after it that is not deleted;
    /// ascending by their beginning, and apart.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: u64,
}

impl Touched {
    /// What the commits after one, up to another one, have touched, read from the log on from
    /// `place`, which is moved; `None` if the log does not say it. `held` was taken when `at` was
    /// published, and `version` afterwards.
    pub(crate) fn find(
        version: &Version,
        held: &HeldTail,
        (after, at): (u64, u64),
        place: &mut LogPlace,
    ) -> Option<Self> {
        let limit = version.directory().budget.limit() / MEMORY_PART;
        let bytes_max = limit.min(BYTES_MAX);
        let touched = Self::default();
        let mut reader = LogWalk { after, at, next: after + 1, touched, bytes_max };
        // What cannot be read stands in tables, or a read of these will say what is wrong.
        let is_whole = reader.read(version, held, place).unwrap_or(false);
        let Self { mut keys, ranges, bytes } = reader.touched;
        if !is_whole || bytes > bytes_max {
            return None;
        }
        keys.sort_unstable();
        keys.dedup();
        Some(Self { keys, ranges: union(ranges), bytes })
    }

    /// The keys from one full key on and before another one.
    pub(crate) fn keys(&self, from: &[u8], to: &[u8]) -> &[Vec<u8>] {
        let begin = self.keys.partition_point(|key| key.as_slice() < from);
        let end = self.keys.partition_point(|key| key.as_slice() < to);
        self.keys.get(begin..end).unwrap_or_default()
    }

    /// The deleted ranges with a part from one full key on and before another one.
    pub(crate) fn ranges(&self, from: &[u8], to: &[u8]) -> &[(Vec<u8>, Vec<u8>)] {
        let begin = self.ranges.partition_point(|range| range.1.as_slice() <= from);
        let end = self.ranges.partition_point(|range| range.0.as_slice() < to);
        self.ranges.get(begin..end).unwrap_or_default()
    }

    fn add(&mut self, group: &Group<'_>) {
        for op in Ops::new(group.body) {
            self.bytes += op.key.len() as u64 + KEY_BYTES;
            match op.kind {
                OpKind::DeleteRange => {
                    self.bytes += op.value.len() as u64 + KEY_BYTES;
                    self.ranges.push((op.key.to_vec(), op.value.to_vec()));
                }
                OpKind::Put | OpKind::PutSeparated | OpKind::Delete => {
                    self.keys.push(op.key.to_vec());
                }
            }
        }
    }
}

/// Ranges as ranges that are apart, ascending.
pub(crate) fn union(mut ranges: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    ranges.sort_unstable();
    let mut apart: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match apart.last_mut() {
            Some(last) if from <= last.1 => {
                if to > last.1 {
                    last.1 = to;
                }
            }
            _ => apart.push((from, to)),
        }
    }
    apart
}

/// A way along the log.
struct LogWalk {
    after: u64,
    at: u64,
    /// The sequence number that comes next.
    next: u64,
    touched: Touched,
    bytes_max: u64,
}

impl LogWalk {
    /// Whether all that was asked for was found.
    fn read(
        &mut self,
        version: &Version,
        (held_segment, held_offset, held): &HeldTail,
        place: &mut LogPlace,
    ) -> Result<bool> {
        let known = (place.seq == self.after).then_some(*place);
        let first = known.map_or(0, |known| known.segment);
        // Of segments of collected values the manifest says that they hold no commit.
        let holds = |s: &&Segment| s.sealed.is_none_or(|end| end.last_seq > self.after);
        let is_between = |s: &&Segment| (first..=*held_segment).contains(&s.identity.number);
        let segments: Vec<&Segment> =
            version.segments().filter(|s| is_between(s) && holds(s)).collect();
        for segment in segments {
            let number = segment.identity.number;
            let from = known.filter(|known| known.segment == number);
            let from = from.map_or(HEADER_BYTES as u64, |known| known.offset);
            let end = match segment.sealed {
                Some(sealed) => sealed.len,
                None if number == *held_segment => *held_offset,
                None => segment.handle().len()?,
            };
            if from < end {
                let (file, path) = (segment.handle().file()?, segment.handle().path());
                let mut groups = Groups::new(segment.identity, file, path, end)?;
                groups.pass(from);
                while groups.next_len()? <= self.bytes_max
                    && let Some(group) = groups.next()?
                {
                    if !self.see(&group, number, place) {
                        return Ok(self.next > self.at);
                    }
                }
            }
            if number == *held_segment {
                let stretch = Stretch::of(&segment.identity, *held_offset, held);
                let mut new = stretch.groups().filter(|group| group.offset >= from);
                new.all(|group| self.see(&group, number, place));
            }
        }
        Ok(self.next > self.at)
    }

    /// Takes a group; whether to go on.
    fn see(&mut self, group: &Group<'_>, segment: u32, place: &mut LogPlace) -> bool {
        let last = group.last_seq();
        if last > self.at || (group.seq != self.next && last > self.after) {
            return false;
        }
        if last > self.after {
            self.next = last + 1;
            self.touched.add(group);
        }
        *place = LogPlace { segment, offset: group.end(), seq: last };
        self.touched.bytes <= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_that_have_a_part_between_two_keys() {
        let range = |from: u8, to: u8| (vec![from], vec![to]);
        let ranges = union(vec![range(2, 4), range(9, 12), range(6, 7)]);
        let touched = Touched { ranges: ranges.clone(), ..Touched::default() };
        for from in 0..14 {
            for to in from + 1..15 {
                let is_met = |range: &&(Vec<u8>, Vec<u8>)| range.0[0] < to && range.1[0] > from;
                let met: Vec<_> = ranges.iter().filter(is_met).cloned().collect();
                assert_eq!(touched.ranges(&[from], &[to]), met);
            }
        }
    }
}
