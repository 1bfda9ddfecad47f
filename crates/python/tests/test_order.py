"""Tables in other orders than that of bytes."""

from __future__ import annotations

import random
import struct
import threading
from typing import Any

import pytest

import hedgerow
from hedgerow import Store

FOLDED = ("folded", str.casefold)


def test_keys_are_in_the_order_of_a_function(store: Store) -> None:
    words = ["beta", "Alpha", "gamma", "Delta", "epsilon"]
    with store.write() as txn:
        t = txn.table("t", str, int, order=FOLDED)
        for n, word in enumerate(words):
            t[word] = n
        assert list(t) == sorted(words, key=str.casefold)
        assert list(t.items("B", "e", reverse=True)) == [("Delta", 3), ("beta", 0)]
        assert "DELTA" in t and t["ALPHA"] == 1
        assert list(t.items("b")) == [("beta", 0), ("Delta", 3), ("epsilon", 4), ("gamma", 2)]
    with store.read() as txn:
        t = txn.table("t", str, int, order=FOLDED)
        assert t.rank("C") == 2 and t.count("B", "E") == 2
        assert t.at[0] == ("Alpha", 1) and t.nth(4) == ("gamma", 2)
        assert t.get_many(["GAMMA", "zeta"]) == [2, None]
        assert list(t.keys("C")) == ["Delta", "epsilon", "gamma"]
        assert bytes(txn.table("t", str, memoryview, order=FOLDED)["beta"])
        with pytest.raises(TypeError):
            t.items(prefix="al")
    with store.read() as txn:
        with pytest.raises(hedgerow.TableError):
            txn.table("t", str, int)
        with pytest.raises(hedgerow.TableError):
            txn.table("t", str, int, order=("other", str.casefold))
    assert store.check() == []


def test_reverse_and_integer(store: Store) -> None:
    draw = random.Random(3)
    numbers = [draw.getrandbits(32) for _ in range(300)]
    names = [f"{n}.example".encode() for n in range(100)]
    with store.write() as txn:
        ints = txn.table("ints", order="integer")
        ints.update((struct.pack("=I", n), b"") for n in numbers)
        assert [struct.unpack("=I", key)[0] for key in ints] == sorted(set(numbers))
        back = txn.table("back", order="reverse")
        back.update((name, b"") for name in names)
        assert list(back) == sorted(names, key=lambda name: name[::-1])
    with store.read() as txn:
        # Their orders need no function.
        assert list(txn["back"])[0] == min(names, key=lambda name: name[::-1])
        assert txn.table("ints").count() == len(set(numbers))
        with pytest.raises(TypeError):
            txn.table("back").keys(prefix=b"1")
    with store.write() as txn:
        wrong: Any
        for wrong in ("sideways", 5, ("name",), ("name", 5), ("name", len, 1)):
            with pytest.raises(TypeError):
                txn.table("x", order=wrong)
        with pytest.raises(TypeError):
            txn.table("x", int, order="reverse")


def test_values_of_a_key_in_the_order_of_a_function(store: Store) -> None:
    with store.write() as txn:
        t: Any = txn.table("t", str, int, duplicates=True, value_order=("falling", lambda n: -n))
        t.update(("a", n) for n in range(50))
        assert t.values_of("a") == list(range(49, -1, -1))
        assert t.has("a", 7) and not t.has("a", 70)
        assert t.rank("a", 40) == 9


def test_a_function_that_fails_undoes_the_transaction(store: Store) -> None:
    calls = [0]

    def falter(key: str) -> str:
        calls[0] += 1
        if key == "bad" and calls[0] > 20:
            raise ZeroDivisionError("no order for that")
        return key

    order = ("faltering", falter)
    with store.write() as txn:
        txn.table("t", str, int, order=order).update((f"{n:03}", n) for n in range(200))
    calls[0] = 100
    with pytest.raises(ZeroDivisionError):
        with store.write() as txn:
            t = txn.table("t", str, int, order=order)
            t["100a"] = 1
            t["bad"] = 1
    with pytest.raises(hedgerow.ClosedError):
        txn.commit()
    # Caught inside, it is not forgotten: nothing is left that could be committed.
    with pytest.raises(hedgerow.ClosedError, match="undone"):
        with store.write() as txn:
            with pytest.raises(ZeroDivisionError):
                "bad" in txn.table("t", str, int, order=order)
    with store.write() as txn:
        with pytest.raises(ZeroDivisionError):
            "bad" in txn.table("t", str, int, order=order)
        txn.abort()
    with store.read() as txn:
        t = txn.table("t", str, int, order=order)
        with pytest.raises(ZeroDivisionError):
            t["bad"]
        # A reader goes on.
        assert t["007"] == 7 and "100a" not in t
    with store.write() as txn:
        txn.table("t", str, int, order=order)["fine"] = 1
    assert store.check() == []


def test_a_function_must_not_use_the_store(store: Store) -> None:
    tables: list[hedgerow.Table[str, int]] = []

    def curious(key: str) -> str:
        if tables:
            len(tables[0])
        return key

    with pytest.raises(RuntimeError, match="uses a transaction"):
        with store.write() as txn:
            t = txn.table("t", str, int, order=("curious", curious))
            t["a"] = 1
            tables.append(t)
            t["b"] = 2


def test_functions_run_beside_other_threads(store: Store) -> None:
    with store.write() as txn:
        txn.table("t", str, int, order=FOLDED).update((f"K{n}", n) for n in range(500))
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for n in range(300):
                with store.read() as txn:
                    assert txn.table("t", str, int, order=FOLDED)[f"k{n}"] == n
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(100):
        with store.write(durability="none") as txn:
            txn.table("t", str, int, order=FOLDED)[f"L{n}"] = n
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
