//! Records of neighbouring leaves on their way into others, as bytes: copied whole where their page
//! shares what the new one does, and together where they lie side by side.
//!
//! The usual way of laying leaves out anew. It takes records with one value and a key that stands
//! in the page; all others go through the lists of [`build`](super::build). Pure functions over
//! data.

use std::ops::Range;

use super::build::{cut_evenly, flags_of, head_of_rest, put_shared};
use super::search::head_in;
use super::{
    Count, EXTENT_CELL, HEADER_LEN, KeyCell, Page, PageMut, code, length_len, max_inline_key, pad4,
    put_length, slot_len,
};
use crate::tree::Bytes;
use crate::tree::order::KeyOrder;
use crate::tree::tree::Form;

/// Why a page cannot be built: the records of a damaged one may lie over each other.
const TOO_LARGE: &str = "records that do not fit in a page, although they stood in one";

/// A sorted list of records.
pub(crate) struct Records<'a> {
    form: &'a Form,
    page_size: usize,
    sources: Vec<Source<'a>>,
    items: Vec<Item>,
}

/// Where records stand: in a page, or one alone.
struct Source<'a> {
    bytes: &'a [u8],
    /// What their keys share, and their rests do not have.
    shared: &'a [u8],
}

/// A record.
#[derive(Clone, Copy)]
struct Item {
    source: u16,
    at: u16,
    len: u16,
    /// The length of its key's rest.
    rest: u16,
    head: u32,
    /// What the records up to and including this one take in one leaf with nothing shared.
    end: u32,
}

impl<'a> Records<'a> {
    /// An empty list for leaves of `form`; `None` if its keys may have several values.
    pub(crate) fn new(form: &'a Form, page_size: usize) -> Option<Self> {
        let items = Vec::with_capacity(128);
        form.values.is_none().then(|| Self { form, page_size, sources: Vec::new(), items })
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds some records of a leaf behind the others. False, and the list is of no use any more, if
    /// one of them is not of the usual kind.
    pub(crate) fn add(&mut self, page: Page<'a>, slots: Range<usize>) -> bool {
        let (source, shared) = (self.sources.len() as u16, page.shared());
        self.sources.push(Source { bytes: page.bytes(), shared });
        self.items.reserve(slots.len());
        let (mut end, mut is_usual) = (self.end(self.items.len()) as u32, true);
        let items = slots.map(|slot| {
            let record = page.leaf_record(slot);
            is_usual &= record.key < code::FIRST && record.value != code::GROUP;
            let behind =
                if record.value < code::FIRST { record.value as usize } else { EXTENT_CELL };
            let rest = record.key as usize;
            let len = record.data - record.at + rest + behind;
            let whole = shared.len() + rest;
            end +=
                (slot_len(0, 0) + len + length_len(whole) - length_len(rest) + whole - rest) as u32;
            let (at, len, rest) = (record.at as u16, len as u16, rest as u16);
            Item { source, at, len, rest, head: page.head(slot), end }
        });
        self.items.extend(items);
        is_usual
    }

    /// Adds a record that stands alone, with its whole key, of `key_len` bytes, as the rest.
    pub(crate) fn add_alone(&mut self, record: &'a [u8], key_len: usize) {
        let end = (self.end(self.items.len()) + slot_len(0, 0) + record.len()) as u32;
        let (source, len, rest) = (self.sources.len() as u16, record.len() as u16, key_len as u16);
        self.sources.push(Source { bytes: record, shared: &[] });
        let mut item = Item { source, at: 0, len, rest, head: 0, end };
        item.head = head_of_rest(&self.form.keys, &self.rest(&item));
        self.items.push(item);
    }

    /// What the first `n` records take in one leaf with nothing shared.
    fn end(&self, n: usize) -> usize {
        if n == 0 { 0 } else { self.items[n - 1].end as usize }
    }

    /// Where the rest of a record's key begins in its source.
    fn rest_at(&self, item: &Item) -> usize {
        let behind = usize::from(item.at) + length_len(usize::from(item.rest));
        behind + if self.sources[usize::from(item.source)].bytes[behind] < 0x80 { 1 } else { 2 }
    }

    /// The rest of a record's key in its source.
    fn rest(&self, item: &Item) -> Bytes<'a> {
        let at = self.rest_at(item);
        let bytes = self.sources[usize::from(item.source)].bytes;
        Bytes::from(&bytes[at..at + usize::from(item.rest)])
    }

