"""Readers beside a writer. HEDGEROW_LONG=1 makes it a minute."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import hedgerow

SECONDS = 60 if "HEDGEROW_LONG" in os.environ else 2
READERS = 8
KEYS = 500


def test_readers_see_whole_commits(tmp_path: Path) -> None:
    """Each commit writes its number under every key, so that a reader finds one number only."""
    store = hedgerow.Store(tmp_path / "store", durability="none")
    with store.write() as txn:
        txn.table("t", key=int, value=int).update((n, 0) for n in range(KEYS))
    is_over = threading.Event()
    failures: list[str] = []
    reads = [0] * READERS

    def read(me: int) -> None:
        while not is_over.is_set() and not failures:
            with store.read() as txn:
                t = txn.table("t", key=int, value=int)
                number = t[random.randrange(KEYS)]
                views = txn.table("t", key=int, value=memoryview)
                seen = {*t.values(), *t.get_many(range(KEYS)), t.nth(KEYS // 2)[1]}
                if seen != {number} or len(views[0]) != 8 or t.count() != KEYS:
                    failures.append(f"{number}: {seen}")
            reads[me] += 1

    threads = [threading.Thread(target=read, args=(n,)) for n in range(READERS)]
    for thread in threads:
        thread.start()
    commits, begun = 0, time.monotonic()

    def lasts() -> bool:
        """For some time, and on a machine that is busy until enough was done."""
        passed = time.monotonic() - begun
        return passed < SECONDS or (passed < 100 and (commits <= 10 or min(reads) == 0))

    while not failures and lasts():
        commits += 1
        with store.write() as txn:
            t = txn.table("t", key=int, value=int)
            t.update((n, commits) for n in range(KEYS))
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert commits > 10 and min(reads) > 0
    store.close()


def test_one_transaction_in_many_threads(tmp_path: Path) -> None:
    """Calls of one write transaction, and of one table's iterator, come one after the other."""
    sys.setswitchinterval(1e-5)
    try:
        with hedgerow.Store(tmp_path / "store", durability="none") as store:
            with store.write() as txn:
                t = txn.table("t", key=int)

                def fill(me: int) -> None:
                    for n in range(300):
                        t[n * READERS + me] = b""
                        assert n * READERS + me in t
                        len(t)

                threads = [threading.Thread(target=fill, args=(n,)) for n in range(READERS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert list(t) == list(range(300 * READERS))
            assert store.check() == []
    finally:
        sys.setswitchinterval(0.005)


def test_closing_beside_readers_is_an_error_for_them(tmp_path: Path) -> None:
    with hedgerow.Store(tmp_path / "store", durability="none") as store:
        with store.write() as txn:
            txn.table("t", key=int).update((n, b"x") for n in range(20_000))
        for _ in range(20):
            txn = store.read()
            t = txn.table("t", key=int)
            seen: list[str] = []

            def read() -> None:
                try:
                    while True:
                        t[5]
                        len(t)
                except hedgerow.ClosedError:
                    seen.append("closed")

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.002)
            txn.abort()
            for thread in threads:
                thread.join()
            assert seen == ["closed"] * 3


def test_closing_ends_the_waiting_for_a_write_transaction(tmp_path: Path) -> None:
    store = hedgerow.Store(tmp_path / "store")
    said: list[str] = []

    def wait(timeout: float | None) -> None:
        try:
            store.write(timeout=timeout).abort()
        except hedgerow.ClosedError as error:
            said.append(str(error))

    waiting = [threading.Thread(target=wait, args=(timeout,)) for timeout in (None, 1000.0)]
    with store.write() as txn:
        txn.table("t")[b"a"] = b"1"
        for thread in waiting:
            thread.start()
        time.sleep(0.1)
        store.close()
        for thread in waiting:
            thread.join(30)
        assert said == 2 * ["the store is closed"]
    with hedgerow.Store(tmp_path / "store") as again, again.read() as reader:
        assert reader["t"][b"a"] == b"1"


def test_threads_that_share_an_iterator_get_whole_pairs(tmp_path: Path) -> None:
    """A thread that comes while another one reads ahead is refused."""
    with hedgerow.Store(tmp_path / "store", durability="none") as store:
        with store.write() as txn:
            txn.table("t").update([(b"%09d" % n, b"v%09d" % n) for n in range(100_000)])
        with store.read() as txn:
            pairs, found = iter(txn["t"].items()), []
            begin = threading.Barrier(4)

            def take() -> None:
                begin.wait()
                while True:
                    try:
                        pair = next(pairs, None)
                    except RuntimeError:
                        continue
                    if pair is None:
                        return
                    found.append(pair)

            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(value == b"v" + key for key, value in found)
            assert len({key for key, _ in found}) == len(found) > 90_000


def test_each_pair_is_taken_once(tmp_path: Path) -> None:
    sys.setswitchinterval(1e-5)
    try:
        with hedgerow.Store(tmp_path / "store", durability="none") as store, store.write() as txn:
            t = txn.table("t", key=int, value=int)
            t.update((n, n) for n in range(3_000))
            taken: list[int] = []

            def take(me: int) -> None:
                mine = []
                try:
                    while len(t) > 1_000:
                        mine.append(t.popitem(last=me % 2 == 0)[0])
                except KeyError:
                    pass  # Others have taken the rest.
                for n in range(3_000):
                    found = t.pop(n, None)
                    if found is not None:
                        mine.append(found)
                taken.extend(mine)

            threads = [threading.Thread(target=take, args=(n,)) for n in range(READERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(taken) == list(range(3_000))
    finally:
        sys.setswitchinterval(0.005)


def test_a_thread_that_writes_is_told_of_its_own_transaction(tmp_path: Path) -> None:
    """Also if another one has just ended its own."""
    store = hedgerow.Store(tmp_path / "store", durability="none")
    others: list[str] = []
    end = time.monotonic() + SECONDS

    def write() -> None:
        while time.monotonic() < end:
            with store.write():
                # Whoever had the turn before comes to its own end meanwhile.
                time.sleep(0.0005)
                try:
                    store.write(timeout=0)
                except hedgerow.LockedError as error:
                    if "this thread has a write transaction" not in str(error):
                        others.append(str(error))

    threads = [threading.Thread(target=write) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not others, others[0]
    store.close()


INTERPRETERS = """
try:
    import _interpreters as interpreters
    make, run = lambda: interpreters.create("legacy"), interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    make, run = interpreters.create, interpreters.run_string

code = '''
import sys
try:
    import hedgerow
except ImportError as error:
    print(error)
else:
    del sys.modules["hedgerow"], sys.modules["hedgerow._hedgerow"]
    import hedgerow
    print("imported")
'''
first, second = make(), make()
for interpreter in (first, second, first):
    run(interpreter, code)
interpreters.destroy(first)
run(second, code)
exec(code)
"""


def test_one_interpreter_of_a_process_imports_it() -> None:
    """In another one the classes of its errors and of datetimes would be those of the first."""
    command = [sys.executable, "-W", "ignore", "-c", INTERPRETERS]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    said = out.stdout.splitlines()
    assert [line.startswith("another interpreter of this process") for line in said] == [
        False, True, False, True, True,
    ], said
    assert said[0] == said[2] == "imported"
