"""Streams, tokens, sinks, differences and following."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Log, Store


@pytest.fixture(params=["tree", "log"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kind: Any = Store if request.param == "tree" else Log
    with kind(tmp_path / "any") as opened:
        yield opened


def test_a_stream_tells_where_it_is(any_store: Any) -> None:
    with any_store.sink("t", key=int, value=str) as sink:
        sink.update((n, str(n)) for n in range(1000))
    everything = [(n, str(n)) for n in range(1000)]
    assert list(any_store.scan("t", int, str)) == everything
    part = any_store.scan("t", int, str, start=10, stop=990, skip=5, limit=7, reverse=True)
    assert list(part) == everything[978:984 + 1][::-1]
    stream = any_store.scan("t", key=int, value=str, start=100, reverse=True)
    taken = list(itertools.islice(stream, 10)) + stream.take(90)
    token = stream.token()
    assert stream.given == 100 and len(token) > 30
    rest = any_store.resume(token, int, str)
    taken += rest.take(100_000)
    assert taken == everything[:99:-1]
    assert rest.take(1) == [] and next(rest, None) is None
    stream.park()
    assert stream.parked
    assert next(stream) == everything[899]
    stream.close()
    assert list(stream) == []
    with pytest.raises(hedgerow.ArgumentError):
        any_store.resume(b"no token")
    with pytest.raises(TypeError):
        any_store.scan("t", unknown=1)
    with pytest.raises(hedgerow.NoTableError):
        any_store.scan("other")


OTHER = """
import hedgerow, sys
store = hedgerow.Store.open(sys.argv[1])
print(sum(1 for _ in store.resume(bytes.fromhex(sys.argv[2]))))
"""


def test_another_process_goes_on(store: Store) -> None:
    with store.write() as txn:
        txn.table("t").update((b"%03d" % n, b"") for n in range(500))
    stream = store.scan("t")
    stream.take(123)
    command = [sys.executable, "-c", OTHER, str(store.path), stream.token().hex()]
    assert subprocess.check_output(command, text=True, timeout=60) == "377\n"


def test_streams_renew_their_snapshot(store: Store) -> None:
    with store.write() as txn:
        txn.table("t", key=int).update((n, b"") for n in range(100))
    fixed, renewed = store.scan("t", int), store.scan("t", int, renew_pairs=10)
    parked = store.scan("t", int, park_after=0.05)
    assert fixed.take(10) == renewed.take(10) == parked.take(10)
    before = fixed.commit
    with store.write() as txn:
        t = txn.table("t", key=int)
        del t[50:]
        t[1000] = b""
    end = time.monotonic() + 60
    while not parked.parked or len(store.readers()) != 2:
        assert time.monotonic() < end, (parked.parked, store.readers())
        time.sleep(0.01)
    assert [key for key, _ in fixed] == list(range(10, 100))
    assert [key for key, _ in renewed] == [*range(10, 50), 1000]
    assert [key for key, _ in parked] == [*range(10, 50), 1000]
    assert renewed.commit > before and fixed.commit == before


def test_sinks_commit_from_time_to_time(any_store: Any) -> None:
    with any_store.sink("t", int, str, pairs=10, mode="new", on_reject="ignore") as sink:
        for n in [*range(25), *range(5)]:
            assert sink.put(n, "x") == (sink.report["rejected"] == 0 and n < 25) or n < 5
        assert sink.report["commits"] == 2
    assert sink.report == {"pairs": 25, "rejected": 5, "commits": 3, "last": (24, "x")}
    with pytest.raises(hedgerow.ClosedError):
        sink.put(1, "x")
    with pytest.raises(RuntimeError):
        with any_store.sink("t", int, str, pairs=10) as sink:
            sink.update((n, "y") for n in range(100, 115))
            raise RuntimeError
    assert sink.report["pairs"] == 10
    assert sum(1 for _ in any_store.scan("t", int, str)) == 35
    with pytest.raises(hedgerow.ArgumentError):
        with any_store.sink("t", int, str, mode="new") as sink:
            sink.put(3, "z")
    with pytest.raises(ValueError):
        any_store.sink("t", mode="sideways")


def test_sinks_make_tables_with_their_types(store: Store) -> None:
    with store.sink("t", str, int, duplicates=True) as sink:
        sink.update([("a", 1), ("a", 2), ("a", 1)])
    with store.read() as txn:
        assert txn.table("t", str, int, duplicates=True).values_of("a") == [1, 2]
    with pytest.raises(hedgerow.TableError):
        store.sink("t", int, int, duplicates=True)


def test_differences_are_those_of_two_dicts(store: Store) -> None:
    draw = random.Random(5)
    model: dict[int, int] = {n: 0 for n in range(0, 5000, 2)}
    with store.write() as txn:
        txn.table("t", key=int, value=int).update(model)
        txn.table("u")
    for _ in range(5):
        old, before = store.read(), dict(model)
        with store.write() as txn:
            t = txn.table("t", key=int, value=int)
            for _ in range(700):
                key = draw.randrange(5000)
                if draw.random() < 0.4:
                    t.pop(key, None)
                    model.pop(key, None)
                else:
                    t[key] = model[key] = draw.randrange(3)
        new = store.read()
        keys = sorted(before.keys() | model.keys())
        wanted = [(k, before.get(k), model.get(k)) for k in keys if before.get(k) != model.get(k)]
        assert list(new.diff(old, "t", int, int)) == wanted
        part = [change for change in wanted if 1000 <= change[0] < 3000]
        assert list(new.diff(old, "t", int, int, start=1000, stop=3000)) == part
        assert new.changed_tables(old) == {"t": "changed"}
        with pytest.raises(hedgerow.ArgumentError):
            list(old.diff(new, "t"))
        old.abort()
        new.abort()


def test_differences_of_duplicates(store: Store) -> None:
    with store.write() as txn:
        txn.table("t", int, int, duplicates=True).update((1, n) for n in range(1000))
    old = store.read()
    with store.write() as txn:
        t = txn.table("t", int, int, duplicates=True)
        del t[1]
        t.update((1, n) for n in range(500, 1500))
        t.add(2, 7)
        txn.table("new")[b"a"] = b"1"
    with store.read() as new:
        changes = list(new.diff(old, "t", int, int))
        assert changes == [
            *((1, n, None) for n in range(500)),
            *((1, None, n) for n in range(1000, 1500)),
            (2, None, 7),
        ]
        assert list(new.diff(old, "new")) == [(b"a", None, b"1")]
        assert new.changed_tables(old) == {"new": "added", "t": "changed"}
        with pytest.raises(hedgerow.NoTableError):
            new.diff(old, "none")


def test_following_tells_every_change(store: Store) -> None:
    done = threading.Event()
    since = store.read()

    def write() -> None:
        for n in range(50):
            with store.write(durability="none") as txn:
                txn.table("t", int, int)[n % 7] = n
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen: dict[int, int] = {}
    for key, before, after in hedgerow.follow(
        store, "t", int, int, since=since, interval=0.001, until=done.is_set
    ):
        assert seen.get(key) == before
        seen[key] = after
    thread.join()
    assert seen == {n % 7: n for n in range(43, 50)}
    assert store.readers() == []
