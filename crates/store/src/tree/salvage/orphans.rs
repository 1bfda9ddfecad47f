//! What lay below a branch that cannot be read. Nothing leads to these pages any more; they are
//! found by a look at all pages.
//!
//! A page counts as one if no tree has claimed it and it is not free, as far as the trees of free
//! space can be read; if it was written no later than what refers to the branch, at the level below
//! it and with the flags of its table; and if its keys lie between the branch's bounds. Without
//! those trees older versions of pages are among them. Two pages of one commit have no keys in
//! common, and one that is in use was not written since: so the newest come first, and no page is
//! taken whose keys lie among those of another one. What doubt is left, that entries come back
//! which were deleted or stood in another table of the kind, is why they get a table of their own.

use std::cmp::Reverse;

use super::scan::Scan;
use super::walk::{LostBranch, Walker};
use super::{Found, Result, WriteTxn, make_table, name_of_lost};
use crate::Error;
use crate::tree::free::{pending_runs, ready_entry};
use crate::tree::meta::Meta;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page_ref::{PageNo, Run};

/// Brings the entries over that lay below branches of `tables` that were lost, each into a table
/// with the number of the branch in its name. `meta` is the record of the commit that is read.
pub(super) fn rescue_orphans(
    txn: &mut WriteTxn,
    walker: &mut Walker<'_>,
    tables: &[Found],
    meta: Option<&Meta>,
) -> Result<()> {
    let mut lost = std::mem::take(&mut walker.lost_branches);
    // Only the order of their keys tells pages of one commit from those of another.
    lost.retain(|branch| !matches!(branch.form.keys, KeyOrder::Custom(_)));
    if lost.is_empty() {
        return Ok(());
    }
    if let Some(meta) = meta {
        claim_free_pages(walker, meta)?;
    }
    let scan = Scan::new(walker)?;
    for branch in lost {
        let Some(found) = tables.iter().find(|found| found.name == branch.table) else { continue };
        let name = name_of_lost(branch.no, tables);
        rescue_below(txn, walker, &scan, &branch, (&name, found))?;
    }
    Ok(())
}

/// Has what a commit says to be free count as claimed. What of that cannot be read is no loss.
fn claim_free_pages(walker: &mut Walker<'_>, meta: &Meta) -> Result<()> {
    let losses = walker.report.losses.len();
    let mut runs: Vec<Run> = meta.recent.iter().map(|free| free.run).collect();
    walker.tree(b"", &meta.ready, &Form::PLAIN, meta.txn, &mut |key, value| {
        runs.extend(ready_entry(key, value));
        Ok(None)
    })?;
    walker.tree(b"", &meta.pending, &Form::PLAIN, meta.txn, &mut |key, value| {
        runs.extend(pending_runs(key, value).unwrap_or_default());
        Ok(None)
    })?;
    walker.report.losses.truncate(losses);
    for run in runs {
        walker.used.insert_run(run);
    }
    Ok(())
}

fn rescue_below(
    txn: &mut WriteTxn,
    walker: &mut Walker<'_>,
    scan: &Scan,
    branch: &LostBranch,
    (name, found): (&[u8], &Found),
) -> Result<()> {
    let pages = orphans(walker, scan, branch)?;
    if pages.is_empty() {
        return Ok(());
    }
    let Some(table) = make_table(txn, walker, name, &found.stored)? else {
        return Ok(());
    };
    let mut count = 0;
    let mut put = |key: &[u8], value: &[u8]| match txn.put(table, key, value) {
        Ok(()) => {
            count += 1;
            Ok(None)
        }
        Err(error @ Error::Size { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    };
    for no in pages {
        walker.orphan(name, no, branch, &mut put)?;
    }
    walker.report.entries += count;
    Ok(())
}

/// The pages below a branch that is lost, in no order.
fn orphans(walker: &Walker<'_>, scan: &Scan, branch: &LostBranch) -> Result<Vec<PageNo>> {
    let level = branch.level - 1;
    let mut pages = scan.pages_of(level, branch.newest, &branch.form);
    pages.retain(|(no, _)| !walker.used.contains(*no));
    pages.sort_by_key(|(no, birth)| (Reverse(*birth), *no));
    // The pages that are taken, by the first and the last key of each.
    let mut taken: Vec<(PageNo, Vec<u8>, Vec<u8>)> = Vec::new();
    let order = &branch.form.keys;
    for (no, _) in pages {
        let Some((first, last)) = walker.ends_of_orphan(no, branch)? else { continue };
        let at = taken.partition_point(|(_, before, _)| order.compare(before, &first).is_lt());
        let is_apart = at.checked_sub(1).is_none_or(|i| order.compare(&taken[i].2, &first).is_le())
            && taken.get(at).is_none_or(|(_, after, _)| order.compare(&last, after).is_le());
        if is_apart {
            taken.insert(at, (no, first, last));
        }
    }
    Ok(taken.into_iter().map(|(no, ..)| no).collect())
}
