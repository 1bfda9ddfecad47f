//! A program like many: databases of both kinds, cursors, nested transactions, reopening.

use crate::programs::Program;

const PROGRAM: &str = r#"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lmdb.h"

#define OK(call) do { int rc_ = (call); if (rc_) { \
	fprintf(stderr, "line %d: %s: %s (%s)\n", __LINE__, #call, mdb_strerror(rc_), \
		mdb_last_error()); exit(1); } } while (0)
#define GIVES(code, call) do { int rc_ = (call); if (rc_ != (code)) { \
	fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, rc_); exit(1); } } while (0)

static MDB_val str(const char *text) {
	MDB_val val = {strlen(text), (void *)text};
	return val;
}

static void show(MDB_cursor *cursor, MDB_cursor_op op) {
	MDB_val key = {0, NULL}, data;
	int rc = mdb_cursor_get(cursor, &key, &data, op);
	if (rc)
		printf("%d\n", rc);
	else
		printf("%.*s=%.*s\n", (int)key.mv_size, (char *)key.mv_data, (int)data.mv_size,
			(char *)data.mv_data);
}

static void put(MDB_txn *txn, MDB_dbi dbi, const char *k, const char *v) {
	MDB_val key = str(k), data = str(v);
	OK(mdb_put(txn, dbi, &key, &data, 0));
}

int main(void) {
	MDB_env *env;
	MDB_txn *txn, *child;
	MDB_dbi plain, dups;
	MDB_cursor *cursor;
	MDB_val key, data;
	size_t count;

	OK(mdb_env_create(&env));
	OK(mdb_env_set_maxdbs(env, 4));
	OK(mdb_env_set_mapsize(env, 16 << 20));
	OK(mdb_env_open(env, ".", 0, 0644));
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	GIVES(MDB_NOTFOUND, mdb_dbi_open(txn, "plain", 0, &plain));
	OK(mdb_dbi_open(txn, "plain", MDB_CREATE, &plain));
	OK(mdb_dbi_open(txn, "dups", MDB_CREATE | MDB_DUPSORT, &dups));
	for (int i = 0; i < 10; i++) {
		char k[16], v[16];
		sprintf(k, "key %d", i);
		sprintf(v, "value %d", i);
		put(txn, plain, k, v);
		put(txn, dups, i % 2 ? "odd" : "even", v);
	}
	OK(mdb_txn_begin(env, txn, 0, &child));
	put(child, plain, "key 3", "changed");
	GIVES(MDB_BAD_TXN, mdb_get(txn, plain, &key, &data));
	mdb_txn_abort(child);
	OK(mdb_txn_begin(env, txn, 0, &child));
	put(child, plain, "key 4", "changed");
	OK(mdb_txn_commit(child));
	key = str("key 3");
	data = str("other");
	GIVES(MDB_KEYEXIST, mdb_put(txn, plain, &key, &data, MDB_NOOVERWRITE));
	printf("%.*s\n", (int)data.mv_size, (char *)data.mv_data);
	OK(mdb_cursor_open(txn, plain, &cursor));
	key = str("key 5");
	OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
	OK(mdb_cursor_del(cursor, 0));
	show(cursor, MDB_NEXT);
	show(cursor, MDB_PREV);
	show(cursor, MDB_LAST);
	show(cursor, MDB_NEXT);
	OK(mdb_txn_commit(txn));
	mdb_env_close(env);

	OK(mdb_env_create(&env));
	OK(mdb_env_set_maxdbs(env, 4));
	OK(mdb_env_open(env, ".", MDB_RDONLY, 0644));
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	OK(mdb_dbi_open(txn, "dups", 0, &dups));
	OK(mdb_cursor_open(txn, dups, &cursor));
	show(cursor, MDB_FIRST);
	OK(mdb_cursor_count(cursor, &count));
	printf("%zu\n", count);
	show(cursor, MDB_LAST_DUP);
	show(cursor, MDB_NEXT_DUP);
	show(cursor, MDB_NEXT_NODUP);
	mdb_cursor_close(cursor);
	OK(mdb_cursor_open(txn, 1, &cursor));
	while (!mdb_cursor_get(cursor, &key, &data, MDB_NEXT))
		printf("%.*s: %zu\n", (int)key.mv_size, (char *)key.mv_data, data.mv_size);
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	return 0;
}
"#;

#[test]
fn a_program_runs_from_end_to_end() {
    let printed = Program::compile(PROGRAM).output();
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "value 3",
        "key 6=value 6",
        "key 4=changed",
        "key 9=value 9",
        "-30798",
        "even=value 0",
        "5",
        "=value 8",
        "-30798",
        "odd=value 1",
        "dups: 48",
        "plain: 48",
    ];
    assert_eq!(lines, expected);
}
