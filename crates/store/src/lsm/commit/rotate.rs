//! Going on in another segment of the log. The next segment is made in advance, and the one before
//! is sealed in the background, which means that it is flushed and the manifest then says where it
//! ends: a commit that finds a segment full waits for neither.
//!
//! What must hold: an ended segment is flushed before anything in a later one is called durable,
//! and sealed before a table points into it. Numbers of segments ascend in the order of the log.

use std::sync::Arc;

use super::logs::Writer;
use crate::lsm::engine::Inner;
use crate::lsm::levels::version::{Edit, Sealed};
use crate::lsm::log::segment::HEADER_BYTES;
use crate::lsm::log::wal::{Bounds, Ended, Log, SegmentFile, new_segment};
use crate::sync::locked;
use crate::{Durability, Result};

/// If more ended segments than this are unsealed, the thread that ends another one seals them.
const ENDED_MAX: usize = 4;

impl Inner {
    /// Goes on in the next segment.
    pub(crate) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        self.settle_log(writer, Durability::Eventual)?;
        let unsealed = locked(&self.logs.ended).len();
        // Without background threads one is left, as it would be for a while with them.
        if unsealed > if self.background.is_on() { ENDED_MAX } else { 0 } {
            self.seal_ended()?;
        }
        // The lock is kept while a segment is made: a spare that is made meanwhile comes after it.
        let mut spare = locked(&self.logs.spare);
        let segment = spare.take().map_or_else(|| self.make_segment(), Ok)?;
        drop(spare);
        locked(&self.logs.ended).push(writer.log.end_with(writer.next_seq - 1));
        let bounds = Bounds::new(&self.directory, self.options.segment_bytes);
        let (held, pending) = (Arc::clone(&self.directory.held), writer.log.take_pending());
        writer.log = Log::new(segment, HEADER_BYTES as u64, bounds, held, pending);
        self.background.wake_log();
        Ok(())
    }

    /// Flushes the ended segments.
    pub(crate) fn flush_ended(&self) -> Result<()> {
        let ended = locked(&self.logs.ended).clone();
        ended.iter().try_for_each(|ended| ended.flush().inspect_err(|e| self.health.poison(e)))
    }

    /// Seals the ended segments.
    pub(crate) fn seal_ended(&self) -> Result<()> {
        let _turn = locked(&self.logs.sealing);
        let ended = locked(&self.logs.ended).clone();
        if ended.is_empty() {
            return Ok(());
        }
        ended.iter().try_for_each(Ended::trim)?;
        self.flush_ended()?;
        let seal = |ended: &Ended| {
            let sealed = Sealed { len: ended.len, last_seq: ended.last_seq, remap_len: 0 };
            Edit::SealSegment { number: ended.number, sealed }
        };
        self.install(ended.iter().map(seal).collect(), |_| {})?;
        let (warm, blocks) = (&self.logs.warm, &self.directory.blocks);
        ended.iter().for_each(|ended| ended.keep_warm(warm, blocks));
        locked(&self.logs.ended).drain(..ended.len());
        Ok(())
    }

    /// Makes the spare segment if there is none.
    pub(crate) fn make_spare(&self) -> Result<()> {
        let mut spare = locked(&self.logs.spare);
        if spare.is_none() {
            *spare = Some(self.make_segment()?);
        }
        Ok(())
    }

    /// Makes a segment that the manifest names; its first sequence number is not known yet.
    fn make_segment(&self) -> Result<SegmentFile> {
        let made = new_segment(&self.directory, self.new_number(), 0)?;
        self.install(vec![Edit::AddSegment(made.identity)], |_| {})?;
        Ok(made)
    }
}
