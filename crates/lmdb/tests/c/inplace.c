/* Programs that write into values where they stand, in environments with MDB_WRITEMAP. The contract
 * forbids it and LMDB lets it pass: nobody may die of it, other bytes may not change, and the store
 * stays whole, which whoever runs this looks at.
 *
 *     inplace FOLDER */
#include "check.h"

enum { KEYS = 400, LONG = 20000 };

static char room[LONG];

static MDB_val key_of(int i)
{
	static char name[16];
	snprintf(name, sizeof name, "key %05d", i);
	return text(name);
}

/* Every eighth value is a long one. */
static MDB_val value_of(int i, int round)
{
	size_t size = i % 8 ? 100 : LONG;
	memset(room, 'a' + (i + round) % 26, size);
	return bytes(room, size);
}

static void fill(MDB_env *env, MDB_dbi dbi, int round)
{
	MDB_txn *txn = begin(env, 0);
	for (int i = 0; i < KEYS; i++) {
		MDB_val key = key_of(i), data = value_of(i, round);
		OK(mdb_put(txn, dbi, &key, &data, 0));
	}
	OK(mdb_txn_commit(txn));
}

/* Whether all values are those of a round. */
static void holds_round(MDB_env *env, MDB_dbi dbi, int round)
{
	MDB_txn *txn = begin(env, MDB_RDONLY);
	for (int i = 0; i < KEYS; i++) {
		MDB_val key = key_of(i), data, wanted = value_of(i, round);
		OK(mdb_get(txn, dbi, &key, &data));
		HOLDS(same(&data, &wanted));
	}
	mdb_txn_abort(txn);
}

/* Writes into all values through what a transaction gives out, and finds it there. */
static void scribble(MDB_env *env, MDB_dbi dbi, unsigned flags)
{
	MDB_txn *txn = begin(env, flags);
	for (int i = 0; i < KEYS; i++) {
		MDB_val key = key_of(i), data;
		OK(mdb_get(txn, dbi, &key, &data));
		memset(data.mv_data, '!', data.mv_size);
		OK(mdb_get(txn, dbi, &key, &data));
		HOLDS(*(char *)data.mv_data == '!' && ((char *)data.mv_data)[data.mv_size - 1] == '!');
	}
	mdb_txn_abort(txn);
}

static void values(const char *path)
{
	MDB_env *env = open_env(path, MDB_WRITEMAP | MDB_NOSYNC, 64 << 20);
	MDB_dbi dbi = database(env, "table", MDB_CREATE);
	for (int round = 0; round < 6; round++) {
		fill(env, dbi, round);
		holds_round(env, dbi, round);
		scribble(env, dbi, round % 2 ? MDB_RDONLY : 0);
	}
	/* Pages that were written into are used anew for something else. */
	MDB_txn *txn = begin(env, 0);
	OK(mdb_drop(txn, dbi, 0));
	OK(mdb_txn_commit(txn));
	for (int round = 0; round < 4; round++) {
		fill(env, dbi, round);
		holds_round(env, dbi, round);
	}
	scribble(env, dbi, MDB_RDONLY);
	mdb_env_close(env);
	/* The file has nothing of it. */
	env = open_env(path, MDB_RDONLY, 0);
	holds_round(env, database(env, "table", 0), 3);
	mdb_env_close(env);
}

/* What another process writes is seen, also where this one had written in place. */
static void processes(const char *path)
{
	MDB_env *env = open_env(path, MDB_WRITEMAP | MDB_NOSYNC, 64 << 20);
	MDB_dbi dbi = database(env, "table", MDB_CREATE);
	fill(env, dbi, 0);
	for (int round = 1; round < 5; round++) {
		scribble(env, dbi, MDB_RDONLY);
		pid_t child = fork();
		if (!child) {
			for (int more = 3; more >= 0; more--)
				fill(env, dbi, round + more);
			mdb_env_sync(env, 1);
			_exit(0);
		}
		ends_well(child);
		holds_round(env, dbi, round);
	}
	scribble(env, dbi, 0);
	fill(env, dbi, 9);
	holds_round(env, dbi, 9);
	mdb_env_close(env);
}

int main(int argc, char **argv)
{
	HOLDS(argc == 2 && !chdir(argv[1]));
	values(folder("values"));
	processes(folder("processes"));
	puts("nobody dies of writing in place");
	return 0;
}
