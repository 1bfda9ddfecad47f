//! The library as C programs see it: compiled against the header, linked to the built library.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod header;
#[cfg(target_os = "linux")]
mod original;
mod programs;
#[cfg(target_os = "linux")]
mod promises;
mod scripts;
mod smoke;
