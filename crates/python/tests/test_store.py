"""Stores, transactions and tables, call by call."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from array import array
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Store


def test_a_store_is_opened_made_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with pytest.raises(hedgerow.MissingError) as missing:
        Store.open(path)
    assert missing.value.path == str(path)
    assert isinstance(missing.value, FileNotFoundError)
    with Store.create(path, page_size=8192) as store:
        assert store.stat()["page_size"] == 8192
        assert str(store.path) in repr(store)
        with pytest.raises(hedgerow.ExistsError):
            Store.create(path)
    assert store.closed and "closed" in repr(store)
    with pytest.raises(hedgerow.ClosedError):
        store.read()
    with Store.open(path, read_only=True) as store:
        with pytest.raises(hedgerow.ReadOnlyError):
            store.write()
    with pytest.raises(TypeError, match="no option"):
        Store(path, size=1)  # type: ignore[call-arg]
    (tmp_path / "text").write_text("not a store at all\n" * 1000)
    with pytest.raises(hedgerow.DamagedError) as damaged:
        Store.open(tmp_path / "text")
    assert damaged.value.path == str(tmp_path / "text")


def test_a_store_in_memory_is_copied_into_a_file(tmp_path: Path) -> None:
    with Store.create_in_memory(max_size=16 << 20) as store, Store.create_in_memory() as other:
        with store.write() as txn:
            txn.table("t", int, str).update((n, str(n)) for n in range(10000))
        assert "t" not in other.read()
        assert str(store.path) == ":memory:" and not Path(":memory:").exists()
        with store.read() as txn:
            assert txn.table("t", int, str)[77] == "77"
        assert len(list(store.scan("t", int, str))) == 10000
        with pytest.raises(ValueError, match="copy"):
            store.sql("select 1")
        with pytest.raises(hedgerow.FullError):
            with store.write() as txn:
                txn.table("t", int, str)[-1] = "x" * (20 << 20)
        store.copy(tmp_path / "store")
    with Store.open(tmp_path / "store") as store, store.read() as txn:
        assert len(txn.table("t", int, str)) == 10000


def test_damage_names_the_page(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path) as store, store.write() as txn:
        txn.table("t").update((b"%05d" % n, b"x" * 50) for n in range(1000))
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 + 2000] ^= 255
    path.write_bytes(data)
    with Store(path) as store:
        with pytest.raises(hedgerow.DamagedError) as damaged:
            with store.read() as txn:
                list(txn["t"].items())
        assert damaged.value.page is not None and damaged.value.page >= 3
        assert store.check()


def test_a_transaction_commits_or_leaves_no_trace(store: Store) -> None:
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"
    with pytest.raises(RuntimeError):
        with store.write() as txn:
            txn["t"][b"a"] = b"2"
            raise RuntimeError
    txn = store.write()
    txn["t"][b"a"] = b"3"
    txn.abort()
    txn.abort()
    with pytest.raises(hedgerow.ClosedError):
        txn.commit()
    with store.read() as txn:
        assert txn["t"][b"a"] == b"1"
        assert not txn.is_writer
        with pytest.raises(hedgerow.ReadOnlyError):
            txn["t"][b"a"] = b"4"
    assert "closed" in repr(txn)


def test_a_reader_sees_one_moment(store: Store) -> None:
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"
    before = store.read()
    with store.write() as txn:
        txn["t"][b"a"] = b"2"
    with store.read() as after:
        assert (before["t"][b"a"], after["t"][b"a"]) == (b"1", b"2")
        assert before.id < after.id
    assert len(store.readers()) == 1
    assert store.readers()[0][0] == os.getpid()
    before.abort()
    assert store.readers() == []


def test_tables_have_names(store: Store) -> None:
    with store.write() as txn:
        for name in ("b", "a", b"\xff"):
            txn.table(name)
        assert list(txn) == txn.tables() == ["a", "b", b"\xff"]
        assert len(txn) == 3 and "a" in txn and "c" not in txn
        txn.rename("a", "c")
        with pytest.raises(hedgerow.TableError):
            txn.rename("b", "c")
        del txn["b"]
        with pytest.raises(KeyError):
            del txn["b"]
        with pytest.raises(KeyError) as missing:
            txn["a"]
        assert isinstance(missing.value, hedgerow.NoTableError)
        assert str(missing.value) == 'there is no table "a"'
    with store.read() as txn:
        with pytest.raises(hedgerow.NoTableError):
            txn.table("new")


def test_a_table_is_a_mapping(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t")
        t[b"a"] = b"1"
        t[bytearray(b"b")] = memoryview(b"2")  # type: ignore[index, assignment]
        t.update({b"c": b"3", b"d": b"4"})
        t.update([(b"e", b"5")])
        assert len(t) == 5 and b"a" in t and b"z" not in t
        assert t[b"b"] == b"2" and t.get(b"z") is None and t.get(b"z", 7) == 7
        with pytest.raises(KeyError) as missing:
            t[b"z"]
        assert missing.value.args == (b"z",)
        with pytest.raises(KeyError):
            del t[b"z"]
        assert t.setdefault(b"a", b"9") == b"1"
        assert t.setdefault(b"f", b"9") == b"9"
        assert t.pop(b"f") == b"9" and t.pop(b"f", None) is None
        with pytest.raises(KeyError):
            t.pop(b"f")
        assert t.popitem() == (b"e", b"5") and t.popitem(last=False) == (b"a", b"1")
        assert dict(t.items()) == dict(t[:]) == {b"b": b"2", b"c": b"3", b"d": b"4"}
        assert t.get_many([b"b", b"z", b"d"], b"-") == [b"2", b"-", b"4"]
        del t[b"c":b"d"]
        assert list(t) == [b"b", b"d"] and list(reversed(t)) == [b"d", b"b"]
        t.clear()
        assert not t and len(t) == 0
        with pytest.raises(KeyError):
            t.popitem()
        with pytest.raises(TypeError):
            t["text"] = b""  # type: ignore[index]
        with pytest.raises(hedgerow.ArgumentError):
            t[b"k" * 2_000_000] = b""


@pytest.mark.parametrize("writes", [False, True])
def test_ranges_are_sequences(store: Store, writes: bool) -> None:
    with store.write() as txn:
        txn.table("n", key=int, value=str).update((n, str(n)) for n in range(1000))
    with store.write() if writes else store.read() as txn:
        t = txn.table("n", key=int, value=str)
        everything = [(n, str(n)) for n in range(1000)]
        assert list(t.items()) == everything == list(t[:])
        assert list(t.items(reverse=True)) == everything[::-1]
        assert list(t.keys(100, 200)) == list(range(100, 200))
        assert list(t.values(990)) == [str(n) for n in range(990, 1000)]
        assert list(t[10:13]) == everything[10:13]
        for reverse in (False, True):
            view = t.items(100, 300, reverse=reverse)
            plain = everything[100:300][:: -1 if reverse else 1]
            assert len(view) == 200
            for i in (0, 5, 199, -1, -200):
                assert view[i] == plain[i]
            for i in (200, -201):
                with pytest.raises(IndexError):
                    view[i]
            for part in (slice(10, 20), slice(-5, None), slice(None, None, -1), slice(9, 3, -1),
                         slice(50, 10), slice(190, 500)):
                assert list(view[part]) == plain[part]
                assert list(view[part][1:3]) == plain[part][1:3]
                assert list(reversed(view[part])) == plain[part][::-1]
            with pytest.raises(ValueError):
                view[::2]
        assert t.at[500] == (500, "500") and list(t.at[998:]) == everything[998:]
        assert t.count() == 1000 and t.count(10, 20) == 10 and t.count(995) == 5
        assert t.nth(7) == (7, "7") and t.rank(7) == 7 and t.rank(5000) == 1000
        with pytest.raises(IndexError):
            t.nth(1000)
        assert [key for key, _ in t.sample(4)] == [0, 250, 500, 750]
        assert t.sample(3, seed=1) == t.sample(3, seed=1)
        assert len(t.get_many(range(0, 2000, 2))) == 1000


def test_keys_by_prefix(store: Store) -> None:
    with store.write() as txn:
        words = txn.table("w", key=str, value=bool)
        words.update((word, True) for word in ("oak", "oats", "elm", "ouzo"))
        assert list(words.keys(prefix="oa")) == ["oak", "oats"]
        assert words.count(prefix="o") == 3
        with pytest.raises(TypeError):
            words.items("a", prefix="b")
        parts = txn.table("p", key=(str, int))
        parts.update(((a, n), b"") for a in ("x", "xy", "y") for n in range(3))
        assert list(parts.keys(prefix=("x",))) == [("x", 0), ("x", 1), ("x", 2)]
        assert list(parts.keys(("xy",), ("y", 1))) == [("xy", 0), ("xy", 1), ("xy", 2), ("y", 0)]
        assert parts.rank(("xy",)) == 3


def test_live_ranges_follow_changes(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t", key=int)
        t.update((n, b"") for n in range(100))
        seen = []
        for key in t.keys(10, 50):
            seen.append(key)
            del t[key]
            t[key + 1000] = b""
        assert seen == list(range(10, 50))
        assert len(t) == 100
        assert list(t.keys(0, 60)) == list(range(10)) + list(range(50, 60))


TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc),
    datetime(1970, 1, 1, tzinfo=timezone.utc),
    datetime(2024, 2, 29, 12, 30, 15, 123_456, timezone(timedelta(hours=5))),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc),
]


@pytest.mark.parametrize(
    ("of", "values"),
    [
        (str, ["", "a", "b", "\U0001f333"]),
        (int, [-(2**63), -1, 0, 1, 2**63 - 1]),
        (float, [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf")]),
        (bool, [False, True]),
        (datetime, TIMES),
        ((str, int), [("", 5), ("a", -1), ("a", 3), ("a\0", 0), ("b", 0)]),
        ((bytes, (int, float)), [(b"", (1, 0.5)), (b"\0", (0, 0.0)), (b"\0\0", (0, 1.0))]),
        (json, [{"a": [1, None, True]}, [], "x"]),
    ],
)
def test_types_keep_values_and_order(store: Store, of: Any, values: list[Any]) -> None:
    with store.write() as txn:
        t = txn.table("v", key=int, value=of)
        t.update(enumerate(values))
        assert list(t.values()) == values
        assert [type(value) for value in t.values()] == [type(value) for value in values]
        if of is not json:
            t = txn.table("k", key=of)
            t.update((value, b"") for value in reversed(values))
            assert list(t) == values


def test_types_are_checked(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t", key=int, value=str)
        for wrong in ("1", 1.0, None, b"1"):
            with pytest.raises(TypeError):
                t[wrong] = "x"  # type: ignore[index]
        with pytest.raises(OverflowError):
            t[2**63] = "x"
        with pytest.raises(TypeError):
            t[1] = b"x"  # type: ignore[assignment]
        with pytest.raises(hedgerow.TableError):
            txn.table("t", key=str, value=str)
        with pytest.raises(hedgerow.TableError):
            txn.table("t", key=int, value=str, duplicates=True)
        assert isinstance(txn["t"], hedgerow.Table)  # bytes are always to be had
        with pytest.raises(ValueError, match="time zone"):
            txn.table("d", key=datetime)[datetime(2024, 1, 1)] = b""
        with pytest.raises(ValueError, match="parts"):
            txn.table("p", key=(int, int))[1,] = b""
        with pytest.raises(TypeError):
            txn.table("x", key=complex)
        with pytest.raises(TypeError):
            txn.table("x", key=(int, json))
        txn.table("raw")[b"abc"] = b"\xff"
        with pytest.raises(ValueError):
            txn.table("raw", value=str)[b"abc"]
        with pytest.raises(ValueError):
            list(txn.table("raw", key=int))


def test_buffers_of_any_kind_are_bytes(store: Store) -> None:
    numbers, letters = array("q", [1, -2]), ctypes.create_string_buffer(b"abcd", 4)
    kept: Any = memoryview(numbers)
    with store.write() as txn:
        t = txn.table("t")
        given: list[Any] = [numbers, letters, kept[::-1], memoryview(b"0123")[::2], bytearray(b"b")]
        for buffer in given:
            t[buffer] = buffer
            assert t[bytes(buffer)] == bytes(buffer) and buffer in t
        kept.release()
        with pytest.raises(ValueError, match="released"):
            t[kept] = b""
        for wrong in ("text", 7, None, [1, 2]):
            with pytest.raises(TypeError, match="takes a bytes-like object, not"):
                t[wrong] = b""  # type: ignore[index]


@pytest.mark.parametrize("writes", [False, True])
def test_a_key_may_have_several_values(store: Store, writes: bool) -> None:
    with store.write() as txn:
        t = txn.table("t", key=str, value=int, duplicates=True)
        assert t.has_duplicates
        assert t.add("a", 2) and t.add("a", 1) and not t.add("a", 2)
        t.update([("b", 7), ("c", 0), ("c", -3)])
        with pytest.raises(hedgerow.TableError):
            t["a"] = 5
    with store.write() if writes else store.read() as txn:
        t = txn.table("t", key=str, value=int, duplicates=True)
        assert t["a"] == 1 and t.values_of("a") == [1, 2] and t.values_of("z") == []
        assert len(t) == 5 and t.key_count() == 3 and t.count_values("c") == 2
        assert list(t) == ["a", "b", "c"] and list(reversed(t)) == ["c", "b", "a"]
        assert len(t.keys()) == 3 and t.keys()[1] == "b" and list(t.keys()[1:]) == ["b", "c"]
        assert list(t.items()) == [("a", 1), ("a", 2), ("b", 7), ("c", -3), ("c", 0)]
        assert list(t.values(reverse=True)) == [0, -3, 7, 2, 1]
        assert t.at[3] == ("c", -3) and t.rank("c") == 3 and t.rank("c", 0) == 4
        assert t.has("b", 7) and not t.has("b", 8)
        if writes:
            assert t.discard("c", 0) and not t.discard("c", 0)
            assert t.popitem() == ("c", -3)
            assert t.pop("a") == 1 and list(t) == ["b"]


def test_savepoints_and_nested_transactions(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t", key=int)
        t[1] = b""
        with txn.savepoint():
            t[2] = b""
            with pytest.raises(RuntimeError):
                with txn.savepoint():
                    t[3] = b""
                    raise RuntimeError
        assert list(t) == [1, 2]
        place = txn.savepoint()
        t[4] = b""
        place.rollback()
        t[5] = b""
        place.release()
        with pytest.raises(hedgerow.ClosedError):
            place.release()
        assert list(t) == [1, 2, 5]


def test_a_savepoint_lets_the_exception_pass_that_comes_after_the_end(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        with store.write() as txn:
            t = txn.table("t", key=int, order=("broken", lambda key: 1 // (key - 3)))
            t[1] = b""
            with txn.savepoint():
                t[3] = b""
    with pytest.raises(KeyError):
        with store.write() as txn:
            with txn.savepoint():
                txn.abort()
                raise KeyError
    with pytest.raises(hedgerow.ClosedError):
        with store.write() as txn:
            with txn.savepoint():
                txn.abort()


def test_views_of_memory_stay_right_after_all_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    with store.write() as txn:
        t = txn.table("t", value=memoryview)
        t[b"a"] = b"x" * 100_000  # type: ignore[assignment]
        t[b"b"] = b"short"  # type: ignore[assignment]
    txn = store.read()
    t = txn.table("t", value=memoryview)
    long, short = t[b"a"], t[b"b"]
    pairs = list(t.items())
    assert isinstance(long, memoryview) and long.readonly
    txn.abort()
    store.close()
    del t, txn, store
    with Store(path) as store:
        for round in range(5):
            with store.write() as txn:
                other = txn.table("t")
                other[b"a"] = b"y" * 100_000
                other[b"b"] = b"%d" % round
        assert long == b"x" * 100_000 and bytes(short) == b"short"
        assert [bytes(value[:3]) for _, value in pairs] == [b"xxx", b"sho"]
        assert len(store.readers()) == 1
        del long, short, pairs
        assert store.readers() == []


def test_copies_checks_and_compaction(store: Store, tmp_path: Path) -> None:
    with store.write() as txn:
        txn.table("t", key=int).update((n, b"x" * 100) for n in range(20_000))
    with store.write() as txn:
        del txn.table("t", key=int)[1000:]
    assert store.check() == []
    store.sync()
    store.copy(tmp_path / "copy", compact=True)
    with Store.open(tmp_path / "copy") as copy, copy.read() as txn:
        assert len(txn["t"]) == 1000
    before, after = store.compact()
    assert after < before
    assert store.stat()["entries"] == 1000


def test_a_full_store_says_so(tmp_path: Path) -> None:
    with Store(tmp_path / "store", max_size=1 << 20) as store:
        with pytest.raises(hedgerow.FullError):
            with store.write() as txn:
                txn.table("t").update((b"%06d" % n, b"x" * 1000) for n in range(10_000))


def test_pins_keep_a_moment_under_a_name(store: Store) -> None:
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"
    commit = store.pin("before")
    assert list(store.pins()) == ["before"] and store.pins()["before"] <= commit
    with store.write() as txn:
        txn["t"][b"a"] = b"2"
    with store.read("before") as txn:
        assert txn["t"][b"a"] == b"1"
    assert store.unpin("before") and not store.unpin("before")
    with pytest.raises(hedgerow.ArgumentError):
        store.read("before")


def test_one_writer_at_a_time(store: Store) -> None:
    txn = store.write()
    with pytest.raises(hedgerow.LockedError, match="this thread"):
        store.write()
    caught: list[BaseException] = []

    def other() -> None:
        try:
            store.write(timeout=0.05)
        except hedgerow.Error as error:
            caught.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert isinstance(caught[0], hedgerow.LockedError) and "of this process" in str(caught[0])
    txn.abort()
    store.write(timeout=5, durability="none").commit()


def child_of_fork(store: Store, txn: hedgerow.Transaction, out: Any) -> None:
    said = []
    for call in (store.read, store.write):
        try:
            call()
            said.append("no error")
        except hedgerow.LockedError as error:
            said.append(str(error))
    out.put(said)


def test_a_fork_is_refused(store: Store) -> None:
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"
    context = multiprocessing.get_context("fork")
    with store.read() as txn:
        out: Any = context.Queue()
        child = context.Process(target=child_of_fork, args=(store, txn, out))
        child.start()
        said = out.get(timeout=30)
        child.join(30)
        assert child.exitcode == 0
        assert len(said) == 2 and all("fork" in message for message in said)
        assert txn["t"][b"a"] == b"1"
    with store.write() as txn:
        txn["t"][b"b"] = b"2"


INTERRUPTED = """
import hedgerow, os, signal, sys, threading, time
store = hedgerow.Store(sys.argv[1])
holder = threading.Event()
def hold():
    with store.write():
        holder.set()
        time.sleep(20)
