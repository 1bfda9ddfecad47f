/* A transcript of LMDB's interface: some hundred calls, legal and illegal, a line each with its code
 * and its outputs. Run on two libraries it must print the same. It prints nothing that is left open
 * or depends on how pages are laid out: no addresses, no page counts, no process numbers.
 *
 *     transcript FOLDER original|ours
 *
 * Where the library of this project answers otherwise on purpose, the call stands in IMPROVED with
 * both answers: the line is the same only if each library gives the one that is told of it. */
#include "say.h"

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

static void versions(void)
{
	title("versions and messages");
	static const int codes[] = {
		0, MDB_KEYEXIST, MDB_NOTFOUND, MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC,
		MDB_VERSION_MISMATCH, MDB_INVALID, MDB_MAP_FULL, MDB_DBS_FULL, MDB_READERS_FULL,
		MDB_TLS_FULL, MDB_TXN_FULL, MDB_CURSOR_FULL, MDB_PAGE_FULL, MDB_MAP_RESIZED,
		MDB_INCOMPATIBLE, MDB_BAD_RSLOT, MDB_BAD_TXN, MDB_BAD_VALSIZE, MDB_BAD_DBI,
		EINVAL, EACCES, ENOENT, ENOSPC,
	};
	int major = -1, minor = -1, patch = -1;
	FACT(mdb_version(&major, &minor, &patch) != NULL);
	FACT(major);
	FACT(minor);
	FACT(patch >= 0);
	FACT(mdb_version(NULL, NULL, NULL) != NULL);
	for (size_t i = 0; i < LENGTH(codes); i++)
		printf("%4d mdb_strerror(%d) = \"%s\"\n", ++calls, codes[i], mdb_strerror(codes[i]));
}

static void environment_before_open(void)
{
	title("an environment before it is open");
	unsigned readers = 0, flags = 0;
	CALL(mdb_env_create(&env));
	CALL(mdb_env_set_mapsize(env, 8 << 20));
	NUMBER(mdb_env_get_maxreaders(env, &readers), readers);
	CALL(mdb_env_set_maxreaders(env, 0));
	CALL(mdb_env_set_maxreaders(env, 5));
	NUMBER(mdb_env_get_maxreaders(env, &readers), readers);
	CALL(mdb_env_get_maxreaders(NULL, &readers));
	CALL(mdb_env_get_maxreaders(env, NULL));
	CALL(mdb_env_set_maxdbs(env, 3));
	CALL(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	NUMBER(mdb_env_get_flags(env, &flags), flags);
	CALL(mdb_env_set_flags(env, MDB_NOSYNC, 0));
	NUMBER(mdb_env_get_flags(env, &flags), flags);
	CALL(mdb_env_set_flags(env, MDB_NOSUBDIR, 1));
	CALL(mdb_env_set_flags(env, MDB_RDONLY, 1));
	CALL(mdb_env_get_flags(NULL, &flags));
	CALL(mdb_env_get_flags(env, NULL));
	FACT(mdb_env_get_maxkeysize(env));
	FACT(mdb_env_get_userctx(NULL) == NULL);
	FACT(mdb_env_get_userctx(env) == NULL);
	CALL(mdb_env_set_userctx(env, &readers));
	CALL(mdb_env_set_userctx(NULL, &readers));
	FACT(mdb_env_get_userctx(env) == &readers);
	CALL(mdb_env_set_assert(env, NULL));
	CALL(mdb_env_set_assert(NULL, NULL));
	CALL(mdb_env_stat(env, NULL));
	CALL(mdb_env_info(env, NULL));
	CALL(mdb_env_get_path(env, NULL));
	CALL(mdb_env_get_fd(env, NULL));
	DO(mdb_env_close(env));
	DO(mdb_env_close(NULL));
}

/* Opens with these flags and closes. */
static int open_at(const char *path, unsigned flags)
{
	MDB_env *opened;
	must("create", mdb_env_create(&opened));
	int code = mdb_env_open(opened, path, flags, 0644);
	mdb_env_close(opened);
	return code;
}

static void file_of(const char *path, const char *byte, size_t size)
{
	FILE *file = fopen(path, "w");
	while (size--)
		fputc(*byte, file);
	fclose(file);
}

static void environment_opening(void)
{
	title("opening");
	mkdir(at("open"), 0755);
	CALL(open_at(at("missing"), 0));
	CALL(open_at(at("missing"), MDB_RDONLY));
	CALL(open_at(at("missing/deep"), MDB_NOSUBDIR));
	CALL(open_at(at("open"), MDB_RDONLY));
	CALL(open_at(at("open"), 0x8));
	CALL(open_at(at("open"), MDB_CREATE));
	CALL(open_at(at("open"), 0));
	CALL(open_at(at("open"), MDB_RDONLY));
	CALL(open_at(at("open"), MDB_NOLOCK));
	CALL(open_at(at("open"), MDB_RDONLY | MDB_NOLOCK));
	CALL(open_at(at("open"), MDB_NOTLS | MDB_NORDAHEAD | MDB_NOMEMINIT));
	CALL(open_at(at("open"), MDB_NOSYNC | MDB_NOMETASYNC));
	CALL(open_at(at("open"), MDB_WRITEMAP | MDB_MAPASYNC));
	CALL(open_at(at("file"), MDB_NOSUBDIR));
	CALL(open_at(at("file"), MDB_NOSUBDIR | MDB_RDONLY));
	CALL(open_at(at("file"), 0));
	CALL(open_at(at("open"), MDB_NOSUBDIR));
	FACT(access(at("open/data.mdb"), F_OK));
	FACT(access(at("open/lock.mdb"), F_OK));
	FACT(access(at("file"), F_OK));
	FACT(access(at("file-lock"), F_OK));
	mkdir(at("nolock"), 0755);
	CALL(open_at(at("nolock"), MDB_NOLOCK));
	IMPROVED("no flag takes the lock away: without it a file can be destroyed",
		access(at("nolock/lock.mdb"), F_OK), -1, 0);
	file_of(at("empty"), "", 0);
	CALL(open_at(at("empty"), MDB_NOSUBDIR));
	file_of(at("letters"), "a", 40000);
	CALL(open_at(at("letters"), MDB_NOSUBDIR));
	CALL(open_at(at("letters"), MDB_NOSUBDIR | MDB_RDONLY));
	file_of(at("short"), "a", 100);
	CALL(open_at(at("short"), MDB_NOSUBDIR));
	file_of(at("zeros"), "\0", 40000);
	CALL(open_at(at("zeros"), MDB_NOSUBDIR));
}

static void environment_when_open(void)
{
	title("an environment that is open");
	unsigned flags = 0, readers = 0;
	const char *path = NULL;
	mdb_filehandle_t fd = -1;
	MDB_stat stat;
	MDB_envinfo info;
	begin("whenopen", MDB_NOTLS);
	CALL(mdb_env_open(env, at("whenopen"), 0, 0644));
	CALL(mdb_env_set_maxreaders(env, 7));
	CALL(mdb_env_set_maxdbs(env, 7));
	NUMBER(mdb_env_get_flags(env, &flags), flags);
	CALL(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT, 1));
	NUMBER(mdb_env_get_flags(env, &flags), flags);
	CALL(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT, 0));
	NUMBER(mdb_env_get_flags(env, &flags), flags);
	CALL(mdb_env_set_flags(env, MDB_NOTLS, 0));
	CALL(mdb_env_set_flags(env, MDB_WRITEMAP, 1));
	CALL(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOLOCK, 1));
	NUMBER(mdb_env_get_path(env, &path), strcmp(path, at("whenopen")));
	NUMBER(mdb_env_get_fd(env, &fd), fd >= 0 && fcntl(fd, F_GETFD) >= 0);
	CALL(mdb_env_get_path(NULL, &path));
	CALL(mdb_env_get_fd(NULL, &fd));
	NUMBER(mdb_env_get_maxreaders(env, &readers), readers);
	CALL(mdb_env_set_mapsize(env, 2 << 20));
	must("commit", mdb_txn_commit(txn));
	CALL(mdb_env_set_mapsize(env, 16 << 20));
	NUMBER(mdb_env_info(env, &info), info.me_mapsize);
	CALL(mdb_env_set_mapsize(env, 32 << 20));
	NUMBER(mdb_env_info(env, &info), info.me_mapsize);
	NUMBER(mdb_env_info(env, &info), info.me_maxreaders);
	NUMBER(mdb_env_info(env, &info), info.me_last_txnid);
	NUMBER(mdb_env_info(env, &info), info.me_mapaddr == NULL);
	NUMBER(mdb_env_stat(env, &stat), stat.ms_entries);
	NUMBER(mdb_env_stat(env, &stat), stat.ms_psize > 0);
	NUMBER(mdb_env_stat(env, &stat), stat.ms_depth);
	CALL(mdb_env_stat(NULL, &stat));
	CALL(mdb_env_info(NULL, &info));
	CALL(mdb_env_sync(env, 0));
	CALL(mdb_env_sync(env, 1));
	mdb_env_close(env);
}

