//! The page of `stat --html` for a log-structured store: what its files hold, and its levels.

use hedgerow::lsm::DbStat;
use serde_json::Value;

use super::super::stat::page::{Row, Share, document, escape, put, shares};
use crate::numbers::{bytes, grouped};

/// The whole page, about a store at a path with these tables.
pub(super) fn page(path: &str, stat: &DbStat, tables: &[Value]) -> String {
    let mut body = String::new();
    heading(&mut body, path, stat, tables.len() as u64);
    space(&mut body, stat);
    levels(&mut body, stat);
    spaces(&mut body, tables);
    document(path, &body)
}

fn count(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn heading(out: &mut String, path: &str, stat: &DbStat, tables: u64) {
    put(out, format_args!("<h1>{}</h1>", escape(path)));
    let files = stat.segments + stat.levels.iter().map(|level| level.tables).sum::<u64>();
    put(
        out,
        format_args!(
            "<p>log-structured; {} in {}; {}; {}</p>",
            bytes(stat.bytes()),
            count(files, "file"),
            count(stat.last_seq, "operation"),
            count(tables, "table")
        ),
    );
}

/// One bar: what the files hold.
fn space(out: &mut String, stat: &DbStat) {
    let others = stat.segment_bytes.saturating_sub(stat.live_segment_bytes + stat.log_bytes);
    let parts = [
        ("leaf", stat.table_bytes(), "sorted tables: keys and short values"),
        ("overflow", stat.live_segment_bytes, "long values, which tables point to"),
        ("own", stat.log_bytes, "the log of what no table holds yet"),
        ("free", others, "values that nobody points to, and what surrounds values"),
    ];
    let share =
        |(color, part, what)| Share { color, part, label: format!("{what}: {}", bytes(part)) };
    shares(out, &parts.map(share));
}

/// A row for each level that has tables, the newest entries first.
fn levels(out: &mut String, stat: &DbStat) {
    put(out, format_args!("<h2>Levels</h2><div class=\"panel\">"));
    let used = || stat.levels.iter().enumerate().filter(|(_, level)| level.tables > 0);
    let widest = used().map(|(_, level)| level.bytes).max().unwrap_or(1);
    for (number, level) in used() {
        let label = format!(
            "level {number}: {}, {}, {} entries, {} of them deletions",
            count(level.tables, "table file"),
            bytes(level.bytes),
            grouped(level.entries),
            grouped(level.tombstones)
        );
        Row { color: "leaf", label, size: level.bytes, fill: None }.draw(out, widest);
    }
    if used().next().is_none() {
        put(out, format_args!("<p>There are no sorted tables yet: the log holds everything.</p>"));
    } else {
        put(
            out,
            format_args!(
                "<p>Entries are those of the files: hidden and deleted ones, too, and the names of \
                 tables. Bars go with the logarithm of the bytes.</p>"
            ),
        );
    }
    put(out, format_args!("</div>"));
}

fn spaces(out: &mut String, tables: &[Value]) {
    put(out, format_args!("<h2>Tables</h2>"));
    if tables.is_empty() {
        put(out, format_args!("<div class=\"panel\"><p>There are none.</p></div>"));
    }
    for table in tables {
        let (name, number) = (&table["name"], |of: &str| table[of].as_u64().unwrap_or_default());
        let name = escape(name.as_str().unwrap_or_default());
        put(out, format_args!("<div class=\"panel\"><h3>{name}</h3>"));
        let from = bytes(number("separate_from"));
        let keys = grouped(number("about_keys"));
        put(out, format_args!("<p>about {keys} keys; values from {from} on stand apart</p></div>"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_says_the_numbers_in_words() {
        let mut stat = DbStat { segments: 2, segment_bytes: 900, ..DbStat::default() };
        (stat.live_segment_bytes, stat.log_bytes, stat.last_seq) = (400, 300, 12_345);
        let level = &mut stat.levels[6];
        (level.tables, level.bytes, level.entries, level.tombstones) = (1, 100, 5_001, 7);
        let tables = [json!({"name": "<t>", "about_keys": 1_234, "separate_from": 1_024})];
        let page = page("/a/<b>", &stat, &tables);
        for shown in [
            "/a/&lt;b&gt;",
            "1000 bytes in 3 files",
            "12,345 operations; 1 table",
            ">level 6: 1 table file, 100 bytes, 5,001 entries, 7 of them deletions</span>",
            "no table holds yet: 300 bytes, 30.0 %",
            "what surrounds values: 200 bytes, 20.0 %",
            "<h3>&lt;t&gt;</h3>",
            "about 1,234 keys",
        ] {
            assert!(page.contains(shown), "{shown} is not in {page}");
        }
        for foreign in ["http", "src=", "href=", "url(", "<script", "@import", "<text"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        for element in ["svg", "div", "p", "h1", "h2", "h3", "span"] {
            let opened = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}
