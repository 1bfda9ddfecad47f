//! Databases by name: opening, creating, dropping, their flags and functions.

use std::ffi::c_int;

use hedgerow::tree::{Order, Snapshot};

use crate::abi::*;
use crate::code::Answer;
use crate::data::is_led;
use crate::handles::{self, Functions, OPEN_FLAGS, STORED_FLAGS, View};
use crate::main_db;
use crate::place::Place;
use crate::txn::{Body, FAILED, Txn, on_body};

impl Txn {
    /// Opens a database; `None` is the main one.
    pub(crate) fn open_database(&mut self, name: Option<&[u8]>, flags: u32) -> Answer<usize> {
        if flags & !OPEN_FLAGS != 0 {
            return Err(libc::EINVAL);
        }
        self.check()?;
        let Some(name) = name else {
            self.open_main(flags & STORED_FLAGS)?;
            self.set_brief_main(flags & MDB_PREFIX_COMPRESSION != 0);
            return Ok(MAIN);
        };
        let known = self.env.handles.read().find(name);
        if let Some(dbi) = known
            && dbi < self.views.len()
        {
            return Ok(dbi);
        }
        let dbi = self.env.handles.read().vacant(self.env.handles_max())?;
        if self.prepared(MAIN)?.flags & (MDB_DUPSORT | MDB_INTEGERKEY) != 0 {
            let create = flags & MDB_CREATE != 0;
            return Err(if create { MDB_INCOMPATIBLE } else { MDB_NOTFOUND });
        }
        if name.is_empty() {
            return Err(MDB_BAD_VALSIZE);
        }
        let found = on_body!(&self.body, txn => txn.find_table(name));
        match found.map_err(|e| self.fail(&e))? {
            Some(info) => {
                let is_brief = flags & MDB_PREFIX_COMPRESSION != 0;
                self.add_view(dbi, name, handles::flags_of(&info), is_brief);
                Ok(dbi)
            }
            None => self.create_database(dbi, name, flags),
        }
    }

    fn create_database(&mut self, dbi: usize, name: &[u8], flags: u32) -> Answer<usize> {
        if let Some(main) = self.prepared(MAIN)?.table
            && on_body!(&self.body, txn => txn.get(main, name)).is_ok_and(|found| found.is_some())
        {
            return Err(MDB_INCOMPATIBLE);
        }
        if flags & MDB_CREATE == 0 {
            return Err(MDB_NOTFOUND);
        }
        if self.flags & MDB_RDONLY != 0 {
            return Err(libc::EACCES);
        }
        if name.len() > KEY_MAX {
            return Err(MDB_BAD_VALSIZE);
        }
        let flags = flags & STORED_FLAGS;
        self.rest_in_main();
        self.add_view(dbi, name, flags, flags & MDB_PREFIX_COMPRESSION != 0);
        if let Err(code) = self.create(dbi, name, flags, &Functions::default()) {
            self.env.handles.change().close(dbi);
            self.views[dbi] = View { state: 0, seq: 0, flags: 0, table: None };
            return Err(code);
        }
        // The main database has a name more now.
        self.forget(MAIN);
        Ok(dbi)
    }

    /// Cursors on the main database stand on a key from now on, and not in its table: a record of a
    /// named one may be beside it.
    fn rest_in_main(&mut self) {
        if let Body::Write(txn) = &self.body {
            self.cursors.each(MAIN, None, |place| place.rest(&**txn));
        }
    }

    /// Takes a handle that was just opened.
    fn add_view(&mut self, dbi: usize, name: &[u8], flags: u32, is_brief: bool) {
        let seq = self.env.handles.change().open(dbi, name, flags, is_brief);
        let closed = View { state: 0, seq: 0, flags: 0, table: None };
        if dbi >= self.views.len() {
            self.views.resize(dbi + 1, closed);
        }
        let state = View::VALID | View::NEW | if is_brief { View::BRIEF } else { 0 };
        self.views[dbi] = View { state, seq, flags, table: None };
    }

