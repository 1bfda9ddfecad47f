//! Notices that CSV ends inside quotation marks: it was cut off, and the reader of CSV would take
//! what is there for the rest of a field.

use std::io::{self, Read};

/// Passes CSV on as it is, and ends with an error if a quotation mark is still open.
pub(crate) struct Closed<R> {
    input: R,
    delimiter: u8,
    at: At,
    line: u64,
    /// The line where the last quotation mark that opened a field stands.
    opened: u64,
}

/// What the next byte is the next one of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// A field that begins.
    Field,
    Plain,
    Quoted,
    /// A quotation mark after quoted bytes: it ends them, unless another one follows.
    Mark,
}

impl<R> Closed<R> {
    pub(crate) fn new(input: R, delimiter: u8) -> Self {
        Self { input, delimiter, at: At::Field, line: 1, opened: 0 }
    }

    fn step(&mut self, byte: u8) {
        let is_end = byte == self.delimiter || byte == b'\n' || byte == b'\r';
        self.at = match (self.at, byte) {
            (At::Field, b'"') => {
                self.opened = self.line;
                At::Quoted
            }
            (At::Quoted, b'"') => At::Mark,
            (At::Quoted, _) | (At::Mark, b'"') => At::Quoted,
            _ if is_end => At::Field,
            _ => At::Plain,
        };
        self.line += u64::from(byte == b'\n');
    }
}

impl<R: Read> Read for Closed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        if len == 0 && self.at == At::Quoted && !buffer.is_empty() {
            let opened = self.opened;
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the quotation mark that opens a field in line {opened} has no end"),
            ));
        }
        buffer[..len].iter().for_each(|&byte| self.step(byte));
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(csv: &str) -> Option<String> {
        let mut whole = Vec::new();
        let read = Closed::new(csv.as_bytes(), b',').read_to_end(&mut whole);
        assert_eq!(whole, csv.as_bytes());
        read.err().map(|error| error.to_string())
    }

    #[test]
    fn only_an_open_mark_is_an_error() {
        for whole in ["", "a,b\n", "\"a\",\"b\"\"\"", "5\" pipe,x\n", "a,\"\"", "\"a\"b,c\r\n\"d\""]
        {
            assert_eq!(error(whole), None, "{whole}");
        }
        for cut in ["k,v\na,\"cut\nb,2\n", "k\n\"", "k\n\"a\"\""] {
            assert!(error(cut).is_some_and(|text| text.contains("line 2")), "{cut}");
        }
    }
}
