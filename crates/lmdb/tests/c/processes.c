/* What happens between processes and threads: forks, kills, turns, many environments. Run it in an
 * empty folder. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define TIB ((size_t)1 << 40)

/* One byte from a child, or its end. */
static int hears(int fd)
{
	char byte;
	return read(fd, &byte, 1) == 1;
}

static void says(int fd)
{
	HOLDS(write(fd, "!", 1) == 1);
}

static uint64_t entries(MDB_env *env, MDB_dbi dbi)
{
	MDB_txn *txn = begin(env, MDB_RDONLY);
	MDB_stat stat;
	OK(mdb_stat(txn, dbi, &stat));
	mdb_txn_abort(txn);
	return stat.ms_entries;
}

/* The child of a fork uses the environment that its parent opened, which opens the file anew in it:
 * it reads, writes, and its parent sees what it wrote. A transaction of the parent's is not its. */
static void fork_with_an_environment(void)
{
	MDB_env *env = open_env(folder("fork"), 0, 1 << 24);
	MDB_txn *txn = begin(env, 0), *held;
	MDB_dbi dbi = open_dbi(txn, "named", MDB_CREATE);
	put(txn, dbi, "before", "1");
	OK(mdb_txn_commit(txn));
	MDB_txn *resting = begin(env, MDB_RDONLY);
	mdb_txn_reset(resting);
	held = begin(env, MDB_RDONLY);
	pid_t child = fork();
	if (!child) {
		/* A renewal that fails takes no slot. */
		int refused = mdb_txn_renew(resting);
		HOLDS(refused != 0 && refused != MDB_BAD_RSLOT);
		GIVES(refused, mdb_txn_renew(resting));
		MDB_val key = text("before"), data;
		int fd, dead = 7;
		HOLDS(chdir("/") == 0);
		/* Its thread reads anew, though it was in a transaction of its parent's. */
		txn = begin(env, MDB_RDONLY);
		OK(mdb_get(txn, dbi, &key, &data));
		mdb_txn_abort(txn);
		txn = begin(env, 0);
		put(txn, dbi, "in the child", "2");
		OK(mdb_txn_commit(txn));
		HOLDS(entries(env, dbi) == 2);
		OK(mdb_env_sync(env, 1));
		OK(mdb_env_get_fd(env, &fd));
		HOLDS(fcntl(fd, F_GETFL) >= 0);
		OK(mdb_reader_check(env, &dead));
		HOLDS(dead == 0);
		/* And its own child as well. */
		pid_t grandchild = fork();
		if (!grandchild) {
			txn = begin(env, 0);
			put(txn, dbi, "in the grandchild", "3");
			OK(mdb_txn_commit(txn));
			mdb_env_close(env);
			_exit(0);
		}
		ends_well(grandchild);
		HOLDS(entries(env, dbi) == 3);
		/* To end its parent's transaction, or to go on with it, is not to touch the parent's slot. */
		mdb_txn_abort(held);
		mdb_env_close(env);
		_exit(0);
	}
	ends_well(child);
	/* The parent's snapshot is as it was, also when much was written since. */
	MDB_stat stat;
	for (int i = 0; i < 100; i++) {
		char room[8];
		snprintf(room, sizeof room, "%d", i % 10);
		txn = begin(env, 0);
		put(txn, dbi, room, "v");
		OK(mdb_txn_commit(txn));
	}
	OK(mdb_stat(held, dbi, &stat));
	HOLDS(stat.ms_entries == 1);
	MDB_val key = text("before"), data;
	OK(mdb_get(held, dbi, &key, &data));
	mdb_txn_abort(held);
	mdb_txn_abort(resting);
	txn = begin(env, 0);
	for (int i = 0; i < 10; i++) {
		char room[8];
		snprintf(room, sizeof room, "%d", i);
		key = text(room);
		OK(mdb_del(txn, dbi, &key, NULL));
	}
	OK(mdb_txn_commit(txn));
	HOLDS(entries(env, dbi) == 3);
	/* A child that ends with an open transaction of its parent's leaves it alone. */
	txn = begin(env, 0);
	put(txn, dbi, "after", "4");
	child = fork();
	if (!child) {
		mdb_txn_abort(txn);
		mdb_env_close(env);
		_exit(0);
	}
	ends_well(child);
	put(txn, dbi, "behind", "5");
	OK(mdb_txn_commit(txn));
	HOLDS(entries(env, dbi) == 5);
	mdb_env_close(env);
}

