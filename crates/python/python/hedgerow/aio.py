"""The store for asyncio: nothing here blocks the event loop.

>>> import asyncio, tempfile
>>> from hedgerow import aio
>>> async def main(folder):
...     async with aio.Store(folder + "/store") as store:
...         async with store.write() as txn:
...             sizes = await txn.table("sizes", key=str, value=int)
...             await sizes.update({"awk": 700, "sed": 120})
...         async for name, size in store.items("sizes", key=str, value=int):
...             print(name, size)
>>> with tempfile.TemporaryDirectory() as folder:
...     asyncio.run(main(folder))
awk 700
sed 120

Each transaction has a thread of its own for as long as it lasts, in which its calls run one after
the other. ``run`` hands a whole function to that thread, which is cheaper than many small calls. A
task that is cancelled while it waits for another writer gives up its place; one that is cancelled
inside of a transaction aborts it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import hedgerow

from .types import Durability, Name, Pairs, Path

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
R = TypeVar("R")
P = ParamSpec("P")

BATCH = 512
"""So many pairs an iteration reads ahead, and no more: while one batch is worked on, the next one
is read, and then the reading waits."""

WAIT_SECONDS = 0.1


async def _done(future: Future[R]) -> R:
    """The result of a call in another thread. A call that has begun is waited for even if the task
    is cancelled, so that what it works on is at rest afterwards."""
    wrapped = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(wrapped)
    except asyncio.CancelledError:
        if not future.cancel():
            await asyncio.wait([wrapped])
        raise


class Store:
    """A store, opened at the beginning of an ``async with`` statement, or by ``open``."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._path = path
        self._options = options
        self._opened: hedgerow.Store | None = None
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="hedgerow")

    async def open(self) -> Self:
        """Opens it, and makes it if there is none."""
        if self._opened is None:
            opening = self._readers.submit(hedgerow.Store, self._path, **self._options)
            self._opened = await _done(opening)
        return self

    async def close(self) -> None:
        """Closes it."""
        if self._opened is not None:
            await _done(self._readers.submit(self._opened.close))
        self._readers.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def sync(self) -> hedgerow.Store:
        """The store itself, whose calls block."""
        if self._opened is None:
            raise hedgerow.ClosedError("the store is not open")
        return self._opened

    async def run(
        self, call: Callable[Concatenate[hedgerow.Store, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Calls a function with the store in another thread."""
        return await _done(self._readers.submit(call, self.sync, *args, **kwargs))

    def read(self, pin: Name | None = None) -> Transaction:
        """A read transaction, to be used with ``async with``."""
        return Transaction(lambda stop: self.sync.read(pin))

    def write(self, *, durability: Durability | None = None) -> Transaction:
        """The write transaction, to be used with ``async with``, which waits for other writers."""

        def begin(stop: threading.Event) -> hedgerow.Transaction:
            while not stop.is_set():
                try:
                    return self.sync.write(timeout=WAIT_SECONDS, durability=durability)
                except hedgerow.LockedError:
                    pass
            raise hedgerow.ClosedError("the task was cancelled")

        return Transaction(begin)

    async def items(
        self, table: Name, key: Any = None, value: Any = None, **options: Any
    ) -> AsyncIterator[tuple[Any, Any]]:
        """The pairs of a table, over one snapshot or what the options of ``Store.scan`` say."""
        stream: hedgerow.Stream[Any, Any] = await self.run(
            lambda store: store.scan(table, key, value, **options)
        )
        ahead = self._readers.submit(stream.take, BATCH)
        try:
            while batch := await _done(ahead):
                ahead = self._readers.submit(stream.take, BATCH)
                for pair in batch:
                    yield pair
        finally:
            if not ahead.cancel():
                await asyncio.wait([asyncio.wrap_future(ahead)])
            await _done(self._readers.submit(stream.close))

    async def follow(
        self, table: Name, key: Any = None, value: Any = None, *, interval: float = 0.05
    ) -> AsyncIterator[tuple[Any, Any, Any]]:
        """What changes in a table from now on: key, value before, value after."""
        old = await self.run(hedgerow.Store.read)
        try:
            while True:
                if self.sync.newest_commit == old.id:
                    await asyncio.sleep(interval)
                    continue
                new = await self.run(hedgerow.Store.read)
                changes: list[tuple[Any, Any, Any]] = []
                if table in old or table in new:
                    found = new.diff(old, table, key, value)
                    changes = await _done(self._readers.submit(list, found))
                old.abort()
                old = new
                for change in changes:
                    yield change
        finally:
            old.abort()


class Transaction:
    """A transaction; made by ``Store.read`` and ``Store.write``."""

    def __init__(self, begin: Callable[[threading.Event], hedgerow.Transaction]) -> None:
        self._begin = begin
        self._txn: hedgerow.Transaction | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-transaction")

    async def __aenter__(self) -> Self:
        stop = threading.Event()
        begun = self._thread.submit(self._begin, stop)
        try:
            self._txn = await asyncio.shield(asyncio.wrap_future(begun))
        except BaseException:
            stop.set()
            # A turn that was had all the same is given back.
            begun.add_done_callback(_abort)
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await _done(self._thread.submit(self.sync.__exit__, kind, error, trace))
        finally:
            self._thread.shutdown(wait=False)

    @property
    def sync(self) -> hedgerow.Transaction:
        """The transaction itself, whose calls block."""
        if self._txn is None:
            raise hedgerow.ClosedError("the transaction has not begun")
        return self._txn

    async def run(
        self,
        call: Callable[Concatenate[hedgerow.Transaction, P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Calls a function with the transaction in its thread."""
        return await _done(self._thread.submit(call, self.sync, *args, **kwargs))

    async def table(
        self, name: Name, key: Any = None, value: Any = None, *, duplicates: bool = False
    ) -> Table[Any, Any]:
        """Opens a table, as ``hedgerow.Transaction.table``."""

        def opened(txn: hedgerow.Transaction) -> hedgerow.Table[Any, Any]:
            return txn.table(name, key, value, duplicates=duplicates)

        return Table(self._thread, await self.run(opened))

    async def commit(self) -> None:
        """Commits."""
        await self.run(hedgerow.Transaction.commit)

    async def abort(self) -> None:
        """Ends the transaction without a trace."""
        await self.run(hedgerow.Transaction.abort)


def _abort(begun: Future[hedgerow.Transaction]) -> None:
    if not begun.cancelled() and begun.exception() is None:
        begun.result().abort()


class Table(Generic[K, V]):
    """A table of a transaction."""

    def __init__(self, thread: ThreadPoolExecutor, table: hedgerow.Table[K, V]) -> None:
        self._thread = thread
        self.sync = table
        """The table itself, whose calls block."""

    async def run(
        self,
        call: Callable[Concatenate[hedgerow.Table[K, V], P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Calls a function with the table in the transaction's thread."""
        return await _done(self._thread.submit(call, self.sync, *args, **kwargs))

    async def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value of a key, or ``default``."""
        found: V | D | None = await self.run(lambda table: table.get(key, default))
        return found

    async def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The values of many keys; ``None`` for absent ones."""
        return await self.run(lambda table: table.get_many(keys))

    async def put(self, key: K, value: V) -> None:
        """Stores a value."""
        await self.run(lambda table: table.__setitem__(key, value))

    async def add(self, key: K, value: V) -> bool:
        """Adds a pair to a table with duplicates; false if it was there."""
        return await self.run(lambda table: table.add(key, value))

    async def delete(self, key: K | slice) -> None:
        """Removes a key, or the keys of a slice."""
        await self.run(lambda table: table.__delitem__(key))

    async def update(self, pairs: Pairs[K, V] | Iterable[tuple[K, V]]) -> None:
        """Puts all pairs of a mapping or an iterable."""
        await self.run(lambda table: table.update(pairs))

    async def count(self, start: K | None = None, stop: K | None = None) -> int:
        """How many pairs have keys from ``start`` up to ``stop``."""
        return await self.run(lambda table: table.count(start, stop))

    async def items(
        self, start: K | None = None, stop: K | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[K, V]]:
        """The pairs whose keys lie from ``start`` up to ``stop``, read ahead in batches."""
        walk = await self.run(lambda table: iter(table.items(start, stop, reverse=reverse)))

        def take() -> list[tuple[K, V]]:
            return [pair for pair, _ in zip(walk, range(BATCH))]

        ahead = self._thread.submit(take)
        try:
            while batch := await _done(ahead):
                ahead = self._thread.submit(take)
                for pair in batch:
                    yield pair
        finally:
            if not ahead.cancel():
                await asyncio.wait([asyncio.wrap_future(ahead)])
