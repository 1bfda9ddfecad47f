"""Measures the module beside py-lmdb, plyvel, sqlite3 and dbm, checking every answer.

    python bench.py [--json] [--entries N] [--only NAME,...]

Peers that are not installed are left out. Each number is the best of five rounds, in nanoseconds of
the processor for an operation, so that a busy machine matters little. The entries have 16-byte keys
in random order and 100-byte values; commits are not flushed, so that it is the interface that is
measured. The objects that a subject is given lie in memory in the order in which it is given them,
as those lie that a program has just made: else waiting for them is the most part of the numbers.

py-lmdb's cffi form is measured where HEDGEROW_BENCH_CFFI names the folder in which it was built:

    LMDB_FORCE_CFFI=1 pip install --no-binary lmdb --target FOLDER lmdb
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

ROUNDS = 5
BATCH = 64
GETS = 200_000

# A workload, what it is divided by, the least factor, and the peers that it is held against.
GOALS = [
    ("get", 1.5, ("py-lmdb", "py-lmdb cffi")),
    ("iterate", 1.5, ("py-lmdb", "py-lmdb cffi")),
    ("get many", 3.0, ("py-lmdb", "py-lmdb cffi")),
    ("load", 1.2, ("py-lmdb", "py-lmdb cffi")),
    ("count", 1000.0, ("py-lmdb", "py-lmdb cffi", "plyvel", "sqlite3")),
]
ARROW_GOAL_NS = 40.0

Pair = tuple[bytes, bytes]


class Subject:
    """A store that is measured."""

    def __init__(self, folder: str, module: Any) -> None:
        self.path = os.path.join(folder, "store")
        self.open(module)

    @staticmethod
    def module() -> Any:
        """Imports what it needs."""
        raise NotImplementedError

    def open(self, module: Any) -> None:
        """Makes a store."""
        raise NotImplementedError

    def load(self, pairs: list[Pair]) -> None:
        """Puts pairs, which are sorted, in one transaction."""
        raise NotImplementedError

    def reading(self) -> None:
        """Begins to read."""

    def get(self, keys: list[bytes]) -> int:
        """Gets keys one by one; answers the number of bytes."""
        raise NotImplementedError

    def get_many(self, keys: list[bytes]) -> int:
        """The same in batches."""
        raise NotImplementedError

    def iterate(self) -> int:
        """Goes through all pairs."""
        raise NotImplementedError

    def count(self, low: bytes, high: bytes) -> int:
        """Counts the keys of a range."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes it."""


class Hedgerow(Subject):
    @staticmethod
    def module() -> Any:
        return importlib.import_module("hedgerow")

    def open(self, module: Any) -> None:
        self.store = module.Store(self.path, durability="none")

    def load(self, pairs: list[Pair]) -> None:
        with self.store.write() as txn:
            txn.table("t").update(pairs)

    def reading(self) -> None:
        self.txn = self.store.read()
        self.table = self.txn["t"]

    def get(self, keys: list[bytes]) -> int:
        table, total = self.table, 0
        for key in keys:
            total += len(table[key])
        return total

    def get_many(self, keys: list[bytes]) -> int:
        table, total = self.table, 0
        for at in range(0, len(keys), BATCH):
            for value in table.get_many(keys[at : at + BATCH]):
                total += len(value or b"")
        return total

    def iterate(self) -> int:
        total = 0
        for key, value in self.table.items():
            total += len(value)
        return total

    def count(self, low: bytes, high: bytes) -> int:
        return int(self.table.count(low, high))

    def arrow(self) -> int:
        """All pairs as an Arrow stream."""
        pyarrow = importlib.import_module("pyarrow")
        reader = pyarrow.RecordBatchReader.from_stream(self.table.items())
        return sum(batch.num_rows for batch in reader)

    def close(self) -> None:
        self.txn.abort()
        self.store.close()


