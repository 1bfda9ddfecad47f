//! The keys of one page as an order by a function looks among them at once: a call for each page
//! instead of one for each comparison.

use std::cmp::Ordering;
use std::ops::Range;

use super::{Layout, Page};

pub use super::record::AHEAD;
use crate::tree::options::TableOptions;
use crate::tree::order::Custom;

/// Some keys of a page in their order.
#[derive(Clone)]
pub struct Keys<'p> {
    page: Page<'p>,
    offsets: *const u8,
    layout: Layout,
    slots: Range<usize>,
    /// A slot that is probably near the one that is looked for.
    near: Option<usize>,
}

/// Looks for a key among those of a page: the first slot whose key is at or after it, and whether
/// that is equal ([`Keys::bisect`]). `None` leaves that to the function that compares, with which
/// it must agree.
pub type Search = fn(keys: Keys<'_>, key: &[u8]) -> Option<(usize, bool)>;

/// How a search compares the keys of a page with what it looks for.
pub trait Probing {
    /// Compares a key of `len` bytes, of which the page has these ahead: its beginning, and what
    /// follows it if it is short. `None` if that does not decide.
    fn compare_ahead(&self, ahead: &[u8; AHEAD], len: usize) -> Option<Ordering>;

    /// Compares a key.
    fn compare(&self, key: &[u8]) -> Ordering;
}

/// A function that needs whole keys.
struct Whole<F>(F);

impl<F: Fn(&[u8]) -> Ordering> Probing for Whole<F> {
    #[inline(always)]
    fn compare_ahead(&self, _: &[u8; AHEAD], _: usize) -> Option<Ordering> {
        None
    }

    #[inline(always)]
    fn compare(&self, key: &[u8]) -> Ordering {
        (self.0)(key)
    }
}

impl TableOptions {
    /// With an order by a function: another one that looks for a key among those of a page, where
    /// a call for each comparison would cost more than the comparison. It must agree with the
    /// function that compares.
    #[doc(hidden)]
    pub fn search(mut self, search: &'static Search) -> Self {
        self.search = Some(search);
        self
    }
}

/// The function of an order that looks for a key among those of a page, if it has one.
#[inline(always)]
pub(super) fn search_of(by: &Custom) -> Option<Search> {
    by.search?.downcast_ref().copied()
}

impl<'p> Keys<'p> {
    /// Those of some slots of a leaf.
    #[inline(always)]
    pub(super) fn of_leaf(page: Page<'p>, slots: Range<usize>, near: Option<usize>) -> Self {
        Self { page, offsets: page.first_offset_address(), layout: page.layout(), slots, near }
    }

    /// The separators of a branch of a tree without duplicates, which stand as the records of a
    /// DENSE leaf do.
    #[inline(always)]
    pub(super) fn of_branch(page: Page<'p>) -> Self {
        let offsets = page.address().wrapping_add(page.offsets_at());
        Self { page, offsets, layout: Layout::Dense, slots: 1..page.len(), near: None }
    }

    /// The first slot whose key is not less, by a function, and whether it is equal. `None` if a
    /// key that is looked at does not stand in the page as usual.
    #[inline(always)]
    pub fn bisect(&self, compare: impl Fn(&[u8]) -> Ordering) -> Option<(usize, bool)> {
        self.bisect_by(&Whole(compare))
    }

    /// The same by what knows how keys are compared.
    #[inline(always)]
    pub fn bisect_by(&self, by: &impl Probing) -> Option<(usize, bool)> {
        match self.layout {
            Layout::Dense | Layout::Headless => self.bisect_in(Layout::Dense, by),
            Layout::Aligned => self.bisect_in(Layout::Aligned, by),
        }
    }

    #[inline(always)]
    fn bisect_in(&self, layout: Layout, by: &impl Probing) -> Option<(usize, bool)> {
        let Range { start, end } = self.slots;
        let (mut low, mut high) = (start, end);
        // Near a slot the distance grows until the key is passed: an exponential search (Bentley
        // and Yao, 1976).
        if let Some(near) = self.near {
            let mut at = near.clamp(start, end.max(start + 1) - 1);
            let mut distance = 1;
            while low < high {
                match self.seen(layout, at, by)? {
                    Ordering::Less => low = at + 1,
                    Ordering::Equal => return Some((at, true)),
                    Ordering::Greater => high = at,
                }
                at = match (low > start, high < end) {
                    (true, true) => break,
                    (true, false) => (at + distance).min(end - 1),
                    _ => high.saturating_sub(distance + 1).max(low),
                };
                distance *= 4;
            }
        }
        while low < high {
            let at = low + (high - low) / 2;
            match self.seen(layout, at, by)? {
                Ordering::Less => low = at + 1,
                Ordering::Equal => return Some((at, true)),
                Ordering::Greater => high = at,
            }
        }
        Some((low, false))
    }

    /// How the key of a slot compares with what is looked for.
    #[inline(always)]
    fn seen(&self, layout: Layout, at: usize, by: &impl Probing) -> Option<Ordering> {
        let slot = self.offsets.wrapping_add(layout.step() * at);
        if let Some((key_at, len)) = self.page.key_place(layout, slot) {
            let seen = match self.page.ahead_at(key_at) {
                Some(ahead) => by.compare_ahead(ahead, len),
                None => return Some(self.seen_at_end(key_at, len, by)),
            };
            if seen.is_some() {
                return seen;
            }
        }
        self.page.plain_record_in(layout, slot).map(|(key, _)| by.compare(key))
    }

    /// The same of a short key that begins at a place near the end of the page.
    #[inline(never)]
    fn seen_at_end(&self, at: usize, len: usize, by: &impl Probing) -> Ordering {
        let ahead = self.page.ahead_at_end(at);
        by.compare_ahead(&ahead, len).unwrap_or_else(|| by.compare(self.page.short_key(at, len)))
    }

    /// Runs a search, whose answer is not trusted to be one of the slots.
    #[inline(always)]
    pub(super) fn search(self, by: Search, key: &[u8]) -> Option<(usize, bool)> {
        let Range { start, end } = self.slots;
        let (slot, is_equal) = by(self, key)?;
        (start <= slot && slot + usize::from(is_equal) <= end).then_some((slot, is_equal))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::random;
    use crate::tree::{Order, Snapshot, Store};

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    fn backwards(a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn search(keys: Keys<'_>, key: &[u8]) -> Option<(usize, bool)> {
        CALLS.set(CALLS.get() + 1);
        keys.bisect(|stored| backwards(stored, key))
    }

    static SEARCH: Search = search;

    #[test]
    fn a_search_finds_what_comparisons_find() {
        let mut random = random::indexes(7);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut txn = store.begin_write().unwrap();
        let options = || TableOptions::new().order(Order::custom("backwards", backwards));
        let aligned = options().prefix_compression(false);
        let tables = [options(), options().search(&SEARCH), aligned.search(&SEARCH)];
        let tables = [0, 1, 2].map(|i| txn.create_table([b'0' + i], &tables[i as usize]).unwrap());
        let mut cursors = tables.map(|table| txn.cursor(table).unwrap());
        for round in 0..20_000 {
            // Some are too long for a page, which leaves them to the function that compares.
            let len = if random(500) == 0 { 700 } else { 1 + random(20) };
            let mut key = vec![b'k'; len];
            (key[0], key[len - 1]) = (random(250) as u8, random(250) as u8);
            // Every second round near the last key.
            let near = cursors[0].last_key().first().filter(|_| round % 2 == 0);
            key[0] = near.map_or(key[0], |near| near.wrapping_add(random(3) as u8));
            match round % 3 {
                0 => tables.iter().for_each(|table| txn.put(*table, &key, b"v").unwrap()),
                1 if random(3) == 0 => {
                    let gone = tables.map(|table| txn.delete(table, &key).unwrap());
                    assert!(gone == [gone[0]; 3]);
                }
                _ => {}
            }
            let mut seen = cursors.iter_mut().map(|cursor| {
                let found = cursor.seek_beside(&txn, &key).unwrap();
                found.map(|(entry, order)| (entry.key.to_vec(), order))
            });
            let first = seen.next().unwrap();
            assert!(seen.all(|other| other == first), "round {round}");
        }
        assert!(CALLS.get() > 20_000);
        txn.commit().unwrap();
    }
}
