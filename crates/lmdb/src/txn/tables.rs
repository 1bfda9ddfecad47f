//! What a handle means in a transaction: its table is looked up, made, or made anew.

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Table, TableInfo, TableOptions};

use super::{Body, Txn, on_body};
use crate::abi::*;
use crate::code::{Answer, code_of};
use crate::handles::{self, Functions, View};

impl Txn {
    /// What a handle means, if it may be used.
    #[inline(always)]
    pub(crate) fn view(&self, dbi: usize) -> Answer<View> {
        match self.views.get(dbi) {
            Some(view) if view.state & View::VALID != 0 && dbi != 0 => Ok(*view),
            _ => Err(libc::EINVAL),
        }
    }

    /// What a handle means whose table is looked up and all there is to its database, if the
    /// transaction may go on: what most calls find, in the fewest steps.
    #[inline(always)]
    pub(crate) fn ready(&self, dbi: usize) -> Option<(Table, u32)> {
        let view = self.views.get(dbi)?;
        if self.goes_on() && view.state & View::PLAIN != 0 {
            Some((view.table?, view.flags))
        } else {
            None
        }
    }

    /// What a handle means, its table looked up.
    #[inline(always)]
    pub(crate) fn prepared(&mut self, dbi: usize) -> Answer<View> {
        match self.views.get(dbi) {
            Some(view) if view.state & View::PLAIN != 0 => Ok(*view),
            _ => self.prepare(dbi),
        }
    }

    /// Looks a table up.
    #[cold]
    fn prepare(&mut self, dbi: usize) -> Answer<View> {
        let view = self.view(dbi)?;
        if view.state & View::LOOKED_UP != 0 {
            return Ok(view);
        }
        let (name, functions) = {
            let handles = self.env.handles.read();
            let Some(handle) = handles.all.get(dbi) else { return Err(libc::EINVAL) };
            if dbi >= CORE_DBS && handle.seq != view.seq {
                return Err(MDB_BAD_DBI);
            }
            (handle.name.clone().unwrap_or_default(), handle.functions)
        };
        let view = self.look_up(view, dbi, &name, &functions)?;
        self.views[dbi] = view;
        Ok(view)
    }

    fn look_up(
        &mut self,
        view: View,
        dbi: usize,
        name: &[u8],
        functions: &Functions,
    ) -> Answer<View> {
        if let Some((table, flags)) = self.look_up_open(name, functions)?
            && (dbi == MAIN || flags == view.flags)
        {
            return self.looked_up(view, dbi, table, flags);
        }
        let found = on_body!(&self.body, txn => txn.find_table(name));
        let found = found.map_err(|e| self.fail(&e))?;
        let Some(info) = found else {
            // Another database's commit, or the main one before its first entry.
            return Ok(View { state: view.state | View::LOOKED_UP, table: None, ..view });
        };
        let flags = handles::flags_of(&info);
        if dbi >= CORE_DBS && flags != view.flags {
            return Err(MDB_INCOMPATIBLE);
        }
        let info = match handles::is_ordered_by(&info, functions) {
            true => info,
            false => self.reorder(info, functions)?,
        };
        let options = handles::options_of(&info, functions);
        let custom = functions.keys.is_some() || functions.values.is_some();
        let table = match &mut self.body {
            Body::Read(txn) => open_table(&mut **txn, name, &options, custom),
            Body::Write(txn) => open_table(&mut **txn, name, &options, custom),
            Body::None => return Err(MDB_BAD_TXN),
        };
        let table = table.map_err(|e| self.fail(&e))?;
        self.looked_up(view, dbi, table, flags)
    }

    /// What most write transactions find: a table that the one before has left open, and its flags.
    fn look_up_open(&self, name: &[u8], functions: &Functions) -> Answer<Option<(Table, u32)>> {
        if functions.keys.is_some() || functions.values.is_some() {
            return Ok(None);
        }
        let found = on_body!(&self.body, txn => txn.table_if_open(name));
        Ok(found.and_then(|(table, bits, compressed)| {
            Some((table, handles::signed_flags(bits, compressed)?))
        }))
    }

    /// A view whose table was found.
    fn looked_up(&self, view: View, dbi: usize, table: Table, flags: u32) -> Answer<View> {
        let mut state = view.state | View::LOOKED_UP;
        if dbi != MAIN || on_body!(&self.body, txn => txn.table_count()) <= 1 {
            state |= View::PLAIN;
        }
        Ok(View { state, table: Some(table), flags, ..view })
    }

    /// Makes an empty table anew in the order of the program's functions, as a table with entries
    /// cannot be; where nothing can be written it is left as it is.
    fn reorder(&mut self, info: TableInfo, functions: &Functions) -> Answer<TableInfo> {
        if info.count.values > 0 {
            crate::code::note(
                "the database has entries in another order than mdb_set_compare or \
                 mdb_set_dupsort asks for; set the function before the first entry is put",
            );
            return Err(MDB_INCOMPATIBLE);
        }
        let options = handles::options(handles::flags_of(&info), functions);
        self.make_anew(info, &options)
    }

