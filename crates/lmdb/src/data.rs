//! Getting, putting and deleting by key, and the rules of the flags.

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Table, WriteTxn};

use crate::abi::*;
use crate::arena::Arena;
use crate::code::{Answer, Code};
use crate::cursor::Cursor;
use crate::ffi::bytes_of;
use crate::handles::View;
use crate::main_db::Main;
use crate::place::Place;
use crate::txn::{Body, Txn, on_body};

/// Longer values stand in no page beside others, of whatever size pages are, and need not be copied
/// before a write.
const COPIED_MAX: usize = 32 << 10;

/// What a put did or found.
pub(crate) enum Put {
    /// The entry is there now.
    Done,
    /// Room was made for a value, to be filled at this address.
    Reserved(*mut u8),
    /// It was refused because of an existing value.
    Exists(Option<Val>),
}

impl Txn {
    /// The main database with its named ones.
    pub(crate) fn main<'t, S: Snapshot>(
        txn: &'t S,
        table: Option<Table>,
        names: &'t mut crate::main_db::Names,
        arena: &'t mut Arena,
    ) -> Main<'t, S> {
        Main { txn, table, names, arena }
    }

    /// Hands the (first) value of a key to `give`.
    #[inline(always)]
    pub(crate) fn get(&mut self, dbi: usize, key: &[u8], give: impl FnOnce(Val)) -> Answer {
        let Some((table, _)) = self.ready(dbi).filter(|_| !key.is_empty()) else {
            return self.get_unready(dbi, key).map(give);
        };
        let Body::Read(txn) = &self.body else {
            return self.get_any(dbi, table, key).map(give);
        };
        match txn.get(table, key) {
            Ok(Some(value)) => {
                match value.as_slice() {
                    Some(whole) => give(self.arena.stored(whole)),
                    None => give(memory(&self.views, dbi, &mut self.arena).copied(value)),
                }
                Ok(())
            }
            Ok(None) => Err(MDB_NOTFOUND),
            Err(error) => Err(self.fail_by(error)),
        }
    }

    /// As [`Txn::get`], in a transaction of any kind.
    #[inline(never)]
    fn get_any(&mut self, dbi: usize, table: Table, key: &[u8]) -> Answer<Val> {
        match on_body!(&self.body, txn => txn.get(table, key)) {
            Ok(Some(value)) => {
                self.arena.note_given(true);
                Ok(memory(&self.views, dbi, &mut self.arena).val(value))
            }
            Ok(None) => Err(MDB_NOTFOUND),
            Err(error) => Err(self.fail_by(error)),
        }
    }

    /// As [`Txn::get`] where the handle's table is not looked up, or not all there is to it.
    #[cold]
    fn get_unready(&mut self, dbi: usize, key: &[u8]) -> Answer<Val> {
        self.view(dbi)?;
        self.check()?;
        let view = self.prepared(dbi)?;
        if key.is_empty() {
            return Err(MDB_BAD_VALSIZE);
        }
        match self.ready(dbi) {
            Some((table, _)) => self.get_any(dbi, table, key),
            None => self.get_in_main(&view, key),
        }
    }

    #[cold]
    fn get_in_main(&mut self, view: &View, key: &[u8]) -> Answer<Val> {
        if view.table.is_some() && view.state & View::PLAIN != 0 {
            return Err(MDB_NOTFOUND);
        }
        let (names, arena) = (&mut self.names, &mut self.arena);
        let found = on_body!(&self.body, txn => Self::main(txn, view.table, names, arena).get(key));
        found.map_err(|e| self.fail(&e))?.ok_or(MDB_NOTFOUND)
    }

    /// Whether a key of the main database is the name of one.
    pub(crate) fn is_name(&mut self, dbi: usize, view: &View, key: &[u8]) -> Answer<bool> {
        if dbi != MAIN || view.state & View::PLAIN != 0 {
            return Ok(false);
        }
        let (names, arena) = (&mut self.names, &mut self.arena);
        let main = on_body!(&self.body, txn => {
            Self::main(txn, view.table, names, arena).is_name(key)
        });
        main.map_err(|e| self.fail(&e))
    }

    /// Checks sizes as LMDB does before anything else about a put.
    pub(crate) fn check_sizes(view: &View, key: &[u8], size: usize) -> Answer {
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(MDB_BAD_VALSIZE);
        }
        let most = if view.has_duplicates() { KEY_MAX } else { u32::MAX as usize };
        if size > most { Err(MDB_BAD_VALSIZE) } else { Ok(()) }
    }

    /// The usual put, in the fewest steps: of a short entry, with no flag but MDB_APPEND or, in a
    /// database with duplicates, MDB_APPENDDUP. A cursor's `place` then stands on the entry.
    /// `None`, and nothing done, for all that [`Txn::put`] has to see to.
    #[inline(always)]
    pub(crate) fn put_usual(
        &mut self,
        dbi: usize,
        key: &[u8],
        data: &Val,
        flags: u32,
        place: Option<&mut Place>,
    ) -> Option<Answer> {
        let (table, stored) = self.ready(dbi)?;
        let is_paired = stored & MDB_DUPSORT != 0;
        let (usual, sizes) = match is_paired {
            false => (MDB_APPEND, 0..=COPIED_MAX),
            true => (MDB_APPENDDUP, 1..=KEY_MAX),
        };
        let special =
            flags & !usual | self.flags & MDB_RDONLY | u32::from(is_led(stored, data.size));
        if special != 0 || !sizes.contains(&data.size) || key.is_empty() || key.len() > KEY_MAX {
            return None;
        }
        let Body::Write(txn) = &mut self.body else { return None };
        let (key, value) = match self.arena.has_given() {
            true => copied(&mut self.scratch, key, bytes_of(data)),
            // Then neither can stand where this writes.
            false => (key, bytes_of(data)),
        };
        self.arena.renew();
        let done = match flags {
            0 => txn.put(table, key, value),
            MDB_APPEND => txn.append(table, key, value),
            _ => append_value(txn, table, key, value),
        };
        let done = done.and_then(|()| match place {
            Some(place) => place.stand(txn, Some(table), key, if is_paired { value } else { &[] }),
            None => Ok(()),
        });
        Some(match done {
            Ok(()) => Ok(()),
            Err(Error::NotLast) => Err(MDB_KEYEXIST),
            Err(error) => Err(self.fail_by(error)),
        })
    }

    /// Puts an entry. `flags` are those of `mdb_put`. The arguments may lie in the store, or in
    /// memory that this call frees; the scratch then has a copy of the key.
    pub(crate) fn put(&mut self, dbi: usize, key: &[u8], data: Val, flags: u32) -> Answer<Put> {
        let view = match self.prepared(dbi)? {
            view if view.table.is_some() => view,
            _ => self.writable(dbi)?,
        };
        Self::check_sizes(&view, key, data.size)?;
        let view =
            if is_led(view.flags, data.size) { self.led(dbi, view, data.size)? } else { view };
        if view.state & View::PLAIN == 0 && self.is_name(dbi, &view, key)? {
            if flags & MDB_NOOVERWRITE != 0 {
                copied(&mut self.scratch, key, &[]);
                return self.get_in_main(&view, key).map(|value| Put::Exists(Some(value)));
            }
            return Err(MDB_INCOMPATIBLE);
        }
        let (Some(table), Body::Write(txn)) = (view.table, &mut self.body) else {
            return Err(libc::EACCES);
        };
        let copy = Copied::new(&mut self.scratch, key, data, flags);
        let (key, value) = copy.parts(&data);
        self.arena.renew();
        let result = match view.has_duplicates() {
            false => put_plain(txn, table, key, value, data.size, flags),
            true if flags & MDB_RESERVE != 0 => reserve_first(txn, table, key, data.size, flags),
            true => put_pair(txn, table, key, value, flags),
        };
        match result {
            Ok(Asked::Done) => Ok(Put::Done),
            Ok(Asked::Reserved(address)) => {
                self.arena.note_given(true);
                Ok(Put::Reserved(address))
            }
            Ok(Asked::Exists(true)) => {
                let found = txn.get(table, key);
                let found = found.map(|old| old.map(|old| self.arena.val(old)));
                found.map(Put::Exists).map_err(|e| self.fail(&e))
            }
            Ok(Asked::Exists(false)) => Ok(Put::Exists(None)),
            Ok(Asked::Refused(code)) => Err(code),
            Err(Error::NotLast) => Ok(Put::Exists(None)),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Deletes a key, or one value of it. `but` is a cursor that the caller sees to.
    pub(crate) fn delete(
        &mut self,
        dbi: usize,
        key: &[u8],
        value: Option<&[u8]>,
        but: Option<*const Cursor>,
    ) -> Answer {
        if key.is_empty() {
            return Err(MDB_BAD_VALSIZE);
        }
        let view = self.prepared(dbi)?;
        if view.state & View::PLAIN == 0 && self.is_name(dbi, &view, key)? {
            self.flags |= crate::txn::FAILED;
            return Err(MDB_INCOMPATIBLE);
        }
        let Some(table) = view.table else { return Err(MDB_NOTFOUND) };
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let value = value.filter(|_| view.has_duplicates());
        let value = value.map(|value| Val::new(value.as_ptr(), value.len()));
        let none = Val::new(std::ptr::null(), 0);
        let copy = Copied::new(&mut self.scratch, key, value.unwrap_or(none), 0);
        let (key, copied) = copy.parts(&none);
        self.arena.renew();
        let gone = match value {
            Some(_) => txn.delete_pair(table, key, copied),
            None => txn.delete(table, key),
        };
        match gone {
            Ok(true) => self.heal(dbi, &view, but),
            Ok(false) => Err(MDB_NOTFOUND),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Cursors whose entry was deleted stand on the next one. `but` has seen to that itself.
    pub(crate) fn heal(&mut self, dbi: usize, view: &View, but: Option<*const Cursor>) -> Answer {
        if self.cursors.is_empty() {
            return Ok(());
        }
        if view.state & View::PLAIN == 0 {
            return self.heal_in_main(dbi, view, but);
        }
        let Body::Write(txn) = &self.body else { return Ok(()) };
        let dups = view.has_duplicates();
        let mut healed = Ok(());
        self.cursors.each(dbi, but, |place| {
            if let Err(error) = place.heal(&**txn, dups) {
                healed = Err(error);
            }
        });
        healed.map_err(|e| self.fail(&e))
    }

    /// The same in a main database with named ones.
    #[cold]
    fn heal_in_main(&mut self, dbi: usize, view: &View, but: Option<*const Cursor>) -> Answer {
        let Body::Write(txn) = &self.body else { return Ok(()) };
        let mut main = Self::main(&**txn, view.table, &mut self.names, &mut self.arena);
        let mut healed = Ok(());
        self.cursors.each(dbi, but, |place| {
            if let Err(error) = main.heal(place) {
                healed = Err(error);
            }
        });
        healed.map_err(|e| self.fail(&e))
    }
}

/// Where copies of what is handed out without a cursor stand.
fn memory<'a>(views: &[View], dbi: usize, arena: &'a mut Arena) -> &'a mut Arena {
    if !views.get(dbi).is_some_and(View::is_brief) {
        return arena;
    }
    arena.brief().rewound()
}

/// Whether a value is none of the integers that the flags of its database speak of.
#[inline(always)]
pub(crate) fn is_led(flags: u32, size: usize) -> bool {
    let integers = MDB_DUPSORT | MDB_INTEGERDUP | MDB_DUPFIXED;
    flags & integers == integers && !matches!(size, 4 | 8)
}

/// The caller's arguments, copied if a write might move them.
struct Copied<'s> {
    key: &'s [u8],
    value: Option<&'s [u8]>,
}

