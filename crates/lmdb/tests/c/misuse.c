/* Calls that no program should make: each gives the code that LMDB documents for it, or EINVAL, and
 * none ends the program or harms the store. Run it in an empty folder. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>

static MDB_env *env;
static MDB_dbi dbi, dups;

/* Null where something is needed. */
static void nulls(void)
{
	MDB_txn *txn = begin(env, 0), *none = NULL;
	MDB_cursor *cursor, *no_cursor;
	MDB_val key = text("key"), data = text("data"), empty = { 0, NULL };
	MDB_dbi out;
	MDB_stat stat;
	unsigned flags;
	size_t count;
	GIVES(EINVAL, mdb_env_create(NULL));
	GIVES(EINVAL, mdb_env_open(NULL, ".", 0, 0644));
	GIVES(EINVAL, mdb_env_copy(NULL, "."));
	GIVES(EINVAL, mdb_env_copy(env, NULL));
	GIVES(EINVAL, mdb_env_copyfd(NULL, 1));
	GIVES(EBADF, mdb_env_copyfd(env, -1));
	GIVES(EBADF, mdb_env_copyfd2(env, 999, MDB_CP_COMPACT));
	GIVES(EINVAL, mdb_env_stat(NULL, &stat));
	GIVES(EINVAL, mdb_env_stat(env, NULL));
	GIVES(EINVAL, mdb_env_info(env, NULL));
	GIVES(EINVAL, mdb_env_sync(NULL, 1));
	GIVES(EINVAL, mdb_env_get_flags(env, NULL));
	GIVES(EINVAL, mdb_env_get_path(env, NULL));
	GIVES(EINVAL, mdb_env_get_fd(env, NULL));
	GIVES(EINVAL, mdb_env_set_mapsize(NULL, 1));
	GIVES(EINVAL, mdb_env_set_maxreaders(NULL, 1));
	GIVES(EINVAL, mdb_env_get_maxreaders(env, NULL));
	GIVES(EINVAL, mdb_env_set_maxdbs(NULL, 1));
	GIVES(EINVAL, mdb_env_set_userctx(NULL, NULL));
	HOLDS(mdb_env_get_userctx(NULL) == NULL);
	GIVES(EINVAL, mdb_env_set_assert(NULL, NULL));
	GIVES(-1, mdb_reader_list(NULL, NULL, NULL));
	GIVES(-1, mdb_reader_list(env, NULL, NULL));
	GIVES(EINVAL, mdb_reader_check(NULL, NULL));
	OK(mdb_reader_check(env, NULL));
	mdb_env_close(NULL);
	GIVES(EINVAL, mdb_txn_begin(NULL, NULL, 0, &none));
	GIVES(EINVAL, mdb_txn_begin(env, NULL, MDB_RDONLY, NULL));
	HOLDS(mdb_txn_env(NULL) == NULL && mdb_txn_id(NULL) == 0);
	GIVES(EINVAL, mdb_txn_commit(NULL));
	mdb_txn_abort(NULL);
	mdb_txn_reset(NULL);
	GIVES(EINVAL, mdb_txn_renew(NULL));
	GIVES(EINVAL, mdb_dbi_open(NULL, NULL, 0, &out));
	GIVES(EINVAL, mdb_dbi_open(txn, "plain", 0, NULL));
	mdb_dbi_close(NULL, 2);
	GIVES(EINVAL, mdb_dbi_flags(NULL, dbi, &flags));
	GIVES(EINVAL, mdb_stat(txn, dbi, NULL));
	GIVES(EINVAL, mdb_stat(NULL, dbi, &stat));
	GIVES(EINVAL, mdb_drop(NULL, dbi, 0));
	GIVES(EINVAL, mdb_set_compare(NULL, dbi, NULL));
	GIVES(EINVAL, mdb_set_relctx(NULL, dbi, NULL));
	GIVES(EINVAL, mdb_get(NULL, dbi, &key, &data));
	GIVES(EINVAL, mdb_get(txn, dbi, NULL, &data));
	GIVES(EINVAL, mdb_get(txn, dbi, &key, NULL));
	GIVES(EINVAL, mdb_put(NULL, dbi, &key, &data, 0));
	GIVES(EINVAL, mdb_put(txn, dbi, NULL, &data, 0));
	GIVES(EINVAL, mdb_put(txn, dbi, &key, NULL, 0));
	GIVES(EINVAL, mdb_del(txn, dbi, NULL, NULL));
	GIVES(MDB_BAD_VALSIZE, mdb_put(txn, dbi, &empty, &data, 0));
	GIVES(MDB_BAD_VALSIZE, mdb_get(txn, dbi, &empty, &data));
	HOLDS(mdb_cmp(NULL, dbi, &key, &data) == 0 && mdb_cmp(txn, dbi, NULL, &data) == 0);
	GIVES(EINVAL, mdb_cursor_open(NULL, dbi, &cursor));
	GIVES(EINVAL, mdb_cursor_open(txn, dbi, NULL));
	mdb_cursor_close(NULL);
	GIVES(EINVAL, mdb_cursor_renew(NULL, NULL));
	HOLDS(mdb_cursor_txn(NULL) == NULL && mdb_cursor_dbi(NULL) == 0);
	no_cursor = NULL;
	GIVES(EINVAL, mdb_cursor_get(no_cursor, &key, &data, MDB_FIRST));
	GIVES(EINVAL, mdb_cursor_put(no_cursor, &key, &data, 0));
	GIVES(EINVAL, mdb_cursor_del(no_cursor, 0));
	GIVES(EINVAL, mdb_cursor_count(no_cursor, &count));
	OK(mdb_cursor_open(txn, dups, &cursor));
	GIVES(EINVAL, mdb_cursor_get(cursor, NULL, NULL, MDB_SET));
	GIVES(EINVAL, mdb_cursor_get(cursor, &key, NULL, MDB_GET_BOTH));
	GIVES(EINVAL, mdb_cursor_count(cursor, NULL));
	GIVES(EINVAL, mdb_cursor_put(cursor, NULL, &data, 0));
	GIVES(EINVAL, mdb_cursor_put(cursor, &key, NULL, 0));
	GIVES(EINVAL, mdb_cursor_put(cursor, &key, NULL, MDB_MULTIPLE));
	GIVES(EINVAL, mdb_cursor_del(cursor, 0));
	GIVES(EINVAL, mdb_cursor_get(cursor, &key, &data, (MDB_cursor_op)99));
	/* Null where nothing is needed. */
	GIVES(0, mdb_put(txn, dups, &key, &data, 0));
	OK(mdb_cursor_get(cursor, NULL, NULL, MDB_FIRST));
	OK(mdb_cursor_get(cursor, NULL, NULL, MDB_GET_CURRENT));
	GIVES(MDB_NOTFOUND, mdb_cursor_get(cursor, NULL, NULL, MDB_NEXT));
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
}