/* A program opens its environment, then goes to the background: its parent ends. */
static void background(void)
{
	int ends[2];
	folder("background");
	HOLDS(pipe(ends) == 0);
	pid_t child = fork();
	if (!child) {
		MDB_env *env = open_env("background", 0, 0);
		MDB_dbi dbi = database(env, "named", MDB_CREATE);
		if (fork())
			_exit(0);
		HOLDS(setsid() > 0 && chdir("/") == 0);
		for (int i = 0; i < 20; i++) {
			char room[8];
			snprintf(room, sizeof room, "%d", i);
			MDB_txn *txn = begin(env, 0);
			put(txn, dbi, room, "v");
			OK(mdb_txn_commit(txn));
		}
		mdb_env_close(env);
		says(ends[1]);
		_exit(0);
	}
	ends_well(child);
	close(ends[1]);
	HOLDS(hears(ends[0]));
	close(ends[0]);
	MDB_env *env = open_env("background", MDB_RDONLY, 0);
	HOLDS(entries(env, database(env, "named", 0)) == 20);
	mdb_env_close(env);
}

/* A program leaves the folder that its path begins at before its first commit, or removes the one that
 * the files are in: they are open. */
static void folders_that_are_left(void)
{
	folder("left");
	folder("removed");
	pid_t child = fork();
	if (!child) {
		MDB_env *envs[] = { open_env("left", 0, 0), open_env("removed", 0, 0) };
		HOLDS(!unlink("removed/data.mdb") && !unlink("removed/lock.mdb") && !rmdir("removed"));
		HOLDS(!mkdir("removed", 0755));
		int elsewhere = open("removed/data.mdb", O_CREAT | O_RDWR, 0644);
		HOLDS(elsewhere >= 0 && chdir("/") == 0);
		for (size_t i = 0; i < 2 * LENGTH(envs); i++) {
			MDB_env *env = envs[i % LENGTH(envs)];
			MDB_txn *txn = begin(env, 0);
			MDB_dbi dbi = open_dbi(txn, NULL, 0);
			put(txn, dbi, i < 2 ? "first" : "second", "v");
			OK(mdb_txn_commit(txn));
			OK(mdb_env_sync(env, 1));
			HOLDS(entries(env, dbi) == i / 2 + 1);
			/* The descriptor is that of the file that is open, also where another one is at its path. */
			struct stat own, other;
			int fd;
			OK(mdb_env_get_fd(env, &fd));
			HOLDS(!fstat(fd, &own) && own.st_nlink == (i % 2 ? 0 : 1));
			HOLDS(!fstat(elsewhere, &other) && own.st_ino != other.st_ino);
		}
		_exit(0);
	}
	ends_well(child);
}

/* A writer is killed in the middle: the next one has its turn, and what was committed is there. */
static void killed_writer(void)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	folder("writer");
	for (int round = 0; round < 6; round++) {
		int ends[2];
		HOLDS(pipe(ends) == 0);
		pid_t child = fork();
		if (!child) {
			env = open_env("writer", round % 2 ? MDB_NOSYNC : 0, 0);
			txn = begin(env, 0);
			dbi = open_dbi(txn, "named", MDB_CREATE);
			char room[8];
			snprintf(room, sizeof room, "%d", round);
			put(txn, dbi, room, "committed");
			OK(mdb_txn_commit(txn));
			txn = begin(env, 0);
			MDB_val key = text("lost"), data = { .mv_size = 3 << 20 };
			OK(mdb_put(txn, dbi, &key, &data, MDB_RESERVE));
			says(ends[1]);
			pause();
		}
		close(ends[1]);
		HOLDS(hears(ends[0]));
		close(ends[0]);
		env = open_env("writer", 0, 0);
		if (round == 5) {
			/* While it lives its transaction is the only one. */
			HOLDS(entries(env, database(env, "named", 0)) == 6);
		}
		kill(child, SIGKILL);
		int status;
		HOLDS(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		txn = begin(env, 0);
		dbi = open_dbi(txn, "named", 0);
		MDB_val key = text("lost"), data;
		GIVES(MDB_NOTFOUND, mdb_get(txn, dbi, &key, &data));
		OK(mdb_txn_commit(txn));
		HOLDS(entries(env, dbi) == (uint64_t)round + 1);
		mdb_env_close(env);
	}
}

