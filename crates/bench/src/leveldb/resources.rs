//! What a part of a run takes: time, the processors' time of the process, bytes that it had the
//! system write.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::engine::Result;

/// The clock of /proc/self/stat.
const TICKS_A_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Usage {
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
    pub(super) written_bytes: u64,
}

impl Usage {
    /// What some work takes.
    pub(super) fn of(work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let (begin, processor, written) = (Instant::now(), processor()?, written()?);
        work()?;
        Ok(Self {
            seconds: begin.elapsed().as_secs_f64(),
            processor_seconds: self::processor()? - processor,
            written_bytes: self::written()? - written,
        })
    }
}

/// The processors' time of this process, of all its threads.
fn processor() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has another form")?;
    let field = |index: usize| fields.split_whitespace().nth(index)?.parse::<f64>().ok();
    let (user, system) = field(11).zip(field(12)).ok_or("/proc/self/stat has another form")?;
    Ok((user + system) / TICKS_A_SECOND)
}

/// Bytes that this process caused to be written, as the system counts pages that it makes dirty.
fn written() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("/proc/self/io has another form")?.parse()?)
}

/// The bytes of all files in a folder.
pub(super) fn bytes_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { bytes_of(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}