static void transactions(void)
{
	title("transactions and their numbers");
	MDB_envinfo info;
	begin("txns", 0);
	FACT(mdb_txn_env(txn) == env);
	FACT(mdb_txn_env(NULL) == NULL);
	FACT(mdb_txn_id(txn));
	FACT(mdb_txn_id(NULL));
	CALL(mdb_txn_commit(txn));
	NUMBER(mdb_env_info(env, &info), info.me_last_txnid);
	CALL(mdb_txn_begin(env, NULL, 0, &txn));
	FACT(mdb_txn_id(txn));
	CALL(mdb_put(txn, 1, S("a"), S("1"), 0));
	CALL(mdb_txn_commit(txn));
	NUMBER(mdb_env_info(env, &info), info.me_last_txnid);
	CALL(mdb_txn_begin(env, NULL, MDB_NOSYNC | MDB_NOMETASYNC, &txn));
	FACT(mdb_txn_id(txn));
	CALL(mdb_put(txn, 1, S("b"), S("2"), 0));
	DO(mdb_txn_abort(txn));
	NUMBER(mdb_env_info(env, &info), info.me_last_txnid);
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	FACT(mdb_txn_id(txn));
	GET(mdb_get(txn, 1, S("a"), &data));
	GET(mdb_get(txn, 1, S("b"), &data));
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_commit(NULL));
	DO(mdb_txn_abort(NULL));
	DO(mdb_txn_reset(NULL));
	CALL(mdb_txn_renew(NULL));
	CALL(mdb_txn_begin(env, NULL, 0, &txn));
	DO(mdb_txn_reset(txn));
	CALL(mdb_put(txn, 1, S("c"), S("3"), 0));
	CALL(mdb_txn_renew(txn));
	end();
}

static void readers(void)
{
	title("readers");
	MDB_txn *second = NULL, *third = NULL;
	begin("readers", 0);
	CALL(mdb_put(txn, 1, S("a"), S("1"), 0));
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &second));
	DO(mdb_txn_reset(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &second));
	CALL(mdb_txn_renew(txn));
	DO(mdb_txn_abort(second));
	CALL(mdb_txn_renew(txn));
	CALL(mdb_txn_renew(txn));
	GET(mdb_get(txn, 1, S("a"), &data));
	DO(mdb_txn_reset(txn));
	GET(mdb_get(txn, 1, S("a"), &data));
	CALL(mdb_put(txn, 1, S("a"), S("1"), 0));
	CALL(mdb_del(txn, 1, S("a"), NULL));
	CALL(mdb_cursor_open(txn, 1, &cur));
	CALL(mdb_dbi_open(txn, NULL, 0, &dbi));
	CALL(mdb_dbi_open(txn, "x", 0, &dbi));
	CALL(mdb_txn_begin(env, NULL, 0, &third));
	CALL(mdb_put(third, 1, S("a"), S("2"), 0));
	CALL(mdb_txn_commit(third));
	CALL(mdb_txn_renew(txn));
	GET(mdb_get(txn, 1, S("a"), &data));
	CALL(mdb_txn_begin(env, NULL, 0, &third));
	CALL(mdb_put(third, 1, S("a"), S("3"), 0));
	GET(mdb_get(txn, 1, S("a"), &data));
	CALL(mdb_txn_commit(third));
	GET(mdb_get(txn, 1, S("a"), &data));
	CALL(mdb_put(txn, 1, S("a"), S("1"), 0));
	CALL(mdb_put(txn, 1, S(""), S("1"), 0));
	CALL(mdb_put(txn, 1, S("a"), S("1"), MDB_CURRENT));
	CALL(mdb_del(txn, 1, S("a"), NULL));
	CALL(mdb_drop(txn, 1, 0));
	CALL(mdb_dbi_open(txn, "x", MDB_CREATE, &dbi));
	CALL(mdb_dbi_open(txn, "x", 0, &dbi));
	CALL(mdb_txn_begin(env, txn, 0, &second));
	CALL(mdb_txn_begin(env, txn, MDB_RDONLY, &second));
	CALL(mdb_cursor_open(txn, 1, &cur));
	STEP(cur, MDB_FIRST);
	CALL(mdb_cursor_put(cur, S("a"), S("1"), 0));
	CALL(mdb_cursor_del(cur, 0));
	mdb_cursor_close(cur);
	end();
}

/* Counts the lines of mdb_reader_list. */
static int count_lines(const char *line, void *count)
{
	(void)line;
	++*(int *)count;
	return 0;
}

static int stop_at_once(const char *line, void *count)
{
	(void)line;
	++*(int *)count;
	return -5;
}

static int first_words(const char *line, void *out)
{
	if (!*(char *)out)
		snprintf(out, 64, "%s", line);
	return 0;
}

static void *begin_elsewhere(void *out)
{
	*(int *)out = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	return NULL;
}

static void reader_table(void)
{
	title("the reader table");
	MDB_txn *reading[4];
	int lines = 0, dead = -1, code = -1;
	char words[64] = "";
	pthread_t thread;
	mkdir(at("table"), 0755);
	must("create", mdb_env_create(&env));
	CALL(mdb_env_set_maxreaders(env, 3));
	CALL(mdb_env_open(env, at("table"), MDB_NOTLS, 0644));
	CALL(mdb_reader_list(NULL, count_lines, &lines));
	CALL(mdb_reader_list(env, NULL, &lines));
	NUMBER(mdb_reader_list(env, count_lines, &lines), lines);
	CALL(mdb_reader_list(env, first_words, words));
	printf("     %s", words);
	words[0] = 0;
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading[0]));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading[1]));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading[2]));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading[3]));
	lines = 0;
	NUMBER(mdb_reader_list(env, count_lines, &lines), lines);
	CALL(mdb_reader_list(env, first_words, words));
	printf("     %s", words);
	lines = 0;
	CALL(mdb_reader_list(env, stop_at_once, &lines));
	FACT(lines);
	NUMBER(mdb_reader_check(env, &dead), dead);
	CALL(mdb_reader_check(env, NULL));
	CALL(mdb_reader_check(NULL, &dead));
	mdb_txn_abort(reading[1]);
	pthread_create(&thread, NULL, begin_elsewhere, &code);
	pthread_join(thread, NULL);
	printf("%4d mdb_txn_begin in another thread -> %s\n", ++calls, code_name(code));
	DO(mdb_txn_abort(txn));
	DO(mdb_txn_reset(reading[0]));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading[1]));
	CALL(mdb_txn_renew(reading[0]));
	for (int i = 0; i < 3; i++)
		mdb_txn_abort(reading[i]);
	mdb_env_close(env);
}

static void stale_reader(void)
{
	title("a reader whose process died");
	int dead = -1, state = 0, ready[2];
	char byte = 0;
	mkdir(at("stale"), 0755);
	must("open", open_at(at("stale"), 0));
	if (pipe(ready))
		abort();
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		must("create", mdb_env_create(&env));
		must("open", mdb_env_open(env, at("stale"), 0, 0644));
		must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
		if (write(ready[1], "x", 1) != 1)
			abort();
		for (;;)
			pause();
	}
	must("create", mdb_env_create(&env));
	must("open", mdb_env_open(env, at("stale"), 0, 0644));
	if (read(ready[0], &byte, 1) != 1)
		abort();
	NUMBER(mdb_reader_check(env, &dead), dead);
	kill(child, SIGKILL);
	waitpid(child, &state, 0);
	NUMBER(mdb_reader_check(env, &dead), dead);
	NUMBER(mdb_reader_check(env, &dead), dead);
	mdb_env_close(env);
	close(ready[0]);
	close(ready[1]);
}

/* ---- plain databases ---- */

