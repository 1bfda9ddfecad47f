"""The store for asyncio."""

from __future__ import annotations

import asyncio
import doctest
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import aio


def run(tmp_path: Path, main: Callable[[aio.Store], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with aio.Store(tmp_path / "store", durability="none") as store:
            await main(store)

    asyncio.run(opened())


def test_the_docstring_runs() -> None:
    assert doctest.testmod(aio).failed == 0


def test_transactions_commit_and_abort(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async with store.write() as txn:
            t = await txn.table("t", key=int, value=str)
            await t.put(1, "a")
            await t.update((n, str(n)) for n in range(10, 2000))
            await t.delete(slice(1000, None))
            assert await t.get(1) == "a" and await t.get(5) is None
            assert await t.get_many([1, 5]) == ["a", None]
        with pytest.raises(RuntimeError):
            async with store.write() as txn:
                t = await txn.table("t", key=int, value=str)
                await t.put(1, "b")
                raise RuntimeError
        async with store.read() as txn:
            t = await txn.table("t", key=int, value=str)
            assert await t.count() == 991 and await t.get(1) == "a"
            assert [key async for key, _ in t.items(500)] == list(range(500, 1000))
            assert await txn.run(lambda txn: txn.tables()) == ["t"]
        assert len([0 async for _ in store.items("t", int, str)]) == 991

    run(tmp_path, main)


def test_the_loop_goes_on_while_a_writer_waits(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        order: list[Any] = []

        async def write(name: str) -> None:
            async with store.write() as txn:
                order.append(name)
                t = await txn.table("t")
                await t.put(name.encode(), b"")
                # Of a loop that stands still while the others wait this takes longer.
                async with asyncio.timeout(4):
                    enough = ticks + 5
                    while ticks < enough:
                        await asyncio.sleep(0.01)
                order.append(name)

        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(write(str(n)) for n in range(5)))
        ticking.cancel()
        assert order[::2] == order[1::2] and len(order) == 10
        assert ticks > 20

    run(tmp_path, main)


def test_a_waiting_task_can_be_cancelled(tmp_path: Path) -> None:
    reported: list[dict[str, Any]] = []

    async def main(store: aio.Store) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        async with store.write() as txn:
            await txn.table("t")

            async def wait() -> None:
                async with store.write():
                    raise AssertionError("two writers")

            task = asyncio.create_task(wait())
            await asyncio.sleep(0.05)
            task.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 5
            # The thread that waited for the writer ends, too, and the loop has nothing to report.
            threads = "hedgerow transaction"
            while sum(thread.name.startswith(threads) for thread in threading.enumerate()) > 1:
                await asyncio.sleep(0.01)
            del task
            await asyncio.sleep(0.05)
            gc.collect()
        # The turn that the cancelled task may have had is given back.
        async with asyncio.timeout(10):
            async with store.write() as txn:
                await txn.table("t")

    run(tmp_path, main)
    assert reported == []


def test_a_task_does_not_wait_for_itself(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async with store.write() as txn:
            with pytest.raises(hedgerow.LockedError, match="this task has"):
                async with store.write():
                    raise AssertionError("two writers")
            await txn.commit()
            async with store.write() as other:
                await other.table("t")
        async with store.write() as txn:
            assert await txn.run(lambda txn: txn.tables()) == ["t"]

    run(tmp_path, main)


def test_an_endless_update_can_be_cancelled(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def endless() -> Iterator[tuple[int, bytes]]:
            loop.call_soon_threadsafe(begun.set)
            for n in count():
                yield n % 100, b""

        async def write() -> None:
            async with store.write() as txn:
                t = await txn.table("t", key=int)
                await t.update(endless())

        task = asyncio.create_task(write())
        await begun.wait()
        task.cancel()
        async with asyncio.timeout(30):
            with pytest.raises(asyncio.CancelledError):
                await task
        async with store.read() as txn:
            assert await txn.run(lambda txn: txn.tables()) == []

    run(tmp_path, main)


def test_cancelling_inside_a_transaction_aborts_it(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async def write() -> None:
            async with store.write() as txn:
                t = await txn.table("t", key=int)
                for n in range(1_000_000):
                    await t.put(n, b"")

        task = asyncio.create_task(write())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with store.read() as txn:
            assert await txn.run(lambda txn: txn.tables()) == []

    run(tmp_path, main)


def test_iteration_reads_one_batch_ahead_and_ends_early(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async with store.write() as txn:
            t = await txn.table("t", key=int)
            await t.update((n, b"") for n in range(10_000))
        seen = 0
        items = store.items("t", int)
        async for _ in items:
            seen += 1
            if seen == 700:
                break
        await items.aclose()
        assert store.sync.readers() == []

    run(tmp_path, main)


def test_an_error_of_an_iteration_comes_once(tmp_path: Path) -> None:
    """Its reader gets it, and the loop has nothing to report besides."""
    reported: list[dict[str, Any]] = []

    async def main(store: aio.Store) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        async with store.write() as txn:
            table = await txn.table("t")
            await table.update((b"%05d" % n, b"\xff") for n in range(2 * aio.BATCH))
        with pytest.raises(ValueError, match="another type"):
            async for _ in store.items("t", value=str):
                pass
        # What fails while it is read ahead, nobody comes to see.
        async with store.write() as txn:
            table = await txn.table("t")
            await table.update((b"%05d" % n, b"fine") for n in range(aio.BATCH))
        async for _ in store.items("t", value=str):
            await asyncio.sleep(0.05)
            break
        await asyncio.sleep(0.05)
        gc.collect()

    run(tmp_path, main)
    gc.collect()
    assert reported == []


def test_following(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async def write() -> None:
            for n in range(20):
                async with store.write() as txn:
                    t = await txn.table("t", int, int)
                    await t.put(0, n)

        task = asyncio.create_task(write())
        last = None
        async with asyncio.timeout(20):
            async for key, before, after in store.follow("t", int, int):
                assert before == last or last is None
                last = after
                if after == 19:
                    break
        await task

    run(tmp_path, main)


def test_the_store_has_to_be_open(tmp_path: Path) -> None:
    with pytest.raises(hedgerow.ClosedError):
        aio.Store(tmp_path / "store").sync


def test_closing_twice_does_nothing(tmp_path: Path) -> None:
    async def main(store: aio.Store) -> None:
        async with store.connect() as sql:
            await sql.execute("create table t(a)")
            await sql.close()
        async with aio.Log(tmp_path / "log") as log:
            await log.close()
        await store.close()
        await store.close()
        with pytest.raises(hedgerow.ClosedError):
            await store.run(lambda store: store.stat())

    run(tmp_path, main)
