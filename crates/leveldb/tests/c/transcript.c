/* Calls of the C interface, a line each: what a library prints is to be what LevelDB prints. It runs
 * in an empty folder. What depends on how a library keeps its entries is not printed. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

static char *err;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;

/* Prints an error, or "ok", and forgets it. */
static void outcome(const char *call)
{
	printf("%s: %s\n", call, err ? err : "ok");
	leveldb_free(err);
	err = NULL;
}

static void show(const char *bytes, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)bytes[i];
		if (byte >= ' ' && byte < 127)
			putchar(byte);
		else
			printf("\\x%02x", byte);
	}
	putchar('"');
}

static void put(leveldb_t *db, const char *key, size_t klen, const char *value, size_t vlen)
{
	leveldb_put(db, writing, key, klen, value, vlen, &err);
	printf("put ");
	show(key, klen);
	outcome("");
}

static void puts_(leveldb_t *db, const char *key, const char *value)
{
	put(db, key, strlen(key), value, strlen(value));
}

static void del(leveldb_t *db, const char *key)
{
	leveldb_delete(db, writing, key, strlen(key), &err);
	printf("delete %s", key);
	outcome("");
}

static void get(leveldb_t *db, const char *key, size_t klen)
{
	size_t len = 77;
	char *value = leveldb_get(db, reading, key, klen, &len, &err);
	printf("get ");
	show(key, klen);
	if (value) {
		printf(" = ");
		show(value, len);
	} else {
		printf(" is not there, %zu", len);
	}
	leveldb_free(value);
	outcome("");
}

static void gets_(leveldb_t *db, const char *key)
{
	get(db, key, strlen(key));
}

static void here(const char *call, leveldb_iterator_t *it)
{
	printf("%s: ", call);
	if (leveldb_iter_valid(it)) {
		size_t klen, vlen;
		const char *key = leveldb_iter_key(it, &klen);
		const char *value = leveldb_iter_value(it, &vlen);
		show(key, klen);
		printf(" = ");
		show(value, vlen);
	} else {
		printf("nowhere");
	}
	leveldb_iter_get_error(it, &err);
	outcome("");
}

static void walk(leveldb_t *db)
{
	leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
	here("begin", it);
	for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it))
		here("forwards", it);
	here("end", it);
	for (leveldb_iter_seek_to_last(it); leveldb_iter_valid(it); leveldb_iter_prev(it))
		here("backwards", it);
	here("end", it);
	leveldb_iter_destroy(it);
}

static void seek(leveldb_iterator_t *it, const char *key)
{
	leveldb_iter_seek(it, key, strlen(key));
	printf("seek %s ", key);
	here("", it);
}

static void on_put(void *state, const char *k, size_t klen, const char *v, size_t vlen)
{
	printf("%s put ", (const char *)state);
	show(k, klen);
	printf(" = ");
	show(v, vlen);
	putchar('\n');
}

static void on_delete(void *state, const char *k, size_t klen)
{
	printf("%s delete ", (const char *)state);
	show(k, klen);
	putchar('\n');
}

static leveldb_t *open_(const char *name)
{
	leveldb_t *db = leveldb_open(options, name, &err);
	printf("open %s gives %s", name, db ? "a database" : "nothing");
	outcome("");
	return db;
}

static void opening(void)
{
	open_("db");
	leveldb_options_set_create_if_missing(options, 1);
	open_("none/db");
	leveldb_t *db = open_("db");
	open_("db");
	puts_(db, "first", "1");
	leveldb_close(db);
	leveldb_options_set_error_if_exists(options, 1);
	open_("db");
	leveldb_options_set_error_if_exists(options, 0);
	/* An error takes the place of the string before. */
	err = strdup("an old error");
	leveldb_options_set_create_if_missing(options, 0);
	open_("other");
	leveldb_options_set_create_if_missing(options, 1);
	db = open_("db");
	gets_(db, "first");
	/* Success leaves it as it is. */
	err = strdup("an old error");
	leveldb_put(db, writing, "a", 1, "b", 1, &err);
	outcome("put with an old error");
	leveldb_close(db);
	leveldb_destroy_db(options, "db", &err);
	outcome("destroy");
	leveldb_destroy_db(options, "db", &err);
	outcome("destroy again");
	leveldb_options_set_create_if_missing(options, 0);
	open_("db");
	leveldb_options_set_create_if_missing(options, 1);
}

