//! Results as JSON: entries, and arrays that are written as they come.

use hedgerow::tree::{Count, Entry, TableInfo};
use serde_json::{Map, Value, json};

use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::portable::jsonl::field;

/// One entry as an object.
pub(crate) fn entry(entry: &Entry<'_>, formats: FormatArgs) -> Result<Value, Failure> {
    pair(&entry.key.to_cow(), &entry.value.to_cow(), formats)
}

/// A key and its value as an object.
pub(crate) fn pair(key: &[u8], value: &[u8], formats: FormatArgs) -> Result<Value, Failure> {
    let key = field("key", key, formats.key()).map_err(|error| unshown("key", &error))?;
    let value = field("value", value, formats.value()).map_err(|error| unshown("value", &error))?;
    Ok([key, value].into_iter().collect::<Map<_, _>>().into())
}

/// A key alone.
pub(crate) fn key(key: &[u8], formats: FormatArgs) -> Result<Value, Failure> {
    let key = field("key", key, formats.key()).map_err(|error| unshown("key", &error))?;
    Ok([key].into_iter().collect::<Map<_, _>>().into())
}

/// A key or value that its format cannot show.
pub(crate) fn unshown(what: &str, reason: &str) -> Failure {
    Failure::other(format!("a {what} cannot be shown in the format that was asked for: {reason}"))
}

/// A table's name, options and size.
pub(crate) fn table(info: &TableInfo) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("name".into(), shown(&info.name).into());
    map.insert("keys".into(), info.count.keys.into());
    map.insert("values".into(), info.count.values.into());
    map.insert("order".into(), info.order.clone().into());
    map.insert("duplicates".into(), info.duplicates.into());
    map.insert("value_size".into(), info.value_size.into());
    map.insert("value_order".into(), info.value_order.clone().into());
    map.insert("prefix_compression".into(), info.prefix_compression.into());
    map.insert("user_flags".into(), info.user_flags.into());
    map
}

/// A count.
pub(crate) fn count(count: Count) -> Value {
    json!({ "keys": count.keys, "values": count.values })
}

/// Writes one value on a line of its own.
pub(crate) fn print(out: &mut Output, value: &Value) -> Result<(), Failure> {
    writeln!(out, "{value}")
}

/// Prints an answer to standard output: the value where JSON is wanted, else in words.
pub(crate) fn answer(
    json: bool,
    value: impl Into<Value>,
    words: impl FnOnce(&mut Output) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut out = Output::stdout();
    match json {
        true => print(&mut out, &value.into())?,
        false => words(&mut out)?,
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// Says whether something was so. Without JSON that takes words only if it was not.
pub(crate) fn outcome(
    json: bool,
    value: Value,
    is_so: bool,
    if_not: &str,
) -> Result<Exit, Failure> {
    answer(json, value, |_| {
        if !is_so {
            eprintln!("{if_not}");
        }
        Ok(())
    })?;
    Ok(if is_so { Exit::Done } else { Exit::No })
}

/// An array that is written element by element.
#[derive(Default)]
pub(crate) struct Array {
    begun: bool,
}

impl Array {
    /// Writes one element.
    pub(crate) fn push(&mut self, out: &mut Output, value: &Value) -> Result<(), Failure> {
        let before = if self.begun { "," } else { "[" };
        self.begun = true;
        write!(out, "{before}\n{value}")
    }

    /// Writes the end.
    pub(crate) fn end(self, out: &mut Output) -> Result<(), Failure> {
        out.bytes(if self.begun { b"\n]\n" } else { b"[]\n" })
    }
}
