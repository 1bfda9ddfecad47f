//! The handles of an environment: which number stands for which database, and with which functions.
//! A transaction takes a copy of what it needs when it begins ([`View`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow::tree::{Duplicates, Order, TableInfo, TableOptions};

use crate::abi::*;
use crate::code::Answer;
use crate::ffi::compare;

/// Bits of `MDB_dbi_open` that are stored with a database.
pub(crate) const STORED_FLAGS: u32 = MDB_REVERSEKEY
    | MDB_DUPSORT
    | MDB_INTEGERKEY
    | MDB_DUPFIXED
    | MDB_INTEGERDUP
    | MDB_REVERSEDUP
    | MDB_COUNTED
    | MDB_PREFIX_COMPRESSION;
/// Every bit that `MDB_dbi_open` takes.
pub(crate) const OPEN_FLAGS: u32 = STORED_FLAGS | MDB_CREATE;
/// The upper half of a table's user flags, where the lower one holds the flags of `MDB_dbi_open`.
const SIGNED: u32 = 0x4D44_0000;
/// The names under which the caller's orders are stored.
const KEY_ORDER: &str = "mdb_set_compare";
const VALUE_ORDER: &str = "mdb_set_dupsort";
/// The name of the order of values that MDB_INTEGERDUP says are integers, and that are longer.
const LEADING: &str = "mdb_integer_leads";

/// The functions that a program gave a database.
#[derive(Clone, Copy, Default)]
pub(crate) struct Functions {
    pub(crate) keys: Option<CmpFn>,
    pub(crate) values: Option<CmpFn>,
    /// Kept, and never called, as in LMDB.
    pub(crate) relocate: Option<RelFn>,
}

impl Functions {
    pub(crate) fn are_none(&self) -> bool {
        self.keys.is_none() && self.values.is_none() && self.relocate.is_none()
    }
}

/// What a handle stands for.
#[derive(Clone, Default)]
pub(crate) struct Handle {
    /// `None`: it is closed.
    pub(crate) name: Option<Box<[u8]>>,
    pub(crate) flags: u32,
    /// What the main database was last opened with that says how its keys are ordered.
    pub(crate) key_flags: u32,
    /// Whether it was opened with MDB_PREFIX_COMPRESSION: then the program knows how long pointers
    /// stay valid.
    pub(crate) is_brief: bool,
    /// Whether transactions that begin now may use it.
    pub(crate) is_valid: bool,
    /// Rises with each opening and closing.
    pub(crate) seq: u32,
    pub(crate) functions: Functions,
}

impl Handle {
    /// What a transaction that begins now sees of it.
    fn state(&self) -> u8 {
        let valid = if self.is_valid { View::VALID } else { 0 };
        valid | if self.is_brief { View::BRIEF } else { 0 }
    }
}

/// All handles of an environment, for its transactions.
pub(crate) struct SharedHandles {
    all: Mutex<Handles>,
    /// Rises when they change, or may have.
    version: AtomicU64,
}

impl SharedHandles {
    pub(crate) fn new() -> Self {
        Self { all: Mutex::new(Handles::new()), version: AtomicU64::new(1) }
    }

    /// The handles as they are.
    pub(crate) fn read(&self) -> MutexGuard<'_, Handles> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handles, to change them.
    pub(crate) fn change(&self) -> MutexGuard<'_, Handles> {
        let handles = self.read();
        self.version.fetch_add(1, Ordering::AcqRel);
        handles
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a transaction that begins now sees of them, and their version.
    pub(crate) fn views(&self, views: &mut Vec<View>) -> u64 {
        let handles = self.read();
        handles.views(views);
        self.version()
    }
}

/// All handles of an environment.
#[derive(Default)]
pub(crate) struct Handles {
    pub(crate) all: Vec<Handle>,
    /// How many of them transactions that begin now see.
    pub(crate) known: usize,
}

impl Handles {
    pub(crate) fn new() -> Self {
        let core = Handle { is_valid: true, ..Handle::default() };
        Self { all: vec![core; CORE_DBS], known: CORE_DBS }
    }

