//! What a seed chooses: the store's page size, budget and page source, and its tables.

use hedgerow::Durability;
use hedgerow::tree::{Builder, Duplicates, Order, Store, TableOptions};

use crate::pool::{OrderKind, Pool, Shape};
use crate::rng::Rng;

/// The longest key that a table takes, unless its order is a function of the caller's.
pub const MAX_KEY: u32 = 1 << 20;
/// The longest key that is put: many pages, and little enough to be put often.
pub const LONG_KEY: u32 = 65_535;

/// A table as a seed chose it.
#[derive(Debug)]
pub struct TableSpec {
    /// The order of its keys.
    pub order: OrderKind,
    /// How it keeps duplicates.
    pub duplicates: DuplicateSpec,
    /// Whether its leaves share nothing, so that keys and values are handed out in one piece.
    pub whole: bool,
    /// Whether such leaves are those of earlier versions.
    pub dense: bool,
    /// The keys that operations choose from.
    pub keys: Pool,
    /// The values that operations choose from; sorted by their order, if the table has duplicates.
    pub values: Pool,
    /// How the keys look; for messages.
    pub key_shape: Shape,
    /// How the values look; for messages.
    pub value_shape: Shape,
}

/// How a table keeps duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateSpec {
    /// One value a key.
    No,
    /// Any number, of any size, in an order.
    Any(OrderKind),
    /// Any number of values of this size. Whether the size is given when the table is created.
    Fixed(OrderKind, u32, bool),
}

impl TableSpec {
    /// Whether keys may have several values.
    pub fn has_duplicates(&self) -> bool {
        self.duplicates != DuplicateSpec::No
    }

    /// The options to create the table with.
    pub fn options(&self, user_flags: u32) -> TableOptions {
        let duplicates = match self.duplicates {
            DuplicateSpec::No => Duplicates::No,
            DuplicateSpec::Any(order) => Duplicates::Any { order: order.option() },
            DuplicateSpec::Fixed(order, size, told) => {
                Duplicates::Fixed { size: told.then_some(size), order: order.option() }
            }
        };
        TableOptions::new()
            .order(self.order.option())
            .duplicates_in(duplicates)
            .prefix_compression(!self.whole)
            .aligned(!self.dense)
            .user_flags(user_flags)
    }

    /// Options that differ from the table's in the order of keys.
    pub fn other_options(&self) -> TableOptions {
        let order = if self.order == OrderKind::Reverse { Order::Bytewise } else { Order::Reverse };
        self.options(0).order(order)
    }

    /// Whether it takes the caller's functions to open the table.
    pub fn needs_functions(&self) -> bool {
        let values = match self.duplicates {
            DuplicateSpec::No => OrderKind::Bytewise,
            DuplicateSpec::Any(order) | DuplicateSpec::Fixed(order, ..) => order,
        };
        self.order.is_custom() || values.is_custom()
    }
}

/// Work on a store as a whole that can be left out of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `check`.
    Check,
    /// `copy_to`.
    Copy,
    /// `compact`.
    Compact,
    /// `stat`.
    Stat,
}

/// What a seed chose.
#[derive(Debug)]
pub struct Config {
    /// The seed.
    pub seed: u64,
    /// The page size in bytes.
    pub page_size: u32,
    /// The write budget in bytes.
    pub write_budget: usize,
    /// Whether the store reads through a map.
    pub map: bool,
    /// Whether every access checks the page.
    pub always_check: bool,
    /// The store's durability.
    pub durability: Durability,
    /// The length of the log in bytes; none if it is 0.
    pub log_size: u64,
    /// The tables.
    pub tables: Vec<TableSpec>,
    /// What the caller wants left out; no seed chooses it.
    pub without: Vec<Part>,
}

