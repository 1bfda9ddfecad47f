//! A report as one self-contained page of HTML: tables, and for each workload a plot of the ratios
//! in SVG.

use std::fmt::Write as _;

use super::peer::Peer;
use super::report::{self, Row};
use crate::engine::Result;

const COLORS: [&str; 10] = [
    "#2a6f3c", "#b4532a", "#3b6ea5", "#8a5ea8", "#c29b1e", "#4d9b9b", "#a53b5c", "#6b6b6b",
    "#7a9b2a", "#2a3f6f",
];
/// Where the bars begin and how wide twice as fast is.
const LEFT: f64 = 330.0;
const MIDDLE: f64 = 560.0;
const DOUBLE: f64 = 46.0;
const BAR: f64 = 11.0;
const WIDTH: f64 = 1000.0;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
<title>Hedgerow beside other engines</title>\n<style>\n\
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1040px; color: #222 }\n\
table { border-collapse: collapse } td, th { padding: 2px 10px; border-bottom: 1px solid #ddd }\n\
td { text-align: right } td:first-child { text-align: left } svg text { font-size: 11px }\n\
.missed { color: #b00 } .met { color: #060 }\n</style>\n";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page.
pub(crate) fn page(rows: &[Row], engines: &[Peer], machine: &str) -> Result<String> {
    let mut text = String::from(HEAD);
    writeln!(text, "<h1>Hedgerow beside other engines</h1>\n<p>{}</p>", escape(machine))?;
    writeln!(
        text,
        "<p>Medians of the rounds, the median distance from them, in brackets the ratio to the \
first peer: above 1 is better, but for sizes and memory. Bars to the right are better.</p>"
    )?;
    for group in rows.chunk_by(|one, other| one.workload == other.workload) {
        writeln!(text, "<h2>{}</h2>", escape(&group[0].workload))?;
        plot(&mut text, group, engines)?;
        table(&mut text, group, engines)?;
    }
    Ok(text)
}

/// One group of bars a row: the logarithm of how many times better each engine is.
fn plot(text: &mut String, rows: &[Row], engines: &[Peer]) -> Result<()> {
    let group = BAR * engines.len() as f64 + 8.0;
    let height = group * rows.len() as f64 + 24.0;
    writeln!(text, "<svg width=\"{WIDTH}\" height=\"{height}\" role=\"img\">")?;
    for (at, engine) in engines.iter().enumerate() {
        let (x, color) = (LEFT + 80.0 * at as f64, COLORS[at % COLORS.len()]);
        write!(text, "<rect x=\"{x}\" y=\"2\" width=\"10\" height=\"10\" fill=\"{color}\"/>")?;
        writeln!(text, "<text x=\"{}\" y=\"11\">{}</text>", x + 14.0, engine.text())?;
    }
    writeln!(
        text,
        "<line x1=\"{MIDDLE}\" x2=\"{MIDDLE}\" y1=\"18\" y2=\"{height}\" stroke=\"#999\"/>"
    )?;
    for (at, row) in rows.iter().enumerate() {
        let top = 22.0 + group * at as f64;
        writeln!(text, "<text x=\"0\" y=\"{}\">{}</text>", top + BAR, escape(&row.name))?;
        for (number, answer) in row.answers.iter().enumerate() {
            let Some(ratio) = answer.ratio else { continue };
            let better = if row.less_is_better() { 1.0 / ratio } else { ratio };
            let reach = (better.log2() * DOUBLE).clamp(LEFT - MIDDLE, WIDTH - MIDDLE - 60.0);
            let (x, width) = (MIDDLE + reach.min(0.0), reach.abs().max(1.0));
            let (y, color) = (top + BAR * number as f64, COLORS[number % COLORS.len()]);
            writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" \
fill=\"{color}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                BAR - 1.0,
                x + width + 4.0,
                y + BAR - 2.0,
                report::short(ratio)
            )?;
        }
    }
    writeln!(text, "</svg>")?;
    Ok(())
}

fn table(text: &mut String, rows: &[Row], engines: &[Peer]) -> Result<()> {
    write!(text, "<table><tr><th>row</th><th>unit</th>")?;
    for engine in engines {
        write!(text, "<th>{}</th>", engine.text())?;
    }
    writeln!(text, "<th>goal</th></tr>")?;
    for row in rows {
        write!(text, "<tr><td>{}</td><td>{}</td>", escape(&row.name), row.unit)?;
        for answer in &row.answers {
            write!(text, "<td>{}</td>", escape(&report::cell_text(answer)))?;
        }
        let class = match row.met() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        let goal = row.goal.map_or(String::new(), |goal| goal.to_string());
        writeln!(text, "<td class=\"{class}\">{}</td></tr>", escape(&goal))?;
    }
    writeln!(text, "</table>")?;
    Ok(())
}
