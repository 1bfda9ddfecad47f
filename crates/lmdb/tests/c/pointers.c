/* What is handed out stays as long as lmdb.h says: to the end of the transaction where keys stand in
 * one piece or a program knows nothing of compression, until the next call on the cursor with
 * MDB_PREFIX_COMPRESSION; and only the second of these takes memory that grows. Run it in an empty
 * folder, with the path of a store that has a table "shared" with prefix compression. */
#include "check.h"

#include <malloc.h>

#define ENTRIES 20000
#define DUPS 20

static MDB_env *env;

static MDB_val number(const char *before, unsigned n, char *room)
{
	return bytes(room, (size_t)sprintf(room, "%s%08u", before, n));
}

static void fill(MDB_dbi dbi, MDB_txn *txn, int dups)
{
	char key_room[64], room[64];
	for (unsigned n = 0; n < ENTRIES; n++) {
		MDB_val key = number("a common beginning ", dups ? n / DUPS : n, key_room);
		MDB_val data = number("common too ", n, room);
		OK(mdb_put(txn, dbi, &key, &data, 0));
	}
}

static size_t in_use(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* Bytes that are gained by a walk in one transaction. */
static size_t gained(MDB_txn *txn, MDB_dbi dbi, MDB_cursor_op op)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	size_t before = in_use(), seen = 0;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	while (!mdb_cursor_get(cursor, &key, &data, op))
		seen += op == MDB_NEXT_NODUP ? DUPS : 1;
	HOLDS(seen == ENTRIES);
	size_t after = in_use();
	mdb_cursor_close(cursor);
	return after > before ? after - before : 0;
}

/* Walks and gets of every kind; how much memory the worst of them takes. */
static size_t walks(MDB_txn *txn, MDB_dbi dbi, int dups)
{
	static const MDB_cursor_op ops[] = { MDB_NEXT, MDB_PREV };
	size_t most = 0, all = in_use();
	for (size_t i = 0; i < LENGTH(ops); i++) {
		size_t more = gained(txn, dbi, ops[i]);
		most = more > most ? more : most;
	}
	char room[64];
	for (unsigned n = 0; n < ENTRIES; n++) {
		MDB_val key = number("a common beginning ", dups ? n / DUPS : n, room), data;
		OK(mdb_get(txn, dbi, &key, &data));
		OK(mdb_get_rank(txn, dbi, n, &key, &data));
	}
	MDB_cursor *cursor;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	MDB_val key, data;
	while (dups && !mdb_cursor_get(cursor, &key, &data, MDB_NEXT_NODUP)) {
		const MDB_val *list;
		mdb_size_t count;
		OK(mdb_cursor_list_dup(cursor, &list, &count));
		HOLDS(count == DUPS);
		while (!mdb_cursor_get(cursor, &key, &data, MDB_NEXT_DUP))
			;
	}
	mdb_cursor_close(cursor);
	size_t now = in_use() > all ? in_use() - all : 0;
	return now > most ? now : most;
}

/* Keeps all that a walk gives, and looks at it at the end. */
static int stays(MDB_txn *txn, MDB_dbi dbi, int dups)
{
	static MDB_val kept[ENTRIES][2];
	char key_room[64], room[64];
	MDB_cursor *cursor;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	for (unsigned n = 0; n < ENTRIES; n++)
		OK(mdb_cursor_get(cursor, &kept[n][0], &kept[n][1], MDB_NEXT));
	mdb_cursor_close(cursor);
	int all = 1;
	for (unsigned n = 0; n < ENTRIES; n++) {
		MDB_val key = number("a common beginning ", dups ? n / DUPS : n, key_room);
		MDB_val data = number("common too ", n, room);
		all &= same(&kept[n][0], &key) && same(&kept[n][1], &data);
	}
	return all;
}

static unsigned flags_of(MDB_txn *txn, MDB_dbi dbi)
{
	unsigned flags;
	OK(mdb_dbi_flags(txn, dbi, &flags));
	return flags;
}

/* With MDB_PREFIX_COMPRESSION: what a call gave may be what the next one asks for, and a second
 * cursor has memory of its own. */
