//! The trees that a connection has in use.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use hedgerow::tree::Table;

use crate::rested::Rested;

/// The trees that are in use.
#[derive(Default)]
pub(crate) struct Trees {
    /// The tables of roots that this transaction has opened; `None` if there is no table.
    pub(crate) tables: HashMap<u32, Option<Table>, BuildHasherDefault<RootHasher>>,
    pub(crate) rested: Rested,
}

/// Hashes a root: a number that the schema has given, one of few.
#[derive(Default)]
pub(crate) struct RootHasher(u64);

impl Hasher for RootHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, root: u32) {
        self.0 = (self.0 ^ u64::from(root)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
