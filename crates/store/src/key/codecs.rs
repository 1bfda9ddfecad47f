//! Values of every type that serde knows: as JSON with the feature `json`, in the format Postcard
//! with the feature `postcard`. Neither keeps an order, so neither is for keys.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DecodeError, ValueCode};
use crate::{Error, Result};

/// A value of any type that serde knows, stored as JSON: with the feature `json`.
///
/// What is put is a reference to the value; what is got is the value in this type. Fields may be
/// added to the type later, and be renamed, in as far as serde is told what old values mean: the
/// fingerprint of a table only says that its values are JSON.
///
/// JSON has no NaN and no infinite numbers: such a number is stored as `null`, which is an error
/// when it is got as a number, and `None` as an `Option`.
///
/// ```
/// use hedgerow::key::Json;
/// use hedgerow::tree::{Store, TypedTable};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Person {
///     name: String,
///     #[serde(default)]
///     emails: Vec<String>,
/// }
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Store::create(folder.path().join("store"))?;
/// let mut txn = store.begin_write()?;
/// let people = TypedTable::<u32, Json<Person>>::create(&mut txn, "people")?;
/// let ada = Person { name: "Ada".to_string(), emails: vec![] };
/// people.put(&mut txn, 1, &ada)?;
/// assert_eq!(people.get(&txn, 1)?, Some(Json(ada)));
///
/// // An earlier version of the program wrote no emails. A value without a name is an error.
/// txn.put(people.table(), &[0, 0, 0, 2], br#"{"name":"Grace"}"#)?;
/// assert_eq!(people.get(&txn, 2)?.map(|Json(person)| person.name).as_deref(), Some("Grace"));
/// txn.put(people.table(), &[0, 0, 0, 3], br#"{"title":"Countess"}"#)?;
/// let error = people.get(&txn, 3).unwrap_err().to_string();
/// assert!(error.contains("missing field `name` at line 1 column 20"), "{error}");
/// # Ok(()) }
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

/// A value of any type that serde knows, stored in the format
/// [Postcard](https://postcard.jamesmunns.com), which is short and quick and holds no names: with
/// the feature `postcard`.
///
/// What is put is a reference to the value; what is got is the value in this type. The order of the
/// fields is part of the encoding, and so is their number: for a type that changed, make another
/// table. The fingerprint of a table only says that its values are in this format.
///
/// ```
/// use hedgerow::key::Postcard;
/// use hedgerow::lsm::{Batch, Options, TypedKeyspace};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// enum Event {
///     Opened { by: String },
///     Closed,
/// }
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Options::new().create(true).open(folder.path().join("db"))?;
/// let events = TypedKeyspace::<u64, Postcard<Event>>::create(&db, "events", Default::default())?;
/// let mut batch = Batch::new();
/// events.put(&mut batch, 1, &Event::Opened { by: "Ada".to_string() })?;
/// events.put(&mut batch, 2, &Event::Closed)?;
/// db.write(batch)?;
/// assert_eq!(events.last(&db)?, Some((2, Postcard(Event::Closed))));
/// # Ok(()) }
/// ```
#[cfg(feature = "postcard")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Postcard<T>(pub T);

/// A type of values by the name and the two functions of its codec.
macro_rules! value {
    ($type:ident, $name:literal, $encode:expr, $decode:expr) => {
        impl<T: Serialize + DeserializeOwned + 'static> ValueCode for $type<T> {
            type Ref<'a> = &'a T;
            const FIXED_WIDTH: Option<usize> = None;

            fn type_name(name: &mut String) {
                name.push_str($name);
            }

            fn encode(value: &T, out: &mut Vec<u8>) -> Result<()> {
                let encoded = $encode(value, out);
                encoded.map_err(|e| Error::argument(format!("no value as {}: {e}", $name)))
            }

            fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                let decoded = $decode(bytes);
                decoded.map(Self).map_err(|e| DecodeError::new(format!("no {}: {e}", $name)))
            }
        }
    };
}

