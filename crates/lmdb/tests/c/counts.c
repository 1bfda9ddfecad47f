/* DLMDB's ten calls, held to what a walk over the same entries counts: in databases with and without
 * duplicates, of every order, in the main one with named ones in it, in new transactions and in the
 * middle of one, after other cursors have written. Run it in an empty folder. */
#include "check.h"

#define KEYS_MAX 3000
#define DUPS_MAX 400

/* What a walk found, copied: with MDB_PREFIX_COMPRESSION a key stands until the next step only. */
static struct row {
	MDB_val key, data;
} *rows;
static size_t rows_length, rows_room;

static MDB_val copy(const MDB_val *string)
{
	void *room = malloc(string->mv_size + 1);
	return bytes(memcpy(room, string->mv_data, string->mv_size), string->mv_size);
}

static void forget(void)
{
	for (; rows_length; rows_length--) {
		free(rows[rows_length - 1].key.mv_data);
		free(rows[rows_length - 1].data.mv_data);
	}
}

static void walk(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_cursor *cursor;
	struct row row;
	forget();
	OK(mdb_cursor_open(txn, dbi, &cursor));
	while (!mdb_cursor_get(cursor, &row.key, &row.data, MDB_NEXT)) {
		if (rows_length == rows_room)
			rows = realloc(rows, (rows_room = 2 * rows_room + 64) * sizeof *rows);
		rows[rows_length++] = (struct row){ copy(&row.key), copy(&row.data) };
	}
	mdb_cursor_close(cursor);
}

/* Keys and values of the rows between two bounds. */
static void count_by_walking(MDB_txn *txn, MDB_dbi dbi, const MDB_val *low, const MDB_val *high,
	unsigned flags, uint64_t *keys, uint64_t *values)
{
	const MDB_val *last = NULL;
	*keys = *values = 0;
	for (size_t i = 0; i < rows_length; i++) {
		const MDB_val *key = &rows[i].key;
		int from = low ? mdb_cmp(txn, dbi, key, low) : 1;
		int to = high ? mdb_cmp(txn, dbi, key, high) : -1;
		if (from < 0 || (from == 0 && !(flags & MDB_COUNT_LOWER_INCL)))
			continue;
		if (to > 0 || (to == 0 && !(flags & MDB_COUNT_UPPER_INCL)))
			continue;
		++*values;
		*keys += !last || !same(last, key);
		last = key;
	}
}

/* Ranges between keys that are there, and between some that are not. */
static void ranges(MDB_txn *txn, MDB_dbi dbi, int dups, uint64_t *seed)
{
	static const unsigned flags[] = { 0, MDB_COUNT_LOWER_INCL, MDB_COUNT_UPPER_INCL,
		MDB_COUNT_LOWER_INCL | MDB_COUNT_UPPER_INCL };
	for (int i = 0; i < 120 && rows_length; i++) {
		MDB_val a = rows[chance(seed) % rows_length].key;
		MDB_val b = rows[chance(seed) % rows_length].key;
		char absent[512];
		memcpy(absent, a.mv_data, a.mv_size);
		if (i % 3 == 0 && a.mv_size > 8)
			a = bytes(absent, a.mv_size - 1);
		const MDB_val *low = i % 7 == 0 ? NULL : &a, *high = i % 11 == 0 ? NULL : &b;
		uint64_t keys, values, counted = 77;
		unsigned f = flags[i % 4];
		count_by_walking(txn, dbi, low, high, f, &keys, &values);
		OK(mdb_range_count_keys(txn, dbi, low, high, f, &counted));
		HOLDS(counted == keys);
		GIVES(dups ? MDB_INCOMPATIBLE : 0, mdb_count_range(txn, dbi, low, high, f, &counted));
		HOLDS(counted == keys);
		GIVES(dups ? 0 : MDB_INCOMPATIBLE,
			mdb_range_count_values(txn, dbi, low, high, f, &counted));
		HOLDS(counted == (dups ? values : keys));
	}
}

