//! The model of a store, and how far the commits of a store on a simulated disk were.

use std::collections::BTreeMap;

use hedgerow::Durability;

use super::{SPACES, Write};

/// What should be in the store: keys and values by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State(pub(super) [BTreeMap<u16, u32>; SPACES.len()]);

impl State {
    pub(super) fn apply(&mut self, write: Write) {
        match write {
            Write::Put(space, key, value) => {
                self.0[usize::from(space)].insert(key, value);
            }
            Write::Delete(space, key) => {
                self.0[usize::from(space)].remove(&key);
            }
            Write::DeleteRange(space, from, to) => {
                let is_gone = |key: u16| key >= from && to.is_none_or(|to| key < to);
                self.0[usize::from(space)].retain(|&key, _| !is_gone(key));
            }
        }
    }
}

/// What was committed on a simulated disk, and how much of it must survive what.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// The state after each commit; also those of commits that failed and may be there.
    pub(super) states: Vec<State>,
    /// The place of the last commit that returned.
    pub(super) returned: usize,
    pub(super) handed: usize,
    pub(super) durable: usize,
}

/// How far commits were at some moment: how many had returned, were with the system, were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) returned: usize,
    pub(super) handed: usize,
    pub(super) durable: usize,
}

const MARK_BITS: u32 = 21;

impl Mark {
    pub(super) fn pack(self) -> u64 {
        let [returned, handed, durable] =
            [self.returned, self.handed, self.durable].map(|n| n as u64);
        returned << (2 * MARK_BITS) | handed << MARK_BITS | durable
    }

    pub(super) fn unpack(mark: u64) -> Self {
        let part = |shift: u32| (mark >> shift) as usize & ((1 << MARK_BITS) - 1);
        Self { returned: part(2 * MARK_BITS), handed: part(MARK_BITS), durable: part(0) }
    }
}

impl Ledger {
    /// With one state, which must be there.
    pub(super) fn of(state: State) -> Self {
        Self { states: vec![state], returned: 0, handed: 0, durable: 0 }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { returned: self.returned, handed: self.handed, durable: self.durable }
    }

    /// As [`Ledger::mark`], if any of the failed commits may be there.
    pub(super) fn mark_of_failures(&self) -> Mark {
        Mark { returned: self.states.len() - 1, ..self.mark() }
    }

    /// The ledger of a store that was closed.
    pub(super) fn closed(self) -> Self {
        Self::of(self.states[self.returned].clone())
    }

    /// The last commit returned.
    pub(super) fn returned(&mut self) {
        self.returned = self.states.len() - 1;
    }

    /// All commits that returned promise this now.
    pub(super) fn promise(&mut self, durability: Durability) {
        if durability >= Durability::Eventual {
            self.handed = self.returned;
        }
        if durability == Durability::Durable {
            self.durable = self.returned;
        }
    }
}
