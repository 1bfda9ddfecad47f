"""The errors of py-lmdb, one for each of LMDB's codes."""

from __future__ import annotations

from .._hedgerow import mdb_message
from ._flags import _EINVAL


class Error(Exception):
    """What LMDB's interface says: ``what`` was called, the ``code``, and the ``reason``."""

    _hint: str | None = None

    def __init__(self, what: str, code: int = 0) -> None:
        self.what = what
        self.code = code
        self.reason = mdb_message(code)
        message = f"{what}: {self.reason}" if code else what
        super().__init__(f"{message} ({self._hint})" if code and self._hint else message)


class KeyExistsError(Error):
    """The entry is there already."""


class NotFoundError(Error):
    """There is no such entry."""


class PageNotFoundError(Error):
    """A page is missing."""


class CorruptedError(Error):
    """A page is damaged."""


class PanicError(Error):
    """A flush failed: close the environment and open it anew."""


class VersionMismatchError(Error):
    """The file is of another version."""


class InvalidError(Error):
    """The file is no store."""


class MapFullError(Error):
    """The map size is reached."""

    _hint = "Please use a larger Environment(map_size=) parameter"


class DbsFullError(Error):
    """There are as many databases as ``max_dbs``."""

    _hint = "Please use a larger Environment(max_dbs=) parameter"


class ReadersFullError(Error):
    """There are as many readers as ``max_readers``."""

    _hint = "Please use a larger Environment(max_readers=) parameter"


class TlsFullError(Error):
    """There are too many keys of thread-local storage."""


class TxnFullError(Error):
    """The transaction has too many changed pages."""

    _hint = "Please do less work within your transaction"


class CursorFullError(Error):
    """The cursor's stack has no room."""


class PageFullError(Error):
    """A page has no room."""


class MapResizedError(Error):
    """The file has grown beyond the map."""


class IncompatibleError(Error):
    """The call does not fit the database."""


class BadRslotError(Error):
    """The reader's slot is used already."""


class BadTxnError(Error):
    """The transaction has failed, is over, or has a child."""


class BadValsizeError(Error):
    """A key, name or value has a size that is not taken."""


class BadDbiError(Error):
    """The handle of the database was closed."""


class ProblemError(Error):
    """Something is wrong: abort the transaction."""


class BadChecksumError(Error):
    """A page's checksum does not fit."""


class CryptoFailError(Error):
    """A page could not be decrypted. Nothing raises it here, where pages are not encrypted."""


class EnvEncryptionError(Error):
    """The environment is encrypted, or not, other than expected. Nothing raises it here."""


class ReadonlyError(Error):
    """The environment or the transaction is for reading only."""


class InvalidParameterError(Error):
    """An argument makes no sense."""


class LockError(Error):
    """The environment is locked."""


class MemoryError(Error):  # noqa: A001
    """Memory could not be had."""


class DiskError(Error):
    """The disk is full."""


_CLASSES: dict[int, type[Error]] = {
    -30799: KeyExistsError,
    -30798: NotFoundError,
    -30797: PageNotFoundError,
    -30796: CorruptedError,
    -30795: PanicError,
    -30794: VersionMismatchError,
    -30793: InvalidError,
    -30792: MapFullError,
    -30791: DbsFullError,
    -30790: ReadersFullError,
    -30789: TlsFullError,
    -30788: TxnFullError,
    -30787: CursorFullError,
    -30786: PageFullError,
    -30785: MapResizedError,
    -30784: IncompatibleError,
    -30783: BadRslotError,
    -30782: BadTxnError,
    -30781: BadValsizeError,
    -30780: BadDbiError,
    -30779: ProblemError,
    -30778: BadChecksumError,
    -30777: CryptoFailError,
    -30776: EnvEncryptionError,
    13: ReadonlyError,
    _EINVAL: InvalidParameterError,
    11: LockError,
    12: MemoryError,
    28: DiskError,
}


def _error(what: str, code: int) -> Error:
    """The exception of a code; 0 stands for the use of something that is over."""
    if code == 0:
        return Error("Attempt to operate on closed/deleted/dropped object.")
    return _CLASSES.get(code, Error)(what, code)