/* Every row by its rank, and its rank by the row. */
static void ranks(MDB_txn *txn, MDB_dbi dbi, int dups)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	uint64_t rank;
	size_t first = 0;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	for (size_t i = 0; i < rows_length; i++) {
		const struct row *row = &rows[i];
		first = i && same(&rows[i - 1].key, &row->key) ? first : i;
		OK(mdb_cursor_get_rank(cursor, i, &key, &data, 0));
		HOLDS(same(&key, &row->key) && same(&data, &row->data));
		OK(mdb_get_key_rank(txn, dbi, &row->key, &row->data, &rank));
		HOLDS(rank == i);
		if (i % 5)
			continue;
		OK(mdb_cursor_key_rank(cursor, &row->key, NULL, 0, &rank));
		HOLDS(rank == first);
		/* It has not moved. */
		OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
		HOLDS(same(&key, &row->key) && same(&data, &row->data));
		OK(mdb_get_rank(txn, dbi, i, &key, &data));
		HOLDS(same(&key, &row->key) && same(&data, &row->data));
		/* The step from there is the step of a walk. */
		GIVES(i + 1 < rows_length ? 0 : MDB_NOTFOUND,
			mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
		HOLDS(i + 1 == rows_length || same(&key, &rows[i + 1].key));
	}
	GIVES(MDB_NOTFOUND, mdb_cursor_get_rank(cursor, rows_length, &key, &data, 0));
	OK(rows_length ? mdb_cursor_get_rank(cursor, 0, NULL, NULL, 0) : 0);
	if (rows_length) {
		MDB_val other = text("a value that no key has");
		GIVES(dups ? MDB_NOTFOUND : 0,
			mdb_get_key_rank(txn, dbi, &rows[0].key, &other, &rank));
	}
	mdb_cursor_close(cursor);
}

/* The values of every key in one list. */
static void lists(MDB_txn *txn, MDB_dbi dbi, int dups)
{
	MDB_cursor *cursor;
	const MDB_val *list;
	mdb_size_t count;
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(dups ? EINVAL : MDB_INCOMPATIBLE, mdb_cursor_list_dup(cursor, &list, &count));
	for (size_t i = 0, end; dups && i < rows_length; i = end) {
		for (end = i + 1; end < rows_length && same(&rows[end].key, &rows[i].key);)
			end++;
		OK(mdb_cursor_get_rank(cursor, i + (end - i) / 2, NULL, NULL, 0));
		OK(mdb_cursor_list_dup(cursor, &list, &count));
		HOLDS(count == end - i);
		for (size_t j = 0; j < count; j++)
			HOLDS(same(&list[j], &rows[i + j].data));
	}
	mdb_cursor_close(cursor);
}

static void check_all(MDB_txn *txn, MDB_dbi dbi, uint64_t seed)
{
	unsigned flags;
	uint64_t count;
	OK(mdb_dbi_flags(txn, dbi, &flags));
	int dups = (flags & MDB_DUPSORT) != 0;
	walk(txn, dbi);
	OK(mdb_count_all(txn, dbi, 0, &count));
	HOLDS(count == rows_length);
	ranges(txn, dbi, dups, &seed);
	ranks(txn, dbi, dups);
	lists(txn, dbi, dups);
}

/* A key of any length from 1 to 60 bytes, or a number where the database wants one. */
static MDB_val a_key(unsigned number, unsigned flags)
{
	static char room[64];
	if (flags & MDB_INTEGERKEY) {
		memcpy(room, &number, sizeof number);
		return bytes(room, sizeof number);
	}
	int n = snprintf(room, sizeof room, "%.*s%05u", (int)(number % 50),
		"the same beginning of all keys, which pages keep apart", number);
	return bytes(room, n);
}

static MDB_val a_value(unsigned number, unsigned flags)
{
	static char room[128];
	if (flags & MDB_INTEGERDUP) {
		memcpy(room, &number, sizeof number);
		return bytes(room, sizeof number);
	}
	int n = snprintf(room, sizeof room, "value %08u%.*s", number,
		flags & MDB_DUPFIXED ? 0 : (int)(number % 60),
		"............................................................");
	return bytes(room, n);
}

