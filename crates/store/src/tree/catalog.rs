//! Tables by name: their records in the catalog tree (`stored`), and the tables that a transaction
//! has open (`opened`).

use super::entry::TableInfo;
use super::options::{Duplicates, Order, TableOptions};
use super::order::{Form, KeyOrder};
use super::pages::Pages;
use super::search;
use super::tail::Tail;
use super::tree::{Root, Tree};
use crate::coding::{placed, same};
use crate::{Error, Result};

mod opened;
mod stored;

pub(crate) use opened::Opened;
pub(crate) use stored::Stored;
use stored::{INTEGER, REVERSE, key_order, order_of};

/// A table that a transaction has open.
pub(crate) struct OpenTable {
    pub(crate) name: Vec<u8>,
    pub(crate) stored: Stored,
    pub(crate) order: Order,
    pub(crate) tree: Tree,
    /// Whether its record must be written at the commit.
    pub(crate) changed: bool,
    /// Dropped, or created under a savepoint that was rolled back.
    pub(crate) gone: bool,
    /// The epoch of the undo log in which its state was last saved.
    pub(crate) saved_in: u32,
    /// The place after the last entry, while appending.
    pub(crate) tail: Option<Tail>,
    /// Which change of the write transaction was the last one here; 0: none.
    pub(crate) changed_at: u64,
}

impl OpenTable {
    /// Whether it is the table of this name, and not gone.
    fn has_name(&self, name: &[u8]) -> bool {
        !self.gone && same(&self.name, name)
    }

    /// The options with which it was created, and the functions with which it was opened.
    pub(crate) fn options(&self) -> TableOptions {
        let values = match (self.stored.value_order, &self.tree.form.values) {
            (REVERSE, _) => Order::Reverse,
            (INTEGER, _) => Order::Integer,
            (_, Some(KeyOrder::Custom(by))) => {
                let name = String::from_utf8_lossy(&self.stored.value_order_name).into_owned();
                Order::Custom { name, compare: std::sync::Arc::clone(&by.compare) }
            }
            _ => Order::Bytewise,
        };
        self.stored.options(self.order.clone(), values)
    }

    /// A new table with these options.
    pub(crate) fn create(name: &[u8], options: &TableOptions) -> Result<Self> {
        let stored = Stored::of(options)?;
        Self::with(name, stored, Root::EMPTY, Some(options))
    }

    /// A table whose pages were moved: it cannot be looked up in, only its record is written.
    pub(crate) fn moved(name: &[u8], stored: Stored, root: Root) -> Self {
        let tree = Tree::new(root, stored.stored_form());
        Self { changed: true, ..Self::unchanged(name, stored, Order::Bytewise, tree) }
    }

    /// The table of a catalog record. Without `options` custom orders cannot be had.
    fn from_record(name: &[u8], record: &[u8], options: Option<&TableOptions>) -> Result<Self> {
        let Some((root, stored)) = Stored::decode(record) else {
            return Err(unreadable(name));
        };
        if let Some(options) = options
            && let Some(reason) = stored.differs_from(&Stored::of(options)?)
        {
            return Err(Error::TableOptions { name: name.to_vec(), reason });
        }
        Self::with(name, stored, root, options)
    }

    /// Takes other functions for its custom orders.
    pub(crate) fn set_order_functions(&mut self, options: &TableOptions) -> Result<()> {
        let Self { order, tree, .. } =
            Self::with(&self.name, self.stored.clone(), self.tree.root, Some(options))?;
        (self.order, self.tree.form) = (order, tree.form);
        Ok(())
    }

    fn with(
        name: &[u8],
        stored: Stored,
        root: Root,
        options: Option<&TableOptions>,
    ) -> Result<Self> {
        let values = options.and_then(|options| match &options.duplicates {
            Duplicates::No => None,
            Duplicates::Any { order } | Duplicates::Fixed { order, .. } => Some(order),
        });
        let missing = || Error::TableOptions {
            name: name.to_vec(),
            reason: "it has a custom order; open it with the functions of its orders".to_owned(),
        };
        let keys = options.map(|options| &options.order);
        let order = order_of(stored.order, &stored.order_name, keys).ok_or_else(missing)?;
        let value_order = order_of(stored.value_order, &stored.value_order_name, values);
        let values = match (stored.has_duplicates(), value_order) {
            (false, _) => None,
            (true, Some(order)) => Some(key_order(&order, None)),
            (true, None) => return Err(missing()),
        };
        let keys = key_order(&order, options.and_then(|options| options.search));
        let form = Form { keys, values, leaves: stored.leaves };
        let tree = Tree::new(root, form);
        Ok(Self::unchanged(name, stored, order, tree))
    }

