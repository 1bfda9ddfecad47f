//! The record of a table in the catalog: its root, and the options that it was made with.
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

use crate::coding::{put_u32, same, u32_at};
use crate::tree::entry::TableInfo;
use crate::tree::options::{AnySearch, Duplicates, Order, TableOptions};
use crate::tree::order::{Custom, Form, KeyOrder, Leaves};
use crate::tree::tree::Root;
use crate::{Error, Result};

const BYTEWISE: u8 = 0;
pub(super) const REVERSE: u8 = 1;
pub(super) const INTEGER: u8 = 2;
const CUSTOM: u8 = 3;

/// How a record tells how leaves keep keys and values.
const LEAVES: [Leaves; 4] = [Leaves::Compressed, Leaves::Whole, Leaves::Aligned, Leaves::Headless];

const NAMES_AT: usize = 66;
/// The longest name of a custom order.
const ORDER_NAME_MAX: usize = 64;

/// What the catalog stores of a table besides its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(super) order: u8,
    duplicates: u8,
    pub(super) value_order: u8,
    pub(super) leaves: Leaves,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) user_flags: u32,
    pub(super) order_name: Vec<u8>,
    pub(super) value_order_name: Vec<u8>,
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
    pub(super) fn of(options: &TableOptions) -> Result<Self> {
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
                false if order == CUSTOM => Leaves::Headless,
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
            _ => KeyOrder::Custom(Custom {
                compare: std::sync::Arc::new(|a: &[u8], b: &[u8]| a.cmp(b)),
                search: None,
            }),
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
    pub(super) fn options(&self, keys: Order, values: Order) -> TableOptions {
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
        let leaves = *LEAVES.get(usize::from(record[51]))?;
        // Other orders have leaves with heads.
        let has_heads = leaves != Leaves::Headless || record[48] == CUSTOM;
        if !known || !fits || !has_heads || names.len() != first + second {
            return None;
        }
        let stored = Self {
            order: record[48],
            duplicates: record[49],
            value_order: record[50],
            leaves,
            key_size: u32_at(record, 52),
            value_size: u32_at(record, 56),
            user_flags: u32_at(record, 60),
            order_name: names[..first].to_vec(),
            value_order_name: names[first..].to_vec(),
        };
        Some((root, stored))
    }

    /// Why these options are not those of `asked`, if so.
    pub(super) fn differs_from(&self, asked: &Self) -> Option<String> {
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
pub(super) fn key_order(order: &Order, search: Option<AnySearch>) -> KeyOrder {
    match order {
        Order::Bytewise => KeyOrder::Bytewise,
        Order::Reverse | Order::Integer => KeyOrder::Reverse,
        Order::Custom { compare, .. } => {
            KeyOrder::Custom(Custom { compare: compare.clone(), search })
        }
    }
}

/// The order of a code; custom ones need the caller's function.
pub(super) fn order_of(code: u8, name: &[u8], given: Option<&Order>) -> Option<Order> {
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