static void arguments(void)
{
	title("arguments that are missing, handles that are none");
	MDB_val *k = S("k"), *d = S("d");
	MDB_stat stat;
	unsigned flags;
	MDB_cursor *none = NULL;
	size_t count;
	begin_with("arguments", 0);
	CALL(mdb_get(NULL, dbi, k, &data));
	CALL(mdb_get(txn, dbi, NULL, &data));
	CALL(mdb_get(txn, dbi, k, NULL));
	CALL(mdb_get(txn, 77, k, &data));
	CALL(mdb_get(txn, 0, k, &data));
	CALL(mdb_put(NULL, dbi, k, d, 0));
	CALL(mdb_put(txn, dbi, NULL, d, 0));
	CALL(mdb_put(txn, dbi, k, NULL, 0));
	CALL(mdb_put(txn, 77, k, d, 0));
	CALL(mdb_put(txn, 0, k, d, 0));
	CALL(mdb_put(txn, dbi, k, d, MDB_CURRENT));
	CALL(mdb_put(txn, dbi, k, d, MDB_MULTIPLE));
	CALL(mdb_put(txn, dbi, k, d, 1));
	CALL(mdb_del(NULL, dbi, k, NULL));
	CALL(mdb_del(txn, dbi, NULL, NULL));
	CALL(mdb_del(txn, 77, k, NULL));
	CALL(mdb_del(txn, 0, k, NULL));
	CALL(mdb_stat(NULL, dbi, &stat));
	CALL(mdb_stat(txn, dbi, NULL));
	CALL(mdb_stat(txn, 77, &stat));
	CALL(mdb_dbi_flags(NULL, dbi, &flags));
	CALL(mdb_dbi_flags(txn, 77, &flags));
	CALL(mdb_drop(NULL, dbi, 0));
	CALL(mdb_drop(txn, 77, 0));
	CALL(mdb_drop(txn, dbi, 2));
	CALL(mdb_drop(txn, dbi, -1));
	CALL(mdb_cursor_open(NULL, dbi, &cur));
	CALL(mdb_cursor_open(txn, dbi, NULL));
	CALL(mdb_cursor_open(txn, 77, &cur));
	CALL(mdb_cursor_open(txn, 0, &cur));
	CALL(mdb_cursor_get(NULL, &key, &data, MDB_FIRST));
	CALL(mdb_cursor_put(NULL, k, d, 0));
	CALL(mdb_cursor_count(NULL, &count));
	CALL(mdb_cursor_renew(txn, NULL));
	CALL(mdb_cursor_renew(NULL, NULL));
	FACT(mdb_cursor_txn(NULL) == NULL);
	DO(mdb_cursor_close(none));
	CALL(mdb_set_compare(NULL, dbi, NULL));
	CALL(mdb_set_compare(txn, 77, NULL));
	CALL(mdb_set_dupsort(txn, 77, NULL));
	CALL(mdb_set_relfunc(txn, 77, NULL));
	CALL(mdb_set_relctx(txn, 77, NULL));
	CALL(mdb_set_relfunc(txn, dbi, NULL));
	CALL(mdb_set_relctx(txn, dbi, NULL));
	CALL(mdb_dbi_open(txn, NULL, 0x100000, &dbi));
	CALL(mdb_dbi_open(txn, "table", 0x1, &dbi));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_put(cur, NULL, d, 0));
	CALL(mdb_cursor_get(cur, NULL, &data, MDB_SET));
	CALL(mdb_cursor_get(cur, NULL, &data, MDB_SET_KEY));
	CALL(mdb_cursor_get(cur, NULL, &data, MDB_SET_RANGE));
	CALL(mdb_cursor_get(cur, &key, &data, 19));
	CALL(mdb_cursor_get(cur, &key, &data, 99));
	CALL(mdb_cursor_count(cur, NULL));
	CALL(mdb_cursor_count(cur, &count));
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_cursor_renew(txn, cur));
	FACT(mdb_cursor_txn(cur) == txn);
	FACT(mdb_cursor_dbi(cur) == dbi);
	end();
}

static void sizes(void)
{
	title("sizes of keys and values");
	begin_with("sizes", 0);
	CALL(mdb_put(txn, dbi, S(""), S("v"), 0));
	CALL(mdb_put(txn, dbi, N(1, 'a'), S(""), 0));
	CALL(mdb_put(txn, dbi, N(511, 'b'), S("v"), 0));
	CALL(mdb_put(txn, dbi, N(512, 'c'), S("v"), 0));
	CALL(mdb_put(txn, dbi, N(5000, 'c'), S("v"), 0));
	CALL(mdb_put(txn, dbi, S("big"), N(2039, 'x'), 0));
	CALL(mdb_put(txn, dbi, S("bigger"), N(100000, 'y'), 0));
	CALL(mdb_put(txn, dbi, S("huge"), value("", (size_t)1 << 32), 0));
	CALL(mdb_put(txn, dbi, S("huge"), value("", (size_t)-1), 0));
	GET(mdb_get(txn, dbi, S(""), &data));
	GET(mdb_get(txn, dbi, N(1, 'a'), &data));
	GET(mdb_get(txn, dbi, N(511, 'b'), &data));
	GET(mdb_get(txn, dbi, N(512, 'b'), &data));
	GET(mdb_get(txn, dbi, N(2000, 'b'), &data));
	GET(mdb_get(txn, dbi, S("big"), &data));
	GET(mdb_get(txn, dbi, S("bigger"), &data));
	GET(mdb_get(txn, dbi, S("none"), &data));
	CALL(mdb_del(txn, dbi, S(""), NULL));
	CALL(mdb_del(txn, dbi, N(512, 'b'), NULL));
	CALL(mdb_del(txn, dbi, S("bigger"), S("ignored")));
	CALL(mdb_del(txn, dbi, S("bigger"), NULL));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S(""), MDB_SET);
	SEEK(cur, S(""), MDB_SET_RANGE);
	SEEK(cur, N(600, 'b'), MDB_SET_RANGE);
	SEEK(cur, N(600, 'b'), MDB_SET);
	CALL(mdb_cursor_put(cur, S(""), S("v"), 0));
	CALL(mdb_cursor_put(cur, N(512, 'k'), S("v"), MDB_CURRENT));
	walk(txn, dbi);
	end();
}

static void put_flags(void)
{
	title("flags of put");
	MDB_val d;
	MDB_stat stat;
	begin_with("putflags", 0);
	CALL(mdb_put(txn, dbi, S("b"), S("1"), MDB_NOOVERWRITE));
	data = *S("2");
	GET(mdb_put(txn, dbi, S("b"), &data, MDB_NOOVERWRITE));
	printf("     after KEYEXIST:");
	say_bytes("data", &data);
	printf("\n");
	CALL(mdb_put(txn, dbi, S("b"), S("2"), 0));
	CALL(mdb_put(txn, dbi, S("b"), S("longer"), MDB_NODUPDATA));
	GET(mdb_get(txn, dbi, S("b"), &data));
	CALL(mdb_put(txn, dbi, S("a"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("b"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("c"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("c"), S("2"), MDB_APPEND | MDB_NOOVERWRITE));
	CALL(mdb_put(txn, dbi, S("d"), S("1"), MDB_APPENDDUP));
	d = *value(NULL, 5);
	CALL(mdb_put(txn, dbi, S("e"), &d, MDB_RESERVE));
	memcpy(d.mv_data, "hello", 5);
	d = *value(NULL, 9000);
	CALL(mdb_put(txn, dbi, S("f"), &d, MDB_RESERVE | MDB_NOOVERWRITE));
	memset(d.mv_data, 'f', 9000);
	d = *value(NULL, 3);
	CALL(mdb_put(txn, dbi, S("e"), &d, MDB_RESERVE | MDB_NOOVERWRITE));
	printf("     after KEYEXIST:");
	say_bytes("data", &d);
	printf("\n");
	d = *value(NULL, 3);
	CALL(mdb_put(txn, dbi, S("e"), &d, MDB_RESERVE));
	memcpy(d.mv_data, "new", 3);
	d = *value(NULL, 0);
	CALL(mdb_put(txn, dbi, S("g"), &d, MDB_RESERVE));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_put(cur, S("x"), S("1"), MDB_CURRENT));
	SEEK(cur, S("b"), MDB_SET);
	CALL(mdb_cursor_put(cur, S("b"), S("by current"), MDB_CURRENT));
	STEP(cur, MDB_GET_CURRENT);
	CALL(mdb_cursor_put(cur, S("b"), N(5000, 'B'), MDB_CURRENT));
	STEP(cur, MDB_GET_CURRENT);
	d = *value(NULL, 4);
	CALL(mdb_cursor_put(cur, S("b"), &d, MDB_CURRENT | MDB_RESERVE));
	memcpy(d.mv_data, "four", 4);
	STEP(cur, MDB_GET_CURRENT);
	data = *S("other");
	GET(mdb_cursor_put(cur, S("c"), &data, MDB_NOOVERWRITE));
	STEP(cur, MDB_GET_CURRENT);
	CALL(mdb_cursor_put(cur, S("bb"), S("between"), 0));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_put(cur, S("h"), S("end"), MDB_APPEND));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_put(cur, S("h"), S("end"), MDB_APPEND));
	d = *S("1");
	CALL(mdb_cursor_put(cur, S("i"), (MDB_val[]){ d, d }, MDB_MULTIPLE));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	walk(txn, dbi);
	end();
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

static void cursor_moves(void)
{
	title("moves of a cursor");
	begin_with("moves", 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	STEP(cur, MDB_FIRST);
	STEP(cur, MDB_LAST);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_GET_CURRENT);
	SEEK(cur, S("a"), MDB_SET);
	SEEK(cur, S("a"), MDB_SET_RANGE);
	letters('b', 'e');
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_GET_CURRENT);
	mdb_cursor_close(cur);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_FIRST);
	STEP(cur, MDB_NEXT_NODUP);
	STEP(cur, MDB_PREV_NODUP);
	IMPROVED("a key of a plain database has no further value; later versions of the original say so",
		mdb_cursor_get(cur, &key, &data, MDB_NEXT_DUP), 0, MDB_NOTFOUND);
	SEEK(cur, S("c"), MDB_SET);
	IMPROVED("the same", mdb_cursor_get(cur, &key, &data, MDB_PREV_DUP), 0, MDB_NOTFOUND);
	SEEK(cur, S("b"), MDB_SET);
	STEP(cur, MDB_FIRST_DUP);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_GET_MULTIPLE);
	STEP(cur, MDB_NEXT_MULTIPLE);
	STEP(cur, MDB_PREV_MULTIPLE);
	SEEK2(cur, S("b"), S("1"), MDB_GET_BOTH);
	SEEK2(cur, S("b"), S("1"), MDB_GET_BOTH_RANGE);
	SEEK(cur, S("c"), MDB_SET);
	SEEK(cur, S("c"), MDB_SET_KEY);
	SEEK(cur, S("cc"), MDB_SET_RANGE);
	SEEK(cur, S("cc"), MDB_SET);
	SEEK(cur, S("f"), MDB_SET_RANGE);
	STEP(cur, MDB_PREV);
	SEEK(cur, S("a"), MDB_SET_RANGE);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_LAST);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_GET_CURRENT);
	key = (MDB_val){ 0, NULL };
	CALL(mdb_cursor_get(cur, &key, NULL, MDB_PREV));
	say_bytes("     key", &key);
	printf("\n");
	end();
}

