/* Every function of leveldb/c.h and leveldb/hedgerow.h with null pointers and with lengths that
 * cannot be: an error or nothing, and never a signal. It runs in an empty folder. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"
#include "leveldb/hedgerow.h"

static char *err;

static void fail(const char *what)
{
	printf("it does not hold: %s\n", what);
	exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail(#condition))

/* The last call must have been refused with these words. */
static void refused_(const char *words, const char *call)
{
	if (!err || !strstr(err, words)) {
		printf("%s: %s\n", call, err ? err : "no error");
		exit(1);
	}
	leveldb_free(err);
	err = NULL;
}

#define REFUSED(words, call) ((call), refused_(words, #call))

static void without_a_database(leveldb_options_t *options)
{
	size_t len = 7;
	REFUSED("no options", CHECK(!leveldb_open(NULL, "db", &err)));
	REFUSED("no name", CHECK(!leveldb_open(options, NULL, &err)));
	REFUSED("no name", CHECK(!leveldb_open(options, "", &err)));
	REFUSED("no name", leveldb_destroy_db(options, NULL, &err));
	REFUSED("no name", leveldb_destroy_db(NULL, "", &err));
	REFUSED("no name", leveldb_repair_db(options, NULL, &err));
	REFUSED("no options", leveldb_repair_db(NULL, "db", &err));
	CHECK(!leveldb_open(options, NULL, NULL));
	leveldb_close(NULL);
	REFUSED("no database", leveldb_put(NULL, NULL, "k", 1, "v", 1, &err));
	REFUSED("no database", leveldb_delete(NULL, NULL, "k", 1, &err));
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	REFUSED("no database", leveldb_write(NULL, NULL, batch, &err));
	leveldb_writebatch_destroy(batch);
	REFUSED("no database", CHECK(!leveldb_get(NULL, NULL, "k", 1, &len, &err) && len == 0));
	CHECK(!leveldb_create_snapshot(NULL));
	leveldb_release_snapshot(NULL, NULL);
	CHECK(!leveldb_property_value(NULL, "leveldb.stats"));
	leveldb_compact_range(NULL, NULL, 0, NULL, 0);
	CHECK(!hedgerow_leveldb_engine(NULL));
	REFUSED("no database", CHECK(hedgerow_leveldb_count(NULL, &err) == 0));
	REFUSED("no database", hedgerow_leveldb_check(NULL, &err));
	REFUSED("no database", hedgerow_leveldb_backup(NULL, "copy", &err));
	CHECK(hedgerow_leveldb_options_set_engine(NULL, "tree") == 0);
	CHECK(hedgerow_leveldb_options_set_engine(options, NULL) == 0);
}

static void iterators(leveldb_t *db)
{
	size_t len = 7;
	leveldb_iterator_t *broken = leveldb_create_iterator(NULL, NULL);
	leveldb_iterator_t *sound = leveldb_create_iterator(db, NULL);
	leveldb_iterator_t *all[] = { NULL, broken, sound };
	for (int i = 0; i < 3; i++) {
		CHECK(!leveldb_iter_valid(all[i]));
		CHECK(!leveldb_iter_key(all[i], &len) && len == 0);
		CHECK(!leveldb_iter_value(all[i], &len) && len == 0);
		leveldb_iter_next(all[i]);
		leveldb_iter_prev(all[i]);
		leveldb_iter_seek(all[i], NULL, 0);
		leveldb_iter_seek_to_first(all[i]);
		leveldb_iter_seek_to_last(all[i]);
		leveldb_iter_key(all[i], NULL);
		leveldb_iter_value(all[i], NULL);
		leveldb_iter_get_error(all[i], NULL);
		CHECK(leveldb_iter_valid(all[i]) == (all[i] == sound));
	}
	REFUSED("no database", leveldb_iter_get_error(broken, &err));
	leveldb_iter_seek(sound, NULL, 3);
	CHECK(!leveldb_iter_valid(sound));
	REFUSED("no string", leveldb_iter_get_error(sound, &err));
	leveldb_iter_destroy(NULL);
	leveldb_iter_destroy(broken);
	leveldb_iter_destroy(sound);
}

static void batches(leveldb_t *db)
{
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	REFUSED("no batch", leveldb_write(db, NULL, NULL, &err));
	leveldb_writebatch_put(NULL, "k", 1, "v", 1);
	leveldb_writebatch_delete(NULL, "k", 1);
	leveldb_writebatch_clear(NULL);
	leveldb_writebatch_destroy(NULL);
	leveldb_writebatch_append(NULL, batch);
	leveldb_writebatch_append(batch, NULL);
	leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
	/* There is nobody to tell. */
	leveldb_writebatch_put(batch, NULL, 3, "v", 1);
	leveldb_writebatch_put(batch, "k", 1, NULL, 3);
	leveldb_writebatch_delete(batch, NULL, SIZE_MAX);
	leveldb_write(db, NULL, batch, &err);
	CHECK(!err);
	leveldb_writebatch_put(batch, "b", 1, NULL, 0);
	leveldb_writebatch_iterate(batch, NULL, NULL, NULL);
	leveldb_write(db, NULL, batch, NULL);
	leveldb_writebatch_destroy(batch);
	CHECK(hedgerow_leveldb_count(db, &err) == 2);
}

