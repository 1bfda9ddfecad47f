//! Which segments are collected, and how many at a time.

use super::*;
use crate::lsm::values::arrange::tests::version;

/// Segments of 10,000 bytes, with the bytes needed in each.
fn segments() -> Version {
    version(&[&[(1, 9000), (2, 2000)], &[(3, 5000), (4, 10_000)]])
}

#[test]
fn a_round_takes_what_holds_least() {
    let bounds = |percent_max, round_bytes| Bounds { percent_max, slack_bytes: 0, round_bytes };
    assert_eq!(choose(&segments(), &bounds(100, u64::MAX)), [2, 3, 1]);
    assert_eq!(choose(&segments(), &bounds(110, u64::MAX)), [2, 3], "that is enough");
    assert_eq!(choose(&segments(), &bounds(100, 2500)), [2, 3], "that is one round");
    assert!(choose(&segments(), &bounds(200, u64::MAX)).is_empty());
}

#[test]
fn a_round_is_worth_a_pass_over_the_tables() {
    let steady = Bounds::steady(&segments(), 100);
    assert_eq!(steady.round_bytes, ROUND_TABLES * 2000);
    assert_eq!(Bounds::steady(&segments(), 10_000).round_bytes, ROUND_SEGMENTS * 10_000);
}

#[test]
fn a_step_writes_little_twice() {
    let mut victims = vec![2, 3, 1];
    assert_eq!(next_step(&segments(), &mut victims, 7500), [2, 3]);
    assert_eq!(next_step(&segments(), &mut victims, 7500), [1], "more than that, and yet");
    assert!(victims.is_empty() && next_step(&segments(), &mut victims, 7500).is_empty());
}
