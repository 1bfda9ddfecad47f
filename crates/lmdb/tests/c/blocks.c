/* Blocks of values: every value is in one of them, whichever way they are gone through and from
 * wherever, and a block does not depend on what the cursor did before. Run it in an empty folder. */
#include "check.h"

#define SIZE_MAX_HERE 511

static size_t size;
static MDB_txn *txn;
static MDB_dbi dbi;
static MDB_cursor *cursor;
/* The numbers that are there, in order. */
static unsigned numbers[6000];
static size_t length;

static MDB_val value_of(unsigned number)
{
	static unsigned char room[SIZE_MAX_HERE];
	memset(room, 0, size);
	for (size_t i = 0; i < 2; i++)
		room[size - 1 - i] = (unsigned char)(number >> 8 * i);
	return bytes(room, size);
}

static MDB_val the_key(void)
{
	return text("key");
}

/* Where the block begins among the numbers; its values are those from there on. */
static size_t block_at(const MDB_val *block)
{
	size_t at = 0, count = block->mv_size / size;
	HOLDS(count > 0 && block->mv_size % size == 0);
	for (MDB_val first = bytes(block->mv_data, size), value; at < length; at++) {
		value = value_of(numbers[at]);
		if (same(&value, &first))
			break;
	}
	HOLDS(at + count <= length);
	for (size_t i = 0; i < count; i++) {
		MDB_val value = value_of(numbers[at + i]);
		MDB_val given = bytes((char *)block->mv_data + i * size, size);
		HOLDS(same(&value, &given));
	}
	return at;
}

static void stand_on(size_t n)
{
	MDB_val key = the_key(), value = value_of(numbers[n]);
	OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH));
}

/* The block around the value of that place, the next one, and that one again. */
static void around(size_t n)
{
	MDB_val key, block, last, current;
	stand_on(n);
	OK(mdb_cursor_get(cursor, &key, &block, MDB_GET_MULTIPLE));
	size_t at = block_at(&block), count = block.mv_size / size;
	HOLDS(at <= n && n < at + count);
	last = bytes((char *)block.mv_data + (count - 1) * size, size);
	OK(mdb_cursor_get(cursor, &key, &current, MDB_GET_CURRENT));
	HOLDS(same(&current, &last));
	stand_on(n);
	int code = mdb_cursor_get(cursor, &key, &block, MDB_PREV_MULTIPLE);
	HOLDS(code == (at ? 0 : MDB_NOTFOUND));
	HOLDS(!at || block_at(&block) + block.mv_size / size == at);
	stand_on(at + count - 1);
	code = mdb_cursor_get(cursor, &key, &block, MDB_NEXT_MULTIPLE);
	HOLDS(code == (at + count < length ? 0 : MDB_NOTFOUND));
	if (code)
		return;
	HOLDS(block_at(&block) == at + count);
	OK(mdb_cursor_get(cursor, &key, &block, MDB_PREV_MULTIPLE));
	HOLDS(block_at(&block) == at && block.mv_size == count * size);
}

/* All blocks forwards and backwards. */
static void through(void)
{
	MDB_val key, block;
	size_t forwards = 0, backwards = 0, at = 0;
	stand_on(0);
	for (int code = mdb_cursor_get(cursor, &key, &block, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cursor, &key, &block, MDB_NEXT_MULTIPLE), forwards++) {
		HOLDS(block_at(&block) == at);
		at += block.mv_size / size;
	}
	HOLDS(at == length);
	stand_on(length - 1);
	for (int code = mdb_cursor_get(cursor, &key, &block, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cursor, &key, &block, MDB_PREV_MULTIPLE), backwards++) {
		at -= block.mv_size / size;
		HOLDS(block_at(&block) == at);
	}
	HOLDS(at == 0 && forwards == backwards);
}

/* A key of one block has none before it, whatever blocks were handed out before. */
static void few_after_many(void)
{
	MDB_val key, block;
	stand_on(0);
	OK(mdb_cursor_get(cursor, &key, &block, MDB_GET_MULTIPLE));
	key = text("little");
	OK(mdb_cursor_get(cursor, &key, &block, MDB_SET));
	GIVES(MDB_NOTFOUND, mdb_cursor_get(cursor, &key, &block, MDB_PREV_MULTIPLE));
	OK(mdb_cursor_get(cursor, &key, &block, MDB_GET_CURRENT));
	HOLDS(block.mv_size == size);
	key = text("little");
	OK(mdb_cursor_get(cursor, &key, &block, MDB_SET));
	OK(mdb_cursor_get(cursor, &key, &block, MDB_GET_MULTIPLE));
	HOLDS(block.mv_size == 3 * size);
}

static void check(uint64_t *seed)
{
	OK(mdb_cursor_open(txn, dbi, &cursor));
	through();
	few_after_many();
	for (int i = 0; i < 60; i++)
		around(chance(seed) % length);
	mdb_cursor_close(cursor);
}

static void put_number(const char *name, unsigned number)
{
	MDB_val key = text(name), value = value_of(number);
	OK(mdb_put(txn, dbi, &key, &value, 0));
}

/* Every second of the first half goes: pages are no longer full, blocks are. */
static void thin_out(void)
{
	size_t left = 0;
	for (size_t i = 0; i < length; i++) {
		MDB_val key = the_key(), value = value_of(numbers[i]);
		if (i < length / 2 && i % 2)
			OK(mdb_del(txn, dbi, &key, &value));
		else
			numbers[left++] = numbers[i];
	}
	length = left;
}

static void of_size(size_t value_size, size_t count)
{
	char name[64];
	uint64_t seed = value_size * 1000 + count;
	size = value_size;
	snprintf(name, sizeof name, "of-%zu-%zu", size, count);
	MDB_env *env = open_env(folder(name), MDB_NOSYNC, 0);
	txn = begin(env, 0);
	dbi = open_dbi(txn, NULL, MDB_DUPSORT | MDB_DUPFIXED);
	for (unsigned i = 0; i < 3; i++)
		put_number("little", i);
	for (length = 0; length < count; length++)
		put_number("key", numbers[length] = 7 * (unsigned)length);
	check(&seed);
	OK(mdb_txn_commit(txn));
	txn = begin(env, MDB_RDONLY);
	check(&seed);
	mdb_txn_abort(txn);
	txn = begin(env, 0);
	thin_out();
	check(&seed);
	OK(mdb_txn_commit(txn));
	mdb_env_close(env);
}

int main(void)
{
	static const size_t sizes[] = { 2, 4, 8, 31, SIZE_MAX_HERE };
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t block = 4080 / sizes[i];
		of_size(sizes[i], 1);
		of_size(sizes[i], block);
		of_size(sizes[i], block + 1);
		of_size(sizes[i], 2 * block);
		of_size(sizes[i], 2 * block + block / 2 + 7);
	}
	puts("blocks hold");
	return 0;
}