/* Handles that nobody has, that were closed, dropped, or are another environment's. */
static void handles(void)
{
	MDB_txn *txn = begin(env, 0), *other_txn, *child;
	MDB_val key = text("key"), data;
	MDB_cursor *cursor;
	MDB_stat stat;
	MDB_env *other = open_env(folder("other"), 0, 0);
	MDB_dbi far, gone;
	static const MDB_dbi wrong[] = { 0, 15, 16, 1000000, UINT32_MAX };
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		GIVES(EINVAL, mdb_get(txn, wrong[i], &key, &data));
		GIVES(EINVAL, mdb_put(txn, wrong[i], &key, &key, 0));
		GIVES(EINVAL, mdb_del(txn, wrong[i], &key, NULL));
		GIVES(EINVAL, mdb_cursor_open(txn, wrong[i], &cursor));
		GIVES(EINVAL, mdb_drop(txn, wrong[i], 1));
		GIVES(EINVAL, mdb_set_compare(txn, wrong[i], NULL));
		mdb_dbi_close(env, wrong[i]);
	}
	GIVES(EINVAL, mdb_stat(txn, 15, &stat));
	gone = open_dbi(txn, "gone", MDB_CREATE);
	put(txn, gone, "key", "value");
	GIVES(EINVAL, mdb_drop(txn, gone, 2));
	OK(mdb_drop(txn, gone, 1));
	GIVES(EINVAL, mdb_get(txn, gone, &key, &data));
	GIVES(EINVAL, mdb_drop(txn, gone, 1));
	/* A parent of another environment. */
	GIVES(EINVAL, mdb_txn_begin(other, txn, 0, &child));
	OK(mdb_txn_commit(txn));

	/* Closed while a transaction that knows it is open, and after. */
	txn = begin(env, 0);
	gone = open_dbi(txn, "closed", MDB_CREATE);
	put(txn, gone, "key", "value");
	OK(mdb_txn_commit(txn));
	txn = begin(env, MDB_RDONLY);
	mdb_dbi_close(env, gone);
	GIVES(MDB_BAD_DBI, mdb_get(txn, gone, &key, &data));
	mdb_txn_abort(txn);
	txn = begin(env, MDB_RDONLY);
	GIVES(EINVAL, mdb_get(txn, gone, &key, &data));
	mdb_txn_abort(txn);

	/* A child that drops a database and is undone has dropped nothing. */
	txn = begin(env, 0);
	gone = open_dbi(txn, "undone", MDB_CREATE | MDB_DUPSORT);
	put(txn, gone, "key", "value");
	OK(mdb_txn_begin(env, txn, 0, &child));
	OK(mdb_drop(child, gone, 1));
	mdb_txn_abort(child);
	gone = open_dbi(txn, "undone", 0);
	OK(mdb_stat(txn, gone, &stat));
	HOLDS(stat.ms_entries == 1);
	mdb_txn_abort(txn);

	/* A handle of the one is a number to the other. */
	other_txn = begin(other, 0);
	far = open_dbi(other_txn, "far", MDB_CREATE);
	GIVES(EINVAL, mdb_get(other_txn, far + 1, &key, &data));
	mdb_txn_abort(other_txn);
	mdb_env_close(other);
}

