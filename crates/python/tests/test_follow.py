"""Following a store, step by step."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Log, Snapshot, Store, Transaction

Either = Store | Log
Moment = Transaction | Snapshot


@pytest.fixture(params=["tree", "log"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Either]:
    opened = (Store if request.param == "tree" else Log)(tmp_path / "either")
    with opened:
        yield opened


def put(store: Either, table: str = "t", **pairs: int) -> None:
    if isinstance(store, Log):
        store.keyspace(table, str, int).update(pairs)
        return
    with store.write() as txn:
        txn.table(table, str, int).update(pairs)


def content(moment: Moment) -> dict[str, int]:
    with moment:
        if isinstance(moment, Snapshot):
            return dict(moment.keyspace("t", str, int).items())
        return dict(moment.table("t", str, int))


def held(store: Either) -> int:
    return int(store.stat()["snapshots"]) if isinstance(store, Log) else len(store.readers())


def changes(step: hedgerow.Step[Any] | None, table: str | None = "t") -> list[Any]:
    assert step is not None
    return list(step.changes(table, str, int))


def test_each_step_says_what_a_commit_changed(either: Either) -> None:
    put(either, a=1)
    with either.follow() as follow:
        assert follow.step(0) is None
        put(either, a=2, b=1)
        step = follow.step(5)
        assert changes(step) == [("a", 1, 2), ("b", None, 1)]
        assert step is not None and step.tables() == {"t": "changed"}
        assert step.since is not None and step.since < step.commit == follow.commit
        assert step.before is not None
        assert content(step.before) == {"a": 1}
        assert content(step.after) == {"a": 2, "b": 1}
        put(either, c=3)
        put(either, a=1)
        assert changes(next(follow)) == [("a", 2, 1), ("c", None, 3)]
        assert "Step from commit" in repr(step)
    with pytest.raises(hedgerow.ClosedError):
        follow.step(0)
    del step
    assert held(either) == 0


def test_everything_comes_first_where_it_is_asked_for(either: Either) -> None:
    put(either, a=1, b=2)
    follow = either.follow(everything=True)
    step = follow.step(5)
    assert step is not None and step.since is None and step.before is None
    assert changes(step) == [("a", None, 1), ("b", None, 2)]
    assert step.tables() == {"t": "added"}
    with pytest.raises(TypeError):
        step.changes()
    with pytest.raises(hedgerow.NoTableError):
        step.changes("none")


def test_one_table_and_some_of_its_keys(either: Either) -> None:
    put(either, a=1)
    follow = either.follow(table="t", key=str, start="b", stop="d")
    put(either, a=2, d=1)
    put(either, "u", b=1)
    assert follow.step(0.01) is None
    put(either, c=5, e=5)
    step = follow.step(5)
    assert changes(step, None) == changes(step) == [("c", None, 5)]
    assert step is not None
    with pytest.raises(hedgerow.ArgumentError):
        step.changes("u")
    with pytest.raises(TypeError):
        either.follow(start="a")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        either.follow(unknown=1)  # type: ignore[call-overload]


def test_a_name_goes_on_where_it_stopped(either: Either) -> None:
    put(either, a=1)
    first = either.follow("copy")
    assert changes(first.step(5)) == [("a", None, 1)]
    put(either, a=2)
    step = first.step(5)
    assert step is not None and changes(step) == [("a", 1, 2)]
    mark = step.mark
    first.close()
    # Not dealt with: it comes again, unless its mark says that it was.
    put(either, b=1)
    assert changes(either.follow("copy").step(5)) == [("a", 1, 2)]
    again = either.follow("copy", mark=mark)
    assert changes(again.step(5)) == [("b", None, 1)]
    again.done()
    again.close()
    assert either.follow("copy").step(0) is None
    with pytest.raises(hedgerow.ArgumentError):
        either.follow("copy", mark=b"no mark")
    with pytest.raises(hedgerow.TooOldError, match="begin anew"):
        either.follow("copy", mark=mark)
    assert either.forget("copy") and not either.forget("copy")
    assert either.pins() == {}


def test_a_writer_wakes_who_waits(either: Either) -> None:
    put(either, a=1)
    commit = either.newest_commit
    assert not either.wait(commit, 0.01)
    thread = threading.Timer(0.1, put, (either,), {"b": 2})
    thread.start()
    began = time.monotonic()
    assert either.wait(commit, 30) and time.monotonic() - began < 10
    thread.join()
    with pytest.raises(ValueError):
        either.wait(commit, -1)


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
began = time.monotonic()
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    next(store.follow())
except KeyboardInterrupt:
    assert time.monotonic() - began < 10
    print("stopped")
"""


def test_ctrl_c_ends_waiting_for_a_step(store: Store) -> None:
    put(store, a=1)
    command = [sys.executable, "-c", CTRL_C, str(store.path)]
    assert subprocess.check_output(command, text=True, timeout=60) == "stopped\n"


def test_a_token_needs_a_name(either: Either) -> None:
    put(either, a=1)
    step = next(either.follow("copy"))
    with pytest.raises(TypeError, match="give its name"):
        either.follow(mark=step.mark)
    with pytest.raises(TypeError, match="no option .tabel."):
        either.follow(tabel="t")  # type: ignore[call-overload]


