/* Calls on cursors, of write and of read transactions. */
#ifndef FUZZ_CURSORS_H
#define FUZZ_CURSORS_H

#include "entries.h"

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
	/* After a refusal it stands on what was there. */
	world.cursor[call->slot].place = (code && code != MDB_KEYEXIST)
		|| world.cursor[call->slot].is_at_end ? LOST : SOMEWHERE;
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

/* All values of a key in blocks, forwards or from the last one backwards; how they are cut into
 * blocks is left open. */
static void collect(const struct call *call)
{
	const struct table *table = &tables[call->table];
	static char all[1 << 18];
	if (world.cursor[call->slot].place == CLOSED || !(table->flags & MDB_DUPFIXED))
		return;
	int backwards = call->flags % 2;
	MDB_val key = key_of(table, call->key), *data = &side->data;
	MDB_cursor *cursor = side->cursor[call->slot];
	MDB_cursor_op step = backwards ? MDB_PREV_MULTIPLE : MDB_NEXT_MULTIPLE;
	char *begin = backwards ? all + sizeof all : all, *end = begin;
	int code = side->code = side->call.cursor_get(cursor, &key, data, MDB_SET);
	if (!code && backwards)
		code = side->call.cursor_get(cursor, &side->key, data, MDB_LAST_DUP);
	if (!code && backwards)
		code = side->call.cursor_get(cursor, &key, data, MDB_GET_BOTH);
	if (!code)
		code = side->call.cursor_get(cursor, &side->key, data, MDB_GET_MULTIPLE);
	for (; !code; code = side->call.cursor_get(cursor, &side->key, data, step)) {
		if (backwards)
			memcpy(begin -= data->mv_size, data->mv_data, data->mv_size);
		else
			end = (char *)memcpy(end, data->mv_data, data->mv_size) + data->mv_size;
	}
	if (!side->code && code != MDB_NOTFOUND)
		side->code = code;
	*data = (MDB_val){ (size_t)(end - begin), begin };
	compare(DATA, "all values of %s by cursor %u%s", shown(&key), call->slot,
		backwards ? ", backwards" : "");
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

#endif
