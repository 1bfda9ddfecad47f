//! Arrow and Parquet files of two columns, key and value. What is in the columns, `column` knows;
//! the files are read and written by the crates of these formats.
//!
//! A file that `dump` wrote says how many entries it has, and their checksum: the CRC-64 over the
//! length of each key, the key, the length of the value and the value, as the store holds them.
//! Whoever changes the file and keeps what it says of itself is told so at loading.

mod column;
mod read;
mod write;

pub(crate) use read::{Input, Reader};
pub(crate) use write::Writer;

use crc_fast::{CrcAlgorithm, Digest};

/// What a file says of itself.
const ENTRIES: &str = "hedgerow.entries";
const CHECKSUM: &str = "hedgerow.checksum";
const TABLE: &str = "hedgerow.table";
/// What a Parquet file says about its writer.
const CREATED_BY: &str = concat!("hedgerow ", env!("CARGO_PKG_VERSION"));

/// How many entries went through, and their checksum.
struct Sum {
    entries: u64,
    digest: Digest,
}

impl Sum {
    fn new() -> Self {
        Self { entries: 0, digest: Digest::new(CrcAlgorithm::Crc64Nvme) }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        for part in [key, value] {
            self.digest.update(&(part.len() as u64).to_le_bytes());
            self.digest.update(part);
        }
    }

    /// As a file says it: the entries, and the checksum.
    fn said(&self) -> (String, String) {
        (self.entries.to_string(), format!("{:016x}", self.digest.finalize()))
    }
}

#[cfg(test)]
mod tests;