static void strings(leveldb_t *db)
{
	gets_(db, "");
	puts_(db, "", "");
	gets_(db, "");
	puts_(db, "", "of the empty key");
	gets_(db, "");
	put(db, "\0", 1, "\0\0", 2);
	put(db, "\0\0", 2, "\xff", 1);
	put(db, "\xff", 1, "", 0);
	put(db, "a\0b", 3, "inside", 6);
	get(db, "\0", 1);
	get(db, "\0\0", 2);
	get(db, "\0\0\0", 3);
	get(db, "\xff", 1);
	get(db, "a\0b", 3);
	gets_(db, "a");
	del(db, "a");
	del(db, "");
	gets_(db, "");
	walk(db);
	char *large = malloc(3000000);
	memset(large, 'l', 3000000);
	leveldb_put(db, writing, "large", 5, large, 3000000, &err);
	outcome("put 3 MB");
	size_t len;
	char *back = leveldb_get(db, reading, "large", 5, &len, &err);
	printf("3 MB are %zu bytes, %s\n", len, back && !memcmp(back, large, len) ? "the same" : "others");
	leveldb_free(back);
	leveldb_put(db, writing, large, 100000, "key", 3, &err);
	outcome("put under 100 KB");
	back = leveldb_get(db, reading, large, 100000, &len, &err);
	printf("under 100 KB are %zu bytes\n", len);
	leveldb_free(back);
	leveldb_delete(db, writing, large, 100000, &err);
	outcome("delete 100 KB");
	del(db, "large");
	free(large);
}

static void batches(leveldb_t *db)
{
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	leveldb_write(db, writing, batch, &err);
	outcome("write nothing");
	leveldb_writebatch_put(batch, "bar", 3, "b", 1);
	leveldb_writebatch_put(batch, "box", 3, "c", 1);
	leveldb_writebatch_delete(batch, "bar", 3);
	leveldb_writebatch_put(batch, "", 0, "", 0);
	leveldb_writebatch_iterate(batch, "batch:", on_put, on_delete);
	leveldb_write(db, writing, batch, &err);
	outcome("write");
	gets_(db, "bar");
	gets_(db, "box");
	gets_(db, "");
	leveldb_writebatch_clear(batch);
	leveldb_writebatch_iterate(batch, "cleared:", on_put, on_delete);
	leveldb_writebatch_delete(batch, "box", 3);
	leveldb_writebatch_put(batch, "box", 3, "again", 5);
	leveldb_writebatch_t *more = leveldb_writebatch_create();
	leveldb_writebatch_put(more, "more", 4, "m", 1);
	leveldb_writebatch_delete(more, "", 0);
	leveldb_writebatch_append(batch, more);
	leveldb_writebatch_clear(more);
	leveldb_writebatch_append(batch, more);
	leveldb_writebatch_iterate(batch, "appended:", on_put, on_delete);
	leveldb_writeoptions_set_sync(writing, 1);
	leveldb_write(db, writing, batch, &err);
	outcome("write durably");
	leveldb_writeoptions_set_sync(writing, 0);
	leveldb_writebatch_destroy(more);
	leveldb_writebatch_destroy(batch);
	walk(db);
}

