//! Tables by name: their records in the catalog tree, and the tables that a transaction has open.
//!
//! ```text
//! | offset | size | what                                                          |
//! |      0 |   48 | root record                                                   |
//! |     48 |    1 | order of keys: 0 bytewise, 1 reverse, 2 integer, 3 custom     |
//! |     49 |    1 | duplicates: 0 none, 1 any, 2 of fixed size                    |
//! |     50 |    1 | order of values, as above                                     |
//! |     51 |    1 | how leaves keep them: 0 shared beginnings once, 1 whole       |
//! |     52 |    4 | size of every key (integer order), 0: not known yet           |
//! |     56 |    4 | size of every value (fixed size, integer order), 0: not yet   |
//! |     60 |    4 | the caller's flags                                            |
//! |     64 |    2 | lengths of the names of custom orders, keys' and values'      |
//! |     66 |      | those names                                                   |
//! ```

use std::sync::{OnceLock, PoisonError};

use super::entry::TableInfo;
use super::options::{Duplicates, Order, TableOptions};
use super::order::{Form, KeyOrder, Leaves};
use super::pages::Pages;
use super::search;
use super::tail::Tail;
use super::tree::{Root, Tree};
use crate::coding::{placed, put_u32, same, u32_at};
use crate::sync::Mutex;
use crate::{Error, Result};

const BYTEWISE: u8 = 0;
const REVERSE: u8 = 1;
const INTEGER: u8 = 2;
const CUSTOM: u8 = 3;

/// How a record tells how leaves keep keys and values.
const LEAVES: [Leaves; 3] = [Leaves::Compressed, Leaves::Whole, Leaves::Aligned];

const NAMES_AT: usize = 66;
/// The longest name of a custom order.
const ORDER_NAME_MAX: usize = 64;

/// What the catalog stores of a table besides its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    order: u8,
    duplicates: u8,
    value_order: u8,
    leaves: Leaves,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) user_flags: u32,
    order_name: Vec<u8>,
    value_order_name: Vec<u8>,
}

fn code_of(order: &Order) -> Result<(u8, Vec<u8>)> {
    Ok(match order {
        Order::Bytewise => (BYTEWISE, Vec::new()),
        Order::Reverse => (REVERSE, Vec::new()),
        Order::Integer => (INTEGER, Vec::new()),
        Order::Custom { name, .. } if name.len() > ORDER_NAME_MAX => {
            return Err(Error::argument("the name of an order takes at most 64 bytes"));
        }
        Order::Custom { name, .. } => (CUSTOM, name.clone().into_bytes()),
    })
}

fn name_of(code: u8, name: &[u8]) -> String {
    match code {
        BYTEWISE => "bytewise".into(),
        REVERSE => "reverse".into(),
        INTEGER => "integer".into(),
        _ => format!("custom({})", name.escape_ascii()),
    }
}

impl Stored {
    fn of(options: &TableOptions) -> Result<Self> {
        let (order, order_name) = code_of(&options.order)?;
        let (duplicates, size, values) = match &options.duplicates {
            Duplicates::No => (0, 0, None),
            Duplicates::Any { order } => (1, 0, Some(order)),
            Duplicates::Fixed { size, order } => (2, size.unwrap_or(0), Some(order)),
        };
        let (value_order, value_order_name) = match values {
            Some(order) => code_of(order)?,
            None => (BYTEWISE, Vec::new()),
        };
        Ok(Self {
            order,
            duplicates,
            value_order,
            leaves: match options.prefix_compression {
                true => Leaves::Compressed,
                false if options.aligned => Leaves::Aligned,
                false => Leaves::Whole,
            },
            key_size: 0,
            value_size: size,
            user_flags: options.user_flags,
            order_name,
            value_order_name,
        })
    }

    /// The form of the table's tree as far as it is known without the functions of custom orders.
    /// Custom orders appear as [`KeyOrder::Custom`] around the bytewise order: entries may be moved
    /// in their stored order, but not looked up.
    pub(crate) fn stored_form(&self) -> Form {
        let order = |code: u8| match code {
            BYTEWISE => KeyOrder::Bytewise,
            REVERSE | INTEGER => KeyOrder::Reverse,
            _ => KeyOrder::Custom(std::sync::Arc::new(|a: &[u8], b: &[u8]| a.cmp(b))),
        };
        let values = self.has_duplicates().then(|| order(self.value_order));
        Form { keys: order(self.order), values, leaves: self.leaves }
    }

    /// Options under which the table's entries can be put in the order in which they are stored:
    /// where the functions of custom orders are not known, each new entry sorts after all others.
    pub(crate) fn options_to_walk(&self) -> TableOptions {
        let order = |code: u8, name: &[u8]| match code {
            BYTEWISE => Order::Bytewise,
            REVERSE => Order::Reverse,
            INTEGER => Order::Integer,
            _ => Order::custom(String::from_utf8_lossy(name), |a, b| {
                if a == b { std::cmp::Ordering::Equal } else { std::cmp::Ordering::Less }
            }),
        };
        let values = order(self.value_order, &self.value_order_name);
        self.options(order(self.order, &self.order_name), values)
    }

