/* What programs do. */
#ifndef TRANSCRIPT_PROGRAMS_H
#define TRANSCRIPT_PROGRAMS_H

#include "calls.h"

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

/* A child is deleted from its parent's list, and the parent is asked for as the key that is still
 * under the cursor: OpenLDAP's tree of names. */
static void a_child_deleted(void)
{
	title("a child deleted");
	begin_with("tree", MDB_DUPSORT);
	for (char letter = 'a'; letter <= 'f'; letter++) {
		must("put", mdb_put(txn, dbi, S("parent"), N(4, letter), 0));
		must("put", mdb_put(txn, dbi, S("z"), N(5, letter), 0));
	}
	CALL(mdb_cursor_open(txn, dbi, &cur));
	for (int i = 0; i < 3; i++) {
		SEEK(cur, S("parent"), MDB_SET);
		STEP(cur, MDB_LAST_DUP);
		CALL(mdb_cursor_del(cur, 0));
		CALL(mdb_cursor_get(cur, &key, NULL, MDB_GET_CURRENT));
		GET(mdb_get(txn, dbi, &key, &data));
		key = *S("nothing");
		CALL(mdb_cursor_get(cur, &key, &data, MDB_GET_CURRENT));
		GET(mdb_get(txn, dbi, &key, &data));
		CALL(mdb_cursor_get(cur, &key, NULL, i ? MDB_PREV : MDB_NEXT));
		CALL(mdb_cursor_get(cur, &key, NULL, MDB_GET_CURRENT));
		GET(mdb_get(txn, dbi, &key, &data));
	}
	end();
}

/* What 389 Directory Server keeps of each of its databases. */
static MDB_val *state(unsigned flags, unsigned dirty, unsigned version)
{
	static unsigned ring[16][3];
	static size_t next;
	unsigned *at = ring[next++ % LENGTH(ring)];
	memcpy(at, (unsigned[]){ flags, dirty, version }, sizeof ring[0]);
	return value(at, sizeof ring[0]);
}

/* Values that are longer than the integers that the flags speak of: their first 4 bytes order them,
 * and a value with the same ones takes the place of the other. */
static void integers_that_are_none(void)
{
	title("integers that are none");
	MDB_txn *child;
	begin_with("states", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, S("a"), state(256, 1, 1), 0));
	DO(mdb_txn_abort(child));
	walk(txn, dbi);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_put(cur, S("a"), state(256, 1, 1), MDB_NODUPDATA));
	STEP(cur, MDB_GET_CURRENT);
	CALL(mdb_cursor_put(cur, S("a"), state(256, 2, 1), MDB_NODUPDATA));
	CALL(mdb_put(txn, dbi, S("a"), state(256, 3, 1), 0));
	walk(txn, dbi);
	CALL(mdb_txn_begin(env, txn, 0, &child));
	CALL(mdb_put(child, dbi, S("a"), state(2, 9, 9), 0));
	CALL(mdb_put(child, dbi, S("a"), state(3, 0, 0), 0));
	CALL(mdb_put(child, dbi, S("a"), state(2, 8, 9), 0));
	CALL(mdb_put(child, dbi, S("b"), state(7, 8, 9), 0));
	walk(child, dbi);
	CALL(mdb_txn_commit(child));
	SEEK2(cur, S("a"), state(4, 0, 0), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("a"), state(3, 5, 5), MDB_GET_BOTH);
	CALL(mdb_cursor_put(cur, S("a"), state(3, 7, 7), MDB_CURRENT));
	CALL(mdb_del(txn, dbi, S("a"), state(2, 0, 0)));
	FACT(mdb_dcmp(txn, dbi, state(2, 1, 0), state(256, 0, 0)) < 0);
	FACT(mdb_dcmp(txn, dbi, state(2, 1, 0), state(2, 0, 5)));
	walk(txn, dbi);
	CALL(mdb_txn_commit(txn));
	mdb_env_close(env);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 8));
	must("open", mdb_env_open(env, at("states"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "table", 0, &dbi));
	walk(txn, dbi);
	CALL(mdb_put(txn, dbi, S("a"), state(256, 4, 4), 0));
	CALL(mdb_put(txn, dbi, S("a"), state(5, 4, 4), 0));
	walk(txn, dbi);
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

#endif
