//! The questions of the demo, each answered twice: by the counters, and by walking with a cursor as
//! a store without counters has to.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hedgerow::key::prefix;
use hedgerow::tree::{Entry, ReadTxn, Snapshot, Store, Table};
use serde_json::{Value, json};

use super::index::{EXTENSIONS, FILES, Indexed};
use crate::codec::shown;
use crate::exit::Failure;
use crate::numbers::grouped;

/// This many folders are counted.
const FOLDERS: usize = 3;
/// At most this many extensions are listed.
const EXTENSIONS_LISTED: usize = 10;
/// This many samples are drawn.
const SAMPLES: usize = 1_000;

/// A question and both of its answers.
pub(super) struct Answer {
    /// The question.
    pub(super) name: String,
    /// The answer for a person.
    pub(super) text: String,
    /// The answer for a program.
    pub(super) value: Value,
    /// How long the counters took.
    pub(super) fast: Duration,
    /// How long the walk took.
    pub(super) slow: Duration,
    /// Whether both found the same.
    pub(super) agree: bool,
}

/// Asks everything.
pub(super) fn ask(store: &Store, indexed: &Indexed) -> Result<Vec<Answer>, Failure> {
    let txn = store.begin_read()?;
    let asker = Asker { files: txn.table(FILES)?, extensions: txn.table(EXTENSIONS)?, txn };
    let mut answers = vec![asker.all()?];
    let mut folders: Vec<(&Vec<u8>, &u64)> = indexed.folders.iter().collect();
    folders.sort_by_key(|(_, files)| std::cmp::Reverse(**files));
    for (folder, _) in folders.into_iter().take(FOLDERS) {
        answers.push(asker.under(folder)?);
    }
    answers.push(asker.distinct_extensions()?);
    answers.push(asker.middle(indexed.files / 2)?);
    if indexed.files > 0 {
        answers.push(asker.rank(indexed.files / 3 * 2)?);
    }
    answers.push(asker.samples()?);
    answers.push(asker.most_frequent()?);
    answers.push(asker.bytes(indexed, u64::from(store.page_size()))?);
    Ok(answers)
}

struct Asker {
    txn: ReadTxn,
    files: Table,
    extensions: Table,
}

impl Asker {
    fn all(&self) -> Result<Answer, Failure> {
        let fast = || Ok(self.txn.count(self.files)?.values);
        let slow = || {
            let mut files = 0;
            self.walk(self.files, |_, _| {
                files += 1;
                true
            })?;
            Ok(files)
        };
        pair("files", fast, slow, number)
    }

    fn under(&self, folder: &[u8]) -> Result<Answer, Failure> {
        let fast = || Ok(self.txn.count_range(self.files, prefix(folder))?.values);
        let slow = || {
            let mut cursor = self.txn.cursor(self.files)?;
            let mut entry = cursor.seek_at_or_after(&self.txn, folder)?;
            let mut files = 0;
            while entry.is_some_and(|entry| entry.key.starts_with(folder)) {
                files += 1;
                entry = cursor.next(&self.txn)?;
            }
            Ok(files)
        };
        let name = format!("files under {}", shown(folder));
        pair(&name, fast, slow, number)
    }

    fn distinct_extensions(&self) -> Result<Answer, Failure> {
        let fast = || Ok(self.txn.count(self.extensions)?.keys);
        let slow = || {
            let mut cursor = self.txn.cursor(self.extensions)?;
            let mut entry = cursor.first(&self.txn)?;
            let mut extensions = 0;
            while entry.is_some() {
                extensions += 1;
                entry = cursor.next_key(&self.txn)?;
            }
            Ok(extensions)
        };
        pair("distinct extensions", fast, slow, number)
    }

    fn middle(&self, position: u64) -> Result<Answer, Failure> {
        let fast = || Ok(self.txn.nth(self.files, position)?.map(|entry| entry.key.to_vec()));
        let slow = || {
            let mut found = None;
            self.walk(self.files, |at, entry| {
                found = (at == position).then(|| entry.key.to_vec());
                found.is_none()
            })?;
            Ok(found)
        };
        let name = format!("file at rank {}", grouped(position));
        pair(&name, fast, slow, |path| match path {
            Some(path) => text(shown(path)),
            None => ("none".into(), Value::Null),
        })
    }

    fn rank(&self, position: u64) -> Result<Answer, Failure> {
        let entry = self.txn.nth(self.files, position)?;
        let path = entry.map(|entry| entry.key.to_vec()).unwrap_or_default();
        let fast = || Ok(self.txn.rank(self.files, &path)?.values);
        let slow = || {
            let mut before = 0;
            self.walk(self.files, |at, entry| {
                before = at;
                entry.key.cmp_slice(&path).is_lt()
            })?;
            Ok(before)
        };
        let name = format!("rank of {}", shown(&path));
        pair(&name, fast, slow, number)
    }

