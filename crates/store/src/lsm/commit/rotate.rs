//! Going on in another segment of the log. The next segment is made in advance, and the one before
//! is flushed and ended in the background: a commit that finds a segment full waits for neither.
//!
//! ```text
//!   ended, not yet sealed        written to        spare
//!   flushed, then the manifest   commits go here   empty; the manifest names it
//!   says where they have ended
//! ```
//!
//! What must hold: an ended segment is flushed before anything in a later one is called durable,
//! and sealed before a table points into it. Numbers of segments ascend in the order of the log.

use std::sync::{Arc, PoisonError};

use super::logs::Writer;
use crate::Result;
use crate::lsm::engine::Inner;
use crate::lsm::levels::version::{Edit, Sealed};
use crate::lsm::log::segment::HEADER_BYTES;
use crate::lsm::log::wal::{Bounds, Ended, Log, NewSegment, new_segment};

/// If more ended segments than this are unsealed, the thread that ends another one seals them.
const ENDED_MAX: usize = 4;

impl Inner {
    /// Goes on in the next segment.
    pub(crate) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        self.write_out_log(writer)?;
        let left = self.logs.ended().len();
        // Without background threads one is left, as it would be for a while with them.
        if left > if self.background.is_on() { ENDED_MAX } else { 0 } {
            self.seal_ended()?;
        }
        // The lock is kept while one is made: a spare that is made meanwhile comes after it.
        let mut spare = self.logs.spare();
        let (identity, file, path) = spare.take().map_or_else(|| self.make_segment(), Ok)?;
        drop(spare);
        self.logs.ended().push(writer.log.end_with(writer.next_seq - 1));
        let (held, pending) = (Arc::clone(&self.directory.held), writer.log.take_pending());
        writer.log =
            Log::new(identity, file, path, self.log_bounds(), held, pending, HEADER_BYTES as u64);
        self.background.wake_log();
        Ok(())
    }

    fn log_bounds(&self) -> Bounds {
        let window_bytes = self.directory.budget.written_bytes();
        let (keeps, segment_bytes) = (self.directory.is_cached, self.options.segment_bytes);
        Bounds { window_bytes, keeps, segment_bytes }
    }

    /// Flushes the segments before the one that is written to.
    pub(crate) fn flush_ended(&self) -> Result<()> {
        let ended = self.logs.ended().clone();
        ended.iter().try_for_each(|ended| ended.flush().inspect_err(|e| self.health.poison(e)))
    }

    /// Flushes them, and has the manifest say where they have ended.
    pub(crate) fn seal_ended(&self) -> Result<()> {
        let _turn = self.logs.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.logs.ended().clone();
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
        self.logs.ended().drain(..ended.len());
        Ok(())
    }

    /// Makes the segment in which the log will go on, if there is none yet.
    pub(crate) fn make_spare(&self) -> Result<()> {
        let mut spare = self.logs.spare();
        if spare.is_none() {
            *spare = Some(self.make_segment()?);
        }
        Ok(())
    }

    /// Makes a segment that the manifest names; its first sequence number is not known yet.
    fn make_segment(&self) -> Result<NewSegment> {
        let made = new_segment(&self.directory, self.new_number(), 0)?;
        self.install(vec![Edit::AddSegment(made.0)], |_| {})?;
        Ok(made)
    }
}
