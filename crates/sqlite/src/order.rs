//! The order of an index: SQLite compares its records, by the collations of the connection that
//! asks. So a table of a store has no order of its own; each call says how it is to be compared.

#![expect(unsafe_code, reason = "SQLite's functions compare records by address")]

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use hedgerow::tree::raw::{AHEAD, Keys, Probing, Search};
use hedgerow::tree::{Order, TableOptions};

/// The name under which stores keep this order.
const NAME: &str = "sqlite-record";

/// What is looked for in an index, and how it is compared: `HgProbe` in `store.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Probe {
    /// The record that is looked for as it is stored; a byte that is not read, by whose address it
    /// is known, if there is only `record`.
    pub(crate) key: *const u8,
    /// Its length in bytes, or 1.
    pub(crate) len: usize,
    /// The same, unpacked; null if `compare` needs none.
    record: *mut c_void,
    /// Compares a stored record with it.
    compare: Option<unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> c_int>,
    /// The columns of the index, to compare two stored records.
    info: *mut c_void,
    first: First,
    /// `eqSeen` of `record`, which `compare` sets if an entry is equal to it in all that it has;
    /// null if nobody asks.
    is_equal: *mut u8,
    /// Where the address of that entry is stored.
    equal: *mut *const u8,
}

/// The first column of what is looked for, if that alone decides most comparisons: `HgFirst` in
/// `store.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct First {
    kind: c_int,
    /// What a comparison says of records with lower, and with higher values: the other way round
    /// in a column that descends.
    below: c_int,
    above: c_int,
    len: c_int,
    value: Value,
}

/// An integer, or where a text is.
#[repr(C)]
#[derive(Clone, Copy)]
union Value {
    number: i64,
    text: *const u8,
}

impl Probe {
    /// Compares an entry with what is looked for.
    #[inline(never)]
    fn compare(&self, entry: &[u8]) -> Ordering {
        if let Some(decided) = self.first.compare(entry) {
            return decided;
        }
        match self.compare {
            Some(compare) => self.compare_record(compare, entry).cmp(&0),
            None => self.compare_stored(entry, self.bytes()),
        }
    }

    /// Compares two stored records.
    fn compare_stored(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.info.is_null() {
            return a.cmp(b);
        }
        let (a_len, b_len) = (a.len() as c_int, b.len() as c_int);
        // SAFETY: as in `compare_record`; the strings live during the call.
        let result =
            unsafe { hg_compare(self.info, a.as_ptr().cast(), a_len, b.as_ptr().cast(), b_len) };
        result.cmp(&0)
    }

    /// The bytes by which the store looks for it.
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the caller in C says so, and the record stays where it is during the call. Of
        // what has no bytes the address is that of a byte which stands for it.
        unsafe { std::slice::from_raw_parts(self.key, self.len) }
    }

    /// Compares an entry with the record that is looked for, and notes it if it is equal.
    fn compare_record(
        &self,
        compare: unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> c_int,
        entry: &[u8],
    ) -> c_int {
        // SAFETY: `with` was called with a probe that lives until it returns; so does what its
        // fields point to.
        unsafe {
            let result = compare(entry.len() as c_int, entry.as_ptr().cast(), self.record);
            if !self.is_equal.is_null() && *self.is_equal != 0 {
                *self.is_equal = 0;
                *self.equal = entry.as_ptr();
            }
            result
        }
    }
}

impl First {
    const NUMBER: c_int = 1;
    const TEXT: c_int = 2;

    /// The same as [`Self::compare`] for a short integer, in few steps.
    #[inline(always)]
    fn compare_short(&self, record: &[u8]) -> Option<Ordering> {
        if self.kind != Self::NUMBER {
            return None;
        }
        // SAFETY: C has stored what `kind` says.
        let (stored, number) = (short_number(record)?, unsafe { self.value.number });
        let sign = if stored < number { self.below } else { self.above };
        (stored != number).then(|| sign.cmp(&0))
    }

