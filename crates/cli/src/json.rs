//! Results as JSON: entries, and arrays that are written as they come.

use hedgerow::tree::{Count, Entry, TableInfo};
use serde_json::{Map, Value, json};

use crate::codec::{Format, FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::portable::jsonl::field;
use crate::tell::tell;

/// One entry as an object.
pub(crate) fn entry(entry: &Entry<'_>, formats: FormatArgs) -> Result<Value, Failure> {
    pair(&entry.key.to_cow(), &entry.value.to_cow(), formats)
}

/// A key and its value as an object.
pub(crate) fn pair(key: &[u8], value: &[u8], formats: FormatArgs) -> Result<Value, Failure> {
    let fields = [key_field(key, formats)?, value_field("value", value, formats)?];
    Ok(fields.into_iter().collect::<Map<_, _>>().into())
}

/// A key as a field of an object.
pub(crate) fn key_field(key: &[u8], formats: FormatArgs) -> Result<(String, Value), Failure> {
    field("key", key, formats.key()).map_err(|error| unshown("key", &error))
}

/// A value as a field of an object.
pub(crate) fn value_field(
    name: &str,
    value: &[u8],
    formats: FormatArgs,
) -> Result<(String, Value), Failure> {
    field(name, value, formats.value()).map_err(|error| unshown("value", &error))
}

/// Adds a key to a line of text.
pub(crate) fn add_key(key: &[u8], formats: FormatArgs, line: &mut Vec<u8>) -> Result<(), Failure> {
    formats.key().encode_to(key, line).map_err(|error| unshown("key", &error))
}

/// Adds a value to a line of text.
pub(crate) fn add_value(value: &[u8], format: Format, line: &mut Vec<u8>) -> Result<(), Failure> {
    format.encode_to(value, line).map_err(|error| unshown("value", &error))
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
            tell!("{if_not}");
        }
        Ok(())
    })?;
    Ok(if is_so { Exit::Done } else { Exit::No })
}

/// A list on standard output, written element by element: an array where JSON is wanted, else
/// lines.
pub(crate) struct List {
    pub(crate) out: Output,
    pub(crate) is_json: bool,
    has_elements: bool,
}

impl List {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { out: Output::stdout(), is_json, has_elements: false }
    }

    /// Writes an element of the array.
    pub(crate) fn push(&mut self, value: &Value) -> Result<(), Failure> {
        let before = if self.has_elements { "," } else { "[" };
        self.has_elements = true;
        write!(self.out, "{before}\n{value}")
    }

    /// Ends the output.
    pub(crate) fn finish(mut self) -> Result<Exit, Failure> {
        if self.is_json {
            self.out.bytes(if self.has_elements { b"\n]\n" } else { b"[]\n" })?;
        }
        self.out.finish()?;
        Ok(Exit::Done)
    }
}

/// Prints a list: each element as an object where JSON is wanted, else as a line.
pub(crate) fn list<T>(
    is_json: bool,
    all: &[T],
    object: impl Fn(&T) -> Value,
    line: impl Fn(&T) -> String,
) -> Result<Exit, Failure> {
    let mut list = List::new(is_json);
    for element in all {
        match is_json {
            true => list.push(&object(element))?,
            false => writeln!(list.out, "{}", line(element))?,
        }
    }
    list.finish()
}
