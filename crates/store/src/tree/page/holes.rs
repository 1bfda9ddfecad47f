//! Holes among the records of a changed leaf: what a record leaves behind that was taken out.
//!
//! Closing a hole moves the records before it and shifts their offsets. That is put off until the
//! room is needed or the page is finished, and is then done for all holes together. So no page in
//! the file has holes, and no branch.
//!
//! ```text
//! next u16 | length u16 | sum u16
//! ```
//!
//! The header names the newest hole at [`HOLE_OFFSET`], each hole the one that was made before it;
//! 0 ends the list. The sum is the length of this hole and of all that were made before it.

use super::join::shift_offsets;
use super::{HOLE_OFFSET, Page, PageMut};
use crate::coding::{put_u16, u16_at};

/// A shorter record leaves no hole.
const LEAST: usize = 6;
/// This many holes are sorted and passed over one by one.
const FEW: usize = 12;

/// Where a hole begins, and its length.
type Hole = (usize, usize);

impl Page<'_> {
    /// The newest hole; 0 if there is none.
    #[inline(always)]
    fn newest_hole(self) -> usize {
        self.half(HOLE_OFFSET)
    }

    /// Whether there are holes among the records.
    #[inline(always)]
    pub(crate) fn has_holes(self) -> bool {
        self.newest_hole() != 0
    }

    /// The length of all holes.
    #[inline(always)]
    pub(super) fn holes_len(self) -> usize {
        match self.newest_hole() {
            0 => 0,
            at => self.half(at + 4),
        }
    }

    /// The holes as they stand in the page, at the beginning of `few`, and their number;
    /// neighbours are one. `None` if they are more than few.
    fn few_holes(self, few: &mut [Hole; FEW]) -> Option<usize> {
        let (mut n, mut at) = (0, self.newest_hole());
        while at != 0 {
            let len = self.half(at + 2);
            let place = few[..n].iter().take_while(|(before, _)| *before < at).count();
            if place < n && at + len == few[place].0 {
                few[place] = (at, len + few[place].1);
            } else if place > 0 && few[place - 1].0 + few[place - 1].1 == at {
                few[place - 1].1 += len;
            } else if n < FEW {
                (place..n).rev().for_each(|i| few[i + 1] = few[i]);
                few[place] = (at, len);
                n += 1;
            } else {
                return None;
            }
            at = self.half(at);
        }
        Some(n)
    }

    /// The same, however many they are.
    fn holes(self) -> Vec<Hole> {
        // Where holes begin, a bit for each byte.
        let mut marks = vec![0_u64; self.size.div_ceil(64)];
        let mut at = self.newest_hole();
        while at != 0 {
            marks[at / 64] |= 1 << (at % 64);
            at = self.half(at);
        }
        let mut holes: Vec<Hole> = Vec::with_capacity(64);
        for (i, word) in marks.into_iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let at = 64 * i + left.trailing_zeros() as usize;
                let len = self.half(at + 2);
                match holes.last_mut() {
                    Some(last) if last.0 + last.1 == at => last.1 += len,
                    _ => holes.push((at, len)),
                }
                left &= left - 1;
            }
        }
        holes
    }
}

