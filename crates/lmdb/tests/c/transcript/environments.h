/* Environments, transactions, readers. */
#ifndef TRANSCRIPT_ENVIRONMENTS_H
#define TRANSCRIPT_ENVIRONMENTS_H

#include "calls.h"

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
	mkdir(at("folders"), 0755);
	mkdir(at("folders/data.mdb"), 0755);
	CALL(open_at(at("folders"), 0));
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

#endif
