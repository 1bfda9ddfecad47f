/* Keys and values that a call is given may be those that another one of the same transaction gave
 * out: they stand in pages that the call changes, or in memory that it lets go, and have to be read
 * before. Each call here is given such, and what it leaves is compared with what it was given. Run
 * it in an empty folder, with the path of an empty store whose pages have 64 KiB or without; a
 * sanitizer sees what the comparison does not. */
#include "check.h"

#define KEYS 2000
#define ROUNDS 400
/* Values are numbers from here on, which no keys have. */
#define VALUE 1000000

static MDB_env *env;
static MDB_dbi plain, dups, fixed;
static char kept_key[512], kept_data[512];

/* Keys share their beginnings, so that each is put together in memory of the transaction. */
static MDB_val key_of(char *buffer, unsigned number)
{
	sprintf(buffer, "a beginning that all keys have in common, %08u", number);
	return text(buffer);
}

/* Keeps what a value holds, to compare with. */
static MDB_val keep(char *buffer, const MDB_val *val)
{
	HOLDS(val->mv_size <= 512);
	memcpy(buffer, val->mv_data, val->mv_size);
	return bytes(buffer, val->mv_size);
}

static void fill(MDB_txn *txn)
{
	char key[64], data[64];
	plain = open_dbi(txn, "plain", MDB_CREATE);
	dups = open_dbi(txn, "dups", MDB_CREATE | MDB_DUPSORT);
	fixed = open_dbi(txn, "fixed", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED);
	for (unsigned i = 0; i < KEYS; i++) {
		MDB_val k = key_of(key, 2 * i), d = key_of(data, VALUE + i);
		OK(mdb_put(txn, plain, &k, &d, 0));
		for (unsigned v = 0; v < 3; v++) {
			d = key_of(data, VALUE + 10 * i + v);
			OK(mdb_put(txn, dups, &k, &d, 0));
			OK(mdb_put(txn, fixed, &k, &d, 0));
		}
	}
}

/* Has the transaction give out so much that it lets go of it at the next write. */
static void give_out(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	while (!mdb_cursor_get(cursor, &key, &data, MDB_NEXT))
		;
	mdb_cursor_close(cursor);
}

/* The cursor stands on this key, and on this value if that is not null. */
static void stands_on(MDB_cursor *cursor, const MDB_val *key, const MDB_val *data)
{
	MDB_val found, value;
	OK(mdb_cursor_get(cursor, &found, &value, MDB_GET_CURRENT));
	HOLDS(same(&found, key) && (!data || same(&value, data)));
}

/* One put through a cursor, its key and value being what another cursor has just given out. */
static void put_what_was_given(MDB_txn *txn, MDB_dbi from, MDB_dbi to, unsigned number, unsigned flags,
	int code)
{
	char buffer[64];
	MDB_cursor *source, *target;
	MDB_val key = key_of(buffer, number), data;
	OK(mdb_cursor_open(txn, from, &source));
	OK(mdb_cursor_open(txn, to, &target));
	give_out(txn, from);
	OK(mdb_cursor_get(source, &key, &data, MDB_SET_KEY));
	MDB_val wanted = keep(kept_key, &key), value = keep(kept_data, &data);
	GIVES(code, mdb_cursor_put(target, &key, &data, flags));
	stands_on(target, &wanted, code ? NULL : &value);
	mdb_cursor_close(target);
	mdb_cursor_close(source);
}

static void puts_of_cursors(MDB_txn *txn)
{
	for (unsigned i = 0; i < 50; i++) {
		/* The same entry, in the very page that it stands in. */
		put_what_was_given(txn, plain, plain, 2 * i, 0, 0);
		put_what_was_given(txn, plain, plain, 2 * i, MDB_NOOVERWRITE, MDB_KEYEXIST);
		put_what_was_given(txn, dups, dups, 2 * i, 0, 0);
		put_what_was_given(txn, dups, dups, 2 * i, MDB_NOOVERWRITE, MDB_KEYEXIST);
		put_what_was_given(txn, dups, dups, 2 * i, MDB_NODUPDATA, MDB_KEYEXIST);
		put_what_was_given(txn, dups, dups, 2 * i, MDB_APPENDDUP, MDB_KEYEXIST);
		put_what_was_given(txn, dups, plain, 2 * i, 0, 0);
		put_what_was_given(txn, plain, dups, 2 * i, 0, 0);
		put_what_was_given(txn, fixed, fixed, 2 * i, MDB_NODUPDATA, MDB_KEYEXIST);
	}
}

/* An entry of a page under the key that another one of it has, so that both move. */
static void puts_and_deletes(MDB_txn *txn)
{
	uint64_t seed = 1;
	char buffer[64], other[64];
	for (unsigned round = 0; round < ROUNDS; round++) {
		MDB_val key = key_of(buffer, 2 * (chance(&seed) % KEYS)), data, found;
		if (mdb_get(txn, plain, &key, &data))
			continue;
		MDB_val value = keep(kept_data, &data), next = key_of(other, 2 * (chance(&seed) % KEYS) + 1);
		OK(mdb_put(txn, plain, &next, &data, 0));
		OK(mdb_get(txn, plain, &next, &found));
		HOLDS(same(&found, &value));
		/* The value as a key, and a delete by the key that stands in the page. */
		give_out(txn, dups);
		OK(mdb_get(txn, plain, &next, &data));
		value = keep(kept_data, &data);
		OK(mdb_put(txn, plain, &data, &data, 0));
		OK(mdb_get(txn, plain, &value, &found));
		HOLDS(same(&found, &value));
		OK(mdb_del(txn, plain, &found, NULL));
		GIVES(MDB_NOTFOUND, mdb_get(txn, plain, &value, &found));
	}
}

