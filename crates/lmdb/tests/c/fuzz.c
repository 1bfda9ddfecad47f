/* Drives two libraries with LMDB's interface with the same random calls, and stops at the first that
 * answers differently: another code, another key, other data.
 *
 *     fuzz ORIGINAL.so OTHER.so FOLDER [--seeds A..B | --seconds N [--seeds A..]] [--calls N]
 *         [--wild 0|1]
 *
 * A seed gives the flags of the tables and a list of calls. What a call does depends on the list and
 * on the state that both libraries share, so that a list stays a sensible one when calls are taken
 * out of it: that is how the list is shrunk before it is printed. Each library runs the list in a
 * process of its own and writes down its answers. Where the original dies, as it does now and then
 * when several cursors stand on values of one key, the answers before are compared.
 *
 * Only defined calls are made. In particular a cursor is asked for nothing relative after a search
 * that found nothing, values are not replaced in place by ones that sort elsewhere, sizes are equal
 * where the flags say so, and a cursor is left alone while a child transaction is open. In tables
 * with several values of a key the original itself loses track of cursors while others write: there
 * a write closes all cursors but its own, unless --wild. */
#define _GNU_SOURCE
#include "say.h"

#include <dlfcn.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define TABLES 3
#define CURSORS 4
#define DEPTH_MAX 3
#define CALLS_MAX 4000

/* ---- the libraries ---- */

#define FUNCTIONS(X) \
	X(env_create) X(env_open) X(env_close) X(env_set_mapsize) X(env_set_maxdbs) X(txn_begin) \
	X(txn_commit) X(txn_abort) X(txn_reset) X(txn_renew) X(dbi_open) X(stat) X(drop) \
	X(get) X(put) X(del) X(cursor_open) X(cursor_close) X(cursor_get) X(cursor_put) \
	X(cursor_del) X(cursor_count) X(cursor_renew) X(set_compare) X(set_dupsort) X(cmp) X(dcmp)