    fn samples(&self) -> Result<Answer, Failure> {
        let fast = || {
            let entries = self.txn.sample(self.files, SAMPLES)?;
            Ok(entries.iter().map(|entry| entry.key.to_vec()).collect::<Vec<_>>())
        };
        let slow = || {
            // Without counters the number of entries takes a walk of its own.
            let mut total = 0;
            self.walk(self.files, |_, _| {
                total += 1;
                true
            })?;
            let mut samples = Vec::new();
            let mut next = even_position(0, total);
            self.walk(self.files, |at, entry| {
                if Some(at) == next {
                    samples.push(entry.key.to_vec());
                    next = even_position(samples.len() as u64, total);
                }
                next.is_some()
            })?;
            Ok(samples)
        };
        let name = format!("{} samples at even distances", grouped(SAMPLES as u64));
        pair(&name, fast, slow, |samples| {
            let end = |path: Option<&Vec<u8>>| path.map(|path| shown(path));
            let (first, last) = (end(samples.first()), end(samples.last()));
            let value = json!({ "samples": samples.len(), "first": first, "last": last });
            (format!("{} paths", grouped(samples.len() as u64)), value)
        })
    }

    fn most_frequent(&self) -> Result<Answer, Failure> {
        let fast = || {
            let mut cursor = self.txn.cursor(self.extensions)?;
            let mut entry = cursor.first(&self.txn)?;
            let mut counts = Vec::new();
            while let Some(found) = entry {
                counts.push((found.key.to_vec(), cursor.value_count(&self.txn)?));
                entry = cursor.next_key(&self.txn)?;
            }
            Ok(largest(counts))
        };
        let slow = || {
            let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            self.walk(self.extensions, |_, entry| {
                match counts.get_mut(&*entry.key.to_cow()) {
                    Some(files) => *files += 1,
                    None => {
                        counts.insert(entry.key.to_vec(), 1);
                    }
                }
                true
            })?;
            Ok(largest(counts.into_iter().collect()))
        };
        let name = format!("the {EXTENSIONS_LISTED} most frequent extensions");
        pair(&name, fast, slow, |counts| {
            let words = counts
                .iter()
                .map(|(extension, files)| format!("{} {}", shown(extension), grouped(*files)));
            let value = counts
                .iter()
                .map(|(extension, files)| json!({ "extension": shown(extension), "files": files }));
            (words.collect::<Vec<_>>().join(", "), value.collect())
        })
    }

    /// What must agree is the number of bytes of all paths and records; what is shown is how many
    /// of them a file takes in the pages, where shared prefixes are stored once.
    fn bytes(&self, indexed: &Indexed, page_size: u64) -> Result<Answer, Failure> {
        let pages = Cell::new(0);
        let fast = || {
            let stat = self.txn.table_stat(self.files)?;
            pages.set(stat.leaf_pages + stat.branch_pages + stat.overflow_pages);
            Ok(indexed.entry_bytes)
        };
        let slow = || {
            let mut bytes = 0;
            self.walk(self.files, |_, entry| {
                bytes += (entry.key.len() + entry.value.len()) as u64;
                true
            })?;
            Ok(bytes)
        };
        let per_file = |bytes: u64| bytes as f64 / indexed.files.max(1) as f64;
        pair("bytes per file, prefixes shared and not", fast, slow, |&bytes| {
            let pages_bytes = pages.get() * page_size;
            let (shared, plain) = (per_file(pages_bytes), per_file(bytes));
            let value = json!({
                "shared_prefixes": shared,
                "without": plain,
                "pages_bytes": pages_bytes,
                "entry_bytes": bytes,
            });
            (format!("{shared:.1} in pages, {plain:.1} bare"), value)
        })
    }

    /// Calls `visit` with the position and the entry until it says no.
    fn walk(
        &self,
        table: Table,
        mut visit: impl FnMut(u64, &Entry<'_>) -> bool,
    ) -> Result<(), Failure> {
        let mut cursor = self.txn.cursor(table)?;
        let mut at = 0;
        while let Some(entry) = cursor.next(&self.txn)? {
            if !visit(at, &entry) {
                break;
            }
            at += 1;
        }
        Ok(())
    }
}

/// Where the `index`-th of the samples stands among `total` entries.
fn even_position(index: u64, total: u64) -> Option<u64> {
    let samples = (SAMPLES as u64).min(total);
    let position = u128::from(index) * u128::from(total) / u128::from(samples.max(1));
    (index < samples).then_some(position as u64)
}

/// The most frequent first; of the same frequency in order.
fn largest(mut counts: Vec<(Vec<u8>, u64)>) -> Vec<(Vec<u8>, u64)> {
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(EXTENSIONS_LISTED);
    counts
}

/// Answers a question both ways with the clock running.
fn pair<T: PartialEq>(
    name: &str,
    fast: impl FnOnce() -> Result<T, Failure>,
    slow: impl FnOnce() -> Result<T, Failure>,
    show: impl FnOnce(&T) -> (String, Value),
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let quick = fast()?;
    let fast = begun.elapsed();
    let begun = Instant::now();
    let walked = slow()?;
    let slow = begun.elapsed();
    let agree = quick == walked;
    let (text, value) = show(&quick);
    Ok(Answer { name: name.to_owned(), text, value, fast, slow, agree })
}

fn number(number: &u64) -> (String, Value) {
    (grouped(*number), (*number).into())
}

fn text(text: String) -> (String, Value) {
    (text.clone(), text.into())
}
