//! Lines on standard error. One that cannot be written is lost, and what the command does goes on.

/// Writes a line to standard error, given as for `format!`.
macro_rules! tell {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}

pub(crate) use tell;
