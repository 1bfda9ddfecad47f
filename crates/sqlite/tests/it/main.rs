//! The library through `rusqlite`: what SQLite does on files of its own it does on stores.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use sqlite as _;

mod appends;
mod blobs;
mod controls;
mod copies;
mod counts;
mod equal;
mod fuzz;
mod hooks;
mod kills;
mod orders;
mod pages;
mod pair;
mod parts;
mod plain;
mod probes;
mod ranks;
mod reset;
mod scripts;
mod sums;
mod transactions;
mod updates;
