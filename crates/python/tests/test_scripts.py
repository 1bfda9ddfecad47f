"""The scripts of ``testdata`` on both engines: ``crates/scripts`` says what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hedgerow
import pytest

SCRIPTS = sorted((Path(__file__).parents[3] / "testdata").glob("*.txt"))
Pairs = list[tuple[bytes, bytes]]
Ends = tuple[bytes | None, bytes | None]


def data(word: str) -> bytes:
    """The bytes that a word of a script stands for."""
    if word == '""':
        return b""
    text, star, times = word.rpartition("*")
    if star and times.isdigit():
        return data(text) * int(times)
    read = re.sub(r"\\(..)", lambda digits: chr(int(digits[1], 16)), word)
    return read.encode("latin-1")


def shown(value: bytes) -> str:
    """Bytes as a script shows them."""
    if not value:
        return '""'
    if len(value) >= 40 and value.count(value[:1]) == len(value):
        return f"{shown(value[:1])}*{len(value)}"
    return "".join(
        chr(byte) if 0x20 < byte < 0x7F and byte not in b'\\*"#' else f"\\{byte:02x}"
        for byte in value
    )


def lines(pairs: Pairs) -> list[str]:
    return [f"{shown(key)} {shown(value)}" for key, value in pairs] or ["(none)"]


def ends(words: list[str]) -> Ends:
    low, high = (None if word == "*" else data(word) for word in words or ["*", "*"])
    return low, high


class Tree:
    """The engine tree."""

    lacks = frozenset({"orders"})

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = hedgerow.Store(path, durability="none")
        self.name, self.options = "main", dict[str, Any]()
        self.txn: hedgerow.Transaction | None = None
        self.savepoints = list[hedgerow.Savepoint]()
        self.kept: hedgerow.Transaction | None = None
        self.old = False
        self.use("main")

    def use(self, name: str, *options: str) -> None:
        self.name = name
        self.options = {"duplicates": True} if "duplicates" in options else {}
        self.change(lambda table: None)

    def change(self, change: Callable[[Any], None]) -> None:
        if self.txn is not None:
            change(self.txn.table(self.name, **self.options))
            return
        with self.store.write() as txn:
            change(txn.table(self.name, **self.options))

    def read(self, read: Callable[[Any], list[str]]) -> list[str]:
        txn = self.kept if self.old else self.txn
        if txn is not None:
            return read(txn[self.name])
        with self.store.read() as txn:
            return read(txn[self.name])

    def put(self, key: bytes, value: bytes) -> None:
        def change(table: Any) -> None:
            if self.options.get("duplicates"):
                table.add(key, value)
            else:
                table[key] = value

        self.change(change)

    def delete(self, key: bytes) -> None:
        self.change(lambda table: table.pop(key, None))

    def delete_range(self, low: bytes | None, high: bytes | None) -> None:
        self.change(lambda table: table.__delitem__(slice(low, high)))

    def get(self, key: bytes) -> list[str]:
        return self.read(lambda table: [shown(v) for v in [table.get(key)] if v is not None])

    def scan(self, low: bytes | None, high: bytes | None, back: bool) -> list[str]:
        return self.read(lambda table: lines(list(table.items(low, high, reverse=back))))

    def count(self, low: bytes | None, high: bytes | None) -> list[str]:
        return self.read(lambda table: [str(table.count(low, high))])

    def rank(self, key: bytes) -> list[str]:
        return self.read(lambda table: [str(table.rank(key))])

    def nth(self, n: int) -> list[str]:
        return self.read(lambda table: lines(list(table.at[n : n + 1])))

    def begin(self) -> None:
        self.txn = self.store.write()

    def end(self, commits: bool) -> None:
        assert self.txn is not None
        self.txn.commit() if commits else self.txn.abort()
        self.txn, self.savepoints = None, []

    def savepoint(self, verb: str) -> None:
        assert self.txn is not None
        if verb == "savepoint":
            self.savepoints.append(self.txn.savepoint())
        elif verb == "rollback":
            self.savepoints.pop().rollback()
        else:
            self.savepoints.pop().release()

    def snapshot(self) -> None:
        self.kept = self.store.read()

    def reopen(self) -> None:
        if self.kept is not None:
            self.kept.abort()
        self.kept = None
        self.store.close()
        self.store = hedgerow.Store(self.path)

    def check(self) -> list[str]:
        return self.store.check() or ["sound"]


class Log(Tree):
    """The engine lsm."""

    lacks = frozenset({"counts", "duplicates", "nested", "orders"})

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = hedgerow.Log(path, durability="none")
        self.name, self.old = "main", False
        self.log_txn: hedgerow.LogTransaction | None = None
        self.shot: hedgerow.Snapshot | None = None

    def use(self, name: str, *options: str) -> None:
        self.name = name

    def change(self, change: Callable[[Any], None]) -> None:
        space = self.db.keyspace(self.name)
        change(space if self.log_txn is None else self.log_txn[space])

    def read(self, read: Callable[[Any], list[str]]) -> list[str]:
        space = self.db.keyspace(self.name)
        if self.old and self.shot is not None:
            return read(self.shot[space])
        return read(space if self.log_txn is None else self.log_txn[space])

    def put(self, key: bytes, value: bytes) -> None:
        self.change(lambda space: space.__setitem__(key, value))

    def delete(self, key: bytes) -> None:
        def change(space: Any) -> None:
            if key in space:
                del space[key]

        self.change(change)

    def begin(self) -> None:
        self.log_txn = self.db.transaction()

    def end(self, commits: bool) -> None:
        assert self.log_txn is not None
        self.log_txn.commit() if commits else self.log_txn.abort()
        self.log_txn = None

    def snapshot(self) -> None:
        self.shot = self.db.snapshot()

    def reopen(self) -> None:
        self.db.close()
        self.db = hedgerow.Log(self.path)

    def check(self) -> list[str]:
        return self.db.check() or ["sound"]


def run(face: Tree, line: str) -> list[str]:
    """Runs an operation; what it prints."""
    verb, *words = line.split()
    match verb:
        case "table":
            face.use(*words)
        case "put":
            face.put(data(words[0]), data(words[1]))
        case "fill":
            for n in range(int(words[1])):
                face.put(data(words[0]) + f"{n:06}".encode(), data(words[2]))
        case "delete":
            face.delete(data(words[0]))
        case "delete-range":
            face.delete_range(*ends(words))
        case "get":
            return face.get(data(words[0])) or ["(none)"]
        case "scan" | "scan-back":
            return face.scan(*ends(words), verb == "scan-back")
        case "count":
            return face.count(*ends(words))
        case "rank":
            return face.rank(data(words[0]))
        case "nth":
            return face.nth(int(words[0]))
        case "begin" | "snapshot" | "reopen" | "check":
            return getattr(face, verb)() or []
        case "commit" | "abort":
            face.end(verb == "commit")
        case "savepoint" | "rollback" | "release":
            face.savepoint(verb)
        case "old" | "new":
            face.old = verb == "old"
        case _:
            raise AssertionError(line)
    return []


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The blocks of a script: operations, and what they print."""
    text = re.sub(r"^(#|needs:).*\n", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\n+", text.strip()):
        operations, output = f"{block}\n".split("----\n")
        yield operations.splitlines(), output.splitlines()


@pytest.mark.parametrize("engine", [Tree, Log])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path, engine: type[Tree], tmp_path: Path) -> None:
    text = script.read_text()
    needs = re.search(r"^needs:(.*)$", text, flags=re.MULTILINE)
    if needs and engine.lacks & set(needs[1].split()):
        pytest.skip("the engine lacks what it needs")
    face = engine(tmp_path / "store")
    for operations, expected in blocks(text):
        printed = []
        for operation in operations:
            try:
                printed += run(face, operation)
            except hedgerow.Error as error:
                printed.append("error size" if "bytes" in str(error) else f"error {error}")
        assert printed == expected


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 30
