//! Where a stream has come, as bytes.

use std::ops::Bound;

use super::scan::{Ends, Position, Scan, Values};
use super::source::Source;
use crate::checksum::crc32c;
use crate::{Error, Result};

/// The first byte of every token: its form.
const FORM: u8 = 1;

/// What messages call it.
const WHAT: &str = "token";

/// How far a stream came, and what it reads: another stream goes on from there, also in another
/// process, after a restart, or much later ([`Scan::resume`]).
///
/// It is made of bytes that may be kept anywhere: [`Token::to_bytes`], or as hexadecimal digits
/// with `to_string` and `parse`. A checksum tells bytes that were damaged, and the store's identity
/// those of another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    store: [u8; 16],
    commit: u64,
    table: Vec<u8>,
    keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    is_reverse: bool,
    keys_only: bool,
    values: Values,
    /// How many pairs are left to skip and to give.
    skip: u64,
    limit: Option<u64>,
    after: Option<Position>,
    /// The last pair that was taken from the other end.
    until: Option<Position>,
}

impl Token {
    pub(super) fn new(store: [u8; 16], scan: &Scan, ends: Ends, commit: u64) -> Self {
        let (skip, limit) = (scan.to_skip(&ends), scan.limit.map(|_| scan.left(ends.taken)));
        let Ends { low, high, .. } = ends;
        let (after, until) = if scan.is_reverse { (high, low) } else { (low, high) };
        Self {
            store,
            commit,
            table: scan.table.clone(),
            keys: scan.keys.clone(),
            is_reverse: scan.is_reverse,
            keys_only: scan.keys_only,
            values: scan.values,
            skip,
            limit,
            after,
            until,
        }
    }

    /// The number of the commit that the stream saw.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// The table that the stream reads.
    pub fn table(&self) -> &[u8] {
        &self.table
    }

    /// The last pair that the stream gave; `None` if it gave none.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Refuses a source that is not the token's store.
    pub(super) fn check<S: Source>(&self, source: &S) -> Result<()> {
        match source.store_id()? == self.store {
            true => Ok(()),
            false => Err(Error::argument("the token is one of another store")),
        }
    }

    /// What the rest of the stream reads.
    pub(super) fn scan(&self) -> Scan {
        let mut scan = Scan::new(&self.table).values(self.values).skip(self.skip);
        scan.keys.clone_from(&self.keys);
        scan.after.clone_from(&self.after);
        scan.until.clone_from(&self.until);
        (scan.is_reverse, scan.keys_only, scan.limit) =
            (self.is_reverse, self.keys_only, self.limit);
        scan
    }

    /// The token as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORM];
        out.extend_from_slice(&self.store);
        out.extend_from_slice(&self.commit.to_le_bytes());
        let values = match self.values {
            Values::Each => 0,
            Values::First => 1,
            Values::Last => 2,
        };
        out.push(u8::from(self.is_reverse) | u8::from(self.keys_only) << 1 | values << 2);
        out.extend_from_slice(&self.skip.to_le_bytes());
        out.extend_from_slice(&self.limit.unwrap_or(u64::MAX).to_le_bytes());
        put_string(&mut out, Some(&self.table));
        for bound in [&self.keys.0, &self.keys.1] {
            let (kind, key) = match bound {
                Bound::Unbounded => (0, None),
                Bound::Included(key) => (1, Some(key)),
                Bound::Excluded(key) => (2, Some(key)),
            };
            out.push(kind);
            put_string(&mut out, key);
        }
        for end in [&self.after, &self.until] {
            put_string(&mut out, end.as_ref().map(|end| &end.key));
            put_string(&mut out, end.as_ref().and_then(|end| end.value.as_ref()));
        }
        sealed(out)
    }

    /// A token from its bytes.
    ///
    /// # Errors
    /// [`Error::Argument`] if they are not those of a token, or of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(unsealed(bytes, FORM, WHAT)?).ok_or_else(|| damaged(WHAT))
    }

    fn decode(mut body: &[u8]) -> Option<Self> {
        let rest = &mut body;
        let store = take(rest)?;
        let commit = u64::from_le_bytes(take(rest)?);
        let [flags] = take(rest)?;
        let values = match flags >> 2 {
            0 => Values::Each,
            1 => Values::First,
            2 => Values::Last,
            _ => return None,
        };
        let skip = u64::from_le_bytes(take(rest)?);
        let limit = Some(u64::from_le_bytes(take(rest)?)).filter(|&limit| limit != u64::MAX);
        let table = take_string(rest)??;
        let keys = (take_bound(rest)?, take_bound(rest)?);
        let (after, until) = (take_position(rest)?, take_position(rest)?);
        let (is_reverse, keys_only) = (flags & 1 != 0, flags & 2 != 0);
        let token = Self {
            store,
            commit,
            table,
            keys,
            is_reverse,
            keys_only,
            values,
            skip,
            limit,
            after,
            until,
        };
        rest.is_empty().then_some(token)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_digits(&self.to_bytes(), f)
    }
}

impl std::str::FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_bytes(&parse_digits(text, WHAT)?)
    }
}

fn damaged(what: &str) -> Error {
    Error::argument(format!("the {what} is damaged, or is none"))
}

/// The bytes of a token, the first of which is its form, with their checksum.
pub(super) fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let sum = crc32c(0, &body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

/// What [`sealed`] was given, without the form, which must be this one. Errors call it `what`.
pub(super) fn unsealed<'a>(bytes: &'a [u8], form: u8, what: &str) -> Result<&'a [u8]> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged(what))?;
    let (found, body_after) = body.split_first().ok_or_else(|| damaged(what))?;
    if crc32c(0, body).to_le_bytes() != *sum {
        return Err(damaged(what));
    }
    if *found != form {
        let reason = format!("the {what} is one of another kind, or of a newer version: {found}");
        return Err(Error::argument(reason));
    }
    Ok(body_after)
}

/// Writes bytes as hexadecimal digits.
pub(super) fn write_digits(bytes: &[u8], f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The bytes of hexadecimal digits. Errors call them `what`.
pub(super) fn parse_digits(text: &str, what: &str) -> Result<Vec<u8>> {
    let digits = || Error::argument(format!("a {what} is an even number of hexadecimal digits"));
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(digits()) };
    pairs.iter().map(|pair| byte(pair)).collect::<Option<_>>().ok_or_else(digits)
}

/// A length plus one, or 0 for nothing, and the bytes.
fn put_string(out: &mut Vec<u8>, string: Option<&Vec<u8>>) {
    let len = string.map_or(0, |string| string.len() as u64 + 1);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(string.map_or(&[], Vec::as_slice));
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// What [`put_string`] wrote; `None` if the bytes are too few.
fn take_string(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let Some(len) = u64::from_le_bytes(take(rest)?).checked_sub(1) else { return Some(None) };
    let (string, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(Some(string.to_vec()))
}

fn take_position(rest: &mut &[u8]) -> Option<Option<Position>> {
    let (key, value) = (take_string(rest)?, take_string(rest)?);
    Some(key.map(|key| Position { key, value }))
}

fn take_bound(rest: &mut &[u8]) -> Option<Bound<Vec<u8>>> {
    let [kind] = take(rest)?;
    match (kind, take_string(rest)?) {
        (0, None) => Some(Bound::Unbounded),
        (1, Some(key)) => Some(Bound::Included(key)),
        (2, Some(key)) => Some(Bound::Excluded(key)),
        _ => None,
    }
}
