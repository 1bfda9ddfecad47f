//! What typed tables and typed keyspaces share: keys, values and ranges as bytes, and the
//! fingerprint by which one is not opened as something else. It knows neither engine.

use std::ops::{Bound, RangeBounds};

use super::{KeyCode, ValueCode};
use crate::checksum::crc32c;
use crate::{Error, Result};

/// What has one value for each key.
pub(crate) const TABLE: &str = "table";
/// What has several.
pub(crate) const MULTIMAP: &str = "multimap";

/// The bytes of a key.
pub(crate) fn encode<K: KeyCode>(key: K::Ref<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(<K as KeyCode>::FIXED_WIDTH.unwrap_or(32));
    <K as KeyCode>::encode(key, &mut out);
    out
}

/// The bytes of a value.
pub(crate) fn encode_value<V: ValueCode>(value: V::Ref<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(V::FIXED_WIDTH.unwrap_or(32));
    V::encode(value, &mut out)?;
    Ok(out)
}

pub(crate) fn decode_pair<K: KeyCode, V: ValueCode>(key: &[u8], value: &[u8]) -> Result<(K, V)> {
    Ok((<K as KeyCode>::decode(key)?, V::decode(value)?))
}

pub(crate) fn encode_bounds<'k, K: KeyCode>(
    keys: &impl RangeBounds<K::Ref<'k>>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let encoded = |bound: Bound<&K::Ref<'k>>| bound.map(|key| encode::<K>(*key));
    (encoded(keys.start_bound()), encoded(keys.end_bound()))
}

/// For example "table string -> u64".
pub(crate) fn type_names<K: KeyCode, V: ValueCode>(kind: &str) -> String {
    let mut names = format!("{kind} ");
    <K as KeyCode>::type_name(&mut names);
    names.push_str(" -> ");
    V::type_name(&mut names);
    names
}

/// What is stored of such names. Never 0, which is what a table without types has.
pub(crate) fn flags(names: &str) -> u32 {
    crc32c(0, names.as_bytes()).max(1)
}

pub(crate) fn fingerprint<K: KeyCode, V: ValueCode>(kind: &str) -> u32 {
    flags(&type_names::<K, V>(kind))
}

/// Refuses what was made for other types, by its name and the user flags that it has.
pub(crate) fn check<K: KeyCode, V: ValueCode>(
    kind: &str,
    name: &[u8],
    user_flags: u32,
) -> Result<()> {
    if user_flags == fingerprint::<K, V>(kind) {
        return Ok(());
    }
    let was = if user_flags == 0 { "without types" } else { "for other types" };
    let reason = format!("it was created {was}, not as a {}", type_names::<K, V>(kind));
    Err(Error::TableOptions { name: name.to_vec(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_types_and_kinds_apart() {
        let all = [
            fingerprint::<String, u64>("table"),
            fingerprint::<String, u32>("table"),
            fingerprint::<Vec<u8>, u64>("table"),
            fingerprint::<String, u64>("multimap"),
            fingerprint::<(String, u64), ()>("table"),
            fingerprint::<(), (String, u64)>("table"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(*a != 0 && !all[..i].contains(a), "fingerprint {i} is not its own");
        }
    }

    /// Stored in every typed table: it never changes.
    #[test]
    fn a_known_fingerprint() {
        assert_eq!(type_names::<String, u64>("table"), "table string -> u64");
        assert_eq!(fingerprint::<String, u64>("table"), crc32c(0, b"table string -> u64"));
    }

    #[test]
    fn bounds_are_encoded_as_keys_that_stand_alone() {
        let (low, high) = encode_bounds::<String>(&("a".."b\0"));
        assert_eq!(low, Bound::Included(b"a".to_vec()));
        assert_eq!(high, Bound::Excluded(b"b\0".to_vec()));
        let (low, high) = encode_bounds::<i16>(&(..=-1));
        assert_eq!((low, high), (Bound::Unbounded, Bound::Included(vec![0x7F, 0xFF])));
    }
}