static int count_lines(const char *line, void *count)
{
	++*(int *)count;
	return strlen(line) > 0 ? 0 : -1;
}

/* A reader is killed: it is listed until mdb_reader_check takes its slot, and the pages that it held
 * are used again. */
static void killed_reader(void)
{
	MDB_env *env = open_env(folder("reader"), 0, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	put(txn, dbi, "key", "value");
	OK(mdb_txn_commit(txn));
	int ends[2], lines = 0, dead = 7;
	HOLDS(pipe(ends) == 0);
	pid_t child = fork();
	if (!child) {
		MDB_env *own = open_env("reader", 0, 0);
		(void)begin(own, MDB_RDONLY);
		says(ends[1]);
		pause();
	}
	close(ends[1]);
	HOLDS(hears(ends[0]));
	close(ends[0]);
	OK(mdb_reader_list(env, count_lines, &lines));
	HOLDS(lines == 2);
	OK(mdb_reader_check(env, &dead));
	HOLDS(dead == 0);
	kill(child, SIGKILL);
	HOLDS(waitpid(child, NULL, 0) == child);
	OK(mdb_reader_check(env, &dead));
	HOLDS(dead == 1);
	OK(mdb_reader_check(env, &dead));
	HOLDS(dead == 0);
	lines = 0;
	OK(mdb_reader_list(env, count_lines, &lines));
	HOLDS(lines == 1);
	MDB_envinfo info;
	size_t last = 0;
	for (int i = 0; i < 60; i++) {
		txn = begin(env, 0);
		put(txn, dbi, "key", i % 2 ? "one" : "two");
		OK(mdb_txn_commit(txn));
		OK(mdb_env_info(env, &info));
		HOLDS(i < 20 || info.me_last_pgno == last);
		last = info.me_last_pgno;
	}
	mdb_env_close(env);
}

/* Processes that write in turns: each adds one to a number in the store. */
static void turns(unsigned flags)
{
	enum { WRITERS = 4, EACH = 60 };
	char name[32];
	snprintf(name, sizeof name, "turns %x", flags);
	folder(name);
	MDB_env *env = open_env(name, flags, 0);
	MDB_txn *txn = begin(env, 0);
	MDB_dbi dbi = open_dbi(txn, NULL, 0);
	size_t number = 0;
	MDB_val key = text("number"), data = bytes(&number, sizeof number);
	OK(mdb_put(txn, dbi, &key, &data, 0));
	OK(mdb_txn_commit(txn));
	pid_t children[WRITERS];
	for (int w = 0; w < WRITERS; w++)
		if (!(children[w] = fork())) {
			MDB_env *own = open_env(name, flags, 0);
			for (int i = 0; i < EACH; i++) {
				txn = begin(own, 0);
				OK(mdb_get(txn, dbi, &key, &data));
				memcpy(&number, data.mv_data, sizeof number);
				number++;
				data = bytes(&number, sizeof number);
				OK(mdb_put(txn, dbi, &key, &data, 0));
				OK(mdb_txn_commit(txn));
			}
			mdb_env_close(own);
			_exit(0);
		}
	for (int w = 0; w < WRITERS; w++)
		ends_well(children[w]);
	txn = begin(env, MDB_RDONLY);
	OK(mdb_get(txn, dbi, &key, &data));
	memcpy(&number, data.mv_data, sizeof number);
	HOLDS(number == WRITERS * EACH);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Environments whose map sizes together are more than most machines have, all in use at once. */
static void many_environments(void)
{
	enum { MANY = 24 };
	MDB_env *all[MANY];
	MDB_txn *txns[MANY];
	MDB_dbi dbi;
	char name[32];
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "environment %d", i);
		all[i] = open_env(folder(name), 0, TIB);
		MDB_envinfo info;
		OK(mdb_env_info(all[i], &info));
		HOLDS(info.me_mapsize == TIB);
		txns[i] = begin(all[i], 0);
		dbi = open_dbi(txns[i], NULL, 0);
		put(txns[i], dbi, "name", name);
	}
	for (int i = MANY; i-- > 0;)
		OK(mdb_txn_commit(txns[i]));
	for (int i = 0; i < MANY; i++)
		txns[i] = begin(all[i], MDB_RDONLY);
	for (int i = 0; i < MANY; i++) {
		MDB_val key = text("name"), data;
		snprintf(name, sizeof name, "environment %d", i);
		OK(mdb_get(txns[i], dbi, &key, &data));
		HOLDS(data.mv_size == strlen(name) && !memcmp(data.mv_data, name, data.mv_size));
	}
	for (int i = 0; i < MANY; i++) {
		mdb_txn_abort(txns[i]);
		mdb_env_close(all[i]);
	}
}

