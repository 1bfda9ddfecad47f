/* What every room of the transcript uses: the state of a run, values, calls that print themselves,
 * environments. */
#ifndef TRANSCRIPT_CALLS_H
#define TRANSCRIPT_CALLS_H

#include "../say.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[4096];
static int is_ours;

static MDB_env *env;
static MDB_txn *txn;
static MDB_cursor *cur;
static MDB_dbi dbi;
/* Outputs of the last call of GET and STEP. */
static MDB_val key, data;

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* ---- values ---- */

/* One of a ring of values, so that several can stand in one call. */
static MDB_val *value(const void *bytes, size_t size)
{
	static MDB_val ring[16];
	static size_t next;
	MDB_val *out = &ring[next++ % LENGTH(ring)];
	out->mv_data = (void *)bytes;
	out->mv_size = size;
	return out;
}

/* The bytes of a string. */
static MDB_val *S(const char *text)
{
	return value(text, strlen(text));
}

/* So many bytes, all of them `byte`. */
static MDB_val *N(size_t size, char byte)
{
	static char *ring[4];
	static size_t next;
	char **at = &ring[next++ % LENGTH(ring)];
	*at = realloc(*at, size + 1);
	memset(*at, byte, size);
	return value(*at, size);
}

/* A native 32-bit number. */
static MDB_val *U(unsigned number)
{
	static unsigned ring[16];
	static size_t next;
	unsigned *at = &ring[next++ % LENGTH(ring)];
	*at = number;
	return value(at, sizeof *at);
}

/* A number of four bytes whose order is theirs. */
static MDB_val *big_endian(unsigned number)
{
	MDB_val *out = U(0);
	unsigned char *at = out->mv_data;
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(number >> (24 - 8 * i));
	return out;
}

/* A native number of the size of a pointer. */
static MDB_val *Z(size_t number)
{
	static size_t ring[16];
	static size_t next;
	size_t *at = &ring[next++ % LENGTH(ring)];
	*at = number;
	return value(at, sizeof *at);
}

/* ---- calls ---- */

static int calls;

static int say(const char *call, int code)
{
	printf("%4d %s -> %s\n", ++calls, call, code_name(code));
	return code;
}

/* A call of which only the code counts. */
#define CALL(call) say(#call, (call))

/* A call that does not return anything. */
#define DO(call) ((call), printf("%4d %s\n", ++calls, #call))

/* A call and numbers that it gave. */
#define NUMBER(call, number) do { \
	int code_ = (call); \
	printf("%4d %s -> %s", ++calls, #call, code_name(code_)); \
	if (!code_) printf(" " #number "=%lld", (long long)(number)); \
	printf("\n"); \
} while (0)

/* A fact that is no call. */
#define FACT(number) printf("%4d " #number " = %lld\n", ++calls, (long long)(number))

/* A call that answers otherwise here than in the original, and why. */
#define IMPROVED(why, call, original, ours) do { \
	int code_ = (call), hoped_ = is_ours ? (ours) : (original); \
	if (code_ == hoped_) printf("%4d %s -> improved: %s\n", ++calls, #call, why); \
	else printf("%4d %s -> %s, not %s\n", ++calls, #call, code_name(code_), code_name(hoped_)); \
} while (0)

static void say_get(const char *call, int code)
{
	printf("%4d %s -> %s", ++calls, call, code_name(code));
	if (!code)
		say_bytes("data", &data);
	printf("\n");
}

/* mdb_get, or another call that gives `data`. */
#define GET(call) say_get(#call, (call))

static void step(MDB_cursor *cursor, MDB_val *from_key, MDB_val *from_data, MDB_cursor_op op,
	const char *call)
{
	key = from_key ? *from_key : (MDB_val){ 0, NULL };
	data = from_data ? *from_data : (MDB_val){ 0, NULL };
	int code = mdb_cursor_get(cursor, &key, &data, op);
	printf("%4d %s -> %s", ++calls, call, code_name(code));
	if (!code) {
		if (op != MDB_FIRST_DUP && op != MDB_LAST_DUP && op != MDB_GET_MULTIPLE)
			say_bytes("key", &key);
		say_bytes("data", &data);
	}
	printf("\n");
}

/* mdb_cursor_get and what it gave. */
#define STEP(cursor, op) step(cursor, NULL, NULL, op, "cursor_get(" #cursor ", " #op ")")
#define SEEK(cursor, k, op) step(cursor, k, NULL, op, "cursor_get(" #cursor ", " #k ", " #op ")")
#define SEEK2(cursor, k, d, op) \
	step(cursor, k, d, op, "cursor_get(" #cursor ", " #k ", " #d ", " #op ")")

static void title(const char *text)
{
	printf("== %s\n", text);
}

/* Everything in a database, on one line. */
static void walk(MDB_txn *in, MDB_dbi of)
{
	MDB_cursor *cursor;
	MDB_val k, d;
	printf("     all of it:");
	int code = mdb_cursor_open(in, of, &cursor);
	if (!code) {
		while (!(code = mdb_cursor_get(cursor, &k, &d, MDB_NEXT)))
			say_bytes("", &k), say_bytes("", &d);
		mdb_cursor_close(cursor);
	}
	printf(" %s\n", code_name(code));
}

/* ---- environments ---- */

/* A path in the folder of this run. */
static const char *at(const char *name)
{
	static char paths[4][4200];
	static size_t next;
	char *path = paths[next++ % LENGTH(paths)];
	snprintf(path, sizeof paths[0], "%s/%s", root, name);
	return path;
}

static void must(const char *what, int code)
{
	if (code) {
		printf("%s failed: %s\n", what, mdb_strerror(code));
		fflush(stdout);
		abort();
	}
}

/* An environment in a new folder with room for eight databases, and a write transaction. The main
 * database has handle 1; before it was opened once, the original has no order for its keys. */
static void begin(const char *name, unsigned flags)
{
	MDB_dbi first;
	mkdir(at(name), 0755);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 8));
	must("open", mdb_env_open(env, at(name), flags, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	must("dbi_open", mdb_dbi_open(txn, NULL, 0, &first));
}

/* The same with one named database. */
static void begin_with(const char *name, unsigned flags)
{
	begin(name, 0);
	CALL(mdb_dbi_open(txn, "table", flags | MDB_CREATE, &dbi));
}

/* Ends what `begin` began. */
static void end(void)
{
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
}

/* One-letter keys from `from` to `to` with their numbers as values. */
static void letters(char from, char to)
{
	char number[8];
	for (char letter = from; letter <= to; letter++) {
		snprintf(number, sizeof number, "%d", letter - 'a');
		must("put", mdb_put(txn, dbi, N(1, letter), S(number), 0));
	}
}

#endif
