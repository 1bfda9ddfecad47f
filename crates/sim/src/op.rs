//! Operations as data: small, printable, and meaningful in any order, so that a list of them can be
//! replayed and any part of it left out.
//!
//! Operands are numbers: of a table, of a key or value in the table's pool, of a slot.

/// One step of a run. One that does not apply (a commit without a transaction) does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// About transactions, readers and the store as a whole.
    Control(Control),
    /// A read of a table through a view.
    Read(View, u8, Read),
    /// A write to a table through the open write transaction.
    Write(u8, Write),
    /// A step of a cursor: view, slot.
    Cursor(View, u8, Move),
    /// A write through a cursor of the write transaction: slot.
    CursorWrite(u8, CursorWrite),
    /// A misuse that must be answered with its documented error.
    Misuse(u8, Misuse),
}

/// Which transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The open write transaction, with its own changes.
    Writer,
    /// A held read transaction by slot.
    Reader(u8),
}

/// How a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// `commit`, with the store's own durability.
    Default,
    /// Durable.
    Durable,
    /// Flushed soon.
    Eventual,
    /// Flushed when told.
    None,
    /// Durable, while this many other threads wait to write, whose changes follow from a number.
    Group(u8, u32),
}

/// Transactions, readers, and the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Begins a write transaction.
    BeginWrite,
    /// Commits the innermost transaction.
    Commit(Commit),
    /// Aborts the innermost transaction.
    Abort,
    /// Drops the innermost transaction.
    Drop,
    /// Begins a nested transaction.
    BeginNested,
    /// Sets a savepoint.
    Savepoint,
    /// Rolls back to the n-th savepoint from the end.
    RollbackTo(u8),
    /// Releases the n-th savepoint from the end.
    Release(u8),
    /// Tries to begin a second write transaction.
    TryBeginWrite,
    /// Begins a read transaction in a slot.
    BeginRead(u8),
    /// Verifies a held snapshot as a whole and ends it.
    EndRead(u8),
    /// Resets a read transaction.
    Reset(u8),
    /// Renews a read transaction.
    Renew(u8),
    /// Closes everything and opens the store again.
    Reopen,
    /// Flushes.
    Sync,
    /// Checks every page.
    Check,
    /// Compacts in place.
    Compact,
    /// Copies the store (compacting or not) and verifies the copy.
    Copy(bool),
    /// Compares the statistics of the store.
    Stat,
    /// Lists the tables.
    Tables(View),
    /// Creates (or opens) a table.
    Create(u8),
    /// Drops a table.
    DropTable(u8),
    /// Renames a table to its other name, or to the name of another table.
    Rename(u8, Option<u8>),
    /// Deletes all entries of a table.
    Clear(u8),
}

/// One end of a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// No bound.
    Open,
    /// The key itself is inside.
    Included(u32),
    /// The key itself is outside.
    Excluded(u32),
}

/// One end of a range of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEdge {
    /// No bound.
    Open,
    /// The pair itself is inside.
    Included(u32, u32),
    /// The pair itself is outside.
    Excluded(u32, u32),
}

/// Reads of a table. Keys and values are numbers of the table's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The first value of a key.
    Get(u32),
    /// Whether a pair is there.
    ContainsPair(u32, u32),
    /// Values of `count` keys, from one on, `step` apart.
    GetMany {
        /// The first key.
        from: u32,
        /// How far apart.
        step: u32,
        /// How many.
        count: u32,
    },
    /// All values of a key.
    ForEachValue(u32),
    /// A value in parts, from an offset (in 1/256 of its length) on.
    ValueReader(u32, u8),
    /// At most `limit` entries of a range; bit `i % 32` of `pattern` says from which end.
    Range {
        /// The low end.
        low: Edge,
        /// The high end.
        high: Edge,
        /// A set bit takes from the back.
        pattern: u32,
        /// When to stop.
        limit: u16,
    },
    /// The number of all entries.
    Count,
    /// The number of entries in a range.
    CountRange(Edge, Edge),
    /// The number of entries between two pairs.
    CountPairs(PairEdge, PairEdge),
    /// The number of values of a key.
    CountValues(u32),
    /// The entry at a position, in 1/65,536 of the table (some lie beyond its end).
    Nth(u32),
    /// The key at a position, likewise.
    NthKey(u32),
    /// Where a key stands.
    Rank(u32),
    /// Where a pair stands.
    RankPair(u32, u32),
    /// Entries at even distances.
    Sample(u16),
    /// Entries drawn at random from a seed.
    SampleRandom(u16, u32),
    /// Cuts the table into even parts.
    Split(u16),
    /// Name, options, size and statistics.
    Info,
    /// Compares the whole table, forward and backward.
    Scan,
}

/// Writes to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Stores a value, or adds a pair.
    Put(u32, u32),
    /// Stores if the key is absent.
    PutNew(u32, u32),
    /// Adds a pair and says whether it is new.
    PutPair(u32, u32),
    /// Stores and returns the old value.
    Replace(u32, u32),
    /// Appends this entry.
    Append(u32, u32),
    /// Appends an entry that comes after the last one, if the pool has one: how far.
    AppendNext(u32, u32),
    /// Stores by writing into the page.
    Reserve(u32, u32),
    /// Stores in parts.
    WriteParts(u32, u32),
    /// Reads, decides and writes.
    Update(u32, Change),
    /// Deletes a key.
    Delete(u32),
    /// Deletes a pair.
    DeletePair(u32, u32),
    /// Deletes a range of keys.
    DeleteRange(Edge, Edge),
    /// Deletes the entry at a position of the table, in 1/65,536.
    DeleteNth(u32),
}

/// What an update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Stores a value.
    Put(u32),
    /// Deletes the entry.
    Delete,
}

/// Steps of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Opens a cursor of a table in the slot.
    Open(u8),
    /// Copies the cursor of another slot into this one.
    CopyOf(u8),
    /// First entry.
    First,
    /// Last entry.
    Last,
    /// Next entry.
    Next,
    /// Previous entry.
    Prev,
    /// First value of the next key.
    NextKey,
    /// Last value of the previous key.
    PrevKey,
    /// Next value of the key.
    NextValue,
    /// Previous value of the key.
    PrevValue,
    /// First value of the key.
    FirstValue,
    /// Last value of the key.
    LastValue,
    /// The entry itself.
    Current,
    /// Exactly a key.
    Seek(u32),
    /// First entry at or after a key.
    SeekAtOrAfter(u32),
    /// Last entry at or before a key.
    SeekAtOrBefore(u32),
    /// Exactly a pair.
    SeekPair(u32, u32),
    /// A key, first value at or after one.
    SeekValue(u32, u32),
    /// A position, in 1/65,536 of the table.
    SeekNth(u32),
    /// How many values the key has.
    ValueCount,
}

/// Writes through a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorWrite {
    /// Puts an entry and stands on it.
    Put(u32, u32),
    /// Replaces the value.
    PutCurrent(u32),
    /// Deletes the entry.
    Delete,
    /// Deletes the key.
    DeleteKey,
}

/// Misuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A key longer than any table takes.
    LongKey,
    /// A key of the wrong size for a table of integers.
    IntegerKey,
    /// A value too long for a table with duplicates, or of another size than the fixed one.
    DuplicateValue,
    /// A call that does not fit the kind of table.
    WrongKind,
    /// A table handle of an earlier transaction.
    StaleTable,
    /// A cursor of an earlier transaction.
    StaleCursor,
    /// A table that is not there.
    NoTable,
    /// Opening a table with other options than it has.
    OtherOptions,
}