static void iterators(leveldb_t *db)
{
	leveldb_iterator_t *empty = leveldb_create_iterator(db, reading);
	here("new", empty);
	leveldb_iter_seek_to_first(empty);
	here("first of none", empty);
	leveldb_iter_seek_to_last(empty);
	here("last of none", empty);
	seek(empty, "any");
	puts_(db, "a", "1");
	puts_(db, "c", "3");
	puts_(db, "e", "5");
	leveldb_iter_seek_to_first(empty);
	here("of the time before", empty);
	leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
	seek(it, "");
	seek(it, "a");
	seek(it, "b");
	seek(it, "c");
	leveldb_iter_prev(it);
	here("prev", it);
	leveldb_iter_next(it);
	here("next", it);
	puts_(db, "d", "4");
	del(db, "e");
	puts_(db, "c", "3 anew");
	leveldb_iter_next(it);
	here("next, of the time before", it);
	leveldb_iter_next(it);
	here("after the last", it);
	seek(it, "f");
	seek(it, "e");
	leveldb_iter_seek_to_first(it);
	leveldb_iter_prev(it);
	here("before the first", it);
	leveldb_iter_seek_to_last(it);
	leveldb_iter_prev(it);
	leveldb_iter_prev(it);
	leveldb_iter_next(it);
	here("back and forth", it);
	leveldb_iter_destroy(it);
	leveldb_iter_destroy(empty);
	walk(db);
}

static void snapshots(leveldb_t *db)
{
	puts_(db, "key", "old");
	const leveldb_snapshot_t *old = leveldb_create_snapshot(db);
	puts_(db, "key", "new");
	const leveldb_snapshot_t *new = leveldb_create_snapshot(db);
	del(db, "key");
	gets_(db, "key");
	leveldb_readoptions_set_snapshot(reading, old);
	gets_(db, "key");
	walk(db);
	leveldb_readoptions_set_snapshot(reading, new);
	gets_(db, "key");
	leveldb_compact_range(db, NULL, 0, NULL, 0);
	gets_(db, "key");
	leveldb_readoptions_set_snapshot(reading, NULL);
	leveldb_release_snapshot(db, old);
	gets_(db, "key");
	leveldb_release_snapshot(db, new);
}

static void knowledge(leveldb_t *db)
{
	const char *known[] = { "leveldb.stats", "leveldb.sstables", "leveldb.num-files-at-level0",
		"leveldb.num-files-at-level6", "leveldb.approximate-memory-usage" };
	const char *unknown[] = { "", "leveldb.", "stats", "leveldb.nosuchprop",
		"leveldb.num-files-at-level", "leveldb.num-files-at-level7",
		"leveldb.num-files-at-levelx", "leveldb.num-files-at-level-1" };
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		char *value = leveldb_property_value(db, known[i]);
		printf("%s is %s\n", known[i], value ? "known" : "unknown");
		leveldb_free(value);
	}
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		printf("%s is %s\n", unknown[i], leveldb_property_value(db, unknown[i]) ? "known" : "unknown");
	const char *starts[] = { "a", "x", "b" }, *limits[] = { "a", "a", "b" };
	size_t lens[] = { 1, 1, 1 };
	uint64_t sizes[] = { 7, 7, 7 };
	leveldb_approximate_sizes(db, 3, starts, lens, limits, lens, sizes);
	printf("sizes of nothing: %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n", sizes[0], sizes[1], sizes[2]);
	for (int i = 0; i < 20000; i++) {
		char key[16], value[64];
		int klen = sprintf(key, "k%08d", i), vlen = sprintf(value, "value of entry %d", i);
		leveldb_put(db, writing, key, klen, value, vlen, &err);
	}
	outcome("put 20,000");
	leveldb_compact_range(db, NULL, 0, NULL, 0);
	leveldb_compact_range(db, "k", 1, "l", 1);
	leveldb_compact_range(db, "z", 1, NULL, 0);
	const char *from[] = { "k", "k00010000" }, *to[] = { "k00010000", "l" };
	size_t from_lens[] = { 1, 9 }, to_lens[] = { 9, 1 };
	leveldb_approximate_sizes(db, 2, from, from_lens, to, to_lens, sizes);
	printf("halves: %s, %s\n", sizes[0] > 0 ? "some" : "none", sizes[1] > 0 ? "some" : "none");
	gets_(db, "k00012345");
}

