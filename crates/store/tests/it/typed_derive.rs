//! Derived keys: the bytewise order of their encodings is the order that `Ord` derives.

use std::cmp::Reverse;
use std::fmt::Debug;

use hedgerow::Error;
use hedgerow::key::{Key, KeyCode};
use hedgerow::lsm::{Batch, Options, TypedKeyspace};
use hedgerow::tree::TypedTable;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Visit {
    page: String,
    day: i32,
    cookie: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Ranked(Vec<u8>, Reverse<String>, Option<bool>);

/// One field: a key that stands alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Name(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Everything;

/// The numbers are not in the order of the lines: `Ord` goes by the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Level {
    High = 200,
    Low = 3,
    Next,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Fixed {
    level: Level,
    id: [u8; 4],
    at: u64,
}

/// Keys in keys, and more parts than tuples have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Deep {
    r#type: Level,
    name: Name,
    ranked: Reverse<Ranked>,
    visit: Option<Visit>,
    everything: Everything,
    fixed: Fixed,
    pair: (Name, u8),
    last: i8,
}

fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![Just('\0'), Just('a'), Just('\u{10FFFF}'), any::<char>()];
    prop::collection::vec(letter, 0..3).prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..4)
}

fn visit() -> impl Strategy<Value = Visit> {
    (text(), prop_oneof![-2i32..=2, any::<i32>()], bytes()).prop_map(|(page, day, cookie)| Visit {
        page,
        day,
        cookie,
    })
}

fn ranked() -> impl Strategy<Value = Ranked> {
    (bytes(), text(), any::<Option<bool>>()).prop_map(|(a, b, c)| Ranked(a, Reverse(b), c))
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::High), Just(Level::Low), Just(Level::Next)]
}

fn fixed() -> impl Strategy<Value = Fixed> {
    (level(), prop::array::uniform4(0u8..3), prop_oneof![0u64..3, any::<u64>()])
        .prop_map(|(level, id, at)| Fixed { level, id, at })
}

fn deep() -> impl Strategy<Value = Deep> {
    let parts = (level(), text(), ranked(), prop::option::of(visit()), fixed(), text(), -1i8..2);
    parts.prop_map(|(r#type, name, ranked, visit, fixed, other, last)| Deep {
        r#type,
        name: Name(name),
        ranked: Reverse(ranked),
        visit,
        everything: Everything,
        fixed,
        pair: (Name(other), last.unsigned_abs()),
        last,
    })
}

fn alone<K: KeyCode>(key: &K) -> Vec<u8> {
    let mut out = Vec::new();
    K::encode(key.to_ref(), &mut out);
    out
}

fn part<K: KeyCode>(key: &K) -> Vec<u8> {
    let mut out = Vec::new();
    K::encode_part(key.to_ref(), &mut out);
    out
}

/// Both encodings keep the order and come back, and no part is the beginning of another one.
fn promises<K: KeyCode + Ord + Debug>(a: &K, b: &K) -> Result<(), TestCaseError> {
    prop_assert_eq!(alone(a).cmp(&alone(b)), a.cmp(b), "alone: {:?} {:?}", a, b);
    prop_assert_eq!(part(a).cmp(&part(b)), a.cmp(b), "as parts: {:?} {:?}", a, b);
    prop_assert!(a == b || !part(a).starts_with(&part(b)), "{:?} begins with {:?}", a, b);
    prop_assert_eq!(&K::decode(&alone(a)).unwrap(), a);
    let followed = [part(a), b"\0\xFFrest".to_vec()].concat();
    let mut rest = followed.as_slice();
    prop_assert_eq!(&K::decode_part(&mut rest).unwrap(), a);
    prop_assert_eq!(rest, b"\0\xFFrest");
    if let Some(width) = K::FIXED_WIDTH {
        prop_assert_eq!((alone(a).len(), part(a).len()), (width, width));
    }
    Ok(())
}

/// Any bytes give an error, or a key whose encoding is those bytes again.
fn decodes_safely<K: KeyCode>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(key) = K::decode(bytes) {
        prop_assert_eq!(alone(&key), bytes);
    }
    Ok(())
}

