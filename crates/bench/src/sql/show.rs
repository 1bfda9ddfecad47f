//! Runs as tables and as pages of HTML.

use std::fmt::Write as _;

use super::run::{Row, Run, mean};
use crate::compare::report::short;
use crate::engine::Result;

/// What was measured and how, in a line.
fn title(run: &Run) -> String {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("unknown").to_owned();
    format!(
        "{} of {}: {} rows, synchronous={}, {} rounds; {}, {} threads; SQLite of {}",
        run.id,
        run.date(),
        run.settings.rows,
        run.settings.synchronous,
        run.settings.rounds,
        word(&run.machine["processor"]),
        run.machine["threads"],
        word(&run.versions["stock"]).split(' ').next().unwrap_or_default(),
    )
}

/// A table of a run: milliseconds, in brackets those of the processor, and ratios.
pub(super) fn table(run: &Run) -> Result<String> {
    let engines = run.settings.engines();
    let mut text = format!("{}\n\n", title(run));
    write!(text, "{:<53}", "ms (processor)")?;
    engines.iter().try_for_each(|engine| write!(text, "{engine:>19}"))?;
    engines[1..].iter().try_for_each(|engine| write!(text, "{:>13}", format!("{engine}/ours")))?;
    writeln!(text)?;
    for row in &run.rows {
        write!(text, "{:<53}", row.name)?;
        for engine in 0..engines.len() {
            let cell = format!("{} ({})", short(row.median(engine)), short(row.processor(engine)));
            write!(text, "{cell:>19}")?;
        }
        for engine in 1..engines.len() {
            write!(text, "{:>13}", row.ratio(engine).map_or("-".into(), short))?;
        }
        writeln!(text)?;
    }
    write!(text, "{:<1$}", "geometric mean", 53 + 19 * engines.len())?;
    run.means().iter().try_for_each(|mean| write!(text, "{:>13}", short(*mean)))?;
    writeln!(text)?;
    for size in &run.sizes {
        write!(text, "{:<53}", format!("KiB of files, {}", size.when))?;
        for bytes in &size.bytes {
            write!(text, "{:>19}", short(*bytes as f64 / 1024.0))?;
        }
        writeln!(text)?;
    }
    if let Some(error) = &run.error {
        writeln!(text, "failed: {error}")?;
    }
    Ok(text)
}

/// A line for each run.
pub(super) fn list(runs: &[Run]) -> Result<String> {
    let mut text = format!(
        "{:<10}{:<12}{:>9}  {:<12}{:>7}{:>10}{:>10}  machine\n",
        "id", "date", "rows", "synchronous", "rounds", "wal", "delete"
    );
    for run in runs {
        let is_beside_files = !run.settings.row_checksums;
        let means = if is_beside_files { run.means() } else { Vec::new() };
        let mean = |engine: usize| means.get(engine).map_or("-".into(), |mean| short(*mean));
        writeln!(
            text,
            "{:<10}{:<12}{:>9}  {:<12}{:>7}{:>10}{:>10}  {}{}",
            run.id,
            run.date(),
            run.settings.rows,
            run.settings.synchronous,
            run.settings.rounds,
            mean(0),
            mean(1),
            run.machine["processor"].as_str().unwrap_or_default(),
            run.error.as_ref().map_or(String::new(), |error| format!("  failed: {error}")),
        )?;
    }
    Ok(text)
}

/// The tests of two runs: milliseconds of the store in both, and how the ratios have changed.
pub(super) fn comparison(first: &Run, second: &Run) -> Vec<(String, [f64; 2], [f64; 2])> {
    let pair = |row: &Row| {
        let other = second.rows.iter().find(|other| other.name == row.name)?;
        let ratios = [row.ratio(1)?, other.ratio(1)?];
        Some((row.name.clone(), [row.median(0), other.median(0)], ratios))
    };
    first.rows.iter().filter_map(pair).collect()
}

/// Two runs beside each other.
pub(super) fn compare(first: &Run, second: &Run) -> Result<String> {
    let mut text = format!("1: {}\n2: {}\n\n", title(first), title(second));
    writeln!(
        text,
        "{:<53}{:>12}{:>12}{:>10}{:>12}{:>12}",
        "ms of the store", "1", "2", "1/2", "wal/ours 1", "wal/ours 2"
    )?;
    let all = comparison(first, second);
    for (name, ms, ratios) in &all {
        let cells = [ms[0], ms[1], ms[0] / ms[1], ratios[0], ratios[1]].map(short);
        let [one, two, faster, ratio, other] = cells;
        writeln!(text, "{name:<53}{one:>12}{two:>12}{faster:>10}{ratio:>12}{other:>12}")?;
    }
    let faster = mean(all.iter().map(|(_, ms, _)| ms[0] / ms[1]));
    writeln!(text, "{:<77}{:>10}", "geometric mean", short(faster))?;
    Ok(text)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
<title>SQL on Hedgerow beside SQLite</title>\n<style>\n\
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; color: #222 }\n\
table { border-collapse: collapse } td, th { padding: 2px 10px; border-bottom: 1px solid #ddd }\n\
td { text-align: right } td:first-child { text-align: left }\n\
.bar { display: inline-block; height: 9px; background: #2a6f3c } .slow { background: #b4532a }\n\
</style>\n";

/// A page of runs: for each its table, with a bar for each ratio on a logarithmic scale.
pub(super) fn page(runs: &[Run]) -> Result<String> {
    let mut text = String::from(HEAD);
    writeln!(text, "<h1>SQL on Hedgerow beside SQLite</h1>")?;
    writeln!(
        text,
        "<p>Medians of the rounds in milliseconds, in brackets the processor's time. A ratio above \
         1 (a green bar) is a statement that is faster on the store.</p>"
    )?;
    for run in runs {
        let engines = run.settings.engines();
        writeln!(text, "<h2>{}</h2>\n<table><tr><th>test</th>", escape(&title(run)))?;
        engines.iter().try_for_each(|engine| write!(text, "<th>{engine}</th>"))?;
        engines[1..]
            .iter()
            .try_for_each(|engine| write!(text, "<th>{engine}/ours</th><th></th>"))?;
        writeln!(text, "</tr>")?;
        for row in &run.rows {
            write!(text, "<tr><td>{}</td>", escape(&row.name))?;
            for engine in 0..engines.len() {
                let (ms, spent) = (short(row.median(engine)), short(row.processor(engine)));
                write!(text, "<td>{ms} ({spent})</td>")?;
            }
            for engine in 1..engines.len() {
                let ratio = row.ratio(engine).unwrap_or(f64::NAN);
                let width = (ratio.log2().abs() * 20.0).min(140.0);
                let class = if ratio < 1.0 { "bar slow" } else { "bar" };
                write!(
                    text,
                    "<td>{}</td><td style=\"text-align:left\"><span class=\"{class}\" \
                     style=\"width:{width:.0}px\"></span></td>",
                    short(ratio)
                )?;
            }
            writeln!(text, "</tr>")?;
        }
        writeln!(text, "</table>")?;
        let means: Vec<String> = run.means().iter().map(|mean| short(*mean)).collect();
        writeln!(text, "<p>Geometric means: {}</p>", means.join(", "))?;
        for size in &run.sizes {
            let sizes: Vec<String> =
                size.bytes.iter().map(|bytes| short(*bytes as f64 / 1024.0)).collect();
            writeln!(text, "<p>KiB of files, {}: {}</p>", escape(&size.when), sizes.join(", "))?;
        }
        if let Some(error) = &run.error {
            writeln!(text, "<p>Failed: {}</p>", escape(error))?;
        }
    }
    Ok(text)
}
