"""Following a store, step by step."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import hedgerow
from hedgerow import Store


def put(store: Store, **pairs: int) -> None:
    with store.write() as txn:
        txn.table("t", str, int).update(pairs)


def changes(step: hedgerow.Step | None, table: str | None = "t") -> list[Any]:
    assert step is not None
    return list(step.changes(table, str, int))


def test_each_step_says_what_a_commit_changed(store: Store) -> None:
    put(store, a=1)
    with store.follow() as follow:
        assert follow.step(0) is None
        put(store, a=2, b=1)
        step = follow.step(5)
        assert changes(step) == [("a", 1, 2), ("b", None, 1)]
        assert step is not None and step.tables() == {"t": "changed"}
        assert step.since is not None and step.since < step.commit == follow.commit
        assert step.before is not None
        with step.before as before, step.after as after:
            assert dict(before.table("t", str, int)) == {"a": 1}
            assert after.table("t", str, int)["b"] == 1
        put(store, c=3)
        put(store, a=1)
        assert changes(next(follow)) == [("a", 2, 1), ("c", None, 3)]
        assert "Step from commit" in repr(step)
    with pytest.raises(hedgerow.ClosedError):
        follow.step(0)
    del step
    assert store.readers() == []


def test_everything_comes_first_where_it_is_asked_for(store: Store) -> None:
    put(store, a=1, b=2)
    follow = store.follow(everything=True)
    step = follow.step(5)
    assert step is not None and step.since is None and step.before is None
    assert changes(step) == [("a", None, 1), ("b", None, 2)]
    assert step.tables() == {"t": "added"}
    with pytest.raises(TypeError):
        step.changes()
    with pytest.raises(hedgerow.NoTableError):
        step.changes("none")


def test_one_table_and_some_of_its_keys(store: Store) -> None:
    put(store, a=1)
    follow = store.follow(table="t", key=str, start="b", stop="d")
    put(store, a=2, d=1)
    with store.write() as txn:
        txn.table("u")[b"b"] = b""
    assert follow.step(0.01) is None
    put(store, c=5, e=5)
    step = follow.step(5)
    assert changes(step, None) == changes(step) == [("c", None, 5)]
    assert step is not None
    with pytest.raises(hedgerow.ArgumentError):
        step.changes("u")
    with pytest.raises(TypeError):
        store.follow(start="a")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        store.follow(unknown=1)  # type: ignore[call-overload]


def test_a_name_goes_on_where_it_stopped(store: Store) -> None:
    put(store, a=1)
    first = store.follow("copy")
    assert changes(first.step(5)) == [("a", None, 1)]
    put(store, a=2)
    step = first.step(5)
    assert step is not None and changes(step) == [("a", 1, 2)]
    mark = step.mark
    first.close()
    # Not dealt with: it comes again, unless its mark says that it was.
    put(store, b=1)
    assert changes(store.follow("copy").step(5)) == [("a", 1, 2)]
    again = store.follow("copy", mark=mark)
    assert changes(again.step(5)) == [("b", None, 1)]
    again.done()
    again.close()
    assert store.follow("copy").step(0) is None
    with pytest.raises(hedgerow.ArgumentError):
        store.follow("copy", mark=b"no mark")
    with pytest.raises(hedgerow.Error):
        store.follow("copy", mark=mark)
    assert store.forget("copy") and not store.forget("copy")
    assert store.pins() == {}


def test_a_writer_wakes_who_waits(store: Store) -> None:
    put(store, a=1)
    commit = store.newest_commit
    assert not store.wait(commit, 0.01)
    thread = threading.Timer(0.1, put, (store,), {"b": 2})
    thread.start()
    began = time.monotonic()
    assert store.wait(commit, 30) and time.monotonic() - began < 10
    thread.join()
    with pytest.raises(ValueError):
        store.wait(commit, -1)


OTHER = """
import hedgerow, sys
with hedgerow.Store.open(sys.argv[1]) as store, store.write() as txn:
    txn.table("t", str, int)["other"] = 7
"""


def test_a_writer_of_another_process_too(store: Store) -> None:
    put(store, a=1)
    follow = store.follow()
    with subprocess.Popen([sys.executable, "-c", OTHER, str(store.path)]):
        assert changes(follow.step(30)) == [("other", None, 7)]


CTRL_C = """
import hedgerow, os, signal, sys, threading, time
store = hedgerow.Store.open(sys.argv[1])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    next(store.follow())
except KeyboardInterrupt:
    assert time.monotonic() - began < 10
    print("stopped")
"""


def test_ctrl_c_ends_waiting_for_a_step(store: Store) -> None:
    put(store, a=1)
    command = [sys.executable, "-c", CTRL_C, str(store.path)]
    assert subprocess.check_output(command, text=True, timeout=60) == "stopped\n"
