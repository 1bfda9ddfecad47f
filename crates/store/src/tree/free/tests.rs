//! Which snapshot holds a freed run, and which runs are chosen: the parts of free space that need
//! no tree.

use super::freed::MANY_FREED;
use super::pending::{encode_pending, pending_key};
use super::*;
use crate::random::numbers;

fn run(start: u32, len: u32) -> Run {
    Run { start, len }
}

/// The newest holder by definition: the greatest snapshot of the list inside the interval.
fn holder_slowly(protected: &[u64], birth: u64, freed: u64) -> Option<u64> {
    protected.iter().copied().filter(|s| birth <= *s && *s < freed).max()
}

#[test]
fn the_newest_holder_is_the_greatest_snapshot_in_the_interval() {
    for bits in 0_u32..256 {
        let protected: Vec<u64> = (0..8).filter(|s| bits >> s & 1 == 1).collect();
        for birth in 0..9 {
            for freed in birth..9 {
                let slow = holder_slowly(&protected, birth, freed);
                assert_eq!(newest_holder(&protected, birth, freed), slow);
                assert_eq!(is_held(&protected, birth, freed), slow.is_some());
            }
        }
    }
}

#[test]
fn a_run_that_nobody_can_hold_is_free_under_every_snapshot() {
    assert!(!is_held(&[0, 1, 2], 0, 0));
    assert!(!is_held(&[u64::MAX - 1], 0, 0));
}

#[test]
fn neighbours_join_in_any_order() {
    let mut runs = vec![run(12, 1), run(10, 2), run(14, 2), run(20, 1), run(19, 1)];
    join_neighbours(&mut runs);
    assert_eq!(runs, [run(10, 3), run(14, 2), run(19, 2)]);
}

#[test]
fn the_shortest_sufficient_run_is_chosen() {
    let runs = [run(3, 100), run(200, 7), run(300, 9), run(400, 2)];
    assert_eq!(choose_runs(&runs, 6, false), [1]);
    assert_eq!(choose_runs(&runs, 8, false), [2]);
    assert_eq!(choose_runs(&runs, 105, false), [0, 1]);
}

#[test]
fn scattered_pages_are_taken_only_if_allowed() {
    let runs: Vec<Run> = (0..50).map(|i| run(10 + 3 * i, 1)).collect();
    assert!(choose_runs(&runs, 5, false).is_empty());
    assert_eq!(choose_runs(&runs, 5, true).len(), 5);
    // Everything there is, where it is not enough.
    assert_eq!(choose_runs(&runs, 60, true).len(), 50);
}

#[test]
fn a_commit_uses_runs_in_ascending_order_and_knows_what_is_spare() {
    let pool = [run(10, 1), run(20, 30), run(60, 4), run(80, 31)];
    assert_eq!(numbering_runs(&pool, 40), [1, 3]);
    assert_eq!(spare_runs(&pool, &[1, 3]), [0, 2]);
}

#[test]
fn compaction_takes_the_lowest_runs() {
    let pool = [run(80, 31), run(20, 3), run(60, 4), run(10, 1)];
    assert_eq!(lowest_runs(&pool, 4, &(0..0)), [1, 3]);
    assert_eq!(lowest_runs(&pool, 5, &(0..0)), [1, 2, 3]);
    assert_eq!(lowest_runs(&pool, 5, &(15..30)), [2, 3]);
    assert_eq!(lowest_runs(&pool, 500, &(15..30)), [0, 1, 2, 3]);
    assert!(lowest_runs(&pool, 0, &(0..0)).is_empty());
}

#[test]
fn entries_come_back_and_bad_ones_are_refused() {
    let free = |start, len| FreeRun { run: run(start, len), birth: 6, freed: 8 };
    let (first, second) = (free(1234, 5), free(1239, 1));
    let value = |runs: &[FreeRun]| {
        let mut value = Vec::new();
        runs.iter().for_each(|free| encode_pending(&mut value, free));
        value
    };
    let (key, both) = (pending_key(7, 1234), value(&[first, second]));
    assert_eq!(pending_entry(&key, &both), Some((7, vec![first, second])));
    assert_eq!(pending_entry(&key[1..], &both), None);
    assert_eq!(pending_entry(&key, &both[1..]), None);
    assert_eq!(pending_entry(&key, &[]), None);
    assert_eq!(pending_entry(&key, &value(&[second, first])), None, "another run is the first");
    assert_eq!(pending_entry(&key, &value(&[first, first])), None, "the runs overlap");
    assert_eq!(pending_entry(&key, &value(&[first, free(1300, 0)])), None, "an empty run");
    assert_eq!(ready_entry(&u32::MAX.to_be_bytes(), &1_u32.to_be_bytes()), None);
}

/// Free runs that do not overlap, ascending: some held under the snapshot 5, some not, some that no
/// snapshot can hold.
fn free_runs(next: &mut impl FnMut(u64) -> u64) -> Vec<FreeRun> {
    let intervals = [(0, 0), (1, 3), (4, 9), (6, 9)];
    let (mut start, mut runs) = (3, Vec::new());
    for _ in 0..20 {
        let len = 1 + next(3) as u32;
        let (birth, freed) = intervals[next(4) as usize];
        runs.push(FreeRun { run: run(start, len), birth, freed });
        start += len + next(2) as u32;
    }
    runs
}