static int compare_numbers(void *state, const char *a, size_t alen, const char *b, size_t blen)
{
	char left[32] = { 0 }, right[32] = { 0 };
	(void)state;
	memcpy(left, a, alen < 31 ? alen : 31);
	memcpy(right, b, blen < 31 ? blen : 31);
	long x = strtol(left, NULL, 0), y = strtol(right, NULL, 0);
	return x < y ? -1 : x > y;
}

static const char *name_of_numbers(void *state)
{
	return (const char *)state;
}

static void destroyed(void *state)
{
	printf("destroyed %s\n", (const char *)state);
}

static void comparators(void)
{
	leveldb_comparator_t *numbers =
		leveldb_comparator_create("numbers", destroyed, compare_numbers, name_of_numbers);
	leveldb_options_set_comparator(options, numbers);
	leveldb_t *db = open_("numbers");
	puts_(db, "10", "ten");
	puts_(db, "9", "nine");
	puts_(db, "0x14", "twenty");
	puts_(db, "-3", "minus three");
	gets_(db, "0xa");
	gets_(db, "20");
	gets_(db, "21");
	puts_(db, "20", "twenty anew");
	gets_(db, "0x14");
	walk(db);
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	for (int i = 40; i > 0; i -= 2) {
		char key[8];
		leveldb_writebatch_put(batch, key, sprintf(key, "%d", i), "even", 4);
	}
	leveldb_writebatch_delete(batch, "0x10", 4);
	leveldb_write(db, writing, batch, &err);
	outcome("write in a given order");
	leveldb_writebatch_destroy(batch);
	leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
	seek(it, "15");
	seek(it, "0x27");
	leveldb_iter_seek_to_last(it);
	here("last", it);
	leveldb_iter_destroy(it);
	leveldb_compact_range(db, "5", 1, "30", 2);
	leveldb_close(db);
	db = open_("numbers");
	gets_(db, "0x12");
	leveldb_close(db);
	leveldb_comparator_t *others =
		leveldb_comparator_create("others", destroyed, compare_numbers, name_of_numbers);
	leveldb_options_set_comparator(options, others);
	open_("numbers");
	leveldb_comparator_destroy(others);
	leveldb_comparator_destroy(numbers);
	leveldb_options_destroy(options);
	options = leveldb_options_create();
	open_("numbers");
	leveldb_options_set_create_if_missing(options, 1);
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int n, size_t *len)
{
	(void)state, (void)keys, (void)lens, (void)n;
	*len = 4;
	return memcpy(malloc(4), "fake", 4);
}

static uint8_t may_match(void *state, const char *key, size_t klen, const char *filter, size_t flen)
{
	(void)state, (void)key, (void)klen, (void)filter, (void)flen;
	return 1;
}

