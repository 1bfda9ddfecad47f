//! Where statements end: at a semicolon outside of strings and comments, and after the END of a
//! trigger. The states are those of `sqlite3_complete`.

/// A statement, and the line on which it begins, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) line: usize,
}

/// What a word is for the end of statements.
#[derive(Clone, Copy)]
enum Token {
    Semicolon,
    Space,
    Other,
    Explain,
    Create,
    Temp,
    Trigger,
    End,
}

/// What comes after each token in each state: 0 nothing yet, 1 between statements, 2 in one,
/// 3 after EXPLAIN, 4 after CREATE, 5 in a trigger, 6 after a semicolon in it, 7 after END there.
const NEXT: [[u8; 8]; 8] = [
    [1, 0, 2, 3, 4, 2, 2, 2],
    [1, 1, 2, 3, 4, 2, 2, 2],
    [1, 2, 2, 2, 2, 2, 2, 2],
    [1, 3, 3, 2, 4, 2, 2, 2],
    [1, 4, 2, 2, 2, 4, 5, 2],
    [6, 5, 5, 5, 5, 5, 5, 5],
    [6, 6, 5, 5, 5, 5, 5, 7],
    [1, 7, 5, 5, 5, 5, 5, 5],
];

/// What the text is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Quotes(u8),
    Line,
    Comment,
}

/// Takes lines and gives the statements that end in them.
#[derive(Debug)]
pub(super) struct Splitter {
    text: String,
    /// The line on which what is there begins, and how many lines there were.
    line: usize,
    lines: usize,
    state: u8,
    inside: Inside,
    /// There is something else than spaces and comments.
    has_token: bool,
}

impl Splitter {
    pub(super) fn new() -> Self {
        let (text, inside) = (String::new(), Inside::Nothing);
        Self { text, line: 1, lines: 0, state: 0, inside, has_token: false }
    }

    /// Whether nothing of a statement is there, so that a command may come.
    pub(super) fn is_between(&self) -> bool {
        !self.has_token && self.inside == Inside::Nothing
    }

    /// The number of the last line that was taken.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Counts a line that is no SQL.
    pub(super) fn skip(&mut self) {
        self.lines += 1;
    }

    /// Takes a line without its end.
    pub(super) fn line(&mut self, line: &str) -> Vec<Statement> {
        self.lines += 1;
        let mut done = Vec::new();
        let (bytes, mut at, mut begin) = (line.as_bytes(), 0, 0);
        while at < bytes.len() {
            let (token, len) = self.token(&bytes[at..]);
            at += len;
            let Some(token) = token else { continue };
            self.has_token |= !matches!(token, Token::Space | Token::Semicolon);
            self.state = NEXT[usize::from(self.state)][token as usize];
            if self.state == 1 && matches!(token, Token::Semicolon) {
                self.push(&line[begin..at]);
                begin = at;
                done.extend(self.take());
            }
        }
        self.push(&line[begin..]);
        self.push("\n");
        if self.inside == Inside::Line {
            self.inside = Inside::Nothing;
        }
        if self.is_between() {
            self.text.clear();
        }
        done
    }

    fn push(&mut self, text: &str) {
        if self.text.is_empty() {
            self.line = self.lines;
        }
        self.text.push_str(text);
    }

    /// What is there without a semicolon at its end.
    pub(super) fn rest(&mut self) -> Option<Statement> {
        self.inside = Inside::Nothing;
        self.take()
    }

    /// Forgets what is there.
    pub(super) fn clear(&mut self) {
        self.rest();
    }

    fn take(&mut self) -> Option<Statement> {
        let text = std::mem::take(&mut self.text);
        self.state = 0;
        let has_token = std::mem::take(&mut self.has_token);
        let text = text.trim_start().to_owned();
        has_token.then_some(Statement { text, line: self.line })
    }

    /// The token at the beginning of some bytes, and its length; `None` is a part of what the text
    /// is inside of.
    fn token(&mut self, bytes: &[u8]) -> (Option<Token>, usize) {
        let find = |end: &[u8]| bytes.windows(end.len()).position(|part| part == end);
        match (self.inside, bytes) {
            (Inside::Line, _) => (None, bytes.len()),
            (Inside::Comment, _) => match find(b"*/") {
                Some(at) => {
                    self.inside = Inside::Nothing;
                    (Some(Token::Space), at + 2)
                }
                None => (None, bytes.len()),
            },
            (Inside::Quotes(end), _) => match find(&[end]) {
                Some(at) => {
                    self.inside = Inside::Nothing;
                    (Some(Token::Other), at + 1)
                }
                None => (None, bytes.len()),
            },
            (Inside::Nothing, [b';', ..]) => (Some(Token::Semicolon), 1),
            (Inside::Nothing, [b' ' | b'\t' | b'\r' | b'\n' | 0x0c, ..]) => (Some(Token::Space), 1),
            (Inside::Nothing, [b'-', b'-', ..]) => {
                self.inside = Inside::Line;
                (Some(Token::Space), 2)
            }
            (Inside::Nothing, [b'/', b'*', ..]) => {
                self.inside = Inside::Comment;
                (Some(Token::Space), 2)
            }
            (Inside::Nothing, [quote @ (b'\'' | b'"' | b'`' | b'['), ..]) => {
                self.inside = Inside::Quotes(if *quote == b'[' { b']' } else { *quote });
                (Some(Token::Other), 1)
            }
            (Inside::Nothing, _) => {
                let is_word =
                    |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
                let len = bytes.iter().take_while(|byte| is_word(byte)).count().max(1);
                let token = match bytes[..len].to_ascii_lowercase().as_slice() {
                    b"explain" => Token::Explain,
                    b"create" => Token::Create,
                    b"temp" | b"temporary" => Token::Temp,
                    b"trigger" => Token::Trigger,
                    b"end" => Token::End,
                    _ => Token::Other,
                };
                (Some(token), len)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(String, usize)> {
        let mut splitter = Splitter::new();
        let mut all: Vec<_> = text.lines().flat_map(|line| splitter.line(line)).collect();
        all.extend(splitter.rest());
        all.into_iter().map(|one| (one.text.trim().to_owned(), one.line)).collect()
    }

    #[test]
    fn statements_end_at_semicolons() {
        let found = split("select 1; select\n';' ;;\n\n-- a; b\n/* ; */ select 2");
        assert_eq!(found[0], ("select 1;".into(), 1));
        assert_eq!(found[1], ("select\n';' ;".into(), 1));
        assert!(found[2].0.ends_with("select 2") && found[2].1 == 5, "{found:?}");
        assert_eq!(found.len(), 3);
        assert_eq!(split(" -- nothing\n;;\n/* at\nall */"), []);
    }

    #[test]
    fn triggers_and_names_hold_semicolons() {
        let trigger = "create temp trigger r after insert on t begin select 1; select 2;\nend;";
        assert_eq!(split(trigger), [(trigger.to_owned(), 1)]);
        assert_eq!(split("select [a;b], \"c;\", `d;`;").len(), 1);
        assert_eq!(split("select 'it''s;\nhere'; select 1;").len(), 2);
        assert_eq!(split("create table t(trigger_at, e);select 1").len(), 2);
    }
}