    /// Options that say the same, with the functions of these orders.
    fn options(&self, keys: Order, values: Order) -> TableOptions {
        let size = (self.value_size != 0).then_some(self.value_size);
        let options = TableOptions::new()
            .order(keys)
            .prefix_compression(self.leaves == Leaves::Compressed)
            .aligned(self.leaves == Leaves::Aligned)
            .user_flags(self.user_flags);
        match self.duplicates {
            0 => options,
            1 => options.duplicates_in(Duplicates::Any { order: values }),
            _ => options.duplicates_in(Duplicates::Fixed { size, order: values }),
        }
    }

    /// A table of which only the flags of its pages are known. `values`: it has duplicates, which
    /// are ordered from the back or not.
    pub(crate) fn guessed(reverse: bool, values: Option<bool>, leaves: Leaves) -> Self {
        let order = |reverse: bool| if reverse { REVERSE } else { BYTEWISE };
        Self {
            order: order(reverse),
            duplicates: u8::from(values.is_some()),
            value_order: order(values.unwrap_or_default()),
            leaves,
            key_size: 0,
            value_size: 0,
            user_flags: 0,
            order_name: Vec::new(),
            value_order_name: Vec::new(),
        }
    }

    pub(crate) fn encode(&self, root: &Root) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out, root);
        out
    }

    /// Puts the record in the place of what `out` has.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>, root: &Root) {
        out.clear();
        out.resize(NAMES_AT, 0);
        root.encode(out);
        (out[48], out[49], out[50]) = (self.order, self.duplicates, self.value_order);
        out[51] = LEAVES.iter().position(|leaves| *leaves == self.leaves).unwrap_or(0) as u8;
        put_u32(out, 52, self.key_size);
        put_u32(out, 56, self.value_size);
        put_u32(out, 60, self.user_flags);
        out[64] = self.order_name.len() as u8;
        out[65] = self.value_order_name.len() as u8;
        out.extend_from_slice(&self.order_name);
        out.extend_from_slice(&self.value_order_name);
    }

    /// Reads a record; `None` if this version cannot have written it.
    pub(crate) fn decode(record: &[u8]) -> Option<(Root, Self)> {
        let root = Root::decode(record)?;
        let names = record.get(NAMES_AT..)?;
        let (first, second) = (usize::from(record[64]), usize::from(record[65]));
        let known = record[48] <= CUSTOM && record[49] <= 2 && record[50] <= CUSTOM;
        // Only custom orders have names.
        let named = |order: u8, len: usize| order == CUSTOM || len == 0;
        let fits = named(record[48], first) && named(record[50], second);
        if !known || !fits || names.len() != first + second {
            return None;
        }
        let stored = Self {
            order: record[48],
            duplicates: record[49],
            value_order: record[50],
            leaves: *LEAVES.get(usize::from(record[51]))?,
            key_size: u32_at(record, 52),
            value_size: u32_at(record, 56),
            user_flags: u32_at(record, 60),
            order_name: names[..first].to_vec(),
            value_order_name: names[first..].to_vec(),
        };
        Some((root, stored))
    }

    /// Why these options are not those of `asked`, if so.
    fn differs_from(&self, asked: &Self) -> Option<String> {
        if self.order != asked.order || !same(&self.order_name, &asked.order_name) {
            let order = |s: &Self| name_of(s.order, &s.order_name);
            return Some(format!("its order is {}, not {}", order(self), order(asked)));
        }
        if self.duplicates != asked.duplicates {
            let kind =
                |d: u8| ["no duplicates", "duplicates", "duplicates of fixed size"][usize::from(d)];
            let (has, wants) = (kind(self.duplicates), kind(asked.duplicates));
            return Some(format!("it has {has}, not {wants}"));
        }
        let is_same = same(&self.value_order_name, &asked.value_order_name);
        if self.value_order != asked.value_order || !is_same {
            let values = |s: &Self| name_of(s.value_order, &s.value_order_name);
            let (has, wants) = (values(self), values(asked));
            return Some(format!("the order of its values is {has}, not {wants}"));
        }
        if asked.value_size != 0 && self.value_size != 0 && self.value_size != asked.value_size {
            let (has, wants) = (self.value_size, asked.value_size);
            return Some(format!("its values take {has} bytes, not {wants}"));
        }
        // A caller that accepts keys in two pieces also accepts keys in one.
        if asked.leaves != Leaves::Compressed && self.leaves == Leaves::Compressed {
            return Some("its keys and values share what they begin with".to_owned());
        }
        if self.user_flags != asked.user_flags {
            let (has, wants) = (self.user_flags, asked.user_flags);
            return Some(format!("its user flags are {has:#x}, not {wants:#x}"));
        }
        None
    }

    /// Whether pairs of tables with these two options have places among each other.
    pub(crate) fn orders_as(&self, other: &Self) -> bool {
        let orders = |s: &Self| {
            let values = (s.value_order, s.value_order_name.clone());
            let values = s.has_duplicates().then_some(values);
            (s.order, s.order_name.clone(), values)
        };
        orders(self) == orders(other)
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.duplicates != 0
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.duplicates == 2
    }

    pub(crate) fn has_custom_orders(&self) -> bool {
        [self.order, self.value_order].contains(&CUSTOM)
    }

    pub(crate) fn has_integer_keys(&self) -> bool {
        self.order == INTEGER
    }

    pub(crate) fn has_integer_values(&self) -> bool {
        self.has_duplicates() && self.value_order == INTEGER
    }

    pub(crate) fn info(&self, name: &[u8], root: &Root) -> TableInfo {
        TableInfo {
            name: name.to_vec(),
            order: name_of(self.order, &self.order_name),
            duplicates: self.has_duplicates(),
            value_size: self.is_fixed().then_some(self.value_size),
            value_order: name_of(self.value_order, &self.value_order_name),
            prefix_compression: self.leaves == Leaves::Compressed,
            user_flags: self.user_flags,
            count: root.count,
        }
    }
}