class Lmdb(Subject):
    @staticmethod
    def module() -> Any:
        os.environ["LMDB_FORCE_CPYTHON"] = "1"
        return importlib.import_module("lmdb")

    def open(self, module: Any) -> None:
        self.env = module.open(self.path, map_size=4 << 30, sync=False, subdir=False)

    def load(self, pairs: list[Pair]) -> None:
        with self.env.begin(write=True) as txn:
            consumed, added = txn.cursor().putmulti(pairs)
            assert added == len(pairs)

    def reading(self) -> None:
        self.txn = self.env.begin()

    def get(self, keys: list[bytes]) -> int:
        txn, total = self.txn, 0
        for key in keys:
            total += len(txn.get(key))
        return total

    def get_many(self, keys: list[bytes]) -> int:
        cursor, total = self.txn.cursor(), 0
        for at in range(0, len(keys), BATCH):
            for _, value in cursor.getmulti(keys[at : at + BATCH]):
                total += len(value)
        return total

    def iterate(self) -> int:
        total = 0
        for key, value in self.txn.cursor():
            total += len(value)
        return total

    def count(self, low: bytes, high: bytes) -> int:
        cursor, count = self.txn.cursor(), 0
        if cursor.set_range(low):
            for key in cursor.iternext(values=False):
                if key >= high:
                    break
                count += 1
        return count

    def close(self) -> None:
        self.txn.abort()
        self.env.close()


class LmdbCffi(Lmdb):
    @staticmethod
    def module() -> Any:
        os.environ["LMDB_FORCE_CFFI"] = "1"
        sys.path.insert(0, os.environ["HEDGEROW_BENCH_CFFI"])
        return importlib.import_module("lmdb")


class Plyvel(Subject):
    @staticmethod
    def module() -> Any:
        return importlib.import_module("plyvel")

    def open(self, module: Any) -> None:
        self.db = module.DB(self.path, create_if_missing=True)

    def load(self, pairs: list[Pair]) -> None:
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def get(self, keys: list[bytes]) -> int:
        db, total = self.db, 0
        for key in keys:
            total += len(db.get(key))
        return total

    get_many = get

    def iterate(self) -> int:
        return sum(len(value) for _, value in self.db.iterator())

    def count(self, low: bytes, high: bytes) -> int:
        walk: Iterator[Any] = self.db.iterator(start=low, stop=high, include_value=False)
        return sum(1 for _ in walk)

    def close(self) -> None:
        self.db.close()


class Sqlite(Subject):
    @staticmethod
    def module() -> Any:
        return importlib.import_module("sqlite3")

    def open(self, module: Any) -> None:
        self.db = module.connect(self.path, isolation_level=None)
        self.db.execute("pragma synchronous = off")
        self.db.execute("create table t (k blob primary key, v blob) without rowid")

    def load(self, pairs: list[Pair]) -> None:
        self.db.execute("begin")
        self.db.executemany("insert into t values (?, ?)", pairs)
        self.db.execute("commit")

    def get(self, keys: list[bytes]) -> int:
        run, total = self.db.execute, 0
        for key in keys:
            total += len(run("select v from t where k = ?", (key,)).fetchone()[0])
        return total

    def get_many(self, keys: list[bytes]) -> int:
        query = f"select v from t where k in ({','.join('?' * BATCH)})"
        total = 0
        for at in range(0, len(keys), BATCH):
            total += sum(len(value) for (value,) in self.db.execute(query, keys[at : at + BATCH]))
        return total

    def iterate(self) -> int:
        return sum(len(value) for _, value in self.db.execute("select k, v from t"))

    def count(self, low: bytes, high: bytes) -> int:
        found = self.db.execute("select count(*) from t where k >= ? and k < ?", (low, high))
        return int(found.fetchone()[0])

    def close(self) -> None:
        self.db.close()


class Dbm(Subject):
    @staticmethod
    def module() -> Any:
        return importlib.import_module("dbm.gnu")

    def open(self, module: Any) -> None:
        self.db = module.open(self.path, "nf")

    def load(self, pairs: list[Pair]) -> None:
        db = self.db
        for key, value in pairs:
            db[key] = value

    def get(self, keys: list[bytes]) -> int:
        db, total = self.db, 0
        for key in keys:
            total += len(db[key])
        return total

    get_many = get

    def iterate(self) -> int:
        db, total = self.db, 0
        key = db.firstkey()
        while key is not None:
            total += len(db[key])
            key = db.nextkey(key)
        return total

    def count(self, low: bytes, high: bytes) -> int:
        db, count = self.db, 0
        key = db.firstkey()
        while key is not None:
            count += low <= key < high
            key = db.nextkey(key)
        return count

    def close(self) -> None:
        self.db.close()


SUBJECTS: dict[str, type[Subject]] = {
    "hedgerow": Hedgerow,
    "py-lmdb": Lmdb,
    "py-lmdb cffi": LmdbCffi,
    "plyvel": Plyvel,
    "sqlite3": Sqlite,
    "dbm": Dbm,
}


