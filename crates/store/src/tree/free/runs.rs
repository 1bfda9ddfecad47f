//! Free runs in memory, found by their place and by their length. This module is pure: it knows no
//! file and no transaction.

use std::collections::BTreeMap;

use crate::tree::page_ref::{PageNo, Run};

/// Lengths below this are classes of their own.
const EXACT: u32 = 16;
/// Above, each power of two has this many classes, as a power of two.
const STEPS: u32 = 3;
/// At most this many runs of about the right length are examined before longer ones are.
const LOOKS: usize = 64;

/// Runs by the class of their length, and in each by their place.
///
/// A request is served by *address-ordered first fit*: from the front of the lowest run that is
/// long enough. What is used gathers at the front of the store, so that its end can be cut off.
/// (Wilson, Johnstone, Neely, Boles: *Dynamic Storage Allocation, A Survey and Critical Review*,
/// 1995, find this and best fit the two policies that waste least in real programs; here they
/// hardly differ: docs/decisions/0022.)
#[derive(Clone, Default)]
pub(crate) struct Lengths(Vec<Class>);

/// The runs of a class by their place, and where the first one begins.
#[derive(Clone)]
struct Class {
    first: PageNo,
    runs: BTreeMap<PageNo, u32>,
}

impl Class {
    const EMPTY: Self = Self { first: PageNo::MAX, runs: BTreeMap::new() };

    /// The first run of at least `len` pages among this many.
    fn lowest(&self, len: u32, looks: usize) -> Option<Run> {
        let found = self.runs.iter().take(looks).find(|(_, found)| **found >= len);
        found.map(|(start, len)| Run { start: *start, len: *len })
    }
}

impl Lengths {
    pub(crate) fn insert(&mut self, run: Run) {
        let n = class(run.len);
        if n >= self.0.len() {
            self.0.resize(n + 1, Class::EMPTY);
        }
        let class = &mut self.0[n];
        class.first = class.first.min(run.start);
        class.runs.insert(run.start, run.len);
    }

    pub(crate) fn remove(&mut self, run: Run) {
        let Some(class) = self.0.get_mut(class(run.len)) else { return };
        class.runs.remove(&run.start);
        if class.first == run.start {
            class.first = class.runs.keys().next().copied().unwrap_or(PageNo::MAX);
        }
    }

    /// The lowest run of at least `len` pages; where many are just too short, perhaps not the very
    /// lowest, but always one if there is one.
    pub(crate) fn lowest(&self, len: u32) -> Option<Run> {
        let classes = self.0.get(class(len)..)?;
        let (own, longer) = classes.split_first()?;
        let short = own.lowest(len, LOOKS);
        let lowest = longer.iter().min_by_key(|class| class.first);
        let long = lowest.and_then(|class| class.lowest(len, 1));
        let of_both = match (short, long) {
            (Some(short), Some(long)) if long.start < short.start => Some(long),
            (short, long) => short.or(long),
        };
        of_both.or_else(|| own.lowest(len, usize::MAX))
    }
}

/// The class of a length: longer runs have higher ones.
fn class(len: u32) -> usize {
    if len < EXACT {
        return len as usize;
    }
    let doublings = len.ilog2() - EXACT.ilog2();
    let step = (len >> (len.ilog2() - STEPS)) & ((1 << STEPS) - 1);
    (EXACT + (doublings << STEPS) + step) as usize
}

/// Disjoint runs, no two of them neighbours: runs that touch are one.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    by_place: BTreeMap<PageNo, u32>,
    by_length: Lengths,
    pages: u64,
}

impl Runs {
    /// How many pages they have together.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Adds a run, joined with its neighbours; the run that it is part of now. `None`, and nothing
    /// is added, if some of its pages are there already.
    pub(crate) fn insert(&mut self, run: Run) -> Option<Run> {
        let before = self.before(run.start).filter(|before| before.start + before.len >= run.start);
        let after = self.by_place.range(run.start..).next().map(|(start, len)| (*start, *len));
        let after = after.filter(|(start, _)| *start <= run.start + run.len);
        if before.is_some_and(|before| before.start + before.len > run.start)
            || after.is_some_and(|(start, _)| start < run.start + run.len)
        {
            return None;
        }
        let mut whole = run;
        if let Some(before) = before {
            self.drop_run(before);
            whole = Run { start: before.start, len: before.len + whole.len };
        }
        if let Some((start, len)) = after {
            self.drop_run(Run { start, len });
            whole.len += len;
        }
        self.add_run(whole);
        Some(whole)
    }

    /// The lowest run of at least `len` pages; see [`Lengths::lowest`].
    pub(crate) fn lowest(&self, len: u32) -> Option<Run> {
        self.by_length.lowest(len)
    }

    /// Takes `len` pages side by side, if there are that many.
    pub(crate) fn take(&mut self, len: u32) -> Option<Run> {
        let run = self.lowest(len)?;
        self.drop_run(run);
        if run.len > len {
            self.add_run(Run { start: run.start + len, len: run.len - len });
        }
        Some(Run { start: run.start, len })
    }

    /// Takes the run that ends before page `end`, if there is one.
    pub(crate) fn take_last(&mut self, end: PageNo) -> Option<Run> {
        let run = self.before(end).filter(|run| run.start + run.len == end)?;
        self.drop_run(run);
        Some(run)
    }

