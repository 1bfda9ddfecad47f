"""What a user tries first: what objects show of themselves, what errors say, what Ctrl-C does."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Log, Store


def test_everything_says_what_it_is(tmp_path: Path) -> None:
    store, log = Store(tmp_path / "store"), Log(tmp_path / "log")
    with store.write() as txn:
        txn.table("t", int, str).update((n, str(n)) for n in range(30))
        savepoint = txn.savepoint()
        assert "Savepoint in a write transaction" in repr(savepoint)
        savepoint.release()
        assert "released" in repr(savepoint)
    keyspace = log.keyspace("k", int, str)
    stream = store.scan("t", int, str)
    next(stream)
    assert 'Stream of "t", 1 given, at commit' in repr(stream)
    sink = log.sink("k", int, str)
    sink.put(1, "a")
    sink.close()
    assert repr(sink) == "<hedgerow.Sink, 1 pairs committed, closed>"
    batch = log.batch()
    batch[keyspace][2] = "b"
    assert repr(batch) == "<hedgerow.Batch of 1 writes>"
    batch.commit()
    sql = store.connect()
    assert repr(sql) == f"<hedgerow.Sql of {store.path}>"
    join = hedgerow.union(store.scan("t", int, str), log.scan("k", int, str))
    assert repr(join) == "<hedgerow.Join of 2 streams>"
    txn_log = log.transaction()
    closing: list[Any] = [stream, sql, join, txn_log]
    stream.close()
    sql.close()
    join.close()
    txn_log.abort()
    for closed in [*closing, batch]:
        assert repr(closed).endswith("closed>"), closed
    with store.read() as old, store.read() as new:
        assert "Changes" in repr(new.diff(old, "t"))
    log.close()
    store.close()


def test_what_a_notebook_shows(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store, Log(tmp_path / "log") as log:
        with store.write() as txn:
            t = txn.table("<t>", int, str)
            t.update((n, f"<{n}>") for n in range(30))
            shown = t.items(5)._repr_html_()
            assert "25 items" in shown and "&lt;5&gt;" in shown and "&lt;29&gt;" in shown
            assert "&lt;20&gt;" not in shown
            assert "<th>key</th></tr>" in t.keys()._repr_html_()
            assert "&lt;t&gt;" in txn._repr_html_() and "<td>30</td>" in txn._repr_html_()
        k = log.keyspace("<k>", int, str)
        k.update((n, f"<{n}>") for n in range(30))
        assert "&lt;9&gt;" in k._repr_html_() and "&lt;10&gt;" not in k._repr_html_()
        assert "&lt;k&gt;" in log._repr_html_() and "<td>30</td>" in log._repr_html_()
        shown = store.sql("select '<' as a, 7 as \"<b>\"")._repr_html_()
        assert "1 rows" in shown and "<th>&lt;b&gt;</th>" in shown and "&lt;" in shown


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    store, log = Store(tmp_path / "store"), Log(tmp_path / "log")
    with store.write() as txn:
        t = txn.table("t", int, str)
        t[1] = "one"
    k = log.keyspace("k", int, str)
    txn = store.read()
    t = txn.table("t", int, str)
    refused: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (TypeError, "an int, not a str", lambda: t["x"]),  # type: ignore[call-overload]
        (TypeError, "a str, not an int", lambda: k.update({1: 2})),  # type: ignore[arg-type]
        (TypeError, "str or bytes for a name", lambda: txn.table(5)),  # type: ignore[call-overload]
        (hedgerow.ReadOnlyError, "Store.write begins", lambda: t.update({2: "b"})),
        (hedgerow.TableError, "other types", lambda: store.scan("t", str, str)),
        (hedgerow.TableError, "other types", lambda: txn.diff(store.read(), "t", str, str)),
        (ValueError, "another type", lambda: list(log.scan("k", str, str))),
        (ValueError, "max_size=-1", lambda: Store(tmp_path / "new", max_size=-1)),
        (ValueError, "memory_limit=-1", lambda: Log(tmp_path / "new", memory_limit=-1)),
        (TypeError, "no option \"limits\"", lambda: store.scan("t", limits=1)),
        (TypeError, "it has pairs, bytes", lambda: log.sink("k", pair=1)),
        (TypeError, "it has read_only",
         lambda: Store(tmp_path / "s", readonly=True)),  # type: ignore[call-arg]
        (hedgerow.DamagedError, "is a file", lambda: Log(store.path)),
        (hedgerow.DamagedError, "is a file", lambda: Log(store.path, read_only=True)),
        (hedgerow.ArgumentError, "no pin 'p'", lambda: store.read("p")),
        (hedgerow.NoTableError, "\"none\"", lambda: log.batch()["none"]),
    ]
    k[1] = "\xff"
    log.keyspace("k")[b"\xff"] = b""
    for kind, message, call in refused:
        with pytest.raises(kind, match=message):
            call()
    txn.abort()
    log.close()
    store.close()


def test_positions_from_the_end(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t", int, str)
        t.update((n, str(n)) for n in range(10))
        assert t.nth(-1) == (9, "9") and t.nth(-10) == t.nth(0) == (0, "0")
        for out in (10, -11):
            with pytest.raises(IndexError):
                t.nth(out)


def test_a_keyspace_is_a_mapping(tmp_path: Path) -> None:
    with Log(tmp_path / "log", durability="none") as log:
        k = log.keyspace("k", int, str)
        k.update((n, str(n)) for n in range(10))
        assert "k" in log and "x" not in log
        assert list(k[3:5]) == [(3, "3"), (4, "4")] and list(reversed(k))[:2] == [9, 8]
        assert k.pop(3) == "3" and k.pop(3, None) is None
        with pytest.raises(KeyError):
            k.pop(3)
        with pytest.raises(TypeError):
            k[1:5:2]
        assert k.setdefault(3, "new") == "new" and k.setdefault(3, "newer") == "new"
        with log.transaction() as txn:
            assert txn[k].pop(4) == "4" and txn["k"].get(b"") is None
            assert k[4] == "4"
        assert 4 not in k
        with log.snapshot() as moment:
            with pytest.raises(hedgerow.ReadOnlyError):
                moment[k].pop(5)
            with log.batch() as batch:
                batch[k].clear()
                with pytest.raises(TypeError):
                    batch[k].pop(5)
            assert list(k) == [] and len(list(moment[k])) == 9


def test_what_cannot_be_decoded_is_not_taken(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store, store.write() as txn:
        txn.table("t")[b"a"] = b"{cut"
        t = txn.table("t", value=json)
        with pytest.raises(json.JSONDecodeError):
            t.pop(b"a")
        with pytest.raises(json.JSONDecodeError):
            t.popitem()
        assert len(t) == 1
    with Log(tmp_path / "l") as log:
        log.keyspace("k")[b"a"] = b"{cut"
        with pytest.raises(json.JSONDecodeError):
            log.keyspace("k", value=json).pop(b"a")
        assert log.keyspace("k")[b"a"] == b"{cut"


def test_pops_of_many_threads_take_each_key_once(tmp_path: Path) -> None:
    with Log(tmp_path / "log", durability="none") as log:
        k = log.keyspace("k", int, int)
        k.update((n, n) for n in range(500))
        taken: list[list[int]] = [[] for _ in range(4)]

        def take(mine: list[int]) -> None:
            for n in range(500):
                found = k.pop(n, -1)
                if found >= 0:
                    mine.append(found)

        threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(sum(taken, [])) == list(range(500))


LOOPS = """
import collections, hedgerow, os, signal, sys, threading
from itertools import chain, repeat, starmap
store, log = hedgerow.Store(sys.argv[1], durability="none"), hedgerow.Log(sys.argv[2])
empty = log.snapshot()
with store.write() as txn:
    txn.table("t", key=int).update((n, b"") for n in range(5_000))
