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

impl Ranges<Vec<u8>> {
    /// Where the range ends that has a key.
    pub(crate) fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        let (_, end) = self.last_from(Bound::Included(key))?;
        (key < end.as_slice()).then_some(end)
    }

    /// Where the range begins that has the keys right before one.
    pub(crate) fn start_before(&self, key: &[u8]) -> Option<&[u8]> {
        let (start, end) = self.last_from(Bound::Excluded(key))?;
        (key <= end.as_slice()).then_some(start)
    }

    /// Takes a key out: the range that has it becomes two.
    pub(crate) fn take_out(&mut self, key: &[u8]) {
        let Some((start, end)) = self.last_from(Bound::Included(key)) else { return };
        if key < end.as_slice() {
            let (start, end) = (start.clone(), end.clone());
            self.ends.remove(&start);
            self.add(start, key.to_vec());
            self.add([key, &[0]].concat(), end);
        }
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
            let mut without = Ranges { ends: ranges.ends.clone() };
            let out = random(32);
            without.take_out(&[out]);
            for key in 0..32_u8 {
                let is = keys[usize::from(key)];
                assert_eq!(without.has(&[key]), is && key != out);
                assert_eq!(without.has(&[key, 0]), is, "{key} and {out}");
                let last = (key..32).find(|&key| !keys[usize::from(key)]).unwrap_or(31);
                assert_eq!(ranges.end_of(&[key]), is.then_some(&[last][..]));
                let first = (0..key).rev().find(|&key| !keys[usize::from(key)]);
                let first = [first.map_or(0, |key| key + 1)];
                assert_eq!(ranges.start_before(&[key]), (first[0] < key).then_some(&first[..]));
            }
            let runs = keys.windows(2).filter(|two| !two[0] && two[1]).count();
            assert_eq!(ranges.ends.len(), runs + usize::from(keys[0]), "those that touch are one");
        }
    }
}
