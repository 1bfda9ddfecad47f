/* Runs the operations of a script that it reads, one a line, keys and values in hexadecimal and `*`
 * for none; prints what they give and a line with a point after each. Pairs are printed as two
 * hexadecimal words. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lmdb.h"

#define MOST 64
#define LINE (4 << 20)

static MDB_env *env;
static MDB_txn *open_txns[MOST], *old;
static int depth, reads_old;
static const char *table = "main";
static char line[LINE], name[64];

#define TRY(call) do { int code_ = (call); if (code_) return code_; } while (0)

static void open_env(void)
{
	if (mdb_env_create(&env) || mdb_env_set_maxdbs(env, 8) ||
	    mdb_env_set_mapsize(env, (size_t)1 << 30) ||
	    mdb_env_open(env, ".", MDB_NOSYNC | MDB_NOTLS, 0644))
		exit(2);
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The bytes that a word stands for, in the word's own memory; none for `*`. */
static MDB_val *value_of(char *word, MDB_val *value)
{
	if (!word || *word == '*')
		return NULL;
	size_t len = strlen(word + 1) / 2;
	unsigned char *out = (unsigned char *)word;
	for (size_t i = 0; i < len; i++) {
		const char *digits = word + 1 + 2 * i;
		out[i] = (unsigned char)(digit(digits[0]) << 4 | digit(digits[1]));
	}
	*value = (MDB_val){ .mv_size = len, .mv_data = out };
	return value;
}

static void show(const MDB_val *value)
{
	for (size_t i = 0; i < value->mv_size; i++)
		printf("%02x", ((unsigned char *)value->mv_data)[i]);
}

static void show_pair(const MDB_val *key, const MDB_val *data)
{
	show(key);
	putchar(' ');
	show(data);
	putchar('\n');
}

static MDB_txn *innermost(void)
{
	return depth ? open_txns[depth - 1] : NULL;
}

static int begin(void)
{
	TRY(mdb_txn_begin(env, innermost(), 0, &open_txns[depth]));
	depth++;
	return 0;
}

static int end(int commits)
{
	MDB_txn *txn = open_txns[--depth];
	if (commits)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return 0;
}

