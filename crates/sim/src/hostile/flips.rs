//! Single bits that flip: `check` must notice each one in a page that is in use.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hedgerow::tree::Store;

use super::Templates;
use super::format::{Image, Piece};
use crate::rng::Rng;

/// What came of the flips.
#[derive(Debug, Default)]
pub struct FlipReport {
    /// Bits flipped.
    pub flips: u64,
    /// The number of flips that were noticed.
    pub found: u64,
    /// Where the first few others were: page, byte in it, bit.
    pub missed: Vec<(u64, u64, u32)>,
}

/// The pages that the newest commit uses, and those of the meta records.
fn used_pages(image: &Image, pieces: &[Piece]) -> Vec<u64> {
    let mut used: Vec<u64> = pieces.iter().flat_map(|piece| image.pages_of(*piece)).collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Flips `flips` bits, one at a time, in pages in use of a store in `folder`.
///
/// # Errors
/// Errors of the system, if the store cannot be written.
pub fn run(
    templates: &Templates,
    folder: &Path,
    seed: u64,
    flips: u64,
) -> std::io::Result<FlipReport> {
    let mut rng = Rng::new(seed, 2);
    let mut report = FlipReport::default();
    let path = folder.join("flipped");
    for share in 0..flips.div_ceil(SHARE) {
        let (image, pieces) = templates.pick(&mut rng);
        let used = used_pages(image, pieces);
        std::fs::write(&path, &image.bytes)?;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        for _ in 0..SHARE.min(flips - share * SHARE) {
            let (page, byte) = (rng.pick(&used), rng.below(image.page_size as u64));
            let bit = rng.below(8) as u32;
            let at = page * image.page_size as u64 + byte;
            let old = image.bytes[at as usize];
            file.write_all_at(&[old ^ 1 << bit], at)?;
            report.flips += 1;
            if is_noticed(&path) {
                report.found += 1;
            } else if report.missed.len() < 20 {
                report.missed.push((page, byte, bit));
            }
            file.write_all_at(&[old], at)?;
        }
    }
    Ok(report)
}

/// This many flips are made in one store before another one is taken.
const SHARE: u64 = 1000;

/// Whether opening or checking the store says that something is wrong.
fn is_noticed(path: &Path) -> bool {
    let checked = Store::builder().read_only(true).open(path).and_then(|s| s.check(&mut |_, _| {}));
    checked.map_or(true, |report| {
        // A damaged meta record that is not in use is no problem, but told.
        !report.problems.is_empty() || !report.notes.is_empty()
    })
}
