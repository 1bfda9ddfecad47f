"""Arrow streams out of views and into tables, beside pyarrow and polars where there are any."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Store

START = datetime(1969, 12, 31, 23, 59, 59, 5, timezone.utc)

KINDS: list[tuple[Any, list[Any]]] = [
    (bytes, [b"%05d" % n for n in range(3000)]),
    (str, sorted(f"\U0001f333{n}" for n in range(500))),
    (int, list(range(-500, 500))),
    (float, [n / 7 for n in range(-300, 300)]),
    (bool, [False, True]),
    (datetime, [START + timedelta(seconds=n) for n in range(100)]),
]


def test_a_store_without_readers_of_arrow_still_gives_a_capsule(store: Store) -> None:
    with store.write() as txn:
        t = txn.table("t")
        t[b"a"] = b"1"
        with pytest.raises(hedgerow.ArgumentError):
            t.__arrow_c_stream__()
    with store.read() as txn:
        capsule = txn["t"].__arrow_c_stream__()
        assert "arrow_array_stream" in repr(capsule)
        del capsule  # nobody took the stream over: it lets its snapshot go
    assert store.readers() == []


@pytest.mark.parametrize(("kind", "keys"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_columns_have_the_values(store: Store, kind: Any, keys: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    with store.write() as txn:
        txn.table("t", key=kind, value=int).update(zip(keys, range(len(keys))))
    with store.read() as txn:
        view = txn.table("t", key=kind, value=int).items()
        table = pa.table(view)
        assert table.column_names == ["key", "value"]
        assert table["key"].to_pylist() == keys
        assert table["value"].to_pylist() == list(range(len(keys)))
        assert pa.table(view[1:3])["value"].to_pylist() == list(range(len(keys)))[1:3]
        names = pa.table(txn.table("t", key=kind, value=int).keys(reverse=True))
        assert names.column_names == ["key"] and names["key"].to_pylist() == keys[::-1]
        table.validate(full=True)
    with store.write() as txn:
        copy = txn.table("copy", key=kind, value=int)
        assert copy.update_arrow(table) == len(keys)
        assert copy.update_arrow(table.slice(1)) == len(keys) - 1  # rows with an offset
        assert list(copy.items()) == list(zip(keys, range(len(keys))))


def test_tuples_are_columns(store: Store) -> None:
    pa = pytest.importorskip("pyarrow")
    pairs = [((f"s{n // 10}", n % 10), n % 3 == 0) for n in range(100)]
    with store.write() as txn:
        txn.table("t", key=(str, int), value=bool).update(pairs)
    with store.read() as txn:
        table = pa.table(txn.table("t", key=(str, int), value=bool))
    assert table.column_names == ["key.0", "key.1", "value"]
    named = table.rename_columns(["place", "n", "yes"])
    with store.write() as txn:
        copy = txn.table("c", key=(str, int), value=bool)
        assert copy.update_arrow(table) == 100
        assert copy.update_arrow(named, key=["place", "n"], value="yes") == 100
        assert sorted(copy.items()) == sorted(pairs) and len(copy) == 100
        bare = txn.table("bare", key=(str, int))
        assert bare.update_arrow(table, value=()) == 100 and set(bare.values()) == {b""}
        with pytest.raises(KeyError):
            copy.update_arrow(named)
        with pytest.raises(TypeError):
            copy.update_arrow(named, key="place", value="yes")
        with pytest.raises(TypeError):
            copy.update_arrow(named, key=["n", "n"], value="yes")


def test_all_formats_are_taken(store: Store) -> None:
    pa = pytest.importorskip("pyarrow")
    t: Any
    texts = [f"text {n}" + "x" * (n % 20) for n in range(50)]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        table = pa.table({"key": pa.array(texts, kind), "value": pa.array(range(50), pa.uint8())})
        with store.write() as txn:
            t = txn.table(str(kind), key=str, value=int)
            t.update_arrow(table)
            assert dict(t.items()) == dict(zip(texts, range(50)))
    blobs = [bytes([n]) * 4 for n in range(50)]
    for kind in (pa.binary(), pa.large_binary(), pa.binary(4), pa.binary_view()):
        table = pa.table({"key": pa.array(blobs, kind), "value": pa.array(blobs, kind)})
        with store.write() as txn:
            t = txn.table(str(kind))
            t.update_arrow(table)
            assert list(t) == blobs
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32()):
        halves = pa.array([1.5, 2.5], pa.float32())
        table = pa.table({"key": pa.array([1, 2], kind), "value": halves})
        with store.write() as txn:
            t = txn.table(str(kind), key=int, value=float)
            t.update_arrow(table)
            assert list(t.items()) == [(1, 1.5), (2, 2.5)]
    for unit in ("s", "ms", "us", "ns"):
        times = pa.array([START.replace(microsecond=0)], pa.timestamp(unit, "UTC"))
        table = pa.table({"key": times})
        with store.write() as txn:
            t = txn.table(unit, key=datetime)
            t.update_arrow(table, value=())
            assert list(t) == [START.replace(microsecond=0)]


def test_what_does_not_fit_is_refused(store: Store) -> None:
    pa = pytest.importorskip("pyarrow")
    with store.write() as txn:
        t = txn.table("t", key=int, value=str)
        for column in (
            pa.array(["a", None]),
            pa.array(["a", "b"]).dictionary_encode(),
            pa.array([1, 2]),
            pa.array([[1], [2]]),
        ):
            with pytest.raises((TypeError, ValueError)):
                t.update_arrow(pa.table({"key": [1, 2], "value": column}))
        with pytest.raises(ValueError):
            t.update_arrow(pa.table({"key": pa.array([2**63], pa.uint64()), "value": ["a"]}))
        with pytest.raises(AttributeError):
            t.update_arrow([1, 2])
        assert len(t) == 0
    with store.write() as txn:
        txn.table("raw")[b"a"] = b"\xff"
    with store.read() as txn:
        with pytest.raises(Exception, match="utf-8"):
            pa.table(txn.table("raw", value=str))


def test_streams_outlive_the_transaction_and_come_in_batches(store: Store) -> None:
    pa = pytest.importorskip("pyarrow")
    with store.write() as txn:
        txn.table("t", key=int, value=int).update((n, -n) for n in range(150_000))
    with store.read() as txn:
        reader = pa.RecordBatchReader.from_stream(txn.table("t", key=int, value=int))
    first = reader.read_next_batch()
    assert 0 < first.num_rows <= 64 << 10 and len(store.readers()) == 1
    rest = reader.read_all()
    assert first.num_rows + rest.num_rows == 150_000
    assert rest["key"].to_pylist()[-1] == 149_999
    reader.close()
    del reader
    assert store.readers() == []
    assert first["value"].to_pylist()[:3] == [0, -1, -2]


def test_polars_takes_and_gives(store: Store) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"key": [f"name of {n}" for n in range(100)], "value": range(100)})
    with store.write() as txn:
        txn.table("t", key=str, value=int).update_arrow(frame)
    with store.read() as txn:
        t = txn.table("t", key=str, value=int)
        assert pl.DataFrame(t.items()).sort("value").equals(frame)


def test_streams_and_keyspaces_of_either_engine(store: Store, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    frame = pyarrow.table({"key": [1, 2, 3], "value": ["a", "b", "c"]})
    with hedgerow.Log(tmp_path / "log") as log:
        either: list[Store | hedgerow.Log] = [store, log]
        for engine in either:
            with engine.sink("t", int, str, pairs=2) as sink:
                assert sink.update_arrow(frame) == 3
            assert sink.report["pairs"] == 3 and sink.report["commits"] == 2
            stream = engine.scan("t", int, str, start=2)
            assert pyarrow.table(stream).to_pydict() == {"key": [2, 3], "value": ["b", "c"]}
            assert list(stream) == []
            with pytest.raises(hedgerow.ClosedError):
                pyarrow.table(stream)
        t = log.keyspace("t", int, str)
        with log.snapshot() as moment:
            del t[2]
            assert pyarrow.table(moment[t]).to_pydict() == frame.to_pydict()
        assert polars.DataFrame(t)["key"].to_list() == [1, 3]
        with pytest.raises(TypeError, match="of a store or of a snapshot"):
            pyarrow.table(log.batch()[t])
        with pytest.raises(KeyError, match="only key, value"):
            log.sink("t", int, str).update_arrow(frame, key="k")
    with hedgerow.Log(tmp_path / "log", read_only=True) as log:
        assert pyarrow.table(log.keyspace("t", int, str)).num_rows == 2
