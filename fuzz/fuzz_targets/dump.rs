//! libFuzzer on the readers of dumps, in every format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hedgerow_cli::portable::fuzz::dump(bytes));
