"""The changes of a table, commit by commit, as they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._hedgerow import Store, Transaction
from .types import Name

Change = tuple[Any, Any, Any]


def follow(
    store: Store,
    name: Name,
    key: Any = None,
    value: Any = None,
    *,
    since: Transaction | None = None,
    interval: float = 0.05,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[Change]:
    """Yields what changes in a table: key, value before, value after, ``None`` for none.

    It begins with what was changed after ``since``, a read transaction that it takes over, or with
    the next commit. Several commits may come as one: then the changes are those from the first to
    the last. A commit of any process wakes it. It asks ``until`` at least every ``interval``
    seconds, and ends when that answers true and all is told. ``Store.follow`` is for more than one
    table, and for going on after a restart.
    """
    old = since if since is not None else store.read()
    try:
        while True:
            is_last = until()
            if store.newest_commit == old.id:
                if is_last:
                    return
                store.wait(old.id, interval)
                continue
            new = store.read()
            if name in old or name in new:
                yield from new.diff(old, name, key, value)
            old.abort()
            old = new
    finally:
        old.abort()
