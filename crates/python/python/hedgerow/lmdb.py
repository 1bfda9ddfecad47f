"""py-lmdb's interface on Hedgerow: ``import hedgerow.lmdb as lmdb`` runs programs written for it.

The stores are those of our ``liblmdb.so.0``; LMDB's own files are converted first (``hedgerow convert
--from-lmdb``). What differs from py-lmdb: ``buffers=True`` gives a ``memoryview`` of a copy, which stays
right for ever; ``copy(txn=...)`` is not there, as with an LMDB that py-lmdb has not patched.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from ._hedgerow import MdbCursor, MdbEnv, MdbTxn, mdb_message, mdb_version_of

_T = TypeVar("_T")

_FLAGS_OF_ENV = {
    # The name, whether the flag says the contrary, and the flag.
    "subdir": (True, 0x4000),
    "readonly": (False, 0x20000),
    "metasync": (True, 0x40000),
    "sync": (True, 0x10000),
    "map_async": (False, 0x100000),
    "readahead": (True, 0x800000),
    "writemap": (False, 0x80000),
    "meminit": (True, 0x1000000),
    "lock": (True, 0x400000),
}
_NOTLS = 0x200000
_FLAGS_OF_DB = {
    "reverse_key": 0x02,
    "dupsort": 0x04,
    "integerkey": 0x08,
    "integerdup": 0x20,
    "dupfixed": 0x10,
}
_CREATE = 0x40000
_NOOVERWRITE, _NODUPDATA, _APPEND, _APPENDDUP = 0x10, 0x20, 0x20000, 0x40000
_CP_COMPACT = 1

(
    _FIRST,
    _FIRST_DUP,
    _GET_BOTH,
    _GET_BOTH_RANGE,
    _GET_CURRENT,
    _GET_MULTIPLE,
    _LAST,
    _LAST_DUP,
    _NEXT,
    _NEXT_DUP,
    _NEXT_MULTIPLE,
    _NEXT_NODUP,
    _PREV,
    _PREV_DUP,
    _PREV_NODUP,
    _SET,
    _SET_KEY,
    _SET_RANGE,
) = range(18)

# What a call of a cursor tells: that there is a pair, its key, its value, both.
_IS_THERE, _KEY, _VALUE, _PAIR = range(4)

_EINVAL = 22
_WAIT_SECONDS = 1.0


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
    13: ReadonlyError,
    _EINVAL: InvalidParameterError,
    11: LockError,
    12: MemoryError,
    28: DiskError,
}

__all__ = [
    "BadDbiError",
    "BadRslotError",
    "BadTxnError",
    "BadValsizeError",
    "CorruptedError",
    "Cursor",
    "CursorFullError",
    "DbsFullError",
    "DiskError",
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


def _error(what: str, code: int) -> Error:
    """The exception of a code; 0 stands for the use of something that is over."""
    if code == 0:
        return Error("Attempt to operate on closed/deleted/dropped object.")
    return _CLASSES.get(code, Error)(what, code)


def version(subpatch: bool = False, lib_version: int | None = None) -> tuple[int, ...]:
    """The version of LMDB whose interface this is; with ``subpatch`` a fourth number, 0, since
    py-lmdb's changes to LMDB are not there."""
    _check_library(lib_version)
    return (*mdb_version_of(), 0) if subpatch else mdb_version_of()


def _check_library(lib_version: int | None) -> None:
    if lib_version is None:
        return
    if lib_version < 0:
        raise OverflowError("lib_version cannot be negative")
    if lib_version != mdb_version_of()[0]:
        raise Error(f"there is no LMDB {lib_version} here")


def enable_drop_gil() -> None:
    """Does nothing: other threads run in every call that may take long."""


