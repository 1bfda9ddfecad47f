//! Values that the caller fills in place, or writes in parts.

use super::sizes::{check_key, check_plain_len, note_sizes};
use super::value::{Sink, ValueWriter};
use super::{Reserved, WriteTxn};
use crate::tree::insert::{fits_inline, locate, put_cell, touch_path};
use crate::tree::page::ValueCell;
use crate::tree::page_ref::ExtentRef;
use crate::tree::pages::{Pages, WritePages};
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::tree::{Tree, raise};
use crate::tree::{Bytes, Snapshot, Table, extent};
use crate::{Error, Result};

impl WriteTxn {
    /// Makes room for a value of `len` bytes and returns it (zeros or old bytes) for writing. In a
    /// table with duplicates this is the first value of a key; a second one is put when its bytes
    /// are known, since they decide where it stands.
    ///
    /// # Errors
    /// [`Error::WrongTable`] in a table with duplicates for a key that is there, and for a value
    /// that is too long to stand beside others.
    pub fn reserve(&mut self, table: Table, key: &[u8], len: usize) -> Result<&mut [u8]> {
        if self.check_single(table).is_err() {
            return self.reserve_first(table, key, len);
        }
        check_key(self.open_table(table)?, key)?;
        check_plain_len(len as u64)?;
        self.begin_change()?;
        self.make_room(key, len as u64)?;
        let extent = self.change(table, |pages, open| {
            open.tail = None;
            note_sizes(open, key, &[]);
            reserve(pages, &mut open.tree, key, len)
        })?;
        let index = table.index as usize;
        if let Some(extent) = extent {
            self.reserved = Some(Reserved { index, key: key.to_vec() });
            let bytes = self.turn.state_mut().pages.extents.get_mut(extent.first);
            return bytes.map(|bytes| &mut bytes[..len]).ok_or(Error::OutOfMemory);
        }
        let (pages, open) = self.turn.state_mut().change(index)?;
        let place = locate(pages, &open.tree, key, &[])?;
        let leaf = place.path.steps[0].page;
        pages.value_to_fill(leaf, place.slot, len)
    }

    /// [`WriteTxn::reserve`] in a table with duplicates.
    fn reserve_first(&mut self, table: Table, key: &[u8], len: usize) -> Result<&mut [u8]> {
        if !fits_inline(self.pages().page_size(), key.len(), len) || self.get(table, key)?.is_some()
        {
            let reason = "the table has duplicates: reserve only the first value of a key, and no \
                          long one";
            return Err(Error::WrongTable { reason: reason.into() });
        }
        let zeros = vec![0; len];
        self.put(table, key, &zeros)?;
        let (pages, open) = self.turn.state_mut().change(table.index as usize)?;
        open.tail = None;
        let place = locate(pages, &open.tree, key, &zeros)?;
        let leaf = place.path.steps[0].page;
        pages.value_to_fill(leaf, place.slot, len)
    }

    /// A reserved long value has its bytes now: its sums are computed and stored.
    pub(super) fn finish_reserved(&mut self) -> Result<()> {
        let Some(Reserved { index, key }) = self.reserved.take() else { return Ok(()) };
        self.changes += 1;
        let (pages, open) = self.turn.state_mut().change(index)?;
        open.changed_at = self.changes;
        let result = reseal(pages, &mut open.tree, &key);
        self.note(result)
    }

    /// Writes `part` into a long value of a table without duplicates, from byte `offset` on, if
    /// this transaction made the value and no savepoint was begun since. The cost is that of the
    /// part and of four bytes for each page of the value, however long that is. False, and no
    /// change, if another way has to be found: the value is an older one, or not long, or there is
    /// none, or the part does not lie in it.
    #[doc(hidden)]
    pub fn write_part(
        &mut self,
        table: Table,
        key: &[u8],
        offset: usize,
        part: &[u8],
    ) -> Result<bool> {
        self.check_single(table)?;
        check_key(self.open_table(table)?, key)?;
        self.begin_change()?;
        self.change(table, |pages, open| {
            open.tail = None;
            change_part(pages, &mut open.tree, key, offset, part)
        })
    }

    /// Writes a value of `len` bytes in parts, never holding it in memory.
    ///
    /// # Errors
    /// [`Error::WrongTable`] for a table with duplicates.
    pub fn value_writer(&mut self, table: Table, key: &[u8], len: u64) -> Result<ValueWriter<'_>> {
        self.check_single(table)?;
        check_key(self.open_table(table)?, key)?;
        check_plain_len(len)?;
        self.begin_change()?;
        self.make_room(key, len)?;
        let page_size = self.pages().page_size();
        let short = usize::try_from(len).is_ok_and(|len| fits_inline(page_size, key.len(), len));
        let sink = if short {
            Sink::Short(Vec::new())
        } else {
            let state = self.turn.state_mut();
            let writer = extent::Writer::new(&mut state.pages, len);
            Sink::Long(self.note(writer)?)
        };
        Ok(ValueWriter { txn: self, table, key: key.to_vec(), len, sink: Some(sink) })
    }
}

/// Puts a value of `len` bytes that the caller will fill; its extent if it has one.
fn reserve(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    len: usize,
) -> Result<Option<ExtentRef>> {
    let mut place = locate(pages, tree, key, &[])?;
    if fits_inline(pages.page_size(), key.len(), len) {
        let zeros = vec![0; len];
        put_cell(pages, tree, &mut place, key, ValueCell::Inline(Bytes::from(&zeros[..])))?;
        return Ok(None);
    }
    let extent = extent::reserve(pages, len)?;
    raise(&mut tree.root.overflow_pages, u64::from(extent::run_of(&extent, pages.page_size()).len));
    put_cell(pages, tree, &mut place, key, ValueCell::Extent(extent))?;
    Ok(Some(extent))
}

/// Changes a part of a value where it is; false, and no change, if that cannot be.
fn change_part(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    offset: usize,
    part: &[u8],
) -> Result<bool> {
    let mut place = locate(pages, tree, key, &[])?;
    if !place.found {
        return Ok(false);
    }
    let leaf = pages.page(place.path.steps[0].page, 0)?;
    let Some(old) = leaf.leaf_record(place.slot).value_extent() else { return Ok(false) };
    let end = offset.checked_add(part.len());
    if end.is_none_or(|end| end > old.len as usize) {
        return Ok(false);
    }
    let Some(new) = extent::change_part(pages, &old, offset, part)? else { return Ok(false) };
    touch_path(pages, tree, &mut place.path)?;
    pages.change(place.path.steps[0].page).set_value_extent(place.slot, &new);
    Ok(true)
}

/// Computes the sums of a reserved value and stores them in its leaf.
fn reseal(pages: &mut WritePages, tree: &mut Tree, key: &[u8]) -> Result<()> {
    let mut place = locate(pages, tree, key, &[])?;
    if !place.found {
        return Ok(());
    }
    touch_path(pages, tree, &mut place.path)?;
    let leaf = place.path.steps[0].page;
    let Some(old) = pages.changed(leaf).leaf_record(place.slot).value_extent() else {
        return Ok(());
    };
    if let Some(new) = extent::reseal(pages, &old) {
        pages.change(leaf).set_value_extent(place.slot, &new);
    }
    Ok(())
}