    /// Compares a stored record with it by the first column. `None` if that does not decide: the
    /// values are equal, or of kinds that are left to SQLite.
    fn compare(&self, record: &[u8]) -> Option<Ordering> {
        // The length of the header, and the type of the first column.
        let (&[header @ 0..0x80, kind], _) = record.split_first_chunk()? else { return None };
        let seen = match self.kind {
            // SAFETY: C has stored what `kind` says.
            Self::NUMBER => compare_number(record, header, kind, unsafe { self.value.number }),
            Self::TEXT => {
                // SAFETY: as above; there are `len` bytes, which stay during the call.
                let text =
                    unsafe { std::slice::from_raw_parts(self.value.text, self.len as usize) };
                compare_text(record, header, kind, text)
            }
            _ => None,
        };
        match seen? {
            Ordering::Less => Some(self.below.cmp(&0)),
            Ordering::Greater => Some(self.above.cmp(&0)),
            Ordering::Equal => None,
        }
    }
}

/// The first column of a record of at least four bytes, if it is an integer of one to four bytes
/// among the first eight.
#[inline(always)]
fn short_number(record: &[u8]) -> Option<i64> {
    let (front, len) = match record.first_chunk() {
        Some(eight) => (u64::from_be_bytes(*eight), 8),
        // Its halves overlap.
        None => {
            let (front, back) = (record.first_chunk()?, record.last_chunk()?);
            let back = u64::from(u32::from_be_bytes(*back)) << (8 * (8 - record.len()));
            (u64::from(u32::from_be_bytes(*front)) << 32 | back, record.len() as u64)
        }
    };
    number_in(front, len)
}

/// The same, of the first eight bytes of a record, of which it has `len`.
#[inline(always)]
fn number_in(front: u64, len: u64) -> Option<i64> {
    let (header, kind) = (front >> 56, front >> 48 & 0xFF);
    // Both are 1 to 4, so that their sum is at most 8.
    let is_usual = len == 8 && (front >> 48).wrapping_sub(0x0101) & 0xFCFC == 0;
    if !is_usual && (kind.wrapping_sub(1) >= 4 || header + kind > len) {
        return None;
    }
    Some((front << (8 * header)).cast_signed() >> (64 - 8 * kind))
}

/// Compares the first column of a record, of a type, with an integer.
#[inline(always)]
fn compare_number(record: &[u8], header: u8, kind: u8, number: i64) -> Option<Ordering> {
    let data = record.get(usize::from(header)..)?;
    let stored = match kind {
        0 => return Some(Ordering::Less),
        1 => i64::from(data.first()?.cast_signed()),
        2 => i16::from_be_bytes(*data.first_chunk()?).into(),
        3 => {
            let [a, b, c] = *data.first_chunk()?;
            (i32::from_be_bytes([a, b, c, 0]) >> 8).into()
        }
        4 => i32::from_be_bytes(*data.first_chunk()?).into(),
        5 => {
            let [a, b, c, d, e, f] = *data.first_chunk()?;
            i64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16
        }
        6 => i64::from_be_bytes(*data.first_chunk()?),
        8 | 9 => i64::from(kind - 8),
        // A text or a blob; its type may be longer than a byte.
        12.. => return Some(Ordering::Greater),
        _ => return None,
    };
    Some(stored.cmp(&number))
}

/// Compares the first column of a record, of a type, with a text.
#[inline(always)]
fn compare_text(record: &[u8], header: u8, kind: u8, text: &[u8]) -> Option<Ordering> {
    let kind = match kind {
        // A number or nothing.
        0..10 => return Some(Ordering::Less),
        10 | 11 => return None,
        12..0x80 => usize::from(kind),
        _ => match *record.get(2)? {
            low @ 0..0x80 => usize::from(kind & 0x7F) << 7 | usize::from(low),
            _ => return None,
        },
    };
    if kind < 12 {
        return None;
    }
    if kind % 2 == 0 {
        return Some(Ordering::Greater);
    }
    let data = record.get(usize::from(header)..)?.get(..(kind - 13) / 2)?;
    Some(data.cmp(text))
}

