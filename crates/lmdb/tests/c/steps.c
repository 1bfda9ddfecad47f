/* Does one kind of call many times on a library with LMDB's interface, for a tool that counts the
 * instructions inside of the function `measured`; checks every answer.
 *
 *     steps LIBRARY.so FOLDER WORK --prepare
 *     steps LIBRARY.so FOLDER WORK
 *     steps --list
 *
 * The first makes a store in a folder, the second works on it and prints how many calls were
 * measured, the third what there is, each with how much of the original's cost ours may have. What does not add
 * entries has run once before, so that every page is in memory and has been looked at. */
#include "side.h"

/* Entries of the plain table; keys of the others, and values of each. */
#define ENTRIES 20000
#define KEYS 1000
#define VALUES 20
#define FIXED_KEYS 20
#define FIXED_VALUES 2000

/* ---- data ---- */

/* Sixteen bytes in no order: all bits of a number, scrambled one to one. */
struct item { uint64_t word[2]; };

static uint64_t mixed(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static struct item item_of(uint64_t number)
{
	return (struct item){ { mixed(number + 1), mixed(~number) } };
}

/* Items that ascend with their numbers. */
static struct item rising(uint64_t number)
{
	return (struct item){ { __builtin_bswap64(number << 40 | mixed(number + 1) >> 24), mixed(number) } };
}

#define VAL(object) (&(MDB_val){ sizeof (object), &(object) })

static uint64_t value[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static void put(struct side *side, MDB_val *key, MDB_val *data)
{
	MUST(side, side->put(side->txn, side->dbi, key, data, 0));
}

static void fill_plain(struct side *side)
{
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = item_of(i);
		put(side, VAL(key), VAL(value));
	}
}

/* Keys that begin alike where they are neighbours. */
static void fill_shared(struct side *side)
{
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = rising(i);
		put(side, VAL(key), VAL(value));
	}
}

static void fill_values(struct side *side)
{
	for (uint64_t v = 0; v < VALUES; v++)
		for (uint64_t i = 0; i < KEYS; i++) {
			struct item key = item_of(i), data = item_of(v << 32 | i);
			put(side, VAL(key), VAL(data));
		}
}

static void fill_fixed(struct side *side)
{
	for (uint64_t i = 0; i < FIXED_KEYS; i++)
		for (uint64_t v = 0; v < FIXED_VALUES; v++) {
			struct item key = item_of(i);
			put(side, VAL(key), VAL(v));
		}
}

/* ---- work: each gives the number of its calls ---- */

static size_t steps(struct side *side, MDB_cursor_op op, size_t expected)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	size_t seen = 0;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	while (!side->cursor_get(cursor, &key, &data, op))
		seen += key.mv_size == sizeof(struct item) && data.mv_size;
	must_be(side, "number of entries seen", seen, expected);
	side->cursor_close(cursor);
	return seen;
}

static size_t next(struct side *side)
{
	return steps(side, MDB_NEXT, ENTRIES);
}

static size_t prev(struct side *side)
{
	return steps(side, MDB_PREV, ENTRIES);
}

static size_t next_of_values(struct side *side)
{
	return steps(side, MDB_NEXT, KEYS * VALUES);
}

static size_t prev_of_values(struct side *side)
{
	return steps(side, MDB_PREV, KEYS * VALUES);
}

static size_t next_of_integers(struct side *side)
{
	return steps(side, MDB_NEXT, FIXED_KEYS * FIXED_VALUES);
}

static size_t next_nodup(struct side *side)
{
	return steps(side, MDB_NEXT_NODUP, KEYS);
}

static size_t prev_nodup(struct side *side)
{
	return steps(side, MDB_PREV_NODUP, KEYS);
}

/* A search for each key and so many steps from there. */
static size_t from_each(struct side *side, size_t keys, MDB_cursor_op search, MDB_cursor_op op,
	size_t count)
{
	MDB_cursor *cursor;
	size_t calls = 0;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < keys; i++) {
		struct item item = item_of(i);
		MDB_val key = *VAL(item), data;
		MUST(side, side->cursor_get(cursor, &key, &data, search));
		calls++;
		for (size_t step = 0; step < count; step++, calls++)
			if (side->cursor_get(cursor, &key, &data, op))
				break;
	}
	side->cursor_close(cursor);
	return calls;
}

