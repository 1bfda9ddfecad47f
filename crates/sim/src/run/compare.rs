//! What a disagreement is, and the comparisons that find one.

use std::fmt::Debug;

use hedgerow::Error;
use hedgerow::tree::{Bytes, Entry};

use crate::config::TableSpec;
use crate::model::Pair;

/// Engine and model answered differently; the text says to what, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The question, and both answers.
    pub text: String,
    /// The engine returned an error where none was due.
    pub is_error: bool,
}

impl From<Error> for Disagreement {
    fn from(error: Error) -> Self {
        Self { text: error.to_string(), is_error: true }
    }
}

impl From<String> for Disagreement {
    fn from(text: String) -> Self {
        Self { text, is_error: false }
    }
}

impl Disagreement {
    /// The same, with words before it.
    pub(crate) fn in_the(mut self, place: impl std::fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// What it is about, without the numbers and strings that differ from run to run: two
    /// disagreements of one kind most probably have one cause.
    pub fn kind(&self) -> String {
        let (about, _) = self.text.split_once(": the engine says").unwrap_or((&self.text, ""));
        about.chars().filter(|c| !c.is_ascii_digit()).take(80).collect()
    }
}

/// A result of a step.
pub type Outcome<T = ()> = Result<T, Disagreement>;

/// An error by its kind, as far as calls document it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Size,
    WrongTable,
    WrongTransaction,
    NotLast,
    NoTable,
    TableExists,
    TableOptions,
    Argument,
    Other,
}

impl Kind {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Size { .. } => Self::Size,
            Error::WrongTable { .. } => Self::WrongTable,
            Error::WrongTransaction => Self::WrongTransaction,
            Error::NotLast => Self::NotLast,
            Error::NoTable { .. } => Self::NoTable,
            Error::TableExists { .. } => Self::TableExists,
            Error::TableOptions { .. } => Self::TableOptions,
            Error::Argument { .. } => Self::Argument,
            _ => Self::Other,
        }
    }
}

/// A disagreement about `what`.
pub(super) fn differ<T>(what: &str, engine: impl Debug, model: impl Debug) -> Outcome<T> {
    let (engine, model) = (shortened(&engine), shortened(&model));
    Err(Disagreement::from(format!("{what}: the engine says {engine}, the model {model}")))
}

/// As for debugging, cut where a long value would fill the screen.
fn shortened(answer: &impl Debug) -> String {
    let mut text = format!("{answer:?}");
    if let Some((cut, _)) = text.char_indices().nth(400) {
        text.truncate(cut);
        text.push_str(" ...");
    }
    text
}

/// The result of a call that must succeed.
pub(super) fn ok<T>(what: &str, result: hedgerow::Result<T>) -> Outcome<T> {
    result.map_err(|e| Disagreement { text: format!("{what} failed: {e} ({e:?})"), is_error: true })
}

/// A call that must be refused with an error of the given kind.
pub(super) fn refused<T>(what: &str, result: hedgerow::Result<T>, kind: Kind) -> Outcome {
    match result {
        Err(error) if Kind::of(&error) == kind => Ok(()),
        Err(error) if Kind::of(&error) == Kind::Other => ok(what, Err(error)),
        Err(error) => differ(what, error, kind),
        Ok(_) => differ(what, "success", kind),
    }
}

/// Two answers that must be equal.
pub(super) fn same<T: PartialEq + Debug>(what: &str, engine: T, model: T) -> Outcome {
    if engine == model { Ok(()) } else { differ(what, engine, model) }
}

/// A value, or none, that must be the model's.
pub(super) fn same_value(
    what: &str,
    spec: &TableSpec,
    engine: Option<Bytes<'_>>,
    model: Option<u32>,
) -> Outcome {
    let expected = model.map(|v| spec.values.get(v));
    let equal = match (&engine, expected) {
        (Some(engine), Some(expected)) => engine == expected,
        (None, None) => true,
        _ => false,
    };
    if equal { Ok(()) } else { differ(what, engine, expected.map(Bytes::from)) }
}

/// An entry, or none, that must be the model's.
pub(super) fn same_entry(
    what: &str,
    spec: &TableSpec,
    engine: hedgerow::Result<Option<Entry<'_>>>,
    model: Option<Pair>,
) -> Outcome {
    let engine = ok(what, engine)?;
    let equal = match (&engine, model) {
        (None, None) => true,
        (Some(entry), Some(pair)) => {
            let is_kept = !spec.whole || [entry.key, entry.value].iter().all(is_whole);
            is_kept
                && entry.key == *spec.keys.get(pair.key)
                && entry.value == *spec.values.get(pair.value)
        }
        _ => false,
    };
    if equal {
        return Ok(());
    }
    let short = |bytes: &[u8]| {
        let cut = bytes.len().min(60);
        format!("\"{}\" of {} bytes", bytes[..cut].escape_ascii(), bytes.len())
    };
    let engine = engine.map(|e| (short(&e.key.to_vec()), short(&e.value.to_vec())));
    let expected = model.map(|p| (p, short(spec.keys.get(p.key)), short(spec.values.get(p.value))));
    differ(what, engine, expected)
}

/// Whether a string stands in one piece.
fn is_whole(string: &Bytes<'_>) -> bool {
    string.as_slice().is_some()
}
