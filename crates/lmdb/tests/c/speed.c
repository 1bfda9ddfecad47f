/* Times two libraries with LMDB's interface in one run, in turns, and checks every answer.
 *
 *     speed ORIGINAL.so OTHER.so FOLDER [ENTRIES KEY_BYTES VALUE_BYTES [ROUNDS]]
 *     speed --once LIBRARY.so FOLDER WORK ENTRIES KEY_BYTES VALUE_BYTES
 *     speed --first LIBRARY.so FOLDER WORK ENTRIES KEY_BYTES VALUE_BYTES
 *
 * The first form prints a line of JSON a workload: the best of its rounds on each side in
 * nanoseconds a call, and how much faster the other is. The second does one workload once, its calls
 * inside of the function `measured`, for a tool that counts instructions. The third does a workload
 * on the store that is there, as the first thing of its process, and prints nanoseconds of processor
 * time a call, and the most KiB of private memory that were gained by the end of a transaction. */
#include "side.h"

#include <pthread.h>

#define KEY_MAX 64
#define VALUE_MAX 4096

static size_t entries = 1000000, key_bytes = 24, value_bytes = 150;

/* ---- data ---- */

/* Digits in front of which zeros stand, so that they sort as their number. */
static MDB_val key_of(uint64_t number, char *buffer)
{
	memset(buffer, '0', key_bytes);
	for (size_t at = key_bytes; number && at; number /= 10)
		buffer[--at] = (char)('0' + number % 10);
	return (MDB_val){ key_bytes, buffer };
}

static MDB_val value_of(uint64_t number, char *buffer)
{
	memset(buffer, 'a' + (int)(number % 26), value_bytes);
	memcpy(buffer, &number, value_bytes < 8 ? value_bytes : 8);
	return (MDB_val){ value_bytes, buffer };
}

/* The number that a value was made of. */
static uint64_t number_of(const MDB_val *value)
{
	uint64_t number = 0;
	if (value->mv_size != value_bytes)
		return UINT64_MAX;
	memcpy(&number, value->mv_data, value_bytes < 8 ? value_bytes : 8);
	return number;
}

/* The i-th of all numbers below `entries` in an order without pattern: a walk through a power of two
 * by a full-period generator, leaving out what is too large. */
struct shuffle { uint64_t state, mask; };

static struct shuffle shuffle(void)
{
	struct shuffle order = { 12345, 1 };
	while (order.mask < entries)
		order.mask = order.mask * 2 + 1;
	return order;
}

static uint64_t next_of(struct shuffle *order)
{
	uint64_t out;
	do {
		order->state = (order->state * 6364136223846793005u + 1442695040888963407u) & order->mask;
		/* The low bits of such a generator are poor; these are all of its bits, turned over. */
		out = order->state ^ (order->state >> 7 & order->mask >> 7);
	} while (out >= entries);
	return out;
}

/* ---- environments ---- */

static void must_hold_all(struct side *side)
{
	MDB_stat stat;
	begin(side, MDB_RDONLY);
	MUST(side, side->stat(side->txn, side->dbi, &stat));
	must_be(side, "number of entries", stat.ms_entries, entries);
	side->txn_abort(side->txn);
}

/* ---- workloads: each makes so many calls and gives their number ---- */

#define GETS 1000000
#define HOT 100
#define RANGES 20000
#define RANGE 100
#define DURABLE_PUTS 300
#define UNSYNCED_PUTS 20000

static size_t put_all(struct side *side, int is_shuffled, unsigned flags)
{
	char key_buffer[KEY_MAX], value_buffer[VALUE_MAX];
	struct shuffle order = shuffle();
	for (uint64_t i = 0; i < entries; i++) {
		uint64_t number = is_shuffled ? next_of(&order) : i;
		MDB_val key = key_of(number, key_buffer), value = value_of(number, value_buffer);
		MUST(side, side->put(side->txn, side->dbi, &key, &value, flags));
	}
	return entries;
}

static size_t append_load(struct side *side)
{
	begin(side, 0);
	size_t calls = put_all(side, 0, MDB_APPEND);
	commit(side);
	return calls;
}

static size_t random_load(struct side *side)
{
	begin(side, 0);
	size_t calls = put_all(side, 1, 0);
	commit(side);
	return calls;
}

/* Gets in random order, in one transaction or each in one of its own. */
static inline size_t gets(struct side *side, size_t calls, int by_itself)
{
	char buffer[KEY_MAX];
	MDB_val value;
	struct shuffle order = shuffle();
	if (!by_itself)
		begin(side, MDB_RDONLY);
	for (size_t i = 0; i < calls; i++) {
		uint64_t number = next_of(&order);
		MDB_val key = key_of(number, buffer);
		if (by_itself)
			begin(side, MDB_RDONLY);
		MUST(side, side->get(side->txn, side->dbi, &key, &value));
		must_be(side, "a value", number_of(&value), number);
		if (by_itself)
			side->txn_abort(side->txn);
	}
	if (!by_itself)
		end(side);
	return calls;
}

