//! Taking one value out of a group where it stands, and what putting one in has in common with it.

use super::group::Group;
use super::{Layout, PageMut, Record};
use crate::coding::put_u16;
use crate::tree::order::Form;

impl PageMut<'_> {
    /// Takes value `at` out of the group of slot `i`, which stays as it is otherwise. False, and no
    /// change, where it cannot: one value is left, or what is left shares more, or has one length
    /// now.
    pub(super) fn cut_in_group(&mut self, i: usize, at: usize, form: &Form) -> bool {
        let view = self.view();
        let record = view.leaf_record(i);
        let Some(group) = record.group() else { return false };
        let (layout, count) = (view.layout(), group.count());
        if count < 3 || shares_more(&group, at, form) {
            return false;
        }
        let (len, less) = match group.stride() {
            Some(len) => (len, 0),
            None if has_one_length(&group, at) => return false,
            None => (
                group.rest_at(at + 1) - group.rest_at(at),
                layout.ends_len(count) - layout.ends_len(count - 1),
            ),
        };
        let (from, group_at, odd) =
            (record.at, record.value_at(), odd_end(layout, &record, &group));
        let (end_at, data, data_at) = (group.end_at(at), group.data(), group.rest_at(at));
        let (is_varied, ends_end) = (group.stride().is_none(), group.end_at(0) + 2 * count);
        let by = match odd {
            None => len + less,
            Some(odd) => self.move_odd(data_at + len, odd) - data_at,
        };
        if is_varied {
            // The rests before its own, and the ends after it, which are those of values that
            // begin earlier now.
            self.bytes.copy_within(data..data_at, data + len);
            self.bytes.copy_within(end_at + 2..ends_end, end_at + by);
            let ends_end = ends_end + by - 2;
            shift_ends(&mut self.bytes[end_at + by..ends_end], (len as u16).wrapping_neg());
            self.bytes[ends_end..data + len].fill(0);
        }
        self.bytes.copy_within(from..end_at, from + by);
        put_u16(self.bytes, group_at + by, (count - 1) as u16);
        // What the record leaves stands before it.
        if by > 0 {
            self.leave_hole(i, (from, by));
            let view = self.view();
            let offset_at = view.offsets_at() + view.step() * i;
            put_u16(self.bytes, offset_at, (self.view().record_offset(i) + by) as u16);
        }
        true
    }
}

/// Where the values of a group end whose length is odd, in an ALIGNED leaf.
#[derive(Clone, Copy)]
pub(super) struct OddEnd {
    end: usize,
    /// Whether a byte of padding follows.
    pub(super) is_padded: bool,
}

/// The end of a group's values, if it may be at an odd address.
pub(super) fn odd_end(layout: Layout, record: &Record<'_>, group: &Group<'_>) -> Option<OddEnd> {
    let is_odd = layout == Layout::Aligned && group.stride().is_some_and(|len| len % 2 == 1);
    let end = group.rest_at(group.count());
    is_odd.then_some(OddEnd { end, is_padded: (end - record.at) % 2 == 1 })
}

impl PageMut<'_> {
    /// Moves the values of a group from `at` on by a byte: over the padding, or so that there is
    /// some. One of an odd length comes or goes before them. Returns where they stand then.
    pub(super) fn move_odd(&mut self, at: usize, odd: OddEnd) -> usize {
        let to = if odd.is_padded { at + 1 } else { at - 1 };
        self.bytes.copy_within(at..odd.end, to);
        if !odd.is_padded {
            self.bytes[odd.end - 1] = 0;
        }
        to
    }
}

/// Whether the values of a group without value `at` have more in common than the group keeps once.
fn shares_more(group: &Group<'_>, at: usize, form: &Form) -> bool {
    let (first, last) = (usize::from(at == 0), group.count() - 1);
    // What lies between the two ends shares what these do.
    let last = if at == last { last - 1 } else { last };
    let is_end = first == 1 || last + 2 == group.count();
    is_end && form.shared_of_values(&group.value(first), &group.value(last)) > group.shared().len()
}

/// Whether the values of a group of several lengths have one without value `at`.
fn has_one_length(group: &Group<'_>, at: usize) -> bool {
    let first = group.rest(usize::from(at == 0)).len();
    (0..group.count()).all(|i| i == at || group.rest(i).len() == first)
}

