//! Looking up a key: a walk from the newest source to the oldest, in steps between which a block or
//! a value is read. Reads nothing itself but what finds the blocks of a table.

use std::sync::Arc;

use super::entry::{Kind, Pointer};
use super::fetch::{Cached, Task, Wanted};
use super::filter;
use super::snapshot::View;
use super::table::{Found, Look, TableSearch};
use super::version::{LEVELS, TableFile};
use super::vlog;
use crate::{Error, Result};

/// What is known of a key so far.
enum Verdict {
    /// The next source is to be asked.
    Open,
    /// The block that the table's search is at is to be looked into.
    Look,
    /// Its newest entry; `None`: there is none.
    Decided(Option<Found>),
}

/// Looking up one full key in a view.
pub(crate) struct Search<'v> {
    view: &'v View,
    key: Vec<u8>,
    /// What the caller knows it by.
    tag: usize,
    hash: Option<u64>,
    /// So many tables of level 0, and levels below it, were asked.
    asked: usize,
    /// The table that is asked, and the newest range tombstone in it over the key.
    table: Option<(TableSearch, u64)>,
    value: Option<Vec<u8>>,
}

impl<'v> Search<'v> {
    pub(crate) fn new(view: &'v View, key: Vec<u8>, tag: usize) -> Self {
        Self { view, key, tag, hash: None, asked: 0, table: None, value: None }
    }

    /// What it found, when it is done: its tag and the value.
    pub(crate) fn into_value(self) -> (usize, Option<Vec<u8>>) {
        (self.tag, self.value)
    }

    fn ask_buffers(&self) -> Verdict {
        let current = &self.view.current;
        let frozen = current.frozen.iter().map(|frozen| &frozen.buffer);
        for buffer in std::iter::once(&current.active).chain(frozen) {
            let cover = buffer.pieces().cover(&self.key, self.view.at);
            let verdict = decide(buffer.get(&self.key, self.view.at), cover);
            if matches!(verdict, Verdict::Decided(_)) {
                return verdict;
            }
        }
        Verdict::Open
    }

    /// The next table that may have the key.
    fn next_table(&mut self) -> Option<&'v Arc<TableFile>> {
        let version = self.view.version();
        let level0 = version.level(0);
        loop {
            let asked = self.asked;
            self.asked += 1;
            let table = match level0.get(asked) {
                Some(table) => Some(table),
                None => {
                    let level = asked - level0.len() + 1;
                    if level >= LEVELS {
                        return None;
                    }
                    let tables = version.level(level);
                    tables.get(tables.partition_point(|t| t.meta.bounds.is_before(&self.key)))
                }
            };
            let may_have = |table: &&Arc<TableFile>| {
                table.meta.seqs.0 <= self.view.at && table.meta.bounds.contains(&self.key)
            };
            if let Some(table) = table.filter(may_have) {
                return Some(table);
            }
        }
    }

    fn ask(&mut self, table: &TableFile) -> Result<Verdict> {
        let table = table.open()?;
        let cover = table.pieces().cover(&self.key, self.view.at);
        let hash = *self.hash.get_or_insert_with(|| filter::hash(&self.key));
        if !table.may_hold(hash) {
            return Ok(decide(None, cover));
        }
        self.table = Some((TableSearch::new(table, &self.key)?, cover));
        Ok(Verdict::Look)
    }

    fn look_into(&mut self, block: &super::table::Block) -> Result<Verdict> {
        let Some((search, cover)) = &mut self.table else { return Ok(Verdict::Open) };
        match search.look(block, &self.key, self.view.at)? {
            Look::Next => Ok(Verdict::Look),
            Look::Absent => Ok(decide(None, *cover)),
            Look::Found(found) => Ok(decide(Some(found), *cover)),
        }
    }

    /// The block that the table's search is at; if it is behind the last one, the table has no
    /// entry.
    fn block(&mut self) -> Result<Result<Wanted, Verdict>> {
        let Some((search, cover)) = &self.table else { return Ok(Err(Verdict::Open)) };
        Ok(search.block()?.ok_or_else(|| decide(None, *cover)))
    }

    /// Takes the value of an entry, or says where it stands.
    fn take(&mut self, (_, kind, value): Found) -> Result<Option<Wanted>> {
        match kind {
            Kind::Tombstone => Ok(None),
            Kind::Inline => {
                self.value = Some(value);
                Ok(None)
            }
            Kind::Separated => separated(self.view, &value).map(Some),
        }
    }
}

/// Where the value stands that an entry points to.
///
/// # Errors
/// If the entry has no pointer, or one that leads nowhere.
pub(crate) fn separated(view: &View, value: &[u8]) -> Result<Wanted> {
    let path = &view.version().directory().path;
    let no_pointer = || Error::damaged(path, 0, "an entry of a table has no pointer");
    let pointer = Pointer::decode(value).ok_or_else(no_pointer)?;
    vlog::find(view.version(), pointer).map(Wanted::Value)
}

impl Task for Search<'_> {
    fn step(&mut self, got: Option<Cached>) -> Result<Option<Wanted>> {
        let mut verdict = match got {
            None => self.ask_buffers(),
            Some(Cached::Block(block)) => self.look_into(&block)?,
            Some(Cached::Value(value)) => {
                self.value = Some(Arc::unwrap_or_clone(value));
                return Ok(None);
            }
            Some(Cached::Table(_)) => Verdict::Open,
        };
        loop {
            verdict = match verdict {
                Verdict::Decided(found) => return found.map_or(Ok(None), |found| self.take(found)),
                Verdict::Look => match self.block()? {
                    Ok(wanted) => return Ok(Some(wanted)),
                    Err(verdict) => verdict,
                },
                Verdict::Open => match self.next_table() {
                    Some(table) => self.ask(table)?,
                    None => Verdict::Decided(None),
                },
            };
        }
    }
}

/// What a source with this entry and this range tombstone over the key says: it hides all older
/// ones.
fn decide(found: Option<Found>, cover: u64) -> Verdict {
    match found {
        Some(found) => Verdict::Decided((found.0 > cover).then_some(found)),
        None if cover > 0 => Verdict::Decided(None),
        None => Verdict::Open,
    }
}
