//! Order-preserving encodings: typed keys and values as byte strings.
//!
//! A [`KeyCode`] type is encoded so that the bytewise order of the encodings is the order of the
//! values; [`TypedTable`](crate::tree::TypedTable) and
//! [`TypedKeyspace`](crate::lsm::TypedKeyspace) put such types on top of the tables of bytes. The
//! encodings are part of a store's format and never change. This module knows no tables and no
//! pages.
//!
//! | type | encoding | bytes |
//! |---|---|---|
//! | `u8` to `u128` | big-endian | 1 to 16 |
//! | `i8` to `i128` | big-endian, sign bit flipped | 1 to 16 |
//! | `f32`, `f64` | bits in the order of `total_cmp`, big-endian | 4, 8 |
//! | `bool`, `char`, `()` | as `u8`, as `u32`, nothing | 1, 4, 0 |
//! | `String`, `Vec<u8>` alone | its bytes | length |
//! | `String`, `Vec<u8>` in a tuple | `00` written as `00 FF`, then `00 00` | length + 2 and more |
//! | `[u8; N]` | its bytes | N |
//! | `Option<T>` | `00`, or `01` and the value | 1 and more |
//! | `Reverse<T>` | every bit of `T`'s encoding in a tuple inverted | as `T` |
//! | tuples of 2 to 6 | the parts one after the other | sum |
//! | `Duration`, `SystemTime` | seconds (`u64`, `i64`), nanoseconds (`u32`) | 12 |
//!
//! With the feature `derive`, structs of such types are keys, too, and enums without fields: `Key`.
//!
//! `usize` and `isize` are left out: a store moves between machines where they differ.
//!
//! Values need no order. With the features `json` and `postcard` they may be of any type that serde
//! knows, in a `Json` or a `Postcard`.

#[cfg(any(feature = "json", feature = "postcard"))]
mod codecs;
mod compound;
mod number;
mod range;
mod text;
mod time;
pub(crate) mod typed;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

#[cfg(feature = "json")]
pub use codecs::Json;
#[cfg(feature = "postcard")]
pub use codecs::Postcard;
/// Derives [`KeyCode`] for a struct, or for an enum whose variants have no fields: with the feature
/// `derive`.
///
/// A struct is encoded as the tuple of its fields, so it comes in the order that `Ord` derives: by
/// the first field, then by the second one. It may have more fields than tuples have; each is of a
/// type that is a key. A struct of one field is encoded as this field. The fingerprint of a table
/// says the types of the parts, not the name of the struct.
///
/// A variant is encoded as its number, one byte: they come in the order of their numbers, which is
/// that of `Ord`, too. Give the variants numbers (`Low = 1`) if some may be added between them
/// later.
///
/// Types with parameters are refused, and so are variants with fields.
///
/// ```
/// use hedgerow::key::Key;
/// use hedgerow::tree::{Store, TypedTable};
///
/// #[derive(Debug, PartialEq, Key)]
/// enum Kind {
///     Read = 1,
///     Write = 2,
/// }
///
/// #[derive(Debug, PartialEq, Key)]
/// struct Visit {
///     page: String,
///     day: u32,
///     kind: Kind,
/// }
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Store::create(folder.path().join("store"))?;
/// let visit = |page: &str, day, kind| Visit { page: page.to_string(), day, kind };
/// let mut txn = store.begin_write()?;
/// let visits = TypedTable::<Visit, u64>::create(&mut txn, "visits")?;
/// visits.put(&mut txn, &visit("/", 8, Kind::Read), 350)?;
/// visits.put(&mut txn, &visit("/about", 7, Kind::Write), 1)?;
/// visits.put(&mut txn, &visit("/", 7, Kind::Read), 400)?;
/// assert_eq!(visits.first(&txn)?, Some((visit("/", 7, Kind::Read), 400)));
/// let day_8 = &visit("/", 8, Kind::Read)..&visit("/", 9, Kind::Read);
/// assert_eq!(visits.count_range(&txn, day_8)?, 1);
/// # Ok(()) }
/// ```
#[cfg(feature = "derive")]
pub use hedgerow_derive::Key;
pub(crate) use range::end_of_prefix;
pub use range::{KeyRange, Prefix, prefix};

/// A type that is encoded as a byte string of the same order.
///
/// There are two encodings. A key *alone* ends where its byte string ends. A *part* of a tuple
/// shows by its own bytes where it ends: no part is the beginning of another one, so tuples are
/// ordered by their parts, one after the other. For types of a fixed width the two are the same.
///
/// ```
/// use hedgerow::key::KeyCode;
///
/// let mut low = Vec::new();
/// let mut high = Vec::new();
/// <(String, i32)>::encode(("a", 7), &mut low);
/// <(String, i32)>::encode(("ab", -1), &mut high);
/// assert!(low < high);
/// assert_eq!(<(String, i32)>::decode(&low)?, ("a".to_string(), 7));
/// # Ok::<(), hedgerow::key::DecodeError>(())
/// ```
///
/// An implementation must keep three promises: the order of the encodings is the order of the
/// values, `decode` gives back what `encode` was given, and `decode` answers any bytes with a value
/// or an error.
pub trait KeyCode: Sized {
    /// What a caller passes in: `&str` for `String`, the type itself for numbers.
    type Ref<'a>: Copy;

