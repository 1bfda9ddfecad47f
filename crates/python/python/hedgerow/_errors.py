"""The errors of the store: one base class, and a class where programs act differently."""

from __future__ import annotations


class Error(Exception):
    """What can go wrong. The message says what, where, and what to do next.

    ``path`` is the file that it is about, and ``page`` the page of it; ``None`` where there is
    none.
    """

    path: str | None = None
    page: int | None = None


class FileError(Error, OSError):
    """The system refused an operation on a file: ``errno`` says why."""


class MissingError(Error, FileNotFoundError):
    """There is no store at the path that was to be opened."""


class ExistsError(Error, FileExistsError):
    """There is something already at the path where a store was to be created."""


class DamagedError(Error):
    """The file is no store, is one of another version, or holds what its checksums do not allow."""


class LockedError(Error):
    """Another process has the store, or it was opened before a fork."""


class FullError(Error):
    """The store has reached its maximum size."""


class ReadOnlyError(Error):
    """The store, or the transaction, is for reading only."""


class NoTableError(Error, KeyError):
    """There is no table of that name."""

    def __str__(self) -> str:
        # That of KeyError would quote the message.
        return Exception.__str__(self)


class TableError(Error, TypeError):
    """The table has other options or types than those asked for, or is of another kind."""


class ArgumentError(Error, ValueError):
    """A key or value that the table does not take, or another argument that makes no sense."""


class SqlError(Error):
    """SQLite refuses a statement, and says why."""


class ConflictError(Error):
    """What an optimistic transaction read was changed since it began. Begin it anew."""


class TooOldError(Error):
    """What a follower was to go on from is not kept any more. Begin anew from the store as it is:
    forget the follower of that name, and follow without a mark."""


class ClosedError(Error, ValueError):
    """The store, the transaction or the handle was closed before."""


class InterruptedError(Error):  # noqa: A001
    """The interruption flag of the store was raised while the call ran."""


class FailedError(Error):
    """An earlier write failed: close the store and open it again to go on."""
