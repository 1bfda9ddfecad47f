//! What a stream was asked for, and by that what it must give of a content.

use std::ops::Bound;

use hedgerow::stream::{Renewal, Scan, Values};

use super::{Pair, TABLE};

/// What a stream was asked for, and where it must be.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    pub(super) is_reverse: bool,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) keys_only: bool,
    pub(super) values: Values,
    /// Pairs between two renewals.
    pub(super) renewal: Option<u64>,
    pub(super) low: Option<Pair>,
    pub(super) high: Option<Pair>,
    pub(super) taken: u64,
}

impl Asked {
    pub(super) fn scan(&self) -> Scan {
        let mut scan = Scan::new(TABLE).range(self.keys.clone()).skip(self.skip);
        scan = scan.values(self.values);
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if self.is_reverse {
            scan = scan.reverse();
        }
        if self.keys_only {
            scan = scan.keys_only();
        }
        self.renewed(scan)
    }

    pub(super) fn renewed(&self, scan: Scan) -> Scan {
        match self.renewal {
            Some(pairs) => scan.renewal(Renewal::never().pairs(pairs)),
            None => scan,
        }
    }

    /// What is left of a content, in the order of the keys.
    pub(super) fn left(&self, content: &[Pair], duplicates: bool) -> Vec<Pair> {
        let is_in = |key: &[u8]| {
            std::ops::RangeBounds::<[u8]>::contains(
                &(self.keys.0.as_ref().map(Vec::as_slice), self.keys.1.as_ref().map(Vec::as_slice)),
                key,
            )
        };
        let each = self.values == Values::Each;
        let is_after = |pair: &Pair, end: &Pair| {
            if each && duplicates { pair > end } else { pair.0 > end.0 }
        };
        let mut left: Vec<Pair> = content.iter().filter(|pair| is_in(&pair.0)).cloned().collect();
        match self.values {
            Values::Each => {}
            Values::First => left.dedup_by(|next, kept| next.0 == kept.0),
            Values::Last => {
                left.reverse();
                left.dedup_by(|next, kept| next.0 == kept.0);
                left.reverse();
            }
        }
        left.retain(|pair| self.low.as_ref().is_none_or(|low| is_after(pair, low)));
        left.retain(|pair| self.high.as_ref().is_none_or(|high| is_after(high, pair)));
        left
    }

    /// Leaves out the first pairs, as a stream does when it takes its first snapshot.
    pub(super) fn pass(&mut self, content: &[Pair], duplicates: bool) {
        let left = self.left(content, duplicates);
        let Some(last) = self.skip.min(left.len() as u64).checked_sub(1) else { return };
        match self.is_reverse {
            false => self.low = Some(left[last as usize].clone()),
            true => self.high = Some(left[left.len() - 1 - last as usize].clone()),
        }
    }

    /// How many pairs may still be given.
    pub(super) fn allowed(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.taken))
    }
}
