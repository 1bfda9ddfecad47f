//! libFuzzer on `sim::hostile::targets::pages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sim::hostile::targets::pages(bytes));
