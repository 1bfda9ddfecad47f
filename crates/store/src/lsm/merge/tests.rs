//! Any walk over a merge is the same walk over one sorted list, and takes no more steps than it
//! must.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::lsm::entry::Kind;
use crate::random;

/// A sorted list as a source.
struct List(Vec<(Vec<u8>, u64)>, Option<usize>);

impl Source for List {
    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.1 = Some(self.0.partition_point(|e| compare((&e.0, e.1), (key, seq)).is_lt()));
        Ok(())
    }
    fn first(&mut self) -> Result<()> {
        self.1 = Some(0);
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        self.1 = self.0.len().checked_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.1 = self.1.map(|at| at + 1);
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.1 = self.1.and_then(|at| at.checked_sub(1));
        Ok(())
    }
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, seq) = self.0.get(self.1?)?;
        Some(Entry { key, seq: *seq, kind: Kind::Inline, value: b"" })
    }
}

/// Keys that are alike: in what is compared as numbers, in their length, in what follows.
fn alike(number: u64) -> Vec<u8> {
    let long = |len: usize, last: &[u8]| [&vec![7; len], last].concat();
    match number {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0, 0],
        3 => vec![7],
        4 => long(23, &[0]),
        5 => long(24, b""),
        6 => long(24, &[0]),
        7 => long(24, &[0, 0]),
        8 => long(24, &[1]),
        _ => long(40, b""),
    }
}

/// Moves over several entries at once.
fn leap(merge: &mut Merge, model: &mut List, action: u64, (key, seq): (&[u8], u64)) {
    let here = merge.entry().unwrap().key.to_vec();
    let is_older = |entry: &Entry<'_>| entry.seq < seq;
    match action {
        12 | 13 => {
            let seq = if action == 12 { 0 } else { seq };
            merge.next_version(seq).unwrap();
            model.next().unwrap();
            while model.entry().is_some_and(|entry| entry.key == here && entry.seq > seq) {
                model.next().unwrap();
            }
        }
        14 => {
            let is_inside = |here: &Entry<'_>| here.key < key;
            merge.next().unwrap();
            merge.pass(key, seq).unwrap();
            model.next().unwrap();
            while !follow(merge, model, |list| list.next(), is_inside, is_older) {
                merge.next().unwrap();
                model.next().unwrap();
            }
        }
        _ => {
            let is_inside = |here: &Entry<'_>| here.key >= key;
            merge.prev().unwrap();
            merge.pass_back(key, seq).unwrap();
            model.prev().unwrap();
            while !follow(merge, model, |list| list.prev(), is_inside, is_older) {
                merge.prev().unwrap();
                model.prev().unwrap();
            }
        }
    }
}

/// The list goes to where the merge stands, over what may be passed only. Whether that is
/// outside of what is passed.
fn follow(
    merge: &Merge,
    model: &mut List,
    step: impl Fn(&mut List) -> Result<()>,
    is_inside: impl Fn(&Entry<'_>) -> bool,
    is_older: impl Fn(&Entry<'_>) -> bool,
) -> bool {
    while model.entry() != merge.entry() {
        assert!(model.entry().is_some_and(|here| is_inside(&here) && is_older(&here)));
        step(model).unwrap();
    }
    !model.entry().is_some_and(|here| is_inside(&here))
}

/// A list that counts the steps over it.
struct Counted(List, Arc<AtomicU32>);

impl Source for Counted {
    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.0.land(key, seq)
    }
    fn first(&mut self) -> Result<()> {
        self.0.first()
    }
    fn last(&mut self) -> Result<()> {
        self.0.last()
    }
    fn next(&mut self) -> Result<()> {
        self.1.fetch_add(1, Relaxed);
        self.0.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.1.fetch_add(1, Relaxed);
        self.0.prev()
    }
    fn entry(&self) -> Option<Entry<'_>> {
        self.0.entry()
    }
}

/// Hunts for scans that take ever longer as one key is put again and again.
#[test]
fn many_versions_of_a_key_are_not_passed_one_by_one() {
    let steps = Arc::new(AtomicU32::new(0));
    let list = |odd: u64| {
        let versions = (0..5000).rev().map(|n| (b"hot".to_vec(), 2 * n + odd + 1));
        let list = versions.chain([(b"other".to_vec(), 20_000 + odd)]).collect();
        Box::new(Counted(List(list, None), Arc::clone(&steps))) as Box<dyn Source>
    };
    let mut merge = Merge::new(vec![list(0), list(1)]);
    merge.first().unwrap();
    merge.next_version(100).unwrap();
    assert_eq!(merge.entry().map(|entry| (entry.key, entry.seq)), Some((&b"hot"[..], 100)));
    merge.next_key().unwrap();
    assert_eq!(merge.entry().map(|entry| entry.key), Some(&b"other"[..]));
    let steps = steps.load(Relaxed);
    assert!(steps <= 2 * (VERSIONS_MAX + 1), "{steps} steps");
}

/// Any walk over the merge is the same walk over one sorted list.
#[test]
fn a_merge_is_one_list() {
    let mut random = random::numbers(3);
    for round in 0..300 {
        let mut lists = vec![Vec::new(); 1 + round % 6];
        // Some have many versions of few keys.
        let (seqs, keys) = if round % 3 == 0 { (100, 2) } else { (40, 9) };
        for seq in 1..random(seqs) {
            let list = random(lists.len() as u64) as usize;
            lists[list].push((alike(random(keys)), seq));
        }
        lists.iter_mut().for_each(|list| list.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1))));
        let mut whole: Vec<_> = lists.concat();
        whole.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
        let mut model = List(whole, None);
        let boxed = |list| Box::new(List(list, None)) as Box<dyn Source>;
        let mut merge = Merge::new(lists.into_iter().map(boxed).collect());
        for _ in 0..100 {
            let (key, seq) = (alike(random(10)), random(seqs));
            let action = if merge.entry().is_none() { random(4) } else { random(16) };
            if action >= 12 {
                leap(&mut merge, &mut model, action, (&key, seq));
            }
            let act = |source: &mut dyn Source| match action {
                0 => source.seek(&key, seq),
                1 => source.seek_before(&key, seq),
                2 => source.first(),
                3 => source.last(),
                4..=7 => source.next(),
                12.. => Ok(()),
                _ => source.prev(),
            };
            act(&mut merge).unwrap();
            act(&mut model).unwrap();
            assert_eq!(merge.entry(), model.entry());
        }
    }
}
