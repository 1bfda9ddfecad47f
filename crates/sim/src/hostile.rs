//! Hostile files: the structures of a sound store are changed and their checksums made right again,
//! so that only the engine's checks of structure can notice; then every call is made.
//!
//! A case is a seed. Its outcome must be an answer or an error. A panic is caught and reported
//! here; a signal, an endless loop and unbounded memory end the process, so the command line runs
//! cases in child processes ([`supervise`]).

pub mod drive;
pub mod flips;
pub mod format;
pub mod mutate;
pub mod supervise;
pub mod targets;
pub mod template;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hedgerow::tree::Builder;

use crate::rng::Rng;
use drive::Driver;
use format::{Image, Piece};
use mutate::{Mutator, Note};

/// The page sizes of the stores that are changed.
const PAGE_SIZES: [u32; 2] = [4096, 8192];

/// The text of the last panic, with its place.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// From now on panics of this process say nothing, and are kept for the report.
pub fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

pub(crate) fn last_panic() -> String {
    std::mem::take(&mut LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sound stores, read once.
pub struct Templates {
    stores: Vec<(Image, Vec<Piece>)>,
}

impl Templates {
    /// Builds the stores in `folder`.
    ///
    /// # Errors
    /// The engine's or the system's; there is no reason for any.
    pub fn new(folder: &Path) -> hedgerow::Result<Self> {
        let build = |page_size| {
            let folder = folder.join(format!("{page_size}"));
            let made = std::fs::create_dir_all(&folder);
            made.map_err(|source| hedgerow::Error::Io {
                doing: "make",
                path: folder.clone(),
                source,
            })?;
            let image = template::build(&folder, page_size, 1)?;
            let pieces = image.pieces();
            Ok((image, pieces))
        };
        Ok(Self { stores: PAGE_SIZES.into_iter().map(build).collect::<hedgerow::Result<_>>()? })
    }

    /// One of the stores and its structures.
    pub fn pick(&self, rng: &mut Rng) -> &(Image, Vec<Piece>) {
        &self.stores[rng.index(self.stores.len())]
    }
}

/// What came of one case.
#[derive(Debug, Default)]
pub struct CaseReport {
    /// The seed.
    pub seed: u64,
    /// What was changed.
    pub changes: Vec<Note>,
    /// Calls that were answered.
    pub done: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// The text of a panic.
    pub panic: Option<String>,
}

/// Runs one case below `folder`.
///
/// # Errors
/// If the file cannot be written.
pub fn run_case(templates: &Templates, seed: u64, folder: &Path) -> std::io::Result<CaseReport> {
    let mut rng = Rng::new(seed, 1);
    let (image, pieces) = templates.pick(&mut rng);
    let mut image = image.clone();
    let changes = Mutator::new(&mut image, pieces, &mut rng).run();
    let (done, refused, panic) = run_file(&image.bytes, &mut rng, folder)?;
    Ok(CaseReport { seed, changes, done, refused, panic })
}

/// Drives a file of these bytes through both page sources. Returns how many calls were answered,
/// how many refused, and the text of a panic.
///
/// # Errors
/// If the file cannot be written.
pub fn run_file(
    bytes: &[u8],
    rng: &mut Rng,
    folder: &Path,
) -> std::io::Result<(u64, u64, Option<String>)> {
    let (mut done, mut refused) = (0, 0);
    let path = folder.join("hostile");
    for mapped in [true, false] {
        std::fs::write(&path, bytes)?;
        let builder = Builder::new()
            .map(mapped)
            .durability(hedgerow::Durability::None)
            .write_budget(if rng.chance(1, 4) { 40_000 } else { 1 << 20 })
            .max_size(bytes.len() as u64 + (64 << 20));
        let mut driver = Driver::new(folder, rng);
        let run = catch_unwind(AssertUnwindSafe(|| driver.run(&builder, &path)));
        (done, refused) = (done + driver.done, refused + driver.refused);
        for name in ["hostile", "hostile-lock"] {
            // The lock file is made only if the store could be opened.
            let _ = std::fs::remove_file(folder.join(name));
        }
        if run.is_err() {
            return Ok((done, refused, Some(last_panic())));
        }
    }
    Ok((done, refused, None))
}
