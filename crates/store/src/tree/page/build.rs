//! Building whole pages from lists of entries that fit: pure functions over data. What such a list
//! takes, and where to cut it, is for [`size`](super::size).

use super::cell::{Behind, length_len};
use super::group::{GroupSize, put_group};
use super::search::head_in;
use super::size::{Pair, leaf_shared, shareable};
use super::{
    ALIGNED, CONTINUES, Count, HEADER_LEN, HEADLESS, KeyCell, Layout, PAIRED, PageMut, REVERSED,
    RestCell, VALUES_REVERSED, ValueCell, WHOLE, max_inline_key, pad4, slot_len,
};
use crate::coding::{put_u16, put_u32};
use crate::tree::Bytes;
use crate::tree::order::{Form, KeyOrder, Leaves};
use crate::tree::page_ref::PageRef;

/// The flags of a leaf or branch of a tree of this form.
pub(crate) fn flags_of(form: &Form, level: u8) -> u8 {
    let mut flags = match form.leaves {
        _ if level > 0 => 0,
        Leaves::Compressed => 0,
        Leaves::Whole => WHOLE,
        Leaves::Aligned => WHOLE | ALIGNED,
        Leaves::Headless => WHOLE | HEADLESS,
    };
    if form.keys.is_reverse() {
        flags |= REVERSED;
    }
    if let Some(values) = &form.values {
        if values.is_reverse() {
            flags |= VALUES_REVERSED;
        }
        if level > 0 {
            flags |= PAIRED;
        }
    }
    flags
}

/// Why a page cannot be built. Entries that the engine wrote and cut into pages always fit.
const TOO_LARGE: &str = "entries that do not fit in a page, although they stood in one";

/// Builds a leaf of these pairs. Returns its counters; an error if they do not fit, as those of a
/// damaged page need not.
pub(crate) fn build_leaf(
    out: &mut [u8],
    pairs: &[Pair<'_>],
    form: &Form,
) -> Result<Count, &'static str> {
    build_leaf_sharing(out, pairs, form, usize::MAX)
}

/// The same, taking no more than `most` shared bytes off the keys.
pub(crate) fn build_leaf_sharing(
    out: &mut [u8],
    pairs: &[Pair<'_>],
    form: &Form,
    most: usize,
) -> Result<Count, &'static str> {
    let mut page = PageMut::new(out);
    page.format(0, flags_of(form, 0));
    let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else {
        return Ok(Count::default());
    };
    page.set_flag(CONTINUES, !first.starts);
    let known_min = known_min(pairs.iter().map(|pair| &pair.key)).min(most);
    let shared = leaf_shared(form, (&first.key, &last.key), known_min, page.bytes.len());
    put_shared(page.bytes, &form.keys, &first.key, shared);
    // Records stand in key order, the first one at the lowest address: scans run forward.
    let groups = match form.values {
        Some(_) => put_groups(page.bytes, pairs, form, shared)?,
        None => put_singles(page.bytes, pairs, form, shared)?,
    };
    page.set_len(groups);
    page.clear_free();
    let keys = groups as u64 - u64::from(!first.starts);
    Ok(Count { keys, values: pairs.len() as u64 })
}

/// Writes heads, slots and records of a leaf with one value a key, from the last one back; returns
/// their number.
fn put_singles(
    out: &mut [u8],
    pairs: &[Pair<'_>],
    form: &Form,
    shared: usize,
) -> Result<usize, &'static str> {
    match form.layout() {
        Layout::Dense => put_singles_of::<2>(out, pairs, &form.keys, (shared, Layout::Dense)),
        Layout::Headless => put_singles_of::<2>(out, pairs, &form.keys, (shared, Layout::Headless)),
        Layout::Aligned => put_singles_of::<4>(out, pairs, &form.keys, (shared, Layout::Aligned)),
    }
}