def test_a_keyspace_is_a_table(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        put(log, a=1)
        with log.follow(keyspace="t", key=str, prefix="b") as follow:
            put(log, a=2, b=1)
            assert changes(follow.step(5), None) == [("b", None, 1)]


def test_a_name_goes_on_when_the_log_is_opened_again(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        put(log, a=1)
        with log.follow("copy") as follow:
            assert changes(follow.step(5)) == [("a", None, 1)]
            follow.done()
        put(log, a=2, b=1)
    with Log(tmp_path / "log") as log:
        assert log.pins()["copy"] < log.newest_commit
        with log.follow("copy") as follow:
            assert changes(follow.step(5)) == [("a", 1, 2), ("b", None, 1)]
        assert log.forget("copy") and log.pins() == {}
    with Log(tmp_path / "log", read_only=True) as log:
        for refused in (lambda: log.follow(), lambda: log.pin("p"), lambda: log.forget("copy")):
            with pytest.raises(hedgerow.ReadOnlyError):
                refused()
        assert log.pins() == {}


def waiting(follow: hedgerow.Follow[Any]) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            follow.step()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    return thread, raised


@pytest.mark.parametrize("closes", ["follower", "store"])
def test_closing_ends_waiting(either: Either, closes: str) -> None:
    put(either, a=1)
    follow = either.follow()
    thread, raised = waiting(follow)
    assert follow.commit == either.newest_commit
    (follow if closes == "follower" else either).close()
    thread.join(30)
    assert not thread.is_alive()
    assert isinstance(raised[0], hedgerow.ClosedError) and closes in str(raised[0])
    assert ("closed" in repr(follow)) == (closes == "follower")
    follow.close()


def test_a_follower_with_a_name_does_not_wait_for_its_own_thread(store: Store) -> None:
    put(store, a=1)
    follow = store.follow("copy")
    with store.write() as txn:
        txn.table("t", str, int)["a"] = 2
        for refused in (
            follow.step, follow.done, store.compact, lambda: store.pin("p"),
            lambda: store.unpin("p"), lambda: store.forget("copy"),
        ):
            with pytest.raises(hedgerow.LockedError, match="this thread"):
                refused()
    assert changes(follow.step(5)) == [("a", None, 2)]


def test_closing_ends_waiting_for_other_writers(store: Store) -> None:
    put(store, a=1)
    follow = store.follow("copy")
    is_written, is_over = threading.Event(), threading.Event()

    def write() -> None:
        with store.write() as txn:
            txn.table("t", str, int)["b"] = 2
            is_written.set()
            is_over.wait()

    writer = threading.Thread(target=write)
    writer.start()
    is_written.wait()
    with pytest.raises(hedgerow.LockedError, match="writes to the store"):
        follow.step(0)
    assert follow.commit == 0 and store.pins() == {}
    thread, raised = waiting(follow)
    follow.close()
    thread.join(30)
    assert not thread.is_alive() and isinstance(raised[0], hedgerow.ClosedError)
    is_over.set()
    writer.join()
    assert changes(store.follow("copy").step(0)) == [("a", None, 1), ("b", None, 2)]


def test_a_child_leaves_it_alone(either: Either) -> None:
    put(either, a=1)
    follow = either.follow()
    put(either, a=2, b=2)
    step = next(follow)
    found = step.changes("t", str, int)
    child = os.fork()
    if child == 0:
        status = 0
        for refused in (follow.step, follow.close, step.tables, lambda: next(found)):
            try:
                refused()
                status = 1
            except hedgerow.LockedError:
                pass
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert list(found) == [("a", 1, 2), ("b", None, 2)]


def test_the_changes_of_a_table_of_either(either: Either) -> None:
    put(either, a=1)
    is_over = threading.Event()
    feed: Iterator[Any] = hedgerow.follow(either, "t", str, int, until=is_over.is_set)
    writer = threading.Timer(0.1, put, (either,), {"a": 2})
    writer.start()
    assert next(feed) == ("a", 1, 2)
    writer.join()
    put(either, c=3)
    is_over.set()
    assert list(feed) == [("c", None, 3)]
    assert held(either) == 0


def test_a_pinned_moment_of_a_log(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        put(log, a=1, b=1)
        put(log, "gone", x=1)
        newest = log.newest_commit
        assert log.pin("before") == newest and log.pins() == {"before": newest}
        with pytest.raises(hedgerow.ArgumentError, match="of that name"):
            log.pin("before")
        put(log, a=2, c=1)
        log.drop("gone")
        put(log, "new", y=1)
    with Log(tmp_path / "log") as log:
        with log.snapshot("before") as old, log.snapshot() as new:
            assert old.keyspaces() == ["gone", "t"] and new.keyspaces() == ["new", "t"]
            assert "gone" in old and "gone" not in new and old["gone"][b"x"]
            assert list(new.diff(old, "t", str, int)) == [("a", 1, 2), ("c", None, 1)]
            assert list(new.diff(old, "t", str, int, stop="b")) == [("a", 1, 2)]
            assert list(new.diff(old, "gone", str, int)) == [("x", 1, None)]
            assert new.changed_keyspaces(old) == {"gone": "removed", "new": "added", "t": "changed"}
            with pytest.raises(hedgerow.ArgumentError, match="later"):
                old.diff(new, "t")
            with pytest.raises(hedgerow.NoTableError):
                new.keyspace("gone")
            assert str(old.id) in repr(old)
        assert "closed" in repr(old)
        assert log.unpin("before") and not log.unpin("before")
        with pytest.raises(hedgerow.ArgumentError, match="no pin 'before'"):
            log.snapshot("before")


def test_changes_of_many_keys_come_in_parts(tmp_path: Path) -> None:
    with Log(tmp_path / "log", durability="none") as log:
        t = log.keyspace("t", int, int)
        old = log.snapshot()
        t.update((n, n) for n in range(1000))
        found = log.snapshot().diff(old, "t", int, int)
        log.close()
        assert list(found) == [(n, None, n) for n in range(1000)]
