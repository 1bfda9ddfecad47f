"""Fills, asks and empties databases through py-lmdb and prints what it finds."""

import hashlib
import os

import lmdb

os.makedirs("env")
env = lmdb.open("env", map_size=1 << 28, max_dbs=4)
print(env.max_key_size(), env.flags()["subdir"], env.stat()["entries"])

with env.begin(write=True) as txn:
    for i in range(100000):
        txn.put(b"key %08d" % (i * 7919 % 100000), b"value %d" % i)
print(env.stat()["entries"])

digest = hashlib.sha256()
with env.begin() as txn:
    for key, value in txn.cursor():
        digest.update(key + b"=" + value)
    print(digest.hexdigest(), txn.get(b"key 00000042"), txn.get(b"none"))
    cursor = txn.cursor()
    print(cursor.set_range(b"key 0005"), cursor.item(), cursor.prev(), cursor.item())
    print(cursor.last(), cursor.item(), cursor.next(), cursor.item())

dups = env.open_db(b"dups", dupsort=True)
ints = env.open_db(b"ints", integerkey=True)
with env.begin(write=True) as txn:
    for i in range(5000):
        txn.put(b"k%d" % (i % 7), b"%06d" % (i * 31 % 5000), db=dups)
        txn.put(i.to_bytes(8, "little"), b"%d" % i, db=ints)
    cursor = txn.cursor(dups)
    cursor.set_key(b"k3")
    print(cursor.count(), cursor.delete(dupdata=True), txn.stat(dups)["entries"])
    print(txn.delete(b"k4", b"000004", db=dups), txn.pop(b"k5", db=dups))
    with env.begin(write=True, parent=txn) as child:
        child.drop(ints, delete=False)
        print(child.stat(ints)["entries"])
        child.abort()
    print(txn.stat(ints)["entries"])

os.makedirs("copy")
env.copy("copy")
env.close()
with lmdb.open("copy", max_dbs=4, readonly=True) as copy, copy.begin() as txn:
    print([key for key, _ in txn.cursor() if not key.startswith(b"key")])
    print(txn.stat(copy.open_db(b"dups", txn=txn))["entries"])