impl<'s> Copied<'s> {
    fn new(scratch: &'s mut Vec<u8>, key: &[u8], data: Val, flags: u32) -> Self {
        let is_copied = data.size <= COPIED_MAX && flags & MDB_RESERVE == 0;
        let value: &[u8] = if is_copied { bytes_of(&data) } else { &[] };
        let (key, value) = copied(scratch, key, value);
        // Of reserved room there are no bytes yet.
        let is_known = is_copied || flags & MDB_RESERVE != 0;
        Self { key, value: is_known.then_some(value) }
    }

    /// Key and value.
    fn parts(&self, data: &'s Val) -> (&'s [u8], &'s [u8]) {
        (self.key, self.value.unwrap_or_else(|| bytes_of(data)))
    }
}

/// Copies of two strings.
#[inline(always)]
fn copied<'s>(scratch: &'s mut Vec<u8>, key: &[u8], value: &[u8]) -> (&'s [u8], &'s [u8]) {
    scratch.clear();
    scratch.reserve(key.len() + value.len());
    scratch.extend_from_slice(key);
    scratch.extend_from_slice(value);
    scratch.split_at(key.len())
}

/// The result of a put; `Exists(true)` if the caller gets the old value.
enum Asked {
    Done,
    Reserved(*mut u8),
    Exists(bool),
    Refused(Code),
}