    /// The length of every encoding in bytes, if it is always the same.
    const FIXED_WIDTH: Option<usize>;

    /// Adds the name of the type to `name`. Types with the same name are encoded alike; the name is
    /// what a typed table compares when it is opened.
    fn type_name(name: &mut String);

    /// What [`KeyCode::encode`] takes, from an owned value.
    fn to_ref(&self) -> Self::Ref<'_>;

    /// Adds the encoding as a part of a tuple to the end of `out`.
    fn encode_part(value: Self::Ref<'_>, out: &mut Vec<u8>);

    /// Takes a part of a tuple off the front of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` does not begin with an encoding of this type.
    fn decode_part(bytes: &mut &[u8]) -> Result<Self, DecodeError>;

    /// Adds the encoding of a value that stands alone to the end of `out`.
    #[inline]
    fn encode(value: Self::Ref<'_>, out: &mut Vec<u8>) {
        Self::encode_part(value, out);
    }

    /// The value that `bytes`, all of them, encode.
    ///
    /// # Errors
    /// [`DecodeError`] if they are not an encoding of this type.
    #[inline]
    fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let value = Self::decode_part(&mut bytes)?;
        if bytes.is_empty() { Ok(value) } else { Err(DecodeError::new("bytes are left over")) }
    }
}

/// A type that is encoded as a byte string, in no particular order: the values of a table.
///
/// Every [`KeyCode`] type is also a `ValueCode`, and with the features `json` and `postcard` so are
/// all types that serde knows, in a `Json` or `Postcard`. Implement this trait, and not `KeyCode`,
/// for types whose order does not matter.
///
/// ```
/// use hedgerow::key::{DecodeError, ValueCode};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Color([u8; 3]);
///
/// impl ValueCode for Color {
///     type Ref<'a> = Color;
///     const FIXED_WIDTH: Option<usize> = Some(3);
///
///     fn type_name(name: &mut String) {
///         name.push_str("color");
///     }
///     fn encode(value: Color, out: &mut Vec<u8>) -> hedgerow::Result<()> {
///         out.extend_from_slice(&value.0);
///         Ok(())
///     }
///     fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
///         bytes.try_into().map(Color).map_err(|_| DecodeError::new("a color has 3 bytes"))
///     }
/// }
/// assert_eq!(Color::decode(&[1, 2, 3]), Ok(Color([1, 2, 3])));
/// ```
pub trait ValueCode: Sized {
    /// What a caller passes in: `&str` for `String`, the type itself for numbers.
    type Ref<'a>: Copy;

    /// The length of every encoding in bytes, if it is always the same.
    const FIXED_WIDTH: Option<usize>;

    /// Adds the name of the type to `name`.
    fn type_name(name: &mut String);

    /// Adds the encoding to the end of `out`.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if the value has none.
    fn encode(value: Self::Ref<'_>, out: &mut Vec<u8>) -> crate::Result<()>;

    /// The value that `bytes` encode.
    ///
    /// # Errors
    /// [`DecodeError`] if they are not an encoding of this type.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

impl<T: KeyCode> ValueCode for T {
    type Ref<'a> = <T as KeyCode>::Ref<'a>;
    const FIXED_WIDTH: Option<usize> = <T as KeyCode>::FIXED_WIDTH;

    fn type_name(name: &mut String) {
        <T as KeyCode>::type_name(name);
    }

    #[inline]
    fn encode(value: Self::Ref<'_>, out: &mut Vec<u8>) -> crate::Result<()> {
        <T as KeyCode>::encode(value, out);
        Ok(())
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        <T as KeyCode>::decode(bytes)
    }
}

/// Bytes that are not an encoding of the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    reason: Cow<'static, str>,
}

impl DecodeError {
    /// An error with what is wrong, for example "a color has 3 bytes".
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bytes do not fit the type: {}", self.reason)
    }
}

impl std::error::Error for DecodeError {}

impl From<DecodeError> for crate::Error {
    fn from(error: DecodeError) -> Self {
        Self::WrongTable { reason: error.reason }
    }
}

/// Takes `N` bytes off the front of `bytes`.
#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    match bytes.split_first_chunk::<N>() {
        Some((chunk, rest)) => {
            *bytes = rest;
            Ok(*chunk)
        }
        None => Err(DecodeError::new("bytes are missing")),
    }
}
