//! How a store is opened and what a table is: every option and its meaning.

use std::any::Any;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Durability;

/// A function that orders keys, or the values of one key.
pub type Compare = Arc<dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync>;

/// What looks for a key in a page, of a type that only pages know: [`TableOptions::search`].
pub(crate) type AnySearch = &'static (dyn Any + Send + Sync);

/// How keys, or the values of one key, are ordered.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Order {
    /// As byte strings; if one begins with the other, the shorter one comes first.
    #[default]
    Bytewise,
    /// As byte strings compared from their ends.
    Reverse,
    /// As unsigned integers of 4 or 8 bytes that are stored little-endian, which is the byte order
    /// of nearly every processor; all of one table have the same size.
    Integer,
    /// By a function of the caller's. Only its name is stored; every opening must give a function
    /// under the same name, and it must always order the same way.
    Custom {
        /// The name that is stored, at most 64 bytes.
        name: String,
        /// The function.
        compare: Compare,
    },
}

impl Order {
    /// An order by a function of the caller's.
    pub fn custom(
        name: impl Into<String>,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Self {
        Self::Custom { name: name.into(), compare: Arc::new(compare) }
    }

    /// How two keys, or two values, compare in this order.
    ///
    /// ```
    /// use hedgerow::tree::Order;
    ///
    /// assert!(Order::Bytewise.compare(b"ab", b"ba").is_lt());
    /// assert!(Order::Reverse.compare(b"ab", b"ba").is_gt());
    /// ```
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            // The last byte of an integer weighs most: the format is little-endian.
            Self::Reverse | Self::Integer => a.iter().rev().cmp(b.iter().rev()),
            Self::Custom { compare, .. } => compare(a, b),
        }
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytewise => f.write_str("bytewise"),
            Self::Reverse => f.write_str("reverse"),
            Self::Integer => f.write_str("integer"),
            Self::Custom { name, .. } => write!(f, "custom({name})"),
        }
    }
}

/// Whether a key may have several values, and how those are ordered.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Duplicates {
    /// A key has one value.
    #[default]
    No,
    /// A key has any number of distinct values, in the order given.
    Any {
        /// The order of the values of a key.
        order: Order,
    },
    /// As `Any`, all values of the table having the same length. The length is that of the first
    /// value put, if `size` is `None`.
    Fixed {
        /// The length of every value in bytes.
        size: Option<u32>,
        /// The order of the values of a key.
        order: Order,
    },
}

/// The options of a table, which are stored when it is created and checked whenever it is opened.
///
/// ```
/// use hedgerow::tree::{Order, TableOptions};
/// let options = TableOptions::new().duplicates();
/// let numbers = TableOptions::new().order(Order::Integer);
/// # let _ = (options, numbers);
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(crate) order: Order,
    pub(crate) duplicates: Duplicates,
    pub(crate) prefix_compression: bool,
    pub(crate) aligned: bool,
    pub(crate) user_flags: u32,
    pub(crate) search: Option<AnySearch>,
}

impl Default for TableOptions {
    fn default() -> Self {
        let (order, duplicates) = (Order::default(), Duplicates::default());
        let (prefix_compression, aligned) = (true, true);
        Self { order, duplicates, prefix_compression, aligned, user_flags: 0, search: None }
    }
}

impl TableOptions {
    /// Bytewise order, one value a key, prefix compression.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the order of the keys.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Lets a key have several distinct values, ordered bytewise.
    pub fn duplicates(self) -> Self {
        self.duplicates_in(Duplicates::Any { order: Order::Bytewise })
    }

    /// Lets a key have several distinct values of one fixed size, ordered bytewise. It is at most
    /// an eighth of a page; 0 leaves it to the first value.
    pub fn fixed_duplicates(self, size: u32) -> Self {
        self.duplicates_in(Duplicates::Fixed { size: Some(size), order: Order::Bytewise })
    }

