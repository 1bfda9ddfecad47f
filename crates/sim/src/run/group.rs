//! Commits of several threads that become one: the others wait to write, in a known order, while
//! the first one commits.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use hedgerow::Durability;
use hedgerow::tree::{Store, WriteTxn};

use super::compare::{Outcome, ok};
use super::{Runner, Side, write};
use crate::config::Config;
use crate::model::{Pair, State};
use crate::op::Write;
use crate::rng::Rng;

/// What the members of a group leave to each other, in the order of their turns.
struct Shared {
    /// What the next one finds.
    state: State,
    /// The number that each commit was given, and what the store holds with it.
    commits: Vec<(u64, State)>,
}

impl Runner<'_> {
    /// Commits durably while other threads wait to write.
    pub(super) fn commit_group(
        &mut self,
        mut txn: WriteTxn,
        mut side: Side,
        members: u8,
        seed: u32,
    ) -> Outcome {
        self.change_something(&mut txn, &mut side, seed)?;
        self.note_begun(1 + usize::from(members));
        let (store, config) = (self.store().clone(), self.config);
        let state = side.state;
        let commits = vec![(txn.id(), state.clone())];
        let shared = Mutex::new(Shared { state, commits });
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for member in 1..=members {
                let rng = Rng::new(u64::from(seed), u64::from(member));
                let (shared, store) = (&shared, &store);
                let thread = scope.spawn(move || join_group(config, store, shared, rng));
                while store.writers_waiting() < usize::from(member) && !thread.is_finished() {
                    std::thread::yield_now();
                }
                threads.push(thread);
            }
            let first = ok("commit of a group", txn.commit_with(Durability::Durable));
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            first
        })?;
        let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.committed = shared.state;
        self.note_commits(shared.commits, true)
    }

    /// Where the first member changed nothing and the second one aborts, that one would flush
    /// beside the third: which of them comes first would be left to chance.
    fn change_something(&mut self, txn: &mut WriteTxn, side: &mut Side, seed: u32) -> Outcome {
        let handle = self.ensure_table(txn, side, 0)?;
        let (spec, longest) = (self.spec(0), self.store().max_duplicate_size());
        let Some(model) = side.state.table_mut(0) else { return Ok(()) };
        let key = seed % spec.keys.len() as u32;
        let value = seed / 7 % spec.values.len() as u32;
        let is_there = model.values(key).contains(&Pair { key, value });
        let change = if is_there { Write::Delete(key) } else { Write::Put(key, value) };
        write::write(txn, handle, spec, model, longest, change)
    }
}

/// A member: a transaction of a few changes, which is now and then taken back.
fn join_group(config: &Config, store: &Store, shared: &Mutex<Shared>, mut rng: Rng) -> Outcome {
    let mut txn = ok("begin_write in a group", store.begin_write())?;
    // It is not contended: only the thread that has the turn looks.
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let mut side = Side::new(shared.state.clone());
    let tables: Range<usize> = 0..config.tables.len();
    for (number, spec) in tables.zip(&config.tables) {
        let longest = store.max_duplicate_size();
        for _ in 0..rng.between(1, 3) {
            let key = rng.index(spec.keys.len()) as u32;
            let value = rng.index(spec.values.len()) as u32;
            let change = rng.pick(&[Write::Put(key, value), Write::Delete(key)]);
            if let Some(handle) = side.handle(config, &txn, number as u8)?
                && let Some(model) = side.state.table_mut(number as u8)
            {
                write::write(&mut txn, handle, spec, model, longest, change)?;
            }
        }
    }
    if rng.chance(1, 4) {
        drop(shared);
        txn.abort();
        return Ok(());
    }
    shared.state = side.state.clone();
    shared.commits.push((txn.id(), side.state));
    drop(shared);
    ok("commit in a group", txn.commit_with(Durability::Durable))
}