static size_t set(struct side *side)
{
	return from_each(side, ENTRIES, MDB_SET, MDB_NEXT, 0);
}

static size_t set_key(struct side *side)
{
	return from_each(side, ENTRIES, MDB_SET_KEY, MDB_NEXT, 0);
}

static size_t set_range(struct side *side)
{
	return from_each(side, ENTRIES, MDB_SET_RANGE, MDB_NEXT, 0);
}

static size_t range_of_10(struct side *side)
{
	return from_each(side, ENTRIES, MDB_SET_RANGE, MDB_NEXT, 10);
}

static size_t range_of_10_back(struct side *side)
{
	return from_each(side, ENTRIES, MDB_SET_RANGE, MDB_PREV, 10);
}

static size_t values_of_each(struct side *side)
{
	return from_each(side, KEYS, MDB_SET, MDB_NEXT_DUP, VALUES);
}

static size_t values_of_each_back(struct side *side)
{
	size_t calls = 0;
	MDB_cursor *cursor;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < KEYS; i++) {
		struct item item = item_of(i);
		MDB_val key = *VAL(item), data;
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_SET));
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_LAST_DUP));
		for (calls += 3; !side->cursor_get(cursor, &key, &data, MDB_PREV_DUP);)
			calls++;
	}
	side->cursor_close(cursor);
	return calls;
}

static size_t get_both(struct side *side)
{
	MDB_cursor *cursor;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < KEYS * VALUES; i++) {
		struct item item = item_of(i % KEYS), one = item_of(i / KEYS << 32 | i % KEYS);
		MDB_val key = *VAL(item), data = *VAL(one);
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_GET_BOTH));
	}
	side->cursor_close(cursor);
	return KEYS * VALUES;
}

static size_t current(struct side *side)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	MUST(side, side->cursor_get(cursor, &key, &data, MDB_FIRST));
	for (size_t i = 0; i < ENTRIES; i++)
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
	side->cursor_close(cursor);
	return ENTRIES;
}

static size_t first_and_last(struct side *side)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (size_t i = 0; i < ENTRIES; i++)
		MUST(side, side->cursor_get(cursor, &key, &data, i % 2 ? MDB_FIRST : MDB_LAST));
	side->cursor_close(cursor);
	return ENTRIES;
}

/* Every block of values, a value being a call. */
static size_t blocks(struct side *side)
{
	MDB_cursor *cursor;
	size_t seen = 0;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < FIXED_KEYS; i++) {
		struct item item = item_of(i);
		MDB_val key = *VAL(item), data;
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_SET));
		MUST(side, side->cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE));
		do
			seen += data.mv_size / sizeof(uint64_t);
		while (!side->cursor_get(cursor, &key, &data, MDB_NEXT_MULTIPLE));
	}
	must_be(side, "number of values seen", seen, FIXED_KEYS * FIXED_VALUES);
	side->cursor_close(cursor);
	return seen;
}

/* Gets of all entries; before each, what `anew` says. */
enum anew { GO_ON, BEGIN, RENEW };

static inline size_t gets(struct side *side, enum anew anew)
{
	MDB_val data;
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = item_of(i);
		if (anew == BEGIN) {
			side->txn_abort(side->txn);
			MUST(side, side->txn_begin(side->env, NULL, MDB_RDONLY, &side->txn));
		} else if (anew == RENEW) {
			side->txn_reset(side->txn);
			MUST(side, side->txn_renew(side->txn));
		}
		MUST(side, side->get(side->txn, side->dbi, VAL(key), &data));
	}
	return ENTRIES;
}

static size_t get(struct side *side)
{
	return gets(side, GO_ON);
}

static size_t begin_get(struct side *side)
{
	return gets(side, BEGIN);
}

static size_t renew_get(struct side *side)
{
	return gets(side, RENEW);
}

static size_t put_new(struct side *side)
{
	for (uint64_t i = ENTRIES; i < 2 * ENTRIES; i++) {
		struct item key = item_of(i);
		put(side, VAL(key), VAL(value));
	}
	return ENTRIES;
}

