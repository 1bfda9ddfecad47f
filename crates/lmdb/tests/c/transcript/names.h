/* Named databases and the main one. */
#ifndef TRANSCRIPT_NAMES_H
#define TRANSCRIPT_NAMES_H

#include "calls.h"

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

/* A step in the main database; of a record only the size is told. */
static void step_in_main(MDB_cursor *cursor, MDB_cursor_op op, const char *call)
{
	key = data = (MDB_val){ 0, NULL };
	int code = mdb_cursor_get(cursor, &key, &data, op);
	printf("%4d %s -> %s", ++calls, call, code_name(code));
	if (!code)
		say_bytes("key", &key), printf(" and %zu bytes", data.mv_size);
	printf("\n");
}
#define STEP_IN_MAIN(cursor, op) step_in_main(cursor, op, #op " of " #cursor)

/* Cursors on a main database with entries of its own, in which the first name appears and the last
 * one goes. */
static void first_and_last_names(void)
{
	title("cursors on the main database while names come and go");
	MDB_cursor *last, *other;
	MDB_txn *child;
	MDB_dbi one;
	begin("comeandgo", 0);
	dbi = 1;
	letters('c', 'h');
	CALL(mdb_cursor_open(txn, 1, &cur));
	CALL(mdb_cursor_open(txn, 1, &last));
	CALL(mdb_cursor_open(txn, 1, &other));
	SEEK(cur, S("d"), MDB_SET);
	STEP(last, MDB_LAST);
	STEP(other, MDB_NEXT);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_dbi_open(child, "dd", MDB_CREATE, &one));
	STEP_IN_MAIN(cur, MDB_GET_CURRENT);
	STEP_IN_MAIN(cur, MDB_NEXT);
	STEP_IN_MAIN(last, MDB_NEXT);
	STEP_IN_MAIN(other, MDB_PREV);
	DO(mdb_txn_abort(child));
	STEP_IN_MAIN(cur, MDB_GET_CURRENT);
	STEP_IN_MAIN(cur, MDB_NEXT);
	STEP_IN_MAIN(last, MDB_PREV);
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_dbi_open(txn, "b", MDB_CREATE, &one));
	STEP_IN_MAIN(cur, MDB_NEXT);
	STEP_IN_MAIN(cur, MDB_PREV);
	STEP_IN_MAIN(last, MDB_GET_CURRENT);
	STEP_IN_MAIN(other, MDB_NEXT);
	CALL(mdb_del(txn, 1, S("f"), NULL));
	STEP_IN_MAIN(last, MDB_NEXT);
	STEP_IN_MAIN(cur, MDB_FIRST);
	STEP_IN_MAIN(cur, MDB_NEXT);
	CALL(mdb_drop(txn, one, 1));
	STEP_IN_MAIN(cur, MDB_GET_CURRENT);
	STEP_IN_MAIN(cur, MDB_NEXT);
	STEP_IN_MAIN(last, MDB_PREV);
	STEP_IN_MAIN(other, MDB_GET_CURRENT);
	end();
}

/* Cursors on a main database with names whose entry another one deletes: they stand on the next one,
 * also if others come to stand between. */
static void deletes_beside_names(void)
{
	title("cursors on the main database while others delete");
	MDB_cursor *other, *record;
	MDB_dbi one;
	begin("others", 0);
	dbi = 1;
	CALL(mdb_dbi_open(txn, "d", MDB_CREATE, &one));
	letters('a', 'c');
	letters('e', 'g');
	CALL(mdb_cursor_open(txn, 1, &cur));
	CALL(mdb_cursor_open(txn, 1, &other));
	CALL(mdb_cursor_open(txn, 1, &record));
	SEEK(cur, S("b"), MDB_SET);
	SEEK(other, S("b"), MDB_SET);
	CALL(mdb_cursor_del(other, 0));
	CALL(mdb_put(txn, 1, S("bb"), S("between"), 0));
	STEP_IN_MAIN(cur, MDB_GET_CURRENT);
	CALL(mdb_cursor_del(cur, 0));
	STEP_IN_MAIN(cur, MDB_PREV);
	STEP_IN_MAIN(other, MDB_NEXT);
	SEEK(cur, S("g"), MDB_SET);
	CALL(mdb_del(txn, 1, S("g"), NULL));
	STEP_IN_MAIN(cur, MDB_GET_CURRENT);
	STEP_IN_MAIN(cur, MDB_PREV);
	CALL(mdb_cursor_get(record, S("d"), &data, MDB_SET));
	CALL(mdb_dbi_open(txn, "z", MDB_CREATE, &dbi));
	CALL(mdb_drop(txn, one, 1));
	CALL(mdb_put(txn, 1, S("dd"), S("between"), 0));
	STEP_IN_MAIN(record, MDB_GET_CURRENT);
	CALL(mdb_cursor_get(record, S("z"), &data, MDB_SET));
	CALL(mdb_put(txn, 1, S("zz"), S("behind"), 0));
	CALL(mdb_drop(txn, dbi, 1));
	CALL(mdb_dbi_open(txn, "z", MDB_CREATE, &dbi));
	STEP_IN_MAIN(record, MDB_PREV);
	CALL(mdb_del(txn, 1, S("zz"), NULL));
	for (char letter = 'a'; letter <= 'f'; letter++)
		mdb_del(txn, 1, N(1, letter), NULL);
	CALL(mdb_del(txn, 1, S("bb"), NULL));
	CALL(mdb_del(txn, 1, S("dd"), NULL));
	STEP_IN_MAIN(record, MDB_GET_CURRENT);
	CALL(mdb_drop(txn, dbi, 1));
	STEP_IN_MAIN(record, MDB_GET_CURRENT);
	CALL(mdb_put(txn, 1, S("new"), S("1"), 0));
	STEP_IN_MAIN(record, MDB_NEXT);
	STEP_IN_MAIN(cur, MDB_PREV);
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
	/* Opened where nothing can be written, before its first entry. */
	begin("mainread", 0);
	mdb_txn_abort(txn);
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &main_dbi));
	NUMBER(mdb_dbi_flags(txn, main_dbi, &flags), flags);
	CALL(mdb_txn_commit(txn));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	for (unsigned i = 1; i < 1000; i += 100)
		must("put", mdb_put(txn, main_dbi, U(i), U(i), 0));
	walk(txn, main_dbi);
	end();
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

#endif
