/* Read transactions that begin where one before them has ended: what they see, that they keep nothing
 * open, and that nothing happens to those that end twice. Run it in an empty folder. */
#include "check.h"

#include <pthread.h>

static MDB_env *env;
static MDB_dbi first, second;

static size_t open_files(void)
{
	size_t count = 0;
	DIR *all = opendir("/proc/self/fd");
	HOLDS(all != NULL);
	while (readdir(all))
		count++;
	closedir(all);
	return count;
}

static void holds_entry(MDB_txn *txn, MDB_dbi dbi, const char *name, const char *wanted)
{
	MDB_val key = text(name), data, value = text(wanted);
	OK(mdb_get(txn, dbi, &key, &data));
	HOLDS(same(&data, &value));
}

static void *reads(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++) {
		MDB_txn *txn = begin(env, MDB_RDONLY);
		holds_entry(txn, first, "key", "of the first");
		holds_entry(txn, second, "key", "of the second");
		mdb_txn_reset(txn);
		OK(mdb_txn_renew(txn));
		holds_entry(txn, first, "key", "of the first");
		i % 2 ? mdb_txn_abort(txn) : OK(mdb_txn_commit(txn));
	}
	return NULL;
}

static void write_both(void)
{
	MDB_txn *txn = begin(env, 0);
	first = open_dbi(txn, "first", MDB_CREATE);
	second = open_dbi(txn, "second", MDB_CREATE);
	put(txn, first, "key", "of the first");
	put(txn, second, "key", "of the second");
	OK(mdb_txn_commit(txn));
}

/* What waits in the slots of threads, also of those that have ended, goes with its environment. */
static void nothing_stays_open(const char *name, unsigned flags)
{
	size_t files = open_files();
	folder(name);
	for (int round = 0; round < 3; round++) {
		pthread_t threads[3];
		env = open_env(name, flags | MDB_NOSYNC, 0);
		write_both();
		reads(NULL);
		for (size_t i = 0; i < LENGTH(threads); i++)
			HOLDS(pthread_create(&threads[i], NULL, reads, NULL) == 0);
		for (size_t i = 0; i < LENGTH(threads); i++)
			pthread_join(threads[i], NULL);
		MDB_txn *last = round == 1 ? begin(env, MDB_RDONLY) : NULL;
		mdb_env_close(env);
		if (last) {
			/* One that is still open keeps what it needs. */
			holds_entry(last, first, "key", "of the first");
			mdb_txn_abort(last);
		}
		HOLDS(open_files() == files);
		/* And the next store in that place is another one. */
		char path[64];
		snprintf(path, sizeof path, "%s/data.mdb", name);
		HOLDS(round == 0 || unlink(path) == 0);
	}
}

static int ordered_backwards(const MDB_val *a, const MDB_val *b)
{
	size_t shorter = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	int order = memcmp(b->mv_data, a->mv_data, shorter);
	return order ? order : (a->mv_size < b->mv_size) - (a->mv_size > b->mv_size);
}

/* A reader that begins sees the handles as they are then, whatever the one before it knew. */
static void handles_change(unsigned flags)
{
	MDB_val key = text("key"), data;
	MDB_txn *txn, *writer;
	MDB_dbi third;
	env = open_env(folder(flags ? "handles, no TLS" : "handles"), flags | MDB_NOSYNC, 0);
	write_both();
	reads(NULL);
	/* One that is opened, and then closed by an abort, is not known afterwards. */
	txn = begin(env, MDB_RDONLY);
	third = open_dbi(txn, NULL, 0);
	holds_entry(txn, second, "key", "of the second");
	mdb_txn_abort(txn);
	writer = begin(env, 0);
	third = open_dbi(writer, "third", MDB_CREATE);
	mdb_txn_abort(writer);
	txn = begin(env, MDB_RDONLY);
	GIVES(EINVAL, mdb_get(txn, third, &key, &data));
	mdb_txn_abort(txn);
	/* A handle that was closed is none, and its number another's afterwards. */
	mdb_dbi_close(env, second);
	txn = begin(env, MDB_RDONLY);
	GIVES(EINVAL, mdb_get(txn, second, &key, &data));
	mdb_txn_reset(txn);
	GIVES(EINVAL, mdb_dbi_flags(txn, first, &(unsigned){ 0 }));
	OK(mdb_txn_renew(txn));
	GIVES(EINVAL, mdb_get(txn, second, &key, &data));
	holds_entry(txn, first, "key", "of the first");
	mdb_txn_abort(txn);
	writer = begin(env, 0);
	HOLDS(open_dbi(writer, "third", MDB_CREATE) == second);
	OK(mdb_set_compare(writer, second, ordered_backwards));
	put(writer, second, "key", "of the third");
	put(writer, second, "other", "of the third");
	OK(mdb_txn_commit(writer));
	for (int i = 0; i < 3; i++) {
		MDB_cursor *cursor;
		txn = begin(env, MDB_RDONLY);
		OK(mdb_cursor_open(txn, second, &cursor));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
		HOLDS(same(&key, &(MDB_val){ 5, "other" }));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
		HOLDS(same(&key, &(MDB_val){ 3, "key" }));
		holds_entry(txn, second, "key", "of the third");
		mdb_cursor_close(cursor);
		mdb_txn_abort(txn);
	}
	/* A table that is gone is gone. */
	writer = begin(env, 0);
	OK(mdb_drop(writer, first, 1));
	OK(mdb_txn_commit(writer));
	key = text("key");
	txn = begin(env, MDB_RDONLY);
	GIVES(EINVAL, mdb_get(txn, first, &key, &data));
	holds_entry(txn, second, "key", "of the third");
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* To end a transaction twice is a mistake that does no harm as long as no other one has begun. */
static void ended_twice(unsigned flags)
{
	env = open_env(folder(flags ? "twice, no TLS" : "twice"), flags | MDB_NOSYNC, 0);
	write_both();
	MDB_txn *txn = begin(env, MDB_RDONLY);
	mdb_txn_abort(txn);
	mdb_txn_abort(txn);
	GIVES(EINVAL, mdb_txn_commit(txn));
	reads(NULL);
	mdb_env_close(env);
}

int main(void)
{
	nothing_stays_open("threads' slots", 0);
	nothing_stays_open("their own slots", MDB_NOTLS);
	nothing_stays_open("no slots", MDB_NOLOCK);
	handles_change(0);
	handles_change(MDB_NOTLS);
	ended_twice(0);
	ended_twice(MDB_NOTLS);
	puts("short transactions hold");
	return 0;
}
