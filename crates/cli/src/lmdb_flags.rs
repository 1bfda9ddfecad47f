//! The flags of LMDB's databases: what our liblmdb stores of them with a table, and the words that
//! dumps have for them.

use hedgerow::tree::{Duplicates, Order, TableInfo, TableOptions};

use crate::open::OrderName;
use crate::portable::TableHeader;

const REVERSE_KEY: u32 = 0x02;
const DUP_SORT: u32 = 0x04;
const INTEGER_KEY: u32 = 0x08;
const DUP_FIXED: u32 = 0x10;
const INTEGER_DUP: u32 = 0x20;
const REVERSE_DUP: u32 = 0x40;
const COUNTED: u32 = 0x80;
const PREFIX_COMPRESSION: u32 = 0x100;

/// The upper half of a table's user flags where the lower one holds LMDB's.
const SIGNED: u32 = 0x4D44_0000;

/// The name of the order of values that MDB_INTEGERDUP says are integers, and that are longer.
pub(crate) const LEADING: &str = "mdb_integer_leads";

/// The order of that name: LMDB looks at the integer of 4 bytes with which each value begins, and
/// tells values apart by it alone.
pub(crate) fn leading() -> Order {
    let integer = |value: &[u8]| value.first_chunk().copied().map(u32::from_le_bytes);
    Order::custom(LEADING, move |a: &[u8], b: &[u8]| integer(a).cmp(&integer(b)))
}

/// Whether an empty table has to be made anew for a first value: it is one with MDB_INTEGERDUP and
/// MDB_DUPFIXED, and the value only begins with an integer.
pub(crate) fn is_led(info: &TableInfo, value: &[u8]) -> bool {
    let is_integer = info.value_order == "integer" && info.value_size == Some(0);
    is_integer && info.count.values == 0 && value.len() > 4 && value.len() != 8
}

/// The words of dumps in their order; the last two are DLMDB's.
const WORDS: [(u32, &str); 8] = [
    (REVERSE_KEY, "reversekey"),
    (DUP_SORT, "dupsort"),
    (INTEGER_KEY, "integerkey"),
    (DUP_FIXED, "dupfixed"),
    (INTEGER_DUP, "integerdup"),
    (REVERSE_DUP, "reversedup"),
    (COUNTED, "counted"),
    (PREFIX_COMPRESSION, "prefix_compression"),
];

