/* Map sizes: what is told of them, how full small maps become, and a size that others have raised.
 * The numbers of pages are those of LMDB, within two. Run it in an empty folder. */
#include "check.h"

static MDB_envinfo info_of(MDB_env *env)
{
	MDB_envinfo info;
	OK(mdb_env_info(env, &info));
	return info;
}

/* Puts entries in transactions of their own, or in one, until the map is full. */
static void fills_map(const char *name, size_t size, int is_one)
{
	static char room[1500];
	MDB_env *env = open_env(folder(name), MDB_NOSYNC, size);
	MDB_envinfo info = info_of(env);
	HOLDS(info.me_mapsize == size && info.me_last_pgno == 1 && info.me_last_txnid == 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	int code = 0, i = 0;
	uint64_t state = 7;
	for (; !code; i++) {
		uint32_t number = chance(&state);
		MDB_val key = bytes(&number, sizeof number), data = bytes(room, sizeof room);
		code = mdb_put(txn, dbi, &key, &data, 0);
		if (!code && !is_one) {
			/* As in LMDB it may be the commit for which there is no room. */
			code = mdb_txn_commit(txn);
			txn = begin(env, 0);
		}
	}
	HOLDS(code == MDB_MAP_FULL);
	mdb_txn_abort(txn);
	info = info_of(env);
	size_t pages = size / 4096;
	HOLDS(info.me_mapsize == size);
	if (is_one) {
		/* Two entries a page, but for the last. */
		HOLDS(info.me_last_pgno == 1 && i >= (int)pages && i <= 2 * (int)pages);
	} else {
		HOLDS(info.me_last_pgno <= pages + 1 && info.me_last_pgno + 4 >= pages);
	}
	mdb_env_close(env);
}

/* One who has set less than another one learns so when the store has grown beyond. */
static void outgrown(void)
{
	const size_t size = 1 << 20;
	static char room[4000];
	MDB_env *small = open_env(folder("outgrown"), MDB_NOSYNC, size);
	MDB_txn *txn = begin(small, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	put(txn, dbi, "a", "1");
	OK(mdb_txn_commit(txn));
	pid_t child = fork();
	if (!child) {
		MDB_env *large = open_env("outgrown", MDB_NOSYNC, 4 * size);
		txn = begin(large, 0);
		for (int i = 0; i < 500; i++) {
			MDB_val key = bytes(&i, sizeof i), data = bytes(room, sizeof room);
			OK(mdb_put(txn, dbi, &key, &data, 0));
		}
		OK(mdb_txn_commit(txn));
		mdb_env_close(large);
		_exit(0);
	}
	ends_well(child);
	GIVES(MDB_MAP_RESIZED, mdb_txn_begin(small, NULL, 0, &txn));
	OK(mdb_env_set_mapsize(small, 0));
	HOLDS(info_of(small).me_mapsize == 4 * size);
	txn = begin(small, 0);
	put(txn, dbi, "a", "2");
	OK(mdb_txn_commit(txn));
	mdb_env_close(small);
}

/* A size below what is used is what is used: no more can be put, and what is there be deleted. */
static void shrunk(void)
{
	static char room[1000];
	MDB_env *env = open_env(folder("shrunk"), MDB_NOSYNC, 8 << 20);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	int i, code = 0;
	for (i = 0; i < 2000; i++) {
		MDB_val key = bytes(&i, sizeof i), data = bytes(room, sizeof room);
		OK(mdb_put(txn, dbi, &key, &data, 0));
	}
	OK(mdb_txn_commit(txn));
	OK(mdb_env_set_mapsize(env, 65536));
	size_t size = info_of(env).me_mapsize, used = (info_of(env).me_last_pgno + 2) * 4096;
	HOLDS(size >= used && size < used + 16 * 4096);
	txn = begin(env, 0);
	for (i = 5000; !code; i++) {
		MDB_val key = bytes(&i, sizeof i), data = bytes(room, sizeof room);
		code = mdb_put(txn, dbi, &key, &data, 0);
	}
	HOLDS(code == MDB_MAP_FULL);
	mdb_txn_abort(txn);
	for (i = 0; i < 200; i++) {
		MDB_val key = bytes(&i, sizeof i);
		txn = begin(env, 0);
		OK(mdb_del(txn, dbi, &key, NULL));
		OK(mdb_txn_commit(txn));
	}
	mdb_env_close(env);
}

/* Puts entries, each in a transaction of its own, until the map is full; then all can be deleted
 * one by one, and the file has not grown beyond the few pages that are left to deletes. */
static void empties_full_map(size_t pages, unsigned flags)
{
	char name[40];
	snprintf(name, sizeof name, "full-%zu-%x", pages, flags);
	MDB_env *env = open_env(folder(name), flags, pages * 4096);
	int code = 0, count = 0;
	for (; !code; count++) {
		MDB_txn *txn = begin(env, 0);
		MDB_val key = bytes(&count, sizeof count);
		code = mdb_put(txn, 1, &key, &key, 0);
		if (code)
			mdb_txn_abort(txn);
		else
			code = mdb_txn_commit(txn);
	}
	HOLDS(code == MDB_MAP_FULL && count > 1);
	for (int i = 0; i + 1 < count; i++) {
		MDB_txn *txn = begin(env, 0);
		MDB_val key = bytes(&i, sizeof i);
		OK(mdb_del(txn, 1, &key, NULL));
		OK(mdb_txn_commit(txn));
	}
	HOLDS(info_of(env).me_last_pgno < pages + 6 && info_of(env).me_mapsize == pages * 4096);
	mdb_env_close(env);
}

/* Puts entries in order, in transactions of as many as mdb_load has. */
static void fills_in_order(MDB_env *env, unsigned count)
{
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, "ordered", MDB_CREATE);
	for (unsigned i = 0; i < count; i++) {
		char name[20];
		snprintf(name, sizeof name, "%08u", i);
		MDB_val key = text(name), data = bytes(name, 8);
		OK(mdb_put(txn, dbi, &key, &data, 0));
		if (i % 100 == 99) {
			OK(mdb_txn_commit(txn));
			txn = begin(env, 0);
		}
	}
	OK(mdb_txn_commit(txn));
}

/* Where nobody has set a size there is none, and one is told that has room for a copy: mdb_dump
 * writes it down, and mdb_load sets it. */
static void copied(void)
{
	enum { COUNT = 60000 };
	MDB_env *env = open_env(folder("unlimited"), MDB_NOSYNC, 0);
	HOLDS(info_of(env).me_mapsize == 1 << 20);
	fills_in_order(env, COUNT);
	size_t told = info_of(env).me_mapsize, used = (info_of(env).me_last_pgno + 2) * 4096;
	HOLDS(used > 1 << 20 && told == 16 * used);
	MDB_env *copy = open_env(folder("copied"), MDB_NOSYNC, told);
	fills_in_order(copy, COUNT);
	HOLDS(info_of(copy).me_mapsize == told);
	/* No limit came of it. */
	fills_in_order(env, 2 * COUNT);
	HOLDS(info_of(env).me_mapsize > told);
	mdb_env_close(copy);
	mdb_env_close(env);
}

int main(void)
{
	const unsigned kinds[] = { MDB_NOSYNC, MDB_WRITEMAP | MDB_MAPASYNC };
	for (size_t i = 0; i < LENGTH(kinds); i++)
		for (size_t pages = 5; pages < 40; pages += pages < 16 ? 1 : 8)
			empties_full_map(pages, kinds[i]);
	fills_map("tiny", 50000, 0);
	fills_map("tiny-one", 50000, 1);
	fills_map("small", 65536, 0);
	fills_map("odd", 123456, 0);
	fills_map("odd-one", 123456, 1);
	fills_map("usual", 262144, 0);
	outgrown();
	shrunk();
	copied();
	puts("map sizes hold");
	return 0;
}