    /// Sets how duplicates are kept.
    pub fn duplicates_in(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Whether the common beginning of a leaf's keys, and of a key's values, is stored once. The
    /// default is `true`. A key is then usually in two pieces ([`Bytes`](crate::tree::Bytes)).
    /// Without compression every key and value is in one piece in its page
    /// ([`Bytes::as_slice`](crate::tree::Bytes::as_slice) gives it), for callers that pass them on
    /// by address. A table that was made without compression opens either way; one that was made
    /// with compression is refused if `false` is asked for.
    ///
    /// Without compression keys and values also stand at even addresses, and at multiples of 8
    /// where the lengths of all keys and values of the table are such. There are two exceptions:
    /// several values of a key that have one odd length lie side by side, and a key longer than an
    /// eighth of a page is put together in memory. A table that was made before there were aligned
    /// leaves keeps its own, where they stand at any address.
    pub fn prefix_compression(mut self, yes: bool) -> Self {
        self.prefix_compression = yes;
        self
    }

    /// Whether a table without prefix compression has aligned leaves. The default is `true`. With
    /// `false` an entry takes less room, above all under a custom order, whose leaves then have no
    /// heads.
    #[doc(hidden)]
    pub fn aligned(mut self, yes: bool) -> Self {
        self.aligned = yes;
        self
    }

    /// 32 bits of the caller's own, stored with the table and given back by
    /// [`TableInfo`](crate::tree::TableInfo); the engine does not read them.
    pub fn user_flags(mut self, flags: u32) -> Self {
        self.user_flags = flags;
        self
    }
}

/// Opens or creates a store.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// use hedgerow::Durability;
/// use hedgerow::tree::Store;
/// let store = Store::builder().durability(Durability::Eventual).open_or_create(&path)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) page_size: u32,
    pub(crate) durability: Durability,
    pub(crate) max_size: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) write_budget: usize,
    pub(crate) file_mode: FileMode,
    pub(crate) always_check: bool,
    pub(crate) verified_max: u64,
    pub(crate) map: bool,
    pub(crate) log_size: Option<u64>,
    pub(crate) writable_map: bool,
    pub(crate) system: Option<SystemHandle>,
}

/// The permission bits of files that are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMode {
    pub(crate) bits: u32,
    /// Also those of a lock file that is made beside a data file that is there.
    pub(crate) is_of_each_lock: bool,
}

/// The number of pages of a maximum size; 0 is none.
pub(crate) fn max_pages(bytes: u64, page_size: u32) -> u32 {
    u32::try_from(bytes / u64::from(page_size)).unwrap_or(u32::MAX).max(1)
}

/// The system a store runs on; only tests set another one than the real one.
#[derive(Clone)]
pub(crate) struct SystemHandle(pub(crate) Arc<dyn crate::os::System>);

