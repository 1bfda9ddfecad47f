"""Handles of databases, and how entries are put into one."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, TypeVar

from .._hedgerow import MdbTxn
from ._flags import _APPEND, _APPENDDUP, _FLAGS_OF_DB, _NODUPDATA, _NOOVERWRITE

if TYPE_CHECKING:
    from ._environment import Environment
    from ._transaction import Transaction

_T = TypeVar("_T")


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


def _put_flags(db: _Database, dupdata: bool, overwrite: bool, append: bool) -> int:
    flags = 0
    if not dupdata:
        flags |= _NODUPDATA
    if not overwrite:
        flags |= _NOOVERWRITE
    if append:
        flags |= _APPENDDUP if db._flags & _FLAGS_OF_DB["dupsort"] else _APPEND
    return flags


def _members(of: weakref.WeakSet[_T]) -> list[_T]:
    """What a set has at this moment; other threads change it."""
    while True:
        try:
            return list(of)
        except RuntimeError:
            # It was changed while it was gone through.
            continue
