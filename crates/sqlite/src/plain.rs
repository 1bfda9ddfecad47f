//! Plain tables of a store as virtual tables: `CREATE VIRTUAL TABLE t USING hedgerow(...)`. Here is
//! what such a table is, how values become keys, and how a scan goes through a range; it knows
//! nothing of pointers.

pub(crate) mod module;
mod plan;
mod scan;

pub(crate) use scan::Scan;

use std::ffi::c_int;

use hedgerow::Error;
use hedgerow::tree::{Snapshot as _, Table, TableInfo, TableOptions};
use libsqlite3_sys as sys;

use crate::code::{Code, code_of};
use crate::conn::{Conn, on_body};

/// Tables of a store that are SQLite's own.
const OWN: &str = "sqlite/";

/// Why a call fails: SQLite's code, and a sentence if there is more to say.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) text: Option<String>,
}

/// What calls of virtual tables give.
pub(crate) type Outcome<T = ()> = Result<T, Problem>;

impl Problem {
    /// An error that says something.
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: Some(text.into()) }
    }

    /// An error of the statement.
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::new(sys::SQLITE_ERROR, text)
    }
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self { code, text: None }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::new(code_of(&error), error.to_string())
    }
}

/// A value of SQLite's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'v> {
    Null,
    Integer(i64),
    /// With the text that SQLite makes of it.
    Real(f64, &'v [u8]),
    Text(&'v [u8]),
    Blob(&'v [u8]),
}

/// What the bytes of keys or values are in SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, as it is.
    #[default]
    Text,
    /// Bytes, as they are.
    Blob,
    /// Numbers of 64 bits with a sign, encoded so that they order as numbers.
    Integer,
    /// The same without a sign.
    Unsigned,
}

const SIGN: u64 = 1 << 63;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// The keys that may be equal to a value.
#[derive(Debug, PartialEq)]
pub(crate) enum Equal {
    Key(Vec<u8>),
    None,
    Any,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "text" => Some(Self::Text),
            "blob" => Some(Self::Blob),
            "integer" => Some(Self::Integer),
            "unsigned" => Some(Self::Unsigned),
            _ => None,
        }
    }

    /// The type of a column.
    fn declared(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Integer | Self::Unsigned => "INTEGER",
        }
    }

    /// Whether values of SQLite's type, one of `SQLITE_INTEGER` and so on, compare with the column
    /// as their bytes do, whatever stands around them.
    pub(crate) fn takes(self, kind: c_int) -> bool {
        match self {
            Self::Text => kind == sys::SQLITE_TEXT,
            Self::Blob => kind == sys::SQLITE_BLOB,
            Self::Integer | Self::Unsigned => kind == sys::SQLITE_INTEGER,
        }
    }

    /// The bytes of a value that has this kind exactly; `None` for others.
    pub(crate) fn exact(self, value: Value<'_>) -> Option<Vec<u8>> {
        match (self, value) {
            (Self::Text, Value::Text(bytes)) | (Self::Blob, Value::Blob(bytes)) => {
                Some(bytes.to_vec())
            }
            (Self::Integer, Value::Integer(number)) => {
                Some((number.cast_unsigned() ^ SIGN).to_be_bytes().to_vec())
            }
            (Self::Unsigned, Value::Integer(number)) => {
                u64::try_from(number).ok().map(|number| number.to_be_bytes().to_vec())
            }
            _ => None,
        }
    }

    /// Whether a value is less than all that this kind has.
    pub(crate) fn is_below_all(self, value: Value<'_>) -> bool {
        self == Self::Unsigned && matches!(value, Value::Integer(..0))
    }

    /// Whether keys are numbers.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Unsigned)
    }

    /// Which keys may be equal to a value, in which a text that is a number stands as one if keys
    /// are numbers.
    pub(crate) fn equal(self, value: Value<'_>) -> Equal {
        let key = match (self, value) {
            // Which text it becomes, or which texts become it, the comparison says.
            (Self::Text, Value::Integer(_) | Value::Real(..)) => return Equal::Any,
            (Self::Integer | Self::Unsigned, Value::Real(number, _)) => {
                let is_whole = number.fract() == 0.0 && (-TWO_63..TWO_63).contains(&number);
                is_whole.then(|| self.exact(Value::Integer(number as i64))).flatten()
            }
            _ => self.exact(value),
        };
        key.map_or(Equal::None, Equal::Key)
    }

    /// The bytes of a value that is stored, converted as SQLite converts what goes into a column.
    fn stored(self, value: Value<'_>, column: &str) -> Outcome<Vec<u8>> {
        let whole = |number: f64| number.fract() == 0.0 && number.abs() < 9.0e15;
        let read = |bytes| std::str::from_utf8(bytes).ok()?.trim().parse::<i64>().ok();
        let bytes = match (self, value) {
            (_, Value::Null) => {
                let text = format!("NOT NULL constraint failed: {column}");
                return Err(Problem::new(sys::SQLITE_CONSTRAINT_NOTNULL, text));
            }
            (Self::Integer | Self::Unsigned, Value::Real(number, _)) if whole(number) => {
                self.exact(Value::Integer(number as i64))
            }
            (Self::Integer | Self::Unsigned, Value::Text(bytes)) => {
                read(bytes).and_then(|number| self.exact(Value::Integer(number)))
            }
            (Self::Text, Value::Integer(number)) => Some(number.to_string().into_bytes()),
            (Self::Text, Value::Real(_, text)) => Some(text.to_vec()),
            (Self::Blob, Value::Text(bytes)) => Some(bytes.to_vec()),
            (kind, value) => kind.exact(value),
        };
        let what = format!("{column} is {}, and the value is something else", self.declared());
        bytes.ok_or_else(|| Problem::new(sys::SQLITE_MISMATCH, what))
    }

    /// What bytes are in SQL.
    pub(crate) fn show(self, bytes: &[u8]) -> Outcome<Value<'_>> {
        let number = || bytes.try_into().map(u64::from_be_bytes).ok();
        match self {
            Self::Text => Ok(Value::Text(bytes)),
            Self::Blob => Ok(Value::Blob(bytes)),
            Self::Integer => {
                let number = number().map(|number| Value::Integer((number ^ SIGN).cast_signed()));
                number.ok_or_else(|| not_a_number(bytes))
            }
            Self::Unsigned => {
                let number = number().and_then(|number| i64::try_from(number).ok());
                number.map(Value::Integer).ok_or_else(|| not_a_number(bytes))
            }
        }
    }
}

