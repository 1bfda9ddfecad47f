//! A set of keys that is given as ranges. It costs a search, however many ranges there are.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Keys in ranges; each range ends before its second key.
#[derive(Debug)]
pub(crate) struct Ranges<K> {
    /// Where each range ends, by its first key. No two of them overlap or touch.
    ends: BTreeMap<K, K>,
}

impl<K: Ord> Default for Ranges<K> {
    fn default() -> Self {
        Self { ends: BTreeMap::new() }
    }
}

/// The ranges in order: where each begins and ends.
impl<K> IntoIterator for Ranges<K> {
    type Item = (K, K);
    type IntoIter = std::collections::btree_map::IntoIter<K, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.ends.into_iter()
    }
}

impl<K: Borrow<[u8]> + Ord + Clone> Ranges<K> {
    /// The last range that begins at or before a key, or only before it.
    fn last_from(&self, end: Bound<&[u8]>) -> Option<(&K, &K)> {
        self.ends.range::<[u8], _>((Bound::Unbounded, end)).next_back()
    }

    /// The start of the first range that begins from one key on and not after another one.
    fn first_in(&self, from: &K, to: &K) -> Option<K> {
        let both = (Bound::Included(from.borrow()), Bound::Included(to.borrow()));
        self.ends.range::<[u8], _>(both).next().map(|(start, _)| start.clone())
    }

    /// Adds a range, which is nothing if it ends before it begins.
    pub(crate) fn add(&mut self, mut from: K, mut to: K) {
        if from >= to {
            return;
        }
        if let Some((start, end)) = self.last_from(Bound::Included(from.borrow()))
            && *end >= from
        {
            from = start.clone();
        }
        // It takes in all that begin inside of it or at its end.
        while let Some(start) = self.first_in(&from, &to) {
            let end = self.ends.remove(start.borrow());
            to = end.into_iter().fold(to, K::max);
        }
        self.ends.insert(from, to);
    }

    /// Whether a key is in it.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let last = self.last_from(Bound::Included(key));
        last.is_some_and(|(_, end)| key < end.borrow())
    }

    /// Whether there may be a key that is in it and from one key on before another one.
    pub(crate) fn meets(&self, from: &[u8], to: &[u8]) -> bool {
        let last = self.last_from(Bound::Excluded(to));
        from < to && last.is_some_and(|(_, end)| from < end.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn ranges_answer_as_a_list_of_keys_does() {
        let mut numbers = random::numbers(3);
        let mut random = |end: u64| numbers(end) as u8;
        for _ in 0..300 {
            let (mut ranges, mut keys) = (Ranges::default(), [false; 32]);
            for _ in 0..random(9) {
                let (from, to) = (random(31), random(31));
                ranges.add(vec![from], vec![to]);
                (from..to).for_each(|key| keys[usize::from(key)] = true);
                for from in 0..32_u8 {
                    assert_eq!(ranges.has(&[from]), keys[usize::from(from)]);
                    for to in from..32_u8 {
                        let any = keys[usize::from(from)..usize::from(to)].iter().any(|&is| is);
                        assert_eq!(ranges.meets(&[from], &[to]), any, "{from}..{to}");
                    }
                }
                assert!(!ranges.meets(&[to], &[0]));
            }
            let runs = keys.windows(2).filter(|two| !two[0] && two[1]).count();
            assert_eq!(ranges.ends.len(), runs + usize::from(keys[0]), "those that touch are one");
        }
    }
}