thread_local! {
    /// What this thread is looking for, while `with` runs; or null.
    static PROBE: Cell<*const Probe> = const { Cell::new(std::ptr::null()) };
}

unsafe extern "C" {
    /// Compares two stored records by the columns of an index.
    fn hg_compare(
        info: *mut c_void,
        a: *const c_void,
        a_len: c_int,
        b: *const c_void,
        b_len: c_int,
    ) -> c_int;
}

/// Runs `f` with the bytes by which the store looks for the probe.
#[inline(always)]
pub(crate) fn with<R>(probe: &Probe, f: impl FnOnce(&[u8]) -> R) -> R {
    let before = PROBE.replace(probe);
    let result = f(probe.bytes());
    PROBE.set(before);
    result
}

/// Runs `f`, which puts a record after all others.
pub(crate) fn as_last<R>(key: &[u8], f: impl FnOnce() -> R) -> R {
    unsafe extern "C" fn always_less(_: c_int, _: *const c_void, _: *mut c_void) -> c_int {
        -1
    }
    let first = First { kind: 0, below: 0, above: 0, len: 0, value: Value { number: 0 } };
    let probe = Probe {
        key: key.as_ptr(),
        len: key.len(),
        record: std::ptr::null_mut(),
        compare: Some(always_less),
        info: std::ptr::null_mut(),
        first,
        is_equal: std::ptr::null_mut(),
        equal: std::ptr::null_mut(),
    };
    with(&probe, |_| f())
}

/// Runs `f`, which looks for no record of C's but may have to find a place again.
#[inline(always)]
pub(crate) fn with_order<R>(probe: Option<&Probe>, f: impl FnOnce() -> R) -> R {
    match probe {
        Some(probe) => with(probe, |_| f()),
        None => f(),
    }
}

/// Compares an entry with what is looked for.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    // SAFETY: `with` runs, and has set it to a probe that lives as long.
    if let Some(probe) = unsafe { PROBE.get().as_ref() }
        && b.as_ptr() == probe.key
        && let Some(decided) = probe.first.compare_short(a)
    {
        return decided;
    }
    compare_any(a, b)
}

/// The same, whatever they are.
fn compare_any(a: &[u8], b: &[u8]) -> Ordering {
    // SAFETY: as in `compare`.
    match unsafe { PROBE.get().as_ref() } {
        None => a.cmp(b),
        Some(probe) if b.as_ptr() == probe.key => probe.compare(a),
        Some(probe) => probe.compare_stored(a, b),
    }
}

/// Looks for the probe among the entries of a page. `None` if something else is looked for.
fn search(keys: Keys<'_>, key: &[u8]) -> Option<(usize, bool)> {
    // SAFETY: as in `compare`.
    let probe = unsafe { PROBE.get().as_ref() }.filter(|probe| probe.key == key.as_ptr())?;
    let first = &probe.first;
    let ascends = first.below < 0;
    match first.kind {
        First::NUMBER => {
            // SAFETY: C has stored what `kind` says.
            let number = unsafe { first.value.number };
            let turn = if ascends { 0 } else { -1 };
            keys.bisect_by(&Number { number: number ^ turn, turn, probe })
        }
        First::TEXT => {
            // SAFETY: as above; there are `len` bytes, which stay during the call.
            let text = unsafe { std::slice::from_raw_parts(first.value.text, first.len as usize) };
            keys.bisect_by(&Text { front: TextFront::of(text), ascends, probe })
        }
        _ => keys.bisect(|stored| probe.compare(stored)),
    }
}

