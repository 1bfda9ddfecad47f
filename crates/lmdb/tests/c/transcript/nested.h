/* Nested transactions, and cursors that outlive theirs. */
#ifndef TRANSCRIPT_NESTED_H
#define TRANSCRIPT_NESTED_H

#include "calls.h"

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
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_PREV_NODUP);
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
	/* PHP goes on without renewing the cursor. */
	STEP(cur, MDB_NEXT);
	DO(mdb_txn_reset(txn));
	CALL(mdb_txn_renew(txn));
	STEP(cur, MDB_NEXT);
	DO(mdb_txn_reset(txn));
	CALL(mdb_txn_renew(txn));
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_PREV);
	mdb_txn_abort(txn);
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	CALL(mdb_cursor_renew(txn, cur));
	STEP(cur, MDB_LAST);
	DO(mdb_cursor_close(cur));
	end();
}

#endif
