"""Environments."""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import TracebackType

from .._hedgerow import MdbEnv, MdbTxn, mdb_version_of
from ._database import _Database, _members
from ._errors import Error, IncompatibleError, InvalidParameterError, NotFoundError, _error
from ._flags import (
    _CP_COMPACT,
    _CREATE,
    _EINVAL,
    _FLAGS_OF_DB,
    _FLAGS_OF_ENV,
    _NOTLS,
    _WAIT_SECONDS,
)
from ._transaction import Transaction
from ._version import _check_library

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


def _refuse_txn(txn: Transaction | None) -> None:
    if txn is not None:
        raise TypeError("copying a transaction's snapshot needs an LMDB that py-lmdb has patched")
