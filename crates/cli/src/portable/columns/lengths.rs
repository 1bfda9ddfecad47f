//! How long the parts of an Arrow file say that they are, and its buffers, once they are unpacked.
//! It is looked at before they are read: the crate of the format sets aside as much memory as a
//! file says, fills it, and for LZ4 the process ends where there is not so much. Whatever else is
//! wrong, that crate says.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use arrow_ipc::{CompressionType, Message, RecordBatch, root_as_footer, root_as_message};

/// A byte of LZ4 stands for 255 at most.
const RATIO: u64 = 256;
/// What stands before a message, in files of the versions of today.
const MARK: [u8; 4] = [0xff; 4];
/// The length of a footer, and the mark of an Arrow file.
const END: u64 = 10;

/// A file, and where it ends.
pub(super) struct Lengths<'f> {
    file: &'f File,
    end: u64,
}

impl<'f> Lengths<'f> {
    pub(super) fn of(file: &'f File) -> io::Result<Self> {
        Ok(Self { file, end: file.metadata()?.len() })
    }

    /// Looks at the messages of a file with a footer.
    pub(super) fn of_file(&self) -> Result<(), String> {
        let Some(end) = self.end.checked_sub(END) else { return Ok(()) };
        let Some(len) =
            self.word(end).and_then(|word| u64::try_from(i32::from_le_bytes(word)).ok())
        else {
            return Ok(());
        };
        let Some(footer) = end.checked_sub(len).and_then(|at| self.bytes(at, len)) else {
            return Ok(());
        };
        let Ok(footer) = root_as_footer(&footer) else { return Ok(()) };
        let blocks = [footer.dictionaries(), footer.recordBatches()];
        for block in blocks.into_iter().flatten().flatten() {
            let (Ok(at), Ok(len)) =
                (u64::try_from(block.offset()), u64::try_from(block.metaDataLength()))
            else {
                continue;
            };
            let body = u64::try_from(block.bodyLength()).unwrap_or(0);
            self.holds(at, len.saturating_add(body))?;
            self.message(at, Some(len))?;
        }
        Ok(())
    }

    /// Looks at the messages of a stream.
    pub(super) fn of_stream(&self) -> Result<(), String> {
        let mut at = 0;
        while let Some(next) = self.message(at, None)?.filter(|next| *next > at) {
            at = next;
        }
        Ok(())
    }

    /// Looks at a message, with its length where a footer says that; where the next one begins, if
    /// this is one.
    fn message(&self, at: u64, whole: Option<u64>) -> Result<Option<u64>, String> {
        let first = self.word(at);
        let begin = at + if first == Some(MARK) { 8 } else { 4 };
        let len =
            self.word(begin - 4).and_then(|word| u64::try_from(i32::from_le_bytes(word)).ok());
        let len = len.unwrap_or(0);
        if whole.is_none() && len > 0 {
            self.holds(begin, len)?;
        }
        let Some(meta) = self.bytes(begin, len).filter(|_| len > 0) else { return Ok(None) };
        let Ok(message) = root_as_message(&meta) else { return Ok(None) };
        let body = whole.map_or(begin + meta.len() as u64, |len| at.saturating_add(len));
        if let Some(batch) = batch(&message) {
            self.batch(&batch, body)?;
        }
        let len = u64::try_from(message.bodyLength()).unwrap_or(0);
        if whole.is_none() {
            self.holds(body, len)?;
        }
        Ok(Some(body.saturating_add(len)))
    }

    /// Refuses a part that would go beyond the end.
    fn holds(&self, at: u64, len: u64) -> Result<(), String> {
        match at.saturating_add(len) <= self.end {
            true => Ok(()),
            false => Err(format!(
                "it cannot be read as an Arrow file: a part of it would have {len} bytes from byte \
                 {at} on, and it ends at byte {}",
                self.end
            )),
        }
    }

    /// Looks at the buffers of a batch, of which the first one begins there.
    fn batch(&self, batch: &RecordBatch<'_>, body: u64) -> Result<(), String> {
        let codec = batch.compression().map(|compression| compression.codec());
        if codec != Some(CompressionType::LZ4_FRAME) {
            return Ok(());
        }
        for buffer in batch.buffers().into_iter().flatten() {
            let (Ok(at), Ok(len)) =
                (u64::try_from(buffer.offset()), u64::try_from(buffer.length()))
            else {
                continue;
            };
            let said = self.bytes(body.saturating_add(at), 8).filter(|_| len >= 8);
            let said = said.and_then(|said| Some(i64::from_le_bytes(said.try_into().ok()?)));
            let said = said.and_then(|said| u64::try_from(said).ok()).unwrap_or(0);
            if said > len.saturating_mul(RATIO) {
                return Err(format!(
                    "it is damaged: {len} compressed bytes, which say that they are {said}"
                ));
            }
        }
        Ok(())
    }

    fn word(&self, at: u64) -> Option<[u8; 4]> {
        self.bytes(at, 4)?.try_into().ok()
    }

    /// Bytes of the file; none where it ends before.
    fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.end);
        let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| is_inside)?];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// The batch of a message, if it is about one.
fn batch<'m>(message: &Message<'m>) -> Option<RecordBatch<'m>> {
    message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()))
}
