/* Calls on tables by key. */
#ifndef FUZZ_ENTRIES_H
#define FUZZ_ENTRIES_H

#include "world.h"

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

/* Several blocks of the longer values. */
#define MOST_AT_ONCE 400u

static void multiple(const struct call *call)
{
	const struct table *table = &tables[call->table];
	if (!(table->flags & MDB_DUPFIXED) || world.cursor[call->slot].place == CLOSED)
		return;
	char many[MOST_AT_ONCE * 40];
	uint32_t most = table->values < MOST_AT_ONCE ? table->values : MOST_AT_ONCE;
	size_t count = 1 + call->value % most;
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

#endif
