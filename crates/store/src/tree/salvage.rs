//! Bringing over what is still readable of a damaged store: every entry that can be reached, and
//! the ranges of keys that cannot. The old file is only read; nothing in it is trusted.
//!
//! # Which commit
//!
//! What a normal opening would find is found: the commit that it would choose, with the records of
//! the redo log on top ([`redo`]). A newer commit, of which nothing says that all of its pages
//! reached the disk, is read in its place if the root of its catalog can be; so is what the log
//! holds after a gap. What it lost is then filled with what the opening would find ([`prior`]).
//!
//! # Where the tables are found
//!
//! 1. In the catalog of the newest commit whose meta record can be read.
//! 2. If no meta record can be, in the newest catalog that a look at all pages finds (`scan`): each
//!    commit writes the path to the catalog's root anew, so that the greatest birth is the newest.
//! 3. If part of that catalog is damaged or an older one had to be taken, in older copies of its
//!    pages and in later versions of the trees that these name. Both stay in the file until
//!    they are written again; and where not even those name a tree, it comes over under the number
//!    of its root.
//!
//! # Below a branch that cannot be read
//!
//! The pages that it led to are looked for among all pages ([`orphans`]), and come over in a table
//! named `lost page N`, after the branch: some of them may be older versions.
//!
//! A page belongs to the tree that leads to it only if it was written before what refers to it, at
//! the level and with the flags that are expected, and if its keys lie between the separators:
//! pages of other times and tables stay out.

mod orphans;
mod prior;
mod redo;
mod scan;
mod walk;

use std::path::Path;
use std::sync::Arc;

use super::catalog::Stored;
use super::meta::Meta;
use super::open::exists;
use super::options::Paths;
use super::order::Form;
use super::page_ref::{FIRST_PAGE, PageNo};
use super::pages::PageFile;
use super::recover::{META_SLOTS, read_metas, recover};
use super::tree::Root;
use super::{Builder, Interrupt, LogReport, Loss, SalvageReport, Store, Table, WriteTxn};
use crate::Durability;
use crate::os::{DataFile, Open, RealSystem, System};
use crate::{Error, Result};
use orphans::rescue_orphans;
use prior::Prior;
use redo::{Replayed, replayed, scratch_of};
use scan::Scan;
use walk::{Target, Walker};

/// A table to bring over.
struct Found {
    name: Vec<u8>,
    root: Root,
    stored: Stored,
    /// The commit that wrote what names its root.
    newest: u64,
}

impl Store {
    /// Copies every entry of the store at `old` that can still be read to a new store at `new`, and
    /// reports what was lost. The old file is never written, and no lock file is made beside it: no
    /// process may write to it at the same time. A table of a custom order keeps the order of its
    /// entries. What lay below a branch, page `N`, that cannot be read is looked for among all
    /// pages, and comes over in a table `lost page N`; the report counts it as lost all the same.
    ///
    /// `progress(done_pages, all_pages)` is called from time to time; `interrupt` stops the work.
    ///
    /// # Errors
    /// [`Error::Path`] if there is nothing at `old` or something at `new`, [`Error::NotAStore`] if
    /// no page of `old` is one of a store, [`Error::Interrupted`], [`Error::Io`]. Damage is no
    /// error but stands in the report. After an error nothing is left at `new`.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    /// # drop(hedgerow::tree::Store::create(&old)?);
    /// use hedgerow::tree::{Interrupt, Store};
    /// let report = Store::salvage(&old, &new, &Interrupt::default(), &mut |_, _| {})?;
    /// assert!(report.losses.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn salvage(
        old: impl AsRef<Path>,
        new: impl AsRef<Path>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SalvageReport> {
        let (old, new) = (Paths::of(old), Paths::of(new));
        if RealSystem.open_data(&new.data, Open::Read, 0).is_ok() {
            return Err(exists(&new));
        }
        Builder::new().check_place(&new)?;
        let View { file, metas, prior, log, loss } = View::of(&old.data, &new.data, interrupt)?;
        let end = page_count(&file)?;
        let mut walker = Walker::new(&file, end, progress);
        walker.known = prior.as_ref().and_then(Prior::known);
        let has_later = log.as_ref().is_some_and(|log| log.unused > 0);
        walker.report.log = log;
        walker.report.losses.extend(loss);
        let plan = find_tables(&mut walker, &metas, has_later)?;
        let mut builder = Builder::new().page_size(file.page_size() as u32);
        builder.max_size = metas.first().and_then(Meta::max_size);
        let store = builder.durability(Durability::None).create(&new.data)?;
        let rescued = rescue(&store, &mut walker, plan, &metas, prior).and_then(|()| store.sync());
        drop(store);
        match rescued {
            Ok(()) => Ok(walker.finish()),
            Err(error) => {
                // The caller gets the error; half a store is of no use.
                for path in [&new.data, &new.lock] {
                    let _ = RealSystem.remove(path);
                }
                Err(error)
            }
        }
    }
}

