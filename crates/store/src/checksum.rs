//! Checksums of pages, meta records and commits. Nothing else in the crate computes one.

use crc_fast::CrcAlgorithm;

/// CRC-32C of `bytes`, started from `seed` (a page number, so that a page that was written to the
/// wrong place does not pass).
pub(crate) fn crc32c(seed: u64, bytes: &[u8]) -> u32 {
    #[repr(align(8))]
    struct Aligned([u8; 8]);
    let seed = Aligned(seed.to_le_bytes());
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&seed.0);
    digest.update(bytes);
    digest.finalize() as u32
}

/// A running CRC-64/NVME, over the pages of one commit or other bytes.
#[derive(Clone, Debug)]
pub(crate) struct Crc64(crc_fast::Digest);

impl Crc64 {
    pub(crate) fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_changes_the_sum() {
        assert_ne!(crc32c(1, b"page"), crc32c(2, b"page"));
        // The check value of CRC-32C is defined over "123456789" without a seed.
        assert_eq!(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, b"123456789"), 0xE306_9283);
    }
}
