/* Every function of the interface with everything that may be wrong with what it is given, a line
 * each: the call, and its code. Each call is made in a process of its own, since some end LMDB's.
 *
 *     misuse_table FOLDER original|ours
 *
 * Run with LMDB itself and with this library the lines are the same, but where LMDB's process dies
 * or LMDB has no such function. Where another code than LMDB's is promised the line has the reason,
 * and on LMDB's side the promised code. */
#define _GNU_SOURCE
#include "say.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* What a call is made with. */
enum ground {
	/* A write transaction, and one for reading that was reset. */
	WRITING,
	/* A write transaction that has a child. */
	NESTED,
	/* One that has failed: there was no room in the map. */
	FAILED,
	/* A transaction for reading. */
	READING,
	/* A cursor for reading whose transaction has ended. */
	ENDED,
};

static MDB_env *env, *closed, *failed;
static MDB_txn *txn, *child, *rested, *new_txn;
static MDB_dbi dbi, dups, new_dbi;
static MDB_cursor *cursor, *dups_cursor, *unset, *new_cursor;
static MDB_val key, value, empty, large;
static char long_bytes[600];
static MDB_stat stats;
static MDB_envinfo info;
static unsigned flags;
static size_t count;
static uint64_t number;
static const char *path;
static const MDB_val *values;
static int fd, dead;

/* ---- ground ---- */

static void must(const char *what, int code)
{
	if (!code)
		return;
	printf("%s gives %s", what, code_name(code));
	fflush(stdout);
	_exit(3);
}
#define MUST(call) must(#call, (call))

static void fill(void)
{
	MDB_txn *fill;
	MUST(mdb_txn_begin(env, NULL, 0, &fill));
	MUST(mdb_dbi_open(fill, "plain", MDB_CREATE, &dbi));
	MUST(mdb_dbi_open(fill, "dups", MDB_CREATE | MDB_DUPSORT, &dups));
	MUST(mdb_put(fill, dbi, &key, &value, 0));
	MUST(mdb_put(fill, dups, &key, &value, 0));
	MUST(mdb_txn_commit(fill));
}

static void open_cursors(void)
{
	MUST(mdb_cursor_open(txn, dbi, &cursor));
	MUST(mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
	MUST(mdb_cursor_open(txn, dups, &dups_cursor));
	MUST(mdb_cursor_get(dups_cursor, &key, &value, MDB_FIRST));
	MUST(mdb_cursor_open(txn, dups, &unset));
}

static void use_up_the_map(void)
{
	static char bytes[100000];
	MDB_val much = { sizeof bytes, bytes };
	for (unsigned i = 0; i < 100; i++) {
		MDB_val k = { sizeof i, &i };
		if (mdb_put(txn, dbi, &k, &much, 0))
			return;
	}
}

static void prepare(const char *folder, enum ground ground)
{
	key = (MDB_val){ 3, "key" }, value = (MDB_val){ 5, "value" };
	empty = (MDB_val){ 0, "" }, large = (MDB_val){ sizeof long_bytes, long_bytes };
	MUST(mdb_env_create(&closed));
	MUST(mdb_env_create(&failed));
	if (mdb_env_open(failed, "not there", 0, 0644) != ENOENT)
		must("mdb_env_open of nothing", EINVAL);
	MUST(mdb_env_create(&env));
	MUST(mdb_env_set_maxdbs(env, 4));
	MUST(mdb_env_set_mapsize(env, 1 << 20));
	MUST(mdb_env_open(env, folder, MDB_NOTLS | MDB_NOSYNC, 0644));
	fill();
	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &rested));
	mdb_txn_reset(rested);
	MUST(mdb_txn_begin(env, NULL, ground == READING || ground == ENDED ? MDB_RDONLY : 0, &txn));
	open_cursors();
	if (ground == NESTED)
		MUST(mdb_txn_begin(env, txn, 0, &child));
	if (ground == FAILED)
		use_up_the_map();
	if (ground == ENDED)
		mdb_txn_abort(txn);
}