/* Transactions that are over, failed, blocked, or only read. */
static void transactions(void)
{
	MDB_txn *txn = begin(env, 0), *child, *second;
	MDB_val key = text("key"), data = text("data");
	MDB_cursor *cursor;
	MDB_stat stat;
	OK(mdb_txn_begin(env, txn, 0, &child));
	GIVES(MDB_BAD_TXN, mdb_put(txn, dbi, &key, &data, 0));
	GIVES(MDB_BAD_TXN, mdb_get(txn, dbi, &key, &data));
	GIVES(MDB_BAD_TXN, mdb_stat(txn, dbi, &stat));
	GIVES(MDB_BAD_TXN, mdb_cursor_open(txn, dbi, &cursor));
	GIVES(MDB_BAD_TXN, mdb_drop(txn, dbi, 0));
	GIVES(MDB_BAD_TXN, mdb_txn_begin(env, txn, 0, &second));
	GIVES(EINVAL, mdb_txn_renew(child));
	mdb_txn_reset(child);
	put(child, dbi, "key", "of the child");
	/* The parent ends, and its child with it. */
	mdb_txn_abort(txn);

	txn = begin(env, MDB_RDONLY);
	GIVES(EACCES, mdb_put(txn, dbi, &key, &data, 0));
	GIVES(EACCES, mdb_del(txn, dbi, &key, NULL));
	GIVES(EACCES, mdb_drop(txn, dbi, 0));
	GIVES(EACCES, mdb_dbi_open(txn, "new", MDB_CREATE, &(MDB_dbi){ 0 }));
	GIVES(EINVAL, mdb_txn_begin(env, txn, 0, &child));
	GIVES(EINVAL, mdb_txn_renew(txn));
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(EACCES, mdb_cursor_put(cursor, &key, &data, 0));
	GIVES(EACCES, mdb_cursor_del(cursor, 0));
	mdb_txn_reset(txn);
	mdb_txn_reset(txn);
	GIVES(MDB_BAD_TXN, mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
	OK(mdb_txn_renew(txn));
	OK(mdb_cursor_renew(txn, cursor));
	mdb_txn_abort(txn);
	GIVES(MDB_BAD_TXN, mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
	txn = begin(env, 0);
	/* It is a reader's cursor. */
	GIVES(EINVAL, mdb_cursor_renew(txn, cursor));
	mdb_cursor_close(cursor);
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(EINVAL, mdb_cursor_renew(txn, cursor));
	mdb_txn_abort(txn);
}

/* Sizes and flags that there are none of. */
static void sizes_and_flags(void)
{
	static char long_one[600];
	MDB_txn *txn = begin(env, 0);
	MDB_val key = text("key"), data = text("data"), large = bytes(long_one, sizeof long_one);
	MDB_val huge = bytes(long_one, (size_t)1 << 32);
	MDB_dbi out;
	unsigned flags;
	MDB_cursor *cursor;
	GIVES(MDB_BAD_VALSIZE, mdb_put(txn, dbi, &large, &data, 0));
	GIVES(MDB_NOTFOUND, mdb_get(txn, dbi, &large, &data));
	GIVES(MDB_NOTFOUND, mdb_del(txn, dbi, &large, NULL));
	GIVES(MDB_BAD_VALSIZE, mdb_put(txn, dups, &key, &large, 0));
	GIVES(MDB_BAD_VALSIZE, mdb_put(txn, dbi, &key, &huge, 0));
	GIVES(EINVAL, mdb_put(txn, dbi, &key, &data, MDB_CURRENT));
	GIVES(EINVAL, mdb_put(txn, dbi, &key, &data, MDB_MULTIPLE));
	GIVES(EINVAL, mdb_put(txn, dbi, &key, &data, 0x80000000));
	GIVES(EINVAL, mdb_dbi_open(txn, "flags", MDB_CREATE | 0x01, &out));
	GIVES(EINVAL, mdb_dbi_open(txn, "flags", MDB_CREATE | 0x80000, &out));
	GIVES(MDB_BAD_VALSIZE, mdb_dbi_open(txn, "", MDB_CREATE, &out));
	GIVES(MDB_NOTFOUND, mdb_dbi_open(txn, "flags", 0, &out));
	OK(mdb_cursor_open(txn, dbi, &cursor));
	GIVES(MDB_INCOMPATIBLE, mdb_cursor_put(cursor, &key, &data, MDB_MULTIPLE));
	GIVES(MDB_INCOMPATIBLE, mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH));
	GIVES(EINVAL, mdb_env_set_flags(env, MDB_WRITEMAP, 1));
	GIVES(EINVAL, mdb_env_set_flags(env, MDB_NOTLS, 0));
	OK(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOMETASYNC, 1));
	OK(mdb_env_get_flags(env, &flags));
	HOLDS(flags == (MDB_NOSYNC | MDB_NOMETASYNC));
	OK(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOMETASYNC, 0));
	mdb_txn_abort(txn);
}