fn not_a_number(bytes: &[u8]) -> Problem {
    let text =
        format!("{} bytes that are no integer of SQL's; declare the column as blob", bytes.len());
    Problem::new(sys::SQLITE_MISMATCH, text)
}

/// What the statement that makes a virtual table says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Declaration {
    /// The file of the store; `None` is the one that has the virtual table.
    pub(crate) file: Option<String>,
    pub(crate) table: String,
    key: Kind,
    value: Kind,
    /// A new table gets keys with several values.
    duplicates: bool,
}

/// A word without the quotes around it.
fn unquoted(word: &str) -> String {
    let quote = word.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
    let inner = quote.and_then(|quote| word.strip_prefix(quote)?.strip_suffix(quote));
    match (quote, inner) {
        (Some(quote), Some(inner)) => {
            let (two, one) = (format!("{quote}{quote}"), quote.to_string());
            inner.replace(&two, &one)
        }
        _ => word.to_owned(),
    }
}

impl Declaration {
    /// Reads the arguments: a file, unless it is this store; a table; kinds.
    pub(crate) fn read<'a>(arguments: impl Iterator<Item = &'a str>) -> Outcome<Self> {
        let mut declared = Self::default();
        let mut names = Vec::new();
        for argument in arguments.map(str::trim) {
            let is_name = argument.starts_with(['\'', '"']);
            match argument.split_once('=').filter(|_| !is_name) {
                Some((option, kind)) => {
                    let kind = Kind::of(unquoted(kind.trim()).as_str()).ok_or_else(|| {
                        Problem::error(format!("{kind} is not text, blob, integer or unsigned"))
                    })?;
                    match option.trim().to_ascii_lowercase().as_str() {
                        "key" => declared.key = kind,
                        "value" => declared.value = kind,
                        other => return Err(Problem::error(format!("unknown option {other}"))),
                    }
                }
                None if !is_name && argument.eq_ignore_ascii_case("duplicates") => {
                    declared.duplicates = true;
                }
                None => names.push(unquoted(argument)),
            }
        }
        (declared.file, declared.table) = match &mut names[..] {
            [table] => (None, std::mem::take(table)),
            [file, table] => (Some(std::mem::take(file)), std::mem::take(table)),
            _ => return Err(Problem::error("hedgerow() needs a table, or a file and a table")),
        };
        declared.file = declared.file.filter(|file| !file.is_empty());
        if declared.table.starts_with(OWN) && declared.file.is_none() {
            return Err(Problem::error(format!("{} belongs to SQLite", declared.table)));
        }
        Ok(declared)
    }
}

