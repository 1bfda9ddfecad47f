/* Stores whose pages were changed, mostly with right checksums: every call answers with a code,
 * whatever stands there; none raises a signal or goes on for ever. Run it in an empty folder.
 *
 *     hostile [FIRST LAST]
 *
 * Each number is a seed that says which bytes of which page are changed and how. What is read of
 * such a store may be wrong; the format stands in docs/format.md. */
#include "check.h"

#include <fcntl.h>

enum { PAGE = 4096, FIRST_PAGE = 3 };

/* ---- the checksums ---- */

static uint32_t crc(uint64_t from, const unsigned char *at, size_t size)
{
	static uint32_t table[256];
	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			table[i] = i;
			for (int bit = 0; bit < 8; bit++)
				table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
		}
	uint32_t sum = ~0u;
	for (int i = 0; i < 8; i++)
		sum = sum >> 8 ^ table[(sum ^ (unsigned char)(from >> 8 * i)) & 255];
	for (size_t i = 0; i < size; i++)
		sum = sum >> 8 ^ table[(sum ^ at[i]) & 255];
	return ~sum;
}

static uint32_t word(const unsigned char *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof value);
	return value;
}

static void set_word(unsigned char *at, uint32_t value)
{
	memcpy(at, &value, sizeof value);
}

static int is_tree_page(const unsigned char *page, uint32_t no)
{
	return no >= FIRST_PAGE && word(page) == crc(no, page + 4, PAGE - 4);
}

static void repair(unsigned char *page, uint32_t no)
{
	if (no >= FIRST_PAGE) {
		set_word(page, crc(no, page + 4, PAGE - 4));
		return;
	}
	set_word(page + 256, crc(no, page, 256));
	uint64_t from = (uint64_t)no << 32 | word(page + 256);
	set_word(page + 4092, crc(from, page + 260, 4092 - 260));
}

/* ---- the store ---- */

