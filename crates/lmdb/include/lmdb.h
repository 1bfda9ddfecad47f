/*
 * lmdb.h - LMDB's C interface (version 0.9.33) on Hedgerow, with DLMDB's calls.
 *
 * Programs written for LMDB compile with this header and run with this library, and programs that
 * were compiled with LMDB's own header run with it, too: names, values and layouts are the same.
 * The data files are Hedgerow's own; `hedgerow convert` makes them of LMDB's. What differs is
 * listed in docs/lmdb-compat.md.
 *
 * An environment is one data file; a database is a table of keys and values in it; a transaction
 * sees one state of all of them. One write transaction runs at a time, in one thread; read
 * transactions run beside it and beside each other.
 *
 * Functions return 0, a code below (negative), or a number of the system (positive: EINVAL, EACCES,
 * ENOMEM, EIO, ...). Keys and values that are handed out belong to the library and may only be
 * read: in a read transaction until it ends, in a write transaction until its next write. They
 * point into the file, and take no memory. Without MDB_PREFIX_COMPRESSION they stand at even
 * addresses, and at multiples of 8 where all keys and values of a database have such lengths.
 *
 * In a database that is created and opened with MDB_PREFIX_COMPRESSION what is handed out through a
 * cursor (keys, values of a key that has several, blocks of them) stays until the next call on that
 * cursor, and what is handed out without one until the next such call in the transaction, as in
 * DLMDB: they are put together in memory that is used again. Where such a database is opened without
 * the flag, the rule is LMDB's, at the price of copies that stay until the transaction ends.
 */
#ifndef _LMDB_H_
#define _LMDB_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef _MSC_VER
typedef int mdb_mode_t;
#else
typedef mode_t mdb_mode_t;
#endif

#ifdef _WIN32
typedef void *mdb_filehandle_t;
#else
typedef int mdb_filehandle_t;
#endif

/* A size; DLMDB's name for it. */
typedef size_t mdb_size_t;
#define MDB_SIZE_MAX SIZE_MAX

/* Formats of a size for printf and scanf: "%" MDB_PRIy(u), "%" MDB_SCNy(u), "%" MDB_FMT_Z "u". */
#ifdef _WIN32
#define MDB_FMT_Z "I"
#else
#define MDB_FMT_Z "z"
#endif
#define MDB_PRIy(t) MDB_FMT_Z #t
#define MDB_SCNy(t) MDB_FMT_Z #t

/* ---- version ----------------------------------------------------------------------------- */

#define MDB_VERSION_MAJOR 0
#define MDB_VERSION_MINOR 9
#define MDB_VERSION_PATCH 33
#define MDB_VERINT(a, b, c) (((a) << 24) | ((b) << 16) | (c))
#define MDB_VERSION_FULL MDB_VERINT(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH)
#define MDB_VERSION_DATE "May 21, 2024"
#define MDB_VERSTR(a, b, c, d) "LMDB " #a "." #b "." #c ": (" d ")"
#define MDB_VERFOO(a, b, c, d) MDB_VERSTR(a, b, c, d)
#define MDB_VERSION_STRING \
	MDB_VERFOO(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH, MDB_VERSION_DATE)

/* Present where the library is Hedgerow's. */
#define MDB_HEDGEROW 1

/* ---- types ------------------------------------------------------------------------------- */

typedef struct MDB_env MDB_env;       /* an environment */
typedef struct MDB_txn MDB_txn;       /* a transaction */
typedef unsigned int MDB_dbi;         /* a handle of a database */
typedef struct MDB_cursor MDB_cursor; /* a place in a database */

/* A key or a value. */
typedef struct MDB_val {
	size_t mv_size; /* bytes */
	void *mv_data;  /* where they stand */
} MDB_val;

/* Compares two keys or values: below, at or above 0. */
typedef int(MDB_cmp_func)(const MDB_val *a, const MDB_val *b);
/* Moves an entry of a fixed map; kept, never called. */
typedef void(MDB_rel_func)(MDB_val *item, void *oldptr, void *newptr, void *relctx);
/* Is told of a failed assertion; never called, since every failure is a code. */
typedef void MDB_assert_func(MDB_env *env, const char *msg);
/* Takes a line of text; below 0 stops. */
typedef int(MDB_msg_func)(const char *msg, void *ctx);

/* ---- flags of mdb_env_open ---------------------------------------------------------------- */