static size_t random_get(struct side *side)
{
	return gets(side, entries < GETS ? entries : GETS, 0);
}

static size_t short_reads(struct side *side)
{
	return gets(side, GETS, 1);
}

static void *short_reads_of_one(void *side)
{
	short_reads(side);
	return NULL;
}

/* The same by threads that do not wait for each other; the time is that of a call of one of them. */
static size_t short_reads_of_two(struct side *side)
{
	struct side sides[2] = { *side, *side };
	pthread_t threads[2];
	for (size_t i = 0; i < LENGTH(threads); i++)
		if (pthread_create(&threads[i], NULL, short_reads_of_one, &sides[i]))
			fail(side->name, "a thread", -1);
	for (size_t i = 0; i < LENGTH(threads); i++)
		pthread_join(threads[i], NULL);
	return GETS;
}

/* In a transaction that is begun anew for each key, some keys that are asked for again and again. */
static size_t hot_reads(struct side *side)
{
	char buffer[KEY_MAX];
	MDB_val value;
	begin(side, MDB_RDONLY);
	for (size_t i = 0; i < GETS; i++) {
		MDB_val key = key_of(i % HOT, buffer);
		side->txn_reset(side->txn);
		MUST(side, side->txn_renew(side->txn));
		MUST(side, side->get(side->txn, side->dbi, &key, &value));
		must_be(side, "a value", number_of(&value), i % HOT);
	}
	side->txn_abort(side->txn);
	return GETS;
}

static size_t full_scan(struct side *side)
{
	MDB_cursor *cursor;
	MDB_val key, value;
	uint64_t seen = 0, sum = 0;
	begin(side, MDB_RDONLY);
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	while (!side->cursor_get(cursor, &key, &value, MDB_NEXT)) {
		seen++;
		sum += number_of(&value) + key.mv_size;
	}
	must_be(side, "number of entries seen", seen, entries);
	must_be(side, "sum of all", sum, entries * (entries - 1) / 2 + entries * key_bytes);
	side->cursor_close(cursor);
	end(side);
	return entries;
}

static size_t range_of_100(struct side *side)
{
	char buffer[KEY_MAX];
	MDB_cursor *cursor;
	MDB_val value;
	struct shuffle order = shuffle();
	begin(side, MDB_RDONLY);
	MUST(side, side->cursor_open(side->txn, side->dbi, &cursor));
	for (size_t i = 0; i < RANGES; i++) {
		uint64_t first = next_of(&order) % (entries - RANGE), sum = 0;
		MDB_val key = key_of(first, buffer);
		MUST(side, side->cursor_get(cursor, &key, &value, MDB_SET_RANGE));
		for (size_t at = 1;; at++) {
			sum += number_of(&value);
			if (at == RANGE)
				break;
			MUST(side, side->cursor_get(cursor, &key, &value, MDB_NEXT));
		}
		must_be(side, "sum of a range", sum, RANGE * first + RANGE * (RANGE - 1) / 2);
	}
	side->cursor_close(cursor);
	end(side);
	return RANGES;
}

/* Transactions of so many puts each, over keys in an order without pattern. */
static size_t small_transactions(struct side *side, size_t count, size_t puts)
{
	char key_buffer[KEY_MAX], value_buffer[VALUE_MAX];
	struct shuffle order = shuffle();
	for (size_t i = 0; i < count; i++) {
		begin(side, 0);
		for (size_t at = 0; at < puts; at++) {
			uint64_t number = next_of(&order);
			MDB_val key = key_of(number, key_buffer), value = value_of(number, value_buffer);
			MUST(side, side->put(side->txn, side->dbi, &key, &value, 0));
		}
		commit(side);
	}
	return count;
}

static size_t durable_puts(struct side *side)
{
	return small_transactions(side, DURABLE_PUTS, 1);
}

static size_t durable_puts_of_100(struct side *side)
{
	return small_transactions(side, DURABLE_PUTS, 100);
}

static size_t unsynced_puts(struct side *side)
{
	return small_transactions(side, UNSYNCED_PUTS, 1);
}

/* What a workload works on. */
enum ground { NEW, FILLED, FILLED_NOSYNC };

static const struct workload {
	const char *name;
	size_t (*work)(struct side *);
	enum ground ground;
} workloads[] = {
	{ "append load", append_load, NEW },
	{ "random load", random_load, NEW },
	{ "random get", random_get, FILLED },
	{ "get by itself", short_reads, FILLED },
	{ "the same, twice", short_reads_of_two, FILLED },
	{ "renew, hot get", hot_reads, FILLED },
	{ "full scan", full_scan, FILLED },
	{ "range of 100", range_of_100, FILLED },
	{ "one-put durable", durable_puts, FILLED },
	{ "100-put durable", durable_puts_of_100, FILLED },
	{ "one-put nosync", unsynced_puts, FILLED_NOSYNC },
};