impl PageMut<'_> {
    /// Takes the record of `len` bytes at `at`, that of slot `i`, out of a leaf's heap. What offset
    /// the slot has then is of no meaning.
    #[inline(always)]
    pub(super) fn leave_hole(&mut self, i: usize, (at, len): Hole) {
        let view = self.view();
        let (heap, newest) = (view.heap_len(), view.newest_hole());
        if at == self.bytes.len() - heap {
            // The first one in the heap: nothing stands before it.
            self.set_heap_len(heap - len);
        } else if len < LEAST {
            self.cut_short_record(i, len);
        } else {
            let sum = view.holes_len() + len;
            put_u16(self.bytes, at, newest as u16);
            put_u16(self.bytes, at + 2, len as u16);
            put_u16(self.bytes, at + 4, sum as u16);
            put_u16(self.bytes, HOLE_OFFSET, at as u16);
        }
    }

    #[inline(never)]
    fn cut_short_record(&mut self, i: usize, len: usize) {
        // The holes before it would move with the records.
        self.tidy();
        let at = self.view().record_offset(i);
        self.cut_heap(at, len);
    }

    /// Closes the holes of a leaf that has no room as it is, if that makes enough room for another
    /// `need` bytes. False, and no change, otherwise.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, need: usize) -> bool {
        let view = self.view();
        let has_room = view.has_holes() && view.free() >= need;
        if has_room {
            self.close_holes();
        }
        has_room
    }

    /// [`Self::insert_plain`] where there is no room unless holes are closed.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_tidied(&mut self, i: usize, head: u32, rest: &[u8], value: &[u8]) -> bool {
        let layout = self.view().layout();
        let need = layout.slot_len() + layout.plain_len(rest.len(), value.len());
        self.make_room(need) && self.insert_dense(i, head, rest, value)
    }

    /// Closes all holes, so that the records are dense up to the end of the page.
    #[inline(always)]
    pub(crate) fn tidy(&mut self) {
        if self.view().has_holes() {
            self.close_holes();
        }
    }

    #[inline(never)]
    fn close_holes(&mut self) {
        let (view, mut few) = (self.view(), [(0, 0); FEW]);
        if let Some(n) = view.few_holes(&mut few) {
            self.shift_over_few(&few[..n]);
            self.move_over(&few[..n]);
        } else {
            let holes = view.holes();
            self.shift_over(&holes);
            self.move_over(&holes);
        }
        put_u16(self.bytes, HOLE_OFFSET, 0);
    }

    /// Moves the records between ascending holes towards the end of the page.
    fn move_over(&mut self, holes: &[Hole]) {
        let heap = self.view().heap_len();
        let mut by = 0;
        for (i, (at, len)) in holes.iter().enumerate().rev() {
            by += len;
            let from = match i.checked_sub(1) {
                Some(before) => holes[before].0 + holes[before].1,
                None => self.bytes.len() - heap,
            };
            if from < *at {
                self.bytes.copy_within(from..*at, from + by);
            }
        }
        self.set_heap_len(heap - by);
    }

    /// Gives the records before ascending holes the offsets that they will have.
    fn shift_over_few(&mut self, holes: &[Hole]) {
        let (slots, step) = self.slots();
        for (at, len) in holes {
            shift_offsets(slots, step, *at, *len as u16);
        }
    }

    /// The same in one pass.
    fn shift_over(&mut self, holes: &[Hole]) {
        // Where a part of the records ends, and by how much it moves.
        let mut parts = holes.to_vec();
        parts.iter_mut().rev().fold(0, |by, part| {
            part.1 += by;
            part.1
        });
        let (slots, step) = self.slots();
        // Records that follow each other in order often do so in the heap.
        let (mut part, mut by) = (0..0, 0);
        for slot in slots.chunks_exact_mut(step) {
            let at = usize::from(u16_at(slot, 0));
            if !part.contains(&at) {
                let i = parts.partition_point(|(end, _)| *end <= at);
                let start = i.checked_sub(1).map_or(0, |before| parts[before].0);
                let (end, moves) = parts.get(i).copied().unwrap_or((usize::MAX, 0));
                (part, by) = (start..end, moves);
            }
            put_u16(slot, 0, (at + by) as u16);
        }
    }

    /// The slots of a leaf but for the heads, and what each takes.
    fn slots(&mut self) -> (&mut [u8], usize) {
        let (view, step) = (self.view(), self.view().step());
        let (at, len) = (view.offsets_at(), step * view.len());
        (&mut self.bytes[at..at + len], step)
    }
}

#[cfg(test)]
mod tests {
    //! A leaf whose holes stay until they are closed now and then is, beside one whose holes are
    //! closed at once, a leaf of the same entries, and once tidied the same leaf.

    use std::sync::Arc;

