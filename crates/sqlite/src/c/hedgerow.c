/*
** SQLite's b-tree over stores of Hedgerow.
**
** This file is included into SQLite's source after its b-tree, whose functions that stand here and
** in the files included below have got names with "native_" in front. Each of these is for both
** kinds of b-tree: it calls the native one for a file of SQLite's, and a function of src/ffi.rs for
** a store.
**
** The b-tree of a store is a Btree with a BtShared of its own, so that everything in SQLite's b-tree
** that looks only at the list of cursors and at states (saving and tripping cursors, incremental
** blobs, schemas) serves both kinds. Its pager is that of an empty database in memory: it answers
** what SQLite asks a pager about caches and files.
*/
#include "store.h"

/* In BtShared.btsFlags: this is the b-tree of a store. */
#define BTS_STORE 0x8000
/* In BtCursor.curFlags: likewise. */
#define BTCF_Store 0x80

/* A row on its way from one cursor to another. */
typedef struct HgTransfer HgTransfer;
struct HgTransfer {
  BtCursor *dest;          /* the cursor that it is for, or null */
  i64 rowid;
  u8 *data;
  u32 len;
  u32 room;                /* bytes that data has room for, less a margin */
};

/* What programs ask a file by sqlite3_file_control() and set there. */
typedef struct HgFile HgFile;
struct HgFile {
  dev_t dev;               /* which file the name stood for when it was opened */
  ino_t ino;
  int persistWal;          /* what was set, which has no effect on a store */
  int powersafe;
};

/* The b-tree of a store. */
typedef struct HgBtree HgBtree;
struct HgBtree {
  Btree base;              /* must come first */
  BtShared shared;         /* what base.pBt points to */
  HgConn *conn;            /* the connection to the store */
  Btree *memory;           /* the empty database in memory whose pager is lent */
  char *filename;          /* as sqlite3_create_filename() makes it */
  HgFile file;
  HgTransfer transfer;     /* a row that comes from it or goes into it */
  u8 exclusive;            /* what PRAGMA locking_mode says */
  u8 isNew;                /* it has committed, and the hook of the log was not told */
  int nCommit;             /* commits since its last checkpoint */
  UnpackedRecord *unpacked;/* room for a record that is looked for */
  KeyInfo *unpackedInfo;   /* whose columns it has */
};

/* For what is called for every row. */
#if defined(__GNUC__)
# define HG_INLINE inline __attribute__((always_inline))
#else
# define HG_INLINE
#endif
/* For what a function does with a store, so that a cursor of SQLite's, of which it asks only what
** it is of, does not pay for it. */
#if defined(__GNUC__)
# define HG_NOINLINE __attribute__((noinline))
#else
# define HG_NOINLINE
#endif

/* The most rows that a cursor goes ahead (AHEAD in cursor.rs). */
#define HG_AHEAD 128

/* A cursor of either kind. */
typedef struct HgCursor HgCursor;
struct HgCursor {
  BtCursor base;           /* must come first */
  HgPosition *position;    /* of a store: the cursor of the engine */
  const HgRow *row;        /* of a store: the entry that it is on, while it is valid; its own row or
                           ** one of those ahead */
  HgRow own;
  u8 isLast;               /* while it is valid: it is on the last entry */
  u8 isStale;              /* while it is valid: the row is not that of the entry, which was put
                           ** since, but for its number */
  u8 isKnown;              /* of an index: hgKnowTree() has looked what it is */
  u8 nAhead;               /* rows that the engine's cursor has gone ahead */
  u8 nMost;                /* how many were asked for the last time; 0 after any other move */
  u8 isBack;               /* it has gone backwards */
  u8 isDoomed;             /* of an index: the entry that the engine's cursor is on was deleted, and
                           ** stays until another one takes its place */
  const HgRow *ahead;      /* the next one of them */
  const HgRow *aAhead;     /* where they stand, beside the engine's cursor */
};

#define isStore(P)        (((P)->pBt->btsFlags & BTS_STORE)!=0)
#define isStoreCursor(C)  (((C)->curFlags & BTCF_Store)!=0)
#define storeOf(P)        ((HgBtree*)(P))
#define connOf(C)         (storeOf((C)->pBtree)->conn)
#define cursorOf(C)       ((HgCursor*)(C))

/* The store that holds the row which sqlite3BtreeTransferRow() has read and the call of
** sqlite3BtreeInsert() after it will put. */
static __thread HgBtree *hgTransferring;

#include "open.c"          /* which engine a file has; opening, closing */
#include "transactions.c"  /* settings, transactions, trees and numbers */
#include "cursors.c"       /* cursors, and moving them */
#include "sums.c"          /* checksums of rows: verifying, and what a mismatch says */
#include "entries.c"       /* reading and writing where a cursor is; integrity_check */
#include "copy.c"          /* backup, serialize, VACUUM */
#include "pragmas.c"       /* PRAGMA engine and row_checksum */
#include "controls.c"      /* what a store answers in place of a file */
#include "count.c"         /* counting and skipping by the counters */
#include "programs.c"      /* what is looked for in programs */
#include "ranks.c"         /* functions of counts and ranks */
#include "hidden.c"        /* the column row_checksum */
#include "pager.c"         /* what SQLite asks a pager */
