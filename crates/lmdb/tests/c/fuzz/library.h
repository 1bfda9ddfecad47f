/* The two libraries, and what a run has open in its one. */
#ifndef FUZZ_LIBRARY_H
#define FUZZ_LIBRARY_H

#define _GNU_SOURCE
#include "../say.h"

#include <dlfcn.h>
#include <stdint.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define TABLES 3
#define CURSORS 4
#define DEPTH_MAX 3

#define FUNCTIONS(X) \
	X(env_create) X(env_open) X(env_close) X(env_set_mapsize) X(env_set_maxdbs) X(txn_begin) \
	X(txn_commit) X(txn_abort) X(txn_reset) X(txn_renew) X(dbi_open) X(stat) X(drop) \
	X(get) X(put) X(del) X(cursor_open) X(cursor_close) X(cursor_get) X(cursor_put) \
	X(cursor_del) X(cursor_count) X(cursor_renew) X(set_compare) X(set_dupsort) X(cmp) X(dcmp)

struct library {
#define MEMBER(name) __typeof__(&mdb_##name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

/* What a run has open in its library. */
struct side {
	struct library call;
	MDB_env *env;
	MDB_dbi dbi[TABLES];
	MDB_txn *writer[DEPTH_MAX];
	MDB_txn *reader;
	MDB_cursor *cursor[CURSORS];
	MDB_cursor *reading;
	/* What the last call gave. */
	int code;
	MDB_val key, data;
	size_t number;
};

static struct side the_side, *const side = &the_side;

/* The two libraries; the first is the original. */
static struct {
	const char *name, *path;
	char folder[4096];
	/* What the process that runs it writes down, a line an answer. */
	struct journal {
		size_t length;
		char text[(8 << 20) - sizeof(size_t)];
	} *journal;
} sides[2] = { { .name = "original" }, { .name = "other" } };

static struct journal *journal;
static const char *folder;

static void load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
#define FIND(name) \
	if (!(side->call.name = (__typeof__(&mdb_##name))dlsym(handle, "mdb_" #name))) { \
		fprintf(stderr, "%s has no mdb_" #name "\n", path); \
		exit(2); \
	}
	FUNCTIONS(FIND)
#undef FIND
}

#endif
