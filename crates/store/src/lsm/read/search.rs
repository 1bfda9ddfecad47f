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
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::table::{Block, Finder, Look, TableMeta, look};
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
        if let Some(finder) = table.kept_finder() {
            return f(finder);
        }
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
pub(crate) enum Value<'v> {
    /// One that stands in a buffer of the view.
    Here(&'v [u8]),
    /// One of this look-up's own.
    Own(Vec<u8>),
    /// One that the cache may have too.
    Shared(Arc<[u8]>),
    /// One that stands in a block, which the cache may have too.
    InBlock(Arc<Block>, Range<usize>),
}

impl Value<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::InBlock(block, at) => block.at(at),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Here(bytes) => bytes.to_vec(),
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
pub(crate) fn show<R>(value: Option<Value<'_>>, see: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let result = see(value.as_ref().map(Value::bytes));
    if let Some(Value::Shared(bytes)) = value {
        fetch::leave(bytes);
    }
    result
}

/// What a search does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It asks the next source.
    Ask,
    /// It needs what it wants to be read.
    Read,
    /// Nothing: it is done.
    Done,
}

/// What a block says of a key.
enum Sight<'v> {
    /// An entry: its sequence number, and what it says.
    Found(u64, Said<'v>),
    /// There is none.
    Absent,
    /// The versions of the key may go on in the next block.
    Next,
}

/// What an entry of a block says.
enum Said<'v> {
    Deleted,
    Here(Value<'v>),
    /// Where the value stands, if it says that.
    There(Option<Pointer>),
}

/// A table that is asked.
#[derive(Clone, Copy)]
struct Asked<'v> {
    table: &'v TableFile,
    /// The newest range tombstone in it over the key.
    cover: u64,
    /// The block to look into.
    number: usize,
}

/// Looking up one full key in a view.
pub(crate) struct Search<'v, 'k> {
    view: &'v View,
    open: &'k Open,
    key: &'k [u8],
    /// The caller's name for the request.
    tag: usize,
    /// The key's.
    hash: u64,
    /// How many tables of level 0, and levels below it, were searched.
    asked: usize,
    table: Option<Asked<'v>>,
    /// What is to be read.
    wanted: Option<Wanted<'v>>,
    value: Option<Value<'v>>,
}

impl<'v, 'k> Search<'v, 'k> {
    pub(crate) fn new(view: &'v View, open: &'k Open, key: &'k [u8], tag: usize) -> Self {
        let hash = filter::hash(key);
        Self { view, open, key, tag, hash, asked: 0, table: None, wanted: None, value: None }
    }

    /// The result, when it is done: its tag and the value.
    pub(crate) fn into_value(self) -> (usize, Option<Value<'v>>) {
        (self.tag, self.value)
    }

    /// Has the processor fetch what says of each source whether it may have the key: one after the
    /// other each of them would be waited for.
    #[inline]
    fn prefetch_filters(&self) {
        self.view.current.buffers().for_each(|buffer| buffer.prefetch(self.hash));
        for table in (0..).map_while(|nth| self.nth_table(nth)).flatten() {
            if let Some(finder) = table.kept_finder() {
                finder.prefetch_filter(self.hash);
            }
        }
    }

    fn ask_buffers(&mut self) -> Result<Next> {
        self.prefetch_filters();
        let (view, key) = (self.view, self.key);
        for buffer in view.current.buffers() {
            let cover = buffer.cover(key, view.at);
            match buffer.get(key, self.hash, view.at) {
                Some((seq, kind, value)) if seq > cover => return self.take(kind, value),
                None if cover == 0 => {}
                _ => return Ok(Next::Done),
            }
        }
        Ok(Next::Ask)
    }