    /// The handle, for changing it.
    pub(crate) fn get_mut(&mut self, dbi: usize) -> Option<&mut Handle> {
        self.all.get_mut(dbi)
    }

    /// The handle that is open under a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.all.iter().enumerate().skip(CORE_DBS);
        let mut found = named.filter(|(_, handle)| handle.name.as_deref() == Some(name));
        found.next().map(|(dbi, _)| dbi)
    }

    /// A closed handle, or a new one if there may be more.
    pub(crate) fn vacant(&self, most: usize) -> Answer<usize> {
        let named = self.all.iter().enumerate().skip(CORE_DBS);
        if let Some((dbi, _)) = named.into_iter().find(|(_, handle)| handle.name.is_none()) {
            return Ok(dbi);
        }
        if self.all.len() < most { Ok(self.all.len()) } else { Err(MDB_DBS_FULL) }
    }

    /// Opens a handle in a transaction; others see it when that commits.
    pub(crate) fn open(&mut self, dbi: usize, name: &[u8], flags: u32, is_brief: bool) -> u32 {
        if dbi >= self.all.len() {
            self.all.resize_with(dbi + 1, Handle::default);
        }
        let handle = &mut self.all[dbi];
        let seq = handle.seq.wrapping_add(1);
        let name = Some(name.into());
        *handle = Handle { name, flags, is_brief, seq, ..Handle::default() };
        seq
    }

    /// Closes a handle; no effect if it is closed.
    pub(crate) fn close(&mut self, dbi: usize) {
        if let Some(handle) = self.all.get_mut(dbi)
            && dbi >= CORE_DBS
            && handle.name.is_some()
        {
            *handle = Handle { seq: handle.seq.wrapping_add(1), ..Handle::default() };
        }
    }

    /// What a transaction that begins now sees.
    pub(crate) fn views(&self, views: &mut Vec<View>) {
        let view = |handle: &Handle| View {
            state: handle.state(),
            flags: handle.flags,
            seq: handle.seq,
            table: None,
        };
        views.clear();
        views.extend(self.all.iter().take(self.known).map(view));
    }
}

/// A handle as a transaction sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) state: u8,
    pub(crate) seq: u32,
    pub(crate) flags: u32,
    /// The table, where there is one.
    pub(crate) table: Option<hedgerow::tree::Table>,
}

impl View {
    /// The handle may be used.
    pub(crate) const VALID: u8 = 1;
    /// It was opened by this transaction.
    pub(crate) const NEW: u8 = 2;
    /// The table was looked up.
    pub(crate) const LOOKED_UP: u8 = 4;
    /// The database is just the table, so that calls go to it directly.
    pub(crate) const PLAIN: u8 = 8;
    /// See [`Handle::is_brief`].
    pub(crate) const BRIEF: u8 = 16;

    /// Whether the database has duplicates.
    #[inline(always)]
    pub(crate) fn has_duplicates(&self) -> bool {
        self.flags & MDB_DUPSORT != 0
    }

    /// Whether keys and values that the store does not hold in one piece are handed out for a short
    /// time: until the next call on the cursor, or, without one, the next such call.
    #[inline(always)]
    pub(crate) fn is_brief(&self) -> bool {
        self.state & Self::BRIEF != 0
    }
}

/// The options of the table of a new database.
pub(crate) fn options(flags: u32, functions: &Functions) -> TableOptions {
    let keys = match functions.keys {
        Some(function) => Order::custom(KEY_ORDER, compare::by(function)),
        None if flags & MDB_REVERSEKEY != 0 => Order::Reverse,
        None if flags & MDB_INTEGERKEY != 0 => Order::Integer,
        None => Order::Bytewise,
    };
    let values = match functions.values {
        Some(function) => Order::custom(VALUE_ORDER, compare::by(function)),
        None if flags & MDB_INTEGERDUP != 0 => Order::Integer,
        None if flags & MDB_REVERSEDUP != 0 => Order::Reverse,
        None => Order::Bytewise,
    };
    let options = TableOptions::new()
        .order(keys)
        .prefix_compression(flags & MDB_PREFIX_COMPRESSION != 0)
        .user_flags(SIGNED | flags & STORED_FLAGS);
    if flags & MDB_DUPSORT == 0 {
        return options;
    }
    options.duplicates_in(match flags & MDB_DUPFIXED {
        0 => Duplicates::Any { order: values },
        _ => Duplicates::Fixed { size: None, order: values },
    })
}