/* Makes the ground for a workload; what stands is used again. */
static void prepare(struct side *side, enum ground ground, enum ground *stands)
{
	if (ground != NEW && ground == *stands)
		return;
	if (side->env)
		side->env_close(side->env);
	open_new(side, ground == FILLED_NOSYNC ? MDB_NOSYNC : 0, MAP);
	if (ground != NEW)
		random_load(side);
	*stands = ground;
}

/* ---- times ---- */

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print(const char *name, const char *unit, double original, double other)
{
	printf("{\"work\": \"%s\", \"entries\": %zu, \"key\": %zu, \"value\": %zu, \"unit\": \"%s\", "
		"\"original\": %.1f, \"other\": %.1f, \"ratio\": %.3f}\n", name, entries, key_bytes,
		value_bytes, unit, original, other, original / other);
	fflush(stdout);
}

static void compare(struct side sides[2], const struct workload *workload, int rounds,
	enum ground stands[2])
{
	double best[2] = { 1e30, 1e30 };
	for (int round = 0; round < rounds; round++)
		for (int turn = 0; turn < 2; turn++) {
			int i = (turn + round) % 2;
			prepare(&sides[i], workload->ground, &stands[i]);
			double start = seconds();
			size_t calls = measured(&sides[i], workload->work);
			double each = (seconds() - start) / (double)calls * 1e9;
			best[i] = each < best[i] ? each : best[i];
			must_hold_all(&sides[i]);
		}
	print(workload->name, "ns", best[0], best[1]);
	if (workload->ground == NEW)
		print(workload->work == append_load ? "size appended" : "size random", "bytes",
			(double)length_of_file(&sides[0]), (double)length_of_file(&sides[1]));
}

static void once(struct side *side, const struct workload *workload)
{
	enum ground stands = NEW;
	prepare(side, workload->ground, &stands);
	printf("%zu\n", measured(side, workload->work));
}

static void first(struct side *side, const struct workload *workload)
{
	if (workload->ground == NEW)
		open_new(side, MDB_NOSYNC, MAP);
	else
		open_env(side, MDB_NOSYNC, MAP);
	side->is_watched = 1;
	long before = private_kib();
	double begun = processor_time();
	size_t calls = measured(side, workload->work);
	double each = (processor_time() - begun) / (double)calls;
	watch(side);
	printf("%.1f %ld\n", each, side->most_kib - before);
}

/* One workload on one library, in a process of its own. */
static int alone(char **arguments, void (*work)(struct side *, const struct workload *))
{
	static struct side side;
	load(&side, arguments[0]);
	side.name = arguments[0];
	snprintf(side.folder, sizeof side.folder, "%s", arguments[1]);
	for (size_t i = 0; i < LENGTH(workloads); i++)
		if (!strcmp(workloads[i].name, arguments[2])) {
			work(&side, &workloads[i]);
			must_hold_all(&side);
			side.env_close(side.env);
			return 0;
		}
	fprintf(stderr, "no workload \"%s\"\n", arguments[2]);
	return 2;
}

static void read_shape(int count, char **arguments)
{
	if (count > 0)
		entries = strtoull(arguments[0], NULL, 10);
	if (count > 1)
		key_bytes = strtoull(arguments[1], NULL, 10);
	if (count > 2)
		value_bytes = strtoull(arguments[2], NULL, 10);
	if (entries <= 2 * RANGE || key_bytes < 8 || key_bytes > KEY_MAX || value_bytes < 8
		|| value_bytes > VALUE_MAX) {
		fprintf(stderr, "more than %d entries, keys of 8..%d bytes, values of 8..%d\n",
			2 * RANGE, KEY_MAX, VALUE_MAX);
		exit(2);
	}
}

int main(int count, char **arguments)
{
	static struct side sides[2] = { { .name = "original" }, { .name = "other" } };
	enum ground stands[2] = { NEW, NEW };
	int is_once = count >= 5 && !strcmp(arguments[1], "--once");
	if (is_once || (count >= 5 && !strcmp(arguments[1], "--first"))) {
		read_shape(count - 5, arguments + 5);
		return alone(arguments + 2, is_once ? once : first);
	}
	if (count < 4) {
		fprintf(stderr, "usage: %s ORIGINAL.so OTHER.so FOLDER [ENTRIES KEY VALUE [ROUNDS]]\n",
			arguments[0]);
		return 2;
	}
	read_shape(count - 4, arguments + 4);
	int rounds = count > 7 ? atoi(arguments[7]) : 3;
	for (int i = 0; i < 2; i++) {
		load(&sides[i], arguments[1 + i]);
		snprintf(sides[i].folder, sizeof sides[i].folder, "%s/%s", arguments[3], sides[i].name);
	}
	mkdir(arguments[3], 0755);
	for (size_t i = 0; i < LENGTH(workloads); i++)
		compare(sides, &workloads[i], rounds, stands);
	for (int i = 0; i < 2; i++)
		sides[i].env_close(sides[i].env);
	return 0;
}
