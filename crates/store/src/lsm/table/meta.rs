//! What is known of a table without opening it: its line in the manifest. This module is pure data.

use super::super::entry::order;
use super::super::varint::{self, Reader};

/// The keys that a table may hold something about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The first one.
    pub(crate) first: Vec<u8>,
    /// The last one, or the first one after it.
    pub(crate) last: Vec<u8>,
    /// Whether `last` itself lies outside: it is the end of a range tombstone.
    pub(crate) excludes_last: bool,
}

impl Bounds {
    /// Whether all of it lies before `key`.
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        let order = order(&self.last, key);
        if self.excludes_last { order.is_le() } else { order.is_lt() }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        !self.is_after(key) && !self.is_before(key)
    }

    pub(crate) fn is_after(&self, key: &[u8]) -> bool {
        order(&self.first, key).is_gt()
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        !self.is_before(&other.first) && !other.is_before(&self.first)
    }

    /// The smallest bounds around both.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let last = |b: &Self| (b.last.clone(), !b.excludes_last);
        let (last, includes_last) = last(self).max(last(other));
        let first = self.first.clone().min(other.first.clone());
        Self { first, last, excludes_last: !includes_last }
    }

    /// The smallest bounds around all; `None` for nothing.
    pub(crate) fn around<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        all.fold(None, |sum: Option<Self>, bounds| {
            Some(sum.map_or_else(|| bounds.clone(), |sum| sum.join(bounds)))
        })
    }
}

/// How much of a segment a table points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) segment: u32,
    /// Bytes of the segment, with what surrounds the values.
    pub(crate) bytes: u64,
}

/// What is known of a table without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) number: u32,
    /// The length of its file.
    pub(crate) bytes: u64,
    /// Entries, tombstones included, range tombstones not.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Range tombstones.
    pub(crate) ranges: u64,
    /// Entries that were kept for snapshots only.
    pub(crate) shadowed: u64,
    /// The lowest and the highest sequence number.
    pub(crate) seqs: (u64, u64),
    pub(crate) bounds: Bounds,
    /// By segment, ascending.
    pub(crate) references: Vec<Reference>,
}

impl TableMeta {
    /// Entries that are no tombstones.
    pub(crate) fn puts(&self) -> u64 {
        self.entries.saturating_sub(self.tombstones)
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let numbers = [
            u64::from(self.number),
            self.bytes,
            self.entries,
            self.tombstones,
            self.ranges,
            self.shadowed,
            self.seqs.0,
            self.seqs.1,
        ];
        numbers.iter().for_each(|&number| varint::push(bytes, number));
        varint::push_bytes(bytes, &self.bounds.first);
        varint::push_bytes(bytes, &self.bounds.last);
        bytes.push(u8::from(self.bounds.excludes_last));
        varint::push(bytes, self.references.len() as u64);
        for reference in &self.references {
            varint::push(bytes, u64::from(reference.segment));
            varint::push(bytes, reference.bytes);
        }
    }

    /// `None` if these bytes are none.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let number = reader.number_u32()?;
        let bytes = reader.number()?;
        let entries = reader.number()?;
        let tombstones = reader.number()?;
        let (ranges, shadowed) = (reader.number()?, reader.number()?);
        let seqs = (reader.number()?, reader.number()?);
        let (first, last) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
        let bounds = Bounds { first, last, excludes_last: reader.u8()? == 1 };
        let mut references = Vec::new();
        for _ in 0..reader.number()? {
            let segment = reader.number_u32()?;
            references.push(Reference { segment, bytes: reader.number()? });
        }
        let fits = bounds.first <= bounds.last && seqs.0 <= seqs.1;
        fits.then_some(Self {
            number,
            bytes,
            entries,
            tombstones,
            ranges,
            shadowed,
            seqs,
            bounds,
            references,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(first: &[u8], last: &[u8], excludes_last: bool) -> Bounds {
        Bounds { first: first.to_vec(), last: last.to_vec(), excludes_last }
    }

    #[test]
    fn an_excluded_end_touches_nothing() {
        let (left, right) = (bounds(b"a", b"m", true), bounds(b"m", b"z", false));
        assert!(!left.overlaps(&right) && !right.overlaps(&left));
        assert!(left.is_before(b"m") && !left.contains(b"m") && left.contains(b"lzz"));
        let including = bounds(b"a", b"m", false);
        assert!(including.overlaps(&right) && including.contains(b"m"));
        assert_eq!(left.join(&including), including);
        assert_eq!(left.join(&right), bounds(b"a", b"z", false));
    }

    #[test]
    fn a_line_is_its_bytes() {
        let meta = TableMeta {
            number: 9,
            bytes: 1 << 33,
            entries: 5,
            tombstones: 1,
            ranges: 2,
            shadowed: 3,
            seqs: (4, 1 << 50),
            bounds: bounds(b"a", b"b", true),
            references: vec![Reference { segment: 1, bytes: 77 }],
        };
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(TableMeta::decode(&mut reader), Some(meta));
        assert!(reader.is_empty());
        for len in 0..bytes.len() {
            assert_eq!(TableMeta::decode(&mut Reader::new(&bytes[..len])), None);
        }
    }
}