/* Puts and deletes in any order; some keys get hundreds of values. */
static void change(MDB_txn *txn, MDB_dbi dbi, unsigned flags, uint64_t *seed, int calls)
{
	for (int i = 0; i < calls; i++) {
		unsigned number = chance(seed) % KEYS_MAX;
		MDB_val key = a_key(flags & MDB_DUPSORT ? number % 40 : number, flags);
		MDB_val data = a_value(chance(seed) % DUPS_MAX, flags);
		if (chance(seed) % 3)
			OK(mdb_put(txn, dbi, &key, &data, 0));
		else if (chance(seed) % 20)
			(void)mdb_del(txn, dbi, &key, &data);
		else
			(void)mdb_del(txn, dbi, &key, NULL);
	}
}

/* Keys of random lengths, put and deleted in turns, also in transactions inside of one. */
static void one_kind(const char *name, unsigned flags, uint64_t seed)
{
	MDB_env *env = open_env(folder(name), 0, 0);
	MDB_txn *txn = begin(env, 0), *child;
	MDB_dbi dbi = open_dbi(txn, name, flags | MDB_CREATE);
	uint64_t count = 1;
	check_all(txn, dbi, seed);
	for (int round = 0; round < 3; round++) {
		change(txn, dbi, flags, &seed, 2500);
		OK(mdb_txn_begin(env, txn, 0, &child));
		change(child, dbi, flags, &seed, 300);
		check_all(child, dbi, seed);
		if (round % 2)
			OK(mdb_txn_commit(child));
		else
			mdb_txn_abort(child);
		check_all(txn, dbi, seed);
		OK(mdb_txn_commit(txn));
		/* A count is the first call of a new transaction. */
		size_t were = rows_length;
		txn = begin(env, MDB_RDONLY);
		OK(mdb_range_count_keys(txn, dbi, NULL, NULL, 0, &count));
		HOLDS(count > 0);
		mdb_txn_abort(txn);
		txn = begin(env, MDB_RDONLY);
		OK(mdb_count_all(txn, dbi, 0, &count));
		HOLDS(count == were);
		check_all(txn, dbi, seed);
		mdb_txn_abort(txn);
		txn = begin(env, 0);
	}
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* A database of its own whose keys the named ones stand between. */
static void main_with_names(void)
{
	static const char *const names[] = { "a", "key 0500", "key 0500x", "m", "zz" };
	MDB_env *env = open_env(folder("names"), 0, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi top = open_dbi(txn, NULL, 0), named;
	MDB_val key, data;
	uint64_t count, rank;
	OK(mdb_count_all(txn, top, 0, &count));
	HOLDS(count == 0);
	for (size_t i = 0; i < LENGTH(names); i++) {
		named = open_dbi(txn, names[i], MDB_CREATE);
		check_all(txn, top, i);
	}
	for (int i = 0; i < 1000; i += 3) {
		char room[16];
		snprintf(room, sizeof room, "key %04d", i);
		put(txn, top, room, "v");
	}
	put(txn, named, "not one of the main database's", "v");
	check_all(txn, top, 1);
	OK(mdb_count_all(txn, top, 0, &count));
	HOLDS(count == 334 + LENGTH(names));
	OK(mdb_txn_commit(txn));
	txn = begin(env, MDB_RDONLY);
	key = text("key 0500");
	OK(mdb_get_key_rank(txn, top, &key, NULL, &rank));
	/* Before it stands "a", and every third number below 500. */
	HOLDS(rank == 1 + 167);
	OK(mdb_get_rank(txn, top, rank, &key, &data));
	HOLDS(key.mv_size == 8 && !memcmp(key.mv_data, "key 0500", 8) && data.mv_size == 48);
	check_all(txn, top, 2);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* A cursor that was placed by rank, and others write. */
static void ranks_after_writes(void)
{
	MDB_env *env = open_env(folder("writes"), 0, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	MDB_cursor *cursor, *other;
	MDB_val key, data;
	char room[16];
	for (int i = 0; i < 6000; i++) {
		snprintf(room, sizeof room, "%05d", 2 * i);
		put(txn, dbi, room, "v");
	}
	OK(mdb_cursor_open(txn, dbi, &cursor));
	OK(mdb_cursor_open(txn, dbi, &other));
	for (int i = 0; i < 400; i++) {
		snprintf(room, sizeof room, "%05d", 2 * i + 1);
		key = text(room), data = text("v");
		OK(mdb_cursor_put(other, &key, &data, 0));
		walk(txn, dbi);
		OK(mdb_cursor_get_rank(cursor, 3000, &key, &data, 0));
		HOLDS(same(&key, &rows[3000].key));
		/* 3,000 come before it: even numbers, and the odd ones that were put so far. */
		snprintf(room, sizeof room, "%05d", 6000 - 2 * (i + 1));
		HOLDS(key.mv_size == 5 && !memcmp(key.mv_data, room, 5));
	}
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Ten thousand values of one key in one list, of one and of many sizes. */
static void long_lists(void)
{
	MDB_env *env = open_env(folder("lists"), 0, 0);
	MDB_txn *txn = begin(env, 0);
	static const unsigned kinds[] = { MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
	for (size_t k = 0; k < LENGTH(kinds); k++) {
		MDB_dbi dbi = open_dbi(txn, k ? "fixed" : "any", kinds[k] | MDB_CREATE);
		MDB_cursor *cursor;
		const MDB_val *list, *again;
		mdb_size_t count;
		for (unsigned i = 0; i < 10000; i++) {
			MDB_val key = text("key"), data = a_value(i, kinds[k]);
			OK(mdb_put(txn, dbi, &key, &data, 0));
		}
		put(txn, dbi, "single", "value 00000000");
		check_all(txn, dbi, 3);
		OK(mdb_cursor_open(txn, dbi, &cursor));
		OK(mdb_cursor_get_rank(cursor, 10000, NULL, NULL, 0));
		OK(mdb_cursor_list_dup(cursor, &list, &count));
		HOLDS(count == 1 && list[0].mv_size == 14);
		OK(mdb_cursor_get_rank(cursor, 5000, NULL, NULL, 0));
		OK(mdb_cursor_list_dup(cursor, &list, &count));
		OK(mdb_cursor_list_dup(cursor, &again, &count));
		/* Both lists stand. */
		HOLDS(count == 10000 && same(&list[7000], &again[7000]));
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* The flag stops counts, too, and is the first that the caller hears of. */
static void interruption(void)
{
	MDB_env *env;
	OK(mdb_env_create(&env));
	GIVES(EINVAL, mdb_env_set_interrupt(env, 1));
	mdb_env_close(env);
	env = open_env(folder("interrupt"), 0, 0);
	MDB_txn *txn = begin(env, 0), *child;
	MDB_dbi dbi = open_dbi(txn, "dups", MDB_CREATE | MDB_DUPSORT);
	MDB_val key = text("key"), data;
	uint64_t count;
	put(txn, dbi, "key", "one");
	put(txn, dbi, "key", "two");
	OK(mdb_txn_begin(env, txn, 0, &child));
	OK(mdb_env_set_interrupt(env, 1));
	GIVES(EINTR, mdb_get(child, dbi, &key, &data));
	GIVES(MDB_BAD_TXN, mdb_get(child, dbi, &key, &data));
	mdb_txn_abort(child);
	OK(mdb_env_set_interrupt(env, 0));
	OK(mdb_get(txn, dbi, &key, &data));
	OK(mdb_txn_commit(txn));
	for (int call = 0; call < 6; call++) {
		MDB_cursor *cursor;
		const MDB_val *list;
		mdb_size_t length;
		txn = begin(env, MDB_RDONLY);
		OK(mdb_cursor_open(txn, dbi, &cursor));
		OK(mdb_env_set_interrupt(env, 1));
		int code = call == 0 ? mdb_count_all(txn, dbi, 0, &count)
			: call == 1	 ? mdb_range_count_keys(txn, dbi, NULL, NULL, 0, &count)
			: call == 2	 ? mdb_range_count_values(txn, dbi, NULL, NULL, 0, &count)
			: call == 3	 ? mdb_get_key_rank(txn, dbi, &key, NULL, &count)
			: call == 4	 ? mdb_cursor_get_rank(cursor, 0, NULL, NULL, 0)
						 : mdb_cursor_list_dup(cursor, &list, &length);
		GIVES(EINTR, code);
		GIVES(MDB_BAD_TXN, mdb_count_all(txn, dbi, 0, &count));
		OK(mdb_env_set_interrupt(env, 0));
		mdb_txn_reset(txn);
		OK(mdb_txn_renew(txn));
		OK(mdb_count_all(txn, dbi, 0, &count));
		HOLDS(count == 2);
		mdb_cursor_close(cursor);
		mdb_txn_abort(txn);
	}
	txn = begin(env, 0);
	put(txn, dbi, "key", "three");
	OK(mdb_env_set_interrupt(env, 1));
	GIVES(EINTR, mdb_txn_commit(txn));
	OK(mdb_env_set_interrupt(env, 0));
	txn = begin(env, MDB_RDONLY);
	OK(mdb_count_all(txn, dbi, 0, &count));
	HOLDS(count == 2);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Arguments that do not fit; flags that a database with entries cannot take. */
static void refusals(void)
{
	MDB_env *env = open_env(folder("refusals"), 0, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, "plain", MDB_CREATE | MDB_COUNTED), top = open_dbi(txn, NULL, 0);
	MDB_val none = bytes("", 0), key = text("key"), long_key = bytes(calloc(1, 2000), 2000);
	MDB_val data;
	MDB_cursor *cursor;
	unsigned flags;
	uint64_t count;
	put(txn, dbi, "key", "value");
	OK(mdb_dbi_flags(txn, dbi, &flags));
	HOLDS(flags == MDB_COUNTED);
	GIVES(EINVAL, mdb_count_all(txn, dbi, 0, NULL));
	GIVES(EINVAL, mdb_count_all(txn, dbi, 0x10, &count));
	OK(mdb_count_all(txn, dbi, MDB_COUNT_LOWER_INCL | MDB_COUNT_UPPER_INCL, &count));
	GIVES(EINVAL, mdb_count_all(NULL, dbi, 0, &count));
	GIVES(EINVAL, mdb_count_all(txn, 77, 0, &count));
	GIVES(EINVAL, mdb_count_all(txn, 0, 0, &count));
	GIVES(EINVAL, mdb_count_range(txn, dbi, NULL, NULL, 1, &count));
	GIVES(EINVAL, mdb_count_range(txn, dbi, NULL, NULL, 0, NULL));
	GIVES(MDB_BAD_VALSIZE, mdb_count_range(txn, dbi, &none, NULL, 0, &count));
	GIVES(MDB_BAD_VALSIZE, mdb_range_count_keys(txn, dbi, NULL, &none, 0, &count));
	OK(mdb_count_range(txn, dbi, &long_key, NULL, 0, &count));
	HOLDS(count == 1);
	OK(mdb_count_range(txn, dbi, &key, &key, MDB_COUNT_LOWER_INCL, &count));
	HOLDS(count == 0);
	OK(mdb_count_range(txn, dbi, &key, &key, MDB_COUNT_LOWER_INCL | MDB_COUNT_UPPER_INCL, &count));
	HOLDS(count == 1);
	GIVES(EINVAL, mdb_get_key_rank(txn, dbi, NULL, NULL, &count));
	GIVES(EINVAL, mdb_get_key_rank(txn, dbi, &key, NULL, NULL));
	GIVES(MDB_BAD_VALSIZE, mdb_get_key_rank(txn, dbi, &none, NULL, &count));
	GIVES(MDB_NOTFOUND, mdb_get_key_rank(txn, dbi, &long_key, NULL, &count));
	GIVES(MDB_NOTFOUND, mdb_get_rank(txn, dbi, 1, &key, &data));
	GIVES(MDB_NOTFOUND, mdb_get_rank(txn, dbi, UINT64_MAX, &key, &data));
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(EINVAL, mdb_cursor_get_rank(cursor, 0, &key, &data, 1));
	GIVES(EINVAL, mdb_cursor_key_rank(cursor, &key, NULL, 1, &count));
	GIVES(EINVAL, mdb_cursor_get_rank(NULL, 0, &key, &data, 0));
	GIVES(EINVAL, mdb_cursor_key_rank(NULL, &key, NULL, 0, &count));
	GIVES(EINVAL, mdb_cursor_list_dup(NULL, NULL, NULL));
	mdb_cursor_close(cursor);
	GIVES(EINVAL, mdb_env_set_interrupt(NULL, 0));
	/* An entry in the main database settles its flags. */
	put(txn, top, "entry", "value");
	GIVES(MDB_INCOMPATIBLE, mdb_dbi_open(txn, NULL, MDB_COUNTED, &top));
	GIVES(MDB_INCOMPATIBLE, mdb_dbi_open(txn, NULL, MDB_PREFIX_COMPRESSION, &top));
	OK(mdb_count_all(txn, top, 0, &count));
	HOLDS(count == 2);
	free(long_key.mv_data);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Every counting call with keys and values that are not there, that are empty and that are not
 * given, in a database with three keys: b, d with one value or three, and f. */
static void what_is_not_there(unsigned kind)
{
	MDB_env *env = open_env(folder(kind ? "absent-dups" : "absent"), MDB_NOSYNC, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, "table", MDB_CREATE | kind);
	MDB_val none = bytes("", 0), nowhere = { 0, NULL }, b = text("b"), c = text("c"), d = text("d");
	MDB_val z = text("z"), two = text("2"), four = text("4"), key, data;
	const MDB_val *list = &none;
	const unsigned both = MDB_COUNT_LOWER_INCL | MDB_COUNT_UPPER_INCL;
	const uint64_t values = kind ? 5 : 3, of_d = kind ? 3 : 1;
	int ranges = kind ? MDB_INCOMPATIBLE : 0, pairs = kind ? 0 : MDB_INCOMPATIBLE;
	size_t length;
	uint64_t count = 9;
	MDB_cursor *cursor;
	/* Nothing is there. */
	OK(mdb_count_all(txn, dbi, 0, &count));
	HOLDS(count == 0);
	OK(mdb_range_count_keys(txn, dbi, NULL, NULL, 0, &count));
	HOLDS(count == 0);
	GIVES(MDB_NOTFOUND, mdb_get_rank(txn, dbi, 0, &key, &data));
	GIVES(MDB_NOTFOUND, mdb_get_key_rank(txn, dbi, &b, NULL, &count));
	put(txn, dbi, "b", "1");
	put(txn, dbi, "f", "1");
	for (const char *value = "1\0002\0003\0"; *value && (kind || *value == '1'); value += 2)
		put(txn, dbi, "d", value);
	OK(mdb_count_all(txn, dbi, both, &count));
	HOLDS(count == values);
	/* Bounds: open, not there, empty, without an address. */
	OK(mdb_range_count_keys(txn, dbi, NULL, NULL, 0, &count));
	HOLDS(count == 3);
	OK(mdb_range_count_keys(txn, dbi, &c, &z, 0, &count));
	HOLDS(count == 2);
	OK(mdb_range_count_keys(txn, dbi, &z, &b, both, &count));
	HOLDS(count == 0);
	OK(mdb_range_count_keys(txn, dbi, &d, &d, MDB_COUNT_UPPER_INCL, &count));
	HOLDS(count == 0);
	OK(mdb_range_count_keys(txn, dbi, &d, &d, both, &count));
	HOLDS(count == 1);
	GIVES(MDB_BAD_VALSIZE, mdb_range_count_keys(txn, dbi, &none, NULL, 0, &count));
	GIVES(MDB_BAD_VALSIZE, mdb_range_count_keys(txn, dbi, NULL, &nowhere, 0, &count));
	GIVES(EINVAL, mdb_range_count_keys(txn, dbi, NULL, NULL, 0x10, &count));
	GIVES(ranges, mdb_count_range(txn, dbi, &c, &z, 0, &count));
	HOLDS(kind || count == 2);
	GIVES(ranges, mdb_count_range(txn, dbi, NULL, NULL, 0, &count));
	HOLDS(kind || count == 3);
	GIVES(pairs, mdb_range_count_values(txn, dbi, NULL, NULL, 0, &count));
	HOLDS(!kind || count == 5);
	GIVES(pairs, mdb_range_count_values(txn, dbi, &d, &d, both, &count));
	HOLDS(!kind || count == 3);
	GIVES(pairs, mdb_range_count_values(txn, dbi, &c, &c, both, &count));
	HOLDS(!kind || count == 0);
	if (kind)
		GIVES(MDB_BAD_VALSIZE, mdb_range_count_values(txn, dbi, &none, NULL, 0, &count));
	/* Ranks: of a key, with a value of it or another one, of keys that are none. */
	OK(mdb_get_key_rank(txn, dbi, &d, NULL, &count));
	HOLDS(count == 1);
	GIVES(MDB_NOTFOUND, mdb_get_key_rank(txn, dbi, &c, NULL, &count));
	GIVES(MDB_NOTFOUND, mdb_get_key_rank(txn, dbi, &c, &two, &count));
	GIVES(MDB_BAD_VALSIZE, mdb_get_key_rank(txn, dbi, &none, NULL, &count));
	GIVES(MDB_BAD_VALSIZE, mdb_get_key_rank(txn, dbi, &nowhere, NULL, &count));
	OK(mdb_get_key_rank(txn, dbi, &d, &two, &count));
	HOLDS(count == (kind ? 2 : 1));
	/* A database without duplicates looks at no value, be it another one. */
	GIVES(kind ? MDB_NOTFOUND : 0, mdb_get_key_rank(txn, dbi, &d, &four, &count));
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(kind ? MDB_NOTFOUND : 0, mdb_cursor_key_rank(cursor, &d, &four, 0, &count));
	GIVES(MDB_NOTFOUND, mdb_cursor_key_rank(cursor, &c, NULL, 0, &count));
	GIVES(MDB_BAD_VALSIZE, mdb_cursor_key_rank(cursor, &none, NULL, 0, &count));
	OK(mdb_get_rank(txn, dbi, values - 1, NULL, NULL));
	GIVES(MDB_NOTFOUND, mdb_get_rank(txn, dbi, values, NULL, NULL));
	/* A place that is no place yet; then one, which a rank that is none does not move. */
	GIVES(kind ? EINVAL : MDB_INCOMPATIBLE, mdb_cursor_list_dup(cursor, &list, &length));
	OK(mdb_cursor_get(cursor, &d, &data, MDB_SET));
	GIVES(MDB_NOTFOUND, mdb_cursor_key_rank(cursor, &z, NULL, 0, &count));
	OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
	HOLDS(same(&key, &d));
	GIVES(kind ? 0 : MDB_INCOMPATIBLE, mdb_cursor_list_dup(cursor, &list, &length));
	HOLDS(!kind || (length == of_d && same(&list[1], &two)));
	GIVES(EINVAL, mdb_cursor_list_dup(cursor, NULL, &length));
	GIVES(EINVAL, mdb_cursor_list_dup(cursor, &list, NULL));
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

int main(void)
{
	static const struct { const char *name; unsigned flags; } kinds[] = {
		{ "plain", 0 }, { "reverse", MDB_REVERSEKEY }, { "numbers", MDB_INTEGERKEY },
		{ "counted", MDB_COUNTED | MDB_PREFIX_COMPRESSION }, { "dups", MDB_DUPSORT },
		{ "backwards", MDB_DUPSORT | MDB_REVERSEKEY | MDB_REVERSEDUP },
		{ "fixed", MDB_DUPSORT | MDB_DUPFIXED },
		{ "integers", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERKEY | MDB_INTEGERDUP },
		{ "all", MDB_COUNTED | MDB_PREFIX_COMPRESSION | MDB_DUPSORT | MDB_DUPFIXED },
	};
	for (size_t i = 0; i < LENGTH(kinds); i++)
		one_kind(kinds[i].name, kinds[i].flags, 1000 + i);
	main_with_names();
	ranks_after_writes();
	long_lists();
	interruption();
	refusals();
	what_is_not_there(0);
	what_is_not_there(MDB_DUPSORT);
	forget();
	free(rows);
	puts("counts hold");
	return 0;
}
