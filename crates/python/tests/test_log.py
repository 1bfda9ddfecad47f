"""The log-structured engine, opened for reading only, and calls of it that take long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hedgerow


def test_a_log_in_memory_is_backed_up(tmp_path: Path) -> None:
    with hedgerow.Log.create_in_memory(memory_limit=8 << 20) as log:
        assert str(log.path) == ":memory:" and not log.read_only
        t = log.keyspace("t", int, str)
        for n in range(20000):
            t[n] = "x" * (n % 500)
        assert len(t[499]) == 499 and t.get(20000) is None
        assert log.check() == []
        log.backup(tmp_path / "log")
    with hedgerow.Log(tmp_path / "log") as log:
        assert len(log.keyspace("t", int, str)[19999]) == 19999 % 500


def test_a_log_is_read_by_many(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with pytest.raises(hedgerow.MissingError):
        hedgerow.Log(path, read_only=True)
    with hedgerow.Log(path) as log:
        t = log.keyspace("t", int, str)
        t.update((n, f"v{n}") for n in range(1000))
        half = log.scan("t", int, str)
        half.take(500)
        token = half.token()
        half.close()
        newest = log.newest_commit
        assert not log.read_only
        with pytest.raises(hedgerow.LockedError):
            hedgerow.Log(path, read_only=True)
    with hedgerow.Log(path, read_only=True) as log, hedgerow.Log(path, read_only=True) as other:
        assert log.read_only and log.newest_commit == newest == other.newest_commit
        assert log.keyspaces() == ["t"]
        t = log.keyspace("t", int, str)
        assert t[7] == "v7" and t.get(-1) is None and 999 in t
        assert t.get_many([1, -1, 2]) == ["v1", None, "v2"]
        assert list(t.items(10, 12)) == [(10, "v10"), (11, "v11")]
        assert list(t.keys(reverse=True))[:2] == [999, 998]
        assert t.estimate() > 0
        with log.snapshot() as moment:
            assert list(moment[t].values(5, 7)) == ["v5", "v6"] and moment.id == newest
        assert len(list(log.scan("t", int, str, limit=30))) == 30
        rest = log.resume(token, int, str)
        assert next(rest) == (500, "v500")
        assert len(rest.take(1000)) == 499
        assert log.check() == [] and log.stat()["newest_commit"] == newest
        log.backup(tmp_path / "copy")
        with pytest.raises(hedgerow.NoTableError):
            log.keyspace("other")
        with pytest.raises(hedgerow.ReadOnlyError):
            t[1] = "x"
        for refused in (log.sync, log.flush, log.compact, log.batch, log.transaction):
            with pytest.raises(hedgerow.ReadOnlyError):
                refused()
        with pytest.raises(hedgerow.ReadOnlyError):
            log.sink("t")
    with pytest.raises(hedgerow.ClosedError):
        t[7]
    with hedgerow.Log(tmp_path / "copy") as log:
        assert log.keyspace("t", int, str)[7] == "v7"


def test_what_has_given_all_keeps_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = hedgerow.Log(path)
    t = log.keyspace("t", int)
    t.update((n, b"") for n in range(1000))
    whole, begun = iter(t.items()), iter(t)
    assert sum(1 for _ in whole) == 1000 and next(begun) == 0
    log.close()
    with pytest.raises(hedgerow.LockedError):
        hedgerow.Log(path)
    assert sum(1 for _ in begun) == 999
    with hedgerow.Log(path) as log:
        assert 5 in log.keyspace("t", int)
    assert next(whole, None) is None is next(begun, None)
    # The same of one that is only read.
    log = hedgerow.Log(path, read_only=True)
    pairs = log.keyspace("t", int).items()
    assert len(list(pairs)) == 1000
    log.close()
    with hedgerow.Log(path):
        assert list(pairs) == []


CTRL_C = """
import hedgerow, os, signal, sys, threading, time
log = hedgerow.Log(sys.argv[1], durability="none")
t = log.keyspace("t", int)
stopped = False
for _ in range(20):
    t.update((n, os.urandom(200)) for n in range(20_000))
    go = threading.Event()
    stop = lambda: (go.wait(), time.sleep(0.002), os.kill(os.getpid(), signal.SIGINT))
    threading.Thread(target=stop).start()
    try:
        go.set()
        log.flush()
        log.compact()
        time.sleep(10)
    except KeyboardInterrupt:
        stopped = True
        break
assert stopped
assert t[5] and log.check() == []
log.close()
print("closed")
"""


def test_ctrl_c_ends_waiting_for_a_compaction(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CTRL_C, str(tmp_path / "log")]
    assert subprocess.check_output(command, text=True, timeout=120) == "closed\n"
