//! Encodings of `Duration` and `SystemTime`: seconds, then nanoseconds below a second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{DecodeError, KeyCode};

const NANOSECONDS: u32 = 1_000_000_000;

fn decode_nanoseconds(bytes: &mut &[u8]) -> Result<u32, DecodeError> {
    match u32::decode_part(bytes)? {
        nanoseconds if nanoseconds < NANOSECONDS => Ok(nanoseconds),
        _ => Err(DecodeError::new("nanoseconds reach a second")),
    }
}

impl KeyCode for Duration {
    type Ref<'a> = Duration;
    const FIXED_WIDTH: Option<usize> = Some(12);

    fn type_name(name: &mut String) {
        name.push_str("duration");
    }

    fn to_ref(&self) -> Duration {
        *self
    }

    fn encode_part(value: Duration, out: &mut Vec<u8>) {
        u64::encode_part(value.as_secs(), out);
        u32::encode_part(value.subsec_nanos(), out);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let seconds = u64::decode_part(bytes)?;
        Ok(Duration::new(seconds, decode_nanoseconds(bytes)?))
    }
}

impl KeyCode for SystemTime {
    type Ref<'a> = SystemTime;
    const FIXED_WIDTH: Option<usize> = Some(12);

    fn type_name(name: &mut String) {
        name.push_str("time");
    }

    fn to_ref(&self) -> SystemTime {
        *self
    }

    fn encode_part(value: SystemTime, out: &mut Vec<u8>) {
        let (seconds, nanoseconds) = match value.duration_since(UNIX_EPOCH) {
            Ok(since) => (i128::from(since.as_secs()), since.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = -i128::from(before.as_secs());
                match before.subsec_nanos() {
                    0 => (seconds, 0),
                    nanoseconds => (seconds - 1, NANOSECONDS - nanoseconds),
                }
            }
        };
        // No system counts more seconds than 63 bits hold.
        i64::encode_part(seconds as i64, out);
        u32::encode_part(nanoseconds, out);
    }

    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let seconds = i64::decode_part(bytes)?;
        let nanoseconds = decode_nanoseconds(bytes)?;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let time =
            if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        time.and_then(|time| time.checked_add(Duration::from_nanos(u64::from(nanoseconds))))
            .ok_or(DecodeError::new("a time is outside of what this system can represent"))
    }
}
