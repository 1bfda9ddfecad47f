/* A library with LMDB's interface, by the path of its file, for programs that measure it. */
#ifndef SIDE_H
#define SIDE_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <ftw.h>
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define UNUSED __attribute__((unused))
#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define FUNCTIONS(X) \
	X(env_create) X(env_open) X(env_close) X(env_set_mapsize) X(txn_begin) X(txn_commit) \
	X(txn_abort) X(txn_reset) X(txn_renew) X(dbi_open) X(get) X(put) X(del) X(cursor_open) \
	X(cursor_close) X(cursor_get) X(cursor_put) X(cursor_del) X(stat)

/* A library and what is open in it. */
struct side {
#define MEMBER(name) __typeof__(&mdb_##name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	const char *name;
	/* The flags of tables that it knows. */
	unsigned known;
	char folder[4096];
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	/* The most KiB of private memory at the ends of transactions, where it is looked at. */
	int is_watched;
	long most_kib;
};

/* Room for what programs that do not test map sizes put. */
#define MAP ((size_t)1 << 32)

static void fail(const char *side, const char *what, int code)
{
	fprintf(stderr, "%s: %s: code %d\n", side, what, code);
	exit(1);
}

#define MUST(side, call) do { \
	int code_ = (call); \
	if (code_) fail((side)->name, #call, code_); \
} while (0)

static void must_be(const struct side *side, const char *what, uint64_t found, uint64_t expected)
{
	if (found != expected) {
		fprintf(stderr, "%s: %s is %llu, not %llu\n", side->name, what,
			(unsigned long long)found, (unsigned long long)expected);
		exit(1);
	}
}

static void load(struct side *side, const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
#define FIND(name) \
	if (!(side->name = (__typeof__(&mdb_##name))dlsym(handle, "mdb_" #name))) { \
		fprintf(stderr, "%s has no mdb_" #name "\n", path); \
		exit(2); \
	}
	FUNCTIONS(FIND)
#undef FIND
	/* Others refuse a flag that they do not know. */
	side->known = dlsym(handle, "mdb_last_error") ? ~0u : ~(unsigned)MDB_PREFIX_COMPRESSION;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	(void)stat, (void)type, (void)where;
	return remove(path);
}

UNUSED static void open_env(struct side *side, unsigned flags, size_t map)
{
	MUST(side, side->env_create(&side->env));
	MUST(side, side->env_set_mapsize(side->env, map));
	MUST(side, side->env_open(side->env, side->folder, flags, 0644));
}

/* A new environment in the place of what stands in its folder. */
UNUSED static void open_new(struct side *side, unsigned flags, size_t map)
{
	nftw(side->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (mkdir(side->folder, 0755))
		fail(side->name, side->folder, -1);
	open_env(side, flags, map);
}

/* A transaction with the main database. */
UNUSED static void begin_as(struct side *side, unsigned flags, unsigned table)
{
	MUST(side, side->txn_begin(side->env, NULL, flags, &side->txn));
	MUST(side, side->dbi_open(side->txn, NULL, table & side->known, &side->dbi));
}

UNUSED static void begin(struct side *side, unsigned flags)
{
	begin_as(side, flags, 0);
}

/* KiB of memory that the process has for itself. */
UNUSED static long private_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Anonymous: %ld", &kib) == 1)
			break;
	if (!file || kib < 0)
		fail("the system", "/proc/self/smaps_rollup", -1);
	fclose(file);
	return kib;
}

UNUSED static void watch(struct side *side)
{
	long now = side->is_watched ? private_kib() : 0;
	side->most_kib = now > side->most_kib ? now : side->most_kib;
}

UNUSED static void end(struct side *side)
{
	watch(side);
	side->txn_abort(side->txn);
}

UNUSED static void commit(struct side *side)
{
	watch(side);
	MUST(side, side->txn_commit(side->txn));
}

/* Nanoseconds of the processor's time: others on the machine change it least. */
UNUSED static double processor_time(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

UNUSED static size_t length_of_file(const struct side *side)
{
	char path[5000];
	struct stat stat_;
	snprintf(path, sizeof path, "%s/data.mdb", side->folder);
	if (stat(path, &stat_))
		fail(side->name, "data.mdb is missing", -1);
	return (size_t)stat_.st_size;
}

/* The part of a workload that counts; a tool can find it by its name. */
__attribute__((noinline, noclone)) UNUSED size_t measured(struct side *side, size_t (*work)(struct side *))
{
	size_t calls = work(side);
	__asm__ volatile("" ::: "memory");
	return calls;
}

#endif
