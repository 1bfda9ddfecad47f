// The C++ wrapper of LMDB: its handles, exceptions and cursors, over plain and sorted values.
#include <lmdb++.h>

#include <cstdio>
#include <string>

// Runs a piece that may throw.
template <typename Piece> static void say(const char *name, Piece piece) {
    try {
        std::printf("%s:", name);
        piece();
        std::printf("\n");
    } catch (const lmdb::error &error) {
        std::printf(" %s\n", error.what());
    }
}

static void show(const lmdb::val &key, const lmdb::val &value) {
    std::printf(" %.*s=%.*s", int(key.size()), key.data(), int(value.size()), value.data());
}

static void walk(lmdb::txn &txn, lmdb::dbi &dbi) {
    lmdb::val key, value;
    auto cursor = lmdb::cursor::open(txn, dbi);
    while (cursor.get(key, value, MDB_NEXT))
        show(key, value);
}

// A search and a step from where it ends, as programs look for the last entry before a key.
static void around(lmdb::txn &txn, lmdb::dbi &dbi, const char *wanted, const char *other,
                   MDB_cursor_op search, MDB_cursor_op step) {
    auto cursor = lmdb::cursor::open(txn, dbi);
    lmdb::val first{"b"}, key{wanted}, value{other}, none{};
    cursor.get(first, none, MDB_SET);
    std::printf(" %d", cursor.get(key, value, search));
    std::printf(" %d", cursor.get(key, value, step));
    show(key, value);
}

static void put(lmdb::txn &txn, lmdb::dbi &dbi, const char *key, const char *value) {
    lmdb::val k{key}, v{value};
    dbi.put(txn, k, v);
}

static void fill(lmdb::txn &txn, lmdb::dbi &plain, lmdb::dbi &sorted) {
    for (const char *key : {"b", "d", "f", "h"}) {
        put(txn, plain, key, key);
        for (const char *value : {"5", "1", "3"})
            put(txn, sorted, key, value);
    }
}

int main() {
    auto env = lmdb::env::create();
    env.set_mapsize(1 << 24);
    env.set_max_dbs(3);
    env.open("testdb", MDB_NOSYNC, 0644);
    auto txn = lmdb::txn::begin(env);
    auto plain = lmdb::dbi::open(txn, "plain", MDB_CREATE);
    auto sorted = lmdb::dbi::open(txn, "sorted", MDB_CREATE | MDB_DUPSORT);
    fill(txn, plain, sorted);
    say("a key of no bytes", [&] { put(txn, plain, "", "1"); });
    say("no such database", [&] { lmdb::dbi::open(txn, "none"); });
    txn.commit();

    auto child = lmdb::txn::begin(env);
    say("dropped and taken back", [&] {
        auto inner = lmdb::txn::begin(env, child.handle());
        plain.drop(inner);
        walk(inner, plain);
        inner.abort();
        walk(child, plain);
    });
    child.abort();

    auto reader = lmdb::txn::begin(env, nullptr, MDB_RDONLY);
    say("plain", [&] { walk(reader, plain); });
    say("sorted", [&] { walk(reader, sorted); });
    say("sizes", [&] { std::printf(" %zu %zu", plain.size(reader), sorted.size(reader)); });
    for (const char *wanted : {"a", "c", "d", "i"})
        for (MDB_cursor_op step : {MDB_PREV, MDB_NEXT, MDB_GET_CURRENT}) {
            say("plain key", [&] { around(reader, plain, wanted, "", MDB_SET_RANGE, step); });
            say("sorted key", [&] { around(reader, sorted, wanted, "", MDB_SET, step); });
        }
    for (const char *wanted : {"0", "2", "3", "6"})
        for (MDB_cursor_op step : {MDB_PREV, MDB_NEXT, MDB_PREV_DUP, MDB_NEXT_DUP}) {
            say("value", [&] { around(reader, sorted, "d", wanted, MDB_GET_BOTH_RANGE, step); });
            say("pair", [&] { around(reader, sorted, "d", wanted, MDB_GET_BOTH, step); });
        }
    return 0;
}