fn put_singles_of<const STEP: usize>(
    out: &mut [u8],
    pairs: &[Pair<'_>],
    order: &KeyOrder,
    (shared, layout): (usize, Layout),
) -> Result<usize, &'static str> {
    let (n, end) = (pairs.len(), out.len());
    let heads = HEADER_LEN + pad4(shared);
    let behind = heads + layout.slot_len() * n;
    let (arrays, records) = out.split_at_mut_checked(behind).ok_or(TOO_LARGE)?;
    let (heads, slots) = arrays[heads..].split_at_mut(layout.head_len() * n);
    let (heads, slots) = (heads.as_chunks_mut::<4>().0, slots.as_chunks_mut::<STEP>().0);
    let mut at = records.len();
    for (i, (pair, slot)) in pairs.iter().zip(slots).enumerate().rev() {
        let lengths = match plain_parts(pair, order, shared) {
            Some((rest, value)) => {
                let len = layout.plain_len(rest.len(), value.len());
                at = at.checked_sub(len).ok_or(TOO_LARGE)?;
                put_head(heads, i, || head_in(order, rest));
                layout.put_plain(&mut records[at..], rest, value)
            }
            None => {
                let key = RestCell::of(&pair.key, shared, order);
                let len = layout.record_len(&key, Behind::of(layout, &pair.value));
                at = at.checked_sub(len).ok_or(TOO_LARGE)?;
                put_head(heads, i, || head_of_rest(order, &key.rest));
                layout.put_single(&mut records[at..], &key, &pair.value)
            }
        };
        put_slot(slot, behind + at, lengths);
    }
    put_u16(out, super::HEAP_OFFSET, (end - behind - at) as u16);
    Ok(n)
}

/// Writes a head among those of a leaf, if it has any.
#[inline(always)]
fn put_head(heads: &mut [[u8; 4]], i: usize, head: impl FnOnce() -> u32) {
    if let Some(place) = heads.get_mut(i) {
        *place = head().to_le_bytes();
    }
}

/// Writes a leaf's slot but for the head: where its record stands and, where the slot tells them,
/// the bytes of its lengths.
#[inline(always)]
pub(crate) fn put_slot(slot: &mut [u8], at: usize, lengths: u16) {
    put_u16(slot, 0, at as u16);
    if slot.len() == 4 {
        put_u16(slot, 2, lengths);
    }
}

/// Writes heads, slots and records of a leaf with several values a key; returns the number of
/// groups.
fn put_groups(
    out: &mut [u8],
    pairs: &[Pair<'_>],
    form: &Form,
    shared: usize,
) -> Result<usize, &'static str> {
    let groups = pairs.iter().skip(1).filter(|pair| pair.starts).count() + 1;
    let (heads, layout) = (HEADER_LEN + pad4(shared), form.layout());
    let (step, slots) = (layout.step(), heads + layout.head_len() * groups);
    let (end, records) = (out.len(), group_records(pairs, form, shared));
    if slots + step * groups + records > end {
        return Err(TOO_LARGE);
    }
    put_u16(out, super::HEAP_OFFSET, records as u16);
    let (mut at, mut from) = (end - records, 0);
    for i in 0..groups {
        let to = group_end(pairs, from);
        let key = RestCell::of(&pairs[from].key, shared, &form.keys);
        if layout.head_len() > 0 {
            put_u32(out, heads + 4 * i, head_of_rest(&form.keys, &key.rest));
        }
        let (len, lengths) = put_record(&mut out[at..], &key, &pairs[from..to], form);
        let slot = slots + step * i;
        put_slot(&mut out[slot..slot + step], at, lengths);
        (at, from) = (at + len, to);
    }
    debug_assert_eq!(at, end);
    Ok(groups)
}

impl PageMut<'_> {
    /// Zeros the free part of the page.
    pub(crate) fn clear_free(&mut self) {
        let view = self.view();
        let free = view.used() - view.heap_len()..self.bytes.len() - view.heap_len();
        clear(&mut self.bytes[free]);
    }
}

/// Zeros a part of a page. In pieces: on long fills some C libraries begin a string instruction
/// that is slow to start.
fn clear(part: &mut [u8]) {
    part.chunks_mut(1024).for_each(|piece| piece.fill(0));
}

