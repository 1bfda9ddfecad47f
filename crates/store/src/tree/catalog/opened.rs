//! The tables that a transaction has open: a list that never moves what it holds.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::OpenTable;
use crate::sync::{Mutex, locked};
use crate::{Error, Result};

/// The most tables that stay open from one write transaction to the next.
const KEPT_TABLES: usize = 16;
/// The length of the first chunk of a list of open tables; each next one is twice as long.
const FIRST_CHUNK: usize = 4;
const CHUNKS: usize = 26;

/// One chunk of the list.
type Chunk = Box<[OnceLock<OpenTable>]>;

/// The tables that a transaction has open: a list that grows under a shared reference, so that
/// threads that share a read transaction may open tables, and whose elements never move.
#[derive(Default)]
pub(crate) struct Opened {
    /// The first chunk, by itself: most transactions need no more, and the list is handed on.
    first: OnceLock<Chunk>,
    /// The others.
    more: OnceLock<Box<[OnceLock<Chunk>; CHUNKS - 1]>>,
    len: Mutex<Length>,
}

/// How many tables are open, and where they are found if they are more than [`KEPT_TABLES`].
#[derive(Default)]
struct Length {
    tables: usize,
    /// The index of each table that is not gone, by its name. Names of others may still be here:
    /// whoever finds one looks at the table itself.
    names: Option<HashMap<Vec<u8>, usize>>,
}

/// Chunk and place in it of element `i`.
#[inline(always)]
fn place(i: usize) -> (usize, usize) {
    let chunk = (i / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, i + FIRST_CHUNK - (FIRST_CHUNK << chunk))
}

impl Opened {
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Option<&OpenTable> {
        if i < FIRST_CHUNK {
            return self.first.get()?.get(i)?.get();
        }
        let (chunk, at) = place(i);
        self.more.get()?.get(chunk - 1)?.get()?.get(at)?.get()
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, i: usize) -> Option<&mut OpenTable> {
        if i < FIRST_CHUNK {
            return self.first.get_mut()?.get_mut(i)?.get_mut();
        }
        let (chunk, at) = place(i);
        self.more.get_mut()?.get_mut(chunk - 1)?.get_mut()?.get_mut(at)?.get_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenTable> {
        (0..).map_while(|i| self.get(i))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenTable> {
        // They are filled one after the other.
        let more = self.more.get_mut().into_iter().flat_map(|more| more.iter_mut());
        let chunks = std::iter::once(&mut self.first).chain(more).map_while(OnceLock::get_mut);
        chunks.flat_map(|chunk| chunk.iter_mut().filter_map(OnceLock::get_mut))
    }

    /// The index of the table of a name, if it is open.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        match self.get(KEPT_TABLES) {
            None => self.iter().position(|table| table.has_name(name)),
            Some(_) => self.find_in(&locked(&self.len), name),
        }
    }

    fn find_in(&self, length: &Length, name: &[u8]) -> Option<usize> {
        let Some(names) = &length.names else {
            return self.iter().position(|table| table.has_name(name));
        };
        let i = *names.get(name)?;
        self.get(i).is_some_and(|table| table.has_name(name)).then_some(i)
    }

    /// To be called when a table has another name than before, or is no longer gone.
    pub(crate) fn renamed(&mut self, i: usize) {
        let Some(table) = self.get(i).filter(|table| !table.gone) else { return };
        if let Some(names) = &mut locked(&self.len).names {
            names.insert(table.name.clone(), i);
        }
    }

    /// After a commit, or when a reader goes on with the commit that it had: forgets what the
    /// transaction did to the tables, which stay open for the next one. Those with the caller's
    /// functions are not kept, nor many.
    pub(crate) fn rest(&mut self) {
        let is_plain = |table: &OpenTable| !table.gone && !table.stored.has_custom_orders();
        if self.get(KEPT_TABLES).is_some() || !self.iter().all(is_plain) {
            *self = Self::default();
        }
        for table in self.iter_mut() {
            (table.changed, table.saved_in, table.tail) = (false, 0, None);
            table.changed_at = 0;
        }
    }

    /// Adds a table; the index of the one that is there already if two threads open it at once.
    pub(crate) fn add(&self, table: OpenTable) -> Result<usize> {
        let mut length = locked(&self.len);
        if let Some(i) = self.find_in(&length, &table.name) {
            return Ok(i);
        }
        let i = length.tables;
        let (chunk, at) = place(i);
        let slots = match chunk {
            0 => Some(&self.first),
            _ => self.more.get_or_init(Box::default).get(chunk - 1),
        };
        let Some(slots) = slots else {
            return Err(Error::argument("too many tables are open in one transaction"));
        };
        let slots = slots.get_or_init(|| {
            (0..FIRST_CHUNK << chunk)
                .map(|_| OnceLock::new())
                .collect::<Vec<_>>()
                .into_boxed_slice()
        });
        if i == KEPT_TABLES {
            let open = self.iter().enumerate().filter(|(_, table)| !table.gone);
            let names = open.map(|(i, table)| (table.name.clone(), i)).collect();
            length.names = Some(names);
        }
        if let Some(names) = &mut length.names {
            names.insert(table.name.clone(), i);
        }
        if let Some(slot) = slots.get(at) {
            slot.get_or_init(|| table);
        }
        length.tables += 1;
        Ok(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_the_list_have_places_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for i in 0..10_000 {
            let (chunk, at) = place(i);
            assert!(at < FIRST_CHUNK << chunk, "{i}");
            assert!(seen.insert((chunk, at)), "{i}");
        }
    }
}
