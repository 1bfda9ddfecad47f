//! The programs of `examples/`: each asserts what it shows and has a test that runs it.

#[path = "../../examples/basic.rs"]
mod basic;
#[path = "../../examples/duplicates.rs"]
mod duplicates;
#[path = "../../examples/ranks.rs"]
mod ranks;
#[path = "../../examples/snapshots.rs"]
mod snapshots;