/* Where a key may have several values none of them has no bytes, whichever way it is put. */
static void values_of_no_bytes(void)
{
	MDB_txn *txn = begin(env, 0);
	MDB_val key = text("key"), found, data, one = text("one"), nothing = bytes("", 0);
	MDB_cursor *cursor;
	put(txn, dups, "key", "one");
	OK(mdb_cursor_open(txn, dups, &cursor));
	GIVES(EINVAL, mdb_cursor_put(cursor, &key, &nothing, MDB_CURRENT));
	/* The only value, and then one of two. */
	for (mdb_size_t values = 1, count; values <= 2; values++) {
		found = key;
		OK(mdb_cursor_get(cursor, &found, &data, MDB_SET_KEY));
		GIVES(MDB_BAD_VALSIZE, mdb_cursor_put(cursor, &key, &nothing, MDB_CURRENT));
		GIVES(MDB_BAD_VALSIZE, mdb_cursor_put(cursor, &key, &nothing, 0));
		GIVES(MDB_BAD_VALSIZE, mdb_cursor_put(cursor, &key, &nothing, MDB_APPENDDUP));
		GIVES(MDB_BAD_VALSIZE, mdb_put(txn, dups, &key, &nothing, MDB_NODUPDATA));
		OK(mdb_cursor_get(cursor, &found, &data, MDB_GET_CURRENT));
		HOLDS(same(&data, &one));
		OK(mdb_cursor_count(cursor, &count));
		HOLDS(count == values);
		put(txn, dups, "key", "two");
	}
	mdb_txn_abort(txn);
}

