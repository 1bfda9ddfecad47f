"""SQL on a store."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Store


def test_a_statement_has_rows_and_columns(store: Store) -> None:
    store.sql("create table t (n integer primary key, name text, part real, raw blob)")
    made = store.sql("insert into t values (?, ?, ?, ?)", (1, "ä", 1.5, b"\0\1"))
    assert made.changed == 1 and len(made) == 0 and made.columns == ()
    for n in range(2, 101):
        store.sql("insert into t values (:n, :name, null, null)", {"n": n, "name": f"name {n}"})
    rows = store.sql("select * from t order by n limit 2")
    assert rows.columns == ("n", "name", "part", "raw") and len(rows) == 2
    assert rows[0] == (1, "ä", 1.5, b"\0\1") and rows[-1] == (2, "name 2", None, None)
    assert list(rows) == rows[:] and rows[::-1] == rows[:][::-1] and rows.changed == 0
    with pytest.raises(IndexError):
        rows[2]
    assert "2 rows" in repr(rows)
    walk = iter(rows)
    assert next(walk) == rows[0] and walk.__length_hint__() == 1 and list(walk) == rows[1:]
    assert store.sql("select count(*), sum(n) from t").columns == ("count(*)", "sum(n)")
    assert store.sql("select :a || :b", {"a": "x", "b": "y"})[0] == ("xy",)
    assert store.sql("select ?, ?", [True, bytearray(b"x")])[0] == (1, b"x")
    assert store.sql("update t set part = 1 where n > 50").changed == 50
    assert store.sql("create table other (n)").changed == 0
    with Store.open(store.path) as again:
        assert again.sql("select name from t where n = 100")[0] == ("name 100",)
    assert store.check() == []
    store.close()
    with pytest.raises(hedgerow.ClosedError):
        store.sql("select 1")
    assert rows[0][0] == 1


@pytest.mark.parametrize("options", [
    {"durability": "none"}, {"durability": "eventual"}, {"max_size": 1 << 24},
    {"write_budget": 1 << 20},
])
def test_however_the_store_is_opened(tmp_path: Path, options: dict[str, Any]) -> None:
    with Store(tmp_path / "s", **options) as store:
        store.sql("create table t (n)")
        store.sql("insert into t values (1)")
        with store.write() as txn:
            txn.table("plain")[b"a"] = b"b"
    with Store.open(tmp_path / "s", read_only=True) as store:
        assert list(store.sql("select n from t")) == [(1,)]
        with pytest.raises(hedgerow.ReadOnlyError):
            store.sql("insert into t values (2)")


def test_connections_have_transactions(store: Store) -> None:
    with store.connect() as sql:
        sql.script("create table t (n integer); create index i on t (n)")
        sql.execute("begin")
        assert sql.in_transaction
        sql.execute("insert into t values (1)")
        assert len(store.sql("select * from t")) == 0
        sql.execute("rollback")
        assert len(sql.execute("select * from t")) == 0
        sql.execute("begin")
        sql.execute("insert into t values (2)")
    with pytest.raises(hedgerow.ClosedError):
        sql.execute("select 1")
    with store.connect() as sql:
        assert len(sql.execute("select * from t")) == 0
        with pytest.raises(hedgerow.SqlError):
            sql.execute_many("insert into t values (?)", [(1,), (2, 3)])
        with pytest.raises(ZeroDivisionError):
            sql.execute_many("insert into t values (?)", ((1 // (n - 5_000),) for n in range(9000)))
        assert not sql.in_transaction and len(sql.execute("select * from t")) == 0
        assert sql.execute_many("insert into t values (?)", ([n] for n in range(5_000))) == 5_000
        sql.execute("begin")
        sql.execute_many("insert into t values (:n)", [{"n": 1}])
        assert sql.in_transaction
        sql.execute("commit")
    assert store.sql("select count(*) from t where n >= 4000")[0] == (1_000,)
    with pytest.raises(hedgerow.SqlError, match="connect"):
        store.sql("begin")
    assert len(store.sql("select 1")) == 1


def test_one_writer_at_a_time(store: Store) -> None:
    store.sql("create table t (n integer)")
    began = time.monotonic()
    with store.write(), store.connect(timeout=60) as sql:
        with pytest.raises(hedgerow.LockedError, match="this thread"):
            sql.execute("insert into t values (1)")
        with pytest.raises(hedgerow.LockedError, match="this thread"):
            sql.script("select 1; insert into t values (1)")
        assert len(sql.execute("select * from t")) == 0
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        with store.write():
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    with store.connect(timeout=0.1) as sql:
        for call in (sql.execute, sql.script):
            with pytest.raises(hedgerow.LockedError, match="another writer"):
                call("insert into t values (1)")
        with pytest.raises(hedgerow.LockedError, match="another writer"):
            sql.execute_many("insert into t values (?)", [(1,)])
        assert not sql.in_transaction
        threading.Timer(0.3, release.set).start()
        with store.connect(timeout=60) as patient:
            patient.execute("begin")
            patient.execute("insert into t values (1)")
            patient.execute("insert into t values (1)")
            patient.execute("rollback")
    holder.join()
    assert time.monotonic() - began < 30
    store.sql("insert into t values (1)")
    failures = []

    def add() -> None:
        try:
            for _ in range(50):
                store.sql("insert into t values (1)")
        except hedgerow.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and store.sql("select sum(n) from t")[0] == (201,)


def test_what_is_wrong_is_said(store: Store) -> None:
    assert issubclass(hedgerow.SqlError, hedgerow.Error)
    with pytest.raises(hedgerow.SqlError, match="no such table: missing"):
        store.sql("select * from missing")
    with pytest.raises(hedgerow.SqlError, match="syntax"):
        store.sql("selec 1")
    with pytest.raises(hedgerow.SqlError):
        store.sql("select 1; select 2")
    for call in (lambda sql: store.sql(sql), lambda sql: store.connect().execute_many(sql, [[]])):
        with pytest.raises(hedgerow.SqlError, match="more than one statement: Sql.script"):
            call("create table made(a); insert into made values (1)")
    with pytest.raises(hedgerow.SqlError, match="no such table: made"):
        store.sql("select * from made")
    with pytest.raises(hedgerow.SqlError):
        store.sql("select ?")
    with pytest.raises(hedgerow.SqlError):
        store.sql("select :a", {"b": 1})
    wrong: Any
    for wrong in (5, "t", b"b", [object()], {1: 2}):
        with pytest.raises(TypeError):
            store.sql("select ?", wrong)
    with pytest.raises(OverflowError):
        store.sql("select ?", [2**63])
    with pytest.raises(ValueError):
        store.connect(timeout=-1)
    with pytest.raises(hedgerow.SqlError, match="no statement"):
        store.sql("-- nothing")


def test_tables_of_the_store_are_virtual_tables(store: Store) -> None:
    with store.write() as txn:
        txn.table("words", key=str).update((f"w{n:03}", b"%d" % n) for n in range(100))
        txn.table("squares", key=int, value=int).update((n, n * n) for n in range(-50, 50))
    store.sql("create virtual table words using hedgerow('words')")
    store.sql("create virtual table squares using hedgerow('squares', key=integer, value=integer)")
    assert store.sql("select count(*) from words")[0] == (100,)
    assert list(store.sql("select key, value from squares where key between -2 and 2")) == [
        (-2, 4), (-1, 1), (0, 0), (1, 1), (2, 4)
    ]
    assert store.sql("select hedgerow_rank('squares', 7)")[0] == (57,)
    store.sql("insert into squares values (1000, 1000000)")
    with store.read() as txn:
        assert txn.table("squares", key=int, value=int)[1000] == 1_000_000
        assert len(txn.table("words", key=str)) == 100
    assert store.check() == []


def test_rows_are_an_arrow_stream(store: Store) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    store.sql("create table t (n integer, x real, name text, raw blob, none, mixed)")
    with store.connect() as sql:
        rows = [(n, n / 2 if n % 2 else n, f"é{n}" if n % 3 else None, b"%d" % n if n % 5 else None,
                 None, "a" if n % 7 else 1) for n in range(70_000)]
        sql.execute_many("insert into t values (?, ?, ?, ?, ?, ?)", rows)
    found = store.sql("select n, x, name, raw, none from t order by n")
    table = pyarrow.table(found)
    assert [str(field.type) for field in table.schema] == [
        "int64", "double", "string", "binary", "null"
    ]
    assert table.column_names == list(found.columns) and table.num_rows == 70_000
    table.validate(full=True)
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == list(found)
    assert pyarrow.table(store.sql("select n from t where n < 0")).num_rows == 0
    with pytest.raises(hedgerow.ArgumentError, match="mixed"):
        pyarrow.table(store.sql("select mixed from t"))
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(store.sql("select name, count(*) as c from t group by name limit 5"))
    assert frame.shape == (5, 2) and frame.columns == ["name", "c"]


FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select sum(i) from n"

CTRL_C = """
import hedgerow, os, signal, sys, threading, time
store = hedgerow.Store.open(sys.argv[1])
began = time.monotonic()
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    store.sql(sys.argv[2])
except KeyboardInterrupt:
    assert time.monotonic() - began < 20
    assert store.sql("select 1")[0] == (1,)
    print("stopped")
"""


def test_ctrl_c_stops_a_statement(store: Store) -> None:
    command = [sys.executable, "-c", CTRL_C, str(store.path), FOREVER]
    assert subprocess.check_output(command, text=True, timeout=60) == "stopped\n"


def test_other_threads_run_meanwhile(store: Store) -> None:
    began, count = threading.Event(), 0

    def work() -> None:
        began.set()
        store.sql(FOREVER.replace("from n)", "from n where i < 3000000)"))

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    while thread.is_alive():
        count += 1
    assert count > 1_000


FORK = """
import hedgerow, os, sys
store = hedgerow.Store.open(sys.argv[1])
store.sql("create table t (n)")
child = os.fork()
if child == 0:
    try:
        store.sql("select 1")
    except hedgerow.LockedError:
        store.close()
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
store.sql("insert into t values (1)")
"""


def test_a_fork_is_refused(store: Store) -> None:
    subprocess.check_call([sys.executable, "-W", "ignore", "-c", FORK, str(store.path)], timeout=60)
    assert list(store.sql("select n from t")) == [(1,)]