struct library {
#define MEMBER(name) __typeof__(&mdb_##name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

/* What a run has open in its library. */
struct side {
	struct library call;
	MDB_env *env;
	MDB_dbi dbi[TABLES];
	MDB_txn *writer[DEPTH_MAX];
	MDB_txn *reader;
	MDB_cursor *cursor[CURSORS];
	MDB_cursor *reading;
	/* What the last call gave. */
	int code;
	MDB_val key, data;
	size_t number;
};

static struct side the_side, *const side = &the_side;

/* The two libraries; the first is the original. */
static struct {
	const char *name, *path;
	char folder[4096];
	/* What the process that runs it writes down, a line an answer. */
	struct journal {
		size_t length;
		char text[(8 << 20) - sizeof(size_t)];
	} *journal;
} sides[2] = { { .name = "original" }, { .name = "other" } };

static struct journal *journal;
static const char *folder;

static void load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
#define FIND(name) \
	if (!(side->call.name = (__typeof__(&mdb_##name))dlsym(handle, "mdb_" #name))) { \
		fprintf(stderr, "%s has no mdb_" #name "\n", path); \
		exit(2); \
	}
	FUNCTIONS(FIND)
#undef FIND
}

/* ---- chance ---- */

static uint64_t chance_state;

static uint32_t chance(void)
{
	chance_state += 0x9e3779b97f4a7c15u;
	uint64_t z = chance_state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static uint32_t below(uint32_t limit)
{
	return chance() % limit;
}

static uint32_t mixed(uint32_t number)
{
	number = (number ^ 61) ^ (number >> 16);
	number *= 9;
	number ^= number >> 4;
	number *= 0x27d4eb2d;
	return number ^ (number >> 15);
}

/* ---- what a seed decides ---- */

struct table {
	unsigned flags;
	/* So many keys, and so many values of a key, are in play. */
	uint32_t keys, values;
	/* Of integers and of fixed values. */
	size_t key_size, value_size;
	/* Long keys and values beside short ones. */
	int has_long;
	int has_order;
};

static struct table tables[TABLES];
/* Either the main table alone, or named ones whose records stand in it. */
static int is_main_only;
static unsigned env_flags;

enum kind {
	PUT, DELETE_KEY, DELETE_VALUE, GET, STAT, DROP, CLEAR, COMPARE, RESERVE, MULTIPLE, WALK,
	CURSOR_OPEN, CURSOR_CLOSE, MOVE, SEEK, CURSOR_PUT, CURSOR_CURRENT, CURSOR_DELETE, COUNT,
	COLLECT, BEGIN, COMMIT, ABORT, READ_BEGIN, READ_END, READ_RESET, READ_GET, READ_MOVE, REOPEN,
	KINDS
};

struct call {
	enum kind kind;
	uint32_t slot, table, key, value, flags;
};

static struct call calls[CALLS_MAX];
static size_t calls_len;
static size_t calls_wanted = 400;

static int is_used(size_t table)
{
	return is_main_only ? table == 0 : table > 0;
}

static void choose_table(struct table *table)
{
	static const unsigned orders[] = { 0, 0, MDB_REVERSEKEY, MDB_INTEGERKEY };
	static const unsigned values[] = {
		0, 0, MDB_DUPSORT, MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED, MDB_DUPSORT | MDB_REVERSEDUP,
		MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, MDB_DUPSORT | MDB_INTEGERDUP,
		MDB_DUPSORT | MDB_DUPFIXED | MDB_REVERSEDUP,
	};
	static const uint32_t counts[] = { 3, 10, 40, 200, 1000 };
	table->flags = orders[below(LENGTH(orders))] | values[below(LENGTH(values))];
	table->keys = counts[below(LENGTH(counts))];
	table->values = counts[below(LENGTH(counts))];
	table->key_size = below(2) ? 4 : 8;
	table->value_size = (size_t[]){ 4, 8, 12, 40 }[below(table->flags & MDB_INTEGERDUP ? 2 : 4)];
	table->has_long = !below(3);
	table->has_order = !below(6) && !(table->flags & (MDB_INTEGERKEY | MDB_INTEGERDUP));
}

/* How often each kind of call is made. */
static const uint8_t weights[KINDS] = {
	[PUT] = 60, [DELETE_KEY] = 10, [DELETE_VALUE] = 10, [GET] = 8, [STAT] = 3, [DROP] = 1,
	[CLEAR] = 1, [COMPARE] = 1, [RESERVE] = 3, [MULTIPLE] = 5, [WALK] = 2, [CURSOR_OPEN] = 6,
	[CURSOR_CLOSE] = 2, [MOVE] = 50, [SEEK] = 25, [CURSOR_PUT] = 15, [CURSOR_CURRENT] = 5,
	[CURSOR_DELETE] = 15, [COUNT] = 4, [COLLECT] = 2, [BEGIN] = 4, [COMMIT] = 4, [ABORT] = 2,
	[READ_BEGIN] = 2, [READ_END] = 1, [READ_RESET] = 1, [READ_GET] = 4, [READ_MOVE] = 8,
	[REOPEN] = 1,
};

static void choose(uint64_t seed)
{
	uint32_t total = 0;
	chance_state = seed * 0x2545f4914f6cdd1du + 1;
	for (size_t i = 0; i < TABLES; i++)
		choose_table(&tables[i]);
	is_main_only = !below(5);
	env_flags = MDB_NOSYNC | MDB_NOTLS | (below(6) ? 0 : MDB_WRITEMAP);
	for (size_t i = 0; i < KINDS; i++)
		total += weights[i];
	for (calls_len = 0; calls_len < calls_wanted; calls_len++) {
		struct call *call = &calls[calls_len];
		uint32_t at = below(total);
		for (call->kind = 0; at >= weights[call->kind]; call->kind++)
			at -= weights[call->kind];
		call->slot = chance();
		call->table = is_main_only ? 0 : 1 + !below(4);
		call->key = chance();
		call->value = chance();
		call->flags = chance();
	}
}

/* ---- keys and values ---- */

/* The bytes of an item by its number; lengths depend on the number alone. */
static MDB_val text_of(uint32_t number, int has_long, char *buffer)
{
	uint32_t hash = mixed(number + 1);
	size_t length = 1 + hash % 12;
	if (has_long && hash % 5 == 0)
		length = 100 + hash % 412;
	size_t written = (size_t)snprintf(buffer, 12, "%x", number);
	for (size_t i = written; i < length; i++)
		buffer[i] = (char)('a' + (hash >> (i % 24)) % 3);
	return (MDB_val){ length > written ? length : written, buffer };
}

static MDB_val key_of(const struct table *table, uint32_t number)
{
	static char rings[4][600];
	static size_t next;
	char *buffer = rings[next++ % LENGTH(rings)];
	number %= table->keys;
	if (!(table->flags & MDB_INTEGERKEY))
		return text_of(number, table->has_long, buffer);
	uint64_t wide = (uint64_t)number * 0x10003;
	memcpy(buffer, &wide, table->key_size);
	return (MDB_val){ table->key_size, buffer };
}

static MDB_val value_of(const struct table *table, uint32_t number)
{
	static char rings[4][20000];
	static size_t next;
	char *buffer = rings[next++ % LENGTH(rings)];
	if (!(table->flags & MDB_DUPSORT)) {
		size_t length = number % 50;
		if (number % 7 == 0)
			length = number % 3000;
		if (number % 97 == 0)
			length = number % 20000;
		memset(buffer, 'a' + (int)(number % 26), length);
		return (MDB_val){ length, buffer };
	}
	number %= table->values;
	if (!(table->flags & (MDB_DUPFIXED | MDB_INTEGERDUP)))
		return text_of(number, table->has_long, buffer);
	uint64_t wide = (uint64_t)number * 0x10003;
	memset(buffer, 'p', table->value_size);
	memcpy(buffer, &wide, table->value_size < 8 ? table->value_size : 8);
	return (MDB_val){ table->value_size, buffer };
}

static int by_length(const MDB_val *a, const MDB_val *b)
{
	if (a->mv_size != b->mv_size)
		return a->mv_size < b->mv_size ? -1 : 1;
	return memcmp(a->mv_data, b->mv_data, a->mv_size);
}

/* ---- the state of a run ---- */

/* What is known of a cursor. */
enum place {
	/* Not open. */
	CLOSED,
	/* Never placed: moves go to one of the ends. */
	FRESH,
	/* On an entry: everything may be asked. */
	SOMEWHERE,
	/* Where an entry was deleted: nothing about its key. */
	DELETED,
	/* A search found nothing: only what names a place may be asked. */
	LOST,
};

static struct {
	size_t depth;
	int is_reading, is_reset;
	enum place reading;
	uint32_t reading_table;
	struct {
		enum place place;
		/* It was moved to the last entry or behind it, or an entry was deleted; the original remembers
		 * too long that it was at the end. */
		int is_at_end;
		uint32_t table;
		size_t depth;
	} cursor[CURSORS];
	/* The handle was made in this transaction, and goes with it if it fails. */
	int is_new[TABLES], is_gone[TABLES];
	int is_loud;
	size_t at;
} world;

static MDB_txn *writer_of(void)
{
	return side->writer[world.depth - 1];
}

static void write_down(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	size_t room = sizeof journal->text - journal->length;
	int length = vsnprintf(journal->text + journal->length, room, format, arguments);
	va_end(arguments);
	if ((size_t)length < room)
		journal->length += (size_t)length;
}

static uint32_t hash_of(uint32_t hash, const MDB_val *value)
{
	for (size_t i = 0; i < value->mv_size; i++)
		hash = (hash ^ ((unsigned char *)value->mv_data)[i]) * 0x01000193;
	return mixed(hash ^ (uint32_t)value->mv_size);
}

static const char *shown(const MDB_val *value)
{
	static char ring[4][80];
	static size_t next;
	char *out = ring[next++ % LENGTH(ring)];
	size_t length = 0;
	for (size_t i = 0; i < value->mv_size && i < 12; i++) {
		unsigned char byte = ((unsigned char *)value->mv_data)[i];
		length += (size_t)snprintf(out + length, 8, isalnum(byte) ? "%c" : "\\%02x", byte);
	}
	if (value->mv_size > 12)
		length += (size_t)snprintf(out + length, 12, "..#%x", hash_of(0, value));
	snprintf(out + length, 12, "(%zu)", value->mv_size);
	return out;
}

enum { CODE = 0, KEY = 1, DATA = 2, COUNTED = 4 };

/* Writes down what the call gave, to be compared; gives the code. */
static int compare(int what, const char *format, ...)
{
	char text[300];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	write_down("%4zu %s -> %s", world.at, text, code_name(side->code));
	if (!side->code && (what & KEY))
		write_down(" key=%s", shown(&side->key));
	if ((what & DATA) && (!side->code || side->code == MDB_KEYEXIST))
		write_down(" data=%s", shown(&side->data));
	if (!side->code && (what & COUNTED))
		write_down(" number=%zu", side->number);
	write_down("\n");
	return side->code;
}

/* Ends a list that cannot go on. */
static void stop(void)
{
	_exit(3);
}

/* ---- environments and transactions ---- */

static const char *const table_names[TABLES] = { NULL, "one", "two" };

static void open_table(size_t i)
{
	side->code = side->call.dbi_open(writer_of(), table_names[i],
		tables[i].flags | (i ? MDB_CREATE : 0), &side->dbi[i]);
	if (compare(CODE, "dbi_open(table %zu, flags 0x%x)", i, tables[i].flags))
		stop();
	if (tables[i].has_order)
		side->call.set_compare(writer_of(), side->dbi[i], by_length);
	if (tables[i].has_order && (tables[i].flags & MDB_DUPSORT)
		&& !(tables[i].flags & MDB_DUPFIXED))
		side->call.set_dupsort(writer_of(), side->dbi[i], by_length);
	world.is_new[i] = 1;
	world.is_gone[i] = 0;
}

static void begin(void)
{
	if (world.depth == DEPTH_MAX || (world.depth && (env_flags & MDB_WRITEMAP)))
		return;
	MDB_txn *parent = world.depth ? writer_of() : NULL;
	side->code = side->call.txn_begin(side->env, parent, 0, &side->writer[world.depth]);
	if (compare(CODE, "txn_begin at depth %zu", world.depth))
		stop();
	world.depth++;
	for (size_t i = 0; i < TABLES; i++)
		if (is_used(i) && world.is_gone[i])
			open_table(i);
}

/* Cursors of a write transaction end with it. */
static void forget_cursors(void)
{
	for (size_t i = 0; i < CURSORS; i++)
		if (world.cursor[i].place != CLOSED && world.cursor[i].depth >= world.depth)
			world.cursor[i].place = CLOSED;
}

static void finish(int is_kept)
{
	if (!world.depth)
		return;
	forget_cursors();
	side->code = 0;
	if (is_kept)
		side->code = side->call.txn_commit(writer_of());
	else
		side->call.txn_abort(writer_of());
	world.depth--;
	compare(CODE, "%s to depth %zu", is_kept ? "txn_commit" : "txn_abort", world.depth);
	for (size_t i = 0; i < TABLES; i++) {
		if (world.is_new[i] && !world.depth && !is_kept)
			world.is_gone[i] = 1;
		if (!world.depth)
			world.is_new[i] = 0;
	}
}

static void end_reading(void)
{
	if (!world.is_reading)
		return;
	if (world.reading != CLOSED)
		side->call.cursor_close(side->reading);
	side->call.txn_abort(side->reader);
	world.is_reading = world.is_reset = 0;
	world.reading = CLOSED;
}

static void open_environments(void)
{
	side->code = side->call.env_create(&side->env);
	if (!side->code)
		side->code = side->call.env_set_mapsize(side->env, (size_t)1 << 28);
	if (!side->code)
		side->code = side->call.env_set_maxdbs(side->env, TABLES);
	if (!side->code)
		side->code = side->call.env_open(side->env, folder, env_flags, 0644);
	if (compare(CODE, "env_open(flags 0x%x)", env_flags))
		stop();
	for (size_t i = 0; i < TABLES; i++)
		world.is_gone[i] = 1;
	begin();
	finish(1);
}

static void close_environments(void)
{
	while (world.depth)
		finish(1);
	end_reading();
	side->call.env_close(side->env);
}

/* ---- calls on tables ---- */

static int is_wild;

/* No cursor of this slot. */
#define NONE CURSORS

/* Before a write: closes the other cursors of a table with several values of a key. In a plain one
 * only those are given up that were moved to the end, which the original does not forget. */
static void alone(uint32_t table, uint32_t slot)
{
	int is_plain = is_wild || !(tables[table].flags & MDB_DUPSORT);
	for (uint32_t i = 0; i < CURSORS; i++) {
		enum place *place = &world.cursor[i].place;
		if (i == slot || *place == CLOSED || world.cursor[i].table != table)
			continue;
		if (is_plain) {
			*place = world.cursor[i].is_at_end ? LOST : *place;
			continue;
		}
		if (world.cursor[i].depth == world.depth)
			side->call.cursor_close(side->cursor[i]);
		*place = world.cursor[i].depth == world.depth ? CLOSED : LOST;
	}
}

/* After an entry was deleted any cursor may take itself to be at the end. */
static void doubt(uint32_t table)
{
	for (uint32_t i = 0; i < CURSORS; i++)
		if (world.cursor[i].place != CLOSED && world.cursor[i].table == table)
			world.cursor[i].is_at_end = 1;
}

static void put(const struct call *call)
{
	static const unsigned choices[] = {
		0, 0, 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_APPEND, MDB_APPENDDUP,
		MDB_NOOVERWRITE | MDB_NODUPDATA,
	};
	const struct table *table = &tables[call->table];
	unsigned flags = choices[call->flags % LENGTH(choices)];
	MDB_val key = key_of(table, call->key), value = value_of(table, call->value);
	/* The original keeps no order where APPEND meets a key that has values already. */
	if ((table->flags & MDB_DUPSORT) && (flags & MDB_APPEND))
		flags = MDB_APPENDDUP;
	alone(call->table, NONE);
	side->key = key;
	side->data = value;
	side->code = side->call.put(writer_of(), side->dbi[call->table], &side->key,
		&side->data, flags);
	compare(flags & MDB_NOOVERWRITE ? DATA : CODE, "put(table %u, %s, %s, 0x%x)", call->table,
		shown(&key), shown(&value), flags);
}

static void reserve(const struct call *call)
{
	const struct table *table = &tables[call->table];
	MDB_val key = key_of(table, call->key), value = value_of(table, call->value);
	if (table->flags & MDB_DUPSORT)
		return;
	side->data = (MDB_val){ value.mv_size, NULL };
	side->code = side->call.put(writer_of(), side->dbi[call->table], &key, &side->data,
		MDB_RESERVE | (call->flags % 2 ? MDB_NOOVERWRITE : 0));
	if (!side->code)
		memcpy(side->data.mv_data, value.mv_data, value.mv_size);
	compare(DATA, "put(table %u, %s, %s, RESERVE)", call->table, shown(&key), shown(&value));
}

static void multiple(const struct call *call)
{
	const struct table *table = &tables[call->table];
	if (!(table->flags & MDB_DUPFIXED) || world.cursor[call->slot].place == CLOSED)
		return;
	char many[50 * 40];
	size_t count = 1 + call->value % (table->values < 50 ? table->values : 50);
	MDB_val key = key_of(table, call->key);
	/* The original stops early where a value is the only one that the key has already. */
	if (!side->call.cursor_get(side->cursor[call->slot], &key, &side->data, MDB_SET)
		&& !side->call.cursor_count(side->cursor[call->slot], &side->number)
		&& side->number == 1) {
		world.cursor[call->slot].place = LOST;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		MDB_val one = value_of(table, call->flags % table->values + (uint32_t)i);
		memcpy(many + i * table->value_size, one.mv_data, table->value_size);
	}
	alone(call->table, call->slot);
	MDB_val several[2] = { { table->value_size, many }, { count, NULL } };
	side->code = side->call.cursor_put(side->cursor[call->slot], &key, several, MDB_MULTIPLE);
	side->number = several[1].mv_size;
	compare(COUNTED, "cursor_put(cursor %u, %s, %zu values, MULTIPLE)", call->slot, shown(&key),
		count);
	world.cursor[call->slot].place = LOST;
}

static void delete(const struct call *call, int is_value)
{
	const struct table *table = &tables[call->table];
	MDB_val key = key_of(table, call->key), value = value_of(table, call->value);
	alone(call->table, NONE);
	side->code = side->call.del(writer_of(), side->dbi[call->table], &key,
		is_value ? &value : NULL);
	if (!compare(CODE, "del(table %u, %s, %s)", call->table, shown(&key),
			is_value ? shown(&value) : "NULL"))
		doubt(call->table);
}

static void get(const struct call *call)
{
	MDB_val key = key_of(&tables[call->table], call->key);
	side->code = side->call.get(writer_of(), side->dbi[call->table], &key, &side->data);
	compare(DATA, "get(table %u, %s)", call->table, shown(&key));
}

static void count_entries(const struct call *call)
{
	MDB_stat stat = { 0 };
	side->code = side->call.stat(writer_of(), side->dbi[call->table], &stat);
	side->number = stat.ms_entries;
	compare(COUNTED, "stat(table %u).ms_entries", call->table);
}

/* Both orders of two items, as numbers with the same sign. */
static void compare_items(const struct call *call)
{
	const struct table *table = &tables[call->table];
	MDB_val a = key_of(table, call->key), b = key_of(table, call->value);
	MDB_val c = value_of(table, call->key), d = value_of(table, call->value);
	int order = side->call.cmp(writer_of(), side->dbi[call->table], &a, &b);
	side->code = 0;
	side->number = (size_t)(order > 0) + 2 * (size_t)(order < 0);
	if (table->flags & MDB_DUPSORT) {
		order = side->call.dcmp(writer_of(), side->dbi[call->table], &c, &d);
		side->number += 4 * (size_t)(order > 0) + 8 * (size_t)(order < 0);
	}
	compare(COUNTED, "cmp and dcmp(table %u)", call->table);
}

static void clear(const struct call *call)
{
	side->code = side->call.drop(writer_of(), side->dbi[call->table], 0);
	compare(CODE, "drop(table %u, 0)", call->table);
	for (size_t i = 0; i < CURSORS; i++)
		if (world.cursor[i].place != CLOSED && world.cursor[i].table == call->table)
			world.cursor[i].place = LOST;
}

/* Removes a named table and makes it again. */
static void drop(const struct call *call)
{
	if (!call->table || world.depth != 1 || world.is_reading)
		return;
	for (size_t i = 0; i < CURSORS; i++)
		if (world.cursor[i].place != CLOSED && world.cursor[i].table == call->table) {
			side->call.cursor_close(side->cursor[i]);
			world.cursor[i].place = CLOSED;
		}
	side->code = side->call.drop(writer_of(), side->dbi[call->table], 1);
	compare(CODE, "drop(table %u, 1)", call->table);
	open_table(call->table);
}

/* Everything in a table, forwards or backwards. */
static void walk(uint32_t table, int is_forwards)
{
	MDB_cursor *cursor;
	uint32_t hash = 0;
	side->code = side->call.cursor_open(writer_of(), side->dbi[table], &cursor);
	if (compare(CODE, "cursor_open to walk table %u", table))
		return;
	for (side->number = 0;; side->number++) {
		side->code = side->call.cursor_get(cursor, &side->key, &side->data,
			is_forwards ? MDB_NEXT : side->number ? MDB_PREV : MDB_LAST);
		if (side->code)
			break;
		hash = hash_of(hash_of(hash, &side->key), &side->data);
		if (world.is_loud)
			write_down("       %s: %s\n", shown(&side->key), shown(&side->data));
	}
	compare(CODE, "walk of table %u: %zu entries #%x", table, side->number, hash);
	side->call.cursor_close(cursor);
}

/* ---- calls on cursors ---- */

static void open_cursor(const struct call *call)
{
	if (world.cursor[call->slot].place != CLOSED)
		return;
	side->code = side->call.cursor_open(writer_of(), side->dbi[call->table],
		&side->cursor[call->slot]);
	if (!compare(CODE, "cursor_open(table %u) as cursor %u", call->table, call->slot)) {
		world.cursor[call->slot].place = FRESH;
		world.cursor[call->slot].is_at_end = 0;
		world.cursor[call->slot].table = call->table;
		world.cursor[call->slot].depth = world.depth;
	}
}

static void close_cursor(const struct call *call)
{
	if (world.cursor[call->slot].place == CLOSED || world.cursor[call->slot].depth != world.depth)
		return;
	side->call.cursor_close(side->cursor[call->slot]);
	world.cursor[call->slot].place = CLOSED;
}

struct op { MDB_cursor_op op; const char *name; int gives; };
#define OP(op, gives) { MDB_##op, #op, gives }

/* Which of the outputs a move sets in the original; the key stands still in moves among values. */
static const struct op moves[] = {
	OP(FIRST, KEY | DATA), OP(LAST, KEY | DATA), OP(NEXT, KEY | DATA), OP(NEXT, KEY | DATA),
	OP(NEXT, KEY | DATA), OP(PREV, KEY | DATA), OP(PREV, KEY | DATA), OP(NEXT_DUP, KEY | DATA),
	OP(PREV_DUP, KEY | DATA), OP(NEXT_NODUP, KEY | DATA), OP(PREV_NODUP, KEY | DATA),
	OP(GET_CURRENT, KEY | DATA), OP(FIRST_DUP, DATA), OP(LAST_DUP, DATA),
};

static const struct op seeks[] = {
	OP(SET, DATA), OP(SET_KEY, KEY | DATA), OP(SET_RANGE, KEY | DATA), OP(SET_RANGE, KEY | DATA),
	OP(GET_BOTH, DATA), OP(GET_BOTH_RANGE, DATA),
};

static int is_absolute(MDB_cursor_op op)
{
	return op == MDB_FIRST || op == MDB_LAST;
}

/* Whether the move is defined from this place. Backwards from nowhere among several values of a key
 * the original reads behind a page. */
static int may_move(enum place place, MDB_cursor_op op, unsigned flags)
{
	/* In a plain table early versions go on to the next key. */
	if ((op == MDB_NEXT_DUP || op == MDB_PREV_DUP) && !(flags & MDB_DUPSORT))
		return 0;
	switch (place) {
	case SOMEWHERE: return 1;
	case FRESH: return is_absolute(op) || op == MDB_NEXT || op == MDB_NEXT_NODUP
		|| op == MDB_GET_CURRENT || (op == MDB_PREV && !(flags & MDB_DUPSORT));
	case DELETED: return is_absolute(op) || op == MDB_NEXT || op == MDB_NEXT_NODUP
		|| op == MDB_GET_CURRENT || (op == MDB_PREV && !(flags & MDB_DUPSORT));
	case LOST: return is_absolute(op);
	default: return 0;
	}
}

/* Where a cursor is after the move. */
static enum place moved(enum place place, MDB_cursor_op op, int code)
{
	if (is_absolute(op) && code)
		return LOST;
	/* After LAST the original takes the first value for the end of the table. */
	if (op == MDB_FIRST_DUP && !code)
		return LOST;
	/* After a last key the original takes its further values for behind the end. */
	if ((op == MDB_NEXT_NODUP || op == MDB_PREV_NODUP) && code)
		return LOST;
	return code && (place == FRESH || place == DELETED) ? place : SOMEWHERE;
}

static void move(const struct call *call)
{
	const struct op *op = &moves[call->flags % LENGTH(moves)];
	enum place *place = &world.cursor[call->slot].place;
	if (!may_move(*place, op->op, tables[call->table].flags))
		return;
	side->key = side->data = (MDB_val){ 0, NULL };
	side->code = side->call.cursor_get(side->cursor[call->slot], &side->key, &side->data,
		op->op);
	int code = compare(op->gives, "cursor_get(cursor %u, %s)", call->slot, op->name);
	*place = moved(*place, op->op, code);
	if (op->op == MDB_LAST || code)
		world.cursor[call->slot].is_at_end = 1;
	else if (op->op != MDB_GET_CURRENT && op->op != MDB_LAST_DUP)
		world.cursor[call->slot].is_at_end = 0;
}

static void seek(const struct call *call)
{
	const struct op *op = &seeks[call->flags % LENGTH(seeks)];
	const struct table *table = &tables[call->table];
	if (world.cursor[call->slot].place == CLOSED)
		return;
	MDB_val key = key_of(table, call->key), value = value_of(table, call->value);
	side->key = key;
	side->data = value;
	side->code = side->call.cursor_get(side->cursor[call->slot], &side->key, &side->data,
		op->op);
	int code = compare(op->gives, "cursor_get(cursor %u, %s, %s, %s)", call->slot, shown(&key),
		shown(&value), op->name);
	world.cursor[call->slot].place = code ? LOST : SOMEWHERE;
	world.cursor[call->slot].is_at_end = code != 0;
}

static void put_at_cursor(const struct call *call)
{
	static const unsigned choices[] = { 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_APPENDDUP };
	const struct table *table = &tables[call->table];
	unsigned flags = choices[call->flags % LENGTH(choices)];
	if (world.cursor[call->slot].place == CLOSED)
		return;
	MDB_val key = key_of(table, call->key), value = value_of(table, call->value);
	alone(call->table, call->slot);
	side->data = value;
	side->code = side->call.cursor_put(side->cursor[call->slot], &key, &side->data, flags);
	int code = compare(flags & MDB_NOOVERWRITE ? DATA : CODE,
		"cursor_put(cursor %u, %s, %s, 0x%x)", call->slot, shown(&key), shown(&value), flags);
	world.cursor[call->slot].place =
		code || world.cursor[call->slot].is_at_end ? LOST : SOMEWHERE;
}

/* Replaces the value under a cursor; among several values of a key only by itself. */
static void put_current(const struct call *call)
{
	const struct table *table = &tables[call->table];
	if (world.cursor[call->slot].place != SOMEWHERE)
		return;
	side->code = side->call.cursor_get(side->cursor[call->slot], &side->key, &side->data,
		MDB_GET_CURRENT);
	if (compare(KEY | DATA, "cursor_get(cursor %u, GET_CURRENT)", call->slot))
		return;
	MDB_val value = value_of(table, call->value);
	char key_copy[600], value_copy[600];
	side->key.mv_data = memcpy(key_copy, side->key.mv_data, side->key.mv_size);
	if (table->flags & MDB_DUPSORT) {
		side->data.mv_data = memcpy(value_copy, side->data.mv_data, side->data.mv_size);
	} else {
		side->data = value;
	}
	alone(call->table, call->slot);
	side->code = side->call.cursor_put(side->cursor[call->slot], &side->key, &side->data,
		MDB_CURRENT);
	compare(CODE, "cursor_put(cursor %u, CURRENT)", call->slot);
}

/* Where several values of a key may be, the original is sure of its place only among those left. */
static void delete_at_cursor(const struct call *call)
{
	unsigned flags = call->flags % 3 ? 0 : MDB_NODUPDATA;
	MDB_cursor *cursor = side->cursor[call->slot];
	enum place *place = &world.cursor[call->slot].place;
	int is_sure = !(tables[call->table].flags & MDB_DUPSORT);
	if (*place != SOMEWHERE && (*place != DELETED || !is_sure))
		return;
	alone(call->table, call->slot);
	if (!is_sure && !flags && !side->call.cursor_count(cursor, &side->number))
		is_sure = side->number > 1;
	side->code = side->call.cursor_del(cursor, flags);
	if (!compare(CODE, "cursor_del(cursor %u, 0x%x)", call->slot, flags)) {
		*place = is_sure && !world.cursor[call->slot].is_at_end ? DELETED : LOST;
		doubt(call->table);
	}
}

static void count_values(const struct call *call)
{
	if (world.cursor[call->slot].place != SOMEWHERE)
		return;
	side->code = side->call.cursor_count(side->cursor[call->slot], &side->number);
	compare(COUNTED, "cursor_count(cursor %u)", call->slot);
}

/* All values of a key in blocks; how they are cut into blocks is left open. */
static void collect(const struct call *call)
{
	const struct table *table = &tables[call->table];
	static char all[1 << 18];
	if (world.cursor[call->slot].place == CLOSED || !(table->flags & MDB_DUPFIXED))
		return;
	MDB_val key = key_of(table, call->key);
	MDB_cursor *cursor = side->cursor[call->slot];
	size_t length = 0;
	int code = side->code = side->call.cursor_get(cursor, &key, &side->data, MDB_SET);
	if (!code)
		code = side->call.cursor_get(cursor, &side->key, &side->data, MDB_GET_MULTIPLE);
	for (; !code; code = side->call.cursor_get(cursor, &side->key, &side->data,
			MDB_NEXT_MULTIPLE)) {
		memcpy(all + length, side->data.mv_data, side->data.mv_size);
		length += side->data.mv_size;
	}
	if (!side->code && code != MDB_NOTFOUND)
		side->code = code;
	side->data = (MDB_val){ length, all };
	compare(DATA, "all values of %s by cursor %u", shown(&key), call->slot);
	world.cursor[call->slot].place = LOST;
}

/* ---- calls on read transactions ---- */

static void begin_reading(void)
{
	if (world.is_reading)
		return;
	for (size_t i = 0; i < TABLES; i++)
		if (is_used(i) && (world.is_gone[i] || world.is_new[i]))
			return;
	side->code = side->call.txn_begin(side->env, NULL, MDB_RDONLY, &side->reader);
	if (compare(CODE, "txn_begin(RDONLY)"))
		stop();
	world.is_reading = 1;
}

static void reset_reading(void)
{
	if (!world.is_reading)
		return;
	side->code = 0;
	if (world.is_reset)
		side->code = side->call.txn_renew(side->reader);
	else
		side->call.txn_reset(side->reader);
	compare(CODE, world.is_reset ? "txn_renew" : "txn_reset");
	world.is_reset = !world.is_reset;
	if (world.is_reset || world.reading == CLOSED)
		return;
	side->code = side->call.cursor_renew(side->reader, side->reading);
	compare(CODE, "cursor_renew");
	world.reading = FRESH;
}

static void get_reading(const struct call *call)
{
	if (!world.is_reading)
		return;
	MDB_val key = key_of(&tables[call->table], call->key);
	side->code = side->call.get(side->reader, side->dbi[call->table], &key, &side->data);
	compare(DATA, "get(reading table %u, %s)", call->table, shown(&key));
}

static void move_reading(const struct call *call)
{
	const struct op *op = &moves[call->flags % LENGTH(moves)];
	if (!world.is_reading || world.is_reset)
		return;
	if (world.reading == CLOSED) {
		world.reading_table = call->table;
		side->code = side->call.cursor_open(side->reader, side->dbi[call->table],
			&side->reading);
		if (compare(CODE, "cursor_open(reading table %u)", call->table))
			return;
		world.reading = FRESH;
	}
	if (!may_move(world.reading, op->op, tables[world.reading_table].flags))
		return;
	side->key = side->data = (MDB_val){ 0, NULL };
	side->code = side->call.cursor_get(side->reading, &side->key, &side->data, op->op);
	int code = compare(op->gives, "cursor_get(reading table %u, %s)", world.reading_table, op->name);
	world.reading = moved(world.reading, op->op, code);
}

/* ---- running ---- */

static int needs_writer(enum kind kind)
{
	return kind <= COUNT || kind == COLLECT;
}

static int needs_cursor(enum kind kind)
{
	return kind == MULTIPLE || (kind >= MOVE && kind <= COLLECT);
}

static void perform_on_cursor(const struct call *call)
{
	switch (call->kind) {
	case MULTIPLE: multiple(call); break;
	case MOVE: move(call); break;
	case SEEK: seek(call); break;
	case CURSOR_PUT: put_at_cursor(call); break;
	case CURSOR_CURRENT: put_current(call); break;
	case CURSOR_DELETE: delete_at_cursor(call); break;
	case COUNT: count_values(call); break;
	case COLLECT: collect(call); break;
	default: break;
	}
}

static void perform(const struct call *listed)
{
	struct call copy = *listed, *call = &copy;
	call->slot %= CURSORS;
	if (needs_writer(call->kind) && !world.depth)
		begin();
	if (needs_cursor(call->kind)) {
		if (world.cursor[call->slot].place != CLOSED)
			call->table = world.cursor[call->slot].table;
		else
			open_cursor(call);
		/* The original lends the cursors of a parent to its child; ours is not asked to. */
		if (world.cursor[call->slot].depth != world.depth)
			return;
		perform_on_cursor(call);
		return;
	}
	switch (call->kind) {
	case PUT: put(call); break;
	case DELETE_KEY: delete(call, 0); break;
	case DELETE_VALUE: delete(call, 1); break;
	case GET: get(call); break;
	case STAT: count_entries(call); break;
	case DROP: drop(call); break;
	case CLEAR: clear(call); break;
	case COMPARE: compare_items(call); break;
	case RESERVE: reserve(call); break;
	case WALK: walk(call->table, call->key % 2); break;
	case CURSOR_OPEN: open_cursor(call); break;
	case CURSOR_CLOSE: close_cursor(call); break;
	case BEGIN: begin(); break;
	case COMMIT: finish(1); break;
	case ABORT: finish(0); break;
	case READ_BEGIN: begin_reading(); break;
	case READ_END: end_reading(); break;
	case READ_RESET: reset_reading(); break;
	case READ_GET: get_reading(call); break;
	case READ_MOVE: move_reading(call); break;
	case REOPEN: close_environments(); open_environments(); break;
	default: break;
	}
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	(void)stat, (void)type, (void)where;
	return remove(path);
}

/* Runs the list on one library; ends the process. */
static void run(size_t which, int is_loud)
{
	alarm(60);
	world.is_loud = is_loud;
	journal = sides[which].journal;
	folder = sides[which].folder;
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (mkdir(folder, 0755)) {
		perror(folder);
		_exit(2);
	}
	load(sides[which].path);
	open_environments();
	for (world.at = 0; world.at < calls_len; world.at++)
		perform(&calls[world.at]);
	close_environments();
	open_environments();
	begin();
	for (uint32_t i = 0; i < TABLES; i++)
		if (is_used(i))
			walk(i, 1);
	close_environments();
	_exit(0);
}

/* How a list ended. */
enum ending { SAME, DIFFERENT, DIED };

/* Deaths of the original; their lists count up to there. */
static size_t deaths;

/* Runs the list on both libraries and compares their answers. */
static enum ending try_list(int is_loud)
{
	int states[2];
	fflush(stdout);
	for (size_t i = 0; i < 2; i++) {
		sides[i].journal->length = 0;
		pid_t child = fork();
		if (!child)
			run(i, is_loud);
		waitpid(child, &states[i], 0);
	}
	const struct journal *original = sides[0].journal, *other = sides[1].journal;
	int has_died = WIFSIGNALED(states[0]);
	deaths += has_died;
	/* The original may have gone wrong in the very call before the one that it died of. */
	size_t length = original->length;
	if (length > other->length)
		length = has_died ? other->length : length;
	if (WIFSIGNALED(states[1]) && !(has_died && other->length >= original->length))
		return DIED;
	if (!has_died && original->length != other->length)
		return DIFFERENT;
	return memcmp(original->text, other->text, length) ? DIFFERENT : SAME;
}

/* Takes out calls as long as the list still ends in the same way. */
static void shrink(enum ending ending)
{
	static struct call kept[CALLS_MAX];
	for (size_t piece = calls_len / 2; piece; piece /= 2) {
		for (size_t at = 0; at < calls_len;) {
			size_t kept_len = calls_len, end = at + piece < calls_len ? at + piece : calls_len;
			memcpy(kept, calls, sizeof calls);
			memmove(calls + at, calls + end, (calls_len - end) * sizeof *calls);
			calls_len -= end - at;
			if (try_list(0) != ending) {
				memcpy(calls, kept, sizeof calls);
				calls_len = kept_len;
				at += piece;
			}
		}
	}
}

/* Prints the answers up to the first that differ, and these of both. */
static void print_difference(void)
{
	const char *lines[2] = { sides[0].journal->text, sides[1].journal->text };
	for (int i = 0; i < 2; i++)
		sides[i].journal->text[sides[i].journal->length] = 0;
	for (;;) {
		size_t lengths[2] = { strcspn(lines[0], "\n"), strcspn(lines[1], "\n") };
		if (!*lines[0] || !*lines[1] || lengths[0] != lengths[1]
			|| memcmp(lines[0], lines[1], lengths[0])) {
			for (int i = 0; i < 2; i++)
				printf("%-8s %.*s\n", sides[i].name, *lines[i] ? (int)lengths[i] : 3,
					*lines[i] ? lines[i] : "end");
			return;
		}
		printf("%.*s\n", (int)lengths[0], lines[0]);
		for (int i = 0; i < 2; i++)
			lines[i] += lengths[i] + 1;
	}
}

static int report(uint64_t seed, enum ending ending)
{
	printf("seed %llu %s; shrinking\n", (unsigned long long)seed,
		ending == DIED ? "ends the other by a signal" : "differs");
	shrink(ending);
	printf("seed %llu, %zu calls:\n", (unsigned long long)seed, calls_len);
	for (size_t i = 0; i < TABLES; i++)
		if (is_used(i))
			printf("  table %zu: flags 0x%x%s\n", i, tables[i].flags,
				tables[i].has_order ? " and an order of the caller's" : "");
	try_list(1);
	print_difference();
	return 1;
}

static void prepare(char **arguments)
{
	mkdir(arguments[3], 0755);
	for (int i = 0; i < 2; i++) {
		sides[i].path = arguments[1 + i];
		snprintf(sides[i].folder, sizeof sides[i].folder, "%s/%s", arguments[3], sides[i].name);
		sides[i].journal = mmap(NULL, sizeof *sides[i].journal, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (sides[i].journal == MAP_FAILED) {
			perror("mmap");
			exit(2);
		}
	}
}

int main(int count, char **arguments)
{
	uint64_t first = 1, last = 0;
	double seconds = 0;
	if (count < 4) {
		fprintf(stderr, "usage: %s ORIGINAL.so OTHER.so FOLDER [--seeds A..B] [--seconds N] "
			"[--calls N] [--wild 0|1]\n", arguments[0]);
		return 2;
	}
	for (int i = 4; i + 1 < count; i += 2) {
		if (!strcmp(arguments[i], "--seeds"))
			sscanf(arguments[i + 1], "%lu..%lu", &first, &last);
		if (!strcmp(arguments[i], "--seconds"))
			seconds = atof(arguments[i + 1]);
		if (!strcmp(arguments[i], "--wild"))
			is_wild = atoi(arguments[i + 1]);
		if (!strcmp(arguments[i], "--calls"))
			calls_wanted = (size_t)atoi(arguments[i + 1]) % (CALLS_MAX + 1);
	}
	if (!last)
		last = seconds ? UINT64_MAX : first + 99;
	prepare(arguments);
	time_t start = time(NULL);
	uint64_t seed = first;
	for (; seed <= last && (!seconds || difftime(time(NULL), start) < seconds); seed++) {
		choose(seed);
		enum ending ending = try_list(0);
		if (ending)
			return report(seed, ending);
	}
	printf("%llu lists of %zu calls, no difference; the original died in %zu of them\n",
		(unsigned long long)(seed - first), calls_wanted, deaths);
	return 0;
}
