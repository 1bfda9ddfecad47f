//! Looking up a key: a walk from the newest source to the oldest, in steps between which a block or
//! a value is read. This module itself reads only the indexes and filters of tables.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::fetch::{self, Task, Wanted};
use super::view::View;
use crate::lsm::entry::{Kind, Pointer};
use crate::lsm::files::cached::Cached;
use crate::lsm::filter;
use crate::lsm::levels::version::{LEVELS, TableFile};
use crate::lsm::table::{Block, Finder, Found, Look, Site};
use crate::lsm::values::place::ValuePlace;
use crate::lsm::values::vlog;
use crate::{Error, Result};

/// Look-ups in the order of keys need no more finders than these, but where level 0 is long.
const OPEN_MAX: usize = 16;

/// What finds the entries of the tables that were asked last. The look-ups of one call share it, so
/// that each asks the cache for a table once.
#[derive(Default)]
pub(crate) struct Open(RefCell<Finders>);

#[derive(Default)]
struct Finders {
    /// The one that was asked last: a look-up often asks only one.
    last: Option<(u32, Arc<Finder>)>,
    others: Vec<(u32, Arc<Finder>)>,
}

impl Open {
    /// Calls `f` with what finds the entries of a table.
    fn with<R>(&self, table: &TableFile, f: impl FnOnce(&Finder) -> Result<R>) -> Result<R> {
        let number = table.meta.number;
        let Finders { last, others } = &mut *self.0.borrow_mut();
        if let Some((asked, finder)) = last
            && *asked == number
        {
            return f(finder);
        }
        let finder = match others.iter().position(|known| known.0 == number) {
            Some(at) => others.remove(at).1,
            None => table.finder()?,
        };
        if let Some(before) = last.take() {
            if others.len() >= OPEN_MAX {
                others.remove(0);
            }
            others.push(before);
        }
        f(&last.insert((number, finder)).1)
    }
}

/// A value that was found.
pub(crate) enum Value {
    /// One of this look-up's own.
    Own(Vec<u8>),
    /// One that the cache may have too.
    Shared(Arc<[u8]>),
    /// One that stands in a block, which the cache may have too.
    InBlock(Arc<Block>, Range<usize>),
}

impl Value {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::InBlock(block, at) => block.at(at),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => {
                let own = bytes.to_vec();
                fetch::leave(bytes);
                own
            }
            Self::InBlock(block, at) => block.at(&at).to_vec(),
        }
    }
}

/// Shows what was found to a function, without copying it.
pub(crate) fn show<R>(value: Option<Value>, see: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let result = see(value.as_ref().map(Value::bytes));
    if let Some(Value::Shared(bytes)) = value {
        fetch::leave(bytes);
    }
    result
}

/// What is known of a key so far.
enum Verdict<'f> {
    /// The next source is to be asked.
    Open,
    /// The block that the search is at is to be looked into.
    Look,
    /// Its newest entry; `None`: there is none.
    Decided(Option<Found<'f>>),
}

/// A table that is asked.
#[derive(Clone, Copy)]
struct Asked<'v> {
    table: &'v TableFile,
    /// The newest range tombstone in it over the key.
    cover: u64,
    /// The block to look into.
    site: Site<'v>,
}

/// Looking up one full key in a view.
pub(crate) struct Search<'v> {
    view: &'v View,
    open: &'v Open,
    key: &'v [u8],
    /// The caller's name for the request.
    tag: usize,
    /// The key's.
    hash: u64,
    /// How many tables of level 0, and levels below it, were searched.
    asked: usize,
    table: Option<Asked<'v>>,
    value: Option<Value>,
}

impl<'v> Search<'v> {
    pub(crate) fn new(view: &'v View, open: &'v Open, key: &'v [u8], tag: usize) -> Self {
        let hash = filter::hash(key);
        Self { view, open, key, tag, hash, asked: 0, table: None, value: None }
    }

    /// The result, when it is done: its tag and the value.
    pub(crate) fn into_value(self) -> (usize, Option<Value>) {
        (self.tag, self.value)
    }