# Open environments by the identities of their files.
_opened: weakref.WeakValueDictionary[tuple[int, int], Environment] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def _identities(path: str, subdir: bool) -> list[tuple[int, int]]:
    names = ("/data.mdb", "/lock.mdb") if subdir else ("", "-lock")
    found = []
    for name in names:
        try:
            stat = os.stat(path + name)
        except OSError:
            continue
        found.append((stat.st_dev, stat.st_ino))
    return found


class Environment:
    """An environment: a store with named databases."""

    def __init__(
        self,
        path: str | bytes | os.PathLike[str],
        map_size: int = 10485760,
        subdir: bool = True,
        readonly: bool = False,
        metasync: bool = True,
        sync: bool = True,
        map_async: bool = False,
        mode: int = 0o755,
        create: bool = True,
        readahead: bool = True,
        writemap: bool = False,
        meminit: bool = True,
        max_readers: int = 126,
        max_dbs: int = 0,
        max_spare_txns: int = 0,
        lock: bool = True,
        lib_version: int | None = None,
    ) -> None:
        self._is_closed = True
        _check_library(lib_version)
        self._path = os.fsdecode(path)
        self._said = {
            "subdir": subdir,
            "readonly": readonly,
            "metasync": metasync,
            "sync": sync,
            "map_async": map_async,
            "readahead": readahead,
            "writemap": writemap,
            "meminit": meminit,
            "lock": lock,
        }
        if create and subdir and not readonly:
            try:
                os.mkdir(self._path, mode)
            except FileExistsError:
                pass
        flags = _NOTLS
        for name, (is_contrary, flag) in _FLAGS_OF_ENV.items():
            if bool(self._said[name]) != is_contrary:
                flags |= flag
        with _opening:
            if any(there in _opened for there in _identities(self._path, subdir)):
                raise Error(f"The environment {self._path!r} is already open in this process.")
            self._env = MdbEnv(self._path, flags, mode & ~0o111, map_size, max_readers, max_dbs)
            for there in _identities(self._path, subdir):
                _opened[there] = self
        self._spare: list[MdbTxn] = []
        self._max_spare = max_spare_txns
        self._txns: weakref.WeakSet[Transaction] = weakref.WeakSet()
        self._writer: int | None = None
        self._may_write = threading.Event()
        self._may_write.set()
        self._dbs: dict[bytes | None, _Database] = {}
        self._is_closed = False
        txn = self._env.begin(None, False)
        self._dbs[None] = self._main = _Database(self, txn.open_db(None, 0), txn)
        txn.commit()

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self) -> MdbEnv:
        if self._is_closed:
            raise _error("closed", 0)
        return self._env

    def _end_transactions(self) -> None:
        """Ends all transactions; theirs are gone then."""
        for txn in _members(self._txns):
            txn._finish(False)
        for spare in self._spare:
            spare.abort()
        self._spare.clear()

    def close(self) -> None:
        """Closes it, and ends its transactions. Repeated calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        with _opening:
            for there, env in list(_opened.items()):
                if env is self:
                    del _opened[there]
        self._end_transactions()
        while not self._env.close():
            # A thread has just begun a transaction, and will see that the environment is closed.
            time.sleep(0.001)
            self._end_transactions()

    def path(self) -> str:
        """Where it is."""
        self._check()
        return self._path

    def copy(self, path: str, compact: bool = False, txn: Transaction | None = None) -> None:
        """Copies it to a folder that exists."""
        _refuse_txn(txn)
        self._check().copy(path, _CP_COMPACT if compact else 0)

    def copyfd(self, fd: int, compact: bool = False, txn: Transaction | None = None) -> None:
        """Copies it to an open file."""
        _refuse_txn(txn)
        self._check().copyfd(fd, _CP_COMPACT if compact else 0)

    def sync(self, force: bool = False) -> None:
        """Flushes it."""
        self._check().sync(force)

    def stat(self) -> dict[str, int]:
        """The main database in numbers."""
        return self._check().stat()

    def info(self) -> dict[str, int]:
        """The environment in numbers."""
        return self._check().info()

    def flags(self) -> dict[str, bool]:
        """How it was opened."""
        self._check()
        return {name: bool(said) for name, said in self._said.items()}

    def lib_version(self) -> tuple[int, ...]:
        """The version of LMDB whose interface it has."""
        self._check()
        return mdb_version_of()

    def max_key_size(self) -> int:
        """The longest key."""
        return self._check().max_key_size()

    def max_readers(self) -> int:
        """How many readers there may be."""
        return self.info()["max_readers"]

    def readers(self) -> str:
        """The readers, one a line."""
        return self._check().readers()

    def reader_check(self) -> int:
        """Frees the slots of readers whose processes died; answers how many."""
        return self._check().reader_check()

    def set_mapsize(self, map_size: int) -> None:
        """Sets how large it may become. Read transactions end; a write transaction of this thread
        forbids it, and one of another thread is waited for, for a second."""
        self._check()
        if self._writer == threading.get_ident():
            raise _error("mdb_env_set_mapsize", _EINVAL)
        end = time.monotonic() + _WAIT_SECONDS
        # Others begin to write afterwards.
        self._may_write.clear()
        try:
            while not self._resized(map_size):
                if time.monotonic() >= end:
                    raise _error("mdb_env_set_mapsize", _EINVAL)
                time.sleep(0.001)
        finally:
            self._may_write.set()

    def _resized(self, map_size: int) -> bool:
        """Sets the size; false if there is a writer."""
        if any(txn._writes for txn in _members(self._txns)):
            return False
        self._end_transactions()
        try:
            self._env.set_mapsize(map_size)
        except InvalidParameterError:
            return False
        return True

    def open_db(
        self,
        key: bytes | None = None,
        txn: Transaction | None = None,
        reverse_key: bool = False,
        dupsort: bool = False,
        create: bool = True,
        integerkey: bool = False,
        integerdup: bool = False,
        dupfixed: bool = False,
    ) -> _Database:
        """Opens a named database, and makes it unless ``create`` is false; without a name, the main
        database."""
        self._check()
        said = {
            "reverse_key": reverse_key,
            "dupsort": dupsort,
            "integerkey": integerkey,
            "integerdup": integerdup,
            "dupfixed": dupfixed,
        }
        if key is None:
            if any(said.values()):
                raise ValueError("the main database takes no flags")
            return self._main
        if isinstance(key, str):
            raise TypeError("a database has a name of bytes")
        key = bytes(key)
        if key in self._dbs:
            return self._dbs[key]
        flags = _CREATE if create else 0
        for name, flag in _FLAGS_OF_DB.items():
            flags |= flag if said[name] else 0
        if txn is not None:
            db = _Database(self, txn._check().open_db(key, flags), txn._check())
            txn._opened.append(key)
        else:
            with self.begin(write=not self._said["readonly"]) as own:
                db = _Database(self, own._check().open_db(key, flags), own._check())
                own._opened.append(key)
        self._dbs[key] = db
        return db

    def dbs(self, txn: Transaction | None = None) -> list[bytes]:
        """The names of the named databases."""
        self._check()
        if txn is None:
            with self.begin() as own:
                return self.dbs(own)
        known = {db._dbi for db in self._dbs.values()}
        names = []
        native = txn._check()
        for key in txn.cursor(self._main).iternext_nodup():
            key = bytes(key)
            try:
                dbi = native.open_db(key, 0)
            except (IncompatibleError, NotFoundError, ValueError):
                continue
            if dbi not in known:
                self._env.close_db(dbi)
            names.append(key)
        return names

    def begin(
        self,
        db: _Database | None = None,
        parent: Transaction | None = None,
        write: bool = False,
        buffers: bool = False,
    ) -> Transaction:
        """Begins a transaction."""
        return Transaction(self, db, parent, write, buffers)


def _members(of: weakref.WeakSet[_T]) -> list[_T]:
    """What a set has at this moment; other threads change it."""
    while True:
        try:
            return list(of)
        except RuntimeError:
            # It was changed while it was gone through.
            continue


def _refuse_txn(txn: Transaction | None) -> None:
    if txn is not None:
        raise TypeError("copying a transaction's snapshot needs an LMDB that py-lmdb has patched")


open = Environment  # noqa: A001


class _Database:
    """A handle of a database."""

    def __init__(self, env: Environment, dbi: int, txn: MdbTxn) -> None:
        # Weakly: the environment has the handle.
        self._env = weakref.ref(env)
        self._dbi = dbi
        self._flags = txn.db_flags(dbi)

    def flags(self, *args: Transaction | None) -> dict[str, bool]:
        """How it was made."""
        if len(args) > 1:
            raise TypeError("flags takes at most one argument")
        return {name: bool(self._flags & flag) for name, flag in _FLAGS_OF_DB.items()}


class Transaction:
    """A transaction, or with ``parent`` a nested one."""

    def __init__(
        self,
        env: Environment,
        db: _Database | None = None,
        parent: Transaction | None = None,
        write: bool = False,
        buffers: bool = False,
    ) -> None:
        self._txn: MdbTxn | None = None
        native = env._check()
        self._env = env
        self._writes = bool(write)
        self._parent = parent
        self._buffers = buffers
        self._db = env._main if db is None else db
        self._children: weakref.WeakSet[Transaction] = weakref.WeakSet()
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._opened: list[bytes] = []
        if self._db._env() is not env:
            raise Error("Database handle belongs to another environment.")
        if parent is not None:
            if parent._env is not env or not write or not parent._writes:
                raise _error("mdb_txn_begin", _EINVAL)
            self._txn = native.begin(parent._check(), True)
            parent._children.add(self)
        elif write:
            self._begin_writing(native)
        elif env._spare:
            spare = env._spare.pop()
            spare.renew()
            self._txn = spare
        else:
            self._txn = native.begin(None, False)
        env._txns.add(self)
        if env._is_closed:
            self._finish(False)
            raise _error("closed", 0)

    def _begin_writing(self, native: MdbEnv) -> None:
        this = threading.get_ident()
        if self._env._writer == this:
            raise Error("This thread has a write transaction already, and would wait for ever.")
        self._env._may_write.wait()
        self._txn = native.begin(None, True)
        self._env._writer = this

    def _check(self) -> MdbTxn:
        if self._txn is None:
            raise _error("closed", 0)
        return self._txn

    def _finish(self, commits: bool) -> None:
        """Ends it, after its children."""
        native, self._txn = self._txn, None
        if native is None:
            return
        try:
            for child in _members(self._children):
                child._finish(False)
            self._end(native, commits)
        finally:
            self._env._txns.discard(self)
            if self._writes and self._parent is None:
                self._env._writer = None

    def _end(self, native: MdbTxn, commits: bool) -> None:
        is_spare = len(self._env._spare) < self._env._max_spare and not self._env._is_closed
        if not self._writes and not self._opened and is_spare:
            native.reset()
            self._env._spare.append(native)
            return
        if not commits:
            self._forget_dbs()
            native.abort()
            return
        try:
            native.commit()
        except Error:
            self._forget_dbs()
            raise
        if self._parent is not None:
            self._parent._opened += self._opened

    def _forget_dbs(self) -> None:
        """Databases that it has opened may not be there any more."""
        for key in self._opened:
            self._env._dbs.pop(key, None)

    def __del__(self) -> None:
        if getattr(self, "_txn", None) is not None:
            try:
                self._finish(False)
            except Exception:
                # In the child of a fork the transaction is its parent's.
                pass

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish(kind is None)

    def commit(self) -> None:
        """Commits it."""
        self._check()
        self._finish(True)

    def abort(self) -> None:
        """Ends it without a trace. Repeated calls do nothing."""
        self._finish(False)

    def id(self) -> int:
        """The number of the commit that it reads, or will make."""
        return self._check().id()

    def stat(self, db: _Database | None = None) -> dict[str, int]:
        """A database in numbers."""
        return self._check().stat((db or self._db)._dbi)

    def drop(self, db: _Database, delete: bool = True) -> None:
        """Empties a database, or removes it."""
        native = self._check()
        for cursor in _members(self._cursors):
            if cursor._db is db and delete:
                cursor.close()
            elif cursor._db is db:
                cursor._on = False
        native.drop(db._dbi, delete)
        if delete:
            for key, known in list(self._env._dbs.items()):
                if known is db and key is not None:
                    del self._env._dbs[key]

    def get(self, key: Any, default: Any = None, db: _Database | None = None) -> Any:
        """The (first) value of a key, or ``default``."""
        txn = self._txn
        if txn is None:
            raise _error("closed", 0)
        found = txn.get(key, (self._db if db is None else db)._dbi)
        if found is None:
            return default
        return memoryview(found) if self._buffers else found

    def put(
        self,
        key: Any,
        value: Any,
        dupdata: bool = True,
        overwrite: bool = True,
        append: bool = False,
        db: _Database | None = None,
    ) -> bool:
        """Stores a pair; false if it is there and may not be."""
        db = self._db if db is None else db
        return self._check().put(key, value, db._dbi, _put_flags(db, dupdata, overwrite, append))

    def replace(self, key: Any, value: Any, db: _Database | None = None) -> Any:
        """Stores a value and gives the one that was there."""
        with self.cursor(db) as cursor:
            return cursor.replace(key, value)

    def pop(self, key: Any, db: _Database | None = None) -> Any:
        """Removes a key and gives its value."""
        with self.cursor(db) as cursor:
            return cursor.pop(key)

    def delete(self, key: Any, value: Any = b"", db: _Database | None = None) -> bool:
        """Removes a key, or one of its values; false if that is not there."""
        db = self._db if db is None else db
        return self._check().delete(key, value or None, db._dbi)

    def cursor(self, db: _Database | None = None) -> Cursor:
        """A cursor."""
        return Cursor(self._db if db is None else db, self)


def _put_flags(db: _Database, dupdata: bool, overwrite: bool, append: bool) -> int:
    flags = 0
    if not dupdata:
        flags |= _NODUPDATA
    if not overwrite:
        flags |= _NOOVERWRITE
    if append:
        flags |= _APPENDDUP if db._flags & _FLAGS_OF_DB["dupsort"] else _APPEND
    return flags


class Cursor:
    """A place in a database."""

    def __init__(self, db: _Database, txn: Transaction) -> None:
        self._cursor = txn._check().cursor(db._dbi)
        self._db = db
        self._txn = txn
        # Whether it stands on a pair, as its user sees it.
        self._on = False
        txn._cursors.add(self)

    def close(self) -> None:
        """Closes it. Repeated calls do nothing."""
        self._cursor.close()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _out(self, found: Any) -> Any:
        """Bytes as the transaction gives them."""
        if not self._txn._buffers:
            return found
        if isinstance(found, tuple):
            return tuple(memoryview(part) for part in found)
        return memoryview(found)

    def _current(self, what: int, empty: Any) -> Any:
        found = self._cursor.get(_GET_CURRENT, what)
        return self._out(empty if found is None or not self._on else found)

    def key(self) -> Any:
        """The key under it; nothing if it stands nowhere."""
        return self._current(_KEY, b"")

    def value(self) -> Any:
        """The value under it."""
        return self._current(_VALUE, b"")

    def item(self) -> tuple[Any, Any]:
        """The pair under it."""
        pair: tuple[Any, Any] = self._current(_PAIR, (b"", b""))
        return pair

    def _move(self, op: int, key: Any = None, value: Any = None) -> bool:
        self._on = False
        self._on = self._cursor.get(op, _IS_THERE, key, value) is not None
        return self._on

    def _walk(self, op: int, keys: bool, values: bool) -> Iterator[Any]:
        what = _PAIR if keys and values else _KEY if keys else _VALUE
        self._txn._check()
        found = self._cursor.get(_GET_CURRENT, what) if self._on else None
        while found is not None:
            yield self._out(found)
            found = self._cursor.get(op, what)
            self._on = found is not None

    def _walk_from(self, start: int, op: int, keys: bool, values: bool) -> Iterator[Any]:
        if not self._on:
            self._move(start)
        return self._walk(op, keys, values)

    def iternext(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """From here, or from the first pair, to the last one."""
        return self._walk_from(_FIRST, _NEXT, keys, values)

    __iter__ = iternext

    def iternext_dup(self, keys: bool = False, values: bool = True) -> Iterator[Any]:
        """From here to the last value of the key."""
        return self._walk(_NEXT_DUP, keys, values)

    def iternext_nodup(self, keys: bool = True, values: bool = False) -> Iterator[Any]:
        """From here, or from the first key, to the last one, each key once."""
        return self._walk_from(_FIRST, _NEXT_NODUP, keys, values)

    def iterprev(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """From here, or from the last pair, to the first one."""
        return self._walk_from(_LAST, _PREV, keys, values)

    def iterprev_dup(self, keys: bool = False, values: bool = True) -> Iterator[Any]:
        """From here to the first value of the key."""
        return self._walk(_PREV_DUP, keys, values)

    def iterprev_nodup(self, keys: bool = True, values: bool = False) -> Iterator[Any]:
        """From here, or from the last key, to the first one, each key once."""
        return self._walk_from(_LAST, _PREV_NODUP, keys, values)

    def first(self) -> bool:
        """To the first pair; false if there is none. So the following calls."""
        return self._move(_FIRST)

    def first_dup(self) -> bool:
        """To the first value of the key."""
        return self._move(_FIRST_DUP)

    def last(self) -> bool:
        """To the last pair."""
        return self._move(_LAST)

    def last_dup(self) -> bool:
        """To the last value of the key."""
        return self._move(_LAST_DUP)

    def prev(self) -> bool:
        """To the previous pair."""
        return self._move(_PREV)

    def prev_dup(self) -> bool:
        """To the previous value of the key."""
        return self._move(_PREV_DUP)

    def prev_nodup(self) -> bool:
        """To the last value of the previous key."""
        return self._move(_PREV_NODUP)

    def next(self) -> bool:
        """To the next pair."""
        return self._move(_NEXT)

    def next_dup(self) -> bool:
        """To the next value of the key."""
        return self._move(_NEXT_DUP)

    def next_nodup(self) -> bool:
        """To the first value of the next key."""
        return self._move(_NEXT_NODUP)

    def set_key(self, key: Any) -> bool:
        """To a key."""
        return self._move(_SET_KEY, key)

    def set_key_dup(self, key: Any, value: Any) -> bool:
        """To a pair."""
        return self._move(_GET_BOTH, key, value)

    def set_range(self, key: Any) -> bool:
        """To the first key at or after this one."""
        return self._move(_SET_RANGE, key) if len(key) else self.first()

    def set_range_dup(self, key: Any, value: Any) -> bool:
        """To the first value of this key at or after this one."""
        return self._move(_GET_BOTH_RANGE, key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, to which it moves, or ``default``."""
        return self.value() if self.set_key(key) else default

    def getmulti(
        self,
        keys: Iterable[Any],
        dupdata: bool = False,
        dupfixed_bytes: int | None = None,
        keyfixed: bool = False,
        values: bool = True,
    ) -> Any:
        """The pairs of many keys: with ``dupdata`` all values of each; values of ``dupfixed_bytes``
        bytes are read in blocks; with ``keyfixed`` keys and values in one piece of memory; without
        ``values`` only the keys that are there."""
        if dupfixed_bytes is not None and dupfixed_bytes < 0:
            raise OverflowError("dupfixed_bytes cannot be negative")
        if (dupfixed_bytes or keyfixed) and not (dupdata and dupfixed_bytes):
            raise TypeError("dupfixed_bytes needs dupdata, and keyfixed needs both")
        if not values:
            if dupdata:
                raise TypeError("without values there is no dupdata")
            return [self._out(key) for key in self._get_many(keys, _KEY)]
        if not dupdata:
            return [self._out(pair) for pair in self._get_many(keys, _PAIR)]
        pairs = self._pairs(keys, dupfixed_bytes)
        if not keyfixed:
            return [(self._out(key), self._out(value)) for key, value in pairs]
        packed, width = bytearray(), None
        for key, value in pairs:
            if len(key) != (width := len(key) if width is None else width):
                raise ValueError("with keyfixed all keys have one size")
            packed += key
            packed += value
        return memoryview(packed)

    def _get_many(self, keys: Iterable[Any], what: int) -> list[Any]:
        found = self._cursor.get_many(keys, _SET_KEY, what)
        self._on = self._cursor.get(_GET_CURRENT, _IS_THERE) is not None
        return found

    def _pairs(self, keys: Iterable[Any], size: int | None) -> Iterator[tuple[bytes, bytes]]:
        """All values of many keys."""
        get = self._cursor.get
        for key in keys:
            if not self.set_key(key):
                continue
            key = get(_GET_CURRENT, _KEY)
            value = get(_GET_MULTIPLE if size else _GET_CURRENT, _VALUE)
            while value is not None:
                if size:
                    for at in range(0, len(value), size):
                        yield key, value[at : at + size]
                    value = get(_NEXT_MULTIPLE, _VALUE)
                else:
                    yield key, value
                    value = get(_NEXT_DUP, _VALUE)

    def delete(self, dupdata: bool = False) -> bool:
        """Removes the pair under it, with ``dupdata`` all values of the key, and moves to the next
        one; false if it stands nowhere."""
        if not self._on:
            self._txn._check()
            return False
        self._cursor.delete(_NODUPDATA if dupdata else 0)
        self._on = self._cursor.get(_GET_CURRENT, _IS_THERE) is not None
        return True

    def count(self) -> int:
        """How many values the key has."""
        return self._cursor.count()

    def put(
        self,
        key: Any,
        value: Any,
        dupdata: bool = True,
        overwrite: bool = True,
        append: bool = False,
    ) -> bool:
        """Stores a pair, to which it moves; false if it is there and may not be."""
        flags = _put_flags(self._db, dupdata, overwrite, append)
        stored = self._cursor.put(key, value, flags)
        self._on = self._cursor.get(_GET_CURRENT, _IS_THERE) is not None
        return stored

    def putmulti(
        self,
        items: Iterable[tuple[Any, Any]],
        dupdata: bool = True,
        overwrite: bool = True,
        append: bool = False,
    ) -> tuple[int, int]:
        """Stores many pairs; answers how many were given, and how many stored."""
        flags = _put_flags(self._db, dupdata, overwrite, append)
        consumed, added = self._cursor.put_many(items, flags)
        self._on = self._cursor.get(_GET_CURRENT, _IS_THERE) is not None
        return consumed, added

    def replace(self, key: Any, value: Any) -> Any:
        """Stores a value in place of all that the key has, and gives the first one of these."""
        old = None
        if self.set_key(key):
            old = self.value()
            if self._db._flags & _FLAGS_OF_DB["dupsort"]:
                self.delete(dupdata=True)
        self.put(key, value)
        return old

    def pop(self, key: Any) -> Any:
        """Removes a key's (first) value and gives it."""
        if not self.set_key(key):
            return None
        old = self.value()
        self.delete()
        return old