log.keyspace("t", key=int).update((n, b"") for n in range(5_000))
txn, writer, moment = store.read(), store.write(), log.snapshot()
calls = {
    "items": txn.table("t", key=int).items, "bytes": txn["t"].items, "keys": txn["t"].keys,
    "log": log.keyspace("t", key=int).items, "live": writer.table("t", key=int).items,
    "stream": (store.scan, "t", int), "changes": (moment.diff, empty, "t", int),
}
for name, call in calls.items():
    call, *arguments = call if isinstance(call, tuple) else (call,)
    # A loop of Python's own without an end, which looks for signals nowhere.
    loop = chain.from_iterable(starmap(call, repeat(arguments)))
    try:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        collections.deque(loop, 0)
    except KeyboardInterrupt:
        print(name)
"""


def test_loops_of_pythons_own_end_at_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOOPS, str(tmp_path / "store"), str(tmp_path / "log")]
    found = subprocess.check_output(command, text=True, timeout=60)
    assert found.split() == ["items", "bytes", "keys", "log", "live", "stream", "changes"]


CTRL_C = """
import hedgerow, os, signal, sys, threading, time
store = hedgerow.Store(sys.argv[1], durability="none")
with store.sink("a", key=int) as sink:
    sink.update((n, b"") for n in range(400_000))
with store.sink("b", key=int) as sink:
    sink.update((n, b"") for n in range(400_000))
# One call, which finds nothing for as long as this takes, which is 20 times too long to be waited
# for.
join = hedgerow.difference(store.scan("a", int), *[store.scan("b", int) for _ in range(400)])
began = time.monotonic()
try:
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    next(join)
except KeyboardInterrupt:
    print("stopped", time.monotonic() - began < 5)