/// The key's rest and the value of a pair, where both are in the page in one piece.
#[inline(always)]
fn plain_parts<'a>(
    pair: &Pair<'a>,
    order: &KeyOrder,
    shared: usize,
) -> Option<(&'a [u8], &'a [u8])> {
    let (ValueCell::Inline(value), None) = (&pair.value, pair.key.extent) else { return None };
    let len = pair.key.known.len();
    // The keys of a damaged page need not have what they are said to share.
    let shared = shared.min(len);
    let rest = match order {
        KeyOrder::Reverse => pair.key.known.sub(0, len - shared),
        _ => pair.key.known.sub(shared, len),
    };
    Some((rest.as_slice()?, value.as_slice()?))
}

fn known_min<'p, 'a: 'p>(keys: impl Iterator<Item = &'p KeyCell<'a>>) -> usize {
    keys.filter(|key| key.extent.is_some()).map(shareable).min().unwrap_or(usize::MAX)
}

/// Writes the shared bytes of a page.
pub(crate) fn put_shared(out: &mut [u8], order: &KeyOrder, key: &KeyCell<'_>, shared: usize) {
    put_u16(out, super::SHARED_OFFSET, shared as u16);
    out[HEADER_LEN..HEADER_LEN + pad4(shared)].fill(0);
    let len = key.known.len();
    let part = match order {
        KeyOrder::Reverse => key.known.sub(len - shared, len),
        _ => key.known.sub(0, shared),
    };
    part.write(out, HEADER_LEN);
}

/// The head of what follows the shared bytes, in two pieces.
#[inline(always)]
pub(crate) fn head_of_rest(order: &KeyOrder, rest: &Bytes<'_>) -> u32 {
    match rest.as_slice() {
        Some(rest) => head_in(order, rest),
        None => head_of_pieces(order, rest),
    }
}

fn head_of_pieces(order: &KeyOrder, rest: &Bytes<'_>) -> u32 {
    let (len, mut four) = (rest.len(), [0; 4]);
    let n = len.min(4);
    let part = match order {
        KeyOrder::Reverse => rest.sub(len - n, len),
        _ => rest.sub(0, n),
    };
    part.write(&mut four, 0);
    head_in(order, &four[..n])
}

/// The end of the group that begins at `from`.
fn group_end(pairs: &[Pair<'_>], from: usize) -> usize {
    let more = pairs[from + 1..].iter().take_while(|pair| !pair.starts).count();
    from + 1 + more
}

fn group_size(pairs: &[Pair<'_>], form: &Form) -> GroupSize {
    let mut size = GroupSize::default();
    let inline = |pair: &Pair<'_>| match pair.value {
        ValueCell::Inline(bytes) => bytes.len(),
        ValueCell::Extent(_) => 0,
    };
    let ends = match (pairs.first().map(|p| p.value), pairs.last().map(|p| p.value)) {
        (Some(ValueCell::Inline(a)), Some(ValueCell::Inline(b))) => form.shared_of_values(&a, &b),
        _ => 0,
    };
    for pair in pairs {
        size.push(inline(pair), ends);
    }
    size
}

/// Bytes of all records of a leaf with several values a key.
fn group_records(pairs: &[Pair<'_>], form: &Form, shared: usize) -> usize {
    let (mut total, mut from) = (0, 0);
    while from < pairs.len() {
        let to = group_end(pairs, from);
        let key = RestCell::of(&pairs[from].key, shared, &form.keys);
        total += form.layout().record_len(&key, behind_of(&pairs[from..to], form));
        from = to;
    }
    total
}

/// What follows the key of these pairs.
fn behind_of(pairs: &[Pair<'_>], form: &Form) -> Behind {
    match pairs {
        [one] => Behind::of(form.layout(), &one.value),
        _ => Behind::group(group_size(pairs, form).body(form.layout())),
    }
}

/// Writes one record to the beginning of `out`; returns its length and the bytes that tell its
/// lengths.
fn put_record(out: &mut [u8], key: &RestCell<'_>, pairs: &[Pair<'_>], form: &Form) -> (usize, u16) {
    let (layout, behind) = (form.layout(), behind_of(pairs, form));
    let len = layout.record_len(key, behind);
    if let [one] = pairs {
        return (len, layout.put_single(out, key, &one.value));
    }
    let (at, lengths) = layout.put_key(out, key, behind);
    let values = pairs.iter().map(|pair| match pair.value {
        ValueCell::Inline(bytes) => bytes,
        ValueCell::Extent(_) => Bytes::default(),
    });
    let reversed = form.values.as_ref().is_some_and(KeyOrder::is_reverse);
    put_group(layout, out, at, &group_size(pairs, form), reversed, values);
    (len, lengths)
}

/// A child on the way into a branch.
#[derive(Clone, Copy)]
pub(crate) struct Child<'a> {
    /// The least pair below it; not looked at for the first child of a page.
    pub(crate) separator: KeyCell<'a>,
    /// The value part, where two children divide the values of one key.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) page: PageRef,
    pub(crate) count: Count,
}

impl Child<'_> {
    fn record_len(&self, shared: usize, order: &KeyOrder) -> usize {
        let value = self.value.map_or(0, <[u8]>::len);
        let code = self.value.map_or(0, |v| v.len() + 1);
        RestCell::of(&self.separator, shared, order).len() + length_len(code) + value
    }
}

