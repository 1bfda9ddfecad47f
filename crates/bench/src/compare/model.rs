//! What a store must hold after the steps done so far: the source of every expected answer.
//!
//! The keys are those of the indexes from `first` to before `next`, less the ranges removed. Knows
//! no engine.

use super::entry::{self, Shape};
use crate::data::Generator;

/// The seed of all random choices.
const SEED: u64 = 42;

/// The expected content of a store.
#[derive(Clone, serde::Deserialize, serde::Serialize)]
pub(crate) struct Model {
    pub(crate) shape: Shape,
    /// Values of each key; 0 in a table that holds one.
    pub(crate) duplicates: u64,
    /// The words of all keys in order.
    #[serde(skip)]
    pub(crate) sorted: Vec<u64>,
    /// The lowest index that is there.
    pub(crate) first: u64,
    /// The lowest index that was never there.
    pub(crate) next: u64,
    /// Entries of lower indexes have had their value replaced.
    pub(crate) replaced: u64,
}

impl Model {
    /// What is there after `keys` keys were loaded.
    pub(crate) fn new(shape: Shape, keys: u64, duplicates: u64) -> Self {
        let mut model =
            Self { shape, duplicates, sorted: Vec::new(), first: 0, next: 0, replaced: 0 };
        model.add(keys);
        model
    }

    /// More keys were put.
    pub(crate) fn add(&mut self, keys: u64) {
        self.sorted.extend((self.next..self.next + keys).map(entry::word));
        self.next += keys;
        self.sorted.sort();
    }

    /// The keys of the lowest indexes were removed.
    pub(crate) fn remove(&mut self, keys: u64) {
        self.first += keys;
        let first = self.first;
        self.sorted.retain(|word| entry::index(*word) >= first);
    }

    /// Neighbouring keys were removed, beginning with the one with `from` before it.
    pub(crate) fn remove_range(&mut self, from: u64, keys: u64) {
        self.sorted.drain(from as usize..(from + keys) as usize);
    }

    /// Keys that are there.
    pub(crate) fn keys(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Pairs of a key and a value that are there.
    pub(crate) fn entries(&self) -> u64 {
        self.keys() * self.duplicates.max(1)
    }

    /// The word of the (first) value of a key.
    pub(crate) fn value_of(&self, index: u64) -> u64 {
        self.values_of(entry::word(index))[0]
    }

    /// The words of the values of a key in their order.
    pub(crate) fn values_of(&self, word: u64) -> Vec<u64> {
        if self.duplicates == 0 {
            return vec![entry::value_word(word, u64::from(entry::index(word) < self.replaced))];
        }
        let mut values: Vec<u64> =
            (0..self.duplicates).map(|number| entry::value_word(word, number)).collect();
        values.sort_unstable();
        values
    }

    /// The words of the key and the value with `n` entries before it.
    pub(crate) fn nth(&self, n: u64) -> (u64, u64) {
        let each = self.duplicates.max(1);
        let word = self.sorted[(n / each) as usize];
        (word, self.values_of(word)[(n % each) as usize])
    }

    /// How many keys come before a key that is there.
    pub(crate) fn rank(&self, index: u64) -> u64 {
        self.sorted.partition_point(|word| *word < entry::word(index)) as u64
    }

    /// A generator that draws the same each time, another one for each thread.
    pub(crate) fn random(&self, thread: u64) -> Generator {
        Generator::new(SEED + (thread << 32))
    }

    /// Draws the index of a key that is there, as long as no range was removed.
    #[inline(always)]
    pub(crate) fn draw(&self, random: &mut Generator) -> u64 {
        self.first + random.below(self.next - self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_follows_what_was_done() {
        let shape = Shape { key: 16, key_shared: 0, value: 8, value_least: 0, value_shared: 0 };
        let mut model = Model::new(shape, 1000, 0);
        model.add(100);
        model.remove(50);
        assert_eq!((model.keys(), model.entries()), (1050, 1050));
        assert!(model.sorted.is_sorted());
        let (word, value) = model.nth(model.rank(70));
        assert_eq!((entry::index(word), value), (70, model.value_of(70)));
        model.remove_range(10, 40);
        assert_eq!(model.keys(), 1010);
        let twenty = Model::new(shape, 10, 20);
        assert_eq!(twenty.entries(), 200);
        assert_eq!(twenty.nth(25).1, twenty.values_of(twenty.sorted[1])[5]);
    }
}