#define MDB_FIXEDMAP 0x01       /* accepted; addresses are not fixed */
#define MDB_NOSUBDIR 0x4000     /* the path is the data file; the lock file is path-lock */
#define MDB_NOSYNC 0x10000      /* commits are durable from mdb_env_sync or closing on */
#define MDB_RDONLY 0x20000      /* for reading only */
#define MDB_NOMETASYNC 0x40000  /* accepted; commits stay durable */
#define MDB_WRITEMAP 0x80000    /* a private map: what is written in place stays in the process */
#define MDB_MAPASYNC 0x100000   /* with MDB_WRITEMAP: flushed in the background */
#define MDB_NOTLS 0x200000      /* readers belong to transactions, not to threads */
#define MDB_NOLOCK 0x400000     /* no limit of readers; the store still locks for itself */
#define MDB_NORDAHEAD 0x800000  /* accepted */
#define MDB_NOMEMINIT 0x1000000 /* accepted; pages never hold foreign memory */
#define MDB_PREVSNAPSHOT 0x2000000 /* refused with EINVAL: the previous commit is not kept */

/* ---- flags of mdb_dbi_open ---------------------------------------------------------------- */

#define MDB_REVERSEKEY 0x02 /* keys compare from their ends */
#define MDB_DUPSORT 0x04    /* a key may have several values */
#define MDB_INTEGERKEY 0x08 /* keys are unsigned int or size_t, all the same */
#define MDB_DUPFIXED 0x10   /* with MDB_DUPSORT: values of one size */
#define MDB_INTEGERDUP 0x20 /* with MDB_DUPSORT: values are integers */
#define MDB_REVERSEDUP 0x40 /* with MDB_DUPSORT: values compare from their ends */
#define MDB_COUNTED 0x80    /* DLMDB's: kept; every database counts */
/* DLMDB's: keys, and the values of a key, share what they begin with; see above */
#define MDB_PREFIX_COMPRESSION 0x100
#define MDB_CREATE 0x40000  /* create the database if it is not there */

/* ---- flags of mdb_put and mdb_cursor_put --------------------------------------------------- */

#define MDB_NOOVERWRITE 0x10 /* refuse a key that is there, and tell its value */
#define MDB_NODUPDATA 0x20   /* refuse a pair that is there; mdb_cursor_del: all values */
#define MDB_CURRENT 0x40     /* replace where the cursor stands */
#define MDB_RESERVE 0x10000  /* make room only, and tell where */
#define MDB_APPEND 0x20000   /* the key comes after all others */
#define MDB_APPENDDUP 0x40000 /* the value comes after all others of its key */
#define MDB_MULTIPLE 0x80000 /* MDB_DUPFIXED: many values at once */

/* ---- flags of mdb_env_copy2 and of the counts ---------------------------------------------- */

#define MDB_CP_COMPACT 0x01         /* fill the copy anew, without free pages */
#define MDB_COUNT_LOWER_INCL 0x02   /* the lower bound itself counts */
#define MDB_COUNT_UPPER_INCL 0x04   /* the upper bound itself counts */

/* ---- operations of mdb_cursor_get ---------------------------------------------------------- */

typedef enum MDB_cursor_op {
	MDB_FIRST,          /* the first pair */
	MDB_FIRST_DUP,      /* the first value of this key (MDB_DUPSORT) */
	MDB_GET_BOTH,       /* this key with this value (MDB_DUPSORT) */
	MDB_GET_BOTH_RANGE, /* this key, its first value at or after this one (MDB_DUPSORT) */
	MDB_GET_CURRENT,    /* the pair where the cursor stands */
	MDB_GET_MULTIPLE,   /* a block of values (MDB_DUPFIXED) */
	MDB_LAST,           /* the last pair */
	MDB_LAST_DUP,       /* the last value of this key (MDB_DUPSORT) */
	MDB_NEXT,           /* the next pair */
	MDB_NEXT_DUP,       /* the next value of this key (MDB_DUPSORT) */
	MDB_NEXT_MULTIPLE,  /* the next block of values (MDB_DUPFIXED) */
	MDB_NEXT_NODUP,     /* the first value of the next key */
	MDB_PREV,           /* the previous pair */
	MDB_PREV_DUP,       /* the previous value of this key (MDB_DUPSORT) */
	MDB_PREV_NODUP,     /* the last value of the previous key */
	MDB_SET,            /* this key */
	MDB_SET_KEY,        /* this key, which is told, too */
	MDB_SET_RANGE,      /* the first key at or after this one */
	MDB_PREV_MULTIPLE   /* the previous block of values (MDB_DUPFIXED) */
} MDB_cursor_op;

/* ---- codes --------------------------------------------------------------------------------- */

