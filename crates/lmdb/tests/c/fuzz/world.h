/* The state of a run, what it writes down, its environments and transactions. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "plan.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

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
	/* The cursors, and what was known of them when each of the open transactions began. */
	struct {
		enum place place;
		/* It was moved to the last entry or behind it, or an entry was deleted; the original remembers
		 * too long that it was at the end. */
		int is_at_end;
		uint32_t table;
		size_t depth;
	} cursor[CURSORS], kept[DEPTH_MAX][CURSORS];
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
	memcpy(world.kept[world.depth++], world.cursor, sizeof world.cursor);
	for (size_t i = 0; i < TABLES; i++)
		if (is_used(i) && world.is_gone[i])
			open_table(i);
}

/* Cursors of a write transaction end with it; where it is not kept the others go back. */
static void end_cursors(int is_kept)
{
	for (size_t i = 0; i < CURSORS; i++) {
		if (world.cursor[i].place == CLOSED)
			continue;
		if (world.cursor[i].depth >= world.depth)
			world.cursor[i].place = CLOSED;
		else if (!is_kept)
			world.cursor[i] = world.kept[world.depth - 1][i];
	}
}

static void finish(int is_kept)
{
	if (!world.depth)
		return;
	end_cursors(is_kept);
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

#endif