impl Config {
    /// The configuration of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let page_size = rng.weighted(&[(10, 4096), (7, 16_384), (1, 65_536)]);
        let write_budget =
            rng.weighted(&[(3, 64 << 10), (2, 256 << 10), (2, 2 << 20), (3, 256 << 20)]);
        let tables = rng.between(1, 4);
        Self {
            seed,
            page_size,
            write_budget,
            map: rng.chance(3, 4),
            always_check: rng.chance(1, 5),
            durability: rng.pick(&[Durability::Durable, Durability::Eventual, Durability::None]),
            log_size: log_size(seed),
            tables: whole(seed, (0..tables).map(|_| table(&mut rng, page_size)).collect()),
            without: Vec::new(),
        }
    }

    /// The configuration of a seed for stores of a few dozen pages: every kind of table and value,
    /// few of each.
    pub fn small(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 6);
        let page_size = rng.weighted(&[(3, 4096), (1, 16_384)]);
        let tables = rng.between(1, 3);
        Self {
            seed,
            page_size,
            write_budget: rng.weighted(&[(2, 16 << 10), (2, 64 << 10), (4, 256 << 20)]),
            map: rng.chance(2, 3),
            always_check: rng.chance(1, 8),
            durability: rng.pick(&[Durability::Durable, Durability::Eventual, Durability::None]),
            log_size: log_size(seed),
            tables: whole(seed, (0..tables).map(|_| small_table(&mut rng, page_size)).collect()),
            without: vec![Part::Stat],
        }
    }

    /// A builder with the chosen options.
    pub fn builder(&self) -> Builder {
        Store::builder()
            .page_size(self.page_size)
            .write_budget(self.write_budget)
            .map(self.map)
            .always_check(self.always_check)
            .durability(self.durability)
            .log_size(self.log_size)
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "pages of {} bytes, write budget {} KiB, {}, {:?}{}{}",
            self.page_size,
            self.write_budget >> 10,
            if self.map { "mapped" } else { "read by position" },
            self.durability,
            match self.log_size {
                0 => String::new(),
                bytes => format!(", a log of {} KiB", bytes >> 10),
            },
            if self.always_check { ", every access checked" } else { "" },
        );
        for (i, table) in self.tables.iter().enumerate() {
            text.push_str(&format!(
                "\n  table {i}: keys {:?} {:?} x {}, duplicates {:?}, values {:?} x {}{}",
                table.order,
                table.key_shape,
                table.keys.len(),
                table.duplicates,
                table.value_shape,
                table.values.len(),
                match (table.whole, table.dense) {
                    (false, _) => "",
                    (true, false) => ", nothing shared",
                    (true, true) => ", nothing shared, dense",
                },
            ));
        }
        text
    }
}

/// Most seeds have a log, short ones more often than not. Chosen apart from everything else.
fn log_size(seed: u64) -> u64 {
    let kib = [0, 64, 64, 128, 128, 256, 1024];
    Rng::new(seed, 10).pick(&kib) << 10
}

/// Lets the leaves of every third table share nothing. Chosen apart from everything else.
fn whole(seed: u64, mut tables: Vec<TableSpec>) -> Vec<TableSpec> {
    let mut rng = Rng::new(seed, 9);
    for table in &mut tables {
        table.whole = rng.chance(1, 3);
        table.dense = rng.chance(1, 3);
    }
    tables
}

fn table(rng: &mut Rng, page: u32) -> TableSpec {
    let order = rng.weighted(&[
        (8, OrderKind::Bytewise),
        (2, OrderKind::Reverse),
        (2, OrderKind::Integer(4)),
        (2, OrderKind::Integer(8)),
        (2, OrderKind::ShortFirst),
        (1, OrderKind::Descending),
    ]);
    let (key_shape, most_keys) = key_shape(rng, order, page);
    let duplicates = duplicates(rng);
    let (value_shape, value_order, values) = value_shape(rng, duplicates, page);
    // A table with duplicates has many keys of few values or few keys of many.
    let many_values = duplicates != DuplicateSpec::No && rng.chance(1, 2);
    let keys = match (many_values, duplicates) {
        (true, _) => rng.between(1, 40),
        (false, DuplicateSpec::No) => {
            rng.pick(&[50, 300, 300, 1000, 1000, 3000, 3000, 8000, 20_000])
        }
        (false, _) => rng.pick(&[50, 300, 1000, 3000]),
    };
    let values = if duplicates != DuplicateSpec::No && !many_values {
        rng.between(2, 30).min(values)
    } else {
        values
    };
    TableSpec {
        order,
        duplicates,
        whole: false,
        dense: false,
        keys: Pool::new(rng, key_shape, order, keys.min(most_keys)),
        values: Pool::new(rng, value_shape, value_order, values),
        key_shape,
        value_shape,
    }
}

