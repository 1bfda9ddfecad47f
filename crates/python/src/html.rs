//! What a notebook shows of a store and of a table.

use std::fmt::Write as _;
use std::path::Path;

use hedgerow::lsm::DbStat;
use hedgerow::tree::{StoreStat, TableInfo};
use pyo3::prelude::*;

/// Text as HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A number with its thousands apart.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A table of HTML. The cells are HTML already.
pub(crate) fn grid(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<table><thead><tr>");
    for cell in head {
        let _ = write!(out, "<th>{cell}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    out
}

/// What the pages of a file are, as a bar.
fn bar(stat: &StoreStat) -> String {
    let pages = &stat.table_pages;
    let parts = [
        ("leaves", pages.leaf_pages, "#3b7d4f"),
        ("branches", pages.branch_pages, "#8fbf7f"),
        ("long values", pages.overflow_pages, "#4f7fbf"),
        ("own", stat.own_pages, "#999999"),
        ("held by readers", stat.pinned_pages, "#d08a3a"),
        ("free", stat.free_pages, "#e4e4e4"),
    ];
    let mut out = String::from("<div style=\"display:flex;height:1em;width:30em\">");
    for (_, n, color) in parts.iter().filter(|(_, n, _)| *n > 0) {
        let _ = write!(out, "<div style=\"flex:{n};background:{color}\"></div>");
    }
    out.push_str("</div><small>");
    for (name, n, color) in parts.iter().filter(|(_, n, _)| *n > 0) {
        let _ = write!(out, "<span style=\"color:{color}\">&#9632;</span> {name} {} ", number(*n));
    }
    out.push_str("</small>");
    out
}

/// Tables with their numbers of pairs.
pub(crate) fn tables(tables: &[TableInfo]) -> String {
    let rows: Vec<Vec<String>> = tables
        .iter()
        .map(|table| {
            let duplicates = if table.duplicates { "yes" } else { "" };
            vec![
                escaped(&String::from_utf8_lossy(&table.name)),
                number(table.count.keys),
                number(table.count.values),
                duplicates.to_string(),
            ]
        })
        .collect();
    grid(&["table", "keys", "pairs", "duplicates"], &rows)
}

/// A store: its size, what its pages are, its tables.
pub(crate) fn store(path: &Path, stat: &StoreStat, found: &[TableInfo]) -> String {
    format!(
        "<div><b>{}</b> commit {}, {} bytes{}{}</div>",
        escaped(&path.display().to_string()),
        stat.commit,
        number(stat.file_bytes),
        bar(stat),
        tables(found),
    )
}

/// A log-structured store: its size, its keyspaces, and about how many keys each has.
pub(crate) fn log(path: &Path, stat: &DbStat, keyspaces: &[(Vec<u8>, u64)]) -> String {
    let name = |name: &[u8]| escaped(&String::from_utf8_lossy(name));
    let rows: Vec<Vec<String>> =
        keyspaces.iter().map(|(of, keys)| vec![name(of), number(*keys)]).collect();
    format!(
        "<div><b>{}</b> commit {}, {} bytes{}</div>",
        escaped(&path.display().to_string()),
        stat.last_seq,
        number(stat.bytes()),
        grid(&["keyspace", "about so many keys"], &rows),
    )
}

/// Values of Python's in a row.
pub(crate) fn cells<'py>(
    values: impl IntoIterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Vec<String>> {
    const CHARACTERS: usize = 80;
    let cell = |value: Bound<'py, PyAny>| {
        let text: String = value.repr()?.to_string().chars().take(CHARACTERS).collect();
        Ok(escaped(&text))
    };
    values.into_iter().map(cell).collect()
}