/// A plain table as SQL sees it.
#[derive(Debug)]
pub(crate) struct Plain {
    name: Vec<u8>,
    key: Kind,
    value: Kind,
    /// Keys may have several values, a row each.
    has_duplicates: bool,
    /// Whether keys are in the order of their bytes.
    is_bytewise: bool,
    /// Whether keys are in the order of SQL.
    is_ordered: bool,
}

impl Plain {
    /// Looks a table up; `makes` one of this store if there is none. `is_utf8` says that SQL orders
    /// texts by their bytes, as UTF-8.
    pub(crate) fn open(
        conn: &mut Conn,
        declared: &Declaration,
        makes: bool,
        is_utf8: bool,
    ) -> Outcome<Self> {
        let name = declared.table.as_bytes();
        let mut info: Option<TableInfo> = on_body!(&conn.body, txn => txn.find_table(name)?);
        if info.is_none() && makes {
            let options = TableOptions::new();
            let options = match declared.duplicates {
                true => options.duplicates(),
                false => options,
            };
            conn.writer()?.create_table(name, &options)?;
            info = on_body!(&conn.body, txn => txn.find_table(name)?);
        }
        let info: TableInfo = info
            .ok_or_else(|| Problem::error(format!("the store has no table {}", declared.table)))?;
        // A custom order takes functions that are not here.
        on_body!(&conn.body, txn => txn.table(name)?);
        Ok(Self {
            name: name.to_vec(),
            key: declared.key,
            value: declared.value,
            has_duplicates: info.duplicates,
            is_bytewise: info.order == "bytewise",
            is_ordered: info.order == "bytewise" && (is_utf8 || declared.key != Kind::Text),
        })
    }

    /// The table that SQLite is told of.
    pub(crate) fn declaration(&self) -> String {
        let (key, value) = (self.key.declared(), self.value.declared());
        match self.has_duplicates {
            false => format!(
                "CREATE TABLE t(key {key} NOT NULL PRIMARY KEY, value {value} NOT NULL) \
                 WITHOUT ROWID"
            ),
            true => format!(
                "CREATE TABLE t(key {key} NOT NULL, value {value} NOT NULL, \
                 entry BLOB HIDDEN NOT NULL PRIMARY KEY) WITHOUT ROWID"
            ),
        }
    }

