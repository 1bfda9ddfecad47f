"""Cursors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._database import _Database, _put_flags
from ._flags import (
    _FIRST,
    _FIRST_DUP,
    _FLAGS_OF_DB,
    _GET_BOTH,
    _GET_BOTH_RANGE,
    _GET_CURRENT,
    _GET_MULTIPLE,
    _IS_THERE,
    _KEY,
    _LAST,
    _LAST_DUP,
    _NEXT,
    _NEXT_DUP,
    _NEXT_MULTIPLE,
    _NEXT_NODUP,
    _NODUPDATA,
    _PAIR,
    _PREV,
    _PREV_DUP,
    _PREV_NODUP,
    _SET_KEY,
    _SET_RANGE,
    _VALUE,
)

if TYPE_CHECKING:
    from ._transaction import Transaction


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
