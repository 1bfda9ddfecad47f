"""Nothing grows: not by opening, not by reading, not by failing.

HEDGEROW_LONG=1 makes it the run of a release.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import hedgerow

LONG = "HEDGEROW_LONG" in os.environ
OPENS = 1_000 if LONG else 100
ITEMS = 10_000_000 if LONG else 500_000


def private_bytes() -> int:
    """Memory of this process alone: without what maps of files hold."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no line of private memory")


def open_and_use(path: Path, n: int) -> None:
    with hedgerow.Store(path, durability="none") as store:
        with store.write() as txn:
            t = txn.table("t", key=int, value=str)
            t[n % 100] = str(n)
            t.update((k, "x") for k in range(5))
            with txn.savepoint():
                t.pop(1)
        with store.read() as txn:
            t = txn.table("t", key=int, value=str)
            assert list(t.items()) and t.get(-1) is None
            try:
                t[-1]
            except KeyError:
                pass
            views = txn.table("t", key=int, value=memoryview)
            assert len(views[0]) > 0


def test_opening_and_closing_leaves_nothing(tmp_path: Path) -> None:
    for n in range(20):
        open_and_use(tmp_path / "store", n)
    gc.collect()
    tracemalloc.start()
    try:
        traced, private = tracemalloc.get_traced_memory()[0], private_bytes()
        for n in range(OPENS):
            open_and_use(tmp_path / "store", n)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - traced < 100_000
        assert private_bytes() - private < 8 << 20
    finally:
        tracemalloc.stop()
    assert len(os.listdir("/proc/self/fd")) < 100


def test_going_through_pairs_takes_no_memory(tmp_path: Path) -> None:
    with hedgerow.Store(tmp_path / "store", durability="none") as store:
        with store.write() as txn:
            txn.table("t", key=int).update((n, b"x" * 20) for n in range(50_000))

        def walk(passes: int) -> int:
            seen = 0
            for _ in range(passes):
                with store.read() as txn:
                    for kind in (bytes, memoryview):
                        for _ in txn.table("t", key=int, value=kind).items():
                            seen += 1
            return seen

        walk(1)
        gc.collect()
        private = private_bytes()
        assert walk(ITEMS // 100_000) == ITEMS
        gc.collect()
        assert private_bytes() - private < 8 << 20