static void with_a_database(leveldb_t *db)
{
	const char *at[] = { NULL, "a" };
	size_t lens[] = { 3, 1 };
	uint64_t sizes[] = { 7, 7 };
	leveldb_put(db, NULL, "a", 1, "1", 1, &err);
	CHECK(!err);
	REFUSED("no string", leveldb_put(db, NULL, NULL, 3, "v", 1, &err));
	REFUSED("no string", leveldb_put(db, NULL, "k", 1, NULL, 3, &err));
	REFUSED("no string", leveldb_put(db, NULL, "k", SIZE_MAX, "v", 1, &err));
	REFUSED("no string", leveldb_delete(db, NULL, NULL, 3, &err));
	REFUSED("no string", CHECK(!leveldb_get(db, NULL, NULL, 3, &lens[0], &err)));
	lens[0] = 3;
	leveldb_put(db, NULL, NULL, 3, "v", 1, NULL);
	leveldb_free(leveldb_get(db, NULL, "a", 1, NULL, NULL));
	CHECK(!leveldb_property_value(db, NULL));
	leveldb_approximate_sizes(db, 2, NULL, NULL, NULL, NULL, NULL);
	leveldb_approximate_sizes(db, 2, at, lens, at, lens, NULL);
	leveldb_approximate_sizes(db, -1, at, lens, at, lens, sizes);
	CHECK(sizes[0] == 7);
	leveldb_approximate_sizes(db, 2, at, lens, at, lens, sizes);
	CHECK(sizes[0] == 0 && sizes[1] == 0);
	REFUSED("no name", hedgerow_leveldb_backup(db, NULL, &err));
	CHECK(hedgerow_leveldb_count(db, NULL) == 1);
	iterators(db);
	batches(db);
}

static const char *no_name(void *state)
{
	return state;
}

static int same(void *state, const char *a, size_t alen, const char *b, size_t blen)
{
	(void)state, (void)a, (void)alen, (void)b, (void)blen;
	return 0;
}

static void options_(void)
{
	leveldb_options_t *options = leveldb_options_create();
	leveldb_options_set_comparator(NULL, NULL);
	leveldb_options_set_comparator(options, NULL);
	leveldb_options_set_filter_policy(options, NULL);
	leveldb_options_set_create_if_missing(NULL, 1);
	leveldb_options_set_error_if_exists(NULL, 1);
	leveldb_options_set_paranoid_checks(NULL, 1);
	leveldb_options_set_env(NULL, NULL);
	leveldb_options_set_info_log(NULL, NULL);
	leveldb_options_set_write_buffer_size(NULL, 1);
	leveldb_options_set_max_open_files(NULL, -1);
	leveldb_options_set_cache(NULL, NULL);
	leveldb_options_set_cache(options, NULL);
	leveldb_options_set_block_size(NULL, 0);
	leveldb_options_set_block_restart_interval(NULL, -1);
	leveldb_options_set_max_file_size(NULL, 0);
	leveldb_options_set_compression(NULL, 77);
	leveldb_options_destroy(NULL);
	leveldb_readoptions_set_verify_checksums(NULL, 1);
	leveldb_readoptions_set_fill_cache(NULL, 1);
	leveldb_readoptions_set_snapshot(NULL, NULL);
	leveldb_readoptions_destroy(NULL);
	leveldb_writeoptions_set_sync(NULL, 1);
	leveldb_writeoptions_destroy(NULL);
	leveldb_cache_destroy(NULL);
	leveldb_env_destroy(NULL);
	leveldb_free(leveldb_env_get_test_directory(NULL));
	leveldb_free(NULL);
	leveldb_filterpolicy_destroy(NULL);
	leveldb_filterpolicy_destroy(leveldb_filterpolicy_create(NULL, NULL, NULL, NULL, NULL));
	leveldb_filterpolicy_destroy(leveldb_filterpolicy_create_bloom(-1));
	leveldb_comparator_destroy(NULL);
	leveldb_comparator_t *empty = leveldb_comparator_create(NULL, NULL, NULL, NULL);
	leveldb_options_set_comparator(options, empty);
	leveldb_comparator_destroy(empty);
	leveldb_comparator_t *nameless = leveldb_comparator_create(NULL, NULL, same, no_name);
	leveldb_options_set_comparator(options, nameless);
	leveldb_options_destroy(options);
	leveldb_comparator_destroy(nameless);
}

int main(void)
{
	leveldb_options_t *options = leveldb_options_create();
	leveldb_options_set_create_if_missing(options, 1);
	/* Sizes that no machine has. */
	leveldb_options_set_write_buffer_size(options, SIZE_MAX);
	leveldb_cache_t *cache = leveldb_cache_create_lru(SIZE_MAX);
	leveldb_options_set_cache(options, cache);
	without_a_database(options);
	options_();
	leveldb_t *db = leveldb_open(options, "db", &err);
	CHECK(db && !err);
	REFUSED("lock", CHECK(!leveldb_open(options, "db", &err)));
	REFUSED("lock", leveldb_destroy_db(options, "db", &err));
	REFUSED("lock", leveldb_repair_db(options, "db", &err));
	with_a_database(db);
	leveldb_close(db);
	leveldb_destroy_db(options, "db", &err);
	CHECK(!err);
	leveldb_cache_destroy(cache);
	leveldb_options_destroy(options);
	puts("done");
	return 0;
}
