//! The page of `stat --html` for a store of trees.

use hedgerow::tree::{LevelShape, Reader};

use super::page::{Row, Share, document, escape, put, shares};
use super::{Picture, TablePicture};
use crate::codec::shown;
use crate::commands::tables::kind;
use crate::numbers::{self, bytes, grouped};

/// The whole page.
pub(super) fn page(picture: &Picture) -> String {
    let mut body = String::new();
    heading(&mut body, picture);
    space(&mut body, picture);
    trees(&mut body, picture);
    readers(&mut body, &picture.store.holders.readers);
    document(&picture.path, &body)
}

fn heading(out: &mut String, picture: &Picture) {
    let store = &picture.store;
    put(out, format_args!("<h1>{}</h1>", escape(&picture.path)));
    put(
        out,
        format_args!(
            "<p>{} in pages of {}; commit {}, durable up to {}; {} tables</p>",
            bytes(store.file_bytes),
            bytes(store.page_size.into()),
            grouped(store.commit),
            grouped(store.durable_commit),
            grouped(store.tables)
        ),
    );
}

/// One bar: what the file's pages are used for.
fn space(out: &mut String, picture: &Picture) {
    let store = &picture.store;
    let parts = [
        ("leaf", store.table_pages.leaf_pages, "leaves: keys and values"),
        ("branch", store.table_pages.branch_pages, "branches: the ways and the counters"),
        ("overflow", store.table_pages.overflow_pages, "overflow: long keys and values"),
        ("own", store.own_pages, "the store's own: catalog and free space"),
        ("pinned", store.pinned_pages, "freed, but some reader still sees them"),
        ("free", store.free_pages, "free for the next transaction"),
    ];
    let share = |(color, pages, what)| Share {
        color,
        part: pages,
        label: format!(
            "{what}: {} pages, {}",
            grouped(pages),
            bytes(pages * u64::from(store.page_size))
        ),
    };
    shares(out, &parts.map(share));
}

/// A picture for each table, all on one scale so that they can be compared.
fn trees(out: &mut String, picture: &Picture) {
    put(out, format_args!("<h2>Tables</h2>"));
    if picture.tables.is_empty() {
        put(out, format_args!("<div class=\"panel\"><p>There are none.</p></div>"));
    }
    let levels = picture.tables.iter().flat_map(levels);
    let widest = levels.map(|level| level.size).max().unwrap_or(1);
    for table in &picture.tables {
        tree(out, table, widest);
    }
}

fn tree(out: &mut String, table: &TablePicture, widest: u64) {
    let stat = &table.stat;
    let name = escape(&shown(&table.info.name));
    put(out, format_args!("<div class=\"panel\"><h3>{name}</h3>"));
    put(
        out,
        format_args!(
            "<p>{} keys, {} values; {}; {} levels</p>",
            grouped(stat.count.keys),
            grouped(stat.count.values),
            escape(&kind(&table.info)),
            stat.depth
        ),
    );
    for level in levels(table) {
        level.draw(out, widest);
    }
    put(out, format_args!("<p>{}</p></div>", per_page(table)));
}

/// What a leaf holds on average, and what an entry takes.
fn per_page(table: &TablePicture) -> String {
    let stat = &table.stat;
    let (Some(fill), 1..) = (table.fill_percent(), stat.count.values) else {
        return "No entries yet.".to_owned();
    };
    let pages = stat.leaf_pages + stat.branch_pages + stat.overflow_pages;
    let values = stat.count.values as f64;
    format!(
        "A leaf holds {:.1} entries on average; an entry takes {:.1} bytes of all pages. \
         Leaves and branches are {fill:.1} % full.",
        values / stat.leaf_pages as f64,
        pages as f64 * f64::from(table.shape.page_size) / values
    )
}

/// From the root down.
fn levels(table: &TablePicture) -> Vec<Row> {
    let row = |(number, level, fill): (usize, &LevelShape, f64)| {
        // A key whose values fill several leaves stands in each of them, and is one.
        let (color, name, count, entries) = match number {
            0 => ("leaf", "leaves".to_owned(), table.stat.count.keys, "keys"),
            _ if number + 1 == table.shape.levels.len() => {
                ("branch", "root".to_owned(), level.entries, "children")
            }
            _ => ("branch", format!("level {number}"), level.entries, "children"),
        };
        let (pages, count) = (numbers::pages(level.pages), grouped(count));
        let label = format!("{name}: {pages}, {count} {entries}, {fill:.1} % full");
        Row { color, label, size: level.pages, fill: Some(fill) }
    };
    let mut rows: Vec<Row> = table.levels().map(row).collect();
    let pages = table.stat.overflow_pages;
    if pages > 0 {
        let label = format!("overflow: {}", numbers::pages(pages));
        rows.push(Row { color: "overflow", label, size: pages, fill: None });
    }
    rows
}

