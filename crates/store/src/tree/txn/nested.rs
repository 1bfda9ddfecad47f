//! Nested transactions: savepoints that are undone unless they are committed.

use std::ops::{Deref, DerefMut};

use super::WriteTxn;
use crate::Result;
use crate::tree::state::Savepoint;

/// A nested transaction, which dereferences to [`WriteTxn`]. If it is dropped without
/// [`Nested::commit`], everything done through it is undone.
pub struct Nested<'p> {
    parent: &'p mut WriteTxn,
    savepoint: Savepoint,
    done: bool,
}

impl WriteTxn {
    /// Begins a nested transaction. It has all calls of this one, and leaves no trace unless it is
    /// committed.
    pub fn begin_nested(&mut self) -> Result<Nested<'_>> {
        let savepoint = self.savepoint()?;
        Ok(Nested { parent: self, savepoint, done: false })
    }
}

impl Nested<'_> {
    /// Keeps the changes, as part of the parent.
    ///
    /// # Errors
    /// If a change through the nested transaction failed half-way. Also if a savepoint from before
    /// it was rolled back to or released: then the whole transaction can only be aborted.
    pub fn commit(mut self) -> Result<()> {
        self.parent.check_failed()?;
        self.parent.finish_reserved()?;
        self.parent.release(self.savepoint)?;
        self.done = true;
        Ok(())
    }

    /// Undoes the changes.
    pub fn abort(self) {}
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let undone = self.parent.rollback_to(self.savepoint);
        let released = undone.and_then(|()| self.parent.release(self.savepoint));
        if let Err(error) = released {
            self.parent.fail(&error);
        }
    }
}

impl Deref for Nested<'_> {
    type Target = WriteTxn;

    fn deref(&self) -> &WriteTxn {
        self.parent
    }
}

impl DerefMut for Nested<'_> {
    fn deref_mut(&mut self) -> &mut WriteTxn {
        self.parent
    }
}
