//! The pages that describe files against the code: the tables of offsets there, the constants here.
//!
//! Under a heading of such a page that names a Rust file in backticks, each table row
//! `| offset | size | NAME | ...` must have its `const NAME: usize = offset;` in that file, and
//! each constant of the file whose name ends in `_OFFSET` must have its row.

use super::source::{Source, root};

const FORMATS: [&str; 2] = ["docs/format.md", "docs/format-lsm.md"];

/// A row of a table of offsets.
#[derive(Debug, PartialEq)]
struct Row {
    line: usize,
    offset: usize,
    /// Unknown where the text says how it is found ("to the end").
    size: Option<usize>,
    name: String,
}

/// The tables under one heading.
#[derive(Debug)]
struct Section {
    line: usize,
    file: String,
    rows: Vec<Row>,
}

fn number(text: &str) -> Option<usize> {
    let plain = text.trim().trim_matches('`').replace([',', '_'], "");
    match plain.strip_prefix("0x") {
        Some(hexadecimal) => usize::from_str_radix(hexadecimal, 16).ok(),
        None => plain.parse().ok(),
    }
}

/// The Rust file that a heading names.
fn named_file(heading: &str) -> Option<String> {
    let file = heading.split('`').nth(1).filter(|file| file.ends_with(".rs"))?;
    let within = if file.starts_with("crates/") { "" } else { "crates/store/src/" };
    Some(format!("{within}{file}"))
}

fn row(line: usize, text: &str) -> Option<Row> {
    let mut cells = text.trim().strip_prefix('|')?.split('|').map(str::trim);
    let offset = number(cells.next()?)?;
    let size = number(cells.next()?);
    let name = cells.next()?.trim_matches('`').to_string();
    Some(Row { line, offset, size, name })
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut inside = false;
    for (i, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            let file = named_file(line);
            inside = file.is_some();
            sections.extend(file.map(|file| Section { line: i + 1, file, rows: Vec::new() }));
        } else if let Some(section) = sections.last_mut().filter(|_| inside) {
            section.rows.extend(row(i + 1, line));
        }
    }
    sections
}

/// The value of a number, another constant, or a sum, difference or product of such.
fn value(code: &str, text: &str) -> Option<usize> {
    let both = |(left, right)| Some((value(code, left)?, value(code, right)?));
    if let Some(parts) = text.rsplit_once('+') {
        return both(parts).map(|(left, right)| left + right);
    }
    if let Some(parts) = text.rsplit_once('-') {
        return both(parts).and_then(|(left, right)| left.checked_sub(right));
    }
    if let Some(parts) = text.rsplit_once('*') {
        return both(parts).map(|(left, right)| left * right);
    }
    number(text).or_else(|| constant(code, text.trim()))
}

/// The value of `const name: usize = ...;` in the code.
fn constant(code: &str, name: &str) -> Option<usize> {
    let declaration = format!("const {name}: usize =");
    let at = code.find(&declaration)?;
    value(code, code[at + declaration.len()..].split(';').next()?)
}

/// The constants of the code that are offsets.
fn offsets(code: &str) -> Vec<&str> {
    let names = code.split("const ").skip(1).filter_map(|rest| rest.split(':').next());
    names.filter(|name| name.ends_with("_OFFSET")).collect()
}

fn section_problems(format: &Source, section: &Section, code: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut end = 0;
    for Row { line, offset, size, name } in &section.rows {
        match constant(code, name) {
            Some(value) if value == *offset => {}
            Some(value) => {
                problems.push(format.problem(
                    *line,
                    format!("{name} is {offset} here, {value} in {}", section.file),
                ))
            }
            None => problems.push(
                format.problem(*line, format!("{} has no `const {name}: usize`", section.file)),
            ),
        }
        // A new table of the same section begins at a smaller offset.
        let starts_anew = *offset == 0;
        if *offset < end && !starts_anew {
            problems.push(format.problem(*line, format!("{name} overlaps the field before it")));
        }
        end = offset + size.unwrap_or(0);
    }
    let missing = offsets(code).into_iter();
    let missing = missing.filter(|name| section.rows.iter().all(|row| row.name != *name));
    problems.extend(missing.map(|name| {
        format.problem(section.line, format!("{name} of {} has no row", section.file))
    }));
    problems
}

#[test]
fn the_format_pages_agree_with_the_code() {
    for path in FORMATS {
        agrees_with_the_code(path);
    }
}

fn agrees_with_the_code(page: &str) {
    let read = |path: &str| std::fs::read_to_string(root().join(path));
    let format = Source::new(page, &read(page).expect("the page describes the layout"));
    let sections = sections(&format.text);
    let mut problems = Vec::new();
    for section in &sections {
        match read(&section.file) {
            Ok(text) => {
                let code = Source::new(&section.file, &text).code;
                problems.extend(section_problems(&format, section, &code));
            }
            Err(error) => {
                problems.push(format.problem(section.line, format!("{}: {error}", section.file)));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    let rows: usize = sections.iter().map(|section| section.rows.len()).sum();
    assert!(rows > 0, "{page} holds no table of offsets under a heading that names a Rust file");
}

#[test]
fn planted_disagreements_are_found() {
    let text = "# Pages\n\n## The head of a page (`tree/page/mod.rs`)\n\n\
                | offset | size | name | meaning |\n|---|---|---|---|\n\
                | 0 | 4 | `SUM_OFFSET` | a |\n| 4 | 4 | `KIND_OFFSET` | b |\n\
                | 6 | 2 | `COUNT_OFFSET` | c |\n| 12 | to the end | `BODY_OFFSET` | d |\n\
                ## Words\n| 1 | 2 | `OTHER` | e |\n";
    let code = "pub(crate) const SUM_OFFSET: usize = 0;\n\
                pub(crate) const KIND_OFFSET: usize = SUM_OFFSET + 4;\n\
                pub(crate) const COUNT_OFFSET: usize = 0x8;\n\
                pub(crate) const FLAGS_OFFSET: usize = 10;\n";
    let format = Source::new(FORMATS[0], text);
    let sections = sections(text);
    assert_eq!(sections.len(), 1);
    assert_eq!(sections[0].file, "crates/store/src/tree/page/mod.rs");
    assert_eq!(
        section_problems(&format, &sections[0], code),
        [
            "docs/format.md:9: COUNT_OFFSET is 6 here, 8 in crates/store/src/tree/page/mod.rs",
            "docs/format.md:9: COUNT_OFFSET overlaps the field before it",
            "docs/format.md:10: crates/store/src/tree/page/mod.rs has no `const BODY_OFFSET: usize`",
            "docs/format.md:3: FLAGS_OFFSET of crates/store/src/tree/page/mod.rs has no row",
        ]
    );
}
