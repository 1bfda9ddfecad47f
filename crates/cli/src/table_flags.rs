//! The options that say what a new table is, shared by `create` and `load`.

use clap::{Args, ValueEnum};
use hedgerow::tree::{Duplicates, Order, TableOptions};

use crate::numbers::parse_small_size;
use crate::open::OrderName;

/// An order that needs no function of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderFlag {
    /// As byte strings.
    Bytewise,
    /// As byte strings compared from their ends.
    Reverse,
    /// As native unsigned integers of 4 or 8 bytes.
    Integer,
}

/// What a new table is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TableFlags {
    /// The order of its keys (default: bytewise)
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderFlag>,
    /// A key may have several values
    #[arg(long)]
    pub(crate) duplicates: bool,
    /// The values of a key all have this many bytes
    #[arg(long, value_name = "BYTES", requires = "duplicates", value_parser = parse_small_size)]
    value_size: Option<u32>,
    /// The order of the values of a key (default: bytewise)
    #[arg(long, value_enum, requires = "duplicates", value_name = "ORDER")]
    pub(crate) value_order: Option<OrderFlag>,
    /// Do not share the common beginning of keys, or of the values of a key, so that each is in its
    /// page in one piece
    #[arg(long)]
    pub(crate) no_prefix_compression: bool,
}

impl OrderFlag {
    /// The order.
    pub(crate) fn order(self) -> Order {
        match self {
            Self::Bytewise => Order::Bytewise,
            Self::Reverse => Order::Reverse,
            Self::Integer => Order::Integer,
        }
    }
}

impl OrderFlag {
    /// The order as stores name it.
    pub(crate) fn name(self) -> OrderName {
        match self {
            Self::Bytewise => OrderName::Bytewise,
            Self::Reverse => OrderName::Reverse,
            Self::Integer => OrderName::Integer,
        }
    }
}

impl TableFlags {
    /// Whether they ask for what only tables of the tree can be.
    pub(crate) fn need_tree(&self) -> bool {
        let is_bytewise = matches!(self.order, None | Some(OrderFlag::Bytewise));
        self.duplicates || self.no_prefix_compression || !is_bytewise
    }

    /// Whether any of them was given.
    pub(crate) fn any(&self) -> bool {
        self.order.is_some() || self.duplicates || self.no_prefix_compression
    }

    /// The table's options.
    pub(crate) fn options(&self) -> TableOptions {
        let order = self.order.map_or(Order::Bytewise, OrderFlag::order);
        let shares = !self.no_prefix_compression;
        let options = TableOptions::new().order(order).prefix_compression(shares);
        if !self.duplicates {
            return options;
        }
        let order = self.value_order.map_or(Order::Bytewise, OrderFlag::order);
        options.duplicates_in(match self.value_size {
            Some(size) => Duplicates::Fixed { size: Some(size), order },
            None => Duplicates::Any { order },
        })
    }
}