static size_t put_same(struct side *side)
{
	fill_plain(side);
	return ENTRIES;
}

static size_t append(struct side *side)
{
	MDB_cursor *cursor;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = rising(i);
		MUST(side, side->cursor_put(cursor, VAL(key), VAL(value), MDB_APPEND));
	}
	return ENTRIES;
}

static size_t append_values(struct side *side)
{
	MDB_cursor *cursor;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = rising(i / VALUES), data = rising(i);
		MUST(side, side->cursor_put(cursor, VAL(key), VAL(data), MDB_APPENDDUP));
	}
	return ENTRIES;
}

/* All values of a key in one call, a value being a call. */
static size_t multiple(struct side *side)
{
	static uint64_t values[ENTRIES];
	MDB_cursor *cursor;
	MDB_val key = *VAL(value), several[2] = { { sizeof *values, values }, { ENTRIES, NULL } };
	for (uint64_t i = 0; i < ENTRIES; i++)
		values[i] = i;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	MUST(side, side->cursor_put(cursor, &key, several, MDB_MULTIPLE));
	must_be(side, "number of values put", several[1].mv_size, ENTRIES);
	return ENTRIES;
}

static size_t del(struct side *side)
{
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct item key = item_of(i);
		MUST(side, side->del(side->txn, side->dbi, VAL(key), NULL));
	}
	return ENTRIES;
}

/* Every second value of keys that have many. */
static size_t del_values(struct side *side)
{
	for (uint64_t i = 0; i < FIXED_KEYS; i++)
		for (uint64_t v = 0; v < FIXED_VALUES; v += 2) {
			struct item key = item_of(i);
			MUST(side, side->del(side->txn, side->dbi, VAL(key), VAL(v)));
		}
	return FIXED_KEYS * FIXED_VALUES / 2;
}

/* Deletes where a cursor stands, and goes on from there, from the first entry to the last. */
static size_t delete_along(struct side *side, unsigned flags)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	size_t count = 0;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (; !side->cursor_get(cursor, &key, &data, MDB_NEXT); count++)
		MUST(side, side->cursor_del(cursor, flags));
	return count;
}

static size_t cursor_del(struct side *side)
{
	return delete_along(side, 0);
}

static size_t cursor_del_keys(struct side *side)
{
	return delete_along(side, MDB_NODUPDATA);
}

/* ---- what is measured ---- */

static void nothing(struct side *side)
{
	(void)side;
}

