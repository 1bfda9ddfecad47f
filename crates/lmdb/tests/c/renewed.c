/* What a process sees of others after it has let its snapshot go: a cursor that is not renewed goes on
 * from where it stood, and who sets no map size goes by that of others. Run it in an empty folder. */
#include "check.h"

static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *txn;
static MDB_cursor *cursor;

/* A step must give this entry. */
#define STEPS(op, key, data) steps(__LINE__, op, key, data)

static void steps(int line, MDB_cursor_op op, const char *key, const char *data)
{
	MDB_val wanted[] = { text(key), text(data) }, found[2];
	check_code(line, "a step", mdb_cursor_get(cursor, &found[0], &found[1], op), 0);
	if (!same(&wanted[0], &found[0]) || !same(&wanted[1], &found[1]))
		check_fails(line, key);
}

static int step(MDB_cursor_op op)
{
	MDB_val key, data;
	return mdb_cursor_get(cursor, &key, &data, op);
}

/* Writes, while the reader has no snapshot: NULL for the data of a key deletes it. */
static void changes(const char *const (*pairs)[2], size_t count)
{
	mdb_txn_reset(txn);
	MDB_txn *writer = begin(env, 0);
	for (size_t i = 0; i < count; i++) {
		MDB_val key = text(pairs[i][0]), data = text(pairs[i][1] + 1);
		if (*pairs[i][1] == '+')
			OK(mdb_put(writer, dbi, &key, &data, 0));
		else
			OK(mdb_del(writer, dbi, &key, data.mv_size ? &data : NULL));
	}
	OK(mdb_txn_commit(writer));
	OK(mdb_txn_renew(txn));
}

#define CHANGES(...)                                               \
	do {                                                           \
		const char *const pairs[][2] = { __VA_ARGS__ };            \
		changes(pairs, LENGTH(pairs));                             \
	} while (0)

static void open_reader(const char *name, unsigned flags, const char *const (*pairs)[2], size_t count)
{
	env = open_env(folder(name), MDB_NOSYNC, 0);
	MDB_txn *writer = begin(env, 0);
	dbi = open_dbi(writer, flags ? "named" : NULL, flags | (flags ? MDB_CREATE : 0));
	for (size_t i = 0; i < count; i++)
		put(writer, dbi, pairs[i][0], pairs[i][1]);
	OK(mdb_txn_commit(writer));
	txn = begin(env, MDB_RDONLY);
	OK(mdb_cursor_open(txn, dbi, &cursor));
}