/// The old store, as its file has it.
struct Old {
    file: PageFile,
    /// Those of its meta records that can be read, the newest first.
    metas: Vec<Meta>,
    /// The one that an opening would take.
    trusted: Option<Meta>,
}

/// The old store, as it is read.
struct View {
    file: PageFile,
    /// Its meta records, the newest first.
    metas: Vec<Meta>,
    /// What an opening would find, if there is a newer commit.
    prior: Option<Prior>,
    log: Option<LogReport>,
    loss: Option<Loss>,
}

impl View {
    /// Opens the old store, replays its log, and chooses the newest commit that can be read, with
    /// the pages that belong to it. `new` is the path of the new store.
    fn of(old: &Path, new: &Path, interrupt: &Interrupt) -> Result<Self> {
        let mut old = open_old(old, interrupt)?;
        let Replayed { opened, rest, report: log, loss } = replayed(&old, &scratch_of(new))?;
        let mut metas = std::mem::take(&mut old.metas);
        for made in opened.iter().chain(&rest) {
            metas.retain(|meta| meta.txn != made.newest.txn);
            metas.push(made.newest.clone());
        }
        metas.sort_by_key(|meta| std::cmp::Reverse(meta.txn));
        let known = opened.as_ref().map_or(0, |made| made.newest.txn);
        let file_of = |meta: &Meta| match &rest {
            Some(made) if made.newest.txn == meta.txn => old.with(&made.file),
            _ => old.with(&old.file.file),
        };
        let mut newest = None;
        for meta in metas.iter().take_while(|meta| meta.txn > known) {
            let file = file_of(meta);
            if newest.is_none() && has_catalog(&file, meta)? {
                newest = Some(file);
            }
        }
        let is_newer = metas.first().is_some_and(|meta| meta.txn > known);
        let mut prior = None;
        if let Some(made) = opened {
            let file = old.with(&made.file);
            if is_newer {
                prior = Some(Prior::new(file, made.newest)?);
            }
            newest = newest.or_else(|| Some(old.with(&made.file)));
        }
        Ok(Self { file: newest.unwrap_or(old.file), metas, prior, log, loss })
    }
}

impl Old {
    /// The old file with other bytes in it.
    fn with(&self, file: &Arc<dyn DataFile>) -> PageFile {
        let PageFile { path, interrupt, .. } = &self.file;
        let size = self.file.page_size() as u32;
        PageFile::new(Arc::clone(file), None, size, path.clone(), true, Arc::clone(interrupt))
    }
}

/// Whether the root of a commit's catalog can be read.
fn has_catalog(file: &PageFile, meta: &Meta) -> Result<bool> {
    let root = meta.catalog;
    let mut untold = |_, _| {};
    let walker = Walker::new(file, page_count(file)?, &mut untold);
    Ok(root.page.is_none() || walker.is_readable(root.page.0, root.level, meta.txn)?)
}

/// Opens the file for reading, with those of its meta records that can be read, the newest first.
fn open_old(path: &Path, interrupt: &Interrupt) -> Result<Old> {
    let file = RealSystem.open_data(path, Open::Read, 0).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Path { path: path.into(), reason: "there is no store here" }
        }
        _ => Error::io("open", path, e),
    })?;
    let mut metas: Vec<Meta> = Vec::new();
    let (mut page_size, mut trusted) = (None, None);
    match read_metas(&*file, path) {
        Ok(found) => {
            page_size = Some(found.page_size);
            let choice = recover(&*file, &found, path).ok();
            trusted = choice.and_then(|choice| found.metas[choice.latest as usize].clone());
            metas.extend(found.metas.into_iter().take(META_SLOTS as usize).flatten());
        }
        Err(error @ (Error::Unsupported { .. } | Error::Io { .. })) => return Err(error),
        Err(_) => {}
    }
    metas.sort_by_key(|meta| std::cmp::Reverse(meta.txn));
    let open = |size| {
        let flag = Arc::clone(&interrupt.0);
        PageFile::new(Arc::clone(&file), None, size, path.into(), true, flag)
    };
    let file = page_size.map_or_else(|| scan::probe_page_size(&open), |size| Ok(open(size)))?;
    Ok(Old { file, metas, trusted })
}

/// How many whole pages the file has.
fn page_count(file: &PageFile) -> Result<u32> {
    let len = file.file.len().map_err(|e| Error::io("read the length of", &file.path, e))?;
    let pages = len / file.page_size() as u64;
    Ok(pages.min(u64::from(super::page_ref::PAGE_NO_END)) as u32)
}