#[cfg(feature = "json")]
value!(Json, "json", |value, out| serde_json::to_writer(out, value), serde_json::from_slice);

#[cfg(feature = "postcard")]
value!(Postcard, "postcard", to_postcard, from_postcard);

#[cfg(feature = "postcard")]
fn to_postcard(value: &impl Serialize, out: &mut Vec<u8>) -> postcard::Result<()> {
    *out = postcard::to_extend(value, std::mem::take(out))?;
    Ok(())
}

#[cfg(feature = "postcard")]
fn from_postcard<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err("bytes are left over".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    //! What the codecs refuse, in their own words.

    use std::collections::BTreeMap;

    use super::*;

    fn encoded<V: ValueCode>(value: V::Ref<'_>) -> Result<Vec<u8>> {
        let mut out = b"before".to_vec();
        V::encode(value, &mut out)?;
        Ok(out.split_off(6))
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_is_what_others_read() {
        type Value = Json<BTreeMap<String, Vec<i32>>>;
        let value = BTreeMap::from([("a".to_string(), vec![1, -2]), (String::new(), vec![])]);
        let bytes = encoded::<Value>(&value).unwrap();
        assert_eq!(bytes, br#"{"":[],"a":[1,-2]}"#);
        assert_eq!(Value::decode(&bytes), Ok(Json(value)));
        let error = Value::decode(br#"{"a":[1,"two"]}"#).unwrap_err();
        let expected = r#"no json: invalid type: string "two", expected i32 at line 1 column 13"#;
        assert_eq!(error.reason(), expected);
        let error = Json::<u8>::decode(b"1 2").unwrap_err();
        assert_eq!(error.reason(), "no json: trailing characters at line 1 column 3");
    }

    #[cfg(feature = "json")]
    #[test]
    fn what_json_cannot_say_is_refused() {
        let unnamed = BTreeMap::from([((1_u8, 2_u8), 3_u8)]);
        let error = encoded::<Json<BTreeMap<(u8, u8), u8>>>(&unnamed).unwrap_err();
        assert_eq!(error.to_string(), "no value as json: key must be a string");
    }

    #[cfg(feature = "postcard")]
    #[test]
    fn postcard_is_short() {
        type Value = Postcard<(u32, Option<String>)>;
        let value = (300, Some("a".to_string()));
        let bytes = encoded::<Value>(&value).unwrap();
        assert_eq!(bytes, [0xAC, 2, 1, 1, b'a']);
        assert_eq!(Value::decode(&bytes), Ok(Postcard(value)));
        let cut = Value::decode(&bytes[..4]).unwrap_err();
        assert_eq!(cut.reason(), "no postcard: Hit the end of buffer, expected more data");
        let long = Value::decode(&[&bytes[..], &[0]].concat()).unwrap_err();
        assert_eq!(long.reason(), "no postcard: bytes are left over");
    }

    /// A sequence that does not know its length.
    #[cfg(feature = "postcard")]
    #[derive(Debug, serde::Deserialize)]
    struct Endless;

    #[cfg(feature = "postcard")]
    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serde::ser::SerializeSeq::end(serializer.serialize_seq(None)?)
        }
    }

    #[cfg(feature = "postcard")]
    #[test]
    fn what_postcard_cannot_say_is_refused() {
        let error = encoded::<Postcard<Endless>>(&Endless).unwrap_err();
        let expected = "no value as postcard: The length of a sequence must be known";
        assert_eq!(error.to_string(), expected);
    }

    #[cfg(all(feature = "json", feature = "postcard"))]
    #[test]
    fn a_table_of_one_is_not_one_of_the_other() {
        use crate::key::typed::{TABLE, fingerprint};
        assert_ne!(
            fingerprint::<u8, Json<String>>(TABLE),
            fingerprint::<u8, Postcard<String>>(TABLE)
        );
    }
}
