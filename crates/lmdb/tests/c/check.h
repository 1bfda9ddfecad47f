/* What the programs that hold the library to its promises have in common: a call with the code that
 * it must give, values, folders, children. The first that does not hold ends the program with the
 * line, the call and what was given. */
#ifndef CHECK_H
#define CHECK_H

#include "say.h"

#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define GIVES(code, call) check_code(__LINE__, #call, (call), (code))
#define OK(call) GIVES(0, call)
#define HOLDS(that) ((that) ? (void)0 : check_fails(__LINE__, #that))

static inline _Noreturn void check_fails(int line, const char *what)
{
	fprintf(stderr, "line %d: %s (%s; %s)\n", line, what, strerror(errno), mdb_last_error());
	/* In a child nothing else is to run. */
	_exit(1);
}

static inline void check_code(int line, const char *call, int code, int wanted)
{
	if (code == wanted)
		return;
	fprintf(stderr, "line %d: %s gives %s", line, call, code_name(code));
	fprintf(stderr, ", not %s (%s)\n", code_name(wanted), mdb_last_error());
	_exit(1);
}

static inline MDB_val bytes(const void *at, size_t size)
{
	return (MDB_val){ .mv_size = size, .mv_data = (void *)at };
}

static inline MDB_val text(const char *string)
{
	return bytes(string, strlen(string));
}

static inline int same(const MDB_val *a, const MDB_val *b)
{
	return a->mv_size == b->mv_size && !memcmp(a->mv_data, b->mv_data, a->mv_size);
}

static inline void put(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *data)
{
	MDB_val k = text(key), d = text(data);
	OK(mdb_put(txn, dbi, &k, &d, 0));
}

/* A new folder of that name in the current one. */
static inline const char *folder(const char *name)
{
	if (mkdir(name, 0755))
		check_fails(__LINE__, name);
	return name;
}

/* An environment of a folder, or of a file with MDB_NOSUBDIR. */
static inline MDB_env *open_env(const char *path, unsigned flags, size_t map_size)
{
	MDB_env *env;
	OK(mdb_env_create(&env));
	OK(mdb_env_set_maxdbs(env, 16));
	if (map_size)
		OK(mdb_env_set_mapsize(env, map_size));
	OK(mdb_env_open(env, path, flags, 0644));
	return env;
}

static inline MDB_txn *begin(MDB_env *env, unsigned flags)
{
	MDB_txn *txn;
	OK(mdb_txn_begin(env, NULL, flags, &txn));
	return txn;
}

static inline MDB_dbi open_dbi(MDB_txn *txn, const char *name, unsigned flags)
{
	MDB_dbi dbi;
	OK(mdb_dbi_open(txn, name, flags, &dbi));
	return dbi;
}

/* A database whose handle stays, opened in a transaction of its own. */
static inline MDB_dbi database(MDB_env *env, const char *name, unsigned flags)
{
	MDB_txn *txn = begin(env, flags & MDB_CREATE ? 0 : MDB_RDONLY);
	MDB_dbi dbi = open_dbi(txn, name, flags);
	OK(mdb_txn_commit(txn));
	return dbi;
}

/* Waits for a child; it must have ended well. */
static inline void ends_well(pid_t child)
{
	int status;
	HOLDS(waitpid(child, &status, 0) == child);
	HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Numbers that a seed gives. */
static inline uint32_t chance(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16);
}

#endif
