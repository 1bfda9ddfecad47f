//! Lines of an input with their numbers. A line is held in memory as a whole, so it is looked at
//! before it gets longer than a key can be: an input of another kind may be a line without an end.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::BadInput;

/// A key takes no more than this in any format: each byte of the longest one may be `\u0000`.
pub(crate) const HEAD_BYTES: usize = 8 << 20;
/// The same for a key and a value together.
pub(crate) const LINE_BYTES_MAX: u64 = HEAD_BYTES as u64 + 6 * (4 << 30);
/// Memory for a line is asked for in steps of at least this.
const STEP_BYTES: usize = 64 << 10;

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

    /// The next line without its end, which is no longer than a key can be; `None` at the end.
    pub(crate) fn short(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.next(|_| {
            Err(format!("it has more than {HEAD_BYTES} bytes; no key has, and no line of a header"))
        })
    }

    /// The next line without its end; `None` at the end. `goes_on` gets the beginning of a line
    /// that is longer than a key can be, and says why it cannot be what is looked for.
    pub(crate) fn next(
        &mut self,
        goes_on: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<Option<&[u8]>, BadInput> {
        self.line.clear();
        self.number += 1;
        let cut =
            |e: io::Error| BadInput { line: self.number, reason: format!("cannot be read: {e}") };
        let (input, line) = (&mut self.input, &mut self.line);
        if !read_until(input, self.end, HEAD_BYTES as u64, line).map_err(cut)? {
            let (line, begun) = (self.number, goes_on(&self.line));
            begun.map_err(|reason| BadInput { line, reason })?;
            let (input, line) = (&mut self.input, &mut self.line);
            if !read_until(input, self.end, LINE_BYTES_MAX, line).map_err(cut)? {
                return Err(self.bad(format!("it has more than {LINE_BYTES_MAX} bytes")));
            }
        }
        if self.line.is_empty() {
            self.number -= 1;
            return Ok(None);
        }
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

/// Reads on up to and with `end`, or to the end of the input, until `line` has `most` bytes. True
/// if an end was reached.
fn read_until(
    input: &mut impl BufRead,
    end: u8,
    most: u64,
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    while (line.len() as u64) < most {
        if line.len() == line.capacity() {
            // As a vector grows by itself; but if there is no memory this is an error.
            let no_memory = |_| ErrorKind::OutOfMemory;
            line.try_reserve(line.len().max(STEP_BYTES)).map_err(no_memory)?;
        }
        let room = (line.capacity() - line.len()) as u64;
        let room = room.min(most - line.len() as u64);
        let read = input.by_ref().take(room).read_until(end, line)?;
        if read == 0 || line.last() == Some(&end) {
            return Ok(true);
        }
    }
    Ok(false)
}
