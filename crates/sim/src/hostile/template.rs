//! Sound stores to begin with: tables of every kind, trees of several levels, long keys and values,
//! free pages in all three places where they are noted.

use std::path::Path;

use hedgerow::tree::{Builder, Duplicates, Order, Snapshot, Store, Table, TableOptions, WriteTxn};

use super::format::Image;
use crate::rng::Rng;

/// The kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value a key, some of them long.
    Plain,
    /// Ordered from the back.
    Reverse,
    /// Native integers.
    Integer,
    /// A caller's function, and keys that make branches small.
    Custom,
    /// Keys that stand in extents.
    LongKeys,
    /// Many values a key, of any length.
    Duplicates,
    /// Many values a key, of one length.
    Fixed,
    /// Values ordered from the back.
    ReverseValues,
    /// Many values of a key that stands in an extent.
    LongDuplicates,
    /// Leaves that share nothing.
    Whole,
    /// Many values a key, in leaves and groups that share nothing.
    WholeDuplicates,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Plain,
        Self::Reverse,
        Self::Integer,
        Self::Custom,
        Self::LongKeys,
        Self::Duplicates,
        Self::Fixed,
        Self::ReverseValues,
        Self::LongDuplicates,
        Self::Whole,
        Self::WholeDuplicates,
    ];

    /// The name of its table.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The options of its table.
    pub fn options(self) -> TableOptions {
        let any = |order| Duplicates::Any { order };
        let options = TableOptions::new();
        match self {
            Self::Plain | Self::LongKeys => options,
            Self::Reverse => options.order(Order::Reverse),
            Self::Integer => options.order(Order::Integer),
            Self::Custom => options.order(Order::custom("down", |a, b| b.cmp(a))),
            Self::Duplicates | Self::LongDuplicates => options.duplicates(),
            Self::Whole => options.prefix_compression(false),
            Self::WholeDuplicates => options.duplicates().prefix_compression(false),
            Self::Fixed => options.fixed_duplicates(8),
            Self::ReverseValues => options.duplicates_in(any(Order::Reverse)),
        }
    }

    /// An entry of the table's shape; most numbers give an existing one.
    pub fn entry(self, n: u64, page_size: usize) -> (Vec<u8>, Vec<u8>) {
        let r = Rng::new(n, 7).next_u64();
        let spread = format!("key {:05}", r % 3000).into_bytes();
        let few = format!("key {:02}", r % 7).into_bytes();
        match self {
            Self::Integer => ((r % 4000).to_le_bytes().to_vec(), vec![7; (r % 40) as usize]),
            Self::Custom => {
                let mut key = spread;
                key.resize(page_size / 9, b'c');
                (key, r.to_le_bytes().to_vec())
            }
            Self::LongKeys => {
                let mut key = spread;
                key.resize(page_size / 8 + 40 + (r % 64) as usize, b'k');
                key.extend_from_slice(&r.to_be_bytes());
                (key, vec![1; (r % 2000) as usize])
            }
            Self::Duplicates | Self::ReverseValues | Self::WholeDuplicates => {
                (few, format!("value {}", r % 1000).into_bytes())
            }
            Self::Fixed => (few, r.to_le_bytes().to_vec()),
            Self::LongDuplicates => {
                let mut key = few;
                key.resize(page_size / 4, b'd');
                (key, format!("some value {:09}", r % 1_000_000).into_bytes())
            }
            Self::Plain | Self::Reverse | Self::Whole if n.is_multiple_of(60) => {
                (spread, vec![b'v'; (r % 20_000) as usize])
            }
            Self::Plain | Self::Reverse | Self::Whole => {
                (spread, format!("value {n}").into_bytes())
            }
        }
    }

    /// Whether its entries are values of a few keys, which a delete would take all.
    fn has_few_keys(self) -> bool {
        use Kind::{Duplicates, Fixed, LongDuplicates, ReverseValues, WholeDuplicates};
        matches!(self, Duplicates | Fixed | ReverseValues | LongDuplicates | WholeDuplicates)
    }

    /// How many entries its table gets in each round.
    fn share(self) -> u64 {
        match self {
            Self::Plain | Self::Custom => 160,
            Self::LongKeys | Self::LongDuplicates => 24,
            _ => 120,
        }
    }
}

/// A store that was filled and closed, as a file. Its tables hold one `part`th of the usual
/// entries.
///
/// # Errors
/// The engine's or the system's; there is no reason for any.
pub fn build(folder: &Path, page_size: u32, part: u64) -> hedgerow::Result<Image> {
    let path = folder.join("template");
    let store = Builder::new().page_size(page_size).create(&path)?;
    let mut reader = None;
    for round in 0..4 {
        if round == 2 {
            reader = Some(store.begin_read()?);
        }
        fill(&store, round, part, page_size as usize)?;
    }
    // Many small commits, so that the recent list is moved into the trees of free space.
    for n in 0..40 / part {
        let mut txn = store.begin_write()?;
        for kind in [Kind::Plain, Kind::Integer, Kind::Fixed] {
            let table = txn.table_with(kind.name(), &kind.options())?;
            put(&mut txn, table, kind, 10_000 + 3 * n, page_size as usize)?;
        }
        txn.commit()?;
    }
    drop(reader);
    drop(store);
    let bytes = std::fs::read(&path).map_err(|source| hedgerow::Error::Io {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    Ok(Image { bytes, page_size: page_size as usize })
}

fn fill(store: &Store, round: u64, part: u64, page_size: usize) -> hedgerow::Result<()> {
    let mut txn = store.begin_write()?;
    for kind in Kind::ALL {
        let table = txn.create_table(kind.name(), &kind.options())?;
        let share = kind.share() / part;
        for n in round * share..(round + 1) * share {
            put(&mut txn, table, kind, n, page_size)?;
            if n % 5 == 0 {
                let (key, _) = kind.entry(n / 2, page_size);
                if !kind.has_few_keys() {
                    txn.delete(table, &key)?;
                }
            }
        }
    }
    txn.create_table("empty", &TableOptions::new())?;
    txn.commit()
}

fn put(
    txn: &mut WriteTxn,
    table: Table,
    kind: Kind,
    n: u64,
    page_size: usize,
) -> hedgerow::Result<()> {
    let (key, value) = kind.entry(n, page_size);
    txn.put(table, &key, &value)
}
