"""The stores for asyncio: nothing here blocks the event loop.

>>> import asyncio, tempfile
>>> from hedgerow import aio
>>> async def main(folder):
...     async with aio.Store(folder + "/store") as store:
...         async with store.write() as txn:
...             sizes = await txn.table("sizes", key=str, value=int)
...             await sizes.update({"awk": 700, "sed": 120})
...         async for name, size in store.items("sizes", key=str, value=int):
...             print(name, size)
...     async with aio.Log(folder + "/log") as log:
...         events = await log.keyspace("events", key=int, value=str)
...         await events.put(1, "start")
...         print(await events.get(1))
>>> with tempfile.TemporaryDirectory() as folder:
...     asyncio.run(main(folder))
awk 700
sed 120
start

A write transaction of a ``Store`` has a thread of its own for as long as it lasts, in which its
calls run one after the other; so has a connection of SQLite's. ``run`` hands a whole function to a
thread, which is cheaper than many small calls. A task that is cancelled while it waits for another
writer gives up its place; one that is cancelled inside of a transaction aborts it, and one that is
cancelled while it waits for a step or a statement ends that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import hedgerow

from .types import Durability, Name, Pairs, Path

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
R = TypeVar("R")
P = ParamSpec("P")
S = TypeVar("S", hedgerow.Store, hedgerow.Log)
M = TypeVar("M")
W = TypeVar("W", hedgerow.Batch, hedgerow.Snapshot, hedgerow.LogTransaction)

Change = tuple[Any, Any, Any]
Parameters = Sequence[Any] | dict[str, Any] | None

BATCH = 512
"""So many pairs an iteration reads ahead, and no more: while one batch is worked on, the next one
is read, and then the reading waits."""

THREADS = 8
"""So many calls of a store run at the same time, transactions of a ``Store`` aside; commits of a
``Log`` that do so share their flushes."""

WAIT_SECONDS = 0.1


class _Threads(ThreadPoolExecutor):
    """Threads that say what is closed when they are not there any more."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, thread_name_prefix=f"hedgerow {what}")
        self._what = what

    def submit(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Has a thread make a call."""
        try:
            return super().submit(call, *args, **kwargs)
        except RuntimeError:
            raise hedgerow.ClosedError(f"the {self._what} is closed") from None


async def _done(
    future: Future[R], *, stop: Callable[[], object] | None = None, must_run: bool = False
) -> R:
    """The result of a call in another thread. A call that has begun is waited for even if the task
    is cancelled, so that what it works on is at rest afterwards; ``stop`` has it end soon. One that
    has not begun never does, unless it ``must_run``."""
    wrapped = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(wrapped)
    except asyncio.CancelledError:
        while not wrapped.done() and (must_run or not future.cancel()):
            if stop is not None:
                stop()
            try:
                await asyncio.wait([wrapped], timeout=WAIT_SECONDS if stop else None)
            except asyncio.CancelledError:
                pass
        # A call that was cancelled here may not show as done yet.
        if wrapped.done() and not wrapped.cancelled():
            # Nobody else asks for it.
            wrapped.exception()
        raise


async def _ahead(
    threads: _Threads, take: Callable[[], list[R]], close: Callable[[], object]
) -> AsyncGenerator[R, None]:
    """The parts of what a call reads, one by one; the next batch is read meanwhile."""
    ahead = threads.submit(take)
    try:
        while batch := await _done(ahead):
            ahead = threads.submit(take)
            for part in batch:
                yield part
    finally:
        if not ahead.cancel():
            left = asyncio.wrap_future(ahead)
            left.add_done_callback(_take_note)
            await asyncio.wait([left])
        await _done(threads.submit(close), must_run=True)


def _taking(parts: Iterator[R]) -> Callable[[], list[R]]:
    return lambda: list(islice(parts, BATCH))


def _nothing() -> None:
    pass


def _until(stop: threading.Event, pairs: Iterable[R]) -> Iterator[R]:
    """The pairs, which may be endless, up to the time when nobody waits for them."""
    for pair in pairs:
        if stop.is_set():
            raise hedgerow.ClosedError("the task was cancelled")
        yield pair


class _Opened(Generic[S]):
    """What the stores of both engines have."""

    def __init__(self, kind: Callable[..., S], path: Path, options: dict[str, Any]) -> None:
        self._kind: Callable[..., S] = kind
        self._path = path
        self._options = options
        self._opened: S | None = None
        self._is_closed = False
        self._threads = _Threads(THREADS, "store")

    async def open(self) -> Self:
        """Opens it, and makes it if there is none."""
        if self._opened is None:
            opening = self._threads.submit(self._kind, self._path, **self._options)
            self._opened = await _done(opening)
        return self

    async def close(self) -> None:
        """Closes it. What waits for it ends with ``ClosedError``. Does nothing if it is closed."""
        is_open, self._is_closed = not self._is_closed, True
        if is_open and self._opened is not None:
            await _done(self._threads.submit(self._opened.close), must_run=True)
        self._threads.shutdown(wait=False)

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
    def sync(self) -> S:
        """The store itself, whose calls block."""
        if self._opened is None:
            raise hedgerow.ClosedError("the store is not open: use it in async with, or await open")
        return self._opened

    async def run(
        self, call: Callable[Concatenate[S, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Calls a function with the store in another thread."""
        return await _done(self._threads.submit(call, self.sync, *args, **kwargs))

    async def items(
        self, table: Name, key: Any = None, value: Any = None, **options: Any
    ) -> AsyncGenerator[tuple[Any, Any], None]:
        """The pairs of a table or keyspace, over one snapshot or what the options of ``scan``
        say."""
        stream: hedgerow.Stream[Any, Any] = await self.run(
            lambda store: store.scan(table, key, value, **options)
        )
        async with aclosing(_pieces(self._threads, stream)) as pieces:
            async for pair in pieces:
                yield pair

    async def follow(
        self, table: Name, key: Any = None, value: Any = None
    ) -> AsyncGenerator[Change, None]:
        """What changes in a table or keyspace from now on: key, value before, value after."""
        async with Follow(lambda: self.sync.follow(table=table)) as steps:
            async for step in steps:
                async with aclosing(steps.changes(step, None, key, value)) as changes:
                    async for change in changes:
                        yield change


async def _pieces(
    threads: _Threads, stream: hedgerow.Stream[Any, Any]
) -> AsyncGenerator[tuple[Any, Any], None]:
    async with aclosing(_ahead(threads, lambda: stream.take(BATCH), stream.close)) as pairs:
        async for pair in pairs:
            yield pair


class Store(_Opened[hedgerow.Store]):
    """A store, opened at the beginning of an ``async with`` statement, or by ``open``."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(hedgerow.Store, path, options)
        self._sql: Sql | None = None
        self._writing: tuple[_Writing, asyncio.Task[Any] | None] | None = None

    async def close(self) -> None:
        """Closes it. What waits for it ends with ``ClosedError``."""
        if self._sql is not None:
            await self._sql.close()
        await super().close()

    def read(self, pin: Name | None = None) -> Transaction:
        """A read transaction, to be used with ``async with``."""
        return Transaction(lambda stop: self.sync.read(pin))

    def write(self, *, durability: Durability | None = None) -> Transaction:
        """The write transaction, to be used with ``async with``, which waits for other writers: in
        a task that is one itself, ``LockedError`` says that this would have no end."""

        def begin(stop: threading.Event) -> hedgerow.Transaction:
            while not stop.is_set():
                try:
                    return self.sync.write(timeout=WAIT_SECONDS, durability=durability)
                except hedgerow.LockedError:
                    pass
            raise hedgerow.ClosedError("the task was cancelled")

        return _Writing(begin, self)

    def steps(self, name: Name | None = None, **options: Any) -> Follow[hedgerow.Transaction]:
        """The steps from one commit to a later one, to be used with ``async with``: see ``Follow``.
        Its options are those of ``hedgerow.Store.follow``."""
        return Follow(lambda: self.sync.follow(name, **options))

    async def sql(self, sql: str, parameters: Parameters = None) -> hedgerow.Rows:
        """Runs a statement of SQL and gives its rows, as ``hedgerow.Store.sql``. Statements come
        one after the other; for more at the same time each takes a ``connect``."""
        if self._sql is None:
            self._sql = self.connect()
        return await self._sql._alone(sql, parameters)

    def connect(self, *, timeout: float = 5.0) -> Sql:
        """A connection of SQLite's to the store, to be used with ``async with``: see ``Sql``."""
        return Sql(lambda: self.sync.connect(timeout=timeout))


class Log(_Opened[hedgerow.Log]):
    """A log-structured store, opened at the beginning of an ``async with`` statement, or by
    ``open``."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(hedgerow.Log, path, options)

    async def keyspace(self, name: Name, key: Any = None, value: Any = None) -> Keyspace[Any, Any]:
        """Opens a keyspace, and makes it if there is none, as ``hedgerow.Log.keyspace``."""
        opened: hedgerow.Keyspace[Any, Any] = await self.run(
            lambda log: log.keyspace(name, key, value)
        )
        return Keyspace(self._threads, opened)

    def batch(self, *, durability: Durability | None = None) -> Scope[hedgerow.Batch]:
        """Writes that are made together at the end of the ``async with`` statement, or not at
        all: ``batch[keyspace]`` takes them."""
        return Scope(self._threads, lambda: self.sync.batch(durability=durability))

    def snapshot(self, pin: Name | None = None) -> Scope[hedgerow.Snapshot]:
        """The store as it is now, or at the commit that ``pin`` names, to be used with ``async
        with``: ``snapshot[keyspace]`` reads it."""
        return Scope(self._threads, lambda: self.sync.snapshot(pin))

    def transaction(
        self, *, durability: Durability | None = None
    ) -> Scope[hedgerow.LogTransaction]:
        """An optimistic transaction, to be used with ``async with``: ``txn[keyspace]`` reads and
        writes, and the end raises ``ConflictError`` if what was read has changed."""
        return Scope(self._threads, lambda: self.sync.transaction(durability=durability))

    def steps(self, name: Name | None = None, **options: Any) -> Follow[hedgerow.Snapshot]:
        """The steps from one commit to a later one, to be used with ``async with``: see ``Follow``.
        Its options are those of ``hedgerow.Log.follow``."""
        return Follow(lambda: self.sync.follow(name, **options))


class Transaction:
    """A transaction; made by ``Store.read`` and ``Store.write``."""

    def __init__(self, begin: Callable[[threading.Event], hedgerow.Transaction]) -> None:
        self._begin = begin
        self._txn: hedgerow.Transaction | None = None
        self._thread = _Threads(1, "transaction")

    async def __aenter__(self) -> Self:
        stop = threading.Event()
        begun = self._thread.submit(self._begin, stop)
        waiting = asyncio.wrap_future(begun)
        try:
            self._txn = await asyncio.shield(waiting)
        except BaseException:
            stop.set()
            waiting.add_done_callback(_take_note)
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
            ending = self._thread.submit(self.sync.__exit__, kind, error, trace)
            await _done(ending, must_run=True)
        finally:
            self._thread.shutdown(wait=False)

    @property
    def sync(self) -> hedgerow.Transaction:
        """The transaction itself, whose calls block."""
        if self._txn is None:
            raise hedgerow.ClosedError("the transaction has not begun: use it in async with")
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


class _Writing(Transaction):
    """The write transaction of a store, which knows its task."""

    def __init__(
        self, begin: Callable[[threading.Event], hedgerow.Transaction], store: Store
    ) -> None:
        super().__init__(begin)
        self._store = store

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        match self._store._writing:
            case (writing, owner) if owner is task and writing._is_open():
                raise hedgerow.LockedError(
                    "this task has a write transaction already: end that first, or make a "
                    "savepoint in it"
                )
        await super().__aenter__()
        self._store._writing = (self, task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            # Where this one was committed before, another task may have the turn by now.
            match self._store._writing:
                case (writing, _) if writing is self:
                    self._store._writing = None

    def _is_open(self) -> bool:
        try:
            return self.sync.id > 0
        except hedgerow.ClosedError:
            return False


def _abort(begun: Future[hedgerow.Transaction]) -> None:
    if not begun.cancelled() and begun.exception() is None:
        begun.result().abort()


def _take_note(ended: asyncio.Future[Any]) -> None:
    """Asks for the exception that nobody waits for any more, which the event loop would report."""
    if not ended.cancelled():
        ended.exception()


class Scope(Generic[W]):
    """A batch, a snapshot or an optimistic transaction of a ``Log``: it gives keyspaces with
    ``[keyspace]``. At the end of the ``async with`` statement a batch and a transaction make their
    writes, after an exception none."""

    def __init__(self, threads: _Threads, begin: Callable[[], W]) -> None:
        self._threads = threads
        self._begin: Callable[[], W] = begin
        self._begun: W | None = None

    async def __aenter__(self) -> Self:
        self._begun = await _done(self._threads.submit(self._begin))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ending = self._threads.submit(self.sync.__exit__, kind, error, trace)
        await _done(ending, must_run=True)

    @property
    def sync(self) -> W:
        """What it is of the interface whose calls block."""
        if self._begun is None:
            raise hedgerow.ClosedError("it has not begun: use it in async with")
        return self._begun

    async def run(
        self, call: Callable[Concatenate[W, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Calls a function with it in another thread."""
        return await _done(self._threads.submit(call, self.sync, *args, **kwargs))

    def __getitem__(self, keyspace: Keyspace[K, V]) -> Keyspace[K, V]:
        return Keyspace(self._threads, self.sync[keyspace.sync])


class _Pairs(Generic[K, V]):
    """What a table and a keyspace have."""

    def __init__(self, threads: _Threads, pairs: Any) -> None:
        self._threads = threads
        self._pairs = pairs

    async def _call(self, call: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        return await _done(self._threads.submit(call, *args, **kwargs))

    async def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value of a key, or ``default``."""
        found: V | D | None = await self._call(self._pairs.get, key, default)
        return found

    async def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The values of many keys; ``None`` for absent ones."""
        found: list[V | None] = await self._call(self._pairs.get_many, keys)
        return found

    async def put(self, key: K, value: V) -> None:
        """Stores a value."""
        await self._call(self._pairs.__setitem__, key, value)

    async def delete(self, key: K | slice) -> None:
        """Removes a key, or the keys of a slice."""
        await self._call(self._pairs.__delitem__, key)

    async def update(self, pairs: Pairs[K, V] | Iterable[tuple[K, V]]) -> None:
        """Puts all pairs of a mapping or an iterable. Cancelling the task ends it between two
        pairs of an iterable."""
        stop = threading.Event()
        given = pairs if hasattr(pairs, "keys") else _until(stop, pairs)
        await _done(self._threads.submit(self._pairs.update, given), stop=stop.set)

    async def items(
        self,
        start: K | None = None,
        stop: K | None = None,
        *,
        prefix: K | None = None,
        reverse: bool = False,
    ) -> AsyncGenerator[tuple[K, V], None]:
        """The pairs whose keys lie from ``start`` up to ``stop``, or begin with ``prefix``, read
        ahead in batches."""
        pairs: Iterator[tuple[K, V]] = await self._call(
            lambda: iter(self._pairs.items(start, stop, prefix=prefix, reverse=reverse))
        )
        async with aclosing(_ahead(self._threads, _taking(pairs), _nothing)) as read:
            async for pair in read:
                yield pair


class Table(_Pairs[K, V]):
    """A table of a transaction."""

    @property
    def sync(self) -> hedgerow.Table[K, V]:
        """The table itself, whose calls block."""
        table: hedgerow.Table[K, V] = self._pairs
        return table

    async def run(
        self,
        call: Callable[Concatenate[hedgerow.Table[K, V], P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Calls a function with the table in the transaction's thread."""
        return await _done(self._threads.submit(call, self.sync, *args, **kwargs))

    async def add(self, key: K, value: V) -> bool:
        """Adds a pair to a table with duplicates; false if it was there."""
        return await self.run(lambda table: table.add(key, value))

    async def count(self, start: K | None = None, stop: K | None = None) -> int:
        """How many pairs have keys from ``start`` up to ``stop``."""
        return await self.run(lambda table: table.count(start, stop))


class Keyspace(_Pairs[K, V]):
    """A keyspace of a ``Log``; made by ``Log.keyspace``."""

    @property
    def sync(self) -> hedgerow.Keyspace[K, V]:
        """The keyspace itself, whose calls block."""
        keyspace: hedgerow.Keyspace[K, V] = self._pairs
        return keyspace

    async def run(
        self,
        call: Callable[Concatenate[hedgerow.Keyspace[K, V], P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Calls a function with the keyspace in another thread."""
        return await _done(self._threads.submit(call, self.sync, *args, **kwargs))


class Follow(Generic[M]):
    """Follows a store: an asynchronous iterator over the steps from one commit to a later one, as
    ``hedgerow.Follow``; made by ``steps``.

    Asking for the next step, or ``done``, says that the last one was dealt with. Cancelling a task
    that waits for a step ends the follower.
    """

    def __init__(self, begin: Callable[[], hedgerow.Follow[M]]) -> None:
        self._begin = begin
        self._begun: hedgerow.Follow[M] | None = None
        # One waits, and another one may have it end.
        self._threads = _Threads(2, "follower")

    async def __aenter__(self) -> Self:
        self._begun = await _done(self._threads.submit(self._begin))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await _done(self._threads.submit(self.sync.close), must_run=True)
        finally:
            self._threads.shutdown(wait=False)

    @property
    def sync(self) -> hedgerow.Follow[M]:
        """The follower itself, whose calls block."""
        if self._begun is None:
            raise hedgerow.ClosedError("the follower has not begun: use it in async with")
        return self._begun

    async def step(self, timeout: float | None = None) -> hedgerow.Step[M] | None:
        """The next step, once there is one; ``None`` if there is none for ``timeout`` seconds."""
        follow = self.sync
        step = self._threads.submit(follow.step, timeout)
        return await _done(step, stop=lambda: self._threads.submit(follow.close))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> hedgerow.Step[M]:
        step = await self.step()
        if step is None:
            raise StopAsyncIteration
        return step

    async def changes(
        self,
        step: hedgerow.Step[Any],
        table: Name | None = None,
        key: Any = None,
        value: Any = None,
    ) -> AsyncGenerator[Change, None]:
        """What is different in a table, as ``hedgerow.Step.changes``, read ahead in batches."""
        changes = await _done(self._threads.submit(step.changes, table, key, value))
        async with aclosing(_ahead(self._threads, _taking(changes), _nothing)) as read:
            async for change in read:
                yield change

    async def done(self) -> None:
        """Says that the last step was dealt with. Durable when this returns."""
        await _done(self._threads.submit(self.sync.done))


class Sql:
    """A connection of SQLite's to a store, as ``hedgerow.Sql``; made by ``Store.connect``.

    Calls come one after the other, in a thread of its own. A task that is cancelled while its
    statement runs ends that; a transaction that is open then stays so until ``rollback``, or until
    the connection is closed.
    """

    def __init__(self, connect: Callable[[], hedgerow.Sql]) -> None:
        self._connect = connect
        self._connected: hedgerow.Sql | None = None
        self._is_closed = False
        self._thread = _Threads(1, "connection")

    async def open(self) -> Self:
        """Opens it, which the first statement does otherwise."""
        await self.run(lambda sql: None)
        return self

    async def close(self) -> None:
        """Closes it. A transaction that is open leaves no trace. Does nothing if it is closed."""
        is_open, self._is_closed = not self._is_closed, True
        if is_open and self._connected is not None:
            await _done(self._thread.submit(self._connected.close), must_run=True)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(
        self, call: Callable[Concatenate[hedgerow.Sql, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Calls a function with the connection itself in its thread."""

        def run() -> R:
            if self._connected is None:
                self._connected = self._connect()
            return call(self._connected, *args, **kwargs)

        return await _done(self._thread.submit(run), stop=self._interrupt)

    def _interrupt(self) -> None:
        if self._connected is not None:
            self._connected.interrupt()

    async def _alone(self, sql: str, parameters: Parameters) -> hedgerow.Rows:
        """Runs a statement that leaves no transaction open."""

        def alone(connected: hedgerow.Sql) -> hedgerow.Rows:
            rows = connected.execute(sql, parameters)
            if connected.in_transaction:
                connected.execute("rollback")
                reason = "a transaction of several statements needs a connection: Store.connect"
                raise hedgerow.SqlError(reason)
            return rows

        return await self.run(alone)

    async def execute(self, sql: str, parameters: Parameters = None) -> hedgerow.Rows:
        """Runs a statement and gives its rows."""
        return await self.run(hedgerow.Sql.execute, sql, parameters)

    async def execute_many(
        self, sql: str, parameters: Iterable[Sequence[Any] | dict[str, Any]]
    ) -> int:
        """Runs a statement once for each of many parameters, in one transaction; answers how many
        rows it has changed."""
        return await self.run(hedgerow.Sql.execute_many, sql, parameters)

    async def script(self, sql: str) -> None:
        """Runs statements, one after the other."""
        await self.run(hedgerow.Sql.script, sql)
