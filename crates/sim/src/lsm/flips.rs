//! Single bits that flip in each kind of file of the log-structured engine, and files that are cut.
//!
//! Opening, reading or `check` must report each of them by the name of the file. What can still be
//! read must be unchanged, and a flipped bit in a value must not affect another value. Only at the
//! end of the log, damage looks like a write that was torn by a loss of power: there the last
//! commits may be missing, from some commit on.

use std::path::Path;

use hedgerow::lsm::{Db, KeyspaceOptions, Readable};
use hedgerow::os::sim::SimSystem;
use hedgerow::os::{Open, System as _};
use hedgerow::{Error, Result};

use super::template::{self, PATH, SPACES, Template};
use super::{format, still};
use crate::job::caught;
use crate::rng::Rng;

/// What came of the damage.
#[derive(Debug, Default)]
pub struct FlipReport {
    /// Bits flipped.
    pub flips: u64,
    /// Files cut.
    pub cuts: u64,
    /// Damage that was reported.
    pub told: u64,
    /// Damage that looked like a torn write: the last commits were missing.
    pub torn: u64,
    /// Damage that took nothing: a record of the manifest that says what the log says too, pending
    /// groups that the log has.
    pub harmless: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

/// What opening and reading the store tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Told,
    Torn,
    Nothing,
}

/// Flips bits of a store, one at a time, and cuts a file for every fourth of them.
///
/// # Errors
/// The engine's, while the store is made.
pub fn run(seed: u64, flips: u64) -> Result<FlipReport> {
    let template = Template::new()?;
    let mut rng = Rng::new(seed, 50);
    let mut report = FlipReport::default();
    for flip in 0..flips {
        flip_one(&template, &mut rng, &mut report);
        if flip % 4 == 0 {
            cut_one(&template, &mut rng, &mut report);
        }
    }
    Ok(report)
}

fn flip_one(template: &Template, rng: &mut Rng, report: &mut FlipReport) {
    let (path, bytes) = &template.files[rng.index(template.files.len())];
    let (at, bit) = (rng.index(bytes.len()), rng.below(8));
    let pieces = format::pieces(&template::name(path), bytes);
    let piece = pieces.iter().rposition(|piece| piece.start() <= at);
    let is_last = piece.is_none_or(|piece| piece + 1 == pieces.len());
    let what = piece.map_or("file", |piece| pieces[piece].what);
    let disk = template.disk();
    report.flips += 1;
    let place = format!("bit {bit} of byte {at} of {} ({what})", path.display());
    if let Err(error) = disk.edit(path, at as u64, &[bytes[at] ^ 1 << bit]) {
        report.violations.push(format!("{place}: {error}"));
        return;
    }
    // The last record of a manifest may be torn: its edits are then missing.
    let may_lose_edit = what == "record of the manifest" && is_last;
    let salvage_max = match what {
        "data block" => None,
        // What deleted ranges of keys is lost: so they are back.
        "range tombstones" => Some(40),
        // What lies just before a list is a group.
        "group" | "list of moved values" => Some(1),
        _ if template::is_pending(path) => None,
        _ => Some(0),
    };
    let damage = Damage { path, may_lose_edit, takes_one: what == "group", salvage_max };
    damage.judge(template, &disk, place, report);
}

fn cut_one(template: &Template, rng: &mut Rng, report: &mut FlipReport) {
    let (path, bytes) = &template.files[rng.index(template.files.len())];
    let len = rng.index(bytes.len());
    let disk = template.disk();
    report.cuts += 1;
    let place = format!("{} cut to {len} of {} bytes", path.display(), bytes.len());
    let file = disk.open_data(path, Open::Write, 0);
    if let Err(error) = file.and_then(|file| file.set_len(len as u64)) {
        report.violations.push(format!("{place}: {error}"));
        return;
    }
    let may_lose_edit = template::name(path) == "MANIFEST";
    let damage = Damage { path, may_lose_edit, takes_one: false, salvage_max: None };
    damage.judge(template, &disk, place, report);
}

/// What was done, and what may come of it.
struct Damage<'d> {
    path: &'d Path,
    /// Whether the store may be that of an older manifest: files that it names may be gone.
    may_lose_edit: bool,
    /// Whether at most one key may be lost.
    takes_one: bool,
    /// The most that salvage may lose.
    salvage_max: Option<usize>,
}

