//! SQLite whose tables and indexes live in stores of Hedgerow's tree engine.
//!
//! SQLite's parser, planner, virtual machine and extensions are its own, compiled from the source
//! that the crate `libsqlite3-sys` brings. Below them its b-tree has a second form: what SQLite
//! asks of its b-tree (`conn`, `cursor`) is answered from a store if the file is one. Files of
//! SQLite's own, `:memory:` and temporary tables stay with SQLite's b-tree, in the same connection.
//!
//! | part | holds |
//! |---|---|
//! | `build.rs`, `cut.rs` | where SQLite's source is cut |
//! | `src/c` | which b-tree a call is for; SQLite's structures; copies between both kinds |
//! | `conn`, `opening` | a connection: transactions, savepoints, trees; how its store is opened |
//! | `cursor`, `rested`, `rowid` | places in a tree; those that no statement uses; keys of rows |
//! | `order` | the order of index entries, which SQLite's functions decide |
//! | `sums`, `renew` | checksums of rows; `VACUUM`, which gives them to all |
//! | `check` | `PRAGMA integrity_check` |
//! | `rank` | counts, ranks and positions for SQL functions |
//! | `plain` | plain tables of a store as virtual tables |
//! | `ffi` | the functions that `src/c` calls |
//!
//! The library is used through SQLite's own interface: as `libsqlite3.so.0` by programs, in Rust
//! for example through `rusqlite` with its feature `in_gecko`, which links nothing itself.

mod check;
mod code;
mod conn;
mod cursor;
mod ffi;
mod meta;
mod opening;
mod order;
mod plain;
#[cfg(test)]
mod power;
mod rank;
mod renew;
mod rested;
mod rowid;
mod steps;
mod sums;
mod trees;

pub use libsqlite3_sys::SQLITE_VERSION_NUMBER;