/* ---- cases ---- */

/* The case that is wanted, the one that is next, and whether only its text is. */
static int wanted, next, asks;
static enum ground ground;
static const char *text, *why;
static int promised;

static int asked(enum ground needs, const char *call, int code, const char *reason)
{
	ground = needs, text = call, promised = code, why = reason;
	return asks;
}

/* A call, on its ground. */
#define CASE(needs, call) LINE(needs, (call), #call, 0, NULL)
/* A call without an answer. */
#define QUIET(needs, call) LINE(needs, (call, 0), #call, 0, NULL)
/* One to which another code than LMDB's is promised. */
#define DIFFERS(needs, call, code, reason) LINE(needs, (call), #call, code, reason)
#define LINE(needs, answer, call, code, reason) \
	if (next++ == wanted) \
		return asked(needs, call, code, reason) ? 0 : answer

/* No case of a chapter. */
#define NONE 12345

static int of_environments(void)
{
	CASE(WRITING, mdb_env_create(NULL));
	CASE(WRITING, mdb_env_open(NULL, ".", 0, 0644));
	CASE(WRITING, mdb_env_open(closed, NULL, 0, 0644));
	CASE(WRITING, mdb_env_open(closed, "not there", 0, 0644));
	CASE(WRITING, mdb_env_open(closed, ".", 0x08, 0644));
	CASE(WRITING, mdb_env_open(env, ".", 0, 0644));
	CASE(WRITING, mdb_env_copy(NULL, "."));
	CASE(WRITING, mdb_env_copy(env, NULL));
	CASE(WRITING, mdb_env_copy(env, "not there"));
	CASE(WRITING, mdb_env_copy(closed, "not there"));
	CASE(WRITING, mdb_env_copy2(NULL, ".", MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_copy2(env, NULL, MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_copyfd(NULL, 1));
	CASE(WRITING, mdb_env_copyfd(env, -1));
	CASE(WRITING, mdb_env_copyfd(closed, 1));
	CASE(WRITING, mdb_env_copyfd2(NULL, 1, MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_copyfd2(env, -1, MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_stat(NULL, &stats));
	CASE(WRITING, mdb_env_stat(env, NULL));
	CASE(WRITING, mdb_env_stat(closed, &stats));
	CASE(WRITING, mdb_env_info(NULL, &info));
	CASE(WRITING, mdb_env_info(env, NULL));
	CASE(WRITING, mdb_env_info(closed, &info));
	CASE(WRITING, mdb_env_sync(NULL, 1));
	DIFFERS(WRITING, mdb_env_sync(closed, 1), EINVAL, "as elsewhere");
	CASE(WRITING, mdb_env_set_flags(NULL, MDB_NOSYNC, 1));
	CASE(WRITING, mdb_env_set_flags(env, MDB_WRITEMAP, 1));
	CASE(WRITING, mdb_env_set_flags(env, MDB_NOTLS, 0));
	CASE(WRITING, mdb_env_set_flags(env, 0x02, 1));
	CASE(WRITING, mdb_env_get_flags(NULL, &flags));
	CASE(WRITING, mdb_env_get_flags(env, NULL));
	CASE(WRITING, mdb_env_get_path(NULL, &path));
	CASE(WRITING, mdb_env_get_path(env, NULL));
	CASE(WRITING, mdb_env_get_fd(NULL, &fd));
	CASE(WRITING, mdb_env_get_fd(env, NULL));
	CASE(WRITING, mdb_env_set_mapsize(NULL, 1 << 20));
	CASE(WRITING, mdb_env_set_mapsize(env, 1 << 20));
	CASE(WRITING, mdb_env_set_maxreaders(NULL, 1));
	CASE(WRITING, mdb_env_set_maxreaders(env, 1));
	CASE(WRITING, mdb_env_set_maxreaders(closed, 0));
	CASE(WRITING, mdb_env_get_maxreaders(NULL, &flags));
	CASE(WRITING, mdb_env_get_maxreaders(env, NULL));
	CASE(WRITING, mdb_env_set_maxdbs(NULL, 1));
	CASE(WRITING, mdb_env_set_maxdbs(env, 1));
	CASE(WRITING, mdb_env_set_userctx(NULL, NULL));
	CASE(WRITING, mdb_env_get_userctx(NULL) != NULL);
	CASE(WRITING, mdb_env_set_assert(NULL, NULL));
	QUIET(WRITING, mdb_env_close(NULL));
	CASE(WRITING, mdb_reader_list(NULL, NULL, NULL));
	CASE(WRITING, mdb_reader_list(env, NULL, NULL));
	CASE(WRITING, mdb_reader_check(NULL, &dead));
	CASE(WRITING, mdb_reader_check(env, NULL));
	return NONE;
}

/* What a message says; -1 ends the list. */
static char listed[100];
static int lists(const char *line, void *answer)
{
	snprintf(listed, sizeof listed, "%s", line);
	return answer ? -1 : 7;
}

/* Environments that were not opened, and of which the opening failed. */
static int of_unopened(void)
{
	CASE(WRITING, mdb_reader_check(closed, NULL));
	CASE(WRITING, mdb_reader_check(closed, &dead));
	CASE(WRITING, (dead = 9, mdb_reader_check(closed, &dead), dead));
	CASE(WRITING, mdb_reader_check(failed, NULL));
	CASE(WRITING, (dead = 9, mdb_reader_check(failed, &dead), dead));
	CASE(WRITING, mdb_reader_list(closed, NULL, NULL));
	CASE(WRITING, mdb_reader_list(closed, lists, NULL));
	CASE(WRITING, mdb_reader_list(closed, lists, listed));
	CASE(WRITING, mdb_reader_list(failed, lists, NULL));
	CASE(WRITING, (mdb_reader_list(closed, lists, NULL), strcmp(listed, "(no reader locks)\n")));
	CASE(WRITING, (mdb_reader_list(failed, lists, NULL), strcmp(listed, "(no reader locks)\n")));
	CASE(WRITING, mdb_env_stat(failed, &stats));
	CASE(WRITING, mdb_env_info(failed, &info));
	CASE(WRITING, mdb_env_copy2(closed, "not there", MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_copy(failed, "not there"));
	CASE(WRITING, mdb_env_copyfd2(closed, 1, MDB_CP_COMPACT));
	CASE(WRITING, mdb_env_copyfd(failed, 1));
	CASE(WRITING, mdb_env_get_flags(closed, &flags));
	CASE(WRITING, (flags = 9, mdb_env_get_flags(closed, &flags), (int)flags));
	CASE(WRITING, (mdb_env_get_flags(failed, &flags), (int)flags));
	CASE(WRITING, (mdb_env_open(failed, "not there", MDB_NOSYNC | MDB_NOTLS, 0644),
		mdb_env_get_flags(failed, &flags), (int)flags));
	CASE(WRITING, mdb_env_set_flags(closed, MDB_NOSYNC, 1));
	CASE(WRITING, mdb_env_set_flags(closed, MDB_NOTLS, 1));
	CASE(WRITING, mdb_env_set_flags(failed, MDB_NOSYNC, 1));
	CASE(WRITING, (mdb_env_set_flags(closed, MDB_NOSYNC, 1),
		mdb_env_get_flags(closed, &flags), (int)flags));
	CASE(WRITING, mdb_env_get_path(closed, &path));
	CASE(WRITING, (mdb_env_get_path(closed, &path), path != NULL));
	CASE(WRITING, mdb_env_get_path(failed, &path));
	DIFFERS(WRITING, (mdb_env_get_path(failed, &path), path != NULL), 0, "nothing is open");
	CASE(WRITING, mdb_env_get_fd(closed, &fd));
	CASE(WRITING, (fd = 9, mdb_env_get_fd(closed, &fd), fd == -1));
	CASE(WRITING, (fd = 9, mdb_env_get_fd(failed, &fd), fd == -1));
	CASE(WRITING, mdb_env_set_mapsize(closed, 0));
	CASE(WRITING, mdb_env_set_mapsize(closed, 1));
	CASE(WRITING, mdb_env_set_mapsize(failed, 1 << 20));
	CASE(WRITING, mdb_env_set_maxreaders(closed, 5));
	CASE(WRITING, (mdb_env_set_maxreaders(closed, 5),
		mdb_env_get_maxreaders(closed, &flags), (int)flags));
	CASE(WRITING, mdb_env_set_maxreaders(failed, 5));
	CASE(WRITING, (mdb_env_get_maxreaders(closed, &flags), (int)flags));
	CASE(WRITING, mdb_env_set_maxdbs(closed, 5));
	CASE(WRITING, mdb_env_set_maxdbs(failed, 5));
	CASE(WRITING, mdb_env_get_maxkeysize(closed));
	CASE(WRITING, mdb_env_set_userctx(closed, &fd));
	CASE(WRITING, mdb_env_get_userctx(closed) != NULL);
	CASE(WRITING, (mdb_env_set_userctx(closed, &fd), mdb_env_get_userctx(closed) == &fd));
	CASE(WRITING, mdb_env_set_assert(closed, NULL));
	DIFFERS(WRITING, mdb_env_sync(closed, 0), EINVAL, "as elsewhere");
	DIFFERS(WRITING, mdb_env_sync(failed, 1), EINVAL, "as elsewhere");
	CASE(WRITING, mdb_txn_begin(closed, NULL, 0, &new_txn));
	CASE(WRITING, mdb_txn_begin(failed, NULL, 0, &new_txn));
	CASE(WRITING, mdb_txn_begin(failed, NULL, MDB_RDONLY, &new_txn));
	QUIET(WRITING, mdb_dbi_close(closed, 0));
	QUIET(WRITING, mdb_dbi_close(closed, 1));
	QUIET(WRITING, mdb_env_close(closed));
	QUIET(WRITING, mdb_env_close(failed));
	return NONE;
}

static int of_transactions(void)
{
	CASE(WRITING, mdb_txn_begin(NULL, NULL, 0, &new_txn));
	CASE(WRITING, mdb_txn_begin(closed, NULL, MDB_RDONLY, &new_txn));
	CASE(WRITING, mdb_txn_begin(env, NULL, MDB_RDONLY, NULL));
	CASE(READING, mdb_txn_begin(env, txn, 0, &new_txn));
	CASE(NESTED, mdb_txn_begin(env, txn, 0, &new_txn));
	CASE(FAILED, mdb_txn_begin(env, txn, 0, &new_txn));
	CASE(WRITING, mdb_txn_env(NULL) != NULL);
	CASE(WRITING, mdb_txn_id(NULL) != 0);
	CASE(WRITING, mdb_txn_commit(NULL));
	CASE(READING, mdb_txn_commit(txn));
	CASE(FAILED, mdb_txn_commit(txn));
	CASE(WRITING, mdb_txn_commit(rested));
	QUIET(WRITING, mdb_txn_abort(NULL));
	QUIET(WRITING, mdb_txn_abort(rested));
	QUIET(NESTED, mdb_txn_abort(txn));
	QUIET(WRITING, mdb_txn_reset(NULL));
	QUIET(WRITING, mdb_txn_reset(txn));
	QUIET(WRITING, mdb_txn_reset(rested));
	CASE(WRITING, mdb_txn_renew(NULL));
	CASE(WRITING, mdb_txn_renew(txn));
	CASE(READING, mdb_txn_renew(txn));
	return NONE;
}

static int of_databases(void)
{
	CASE(WRITING, mdb_dbi_open(NULL, NULL, 0, &new_dbi));
	CASE(WRITING, mdb_dbi_open(txn, "plain", 0, NULL));
	CASE(WRITING, mdb_dbi_open(txn, "new", MDB_CREATE | 0x01, &new_dbi));
	CASE(WRITING, mdb_dbi_open(txn, "new", 0, &new_dbi));
	CASE(WRITING, mdb_dbi_open(rested, "plain", 0, &new_dbi));
	CASE(READING, mdb_dbi_open(txn, "new", MDB_CREATE, &new_dbi));
	CASE(NESTED, mdb_dbi_open(txn, "new", MDB_CREATE, &new_dbi));
	CASE(FAILED, mdb_dbi_open(txn, "new", MDB_CREATE, &new_dbi));
	QUIET(WRITING, mdb_dbi_close(NULL, dbi));
	QUIET(WRITING, mdb_dbi_close(env, 0));
	QUIET(WRITING, mdb_dbi_close(env, 99));
	CASE(WRITING, mdb_dbi_flags(NULL, dbi, &flags));
	CASE(WRITING, mdb_dbi_flags(txn, 99, &flags));
	CASE(WRITING, mdb_stat(NULL, dbi, &stats));
	CASE(WRITING, mdb_stat(txn, dbi, NULL));
	CASE(WRITING, mdb_stat(txn, 99, &stats));
	CASE(WRITING, mdb_stat(rested, dbi, &stats));
	CASE(NESTED, mdb_stat(txn, dbi, &stats));
	CASE(FAILED, mdb_stat(txn, dbi, &stats));
	CASE(WRITING, mdb_drop(NULL, dbi, 0));
	CASE(WRITING, mdb_drop(txn, 99, 0));
	CASE(WRITING, mdb_drop(txn, dbi, 2));
	CASE(READING, mdb_drop(txn, dbi, 0));
	CASE(NESTED, mdb_drop(txn, dbi, 0));
	CASE(FAILED, mdb_drop(txn, dbi, 0));
	CASE(WRITING, mdb_set_compare(NULL, dbi, NULL));
	CASE(WRITING, mdb_set_compare(txn, 99, NULL));
	CASE(WRITING, mdb_set_dupsort(NULL, dups, NULL));
	CASE(WRITING, mdb_set_dupsort(txn, 99, NULL));
	CASE(WRITING, mdb_set_relfunc(NULL, dbi, NULL));
	CASE(WRITING, mdb_set_relfunc(txn, 99, NULL));
	CASE(WRITING, mdb_set_relctx(NULL, dbi, NULL));
	CASE(WRITING, mdb_set_relctx(txn, 99, NULL));
	return NONE;
}

static int of_entries(void)
{
	CASE(WRITING, mdb_cmp(NULL, dbi, &key, &value));
	CASE(WRITING, mdb_cmp(txn, dbi, NULL, &value));
	CASE(WRITING, mdb_dcmp(NULL, dups, &key, &value));
	CASE(WRITING, mdb_dcmp(txn, dups, &key, NULL));
	CASE(WRITING, mdb_get(NULL, dbi, &key, &value));
	CASE(WRITING, mdb_get(txn, dbi, NULL, &value));
	CASE(WRITING, mdb_get(txn, dbi, &key, NULL));
	CASE(WRITING, mdb_get(txn, 0, &key, &value));
	CASE(WRITING, mdb_get(txn, 99, &key, &value));
	CASE(WRITING, mdb_get(txn, dbi, &empty, &value));
	CASE(WRITING, mdb_get(txn, dbi, &large, &value));
	CASE(WRITING, mdb_get(rested, dbi, &key, &value));
	CASE(NESTED, mdb_get(txn, dbi, &key, &value));
	CASE(FAILED, mdb_get(txn, dbi, &key, &value));
	CASE(WRITING, mdb_put(NULL, dbi, &key, &value, 0));
	CASE(WRITING, mdb_put(txn, dbi, NULL, &value, 0));
	CASE(WRITING, mdb_put(txn, dbi, &key, NULL, 0));
	CASE(WRITING, mdb_put(txn, 0, &key, &value, 0));
	CASE(WRITING, mdb_put(txn, 99, &key, &value, 0));
	CASE(WRITING, mdb_put(txn, dbi, &empty, &value, 0));
	CASE(WRITING, mdb_put(txn, dbi, &large, &value, 0));
	CASE(WRITING, mdb_put(txn, dups, &key, &large, 0));
	CASE(WRITING, mdb_put(txn, dbi, &key, &value, MDB_CURRENT));
	CASE(WRITING, mdb_put(txn, dbi, &key, &value, MDB_MULTIPLE));
	CASE(WRITING, mdb_put(rested, dbi, &key, &value, 0));
	CASE(READING, mdb_put(txn, dbi, &key, &value, 0));
	CASE(NESTED, mdb_put(txn, dbi, &key, &value, 0));
	CASE(FAILED, mdb_put(txn, dbi, &key, &value, 0));
	CASE(WRITING, mdb_del(NULL, dbi, &key, NULL));
	CASE(WRITING, mdb_del(txn, dbi, NULL, NULL));
	CASE(WRITING, mdb_del(txn, 99, &key, NULL));
	CASE(WRITING, mdb_del(txn, dbi, &empty, NULL));
	CASE(WRITING, mdb_del(txn, dbi, &large, NULL));
	CASE(READING, mdb_del(txn, dbi, &key, NULL));
	CASE(NESTED, mdb_del(txn, dbi, &key, NULL));
	CASE(FAILED, mdb_del(txn, dbi, &key, NULL));
	return NONE;
}

static int of_cursors(void)
{
	CASE(WRITING, mdb_cursor_open(NULL, dbi, &new_cursor));
	CASE(WRITING, mdb_cursor_open(txn, dbi, NULL));
	CASE(WRITING, mdb_cursor_open(txn, 0, &new_cursor));
	CASE(WRITING, mdb_cursor_open(txn, 99, &new_cursor));
	CASE(WRITING, mdb_cursor_open(rested, dbi, &new_cursor));
	CASE(NESTED, mdb_cursor_open(txn, dbi, &new_cursor));
	CASE(FAILED, mdb_cursor_open(txn, dbi, &new_cursor));
	QUIET(WRITING, mdb_cursor_close(NULL));
	CASE(WRITING, mdb_cursor_renew(NULL, cursor));
	CASE(WRITING, mdb_cursor_renew(txn, NULL));
	CASE(WRITING, mdb_cursor_renew(txn, cursor));
	CASE(READING, mdb_cursor_renew(rested, cursor));
	CASE(WRITING, mdb_cursor_txn(NULL) != NULL);
	CASE(WRITING, mdb_cursor_get(NULL, &key, &value, MDB_FIRST));
	CASE(WRITING, mdb_cursor_get(cursor, NULL, &value, MDB_SET));
	CASE(WRITING, mdb_cursor_get(cursor, NULL, &value, MDB_SET_KEY));
	CASE(WRITING, mdb_cursor_get(cursor, NULL, &value, MDB_SET_RANGE));
	CASE(WRITING, mdb_cursor_get(cursor, &empty, &value, MDB_SET));
	CASE(WRITING, mdb_cursor_get(cursor, &large, &value, MDB_SET));
	CASE(WRITING, mdb_cursor_get(dups_cursor, &key, NULL, MDB_GET_BOTH));
	CASE(WRITING, mdb_cursor_get(dups_cursor, NULL, &value, MDB_GET_BOTH));
	CASE(WRITING, mdb_cursor_get(dups_cursor, &key, NULL, MDB_GET_BOTH_RANGE));
	CASE(WRITING, mdb_cursor_get(dups_cursor, &key, NULL, MDB_FIRST_DUP));
	CASE(WRITING, mdb_cursor_get(dups_cursor, &key, NULL, MDB_LAST_DUP));
	CASE(WRITING, mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH));
	CASE(WRITING, mdb_cursor_get(cursor, &key, &value, MDB_FIRST_DUP));
	CASE(WRITING, mdb_cursor_get(cursor, &key, &value, MDB_GET_MULTIPLE));
	CASE(WRITING, mdb_cursor_get(cursor, &key, &value, (MDB_cursor_op)99));
	CASE(WRITING, mdb_cursor_get(unset, &key, &value, MDB_GET_CURRENT));
	CASE(WRITING, mdb_cursor_get(unset, &key, &value, MDB_FIRST_DUP));
	CASE(ENDED, mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
	CASE(NESTED, mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
	CASE(FAILED, mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
	return NONE;
}

static int of_writing_cursors(void)
{
	CASE(WRITING, mdb_cursor_put(NULL, &key, &value, 0));
	CASE(WRITING, mdb_cursor_put(cursor, NULL, &value, 0));
	CASE(WRITING, mdb_cursor_put(cursor, &key, NULL, 0));
	CASE(WRITING, mdb_cursor_put(cursor, &empty, &value, 0));
	CASE(WRITING, mdb_cursor_put(cursor, &large, &value, 0));
	CASE(WRITING, mdb_cursor_put(dups_cursor, &key, &large, 0));
	CASE(WRITING, mdb_cursor_put(cursor, &key, &value, MDB_MULTIPLE));
	CASE(WRITING, mdb_cursor_put(unset, &key, &value, MDB_CURRENT));
	CASE(READING, mdb_cursor_put(cursor, &key, &value, 0));
	CASE(ENDED, mdb_cursor_put(cursor, &key, &value, 0));
	CASE(NESTED, mdb_cursor_put(cursor, &key, &value, 0));
	CASE(FAILED, mdb_cursor_put(cursor, &key, &value, 0));
	CASE(WRITING, mdb_cursor_del(NULL, 0));
	CASE(WRITING, mdb_cursor_del(unset, 0));
	CASE(READING, mdb_cursor_del(cursor, 0));
	CASE(ENDED, mdb_cursor_del(cursor, 0));
	CASE(NESTED, mdb_cursor_del(cursor, 0));
	CASE(FAILED, mdb_cursor_del(cursor, 0));
	CASE(WRITING, mdb_cursor_count(NULL, &count));
	CASE(WRITING, mdb_cursor_count(dups_cursor, NULL));
	CASE(WRITING, mdb_cursor_count(unset, &count));
	CASE(WRITING, mdb_cursor_count(cursor, &count));
	CASE(ENDED, mdb_cursor_count(dups_cursor, &count));
	CASE(NESTED, mdb_cursor_count(dups_cursor, &count));
	CASE(FAILED, mdb_cursor_count(dups_cursor, &count));
	return NONE;
}

static int of_counts(void)
{
	CASE(WRITING, mdb_count_all(NULL, dbi, 0, &number));
	CASE(WRITING, mdb_count_all(txn, dbi, 0, NULL));
	CASE(WRITING, mdb_count_all(txn, 99, 0, &number));
	CASE(WRITING, mdb_count_all(txn, dbi, 0x100, &number));
	CASE(WRITING, mdb_count_range(NULL, dbi, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_count_range(txn, dbi, NULL, NULL, 0, NULL));
	CASE(WRITING, mdb_count_range(txn, 99, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_range_count_keys(NULL, dbi, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_range_count_keys(txn, dbi, NULL, NULL, 0, NULL));
	CASE(WRITING, mdb_range_count_keys(txn, 99, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_range_count_values(NULL, dups, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_range_count_values(txn, dups, NULL, NULL, 0, NULL));
	CASE(WRITING, mdb_range_count_values(txn, 99, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_get_rank(NULL, dbi, 0, &key, &value));
	CASE(WRITING, mdb_get_rank(txn, 99, 0, &key, &value));
	CASE(WRITING, mdb_cursor_get_rank(NULL, 0, &key, &value, 0));
	CASE(WRITING, mdb_cursor_get_rank(cursor, 0, &key, &value, 1));
	CASE(WRITING, mdb_get_key_rank(NULL, dbi, &key, NULL, &number));
	CASE(WRITING, mdb_get_key_rank(txn, dbi, NULL, NULL, &number));
	CASE(WRITING, mdb_get_key_rank(txn, dbi, &key, NULL, NULL));
	CASE(WRITING, mdb_get_key_rank(txn, 99, &key, NULL, &number));
	CASE(WRITING, mdb_cursor_key_rank(NULL, &key, NULL, 0, &number));
	CASE(WRITING, mdb_cursor_key_rank(cursor, NULL, NULL, 0, &number));
	CASE(WRITING, mdb_cursor_key_rank(cursor, &key, NULL, 1, &number));
	CASE(WRITING, mdb_cursor_key_rank(cursor, &key, NULL, 0, NULL));
	CASE(WRITING, mdb_cursor_list_dup(NULL, &values, &count));
	CASE(WRITING, mdb_cursor_list_dup(dups_cursor, NULL, &count));
	CASE(WRITING, mdb_cursor_list_dup(dups_cursor, &values, NULL));
	CASE(WRITING, mdb_cursor_list_dup(unset, &values, &count));
	CASE(ENDED, mdb_cursor_list_dup(dups_cursor, &values, &count));
	CASE(ENDED, mdb_cursor_get_rank(cursor, 0, &key, &value, 0));
	CASE(ENDED, mdb_cursor_key_rank(cursor, &key, NULL, 0, &number));
	CASE(WRITING, mdb_env_set_interrupt(NULL, 1));
	return NONE;
}

/* The code of a case, or with `asks` nothing but what it is; NONE behind the last one. */
static int run(int which)
{
	static int (*const chapters[])(void) = {
		of_environments, of_unopened, of_transactions, of_databases, of_entries, of_cursors,
		of_writing_cursors, of_counts,
	};
	wanted = which, next = 0;
	for (size_t i = 0; i < LENGTH(chapters); i++) {
		int code = chapters[i]();
		if (next > wanted)
			return code;
	}
	return NONE;
}

/* ---- lines ---- */

static int remove_files(const char *folder)
{
	static const char *const names[] = { "data.mdb", "lock.mdb" };
	char file[4200];
	for (size_t i = 0; i < LENGTH(names); i++) {
		snprintf(file, sizeof file, "%s/%s", folder, names[i]);
		unlink(file);
	}
	return rmdir(folder);
}

/* Makes a call in a process of its own, which says what it gives. */
static void say(const char *folder, int which, int is_original)
{
	printf("%s [%d]:", text, (int)ground);
	if (why)
		printf(" (%s)", why);
	if (why && is_original) {
		printf(" %s\n", code_name(promised));
		return;
	}
	fflush(stdout);
	mkdir(folder, 0755);
	pid_t process = fork();
	if (!process) {
		/* What it says of dying is no part of the lines. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		alarm(20);
		prepare(folder, ground);
		asks = 0;
		int code = run(which);
		printf(" %s\n", code_name(code));
		fflush(stdout);
		_exit(0);
	}
	int status;
	waitpid(process, &status, 0);
	if (status)
		printf(" dies\n");
	remove_files(folder);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: %s FOLDER original|ours\n", argv[0]);
		return 2;
	}
	for (int which = 0;; which++) {
		asks = 1;
		if (run(which) == NONE)
			return 0;
		say(argv[1], which, !strcmp(argv[2], "original"));
	}
}
