"""Logs, followers and SQL for asyncio: what they do, that the loop goes on, and cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import aio

Either = aio.Store | aio.Log


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """How long the loop stood still, at most."""
    longest = [0.0]

    async def tick() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest[0] = max(longest[0], time.monotonic() - began)

    task = asyncio.create_task(tick())
    yield longest
    task.cancel()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(100):
            await main()

    asyncio.run(timed())


async def put(store: Either, **pairs: int) -> None:
    if isinstance(store, aio.Log):
        await (await store.keyspace("t", str, int)).update(pairs)
        return
    async with store.write() as txn:
        await (await txn.table("t", str, int)).update(pairs)


def test_a_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.Log(tmp_path / "log", durability="none") as log:
            t = await log.keyspace("t", int, str)
            u = await log.keyspace("u", int, str)
            await t.update((n, str(n)) for n in range(2000))
            await t.delete(slice(1000, None))
            await t.put(5000, "last")
            assert await t.get(1) == "1" and await t.get(1500) is None
            assert await t.get_many([1, 1500]) == ["1", None]
            assert len([key async for key, _ in t.items(990)]) == 11
            assert [key async for key, _ in t.items(reverse=True)][:2] == [5000, 999]
            assert len([0 async for _ in log.items("t", int, str, limit=700)]) == 700
            async with log.snapshot() as before:
                await t.put(1, "changed")
                assert await before[t].get(1) == "1" and await t.get(1) == "changed"
                assert before.sync.id < log.sync.newest_commit
            async with log.batch() as batch:
                await batch[t].put(2, "batch")
                await batch[u].put(2, "batch")
                assert await u.get(2) is None
            assert await t.get(2) == await u.get(2) == "batch"
            with pytest.raises(RuntimeError):
                async with log.batch() as batch:
                    await batch[t].put(3, "lost")
                    raise RuntimeError
            async with log.transaction() as txn:
                await txn[t].put(3, str(await txn[t].get(3)) + "!")
            assert await t.get(3) == "3!"
            with pytest.raises(hedgerow.ConflictError):
                async with log.transaction() as txn:
                    await txn[t].put(4, str(await txn[t].get(4)) + "!")
                    await t.put(4, "other")
            await log.run(hedgerow.Log.compact)
            assert await t.run(lambda t: t.estimate()) > 0
            assert await asyncio.gather(*(t.put(n, "x") for n in range(50))) == [None] * 50
        with pytest.raises(hedgerow.ClosedError, match="the store is closed"):
            await t.get(1)

    run(main)


@pytest.mark.parametrize("kind", [aio.Store, aio.Log])
def test_steps_and_changes(tmp_path: Path, kind: type[aio.Store] | type[aio.Log]) -> None:
    async def main() -> None:
        store: Either = kind(tmp_path / "store")
        async with store:
            await put(store, a=1)
            async with store.steps("copy") as steps:
                step = await anext(steps)
                assert [c async for c in steps.changes(step, "t", str, int)] == [("a", None, 1)]
                await steps.done()
                assert await steps.step(0.01) is None
                writing = asyncio.create_task(put(store, a=2, b=2))
                async for step in steps:
                    found = [c async for c in steps.changes(step, "t", str, int)]
                    assert found == [("a", 1, 2), ("b", None, 2)]
                    break
                await writing
            # The last step was not dealt with.
            async with store.steps("copy") as steps:
                again = await steps.step(5)
                assert again is not None and again.mark == step.mark
            await store.run(lambda store: store.forget("copy"))

            async def feed() -> list[Any]:
                feed, seen = store.follow("t", str, int), []
                async for change in feed:
                    seen.append(change)
                    if change[0] == "end":
                        break
                await feed.aclose()
                return seen

            task = asyncio.create_task(feed())
            async with ticking() as longest:
                while not task.done():
                    await put(store, n=time.monotonic_ns())
                    await asyncio.sleep(0.02)
                    await put(store, end=time.monotonic_ns())
            seen = await task
            assert seen[-1][0] == "end" and longest[0] < 5

    run(main)


@pytest.mark.parametrize("kind", [aio.Store, aio.Log])
def test_a_task_that_waits_for_a_step_is_cancelled(
    tmp_path: Path, kind: type[aio.Store] | type[aio.Log]
) -> None:
    async def main() -> None:
        store: Either = kind(tmp_path / "store")
        async with store:
            await put(store, a=1)

            async def follow() -> None:
                async for _ in store.follow("t", str, int):
                    pass

            async with ticking() as longest:
                task = asyncio.create_task(follow())
                await asyncio.sleep(0.2)
                began = time.monotonic()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert time.monotonic() - began < 10
                assert longest[0] < 5
            held = store.sync.stat()["snapshots" if kind is aio.Log else "readers"]
            assert held == 0

    run(main)


def test_closing_ends_waiting_tasks(tmp_path: Path) -> None:
    async def main() -> None:
        log = await aio.Log(tmp_path / "log").open()
        await put(log, a=1)
        async with log.steps() as steps:
            task = asyncio.create_task(steps.step())
            await asyncio.sleep(0.1)
            await log.close()
            with pytest.raises(hedgerow.ClosedError, match="the store"):
                await task

    run(main)


def test_sql(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.Store(tmp_path / "store", durability="none") as store:
            await store.sql("create table t (n integer primary key, name text)")
            async with store.connect() as sql:
                await sql.script("begin; insert into t values (1, 'a');")
                assert await sql.execute_many("insert into t values (?, ?)", [(2, "b"), (3, "c")])
                assert await sql.run(lambda opened: opened.in_transaction)
                assert len(await store.sql("select * from t")) == 0
                await sql.execute("commit")
            rows = await store.sql("select name from t where n > :n", {"n": 1})
            assert list(rows) == [("b",), ("c",)] and rows.columns == ("name",)
            with pytest.raises(hedgerow.SqlError, match="connect"):
                await store.sql("begin")
            found = await asyncio.gather(*(store.sql("select ?", [n]) for n in range(20)))
            assert [rows[0] for rows in found] == [(n,) for n in range(20)]
            async with store.connect() as sql:
                await sql.execute("begin")
                await sql.execute("delete from t")
            assert list(await store.sql("select count(*) from t")) == [(3,)]

    run(main)


COUNT = "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c"


def test_a_statement_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.Store(tmp_path / "store") as store, store.connect() as sql:
            await sql.execute("create table t (n)")
            async with ticking() as longest:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await sql.execute(COUNT)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await store.sql(COUNT)
            assert longest[0] < 5
            # What comes after it runs.
            assert list(await sql.execute("select 7")) == [(7,)]
            async with store.connect(timeout=60) as patient, store.write() as txn:
                await txn.table("other")
                began = time.monotonic()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await patient.execute("insert into t values (1)")
                assert time.monotonic() - began < 20
            assert list(await store.sql("select count(*) from t")) == [(0,)]

    run(main)


def test_a_statement_is_interrupted_by_another_thread(store: hedgerow.Store) -> None:
    async def main() -> None:
        with store.connect() as sql:
            sql.interrupt()
            running = asyncio.create_task(asyncio.to_thread(sql.execute, COUNT))
            while not running.done():
                await asyncio.sleep(0.05)
                sql.interrupt()
            with pytest.raises(hedgerow.InterruptedError):
                await running

    run(main)


def test_the_end_of_a_transaction_comes_also_when_it_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.Store(tmp_path / "store") as store:

            begun, held, ends = threading.Event(), threading.Event(), asyncio.Event()

            def hold(txn: hedgerow.Transaction) -> None:
                begun.set()
                held.wait(60)

            async def write() -> None:
                async with store.write() as txn:
                    await txn.table("t")
                    holding.append(asyncio.create_task(txn.run(hold)))
                    while not begun.is_set():
                        await asyncio.sleep(0.01)
                    # The end waits behind that call, and the task is cancelled meanwhile.
                    ends.set()

            holding: list[asyncio.Task[None]] = []
            task = asyncio.create_task(write())
            await ends.wait()
            task.cancel()
            await asyncio.sleep(0.05)
            held.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await holding[0]
            async with asyncio.timeout(20), store.write() as txn:
                assert await txn.run(lambda txn: txn.tables()) == ["t"]

    run(main)


def test_a_call_that_is_cancelled_before_it_begins_ends_as_cancelled() -> None:
    async def main() -> None:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(gate.wait)
            task = asyncio.create_task(aio._done(threads.submit(lambda: 1)))
            await asyncio.sleep(0)
            task.cancel()
            try:
                with pytest.raises(asyncio.CancelledError):
                    await task
            finally:
                gate.set()

    asyncio.run(main())
