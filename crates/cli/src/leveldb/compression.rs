//! What blocks of tables may be compressed with, by the byte after a block.

use std::io::Read as _;

/// The longest block that is taken for one.
const BLOCK_BYTES_MAX: usize = 1 << 30;

pub(super) const NONE: u8 = 0;
pub(super) const SNAPPY: u8 = 1;
/// Zstandard in LevelDB since 2022, zlib in Minecraft's.
const ZSTD_OR_ZLIB: u8 = 2;
/// Deflate without a header: Minecraft's.
const DEFLATE: u8 = 4;

/// What a frame of Zstandard begins with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bytes of a block; why there are none.
pub(super) fn decompress(stored: Vec<u8>, kind: u8) -> Result<Vec<u8>, &'static str> {
    match kind {
        NONE => Ok(stored),
        SNAPPY => unsnap(&stored),
        ZSTD_OR_ZLIB if stored.starts_with(&ZSTD_MAGIC) => unzstd(&stored),
        ZSTD_OR_ZLIB => {
            miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&stored, BLOCK_BYTES_MAX)
                .map_err(|_| "a block compressed by zlib cannot be read")
        }
        DEFLATE => miniz_oxide::inflate::decompress_to_vec_with_limit(&stored, BLOCK_BYTES_MAX)
            .map_err(|_| "a block compressed by deflate cannot be read"),
        _ => Err("a block of an unknown compression"),
    }
}

fn unsnap(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
    let len = snap::raw::decompress_len(stored).unwrap_or(usize::MAX);
    if len > BLOCK_BYTES_MAX {
        return Err("a block compressed by Snappy is too long to be one");
    }
    let block = snap::raw::Decoder::new().decompress_vec(stored);
    block.map_err(|_| "a block compressed by Snappy cannot be read")
}

fn unzstd(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
    let failed = "a block compressed by Zstandard cannot be read";
    let frame = ruzstd::decoding::StreamingDecoder::new(stored).map_err(|_| failed)?;
    let mut block = Vec::new();
    frame.take(BLOCK_BYTES_MAX as u64).read_to_end(&mut block).map_err(|_| failed)?;
    Ok(block)
}

/// A block compressed by Snappy, if that saves an eighth.
pub(super) fn snap(block: &[u8]) -> Option<Vec<u8>> {
    let snapped = snap::raw::Encoder::new().compress_vec(block).ok()?;
    (snapped.len() < block.len() - block.len() / 8).then_some(snapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compression_is_told_by_its_byte_and_its_data() {
        use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};
        use ruzstd::encoding::{CompressionLevel, compress_to_vec as zstd};
        let block: Vec<u8> = (0..20_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let fastest = CompressionLevel::Fastest;
        let stored = [
            (NONE, block.clone()),
            (SNAPPY, snap(&block).unwrap()),
            (ZSTD_OR_ZLIB, zstd(block.as_slice(), fastest)),
            (ZSTD_OR_ZLIB, compress_to_vec_zlib(&block, 6)),
            (DEFLATE, compress_to_vec(&block, 6)),
        ];
        for (kind, stored) in stored {
            assert_eq!(decompress(stored.clone(), kind).unwrap(), block, "{kind}");
            if kind != NONE {
                let half = stored[..stored.len() / 2].to_vec();
                assert!(decompress(half, kind).map_or(true, |found| found != block), "{kind}");
            }
        }
        assert!(decompress(block, 3).is_err());
        assert!(snap(&[1, 2, 3]).is_none());
    }
}
