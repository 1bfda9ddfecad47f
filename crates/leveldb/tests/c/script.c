/* Runs the operations of a script that it reads, one a line, keys and values in hexadecimal and `*`
 * for none; prints what they give and a line with a point after each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leveldb/c.h>
#include <leveldb/hedgerow.h>

#define MOST 8
#define LINE (8 << 20)

static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;
static const leveldb_snapshot_t *kept;
static char line[LINE];
static char *error;

struct bytes {
	char *at;
	size_t len;
	int is_there;
};

static void open_db(void)
{
	db = leveldb_open(options, "db", &error);
	if (error) {
		fprintf(stderr, "%s\n", error);
		exit(2);
	}
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The bytes that a word stands for, in the word's own memory. */
static struct bytes bytes_of(char *word)
{
	if (!word || *word == '*')
		return (struct bytes){ NULL, 0, 0 };
	size_t len = strlen(word + 1) / 2;
	for (size_t i = 0; i < len; i++)
		word[i] = (char)(digit(word[1 + 2 * i]) << 4 | digit(word[2 + 2 * i]));
	return (struct bytes){ word, len, 1 };
}

static void show(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", (unsigned char)at[i]);
}

/* Whether a key stands before an end. */
static int before(const char *key, size_t len, struct bytes end)
{
	size_t both = len < end.len ? len : end.len;
	int order = both ? memcmp(key, end.at, both) : 0;
	return order ? order < 0 : len < end.len;
}

/* Entries of a range, which are shown or go into a batch of deletions. */
static void walk(struct bytes from, struct bytes to, int backwards, leveldb_writebatch_t *batch)
{
	leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
	struct bytes first = backwards ? to : from;
	if (first.is_there)
		leveldb_iter_seek(it, first.at, first.len);
	else if (backwards)
		leveldb_iter_seek_to_last(it);
	else
		leveldb_iter_seek_to_first(it);
	if (backwards && first.is_there) {
		if (leveldb_iter_valid(it))
			leveldb_iter_prev(it);
		else
			leveldb_iter_seek_to_last(it);
	}
	while (leveldb_iter_valid(it)) {
		size_t key_len, value_len;
		const char *key = leveldb_iter_key(it, &key_len);
		const char *value = leveldb_iter_value(it, &value_len);
		if (!backwards && to.is_there && !before(key, key_len, to))
			break;
		if (backwards && from.is_there && before(key, key_len, from))
			break;
		if (batch) {
			leveldb_writebatch_delete(batch, key, key_len);
		} else {
			show(key, key_len);
			putchar(' ');
			show(value, value_len);
			putchar('\n');
		}
		if (backwards)
			leveldb_iter_prev(it);
		else
			leveldb_iter_next(it);
	}
	leveldb_iter_get_error(it, &error);
	leveldb_iter_destroy(it);
}

static void delete_range(struct bytes from, struct bytes to)
{
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	walk(from, to, 0, batch);
	leveldb_write(db, writing, batch, &error);
	leveldb_writebatch_destroy(batch);
}

static void get(struct bytes key)
{
	size_t len;
	char *value = leveldb_get(db, reading, key.at, key.len, &len, &error);
	if (value) {
		show(value, len);
		putchar('\n');
	}
	leveldb_free(value);
}

static void release(void)
{
	leveldb_readoptions_set_snapshot(reading, NULL);
	if (kept)
		leveldb_release_snapshot(db, kept);
	kept = NULL;
}

static void run(const char *verb, char **words)
{
	struct bytes a = bytes_of(words[0]), b = bytes_of(words[1]);
	if (!strcmp(verb, "put"))
		leveldb_put(db, writing, a.at, a.len, b.at, b.len, &error);
	else if (!strcmp(verb, "delete"))
		leveldb_delete(db, writing, a.at, a.len, &error);
	else if (!strcmp(verb, "get"))
		get(a);
	else if (!strcmp(verb, "delete-range"))
		delete_range(a, b);
	else if (!strcmp(verb, "scan") || !strcmp(verb, "scan-back"))
		walk(a, b, verb[4] != 0, NULL);
	else if (!strcmp(verb, "snapshot"))
		kept = leveldb_create_snapshot(db);
	else if (!strcmp(verb, "old") || !strcmp(verb, "new"))
		leveldb_readoptions_set_snapshot(reading, *verb == 'o' ? kept : NULL);
	else if (!strcmp(verb, "check")) {
		hedgerow_leveldb_check(db, &error);
		if (!error)
			puts("sound");
	} else if (!strcmp(verb, "reopen")) {
		release();
		leveldb_close(db);
		open_db();
	} else
		exit(3);
}

int main(void)
{
	options = leveldb_options_create();
	leveldb_options_set_create_if_missing(options, 1);
	reading = leveldb_readoptions_create();
	writing = leveldb_writeoptions_create();
	open_db();
	while (fgets(line, sizeof line, stdin)) {
		char *words[MOST] = { NULL };
		int n = 0;
		for (char *word = strtok(line, " \n"); word && n < MOST - 1; word = strtok(NULL, " \n"))
			words[n++] = word;
		run(words[0], words + 1);
		if (error) {
			printf("error %s\n", strncmp(error, "Invalid argument", 16) ? error : "size");
			leveldb_free(error);
			error = NULL;
		}
		puts(".");
		fflush(stdout);
	}
	release();
	leveldb_close(db);
	leveldb_options_destroy(options);
	leveldb_readoptions_destroy(reading);
	leveldb_writeoptions_destroy(writing);
	return 0;
}
