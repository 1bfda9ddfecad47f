//! The programs of `examples/`: each asserts what it shows and has a test that runs it.

#[cfg(feature = "arrow")]
#[path = "../../examples/arrow_batches.rs"]
mod arrow_batches;
#[path = "../../examples/basic.rs"]
mod basic;
#[path = "../../examples/cache_by_follow.rs"]
mod cache_by_follow;
#[path = "../../examples/duplicates.rs"]
mod duplicates;
#[path = "../../examples/lsm_async.rs"]
mod lsm_async;
#[path = "../../examples/lsm_smol.rs"]
mod lsm_smol;
#[path = "../../examples/lsm_tokio.rs"]
mod lsm_tokio;
#[path = "../../examples/pages_by_token.rs"]
mod pages_by_token;
#[path = "../../examples/parallel_sum.rs"]
mod parallel_sum;
#[path = "../../examples/ranks.rs"]
mod ranks;
#[path = "../../examples/snapshots.rs"]
mod snapshots;