/// Finds the tables, in the ways of the head of this file. `has_later`: there were later commits
/// than any that can be read.
fn find_tables(walker: &mut Walker<'_>, metas: &[Meta], has_later: bool) -> Result<Vec<Found>> {
    let mut scan = None;
    let found = newest_catalog(walker, metas, &mut scan)?;
    let before = walker.report.losses.len();
    let mut tables = match found {
        Some((root, newest)) => tables_of(walker, &root, newest)?,
        None => {
            walker.lose(Loss::of_store("no catalog was found"));
            Vec::new()
        }
    };
    // Without meta records nothing says that there was a later commit.
    let last = metas.first().map_or(0, |meta| meta.txn);
    let is_last = !has_later && found.is_some_and(|(_, newest)| newest >= last);
    if walker.report.losses.len() > before || !is_last {
        let scan = match scan {
            Some(scan) => scan,
            None => Scan::new(walker)?,
        };
        scan.renew(&mut tables, is_last);
        scan.add_older_tables(&mut tables);
        scan.add_nameless_tables(&mut tables);
    }
    Ok(tables)
}

/// The root of the newest catalog, and the commit that it belongs to.
fn newest_catalog(
    walker: &mut Walker<'_>,
    metas: &[Meta],
    scan: &mut Option<Scan>,
) -> Result<Option<(Root, u64)>> {
    // The newest commits may not have reached the disk completely: the first one whose catalog
    // begins with a readable page is taken.
    for meta in metas {
        let root = meta.catalog;
        if root.page.is_none() || walker.is_readable(root.page.0, root.level, meta.txn)? {
            walker.report.commit = Some(meta.txn);
            return Ok(Some((root, meta.txn)));
        }
        let reason = format!("the root of the catalog of commit {} is damaged", meta.txn);
        walker.lose(Loss { page: Some(u64::from(root.page.0)), ..Loss::of_store(&reason) });
    }
    if metas.is_empty() {
        walker.lose(Loss::of_store("none of the three meta records can be read"));
    }
    let found = scan.insert(Scan::new(walker)?);
    Ok(found.newest_catalog())
}

/// The tables of a catalog.
fn tables_of(walker: &mut Walker<'_>, root: &Root, newest: u64) -> Result<Vec<Found>> {
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    walker.tree(b"", root, &Form::PLAIN, newest, &mut |name, record| {
        records.push((name.to_vec(), record.to_vec()));
        Ok(None)
    })?;
    let mut tables = Vec::new();
    for (name, record) in records {
        match Stored::decode(&record) {
            Some((root, stored)) => tables.push(Found { name, root, stored, newest }),
            None => {
                let reason = "its record in the catalog is damaged or of a later version";
                walker.lose(Loss { reason: reason.to_owned(), ..Loss::of_table(&name) });
            }
        }
    }
    Ok(tables)
}

/// Brings the tables over, in one transaction.
fn rescue(
    store: &Store,
    walker: &mut Walker<'_>,
    tables: Vec<Found>,
    metas: &[Meta],
    prior: Option<Prior>,
) -> Result<()> {
    let mut txn = store.begin_write()?;
    for found in &tables {
        rescue_table(&mut txn, walker, found)?;
    }
    let meta = metas.iter().find(|meta| Some(meta.txn) == walker.report.commit);
    rescue_orphans(&mut txn, walker, &tables, meta)?;
    if let Some(prior) = prior {
        let names: Vec<&[u8]> = tables.iter().map(|found| &found.name[..]).collect();
        let count = prior.fill(&mut txn, &names, &walker.report.losses)?;
        walker.report.entries += count;
        walker.report.filled = Some((prior.number(), count));
    }
    txn.commit()
}

/// The name under which what page `no` is or led to comes over: one that no table has.
fn name_of_lost(no: PageNo, tables: &[Found]) -> Vec<u8> {
    let mut name = format!("lost page {no}").into_bytes();
    while tables.iter().any(|found| found.name == name) {
        name.push(b'\'');
    }
    name
}

/// Makes a table of the new store; `None`, and a loss, if it cannot be one, as where another table
/// has its name.
fn make_table(
    txn: &mut WriteTxn,
    walker: &mut Walker<'_>,
    name: &[u8],
    stored: &Stored,
) -> Result<Option<Table>> {
    match txn.create_table(name, &stored.options_to_walk()) {
        Ok(table) => {
            walker.report.tables += 1;
            Ok(Some(table))
        }
        Err(error @ (Error::Io { .. } | Error::OutOfMemory)) => Err(error),
        Err(error) => {
            walker.lose(Loss { reason: error.to_string(), ..Loss::of_table(name) });
            Ok(None)
        }
    }
}

fn rescue_table(txn: &mut WriteTxn, walker: &mut Walker<'_>, found: &Found) -> Result<()> {
    let Some(table) = make_table(txn, walker, &found.name, &found.stored)? else {
        return Ok(());
    };
    let mut count = 0;
    let mut put: Box<Target<'_>> = Box::new(|key, value| match txn.put(table, key, value) {
        Ok(()) => {
            count += 1;
            Ok(None)
        }
        // Longer than a table takes, or not of its size.
        Err(error @ Error::Size { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    });
    walker.tree(&found.name, &found.root, &found.stored.stored_form(), found.newest, &mut put)?;
    drop(put);
    walker.report.entries += count;
    Ok(())
}

/// Pages of trees begin here.
const _: () = assert!(FIRST_PAGE == META_SLOTS);

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;
