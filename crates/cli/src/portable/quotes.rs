//! Notices that CSV ends inside quotation marks: it was cut off, and the reader of CSV would take
//! what is there for the rest of a field. And that a record is longer than it can be, before the
//! reader has all of it in memory.

use std::io::{self, Read};

use super::text_lines::{HEAD_BYTES, LINE_BYTES_MAX};

/// Passes CSV on as it is, and ends with an error if a quotation mark is still open, or if a record
/// is too long.
pub(crate) struct Closed<R> {
    input: R,
    delimiter: u8,
    at: At,
    line: u64,
    /// The line where the last quotation mark that opened a field stands.
    opened: u64,
    /// The bytes of the record so far, and how many it may have: the first one is a heading.
    record: u64,
    record_max: u64,
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
        let (record, record_max) = (0, HEAD_BYTES as u64);
        Self { input, delimiter, at: At::Field, line: 1, opened: 0, record, record_max }
    }

    fn step(&mut self, byte: u8) {
        let ends_record = byte == b'\n' || byte == b'\r';
        let is_end = byte == self.delimiter || ends_record;
        self.record += 1;
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
        if self.at == At::Field && ends_record {
            (self.record, self.record_max) = (0, LINE_BYTES_MAX);
        }
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
        for &byte in &buffer[..len] {
            self.step(byte);
            if self.record > self.record_max {
                let most = self.record_max;
                let reason = format!("a record of more than {most} bytes, which none can have");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
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