/* Several values at once: none of them, some out of order, and of another size than those there. */
static void several_values(void)
{
	MDB_txn *txn = begin(env, 0);
	MDB_dbi fixed = open_dbi(txn, "fixed", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED);
	MDB_val key = text("key"), several[2] = { { 2, "aabbddcc" }, { 0, NULL } };
	MDB_val data, longer = text("ccc"), last = text("ee");
	MDB_cursor *cursor;
	mdb_size_t count;
	OK(mdb_cursor_open(txn, fixed, &cursor));
	OK(mdb_cursor_put(cursor, &key, several, MDB_MULTIPLE));
	HOLDS(several[1].mv_size == 0);
	GIVES(MDB_NOTFOUND, mdb_get(txn, fixed, &key, &data));
	/* What comes before the first that is refused is there, and counted. */
	several[1].mv_size = 4;
	GIVES(MDB_KEYEXIST, mdb_cursor_put(cursor, &key, several, MDB_MULTIPLE | MDB_APPENDDUP));
	HOLDS(several[1].mv_size == 3);
	OK(mdb_cursor_put(cursor, &key, &last, MDB_APPENDDUP));
	several[0] = bytes("fffggg", 3);
	several[1].mv_size = 2;
	GIVES(MDB_BAD_VALSIZE, mdb_cursor_put(cursor, &key, several, MDB_MULTIPLE));
	HOLDS(several[1].mv_size == 0);
	OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST));
	GIVES(MDB_BAD_VALSIZE, mdb_cursor_put(cursor, &key, &longer, MDB_CURRENT));
	OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
	HOLDS(same(&data, &last));
	OK(mdb_cursor_count(cursor, &count));
	HOLDS(count == 4);
	mdb_txn_abort(txn);
}

/* Opening what cannot be opened, and settings at the wrong time. */
static void opening(void)
{
	MDB_env *closed;
	MDB_txn *txn;
	MDB_stat stat;
	const char *path = "unset";
	int fd = 7;
	OK(mdb_env_create(&closed));
	GIVES(EINVAL, mdb_txn_begin(closed, NULL, 0, &txn));
	GIVES(EINVAL, mdb_env_stat(closed, &stat));
	GIVES(EINVAL, mdb_env_sync(closed, 1));
	GIVES(EINVAL, mdb_env_copy(closed, "."));
	GIVES(EINVAL, mdb_env_set_maxreaders(closed, 0));
	OK(mdb_env_get_path(closed, &path));
	HOLDS(path == NULL);
	OK(mdb_env_get_fd(closed, &fd));
	HOLDS(fd == -1);
	GIVES(EINVAL, mdb_env_open(closed, NULL, 0, 0644));
	GIVES(ENOENT, mdb_env_open(closed, "not there", 0, 0644));
	GIVES(EISDIR, mdb_env_open(closed, "other", MDB_RDONLY | MDB_NOSUBDIR, 0644));
	GIVES(EINVAL, mdb_env_open(closed, ".", 0x08, 0644));
	/* The commit before the newest one is not kept, and the text says what is left to do. */
	GIVES(EINVAL, mdb_env_open(closed, ".", MDB_PREVSNAPSHOT, 0644));
	HOLDS(strstr(mdb_last_error(), "hedgerow salvage") != NULL);
	mdb_env_close(closed);
	GIVES(EINVAL, mdb_env_open(env, ".", 0, 0644));
	GIVES(EINVAL, mdb_env_set_maxdbs(env, 5));
	GIVES(EINVAL, mdb_env_set_maxreaders(env, 5));
}

/* A file of LMDB, recognised by its first bytes, and others that are no store. */
static void foreign_files(void)
{
	static const struct { const char *name; uint32_t magic; int code; const char *says; } files[] = {
		{ "lmdb", 0xBEEFC0DE, MDB_INVALID, "hedgerow convert" },
		{ "text", 0x20656854, MDB_INVALID, "" },
	};
	for (size_t i = 0; i < LENGTH(files); i++) {
		/* The first page of a file of LMDB: a header of 16 bytes, then the magic and version 1. */
		uint32_t page[2048] = { 0 };
		char path[64], lock[64];
		page[2] = 8 << 16, page[4] = files[i].magic, page[5] = 1, page[1024 + 2] = 8 << 16;
		page[1024 + 4] = files[i].magic, page[1024 + 5] = 1;
		snprintf(path, sizeof path, "%s/data.mdb", folder(files[i].name));
		snprintf(lock, sizeof lock, "%s/lock.mdb", files[i].name);
		int fd = open(path, O_CREAT | O_WRONLY, 0644);
		HOLDS(write(fd, page, sizeof page) == sizeof page);
		close(fd);
		for (int how = 0; how < 3; how++) {
			static const unsigned flags[] = { 0, MDB_RDONLY, MDB_NOLOCK | MDB_WRITEMAP };
			MDB_env *foreign;
			OK(mdb_env_create(&foreign));
			GIVES(files[i].code, mdb_env_open(foreign, files[i].name, flags[how], 0644));
			HOLDS(strstr(mdb_last_error(), files[i].says) != NULL);
			HOLDS(strstr(mdb_last_error(), path) != NULL);
			mdb_env_close(foreign);
			/* Nothing was put beside it. */
			HOLDS(access(lock, F_OK) != 0);
		}
	}
}

