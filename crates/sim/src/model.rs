//! The reference model: a table is a sorted list of pairs of numbers, and every answer is read off
//! the list in the plainest way. It is deliberately simple, and shares nothing with the engine.

use std::sync::Arc;

use crate::op::{Edge, PairEdge};

/// A key and a value, as numbers of the table's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The key.
    pub key: u32,
    /// The value.
    pub value: u32,
}

/// The entries of a table. Copies share the list until one of them changes.
#[derive(Clone, Debug)]
pub struct TableModel {
    /// Sorted by key, and by value too if the table has duplicates.
    pairs: Arc<Vec<Pair>>,
    /// Whether a key may have several values.
    duplicates: bool,
    /// Tells a table from a later one of the same name.
    pub incarnation: u32,
    /// Whether it goes by its other name.
    pub renamed: bool,
    /// The caller's bits.
    pub user_flags: u32,
}

impl TableModel {
    /// An empty table.
    pub fn new(duplicates: bool, incarnation: u32, user_flags: u32) -> Self {
        Self { pairs: Arc::default(), duplicates, incarnation, renamed: false, user_flags }
    }

    /// All pairs in order.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Whether a key may have several values.
    pub fn has_duplicates(&self) -> bool {
        self.duplicates
    }

    /// The pair at a position.
    pub fn at(&self, position: usize) -> Option<Pair> {
        self.pairs.get(position).copied()
    }

    /// How many pairs have a key before `key`.
    pub fn lower(&self, key: u32) -> usize {
        self.pairs.partition_point(|p| p.key < key)
    }

    /// How many pairs have a key before or at `key`.
    pub fn upper(&self, key: u32) -> usize {
        self.pairs.partition_point(|p| p.key <= key)
    }

    /// How many pairs come before a pair. In a table without duplicates only keys count.
    pub fn lower_pair(&self, pair: Pair) -> usize {
        if self.duplicates {
            self.pairs.partition_point(|p| *p < pair)
        } else {
            self.lower(pair.key)
        }
    }

    /// The position of a pair, if it is there. In a table without duplicates only keys count.
    pub fn find_pair(&self, pair: Pair) -> Option<usize> {
        let position = self.lower_pair(pair);
        let found = self.at(position)?;
        (found == pair || !self.duplicates && found.key == pair.key).then_some(position)
    }

    /// The positions of a key's pairs.
    pub fn positions(&self, key: u32) -> std::ops::Range<usize> {
        self.lower(key)..self.upper(key)
    }

    /// The pairs of a key.
    pub fn values(&self, key: u32) -> &[Pair] {
        &self.pairs[self.positions(key)]
    }

    /// The first value of a key.
    pub fn get(&self, key: u32) -> Option<u32> {
        self.values(key).first().map(|p| p.value)
    }

    /// The positions between two edges; empty if they cross.
    pub fn range(&self, low: Edge, high: Edge) -> std::ops::Range<usize> {
        let start = match low {
            Edge::Open => 0,
            Edge::Included(key) => self.lower(key),
            Edge::Excluded(key) => self.upper(key),
        };
        let end = match high {
            Edge::Open => self.len(),
            Edge::Included(key) => self.upper(key),
            Edge::Excluded(key) => self.lower(key),
        };
        start..end.max(start)
    }

    /// How many pairs lie between two edges.
    pub fn count_pairs(&self, low: PairEdge, high: PairEdge) -> usize {
        let before = |key, value| self.pairs.partition_point(|p| *p < Pair { key, value });
        let before_or_at = |key, value| self.pairs.partition_point(|p| *p <= Pair { key, value });
        let start = match low {
            PairEdge::Open => 0,
            PairEdge::Included(key, value) => before(key, value),
            PairEdge::Excluded(key, value) => before_or_at(key, value),
        };
        let end = match high {
            PairEdge::Open => self.len(),
            PairEdge::Included(key, value) => before_or_at(key, value),
            PairEdge::Excluded(key, value) => before(key, value),
        };
        end.saturating_sub(start)
    }

    /// The number of distinct keys among the pairs of a range of positions.
    pub fn distinct(&self, positions: std::ops::Range<usize>) -> usize {
        let pairs = &self.pairs[positions];
        if !self.duplicates || pairs.is_empty() {
            return pairs.len();
        }
        1 + pairs.windows(2).filter(|w| w[0].key != w[1].key).count()
    }

