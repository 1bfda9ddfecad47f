//! Reads of the store beside the model: single keys, ranges, and walks of a cursor.

use std::ops::{Bound, RangeBounds};

use hedgerow::key::{KeyRange, prefix};
use hedgerow::lsm::{self, Cursor, Keyspace, Readable, Snapshot};

use super::super::SPACES;
use super::super::ledger::State;
use super::{Entry, Held, Runner, ok, same};
use crate::rng::Rng;
use crate::run::Outcome;

impl Runner<'_> {
    /// What a read sees: a held snapshot, if one is wanted and there is one, its keyspaces, and its
    /// model.
    fn seen(&self, held: Option<u8>) -> (Option<&Snapshot>, &[Keyspace], &State) {
        match held.and_then(|slot| self.held[usize::from(slot)].as_ref()) {
            Some(Held { snapshot, spaces, state }) => (Some(snapshot), spaces, state),
            None => (None, &self.spaces, &self.state),
        }
    }

    pub(super) fn get(&self, held: Option<u8>, seed: u64) -> Outcome {
        let mut rng = Rng::new(seed, 36);
        let (snapshot, spaces, state) = self.seen(held);
        let space = rng.index(SPACES.len());
        let count = rng.between(1, 4);
        let numbers: Vec<u16> =
            (0..count).map(|_| rng.index(self.config.keys.len()) as u16).collect();
        let keys: Vec<&Vec<u8>> =
            numbers.iter().map(|&key| &self.config.keys[usize::from(key)]).collect();
        let expected: Vec<Option<Vec<u8>>> = numbers
            .iter()
            .map(|key| state.0[space].get(key).map(|&value| self.config.value(value)))
            .collect();
        let (space, db) = (&spaces[space], self.db()?);
        let found = match snapshot {
            Some(snapshot) => snapshot.multi_get(space, &keys),
            None => db.multi_get(space, &keys),
        };
        same("get", &ok("get", found)?, &expected)
    }

    fn cursor(&self, snapshot: Option<&Snapshot>, space: &Keyspace) -> Outcome<Cursor> {
        let made = match snapshot {
            Some(snapshot) => snapshot.cursor(space),
            None => self.db()?.cursor(space),
        };
        ok("cursor", made)
    }

    pub(super) fn scan(&self, held: Option<u8>, seed: u64) -> Outcome {
        let mut rng = Rng::new(seed, 37);
        let (snapshot, spaces, state) = self.seen(held);
        let at = rng.index(SPACES.len());
        let expected = self.expected(state).swap_remove(at);
        let mut key = || self.config.keys[rng.index(self.config.keys.len())].clone();
        let (a, b) = (key(), key());
        let keys: (Bound<&[u8]>, Bound<&[u8]>) = match rng.index(6) {
            0 => {
                let prefix = prefix(&a[..rng.index(a.len() + 1)]);
                let owned = (prefix.low().map(<[u8]>::to_vec), prefix.high().map(<[u8]>::to_vec));
                return self.range(snapshot, &spaces[at], &owned, expected, &mut rng);
            }
            1 => (Bound::Included(&a), Bound::Excluded(&b)),
            2 => (Bound::Excluded(&a), Bound::Included(&b)),
            3 => (Bound::Included(&a), Bound::Unbounded),
            4 => (Bound::Unbounded, Bound::Included(&a)),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        self.range(snapshot, &spaces[at], &keys, expected, &mut rng)
    }

    /// Walks a range from one end, or from both in turns.
    fn range(
        &self,
        snapshot: Option<&Snapshot>,
        space: &Keyspace,
        keys: &impl KeyRange,
        mut expected: Vec<Entry>,
        rng: &mut Rng,
    ) -> Outcome {
        let made = match snapshot {
            Some(snapshot) => snapshot.range(space, keys),
            None => self.db()?.range(space, keys),
        };
        let mut range = ok("range", made)?;
        let bounds = (keys.low(), keys.high());
        expected.retain(|entry| RangeBounds::<[u8]>::contains(&bounds, &entry.0[..]));
        if rng.chance(1, 3) {
            range = range.keys_only();
            expected.iter_mut().for_each(|entry| entry.1.clear());
        }
        let mut expected = expected.into_iter();
        // How many of four steps are taken from the back.
        let from_back = rng.pick(&[0, 0, 4, 4, 2, 1]);
        loop {
            let (found, wanted) = match rng.chance(from_back, 4) {
                true => (range.next_back(), expected.next_back()),
                false => (range.next(), expected.next()),
            };
            same("range", &ok("range", found.transpose())?, &wanted)?;
            if wanted.is_none() {
                return Ok(());
            }
        }
    }

    pub(super) fn walk(&self, held: Option<u8>, seed: u64) -> Outcome {
        let mut rng = Rng::new(seed, 38);
        let (snapshot, spaces, state) = self.seen(held);
        let at = rng.index(SPACES.len());
        let mut cursor = self.cursor(snapshot, &spaces[at])?;
        let (keys, model) = (&self.config.keys, &state.0[at]);
        let mut here: Option<u16> = None;
        for _ in 0..rng.between(1, 30) {
            let key = rng.index(keys.len()) as u16;
            let text = &keys[usize::from(key)];
            let next = |from: u16| model.range(from..).next().map(|(&key, _)| key);
            let before = |to: u16| model.range(..to).next_back().map(|(&key, _)| key);
            let (moved, wanted, stays) = match rng.index(15) {
                0 => (cursor.seek(text), model.contains_key(&key).then_some(key), false),
                1 => (cursor.seek_at_or_after(text), next(key), false),
                2 => (cursor.seek_at_or_before(text), before(key + 1), false),
                3 => (cursor.first(), next(0), false),
                4 => (cursor.last(), before(u16::MAX), false),
                5..10 => (cursor.next(), next(here.map_or(0, |here| here + 1)), true),
                _ => (cursor.prev(), before(here.unwrap_or(u16::MAX)), true),
            };
            let entry = |key: u16| {
                let value = model.get(&key).map(|&value| self.config.value(value));
                (keys[usize::from(key)].clone(), value.unwrap_or_default())
            };
            same("cursor", &read_entry(moved)?, &wanted.map(entry))?;
            // A step over an end leaves the cursor where it was.
            here = if stays { wanted.or(here) } else { wanted };
            same("entry at the cursor", &read_entry(cursor.current())?, &here.map(entry))?;
        }
        Ok(())
    }
}

/// An entry that a cursor gave, with its value.
fn read_entry(entry: hedgerow::Result<Option<lsm::Entry<'_>>>) -> Outcome<Option<Entry>> {
    let Some(entry) = ok("cursor", entry)? else { return Ok(None) };
    Ok(Some((entry.key.to_vec(), ok("value", entry.value())?)))
}
