//! A source file as the rules see it: comments blanked, strings masked, lines and braces kept.

use std::path::{Path, PathBuf};

/// A file of the workspace.
pub(super) struct Source {
    /// Its path from the root of the workspace, with `/` between the parts.
    pub(super) path: String,
    /// Its text.
    pub(super) text: String,
    /// Of a Rust file: the text with comments as spaces and the insides of strings as `_`.
    pub(super) code: String,
}

/// Folders that hold nothing of ours (`.git` is a file in a second working tree).
const SKIPPED: &[&str] = &[".git", "target", "node_modules"];

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { mask(text) } else { String::new() };
        Self { path: path.to_string(), text: text.to_string(), code }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of it is tests.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs")
    }

    /// The line, counted from 1, of a place in the text or code.
    pub(super) fn line(&self, at: usize) -> usize {
        line_of(if self.is_rust() { &self.code } else { &self.text }, at)
    }

    /// "path:line: what", as editors and people read it.
    pub(super) fn problem(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    /// Where a word stands in the code, apart from longer words.
    pub(super) fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }
}

/// The root of the workspace.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// All text files of the workspace in the order of their paths.
pub(super) fn workspace() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            let is_skipped = SKIPPED.iter().any(|skipped| name == *skipped);
            // Other tests make such folders beside the sources, and remove them meanwhile.
            if is_skipped || name.to_string_lossy().starts_with(".tmp") {
                continue;
            }
            let kind = entry.file_type().expect("its type");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                let path = entry.path();
                let path = path.strip_prefix(&root).expect("a path below the root");
                let path = path.to_str().expect("a path in UTF-8").replace('\\', "/");
                sources.push(Source::new(&path, &text));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 20, "the workspace was not found at {}", root.display());
    sources
}

pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The place of the bracket that closes the one at `open`.
pub(super) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where the body of the item at `start` opens: the first `{` outside of other brackets, unless the
/// item ends before.
pub(super) fn body(code: &str, start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += code[at..].find(['{', '(', '[', ';', '}', ')', ']'])?;
        match code.as_bytes()[at] {
            b'{' => return Some(at),
            b'(' | b'[' => at = closing(code, at)? + 1,
            _ => return None,
        }
    }
}

/// The code of a file without its test modules.
pub(super) fn without_tests(source: &Source) -> String {
    let mut kept = source.code.clone();
    while let Some(at) = kept.find("#[cfg(test)]") {
        let end = match body(&kept, at + "#[cfg(test)]".len()).and_then(|open| closing(&kept, open))
        {
            Some(end) => end,
            // A module in a file of its own, or a use: one line.
            None => at + kept[at..].find(';').unwrap_or(0),
        };
        kept.replace_range(at..=end, "");
    }
    kept
}

/// Replaces comments by spaces and the insides of strings and characters by `_`; every byte that is
/// left, and every line, stays where it is.
fn mask(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    while out.len() < text.len() {
        let rest = &text[out.len()..];
        let (len, fill) = token(rest, out.last().copied());
        for (i, &byte) in rest.as_bytes()[..len].iter().enumerate() {
            let edge = fill == b'_' && (i == 0 || i + 1 == len);
            out.push(if byte == b'\n' || fill == 0 || edge { byte } else { fill });
        }
    }
    String::from_utf8(out).expect("masks fill whole letters")
}

/// The length of the comment, string, character or plain piece that `rest` begins with, and what to
/// fill it with (0: leave it).
fn token(rest: &str, before: Option<u8>) -> (usize, u8) {
    let in_word = before.is_some_and(|byte| is_word(char::from(byte)));
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), b' ');
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), b' ');
    }
    if let Some(len) = raw_string(rest).filter(|_| !in_word) {
        return (len, b'_');
    }
    if rest.starts_with('"') {
        return (quoted(rest, b'"').unwrap_or(rest.len()), b'_');
    }
    if rest.starts_with('\'') {
        return match character(rest) {
            Some(len) => (len, b'_'),
            None => (1, 0),
        };
    }
    // Masked text must stay UTF-8: letters outside of strings are copied whole.
    (rest.chars().next().map_or(1, char::len_utf8), 0)
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of `r"..."`, `r#"..."#`, `br"..."` and so on.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or(rest.strip_prefix("cr")).or(rest.strip_prefix('r'))?;
    let inside = after.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(after.len() - inside.len()));
    let inside = inside.strip_prefix('"')?;
    let skipped = rest.len() - inside.len();
    Some(inside.find(&end).map_or(rest.len(), |at| skipped + at + end.len()))
}

/// The length of a quoted piece with backslash escapes.
fn quoted(rest: &str, quote: u8) -> Option<usize> {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            return Some(at + 1);
        }
    }
    None
}

/// The length of a character; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut letters = rest.chars().skip(1);
    let first = letters.next()?;
    if first == '\\' {
        return quoted(rest, b'\'');
    }
    (letters.next() == Some('\'')).then(|| 2 + first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_masked() {
        let text =
            "a // {\n\"{\\\"\" '{' 'b: &'a r#\"}\"#; b\"{\" /* { /* } */ */ '\\'' 'ä' br\"{\" x";
        let code = mask(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains(['{', '}']), "{code}");
        assert_eq!(code.matches('\n').count(), 1);
        assert!(code.contains("&'a") && code.ends_with(" x"));
    }

    #[test]
    fn words_are_whole() {
        let source = Source::new("a.rs", "unsafe_code unsafe{} // unsafe\n\"unsafe\"");
        assert_eq!(source.words("unsafe").collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn bodies_are_found() {
        let code = "fn f(a: [u8; 3]) -> X { { } } fn g();";
        assert_eq!(body(code, 0).and_then(|open| closing(code, open)), Some(28));
        assert_eq!(body(code, 30), None);
    }
}