impl Damage<'_> {
    fn judge(&self, template: &Template, disk: &SimSystem, place: String, report: &mut FlipReport) {
        let still = disk.killed_copy();
        if let Err(d) = caught(|| self.salvage(template, &still).map_err(Into::into)) {
            report.violations.push(format!("{place}, salvaged: {}", d.text));
        }
        let looked = caught(|| self.look(template, disk).map_err(Into::into));
        let may_be_torn = template::ends_the_log(self.path) || self.may_lose_edit;
        let may_be_harmless = template::is_pending(self.path) || self.may_lose_edit;
        match looked {
            Ok(Seen::Told) => report.told += 1,
            Ok(Seen::Torn) if may_be_torn => report.torn += 1,
            Ok(Seen::Nothing) if may_be_harmless => report.harmless += 1,
            Ok(seen) => report.violations.push(format!("{place}: {seen:?}")),
            Err(disagreement) => report.violations.push(format!("{place}: {}", disagreement.text)),
        }
    }

    /// Reads the store without writing to it, and salvages it: undamaged entries must be there with
    /// their values, and missing ones must be reported.
    fn salvage(&self, template: &Template, disk: &SimSystem) -> std::result::Result<(), String> {
        let before = still::files(disk, Path::new(PATH));
        let options = template::options(disk);
        if let Err(error) = options.open_read_only(PATH).and_then(|reader| still::read(&reader)) {
            self.named(&error)?;
        }
        let saved = still::salvage(&options, Path::new(PATH));
        let (report, found) = saved.map_err(|error| format!("salvage: {error}"))?;
        if still::files(disk, Path::new(PATH)) != before {
            return Err("a reader or salvage has written to the store".to_owned());
        }
        // A keyspace whose record was lost has another name.
        let value = |space: usize, key: &[u8]| {
            let other = format!("salvaged-{}", space + 1);
            let names = [SPACES[space].0.as_bytes(), other.as_bytes()];
            names.iter().find_map(|name| found.get(&(name.to_vec(), key.to_vec())))
        };
        let differs =
            |(space, key, expected): &&template::Expected| value(*space, key) != expected.as_ref();
        let count = template.expected.iter().filter(differs).count();
        let tail = template.tail.iter().filter(|(key, expected)| value(0, key) != Some(expected));
        let (tail, is_told) =
            (tail.count(), report.losses.iter().any(|loss| loss.path == self.path));
        let may_be_silent = template::is_pending(self.path);
        if count + tail > 0 && !is_told && !(may_be_silent && count == 0) {
            return Err(format!(
                "{count} keys and {tail} commits are not what they were: {report:?}"
            ));
        }
        let most = self.salvage_max.unwrap_or(template.expected.len());
        match count + tail > most {
            true => Err(format!("{count} keys and {tail} commits were left behind: {report:?}")),
            false => Ok(()),
        }
    }

    /// Opens and reads everything.
    fn look(&self, template: &Template, disk: &SimSystem) -> std::result::Result<Seen, String> {
        let db = match template::options(disk).open(PATH) {
            Ok(db) => db,
            Err(error) => return self.named(&error).map(|()| Seen::Told),
        };
        let mut lost = 0;
        let mut spaces = Vec::new();
        for (name, _) in SPACES {
            match db.keyspace(name, KeyspaceOptions::default()) {
                Ok(space) => spaces.push(space),
                Err(error) => return self.named(&error).map(|()| Seen::Told),
            }
        }
        for (space, key, expected) in &template.expected {
            match db.get(&spaces[*space], key) {
                Ok(found) if found == *expected => {}
                Ok(found) => {
                    let key = key.escape_ascii();
                    return Err(format!("{key} has {found:?} and not {expected:?}"));
                }
                Err(error) => {
                    self.named(&error)?;
                    lost += 1;
                }
            }
        }
        let there = self.tail(template, &db, &spaces[0])?;
        if lost == template.expected.len() || self.takes_one && lost > 1 {
            return Err(format!("{lost} of {} keys are lost", template.expected.len()));
        }
        let is_told = self.check(&db)? || lost > 0;
        let is_torn = there < template.tail.len();
        Ok(if is_told {
            Seen::Told
        } else if is_torn {
            Seen::Torn
        } else {
            Seen::Nothing
        })
    }

    /// How many of the last commits are there: from some one on all are missing.
    fn tail(
        &self,
        template: &Template,
        db: &Db,
        space: &hedgerow::lsm::Keyspace,
    ) -> std::result::Result<usize, String> {
        let mut there = 0;
        for (at, (key, value)) in template.tail.iter().enumerate() {
            match db.get(space, key) {
                Ok(None) => {}
                Ok(Some(found)) if found == *value && there == at => there += 1,
                Ok(Some(_)) => return Err(format!("commit {at} is there after {there}")),
                Err(error) => {
                    self.named(&error)?;
                    there += 1;
                }
            }
        }
        Ok(there)
    }

    /// Whether `check` reports damage.
    fn check(&self, db: &Db) -> std::result::Result<bool, String> {
        match db.check() {
            Ok(report) => {
                report.damage.iter().try_for_each(|error| self.named(error))?;
                Ok(!report.is_sound())
            }
            Err(error) => self.named(&error).map(|()| true),
        }
    }

    /// Whether an error names the file.
    fn named(&self, error: &Error) -> std::result::Result<(), String> {
        let text = error.to_string();
        let is_damage = matches!(error, Error::Corrupt { .. } | Error::NotAStore { .. });
        let names = |path: &Path| text.contains(&*path.to_string_lossy());
        match is_damage && names(self.path) || self.may_lose_edit && names(Path::new(PATH)) {
            true => Ok(()),
            false => Err(format!("told otherwise: {text}")),
        }
    }
}