threading.Thread(target=hold, daemon=True).start()
holder.wait()
began = time.monotonic()
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    eval(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 10)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize("call", [
    "store.write()", "store.pin('p')", "store.unpin('p')", "store.forget('f')",
    "store.follow('f').step()", "store.follow('f').step(15)",
    "hedgerow.Standby(store, 's', hedgerow.Store.create_in_memory()).catch_up()",
])
def test_ctrl_c_ends_waiting(tmp_path: Path, call: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "store"), call]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert out.stdout == "interrupted True\n", out.stderr


def test_ctrl_c_stops_work(store: Store) -> None:
    with store.write(durability="none") as txn:
        txn.table("t", key=int).update((n, b"x" * 30) for n in range(400_000))
    # A handler that raises stops the call; the store goes on.
    timer = threading.Timer(0.01, signal.raise_signal, (signal.SIGINT,))
    interrupted = 0
    for _ in range(20):
        timer = threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while True:
                store.check()
        except KeyboardInterrupt:
            interrupted += 1
            break
    assert interrupted == 1
    time.sleep(0.05)
    assert store.check() == []


def test_the_flag_stops_other_threads(store: Store) -> None:
    store.interrupt()
    with pytest.raises(hedgerow.InterruptedError):
        with store.write() as txn:
            txn.table("t")[b"a"] = b"1"
    store.interrupt(False)
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"


