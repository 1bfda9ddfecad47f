"""Asks a store and a file of SQLite's what sqlite3_file_control() answers, and compares.

    LD_LIBRARY_PATH=PREFIX/lib python3 crates/sqlite/tests/controls.py FOLDER
"""

import ctypes
import re
import subprocess
import sys

lib = ctypes.CDLL("libsqlite3.so.0")
lib.sqlite3_free.argtypes = [ctypes.c_void_p]
for function in ("db_filename", "filename_journal", "filename_wal"):
    getattr(lib, f"sqlite3_{function}").restype = ctypes.c_void_p
    getattr(lib, f"sqlite3_{function}").argtypes = [ctypes.c_void_p]
lib.sqlite3_db_filename.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
FLAGS = 0x2 | 0x4 | 0x40  # to be written to, created, with a URI

LOCKSTATE, LAST_ERRNO, VFSNAME, TEMPFILENAME, VFS_POINTER, EXTERNAL_READER = 1, 4, 12, 16, 27, 40
# What has no answer in a program that only asks: it closes the file, or needs more than a number.
LEFT_OUT = {
    7: "a pointer to the file",
    14: "a pragma",
    28: "a pointer to the journal",
    35: "counted from another number",
    43: "closes the file",
}


def check(code):
    if code != 0:
        raise SystemExit(f"controls.py: SQLite says {code}")


class Database:
    def __init__(self, path, engine):
        self.db = ctypes.c_void_p()
        uri = f"file:{path}?engine={engine}".encode()
        check(lib.sqlite3_open_v2(uri, ctypes.byref(self.db), FLAGS, None))
        self.run("create table if not exists t(a)")

    def run(self, sql):
        check(lib.sqlite3_exec(self.db, sql.encode(), None, None, None))

    def number(self, op, value=-1, name=b"main"):
        out = ctypes.c_longlong(value)
        code = lib.sqlite3_file_control(self.db, name, op, ctypes.byref(out))
        return code, ctypes.c_int(out.value).value

    def files(self):
        """The ends of the names of the journal and the log."""
        name = lib.sqlite3_db_filename(self.db, b"main")
        found = [lib.sqlite3_filename_journal(name), lib.sqlite3_filename_wal(name)]
        return [ctypes.string_at(each).rsplit(b".", 1)[-1].split(b"-", 1)[-1] for each in found]

    def text(self, op):
        out = ctypes.c_char_p()
        code = lib.sqlite3_file_control(self.db, b"main", op, ctypes.byref(out))
        value = out.value
        lib.sqlite3_free(out)
        return code, value


def answers(db):
    found = []
    for op in range(1, 50):
        if op not in LEFT_OUT and op not in (VFSNAME, TEMPFILENAME, VFS_POINTER):
            found.append((op, db.number(op), db.number(op, 0), db.number(op)))
    found.append(("name", db.text(VFSNAME)))
    code, name = db.text(TEMPFILENAME)
    found.append(("temporary", code, re.sub(rb"etilqs_[0-9a-f]+$", b"etilqs_", name or b"")))
    pointer = ctypes.c_void_p()
    found.append(lib.sqlite3_file_control(db.db, b"main", VFS_POINTER, ctypes.byref(pointer)))
    found.append(pointer.value)
    found.append(db.files())
    for sql in ("begin", "select * from t", "insert into t values(1)", "commit"):
        db.run(sql)
        found.append((sql, db.number(LOCKSTATE), db.number(LAST_ERRNO)))
    found.append(("reader", db.number(EXTERNAL_READER)))
    found.append(("no such database", db.number(LOCKSTATE, name=b"other")))
    return found


READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin")
db.execute("select * from t").fetchall()
print("reads", flush=True)
sys.stdin.read()
"""


def readers(path, engine):
    """Whether there are readers of other processes: before, while there is one, and after it."""
    db = Database(path, engine)
    db.run("pragma journal_mode=wal")
    db.run("select * from t")
    found = [db.number(EXTERNAL_READER)]
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", READER, path], stdin=pipe, stdout=pipe)
    assert other.stdout.readline() == b"reads\n"
    found.append(db.number(EXTERNAL_READER))
    other.communicate()
    found.append(db.number(EXTERNAL_READER))
    return found


def main():
    folder = sys.argv[1]
    stock, ours = (answers(Database(f"{folder}/controls.{e}", e)) for e in ("sqlite", "hedgerow"))
    with open(f"{folder}/controls.hedgerow", "rb") as file:
        assert file.read(8) == b"HEDGEROW"
    for one, other in zip(stock, ours, strict=True):
        if one != other:
            raise SystemExit(f"controls.py: {other} instead of {one}")
    stock, ours = (readers(f"{folder}/readers.{e}", e) for e in ("sqlite", "hedgerow"))
    assert ours == stock == [(0, 0), (0, 1), (0, 0)], (ours, stock)


main()
