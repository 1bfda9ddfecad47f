//! What leaves of a sorted list of pairs take, and where to cut such a list: pure functions over
//! data.

use super::cell::Behind;
use super::group::GroupSize;
use super::{HEADER_LEN, KNOWN_MAX, KeyCell, Layout, RestCell, ValueCell, max_inline_key, pad4};
use crate::tree::Bytes;
use crate::tree::order::{Form, KeyOrder};

/// A key and one of its values on the way into a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) key: KeyCell<'a>,
    pub(crate) value: ValueCell<'a>,
    /// False if the key is that of the pair before.
    pub(crate) starts: bool,
}

/// How many bytes a leaf of a sorted list of keys keeps once: what its ends share, no more than is
/// known of any, and no more than a key in a page can have.
pub(super) fn leaf_shared(
    form: &Form,
    (first, last): (&KeyCell<'_>, &KeyCell<'_>),
    known_min: usize,
    page_size: usize,
) -> usize {
    let shared = form.shared_of_keys(&first.known, &last.known);
    shared.min(known_min).min(max_inline_key(page_size))
}

/// The size of a leaf, fed pair by pair.
#[derive(Clone, Copy)]
pub(crate) struct LeafSize<'a> {
    first: Option<KeyCell<'a>>,
    last: Option<KeyCell<'a>>,
    known_min: usize,
    groups: usize,
    keys_len: usize,
    closed: usize,
    group: GroupSize,
    first_value: Bytes<'a>,
    /// What follows the last key if it has one value.
    single: Behind,
}

impl<'a> LeafSize<'a> {
    pub(crate) fn new() -> Self {
        Self {
            first: None,
            last: None,
            known_min: usize::MAX,
            groups: 0,
            keys_len: 0,
            closed: 0,
            group: GroupSize::default(),
            first_value: Bytes::default(),
            single: Behind::plain(0),
        }
    }

    /// Adds a pair after the ones before.
    pub(crate) fn push(&mut self, pair: &Pair<'a>, form: &Form) {
        if pair.starts || self.first.is_none() {
            self.closed += self.open_group(form.layout());
            self.group = GroupSize::default();
            self.groups += 1;
            self.keys_len += match form.layout() {
                Layout::Dense | Layout::Headless => dense_key_len(&pair.key),
                // Its records are counted whole.
                Layout::Aligned => 0,
            };
            if pair.key.extent.is_some() {
                self.known_min = self.known_min.min(shareable(&pair.key));
            }
            self.first = self.first.or(Some(pair.key));
            self.last = Some(pair.key);
            self.single = Behind::of(form.layout(), &pair.value);
        }
        if let (Some(_), ValueCell::Inline(value)) = (&form.values, &pair.value) {
            let shared = if self.group.count == 0 {
                self.first_value = *value;
                value.len()
            } else {
                form.shared_of_values(&self.first_value, value)
            };
            self.group.push(value.len(), shared);
        }
    }

    /// What the last group takes, in a dense record without its key.
    fn open_group(&self, layout: Layout) -> usize {
        let Some(key) = &self.last else { return 0 };
        let behind = match self.group.count {
            0 | 1 => self.single,
            _ => Behind::group(self.group.body(layout)),
        };
        match layout {
            Layout::Dense | Layout::Headless => behind.dense_len(),
            Layout::Aligned => {
                layout.record_len(&RestCell::of(key, 0, &KeyOrder::Bytewise), behind)
            }
        }
    }

    /// The size in bytes of a page of all pairs so far; an upper bound.
    pub(crate) fn len(&self, form: &Form, page_size: usize) -> usize {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return HEADER_LEN };
        let shared = leaf_shared(form, (first, last), self.known_min, page_size);
        // Only the known part of long keys is kept, so nothing is saved on them.
        let saved = if self.known_min == usize::MAX { self.groups * shared } else { 0 };
        HEADER_LEN
            + pad4(shared)
            + form.layout().slot_len() * self.groups
            + self.keys_len.saturating_sub(saved)
            + self.closed
            + self.open_group(form.layout())
    }
}