    /// The whole key of a record.
    pub(crate) fn key(&self, i: usize) -> Bytes<'a> {
        self.key_of(&self.items[i])
    }

    fn key_of(&self, item: &Item) -> Bytes<'a> {
        let (shared, (rest, _)) =
            (self.sources[usize::from(item.source)].shared, self.rest(item).parts());
        match self.form.keys {
            KeyOrder::Reverse => Bytes::new(rest, shared),
            _ => Bytes::new(shared, rest),
        }
    }

    /// How many bytes the keys of some records share.
    fn shared(&self, range: &Range<usize>) -> usize {
        let (first, last) = (self.key(range.start), self.key(range.end - 1));
        self.form.keys.shared(&first, &last).min(max_inline_key(self.page_size))
    }

    /// The size of a leaf of some records; an upper bound.
    pub(crate) fn leaf_len(&self, range: Range<usize>) -> usize {
        let shared = self.shared(&range);
        let records = self.end(range.end) - self.end(range.start);
        // The keys of a damaged page may share less than their ends do.
        HEADER_LEN + pad4(shared) + records.saturating_sub(range.len() * shared)
    }

    /// Where to cut the list into `pages` leaves; see [`cut_evenly`].
    pub(crate) fn cut(&self, pages: usize) -> Option<Vec<usize>> {
        let fits = |part| self.leaf_len(part) <= self.page_size;
        cut_evenly(self.len(), pages, |n| self.end(n), fits)
    }

    /// Builds a leaf of some records. Returns its counters; an error if they do not fit.
    pub(crate) fn build(&self, range: Range<usize>, out: &mut [u8]) -> Result<Count, &'static str> {
        let mut page = PageMut::new(out);
        page.format(0, flags_of(self.form, 0));
        let (shared, n) = (self.shared(&range), range.len());
        let first = KeyCell { known: self.key(range.start), extent: None };
        put_shared(page.bytes, &self.form.keys, &first, shared);
        let heap = self.put(&self.items[range], shared, page.bytes)?;
        page.set_len(n);
        page.set_heap_len(heap);
        page.clear_free();
        Ok(Count { keys: n as u64, values: n as u64 })
    }

    /// Writes heads, offsets and records, from the last one back, so that the first one stands at
    /// the lowest address: scans run forward. Returns the length of all records.
    fn put(&self, items: &[Item], shared: usize, out: &mut [u8]) -> Result<usize, &'static str> {
        let heads = HEADER_LEN + pad4(shared);
        let behind = heads + slot_len(0, 0) * items.len();
        let (arrays, records) = out.split_at_mut_checked(behind).ok_or(TOO_LARGE)?;
        let (heads, offsets) = arrays[heads..].split_at_mut(4 * items.len());
        let slots = heads.as_chunks_mut::<4>().0.iter_mut().zip(offsets.as_chunks_mut::<2>().0);
        let mut at = records.len();
        let mut run = Run { source: 0, bytes: 0..0 };
        for (item, (head, offset)) in items.iter().zip(slots).rev() {
            if self.sources[usize::from(item.source)].shared.len() == shared {
                if !run.takes(item) {
                    run.copy(self, &mut records[at..]);
                    run = Run::of(item);
                }
                at = at.checked_sub(usize::from(item.len)).ok_or(TOO_LARGE)?;
                *head = item.head.to_le_bytes();
            } else {
                run.copy(self, &mut records[at..]);
                run = Run { source: 0, bytes: 0..0 };
                let (to, new) = self.recut(item, shared, &mut records[..at]).ok_or(TOO_LARGE)?;
                (at, *head) = (to, new.to_le_bytes());
            }
            *offset = ((behind + at) as u16).to_le_bytes();
        }
        run.copy(self, &mut records[at..]);
        Ok(records.len() - at)
    }

    /// Writes a record to the end of `out` with another number of its key's bytes shared; returns
    /// where, and its head. `None` if there is no room.
    fn recut(&self, item: &Item, shared: usize, out: &mut [u8]) -> Option<(usize, u32)> {
        let (key, order) = (self.key_of(item), &self.form.keys);
        // A key of a damaged page need not have what it is said to share.
        let own = key.len() - shared.min(key.len());
        let rest = match order {
            KeyOrder::Reverse => key.sub(0, own),
            _ => key.sub(key.len() - own, key.len()),
        };
        let bytes = self.sources[usize::from(item.source)].bytes;
        let (start, rest_at) = (usize::from(item.at), self.rest_at(item));
        let length = &bytes[start + length_len(usize::from(item.rest))..rest_at];
        let value = &bytes[rest_at + usize::from(item.rest)..start + usize::from(item.len)];
        let at = out.len().checked_sub(length_len(own) + length.len() + own + value.len())?;
        let mut to = at + put_length(out, at, own as u32);
        // One or two bytes.
        for byte in length {
            out[to] = *byte;
            to += 1;
        }
        rest.write(out, to);
        out[to + own..].copy_from_slice(value);
        let head =
            rest.as_slice().map_or_else(|| head_of_rest(order, &rest), |rest| head_in(order, rest));
        Some((at, head))
    }
}

/// Records side by side in one source, on their way to one place.
struct Run {
    source: u16,
    bytes: Range<usize>,
}

impl Run {
    /// One record.
    fn of(item: &Item) -> Self {
        let at = usize::from(item.at);
        Self { source: item.source, bytes: at..at + usize::from(item.len) }
    }

    /// Takes a record that ends where the run begins.
    fn takes(&mut self, item: &Item) -> bool {
        let before = Self::of(item);
        let joins = before.bytes.end == self.bytes.start && before.source == self.source;
        if joins {
            self.bytes.start = before.bytes.start;
        }
        joins
    }

    /// Copies the run to the beginning of `out`.
    fn copy(&self, records: &Records<'_>, out: &mut [u8]) {
        let bytes = &records.sources[usize::from(self.source)].bytes[self.bytes.clone()];
        out[..bytes.len()].copy_from_slice(bytes);
    }
}