    /// Whether the main database was opened with MDB_PREFIX_COMPRESSION.
    fn set_brief_main(&mut self, is_brief: bool) {
        let bit = if is_brief { View::BRIEF } else { 0 };
        let view = &mut self.views[MAIN];
        if view.state & View::BRIEF != bit {
            view.state = view.state & !View::BRIEF | bit;
            self.env.handles.change().all[MAIN].is_brief = is_brief;
        }
    }

    /// Opens the main database. Flags that it does not have yet can be given to an empty one only;
    /// where nothing can be written, those that say how keys are ordered, by its first entry.
    fn open_main(&mut self, flags: u32) -> Answer {
        let key_flags = flags & (MDB_INTEGERKEY | MDB_REVERSEKEY);
        let is_so = {
            let main = &self.env.handles.read().all[MAIN];
            main.key_flags == key_flags && main.functions.are_none()
        };
        if !is_so && let Some(main) = self.env.handles.change().get_mut(MAIN) {
            (main.functions, main.key_flags) = (Functions::default(), key_flags);
        }
        let view = self.prepared(MAIN)?;
        if view.flags | flags == view.flags {
            return Ok(());
        }
        let flags = view.flags | flags;
        let empty = match view.table {
            Some(table) => on_body!(&self.body, txn => txn.count(table)).map(|n| n.values == 0),
            None => Ok(true),
        };
        let named = self.has_names()? && flags & (MDB_DUPSORT | MDB_INTEGERKEY) != 0;
        if named || !empty.map_err(|e| self.fail(&e))? {
            crate::code::note("the flags of a main database with entries cannot be changed");
            return Err(MDB_INCOMPATIBLE);
        }
        if let Body::Write(txn) = &mut self.body {
            txn.drop_table(b"").map_err(|e| self.fail(&e))?;
            self.create(MAIN, b"", flags, &Functions::default())?;
        } else {
            self.views[MAIN].flags = flags;
        }
        Ok(())
    }

    /// The flags that are stored with a database.
    pub(crate) fn database_flags(&mut self, dbi: usize) -> Answer<u32> {
        let view = self.view(dbi)?;
        if dbi == MAIN && !matches!(self.body, Body::None) {
            return self.prepared(dbi).map(|view| view.flags);
        }
        Ok(view.flags)
    }

    /// Pages and entries of a database; of handle 0, which has the free pages in LMDB, nothing.
    pub(crate) fn stat(&mut self, dbi: usize) -> Answer<Stat> {
        let psize = self.env.opened()?.store.page_size();
        let known = self.views.get(dbi).is_some_and(|view| view.state & View::VALID != 0);
        if !known {
            return Err(libc::EINVAL);
        }
        self.check()?;
        let nothing = Stat { psize, ..Stat::default() };
        if dbi == 0 {
            return Ok(nothing);
        }
        let view = self.prepared(dbi)?;
        let found = on_body!(&self.body, txn => match view.table {
            _ if view.state & View::PLAIN == 0 && dbi == MAIN => main_db::stat(txn, psize),
            Some(table) => txn.table_stat(table).map(|stat| Stat {
                psize,
                depth: stat.depth,
                branch_pages: stat.branch_pages as usize,
                leaf_pages: stat.leaf_pages as usize,
                overflow_pages: stat.overflow_pages as usize,
                entries: stat.count.values as usize,
            }),
            None => Ok(nothing),
        });
        found.map_err(|e| self.fail(&e))
    }