static void cursor_deletes(void)
{
	title("deleting under cursors");
	MDB_cursor *other;
	begin_with("deletes", 0);
	letters('a', 'j');
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_open(txn, dbi, &other));
	SEEK(cur, S("c"), MDB_SET);
	SEEK(other, S("c"), MDB_SET);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	STEP(other, MDB_GET_CURRENT);
	STEP(other, MDB_NEXT);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_PREV);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	STEP(other, MDB_GET_CURRENT);
	SEEK(other, S("i"), MDB_SET);
	CALL(mdb_put(txn, dbi, S("h1"), S("new"), 0));
	STEP(other, MDB_GET_CURRENT);
	STEP(other, MDB_PREV);
	STEP(other, MDB_NEXT);
	CALL(mdb_del(txn, dbi, S("i"), NULL));
	STEP(other, MDB_GET_CURRENT);
	STEP(other, MDB_NEXT);
	STEP(cur, MDB_LAST);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_del(cur, 0));
	walk(txn, dbi);
	STEP(cur, MDB_FIRST);
	while (!mdb_cursor_get(cur, &key, &data, MDB_FIRST))
		must("del", mdb_cursor_del(cur, 0));
	STEP(cur, MDB_FIRST);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_LAST);
	CALL(mdb_put(txn, dbi, S("again"), S("1"), 0));
	walk(txn, dbi);
	end();
}

/* Enough rows for a tree of several levels, walked while a second cursor deletes every other one. */
static void many_rows(void)
{
	title("many rows");
	MDB_stat stat;
	MDB_cursor *other;
	size_t seen = 0, sum = 0;
	begin_with("many", MDB_INTEGERKEY);
	for (size_t i = 0; i < 20000; i++)
		must("put", mdb_put(txn, dbi, Z(i * 7919 % 20000), Z(i), 0));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_overflow_pages);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_leaf_pages > 1 && stat.ms_depth > 1);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_open(txn, dbi, &other));
	while (!mdb_cursor_get(cur, &key, &data, MDB_NEXT)) {
		size_t number = *(size_t *)key.mv_data;
		seen++, sum += number;
		if (number % 2)
			must("del", mdb_cursor_del(cur, 0));
		else if (!mdb_cursor_get(other, Z(number + 3), &data, MDB_SET))
			must("del", mdb_cursor_del(other, 0));
	}
	FACT(seen);
	FACT(sum);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	for (seen = sum = 0; !mdb_cursor_get(cur, &key, &data, seen ? MDB_PREV : MDB_LAST); seen++)
		sum += *(size_t *)key.mv_data;
	FACT(seen);
	FACT(sum);
	end();
}

/* ---- duplicates ---- */

static void duplicates(void)
{
	title("several values of a key");
	size_t count;
	MDB_stat stat;
	begin_with("dups", MDB_DUPSORT);
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("a"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("c"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), MDB_NODUPDATA));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), 0));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), 0));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), MDB_NODUPDATA));
	data = *S("z");
	GET(mdb_put(txn, dbi, S("k"), &data, MDB_NOOVERWRITE));
	say_bytes("     data", &data);
	printf("\n");
	CALL(mdb_put(txn, dbi, S("k"), S("bb"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), S("d"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), S("d"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("p"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("l"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("l"), N(511, 'v'), 0));
	CALL(mdb_put(txn, dbi, S("l"), N(512, 'v'), 0));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	GET(mdb_get(txn, dbi, S("k"), &data));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	STEP(cur, MDB_FIRST_DUP);
	CALL(mdb_cursor_count(cur, &count));
	SEEK(cur, S("k"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_FIRST_DUP);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_PREV_DUP);
	STEP(cur, MDB_NEXT_NODUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_PREV_DUP);
	STEP(cur, MDB_PREV_NODUP);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_FIRST);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_LAST);
	STEP(cur, MDB_NEXT);
	SEEK2(cur, S("k"), S("b"), MDB_GET_BOTH);
	SEEK2(cur, S("k"), S("bb"), MDB_GET_BOTH);
	SEEK2(cur, S("k"), S("bb"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("k"), S("e"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("no"), S("e"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("one"), S("x"), MDB_GET_BOTH);
	SEEK2(cur, S("one"), S("a"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("one"), S("y"), MDB_GET_BOTH_RANGE);
	CALL(mdb_cursor_get(cur, S("k"), NULL, MDB_GET_BOTH));
	SEEK(cur, S("l"), MDB_SET_RANGE);
	SEEK(cur, S("k"), MDB_SET_KEY);
	STEP(cur, MDB_GET_MULTIPLE);
	STEP(cur, MDB_NEXT_MULTIPLE);
	STEP(cur, MDB_PREV_MULTIPLE);
	CALL(mdb_cursor_put(cur, S("k"), S("d"), MDB_MULTIPLE));
	walk(txn, dbi);
	end();
}

static void duplicate_deletes(void)
{
	title("deleting values");
	MDB_stat stat;
	MDB_cursor *other;
	size_t count;
	begin_with("dupdel", MDB_DUPSORT);
	for (char c = 'a'; c <= 'h'; c++) {
		must("put", mdb_put(txn, dbi, S("k"), N(1, c), 0));
		must("put", mdb_put(txn, dbi, S("m"), N(1, c), 0));
	}
	CALL(mdb_put(txn, dbi, S("n"), S("only"), 0));
	CALL(mdb_del(txn, dbi, S("k"), S("c")));
	CALL(mdb_del(txn, dbi, S("k"), S("c")));
	CALL(mdb_del(txn, dbi, S("n"), S("other")));
	CALL(mdb_del(txn, dbi, S("n"), S("only")));
	CALL(mdb_del(txn, dbi, S("n"), NULL));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_open(txn, dbi, &other));
	SEEK2(cur, S("k"), S("d"), MDB_GET_BOTH);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	NUMBER(mdb_cursor_count(cur, &count), count);
	STEP(cur, MDB_NEXT);
	SEEK2(other, S("k"), S("g"), MDB_GET_BOTH);
	CALL(mdb_put(txn, dbi, S("k"), S("f1"), 0));
	CALL(mdb_del(txn, dbi, S("k"), S("a")));
	STEP(other, MDB_GET_CURRENT);
	STEP(other, MDB_PREV_DUP);
	SEEK2(cur, S("k"), S("f"), MDB_GET_BOTH);
	CALL(mdb_cursor_put(cur, S("k"), S("f"), MDB_CURRENT));
	STEP(cur, MDB_GET_CURRENT);
	SEEK(cur, S("k"), MDB_SET);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	STEP(cur, MDB_GET_CURRENT);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	CALL(mdb_del(txn, dbi, S("m"), NULL));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	walk(txn, dbi);
	end();
}

/* A key with so many values that they need a tree of their own in the original. */
static void many_values(void)
{
	title("many values of a key");
	MDB_stat stat;
	size_t count, seen = 0;
	char text[16];
	begin_with("manydups", MDB_DUPSORT);
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof text, "%05d", i * 3571 % 5000);
		must("put", mdb_put(txn, dbi, S("k"), S(text), 0));
	}
	CALL(mdb_put(txn, dbi, S("j"), S("before"), 0));
	CALL(mdb_put(txn, dbi, S("l"), S("behind"), 0));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("k"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	SEEK2(cur, S("k"), S("02500"), MDB_GET_BOTH);
	STEP(cur, MDB_PREV);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_NEXT);
	SEEK2(cur, S("k"), S("02499"), MDB_GET_BOTH_RANGE);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_FIRST_DUP);
	STEP(cur, MDB_PREV);
	SEEK(cur, S("k"), MDB_SET);
	do
		seen++;
	while (!mdb_cursor_get(cur, &key, &data, MDB_NEXT_DUP));
	FACT(seen);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	walk(txn, dbi);
	end();
}