impl std::fmt::Debug for SystemHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("system")
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The defaults: pages of 4 KiB, durable commits, no maximum size, a write budget of 256 MiB,
    /// files of mode 0600.
    pub fn new() -> Self {
        Self {
            page_size: 4096,
            durability: Durability::Durable,
            max_size: None,
            read_only: false,
            write_budget: 256 << 20,
            file_mode: FileMode { bits: 0o600, is_of_each_lock: false },
            always_check: false,
            verified_max: u64::MAX,
            map: true,
            log_size: None,
            writable_map: false,
            system: None,
        }
    }

    /// The page size in bytes of a store that is created: a power of two from 4,096 to 65,536.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.page_size = bytes;
        self
    }

    /// What a commit promises; a single commit may differ
    /// ([`WriteTxn::commit_with`](crate::tree::WriteTxn::commit_with)).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The file never grows beyond this many bytes: a write that would is refused with
    /// [`Error::StoreFull`](crate::Error::StoreFull). A store that is created keeps it, for every
    /// opening ([`Store::set_max_size`](crate::tree::Store::set_max_size) changes that); for a
    /// store that exists it holds as long as it is open, in addition to the one that the store
    /// keeps.
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.max_size = Some(bytes);
        self
    }

    /// Opens the store for reading only.
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// How many bytes of changed pages a write transaction keeps in memory before it writes some of
    /// them to the file early. A transaction that appends much keeps a few MiB in any case, and one
    /// that changes many tables keeps the root of each.
    ///
    /// On Linux up to 256 MiB of that memory stay with the process after a large transaction, for
    /// the next one: the system counts them as the process's until it needs them, and then takes
    /// them.
    pub fn write_budget(mut self, bytes: usize) -> Self {
        self.write_budget = bytes;
        self
    }

    /// The permission bits of a store that is created, less what the process' mask takes: of its
    /// data file and its lock file. A lock file that is made later, beside a data file that is
    /// there, gets the permissions of that one, whatever the mask says, and if root makes it the
    /// owner and the group, too; so all who may open the one may open the other.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.file_mode = FileMode { bits: mode, is_of_each_lock: false };
        self
    }

    /// A lock file that is made has the permission bits of [`Builder::file_mode`] also beside a
    /// data file that is there.
    #[doc(hidden)]
    pub fn lock_file_mode(mut self, mode: u32) -> Self {
        self.file_mode = FileMode { bits: mode, is_of_each_lock: true };
        self
    }

    /// Checks a page's checksum on every access instead of the first one in this process.
    pub fn always_check(mut self, yes: bool) -> Self {
        self.always_check = yes;
        self
    }

    /// A value longer than this is handed out without being read first: only the checksum over its
    /// checksums and the end of its last page are verified. So the first access to a value of a GiB
    /// does not read a GiB. Damage in its middle is found when it is read in parts
    /// ([`Snapshot::value_reader`](crate::tree::Snapshot::value_reader)) and by `check`, but not
    /// when the slice is read. By default every value is verified.
    pub fn verify_values_up_to(mut self, bytes: u64) -> Self {
        self.verified_max = bytes;
        self
    }

    /// Reads through a memory map (the default), or by positioned reads where address space is
    /// short.
    ///
    /// A store that is mapped can grow to 1 TiB as long as it is open. A process that has more than
    /// eight open gives each less, so that thousands of them fit: 8 TiB over their number, but at
    /// least 1 GiB, and eight times the length of the file. One that has reached that can grow on
    /// when it is opened again.
    pub fn map(mut self, yes: bool) -> Self {
        self.map = yes;
        self
    }

    /// The length of the redo log in the file, rounded down to a multiple of 64 KiB; 0 for no log.
    /// With a log, durable commits of scattered pages wait for one short write instead of all their
    /// pages; after a power cut the next opening replays it. By default it is a sixteenth of the
    /// store, from 512 KiB to 64 MiB, or 64 KiB of a store below 4 MiB, and is made when several
    /// commits would have gained by it; 0 for none.
    pub fn log_size(mut self, bytes: u64) -> Self {
        self.log_size = Some(bytes);
        self
    }

    /// Maps the file privately, so that a program may write into a value that it was handed, inside
    /// the value's bounds, without harm: only this process sees such writes, until the page is
    /// reused or another process has committed. A write transaction that changes the same page may
    /// take them over. This is for C programs that do so; in Rust, values that are handed out
    /// cannot be written. Each page that a commit writes costs one more system call.
    pub fn writable_map(mut self, yes: bool) -> Self {
        self.writable_map = yes;
        self
    }

    /// Runs on another system than the real one: a simulated disk.
    #[doc(hidden)]
    pub fn system(mut self, system: Arc<dyn crate::os::System>) -> Self {
        self.system = Some(SystemHandle(system));
        self
    }
}

/// Where the files of a store are: for a folder `data.hdg` and `lock.hdg` in it (or `data.mdb` and
/// `lock.mdb`, where a program written for LMDB made it), for a file itself and the same name
/// followed by `-lock`; for a file with one of those names, the lock that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The data file.
    pub data: PathBuf,
    /// The lock file.
    pub lock: PathBuf,
}