    /// Empties a database, or deletes it.
    pub(crate) fn drop_database(&mut self, dbi: usize, delete: bool) -> Answer {
        let view = self.view(dbi)?;
        if self.flags & MDB_RDONLY != 0 {
            return Err(libc::EACCES);
        }
        if dbi >= CORE_DBS && self.env.handles.read().all.get(dbi).is_none_or(|h| h.seq != view.seq)
        {
            return Err(MDB_BAD_DBI);
        }
        self.check()?;
        let view = self.prepared(dbi)?;
        self.arena.renew();
        self.cursors.each(dbi, None, Place::unset);
        if dbi == MAIN {
            return self.clear_main(&view);
        }
        let name = self.env.handles.read().all[dbi].name.clone().unwrap_or_default();
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        if !delete {
            let Some(table) = view.table else { return Ok(()) };
            return txn.clear_table(table).map_err(|e| self.fail(&e));
        }
        match txn.drop_table(&name) {
            Ok(true) => {}
            Ok(false) => {
                self.flags |= FAILED;
                return Err(MDB_NOTFOUND);
            }
            Err(error) => return Err(self.fail(&error)),
        }
        self.names.forget();
        self.forget(MAIN);
        self.views[dbi] = View { state: 0, seq: 0, flags: 0, table: None };
        self.env.handles.change().close(dbi);
        self.heal_main()
    }

    /// A record of the main database is gone. With the last one that becomes a table as any other,
    /// in which its cursors find the place by their key.
    fn heal_main(&mut self) -> Answer {
        let view = self.prepared(MAIN)?;
        if view.state & View::PLAIN != 0
            && let Body::Write(txn) = &self.body
        {
            let mut found = Ok(());
            self.cursors.each(MAIN, None, |place| {
                if let Err(error) = place.attach(&**txn, view.table) {
                    found = Err(error);
                }
            });
            found.map_err(|e| self.fail(&e))?;
        }
        self.heal(MAIN, &view, None)
    }

    /// The main database takes the named ones with it.
    fn clear_main(&mut self, view: &View) -> Answer {
        let named = self.has_names()?;
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let mut cleared = match view.table {
            Some(table) => txn.clear_table(table),
            None => Ok(()),
        };
        if named && cleared.is_ok() {
            cleared = txn.tables().and_then(|tables| {
                let names = tables.iter().map(|table| &table.name);
                let mut names = names.filter(|name| !name.is_empty());
                names.try_for_each(|name| txn.drop_table(name).map(|_| ()))
            });
        }
        self.names.forget();
        for dbi in MAIN..self.views.len() {
            self.forget(dbi);
        }
        cleared.map_err(|e| self.fail(&e))
    }

    /// Gives a database functions to order its keys or values.
    pub(crate) fn set_functions(&mut self, dbi: usize, set: impl FnOnce(&mut Functions)) -> Answer {
        self.view(dbi)?;
        let old = {
            let mut handles = self.env.handles.change();
            let handle = handles.get_mut(dbi).ok_or(libc::EINVAL)?;
            let old = handle.functions;
            set(&mut handle.functions);
            old
        };
        self.forget(dbi);
        match self.prepared(dbi) {
            Err(MDB_INCOMPATIBLE) => {
                if let Some(handle) = self.env.handles.change().get_mut(dbi) {
                    handle.functions = old;
                }
                Err(MDB_INCOMPATIBLE)
            }
            // Whatever else is wrong is said by the call that needs the database.
            _ => Ok(()),
        }
    }

    /// Compares two keys, or two values, as a database does.
    pub(crate) fn compare(&mut self, dbi: usize, a: &[u8], b: &[u8], values: bool) -> Answer<i32> {
        self.view(dbi)?;
        let view = self.prepared(dbi)?;
        let functions = self.env.handles.read().all.get(dbi).map(|handle| handle.functions);
        let functions = functions.unwrap_or_default();
        let (function, integer, reverse) = match values {
            true => (functions.values, MDB_INTEGERDUP, MDB_REVERSEDUP),
            false => (functions.keys, MDB_INTEGERKEY, MDB_REVERSEKEY),
        };
        let order = match function {
            Some(function) => Order::custom("", crate::ffi::compare::by(function)),
            None if values && is_led(view.flags, a.len()) => {
                Order::custom("", crate::ffi::compare::leading)
            }
            None if view.flags & (integer | reverse) != 0 => Order::Reverse,
            None => Order::Bytewise,
        };
        Ok(order.compare(a, b) as c_int)
    }
}
