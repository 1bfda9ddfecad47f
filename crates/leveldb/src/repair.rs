//! Repair: what can be read of a database is brought over to new files, which take the place of the
//! old ones.
//!
//! The new files are made in a folder beside the old ones. Once they are whole and durable, the old
//! ones are renamed into a second folder and the new ones to their place. If the repair is cut off
//! between these two renamings, the next opening or repair does the second ([`settle`]). The old
//! files stay where something of them was lost, until the next repair puts others there.

use std::fs;
use std::io;
use std::path::Path;

use crate::db::{create, current, log_in};
use crate::engine;
use crate::folder::{self, LOCK, LSM, REPLACED, SALVAGED, TREE};
use crate::folder::{create_folder, remove, remove_folder, sync};
use crate::lock::FileLock;
use crate::options::{Kind, Options};
use crate::status::{Result, Status};

/// Brings what can be read over to new files, and makes `CURRENT` anew. Where there is nothing, an
/// empty database is made.
///
/// # Errors
/// If the database is open, of LevelDB or of another comparator: nothing has changed then. If the
/// system refuses: it can be opened, or repaired again.
pub(crate) fn repair(name: &[u8], options: &Options) -> Result<()> {
    let folder = folder::path_of(name)?;
    // What is wrong shows when the lock is taken.
    let _ = folder::create_folder(&folder);
    let _lock = FileLock::take(&folder.join(LOCK))?;
    settle(&folder)?;
    if folder::is_unmade(&folder) {
        // This removes what was begun, as an opening does.
        folder::content(&folder)?;
    }
    let Some(kind) = folder::engine_of(&folder)? else {
        return create(&folder, options).map(drop);
    };
    let io = |error: io::Error| Status::io(&folder, &error);
    let salvaged = folder.join(SALVAGED);
    remove_folder(&salvaged).and_then(|()| create_folder(&salvaged)).map_err(io)?;
    let losses = engine::salvage(kind, &folder, &salvaged, options).inspect_err(|_| {
        // The caller gets the error; half a copy is of no use.
        let _ = remove_folder(&salvaged);
    })?;
    replace(&folder, main_of(kind)).map_err(io)?;
    current(kind, &options.comparator).replace(&folder)?;
    if losses.is_empty() {
        remove_folder(&folder.join(REPLACED)).map_err(io)?;
    }
    let log = options.log.clone().unwrap_or_else(|| log_in(&folder));
    log(&format!("repaired: {} losses", losses.len()));
    losses.iter().for_each(|loss| log(loss));
    Ok(())
}

/// Ends a repair that was cut off while the new files took the place of the old ones. The caller
/// has the lock.
pub(crate) fn settle(folder: &Path) -> Result<()> {
    let has = |name: &str, main: &str| folder.join(name).join(main).exists();
    let waits = |main: &str| !has("", main) && has(REPLACED, main) && has(SALVAGED, main);
    match [TREE[0], LSM].into_iter().find(|main| waits(main)) {
        None => Ok(()),
        Some(main) => put_in_place(folder, main).map_err(|error| Status::io(folder, &error)),
    }
}

/// The file or folder that is all of an engine's data.
fn main_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Tree => TREE[0],
        Kind::Lsm => LSM,
    }
}

/// Puts the old files aside and the new ones, which are whole, in their place.
fn replace(folder: &Path, main: &str) -> io::Result<()> {
    let aside = folder.join(REPLACED);
    remove_folder(&aside)?;
    create_folder(&aside)?;
    sync(&folder.join(SALVAGED))?;
    // From here on the folder has no such file until the new one is there.
    fs::rename(folder.join(main), aside.join(main))?;
    sync(&aside)?;
    sync(folder)?;
    put_in_place(folder, main)
}

fn put_in_place(folder: &Path, main: &str) -> io::Result<()> {
    let salvaged = folder.join(SALVAGED);
    // It is about the old file of the tree; an opening makes another one.
    remove(&folder.join(TREE[1]))?;
    fs::rename(salvaged.join(main), folder.join(main))?;
    sync(folder)?;
    remove_folder(&salvaged)
}

#[cfg(test)]
mod tests;