fn readers(out: &mut String, readers: &[Reader]) {
    put(out, format_args!("<h2>Readers</h2><div class=\"panel\">"));
    if readers.is_empty() {
        put(out, format_args!("<p>There are none: every freed page can be used again.</p>"));
    } else {
        put(out, format_args!("<table><tr><th>process</th><th>thread</th><th>reads commit</th>"));
        put(out, format_args!("<th>since</th><th></th></tr>"));
        let oldest = readers.iter().map(|reader| reader.age).max().unwrap_or_default();
        for reader in readers {
            let age = reader.age.as_secs_f64();
            let share = age / oldest.as_secs_f64().max(1e-9);
            put(
                out,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{}</td><td>{age:.1} s</td><td>\
                     <svg viewBox=\"0 0 200 12\" role=\"img\" aria-label=\"age\"><rect \
                     width=\"{:.1}\" height=\"12\" rx=\"3\" fill=\"var(--pinned)\"/></svg></td></tr>",
                    reader.process,
                    reader.thread,
                    grouped(reader.commit),
                    share * 200.0
                ),
            );
        }
        put(out, format_args!("</table>"));
    }
    put(out, format_args!("</div>"));
}

#[cfg(test)]
mod tests {
    use hedgerow::tree::{Count, StoreStat, TableInfo, TableShape, TableStat};

    use super::*;

    fn picture() -> Picture {
        let stat = TableStat {
            count: Count { keys: 5, values: 1_234_567 },
            depth: 4,
            branch_pages: 92,
            leaf_pages: 12_345,
            overflow_pages: 3,
        };
        let info = TableInfo {
            name: b"<table> & \"co\"".to_vec(),
            order: "bytewise".into(),
            duplicates: true,
            value_size: Some(8),
            value_order: "integer".into(),
            prefix_compression: true,
            user_flags: 3,
            count: stat.count,
        };
        let levels = [(12_345, 600_000), (89, 12_345), (2, 89), (1, 2)]
            .map(|(pages, entries)| LevelShape { pages, entries, used_bytes: pages * 3072 });
        let shape = TableShape { levels: levels.to_vec(), page_size: 4096 };
        let reader =
            Reader { process: 17, thread: 18, commit: 1, age: std::time::Duration::from_secs(9) };
        let store = StoreStat {
            page_size: 4096,
            pages: 13_000,
            free_pages: 100,
            table_pages: stat.clone(),
            holders: hedgerow::tree::Holders { readers: vec![reader], pins: Vec::new() },
            ..StoreStat::default()
        };
        let empty = TableInfo { name: b"empty".to_vec(), ..info.clone() };
        Picture {
            path: "/a/<b>".into(),
            store,
            tables: vec![
                TablePicture { info, stat, shape },
                TablePicture {
                    info: empty,
                    stat: TableStat::default(),
                    shape: TableShape::default(),
                },
            ],
        }
    }

    #[test]
    fn the_page_stands_alone_and_shows_everything() {
        let page = page(&picture());
        for foreign in ["http", "src=", "href=", "url(", "<script", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        for shown in ["/a/&lt;b&gt;", "&lt;table&gt; &amp; &quot;co&quot;", "12,345", "9.0 s"] {
            assert!(page.contains(shown), "{shown}");
        }
    }

    #[test]
    fn every_level_is_a_row_with_its_fill() {
        let page = page(&picture());
        for row in [
            "root: 1 page, 2 children, 75.0 % full",
            "level 2: 2 pages, 89 children, 75.0 % full",
            "level 1: 89 pages, 12,345 children, 75.0 % full",
            "leaves: 12,345 pages, 5 keys, 75.0 % full",
            "overflow: 3 pages",
        ] {
            assert!(page.contains(&format!(">{row}</span>")), "{row}");
        }
        // Three quarters of a scale of 240.
        assert_eq!(page.matches("width=\"180.0\"").count(), 4, "{page}");
        assert!(!page.contains("<text"), "text in a picture shrinks with it");
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let page = page(&picture());
        for element in ["svg", "div", "table", "tr", "td", "p", "h1", "h2", "h3", "span"] {
            let opened = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}