static int by_last_byte(const MDB_val *a, const MDB_val *b)
{
	const unsigned char *x = a->mv_data, *y = b->mv_data;
	return (int)x[a->mv_size - 1] - (int)y[b->mv_size - 1];
}

/* An order in which nothing is before or behind anything for long. */
static int by_chance(const MDB_val *a, const MDB_val *b)
{
	static uint64_t state = 1;
	(void)a, (void)b;
	return (int)(chance(&state) % 3) - 1;
}

/* Functions of the program's that order by little, or at random: wrong answers, never more. */
static void comparators(void)
{
	static MDB_cmp_func *const functions[] = { by_last_byte, by_chance };
	for (size_t f = 0; f < LENGTH(functions); f++) {
		MDB_txn *txn = begin(env, 0);
		MDB_dbi ordered = open_dbi(txn, f ? "at random" : "last byte", MDB_CREATE | MDB_DUPSORT);
		MDB_cursor *cursor;
		MDB_val key, data;
		uint64_t seed = 5, count = 0;
		OK(mdb_set_compare(txn, ordered, functions[f]));
		OK(mdb_set_dupsort(txn, ordered, functions[f]));
		OK(mdb_cursor_open(txn, ordered, &cursor));
		for (int i = 0; i < 3000; i++) {
			char k[16], d[16];
			key = bytes(k, snprintf(k, sizeof k, "%u", chance(&seed) % 500));
			data = bytes(d, snprintf(d, sizeof d, "%u", chance(&seed)));
			switch (chance(&seed) % 4) {
			case 0:
				(void)mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
				(void)mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
				break;
			case 1:
				(void)mdb_del(txn, ordered, &key, chance(&seed) % 2 ? &data : NULL);
				break;
			default:
				(void)mdb_put(txn, ordered, &key, &data, 0);
			}
		}
		OK(mdb_count_all(txn, ordered, 0, &count));
		/* By its last byte a key is one of ten, and so is a value. */
		HOLDS(f || (count > 10 && count <= 100));
		mdb_txn_abort(txn);
	}
}

/* A key is read a moment after its transaction has ended, as Postfix does: with LMDB it stands in
 * the map, here in memory of the transaction. */
static void after_the_end(void)
{
	MDB_txn *txn = begin(env, 0);
	MDB_dbi many = open_dbi(txn, "many", MDB_CREATE);
	MDB_cursor *cursor;
	MDB_val key, data, first = text("what all keys begin with 000");
	for (int i = 0; i < 200; i++) {
		char name[64];
		snprintf(name, sizeof name, "what all keys begin with %03d", i);
		put(txn, many, name, "value");
	}
	OK(mdb_txn_commit(txn));
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		txn = begin(env, MDB_RDONLY);
		OK(mdb_cursor_open(txn, many, &cursor));
		OK(mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
		mdb_cursor_close(cursor);
		if (is_reset)
			mdb_txn_reset(txn);
		else
			mdb_txn_abort(txn);
		HOLDS(same(&key, &first));
		if (is_reset)
			mdb_txn_abort(txn);
	}
}

/* A cursor that was stepping through a leaf is stopped by whatever stops its transaction, and does
 * not go on in a snapshot that was let go. */