def best(run: Callable[[], int], expected: int, rounds: int = ROUNDS) -> float:
    """The shortest time in nanoseconds; the answer is checked."""
    times = []
    for _ in range(rounds):
        gc.collect()
        began = time.process_time_ns()
        found = run()
        times.append(time.process_time_ns() - began)
        if found != expected:
            raise SystemExit(f"{run}: {found} was answered, not {expected}")
    return float(min(times))


def copy(string: bytes) -> bytes:
    """Another object of the same content."""
    return bytes(bytearray(string))


def measure(name: str, entries: int) -> dict[str, float] | None:
    """The times of a subject, by workload; ``None`` if it cannot be had."""
    try:
        module = SUBJECTS[name].module()
    except Exception as error:  # whatever a half installed package raises
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None
    draw = random.Random(7)
    made = sorted((b"%016x" % draw.getrandbits(64), b"%0100d" % n) for n in range(entries))
    keys = [copy(key) for key, _ in draw.sample(made, min(GETS, entries) // BATCH * BATCH)]
    pairs = [(copy(key), copy(value)) for key, value in made]
    del made
    low, high = pairs[0][0], pairs[-1][0] + b"\0"
    folder = tempfile.mkdtemp()
    gc.freeze()
    try:
        found = {"load": math.inf}
        for n in range(ROUNDS):
            gc.collect()
            home = os.path.join(folder, str(n))
            os.mkdir(home)
            subject = SUBJECTS[name](home, module)
            began = time.process_time_ns()
            subject.load(pairs)
            found["load"] = min(found["load"], (time.process_time_ns() - began) / entries)
            subject.reading()
            if n < ROUNDS - 1:
                subject.close()
                shutil.rmtree(home)
        size = 100
        found["get"] = best(lambda: subject.get(keys), size * len(keys)) / len(keys)
        found["get many"] = best(lambda: subject.get_many(keys), size * len(keys)) / len(keys)
        found["iterate"] = best(subject.iterate, size * entries) / entries
        # Whole counts, whose number the goal names.
        found["count"] = best(lambda: subject.count(low, high), entries)
        if isinstance(subject, Hedgerow) and has_arrow():
            found["arrow"] = best(subject.arrow, entries) / entries
        subject.close()
        return found
    finally:
        shutil.rmtree(folder)


def has_arrow() -> bool:
    module = importlib.import_module("hedgerow")
    found = importlib.util.find_spec("pyarrow")
    return found is not None and hasattr(module.View, "__arrow_c_stream__")


def apart(name: str, entries: int) -> dict[str, float] | None:
    """Measures in a process of its own, so that nothing of one subject is in another's way."""
    command = [sys.executable, __file__, "--entries", str(entries), "--measure", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.stdout)
    found: dict[str, float] | None = json.loads(done.stdout)
    return found


def verdicts(times: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """The goals, and whether they are met."""
    own, rows = times["hedgerow"], []
    for workload, goal, peers in GOALS:
        for peer in peers:
            if peer in times:
                factor = times[peer][workload] / own[workload]
                met = factor >= goal
                rows.append({"workload": workload, "beside": peer, "factor": round(factor, 2),
                             "goal": goal, "met": met})
    if "arrow" in own:
        met = own["arrow"] <= ARROW_GOAL_NS
        rows.append({"workload": "arrow", "beside": None, "factor": round(own["arrow"], 1),
                     "goal": ARROW_GOAL_NS, "met": met})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print for programs")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--only", help="names of subjects, with commas")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.entries)))
        return
    names = args.only.split(",") if args.only else list(SUBJECTS)
    found = {name: apart(name, args.entries) for name in names}
    times = {name: row for name, row in found.items() if row is not None}
    rows = verdicts(times) if "hedgerow" in times else []
    if args.json:
        print(json.dumps({"entries": args.entries, "nanoseconds": times, "goals": rows}, indent=1))
        return
    workloads = ["load", "get", "get many", "iterate", "count"]
    print(f"{'ns':14}" + "".join(f"{workload:>14}" for workload in workloads))
    for name, row in times.items():
        print(f"{name:14}" + "".join(f"{row[workload]:14,.0f}" for workload in workloads))
    for row in rows:
        met = "met" if row["met"] else "NOT met"
        beside = f"times {row['beside']}" if row["beside"] else "ns a pair"
        print(f"{row['workload']:9} {row['factor']:>10} {beside:20} goal {row['goal']:<8} {met}")


if __name__ == "__main__":
    main()
