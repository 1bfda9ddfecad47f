/* Random calls from seeds, a line each: what a library prints is to be what LevelDB prints.
 *
 *     random FIRST-SEED LAST-SEED CALLS
 *
 * Several iterators and snapshots are held at a time. It runs in an empty folder. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

enum { HELD = 4, KEY_MAX = 40 };

static uint64_t state;
static char *err;
static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;
static leveldb_iterator_t *iterators[HELD];
static const leveldb_snapshot_t *snapshots[HELD];

static uint32_t below(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % n);
}

/* Few keys of many lengths, some of which begin like others; bytes of both ends. */
static size_t make_key(char *key)
{
	static const char bytes[] = { 'a', 'b', 0, (char)0xff };
	size_t len = below(8) == 0 ? below(KEY_MAX) : below(4);
	for (size_t i = 0; i < len; i++)
		key[i] = len > 4 ? bytes[i / 9 % 4] : bytes[below(4)];
	return len;
}

static char *make_value(size_t *len)
{
	*len = below(20) == 0 ? below(20000) : below(40);
	char *value = malloc(*len + 1);
	memset(value, 'a' + (int)below(26), *len);
	return value;
}

static void show(const char *what, const char *bytes, size_t len)
{
	uint32_t sum = 2166136261u;
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ (unsigned char)bytes[i]) * 16777619u;
	printf(" %s %zu:%08x", what, len, sum);
}

static void here(leveldb_iterator_t *it)
{
	size_t klen, vlen;
	if (leveldb_iter_valid(it)) {
		const char *key = leveldb_iter_key(it, &klen);
		show("at", key, klen);
		const char *value = leveldb_iter_value(it, &vlen);
		show("value", value, vlen);
	} else {
		printf(" nowhere");
	}
	leveldb_iter_get_error(it, &err);
}

static void open_(void)
{
	db = leveldb_open(options, "db", &err);
	if (!db) {
		printf("open: %s\n", err);
		exit(1);
	}
}

static void release(int at)
{
	if (iterators[at])
		leveldb_iter_destroy(iterators[at]);
	if (snapshots[at])
		leveldb_release_snapshot(db, snapshots[at]);
	iterators[at] = NULL;
	snapshots[at] = NULL;
}

static void write_batch(void)
{
	char key[KEY_MAX];
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	for (uint32_t n = below(below(10) == 0 ? 300 : 8); n > 0; n--) {
		size_t klen = make_key(key), vlen;
		if (below(3) == 0) {
			leveldb_writebatch_delete(batch, key, klen);
		} else {
			char *value = make_value(&vlen);
			leveldb_writebatch_put(batch, key, klen, value, vlen);
			free(value);
		}
	}
	leveldb_write(db, writing, batch, &err);
	leveldb_writebatch_destroy(batch);
}

static void get(int at)
{
	char key[KEY_MAX];
	size_t klen = make_key(key), vlen;
	leveldb_readoptions_set_snapshot(reading, below(2) ? snapshots[at] : NULL);
	char *value = leveldb_get(db, reading, key, klen, &vlen, &err);
	if (value)
		show("value", value, vlen);
	else
		printf(" none");
	leveldb_free(value);
}

static void move(leveldb_iterator_t *it)
{
	char key[KEY_MAX];
	switch (below(6)) {
	case 0:
		leveldb_iter_seek_to_first(it);
		break;
	case 1:
		leveldb_iter_seek_to_last(it);
		break;
	case 2:
		leveldb_iter_seek(it, key, make_key(key));
		break;
	default:
		for (uint32_t n = below(5); n > 0 && leveldb_iter_valid(it); n--)
			(below(2) ? leveldb_iter_next : leveldb_iter_prev)(it);
	}
	here(it);
}

static void call(void)
{
	char key[KEY_MAX];
	int at = (int)below(HELD);
	size_t klen, vlen;
	uint32_t which = below(100);
	printf("%u", which);
	if (which < 25) {
		klen = make_key(key);
		char *value = make_value(&vlen);
		leveldb_put(db, writing, key, klen, value, vlen, &err);
		free(value);
	} else if (which < 35) {
		klen = make_key(key);
		leveldb_delete(db, writing, key, klen, &err);
	} else if (which < 45) {
		write_batch();
	} else if (which < 60) {
		get(at);
	} else if (which < 65) {
		release(at);
		snapshots[at] = leveldb_create_snapshot(db);
	} else if (which < 72) {
		if (iterators[at])
			leveldb_iter_destroy(iterators[at]);
		leveldb_readoptions_set_snapshot(reading, below(2) ? snapshots[at] : NULL);
		iterators[at] = leveldb_create_iterator(db, reading);
		here(iterators[at]);
	} else if (which < 98) {
		if (iterators[at])
			move(iterators[at]);
	} else if (which < 99) {
		leveldb_compact_range(db, NULL, 0, NULL, 0);
	} else {
		for (int i = 0; i < HELD; i++)
			release(i);
		leveldb_close(db);
		open_();
	}
	printf(" %s\n", err ? err : "");
	leveldb_free(err);
	err = NULL;
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 2;
	options = leveldb_options_create();
	reading = leveldb_readoptions_create();
	writing = leveldb_writeoptions_create();
	leveldb_options_set_create_if_missing(options, 1);
	for (long seed = atol(arguments[1]); seed <= atol(arguments[2]); seed++) {
		state = (uint64_t)seed;
		printf("seed %ld\n", seed);
		open_();
		for (long calls = atol(arguments[3]); calls > 0; calls--)
			call();
		for (int i = 0; i < HELD; i++)
			release(i);
		leveldb_close(db);
		leveldb_destroy_db(options, "db", &err);
	}
	return 0;
}
