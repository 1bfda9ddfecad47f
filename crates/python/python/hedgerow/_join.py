"""What several streams have together."""

from __future__ import annotations

from typing import Any, TypeVar

from ._hedgerow import Join, Stream

K = TypeVar("K")


def union(*streams: Stream[K, Any]) -> Join[K]:
    """Each key that any of the streams has, in order, with a tuple of the value that each has.

    ``None`` stands for no value. The streams are of any stores, of both engines, have keys of one
    type and have not begun; they go forwards, without ``skip`` and ``limit``. Of a key with several
    values the first one is taken. ``heapq.merge`` gives the pairs of several streams one by one.
    """
    return Join("union", list(streams))


def intersection(*streams: Stream[K, Any]) -> Join[K]:
    """Each key that all of the streams have: as ``union``. Keys that one lacks are leapt over in
    the others."""
    return Join("intersection", list(streams))


def difference(first: Stream[K, Any], *others: Stream[K, Any]) -> Join[K]:
    """Each key that the first stream has and none of the others: as ``union``."""
    return Join("difference", [first, *others])