static void settings(void)
{
	leveldb_cache_t *cache = leveldb_cache_create_lru(100000);
	leveldb_env_t *env = leveldb_create_default_env();
	leveldb_filterpolicy_t *filters[] = { leveldb_filterpolicy_create_bloom(10),
		leveldb_filterpolicy_create("filter", destroyed, create_filter, may_match, name_of_numbers) };
	leveldb_options_set_cache(options, cache);
	leveldb_options_set_env(options, env);
	leveldb_options_set_info_log(options, NULL);
	leveldb_options_set_write_buffer_size(options, 100000);
	leveldb_options_set_paranoid_checks(options, 1);
	leveldb_options_set_max_open_files(options, 10);
	leveldb_options_set_block_size(options, 1024);
	leveldb_options_set_block_restart_interval(options, 8);
	leveldb_options_set_max_file_size(options, 3 << 20);
	leveldb_options_set_compression(options, leveldb_no_compression);
	leveldb_readoptions_set_verify_checksums(reading, 1);
	leveldb_readoptions_set_fill_cache(reading, 0);
	for (int i = 0; i < 2; i++) {
		leveldb_options_set_filter_policy(options, filters[i]);
		leveldb_t *db = open_("filtered");
		puts_(db, "foo", "foovalue");
		puts_(db, "bar", "barvalue");
		leveldb_compact_range(db, NULL, 0, NULL, 0);
		gets_(db, "foo");
		gets_(db, "bar");
		gets_(db, "baz");
		leveldb_close(db);
		leveldb_destroy_db(options, "filtered", &err);
		outcome("destroy");
	}
	leveldb_options_set_filter_policy(options, NULL);
	leveldb_filterpolicy_destroy(filters[0]);
	leveldb_filterpolicy_destroy(filters[1]);
	char *folder = leveldb_env_get_test_directory(env);
	printf("the folder for tests is %s\n", strstr(folder, "leveldbtest-") ? "leveldbtest" : folder);
	leveldb_free(folder);
	leveldb_options_destroy(options);
	options = leveldb_options_create();
	leveldb_options_set_create_if_missing(options, 1);
	leveldb_env_destroy(env);
	leveldb_cache_destroy(cache);
}

static void repairs(void)
{
	leveldb_repair_db(options, "nothing", &err);
	outcome("repair what is not there");
	leveldb_options_set_create_if_missing(options, 0);
	leveldb_t *db = open_("nothing");
	walk(db);
	leveldb_close(db);
	leveldb_options_set_create_if_missing(options, 1);
	db = open_("repaired");
	for (int i = 0; i < 1000; i++) {
		char key[16];
		leveldb_put(db, writing, key, sprintf(key, "%d", i * 7 % 1000), "x", 1, &err);
	}
	leveldb_destroy_db(options, "repaired", &err);
	outcome("destroy while it is open");
	leveldb_close(db);
	leveldb_repair_db(options, "repaired", &err);
	outcome("repair");
	leveldb_options_set_create_if_missing(options, 0);
	leveldb_options_set_error_if_exists(options, 0);
	db = open_("repaired");
	gets_(db, "999");
	gets_(db, "1000");
	int count = 0;
	leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
	for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it))
		count++;
	printf("%d entries after it\n", count);
	leveldb_iter_destroy(it);
	leveldb_close(db);
	leveldb_options_set_create_if_missing(options, 1);
}

/* Random calls from a seed, over few keys. */
static void random_calls(void)
{
	uint64_t seed = 42;
	leveldb_t *db = open_("random");
	for (int i = 0; i < 160; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint32_t n = (uint32_t)(seed >> 33);
		char key[8], value[16];
		sprintf(key, "%c%u", "abc"[n % 3], n / 3 % 9);
		sprintf(value, "%d", i);
		switch (n / 27 % 6) {
		case 0:
			del(db, key);
			break;
		case 1:
			gets_(db, key);
			break;
		case 2: {
			leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
			seek(it, key);
			if (leveldb_iter_valid(it))
				leveldb_iter_prev(it);
			here("before it", it);
			leveldb_iter_destroy(it);
			break;
		}
		default:
			puts_(db, key, value);
		}
		if (i % 50 == 49) {
			walk(db);
			leveldb_close(db);
			db = open_("random");
		}
	}
	leveldb_close(db);
}

int main(void)
{
	printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());
	options = leveldb_options_create();
	reading = leveldb_readoptions_create();
	writing = leveldb_writeoptions_create();
	opening();
	void (*const parts[])(leveldb_t *) = { strings, batches, iterators, snapshots, knowledge };
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		leveldb_t *db = open_("part");
		parts[i](db);
		leveldb_close(db);
		leveldb_destroy_db(options, "part", &err);
		outcome("destroy");
	}
	comparators();
	settings();
	repairs();
	random_calls();
	leveldb_options_destroy(options);
	leveldb_readoptions_destroy(reading);
	leveldb_writeoptions_destroy(writing);
	return 0;
}
