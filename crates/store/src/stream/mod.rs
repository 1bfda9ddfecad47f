//! Streams out of and into stores of both engines, with snapshots that do not stay for ever.
//!
//! A [`Scan`] says what is read: a table, a range of keys, a direction, where to begin, how many.
//! It is read in one of four forms:
//!
//! | form | made by | gives | cost |
//! |---|---|---|---|
//! | borrowed | [`Scan::walk`] | entries that borrow a transaction | no copy |
//! | owned | [`Scan::pairs`] | guards that keep their snapshot alive | no copy (tree), a counter |
//! | batches | [`Scan::batches`] | many pairs in one piece of memory | one copy |
//! | asynchronous | [`Scan::stream`] | runs, read by another thread | no copy (tree), a hop a run |
//!
//! [`Scan::groups`] gives keys with all of their values, in tables with duplicates.
//!
//! A held snapshot keeps pages from being used again. Therefore an owned stream can
//! [renew](Renewal) its snapshot while it is read, and [give it back](Scan::park_after) when nobody
//! asks for the next pair; it goes on after the last pair that it gave, counting duplicates, so
//! that no pair is repeated or left out. Where it has come is a [`Token`]: bytes that another
//! process can go on from.
//!
//! A table of the tree engine in the order of a caller's function can be read in a transaction that
//! has opened it, by [`Scan::walk`] or [`Scan::pairs_of`]. What begins transactions by itself does
//! not know the function, and is refused: [`Scan::pairs`], a renewal, [`Sink`], [`Standby`].
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
//! use hedgerow::stream::{Scan, Sink};
//!
//! let mut sink = Sink::new(&store, "words")?;
//! for word in ["ash", "beech", "birch", "elm"] {
//!     sink.put(word.as_bytes(), b"tree")?;
//! }
//! sink.finish()?;
//!
//! let mut pairs = Scan::new("words").range("b"..).limit(2).pairs(&store)?;
//! assert_eq!(pairs.remaining(), Some(2));
//! assert_eq!(pairs.next().unwrap()?.key(), b"beech");
//! let token = pairs.token()?;
//!
//! let mut rest = Scan::resume(&token, &store)?.pairs(&store)?;
//! assert_eq!(rest.next().unwrap()?.key(), b"birch");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "arrow")]
pub mod arrow;
mod batch;
mod follow;
mod followed;
mod groups;
mod held;
mod join;
mod kept;
mod lsm;
mod pairs;
mod park;
mod sample;
mod scan;
mod sink;
mod source;
mod standby;
mod sum;
mod task;
mod token;
mod transfer;
mod tree;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Batches};
pub use follow::{Follow, Mark, Step};
pub use followed::{AsChange, Followed};
pub use groups::{Group, GroupValue, GroupValues, Groups};
pub use held::{Pair, Run, Value};
pub use join::{Input, Join, Joined, Kind};
pub use lsm::LsmWalk;
pub use pairs::{Event, Pairs};
pub use sample::Sample;
pub use scan::{Part, Position, Renewal, Scan, Values, Walker};
pub use sink::{Cut, Mode, OnReject, Rejected, Sink, SinkReport, Target};
pub use source::{Item, Snapshot, Source, Walk};
pub use standby::{Replica, Standby};
pub use sum::PairSum;
pub use task::{Ack, AsyncSink, PairStream, RunPair, RunStream};
pub use token::Token;
pub use transfer::{Mover, transfer};
pub use tree::TreeWalk;