"""


def test_ctrl_c_ends_a_join_that_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CTRL_C, str(tmp_path / "store")]
    assert subprocess.check_output(command, text=True, timeout=120) == "stopped True\n"


def test_who_else_writes(store: Store) -> None:
    held: list[hedgerow.Transaction] = []
    thread = threading.Thread(target=lambda: held.append(store.write()))
    thread.start()
    thread.join()
    with pytest.raises(hedgerow.LockedError, match="a thread of this process"):
        store.write(timeout=0.01)
    held[0].abort()
    child = "import hedgerow, sys; txn = hedgerow.Store(sys.argv[1]).write(); print(); input()"
    command = [sys.executable, "-c", child, str(store.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(hedgerow.LockedError, match=f"process {other.pid}:"):
            store.write(timeout=0.01)
        with pytest.raises(hedgerow.LockedError, match=f"process {other.pid}:"):
            with store.connect(timeout=0.01) as sql:
                sql.execute("create table t (n)")
        other.communicate("\n")


def test_what_is_in_a_view_is_looked_up(tmp_path: Path) -> None:
    decoded = []

    class Counting:
        def dumps(self, value: Any) -> str:
            return json.dumps(value)

        def loads(self, text: bytes) -> Any:
            decoded.append(text)
            return json.loads(text)

    with Store(tmp_path / "store") as store:
        with store.write() as txn:
            txn.table("t", int, Counting()).update((n, [n]) for n in range(1000))
            d = txn.table("d", str, int, duplicates=True)
            d.update((key, n) for key in "abc" for n in range(100))
            r = txn.table("r", value=str, order="reverse")
            r.update({b"az": "1", b"by": "2", b"cx": "3"})
            assert b"by" in r.keys() and (b"by", "2") in r.items() and b"q" not in r.keys()
            assert b"by" in r.keys(b"cx", b"az") and b"az" not in r.keys(b"cx", b"az")
        with store.read() as txn:
            t = txn.table("t", int, Counting())
            keys, items = t.keys(), t.items()
            assert 500 in keys and 1000 not in keys and (500, [500]) in items
            assert (500, [501]) not in items and (1000, [1000]) not in items
            assert 500 not in t.keys(501) and 500 in t.keys(500, 501) and 500 not in t.keys(0, 500)
            assert len(decoded) == 2, "found by key"
            # What only a walk finds is found, too.
            assert 500.0 in keys and "500" not in keys and [500, [500]] not in items
            assert 500 in keys[400:600] and 500 not in keys[:500] and [7] in t.values()
            assert keys[10] == 10
            for place in (1000, -1001, 10**30, -(10**30)):
                with pytest.raises(IndexError):
                    items[place]
            d = txn.table("d", str, int, duplicates=True)
            assert ("b", 99) in d.items() and ("b", 100) not in d.items() and "c" in d.keys()
    with pytest.raises(hedgerow.ClosedError):
        500 in keys


def test_what_refers_to_its_table_is_collected(tmp_path: Path) -> None:
    class Model:
        """Writes its own values, and so is referred to by its tables."""

        def __init__(self, txn: hedgerow.Transaction, log: Log) -> None:
            self.table = txn.table("t", str, self)
            self.items = self.table.items()
            self.keyspace = log.keyspace("k", str, self)

        def dumps(self, value: Any) -> str:
            return json.dumps(value)

        def loads(self, text: bytes) -> Any:
            return json.loads(text)

    with Store(tmp_path / "store") as store, Log(tmp_path / "log") as log, store.write() as txn:
        model = Model(txn, log)
        model.table["a"] = model.keyspace["a"] = [1]
        gc.collect()
        assert model.table["a"] == model.keyspace["a"] == [1]
        assert list(model.items) == [("a", [1])]
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None


LEAVING = """
import hedgerow, os, sys
folder = sys.argv[1]
store, other = hedgerow.Store(folder + "/store"), hedgerow.Store(folder + "/other")
log = hedgerow.Log(folder + "/log")
log.keyspace("k")[b"a"] = b"1"
held = log.snapshot()

def statements():
    yield store.write()
    yield store.read()
    yield store.follow("f")
    yield store.sink("s")
    yield store.connect()
    yield log.transaction()
    yield log.batch()
    yield log.snapshot()
    yield log.follow("f")
    yield log.sink("s")
    yield hedgerow.Standby(store, "s", other)
    yield log
    yield store

def leave():
    child = os.fork()
    if child == 0:
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

with store.write() as txn:
    txn.table("t")
    with txn.savepoint():
        print("a savepoint", leave())
for statement in statements():
    with statement:
        print(type(statement).__name__, leave())
"""


def test_a_child_of_a_fork_leaves_with_its_own_exception(tmp_path: Path) -> None:
    """The ends of the `with` statements that it is in do not put another one in its place."""
    command = [sys.executable, "-W", "ignore", "-c", LEAVING, str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stderr) == (0, "")
    said = out.stdout.splitlines()
    assert len(said) == 14 and all(line.endswith(" 7") for line in said), said
