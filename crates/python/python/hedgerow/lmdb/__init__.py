"""py-lmdb's interface on Hedgerow: ``import hedgerow.lmdb as lmdb`` runs programs written for it.

The stores are those of our ``liblmdb.so.0``; LMDB's own files are converted first (``hedgerow
convert --from-lmdb``). What differs from py-lmdb: ``buffers=True`` gives a ``memoryview`` of a
copy, which stays right for ever; ``copy(txn=...)`` is not there, as with an LMDB that py-lmdb has
not patched.
"""

from ._cursor import Cursor
from ._database import _Database
from ._environment import Environment
from ._errors import (
    BadChecksumError,
    BadDbiError,
    BadRslotError,
    BadTxnError,
    BadValsizeError,
    CorruptedError,
    CryptoFailError,
    CursorFullError,
    DbsFullError,
    DiskError,
    EnvEncryptionError,
    Error,
    IncompatibleError,
    InvalidError,
    InvalidParameterError,
    KeyExistsError,
    LockError,
    MapFullError,
    MapResizedError,
    MemoryError,
    NotFoundError,
    PageFullError,
    PageNotFoundError,
    PanicError,
    ProblemError,
    ReadersFullError,
    ReadonlyError,
    TlsFullError,
    TxnFullError,
    VersionMismatchError,
)
from ._transaction import Transaction
from ._version import version

open = Environment  # noqa: A001

__all__ = [
    "BadChecksumError",
    "BadDbiError",
    "BadRslotError",
    "BadTxnError",
    "BadValsizeError",
    "CorruptedError",
    "CryptoFailError",
    "Cursor",
    "CursorFullError",
    "DbsFullError",
    "DiskError",
    "EnvEncryptionError",
    "Environment",
    "Error",
    "IncompatibleError",
    "InvalidError",
    "InvalidParameterError",
    "KeyExistsError",
    "LockError",
    "MapFullError",
    "MapResizedError",
    "MemoryError",
    "NotFoundError",
    "PageFullError",
    "PageNotFoundError",
    "PanicError",
    "ProblemError",
    "ReadersFullError",
    "ReadonlyError",
    "TlsFullError",
    "Transaction",
    "TxnFullError",
    "VersionMismatchError",
    "_Database",
    "enable_drop_gil",
    "version",
]


def enable_drop_gil() -> None:
    """Does nothing: other threads run in every call that may take long."""