/// Adds `by` to the ends of values.
pub(super) fn shift_ends(ends: &mut [u8], by: u16) {
    for raw in ends.as_chunks_mut::<2>().0 {
        *raw = u16::from_le_bytes(*raw).wrapping_add(by).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::build_leaf;
    use super::super::leaf::GroupEdit;
    use super::super::size::Pair;
    use super::super::{KeyCell, Page, ValueCell, checked, seal};
    use super::*;
    use crate::random;
    use crate::tree::Bytes;
    use crate::tree::order::{KeyOrder, Leaves};

    const PAGE: u32 = 5;

    type Groups = Vec<Vec<Vec<u8>>>;

    /// A leaf of groups, each with a key of its own.
    fn leaf(groups: &Groups, form: &Form) -> Vec<u8> {
        let keys: Vec<_> = (0..groups.len()).map(|slot| format!("key {slot}")).collect();
        let pairs = groups.iter().zip(&keys).flat_map(|(values, key)| {
            values.iter().enumerate().map(|(i, value)| Pair {
                key: KeyCell { known: Bytes::from(key.as_bytes()), extent: None },
                value: ValueCell::Inline(Bytes::from(&value[..])),
                starts: i == 0,
            })
        });
        let mut bytes = vec![0; 4096];
        build_leaf(&mut bytes, &pairs.collect::<Vec<_>>(), form).unwrap();
        bytes
    }

    fn read(page: Page<'_>) -> Groups {
        let values = |slot| {
            let record = page.leaf_record(slot);
            let cells = (0..record.value_count()).map(move |i| record.value(i));
            cells.filter_map(|cell| match cell {
                ValueCell::Inline(bytes) => Some(bytes.to_vec()),
                ValueCell::Extent(_) => None,
            })
        };
        (0..page.len()).map(|slot| values(slot).collect()).collect()
    }

    /// Values of one length and of several, which share much or little.
    fn value(random: &mut impl FnMut(usize) -> usize, kind: usize) -> Vec<u8> {
        let len = [6, 5, 4 + random(4), 2 * random(3)][kind % 4];
        let own: Vec<u8> = (0..len).map(|_| b'a' + random(9) as u8).collect();
        if kind < 4 { own } else { [b"shared", &own[..], b"shared"].concat() }
    }

    #[test]
    fn what_a_cut_leaves_is_as_in_a_leaf_built_without_the_value() {
        let mut random = random::indexes(5);
        let (mut in_place, mut aside) = (0, Vec::new());
        for round in 0..480 {
            let order = if round % 2 == 0 { KeyOrder::Bytewise } else { KeyOrder::Reverse };
            let leaves = [Leaves::Whole, Leaves::Aligned, Leaves::Compressed][round / 2 % 3];
            let form = Form { keys: KeyOrder::Bytewise, values: Some(order.clone()), leaves };
            let mut groups: Groups = (0..3)
                .map(|_| (0..2 + random(40)).map(|_| value(&mut random, round / 6 % 8)).collect())
                .collect();
            for values in &mut groups {
                values.sort_by(|a, b| order.compare(a, b));
                values.dedup();
            }
            let mut bytes = leaf(&groups, &form);
            while let Some(slot) = groups.iter().position(|values| values.len() > 1) {
                let slot = [slot, random(3)].into_iter().rfind(|i| groups[*i].len() > 1).unwrap();
                let at = random(groups[slot].len());
                let mut page = PageMut::new(&mut bytes);
                let is_cut = page.cut_in_group(slot, at, &form);
                in_place += usize::from(is_cut);
                if !is_cut {
                    assert!(page.edit_group(slot, GroupEdit::Cut(at), &form, &mut aside));
                }
                groups[slot].remove(at);
                assert_eq!(read(page.view()), groups);
                if random(3) > 0 {
                    continue;
                }
                page.tidy();
                seal(&mut bytes, PAGE);
                let page = checked(&bytes, PAGE, 10).unwrap();
                assert!(page.has_zeros());
                let mut built = leaf(&groups, &form);
                assert_eq!(page.used(), PageMut::new(&mut built).view().used());
            }
        }
        assert!(in_place > 10_000, "{in_place}");
    }
}
