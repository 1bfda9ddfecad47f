//! Lines of an input with their numbers.

use std::io::{BufRead, BufReader, Read};

use super::BadInput;

/// Reads line by line.
pub(crate) struct TextLines {
    input: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl TextLines {
    /// Over `input`.
    pub(crate) fn new(input: Box<dyn Read>) -> Self {
        Self { input: BufReader::with_capacity(256 << 10, input), line: Vec::new(), number: 0 }
    }

    /// The next line without its end (line feed, or carriage return and line feed); `None` at the
    /// end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| BadInput {
            line: self.number + 1,
            reason: format!("cannot be read: {error}"),
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// An error in the line that was read last.
    pub(crate) fn bad(&self, reason: impl Into<String>) -> BadInput {
        BadInput { line: self.number, reason: reason.into() }
    }
}