static struct {
	MDB_env *env;
	MDB_dbi dbi;
	atomic_int stop;
} shared;

/* Two entries that are always changed together are the same in every snapshot. */
static void *reading_thread(void *unused)
{
	(void)unused;
	unsigned turns = 0;
	MDB_txn *txn = begin(shared.env, MDB_RDONLY);
	while (!shared.stop) {
		MDB_val key = text("left"), left, right;
		OK(mdb_get(txn, shared.dbi, &key, &left));
		key = text("right");
		OK(mdb_get(txn, shared.dbi, &key, &right));
		HOLDS(same(&left, &right));
		if (++turns % 2) {
			mdb_txn_reset(txn);
			OK(mdb_txn_renew(txn));
		} else {
			mdb_txn_abort(txn);
			txn = begin(shared.env, MDB_RDONLY);
		}
	}
	mdb_txn_abort(txn);
	return NULL;
}

static void *writing_thread(void *number)
{
	for (int i = 0; i < 100; i++) {
		MDB_txn *txn = begin(shared.env, 0);
		char room[32];
		snprintf(room, sizeof room, "%d of thread %d", i, *(int *)number);
		put(txn, shared.dbi, "left", room);
		put(txn, shared.dbi, "right", room);
		OK(mdb_txn_commit(txn));
	}
	return NULL;
}

/* A read transaction of MDB_NOTLS may be ended by another thread. */
static void *ending_thread(void *txn)
{
	mdb_txn_abort(txn);
	return NULL;
}