/// The options of the table of a new database whose values begin with an integer, by which alone
/// LMDB orders and distinguishes them: MDB_INTEGERDUP and MDB_DUPFIXED with longer values.
pub(crate) fn leading_options(flags: u32, functions: &Functions) -> TableOptions {
    let order = Order::custom(LEADING, compare::leading);
    options(flags, functions).duplicates_in(Duplicates::Fixed { size: None, order })
}

/// Whether the order of a table's values is that of [`leading_options`].
pub(crate) fn is_leading(order: &str) -> bool {
    custom_name(order) == Some(LEADING)
}

/// The name of an order that is a function's.
fn custom_name(order: &str) -> Option<&str> {
    order.strip_prefix("custom(")?.strip_suffix(')')
}

/// The options under which an existing table is opened, with the program's functions where its
/// orders are not the engine's own. Without a function LMDB compares bytewise, and so does this.
pub(crate) fn options_of(info: &TableInfo, functions: &Functions) -> TableOptions {
    let order = |stored: &str, function: Option<CmpFn>| match stored {
        "bytewise" => Order::Bytewise,
        "reverse" => Order::Reverse,
        "integer" => Order::Integer,
        custom => {
            let name = custom_name(custom).unwrap_or(custom).to_owned();
            match function {
                Some(function) => Order::custom(name, compare::by(function)),
                None if is_leading(custom) => Order::custom(name, compare::leading),
                None => Order::custom(name, |a: &[u8], b: &[u8]| a.cmp(b)),
            }
        }
    };
    let keys = order(&info.order, functions.keys);
    let options = TableOptions::new().order(keys).user_flags(info.user_flags);
    if !info.duplicates {
        return options;
    }
    let values = order(&info.value_order, functions.values);
    options.duplicates_in(match info.value_size {
        Some(_) => Duplicates::Fixed { size: None, order: values },
        None => Duplicates::Any { order: values },
    })
}

/// The flags of a table that was made through this interface, of its user flags and of how its
/// pages keep keys.
pub(crate) fn signed_flags(user_flags: u32, prefix_compression: bool) -> Option<u32> {
    let compressed = if prefix_compression { MDB_PREFIX_COMPRESSION } else { 0 };
    let flags = user_flags & STORED_FLAGS & !MDB_PREFIX_COMPRESSION | compressed;
    (user_flags & !0xFFFF == SIGNED).then_some(flags)
}

/// The flags of a table, also of one that was not made through this interface.
pub(crate) fn flags_of(info: &TableInfo) -> u32 {
    if let Some(flags) = signed_flags(info.user_flags, info.prefix_compression) {
        return flags;
    }
    let mut flags = match info.order.as_str() {
        "reverse" => MDB_REVERSEKEY,
        "integer" => MDB_INTEGERKEY,
        _ => 0,
    };
    flags |= if info.prefix_compression { MDB_PREFIX_COMPRESSION } else { 0 };
    if info.duplicates {
        flags |= MDB_DUPSORT;
        flags |= if info.value_size.is_some() { MDB_DUPFIXED } else { 0 };
        flags |= match info.value_order.as_str() {
            "reverse" => MDB_REVERSEDUP,
            "integer" => MDB_INTEGERDUP,
            order if is_leading(order) => MDB_INTEGERDUP,
            _ => 0,
        };
    }
    flags
}

/// Whether a table orders its keys and values as the program's functions ask: it has an order of
/// the program's exactly where there is a function, or (`lenient`) more of them.
pub(crate) fn is_ordered_by(info: &TableInfo, functions: &Functions) -> bool {
    let custom = |order: &str| custom_name(order).is_some_and(|name| name != LEADING);
    let keys = functions.keys.is_none() || custom(&info.order);
    let values = functions.values.is_none() || !info.duplicates || custom(&info.value_order);
    keys && values
}