static void until_the_next_call(MDB_txn *txn, MDB_dbi dbi)
{
	char room[64], other_room[64];
	MDB_cursor *cursor, *other;
	MDB_val key, data, other_key, other_data;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	OK(mdb_cursor_open(txn, dbi, &other));
	OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST));
	for (unsigned n = 0; n < ENTRIES; n++) {
		OK(mdb_cursor_get(other, &other_key, &other_data, MDB_NEXT));
		MDB_val wanted = number("a common beginning ", (ENTRIES - 1 - n) / DUPS, room);
		MDB_val value = number("common too ", ENTRIES - 1 - n, other_room);
		HOLDS(same(&key, &wanted) && same(&data, &value));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
		HOLDS(same(&key, &wanted) && same(&data, &value));
		const MDB_val *list;
		mdb_size_t count;
		OK(mdb_cursor_list_dup(cursor, &list, &count));
		MDB_val last = list[count - 1];
		OK(mdb_cursor_get(cursor, &wanted, &last, MDB_GET_BOTH));
		key = number("a common beginning ", (ENTRIES - 1 - n) / DUPS, room);
		OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH));
		GIVES(n + 1 < ENTRIES ? 0 : MDB_NOTFOUND, mdb_cursor_get(cursor, &key, &data, MDB_PREV));
	}
	mdb_cursor_close(cursor);
	mdb_cursor_close(other);
}

int main(int count, char **arguments)
{
	HOLDS(count == 2);
	env = open_env(folder("made here"), MDB_NOSYNC, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi plain = open_dbi(txn, "plain", MDB_CREATE);
	MDB_dbi dups = open_dbi(txn, "dups", MDB_CREATE | MDB_DUPSORT);
	MDB_dbi small = open_dbi(txn, "small", MDB_CREATE | MDB_PREFIX_COMPRESSION);
	unsigned both = MDB_DUPSORT | MDB_PREFIX_COMPRESSION;
	MDB_dbi small_dups = open_dbi(txn, "small dups", MDB_CREATE | both);
	MDB_dbi all[] = { plain, dups, small, small_dups };
	for (size_t i = 0; i < LENGTH(all); i++)
		fill(all[i], txn, i % 2);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < LENGTH(all); i++)
			HOLDS(walks(txn, all[i], i % 2) < (64 << 10));
		HOLDS(stays(txn, plain, 0) && stays(txn, dups, 1));
		HOLDS(!stays(txn, small, 0) && !stays(txn, small_dups, 1));
		HOLDS(flags_of(txn, plain) == 0 && flags_of(txn, dups) == MDB_DUPSORT);
		HOLDS(flags_of(txn, small) == MDB_PREFIX_COMPRESSION);
		HOLDS(flags_of(txn, small_dups) == both);
		until_the_next_call(txn, small_dups);
		OK(mdb_txn_commit(txn));
		txn = begin(env, MDB_RDONLY);
	}
	mdb_txn_abort(txn);
	mdb_env_close(env);
	/* A program that says nothing of compression keeps what it was given. */
	env = open_env("made here", MDB_RDONLY, 0);
	txn = begin(env, MDB_RDONLY);
	small = open_dbi(txn, "small", 0), small_dups = open_dbi(txn, "small dups", 0);
	HOLDS(stays(txn, small, 0) && stays(txn, small_dups, 1));
	HOLDS(flags_of(txn, small) == MDB_PREFIX_COMPRESSION);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	env = open_env(arguments[1], MDB_NOSUBDIR, 0);
	txn = begin(env, 0);
	MDB_dbi shared = open_dbi(txn, "shared", 0);
	HOLDS(flags_of(txn, shared) == MDB_PREFIX_COMPRESSION);
	fill(shared, txn, 0);
	OK(mdb_txn_commit(txn));
	txn = begin(env, MDB_RDONLY);
	HOLDS(stays(txn, shared, 0));
	mdb_txn_abort(txn);
	mdb_env_close(env);
	puts("pointers hold");
	return 0;
}
