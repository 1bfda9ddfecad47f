//! Hostile files of the log-structured engine: bytes under a checksum are changed, the checksum is
//! made right again, and then every call is made. The outcome must be an answer or an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use hedgerow::Durability;
use hedgerow::Result;
use hedgerow::lsm::{Batch, Db, Diff, Keyspace, KeyspaceOptions, Readable};
use hedgerow::stream::Follow;

use super::format::{self, Piece};
use super::still;
use super::template::{self, PATH, SPACES, Template};
use crate::hostile::{CaseReport, last_panic};
use crate::rng::Rng;

/// At most this many pieces are changed.
const CHANGES_MAX: u32 = 3;

/// Sound stores, read once.
pub struct Hostile {
    template: Template,
    /// The pieces of each file.
    pieces: Vec<Vec<Piece>>,
}

impl Hostile {
    /// Makes the store.
    ///
    /// # Errors
    /// The engine's; there is no reason for any.
    pub fn new() -> Result<Self> {
        let template = Template::new()?;
        let files = template.files.iter();
        let pieces =
            files.map(|(path, bytes)| format::pieces(&template::name(path), bytes)).collect();
        Ok(Self { template, pieces })
    }

    /// Runs the case of a seed.
    ///
    /// # Errors
    /// If a file of the simulated disk cannot be changed.
    pub fn run_case(&self, seed: u64) -> std::io::Result<CaseReport> {
        let mut rng = Rng::new(seed, 51);
        let disk = self.template.disk();
        let mut files: Vec<(PathBuf, Vec<u8>)> = self.template.files.clone();
        let mut report = CaseReport { seed, ..CaseReport::default() };
        for _ in 0..rng.between(1, CHANGES_MAX as usize) {
            let at = rng.index(files.len());
            let (path, bytes) = &mut files[at];
            if self.pieces[at].is_empty() {
                continue;
            }
            let piece = &self.pieces[at][rng.index(self.pieces[at].len())];
            let change = change(piece, bytes, &mut rng);
            piece.seal(bytes);
            disk.edit(path, 0, bytes)?;
            report.changes.push(format!("{} of {}: {change}", piece.what, path.display()));
        }
        let calls = AssertUnwindSafe(|| {
            let mut calls = Calls { report: &mut report, rng };
            calls.all(&self.template, &disk);
        });
        if catch_unwind(calls).is_err() {
            report.panic = Some(last_panic());
        }
        Ok(report)
    }
}

/// Changes the content of a piece; returns how.
fn change(piece: &Piece, bytes: &mut [u8], rng: &mut Rng) -> String {
    let content = piece.content.clone();
    let at = content.start + rng.index(content.len());
    let width = rng.pick(&[1, 1, 2, 4, 8]).min(content.end - at);
    let number: u64 = match rng.index(5) {
        0 => 0,
        1 => u64::MAX,
        2 => rng.next_u64(),
        3 => 1 << rng.below(64),
        _ => {
            // Bytes from elsewhere in it.
            let from = content.start + rng.index(content.len() - width + 1);
            let copy = bytes[from..from + width].to_vec();
            bytes[at..at + width].copy_from_slice(&copy);
            return format!("{width} bytes from {from} at {at}");
        }
    };
    bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
    format!("{number:#x} in {width} bytes at {at}")
}

/// The calls of a case.
struct Calls<'r> {
    report: &'r mut CaseReport,
    rng: Rng,
}

impl Calls<'_> {
    fn count<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.report.done += 1;
                Some(value)
            }
            Err(error) => {
                self.report.refused += 1;
                // Its text is made without harm too.
                let _ = error.to_string();
                None
            }
        }
    }

    /// Reads without writing, and salvages.
    fn still(&mut self, disk: &hedgerow::os::sim::SimSystem) {
        let options = template::options(disk);
        if let Some(reader) = self.count(options.open_read_only(PATH)) {
            self.count(still::read(&reader));
            self.count(reader.check());
            self.count(reader.backup("/backup", &mut |_, _| {}));
        }
        self.count(still::salvage(&options, std::path::Path::new(PATH)));
    }

    fn all(&mut self, template: &Template, disk: &hedgerow::os::sim::SimSystem) {
        self.still(&disk.killed_copy());
        let Some(db) = self.count(template::options(disk).open(PATH)) else { return };
        for (name, _) in SPACES {
            let space = self.count(db.keyspace(name, KeyspaceOptions::default()));
            if let Some(space) = space {
                self.read(&db, &space, template);
                self.write(&db, &space);
                self.read(&db, &space, template);
            }
        }
        self.count(db.keyspaces());
        self.differ(&db);
        self.count(db.check());
        self.count(db.flush());
        self.count(db.compact());
        self.count(db.check());
        db.stat();
        self.count(db.close());
    }

    /// From each pinned commit to what there is, by the log and by tables.
    fn differ(&mut self, db: &Db) {
        let now = db.snapshot();
        for pin in db.pins() {
            let Some(old) = db.read_pin(&pin.name) else { continue };
            let changes = self.count(Diff::keyspaces(&old, &now)).unwrap_or_default();
            for change in changes {
                let Some(diff) = self.count(Diff::new(&old, &now, change.name())) else { continue };
                diff.for_each(|change| drop(self.count(change)));
            }
        }
        let Some(mut follow) = self.count(Follow::named(db, "before the tail")) else { return };
        let step = self.count(follow.step(Some(Duration::ZERO))).flatten();
        let Some(step) = step else { return };
        for change in self.count(step.tables()).unwrap_or_default() {
            let Some(diff) = self.count(step.changes(change.name())) else { continue };
            diff.for_each(|change| drop(self.count(change)));
        }
    }

    fn read(&mut self, db: &Db, space: &Keyspace, template: &Template) {
        for _ in 0..20 {
            let (_, key, _) = &template.expected[self.rng.index(template.expected.len())];
            self.count(db.get(space, key));
        }
        let most = 4 * template.expected.len();
        for backwards in [false, true] {
            let Some(mut range) = self.count(db.range(space, ..)) else { continue };
            for _ in 0..most {
                let entry = if backwards { range.next_back() } else { range.next() };
                let Some(entry) = entry else { break };
                self.count(entry);
            }
        }
        let Some(mut cursor) = self.count(db.cursor(space)) else { return };
        for step in 0..20 {
            let moved = match step % 3 {
                0 => cursor.seek_at_or_after(b"key/00060"),
                _ => cursor.prev(),
            };
            if let Some(Some(entry)) = self.count(moved) {
                self.count(entry.value());
            }
        }
    }

    fn write(&mut self, db: &Db, space: &Keyspace) {
        for number in 0..5 {
            let mut batch = Batch::new();
            let key = format!("key/{:05}", 20 * number);
            self.count(batch.put(space, key.as_bytes(), &[7; 100]));
            self.count(db.write_with(batch, Durability::Eventual));
        }
        self.count(db.delete_range(space, b"key/00070"..));
    }
}
