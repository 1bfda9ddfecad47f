//! Compares what a reader and `salvage` read from a store of the log-structured engine, without
//! writing to it, with what opening it gives. Both leave every file as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hedgerow::lsm::{Options, Readable, Reader, SalvageReport};
use hedgerow::os::sim::SimSystem;
use hedgerow::{Error, Result};

/// Where a salvaged store is put.
const NEW: &str = "/salvaged";

/// The entries of all keyspaces.
pub type State = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// Everything that a reader sees.
///
/// # Errors
/// The engine's.
pub fn read(reader: &Reader) -> Result<State> {
    let mut state = State::new();
    for name in reader.keyspaces()? {
        let Some(space) = reader.find_keyspace(&name)? else { continue };
        for entry in reader.range(&space, ..)? {
            let (key, value) = entry?;
            state.insert((name.clone(), key), value);
        }
    }
    Ok(state)
}

/// Everything that salvage copies, and its report.
///
/// # Errors
/// If salvage fails, or the store that it made is not sound.
pub fn salvage(options: &Options, path: &Path) -> Result<(SalvageReport, State)> {
    let report = options.salvage(path, NEW, &mut |_, _| Ok(()))?;
    let reader = options.open_read_only(NEW)?;
    if let Some(damage) = reader.check()?.damage.pop() {
        return Err(damage);
    }
    Ok((report, read(&reader)?))
}

/// The files of a store, which must not change.
pub fn files(disk: &SimSystem, path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let inside = disk.files().into_iter().filter(|file| file.starts_with(path));
    inside.filter_map(|file| disk.content(&file).ok().map(|bytes| (file, bytes))).collect()
}

/// A reader sees the same as an opener, and so does salvage if it reports no loss.
///
/// # Errors
/// In words, if they do not agree.
pub fn agree(
    disk: &SimSystem,
    path: &Path,
    options: impl Fn(&SimSystem) -> Options,
) -> std::result::Result<(), String> {
    let still = disk.killed_copy();
    let before = files(&still, path);
    let seen = options(&still).open_read_only(path).and_then(|reader| read(&reader));
    let saved = salvage(&options(&still), path);
    if files(&still, path) != before {
        return Err("a reader or salvage has written to the store".to_owned());
    }
    let other = disk.killed_copy();
    let opened = options(&other).open(path).and_then(hedgerow::lsm::Db::close);
    let opened = opened.and_then(|()| options(&other).open_read_only(path));
    match (opened.and_then(|reader| read(&reader)), seen) {
        (Ok(opened), Ok(seen)) if opened != seen => {
            Err("a reader sees something else than an opener".to_owned())
        }
        (Ok(opened), Ok(_)) => match saved {
            Ok((report, found)) if report.losses.is_empty() && found != opened => {
                Err("salvage loses something without a word".to_owned())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("salvage: {error}")),
        },
        // Nothing was made yet.
        (Ok(_), Err(Error::Path { .. })) => Ok(()),
        (opened, seen) => {
            let text = |result: Result<State>| result.err().map(|error| error.to_string());
            Err(format!("an opener says {:?}, a reader {:?}", text(opened), text(seen)))
        }
    }
}