#define MDB_SUCCESS 0
#define MDB_KEYEXIST (-30799)         /* the entry is there already */
#define MDB_NOTFOUND (-30798)         /* there is no such entry */
#define MDB_PAGE_NOTFOUND (-30797)    /* not used */
#define MDB_CORRUPTED (-30796)        /* a page is damaged */
#define MDB_PANIC (-30795)            /* a flush failed: close the environment and open it anew */
#define MDB_VERSION_MISMATCH (-30794) /* the file is of a later version */
#define MDB_INVALID (-30793)          /* the file is not a store; see mdb_last_error */
#define MDB_MAP_FULL (-30792)         /* the map size is reached */
#define MDB_DBS_FULL (-30791)         /* mdb_env_set_maxdbs is reached */
#define MDB_READERS_FULL (-30790)     /* mdb_env_set_maxreaders is reached */
#define MDB_TLS_FULL (-30789)         /* not used */
#define MDB_TXN_FULL (-30788)         /* not used: transactions have no limit */
#define MDB_CURSOR_FULL (-30787)      /* not used */
#define MDB_PAGE_FULL (-30786)        /* not used */
#define MDB_MAP_RESIZED (-30785)      /* others' map is larger: mdb_env_set_mapsize(env, 0) */
#define MDB_INCOMPATIBLE (-30784)     /* the call does not fit the database */
#define MDB_BAD_RSLOT (-30783)        /* the thread has a read transaction already */
#define MDB_BAD_TXN (-30782)          /* the transaction has failed, is over, or has a child */
#define MDB_BAD_VALSIZE (-30781)      /* a key, name or value of a wrong size */
#define MDB_BAD_DBI (-30780)          /* the handle was closed */
#define MDB_LAST_ERRCODE MDB_BAD_DBI
#define MDB_PROBLEM (-30779)          /* not used */

/* ---- reports ------------------------------------------------------------------------------- */

/* Pages and entries of a database. */
typedef struct MDB_stat {
	unsigned int ms_psize;    /* bytes of a page */
	unsigned int ms_depth;    /* levels */
	size_t ms_branch_pages;   /* pages of separators */
	size_t ms_leaf_pages;     /* pages of entries */
	size_t ms_overflow_pages; /* pages of long values */
	size_t ms_entries;        /* values */
} MDB_stat;

/* An environment. */
typedef struct MDB_envinfo {
	void *me_mapaddr;          /* NULL: addresses are not fixed */
	size_t me_mapsize;         /* how large the file may grow */
	size_t me_last_pgno;       /* the last page in use */
	size_t me_last_txnid;      /* the newest commit */
	unsigned int me_maxreaders; /* reader slots there may be */
	unsigned int me_numreaders; /* reader slots there were */
} MDB_envinfo;

/* ---- the library --------------------------------------------------------------------------- */

char *mdb_version(int *major, int *minor, int *patch);
char *mdb_strerror(int err);
/* Beyond LMDB: the newest failure in this thread in full, naming files and ways out. The text
 * stands until the next failure. */
const char *mdb_last_error(void);

/* ---- environments -------------------------------------------------------------------------- */

int mdb_env_create(MDB_env **env);
int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, mdb_mode_t mode);
int mdb_env_copy(MDB_env *env, const char *path);
int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd);
int mdb_env_copy2(MDB_env *env, const char *path, unsigned int flags);
int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned int flags);
int mdb_env_stat(MDB_env *env, MDB_stat *stat);
int mdb_env_info(MDB_env *env, MDB_envinfo *stat);
int mdb_env_sync(MDB_env *env, int force);
void mdb_env_close(MDB_env *env);
int mdb_env_set_flags(MDB_env *env, unsigned int flags, int onoff);
int mdb_env_get_flags(MDB_env *env, unsigned int *flags);
int mdb_env_get_path(MDB_env *env, const char **path);
int mdb_env_get_fd(MDB_env *env, mdb_filehandle_t *fd);
/* Where it is never called the file may grow without limit. */
int mdb_env_set_mapsize(MDB_env *env, size_t size);
int mdb_env_set_maxreaders(MDB_env *env, unsigned int readers);
int mdb_env_get_maxreaders(MDB_env *env, unsigned int *readers);
int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs);
int mdb_env_get_maxkeysize(MDB_env *env);
int mdb_env_set_userctx(MDB_env *env, void *ctx);
void *mdb_env_get_userctx(MDB_env *env);
int mdb_env_set_assert(MDB_env *env, MDB_assert_func *func);
int mdb_reader_list(MDB_env *env, MDB_msg_func *func, void *ctx);
int mdb_reader_check(MDB_env *env, int *dead);

