//! What the planners of the log-structured engine keep to: bounds of write and space amplification.

use sim::compaction::{CompactionSettings, Curve, Workload, run, shape};

fn curve(workload: Workload, separated: bool, keys: u32, ops: u64) -> hedgerow::Result<Curve> {
    let shape = shape(separated);
    run(&CompactionSettings { workload, shape, keys, ops, seed: 1, points: 20 })
}

/// A store that grows is written little more than once: while it is loaded, and with a full
/// compaction after that.
#[test]
fn a_load_writes_little_more_than_its_bytes() {
    for keys in [60_000, 120_000, 180_000, 240_000] {
        let curve = curve(Workload::Load, true, keys, 0).unwrap();
        let loaded = curve.loaded.write_amplification();
        assert!((1.0..=1.15).contains(&loaded), "{keys} keys: {loaded}");
        let compacted = curve.compacted.write_amplification();
        assert!(compacted <= 1.25, "{keys} keys: {compacted}");
    }
}

/// Whatever is written: files take at most 1.4 times what is there, at every moment, and 1.1 times
/// after a compaction.
#[test]
fn space_stays_within_its_bound() {
    for workload in Workload::ALL {
        let curve = curve(workload, true, 200_000, 400_000).unwrap();
        for (ops, tally) in &curve.points {
            let (name, most) = (workload.name(), tally.space_percent_max);
            assert!(most <= 140, "{name} after {ops} operations: {most} %");
        }
        let after = curve.compacted.space_amplification();
        assert!(after <= 1.1, "{} compacted: {after}", workload.name());
    }
}

/// The same where values stand in tables.
#[test]
fn space_of_inline_values_stays_within_its_bound() {
    for workload in [Workload::Uniform, Workload::Sequential, Workload::Halves] {
        let curve = curve(workload, false, 100_000, 200_000).unwrap();
        for (ops, tally) in &curve.points {
            let (name, most) = (workload.name(), tally.space_percent_max);
            assert!(most <= 145, "{name} after {ops} operations: {most} %");
        }
        let after = curve.compacted.space_amplification();
        assert!(after <= 1.1, "{} compacted: {after}", workload.name());
    }
}

/// The planners keep up: what waits for a merge does not grow with the number of operations.
#[test]
fn debt_does_not_grow() {
    let curve = curve(Workload::Uniform, true, 200_000, 1_000_000).unwrap();
    let debts: Vec<u64> = curve.points.iter().map(|(_, tally)| tally.debt_bytes).collect();
    let (early, late) = debts.split_at(debts.len() / 2);
    let most = |debts: &[u64]| debts.iter().copied().max().unwrap_or(0);
    assert!(most(early) > 0 && most(late) <= most(early) * 11 / 10, "{debts:?}");
    assert!(curve.points.iter().all(|(_, tally)| tally.level0_tables <= 13));
}