/// An order as pages know it. Integers on a little-endian machine compare like strings read from
/// their ends; the format is little-endian.
fn key_order(order: &Order) -> KeyOrder {
    match order {
        Order::Bytewise => KeyOrder::Bytewise,
        Order::Reverse | Order::Integer => KeyOrder::Reverse,
        Order::Custom { compare, .. } => KeyOrder::Custom(compare.clone()),
    }
}

/// The order of a code; custom ones need the caller's function.
fn order_of(code: u8, name: &[u8], given: Option<&Order>) -> Option<Order> {
    match (code, given) {
        (BYTEWISE, _) => Some(Order::Bytewise),
        (REVERSE, _) => Some(Order::Reverse),
        (INTEGER, _) => Some(Order::Integer),
        (_, Some(order @ Order::Custom { name: n, .. })) if n.as_bytes() == name => {
            Some(order.clone())
        }
        _ => None,
    }
}

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
    /// The options with which it was created, and the functions with which it was opened.
    pub(crate) fn options(&self) -> TableOptions {
        let values = match (self.stored.value_order, &self.tree.form.values) {
            (REVERSE, _) => Order::Reverse,
            (INTEGER, _) => Order::Integer,
            (_, Some(KeyOrder::Custom(compare))) => {
                let name = String::from_utf8_lossy(&self.stored.value_order_name).into_owned();
                Order::Custom { name, compare: std::sync::Arc::clone(compare) }
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
        let (order, name) = (Order::Bytewise, name.to_vec());
        let changed = true;
        let gone = false;
        let saved_in = 0;
        let tail = None;
        let changed_at = 0;
        Self { name, stored, order, tree, changed, gone, saved_in, tail, changed_at }
    }

    /// The table of a catalog record. Without `options` custom orders cannot be had.
    fn from_record(name: &[u8], record: &[u8], options: Option<&TableOptions>) -> Result<Self> {
        let Some((root, stored)) = Stored::decode(record) else {
            let reason = "its record in the catalog is damaged or of a later version".to_owned();
            return Err(Error::TableOptions { name: name.to_vec(), reason });
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
            (true, Some(order)) => Some(key_order(&order)),
            (true, None) => return Err(missing()),
        };
        let form = Form { keys: key_order(&order), values, leaves: stored.leaves };
        let tree = Tree::new(root, form);
        let name = name.to_vec();
        let changed = false;
        let gone = false;
        let saved_in = 0;
        let tail = None;
        let changed_at = 0;
        Ok(Self { name, stored, order, tree, changed, gone, saved_in, tail, changed_at })
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
        None => {
            let reason = "its record in the catalog is damaged or of a later version".to_owned();
            Err(Error::TableOptions { name: name.to_vec(), reason })
        }
    }
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
        Some(name) => {
            let reason = "its record in the catalog is damaged or of a later version".to_owned();
            Err(Error::TableOptions { name, reason })
        }
    }
}

/// The most tables that stay open from one write transaction to the next.
const KEPT_TABLES: usize = 16;
/// The length of the first chunk of a list of open tables; each next one is twice as long.
const FIRST_CHUNK: usize = 2;
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
    len: Mutex<usize>,
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
        let (chunk, at) = place(i);
        match chunk {
            0 => self.first.get()?.get(at)?.get(),
            _ => self.more.get()?.get(chunk - 1)?.get()?.get(at)?.get(),
        }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, i: usize) -> Option<&mut OpenTable> {
        let (chunk, at) = place(i);
        match chunk {
            0 => self.first.get_mut()?.get_mut(at)?.get_mut(),
            _ => self.more.get_mut()?.get_mut(chunk - 1)?.get_mut()?.get_mut(at)?.get_mut(),
        }
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
        self.iter().position(|table| !table.gone && same(&table.name, name))
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
        let mut len = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = self.find(&table.name) {
            return Ok(i);
        }
        let (chunk, at) = place(*len);
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
        if let Some(slot) = slots.get(at) {
            slot.get_or_init(|| table);
        }
        *len += 1;
        Ok(*len - 1)
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
