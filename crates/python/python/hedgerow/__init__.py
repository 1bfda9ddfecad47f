"""Hedgerow: an embedded, ordered, transactional key-value store that counts.

>>> import hedgerow, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> store = hedgerow.Store(folder.name + "/store")
>>> with store.write() as txn:
...     sizes = txn.table("sizes", key=str, value=int)
...     sizes["/usr/bin/awk"] = 700
...     sizes["/usr/bin/sed"] = 120
>>> with store.read() as txn:
...     sizes = txn.table("sizes", key=str, value=int)
...     print(sizes["/usr/bin/sed"], sizes.rank("/usr/bin/sed"), list(sizes))
120 1 ['/usr/bin/awk', '/usr/bin/sed']
>>> store.close()
"""

from ._errors import (
    ArgumentError,
    ClosedError,
    ConflictError,
    DamagedError,
    Error,
    ExistsError,
    FailedError,
    FileError,
    FullError,
    InterruptedError,
    LockedError,
    MissingError,
    NoTableError,
    ReadOnlyError,
    SqlError,
    TableError,
    TooOldError,
)
from ._follow import follow
from ._hedgerow import (
    Batch,
    Changes,
    Follow,
    Join,
    Keyspace,
    Log,
    LogTransaction,
    LogWalk,
    Rows,
    RowsIterator,
    Savepoint,
    Sink,
    Snapshot,
    Sql,
    Standby,
    Step,
    Store,
    Stream,
    Table,
    Transaction,
    View,
    Walk,
    __version__,
)
from ._join import difference, intersection, union

__all__ = [
    "ArgumentError",
    "Batch",
    "Changes",
    "ClosedError",
    "ConflictError",
    "DamagedError",
    "Error",
    "ExistsError",
    "FailedError",
    "FileError",
    "Follow",
    "FullError",
    "InterruptedError",
    "Join",
    "Keyspace",
    "LockedError",
    "Log",
    "LogTransaction",
    "LogWalk",
    "MissingError",
    "NoTableError",
    "ReadOnlyError",
    "Rows",
    "RowsIterator",
    "Savepoint",
    "Sink",
    "Snapshot",
    "Sql",
    "SqlError",
    "Standby",
    "Step",
    "Store",
    "Stream",
    "Table",
    "TableError",
    "TooOldError",
    "Transaction",
    "View",
    "Walk",
    "__version__",
    "difference",
    "follow",
    "intersection",
    "union",
]
