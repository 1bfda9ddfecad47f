//! Lines of an input with their numbers.

use std::io::{BufRead, BufReader, Read};

use super::BadInput;

/// Reads line by line.
pub(crate) struct TextLines {
    input: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
    end: u8,
    /// Whether a carriage return before the end belongs to it.
    strips_return: bool,
}

impl TextLines {
    /// Over `input`, whose lines end with a line feed, or a carriage return and a line feed.
    pub(crate) fn new(input: Box<dyn Read>) -> Self {
        Self::ending_with(input, b'\n', true)
    }

    /// Over `input`, whose lines end with this byte.
    pub(crate) fn ending_with(input: Box<dyn Read>, end: u8, strips_return: bool) -> Self {
        let input = BufReader::with_capacity(256 << 10, input);
        Self { input, line: Vec::new(), number: 0, end, strips_return }
    }

    /// The next line without its end; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.line.clear();
        let read = self.input.read_until(self.end, &mut self.line);
        let read = read.map_err(|error| BadInput {
            line: self.number + 1,
            reason: format!("cannot be read: {error}"),
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.line.strip_suffix(&[self.end]).unwrap_or(&self.line);
        Ok(Some(match self.strips_return {
            true => line.strip_suffix(b"\r").unwrap_or(line),
            false => line,
        }))
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
