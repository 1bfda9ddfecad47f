/* Copies to folders, files and pipes, plain and compact, while others write, and a store that is
 * full: what is refused, what is left, and how it goes on. Run it in an empty folder. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>

enum { ENTRIES = 3000 };

static MDB_env *env;
static MDB_dbi named;

static void fill(void)
{
	MDB_txn *txn = begin(env, 0);
	MDB_dbi top = open_dbi(txn, NULL, 0);
	named = open_dbi(txn, "named", MDB_CREATE | MDB_DUPSORT | MDB_COUNTED);
	put(txn, top, "of the main database", "value");
	for (int i = 0; i < ENTRIES; i++) {
		char key[16], data[64];
		snprintf(key, sizeof key, "%d", i % 700);
		snprintf(data, sizeof data, "value %d of a key with several", i);
		put(txn, named, key, data);
	}
	MDB_val key = text("a long value"), data = { .mv_size = 300000 };
	OK(mdb_put(txn, top, &key, &data, MDB_RESERVE));
	memset(data.mv_data, 'l', data.mv_size);
	OK(mdb_txn_commit(txn));
	/* So that there are free pages between the others. */
	txn = begin(env, 0);
	for (int i = 0; i < ENTRIES; i += 2) {
		char room[64];
		MDB_val k = bytes(room, snprintf(room, sizeof room, "%d", i % 700));
		if (i % 700 >= 350)
			(void)mdb_del(txn, named, &k, NULL);
	}
	OK(mdb_txn_commit(txn));
}

/* All entries of all databases of an environment as one number. */
static uint64_t sum_of(MDB_env *of, size_t *count)
{
	MDB_txn *txn = begin(of, MDB_RDONLY);
	MDB_dbi dbis[] = { open_dbi(txn, "named", 0), open_dbi(txn, NULL, 0) };
	uint64_t sum = 14695981039346656037u;
	*count = 0;
	for (size_t i = 0; i < LENGTH(dbis); i++) {
		MDB_cursor *cursor;
		MDB_val pair[2];
		OK(mdb_cursor_open(txn, dbis[i], &cursor));
		while (!mdb_cursor_get(cursor, &pair[0], &pair[1], MDB_NEXT)) {
			++*count;
			for (int part = 0; part < 2; part++)
				for (size_t j = 0; j < pair[part].mv_size; j++)
					sum = (sum ^ ((unsigned char *)pair[part].mv_data)[j]) * 1099511628211u;
		}
		mdb_cursor_close(cursor);
	}
	OK(mdb_txn_commit(txn));
	return sum;
}

/* A copy is a store with the same entries, that takes more. */
static void check_copy(const char *path, unsigned flags, int is_compact)
{
	size_t wanted, found;
	struct stat original, copy;
	char data[512];
	uint64_t sum = sum_of(env, &wanted);
	MDB_env *of = open_env(path, flags, 0);
	HOLDS(sum_of(of, &found) == sum && found == wanted && wanted > 1000);
	snprintf(data, sizeof data, flags & MDB_NOSUBDIR ? "%s" : "%s/data.mdb", path);
	HOLDS(stat("original/data.mdb", &original) == 0 && stat(data, &copy) == 0);
	HOLDS(!is_compact || copy.st_size < original.st_size);
	MDB_txn *txn = begin(of, 0);
	put(txn, open_dbi(txn, "named", 0), "one more", "value");
	OK(mdb_txn_commit(txn));
	HOLDS(sum_of(of, &found) != sum && found == wanted + 1);
	mdb_env_close(of);
}

static void to_folders(void)
{
	OK(mdb_env_copy(env, folder("copy")));
	check_copy("copy", 0, 0);
	OK(mdb_env_copy2(env, folder("compact"), MDB_CP_COMPACT));
	check_copy("compact", 0, 1);
	OK(mdb_env_copy2(env, folder("plain"), 0));
	check_copy("plain", 0, 0);
	/* One that is there already, is left as it is; so is a folder that is not. */
	GIVES(EEXIST, mdb_env_copy(env, "copy"));
	GIVES(EEXIST, mdb_env_copy2(env, "compact", MDB_CP_COMPACT));
	GIVES(ENOENT, mdb_env_copy(env, "not there"));
	int fd = open("a file", O_CREAT | O_WRONLY, 0644);
	close(fd);
	GIVES(ENOTDIR, mdb_env_copy(env, "a file"));
	/* Of a file, a copy is a file. */
	MDB_env *single = open_env("copy/data.mdb", MDB_NOSUBDIR, 0);
	OK(mdb_env_copy(single, "single"));
	mdb_env_close(single);
	MDB_env *copied = open_env("single", MDB_NOSUBDIR | MDB_RDONLY, 0);
	size_t count;
	sum_of(copied, &count);
	mdb_env_close(copied);
	HOLDS(count > 1000);
}

