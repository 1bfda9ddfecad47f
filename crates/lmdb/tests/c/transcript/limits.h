/* Limits and errors, copies, several environments and processes, how long addresses live. */
#ifndef TRANSCRIPT_LIMITS_H
#define TRANSCRIPT_LIMITS_H

#include "calls.h"

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

#endif