/// What a key takes in a dense record, at most: taking shared bytes off never makes it longer.
fn dense_key_len(key: &KeyCell<'_>) -> usize {
    let whole = RestCell::of(key, 0, &KeyOrder::Bytewise);
    match key.extent {
        Some(_) => whole.len() - whole.rest.len() + KNOWN_MAX,
        None => whole.len(),
    }
}

/// The sizes of all leaves that a sorted list of pairs can be cut into.
pub(crate) struct Sizes<'l, 'a> {
    pairs: &'l [Pair<'a>],
    form: &'l Form,
    page_size: usize,
    /// What the pairs up to and including each take in one leaf, shared bytes not taken off.
    ends: Vec<usize>,
}

impl<'l, 'a> Sizes<'l, 'a> {
    pub(crate) fn new(pairs: &'l [Pair<'a>], form: &'l Form, page_size: usize) -> Self {
        let (mut size, layout) = (LeafSize::new(), form.layout());
        let end = |pair| {
            size.push(pair, form);
            let records = size.closed + size.open_group(layout) + size.keys_len;
            records + layout.slot_len() * size.groups
        };
        let ends = pairs.iter().map(end).collect();
        Self { pairs, form, page_size, ends }
    }

    /// The size of a leaf of the pairs in a range; an upper bound.
    pub(crate) fn leaf_len(&self, range: std::ops::Range<usize>) -> usize {
        let mut size = LeafSize::new();
        for pair in &self.pairs[range] {
            size.push(pair, self.form);
        }
        size.len(self.form, self.page_size)
    }

    /// Where to cut the list into `pages` leaves; see [`cut_evenly`].
    pub(crate) fn cut(&self, pages: usize) -> Option<Vec<usize>> {
        let end = |n: usize| n.checked_sub(1).map_or(0, |last| self.ends[last]);
        let fits = |part| self.leaf_len(part) <= self.page_size;
        cut_evenly(self.ends.len(), pages, end, fits)
    }

    /// Where to cut the list, whose last pair is new and after all others, into two leaves of which
    /// the first one stays as full as it is: before the last key or, if that has more than half a
    /// page of values, before the last one of these. `None` if they do not fit.
    pub(crate) fn cut_appended(&self) -> Option<Vec<usize>> {
        let last = self.pairs.len().checked_sub(1)?;
        let begin = self.pairs.iter().rposition(|pair| pair.starts).unwrap_or(0);
        let is_short = begin > 0 && self.ends[last] - self.ends[begin - 1] <= self.page_size / 2;
        let cut = if is_short { begin } else { last };
        let fits = |part| self.leaf_len(part) <= self.page_size;
        (cut > 0 && fits(0..cut) && fits(cut..last + 1)).then(|| vec![cut])
    }
}

/// Where to cut a list of `len` entries, of which the first n take `end(n)` bytes, into `pages`
/// pages of about the same fill, each of which fits: the index of the first entry of each page but
/// the first. `None` if they do not.
pub(crate) fn cut_evenly(
    len: usize,
    pages: usize,
    end: impl Fn(usize) -> usize,
    fits: impl Fn(std::ops::Range<usize>) -> bool,
) -> Option<Vec<usize>> {
    let total = end(len);
    let mut cuts = Vec::with_capacity(pages);
    let mut from = 0;
    for page in 1..=pages {
        let to = if page == pages {
            len
        } else {
            let bound = total * page / pages;
            let at = last_within(len, bound, &end);
            // The entry that crosses the bound goes to the side on which more of it lies.
            let more = at < len && bound - end(at) > end(at + 1) - bound;
            (at + usize::from(more)).clamp(from + 1, len.checked_sub(pages - page)?)
        };
        if from >= to || !fits(from..to) {
            return None;
        }
        if page < pages {
            cuts.push(to);
        }
        from = to;
    }
    Some(cuts)
}

/// The most entries of a list that take no more than `bound` bytes together.
fn last_within(len: usize, bound: usize, end: impl Fn(usize) -> usize) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if end(middle) <= bound {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// How many bytes of a long key may be shared: the head needs four more that are known.
pub(super) fn shareable(key: &KeyCell<'_>) -> usize {
    key.known.len().saturating_sub(4)
}
