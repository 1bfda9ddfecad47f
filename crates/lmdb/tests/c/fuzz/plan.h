/* What a seed decides: the tables, the list of calls, their keys and values. */
#ifndef FUZZ_PLAN_H
#define FUZZ_PLAN_H

#include "library.h"

#define CALLS_MAX 4000

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

#endif
