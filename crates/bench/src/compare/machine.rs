//! The machine and the day, under which a record is filed.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::engine::Result;

/// The first line of a file that begins with a word, after its colon.
fn line(file: &str, word: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(word))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn processor() -> String {
    line("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// The date of a number of days since 1970 in the Gregorian calendar.
fn date(days: u64) -> String {
    // Days since the first of March of the year 0, in which every era has 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + next)
}

fn today() -> Result<String> {
    Ok(date(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400))
}

/// What a report says of the machine.
pub(crate) fn describe() -> Result<Value> {
    let read = |file| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    Ok(json!({
        "date": today()?,
        "processor": processor(),
        "threads": threads(),
        "memory": line("/proc/meminfo", "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load": read("/proc/loadavg"),
        "lmdb": crate::engines::lmdb::version(),
    }))
}

/// Where the record of a choice of workloads lies: by machine and date.
pub(crate) fn record(choice: &str) -> Result<PathBuf> {
    let words = format!("{} {} threads", processor(), threads());
    let kept = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let machine = kept.collect::<Vec<_>>().join("-").to_lowercase();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("record").join(machine);
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{}-{choice}.json", today()?)))
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_become_dates() {
        let dates = [0, 59, 11_016, 19_782, 20_779].map(date);
        assert_eq!(dates, ["1970-01-01", "1970-03-01", "2000-02-29", "2024-02-29", "2026-11-22"]);
    }
}
