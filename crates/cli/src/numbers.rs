//! Numbers in a form for people.

use std::time::Duration;

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of pages.
pub(crate) fn pages(number: u64) -> String {
    format!("{} page{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number of bytes in the unit that suits it.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut size = number as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} bytes") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// Reads a number of bytes: 4096, 4k, 10M, 2G, 1T, in units of 1,024.
pub(crate) fn parse_size(written: &str) -> Result<u64, String> {
    let digits = written.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &written[digits.len()..] {
        "" | "B" => Some(0),
        "k" | "K" | "KiB" => Some(10),
        "M" | "MiB" => Some(20),
        "G" | "GiB" => Some(30),
        "T" | "TiB" => Some(40),
        _ => None,
    };
    let size = digits.parse().ok().zip(shift);
    let size = size.and_then(|(number, shift): (u64, u32)| number.checked_mul(1 << shift));
    size.ok_or_else(|| "a number of bytes, such as 4096, 4k, 10M or 2G".to_owned())
}

/// Reads a number of bytes that is not large.
pub(crate) fn parse_small_size(written: &str) -> Result<u32, String> {
    parse_size(written)?.try_into().map_err(|_| "less than 4G bytes".to_owned())
}

/// A time in the unit that suits it.
pub(crate) fn time(time: Duration) -> String {
    time_as(time, time)
}

/// A time in the unit that suits another one.
pub(crate) fn time_as(time: Duration, like: Duration) -> String {
    let seconds = time.as_secs_f64();
    match like.as_nanos() {
        0..=9_999 => format!("{} ns", time.as_nanos()),
        10_000..=9_999_999 => format!("{:.1} us", seconds * 1e6),
        10_000_000..=9_999_999_999 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_units() {
        for (written, size) in [("0", 0), ("4096", 4096), ("4k", 4096), ("10M", 10 << 20)] {
            assert_eq!(parse_size(written), Ok(size));
        }
        assert_eq!(parse_size("3GiB"), Ok(3 << 30));
        for wrong in ["", "k", "-1", "1.5M", "10X", "16777216T", "1 M"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        assert!(parse_small_size("4G").is_err());
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(pages(1), "1 page");
        assert_eq!(pages(1000), "1,000 pages");
        assert_eq!(bytes(100), "100 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(time(Duration::from_nanos(850)), "850 ns");
        assert_eq!(time(Duration::from_micros(850)), "850.0 us");
        assert_eq!(time(Duration::from_millis(850)), "850.0 ms");
        assert_eq!(time(Duration::from_secs(85)), "85.0 s");
        assert_eq!(time_as(Duration::from_nanos(850), Duration::from_millis(1)), "0.8 us");
    }
}