    /// The position of the first pair of the key with `n` distinct keys before it.
    pub fn nth_key(&self, n: usize) -> Option<usize> {
        if !self.duplicates {
            return (n < self.len()).then_some(n);
        }
        let is_first = |i: &usize| *i == 0 || self.pairs[*i - 1].key != self.pairs[*i].key;
        (0..self.len()).filter(is_first).nth(n)
    }

    /// Stores a value, or adds a pair; false if exactly this pair was there.
    pub fn put(&mut self, pair: Pair) -> bool {
        let position = self.lower_pair(pair);
        let pairs = Arc::make_mut(&mut self.pairs);
        match pairs.get_mut(position) {
            Some(old) if *old == pair => return false,
            Some(old) if !self.duplicates && old.key == pair.key => *old = pair,
            _ => pairs.insert(position, pair),
        }
        true
    }

    /// Deletes the pairs at a range of positions.
    pub fn delete(&mut self, positions: std::ops::Range<usize>) {
        if !positions.is_empty() {
            Arc::make_mut(&mut self.pairs).drain(positions);
        }
    }
}

/// All tables of a store at one time, by number.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The tables that exist.
    pub tables: Vec<Option<TableModel>>,
}

impl State {
    /// A store without tables, with room for some.
    pub fn new(tables: usize) -> Self {
        Self { tables: vec![None; tables] }
    }

    /// A table, if it exists.
    pub fn table(&self, table: u8) -> Option<&TableModel> {
        self.tables.get(usize::from(table))?.as_ref()
    }

    /// A table to change, if it exists.
    pub fn table_mut(&mut self, table: u8) -> Option<&mut TableModel> {
        self.tables.get_mut(usize::from(table))?.as_mut()
    }

    /// How many tables exist.
    pub fn count(&self) -> usize {
        self.tables.iter().flatten().count()
    }
}

/// Where a cursor stands, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It was just opened, or a seek found nothing.
    Nowhere,
    /// On this pair.
    At(Pair),
    /// Where this pair was before it was deleted: between its neighbours.
    Gap(Pair),
}

impl Place {
    /// The place after changes of the table: a pair that is gone leaves a gap, which it fills if
    /// it comes back.
    pub fn settled(self, model: &TableModel) -> Self {
        match self {
            Self::Nowhere => self,
            Self::At(pair) | Self::Gap(pair) if model.find_pair(pair).is_some() => Self::At(pair),
            Self::At(pair) | Self::Gap(pair) => Self::Gap(pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::rng::Rng;

    /// The model against maps and sets of the standard library, which know no positions.
    #[test]
    fn lists_answer_as_maps_and_sets_do() {
        let mut rng = Rng::new(11, 0);
        let mut table = TableModel::new(true, 0, 0);
        let mut map: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for _ in 0..20_000 {
            let pair = Pair { key: rng.below(40) as u32, value: rng.below(30) as u32 };
            if rng.chance(3, 5) {
                let new = map.entry(pair.key).or_default().insert(pair.value);
                assert_eq!(table.put(pair), new);
            } else if let Some(position) = table.find_pair(pair) {
                assert!(map.entry(pair.key).or_default().remove(&pair.value));
                table.delete(position..position + 1);
            }
            map.retain(|_, values| !values.is_empty());
            assert_eq!(table.len(), map.values().map(BTreeSet::len).sum::<usize>());
            let low = rng.below(40) as u32;
            let high = low + rng.below(10) as u32;
            let range = table.range(Edge::Included(low), Edge::Excluded(high));
            assert_eq!(table.distinct(range.clone()), map.range(low..high).count());
            let pairs: usize = map.range(low..high).map(|(_, v)| v.len()).sum();
            assert_eq!(range.len(), pairs);
            let n = rng.index(45);
            let nth = map.iter().nth(n).map(|(k, v)| (*k, v.first().copied()));
            let at = table.nth_key(n).and_then(|i| table.at(i));
            assert_eq!(at.map(|p| (p.key, Some(p.value))), nth);
        }
    }

    #[test]
    fn a_plain_table_replaces() {
        let mut table = TableModel::new(false, 0, 0);
        assert!(table.put(Pair { key: 1, value: 5 }));
        assert!(table.put(Pair { key: 1, value: 3 }));
        assert!(!table.put(Pair { key: 1, value: 3 }));
        assert_eq!(table.pairs(), [Pair { key: 1, value: 3 }]);
        assert_eq!(table.find_pair(Pair { key: 1, value: 9 }), Some(0));
    }
}
