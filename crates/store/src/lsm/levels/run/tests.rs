//! Which entries a merge leaves out, compared with what every reader sees.

use super::*;
use crate::random;

fn entry(seq: u64, kind: Kind) -> Entry<'static> {
    Entry { key: b"key", seq, kind, value: b"" }
}

/// What a reader at `at` sees of versions (newest first) and tombstones; 0: nothing.
fn sees(versions: &[(u64, Kind)], tombstones: &[u64], at: u64) -> u64 {
    let newest = versions.iter().find(|version| version.0 <= at);
    let cover = tombstones.iter().copied().filter(|&seq| seq <= at).max().unwrap_or(0);
    let is_there = |version: &&(u64, Kind)| version.1 != Kind::Tombstone && version.0 > cover;
    newest.filter(is_there).map_or(0, |version| version.0)
}

#[test]
fn every_reader_sees_what_it_saw() {
    let mut random = random::numbers(11);
    for round in 0..5000 {
        let (mut versions, mut tombstones) = (Vec::new(), Vec::new());
        for seq in (1..20).rev() {
            match random(5) {
                0 => versions.push((seq, Kind::Tombstone)),
                1 | 2 => versions.push((seq, Kind::Inline)),
                3 if random(3) == 0 => tombstones.push(seq),
                _ => {}
            }
        }
        let mut snapshots: Vec<u64> = (0..random(4)).map(|_| random(20)).collect();
        snapshots.extend([20]);
        snapshots.sort_unstable();
        snapshots.dedup();
        let rules = Rules { snapshots: snapshots.clone(), is_last: round % 2 == 0 };
        let list: Vec<Tombstone> = tombstones
            .iter()
            .map(|&seq| Tombstone { start: b"a".to_vec(), end: b"z".to_vec(), seq })
            .collect();
        let pieces = rules.pieces(&list);
        let mut sieve = Sieve { rules: &rules, pieces: &pieces, key: None, reader: None };
        let mut kept = versions.clone();
        kept.retain(|&(seq, kind)| sieve.judge(entry(seq, kind)) != Fate::Dropped);
        let needed = rules.needed(&tombstones);
        for &at in &snapshots {
            assert_eq!(sees(&kept, &needed, at), sees(&versions, &tombstones, at));
        }
        if rules.is_last && snapshots.len() == 1 {
            assert!(needed.is_empty() && kept.len() <= 1, "nobody else looks: {kept:?}");
        }
        // Below lies something older: what was deleted must stay deleted for all.
        if !rules.is_last {
            let with_older = |mut list: Vec<(u64, Kind)>| {
                list.push((0, Kind::Inline));
                list
            };
            for &at in &snapshots {
                let before = (with_older(versions.clone()), tombstones.clone());
                let is_hidden = before.0.iter().find(|v| v.0 <= at).is_some_and(|v| v.0 > 0)
                    || before.1.iter().any(|&seq| seq <= at);
                let after = with_older(kept.clone());
                let still = after.iter().find(|v| v.0 <= at).is_some_and(|v| v.0 > 0)
                    || needed.iter().any(|&seq| seq <= at);
                assert_eq!(is_hidden, still);
            }
        }
    }
}