fn small_table(rng: &mut Rng, page: u32) -> TableSpec {
    let order = rng.weighted(&[
        (8, OrderKind::Bytewise),
        (1, OrderKind::Reverse),
        (1, OrderKind::Integer(8)),
        (1, OrderKind::Descending),
    ]);
    let (key_shape, most_keys) = match order {
        OrderKind::Integer(size) => (Shape::Integers(size), usize::MAX),
        _ => rng.weighted(&[
            (4, (Shape::Short, usize::MAX)),
            (3, (Shape::SharedPrefix { prefix: 30 }, usize::MAX)),
            (3, (Shape::Paths, usize::MAX)),
            (1, (Shape::NearBound { page, most: page }, 30)),
            (1, (Shape::Long { most: 2 * page }, 10)),
        ]),
    };
    let keys = rng.pick(&[20, 60, 150, 300]).min(most_keys);
    let (duplicates, value_shape, values) = match rng.index(8) {
        0..5 => {
            let most = rng.pick(&[60, 60, 400, 3 * page]);
            (DuplicateSpec::No, Shape::Values { most }, 60)
        }
        5..7 => (DuplicateSpec::Any(OrderKind::Bytewise), Shape::Paths, rng.pick(&[10, 200])),
        _ => (DuplicateSpec::Fixed(OrderKind::Bytewise, 16, true), Shape::Fixed(16), 100),
    };
    TableSpec {
        order,
        duplicates,
        whole: false,
        dense: false,
        keys: Pool::new(rng, key_shape, order, keys),
        values: Pool::new(rng, value_shape, OrderKind::Bytewise, values),
        key_shape,
        value_shape,
    }
}

/// A shape of keys, and how many of them memory and time allow.
fn key_shape(rng: &mut Rng, order: OrderKind, page: u32) -> (Shape, usize) {
    if let OrderKind::Integer(size) = order {
        return (Shape::Integers(size), usize::MAX);
    }
    rng.weighted(&[
        (4, (Shape::Short, usize::MAX)),
        (3, (Shape::SharedPrefix { prefix: 16 }, usize::MAX)),
        (1, (Shape::SharedPrefix { prefix: 700 }, 2000)),
        (3, (Shape::Paths, usize::MAX)),
        (2, (Shape::NearBound { page, most: LONG_KEY }, 400)),
        (2, (Shape::Long { most: LONG_KEY }, 120)),
        (1, (Shape::Long { most: 2 * page.min(16_384) }, 1000)),
    ])
}

fn duplicates(rng: &mut Rng) -> DuplicateSpec {
    let order = rng.weighted(&[
        (6, OrderKind::Bytewise),
        (2, OrderKind::Reverse),
        (1, OrderKind::ShortFirst),
        (1, OrderKind::Descending),
    ]);
    let told = rng.chance(2, 3);
    match rng.index(10) {
        0..5 => DuplicateSpec::No,
        5..8 => DuplicateSpec::Any(order),
        8 => DuplicateSpec::Fixed(order, rng.pick(&[1, 5, 16, 40, 200]), told),
        _ => {
            let size = rng.pick(&[4, 8]);
            DuplicateSpec::Fixed(OrderKind::Integer(size), size, told)
        }
    }
}

/// A shape of values, their order, and how many of them.
fn value_shape(rng: &mut Rng, spec: DuplicateSpec, page: u32) -> (Shape, OrderKind, usize) {
    match spec {
        DuplicateSpec::No => {
            let most = rng.pick(&[100, 2000, 20_000, 300_000]);
            (Shape::Values { most }, OrderKind::Bytewise, 300)
        }
        DuplicateSpec::Any(order) => {
            let shape = rng.weighted(&[
                (3, Shape::Short),
                (2, Shape::SharedPrefix { prefix: 40 }),
                (2, Shape::Paths),
                (1, Shape::NearBound { page, most: page / 8 }),
            ]);
            (shape, order, rng.pick(&[100, 1000, 4000]))
        }
        DuplicateSpec::Fixed(order, size, _) => {
            let shape = match order {
                OrderKind::Integer(_) => Shape::Integers(size),
                _ => Shape::Fixed(size),
            };
            (shape, order, rng.pick(&[100, 1000, 4000]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_seeds_choose_every_kind() {
        let configs: Vec<Config> = (1..=20).map(Config::new).collect();
        for page in [4096, 16_384] {
            assert!(configs.iter().any(|c| c.page_size == page));
        }
        assert!(configs.iter().any(|c| !c.map) && configs.iter().any(|c| c.map));
        let tables: Vec<&TableSpec> = configs.iter().flat_map(|c| &c.tables).collect();
        for order in [
            OrderKind::Bytewise,
            OrderKind::Reverse,
            OrderKind::Integer(4),
            OrderKind::Integer(8),
            OrderKind::ShortFirst,
            OrderKind::Descending,
        ] {
            assert!(tables.iter().any(|t| t.order == order), "no table is {order:?}");
        }
        assert!(tables.iter().any(|t| matches!(t.duplicates, DuplicateSpec::Any(_))));
        assert!(tables.iter().any(|t| matches!(t.duplicates, DuplicateSpec::Fixed(..))));
        assert!(tables.iter().any(|t| t.whole && t.has_duplicates()));
        assert!(tables.iter().any(|t| matches!(t.key_shape, Shape::Long { most: LONG_KEY })));
    }
}
