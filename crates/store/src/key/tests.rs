//! The three promises of every encoding, checked with the order of the standard library.

use std::cmp::{Ordering, Reverse};
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::KeyCode;

fn alone<T: KeyCode>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    T::encode(value.to_ref(), &mut out);
    out
}

fn part<T: KeyCode>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    T::encode_part(value.to_ref(), &mut out);
    out
}

/// Both encodings keep the order, come back unchanged, and parts are prefix-free.
fn promises<T: KeyCode + Clone + Debug>(
    a: &T,
    b: &T,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<(), TestCaseError> {
    let expected = compare(a, b);
    prop_assert_eq!(alone(a).cmp(&alone(b)), expected, "alone: {:?} {:?}", a, b);
    prop_assert_eq!(part(a).cmp(&part(b)), expected, "as parts: {:?} {:?}", a, b);
    if expected != Ordering::Equal {
        prop_assert!(!part(a).starts_with(&part(b)), "{:?} begins with {:?}", a, b);
    }
    for value in [a, b] {
        let again = T::decode(&alone(value)).unwrap();
        prop_assert_eq!(compare(&again, value), Ordering::Equal);
        let mut followed = part(value);
        followed.extend_from_slice(b"\x00\xFFrest");
        let mut bytes = followed.as_slice();
        let again = T::decode_part(&mut bytes).unwrap();
        prop_assert_eq!(compare(&again, value), Ordering::Equal);
        prop_assert_eq!(bytes, b"\x00\xFFrest");
        if let Some(width) = T::FIXED_WIDTH {
            prop_assert_eq!(alone(value).len(), width);
            prop_assert_eq!(part(value).len(), width);
        }
    }
    Ok(())
}

fn ordered<T: KeyCode + Ord + Clone + Debug>(a: &T, b: &T) -> Result<(), TestCaseError> {
    promises(a, b, T::cmp)
}

/// Any bytes give an error, or a value whose encoding is those bytes again: every value has one
/// encoding.
fn decodes_safely<T: KeyCode + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = T::decode(bytes) {
        prop_assert_eq!(alone(&value), bytes);
    }
    let mut rest = bytes;
    if let Ok(value) = T::decode_part(&mut rest) {
        prop_assert_eq!([part(&value), rest.to_vec()].concat(), bytes);
    }
    Ok(())
}

/// Strings in which zeros, the largest byte and common beginnings are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), Just(b'a'), any::<u8>()];
    prop::collection::vec(byte, 0..6)
}

fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![Just('\0'), Just('a'), Just('b'), Just('\u{10FFFF}'), any::<char>()];
    prop::collection::vec(letter, 0..5).prop_map(String::from_iter)
}

fn duration() -> impl Strategy<Value = Duration> {
    let seconds = prop_oneof![0u64..3, any::<u64>()];
    (seconds, 0u32..1_000_000_000).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn time() -> impl Strategy<Value = SystemTime> {
    (-10_000_000_000i64..10_000_000_000, any::<bool>()).prop_map(|(nanos, far)| {
        let distance = Duration::from_nanos(nanos.unsigned_abs()) * if far { 1_000_000 } else { 1 };
        if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    })
}

/// Bit patterns of all kinds of floats, both zeros, infinities and quiet and signalling NaN.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY]),
        prop::sample::select(vec![f64::NAN, -f64::NAN, f64::MIN_POSITIVE, f64::MAX, f64::MIN]),
    ]
}

macro_rules! integers {
    ($($type:ident)*) => {
        proptest! {$(
            #[test]
            fn $type(a: $type, b: $type, distance in -2i8..=2) {
                ordered(&a, &b)?;
                ordered(&a, &a.wrapping_add(distance as $type))?;
                ordered(&a, &$type::MIN)?;
                ordered(&a, &$type::MAX)?;
            }
        )*}
    };
}
integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