fn state_of(recent: Vec<FreeRun>, protected: &[u64]) -> FreeState {
    let meta = Meta { recent, txn: 9, ..Meta::empty(4096, [0; 16]) };
    let mut state = FreeState::new(&meta);
    state.begin(meta.txn, (0, 0), |list| list.extend_from_slice(protected));
    state
}

/// The runs of a list that the snapshots hold, by definition; of the others the pages.
fn looked_at_slowly(runs: &[FreeRun], protected: &[u64]) -> (Vec<FreeRun>, Vec<Run>) {
    let held = |free: &&FreeRun| holder_slowly(protected, free.birth, free.freed).is_some();
    let (held, open): (Vec<FreeRun>, Vec<FreeRun>) = runs.iter().partition(held);
    let mut open = open.into_iter().map(|free| free.run).collect();
    join_neighbours(&mut open);
    (held, open)
}

#[test]
fn runs_noted_one_by_one_are_the_joined_list() {
    let mut next = numbers(1);
    for _ in 0..200 {
        let mut rest: Vec<Run> = free_runs(&mut next).iter().map(|free| free.run).collect();
        let (mut open, mut joined) = (Vec::new(), rest.clone());
        while !rest.is_empty() {
            let run = rest.swap_remove(next(rest.len() as u64) as usize);
            let at = note_open(&mut open, run);
            let whole = open[at];
            assert!(whole.start <= run.start && run.start + run.len <= whole.start + whole.len);
        }
        join_neighbours(&mut joined);
        assert_eq!(open, joined);
    }
}

#[test]
fn what_nobody_holds_is_opened() {
    let mut next = numbers(2);
    for _ in 0..200 {
        let runs = free_runs(&mut next);
        let mut state = state_of(runs.clone(), &[5]);
        let fresh = state.release_recent();
        let (held, open) = looked_at_slowly(&runs, &[5]);
        assert_eq!((&state.recent.held, &state.recent.open), (&held, &open));
        // Fresh is the longest that holds a run freed by commit 9, if there is one.
        let holds =
            |whole: &Run, part: Run| (whole.start..whole.start + whole.len).contains(&part.start);
        let of_newest = || runs.iter().filter(|f| f.freed == 9 && !held.contains(f));
        let lens = open.iter().filter(|w| of_newest().any(|f| holds(w, f.run))).map(|w| w.len);
        assert_eq!(fresh.map(|at| open[at].len), lens.max());
        let mut list = Vec::new();
        state.recent.copy_to(&mut list);
        assert_eq!(list.len(), state.recent.len());
        let pages: u64 = list.iter().map(|free| u64::from(free.run.len)).sum();
        assert_eq!(pages, state.recent.pages());
    }
}

/// Commits follow each other, each freeing runs, while snapshots are pinned and let go at random,
/// and not every one of them looks at the list.
#[test]
fn what_is_left_unlooked_at_is_held() {
    let mut next = numbers(4);
    for _ in 0..300 {
        let (mut newest, mut readers) = (9, vec![5]);
        let (mut state, mut all) = (state_of(Vec::new(), &[5, 9]), Vec::<FreeRun>::new());
        for at in 0..40 {
            if next(3) > 0 {
                state.release_recent();
                let protected = [&readers[..], &[newest]].concat();
                let (held, open) = looked_at_slowly(&all, &protected);
                let mut found = state.recent.held.clone();
                found.sort_by_key(|free| free.run.start);
                assert_eq!((found, &state.recent.open), (held, &open));
            }
            // What a commit frees was made by the one before or long ago.
            let (made, txn) = (next(newest + 1), newest + 1 + next(2));
            let free =
                FreeRun { run: run(3 + 2 * at, 1 + next(2) as u32), birth: made, freed: txn };
            state.recent.held.push(free);
            all.push(free);
            match next(4) {
                0 => readers.push(newest),
                1 => drop(readers.swap_remove(next(readers.len() as u64) as usize)),
                _ => {}
            }
            if readers.is_empty() {
                readers.push(txn);
            }
            newest = txn;
            let protected = [&readers[..], &[newest]].concat();
            state.begin(newest, (0, 0), |list| list.extend_from_slice(&protected));
        }
    }
}

#[test]
fn freed_runs_are_sorted_whatever_their_number_and_place() {
    let mut next = numbers(3);
    for most in [1, 1 << 11, 1 << 12, 1 << 22, 1 << 23, u64::from(PageNo::MAX) + 1] {
        for len in [0, 1, MANY_FREED - 1, MANY_FREED, 3 * MANY_FREED] {
            let freed = |birth| Freed { run: run(next(most) as u32, 1), birth };
            let mut freed: Vec<Freed> = (0..len as u64).map(freed).collect();
            let mut slow = freed.clone();
            let by_all = |freed: &Freed| (freed.run.start, freed.birth);
            slow.sort_by_key(by_all);
            sort_freed(&mut freed);
            assert!(freed.is_sorted_by_key(|freed| freed.run.start));
            freed.sort_by_key(by_all);
            assert_eq!(freed, slow);
        }
    }
}
