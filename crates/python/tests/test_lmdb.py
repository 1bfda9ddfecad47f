"""py-lmdb's interface. Its own suite runs in py-lmdb.sh; here is what that does not ask."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import hedgerow.lmdb as lmdb
from hedgerow import Store


def test_a_program_written_for_lmdb(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "env"), max_dbs=2) as env:
        fruit = env.open_db(b"fruit", dupsort=True)
        with env.begin(write=True, db=fruit) as txn:
            assert txn.cursor().putmulti([(b"a", b"2"), (b"a", b"1"), (b"b", b"3")]) == (3, 3)
            with pytest.raises(lmdb.BadValsizeError):
                txn.put(b"", b"")
        with env.begin(db=fruit, buffers=True) as txn:
            kept = txn.get(b"a")
            assert [bytes(v) for _, v in txn.cursor()] == [b"1", b"2", b"3"]
        assert env.dbs() == [b"fruit"]
    assert kept == b"1"


def test_its_stores_are_hedgerow_s(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "env"), max_dbs=2) as env:
        with env.begin(write=True, db=env.open_db(b"t")) as txn:
            txn.put(b"a", b"1")
    with Store.open(tmp_path / "env") as store, store.read() as txn:
        assert dict(txn["t"].items()) == {b"a": b"1"}


def test_what_is_over_is_refused(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path / "env"))
    txn = env.begin(write=True)
    child = env.begin(write=True, parent=txn)
    cursor = child.cursor()
    child.put(b"a", b"1")
    with pytest.raises(lmdb.Error):
        txn.put(b"b", b"1")  # its child is open
    txn.commit()
    for call in (cursor.first, child.id, txn.id, txn.commit):
        with pytest.raises(lmdb.Error, match="closed"):
            call()
    reader = env.begin()
    env.close()
    with pytest.raises(lmdb.Error, match="closed"):
        reader.get(b"a")


def test_threads_end_transactions_beside_each_other(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path / "env"), map_size=1 << 24, sync=False, max_spare_txns=2)
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                with env.begin() as txn:
                    txn.cursor().first()
            except lmdb.Error:
                pass  # it was ended by the other thread
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(200):
        env.set_mapsize((1 << 24) + n * 4096)
    done.set()
    for thread in threads:
        thread.join(30)
    env.close()
    assert not failures, failures[0]