static void stopped_steps(void)
{
	MDB_txn *txn = begin(env, MDB_RDONLY);
	MDB_dbi many = open_dbi(txn, "many", 0);
	MDB_cursor *cursor;
	MDB_val key, data, tenth = text("what all keys begin with 009");
	MDB_val seventh = text("what all keys begin with 006");
	OK(mdb_cursor_open(txn, many, &cursor));
	for (int i = 0; i < 7; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	HOLDS(same(&key, &seventh));
	/* What other calls see is where the steps have led. */
	OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
	HOLDS(same(&key, &seventh));
	for (int i = 0; i < 3; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	for (int i = 0; i < 3; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV));
	HOLDS(same(&key, &seventh));
	for (int i = 0; i < 2; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	mdb_txn_reset(txn);
	GIVES(MDB_BAD_TXN, mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	OK(mdb_txn_renew(txn));
	/* It was not renewed: it goes on from where it stood in the other snapshot. */
	OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	HOLDS(same(&key, &tenth));
	OK(mdb_cursor_renew(txn, cursor));
	for (int i = 0; i < 7; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	HOLDS(same(&key, &seventh));
	OK(mdb_env_set_interrupt(env, 1));
	/* MDB_NEXT looks at the flag when it comes to another page. */
	int code;
	while (!(code = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		;
	HOLDS(code == EINTR);
	OK(mdb_env_set_interrupt(env, 0));
	GIVES(MDB_BAD_TXN, mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	mdb_txn_abort(txn);
	GIVES(MDB_BAD_TXN, mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	txn = begin(env, MDB_RDONLY);
	OK(mdb_cursor_renew(txn, cursor));
	for (int i = 0; i < 7; i++)
		OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
	HOLDS(same(&key, &seventh));
	/* A cursor may outlive its transaction, and one that knows its leaf, too. */
	mdb_txn_abort(txn);
	mdb_cursor_close(cursor);
}

/* A cursor that was closed with its write transaction may be closed once more, soon after. */
static void closed_twice(int keep)
{
	MDB_txn *txn = begin(env, 0), *child;
	MDB_cursor *cursors[8];
	MDB_val key, data;
	for (int i = 0; i < 8; i++) {
		if (i == 4)
			OK(mdb_txn_begin(env, txn, 0, &child));
		OK(mdb_cursor_open(i < 4 ? txn : child, dbi, &cursors[i]));
		OK(mdb_cursor_get(cursors[i], &key, &data, MDB_FIRST));
	}
	if (keep)
		OK(mdb_txn_commit(child));
	else
		mdb_txn_abort(child);
	mdb_cursor_close(cursors[7]);
	mdb_cursor_close(cursors[0]);
	if (keep)
		OK(mdb_txn_commit(txn));
	else
		mdb_txn_abort(txn);
	for (int i = 1; i < 7; i++) {
		GIVES(MDB_BAD_TXN, mdb_cursor_get(cursors[i], &key, &data, MDB_NEXT));
		mdb_cursor_close(cursors[i]);
	}
	/* Many more, of which the first are forgotten. */
	for (int i = 0; i < 200; i++) {
		txn = begin(env, 0);
		OK(mdb_cursor_open(txn, dbi, &cursors[0]));
		mdb_txn_abort(txn);
		mdb_cursor_close(cursors[0]);
	}
}

static void *other_thread(void *given)
{
	MDB_txn *txn = given, *own;
	MDB_val key = text("key"), data;
	/* A transaction of another thread's that rests meanwhile: LMDB does not notice either. */
	OK(mdb_get(txn, dbi, &key, &data));
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &own));
	mdb_txn_abort(own);
	return NULL;
}

static void threads(void)
{
	MDB_txn *txn = begin(env, MDB_RDONLY), *second;
	pthread_t thread;
	GIVES(MDB_BAD_RSLOT, mdb_txn_begin(env, NULL, MDB_RDONLY, &second));
	HOLDS(pthread_create(&thread, NULL, other_thread, txn) == 0);
	pthread_join(thread, NULL);
	mdb_txn_abort(txn);
}

int main(void)
{
	env = open_env(".", 0, 0);
	MDB_txn *txn = begin(env, 0);
	dbi = open_dbi(txn, "plain", MDB_CREATE);
	dups = open_dbi(txn, "dups", MDB_CREATE | MDB_DUPSORT);
	put(txn, dbi, "key", "value");
	OK(mdb_txn_commit(txn));
	nulls();
	handles();
	transactions();
	sizes_and_flags();
	values_of_no_bytes();
	several_values();
	opening();
	foreign_files();
	comparators();
	after_the_end();
	stopped_steps();
	closed_twice(0);
	closed_twice(1);
	threads();
	/* The store is what it was. */
	txn = begin(env, MDB_RDONLY);
	MDB_val key = text("key"), data, value = text("value");
	OK(mdb_get(txn, dbi, &key, &data));
	HOLDS(same(&data, &value));
	mdb_txn_abort(txn);
	mdb_env_close(env);
	puts("misuse is refused");
	return 0;
}