/* What is done, on which table, in a transaction of which kind. */
static const struct work {
	const char *name;
	/* Hundredths of the original's instructions that ours may take. What takes more than the original
	 * copies strings that the store keeps apart, or keeps a place that others may change. */
	unsigned most;
	size_t (*work)(struct side *);
	void (*fill)(struct side *);
	unsigned table, txn;
} works[] = {
	{ "get", 57, get, fill_plain, 0, MDB_RDONLY },
	{ "begin, get, abort", 80, begin_get, fill_plain, 0, MDB_RDONLY },
	{ "reset, renew, get", 92, renew_get, fill_plain, 0, MDB_RDONLY },
	{ "NEXT", 34, next, fill_plain, 0, MDB_RDONLY },
	{ "PREV", 47, prev, fill_plain, 0, MDB_RDONLY },
	{ "NEXT, shared", 57, next, fill_shared, MDB_PREFIX_COMPRESSION, MDB_RDONLY },
	{ "PREV, shared", 72, prev, fill_shared, MDB_PREFIX_COMPRESSION, MDB_RDONLY },
	{ "GET_CURRENT", 104, current, fill_plain, 0, MDB_RDONLY },
	{ "FIRST, LAST", 98, first_and_last, fill_plain, 0, MDB_RDONLY },
	{ "SET", 85, set, fill_plain, 0, MDB_RDONLY },
	{ "SET_KEY", 86, set_key, fill_plain, 0, MDB_RDONLY },
	{ "SET_RANGE", 86, set_range, fill_plain, 0, MDB_RDONLY },
	{ "SET_RANGE, 10 NEXT", 73, range_of_10, fill_plain, 0, MDB_RDONLY },
	{ "SET_RANGE, 10 PREV", 84, range_of_10_back, fill_plain, 0, MDB_RDONLY },
	{ "NEXT, several values", 45, next_of_values, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "PREV, several values", 49, prev_of_values, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "NEXT_NODUP", 99, next_nodup, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "PREV_NODUP", 102, prev_nodup, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "SET, 20 NEXT_DUP", 58, values_of_each, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "SET, LAST_DUP, 20 PREV_DUP", 84, values_of_each_back, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "GET_BOTH", 104, get_both, fill_values, MDB_DUPSORT, MDB_RDONLY },
	{ "NEXT, integers", 37, next_of_integers, fill_fixed, MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP,
		MDB_RDONLY },
	{ "GET_MULTIPLE, a value", 520, blocks, fill_fixed, MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP,
		MDB_RDONLY },
	{ "NEXT, writing", 123, next, fill_plain, 0, 0 },
	{ "PREV, writing", 141, prev, fill_plain, 0, 0 },
	{ "SET, 20 NEXT_DUP, writing", 110, values_of_each, fill_values, MDB_DUPSORT, 0 },
	{ "put", 109, put_new, fill_plain, 0, 0 },
	{ "put, same key", 100, put_same, fill_plain, 0, 0 },
	{ "cursor_put APPEND", 106, append, nothing, 0, 0 },
	{ "cursor_put APPENDDUP", 132, append_values, nothing, MDB_DUPSORT, 0 },
	{ "cursor_put MULTIPLE, a value", 170, multiple, nothing,
		MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 0 },
	{ "del", 90, del, fill_plain, 0, 0 },
	{ "del, one of many values", 90, del_values, fill_fixed, MDB_DUPSORT, 0 },
	{ "del, one of many integers", 190, del_values, fill_fixed,
		MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 0 },
	{ "cursor_del, NEXT", 160, cursor_del, fill_plain, 0, 0 },
	{ "cursor_del, NEXT, values", 320, cursor_del, fill_values, MDB_DUPSORT, 0 },
	{ "cursor_del, NEXT, integers", 310, cursor_del, fill_fixed,
		MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 0 },
	{ "cursor_del NODUPDATA, NEXT", 820, cursor_del_keys, fill_values, MDB_DUPSORT, 0 },
};

static int writes(const struct work *work)
{
	return work->work == put_new || work->work == append || work->work == append_values
		|| work->work == multiple || work->work == del || work->work == del_values || work->work == cursor_del
		|| work->work == cursor_del_keys;
}

/* Makes the store that the work is done on. */
static void prepare(struct side *side, const struct work *work)
{
	open_new(side, MDB_NOSYNC, MAP);
	begin_as(side, 0, work->table);
	work->fill(side);
	MUST(side, side->txn_commit(side->txn));
	side->env_close(side->env);
}

static void run(struct side *side, const struct work *work)
{
	open_env(side, MDB_NOSYNC, MAP);
	begin_as(side, work->txn, work->table);
	if (!writes(work))
		work->work(side);
	printf("%zu\n", measured(side, work->work));
	side->txn_abort(side->txn);
	side->env_close(side->env);
}

int main(int count, char **arguments)
{
	static struct side side;
	if (count == 2 && !strcmp(arguments[1], "--list")) {
		for (size_t i = 0; i < LENGTH(works); i++)
			printf("%u %s\n", works[i].most, works[i].name);
		return 0;
	}
	int is_preparing = count == 5 && !strcmp(arguments[4], "--prepare");
	if (count != 4 && !is_preparing) {
		fprintf(stderr, "usage: %s LIBRARY.so FOLDER WORK [--prepare], or --list\n", arguments[0]);
		return 2;
	}
	load(&side, arguments[1]);
	side.name = arguments[1];
	snprintf(side.folder, sizeof side.folder, "%s", arguments[2]);
	for (size_t i = 0; i < LENGTH(works); i++)
		if (!strcmp(works[i].name, arguments[3])) {
			(is_preparing ? prepare : run)(&side, &works[i]);
			return 0;
		}
	fprintf(stderr, "no work \"%s\"\n", arguments[3]);
	return 2;
}
