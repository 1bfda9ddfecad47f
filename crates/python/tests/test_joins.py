"""Joins of streams, moves between tables, and second stores that keep up."""

from __future__ import annotations

import heapq
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
from hedgerow import Log, Store, difference, intersection, union


def test_joins_are_those_of_sets(store: Store, tmp_path: Path) -> None:
    draw = random.Random(5)
    with Log(tmp_path / "log") as log, Store(tmp_path / "other") as other:
        held: list[dict[int, str]] = []
        places: list[Any] = [store, log, other]
        for n, place in enumerate(places):
            held.append({draw.randrange(600): f"{n}/{m}" for m in range(400)})
            with place.sink("t", key=int, value=str) as sink:
                sink.update(held[-1])

        def streams(**options: Any) -> list[Any]:
            return [place.scan("t", int, str, **options) for place in places]

        def rows(keys: set[int]) -> list[Any]:
            return [(key, tuple(pairs.get(key) for pairs in held)) for key in sorted(keys)]

        a, b, c = (set(pairs) for pairs in held)
        assert list(union(*streams())) == rows(a | b | c)
        assert list(intersection(*streams())) == rows(a & b & c)
        assert [key for key, _ in difference(*streams())] == sorted(a - b - c)
        few = {key for key in a | b | c if 100 <= key < 200}
        assert list(union(*streams(start=100, stop=200))) == rows(few)
        alone = [(key, (value,)) for key, value in sorted(held[0].items())]
        assert list(union(store.scan("t", int, str))) == alone
        merged = list(heapq.merge(*streams()))
        assert merged == sorted(itertools.chain(*(pairs.items() for pairs in held)))
        one = union(*streams())
        assert next(one)[0] == min(a | b | c)
        one.close()
        assert list(one) == []


def test_what_cannot_be_joined(store: Store) -> None:
    with store.write() as txn:
        txn.table("t", key=int, value=str)[1] = "a"
        txn.table("u", key=str)["a"] = b""
        txn.table("r", order="reverse")[b"a"] = b""
    begun = store.scan("t", int, str)
    assert next(begun) == (1, "a")
    with pytest.raises(hedgerow.ArgumentError, match="begun"):
        union(begun)
    with pytest.raises(hedgerow.ArgumentError):
        union()
    with pytest.raises(hedgerow.ArgumentError):
        union(store.scan("t", int, str, reverse=True))
    with pytest.raises(hedgerow.ArgumentError):
        union(store.scan("t", int, str, limit=1))
    with pytest.raises(hedgerow.TableError):
        wrong: Any = store.scan("u", str, bytes)
        intersection(store.scan("t", int, str), wrong)
    with pytest.raises(hedgerow.TableError, match="bytewise"):
        union(store.scan("r"))
    with pytest.raises(ValueError):
        hedgerow.Join("sum", [store.scan("t")])
    with pytest.raises(TypeError):
        union(5)  # type: ignore[arg-type]


def test_pairs_move_between_tables(store: Store) -> None:
    with store.write() as txn:
        queue, done = txn.table("queue", key=int), txn.table("done", key=int)
        queue.update((n, b"%d" % n) for n in range(1000))
        done[7] = b"old"
        assert queue.move_to(done, 5, 10) == 5
        assert len(queue) == 995 and dict(done.items()) == {n: b"%d" % n for n in range(5, 10)}
        assert queue.move_to(done) == 995 and len(queue) == 0 and len(done) == 1000
        texts = txn.table("texts", key=str)
        texts.update((f"{kind}/{n}", b"") for kind in "ab" for n in range(10))
        assert texts.move_to(txn.table("a", key=str), prefix="a/") == 10
        assert list(txn.table("a", key=str)) == [f"a/{n}" for n in range(10)] and len(texts) == 10
        with pytest.raises(hedgerow.TableError):
            texts.move_to(done)  # type: ignore[arg-type]
        with pytest.raises(hedgerow.ArgumentError):
            texts.move_to(texts)
        many = txn.table("many", key=int, duplicates=True)
        many.add(7, b"another")
        assert done.move_to(many, 7, 8) == 1 and many.values_of(7) == [b"7", b"another"]
    with store.read() as txn:
        with pytest.raises(hedgerow.ReadOnlyError):
            txn.table("done", key=int).move_to(txn.table("queue", key=int))
        with store.write() as other, pytest.raises(hedgerow.ArgumentError):
            other.table("done", key=int).move_to(txn.table("queue", key=int))
    assert store.check() == []


def test_streams_and_sinks_refuse_the_order_of_a_function(store: Store) -> None:
    with store.write() as txn:
        table = txn.table("t", key=str, order=("length", len))
        table.update((word, b"") for word in ("pear", "fig", "banana"))
        txn.table("r", order="reverse").update([(b"ba", b""), (b"ab", b"")])
    with pytest.raises(hedgerow.TableError, match="order of a function"):
        store.scan("t", str)
    with pytest.raises(hedgerow.TableError, match="order of a function"):
        store.sink("t", str)
    assert list(store.scan("r")) == [(b"ba", b""), (b"ab", b"")]
    with store.sink("r") as sink:
        sink.put(b"aa", b"")
    stream = store.scan("r")
    assert [key for key, _ in stream.take(2)] == [b"aa", b"ba"]
    assert list(store.resume(stream.token())) == [(b"ab", b"")]


def test_a_log_that_is_only_read_says_how_to_get_a_token(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.keyspace("t").update([(b"a", b"1"), (b"b", b"2")])
    with Log(tmp_path / "log", read_only=True) as log:
        stream = log.scan("t")
        assert next(stream) == (b"a", b"1")
        with pytest.raises(hedgerow.ArgumentError, match="open for writing"):
            stream.token()
        assert next(stream) == (b"b", b"2")
        stream.close()
    with Log(tmp_path / "log") as log:
        assert len(log.scan("t").token()) > 20
    with Log(tmp_path / "log", read_only=True) as log:
        stream = log.scan("t")
        next(stream)
        assert list(log.resume(stream.token())) == [(b"b", b"2")]