fn put_plain(
    txn: &mut WriteTxn,
    table: Table,
    key: &[u8],
    value: &[u8],
    size: usize,
    flags: u32,
) -> Result<Asked, Error> {
    if flags & (MDB_NOOVERWRITE | MDB_RESERVE | MDB_APPEND) == 0 {
        txn.put(table, key, value)?;
        return Ok(Asked::Done);
    }
    if flags & MDB_NOOVERWRITE != 0 && txn.get(table, key)?.is_some() {
        return Ok(Asked::Exists(true));
    }
    if flags & MDB_RESERVE == 0 {
        if flags & MDB_APPEND != 0 {
            txn.append(table, key, value)?;
        } else {
            txn.put(table, key, value)?;
        }
        return Ok(Asked::Done);
    }
    if flags & MDB_APPEND != 0 && !is_behind(txn, table, key)? {
        return Ok(Asked::Exists(false));
    }
    Ok(Asked::Reserved(txn.reserve(table, key, size)?.as_mut_ptr()))
}

/// Whether a key comes after all of a table.
fn is_behind(txn: &WriteTxn, table: Table, key: &[u8]) -> Result<bool, Error> {
    Ok(txn.cursor(table)?.seek_at_or_after(txn, key)?.is_none())
}

/// The first value of a key is reserved as any other; LMDB dies if there is one already.
fn reserve_first(
    txn: &mut WriteTxn,
    table: Table,
    key: &[u8],
    size: usize,
    flags: u32,
) -> Result<Asked, Error> {
    if size == 0 {
        return Ok(Asked::Refused(MDB_BAD_VALSIZE));
    }
    if txn.get(table, key)?.is_some() {
        let exists = flags & (MDB_NOOVERWRITE | MDB_APPEND) != 0;
        return Ok(match exists {
            true => Asked::Exists(flags & MDB_NOOVERWRITE != 0),
            false => Asked::Refused(MDB_INCOMPATIBLE),
        });
    }
    if flags & MDB_APPEND != 0 && !is_behind(txn, table, key)? {
        return Ok(Asked::Exists(false));
    }
    Ok(Asked::Reserved(txn.reserve(table, key, size)?.as_mut_ptr()))
}

