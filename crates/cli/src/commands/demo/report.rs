//! The demo's answers as a table for people and as one JSON object.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::index::{FILES, Indexed};
use super::questions::Answer;
use crate::exit::Failure;
use crate::json;
use crate::numbers::{grouped, time, time_as};
use crate::output::Output;

/// Longer questions and answers are cut in the table.
const COLUMN_MAX: usize = 44;
/// At most this much of their beginning is kept then; the rest of the room goes to the end, which
/// says more of a path.
const BEGINNING_MAX: usize = 8;

/// What the demo found.
pub(super) struct Report<'a> {
    pub(super) folder: &'a Path,
    pub(super) kept: Option<&'a Path>,
    pub(super) indexed: &'a Indexed,
    pub(super) index_time: Duration,
    pub(super) answers: &'a [Answer],
}

impl Report<'_> {
    /// How many answers differ from their walk.
    pub(super) fn disagreements(&self) -> usize {
        self.answers.iter().filter(|answer| !answer.agree).count()
    }

    /// One object.
    pub(super) fn json(&self, out: &mut Output) -> Result<(), Failure> {
        let answers: Vec<Value> = self
            .answers
            .iter()
            .map(|answer| {
                json!({
                    "name": answer.name,
                    "value": answer.value,
                    "fast_ns": nanoseconds(answer.fast),
                    "slow_ns": nanoseconds(answer.slow),
                    "agree": answer.agree,
                })
            })
            .collect();
        let report = json!({
            "folder": self.folder.to_string_lossy(),
            "store": self.kept.map(Path::to_string_lossy),
            "files": self.indexed.files,
            "warnings": self.indexed.warnings,
            "index_ns": nanoseconds(self.index_time),
            "disagreements": self.disagreements(),
            "answers": answers,
        });
        json::print(out, &report)
    }

    /// A table.
    pub(super) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let (files, folder) = (grouped(self.indexed.files), self.folder.display());
        writeln!(out, "{files} files under {folder} indexed in {}\n", time(self.index_time))?;
        let cut = |text: &str| cut_middle(text, COLUMN_MAX);
        let width = |column: &dyn Fn(&Answer) -> String| {
            let widths = self.answers.iter().map(|answer| column(answer).chars().count());
            widths.max().unwrap_or(0)
        };
        let names = width(&|answer| cut(&answer.name));
        let texts = width(&|answer| short(answer));
        let heads = ["counted", "walked"];
        let longest = |time: &dyn Fn(&Answer) -> Duration| {
            self.answers.iter().map(time).max().unwrap_or_default()
        };
        let (fast_max, slow_max) = (longest(&|answer| answer.fast), longest(&|answer| answer.slow));
        writeln!(
            out,
            "{:names$}  {:texts$}  {:>10}  {:>10}  faster by",
            "question", "answer", heads[0], heads[1]
        )?;
        for answer in self.answers {
            let (name, text) = (cut(&answer.name), short(answer));
            let (fast, slow) = (time_as(answer.fast, fast_max), time_as(answer.slow, slow_max));
            let verdict = if answer.agree { "" } else { "  DIFFERS" };
            let times = faster_by(answer.fast, answer.slow);
            writeln!(
                out,
                "{name:names$}  {text:texts$}  {fast:>10}  {slow:>10}  {times:>9}{verdict}"
            )?;
        }
        self.print_lists(out)?;
        match self.disagreements() {
            0 => writeln!(out, "\nAll {} answers agree.", self.answers.len())?,
            some => writeln!(out, "\n{some} of {} answers differ!", self.answers.len())?,
        }
        if let Some(kept) = self.kept {
            let store = kept.display();
            writeln!(out, "The store is kept. Go on with: hedgerow scan {store} -t {FILES} -n 5")?;
        }
        Ok(())
    }

    /// Answers that do not fit into the table.
    fn print_lists(&self, out: &mut Output) -> Result<(), Failure> {
        for answer in self.answers.iter().filter(|answer| answer.value.is_array()) {
            writeln!(out, "\n{}:\n  {}", answer.name, answer.text)?;
        }
        Ok(())
    }
}

/// How many times faster, if it is.
fn faster_by(fast: Duration, slow: Duration) -> String {
    let times = slow.as_secs_f64() / fast.as_secs_f64().max(1e-9);
    if times < 1.5 { "-".to_owned() } else { grouped(times.round() as u64) }
}

/// An answer that fits into the table.
fn short(answer: &Answer) -> String {
    if answer.value.is_array() { "(below)".into() } else { cut_middle(&answer.text, COLUMN_MAX) }
}

/// At most `max` characters: the first few and the last ones.
fn cut_middle(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(BEGINNING_MAX).collect();
    let tail: String = text.chars().skip(length + BEGINNING_MAX + 3 - max).collect();
    format!("{head}...{tail}")
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_faster_is_not_praised() {
        let time = Duration::from_micros;
        assert_eq!(faster_by(time(10), time(10)), "-");
        assert_eq!(faster_by(time(10), time(3)), "-");
        assert_eq!(faster_by(time(1), time(2_000)), "2,000");
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(cut_middle("rank of a", 9), "rank of a");
        let cut = cut_middle("rank of /usr/share/doc/long/README", 18);
        assert_eq!(cut, "rank of .../README");
    }
}
