//! Which of several free runs a commit takes its pages from: pure functions over runs.

use std::ops::Range;

use crate::tree::page_ref::{PageNo, Run};

/// The pieces of a commit for which runs are chosen one by one.
const LOOKS: usize = 4;

/// Indices of the runs to take for `need` pages: the shortest one that is long enough, else the
/// longest one and what is best for the rest, if they are few. Empty if what is there would be too
/// scattered.
pub(super) fn choose_runs(runs: &[Run], need: u32, scattered: bool) -> Vec<usize> {
    let pieces_max = if scattered { usize::MAX } else { (need / 8).max(1) as usize };
    let (mut left, mut chosen) = (need, Vec::new());
    // Few pieces usually do, each found by a look at all runs.
    while left > 0 && chosen.len() < pieces_max.min(LOOKS) {
        let Some(next) = best_run(runs, &chosen, left) else { break };
        left = left.saturating_sub(runs[next].len);
        chosen.push(next);
    }
    if left > 0 && chosen.len() < pieces_max {
        let mut rest: Vec<usize> = (0..runs.len()).filter(|i| !chosen.contains(i)).collect();
        rest.sort_by_key(|i| std::cmp::Reverse(runs[*i].len));
        for i in rest.into_iter().take(pieces_max - chosen.len()) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(runs[i].len);
            chosen.push(i);
        }
    }
    if left == 0 || scattered { chosen } else { Vec::new() }
}

/// The shortest run of at least `need` pages, else the longest one, but those that are `chosen`.
fn best_run(runs: &[Run], chosen: &[usize], need: u32) -> Option<usize> {
    let mut best: Option<(usize, u32)> = None;
    for (i, run) in runs.iter().enumerate() {
        let is_better = match best {
            None => true,
            Some((_, len)) if len >= need => (need..len).contains(&run.len),
            Some((_, len)) => run.len > len,
        };
        if is_better && !chosen.contains(&i) {
            best = Some((i, run.len));
        }
    }
    best.map(|(i, _)| i)
}

/// Indices, ascending, of the runs with the lowest pages, as many as are needed for `need` pages;
/// those that begin in `avoid` last.
pub(super) fn lowest_runs(runs: &[Run], need: u32, avoid: &Range<PageNo>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_unstable_by_key(|i| (avoid.contains(&runs[*i].start), runs[*i].start));
    let mut sum = 0_u32;
    let mut chosen: Vec<usize> = Vec::new();
    for i in order {
        if sum >= need {
            break;
        }
        sum = sum.saturating_add(runs[i].len);
        chosen.push(i);
    }
    chosen.sort_unstable();
    chosen
}

/// The runs of the pool from which `need` pages are numbered, in ascending order of their starts.
pub(super) fn numbering_runs(pool: &[Run], need: u32) -> Vec<usize> {
    let mut chosen = choose_runs(pool, need, true);
    chosen.sort_unstable();
    chosen
}

/// The other runs of the pool, in ascending order of their indices.
pub(super) fn spare_runs(pool: &[Run], chosen: &[usize]) -> Vec<usize> {
    (0..pool.len()).filter(|i| chosen.binary_search(i).is_err()).collect()
}
