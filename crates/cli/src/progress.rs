//! The progress of long work: a line on standard error, only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Failure;
use crate::signals;
use crate::tell::tell;

/// A walk over entries shows how far it is, and looks for Ctrl-C, once in this many.
const STRIDE: u64 = 1 << 12;

/// What a bar counts.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Bytes, shown as KiB, MiB, GiB.
    Bytes,
    /// Things: pages, entries, files.
    Items,
}

/// A progress line; it vanishes when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar towards `total`, or a running count where the total is unknown.
    pub(crate) fn new(doing: &'static str, unit: Unit, total: Option<u64>) -> Self {
        let (bar, template) = match (total, unit) {
            (Some(total), Unit::Bytes) => (
                ProgressBar::new(total),
                "{prefix} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
            ),
            (Some(total), Unit::Items) => (
                ProgressBar::new(total),
                "{prefix} [{wide_bar}] {human_pos}/{human_len} {eta} {msg}",
            ),
            (None, Unit::Bytes) => (
                ProgressBar::new_spinner(),
                "{spinner} {prefix} {bytes} {bytes_per_sec} {elapsed} {msg}",
            ),
            (None, Unit::Items) => {
                (ProgressBar::new_spinner(), "{spinner} {prefix} {human_pos} {elapsed} {msg}")
            }
        };
        // The templates above are constants and tested; a wrong one would only cost the looks.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(doing);
        Self { bar }
    }

    /// A line that is never shown: where results scroll over the same terminal.
    pub(crate) fn silent() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Shows that `done` is done.
    pub(crate) fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// After an entry, of this number, that leaves `done` done: shows it now and then.
    ///
    /// # Errors
    /// Ctrl-C, which it also looks for now and then.
    pub(crate) fn entry(&self, number: u64, done: u64) -> Result<(), Failure> {
        if number.is_multiple_of(STRIDE) {
            self.at(done);
            signals::check()?;
        }
        Ok(())
    }

    /// Shows that `done` of `total` is done, where the total may still change.
    pub(crate) fn at_of(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// A word beside the bar.
    pub(crate) fn message(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Prints a line above the bar, or plainly on standard error where there is none.
    pub(crate) fn warn(&self, message: &str) {
        self.bar.suspend(|| tell!("warning: {message}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_every_kind_can_be_drawn() {
        for unit in [Unit::Bytes, Unit::Items] {
            for total in [Some(10), None] {
                let progress = Progress::new("testing", unit, total);
                progress.at(5);
                assert_eq!(progress.bar.position(), 5);
                assert_eq!(progress.bar.length(), total);
            }
        }
    }
}