    /// A table to which the transaction has done nothing yet.
    fn unchanged(name: &[u8], stored: Stored, order: Order, tree: Tree) -> Self {
        Self {
            name: name.to_vec(),
            stored,
            order,
            tree,
            changed: false,
            gone: false,
            saved_in: 0,
            tail: None,
            changed_at: 0,
        }
    }

    /// The catalog record.
    pub(crate) fn record(&self) -> Vec<u8> {
        self.stored.encode(&self.tree.root)
    }

    pub(crate) fn info(&self) -> TableInfo {
        self.stored.info(&self.name, &self.tree.root)
    }

    /// Checks that the table, which is open already, has the requested options.
    pub(crate) fn expect(&self, options: &TableOptions) -> Result<()> {
        match self.stored.differs_from(&Stored::of(options)?) {
            None => Ok(()),
            Some(reason) => Err(Error::TableOptions { name: self.name.clone(), reason }),
        }
    }
}

/// Looks a table up in the catalog; `None` if there is none of that name.
pub(crate) fn load<P: Pages>(
    pages: &P,
    catalog: &Tree,
    name: &[u8],
    options: Option<&TableOptions>,
) -> Result<Option<OpenTable>> {
    match search::get(pages, catalog, placed(name))? {
        Some(record) => OpenTable::from_record(name, &record.to_cow(), options).map(Some),
        None => Ok(None),
    }
}

/// The root of a table, whatever its orders; `None` if there is none of that name.
pub(crate) fn root_of<P: Pages>(pages: &P, catalog: &Tree, name: &[u8]) -> Result<Option<Root>> {
    Ok(record_of(pages, catalog, name)?.map(|(root, _)| root))
}

/// The record of a table, decoded; `None` if there is no table of that name.
pub(crate) fn info_of<P: Pages>(
    pages: &P,
    catalog: &Tree,
    name: &[u8],
) -> Result<Option<TableInfo>> {
    Ok(record_of(pages, catalog, name)?.map(|(root, stored)| stored.info(name, &root)))
}

fn record_of<P: Pages>(pages: &P, catalog: &Tree, name: &[u8]) -> Result<Option<(Root, Stored)>> {
    let Some(record) = search::get(pages, catalog, placed(name))? else { return Ok(None) };
    match Stored::decode(&record.to_cow()) {
        Some(record) => Ok(Some(record)),
        None => Err(unreadable(name)),
    }
}

/// The error of a table whose record cannot be read.
fn unreadable(name: &[u8]) -> Error {
    let reason = "its record in the catalog is damaged or of a later version".to_owned();
    Error::TableOptions { name: name.to_vec(), reason }
}

/// Calls `f` with name, root and options of every table in the catalog.
pub(crate) fn for_each<P: Pages>(
    pages: &P,
    catalog: &Tree,
    mut f: impl FnMut(&[u8], Root, &Stored),
) -> Result<()> {
    let mut damaged = None;
    search::scan_plain(pages, catalog, &[], &mut |name, record| match Stored::decode(record) {
        Some((root, stored)) => {
            f(name, root, &stored);
            true
        }
        None => {
            damaged = Some(name.to_vec());
            false
        }
    })?;
    match damaged {
        None => Ok(()),
        Some(name) => Err(unreadable(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let options = TableOptions::new()
            .order(Order::custom("length", |a, b| a.len().cmp(&b.len())))
            .duplicates_in(Duplicates::Fixed { size: Some(8), order: Order::Integer })
            .user_flags(7);
        let table = OpenTable::create(b"t", &options).unwrap();
        let again = OpenTable::from_record(b"t", &table.record(), Some(&options)).unwrap();
        assert_eq!(again.stored, table.stored);
        assert!(OpenTable::from_record(b"t", &table.record(), None).is_err());
        let other = TableOptions::new();
        assert!(OpenTable::from_record(b"t", &table.record(), Some(&other)).is_err());
    }
}
