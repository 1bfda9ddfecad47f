"""A second store that keeps up with a first one, of whatever engines."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

import hedgerow
from hedgerow import Log, Standby, Store

Either = Store | Log
Kind = type[Store] | type[Log]


def put(store: Either, table: str, pairs: Iterable[tuple[int, bytes]]) -> None:
    with store.sink(table, key=int) as sink:
        sink.update(pairs)


def remove(store: Either, table: str, stop: int | None = None) -> None:
    """Removes the keys up to one; without one, the whole table."""
    if isinstance(store, Log):
        if stop is None:
            store.drop(table)
        else:
            del store.keyspace(table, key=int)[:stop]
        return
    with store.write() as txn:
        if stop is None:
            del txn[table]
        else:
            del txn.table(table, key=int)[:stop]


def content(store: Either) -> dict[int, bytes]:
    return dict(store.scan("t", int, bytes))


@pytest.mark.parametrize("target", [Store, Log])
@pytest.mark.parametrize("source", [Store, Log])
def test_a_second_store_keeps_up(tmp_path: Path, source: Kind, target: Kind) -> None:
    with source(tmp_path / "first") as first, target(tmp_path / "second") as second:
        put(first, "t", ((n, b"%d" % n) for n in range(100)))
        with Standby(first, "second", second) as standby:
            reached = standby.catch_up()
            assert reached is not None and content(second) == content(first)
            assert standby.catch_up() is None and standby.step(0.01) is None
            put(first, "t", [(1000, b"new")])
            remove(first, "t", 50)
            later = standby.catch_up()
            assert later is not None and later > reached
            assert content(second) == content(first) and len(content(second)) == 51
            assert set(first.pins())
            assert "second" in repr(standby)
        with pytest.raises(hedgerow.ClosedError, match="the standby"):
            standby.step()
        assert "closed" in repr(standby)
        remove(first, "t")
        put(first, "u", [(1, b"b")])
    # It goes on from where it was.
    with source(tmp_path / "first") as first, target(tmp_path / "second") as second:
        with Standby(first, "second", second, durability="none") as standby:
            standby.catch_up()
        assert list(second.scan("u", int)) == [(1, b"b")]
        with pytest.raises(hedgerow.NoTableError):
            second.scan("t")


@pytest.mark.parametrize("kind", [Store, Log])
def test_what_is_no_second_store_is_refused(tmp_path: Path, kind: Kind) -> None:
    with kind(tmp_path / "first") as first, kind(tmp_path / "full") as full:
        put(full, "t", [(1, b"")])
        with pytest.raises(hedgerow.ArgumentError, match="holds tables"):
            Standby(first, "full", full)
        with pytest.raises(TypeError, match="not a int"):
            Standby(first, "x", 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a Store or a Log"):
            Standby("first", "x", full)  # type: ignore[arg-type]


def test_a_forgotten_standby_is_too_old(tmp_path: Path) -> None:
    with Log(tmp_path / "first") as first, Store(tmp_path / "second") as second:
        put(first, "t", [(1, b"a")])
        with Standby(first, "second", second) as standby:
            standby.catch_up()
        assert first.forget("second")
        put(first, "t", [(2, b"b")])
        with pytest.raises(hedgerow.TooOldError, match="begin anew"):
            Standby(first, "second", second)


def test_a_standby_waits_for_commits_and_not_for_its_own_thread(
    store: Store, tmp_path: Path
) -> None:
    with Store(tmp_path / "second") as second, Standby(store, "second", second) as standby:
        standby.catch_up()
        for first in (store, second):
            with first.write(), pytest.raises(hedgerow.LockedError, match="this thread"):
                standby.step(0)
        thread = threading.Timer(0.2, put, (store, "t", [(1, b"b")]))
        thread.start()
        assert standby.step(20) is not None
        thread.join()
        standby.catch_up()
        assert content(second) == {1: b"b"}


@pytest.mark.parametrize("closes", ["first", "second"])
def test_closing_a_store_ends_the_waiting(tmp_path: Path, closes: str) -> None:
    first, second = Log(tmp_path / "first"), Log(tmp_path / "second")
    standby = Standby(first, "second", second)
    standby.catch_up()
    closing = threading.Timer(0.2, {"first": first, "second": second}[closes].close)
    closing.start()
    began = time.monotonic()
    with pytest.raises(hedgerow.ClosedError, match="the store"):
        standby.step()
    assert time.monotonic() - began < 20
    closing.join()
    standby.close()


CTRL_C = """
import hedgerow, os, signal, sys, threading, time
first, second = hedgerow.Store(sys.argv[1], durability="none"), hedgerow.Log(sys.argv[2])
standby = hedgerow.Standby(first, "second", second)
standby.catch_up()
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    standby.step()
except KeyboardInterrupt:
    print("stopped waiting")
with first.write() as txn:
    t = txn.table("t", key=int)
    t.update((n, b"") for n in range(int(sys.argv[3])))
try:
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    standby.step()
    print("too fast")
except KeyboardInterrupt:
    print("stopped working")
standby.close()
with hedgerow.Standby(first, "second", second) as standby:
    standby.catch_up()
print(sum(1 for _ in second.keyspace("t", key=int)))
"""


def test_ctrl_c_ends_a_standby_that_waits_or_works(tmp_path: Path) -> None:
    pairs = 1_000_000
    command = [sys.executable, "-c", CTRL_C, str(tmp_path / "a"), str(tmp_path / "b"), str(pairs)]
    found = subprocess.check_output(command, text=True, timeout=120)
    assert found == f"stopped waiting\nstopped working\n{pairs}\n"
