//! The reference model, the generator of operations and the runners that compare the engine with
//! them: `model` (every operation side by side), `crash` (a power cut after every write) and
//! `hostile` (forged files).
//!
//! Data flows one way: a seed gives a [`config::Config`], seed and configuration give a stream of
//! [`op::Op`], and [`run`] drives engine and [`model`] through it. Nothing here knows pages but
//! [`hostile::format`].

pub mod compaction;
pub mod config;
pub mod crash;
pub mod faults;
pub mod generate;
pub mod growth;
pub mod hostile;
pub mod job;
pub mod lsm;
mod mirror;
pub mod model;
pub mod op;
mod player;
pub mod pool;
pub mod processes;
pub mod readers;
pub mod rng;
pub mod run;
pub mod shrink;
pub mod streams;
