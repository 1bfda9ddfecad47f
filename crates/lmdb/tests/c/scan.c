/* Reads all of a database with a library that has LMDB's interface, in a process of its own: how
 * long the first pass takes, over a file that is in memory, how long later ones do, and how much
 * private memory they leave the process with. Every pass is checked. The same for loading one.
 *
 *     scan LIBRARY.so FOLDER KIND ENTRIES --prepare
 *     scan LIBRARY.so FOLDER KIND ENTRIES WORK
 *
 * Kinds: plain, compressed (MDB_PREFIX_COMPRESSION, where the library has it), duplicates. Works:
 * forwards, backwards, gets, writing (forwards, in a write transaction), load (a new store, in an
 * order without pattern, one transaction). The second form prints nanoseconds of processor time an
 * entry of the first pass and of the best of those that follow, 0 if there are none, and KiB. */
#include "side.h"

/* Values of a key that has several. */
#define VALUES 20
#define LATER 3
#define GETS 1000000

static uint64_t entries;
static int has_values;

struct key { char digits[20]; };
struct value { uint64_t word[2]; };

static struct key key_of(uint64_t number)
{
	struct key key;
	for (size_t at = sizeof key.digits; at--; number /= 10)
		key.digits[at] = (char)('0' + number % 10);
	return key;
}

/* The values of a key ascend as their numbers do. */
static struct value value_of(uint64_t number)
{
	return (struct value){ { __builtin_bswap64(number), number * 0x9e3779b97f4a7c15u } };
}

static uint64_t number_of(const struct side *side, const MDB_val *data)
{
	struct value value;
	must_be(side, "length of a value", data->mv_size, sizeof value);
	memcpy(&value, data->mv_data, sizeof value);
	return __builtin_bswap64(value.word[0]);
}

#define VAL(object) (&(MDB_val){ sizeof (object), &(object) })

static void begin_kind(struct side *side, const char *kind, unsigned txn)
{
	unsigned flags = has_values ? MDB_DUPSORT : 0;
	if (!strcmp(kind, "compressed"))
		flags |= MDB_PREFIX_COMPRESSION;
	begin_as(side, txn, flags);
}

static void prepare(struct side *side, const char *kind)
{
	MDB_cursor *cursor;
	open_new(side, MDB_NOSYNC, MAP);
	begin_kind(side, kind, 0);
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (uint64_t i = 0; i < entries; i++) {
		struct key key = key_of(has_values ? i / VALUES : i);
		struct value value = value_of(i);
		unsigned flags = has_values ? MDB_APPENDDUP : MDB_APPEND;
		MUST(side, side->cursor_put(cursor, VAL(key), VAL(value), flags));
	}
	side->cursor_close(cursor);
	MUST(side, side->txn_commit(side->txn));
	side->env_close(side->env);
}

/* From the end by its name: LMDB gives some of the last key's values twice to who comes from nowhere. */
static void walk(struct side *side, MDB_cursor_op first, MDB_cursor_op next)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	uint64_t seen = 0, sum = 0, sizes = 0, keys = 0;
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (MDB_cursor_op op = first; !side->cursor_get(cursor, &key, &data, op); op = next) {
		struct value value;
		memcpy(&value, data.mv_data, sizeof value);
		seen++;
		sum += __builtin_bswap64(value.word[0]);
		sizes += key.mv_size + data.mv_size;
		keys += (uint64_t)((const char *)key.mv_data)[key.mv_size - 1];
	}
	side->cursor_close(cursor);
	must_be(side, "bytes", sizes, seen * (sizeof(struct key) + sizeof(struct value)));
	must_be(side, "number of entries", seen, entries);
	must_be(side, "sum of the values", sum, entries * (entries - 1) / 2);
	must_be(side, "sum of the keys' last digits", keys > '0' * seen && keys < '9' * seen, 1);
}

static void gets(struct side *side)
{
	uint64_t state = 12345;
	for (int i = 0; i < GETS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t number = (state >> 11) % entries;
		struct key key = key_of(has_values ? number / VALUES : number);
		MDB_val data;
		MUST(side, side->get(side->txn, side->dbi, VAL(key), &data));
		uint64_t first = has_values ? number / VALUES * VALUES : number;
		must_be(side, "a value", number_of(side, &data), first);
	}
}

static double pass(struct side *side, const char *work)
{
	double begun = processor_time();
	if (!strcmp(work, "gets"))
		gets(side);
	else if (!strcmp(work, "backwards"))
		walk(side, MDB_LAST, MDB_PREV);
	else
		walk(side, MDB_FIRST, MDB_NEXT);
	return (processor_time() - begun) / (double)(strcmp(work, "gets") ? entries : GETS);
}

static void measure(struct side *side, const char *kind, const char *work)
{
	int writes = !strcmp(work, "writing");
	unsigned flags = writes ? 0 : MDB_RDONLY;
	double first = 0, later = 0;
	long gained = 0;
	open_env(side, writes ? MDB_NOSYNC : MDB_RDONLY, MAP);
	for (int i = 0; i <= LATER; i++) {
		begin_kind(side, kind, flags);
		long before = private_kib();
		double took = pass(side, work);
		long more = private_kib() - before;
		gained = more > gained ? more : gained;
		side->txn_abort(side->txn);
		if (i == 0)
			first = took;
		else
			later = later && later < took ? later : took;
	}
	side->env_close(side->env);
	printf("%.2f %.2f %ld\n", first, later, gained);
}

/* Each entry once: the prime is larger than their number. */
static void load_all(struct side *side, const char *kind)
{
	const uint64_t prime = 2654435761u;
	open_new(side, MDB_NOSYNC, MAP);
	begin_kind(side, kind, 0);
	long before = private_kib();
	double begun = processor_time();
	side->is_watched = 1;
	for (uint64_t i = 0; i < entries; i++) {
		uint64_t number = i * prime % entries;
		struct key key = key_of(has_values ? number / VALUES : number);
		struct value value = value_of(number);
		MUST(side, side->put(side->txn, side->dbi, VAL(key), VAL(value), 0));
	}
	commit(side);
	watch(side);
	double each = (processor_time() - begun) / (double)entries;
	begin_kind(side, kind, MDB_RDONLY);
	walk(side, MDB_FIRST, MDB_NEXT);
	side->txn_abort(side->txn);
	side->env_close(side->env);
	printf("%.2f 0 %ld\n", each, side->most_kib - before);
}

int main(int count, char **arguments)
{
	static struct side side;
	if (count != 6) {
		fprintf(stderr, "usage: %s LIBRARY.so FOLDER KIND ENTRIES WORK|--prepare\n", arguments[0]);
		return 2;
	}
	const char *library = arguments[1], *kind = arguments[3];
	load(&side, library);
	side.name = library;
	snprintf(side.folder, sizeof side.folder, "%s", arguments[2]);
	has_values = !strcmp(kind, "duplicates");
	entries = strtoull(arguments[4], NULL, 10);
	if (entries < 100 || entries > 2000000000) {
		fprintf(stderr, "100 entries to 2,000,000,000\n");
		return 2;
	}
	if (!strcmp(arguments[5], "--prepare"))
		prepare(&side, kind);
	else if (!strcmp(arguments[5], "load"))
		load_all(&side, kind);
	else
		measure(&side, kind, arguments[5]);
	return 0;
}