static void close_reader(void)
{
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void plain(void)
{
	const char *const pairs[][2] = { { "a", "1" }, { "c", "3" }, { "e", "5" }, { "g", "7" } };
	open_reader("plain", 0, pairs, LENGTH(pairs));
	STEPS(MDB_NEXT, "a", "1");
	mdb_txn_reset(txn);
	GIVES(MDB_BAD_TXN, step(MDB_NEXT));
	OK(mdb_txn_renew(txn));
	STEPS(MDB_NEXT, "c", "3");
	CHANGES({ "d", "+4" }, { "b", "+2" });
	STEPS(MDB_GET_CURRENT, "c", "3");
	CHANGES({ "c", "+three" });
	STEPS(MDB_NEXT, "d", "4");
	CHANGES({ "d", "-" });
	STEPS(MDB_NEXT, "e", "5");
	CHANGES({ "e", "-" }, { "b", "-" });
	STEPS(MDB_PREV, "c", "three");
	CHANGES({ "c", "-" }, { "g", "-" });
	GIVES(MDB_NOTFOUND, step(MDB_NEXT));
	STEPS(MDB_PREV, "a", "1");
	/* A named database in the main one, which is then read by names; and back. */
	MDB_txn *writer;
	mdb_txn_reset(txn);
	writer = begin(env, 0);
	put(writer, dbi, "z", "26");
	MDB_dbi other = open_dbi(writer, "other", MDB_CREATE);
	OK(mdb_txn_commit(writer));
	OK(mdb_txn_renew(txn));
	OK(step(MDB_NEXT));
	mdb_txn_reset(txn);
	writer = begin(env, 0);
	OK(mdb_drop(writer, other, 1));
	OK(mdb_txn_commit(writer));
	OK(mdb_txn_renew(txn));
	STEPS(MDB_NEXT, "z", "26");
	CHANGES({ "a", "-" }, { "z", "-" });
	GIVES(MDB_NOTFOUND, step(MDB_NEXT));
	CHANGES({ "a", "+1" });
	mdb_txn_reset(txn);
	OK(mdb_txn_renew(txn));
	OK(mdb_cursor_renew(txn, cursor));
	STEPS(MDB_NEXT, "a", "1");
	close_reader();
}

static void several_values(void)
{
	const char *const pairs[][2] = { { "a", "1" }, { "a", "3" }, { "a", "5" }, { "b", "1" } };
	open_reader("several", MDB_DUPSORT, pairs, LENGTH(pairs));
	STEPS(MDB_NEXT, "a", "1");
	CHANGES({ "a", "+2" });
	STEPS(MDB_NEXT, "a", "2");
	CHANGES({ "a", "-2" });
	STEPS(MDB_NEXT_DUP, "a", "3");
	CHANGES({ "a", "-3" }, { "a", "+4" }, { "a", "-5" });
	STEPS(MDB_NEXT_DUP, "a", "4");
	CHANGES({ "a", "-4" });
	GIVES(MDB_NOTFOUND, step(MDB_NEXT_DUP));
	STEPS(MDB_NEXT, "b", "1");
	CHANGES({ "b", "-" });
	STEPS(MDB_PREV, "a", "1");
	close_reader();
}

/* More than a full store takes. */
enum { ENOUGH = 2000 };

/* Puts values of a page until the store is full; how many it took. */
static int fills(MDB_env *of, MDB_dbi into)
{
	char room[4000] = "";
	int taken = 0;
	MDB_txn *writer;
	for (; taken < ENOUGH; taken++) {
		MDB_val key = bytes(&taken, sizeof taken), data = bytes(room, sizeof room);
		writer = begin(of, 0);
		int code = mdb_put(writer, into, &key, &data, 0);
		if (code) {
			HOLDS(code == MDB_MAP_FULL);
			mdb_txn_abort(writer);
			break;
		}
		OK(mdb_txn_commit(writer));
	}
	return taken;
}

static size_t map_size(MDB_env *of)
{
	MDB_envinfo info;
	OK(mdb_env_info(of, &info));
	return info.me_mapsize;
}

static void map_sizes(void)
{
	const size_t size = 2 << 20;
	const char *path = folder("sizes");
	MDB_env *setting = open_env(path, MDB_NOSYNC, size);
	pid_t child = fork();
	if (!child) {
		MDB_env *taking = open_env(path, MDB_NOSYNC, 0);
		HOLDS(map_size(taking) == size);
		MDB_txn *writer = begin(taking, 0);
		MDB_dbi into = open_dbi(writer, NULL, 0);
		OK(mdb_txn_commit(writer));
		int taken = fills(taking, into);
		HOLDS(taken > 200 && taken < 520);
		/* One's own size is one's own, until one takes over what there is. */
		OK(mdb_env_set_mapsize(taking, 2 * size));
		HOLDS(map_size(taking) == 2 * size && fills(taking, into) > taken);
		mdb_env_close(taking);
		_exit(0);
	}
	ends_well(child);
	OK(mdb_env_set_mapsize(setting, 0));
	HOLDS(map_size(setting) >= 2 * size && map_size(setting) < 3 * size);
	/* Who only reads tells nobody. */
	MDB_env *reading = open_env(path, MDB_RDONLY, 8 * size);
	OK(mdb_env_set_mapsize(setting, 0));
	HOLDS(map_size(reading) == 8 * size && map_size(setting) < 3 * size);
	mdb_env_close(reading);
	mdb_env_close(setting);
	/* Nobody has it open: what was set is forgotten. */
	MDB_env *alone = open_env(path, MDB_NOSYNC, 0);
	MDB_txn *writer = begin(alone, 0);
	MDB_dbi into = open_dbi(writer, NULL, 0);
	OK(mdb_txn_commit(writer));
	HOLDS(fills(alone, into) == ENOUGH);
	mdb_env_close(alone);
}

int main(void)
{
	alarm(300);
	plain();
	several_values();
	map_sizes();
	puts("renewals hold");
	return 0;
}
