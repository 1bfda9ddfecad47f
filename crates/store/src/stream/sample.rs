//! Pairs that are drawn at random: [`Sample`].

use std::collections::BTreeSet;

use super::held::Pair;
use super::pairs::Pairs;
use super::source::Source;
use crate::Result;
use crate::tree::split_mix;

/// Some pairs of a scan, drawn at random, in order; made by [`Scan::sample`](super::Scan::sample).
pub struct Sample<S: Source> {
    pairs: Pairs<S>,
    places: std::collections::btree_set::IntoIter<u64>,
    /// The place of the stream's next pair.
    at: u64,
}

impl<S: Source> Sample<S> {
    pub(super) fn new(pairs: Pairs<S>, places: BTreeSet<u64>) -> Self {
        Self { pairs, places: places.into_iter(), at: 0 }
    }
}

impl<S: Source> Iterator for Sample<S> {
    type Item = Result<Pair<S::Snapshot>>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.places.next()?;
        let passed = place - std::mem::replace(&mut self.at, place + 1);
        self.pairs.nth(usize::try_from(passed).unwrap_or(usize::MAX))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

/// At most `n` of the numbers below `all`, each set of that size as likely as any other (R. W.
/// Floyd, in Bentley, *Programming Pearls*, 1987).
pub(super) fn places(all: u64, n: u64, seed: u64) -> BTreeSet<u64> {
    let (n, mut state) = (n.min(all), seed);
    let mut below = |end: u64| ((u128::from(split_mix(&mut state)) * u128::from(end)) >> 64) as u64;
    let mut places = BTreeSet::new();
    for last in all - n..all {
        let place = below(last + 1);
        if !places.insert(place) {
            places.insert(last);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    //! Samples have the size that was asked for, and no place is more likely than another.

    use super::*;
    use crate::stream::{Scan, Sink};

    #[test]
    fn every_place_is_as_likely() {
        let mut counts = [0_u32; 20];
        for seed in 0..20_000 {
            let places = places(20, 5, seed);
            assert_eq!(places.len(), 5);
            places.iter().for_each(|&place| counts[place as usize] += 1);
        }
        // 5,000 each are to be expected, with a deviation of 61.
        assert!(counts.iter().all(|count| (4_700..5_300).contains(count)), "{counts:?}");
        assert_eq!(places(5, 9, 1), (0..5).collect());
        assert!(places(0, 9, 1).is_empty() && places(9, 0, 1).is_empty());
        assert_eq!(places(u64::MAX, 3, 7), places(u64::MAX, 3, 7));
    }

    #[test]
    fn a_sample_is_of_what_the_scan_reads() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::tree::Store::create(folder.path().join("store")).unwrap();
        let mut sink = Sink::new(&store, "t").unwrap();
        for key in 0..200_u8 {
            sink.put(&[key], &[]).unwrap();
        }
        sink.finish().unwrap();
        let keys = |scan: Scan, n| -> Vec<u8> {
            let sample = scan.sample(&store, n, 3).unwrap();
            sample.map(|pair| pair.unwrap().key().to_vec()[0]).collect()
        };
        let scan = || Scan::new("t").range(&[50][..]..&[60][..]);
        assert_eq!(keys(scan(), 99), (50..60).collect::<Vec<_>>());
        assert_eq!(keys(scan().reverse(), 99), (50..60).rev().collect::<Vec<_>>());
        let some = keys(scan().skip(2), 4);
        assert!(some.len() == 4 && some.is_sorted() && some.iter().all(|k| (52..60).contains(k)));
        let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
        db.keyspace("t", Default::default()).unwrap();
        assert!(matches!(Scan::new("t").sample(&db, 1, 1), Err(crate::Error::Argument { .. })));
    }
}
