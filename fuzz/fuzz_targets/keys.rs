//! libFuzzer on `sim::hostile::targets::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sim::hostile::targets::keys(bytes));