    /// Takes just these pages; false, and nothing is taken, if not all of them are there.
    pub(crate) fn remove(&mut self, run: Run) -> bool {
        let Some((start, len)) = self.by_place.range(..=run.start).next_back() else {
            return false;
        };
        let whole = Run { start: *start, len: *len };
        let (end, whole_end) = (run.start + run.len, whole.start + whole.len);
        if whole_end < end {
            return false;
        }
        self.drop_run(whole);
        for (from, to) in [(whole.start, run.start), (end, whole_end)] {
            if from < to {
                self.add_run(Run { start: from, len: to - from });
            }
        }
        true
    }

    /// Takes all of them, ascending.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Run> + use<> {
        let Self { by_place, .. } = std::mem::take(self);
        by_place.into_iter().map(|(start, len)| Run { start, len })
    }

    /// The last run that starts before `place`.
    fn before(&self, place: PageNo) -> Option<Run> {
        let (start, len) = self.by_place.range(..place).next_back()?;
        Some(Run { start: *start, len: *len })
    }

    fn add_run(&mut self, run: Run) {
        self.by_place.insert(run.start, run.len);
        self.by_length.insert(run);
        self.pages += u64::from(run.len);
    }

    fn drop_run(&mut self, run: Run) {
        self.by_place.remove(&run.start);
        self.by_length.remove(run);
        self.pages -= u64::from(run.len);
    }
}

#[cfg(test)]
mod tests {
    //! Beside one flag a page.

    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 64;

    /// The runs of the pages that are free, ascending.
    fn runs_slowly(free: &[bool]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for no in (0..free.len()).filter(|no| free[*no]).map(|no| no as PageNo) {
            match runs.last_mut() {
                Some(run) if run.start + run.len == no => run.len += 1,
                _ => runs.push(Run { start: no, len: 1 }),
            }
        }
        runs
    }

    fn pages_of(run: Run) -> std::ops::Range<usize> {
        run.start as usize..(run.start + run.len) as usize
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Run),
        Remove(Run),
        Take(u32),
        TakeLast(PageNo),
    }

    fn steps() -> impl Strategy<Value = Step> {
        let run = || (0..PAGES as u32 - 8, 1..8_u32).prop_map(|(start, len)| Run { start, len });
        prop_oneof![
            4 => run().prop_map(Step::Insert),
            1 => run().prop_map(Step::Remove),
            3 => (1..10_u32).prop_map(Step::Take),
            1 => (0..PAGES as u32).prop_map(Step::TakeLast),
        ]
    }

    #[test]
    fn classes_ascend_with_lengths() {
        let lengths = (1..5000).chain((13..32).map(|power| (1 << power) - 1)).chain([u32::MAX]);
        let classes: Vec<usize> = lengths.map(class).collect();
        assert!(classes.is_sorted());
        assert!(classes.iter().all(|class| *class < 256));
        assert_eq!(classes[..16], (1..=16).collect::<Vec<usize>>());
    }

    #[test]
    fn a_run_is_found_behind_many_that_are_too_short() {
        let mut lengths = Lengths::default();
        (0..1000).for_each(|i| lengths.insert(Run { start: 100 * i, len: 64 }));
        lengths.insert(Run { start: 200_000, len: 65 });
        assert_eq!(class(64), class(65));
        assert_eq!(lengths.lowest(65), Some(Run { start: 200_000, len: 65 }));
        lengths.insert(Run { start: 300_000, len: 90 });
        assert_eq!(lengths.lowest(65), Some(Run { start: 300_000, len: 90 }), "the first looks");
        assert_eq!(lengths.lowest(64), Some(Run { start: 0, len: 64 }));
        assert_eq!(lengths.lowest(91), None);
    }

    proptest! {
        #[test]
        fn they_are_what_one_flag_a_page_says(steps in prop::collection::vec(steps(), 0..200)) {
            let (mut runs, mut free) = (Runs::default(), vec![false; PAGES]);
            for step in steps {
                let slow = runs_slowly(&free);
                match step {
                    Step::Insert(run) => {
                        let is_new = pages_of(run).all(|no| !free[no]);
                        let whole = runs.insert(run);
                        prop_assert_eq!(whole.is_some(), is_new);
                        if let Some(whole) = whole {
                            free[pages_of(run)].fill(true);
                            prop_assert!(runs_slowly(&free).contains(&whole));
                        }
                    }
                    Step::Remove(run) => {
                        let is_there = pages_of(run).all(|no| free[no]);
                        prop_assert_eq!(runs.remove(run), is_there);
                        if is_there {
                            free[pages_of(run)].fill(false);
                        }
                    }
                    Step::Take(len) => {
                        let lowest = slow.iter().find(|run| run.len >= len);
                        let taken = runs.take(len);
                        let wanted = lowest.map(|run| Run { start: run.start, len });
                        prop_assert_eq!(taken, wanted);
                        taken.into_iter().for_each(|run| free[pages_of(run)].fill(false));
                    }
                    Step::TakeLast(end) => {
                        let last = slow.iter().find(|run| run.start + run.len == end);
                        prop_assert_eq!(runs.take_last(end), last.copied());
                        last.into_iter().for_each(|run| free[pages_of(*run)].fill(false));
                    }
                }
                let pages = free.iter().filter(|free| **free).count() as u64;
                prop_assert_eq!(runs.pages(), pages);
            }
            prop_assert_eq!(runs.drain().collect::<Vec<_>>(), runs_slowly(&free));
            prop_assert!(runs.is_empty() && runs.pages() == 0);
        }
    }
}
