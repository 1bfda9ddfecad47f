//! The items that the stores hold: random keys, values that cannot be compressed, and how to tell
//! whether an item is there and with which value.

use crate::data::random_key;
use crate::engine::Result;
use crate::engines::beyond::Key;

/// The bytes of a value.
pub(super) const VALUE: usize = 1024;
/// The bytes of an item.
pub(super) const ITEM: u64 = 16 + VALUE as u64;
/// Values are pieces of this much noise, with the number of the item in front.
const NOISE: usize = 1 << 20;
/// The number of the item and the version of its value.
const STAMP: usize = 16;

/// What was done to the items so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The items with the numbers below this one were put.
    pub(super) items: u64,
    /// Every second one was put once more.
    pub(super) overwritten: bool,
    /// Half of them were deleted, half of which had been put twice.
    pub(super) deleted: bool,
}

impl State {
    /// The version of an item's value; `None` if it is not there.
    pub(super) fn version(self, index: u64) -> Option<u64> {
        let is_there = index < self.items && !(self.deleted && is_deleted(index));
        is_there.then_some((self.overwritten && is_overwritten(index)).into())
    }

    /// How many there are.
    pub(super) fn count(self) -> u64 {
        let (whole, rest) = (self.items / 4, self.items % 4);
        if self.deleted { whole * 2 + rest.min(2) } else { self.items }
    }
}

/// Whether an item is one that is overwritten.
fn is_overwritten(index: u64) -> bool {
    index.is_multiple_of(2)
}

/// Those that are.
pub(super) fn nth_overwritten(number: u64) -> u64 {
    number * 2
}

/// Whether an item is one that is deleted.
fn is_deleted(index: u64) -> bool {
    index % 4 >= 2
}

/// Those that are.
pub(super) fn nth_deleted(number: u64) -> u64 {
    number / 2 * 4 + 2 + number % 2
}

/// Makes values and knows them again.
pub(super) struct Values {
    noise: Vec<u8>,
}

impl Values {
    pub(super) fn new() -> Self {
        let words = (0..(NOISE + VALUE) as u64 / 8).map(|word| first_word(&random_key(word)));
        Self { noise: words.flat_map(u64::to_le_bytes).collect() }
    }

    fn piece(&self, index: u64, version: u64) -> &[u8] {
        let at = first_word(&random_key(index ^ version << 40)) as usize % NOISE;
        &self.noise[at..at + VALUE]
    }

    /// Writes a value.
    pub(super) fn fill(&self, index: u64, version: u64, value: &mut [u8; VALUE]) {
        value.copy_from_slice(self.piece(index, version));
        value[..8].copy_from_slice(&index.to_le_bytes());
        value[8..STAMP].copy_from_slice(&version.to_le_bytes());
    }

    /// Whether that is the value of an item.
    fn is(&self, value: &[u8], index: u64, version: u64) -> bool {
        value.len() == VALUE
            && value[..8] == index.to_le_bytes()
            && value[8..STAMP] == version.to_le_bytes()
            && value[STAMP..] == self.piece(index, version)[STAMP..]
    }

    /// Compares what was read of an item with what there should be.
    pub(super) fn check(&self, state: State, index: u64, value: Option<&[u8]>) -> Result<()> {
        let is_right = match (state.version(index), value) {
            (None, None) => true,
            (Some(version), Some(value)) => self.is(value, index, version),
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("a wrong answer: item {index}").into()),
        }
    }

    /// Compares an entry that a scan found with what there should be.
    pub(super) fn check_entry(&self, state: State, key: &[u8], value: &[u8]) -> Result<()> {
        let index = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        if *key != random_key(index) {
            return Err(format!("a wrong answer: the value of item {index} at another key").into());
        }
        self.check(state, index, Some(value))
    }
}

fn first_word(key: &Key) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_be_there_is_known() {
        for items in 0..40 {
            for (overwritten, deleted) in [(false, false), (true, false), (true, true)] {
                let state = State { items, overwritten, deleted };
                let there = (0..100).filter(|&index| state.version(index).is_some()).count();
                assert_eq!(there as u64, state.count());
            }
        }
        let state = State { items: 8, overwritten: true, deleted: true };
        assert_eq!([0, 1, 2, 8].map(|index| state.version(index)), [Some(1), Some(0), None, None]);
    }

    #[test]
    fn items_are_chosen_as_they_are_known() {
        for (is, nth) in [
            (is_overwritten as fn(u64) -> bool, nth_overwritten as fn(u64) -> u64),
            (is_deleted, nth_deleted),
        ] {
            let chosen: Vec<u64> = (0..100).filter(|&index| is(index)).collect();
            let named: Vec<u64> = (0..).map(nth).take_while(|&index| index < 100).collect();
            assert_eq!(chosen, named);
        }
    }

    #[test]
    fn a_wrong_value_is_noticed() {
        let (values, mut value) = (Values::new(), [0; VALUE]);
        let state = State { items: 10, overwritten: true, deleted: false };
        values.fill(4, 1, &mut value);
        assert!(values.check(state, 4, Some(&value)).is_ok());
        assert!(values.check_entry(state, &random_key(4), &value).is_ok());
        assert!(values.check(state, 5, Some(&value)).is_err());
        assert!(values.check(state, 4, None).is_err());
        assert!(values.check_entry(state, &random_key(5), &value).is_err());
        value[1000] ^= 1;
        assert!(values.check(state, 4, Some(&value)).is_err());
        values.fill(4, 0, &mut value);
        assert!(values.check(state, 4, Some(&value)).is_err());
    }
}
