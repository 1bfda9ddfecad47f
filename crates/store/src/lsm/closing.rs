//! Whether the store is being closed. What takes long and can be begun again, such as a merge, ends
//! early then: what it wrote is removed, and what it read is still there.

use std::sync::atomic::Ordering;

use crate::sync::atomic::AtomicBool;
use crate::{Error, Result};

/// What work in the background asks now and then.
#[derive(Default)]
pub(crate) struct Closing(AtomicBool);

impl Closing {
    /// The store is being closed from now on.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Asked for each entry: it costs next to nothing.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the store is being closed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}
