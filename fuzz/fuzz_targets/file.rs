//! libFuzzer on `sim::hostile::targets::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sim::hostile::targets::file(bytes));
