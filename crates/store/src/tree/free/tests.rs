//! Who holds a freed run, and which runs are chosen: the parts of free space that need no tree.

use super::*;

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
fn neighbours_join_only_if_their_intervals_agree() {
    let free = |start, len, birth| FreeRun { run: run(start, len), birth, freed: 9 };
    let mut runs = vec![free(12, 1, 4), free(10, 2, 4), free(13, 2, 5), free(20, 1, 5)];
    join_neighbours(&mut runs);
    assert_eq!(runs, [free(10, 3, 4), free(13, 2, 5), free(20, 1, 5)]);
}

#[test]
fn the_shortest_sufficient_run_is_chosen() {
    let runs = [run(3, 100), run(200, 7), run(300, 9), run(400, 2)];
    assert_eq!(choose_runs(&runs, 6, false), [1]);
    assert_eq!(choose_runs(&runs, 8, false), [2]);
    assert_eq!(choose_runs(&runs, 105, false), [0, 2]);
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
    let key = pending_key(7, 1234);
    let mut value = [0; 20];
    value[3] = 5;
    value[11] = 6;
    value[19] = 8;
    let free = FreeRun { run: run(1234, 5), birth: 6, freed: 8 };
    assert_eq!(pending_entry(&key, &value), Some((7, free)));
    assert_eq!(pending_entry(&key[1..], &value), None);
    assert_eq!(pending_entry(&key, &[0; 20]), None);
    assert_eq!(ready_entry(&u32::MAX.to_be_bytes(), &1_u32.to_be_bytes()), None);
}
