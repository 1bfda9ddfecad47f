//! The library through `rusqlite`.

use sqlite as _;

mod probes;