proptest! {
    #[test]
    fn floats(a in float(), b in float()) {
        promises(&a, &b, f64::total_cmp)?;
        promises(&(a as f32), &(b as f32), f32::total_cmp)?;
        prop_assert_eq!(f64::decode(&alone(&a)).unwrap().to_bits(), a.to_bits());
    }

    #[test]
    fn float_bits(a: u32, b: u32) {
        promises(&f32::from_bits(a), &f32::from_bits(b), f32::total_cmp)?;
    }

    #[test]
    fn small_types(a: (bool, char), b: (bool, char), c: [u8; 3], d: [u8; 3]) {
        ordered(&a.0, &b.0)?;
        ordered(&a.1, &b.1)?;
        ordered(&c, &d)?;
        ordered(&(), &())?;
    }

    #[test]
    fn strings(a in text(), b in text(), c in bytes(), d in bytes()) {
        ordered(&a, &b)?;
        ordered(&c, &d)?;
    }

    #[test]
    fn times(a in duration(), b in duration(), c in time(), d in time()) {
        ordered(&a, &b)?;
        ordered(&c, &d)?;
    }

    #[test]
    fn options_and_reverse(a in prop::option::of(bytes()), b in prop::option::of(bytes())) {
        ordered(&a, &b)?;
        ordered(&Reverse(a.clone()), &Reverse(b.clone()))?;
        ordered(&Some(Reverse(a.clone())), &Some(Reverse(b.clone())))?;
        ordered(&Reverse(Reverse(a)), &Reverse(Reverse(b)))?;
    }

    #[test]
    fn tuples(a in (bytes(), text(), any::<i8>()), b in (bytes(), text(), any::<i8>())) {
        ordered(&a, &b)?;
        let pair = |t: &(Vec<u8>, String, i8)| (t.0.clone(), Reverse(t.1.clone()));
        ordered(&pair(&a), &pair(&b))?;
        let nested = |t: &(Vec<u8>, String, i8)| ((Some(t.0.clone()), t.1.clone()), t.2, t.2, t.2);
        ordered(&nested(&a), &nested(&b))?;
        let five = |t: &(Vec<u8>, String, i8)| (t.2, t.0.clone(), (), t.1.clone(), t.2);
        ordered(&five(&a), &five(&b))?;
        let six =
            |t: &(Vec<u8>, String, i8)| (t.2, t.0.clone(), t.2, t.1.clone(), (), t.0.clone());
        ordered(&six(&a), &six(&b))?;
    }

    /// A tuple begins with the encoding of its first parts: a prefix of bytes is a prefix of parts.
    #[test]
    fn first_parts_are_a_prefix(a in bytes(), b in bytes(), c in bytes(), other in bytes()) {
        let whole = part(&(a.clone(), b.clone(), c));
        prop_assert!(whole.starts_with(&part(&a)));
        prop_assert!(whole.starts_with(&part(&(a.clone(), b.clone()))));
        prop_assert_eq!(whole.starts_with(&part(&other)), other == a);
        prop_assert_eq!(whole.starts_with(&part(&(a, other.clone()))), other == b);
    }

    #[test]
    fn any_bytes_are_answered(
        bytes in prop_oneof![bytes(), prop::collection::vec(any::<u8>(), 0..40)],
    ) {
        decodes_safely::<bool>(&bytes)?;
        decodes_safely::<char>(&bytes)?;
        decodes_safely::<u64>(&bytes)?;
        decodes_safely::<i128>(&bytes)?;
        decodes_safely::<f32>(&bytes)?;
        decodes_safely::<String>(&bytes)?;
        decodes_safely::<Vec<u8>>(&bytes)?;
        decodes_safely::<[u8; 3]>(&bytes)?;
        decodes_safely::<Duration>(&bytes)?;
        decodes_safely::<SystemTime>(&bytes)?;
        decodes_safely::<Option<String>>(&bytes)?;
        decodes_safely::<Reverse<Option<Vec<u8>>>>(&bytes)?;
        decodes_safely::<(Vec<u8>, u8)>(&bytes)?;
        decodes_safely::<(bool, Reverse<String>, Option<u8>)>(&bytes)?;
    }
}

/// The encodings are part of the format: these bytes never change.
#[test]
fn known_encodings() {
    assert_eq!(alone(&0x0102u16), [1, 2]);
    assert_eq!(alone(&-1i32), [0x7F, 0xFF, 0xFF, 0xFF]);
    assert_eq!(alone(&1.0f32), [0xBF, 0x80, 0, 0]);
    assert_eq!(alone(&-1.0f32), [0x40, 0x7F, 0xFF, 0xFF]);
    assert_eq!(alone(&"a\0b".to_string()), b"a\0b");
    assert_eq!(alone(&("a\0b".to_string(), true)), b"a\0\xFFb\0\0\x01");
    assert_eq!(alone(&Some(2u8)), [1, 2]);
    assert_eq!(alone(&Some("a".to_string())), b"\x01a");
    assert_eq!(part(&Some("a".to_string())), b"\x01a\0\0");
    assert_eq!(alone(&Reverse("a".to_string())), [0x9E, 0xFF, 0xFF]);
    assert_eq!(alone(&Duration::new(1, 2)), [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
    let before = UNIX_EPOCH - Duration::from_nanos(1);
    let expected = [0x7F, 255, 255, 255, 255, 255, 255, 255, 0x3B, 0x9A, 0xC9, 0xFF];
    assert_eq!(alone(&before), expected);
}

#[test]
fn type_names_tell_types_apart() {
    type Deep = (Option<Reverse<String>>, [u8; 16], ((), f64), Vec<u8>);
    let mut name = String::new();
    Deep::type_name(&mut name);
    assert_eq!(name, "(option<reverse<string>>,bytes;16,((),f64,),bytes,)");
}

#[test]
fn errors_say_what_is_wrong() {
    let error = <(u8, bool)>::decode(&[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "the bytes do not fit the type: a bool is 0 or 1");
    assert_eq!(u16::decode(&[1]).unwrap_err().reason(), "bytes are missing");
    assert_eq!(u16::decode(&[1, 2, 3]).unwrap_err().reason(), "bytes are left over");
}