    /// Makes an empty table anew with other options, where anything can be written.
    fn make_anew(&mut self, info: TableInfo, options: &TableOptions) -> Answer<TableInfo> {
        let Body::Write(txn) = &mut self.body else { return Ok(info) };
        let made = txn
            .drop_table(&info.name)
            .and_then(|_| txn.create_table(&info.name, options))
            .and_then(|table| txn.table_info(table));
        made.map_err(|e| self.fail(&e))
    }

    /// What a handle means whose integers are asked to take a value that is none. LMDB looks at the
    /// 4 bytes at the beginning of one, and programs rely on that; the empty table is made anew for
    /// it. One that has integers already takes no others.
    #[cold]
    pub(crate) fn led(&mut self, dbi: usize, view: View, size: usize) -> Answer<View> {
        let Some(table) = view.table else { return Ok(view) };
        let info = on_body!(&self.body, txn => txn.table_info(table));
        let info = info.map_err(|e| self.fail(&e))?;
        if info.value_order != "integer" {
            return Ok(view);
        }
        if size < 4 || info.count.values > 0 {
            return Err(MDB_BAD_VALSIZE);
        }
        let functions = self.env.handles.read().all.get(dbi).map(|handle| handle.functions);
        let options = handles::leading_options(view.flags, &functions.unwrap_or_default());
        self.make_anew(info, &options)?;
        self.forget(dbi);
        self.prepared(dbi)
    }

    /// Whether there are named databases.
    pub(crate) fn has_names(&self) -> Answer<bool> {
        let found = on_body!(&self.body, txn => {
            txn.find_table(b"").map(|main| txn.table_count() > u64::from(main.is_some()))
        });
        found.map_err(|e| code_of(&e))
    }

    /// What a handle means, its table made if there is none yet.
    pub(crate) fn writable(&mut self, dbi: usize) -> Answer<View> {
        let view = self.prepared(dbi)?;
        if view.table.is_some() {
            return Ok(view);
        }
        if dbi != MAIN {
            return Err(MDB_NOTFOUND);
        }
        let (functions, key_flags) = {
            let main = &self.env.handles.read().all[MAIN];
            (main.functions, main.key_flags)
        };
        let flags = view.flags | if self.has_names()? { 0 } else { key_flags };
        self.create(MAIN, b"", flags, &functions)
    }

    /// Makes the table of a handle.
    pub(crate) fn create(
        &mut self,
        dbi: usize,
        name: &[u8],
        flags: u32,
        functions: &Functions,
    ) -> Answer<View> {
        let Body::Write(txn) = &mut self.body else { return Err(libc::EACCES) };
        let options = handles::options(flags, functions);
        let table = txn.create_table(name, &options).map_err(|e| self.fail(&e))?;
        self.names.forget();
        let plain = dbi != MAIN || !self.has_names()?;
        let view = self.views.get_mut(dbi).ok_or(libc::EINVAL)?;
        view.state |= View::LOOKED_UP | if plain { View::PLAIN } else { 0 };
        view.flags = flags;
        view.table = Some(table);
        Ok(*view)
    }

    /// The handle is looked up anew by the next call that needs it.
    pub(crate) fn forget(&mut self, dbi: usize) {
        if let Some(view) = self.views.get_mut(dbi) {
            view.state &= !(View::LOOKED_UP | View::PLAIN);
            view.table = None;
        }
    }

    pub(super) fn keep_new_handles(&self) {
        if !self.has_new_handles() {
            return;
        }
        let mut handles = self.env.handles.change();
        for (dbi, view) in self.views.iter().enumerate().skip(CORE_DBS) {
            if view.state & View::NEW != 0
                && let Some(handle) = handles.get_mut(dbi)
            {
                (handle.is_valid, handle.flags) = (true, view.flags);
            }
        }
        handles.known = handles.known.max(self.views.len());
    }

    fn has_new_handles(&self) -> bool {
        self.views.iter().any(|view| view.state & View::NEW != 0)
    }

    pub(super) fn close_new_handles(&self) {
        if self.has_new_handles() {
            let mut handles = self.env.handles.change();
            for (dbi, view) in self.views.iter().enumerate() {
                if view.state & View::NEW != 0 {
                    handles.close(dbi);
                }
            }
        }
    }
}

/// Opens a table; with `custom` functions it may be open with others.
fn open_table<S: Snapshot>(
    txn: &mut S,
    name: &[u8],
    options: &TableOptions,
    custom: bool,
) -> Result<Table, Error> {
    let table = txn.table_with(name, options)?;
    if custom {
        txn.set_order_functions(table, options)?;
    }
    Ok(table)
}