static void fixed_values(void)
{
	title("values of one size");
	size_t count, total = 0;
	unsigned numbers[] = { 5, 1, 3, 5, 9 };
	MDB_val several[2];
	begin_with("fixed", MDB_DUPSORT | MDB_DUPFIXED);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	several[0] = (MDB_val){ sizeof *numbers, numbers };
	several[1] = (MDB_val){ LENGTH(numbers), NULL };
	NUMBER(mdb_cursor_put(cur, S("k"), several, MDB_MULTIPLE), several[1].mv_size);
	STEP(cur, MDB_FIRST);
	NUMBER(mdb_cursor_count(cur, &count), count);
	SEEK(cur, S("k"), MDB_SET);
	STEP(cur, MDB_GET_MULTIPLE);
	STEP(cur, MDB_NEXT_MULTIPLE);
	several[0] = (MDB_val){ sizeof *numbers, numbers };
	several[1] = (MDB_val){ 2, NULL };
	NUMBER(mdb_cursor_put(cur, S("k"), several, MDB_MULTIPLE | MDB_NODUPDATA), several[1].mv_size);
	CALL(mdb_put(txn, dbi, S("single"), U(7), 0));
	SEEK(cur, S("single"), MDB_SET);
	STEP(cur, MDB_NEXT_DUP);
	for (unsigned i = 0; i < 3000; i++)
		must("put", mdb_put(txn, dbi, S("long"), U(i), 0));
	SEEK(cur, S("long"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	for (int code = mdb_cursor_get(cur, &key, &data, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cur, &key, &data, MDB_NEXT_MULTIPLE))
		total += data.mv_size;
	FACT(total);
	SEEK2(cur, S("long"), U(0x100), MDB_GET_BOTH);
	SEEK2(cur, S("long"), U(0xffff), MDB_GET_BOTH_RANGE);
	CALL(mdb_del(txn, dbi, S("long"), U(0x100)));
	CALL(mdb_del(txn, dbi, S("long"), NULL));
	walk(txn, dbi);
	end();
}

static void integers(void)
{
	title("integers");
	begin_with("ints", MDB_INTEGERKEY);
	CALL(mdb_put(txn, dbi, U(256), S("256"), 0));
	CALL(mdb_put(txn, dbi, U(2), S("2"), 0));
	CALL(mdb_put(txn, dbi, U(0x80000000u), S("large"), 0));
	CALL(mdb_put(txn, dbi, U(0), S("0"), 0));
	CALL(mdb_put(txn, dbi, U(1), S("1"), MDB_APPEND));
	GET(mdb_get(txn, dbi, U(256), &data));
	GET(mdb_get(txn, dbi, U(3), &data));
	FACT(mdb_cmp(txn, dbi, U(2), U(256)) < 0);
	FACT(mdb_cmp(txn, dbi, U(2), U(2)));
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "long", MDB_INTEGERKEY | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, Z(1), S("1"), 0));
	CALL(mdb_put(txn, dbi, Z((size_t)1 << 40), S("2^40"), 0));
	CALL(mdb_put(txn, dbi, Z(255), S("255"), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, Z(256), MDB_SET_RANGE);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "dup", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, S("k"), Z(256), 0));
	CALL(mdb_put(txn, dbi, S("k"), Z(2), 0));
	CALL(mdb_put(txn, dbi, S("k"), Z(1000), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), Z(999), MDB_APPENDDUP));
	FACT(mdb_dcmp(txn, dbi, Z(2), Z(256)) < 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK2(cur, S("k"), Z(3), MDB_GET_BOTH_RANGE);
	walk(txn, dbi);
	end();
}

static void reverse(void)
{
	title("compared from the back");
	begin_with("reverse", MDB_REVERSEKEY);
	CALL(mdb_put(txn, dbi, S("az"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("zb"), S("2"), 0));
	CALL(mdb_put(txn, dbi, S("b"), S("3"), 0));
	CALL(mdb_put(txn, dbi, S("cza"), S("4"), 0));
	FACT(mdb_cmp(txn, dbi, S("az"), S("zb")) > 0);
	FACT(mdb_cmp(txn, dbi, S("b"), S("zb")) < 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("ab"), MDB_SET_RANGE);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "dup", MDB_DUPSORT | MDB_REVERSEDUP | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, S("k"), S("az"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("zb"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	FACT(mdb_dcmp(txn, dbi, S("az"), S("zb")) > 0);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "plain", MDB_CREATE, &dbi));
	FACT(mdb_cmp(txn, dbi, S("a"), S("ab")) < 0);
	FACT(mdb_cmp(txn, dbi, S("b"), S("ab")) > 0);
	FACT(mdb_cmp(txn, dbi, S(""), S("a")) < 0);
	end();
}

static int by_length(const MDB_val *a, const MDB_val *b)
{
	if (a->mv_size != b->mv_size)
		return a->mv_size < b->mv_size ? -1 : 1;
	return memcmp(a->mv_data, b->mv_data, a->mv_size);
}

static int downwards(const MDB_val *a, const MDB_val *b)
{
	return -by_length(a, b);
}

static void comparators(void)
{
	title("the caller's order");
	begin_with("custom", MDB_DUPSORT);
	CALL(mdb_set_compare(txn, dbi, by_length));
	CALL(mdb_set_dupsort(txn, dbi, downwards));
	CALL(mdb_put(txn, dbi, S("zz"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("aaa"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("a"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("bb"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("b"), 0));
	FACT(mdb_cmp(txn, dbi, S("zz"), S("aaa")) < 0);
	FACT(mdb_dcmp(txn, dbi, S("a"), S("bb")) > 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("q"), MDB_SET_RANGE);
	SEEK2(cur, S("y"), S("zz"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("y"), S("ba"), MDB_GET_BOTH_RANGE);
	walk(txn, dbi);
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	walk(txn, dbi);
	GET(mdb_get(txn, dbi, S("y"), &data));
	mdb_txn_abort(txn);
	mdb_env_close(env);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 8));
	must("open", mdb_env_open(env, at("custom"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "table", 0, &dbi));
	CALL(mdb_set_compare(txn, dbi, by_length));
	CALL(mdb_set_dupsort(txn, dbi, downwards));
	CALL(mdb_put(txn, dbi, S("xx"), S("1"), 0));
	CALL(mdb_del(txn, dbi, S("y"), S("bb")));
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, NULL, 0, &dbi));
	CALL(mdb_dbi_open(txn, "other", MDB_CREATE, &dbi));
	CALL(mdb_set_compare(txn, dbi, downwards));
	letters('a', 'e');
	walk(txn, dbi);
	end();
}

/* ---- named databases ---- */

static void names(void)
{
	title("named databases");
	MDB_dbi main_dbi, one, two, three, again;
	unsigned flags;
	MDB_stat stat;
	begin("names", 0);
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	FACT(one);
	CALL(mdb_dbi_open(txn, "two", MDB_CREATE | MDB_DUPSORT, &two));
	FACT(two);
	CALL(mdb_dbi_open(txn, "one", 0, &again));
	FACT(again == one);
	CALL(mdb_dbi_open(txn, NULL, 0, &main_dbi));
	FACT(main_dbi);
	NUMBER(mdb_dbi_flags(txn, one, &flags), flags);
	NUMBER(mdb_dbi_flags(txn, two, &flags), flags);
	NUMBER(mdb_dbi_flags(txn, main_dbi, &flags), flags);
	NUMBER(mdb_stat(txn, main_dbi, &stat), stat.ms_entries);
	CALL(mdb_put(txn, one, S("k"), S("1"), 0));
	CALL(mdb_put(txn, main_dbi, S("plain"), S("entry"), 0));
	CALL(mdb_put(txn, main_dbi, S("one"), S("overwritten"), 0));
	CALL(mdb_put(txn, main_dbi, S("one"), S("overwritten"), MDB_NOOVERWRITE));
	must("commit", mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	NUMBER(mdb_get(txn, main_dbi, S("one"), &data), data.mv_size);
	CALL(mdb_put(txn, main_dbi, S("one"), S("overwritten"), 0));
	CALL(mdb_put(txn, main_dbi, S("one"), S("overwritten"), MDB_NOOVERWRITE));
	CALL(mdb_dbi_open(txn, "plain", 0, &three));
	CALL(mdb_dbi_open(txn, "plain", MDB_CREATE, &three));
	CALL(mdb_dbi_open(txn, "", MDB_CREATE, &three));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &again));
	FACT(again == one);
	CALL(mdb_dbi_open(txn, "one", MDB_DUPSORT, &again));
	NUMBER(mdb_dbi_flags(txn, again, &flags), flags);
	NUMBER(mdb_stat(txn, main_dbi, &stat), stat.ms_entries);
	CALL(mdb_cursor_open(txn, main_dbi, &cur));
	key = data = (MDB_val){ 0, NULL };
	CALL(mdb_cursor_get(cur, &key, NULL, MDB_FIRST));
	say_bytes("     key", &key);
	CALL(mdb_cursor_get(cur, &key, NULL, MDB_NEXT));
	say_bytes("     key", &key);
	CALL(mdb_cursor_get(cur, &key, NULL, MDB_NEXT));
	say_bytes("     key", &key);
	CALL(mdb_cursor_get(cur, &key, NULL, MDB_NEXT));
	SEEK(cur, S("plain"), MDB_SET_KEY);
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_del(txn, main_dbi, S("one"), NULL));
	CALL(mdb_get(txn, main_dbi, S("one"), &data));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_cursor_open(txn, main_dbi, &cur));
	CALL(mdb_cursor_get(cur, S("one"), &data, MDB_SET));
	CALL(mdb_cursor_put(cur, S("one"), S("overwritten"), MDB_CURRENT));
	CALL(mdb_cursor_del(cur, 0));
	end();
}