/// What the separators of a branch share.
fn branch_shared(children: &[Child<'_>], form: &Form, page_size: usize) -> usize {
    match children {
        [_, first, .., last] => {
            let known = known_min(children[1..].iter().map(|child| &child.separator));
            let shared = form.keys.shared(&first.separator.known, &last.separator.known);
            shared.min(known).min(max_inline_key(page_size))
        }
        [_, only] => match form.keys {
            KeyOrder::Custom(_) => 0,
            _ if only.separator.extent.is_some() => {
                shareable(&only.separator).min(max_inline_key(page_size))
            }
            _ => only.separator.known.len().min(max_inline_key(page_size)),
        },
        _ => 0,
    }
}

/// The size of a branch of these children.
pub(crate) fn branch_len(
    children: &[Child<'_>],
    form: &Form,
    level: u8,
    page_size: usize,
) -> usize {
    let shared = branch_shared(children, form, page_size);
    let records: usize = children[1..].iter().map(|c| c.record_len(shared, &form.keys)).sum();
    HEADER_LEN
        + pad4(shared)
        + slot_len(level, flags_of(form, level)) * children.len()
        + 2
        + records
}

/// Builds a branch of these children. Returns its counters; an error if they do not fit.
pub(crate) fn build_branch(
    out: &mut [u8],
    children: &[Child<'_>],
    form: &Form,
    level: u8,
) -> Result<Count, &'static str> {
    let flags = flags_of(form, level);
    let shared = branch_shared(children, form, out.len());
    let mut page = PageMut::new(out);
    page.format(level, flags);
    let n = children.len();
    let heads = HEADER_LEN + pad4(shared);
    let offsets = heads + (slot_len(level, flags) - 2) * n;
    let size = page.bytes.len();
    let records: usize =
        2 + children[1..].iter().map(|c| c.record_len(shared, &form.keys)).sum::<usize>();
    if offsets + 2 * n + records > size {
        return Err(TOO_LARGE);
    }
    match children.get(1) {
        Some(child) => put_shared(page.bytes, &form.keys, &child.separator, shared),
        None => put_u16(page.bytes, super::SHARED_OFFSET, 0),
    }
    page.set_len(n);
    let mut at = size - records;
    put_u16(page.bytes, super::HEAP_OFFSET, records as u16);
    clear(&mut page.bytes[offsets + 2 * n..at]);
    let mut total = Count::default();
    for (i, child) in children.iter().enumerate() {
        put_u16(page.bytes, offsets + 2 * i, at as u16);
        if i == 0 {
            put_u32(page.bytes, heads, 0);
            page.bytes[at..at + 2].fill(0);
            at += 2;
        } else {
            let key = RestCell::of(&child.separator, shared, &form.keys);
            put_u32(page.bytes, heads + 4 * i, head_of_rest(&form.keys, &key.rest));
            let value = child.value.unwrap_or_default();
            at = key.put(page.bytes, at, child.value.map_or(0, |v| v.len() as u32 + 1));
            page.bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        }
        page.set_child(i, child.page);
        total = super::add(total, child.count);
        page.put_total(i, total);
    }
    debug_assert_eq!(at, size);
    Ok(total)
}
