//! Values that are written in parts: a short one is gathered, a long one goes to its pages at once.

use std::io::{self, Write};

use super::WriteTxn;
use super::sizes::note_sizes;
use crate::tree::insert::{locate, put_cell};
use crate::tree::page::ValueCell;
use crate::tree::pages::Pages;
use crate::tree::tree::raise;
use crate::tree::{Table, extent};
use crate::{Error, Result};

/// Where the parts of a value go.
pub(super) enum Sink {
    Short(Vec<u8>),
    Long(extent::Writer),
}

/// Writes one value in parts (`io::Write`); [`ValueWriter::finish`] puts it. If it is dropped
/// before that, nothing is put.
pub struct ValueWriter<'t> {
    pub(super) txn: &'t mut WriteTxn,
    pub(super) table: Table,
    pub(super) key: Vec<u8>,
    pub(super) len: u64,
    pub(super) sink: Option<Sink>,
}

impl ValueWriter<'_> {
    fn left(&self) -> u64 {
        match &self.sink {
            Some(Sink::Short(bytes)) => self.len - bytes.len() as u64,
            Some(Sink::Long(writer)) => writer.left(),
            None => 0,
        }
    }

    /// Puts the entry.
    ///
    /// # Errors
    /// [`Error::Argument`] if not all bytes were written.
    pub fn finish(mut self) -> Result<()> {
        let left = self.left();
        if left > 0 {
            let reason = format!("{left} bytes of the value are missing");
            return Err(Error::Argument { reason });
        }
        let key = std::mem::take(&mut self.key);
        match self.sink.take() {
            Some(Sink::Short(bytes)) => self.txn.put(self.table, &key, &bytes),
            Some(Sink::Long(writer)) => self.txn.change(self.table, |pages, open| {
                open.tail = None;
                note_sizes(open, &key, &[]);
                let extent = writer.finish(&pages.base.file, pages.txn)?;
                let run = extent::run_of(&extent, pages.page_size());
                raise(&mut open.tree.root.overflow_pages, u64::from(run.len));
                let mut place = locate(pages, &open.tree, &key, &[])?;
                put_cell(pages, &mut open.tree, &mut place, &key, ValueCell::Extent(extent))
                    .map(|_| ())
            }),
            None => Ok(()),
        }
    }
}

impl Write for ValueWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        match &mut self.sink {
            Some(Sink::Short(value)) => value.extend_from_slice(&bytes[..n]),
            Some(Sink::Long(writer)) => {
                let file = &self.txn.turn.state().pages.base.file;
                let written = writer.write(file, &bytes[..n]);
                written.map_err(io::Error::other)?;
            }
            None => {}
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ValueWriter<'_> {
    fn drop(&mut self) {
        if let Some(Sink::Long(writer)) = self.sink.take() {
            let result = writer.abandon(&mut self.txn.turn.state_mut().pages);
            if let Err(error) = result {
                self.txn.fail(&error);
            }
        }
    }
}