/* ---- transactions -------------------------------------------------------------------------- */

int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **txn);
MDB_env *mdb_txn_env(MDB_txn *txn);
size_t mdb_txn_id(MDB_txn *txn);
int mdb_txn_commit(MDB_txn *txn);
void mdb_txn_abort(MDB_txn *txn);
void mdb_txn_reset(MDB_txn *txn);
int mdb_txn_renew(MDB_txn *txn);

/* ---- databases ----------------------------------------------------------------------------- */

#define mdb_open(txn, name, flags, dbi) mdb_dbi_open(txn, name, flags, dbi)
#define mdb_close(env, dbi) mdb_dbi_close(env, dbi)

int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned int flags, MDB_dbi *dbi);
int mdb_stat(MDB_txn *txn, MDB_dbi dbi, MDB_stat *stat);
int mdb_dbi_flags(MDB_txn *txn, MDB_dbi dbi, unsigned int *flags);
void mdb_dbi_close(MDB_env *env, MDB_dbi dbi);
int mdb_drop(MDB_txn *txn, MDB_dbi dbi, int del);
/* To be called before the first entry is put, and by every process before the first use. */
int mdb_set_compare(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp);
int mdb_set_dupsort(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp);
int mdb_set_relfunc(MDB_txn *txn, MDB_dbi dbi, MDB_rel_func *rel);
int mdb_set_relctx(MDB_txn *txn, MDB_dbi dbi, void *ctx);

/* ---- entries ------------------------------------------------------------------------------- */

int mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned int flags);
int mdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **cursor);
void mdb_cursor_close(MDB_cursor *cursor);
int mdb_cursor_renew(MDB_txn *txn, MDB_cursor *cursor);
MDB_txn *mdb_cursor_txn(MDB_cursor *cursor);
MDB_dbi mdb_cursor_dbi(MDB_cursor *cursor);
int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned int flags);
int mdb_cursor_del(MDB_cursor *cursor, unsigned int flags);
int mdb_cursor_count(MDB_cursor *cursor, size_t *countp);
int mdb_cmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b);
int mdb_dcmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b);

/* ---- DLMDB's calls, on every database ------------------------------------------------------- */

/* Values in a database. */
int mdb_count_all(MDB_txn *txn, MDB_dbi dbi, unsigned int flags, uint64_t *out);
/* Keys between two keys (NULL: no bound), of a database without duplicates. The bounds themselves
 * count where the flags say so. */
int mdb_count_range(MDB_txn *txn, MDB_dbi dbi, const MDB_val *low, const MDB_val *high,
	unsigned int flags, uint64_t *out);
/* As mdb_count_range, of any database: distinct keys. */
int mdb_range_count_keys(MDB_txn *txn, MDB_dbi dbi, const MDB_val *key_low,
	const MDB_val *key_high, unsigned int flags, uint64_t *out);
/* As mdb_count_range, of a database with duplicates: values. */
int mdb_range_count_values(MDB_txn *txn, MDB_dbi dbi, const MDB_val *key_low,
	const MDB_val *key_high, unsigned int key_flags, uint64_t *out);
/* The pair with `rank` pairs before it; key and data may be NULL. */
int mdb_get_rank(MDB_txn *txn, MDB_dbi dbi, uint64_t rank, MDB_val *key, MDB_val *data);
/* The same, and the cursor stands there. Flags must be 0. */
int mdb_cursor_get_rank(MDB_cursor *cursor, uint64_t rank, MDB_val *key, MDB_val *data,
	unsigned int flags);
/* How many pairs come before a pair, or before the first value of a key (data NULL). */
int mdb_get_key_rank(MDB_txn *txn, MDB_dbi dbi, const MDB_val *key, const MDB_val *data,
	uint64_t *rank);
/* The same; the cursor does not move. Flags must be 0. */
int mdb_cursor_key_rank(MDB_cursor *cursor, const MDB_val *key, const MDB_val *data,
	unsigned int flags, uint64_t *rank);
/* All values of the key where the cursor stands, however many. The list stands until the next call
 * of this function with that cursor. */
int mdb_cursor_list_dup(MDB_cursor *cursor, const MDB_val **values, mdb_size_t *countp);
/* Stops (and with 0 lets go on) the calls of the environment, in every thread: the next call of a
 * transaction answers EINTR, but MDB_NEXT may go on to the end of its page first. May be called in
 * a signal handler. */
int mdb_env_set_interrupt(MDB_env *env, int onoff);

#ifdef __cplusplus
}
#endif

#endif /* _LMDB_H_ */