static void name_limits(void)
{
	title("limits of named databases");
	MDB_dbi one, two, three;
	char name[600];
	mkdir(at("namelimits"), 0755);
	must("create", mdb_env_create(&env));
	must("open", mdb_env_open(env, at("namelimits"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	CALL(mdb_dbi_open(txn, NULL, 0, &one));
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 2));
	must("open", mdb_env_open(env, at("namelimits"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	memset(name, 'n', sizeof name);
	name[511] = 0;
	CALL(mdb_dbi_open(txn, name, MDB_CREATE, &two));
	CALL(mdb_dbi_open(txn, "three", MDB_CREATE, &three));
	CALL(mdb_dbi_open(txn, "three", 0, &three));
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	CALL(mdb_txn_commit(txn));
	DO(mdb_dbi_close(env, two));
	DO(mdb_dbi_close(env, 77));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_get(txn, two, S("a"), &data));
	CALL(mdb_put(txn, two, S("a"), S("1"), 0));
	CALL(mdb_dbi_open(txn, "three", MDB_CREATE, &three));
	FACT(three == two);
	name[511] = 'n';
	name[512] = 0;
	CALL(mdb_drop(txn, three, 1));
	CALL(mdb_dbi_open(txn, name, MDB_CREATE, &two));
	end();
}

static void names_and_transactions(void)
{
	title("handles and transactions");
	MDB_dbi one, two;
	MDB_stat stat;
	begin("nametxn", 0);
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	CALL(mdb_put(txn, one, S("a"), S("1"), 0));
	DO(mdb_txn_abort(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_put(txn, one, S("a"), S("1"), 0));
	CALL(mdb_get(txn, one, S("a"), &data));
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	CALL(mdb_dbi_open(txn, "two", MDB_CREATE, &two));
	CALL(mdb_put(txn, one, S("a"), S("1"), 0));
	CALL(mdb_put(txn, two, S("b"), S("2"), 0));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	GET(mdb_get(txn, one, S("a"), &data));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_drop(txn, one, 0));
	NUMBER(mdb_stat(txn, one, &stat), stat.ms_entries);
	NUMBER(mdb_stat(txn, 1, &stat), stat.ms_entries);
	CALL(mdb_put(txn, one, S("c"), S("3"), 0));
	CALL(mdb_drop(txn, two, 1));
	CALL(mdb_put(txn, two, S("c"), S("3"), 0));
	CALL(mdb_stat(txn, two, &stat));
	CALL(mdb_dbi_open(txn, "two", 0, &two));
	NUMBER(mdb_stat(txn, 1, &stat), stat.ms_entries);
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	walk(txn, one);
	CALL(mdb_dbi_open(txn, "two", MDB_CREATE | MDB_INTEGERKEY, &two));
	CALL(mdb_drop(txn, one, 1));
	DO(mdb_txn_abort(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	GET(mdb_get(txn, one, S("c"), &data));
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	walk(txn, one);
	CALL(mdb_put(txn, 1, S("beside"), S("1"), 0));
	CALL(mdb_drop(txn, 1, 0));
	NUMBER(mdb_stat(txn, 1, &stat), stat.ms_entries);
	CALL(mdb_dbi_open(txn, "three", MDB_CREATE, &two));
	end();
}

static void main_flags(void)
{
	title("flags of the main database");
	MDB_dbi main_dbi, one;
	unsigned flags;
	begin("mainflags", 0);
	CALL(mdb_dbi_open(txn, NULL, MDB_DUPSORT | MDB_CREATE, &main_dbi));
	NUMBER(mdb_dbi_flags(txn, main_dbi, &flags), flags);
	CALL(mdb_put(txn, main_dbi, S("k"), S("1"), 0));
	CALL(mdb_put(txn, main_dbi, S("k"), S("2"), 0));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	CALL(mdb_dbi_open(txn, "one", 0, &one));
	walk(txn, main_dbi);
	end();
	begin("mainints", 0);
	CALL(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &main_dbi));
	CALL(mdb_put(txn, main_dbi, U(300), S("300"), 0));
	CALL(mdb_put(txn, main_dbi, U(2), S("2"), 0));
	CALL(mdb_dbi_open(txn, "one", MDB_CREATE, &one));
	walk(txn, main_dbi);
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_dbi_open(txn, NULL, 0, &main_dbi));
	NUMBER(mdb_dbi_flags(txn, main_dbi, &flags), flags);
	walk(txn, main_dbi);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void many_flags(void)
{
	title("flags of a database");
	static const unsigned all[] = {
		MDB_REVERSEKEY, MDB_DUPSORT, MDB_INTEGERKEY, MDB_DUPSORT | MDB_DUPFIXED,
		MDB_DUPSORT | MDB_INTEGERDUP, MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP,
		MDB_DUPSORT | MDB_REVERSEDUP, MDB_DUPFIXED,
	};
	char name[8];
	unsigned flags;
	begin("flags", 0);
	for (size_t i = 0; i < LENGTH(all); i++) {
		snprintf(name, sizeof name, "t%zu", i);
		CALL(mdb_dbi_open(txn, name, MDB_CREATE | all[i], &dbi));
		NUMBER(mdb_dbi_flags(txn, dbi, &flags), flags);
	}
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 8));
	must("open", mdb_env_open(env, at("flags"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	for (size_t i = 0; i < LENGTH(all); i++) {
		snprintf(name, sizeof name, "t%zu", i);
		CALL(mdb_dbi_open(txn, name, 0, &dbi));
		NUMBER(mdb_dbi_flags(txn, dbi, &flags), flags);
	}
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* ---- nested transactions ---- */

static void nested(void)
{
	title("nested transactions");
	MDB_txn *child, *grandchild, *sibling;
	MDB_dbi inner;
	begin_with("nested", 0);
	CALL(mdb_put(txn, dbi, S("a"), S("parent"), 0));
	CALL(mdb_txn_begin(env, txn, 0, &child));
	FACT(mdb_txn_id(child) == mdb_txn_id(txn));
	CALL(mdb_put(txn, dbi, S("b"), S("1"), 0));
	CALL(mdb_get(txn, dbi, S("a"), &data));
	CALL(mdb_del(txn, dbi, S("a"), NULL));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_dbi_open(txn, "table", 0, &inner));
	CALL(mdb_drop(txn, dbi, 0));
	CALL(mdb_txn_begin(env, txn, 0, &sibling));
	CALL(mdb_txn_begin(env, child, MDB_RDONLY, &sibling));
	GET(mdb_get(child, dbi, S("a"), &data));
	CALL(mdb_put(child, dbi, S("b"), S("child"), 0));
	CALL(mdb_txn_begin(env, child, 0, &grandchild));
	CALL(mdb_put(grandchild, dbi, S("c"), S("grandchild"), 0));
	CALL(mdb_del(grandchild, dbi, S("a"), NULL));
	GET(mdb_get(grandchild, dbi, S("a"), &data));
	DO(mdb_txn_abort(grandchild));
	GET(mdb_get(child, dbi, S("a"), &data));
	CALL(mdb_txn_commit(child));
	walk(txn, dbi);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_drop(child, dbi, 0));
	walk(child, dbi);
	CALL(mdb_dbi_open(child, "inner", MDB_CREATE, &inner));
	CALL(mdb_put(child, inner, S("i"), S("1"), 0));
	DO(mdb_txn_abort(child));
	walk(txn, dbi);
	CALL(mdb_get(txn, inner, S("i"), &data));
	CALL(mdb_dbi_open(txn, "inner", 0, &inner));
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_dbi_open(child, "inner", MDB_CREATE, &inner));
	CALL(mdb_put(child, inner, S("i"), S("1"), 0));
	CALL(mdb_txn_commit(child));
	GET(mdb_get(txn, inner, S("i"), &data));
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, S("d"), S("by the parent's commit"), 0));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	walk(txn, dbi);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, S("e"), S("lost with its parent"), 0));
	DO(mdb_txn_abort(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	walk(txn, dbi);
	end();
}

static void nested_cursors(void)
{
	title("cursors and nested transactions");
	MDB_txn *child;
	MDB_cursor *inner;
	begin_with("nestcur", 0);
	letters('a', 'f');
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("c"), MDB_SET);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_cursor_open(child, dbi, &inner));
	SEEK(inner, S("c"), MDB_SET);
	CALL(mdb_cursor_del(inner, 0));
	CALL(mdb_put(child, dbi, S("ba"), S("new"), 0));
	DO(mdb_txn_abort(child));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_PREV);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, S("ca"), S("new"), 0));
	CALL(mdb_del(child, dbi, S("a"), NULL));
	CALL(mdb_txn_commit(child));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	end();
	begin("writemap", MDB_WRITEMAP);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(txn, 1, S("a"), S("1"), 0));
	end();
}

