//! The commit that a normal opening would find, beside a newer one of which nothing says that all
//! of its pages reached the disk: what the newer one lost is filled with what this one has.

use std::sync::Arc;

use super::walk::{Target, Walker};
use super::{Found, tables_of};
use crate::Result;
use crate::tree::check::PageSet;
use crate::tree::meta::Meta;
use crate::tree::order::KeyOrder;
use crate::tree::pages::PageFile;
use crate::tree::{Loss, WriteTxn};

/// A commit, and its pages.
pub(super) struct Prior {
    file: PageFile,
    meta: Meta,
    /// The pages that it uses, if all of them can be read.
    pages: Option<Arc<PageSet>>,
}

impl Prior {
    /// Looks at all of its pages.
    pub(super) fn new(file: PageFile, meta: Meta) -> Result<Self> {
        let mut prior = Self { file, meta, pages: None };
        let end = super::page_count(&prior.file)?;
        let mut untold = |_, _| {};
        let mut walker = Walker::new(&prior.file, end, &mut untold);
        for found in prior.tables(&mut walker)? {
            let form = found.stored.stored_form();
            walker.tree(&found.name, &found.root, &form, found.newest, &mut |_, _| Ok(None))?;
        }
        let pages = walker.report.losses.is_empty().then(|| Arc::new(walker.used));
        prior.pages = pages;
        Ok(prior)
    }

    /// The number of the commit.
    pub(super) fn number(&self) -> u64 {
        self.meta.txn
    }

    /// The number of the commit and the pages that it uses, if these are known: any other page of
    /// a later commit must have been written after it.
    pub(super) fn known(&self) -> Option<(u64, Arc<PageSet>)> {
        Some((self.meta.txn, Arc::clone(self.pages.as_ref()?)))
    }

    fn tables(&self, walker: &mut Walker<'_>) -> Result<Vec<Found>> {
        tables_of(walker, &self.meta.catalog, self.meta.txn)
    }

    /// Puts what this commit has in the ranges that were lost, and tables that were not found.
    /// Returns the number of entries. Of tables whose order is a function it brings nothing: that
    /// says where a range ends.
    pub(super) fn fill(
        &self,
        txn: &mut WriteTxn,
        tables: &[&[u8]],
        losses: &[Loss],
    ) -> Result<u64> {
        let end = super::page_count(&self.file)?;
        let mut untold = |_, _| {};
        let mut walker = Walker::new(&self.file, end, &mut untold);
        let is_catalog_lost = losses.iter().any(|loss| loss.table.is_empty());
        let mut count = 0;
        for found in self.tables(&mut walker)? {
            let form = found.stored.stored_form();
            let is_new = !tables.contains(&&found.name[..]);
            let lost: Vec<&Loss> = losses.iter().filter(|loss| loss.table == found.name).collect();
            let is_wanted = if is_new { is_catalog_lost } else { !lost.is_empty() };
            if !is_wanted || matches!(form.keys, KeyOrder::Custom(_)) {
                continue;
            }
            let table = txn.create_table(&found.name, &found.stored.options_to_walk())?;
            let mut put: Box<Target<'_>> = Box::new(|key, value| {
                if !is_new && !lost.iter().any(|loss| covers(loss, &form.keys, key)) {
                    return Ok(None);
                }
                let is_added = match form.values {
                    Some(_) => txn.put_pair(table, key, value)?,
                    None => txn.put_new(table, key, value)?.is_none(),
                };
                count += u64::from(is_added);
                Ok(None)
            });
            walker.tree(&found.name, &found.root, &form, found.newest, &mut put)?;
        }
        Ok(count)
    }
}

/// Whether a key lies in a lost range.
fn covers(loss: &Loss, order: &KeyOrder, key: &[u8]) -> bool {
    let from = loss.from.as_ref().is_none_or(|from| order.compare(key, from).is_ge());
    let to = loss.to.as_ref().is_none_or(|to| {
        let order = order.compare(key, to);
        order.is_lt() || loss.from == loss.to && order.is_eq()
    });
    from && to
}