/* Entries of a range, which are shown or deleted. */
static int walk(MDB_txn *txn, MDB_dbi dbi, MDB_val *from, MDB_val *to, int backwards, int deletes)
{
	MDB_cursor *cursor;
	MDB_val key = { 0, NULL }, data;
	TRY(mdb_cursor_open(txn, dbi, &cursor));
	MDB_val *first = backwards ? to : from;
	MDB_cursor_op start = backwards ? MDB_LAST : MDB_FIRST;
	if (first) {
		key = *first;
		start = MDB_SET_RANGE;
	}
	int code = mdb_cursor_get(cursor, &key, &data, start);
	if (backwards && first)
		code = mdb_cursor_get(cursor, &key, &data, code ? MDB_LAST : MDB_PREV);
	while (!code) {
		if (!backwards && to && mdb_cmp(txn, dbi, &key, to) >= 0)
			break;
		if (backwards && from && mdb_cmp(txn, dbi, &key, from) < 0)
			break;
		if (deletes)
			TRY(mdb_cursor_del(cursor, 0));
		else
			show_pair(&key, &data);
		code = mdb_cursor_get(cursor, &key, &data, backwards ? MDB_PREV : MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	return code == MDB_NOTFOUND ? 0 : code;
}

static int count(MDB_txn *txn, MDB_dbi dbi, MDB_val *from, MDB_val *to)
{
	uint64_t found;
	unsigned flags;
	TRY(mdb_dbi_flags(txn, dbi, &flags));
	if (flags & MDB_DUPSORT)
		TRY(mdb_range_count_values(txn, dbi, from, to, MDB_COUNT_LOWER_INCL, &found));
	else
		TRY(mdb_count_range(txn, dbi, from, to, MDB_COUNT_LOWER_INCL, &found));
	printf("%llu\n", (unsigned long long)found);
	return 0;
}

static int rank(MDB_txn *txn, MDB_dbi dbi, MDB_val *key)
{
	return count(txn, dbi, NULL, key);
}

static int on_table(MDB_txn *txn, const char *verb, char **words)
{
	MDB_dbi dbi;
	MDB_val first, second, data;
	int code = mdb_dbi_open(txn, table, 0, &dbi);
	if (code)
		return code;
	if (!strcmp(verb, "nth")) {
		code = mdb_get_rank(txn, dbi, strtoull(words[0], NULL, 10), &first, &data);
		if (!code)
			show_pair(&first, &data);
		return code == MDB_NOTFOUND ? 0 : code;
	}
	MDB_val *a = value_of(words[0], &first), *b = value_of(words[1], &second);
	if (!strcmp(verb, "put"))
		return mdb_put(txn, dbi, a, b, 0);
	if (!strcmp(verb, "scan") || !strcmp(verb, "scan-back"))
		return walk(txn, dbi, a, b, verb[4] != 0, 0);
	if (!strcmp(verb, "delete-range"))
		return walk(txn, dbi, a, b, 0, 1);
	if (!strcmp(verb, "count"))
		return count(txn, dbi, a, b);
	if (!strcmp(verb, "rank"))
		return rank(txn, dbi, a);
	code = strcmp(verb, "get") ? mdb_del(txn, dbi, a, NULL) : mdb_get(txn, dbi, a, &data);
	if (!code && !strcmp(verb, "get")) {
		show(&data);
		putchar('\n');
	}
	return code == MDB_NOTFOUND ? 0 : code;
}

static int make_table(char **words)
{
	unsigned flags = MDB_CREATE;
	MDB_dbi dbi;
	snprintf(name, sizeof name, "%s", words[0]);
	table = name;
	for (int i = 1; words[i]; i++)
		flags |= !strcmp(words[i], "duplicates") ? MDB_DUPSORT :
			 !strcmp(words[i], "reverse")	 ? MDB_REVERSEKEY :
							   MDB_INTEGERKEY;
	return mdb_dbi_open(innermost(), table, flags, &dbi);
}

static int in_transaction(const char *verb, char **words)
{
	int alone = !depth;
	if (reads_old)
		return on_table(old, verb, words);
	if (alone)
		TRY(begin());
	int code = strcmp(verb, "table") ? on_table(innermost(), verb, words) : make_table(words);
	if (!alone)
		return code;
	int ended = end(!code);
	return code ? code : ended;
}

static int run(const char *verb, char **words)
{
	if (!strcmp(verb, "begin") || !strcmp(verb, "savepoint"))
		return begin();
	if (!strcmp(verb, "commit") || !strcmp(verb, "release"))
		return end(1);
	if (!strcmp(verb, "rollback"))
		return end(0);
	if (!strcmp(verb, "abort")) {
		while (depth)
			end(0);
		return 0;
	}
	if (!strcmp(verb, "snapshot"))
		return mdb_txn_begin(env, NULL, MDB_RDONLY, &old);
	if (!strcmp(verb, "old") || !strcmp(verb, "new")) {
		reads_old = *verb == 'o';
		return 0;
	}
	if (!strcmp(verb, "reopen")) {
		mdb_env_close(env);
		open_env();
		return 0;
	}
	return in_transaction(verb, words);
}

int main(void)
{
	char *none[] = { "main", NULL };

	open_env();
	if (in_transaction("table", none))
		return 2;
	while (fgets(line, sizeof line, stdin)) {
		char *words[MOST] = { NULL };
		int n = 0;
		for (char *word = strtok(line, " \n"); word && n < MOST - 1; word = strtok(NULL, " \n"))
			words[n++] = word;
		int code = run(words[0], words + 1);
		if (code)
			printf("error %s\n", code == MDB_BAD_VALSIZE ? "size" : mdb_strerror(code));
		puts(".");
		fflush(stdout);
	}
	mdb_txn_abort(old);
	mdb_env_close(env);
	return 0;
}