static void reader_cursors(void)
{
	title("cursors of read transactions");
	MDB_txn *writer;
	begin_with("readcur", 0);
	letters('a', 'd');
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_renew(txn, cur));
	STEP(cur, MDB_NEXT);
	DO(mdb_txn_reset(txn));
	STEP(cur, MDB_NEXT);
	CALL(mdb_cursor_renew(txn, cur));
	CALL(mdb_txn_begin(env, NULL, 0, &writer));
	CALL(mdb_put(writer, dbi, S("0"), S("first"), 0));
	CALL(mdb_cursor_renew(writer, cur));
	CALL(mdb_txn_commit(writer));
	CALL(mdb_txn_renew(txn));
	CALL(mdb_cursor_renew(txn, cur));
	STEP(cur, MDB_NEXT);
	FACT(mdb_cursor_txn(cur) == txn);
	FACT(mdb_cursor_dbi(cur) == dbi);
	CALL(mdb_cursor_put(cur, S("x"), S("y"), 0));
	CALL(mdb_cursor_del(cur, 0));
	mdb_txn_abort(txn);
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_cursor_renew(txn, cur));
	STEP(cur, MDB_LAST);
	DO(mdb_cursor_close(cur));
	end();
}

/* ---- limits and errors ---- */

static void map_full(void)
{
	title("a map that is full");
	MDB_txn *child;
	int code = 0;
	mkdir(at("full"), 0755);
	must("create", mdb_env_create(&env));
	must("set_mapsize", mdb_env_set_mapsize(env, 1 << 20));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 4));
	must("open", mdb_env_open(env, at("full"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "table", MDB_CREATE | MDB_INTEGERKEY, &dbi));
	CALL(mdb_put(txn, dbi, Z(0), S("kept"), 0));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	for (size_t i = 1; !code && i < 100000; i++)
		code = mdb_put(txn, dbi, Z(i), N(100, 'x'), 0);
	printf("%4d puts until -> %s\n", ++calls, code_name(code));
	CALL(mdb_put(txn, dbi, Z(3), S("x"), 0));
	CALL(mdb_get(txn, dbi, Z(0), &data));
	CALL(mdb_del(txn, dbi, Z(0), NULL));
	STEP(cur, MDB_FIRST);
	CALL(mdb_cursor_put(cur, Z(1), S("x"), 0));
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_drop(txn, dbi, 0));
	CALL(mdb_dbi_open(txn, "other", MDB_CREATE, &dbi));
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "table", 0, &dbi));
	walk(txn, dbi);
	CALL(mdb_put(txn, dbi, Z(1), N(4000000, 'x'), 0));
	DO(mdb_txn_abort(txn));
	CALL(mdb_env_set_mapsize(env, 16 << 20));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_put(txn, dbi, Z(1), N(4000000, 'x'), 0));
	NUMBER(mdb_get(txn, dbi, Z(1), &data), data.mv_size);
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, Z(9), N(14000000, 'z'), 0));
	CALL(mdb_txn_commit(child));
	CALL(mdb_put(txn, dbi, Z(2), S("2"), 0));
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
}

static void read_only(void)
{
	title("an environment for reading");
	MDB_txn *writer;
	MDB_dbi none;
	begin_with("readonly", 0);
	letters('a', 'c');
	end();
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 2));
	CALL(mdb_env_open(env, at("readonly"), MDB_RDONLY, 0644));
	CALL(mdb_txn_begin(env, NULL, 0, &writer));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_dbi_open(txn, "table", 0, &dbi));
	CALL(mdb_dbi_open(txn, "none", 0, &none));
	CALL(mdb_dbi_open(txn, "none", MDB_CREATE, &none));
	CALL(mdb_dbi_open(txn, "table", MDB_CREATE, &none));
	CALL(mdb_put(txn, dbi, S("a"), S("1"), 0));
	CALL(mdb_del(txn, dbi, S("a"), NULL));
	CALL(mdb_drop(txn, dbi, 1));
	walk(txn, dbi);
	CALL(mdb_env_sync(env, 1));
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
}

static void copies(void)
{
	title("copies");
	mdb_filehandle_t fd;
	int ends[2];
	begin_with("copied", MDB_DUPSORT);
	CALL(mdb_put(txn, dbi, S("a"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("a"), S("2"), 0));
	CALL(mdb_put(txn, 1, S("beside"), N(10000, 'b'), 0));
	CALL(mdb_txn_commit(txn));
	mkdir(at("copy1"), 0755);
	mkdir(at("copy2"), 0755);
	CALL(mdb_env_copy(env, at("copy1")));
	CALL(mdb_env_copy(env, at("copy1")));
	CALL(mdb_env_copy2(env, at("copy2"), MDB_CP_COMPACT));
	CALL(mdb_env_copy2(env, at("copy2"), 0));
	CALL(mdb_env_copy(env, at("nowhere")));
	CALL(mdb_env_copy(env, at("letters")));
	mkdir(at("copy3"), 0755);
	fd = open(at("copy3/data.mdb"), O_CREAT | O_RDWR, 0644);
	CALL(mdb_env_copyfd(env, fd));
	close(fd);
	mkdir(at("copy4"), 0755);
	fd = open(at("copy4/data.mdb"), O_CREAT | O_RDWR, 0644);
	CALL(mdb_env_copyfd2(env, fd, MDB_CP_COMPACT));
	close(fd);
	CALL(mdb_env_copyfd(env, 999));
	if (pipe(ends))
		abort();
	close(ends[0]);
	signal(SIGPIPE, SIG_IGN);
	CALL(mdb_env_copyfd(env, ends[1]));
	CALL(mdb_env_copyfd2(env, ends[1], MDB_CP_COMPACT));
	close(ends[1]);
	mdb_env_close(env);
	for (int i = 1; i <= 4; i++) {
		char name[8];
		snprintf(name, sizeof name, "copy%d", i);
		begin(name, 0);
		CALL(mdb_dbi_open(txn, "table", 0, &dbi));
		walk(txn, dbi);
		GET(mdb_get(txn, 1, S("beside"), &data));
		CALL(mdb_put(txn, dbi, S("b"), S("3"), 0));
		end();
	}
}

static void many_environments(void)
{
	title("many environments of a large map each");
	MDB_env *envs[8];
	char name[16];
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "large%d", i);
		mkdir(at(name), 0755);
		must("create", mdb_env_create(&envs[i]));
		CALL(mdb_env_set_mapsize(envs[i], (size_t)1 << 40));
		CALL(mdb_env_open(envs[i], at(name), 0, 0644));
	}
	for (int i = 0; i < 8; i++) {
		must("begin", mdb_txn_begin(envs[i], NULL, 0, &txn));
		must("dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi));
		must("put", mdb_put(txn, 1, S("i"), U(i), 0));
		CALL(mdb_txn_commit(txn));
	}
	for (int i = 0; i < 8; i++)
		mdb_env_close(envs[i]);
}