fn put_pair(
    txn: &mut WriteTxn,
    table: Table,
    key: &[u8],
    value: &[u8],
    flags: u32,
) -> Result<Asked, Error> {
    if value.is_empty() {
        return Ok(Asked::Refused(MDB_BAD_VALSIZE));
    }
    if flags & MDB_NOOVERWRITE != 0 && txn.get(table, key)?.is_some() {
        return Ok(Asked::Exists(true));
    }
    if flags & MDB_APPEND != 0 {
        if txn.get(table, key)?.is_some() {
            return Ok(Asked::Exists(false));
        }
        txn.append(table, key, value)?;
        return Ok(Asked::Done);
    }
    if flags & MDB_APPENDDUP != 0 {
        append_value(txn, table, key, value)?;
        return Ok(Asked::Done);
    }
    if flags & MDB_NODUPDATA != 0 && txn.contains_pair(table, key, value)? {
        return Ok(Asked::Exists(false));
    }
    txn.put(table, key, value)?;
    Ok(Asked::Done)
}

/// Adds a value that must come after the others of its key; otherwise the result is
/// [`Error::NotLast`].
fn append_value(txn: &mut WriteTxn, table: Table, key: &[u8], value: &[u8]) -> Result<(), Error> {
    match txn.append(table, key, value) {
        Err(Error::NotLast) => {}
        other => return other,
    }
    let mut cursor = txn.cursor(table)?;
    if cursor.seek_value_at_or_after(txn, key, value)?.is_some() {
        return Err(Error::NotLast);
    }
    txn.put(table, key, value)
}
