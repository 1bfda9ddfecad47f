"""Transactions."""

from __future__ import annotations

import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._hedgerow import MdbEnv, MdbTxn
from ._cursor import Cursor
from ._database import _Database, _members, _put_flags
from ._errors import Error, _error
from ._flags import _EINVAL

if TYPE_CHECKING:
    from ._environment import Environment


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