static void *drain(void *fds)
{
	char room[65536];
	ssize_t n;
	while ((n = read(((int *)fds)[0], room, sizeof room)) > 0)
		HOLDS(write(((int *)fds)[1], room, n) == n);
	return NULL;
}

static int files_in(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;
	HOLDS(dir != NULL);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Into a pipe, from front to back; nothing is left beside the original. */
static void to_pipes(void)
{
	for (int compact = 0; compact < 2; compact++) {
		int ends[2], fds[2];
		pthread_t thread;
		char path[32];
		snprintf(path, sizeof path, "from a pipe %d", compact);
		HOLDS(pipe(ends) == 0);
		fds[0] = ends[0], fds[1] = open(path, O_CREAT | O_WRONLY, 0644);
		HOLDS(pthread_create(&thread, NULL, drain, fds) == 0);
		OK(mdb_env_copyfd2(env, ends[1], compact ? MDB_CP_COMPACT : 0));
		close(ends[1]);
		pthread_join(thread, NULL);
		close(ends[0]);
		close(fds[1]);
		check_copy(path, MDB_NOSUBDIR, compact);
		/* Nobody reads it. */
		HOLDS(pipe(ends) == 0);
		close(ends[0]);
		GIVES(EPIPE, mdb_env_copyfd2(env, ends[1], compact ? MDB_CP_COMPACT : 0));
		close(ends[1]);
		HOLDS(files_in("original") == 2);
	}
	int fd = open("by descriptor", O_CREAT | O_WRONLY, 0644);
	OK(mdb_env_copyfd(env, fd));
	close(fd);
	check_copy("by descriptor", MDB_NOSUBDIR, 0);
	fd = open("by descriptor", O_RDONLY);
	GIVES(EBADF, mdb_env_copyfd(env, fd));
	close(fd);
	/* The disk is full. */
	fd = open("/dev/full", O_WRONLY);
	if (fd >= 0) {
		GIVES(ENOSPC, mdb_env_copyfd(env, fd));
		GIVES(ENOSPC, mdb_env_copyfd2(env, fd, MDB_CP_COMPACT));
		close(fd);
	}
}

/* From a folder that may only be read, by who owns nothing in it. */
static void from_a_read_only_folder(void)
{
	OK(mdb_env_copy(env, folder("sealed")));
	HOLDS(chmod("sealed/data.mdb", 0444) == 0 && chmod("sealed", 0555) == 0);
	int fds[2] = { open("sealed copy 0", O_CREAT | O_WRONLY, 0644),
		open("sealed copy 1", O_CREAT | O_WRONLY, 0644) };
	pid_t child = fork();
	if (!child) {
		if (getuid() == 0)
			HOLDS(setgid(65534) == 0 && setuid(65534) == 0);
		MDB_env *of = open_env("sealed", MDB_RDONLY, 0);
		OK(mdb_env_copyfd(of, fds[0]));
		OK(mdb_env_copyfd2(of, fds[1], MDB_CP_COMPACT));
		mdb_env_close(of);
		_exit(0);
	}
	ends_well(child);
	HOLDS(chmod("sealed", 0755) == 0);
	close(fds[0]), close(fds[1]);
	check_copy("sealed copy 0", MDB_NOSUBDIR, 0);
	check_copy("sealed copy 1", MDB_NOSUBDIR, 1);
}

static volatile int stop;

static void *churn(void *unused)
{
	(void)unused;
	for (int i = 0; !stop; i++) {
		MDB_txn *txn = begin(env, 0);
		char room[32];
		for (int j = 0; j < 50; j++) {
			snprintf(room, sizeof room, "churn %d", (i * 50 + j) % 2000);
			put(txn, named, room, "value");
		}
		snprintf(room, sizeof room, "round %d", i);
		put(txn, named, "both", room);
		put(txn, named, "of them", room);
		OK(mdb_txn_commit(txn));
	}
	return NULL;
}

/* A copy is one state of the store, whatever is written meanwhile. */
static void while_others_write(void)
{
	pthread_t thread;
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	HOLDS(pthread_create(&thread, NULL, churn, NULL) == 0);
	for (int i = 0; i < 6; i++) {
		char path[32];
		snprintf(path, sizeof path, "busy %d", i);
		if (i % 3 == 2) {
			int fd = open(path, O_CREAT | O_WRONLY, 0644);
			OK(mdb_env_copyfd(env, fd));
			close(fd);
		} else {
			OK(mdb_env_copy2(env, folder(path), i % 3 ? MDB_CP_COMPACT : 0));
		}
		MDB_env *of = open_env(path, MDB_RDONLY | (i % 3 == 2 ? MDB_NOSUBDIR : 0), 0);
		MDB_txn *txn = begin(of, MDB_RDONLY);
		MDB_dbi dbi = open_dbi(txn, "named", 0);
		MDB_val a = text("both"), b = text("of them");
		uint64_t left = 0, right = 0;
		OK(mdb_range_count_values(txn, dbi, &a, &a, 6, &left));
		OK(mdb_range_count_values(txn, dbi, &b, &b, 6, &right));
		HOLDS(left == right);
		mdb_txn_abort(txn);
		mdb_env_close(of);
	}
	stop = 1;
	pthread_join(thread, NULL);
}

/* A full map: the put is refused and its transaction lost, the store is as before, it can be
 * emptied, and a larger map takes the put. */
static void full(void)
{
	MDB_env *small = open_env(folder("small"), 0, 256 << 10);
	MDB_txn *txn = begin(small, 0), *child;
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	MDB_stat stat;
	MDB_envinfo info;
	char room[900] = { 0 };
	MDB_val key, data = bytes(room, sizeof room);
	int code = 0, kept = 0, i = 0;
	OK(mdb_txn_commit(txn));
	for (; !code; i++) {
		HOLDS(i < 1000);
		txn = begin(small, 0);
		snprintf(room, sizeof room, "%d", i);
		key = text(room);
		code = mdb_put(txn, dbi, &key, &data, 0);
		/* In a map as small as this it may be the commit that is refused. */
		if (!code) {
			code = mdb_txn_commit(txn);
			kept += !code;
		} else {
			mdb_txn_abort(txn);
		}
	}
	HOLDS(code == MDB_MAP_FULL && kept > 100);
	txn = begin(small, 0);
	for (code = 0; !code; i++) {
		snprintf(room, sizeof room, "%d", i);
		key = text(room);
		code = mdb_put(txn, dbi, &key, &data, 0);
	}
	HOLDS(code == MDB_MAP_FULL);
	GIVES(MDB_BAD_TXN, mdb_get(txn, dbi, &key, &data));
	GIVES(MDB_BAD_TXN, mdb_put(txn, dbi, &key, &data, 0));
	GIVES(MDB_BAD_TXN, mdb_txn_begin(small, txn, 0, &child));
	GIVES(MDB_BAD_TXN, mdb_txn_commit(txn));
	txn = begin(small, 0);
	OK(mdb_stat(txn, dbi, &stat));
	HOLDS(stat.ms_entries == (size_t)kept);
	/* A child that fails takes its parent along. */
	OK(mdb_txn_begin(small, txn, 0, &child));
	data = bytes(room, sizeof room);
	for (code = 0; !code; kept++) {
		snprintf(room, sizeof room, "child %d", kept);
		key = text(room);
		code = mdb_put(child, dbi, &key, &data, 0);
	}
	HOLDS(code == MDB_MAP_FULL);
	GIVES(MDB_BAD_TXN, mdb_txn_commit(child));
	GIVES(MDB_BAD_TXN, mdb_txn_commit(txn));
	/* The map grows while the environment is open, but not in a transaction. */
	txn = begin(small, 0);
	GIVES(EINVAL, mdb_env_set_mapsize(small, 1 << 20));
	mdb_txn_abort(txn);
	OK(mdb_env_set_mapsize(small, 1 << 20));
	OK(mdb_env_info(small, &info));
	HOLDS(info.me_mapsize == 1 << 20);
	txn = begin(small, 0);
	key = text("after");
	OK(mdb_put(txn, dbi, &key, &data, 0));
	OK(mdb_txn_commit(txn));
	/* Emptied, it takes as much again. */
	txn = begin(small, 0);
	OK(mdb_drop(txn, dbi, 0));
	OK(mdb_txn_commit(txn));
	size_t last = 0;
	for (int round = 0; round < 5; round++) {
		txn = begin(small, 0);
		for (int i = 0; i < 200; i++) {
			snprintf(room, sizeof room, "%d", i);
			key = text(room);
			data = bytes(room, sizeof room);
			OK(mdb_put(txn, dbi, &key, &data, 0));
		}
		OK(mdb_txn_commit(txn));
		txn = begin(small, 0);
		OK(mdb_drop(txn, dbi, 0));
		OK(mdb_txn_commit(txn));
		OK(mdb_env_info(small, &info));
		HOLDS(round < 3 || info.me_last_pgno == last);
		last = info.me_last_pgno;
	}
	mdb_env_close(small);
}

/* A value of 64 MiB: its address costs no reading of it, and all of it is there. */
static void long_value(void)
{
	enum { LONG = 64 << 20 };
	MDB_env *of = open_env(folder("long"), MDB_NOSYNC, 0);
	MDB_txn *txn = begin(of, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	MDB_val key = text("long"), data = { .mv_size = LONG };
	OK(mdb_put(txn, dbi, &key, &data, MDB_RESERVE));
	for (size_t i = 0; i < LONG; i += 4096)
		memset((char *)data.mv_data + i, (int)(i >> 12) % 251, 4096);
	OK(mdb_txn_commit(txn));
	mdb_env_close(of);
	of = open_env("long", MDB_RDONLY, 0);
	txn = begin(of, MDB_RDONLY);
	OK(mdb_get(txn, dbi, &key, &data));
	HOLDS(data.mv_size == LONG);
	for (size_t i = 0; i < LONG; i += 4096)
		HOLDS(((unsigned char *)data.mv_data)[i + 17] == (i >> 12) % 251);
	mdb_txn_abort(txn);
	mdb_env_close(of);
}

/* Puts all keys, each in a transaction of its own, which the store must have room for. */
static void overwrite(MDB_env *small, MDB_dbi dbi, int first, int count)
{
	char room[400];
	memset(room, 'a' + first, sizeof room);
	for (int i = 0; i < count; i++) {
		MDB_val key = bytes(&i, sizeof i), data = bytes(room, sizeof room);
		MDB_txn *txn = begin(small, 0);
		OK(mdb_put(txn, dbi, &key, &data, 0));
		OK(mdb_txn_commit(txn));
	}
}

/* A store that is more than half full takes commits without a flush for ever: it does not keep what
 * the last flushed commit had where it needs the room. */
static void no_room_for_the_flushed(unsigned flags)
{
	enum { KEYS = 1500 };
	MDB_env *small = open_env(folder(flags & MDB_NOSYNC ? "lazy" : "async"), flags, 1 << 20);
	MDB_txn *txn = begin(small, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	OK(mdb_txn_commit(txn));
	overwrite(small, dbi, 0, KEYS);
	OK(mdb_env_sync(small, 1));
	MDB_envinfo info;
	OK(mdb_env_info(small, &info));
	HOLDS(info.me_last_pgno > 128 && info.me_mapsize < (1 << 20) + (1 << 17));
	for (int round = 1; round < 4; round++)
		overwrite(small, dbi, round, KEYS);
	mdb_env_close(small);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	alarm(300);
	HOLDS(chmod(".", 0755) == 0);
	env = open_env(folder("original"), 0, 0);
	fill();
	to_folders();
	to_pipes();
	from_a_read_only_folder();
	while_others_write();
	mdb_env_close(env);
	full();
	long_value();
	no_room_for_the_flushed(MDB_NOSYNC);
	no_room_for_the_flushed(MDB_WRITEMAP | MDB_MAPASYNC);
	puts("copies hold");
	return 0;
}
