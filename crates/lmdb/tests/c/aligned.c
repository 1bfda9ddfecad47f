/* Where keys and values stand that the library hands out: at even addresses, and at multiples of 8
 * where those of a database have such lengths; in read and write transactions, through gets, all
 * kinds of steps, blocks of values and room that was reserved. Run it in an empty folder. */
#include "check.h"

#define ENTRIES 3000

struct kind {
	const char *name;
	unsigned flags;
	/* Bytes that all lengths are multiples of, and the most of these that a key and a value have. */
	size_t unit, keys, values;
};

static const struct kind kinds[] = {
	{ "integers", MDB_INTEGERKEY, 8, 1, 1 },
	{ "words", 0, 8, 6, 120 },
	{ "long words", 0, 8, 3, 900 },
	{ "even", 0, 2, 30, 300 },
	{ "fixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 8, 1, 1 },
	{ "words of a key", MDB_DUPSORT, 8, 2, 4 },
	{ "values of a key", MDB_DUPSORT, 2, 2, 20 },
};

static uint64_t chances = 7;

/* A string of some units that no entry before is likely to have; up to `few` of them if that is not
 * 0. */
static MDB_val string(unsigned char *room, size_t unit, size_t most, uint64_t few)
{
	size_t length = unit * (most == 1 ? 1 : 1 + chance(&chances) % most);
	uint64_t word = few ? chance(&chances) % few : (uint64_t)chance(&chances) << 32 | chance(&chances);
	memset(room, (int)(word % 251), length);
	memcpy(room, &word, length < sizeof word ? length : sizeof word);
	return bytes(room, length);
}

static void stands(const struct kind *kind, const MDB_val *value)
{
	HOLDS(value->mv_size % kind->unit == 0);
	HOLDS((uintptr_t)value->mv_data % kind->unit == 0);
}

/* All that a transaction sees. */
static void all_stand(const struct kind *kind, MDB_txn *txn, MDB_dbi dbi)
{
	static const MDB_cursor_op ways[][2] = {
		{ MDB_FIRST, MDB_NEXT }, { MDB_LAST, MDB_PREV }, { MDB_FIRST, MDB_NEXT_NODUP },
	};
	MDB_cursor *cursor, *other;
	MDB_val key, value, found;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	OK(mdb_cursor_open(txn, dbi, &other));
	for (size_t way = 0; way < LENGTH(ways); way++) {
		size_t seen = 0;
		int code = mdb_cursor_get(cursor, &key, &value, ways[way][0]);
		for (; code == 0; seen++) {
			stands(kind, &key);
			stands(kind, &value);
			OK(mdb_get(txn, dbi, &key, &found));
			stands(kind, &found);
			OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_CURRENT));
			stands(kind, &value);
			if (kind->flags & MDB_DUPFIXED) {
				OK(mdb_cursor_get(other, &key, &value, MDB_SET));
				OK(mdb_cursor_get(other, &key, &value, MDB_GET_MULTIPLE));
				stands(kind, &value);
			}
			code = mdb_cursor_get(cursor, &key, &value, ways[way][1]);
		}
		GIVES(MDB_NOTFOUND, code);
		HOLDS(seen > 3);
	}
	mdb_cursor_close(other);
	mdb_cursor_close(cursor);
}

static void try_kind(MDB_env *env, const struct kind *kind)
{
	static unsigned char keys[1024], values[8192];
	uint64_t few = kind->flags & MDB_DUPSORT ? 40 : 0;
	for (int round = 0; round < 4; round++) {
		MDB_txn *txn = begin(env, 0);
		MDB_dbi dbi = open_dbi(txn, kind->name, MDB_CREATE | kind->flags);
		for (size_t i = 0; i < ENTRIES; i++) {
			MDB_val key = string(keys, kind->unit, kind->keys, few);
			MDB_val value = string(values, kind->unit, kind->values, 0);
			if (few || i % 7) {
				OK(mdb_put(txn, dbi, &key, &value, 0));
				continue;
			}
			MDB_val room = bytes(NULL, value.mv_size);
			OK(mdb_put(txn, dbi, &key, &room, MDB_RESERVE));
			stands(kind, &room);
			memcpy(room.mv_data, value.mv_data, value.mv_size);
			if (i % 2)
				OK(mdb_del(txn, dbi, &key, NULL));
		}
		all_stand(kind, txn, dbi);
		OK(mdb_txn_commit(txn));
		txn = begin(env, MDB_RDONLY);
		all_stand(kind, txn, dbi);
		mdb_txn_abort(txn);
	}
}

int main(void)
{
	MDB_env *env = open_env(folder("store"), MDB_NOSYNC, 1 << 28);
	for (size_t i = 0; i < LENGTH(kinds); i++)
		try_kind(env, &kinds[i]);
	mdb_env_close(env);
	env = open_env("store", 0, 1 << 28);
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		MDB_txn *txn = begin(env, MDB_RDONLY);
		all_stand(&kinds[i], txn, open_dbi(txn, kinds[i].name, kinds[i].flags));
		OK(mdb_txn_commit(txn));
	}
	mdb_env_close(env);
	puts("addresses hold");
	return 0;
}