    fn ask_buffers(&self) -> Verdict<'v> {
        let current = &self.view.current;
        let frozen = current.frozen.iter().map(|frozen| &frozen.buffer);
        for buffer in std::iter::once(&current.active).chain(frozen) {
            let cover = buffer.cover(self.key, self.view.at);
            let verdict = decide(buffer.get(self.key, self.hash, self.view.at), cover);
            if matches!(verdict, Verdict::Decided(_)) {
                return verdict;
            }
        }
        Verdict::Open
    }

    /// The next table that may have the key.
    fn next_table(&mut self) -> Option<&'v TableFile> {
        let version = self.view.version();
        let level0 = version.level(0);
        loop {
            let asked = self.asked;
            self.asked += 1;
            let is_before = |table: &Arc<TableFile>| table.meta.bounds.is_before(self.key);
            let table = match level0.get(asked) {
                Some(table) => Some(table).filter(|table| !is_before(table)),
                None => {
                    let level = asked - level0.len() + 1;
                    if level >= LEVELS {
                        return None;
                    }
                    let tables = version.level(level);
                    tables.get(tables.partition_point(is_before))
                }
            };
            let may_have = |table: &&Arc<TableFile>| {
                table.meta.seqs.0 <= self.view.at && !table.meta.bounds.is_after(self.key)
            };
            if let Some(table) = table.filter(may_have) {
                return Some(table);
            }
        }
    }

    fn ask(&mut self, table: &'v TableFile) -> Result<Verdict<'v>> {
        let hash = self.hash;
        let (cover, site) = self.open.with(table, |finder| {
            let cover = finder.pieces().cover(self.key, self.view.at);
            let site =
                if finder.may_hold(hash) { finder.seek(table.handle(), self.key)? } else { None };
            Ok((cover, site))
        })?;
        Ok(self.look_next(table, cover, site))
    }

    /// The block of a table to look into; if the key is after the last block, the table has no
    /// entry.
    fn look_next(
        &mut self,
        table: &'v TableFile,
        cover: u64,
        site: Option<Site<'v>>,
    ) -> Verdict<'v> {
        self.table = site.map(|site| Asked { table, cover, site });
        if self.table.is_some() { Verdict::Look } else { decide(None, cover) }
    }

    fn look_into<'b>(&mut self, block: &'b Block) -> Result<Verdict<'b>>
    where
        'v: 'b,
    {
        let Some(Asked { table, cover, site }) = self.table else { return Ok(Verdict::Open) };
        match site.look(block, self.key, self.view.at)? {
            Look::Absent => Ok(decide(None, cover)),
            Look::Found(found) => Ok(decide(Some(found), cover)),
            // The versions of the key may go on in the next block.
            Look::Next => {
                let next = self.open.with(table, |finder| finder.behind(&site))?;
                Ok(self.look_next(table, cover, next))
            }
        }
    }

    /// Asks one source after the other until the key is decided, or a block is to be looked into.
    fn settle<'b>(&mut self, mut verdict: Verdict<'b>) -> Result<Option<Wanted<'v>>>
    where
        'v: 'b,
    {
        loop {
            verdict = match verdict {
                Verdict::Decided(found) => return found.map_or(Ok(None), |found| self.take(found)),
                Verdict::Look => match self.table {
                    Some(asked) => return Ok(Some(Wanted::Block(asked.site))),
                    None => Verdict::Open,
                },
                Verdict::Open => match self.next_table() {
                    Some(table) => self.ask(table)?,
                    None => Verdict::Decided(None),
                },
            };
        }
    }

    /// Takes the value of an entry, or says where it stands.
    fn take(&mut self, (_, kind, value): Found<'_>) -> Result<Option<Wanted<'v>>> {
        match kind {
            Kind::Tombstone => Ok(None),
            Kind::Inline => {
                self.value = Some(Value::Own(value.to_vec()));
                Ok(None)
            }
            Kind::Separated => match separated(self.view, value)? {
                Separated::Held(value) => {
                    self.value = Some(Value::Own(value));
                    Ok(None)
                }
                Separated::There(place) => Ok(Some(Wanted::Value(place))),
            },
        }
    }
}

/// A value that an entry points to.
pub(crate) enum Separated<'v> {
    /// It is in memory still.
    Held(Vec<u8>),
    /// It stands there.
    There(ValuePlace<'v>),
}

/// The value that an entry points to.
///
/// # Errors
/// If the entry has no pointer, or one that leads nowhere.
pub(crate) fn separated<'v>(view: &'v View, value: &[u8]) -> Result<Separated<'v>> {
    let path = &view.version().directory().path;
    let no_pointer = || Error::corrupt_at(path, 0, "an entry of a table has no pointer");
    let pointer = Pointer::decode(value).ok_or_else(no_pointer)?;
    let place = vlog::find(view.version(), pointer)?;
    Ok(place.held().map_or(Separated::There(place), Separated::Held))
}

impl<'v> Task<'v> for Search<'v> {
    fn step(&mut self, got: Option<Cached>) -> Result<Option<Wanted<'v>>> {
        match got {
            None => {
                let verdict = self.ask_buffers();
                self.settle(verdict)
            }
            Some(Cached::Block(block)) => {
                let verdict = self.look_into(&block)?;
                if let Verdict::Decided(Some((_, Kind::Inline, value))) = verdict {
                    let at = block.place_of(value);
                    self.value = Some(Value::InBlock(block, at));
                    return Ok(None);
                }
                self.settle(verdict)
            }
            Some(Cached::Value(value)) => {
                self.value = Some(Value::Shared(value));
                Ok(None)
            }
            Some(Cached::Table(_)) => self.settle(Verdict::Open),
        }
    }
}

/// What a source with this entry and this range tombstone over the key says: it hides all older
/// ones.
fn decide(found: Option<Found<'_>>, cover: u64) -> Verdict<'_> {
    match found {
        Some(found) => Verdict::Decided((found.0 > cover).then_some(found)),
        None if cover > 0 => Verdict::Decided(None),
        None => Verdict::Open,
    }
}