    pub(crate) fn key_kind(&self) -> Kind {
        self.key
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    pub(crate) fn is_bytewise(&self) -> bool {
        self.is_bytewise
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// The table in the transaction that there is.
    fn table(&self, conn: &Conn) -> Outcome<Table> {
        on_body!(&conn.body, txn => Ok(txn.table(&self.name)?))
    }

    /// A column of an entry: key, value, both in one.
    pub(crate) fn column<R>(
        &self,
        (key, value): (&[u8], &[u8]),
        column: usize,
        show: impl FnOnce(Value<'_>) -> R,
    ) -> Outcome<R> {
        match column {
            0 => Ok(show(self.key.show(key)?)),
            1 => Ok(show(self.value.show(value)?)),
            _ => Ok(show(Value::Blob(&joined(key, value)))),
        }
    }

    /// How many entries there are, or with this key.
    pub(crate) fn count(&self, conn: &mut Conn, key: &[Value<'_>]) -> Outcome<u64> {
        let table = self.table(conn)?;
        match key {
            [] => on_body!(&conn.body, txn => Ok(txn.count(table)?.values)),
            [key] => {
                let key = self.asked(*key)?;
                on_body!(&conn.body, txn => Ok(txn.count_values(table, &key)?))
            }
            _ => Err(Problem::error("hedgerow_count() takes a key at most")),
        }
    }

    /// How many entries come before a key, or before a value of it.
    pub(crate) fn rank(&self, conn: &mut Conn, of: &[Value<'_>]) -> Outcome<u64> {
        let table = self.table(conn)?;
        match of {
            [key] => {
                let key = self.asked(*key)?;
                on_body!(&conn.body, txn => Ok(txn.rank(table, &key)?.values))
            }
            [key, value] if self.has_duplicates => {
                let (key, value) = (self.asked(*key)?, self.value.stored(*value, "value")?);
                on_body!(&conn.body, txn => Ok(txn.rank_pair(table, &key, &value)?.values))
            }
            _ => Err(Problem::error("hedgerow_rank() takes a key")),
        }
    }

    /// The entry with `n` before it.
    pub(crate) fn nth(&self, conn: &mut Conn, n: u64) -> Outcome<Option<(Vec<u8>, Vec<u8>)>> {
        let table = self.table(conn)?;
        on_body!(&conn.body, txn => {
            Ok(txn.nth(table, n)?.map(|entry| (entry.key.to_vec(), entry.value.to_vec())))
        })
    }

    /// A key that is asked for.
    fn asked(&self, key: Value<'_>) -> Outcome<Vec<u8>> {
        self.key.stored(key, "key")
    }

    /// Removes a row, known by its key or its entry.
    pub(crate) fn delete(&self, conn: &mut Conn, row: Value<'_>) -> Outcome {
        let table = self.table(conn)?;
        let deleted = match (self.has_duplicates, row) {
            (false, key) => conn.writer()?.delete(table, &self.asked(key)?)?,
            (true, Value::Blob(entry)) => {
                let (key, value) = parted(entry)?;
                conn.writer()?.delete_pair(table, key, value)?
            }
            (true, _) => return Err(sys::SQLITE_MISMATCH.into()),
        };
        // A row that is not there any more was deleted by the same statement.
        let _ = deleted;
        Ok(())
    }

    /// Adds a row; one that is there already is replaced, or is an error.
    pub(crate) fn insert(
        &self,
        conn: &mut Conn,
        (key, value): (Value<'_>, Value<'_>),
        replaces: bool,
    ) -> Outcome {
        let table = self.table(conn)?;
        let (key, value) = (self.key.stored(key, "key")?, self.value.stored(value, "value")?);
        let txn = conn.writer()?;
        let is_new = match self.has_duplicates {
            true => txn.put_pair(table, &key, &value)?,
            false if replaces => {
                txn.put(table, &key, &value)?;
                true
            }
            false => txn.put_new(table, &key, &value)?.is_none(),
        };
        match is_new || replaces {
            true => Ok(()),
            false => {
                let what = if self.has_duplicates { "key, value" } else { "key" };
                let text = format!("UNIQUE constraint failed: {what}");
                Err(Problem::new(sys::SQLITE_CONSTRAINT_PRIMARYKEY, text))
            }
        }
    }

    /// Puts a row in the place of another one.
    pub(crate) fn update(
        &self,
        conn: &mut Conn,
        old: Value<'_>,
        (key, value): (Value<'_>, Value<'_>),
        replaces: bool,
    ) -> Outcome {
        if !self.has_duplicates && self.asked(old)? == self.key.stored(key, "key")? {
            return self.insert(conn, (key, value), true);
        }
        if self.has_duplicates
            && let Value::Blob(entry) = old
        {
            let (old_key, old_value) = parted(entry)?;
            let is_same = self.key.stored(key, "key")? == old_key
                && self.value.stored(value, "value")? == old_value;
            if is_same {
                return Ok(());
            }
        }
        self.insert(conn, (key, value), replaces)?;
        self.delete(conn, old)
    }
}

/// A key and a value as one string of bytes.
fn joined(key: &[u8], value: &[u8]) -> Vec<u8> {
    // No key has 4 GiB.
    let len = (key.len() as u32).to_be_bytes();
    [&len[..], key, value].concat()
}

/// The key and the value of such a string.
fn parted(entry: &[u8]) -> Outcome<(&[u8], &[u8])> {
    let parts = entry
        .split_first_chunk()
        .and_then(|(len, rest)| rest.split_at_checked(u32::from_be_bytes(*len) as usize));
    parts.ok_or_else(|| sys::SQLITE_MISMATCH.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_a_file_a_table_and_kinds() {
        let read = |arguments: &[&str]| Declaration::read(arguments.iter().copied());
        let declared = read(&["'a file'", " \"fruit\"", "key = integer", "value='blob'"]).unwrap();
        assert_eq!(declared.file.as_deref(), Some("a file"));
        assert_eq!((declared.table.as_str(), declared.key), ("fruit", Kind::Integer));
        assert_eq!(declared.value, Kind::Blob);
        assert_eq!(read(&["''", "'it''s'"]).unwrap().table, "it's");
        assert!(read(&["t", "duplicates"]).unwrap().duplicates);
        for wrong in
            [&["sqlite/1"][..], &[], &["a", "b", "c"], &["t", "key=float"], &["t", "x=text"]]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_become_bytes_that_order_like_them() {
        let bytes = |number| Kind::Integer.exact(Value::Integer(number)).unwrap();
        assert!(bytes(i64::MIN) < bytes(-1) && bytes(-1) < bytes(0) && bytes(0) < bytes(7));
        assert_eq!(Kind::Integer.show(&bytes(-5)).unwrap(), Value::Integer(-5));
        assert!(Kind::Integer.show(b"123").is_err());
        assert_eq!(Kind::Unsigned.exact(Value::Integer(-1)), None);
        assert_eq!(Kind::Integer.stored(Value::Text(b" 7"), "key").unwrap(), bytes(7));
        assert_eq!(Kind::Integer.stored(Value::Real(7.0, b"7.0"), "key").unwrap(), bytes(7));
        assert!(Kind::Integer.stored(Value::Real(7.5, b"7.5"), "key").is_err());
        assert_eq!(Kind::Text.stored(Value::Real(1e21, b"1.0e+21"), "key").unwrap(), b"1.0e+21");
        assert!(Kind::Text.stored(Value::Null, "key").is_err());
        let equal = |number| Kind::Integer.equal(Value::Real(number, b""));
        assert_eq!(equal(-3.0), Equal::Key(bytes(-3)));
        assert_eq!(equal(-TWO_63), Equal::Key(bytes(i64::MIN)));
        assert!([TWO_63, 0.5, f64::INFINITY].map(equal).iter().all(|one| *one == Equal::None));
        assert_eq!(Kind::Unsigned.equal(Value::Integer(-1)), Equal::None);
        assert_eq!(Kind::Text.equal(Value::Integer(7)), Equal::Any);
        assert_eq!(parted(&joined(b"key", b"value")).unwrap(), (&b"key"[..], &b"value"[..]));
        assert!(parted(b"\0\0\0\x09ab").is_err());
    }
}