/* The value under the cursor replaced by one that was given out, and pairs deleted by such. */
static void current_and_pairs(MDB_txn *txn)
{
	char buffer[64];
	for (unsigned i = 100; i < 150; i++) {
		MDB_cursor *cursor;
		MDB_val key = key_of(buffer, 2 * i), data, found;
		OK(mdb_cursor_open(txn, dups, &cursor));
		give_out(txn, dups);
		OK(mdb_cursor_get(cursor, &key, &data, MDB_SET_KEY));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
		MDB_val value = keep(kept_data, &data);
		OK(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT));
		MDB_val wanted = key_of(buffer, 2 * i);
		stands_on(cursor, &wanted, &value);
		give_out(txn, dups);
		OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST_DUP));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
		value = keep(kept_data, &data);
		OK(mdb_del(txn, dups, &key, &data));
		found = value;
		GIVES(MDB_NOTFOUND, mdb_cursor_get(cursor, &wanted, &found, MDB_GET_BOTH));
		mdb_cursor_close(cursor);
	}
}

/* Whether the blocks of a key's values, of which there is one a page, are those bytes. */
static int are_blocks(MDB_cursor *cursor, MDB_val *key, const MDB_val *wanted)
{
	size_t done = 0;
	MDB_val data;
	OK(mdb_cursor_get(cursor, key, &data, MDB_SET));
	for (int code = mdb_cursor_get(cursor, key, &data, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cursor, key, &data, MDB_NEXT_MULTIPLE)) {
		if (done + data.mv_size > wanted->mv_size
			|| memcmp((char *)wanted->mv_data + done, data.mv_data, data.mv_size))
			return 0;
		done += data.mv_size;
	}
	return done == wanted->mv_size;
}

/* Several values that stand in the page which they are put into. */
static void blocks(MDB_txn *txn)
{
	char buffer[64], other[64];
	for (unsigned i = 200; i < 220; i++) {
		MDB_cursor *cursor;
		MDB_val key = key_of(buffer, 2 * i), data;
		OK(mdb_cursor_open(txn, fixed, &cursor));
		give_out(txn, fixed);
		OK(mdb_cursor_get(cursor, &key, &data, MDB_SET_KEY));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE));
		size_t size = key.mv_size, count = data.mv_size / size;
		MDB_val block = keep(kept_data, &data), two[2] = { { size, data.mv_data }, { count, NULL } };
		MDB_val next = key_of(other, 2 * i + 1);
		HOLDS(count >= 1 && count <= 3);
		OK(mdb_cursor_put(cursor, &next, two, MDB_MULTIPLE));
		HOLDS(two[1].mv_size == count);
		HOLDS(are_blocks(cursor, &next, &block));
		mdb_cursor_close(cursor);
	}
}

/* What the transaction's first pages hold: those of the file, and from its first write on copies. */
static void of_the_file(void)
{
	MDB_txn *txn = begin(env, 0);
	char buffer[64];
	MDB_val key = key_of(buffer, 2 * 300), data, found;
	OK(mdb_get(txn, plain, &key, &data));
	MDB_val value = keep(kept_data, &data);
	OK(mdb_put(txn, plain, &data, &data, 0));
	OK(mdb_get(txn, plain, &value, &found));
	HOLDS(same(&found, &value));
	OK(mdb_get(txn, plain, &key, &found));
	HOLDS(same(&found, &value));
	mdb_txn_abort(txn);
}

/* Of two values that take a good part of a large page, the second put in place of the first, which
 * is taken out of the page before. */
static void large_pages(const char *path)
{
	static char large[20000], expected[20000];
	MDB_env *other = open_env(path, MDB_NOSYNC | MDB_NOSUBDIR, 1 << 28);
	MDB_txn *txn = begin(other, 0);
	MDB_dbi dbi = open_dbi(txn, "large", MDB_CREATE);
	char first[64], second[64];
	for (unsigned i = 0; i < 20; i++) {
		MDB_val key = key_of(first, 2 * i), next = key_of(second, 2 * i + 1), found;
		MDB_val data = bytes(large, sizeof large - 1000);
		memset(large, 'a', sizeof large);
		OK(mdb_put(txn, dbi, &key, &data, 0));
		for (size_t at = 0; at < sizeof large; at++)
			expected[at] = large[at] = (char)(at * (i + 3) >> 4);
		data = bytes(large, sizeof large - i);
		OK(mdb_put(txn, dbi, &next, &data, 0));
		OK(mdb_get(txn, dbi, &next, &found));
		OK(mdb_put(txn, dbi, &key, &found, 0));
		OK(mdb_get(txn, dbi, &key, &found));
		data = bytes(expected, sizeof large - i);
		HOLDS(same(&found, &data));
	}
	mdb_txn_abort(txn);
	mdb_env_close(other);
}

int main(int count, char **arguments)
{
	if (count > 1)
		large_pages(arguments[1]);
	env = open_env(folder("aliases"), MDB_NOSYNC, 1 << 28);
	MDB_txn *txn = begin(env, 0);
	fill(txn);
	puts_of_cursors(txn);
	puts_and_deletes(txn);
	current_and_pairs(txn);
	blocks(txn);
	OK(mdb_txn_commit(txn));
	of_the_file();
	/* And where every page begins as one of the file. */
	txn = begin(env, 0);
	puts_of_cursors(txn);
	puts_and_deletes(txn);
	current_and_pairs(txn);
	OK(mdb_txn_commit(txn));
	mdb_env_close(env);
	puts("aliases hold");
	return 0;
}
