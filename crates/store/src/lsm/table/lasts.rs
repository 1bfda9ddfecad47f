//! The last keys of the tables of a level: which table may have a key. Most steps of the search
//! only compare numbers. This module is pure.

use crate::lsm::entry::{after, around, common, head};

/// The last keys of tables that ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasts {
    /// What all of them begin with.
    common: Vec<u8>,
    /// The beginning of each after that.
    heads: Vec<u64>,
}

impl Lasts {
    /// Those of tables in their order.
    pub(crate) fn of<'k>(mut keys: impl DoubleEndedIterator<Item = &'k [u8]> + Clone) -> Self {
        let all = keys.clone();
        let (Some(first), last) = (keys.next(), keys.next_back()) else { return Self::default() };
        let common = &first[..common(first, last.unwrap_or(first))];
        // They ascend, so that all begin as the first and the last one do.
        let heads = all.map(|key| head(after(common, key).unwrap_or_default())).collect();
        Self { common: common.to_vec(), heads }
    }

    /// How many of them come before `key` for certain, and how many may.
    #[inline]
    pub(crate) fn around(&self, key: &[u8]) -> (usize, usize) {
        let Some(rest) = after(&self.common, key) else {
            let side = if key < &self.common[..] { 0 } else { self.heads.len() };
            return (side, side);
        };
        around(&self.heads, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn keys_are_around_where_a_list_has_them() {
        let mut random = random::numbers(17);
        for round in 0..if cfg!(miri) { 10 } else { 300 } {
            let key = |random: &mut dyn FnMut(u64) -> u64| {
                let mut key = vec![7; round % 9];
                key.extend((0..random(11)).map(|_| random(3) as u8 * 127));
                key
            };
            let mut keys: Vec<_> = (0..random(20)).map(|_| key(&mut random)).collect();
            keys.sort();
            let lasts = Lasts::of(keys.iter().map(Vec::as_slice));
            let sought: Vec<_> = (0..30).map(|_| key(&mut random)).collect();
            for key in sought.iter().chain(&keys) {
                let (sure, may_be) = lasts.around(key);
                assert!((sure..=may_be).contains(&keys.partition_point(|last| last < key)));
                assert!(keys[..sure].iter().all(|last| last < key));
                assert!(keys[may_be..].iter().all(|last| last > key));
            }
        }
    }
}