/* A second process reads what the first committed, and its write is seen. */
static void two_processes(void)
{
	title("two processes");
	int state = -1;
	begin("two", 0);
	CALL(mdb_put(txn, 1, S("from"), S("parent"), 0));
	CALL(mdb_txn_commit(txn));
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		must("create", mdb_env_create(&env));
		must("open", mdb_env_open(env, at("two"), 0, 0644));
		must("begin", mdb_txn_begin(env, NULL, 0, &txn));
		must("dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi));
		must("get", mdb_get(txn, 1, S("from"), &data));
		must("put", mdb_put(txn, 1, S("from"), S("child"), 0));
		must("commit", mdb_txn_commit(txn));
		_exit(data.mv_size == 6 ? 3 : 4);
	}
	waitpid(child, &state, 0);
	FACT(WIFEXITED(state) ? WEXITSTATUS(state) : -1);
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	GET(mdb_get(txn, 1, S("from"), &data));
	FACT(mdb_txn_id(txn));
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* What a read transaction was given stays as it was, whatever is committed beside it. */
static void pointers(void)
{
	title("pointers of a read transaction");
	MDB_txn *reader;
	MDB_val keys[200], values[200];
	size_t wrong = 0, seen = 0;
	char text[32];
	begin_with("pointers", 0);
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof text, "common prefix %06d", i);
		must("put", mdb_put(txn, dbi, S(text), S(text), 0));
	}
	must("commit", mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
	must("cursor", mdb_cursor_open(reader, dbi, &cur));
	while (seen < LENGTH(keys) && !mdb_cursor_get(cur, &keys[seen], &values[seen], MDB_NEXT))
		seen++;
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof text, "common prefix %06d", i);
		must("put", mdb_put(txn, dbi, S(text), N(40, 'n'), 0));
	}
	must("commit", mdb_txn_commit(txn));
	for (size_t i = 0; i < seen; i++) {
		snprintf(text, sizeof text, "common prefix %06zu", i);
		if (keys[i].mv_size != strlen(text) || memcmp(keys[i].mv_data, text, strlen(text)))
			wrong++;
		if (values[i].mv_size != strlen(text) || memcmp(values[i].mv_data, text, strlen(text)))
			wrong++;
	}
	FACT(seen);
	FACT(wrong);
	mdb_cursor_close(cur);
	mdb_txn_abort(reader);
	mdb_env_close(env);
}

/* ---- what programs do ---- */

/* A range is deleted under a cursor, and what follows is read from where it stands. */
static void ranges_deleted(void)
{
	title("ranges deleted");
	begin_with("ranges", 0);
	for (int i = 0; i < 40; i++) {
		char text[8];
		snprintf(text, sizeof text, "%02d", i);
		must("put", mdb_put(txn, dbi, S(text), S(text), 0));
	}
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("095"), MDB_SET_RANGE);
	for (int i = 0; i < 5; i++) {
		CALL(mdb_cursor_del(cur, 0));
		STEP(cur, MDB_GET_CURRENT);
	}
	for (int i = 0; i < 3; i++) {
		CALL(mdb_cursor_del(cur, 0));
		STEP(cur, MDB_NEXT);
	}
	STEP(cur, MDB_PREV);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_PREV);
	SEEK(cur, S("99"), MDB_SET_RANGE);
	STEP(cur, MDB_LAST);
	for (int i = 0; i < 3; i++) {
		CALL(mdb_cursor_del(cur, 0));
		STEP(cur, MDB_PREV);
	}
	SEEK(cur, S("20"), MDB_SET_KEY);
	data = *S("replaced");
	CALL(mdb_cursor_put(cur, S("20"), &data, MDB_CURRENT));
	data = *S("other");
	GET(mdb_cursor_put(cur, S("21"), &data, MDB_NOOVERWRITE) == MDB_KEYEXIST ? 0 : 1);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_FIRST);
	while (!mdb_cursor_get(cur, &key, &data, MDB_NEXT))
		if (((char *)key.mv_data)[1] % 2)
			must("del", mdb_cursor_del(cur, 0));
	walk(txn, dbi);
	end();
}

/* Lists of numbers under a key, as indexes keep them. */
static void an_index(void)
{
	title("an index");
	size_t count;
	begin_with("index", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
	for (size_t i = 0; i < 60; i++)
		must("put", mdb_put(txn, dbi, S(i % 3 ? "common" : "rare"), Z(i * 7919 % 61), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("common"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	STEP(cur, MDB_GET_MULTIPLE);
	FACT(data.mv_size);
	STEP(cur, MDB_NEXT_MULTIPLE);
	SEEK2(cur, S("common"), Z(30), MDB_GET_BOTH_RANGE);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	CALL(mdb_cursor_put(cur, S("common"), Z(200), MDB_APPENDDUP));
	CALL(mdb_cursor_put(cur, S("common"), Z(200), MDB_NODUPDATA));
	CALL(mdb_cursor_put(cur, S("common"), Z(31), MDB_NODUPDATA));
	CALL(mdb_put(txn, dbi, S("rare"), Z(7), MDB_NODUPDATA));
	SEEK2(cur, S("rare"), Z(1000), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("rare"), Z(9), MDB_GET_BOTH);
	SEEK(cur, S("rare"), MDB_SET_RANGE);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_NEXT_NODUP);
	STEP(cur, MDB_PREV_NODUP);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_FIRST);
	NUMBER(mdb_cursor_count(cur, &count), count);
	end();
}

/* Databases that are emptied and deleted while others are in use, and come back. */
static void databases_reused(void)
{
	title("databases reused");
	MDB_dbi other;
	MDB_txn *child;
	begin_with("reused", 0);
	letters('a', 'e');
	CALL(mdb_dbi_open(txn, "other", MDB_CREATE | MDB_DUPSORT, &other));
	CALL(mdb_put(txn, other, S("k"), S("v"), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("c"), MDB_SET);
	CALL(mdb_drop(txn, dbi, 0));
	CALL(mdb_cursor_get(cur, &key, &data, MDB_NEXT));
	CALL(mdb_put(txn, dbi, S("new"), S("value"), 0));
	STEP(cur, MDB_FIRST);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_drop(child, other, 1));
	CALL(mdb_dbi_open(child, "other", 0, &other));
	DO(mdb_txn_abort(child));
	/* It has its entry again; the original forgets it. */
	CALL(mdb_dbi_open(txn, "other", 0, &other));
	CALL(mdb_drop(txn, other, 1));
	CALL(mdb_dbi_open(txn, "other", 0, &other));
	CALL(mdb_dbi_open(txn, "other", MDB_CREATE, &other));
	CALL(mdb_put(txn, other, S("k"), S("v"), 0));
	CALL(mdb_put(txn, other, S("k"), S("w"), 0));
	walk(txn, other);
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	walk(txn, dbi);
	walk(txn, other);
	CALL(mdb_cursor_open(txn, other, &cur));
	STEP(cur, MDB_FIRST);
	DO(mdb_txn_reset(txn));
	CALL(mdb_txn_renew(txn));
	CALL(mdb_cursor_renew(txn, cur));
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	mdb_cursor_close(cur);
	DO(mdb_txn_abort(txn));
	mdb_env_close(env);
}

int main(int count, char **arguments_)
{
	if (count != 3 || (strcmp(arguments_[2], "original") && strcmp(arguments_[2], "ours"))) {
		fprintf(stderr, "usage: %s FOLDER original|ours\n", arguments_[0]);
		return 2;
	}
	snprintf(root, sizeof root, "%s", arguments_[1]);
	is_ours = !strcmp(arguments_[2], "ours");
	static void (*const chapters[])(void) = {
		versions, environment_before_open, environment_opening, environment_when_open,
		transactions, readers, reader_table, stale_reader, arguments, sizes, put_flags,
		cursor_moves, cursor_deletes, many_rows, duplicates, duplicate_deletes, many_values,
		fixed_values, integers, reverse, comparators, names, name_limits,
		names_and_transactions, main_flags, many_flags, nested, nested_cursors,
		reader_cursors, map_full, read_only, copies, many_environments, two_processes, pointers,
		ranges_deleted, an_index, databases_reused,
	};
	for (size_t i = 0; i < LENGTH(chapters); i++) {
		chapters[i]();
		fflush(stdout);
	}
	return 0;
}