static void threads(unsigned flags)
{
	enum { READERS = 4, WRITERS = 3 };
	pthread_t readers[READERS], writers[WRITERS];
	int numbers[WRITERS];
	shared.env = open_env(folder(flags ? "threads, no TLS" : "threads"), flags | MDB_NOSYNC, 0);
	MDB_txn *txn = begin(shared.env, 0);
	shared.dbi = open_dbi(txn, NULL, 0);
	put(txn, shared.dbi, "left", "at first");
	put(txn, shared.dbi, "right", "at first");
	OK(mdb_txn_commit(txn));
	shared.stop = 0;
	for (int i = 0; i < READERS; i++)
		HOLDS(pthread_create(&readers[i], NULL, reading_thread, NULL) == 0);
	for (int i = 0; i < WRITERS; i++) {
		numbers[i] = i;
		HOLDS(pthread_create(&writers[i], NULL, writing_thread, &numbers[i]) == 0);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	shared.stop = 1;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	if (flags & MDB_NOTLS) {
		MDB_txn *second;
		pthread_t thread;
		txn = begin(shared.env, MDB_RDONLY);
		second = begin(shared.env, MDB_RDONLY);
		HOLDS(pthread_create(&thread, NULL, ending_thread, second) == 0);
		pthread_join(thread, NULL);
	} else {
		MDB_txn *second;
		txn = begin(shared.env, MDB_RDONLY);
		GIVES(MDB_BAD_RSLOT, mdb_txn_begin(shared.env, NULL, MDB_RDONLY, &second));
	}
	mdb_txn_abort(txn);
	mdb_env_close(shared.env);
}

/* MDB_NOLOCK has no limit of readers, and processes with it are kept apart all the same. */
static void no_lock(void)
{
	turns(MDB_NOLOCK);
	MDB_env *env;
	MDB_txn *all[300];
	OK(mdb_env_create(&env));
	OK(mdb_env_set_maxreaders(env, 2));
	OK(mdb_env_open(env, "turns 400000", MDB_NOLOCK | MDB_RDONLY, 0));
	for (size_t i = 0; i < LENGTH(all); i++)
		all[i] = begin(env, MDB_RDONLY);
	for (size_t i = 0; i < LENGTH(all); i++)
		mdb_txn_abort(all[i]);
	mdb_env_close(env);
	/* A folder that may not be written to: no lock file can be made, and none is needed. */
	HOLDS(unlink("turns 400000/lock.mdb") == 0);
	HOLDS(chmod("turns 400000", 0555) == 0 && chmod("turns 400000/data.mdb", 0444) == 0);
	pid_t child = fork();
	if (!child) {
		if (getuid() == 0)
			HOLDS(setgid(65534) == 0 && setuid(65534) == 0);
		for (int i = 0; i < 2; i++) {
			env = open_env("turns 400000", MDB_RDONLY | (i ? MDB_NOLOCK : 0), 0);
			MDB_txn *txn = begin(env, MDB_RDONLY);
			MDB_dbi dbi = open_dbi(txn, NULL, 0);
			MDB_val key = text("number"), data;
			OK(mdb_get(txn, dbi, &key, &data));
			mdb_txn_abort(txn);
			mdb_env_close(env);
		}
		HOLDS(access("turns 400000/lock.mdb", F_OK) != 0);
		_exit(0);
	}
	ends_well(child);
	HOLDS(chmod("turns 400000", 0755) == 0);
}

/* One that may not write the lock file is told that a writing process has the store open. */
static void no_rights(void)
{
	if (getuid() != 0)
		return;
	MDB_env *env = open_env(folder("rights"), 0, 0), *guest;
	MDB_txn *txn = begin(env, 0);
	put(txn, open_dbi(txn, NULL, 0), "key", "value");
	OK(mdb_txn_commit(txn));
	HOLDS(chmod("rights", 0755) == 0 && chmod("rights/data.mdb", 0644) == 0);
	HOLDS(chmod("rights/lock.mdb", 0644) == 0);
	pid_t child = fork();
	if (!child) {
		HOLDS(setgid(65534) == 0 && setuid(65534) == 0);
		for (int i = 0; i < 2; i++) {
			OK(mdb_env_create(&guest));
			GIVES(EBUSY, mdb_env_open(guest, "rights", MDB_RDONLY | (i ? MDB_NOLOCK : 0), 0));
			HOLDS(strstr(mdb_last_error(), "has the store open") != NULL);
			mdb_env_close(guest);
		}
		_exit(0);
	}
	ends_well(child);
	mdb_env_close(env);
}

int main(void)
{
	/* A lock that is never given back ends the test. */
	alarm(300);
	HOLDS(chmod(".", 0755) == 0);
	fork_with_an_environment();
	background();
	folders_that_are_left();
	killed_writer();
	killed_reader();
	turns(0);
	turns(MDB_NOSYNC);
	turns(MDB_WRITEMAP | MDB_MAPASYNC);
	many_environments();
	threads(0);
	threads(MDB_NOTLS);
	no_lock();
	no_rights();
	puts("processes hold");
	return 0;
}