proptest! {
    #[test]
    fn derived_keys_are_in_the_order_of_their_values(
        (a, b) in (visit(), visit()),
        (c, d) in (ranked(), ranked()),
        (e, f) in (text(), text()),
        (g, h) in (level(), level()),
        (i, j) in (fixed(), fixed()),
        (k, l) in (deep(), deep()),
        distance in -1i32..=1,
    ) {
        promises(&a, &b)?;
        promises(&a, &Visit { day: a.day.wrapping_add(distance), ..a.clone() })?;
        promises(&c, &d)?;
        promises(&c, &Ranked(c.0.clone(), d.1, c.2))?;
        promises(&Name(e), &Name(f))?;
        promises(&g, &h)?;
        promises(&i, &j)?;
        promises(&k, &l)?;
        promises(&k, &Deep { visit: l.visit.clone(), ..k.clone() })?;
        promises(&Everything, &Everything)?;
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        decodes_safely::<Visit>(&bytes)?;
        decodes_safely::<Ranked>(&bytes)?;
        decodes_safely::<Name>(&bytes)?;
        decodes_safely::<Level>(&bytes)?;
        decodes_safely::<Fixed>(&bytes)?;
        decodes_safely::<Deep>(&bytes)?;
    }
}

/// What is derived is stored: it is the encoding of tuples and of single parts, and never changes.
#[test]
fn a_struct_is_encoded_as_a_tuple() {
    let visit = Visit { page: "a\0".to_string(), day: -1, cookie: vec![7] };
    let tuple = ("a\0".to_string(), -1, vec![7]);
    assert_eq!(alone(&visit), alone(&tuple));
    assert_eq!(alone(&Name("a\0".to_string())), b"a\0");
    assert_eq!(part(&Name("a\0".to_string())), b"a\0\xFF\0\0");
    assert_eq!(alone(&Everything), b"");
    assert_eq!([Level::High, Level::Low, Level::Next].map(|level| alone(&level)[0]), [200, 3, 4]);
    assert_eq!((Fixed::FIXED_WIDTH, Visit::FIXED_WIDTH), (Some(13), None));
    assert_eq!(Everything::FIXED_WIDTH, Some(0));
    let mut names = String::new();
    Fixed::type_name(&mut names);
    <(Name, Everything)>::type_name(&mut names);
    assert_eq!(names, "(u8,bytes;4,u64,)(string,(),)");
    let error = Level::decode(&[5]).unwrap_err();
    assert_eq!(error.reason(), "no variant of Level has this number");
}

#[test]
fn both_engines_take_derived_keys() {
    let visit = |page: &str, day| Visit { page: page.to_string(), day, cookie: vec![] };
    let keys = [visit("a", -7), visit("a", 2), visit("ab", -9), visit("b", 0)];
    let scratch = super::Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = TypedTable::<Visit, Level>::create(&mut txn, "visits").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let space = TypedKeyspace::<Visit, Level>::create(&db, "visits", Default::default()).unwrap();
    let mut batch = Batch::new();
    for key in keys.iter().rev() {
        table.put(&mut txn, key, &Level::Next).unwrap();
        space.put(&mut batch, key, &Level::Low).unwrap();
    }
    db.write(batch).unwrap();
    assert_eq!(table.get(&txn, &keys[1]).unwrap(), Some(Level::Next));
    assert_eq!(table.rank(&txn, &keys[2]).unwrap().keys, 2);
    let found: Vec<_> = table.iter(&txn).unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, keys);
    let found = space.range(&db, &keys[0]..&visit("ab", i32::MAX)).unwrap().rev();
    let found: Vec<_> = found.map(|entry| entry.unwrap()).collect();
    let expected: Vec<_> = keys[..3].iter().rev().map(|key| (key.clone(), Level::Low)).collect();
    assert_eq!(found, expected);

    // The types are those of the parts: a tuple of the same ones is another way to read it.
    let tuples = TypedTable::<(String, i32, Vec<u8>), u8>::open(&txn, "visits").unwrap();
    assert_eq!(tuples.get(&txn, ("b", 0, &[])).unwrap(), Some(4));
    let other = TypedTable::<Ranked, Level>::open(&txn, "visits");
    assert!(matches!(other, Err(Error::TableOptions { .. })));
}
