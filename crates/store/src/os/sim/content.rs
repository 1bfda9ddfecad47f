//! The bytes of a file in blocks that copies share, so that hundreds of images of one disk cost
//! little more than what tells them apart.

use std::sync::{Arc, LazyLock};

/// The size of a block.
pub(super) const BLOCK: usize = 4096;

/// One block.
pub(super) type Block = Arc<[u8; BLOCK]>;

/// What a hole reads as.
static ZEROS: LazyLock<Block> = LazyLock::new(|| Arc::new([0; BLOCK]));

/// A file's bytes. Bytes of the last block that lie beyond the end are zeros.
#[derive(Clone, Default)]
pub(super) struct Content {
    blocks: Vec<Block>,
    len: usize,
}

impl Content {
    /// The length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len as u64
    }

    /// The blocks, the last one filled up with zeros.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Bytes that lie inside.
    pub(super) fn get(&self, offset: u64, len: usize) -> Vec<u8> {
        let at = offset as usize;
        (at..at + len).map(|at| self.blocks[at / BLOCK][at % BLOCK]).collect()
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len {
            self.blocks.truncate(len.div_ceil(BLOCK));
            if !len.is_multiple_of(BLOCK)
                && let Some(last) = self.blocks.last_mut()
            {
                Arc::make_mut(last)[len % BLOCK..].fill(0);
            }
        } else {
            self.blocks.resize_with(len.div_ceil(BLOCK), || Arc::clone(&ZEROS));
        }
        self.len = len;
    }

    /// Writes at a place; the file grows if need be.
    pub(super) fn put(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset as usize;
        if self.len < at + bytes.len() {
            self.resize(at + bytes.len());
        }
        while !bytes.is_empty() {
            let (block, from) = (&mut self.blocks[at / BLOCK], at % BLOCK);
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK - from));
            match <&[u8; BLOCK]>::try_from(part) {
                Ok(whole) => *block = Arc::new(*whole),
                Err(_) => Arc::make_mut(block)[from..from + part.len()].copy_from_slice(part),
            }
            at += part.len();
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    //! A content is what a plain list of bytes would be.

    use super::*;

    fn bytes(content: &Content) -> Vec<u8> {
        let mut all: Vec<u8> = content.blocks.iter().flat_map(|block| block.to_vec()).collect();
        assert!(all[content.len..].iter().all(|byte| *byte == 0), "zeros behind the end");
        all.truncate(content.len);
        all
    }

    #[test]
    fn writes_and_lengths_are_those_of_a_list() {
        let (mut content, mut list) = (Content::default(), Vec::new());
        let (mut copies, mut number) = (Vec::new(), 1_u64);
        for step in 0..400_u64 {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(step);
            let (at, len) = ((number >> 33) as usize % 20_000, (number >> 50) as usize % 9000);
            if step % 5 == 0 {
                content.resize(at);
                list.resize(at, 0);
            } else {
                content.put(at as u64, &vec![step as u8; len]);
                list.resize(list.len().max(at + len), 0);
                list[at..at + len].fill(step as u8);
            }
            assert_eq!(bytes(&content), list, "step {step}");
            copies.push((content.clone(), list.clone()));
        }
        for (copy, list) in copies {
            assert_eq!(bytes(&copy), list, "a copy does not change with its original");
        }
    }
}