/// A record that is looked for, of which the first column is an integer.
struct Number<'p> {
    /// Turned round by `turn`.
    number: i64,
    /// What all bits of a number are changed by: of a column that descends all are, which turns the
    /// order of numbers round.
    turn: i64,
    probe: &'p Probe,
}

impl Probing for Number<'_> {
    #[inline(always)]
    fn compare_ahead(&self, ahead: &[u8; AHEAD], _: usize) -> Option<Ordering> {
        let stored = number_ahead(ahead)? ^ self.turn;
        if stored < self.number {
            Some(Ordering::Less)
        } else if stored > self.number {
            Some(Ordering::Greater)
        } else {
            None
        }
    }

    #[inline(always)]
    fn compare(&self, key: &[u8]) -> Ordering {
        self.probe.compare(key)
    }
}

/// A record that is looked for, of which the first column is a text.
struct Text<'p> {
    front: TextFront,
    ascends: bool,
    probe: &'p Probe,
}

impl Probing for Text<'_> {
    #[inline(always)]
    fn compare_ahead(&self, ahead: &[u8; AHEAD], len: usize) -> Option<Ordering> {
        let seen = self.front.compare(ahead, len)?;
        Some(if self.ascends { seen } else { seen.reverse() })
    }

    #[inline(always)]
    fn compare(&self, key: &[u8]) -> Ordering {
        self.probe.compare(key)
    }
}

/// The first column of a record whose beginning stands ahead, if it is an integer of one to four
/// bytes among the first eight. In a record that ends before, which is damaged, it is any number.
#[inline(always)]
fn number_ahead(ahead: &[u8; AHEAD]) -> Option<i64> {
    number_in(u64::from_be_bytes(*ahead.first_chunk()?), 8)
}

/// The front of a text that is looked for, as numbers that order like it.
struct TextFront {
    len: usize,
    first: u64,
    second: u64,
}

impl TextFront {
    fn of(text: &[u8]) -> Self {
        let mut front = [0; 16];
        let len = text.len().min(16);
        front[..len].copy_from_slice(&text[..len]);
        let [first, second] = [0, 8].map(|at| {
            let eight = front[at..].first_chunk().copied();
            u64::from_be_bytes(eight.unwrap_or_default())
        });
        Self { len: text.len(), first, second }
    }

    /// Compares the first column of a record of `len` bytes, whose beginning stands ahead, with the
    /// text, if it is a text and both have at least eight bytes, of which the first sixteen decide.
    #[inline(always)]
    fn compare(&self, ahead: &[u8; AHEAD], len: usize) -> Option<Ordering> {
        let [header, kind, low, ..] = *ahead;
        let header = usize::from(header);
        let kind = match kind {
            0..0x80 => usize::from(kind),
            _ if low < 0x80 => usize::from(kind & 0x7F) << 7 | usize::from(low),
            _ => return None,
        };
        // A text of eight bytes.
        if kind % 2 == 0 || kind < 13 + 16 || header > 8 || self.len < 8 {
            return None;
        }
        let text_len = (kind - 13) / 2;
        if header + text_len > len {
            return None;
        }
        let data = ahead.get(header..)?;
        let first = u64::from_be_bytes(*data.first_chunk()?);
        if first != self.first {
            return Some(first.cmp(&self.first));
        }
        let second = u64::from_be_bytes(*data.get(8..)?.first_chunk()?);
        // Of both only what the shorter one has.
        let most = text_len.min(self.len).min(16);
        let differ = (second ^ self.second).unbounded_shr(8 * (16 - most as u32));
        (differ != 0).then(|| second.cmp(&self.second))
    }
}

static SEARCH: Search = search;

/// The options of the table of an index.
pub(crate) fn index_options() -> &'static TableOptions {
    static OPTIONS: OnceLock<TableOptions> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let order = Order::custom(NAME, compare);
        TableOptions::new().order(order).search(&SEARCH).prefix_compression(false).aligned(false)
    })
}
