//! The library as programs see it: compiled against the headers, linked to the built library.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod original;
mod own;
mod programs;
mod scripts;
mod symbols;
