"""The changes of a table, commit by commit, as they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

from ._hedgerow import Log, Snapshot, Store, Transaction
from .types import Name

Change = tuple[Any, Any, Any]


@overload
def follow(
    store: Store,
    name: Name,
    key: Any = None,
    value: Any = None,
    *,
    since: Transaction | None = None,
    interval: float = 0.05,
    until: Callable[[], bool] = ...,
) -> Iterator[Change]: ...


@overload
def follow(
    store: Log,
    name: Name,
    key: Any = None,
    value: Any = None,
    *,
    since: Snapshot | None = None,
    interval: float = 0.05,
    until: Callable[[], bool] = ...,
) -> Iterator[Change]: ...


def follow(
    store: Any,
    name: Name,
    key: Any = None,
    value: Any = None,
    *,
    since: Any = None,
    interval: float = 0.05,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[Change]:
    """Yields what changes in a table: key, value before, value after, ``None`` for none.

    It begins with what was changed after ``since``, a read transaction or, of a ``Log``, a snapshot
    that it takes over, or with the next commit. Several commits may come as one: then the changes
    are those from the first to the last. A commit of any process wakes it. It asks ``until`` at
    least every ``interval`` seconds, and ends when that answers true and all is told.
    ``Store.follow`` and ``Log.follow`` are for more than one table, and for going on after a
    restart.
    """
    now = store.snapshot if isinstance(store, Log) else store.read
    old = since if since is not None else now()
    try:
        while True:
            is_last = until()
            if store.newest_commit == old.id:
                if is_last:
                    return
                store.wait(old.id, interval)
                continue
            new = now()
            if name in old or name in new:
                yield from new.diff(old, name, key, value)
            old.__exit__(None, None, None)
            old = new
    finally:
        old.__exit__(None, None, None)