/// LMDB's flags of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The flags of a table, also of one that was not made through LMDB's interface.
    pub(crate) fn of(info: &TableInfo) -> Self {
        Self::of_header(&TableHeader::of(info))
    }

    /// The flags that a dump's header names.
    pub(crate) fn of_header(header: &TableHeader) -> Self {
        let Self(flags) = Self::of_orders(header);
        Self(match header.prefix_compression {
            None => flags,
            Some(true) => flags | PREFIX_COMPRESSION,
            Some(false) => flags & !PREFIX_COMPRESSION,
        })
    }

    fn of_orders(header: &TableHeader) -> Self {
        if let Some(signed) = Self::signed(header.user_flags) {
            return signed;
        }
        let of_order = |order: &OrderName, reverse: u32, integer: u32| match order {
            OrderName::Reverse => reverse,
            OrderName::Integer => integer,
            OrderName::Custom(name) if name == LEADING => integer,
            _ => 0,
        };
        let mut flags = of_order(&header.order, REVERSE_KEY, INTEGER_KEY);
        if let Some(duplicates) = &header.duplicates {
            flags |= DUP_SORT | of_order(&duplicates.order, REVERSE_DUP, INTEGER_DUP);
            flags |= if duplicates.fixed { DUP_FIXED } else { 0 };
        }
        Self(flags)
    }

    fn signed(user_flags: u32) -> Option<Self> {
        (user_flags & !0xFFFF == SIGNED).then_some(Self(user_flags & !SIGNED))
    }

    /// As a table's user flags.
    pub(crate) fn user_flags(self) -> u32 {
        SIGNED | self.0
    }

    /// The flags of LMDB's own database for the entries of a table; an error if it has no such.
    #[cfg(feature = "lmdb")]
    pub(crate) fn of_lmdb(info: &TableInfo) -> Result<u16, String> {
        let header = TableHeader::of(info);
        let Self(flags) = Self::of_orders(&header);
        let value_order = header.duplicates.as_ref().map(|duplicates| &duplicates.order);
        let is_custom = |order: &OrderName| matches!(order, OrderName::Custom(_));
        let is_led = value_order.is_some_and(|order| *order == OrderName::Custom(LEADING.into()));
        let own = !(COUNTED | PREFIX_COMPRESSION);
        match header.user_flags {
            _ if is_custom(&header.order) => Err("its order is a function".to_owned()),
            _ if value_order.is_some_and(is_custom) && !is_led => {
                Err("the order of its values is a function".to_owned())
            }
            other if other != 0 && Self::signed(other).is_none() => {
                Err(format!("it has user flags ({other:#x})"))
            }
            _ => Ok((flags & own) as u16),
        }
    }

    /// Whether LMDB's main database with these flags can have named ones in it.
    #[cfg(feature = "lmdb")]
    pub(crate) fn can_hold_others(flags: u16) -> bool {
        u32::from(flags) & (DUP_SORT | INTEGER_KEY) == 0
    }

    /// Whether there is one that only DLMDB knows.
    pub(crate) fn has_dlmdb(self) -> bool {
        self.0 & (COUNTED | PREFIX_COMPRESSION) != 0
    }

    /// Adds the flag that a header's line names; false if it names none.
    pub(crate) fn read(&mut self, word: &[u8]) -> bool {
        let flag = WORDS.iter().find(|(_, known)| known.as_bytes() == word);
        self.0 |= flag.map_or(0, |(flag, _)| *flag);
        flag.is_some()
    }

    /// The words for a dump's header.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.iter().filter(move |(flag, _)| self.0 & flag != 0).map(|(_, word)| *word)
    }

    /// Whether a key may have several values.
    pub(crate) fn has_duplicates(self) -> bool {
        self.0 & DUP_SORT != 0
    }

    /// The options of a new table, as our liblmdb makes it.
    pub(crate) fn options(self) -> TableOptions {
        let order = |reverse: u32, integer: u32| match self.0 {
            flags if flags & reverse != 0 => Order::Reverse,
            flags if flags & integer != 0 => Order::Integer,
            _ => Order::Bytewise,
        };
        let keys = order(REVERSE_KEY, INTEGER_KEY);
        let options = TableOptions::new()
            .order(keys)
            .prefix_compression(self.0 & PREFIX_COMPRESSION != 0)
            .user_flags(self.user_flags());
        if !self.has_duplicates() {
            return options;
        }
        let order = match self.0 & INTEGER_DUP {
            0 => order(REVERSE_DUP, INTEGER_DUP),
            _ => Order::Integer,
        };
        options.duplicates_in(match self.0 & DUP_FIXED {
            0 => Duplicates::Any { order },
            _ => Duplicates::Fixed { size: None, order },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_are_read_as_they_are_written() {
        let mut all = Flags::default();
        for (flag, word) in WORDS {
            let mut one = Flags::default();
            assert!(one.read(word.as_bytes()) && all.read(word.as_bytes()));
            assert_eq!(one, Flags(flag));
            assert_eq!(one.words().collect::<Vec<_>>(), [word]);
        }
        assert_eq!(all.words().count(), WORDS.len());
        assert!(!all.read(b"mapsize"));
    }

    #[test]
    fn a_table_of_another_making_has_the_flags_of_its_orders() {
        let info = TableInfo {
            name: Vec::new(),
            order: "reverse".to_owned(),
            duplicates: true,
            value_size: Some(8),
            value_order: "integer".to_owned(),
            prefix_compression: true,
            user_flags: 7,
            count: hedgerow::tree::Count::default(),
        };
        let expected = ["reversekey", "dupsort", "dupfixed", "integerdup", "prefix_compression"];
        assert_eq!(Flags::of(&info).words().collect::<Vec<_>>(), expected);
        assert_eq!(Flags::of_header(&TableHeader::of(&info)), Flags::of(&info));
        let (user_flags, prefix_compression) = (Flags(COUNTED).user_flags(), false);
        let signed = TableInfo { user_flags, prefix_compression, ..info };
        assert_eq!(Flags::of(&signed), Flags(COUNTED));
    }
}