    use super::super::build::{build_leaf, build_leaf_sharing, head_of_rest};
    use super::super::leaf::GroupEdit;
    use super::super::search::head_in;
    use super::super::size::Pair;
    use super::super::{KeyCell, Record, RestCell, ValueCell, checked, seal};
    use super::*;
    use crate::tree::Bytes;
    use crate::tree::options::Compare;
    use crate::tree::order::{Custom, Form, KeyOrder, Leaves};
    use crate::tree::page_ref::ExtentRef;

    const PAGE: u32 = 5;

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }

        fn bytes(&mut self, least: usize, most: usize) -> Vec<u8> {
            let len = least + self.below(most - least + 1);
            (0..len).map(|_| b'a' + self.below(20) as u8).collect()
        }
    }

    /// The keys of a leaf with their values; an empty list is a value in an extent.
    type Groups = Vec<(Vec<u8>, Vec<Vec<u8>>)>;

    /// What is done to a leaf.
    enum Step {
        Remove(usize),
        Insert(usize, Vec<u8>, Vec<Vec<u8>>),
        Replace(usize, Vec<u8>),
        /// Another key and value at the same slot.
        Rename(usize, Vec<u8>, Vec<u8>),
        Put(usize, usize, Vec<u8>),
        Cut(usize, usize),
        Push(Vec<u8>, Vec<u8>),
    }

    const EXTENT: ExtentRef = ExtentRef { first: 7, len: 5000, sum: 9 };

    fn cell(values: &[Vec<u8>]) -> ValueCell<'_> {
        values.first().map_or(ValueCell::Extent(EXTENT), |v| ValueCell::Inline(Bytes::from(&v[..])))
    }

    /// What tells the kinds of leaves apart.
    struct Kind {
        form: Form,
        front: Vec<u8>,
        /// The shortest and the longest value, and rest of a key.
        values: (usize, usize),
        rests: (usize, usize),
    }

    impl Kind {
        fn new(random: &mut Random, round: usize) -> Self {
            let order = |reverse| if reverse { KeyOrder::Reverse } else { KeyOrder::Bytewise };
            const LEAVES: [Leaves; 4] =
                [Leaves::Compressed, Leaves::Whole, Leaves::Aligned, Leaves::Headless];
            let leaves = LEAVES[round % 4];
            let values = (round / 4 % 2 == 1).then(|| order(round / 8 % 2 == 1));
            let keys = match leaves {
                Leaves::Headless => {
                    let compare: Compare = Arc::new(|a: &[u8], b: &[u8]| b.cmp(a));
                    KeyOrder::Custom(Custom { compare, search: None })
                }
                _ => order(round / 16 % 2 == 1),
            };
            let form = Form { keys, values, leaves };
            let (values, rests) = match random.below(4) {
                0 => ((6, 6), (4, 4)),
                1 => ((0, 3), (1, 3)),
                2 => ((0, 200), (1, 20)),
                _ => ((4, 30), (2, 12)),
            };
            let front = random.bytes(0, 9);
            Self { form, front, values, rests }
        }

        fn key(&self, random: &mut Random) -> Vec<u8> {
            let rest = random.bytes(self.rests.0, self.rests.1);
            match self.form.keys {
                KeyOrder::Reverse => [&rest[..], &self.front].concat(),
                _ => [&self.front[..], &rest].concat(),
            }
        }

        fn value(&self, random: &mut Random) -> Vec<u8> {
            random.bytes(self.values.0, self.values.1)
        }

        /// The slot of a key that is not there.
        fn place(&self, groups: &Groups, key: &[u8]) -> Option<usize> {
            groups.binary_search_by(|(there, _)| self.form.keys.compare(there, key)).err()
        }

        fn step(&self, random: &mut Random, groups: &Groups, removes: usize) -> Option<Step> {
            let (i, key) = (random.below(groups.len()), self.key(random));
            let value = self.value(random);
            if random.below(10) < removes {
                return match &self.form.values {
                    Some(_) if groups[i].1.len() > 1 && random.below(4) > 0 => {
                        Some(Step::Cut(i, random.below(groups[i].1.len())))
                    }
                    _ => (groups.len() > 1).then_some(Step::Remove(i)),
                };
            }
            if let (Some(order), true) = (&self.form.values, random.below(2) == 0) {
                let values = &groups[i].1;
                let at = values.binary_search_by(|there| order.compare(there, &value)).err()?;
                return Some(Step::Put(i, at, value));
            }
            let at = self.place(groups, &key)?;
            if self.form.values.is_some() {
                return Some(Step::Insert(at, key, vec![value]));
            }
            Some(match random.below(6) {
                0 if i == at || i + 1 == at => Step::Rename(i, key, value),
                0 | 1 => Step::Replace(i, value),
                2 => Step::Insert(at, key, Vec::new()),
                3 if at == groups.len() => Step::Push(key, value),
                _ => Step::Insert(at, key, vec![value]),
            })
        }

        /// Takes a step in a page; false, and no change, if there is no room.
        fn apply(&self, page: &mut PageMut<'_>, step: &Step) -> bool {
            let (form, order) = (&self.form, &self.form.keys);
            let shared = page.view().shared().to_vec();
            let mut aside = Vec::new();
            match step {
                Step::Remove(i) => match page.view().plain_place(*i) {
                    Some(place) if form.values.is_none() => page.remove_plain(*i, place),
                    _ => page.remove_slot(*i),
                },
                Step::Insert(i, key, values) => {
                    let Some(rest) = order.strip(key, &shared) else { return false };
                    if let [value] = &values[..] {
                        return page.insert_plain(*i, head_in(order, rest), rest, value);
                    }
                    let known = KeyCell { known: Bytes::from(&key[..]), extent: None };
                    let rest = RestCell::of(&known, shared.len(), order);
                    let head = head_of_rest(order, &rest.rest);
                    return page.insert_single(*i, head, &rest, &cell(values));
                }
                Step::Push(key, value) => {
                    let Some(rest) = order.strip(key, &shared) else { return false };
                    let head = head_in(order, rest);
                    let len = page.view().len();
                    return page.push_plain(head, rest, value)
                        || page.insert_plain(len, head, rest, value);
                }
                Step::Replace(i, value) => {
                    if let Some(old) = page.value_of_len(*i, value.len()) {
                        old.copy_from_slice(value);
                        return true;
                    }
                    let value = ValueCell::Inline(Bytes::from(&value[..]));
                    return page.replace_single(*i, &value, &mut aside);
                }
                Step::Rename(i, key, value) => {
                    let Some(rest) = order.strip(key, &shared) else { return false };
                    return page.replace_plain(*i, *i, head_in(order, rest), (rest, value));
                }
                Step::Put(i, at, value) => {
                    return page.edit_group(*i, GroupEdit::Put(*at, value), form, &mut aside);
                }
                Step::Cut(i, at) => {
                    return page.edit_group(*i, GroupEdit::Cut(*at), form, &mut aside);
                }
            }
            true
        }
    }

    fn apply_to_model(groups: &mut Groups, step: Step) {
        match step {
            Step::Remove(i) => drop(groups.remove(i)),
            Step::Insert(i, key, values) => groups.insert(i, (key, values)),
            Step::Push(key, value) => groups.push((key, vec![value])),
            Step::Replace(i, value) => groups[i].1 = vec![value],
            Step::Rename(i, key, value) => groups[i] = (key, vec![value]),
            Step::Put(i, at, value) => groups[i].1.insert(at, value),
            Step::Cut(i, at) => drop(groups[i].1.remove(at)),
        }
    }

    fn read(page: Page<'_>) -> Groups {
        let records = (0..page.len()).map(|slot| page.leaf_record(slot));
        let values = |record: &Record<'_>| {
            let cells = (0..record.value_count()).map(|i| record.value(i));
            let inline = cells.filter_map(|cell| match cell {
                ValueCell::Inline(bytes) => Some(bytes.to_vec()),
                ValueCell::Extent(_) => None,
            });
            inline.collect()
        };
        records.map(|record| (record.key_cell().known.to_vec(), values(&record))).collect()
    }

    /// Checks the leaf against its entries and the one without holes. Returns whether it has some.
    fn check(bytes: &[u8], dense: &[u8], groups: &Groups) -> bool {
        let (mut bytes, mut dense) = (bytes.to_vec(), dense.to_vec());
        let mut page = PageMut::new(&mut bytes);
        assert_eq!(read(page.view()), *groups);
        let (used, has_holes) = (page.view().used(), page.view().has_holes());
        assert_eq!(used, PageMut::new(&mut dense).view().used());
        page.tidy();
        assert_eq!(page.view().used(), used);
        seal(&mut bytes, PAGE);
        let page = checked(&bytes, PAGE, 100).unwrap();
        assert!(page.has_zeros());
        assert_eq!(read(page), *groups);
        // Only bytes that are free may differ.
        let (front, start) = (page.front(), bytes.len() - page.heap_len());
        assert_eq!(bytes[4..front], dense[4..front]);
        assert_eq!(bytes[start..], dense[start..]);
        has_holes
    }

    #[test]
    fn a_leaf_with_holes_is_once_tidied_the_leaf_without() {
        let mut random = Random(3);
        let (mut with_holes, mut refused, mut most) = (0, 0, 0);
        for round in 0..240 {
            let page_size = if round % 7 == 0 { 65536 } else { 4096 };
            let kind = Kind::new(&mut random, round);
            let mut groups: Groups = vec![(kind.key(&mut random), vec![kind.value(&mut random)])];
            let pairs: Vec<_> = groups
                .iter()
                .map(|(key, values)| Pair {
                    key: KeyCell { known: Bytes::from(&key[..]), extent: None },
                    value: cell(values),
                    starts: true,
                })
                .collect();
            let mut bytes = vec![0; page_size];
            // The front is shared, as it would be in a leaf of several keys.
            let most_shared = kind.front.len();
            build_leaf_sharing(&mut bytes, &pairs, &kind.form, most_shared).unwrap();
            let mut dense = bytes.clone();
            for i in 0..500 {
                // Phases of growth and of shrinking.
                let removes = if i / 100 % 2 == 0 { 2 } else { 7 };
                let Some(step) = kind.step(&mut random, &groups, removes) else { continue };
                let mut twin = PageMut::new(&mut dense);
                let done = kind.apply(&mut twin, &step);
                twin.tidy();
                let mut page = PageMut::new(&mut bytes);
                assert_eq!(kind.apply(&mut page, &step), done);
                if done {
                    apply_to_model(&mut groups, step);
                }
                if random.below(50) == 0 {
                    page.tidy();
                }
                refused += usize::from(!done);
                if page.view().has_holes() {
                    most = most.max(page.view().holes().len());
                }
                if i % 5 == 0 || page_size == 4096 {
                    with_holes += usize::from(check(&bytes, &dense, &groups));
                }
            }
        }
        assert!(
            with_holes > 20_000 && refused > 500 && most > FEW + 6,
            "{with_holes} {refused} {most}"
        );
    }

    #[test]
    fn a_page_of_the_file_has_no_holes() {
        let value = ValueCell::Inline(Bytes::from(&b"value"[..]));
        let keys = [b"key 1", b"key 2", b"key 3"];
        let pairs = keys.map(|key| Pair {
            key: KeyCell { known: Bytes::from(&key[..]), extent: None },
            value,
            starts: true,
        });
        let mut bytes = vec![0; 4096];
        build_leaf(&mut bytes, &pairs, &Form::PLAIN).unwrap();
        PageMut::new(&mut bytes).remove_slot(1);
        assert!(PageMut::new(&mut bytes).view().has_holes());
        seal(&mut bytes, PAGE);
        let why = checked(&bytes, PAGE, 10).unwrap_err();
        assert_eq!(why, "something stands in bytes that must be zero");
        PageMut::new(&mut bytes).tidy();
        seal(&mut bytes, PAGE);
        assert_eq!(checked(&bytes, PAGE, 10).unwrap().len(), 2);
    }
}
