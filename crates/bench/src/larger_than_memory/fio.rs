//! The program `fio`, which shows what the device does without a store.

use std::io;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use super::reads::{Load, Rate};
use crate::engine::{Missing, Result};

fn run(command: &mut Command) -> Result<Output> {
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Missing("fio is needed: apt-get install fio".to_owned()).into());
        }
        other => other?,
    };
    if !output.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(output)
}

/// Whether there is one.
pub(super) fn check() -> Result<()> {
    version().map(drop)
}

pub(super) fn version() -> Result<String> {
    let output = run(Command::new("fio").arg("--version"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Random reads of 4 KiB of a file past the system's cache.
pub(super) fn read(path: &Path, load: Load) -> Result<Rate> {
    let mut command = timed(path, load.time);
    command
        .args(["--rw=randread", "--bs=4k", "--group_reporting"])
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--numjobs={}", load.threads));
    parse(&run(&mut command)?.stdout, load.threads)
}

/// How many bytes a second a file is read in its order past the system's cache, four of these
/// pieces at a time.
pub(super) fn read_in_order(path: &Path, piece: u64, time: Duration) -> Result<f64> {
    let mut command = timed(path, time);
    command.args(["--rw=read", "--iodepth=4"]).arg(format!("--bs={piece}"));
    Ok(parse(&run(&mut command)?.stdout, 1)?.reads_per_second * piece as f64)
}

fn timed(path: &Path, time: Duration) -> Command {
    let mut command = Command::new("fio");
    command
        .args(["--name=reads", "--direct=1", "--ioengine=io_uring"])
        .args(["--time_based", "--output-format=json"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--runtime={}ms", time.as_millis()));
    command
}

/// The rate in a report. Notes may stand before it.
fn parse(report: &[u8], threads: usize) -> Result<Rate> {
    let start = report.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let report: Value = serde_json::from_slice(&report[start..])?;
    let job = &report["jobs"][0];
    let number = |value: &Value| value.as_f64().ok_or("fio's report lacks a number");
    let reads_per_second = number(&job["read"]["iops"])?;
    // In percent of the time of each thread.
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0 * threads as f64;
    Ok(Rate { reads_per_second, cpu_micros_per_read: busy * 1e6 / reads_per_second })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_rate_stands_in_the_report() {
        let report = br#"note: that much
            {"jobs": [{"read": {"iops": 100000}, "usr_cpu": 10, "sys_cpu": 20.0}]}"#;
        let rate = parse(report, 2).unwrap();
        assert_eq!((rate.reads_per_second, rate.cpu_micros_per_read), (100_000.0, 6.0));
        assert!(parse(b"{}", 1).is_err());
    }
}