static const struct { const char *name; unsigned flags; } tables[] = {
	{ NULL, 0 }, { "plain", 0 }, { "dups", MDB_DUPSORT },
	{ "fixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_INTEGERKEY },
	{ "reverse", MDB_DUPSORT | MDB_REVERSEKEY | MDB_REVERSEDUP },
};

static void a_pair(int table, uint32_t number, MDB_val *key, MDB_val *data)
{
	static char room[512], other[16384];
	static uint32_t numbers[2];
	if (tables[table].flags & MDB_INTEGERKEY) {
		numbers[0] = number % 50, numbers[1] = number;
		*key = bytes(&numbers[0], 4), *data = bytes(&numbers[1], 4);
		return;
	}
	int dups = tables[table].flags & MDB_DUPSORT;
	*key = bytes(room, snprintf(room, sizeof room, "%.*s%u", (int)(number % 90),
		"a beginning that many of the keys have in common, and that pages keep apart from them",
		dups ? number % 30 : number));
	size_t size = dups ? number % 60 + 1 : number % 97 == 0 ? 15000 : number % 200;
	memset(other, 'v', size);
	*data = bytes(other, size);
	if (size >= 4)
		memcpy(other, &number, 4);
}

static void build(void)
{
	MDB_env *env = open_env(folder("whole"), 0, 0);
	uint64_t seed = 1;
	for (int round = 0; round < 4; round++) {
		MDB_txn *txn = begin(env, 0);
		for (size_t t = 0; t < LENGTH(tables); t++) {
			MDB_dbi dbi = open_dbi(txn, tables[t].name, tables[t].flags | MDB_CREATE);
			for (int i = 0; i < 250; i++) {
				MDB_val key, data;
				a_pair(t, chance(&seed) % 4000, &key, &data);
				OK(mdb_put(txn, dbi, &key, &data, 0));
				a_pair(t, chance(&seed) % 4000, &key, &data);
				(void)mdb_del(txn, dbi, &key, NULL);
			}
		}
		OK(mdb_txn_commit(txn));
	}
	mdb_env_close(env);
}

static unsigned char *whole, *changed;
static size_t length;

static void load(void)
{
	struct stat found;
	int fd = open("whole/data.mdb", O_RDONLY);
	HOLDS(fd >= 0 && fstat(fd, &found) == 0);
	length = found.st_size;
	whole = malloc(length), changed = malloc(length);
	HOLDS(whole && changed && read(fd, whole, length) == (ssize_t)length);
	close(fd);
	size_t trees = 0;
	for (uint32_t no = 0; no < length / PAGE; no++)
		trees += is_tree_page(whole + no * PAGE, no);
	HOLDS(trees > 30);
}

/* Changes one to four places of a page; most of them in its header and its arrays. */
static void change(uint64_t seed)
{
	uint32_t pages = length / PAGE, no;
	memcpy(changed, whole, length);
	unsigned char *page;
	do {
		no = chance(&seed) % 8 ? chance(&seed) % pages : chance(&seed) % FIRST_PAGE;
		page = changed + (size_t)no * PAGE;
	} while (no >= FIRST_PAGE && chance(&seed) % 4 && !is_tree_page(page, no));
	int repaired = no < FIRST_PAGE || is_tree_page(page, no);
	for (uint32_t places = chance(&seed) % 4 + 1; places; places--) {
		uint32_t room = chance(&seed) % 3 ? 160 : PAGE;
		uint32_t at = 4 + chance(&seed) % (room - 8);
		switch (chance(&seed) % 5) {
		case 0:
			page[at] ^= 1 << chance(&seed) % 8;
			break;
		case 1:
			page[at] = chance(&seed);
			break;
		case 2:
			memset(page + at, chance(&seed) % 2 ? 0xff : 0, 1 + chance(&seed) % 8);
			break;
		case 3:
			set_word(page + (at & ~3u), chance(&seed) % (2 * pages));
			break;
		default:
			/* What stands elsewhere on the page. */
			memmove(page + at, page + 4 + chance(&seed) % (PAGE - 12), 8);
		}
	}
	if (chance(&seed) % 16 == 0)
		/* A page of its own kind in the place of another. */
		memcpy(page, whole + (size_t)(chance(&seed) % pages) * PAGE, PAGE);
	if (repaired && chance(&seed) % 8)
		repair(page, no);
}

/* ---- what a program does with it ---- */

/* Every call that reads, in a database of which nothing is known. */
static void read_all(MDB_txn *txn, MDB_dbi dbi, int table)
{
	static const MDB_cursor_op ops[] = { MDB_FIRST, MDB_FIRST_DUP, MDB_GET_CURRENT,
		MDB_GET_MULTIPLE, MDB_LAST, MDB_LAST_DUP, MDB_NEXT, MDB_NEXT_DUP, MDB_NEXT_MULTIPLE,
		MDB_NEXT_NODUP, MDB_PREV, MDB_PREV_DUP, MDB_PREV_NODUP, MDB_PREV_MULTIPLE };
	static const MDB_cursor_op searches[] = { MDB_GET_BOTH, MDB_GET_BOTH_RANGE, MDB_SET,
		MDB_SET_KEY, MDB_SET_RANGE };
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_stat stat;
	uint64_t seed = 9, count = 0, sum = 0;
	const MDB_val *list;
	size_t number;
	(void)mdb_stat(txn, dbi, &stat);
	if (mdb_cursor_open(txn, dbi, &cursor))
		return;
	for (int back = 0; back < 2; back++)
		/* A chain of pages that bites its tail ends, too. */
		for (int i = 0; i < 20000; i++) {
			if (mdb_cursor_get(cursor, &key, &data, back ? MDB_PREV : MDB_NEXT))
				break;
			for (size_t j = 0; j < key.mv_size; j++)
				sum += ((unsigned char *)key.mv_data)[j];
			for (size_t j = 0; j < data.mv_size; j++)
				sum += ((unsigned char *)data.mv_data)[j];
		}
	for (int i = 0; i < 300; i++) {
		a_pair(table, chance(&seed) % 4000, &key, &data);
		(void)mdb_cursor_get(cursor, &key, &data, i % 2 ? searches[i % LENGTH(searches)]
			: ops[chance(&seed) % LENGTH(ops)]);
		a_pair(table, chance(&seed) % 4000, &key, &data);
		MDB_val low = key, found;
		(void)mdb_get(txn, dbi, &key, &found);
		(void)mdb_get_key_rank(txn, dbi, &key, i % 2 ? &data : NULL, &count);
		(void)mdb_range_count_keys(txn, dbi, &low, NULL, i % 8, &count);
		(void)mdb_range_count_values(txn, dbi, NULL, &low, i % 8, &count);
		(void)mdb_cursor_get_rank(cursor, chance(&seed) % 1000, &key, &data, 0);
		(void)mdb_cursor_count(cursor, &number);
		(void)mdb_cursor_list_dup(cursor, &list, &number);
	}
	mdb_cursor_close(cursor);
	HOLDS(sum != 1);
}

static void write_all(MDB_env *env, uint64_t seed)
{
	for (int round = 0; round < 3; round++) {
		MDB_txn *txn, *child;
		if (mdb_txn_begin(env, NULL, 0, &txn))
			return;
		for (size_t t = 0; t < LENGTH(tables); t++) {
			MDB_dbi dbi;
			if (mdb_dbi_open(txn, tables[t].name, tables[t].flags | MDB_CREATE, &dbi))
				continue;
			for (int i = 0; i < 60; i++) {
				MDB_val key, data;
				a_pair(t, chance(&seed) % 4000, &key, &data);
				if (chance(&seed) % 2)
					(void)mdb_put(txn, dbi, &key, &data, 0);
				else
					(void)mdb_del(txn, dbi, &key, chance(&seed) % 2 ? &data : NULL);
			}
			if (!mdb_txn_begin(env, txn, 0, &child)) {
				if (chance(&seed) % 4 == 0)
					(void)mdb_drop(child, dbi, chance(&seed) % 2);
				mdb_txn_abort(child);
			}
			if (round == 2)
				(void)mdb_drop(txn, dbi, t % 2);
		}
		(void)mdb_txn_commit(txn);
	}
}

static void use(uint64_t seed)
{
	MDB_env *env;
	MDB_txn *txn;
	alarm(60);
	OK(mdb_env_create(&env));
	OK(mdb_env_set_maxdbs(env, 16));
	if (mdb_env_open(env, "hostile", MDB_NOSYNC, 0644))
		_exit(0);
	if (!mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) {
		for (size_t t = 0; t < LENGTH(tables); t++) {
			MDB_dbi dbi;
			if (!mdb_dbi_open(txn, tables[t].name, 0, &dbi))
				read_all(txn, dbi, t);
		}
		(void)mdb_txn_commit(txn);
	}
	if (seed % 4 == 0) {
		int fd = open("/dev/null", O_WRONLY);
		(void)mdb_env_copyfd2(env, fd, seed % 8 ? MDB_CP_COMPACT : 0);
		close(fd);
	}
	write_all(env, seed);
	mdb_env_close(env);
	_exit(0);
}

int main(int count, char **arguments)
{
	uint64_t first = count > 2 ? strtoull(arguments[1], NULL, 10) : 1;
	uint64_t last = count > 2 ? strtoull(arguments[2], NULL, 10) : 300;
	build();
	load();
	folder("hostile");
	for (uint64_t seed = first; seed <= last; seed++) {
		int status, fd = open("hostile/data.mdb", O_CREAT | O_TRUNC | O_WRONLY, 0644);
		change(seed);
		HOLDS(write(fd, changed, length) == (ssize_t)length);
		close(fd);
		(void)unlink("hostile/lock.mdb");
		pid_t child = fork();
		if (!child)
			use(seed);
		HOLDS(waitpid(child, &status, 0) == child);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "seed %llu: status %x\n", (unsigned long long)seed, status);
			return 1;
		}
	}
	free(whole), free(changed);
	puts("hostile stores do no harm");
	return 0;
}