    /// The table that may have the key by the keys of its level: one after the other those of level
    /// 0, then one of each level below. `None` if there are fewer.
    #[inline]
    fn nth_table(&self, nth: usize) -> Option<Option<&'v TableFile>> {
        let version = self.view.version();
        let level0 = version.level(0);
        match level0.get(nth) {
            Some(table) => Some(Some(table)),
            None => Some(version.table_for(nth - level0.len(), self.key)?.map(|table| &**table)),
        }
    }

    /// The next table that may have the key.
    fn next_table(&mut self) -> Option<&'v TableFile> {
        loop {
            let table = self.nth_table(self.asked)?;
            self.asked += 1;
            if let Some(table) = table.filter(|table| self.may_concern(table)) {
                return Some(table);
            }
        }
    }

    /// False if a table surely says nothing of the key. Its filter takes less time than its bounds.
    #[inline]
    fn may_concern(&self, table: &TableFile) -> bool {
        let TableMeta { seqs, bounds, .. } = &table.meta;
        table.kept_finder().is_none_or(|finder| finder.may_concern(self.hash))
            && seqs.0 <= self.view.at
            && bounds.contains(self.key)
    }

    /// Asks a table that may have the key.
    fn ask(&mut self, table: &'v TableFile) -> Result<Next> {
        let (cover, number) = self.open.with(table, |finder| {
            let pieces = finder.pieces();
            let has_none = pieces.is_empty();
            let cover = if has_none { 0 } else { pieces.cover(self.key, self.view.at) };
            // Without range tombstones a filter that is kept was asked already.
            let may_hold = has_none && table.kept_finder().is_some() || finder.may_hold(self.hash);
            let number = may_hold.then(|| finder.number_of(table.handle(), self.key));
            Ok((cover, number.transpose()?))
        })?;
        match number {
            Some(number) => self.go_to(Asked { table, cover, number }),
            None => Ok(after(cover)),
        }
    }

    /// Goes to the block of a table to look into; if that is after the last one, the table has no
    /// entry.
    fn go_to(&mut self, asked: Asked<'v>) -> Result<Next> {
        let Asked { table, cover, number } = asked;
        self.table = Some(asked);
        let site = match table.kept_finder() {
            Some(finder) => {
                let look = |block: &Arc<Block>| sight(block, self.key, self.view.at);
                if let Some(sight) = finder.look_at_hand(number, look) {
                    return self.settle(asked, sight);
                }
                finder.site(table.handle(), number)?.map(|site| site.of(finder))
            }
            None => self.open.with(table, |finder| finder.site(table.handle(), number))?,
        };
        let Some(site) = site else { return Ok(after(cover)) };
        self.wanted = Some(Wanted::Block(site));
        Ok(Next::Read)
    }

    /// Looks into a block of the table that was asked last.
    fn look_into(&mut self, block: &Arc<Block>) -> Result<Next> {
        let Some(asked) = self.table else { return Ok(Next::Ask) };
        self.settle(asked, sight(block, self.key, self.view.at))
    }

    /// Goes on after what a block said.
    #[inline]
    fn settle(&mut self, asked: Asked<'v>, sight: Result<Sight<'v>, &'static str>) -> Result<Next> {
        let Asked { table, cover, number } = asked;
        match sight {
            Ok(Sight::Found(seq, said)) if seq > cover => match said {
                Said::Deleted => {}
                Said::Here(value) => self.value = Some(value),
                Said::There(pointer) => return self.go_to_value(pointer),
            },
            Ok(Sight::Found(..)) => {}
            Ok(Sight::Absent) => return Ok(after(cover)),
            Ok(Sight::Next) => return self.go_to(Asked { number: number + 1, ..asked }),
            Err(reason) => {
                let damage = |finder: &Finder| Err(finder.damage(table.handle(), number, reason));
                return self.open.with(table, damage);
            }
        }
        Ok(Next::Done)
    }

    /// Takes the value of an entry of a buffer.
    fn take(&mut self, kind: Kind, value: &'v [u8]) -> Result<Next> {
        match kind {
            Kind::Tombstone => {}
            Kind::Inline => self.value = Some(Value::Here(value)),
            Kind::Separated => return self.go_to_value(Pointer::decode(value)),
        }
        Ok(Next::Done)
    }

    /// Goes to a value that an entry points to.
    fn go_to_value(&mut self, pointer: Option<Pointer>) -> Result<Next> {
        match separated(self.view, pointer)? {
            Separated::Held(value) => self.value = Some(Value::Own(value)),
            Separated::There(place) => {
                self.wanted = Some(Wanted::Value(place));
                return Ok(Next::Read);
            }
        }
        Ok(Next::Done)
    }
}

/// What a block says of a key, to a reader at `at`.
#[inline]
fn sight<'v>(block: &Arc<Block>, key: &[u8], at: u64) -> Result<Sight<'v>, &'static str> {
    Ok(match look(block, key, at)? {
        Look::Found((seq, kind, value)) => {
            let said = match kind {
                Kind::Tombstone => Said::Deleted,
                Kind::Inline => {
                    Said::Here(Value::InBlock(Arc::clone(block), block.place_of(value)))
                }
                Kind::Separated => Said::There(Pointer::decode(value)),
            };
            Sight::Found(seq, said)
        }
        Look::Absent => Sight::Absent,
        Look::Next => Sight::Next,
    })
}

/// What follows where a source has no entry, and this range tombstone over the key: it hides all
/// older ones.
fn after(cover: u64) -> Next {
    if cover > 0 { Next::Done } else { Next::Ask }
}

/// A value that an entry points to.
pub(crate) enum Separated<'v> {
    /// It is in memory still.
    Held(Vec<u8>),
    /// It stands there.
    There(ValuePlace<'v>),
}

/// The value that an entry points to, if it has a pointer.
///
/// # Errors
/// If the entry has no pointer, or one that leads nowhere.
pub(crate) fn separated(view: &View, pointer: Option<Pointer>) -> Result<Separated<'_>> {
    let path = &view.version().directory().path;
    let no_pointer = || Error::corrupt_at(path, 0, "an entry of a table has no pointer");
    let place = vlog::find(view.version(), pointer.ok_or_else(no_pointer)?)?;
    Ok(place.held().map_or(Separated::There(place), Separated::Held))
}

impl<'v> Task<'v> for Search<'v, '_> {
    fn step(&mut self, got: Option<Cached>) -> Result<Option<Wanted<'v>>> {
        let mut next = match got {
            None => self.ask_buffers()?,
            Some(Cached::Block(block)) => self.look_into(&block)?,
            Some(Cached::Value(value)) => {
                self.value = Some(Value::Shared(value));
                Next::Done
            }
            Some(Cached::Table(_)) => Next::Ask,
        };
        while next == Next::Ask {
            next = match self.next_table() {
                Some(table) => self.ask(table)?,
                None => Next::Done,
            };
        }
        Ok(self.wanted.take())
    }
}