def test_notebooks_show_stores_and_tables(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("<t>", key=str)
        t.update((f"<{n:03}>", b"") for n in range(50))
        shown = t._repr_html_()
        assert "&lt;000&gt;" in shown and "&lt;049&gt;" in shown and "<000>" not in shown
        assert repr(t) == "<hedgerow.Table \"<t>\", 50 pairs>"
        assert repr(t.keys()) == "<50 keys of hedgerow.Table \"<t>\">"
        assert t.stat()["pairs"] == 50
    shown = store._repr_html_()
    assert "&lt;t&gt;" in shown and "<td>50</td>" in shown


def test_pairs_of_an_iteration_stay_what_they_were(store: Store) -> None:
    made = [(b"key%05d" % n, b"%d" % n * (n % 70)) for n in range(2_000)]
    with store.write() as txn:
        txn.table("t").update(made)
        txn.table("n", key=int).update(enumerate(value for _, value in made))
    with store.read() as txn:
        t = txn["t"]
        kept = list(t.items())
        assert kept == made and len({id(pair) for pair in kept}) == len(made)
        walk = iter(t.items())
        first, second = next(walk), next(walk)
        assert [first, second] == made[:2] and list(walk) == made[2:]
        assert next(walk, None) is None and next(walk, None) is None
        assert list(map(hash, t.items())) == [hash(pair) for pair in made]
        assert list(t.keys()) == [key for key, _ in made]
        assert list(t.values()) == [value for _, value in made]
        assert list(t.items(reverse=True)) == made[::-1]
        assert list(t.keys(b"key01990", reverse=True)) == [key for key, _ in made[:1989:-1]]
        assert list(txn.table("n", key=int).items()) == list(enumerate(v for _, v in made))
        rest = iter(t.keys())
        next(rest)
    store.close()
    assert list(rest) == [key for key, _ in made[1:]]


def test_an_update_takes_pairs_of_any_kind_in_their_order(store: Store) -> None:
    class Text(bytes):
        pass

    pairs: list[Any] = [(b"a%04d" % n, b"%d" % n) for n in range(3_000)]
    pairs[1_000] = [b"a1000", b"1000"]
    pairs[1_500] = (bytearray(b"a1500"), memoryview(b"1500"))
    pairs[2_000] = (Text(b"a2000"), Text(b"2000"))
    pairs += [(b"a0000", b"first"), (b"a0000", b"last"), (b"a2999", b"end")]
    expected = {bytes(key): bytes(value) for key, value in pairs}
    for name, given in (("list", pairs), ("iterator", iter(pairs)), ("tuple", tuple(pairs))):
        with store.write() as txn:
            txn.table(name).update(given)
            assert dict(txn.table(name).items()) == expected, name
    with store.write() as txn:
        order = ("length", len)
        txn.table("lengths", order=order).update([(b"aaa", b"3"), (b"z", b"1"), (b"bb", b"2")])
        assert list(txn.table("lengths", order=order).values()) == [b"1", b"2", b"3"]
        with pytest.raises(TypeError):
            txn.table("wrong").update([(b"a", b"1"), (b"b", 2)])  # type: ignore[list-item]
        with pytest.raises(ValueError):
            txn.table("wrong").update([(b"a", b"1", b"2")])  # type: ignore[list-item]
        shuffled = pairs[:]
        random.Random(3).shuffle(shuffled)
        txn.table("shuffled").update(shuffled)
        assert list(txn.table("shuffled").keys()) == sorted(expected)
    with store.read() as txn, pytest.raises(hedgerow.ReadOnlyError):
        txn["list"].update([(b"a", b"1")])
    assert store.check() == []
