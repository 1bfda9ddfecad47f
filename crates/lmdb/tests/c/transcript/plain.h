/* Databases with one value a key: puts, cursors, sizes. */
#ifndef TRANSCRIPT_PLAIN_H
#define TRANSCRIPT_PLAIN_H

#include "calls.h"

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
		size_t number;
		memcpy(&number, key.mv_data, sizeof number);
		seen++, sum += number;
		if (number % 2)
			must("del", mdb_cursor_del(cur, 0));
		else if (!mdb_cursor_get(other, Z(number + 3), &data, MDB_SET))
			must("del", mdb_cursor_del(other, 0));
	}
	FACT(seen);
	FACT(sum);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	for (seen = sum = 0; !mdb_cursor_get(cur, &key, &data, seen ? MDB_PREV : MDB_LAST); seen++) {
		size_t number;
		memcpy(&number, key.mv_data, sizeof number);
		sum += number;
	}
	FACT(seen);
	FACT(sum);
	end();
}

#endif
