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
use crate::lsm::levels::version::TableFile;
use crate::lsm::table::{Block, Finder, Found, Look, TableMeta, look};
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

/// What a search does next.
enum Next<'v> {
    /// It asks the next source.
    Ask,
    /// It looks into this block, of the table that it asked last.
    Look(Arc<Block>),
    /// It needs this to be read.
    Read(Wanted<'v>),
    /// Nothing: it is done.
    Done,
}

/// What a source says of a key.
enum Verdict<'f> {
    /// Nothing.
    Open,
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
    number: usize,
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

    fn ask_buffers(&mut self) -> Result<Next<'v>> {
        let (view, key) = (self.view, self.key);
        for buffer in view.current.buffers() {
            let cover = buffer.cover(key, view.at);
            let verdict = decide(buffer.get(key, self.hash, view.at), cover);
            if let Verdict::Decided(found) = verdict {
                return self.take(found);
            }
        }
        Ok(Next::Ask)
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
                Some(table) => Some(table).filter(|table| self.may_concern(table)),
                None => {
                    let tables = version.level(*version.filled().get(asked - level0.len())?);
                    tables.get(tables.partition_point(is_before))
                }
            };
            let may_have = |table: &&Arc<TableFile>| {
                let TableMeta { seqs, bounds, .. } = &table.meta;
                seqs.0 <= self.view.at && !bounds.is_after(self.key) && !bounds.is_before(self.key)
            };
            if let Some(table) = table.filter(may_have) {
                return Some(table);
            }
        }
    }

    /// False if a table surely says nothing of the key. Its bounds are left aside: asking the
    /// filter takes less time.
    #[inline]
    fn may_concern(&self, table: &TableFile) -> bool {
        table.kept_finder().is_none_or(|finder| finder.may_concern(self.hash))
    }

    /// Asks a table that may have the key.
    fn ask(&mut self, table: &'v TableFile) -> Result<Next<'v>> {
        let (cover, number) = self.open.with(table, |finder| {
            let pieces = finder.pieces();
            let cover = if pieces.is_empty() { 0 } else { pieces.cover(self.key, self.view.at) };
            let may_hold = finder.may_hold(self.hash);
            let number = may_hold.then(|| finder.number_of(table.handle(), self.key));
            Ok((cover, number.transpose()?))
        })?;
        match number {
            Some(number) => self.go_to(Asked { table, cover, number }),
            None => self.take_verdict(decide(None, cover)),
        }
    }

    /// Goes to the block of a table to look into; if that is after the last one, the table has no
    /// entry.
    fn go_to(&mut self, asked: Asked<'v>) -> Result<Next<'v>> {
        let Asked { table, cover, number } = asked;
        self.table = Some(asked);
        if let Some(finder) = table.kept_finder() {
            if let Some(block) = finder.at_hand(number) {
                return Ok(Next::Look(block));
            }
            if let Some(site) = finder.site(table.handle(), number)? {
                return Ok(Next::Read(Wanted::Block(site.of(finder))));
            }
        } else if let Some(site) =
            self.open.with(table, |finder| finder.site(table.handle(), number))?
        {
            return Ok(Next::Read(Wanted::Block(site)));
        }
        self.take_verdict(decide(None, cover))
    }

    /// Looks into a block of the table that was asked last.
    fn look_into(&mut self, block: Arc<Block>) -> Result<Next<'v>> {
        let Some(asked) = self.table else { return Ok(Next::Ask) };
        let Asked { table, cover, number } = asked;
        let found = match look(&block, self.key, self.view.at) {
            Ok(Look::Found(found)) => Some(found),
            Ok(Look::Absent) => None,
            // The versions of the key may go on in the next block.
            Ok(Look::Next) => return self.go_to(Asked { number: number + 1, ..asked }),
            Err(reason) => {
                let damage = |finder: &Finder| Err(finder.damage(table.handle(), number, reason));
                return self.open.with(table, damage);
            }
        };
        match decide(found, cover) {
            Verdict::Decided(Some((_, Kind::Inline, value))) => {
                let at = block.place_of(value);
                self.value = Some(Value::InBlock(block, at));
                Ok(Next::Done)
            }
            verdict => self.take_verdict(verdict),
        }
    }

    /// Asks one source after the other until the key is decided, or something is to be read.
    fn settle(&mut self, mut next: Next<'v>) -> Result<Option<Wanted<'v>>> {
        loop {
            next = match next {
                Next::Ask => match self.next_table() {
                    Some(table) => self.ask(table)?,
                    None => Next::Done,
                },
                Next::Look(block) => self.look_into(block)?,
                Next::Read(wanted) => return Ok(Some(wanted)),
                Next::Done => return Ok(None),
            };
        }
    }

    fn take_verdict(&mut self, verdict: Verdict<'_>) -> Result<Next<'v>> {
        match verdict {
            Verdict::Open => Ok(Next::Ask),
            Verdict::Decided(found) => self.take(found),
        }
    }

    /// Takes the value of an entry, or says where it stands.
    fn take(&mut self, found: Option<Found<'_>>) -> Result<Next<'v>> {
        match found {
            None | Some((_, Kind::Tombstone, _)) => {}
            Some((_, Kind::Inline, value)) => self.value = Some(Value::Own(value.to_vec())),
            Some((_, Kind::Separated, value)) => match separated(self.view, value)? {
                Separated::Held(value) => self.value = Some(Value::Own(value)),
                Separated::There(place) => return Ok(Next::Read(Wanted::Value(place))),
            },
        }
        Ok(Next::Done)
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
        let next = match got {
            None => self.ask_buffers()?,
            Some(Cached::Block(block)) => Next::Look(block),
            Some(Cached::Value(value)) => {
                self.value = Some(Value::Shared(value));
                Next::Done
            }
            Some(Cached::Table(_)) => Next::Ask,
        };
        self.settle(next)
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
