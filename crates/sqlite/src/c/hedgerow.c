/*
** SQLite's b-tree over stores of Hedgerow.
**
** This file is included into SQLite's source after its b-tree, whose functions that stand here have
** got names with "native_" in front. Each function here is for both kinds of b-tree: it calls the
** native one for a file of SQLite's, and a function of src/ffi.rs for a store.
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

/* The b-tree of a store. */
typedef struct HgBtree HgBtree;
struct HgBtree {
  Btree base;              /* must come first */
  BtShared shared;         /* what base.pBt points to */
  HgConn *conn;            /* the connection to the store */
  Btree *memory;           /* the empty database in memory whose pager is lent */
  char *filename;          /* as sqlite3_create_filename() makes it */
  HgTransfer transfer;     /* a row that comes from it or goes into it */
  u8 exclusive;            /* what PRAGMA locking_mode says */
  UnpackedRecord *unpacked;/* room for a record that is looked for */
  KeyInfo *unpackedInfo;   /* whose columns it has */
};

/* The most rows that a cursor goes ahead. */
#define HG_AHEAD 32

/* A cursor of either kind. */
typedef struct HgCursor HgCursor;
struct HgCursor {
  BtCursor base;           /* must come first */
  HgPosition *position;    /* of a store: the cursor of the engine */
  HgRow row;               /* of a store: the entry that it is on, while it is valid */
  u8 isLast;               /* while it is valid: it is on the last entry */
  u8 isStale;              /* while it is valid: the row is not that of the entry, which was put
                           ** since, but for its number */
  u8 nAhead;               /* rows that the engine's cursor has gone ahead */
  u8 atAhead;              /* the next one of them */
  HgRow aAhead[HG_AHEAD];  /* those rows */
};

#define isStore(P)        (((P)->pBt->btsFlags & BTS_STORE)!=0)
#define isStoreCursor(C)  (((C)->curFlags & BTCF_Store)!=0)
#define storeOf(P)        ((HgBtree*)(P))
#define connOf(C)         (storeOf((C)->pBtree)->conn)
#define cursorOf(C)       ((HgCursor*)(C))

/* The store that holds the row which sqlite3BtreeTransferRow() has read and the call of
** sqlite3BtreeInsert() after it will put. */
static __thread HgBtree *hgTransferring;

/*
** Which engine a file is for.
*/
#define HG_ENGINE_NONE    0   /* nobody has said */
#define HG_ENGINE_NATIVE  1
#define HG_ENGINE_STORE   2
#define HG_ENGINE_UNKNOWN 3

static int hgEngineByName(const char *zName){
  if( zName==0 || zName[0]==0 ) return HG_ENGINE_NONE;
  if( sqlite3_stricmp(zName, "hedgerow")==0 ) return HG_ENGINE_STORE;
  if( sqlite3_stricmp(zName, "sqlite")==0 ) return HG_ENGINE_NATIVE;
  return HG_ENGINE_UNKNOWN;
}

/*
** Says of a file that SQLite opens as a database which kind of b-tree it gets: an existing file that
** of what it is, a new one that of its URI's parameter "engine" or of the environment variable
** HEDGEROW_SQLITE_ENGINE.
*/
static int hgChoose(
  sqlite3_vfs *pVfs,
  const char *zFilename,
  const char *zPath,
  int vfsFlags,
  int *pChoice
){
  const char *zName = sqlite3_uri_parameter(zFilename, "engine");
  int asked = hgEngineByName(zName);
  int kind = hg_kind(zPath);
  if( asked==HG_ENGINE_UNKNOWN ) return SQLITE_CANTOPEN;
  if( kind==0 && asked==HG_ENGINE_NONE ){
    asked = hgEngineByName(getenv("HEDGEROW_SQLITE_ENGINE"));
    if( asked==HG_ENGINE_UNKNOWN ) return SQLITE_CANTOPEN;
  }
  if( kind==0 ){
    *pChoice = asked==HG_ENGINE_STORE && (vfsFlags & SQLITE_OPEN_CREATE)!=0;
  }else{
    *pChoice = kind==2;
  }
  return SQLITE_OK;
}

/* Whether a file may be a store: a database of a name, on the system's own file system. */
static int hgMayBeStore(sqlite3_vfs *pVfs, const char *zFilename, int flags, int vfsFlags){
  return zFilename!=0 && zFilename[0]!=0 && strcmp(zFilename, ":memory:")!=0
      && (vfsFlags & SQLITE_OPEN_MEMORY)==0
      && (vfsFlags & SQLITE_OPEN_MAIN_DB)!=0
      && (flags & (BTREE_MEMORY|BTREE_SINGLE))==0
      && strncmp(pVfs->zName, "unix", 4)==0;
}

/* A copy of a database's name with the parameters of its URI. */
static char *hgFilename(const char *zFilename, const char *zPath){
  const char *azParam[64];
  int n = 0;
  const char *zKey;
  while( n<31 && (zKey = sqlite3_uri_key(zFilename, n))!=0 ){
    azParam[2*n] = zKey;
    azParam[2*n+1] = sqlite3_uri_parameter(zFilename, zKey);
    n++;
  }
  return (char*)sqlite3_create_filename(zPath, "", "", n, azParam);
}

/* Marks the lent pager of a store. */
static int hgPagerMark(void *pArg){
  UNUSED_PARAMETER(pArg);
  return 0;
}

static void hgFree(HgBtree *p){
  if( p->conn ) hg_close(p->conn);
  if( p->memory ) native_sqlite3BtreeClose(p->memory);
  if( p->filename ) sqlite3_free_filename(p->filename);
  if( hgTransferring==p ) hgTransferring = 0;
  sqlite3_free(p->transfer.data);
  sqlite3DbFree(p->base.db, p->unpacked);
  if( p->unpackedInfo ) sqlite3KeyInfoUnref(p->unpackedInfo);
  sqlite3_free(p);
}

/* Opens a store. */
static int hgOpen(
  sqlite3_vfs *pVfs,
  const char *zFilename,
  const char *zPath,
  sqlite3 *db,
  Btree **ppBtree,
  int vfsFlags
){
  int rc;
  int mode;
  HgBtree *p = sqlite3MallocZero(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM_BKPT;
  p->base.db = db;
  p->base.pBt = &p->shared;
  p->shared.db = db;
  p->shared.btsFlags = BTS_STORE | BTS_PAGESIZE_FIXED;
  p->shared.nRef = 1;
  mode = (vfsFlags & SQLITE_OPEN_READWRITE)==0 ? 0 : (vfsFlags & SQLITE_OPEN_CREATE)!=0 ? 2 : 1;
  rc = hg_open(zPath, mode, &p->conn);
  if( rc==SQLITE_CANTOPEN && mode!=0 ){
    /* As SQLite does where it may not write. */
    mode = 0;
    if( hg_open(zPath, mode, &p->conn)==SQLITE_OK ) rc = SQLITE_OK;
  }
  if( rc==SQLITE_OK ){
    if( mode==0 ) p->shared.btsFlags |= BTS_READ_ONLY;
    p->shared.pageSize = p->shared.usableSize = hg_page_size(p->conn);
    p->filename = hgFilename(zFilename, zPath);
    if( p->filename==0 ) rc = SQLITE_NOMEM_BKPT;
  }
  if( rc==SQLITE_OK ){
    int memory = (vfsFlags & ~SQLITE_OPEN_MAIN_DB) | SQLITE_OPEN_TEMP_DB;
    rc = native_sqlite3BtreeOpen(pVfs, ":memory:", db, &p->memory, BTREE_MEMORY, memory);
  }
  if( rc!=SQLITE_OK ){
    hgFree(p);
    *ppBtree = 0;
    return rc;
  }
  p->shared.pPager = p->memory->pBt->pPager;
  sqlite3PagerSetBusyHandler(p->shared.pPager, hgPagerMark, p);
  *ppBtree = &p->base;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeOpen(
  sqlite3_vfs *pVfs,
  const char *zFilename,
  sqlite3 *db,
  Btree **ppBtree,
  int flags,
  int vfsFlags
){
  if( hgMayBeStore(pVfs, zFilename, flags, vfsFlags) ){
    int n = pVfs->mxPathname + 1;
    char *zPath = sqlite3MallocZero(n);
    int isAStore = 0;
    int rc;
    if( zPath==0 ) return SQLITE_NOMEM_BKPT;
    rc = sqlite3OsFullPathname(pVfs, zFilename, n, zPath);
    if( rc==SQLITE_OK_SYMLINK ) rc = (vfsFlags & SQLITE_OPEN_NOFOLLOW) ? SQLITE_CANTOPEN_SYMLINK
                                                                       : SQLITE_OK;
    if( rc==SQLITE_OK ) rc = hgChoose(pVfs, zFilename, zPath, vfsFlags, &isAStore);
    if( rc==SQLITE_OK && isAStore ){
      rc = hgOpen(pVfs, zFilename, zPath, db, ppBtree, vfsFlags);
    }
    sqlite3_free(zPath);
    if( rc!=SQLITE_OK || isAStore ){
      if( rc!=SQLITE_OK ) *ppBtree = 0;
      return rc;
    }
  }
  return native_sqlite3BtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
}

SQLITE_PRIVATE int sqlite3BtreeClose(Btree *p){
  BtShared *pBt = p->pBt;
  if( !isStore(p) ) return native_sqlite3BtreeClose(p);
  sqlite3BtreeRollback(p, SQLITE_OK, 0);
  if( pBt->xFreeSchema && pBt->pSchema ) pBt->xFreeSchema(pBt->pSchema);
  sqlite3DbFree(0, pBt->pSchema);
  hgFree(storeOf(p));
  return SQLITE_OK;
}

/*
** Settings.
*/
SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned pgFlags){
  if( !isStore(p) ) return native_sqlite3BtreeSetPagerFlags(p, pgFlags);
  return hg_set_synchronous(storeOf(p)->conn, pgFlags & PAGER_SYNCHRONOUS_MASK);
}

SQLITE_PRIVATE int sqlite3BtreeSetPageSize(Btree *p, int pageSize, int nReserve, int iFix){
  if( !isStore(p) ) return native_sqlite3BtreeSetPageSize(p, pageSize, nReserve, iFix);
  return SQLITE_OK;
}

/* A store gives free pages back with VACUUM only; what is asked for is kept all the same, so that
** it is there in a copy. */
SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int autoVacuum){
  if( !isStore(p) ) return native_sqlite3BtreeSetAutoVacuum(p, autoVacuum);
  if( hg_page_count(storeOf(p)->conn)>0 && (autoVacuum!=0)!=p->pBt->autoVacuum ){
    return SQLITE_READONLY;
  }
  p->pBt->autoVacuum = autoVacuum!=0;
  p->pBt->incrVacuum = autoVacuum==2;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeGetAutoVacuum(Btree *p){
  HgConn *conn;
  if( !isStore(p) ) return native_sqlite3BtreeGetAutoVacuum(p);
  conn = storeOf(p)->conn;
  if( p->inTrans!=TRANS_NONE && hg_page_count(conn)>0 ){
    p->pBt->autoVacuum = hg_number(conn, BTREE_LARGEST_ROOT_PAGE)!=0;
    p->pBt->incrVacuum = hg_number(conn, BTREE_INCR_VACUUM)!=0;
  }
  return p->pBt->autoVacuum ? 1 + p->pBt->incrVacuum : 0;
}

SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  if( !isStore(p) ) return native_sqlite3BtreeLastPage(p);
  return hg_page_count(storeOf(p)->conn);
}

SQLITE_PRIVATE int sqlite3BtreeSetVersion(Btree *p, int iVersion){
  if( !isStore(p) ) return native_sqlite3BtreeSetVersion(p, iVersion);
  return SQLITE_OK;
}

SQLITE_PRIVATE const char *sqlite3BtreeGetFilename(Btree *p){
  if( !isStore(p) ) return native_sqlite3BtreeGetFilename(p);
  return storeOf(p)->filename;
}

SQLITE_PRIVATE const char *sqlite3BtreeGetJournalname(Btree *p){
  if( !isStore(p) ) return native_sqlite3BtreeGetJournalname(p);
  return "";
}

SQLITE_PRIVATE int sqlite3BtreeCheckpoint(Btree *p, int eMode, int *pnLog, int *pnCkpt){
  if( p==0 || !isStore(p) ) return native_sqlite3BtreeCheckpoint(p, eMode, pnLog, pnCkpt);
  if( p->inTrans!=TRANS_NONE ) return SQLITE_LOCKED;
  if( pnLog ) *pnLog = 0;
  if( pnCkpt ) *pnCkpt = 0;
  return hg_sync(storeOf(p)->conn);
}

SQLITE_PRIVATE int sqlite3BtreeIncrVacuum(Btree *p){
  if( !isStore(p) ) return native_sqlite3BtreeIncrVacuum(p);
  return SQLITE_DONE;
}

/*
** Transactions.
*/
static void hgSetState(Btree *p, u8 state){
  p->inTrans = state;
  p->pBt->inTransaction = state;
}

/* Saves all cursors that are on an entry: another snapshot or other pages are about to come. */
static int hgSaveAll(Btree *p){
  return saveAllCursors(p->pBt, 0, 0);
}

/* Begins a transaction of a store from none, or to write from one that reads. */
static int hgBegin(Btree *p, int wrflag){
  HgConn *conn = storeOf(p)->conn;
  int rc;
  if( wrflag && (p->pBt->btsFlags & BTS_READ_ONLY)!=0 ) return SQLITE_READONLY;
  if( p->inTrans==TRANS_READ ){
    rc = hgSaveAll(p);
    if( rc==SQLITE_OK ) rc = hg_begin_write(conn);
    if( rc==SQLITE_OK ) hgSetState(p, TRANS_WRITE);
    return rc;
  }
  do{
    rc = wrflag ? hg_begin_write(conn) : hg_begin_read(conn);
  }while( rc==SQLITE_BUSY && btreeInvokeBusyHandler(p->pBt) );
  if( rc==SQLITE_OK ) hgSetState(p, wrflag ? TRANS_WRITE : TRANS_READ);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeBeginTrans(Btree *p, int wrflag, int *pSchemaVersion){
  int rc = SQLITE_OK;
  if( !isStore(p) ) return native_sqlite3BtreeBeginTrans(p, wrflag, pSchemaVersion);
  if( p->inTrans==TRANS_NONE || (p->inTrans==TRANS_READ && wrflag) ){
    rc = hgBegin(p, wrflag);
  }
  if( rc==SQLITE_OK ){
    if( pSchemaVersion ) *pSchemaVersion = (int)hg_schema_version(storeOf(p)->conn);
    if( wrflag ) rc = hg_open_savepoints(storeOf(p)->conn, p->db->nSavepoint);
  }
  return rc;
}

/* Whether other statements go on to read after the transaction. */
static int hgGoesOn(Btree *p){
  return p->db->nVdbeRead>1;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  int rc;
  if( !isStore(p) ) return native_sqlite3BtreeCommitPhaseOne(p, zSuperJrnl);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  rc = hgSaveAll(p);
  if( rc==SQLITE_OK ){
    int goesOn = hgGoesOn(p);
    rc = hg_commit(storeOf(p)->conn, goesOn);
    hgSetState(p, rc==SQLITE_OK && goesOn ? TRANS_READ : TRANS_NONE);
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseTwo(Btree *p, int bCleanup){
  if( !isStore(p) ) return native_sqlite3BtreeCommitPhaseTwo(p, bCleanup);
  if( p->inTrans==TRANS_WRITE ){
    int rc = sqlite3BtreeCommitPhaseOne(p, 0);
    if( rc!=SQLITE_OK ) return rc;
  }
  if( p->inTrans==TRANS_READ && !hgGoesOn(p) ){
    hg_end_read(storeOf(p)->conn);
    hgSetState(p, TRANS_NONE);
  }
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeRollback(Btree *p, int tripCode, int writeOnly){
  int rc = SQLITE_OK;
  if( !isStore(p) ) return native_sqlite3BtreeRollback(p, tripCode, writeOnly);
  if( tripCode==SQLITE_OK ){
    rc = tripCode = hgSaveAll(p);
    if( rc ) writeOnly = 0;
  }
  if( tripCode ){
    int rc2 = sqlite3BtreeTripAllCursors(p, tripCode, writeOnly);
    if( rc2!=SQLITE_OK ) rc = rc2;
  }
  if( p->inTrans==TRANS_WRITE ){
    int goesOn = hgGoesOn(p);
    int rc2 = hg_roll_back(storeOf(p)->conn, goesOn);
    if( rc2!=SQLITE_OK ) rc = rc2;
    hgSetState(p, rc2==SQLITE_OK && goesOn ? TRANS_READ : TRANS_NONE);
  }else if( p->inTrans==TRANS_READ && !hgGoesOn(p) ){
    hg_end_read(storeOf(p)->conn);
    hgSetState(p, TRANS_NONE);
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeBeginStmt(Btree *p, int iStatement){
  if( !isStore(p) ) return native_sqlite3BtreeBeginStmt(p, iStatement);
  return hg_open_savepoints(storeOf(p)->conn, iStatement);
}

SQLITE_PRIVATE int sqlite3BtreeSavepoint(Btree *p, int op, int iSavepoint){
  int rc = SQLITE_OK;
  if( p==0 || !isStore(p) ) return native_sqlite3BtreeSavepoint(p, op, iSavepoint);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( op==SAVEPOINT_ROLLBACK ) rc = hgSaveAll(p);
  if( rc==SQLITE_OK ){
    rc = hg_savepoint(storeOf(p)->conn, op==SAVEPOINT_ROLLBACK, iSavepoint);
  }
  return rc;
}

/*
** Trees and numbers.
*/
SQLITE_PRIVATE int sqlite3BtreeCreateTable(Btree *p, Pgno *piTable, int flags){
  HgConn *conn;
  int rc = SQLITE_OK;
  if( !isStore(p) ) return native_sqlite3BtreeCreateTable(p, piTable, flags);
  conn = storeOf(p)->conn;
  if( p->pBt->autoVacuum && hg_number(conn, BTREE_LARGEST_ROOT_PAGE)==0 ){
    rc = hg_set_number(conn, BTREE_LARGEST_ROOT_PAGE, 1);
    if( rc==SQLITE_OK ) rc = hg_set_number(conn, BTREE_INCR_VACUUM, p->pBt->incrVacuum);
  }
  if( rc!=SQLITE_OK ) return rc;
  return hg_create(storeOf(p)->conn, (flags & BTREE_INTKEY)==0, piTable);
}

SQLITE_PRIVATE int sqlite3BtreeDropTable(Btree *p, int iTable, int *piMoved){
  int rc;
  if( !isStore(p) ) return native_sqlite3BtreeDropTable(p, iTable, piMoved);
  *piMoved = 0;
  rc = saveAllCursors(p->pBt, (Pgno)iTable, 0);
  if( rc==SQLITE_OK ) rc = hg_drop(storeOf(p)->conn, (u32)iTable);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeClearTable(Btree *p, int iTable, i64 *pnChange){
  i64 n = 0;
  int rc;
  if( !isStore(p) ) return native_sqlite3BtreeClearTable(p, iTable, pnChange);
  rc = saveAllCursors(p->pBt, (Pgno)iTable, 0);
  if( rc==SQLITE_OK ){
    if( p->hasIncrblobCur ) invalidateIncrblobCursors(p, (Pgno)iTable, 0, 1);
    rc = hg_clear(storeOf(p)->conn, (u32)iTable, &n);
  }
  if( rc==SQLITE_OK && pnChange ) *pnChange += n;
  return rc;
}

SQLITE_PRIVATE void sqlite3BtreeGetMeta(Btree *p, int idx, u32 *pMeta){
  if( !isStore(p) ){
    native_sqlite3BtreeGetMeta(p, idx, pMeta);
  }else if( idx==BTREE_DATA_VERSION ){
    *pMeta = hg_data_version(storeOf(p)->conn);
  }else if( idx==BTREE_FREE_PAGE_COUNT ){
    *pMeta = hg_free_pages(storeOf(p)->conn);
  }else{
    *pMeta = hg_number(storeOf(p)->conn, idx);
  }
}

SQLITE_PRIVATE int sqlite3BtreeUpdateMeta(Btree *p, int idx, u32 iMeta){
  if( !isStore(p) ) return native_sqlite3BtreeUpdateMeta(p, idx, iMeta);
  return hg_set_number(storeOf(p)->conn, idx, iMeta);
}

/*
** Cursors.
*/
SQLITE_PRIVATE int sqlite3BtreeCursorSize(void){
  return ROUND8(sizeof(HgCursor));
}

SQLITE_PRIVATE int sqlite3BtreeCursor(
  Btree *p,
  Pgno iTable,
  int wrFlag,
  struct KeyInfo *pKeyInfo,
  BtCursor *pCur
){
  BtShared *pBt = p->pBt;
  BtCursor *pX;
  if( !isStore(p) ) return native_sqlite3BtreeCursor(p, iTable, wrFlag, pKeyInfo, pCur);
  if( iTable<1 ) return SQLITE_CORRUPT_BKPT;
  memset(&pCur->info, 0, sizeof(pCur->info));
  pCur->pgnoRoot = iTable;
  pCur->iPage = -1;
  pCur->pKeyInfo = pKeyInfo;
  pCur->pBtree = p;
  pCur->pBt = pBt;
  pCur->curIntKey = pKeyInfo==0;
  pCur->curFlags = BTCF_Store;
  cursorOf(pCur)->position = hg_cursor(iTable, pKeyInfo!=0);
  cursorOf(pCur)->isLast = cursorOf(pCur)->isStale = 0;
  cursorOf(pCur)->nAhead = cursorOf(pCur)->atAhead = 0;
  for(pX=pBt->pCursor; pX; pX=pX->pNext){
    if( pX->pgnoRoot==iTable ){
      pX->curFlags |= BTCF_Multiple;
      pCur->curFlags |= BTCF_Multiple;
    }
  }
  pCur->eState = CURSOR_INVALID;
  pCur->pNext = pBt->pCursor;
  pBt->pCursor = pCur;
  if( wrFlag ) pCur->curFlags |= BTCF_WriteFlag;
  return SQLITE_OK;
}

SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  BtCursor **pp;
  if( pCur->pBtree==0 || !isStoreCursor(pCur) ) return native_sqlite3BtreeCloseCursor(pCur);
  for(pp=&pCur->pBt->pCursor; *pp && *pp!=pCur; pp=&(*pp)->pNext){}
  if( *pp ) *pp = pCur->pNext;
  hg_cursor_close(cursorOf(pCur)->position);
  sqlite3_free(pCur->pKey);
  pCur->pBtree = 0;
  return SQLITE_OK;
}

/* Compares two records as they are stored, for the order of an index in Rust. */
int hg_compare(KeyInfo *pInfo, const void *a, int na, const void *b, int nb){
  UnpackedRecord *pRec = sqlite3VdbeAllocUnpackedRecord(pInfo);
  int c = 0;
  if( pRec ){
    sqlite3VdbeRecordUnpack(nb, b, pRec);
    c = sqlite3VdbeRecordCompare(na, a, pRec);
    sqlite3DbFree(pInfo->db, pRec);
  }
  return c;
}

/* A record that is stored, unpacked into the room of the connection. */
static UnpackedRecord *hgUnpack(HgBtree *p, KeyInfo *pInfo, const void *pKey, int nKey){
  UnpackedRecord *pRec = p->unpacked;
  if( p->unpackedInfo!=pInfo ){
    sqlite3DbFree(p->base.db, p->unpacked);
    if( p->unpackedInfo ) sqlite3KeyInfoUnref(p->unpackedInfo);
    p->unpackedInfo = 0;
    pRec = p->unpacked = sqlite3VdbeAllocUnpackedRecord(pInfo);
    if( pRec==0 ) return 0;
    p->unpackedInfo = sqlite3KeyInfoRef(pInfo);
  }
  pRec->default_rc = 0;
  pRec->nField = pInfo->nKeyField + 1;
  sqlite3VdbeRecordUnpack(nKey, pKey, pRec);
  return pRec;
}

/* SQLite's comparisons of records whose first column is an integer, or a text. */
static int vdbeRecordCompareInt(int, const void*, UnpackedRecord*);
static int vdbeRecordCompareString(int, const void*, UnpackedRecord*);

/* What is looked for: an unpacked record, and if it is known the record as it is stored. */
static void hgProbe(HgProbe *pProbe, UnpackedRecord *pRec, KeyInfo *pInfo, const void *pKey, i64 n){
  pProbe->key = pKey;
  pProbe->len = (size_t)n;
  pProbe->record = pRec;
  pProbe->compare = (int(*)(int,const void*,UnpackedRecord*))sqlite3VdbeFindCompare(pRec);
  pProbe->info = pInfo;
  pRec->errCode = 0;
  pProbe->first.kind = HG_FIRST_OTHER;
  pProbe->first.below = pRec->r1;
  pProbe->first.above = pRec->r2;
  if( pProbe->compare==vdbeRecordCompareInt ){
    /* It reads up to eight bytes from where an integer begins, which may be after the end of a page:
    ** integers are compared in Rust, and the rest by the comparison that reads what is there. */
    pProbe->compare = sqlite3VdbeRecordCompare;
    pProbe->first.kind = HG_FIRST_NUMBER;
    pProbe->first.u.number = pRec->u.i;
  }else if( pProbe->compare==vdbeRecordCompareString ){
    pProbe->first.kind = HG_FIRST_TEXT;
    pProbe->first.u.text = pRec->u.z;
    pProbe->first.len = pRec->n;
  }
}

/* The cursor is on the entry that its row shows. */
static void hgStand(BtCursor *pCur){
  pCur->eState = CURSOR_VALID;
  cursorOf(pCur)->isLast = cursorOf(pCur)->isStale = 0;
  pCur->info.nKey = pCur->curIntKey ? cursorOf(pCur)->row.rowid : (i64)cursorOf(pCur)->row.len;
}

/* Takes over the result of a search. */
static int hgFound(BtCursor *pCur, int rc, int result, int *pRes){
  if( rc!=SQLITE_OK ) return rc;
  if( result==2 ){
    *pRes = -1;
    pCur->eState = CURSOR_INVALID;
  }else{
    *pRes = result;
    hgStand(pCur);
    /* A search ends before what was looked for only at the end of the tree. */
    cursorOf(pCur)->isLast = result<0;
  }
  return SQLITE_OK;
}

/* Steps of a cursor, as hg_step() knows them. */
#define HG_FIRST    0
#define HG_LAST     1
#define HG_NEXT     2
#define HG_PREVIOUS 3
#define HG_STAY     4

/* The rows ahead are no longer wanted; the engine's cursor is somewhere. */
static void hgForget(BtCursor *pCur){
  cursorOf(pCur)->nAhead = cursorOf(pCur)->atAhead = 0;
}

/* How the place of a cursor is looked for again, where it may have to be; else null. */
static const HgProbe *hgOrder(BtCursor *pCur, HgProbe *pProbe){
  if( pCur->pKeyInfo==0 || pCur->pBtree->inTrans!=TRANS_WRITE ) return 0;
  memset(pProbe, 0, sizeof(*pProbe));
  pProbe->info = pCur->pKeyInfo;
  return pProbe;
}

/* Makes a step; the cursor is on an entry then, or invalid. */
static int hgStep(BtCursor *pCur, int step, int *pIsThere){
  HgProbe probe;
  int rc;
  hgForget(pCur);
  rc = hg_step(connOf(pCur), cursorOf(pCur)->position, step, hgOrder(pCur, &probe),
               &cursorOf(pCur)->row, pIsThere);
  if( rc==SQLITE_OK && *pIsThere ){
    hgStand(pCur);
  }else{
    pCur->eState = CURSOR_INVALID;
  }
  return rc;
}

/* The same to the next entry, of which several are fetched. */
static int hgStepAhead(BtCursor *pCur, int *pIsThere){
  HgCursor *c = cursorOf(pCur);
  HgProbe probe;
  int rc, n, most;
  if( c->atAhead<c->nAhead ){
    c->row = c->aAhead[c->atAhead++];
    *pIsThere = 1;
    hgStand(pCur);
    return SQLITE_OK;
  }
  /* Twice as many as the last time: who takes one step gets one row. */
  most = c->nAhead ? MIN(2*c->nAhead, HG_AHEAD) : 1;
  rc = hg_next_rows(connOf(pCur), c->position, hgOrder(pCur, &probe), c->aAhead, most, &n);
  c->nAhead = (u8)n;
  c->atAhead = 0;
  if( rc==SQLITE_OK && n>0 ){
    c->row = c->aAhead[c->atAhead++];
    *pIsThere = 1;
    hgStand(pCur);
  }else{
    *pIsThere = 0;
    pCur->eState = CURSOR_INVALID;
  }
  return rc;
}

/* The engine's cursor comes back to where the cursor is. */
static int hgComeBack(BtCursor *pCur){
  HgCursor *c = cursorOf(pCur);
  HgProbe probe;
  int n = c->nAhead - c->atAhead;
  c->nAhead = c->atAhead = 0;
  return n>0 ? hg_back(connOf(pCur), c->position, hgOrder(pCur, &probe), n) : SQLITE_OK;
}

/* Reads the entry that the cursor is on, if its row does not show it. */
static int hgLoad(BtCursor *pCur){
  int isThere;
  if( !cursorOf(pCur)->isStale ) return SQLITE_OK;
  return hgStep(pCur, cursorOf(pCur)->isLast ? HG_LAST : HG_STAY, &isThere);
}

/* A step from a place that may have to be found again; sign is that of the step. */
static int hgMove(BtCursor *pCur, int step, int sign){
  int isThere = 0;
  int rc;
  if( pCur->eState!=CURSOR_VALID ){
    rc = restoreCursorPosition(pCur);
    if( rc!=SQLITE_OK ) return rc;
    if( pCur->eState==CURSOR_INVALID ) return SQLITE_DONE;
    if( pCur->eState==CURSOR_SKIPNEXT ){
      pCur->eState = CURSOR_VALID;
      if( sign*pCur->skipNext>0 ) return SQLITE_OK;
    }
  }
  if( cursorOf(pCur)->isLast ){
    /* The engine's cursor may be before what was appended. */
    rc = hgLoad(pCur);
    if( rc!=SQLITE_OK ) return rc;
  }
  if( step==HG_NEXT ){
    rc = hgStepAhead(pCur, &isThere);
  }else{
    rc = hgComeBack(pCur);
    if( rc==SQLITE_OK ) rc = hgStep(pCur, step, &isThere);
  }
  if( rc==SQLITE_OK && !isThere ) rc = SQLITE_DONE;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int bias, int *pRes){
  int rc, result;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeTableMoveto(pCur, intKey, bias, pRes);
  if( pCur->eState==CURSOR_VALID ){
    i64 rowid = cursorOf(pCur)->row.rowid;
    if( rowid==intKey ){
      *pRes = 0;
      return SQLITE_OK;
    }
    if( rowid<intKey && cursorOf(pCur)->isLast ){
      *pRes = -1;
      return SQLITE_OK;
    }
    if( rowid+1==intKey && rowid<intKey && !cursorOf(pCur)->isStale ){
      /* Rows that are asked for in their order are not looked for. */
      *pRes = 0;
      rc = hgMove(pCur, HG_NEXT, 1);
      if( rc!=SQLITE_DONE && (rc!=SQLITE_OK || cursorOf(pCur)->row.rowid==intKey) ) return rc;
    }
  }
  pCur->eState = CURSOR_INVALID;
  hgForget(pCur);
  rc = hg_seek_row(connOf(pCur), cursorOf(pCur)->position, intKey, &cursorOf(pCur)->row, &result);
  return hgFound(pCur, rc, result, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pRec, int *pRes){
  HgProbe probe;
  int rc, result;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIndexMoveto(pCur, pRec, pRes);
  pCur->eState = CURSOR_INVALID;
  hgForget(pCur);
  hgProbe(&probe, pRec, pCur->pKeyInfo, 0, 0);
  rc = hg_seek_key(connOf(pCur), cursorOf(pCur)->position, &probe, &cursorOf(pCur)->row, &result);
  if( rc==SQLITE_OK && pRec->errCode ) rc = pRec->errCode;
  return hgFound(pCur, rc, result, pRes);
}

/* Moves to an end. */
static int hgEnd(BtCursor *pCur, int step, int *pRes){
  int isThere = 0;
  int rc;
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  sqlite3BtreeClearCursor(pCur);
  rc = hgStep(pCur, step, &isThere);
  *pRes = !isThere;
  cursorOf(pCur)->isLast = step==HG_LAST;
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeFirst(BtCursor *pCur, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeFirst(pCur, pRes);
  return hgEnd(pCur, HG_FIRST, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeLast(pCur, pRes);
  if( pCur->eState==CURSOR_VALID && cursorOf(pCur)->isLast ){
    *pRes = 0;
    return SQLITE_OK;
  }
  return hgEnd(pCur, HG_LAST, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIsEmpty(pCur, pRes);
  return hg_is_empty(connOf(pCur), cursorOf(pCur)->position, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  HgCursor *c = cursorOf(pCur);
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeNext(pCur, flags);
  if( pCur->eState==CURSOR_VALID && c->atAhead<c->nAhead ){
    c->row = c->aAhead[c->atAhead++];
    pCur->info.nKey = c->row.rowid;
    return SQLITE_OK;
  }
  return hgMove(pCur, HG_NEXT, 1);
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePrevious(pCur, flags);
  return hgMove(pCur, HG_PREVIOUS, -1);
}

/*
** What a cursor is on.
*/
SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIntegerKey(pCur);
  return cursorOf(pCur)->row.rowid;
}

SQLITE_PRIVATE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayloadSize(pCur);
  if( hgLoad(pCur) ) return 0;
  return cursorOf(pCur)->row.len;
}

SQLITE_PRIVATE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayloadFetch(pCur, pAmt);
  if( hgLoad(pCur) ){
    *pAmt = 0;
    return 0;
  }
  *pAmt = cursorOf(pCur)->row.local;
  return cursorOf(pCur)->row.data;
}

SQLITE_PRIVATE i64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeMaxRecordSize(pCur);
  return 0x7fffffff;
}

SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeOffset(pCur);
  return 0;
}

SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  HgRow *pRow = &cursorOf(pCur)->row;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayload(pCur, offset, amt, pBuf);
  if( hgLoad(pCur) ) return SQLITE_IOERR;
  if( (u64)offset+amt>pRow->len ) return SQLITE_CORRUPT_BKPT;
  if( offset+amt<=pRow->local ){
    memcpy(pBuf, pRow->data+offset, amt);
    return SQLITE_OK;
  }
  return hg_read_row(connOf(pCur), cursorOf(pCur)->position, pRow->rowid, offset, amt, pBuf);
}

SQLITE_PRIVATE int sqlite3BtreePayloadChecked(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  int rc;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayloadChecked(pCur, offset, amt, pBuf);
  if( pCur->eState==CURSOR_INVALID ) return SQLITE_ABORT;
  rc = restoreCursorPosition(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  return sqlite3BtreePayload(pCur, offset, amt, pBuf);
}

SQLITE_PRIVATE int sqlite3BtreeCount(sqlite3 *db, BtCursor *pCur, i64 *pnEntry){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeCount(db, pCur, pnEntry);
  return hg_count(connOf(pCur), cursorOf(pCur)->position, pnEntry);
}

SQLITE_PRIVATE i64 sqlite3BtreeRowCountEst(BtCursor *pCur){
  i64 n = 0;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeRowCountEst(pCur);
  if( pCur->eState!=CURSOR_VALID ) return 0;
  if( hg_count(connOf(pCur), cursorOf(pCur)->position, &n) ) return -1;
  return n;
}

/*
** Writing.
*/

/* Saves the other cursors of a tree that is about to be changed. */
static int hgSaveOthers(BtCursor *pCur){
  BtCursor *p;
  if( (pCur->curFlags & BTCF_Multiple)==0 ) return SQLITE_OK;
  for(p=pCur->pBt->pCursor; p; p=p->pNext){
    /* SQLite's cursors are somewhere in the tree after they have written; these are not. */
    if( p!=pCur && p->pgnoRoot==pCur->pgnoRoot && (p->curFlags & BTCF_Pinned)!=0 ){
      return SQLITE_CONSTRAINT_PINNED;
    }
  }
  return saveAllCursors(pCur->pBt, pCur->pgnoRoot, pCur);
}

/* The cursor is to be found again by a key: that of a row, or a copy of an entry. */
static int hgKeepKey(BtCursor *pCur, i64 nKey, const void *pKey){
  sqlite3_free(pCur->pKey);
  pCur->pKey = 0;
  pCur->nKey = nKey;
  pCur->skipNext = 0;
  pCur->eState = CURSOR_INVALID;
  if( pKey ){
    pCur->pKey = sqlite3Malloc(nKey + 9 + 8);
    if( pCur->pKey==0 ) return SQLITE_NOMEM_BKPT;
    memcpy(pCur->pKey, pKey, nKey);
    memset((u8*)pCur->pKey + nKey, 0, 9 + 8);
  }
  pCur->eState = CURSOR_REQUIRESEEK;
  return SQLITE_OK;
}

/* For an entry that comes after all others. */
static int hgAlwaysLess(int n, const void *p, UnpackedRecord *pRec){
  return -1;
}

/* Puts a row into a table. */
static int hgInsertRow(BtCursor *pCur, i64 rowid, const void *pData, u32 nData, u32 nZero){
  Btree *p = pCur->pBtree;
  int rc;
  if( p->hasIncrblobCur ) invalidateIncrblobCursors(p, pCur->pgnoRoot, rowid, 0);
  rc = hg_put_row(storeOf(p)->conn, cursorOf(pCur)->position, rowid, pData, nData, nZero);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState==CURSOR_VALID ){
    i64 old = cursorOf(pCur)->row.rowid;
    if( rowid==old || (rowid>old && cursorOf(pCur)->isLast) ){
      cursorOf(pCur)->row.rowid = pCur->info.nKey = rowid;
      cursorOf(pCur)->isStale = 1;
      return SQLITE_OK;
    }
  }
  return hgKeepKey(pCur, rowid, 0);
}

/* Puts an entry into an index that comes after the last one, on which the cursor is. */
static int hgAppendKey(BtCursor *pCur, const BtreePayload *pX){
  HgProbe probe = { pX->pKey, (size_t)pX->nKey, 0, hgAlwaysLess, 0 };
  int rc = hg_append_key(connOf(pCur), cursorOf(pCur)->position, &probe);
  cursorOf(pCur)->isStale = 1;
  return rc;
}

/* Puts an entry into an index. If seekResult is not 0 the cursor is on a neighbour of it. */
static int hgInsertKey(BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult){
  UnpackedRecord r;
  UnpackedRecord *pRec = &r;
  HgProbe probe;
  int rc, isPut = 0;
  if( pX->nMem ){
    memset(&r, 0, sizeof(r));
    r.pKeyInfo = pCur->pKeyInfo;
    r.aMem = pX->aMem;
    r.nField = pX->nMem;
  }else{
    pRec = hgUnpack(storeOf(pCur->pBtree), pCur->pKeyInfo, pX->pKey, (int)pX->nKey);
    if( pRec==0 ) return SQLITE_NOMEM_BKPT;
    if( pRec->nField==0 || pRec->nField>pCur->pKeyInfo->nAllField ) return SQLITE_CORRUPT_BKPT;
  }
  hgProbe(&probe, pRec, pCur->pKeyInfo, pX->pKey, pX->nKey);
  if( seekResult!=0 && pCur->eState==CURSOR_VALID ){
    rc = hg_put_key_near(connOf(pCur), cursorOf(pCur)->position, &probe, &isPut);
    if( rc==SQLITE_OK && isPut ){
      cursorOf(pCur)->isLast = 0;
      cursorOf(pCur)->isStale = 1;
      return SQLITE_OK;
    }
    if( rc!=SQLITE_OK ) return rc;
  }
  rc = hg_put_key(connOf(pCur), cursorOf(pCur)->position, &probe);
  if( rc==SQLITE_OK && pRec->errCode ) rc = pRec->errCode;
  if( rc==SQLITE_OK ){
    if( flags & BTREE_SAVEPOSITION ){
      rc = hgKeepKey(pCur, pX->nKey, pX->pKey);
    }else{
      sqlite3BtreeClearCursor(pCur);
    }
  }
  return rc;
}

/* Puts what sqlite3BtreeTransferRow() has read. */
static int hgInsertTransferred(BtCursor *pCur){
  HgTransfer *t = &hgTransferring->transfer;
  BtreePayload x;
  hgTransferring = 0;
  memset(&x, 0, sizeof(x));
  if( pCur->pKeyInfo==0 ){
    x.nKey = t->rowid;
    x.pData = t->data;
    x.nData = (int)t->len;
  }else{
    x.pKey = t->data;
    x.nKey = t->len;
  }
  return sqlite3BtreeInsert(pCur, &x, BTREE_APPEND, 0);
}

SQLITE_PRIVATE int sqlite3BtreeInsert(
  BtCursor *pCur,
  const BtreePayload *pX,
  int flags,
  int seekResult
){
  int rc;
  if( (flags & BTREE_PREFORMAT)!=0 && hgTransferring && hgTransferring->transfer.dest==pCur ){
    return hgInsertTransferred(pCur);
  }
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeInsert(pCur, pX, flags, seekResult);
  if( pCur->eState==CURSOR_FAULT ) return pCur->skipNext;
  rc = hgSaveOthers(pCur);
  if( rc==SQLITE_OK ) rc = hgComeBack(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo ){
    if( seekResult<0 && pCur->eState==CURSOR_VALID && cursorOf(pCur)->isLast ){
      return hgAppendKey(pCur, pX);
    }
    return hgInsertKey(pCur, pX, flags, seekResult);
  }
  return hgInsertRow(pCur, pX->nKey, pX->pData, (u32)pX->nData, (u32)pX->nZero);
}

SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  HgTransfer *t;
  u32 n;
  int rc;
  hgTransferring = 0;
  if( isStoreCursor(pDest) ){
    hgTransferring = storeOf(pDest->pBtree);
  }else if( isStoreCursor(pSrc) ){
    hgTransferring = storeOf(pSrc->pBtree);
  }else{
    return native_sqlite3BtreeTransferRow(pDest, pSrc, iKey);
  }
  t = &hgTransferring->transfer;
  n = sqlite3BtreePayloadSize(pSrc);
  if( t->data==0 || n>t->room || (t->room>(1<<20) && n<(1<<16)) ){
    sqlite3_free(t->data);
    t->room = 0;
    t->data = sqlite3Malloc((u64)n + 9 + 8);
    if( t->data==0 ) return SQLITE_NOMEM_BKPT;
    t->room = n;
  }
  rc = sqlite3BtreePayload(pSrc, 0, n, t->data);
  if( rc!=SQLITE_OK ) return rc;
  memset(t->data+n, 0, 9 + 8);
  t->dest = pDest;
  t->rowid = iKey;
  t->len = n;
  return SQLITE_OK;
}

/* From an entry that was deleted to the next one, to which the next step then leads; or if there is
** none to the one before. */
static int hgStepOff(BtCursor *pCur){
  int isThere, sign = 1;
  int rc = hgStep(pCur, HG_NEXT, &isThere);
  if( rc==SQLITE_OK && !isThere ){
    sign = -1;
    rc = hgStep(pCur, HG_PREVIOUS, &isThere);
  }
  if( rc==SQLITE_OK && isThere ){
    pCur->eState = CURSOR_SKIPNEXT;
    pCur->skipNext = sign;
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  Btree *p = pCur->pBtree;
  HgRow *pRow = &cursorOf(pCur)->row;
  int rc;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeDelete(pCur, flags);
  if( pCur->eState!=CURSOR_VALID ){
    if( pCur->eState<CURSOR_REQUIRESEEK ) return SQLITE_CORRUPT_PGNO(pCur->pgnoRoot);
    rc = btreeRestoreCursorPosition(pCur);
    if( rc || pCur->eState!=CURSOR_VALID ) return rc;
  }
  rc = hgLoad(pCur);
  if( rc==SQLITE_OK ) rc = hgSaveOthers(pCur);
  if( rc==SQLITE_OK ) rc = hgComeBack(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo==0 ){
    if( p->hasIncrblobCur ) invalidateIncrblobCursors(p, pCur->pgnoRoot, pRow->rowid, 0);
    rc = hg_delete(connOf(pCur), cursorOf(pCur)->position, 0);
  }else{
    HgProbe probe;
    rc = hg_delete(connOf(pCur), cursorOf(pCur)->position, hgOrder(pCur, &probe));
  }
  if( rc==SQLITE_OK && (flags & BTREE_SAVEPOSITION)!=0 ) return hgStepOff(pCur);
  sqlite3BtreeClearCursor(pCur);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *z){
  HgRow *pRow = &cursorOf(pCur)->row;
  int rc;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePutData(pCur, offset, amt, z);
  rc = restoreCursorPosition(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  saveAllCursors(pCur->pBt, pCur->pgnoRoot, pCur);
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  rc = hg_write_part(connOf(pCur), cursorOf(pCur)->position, pRow->rowid, offset, z, amt);
  if( rc==SQLITE_OK ) rc = hgKeepKey(pCur, pRow->rowid, 0);
  return rc;
}

/*
** PRAGMA integrity_check.
*/
typedef struct HgReport HgReport;
struct HgReport {
  sqlite3_str *text;
  int n;
  int max;
};

static void hgReport(void *pArg, const char *z, int n){
  HgReport *pReport = (HgReport*)pArg;
  if( pReport->n>=pReport->max ) return;
  if( pReport->n++ ) sqlite3_str_append(pReport->text, "\n", 1);
  sqlite3_str_append(pReport->text, z, n);
}

SQLITE_PRIVATE int sqlite3BtreeIntegrityCheck(
  sqlite3 *db,
  Btree *p,
  Pgno *aRoot,
  sqlite3_value *aCnt,
  int nRoot,
  int mxErr,
  int *pnErr,
  char **pzOut
){
  HgReport report;
  i64 *aCount;
  int i, rc;
  if( !isStore(p) ){
    return native_sqlite3BtreeIntegrityCheck(db, p, aRoot, aCnt, nRoot, mxErr, pnErr, pzOut);
  }
  aCount = sqlite3MallocZero(sizeof(i64)*(nRoot+1));
  if( aCount==0 ) return SQLITE_NOMEM_BKPT;
  report.text = sqlite3_str_new(db);
  report.n = 0;
  report.max = mxErr;
  rc = hg_check(storeOf(p)->conn, aRoot, aCount, nRoot, hgReport, &report);
  for(i=0; i<nRoot; i++) sqlite3MemSetArrayInt64(aCnt, i, aCount[i]);
  sqlite3_free(aCount);
  *pnErr = report.n;
  *pzOut = sqlite3_str_finish(report.text);
  if( report.n==0 ){
    sqlite3_free(*pzOut);
    *pzOut = 0;
  }
  return rc;
}

#include "copy.c"
#include "count.c"
#include "ranks.c"

/*
** What SQLite asks the pager of a store: it is one with a log, which cannot be changed.
*/
static int hgIsLent(Pager *pPager){
  return pPager->xBusyHandler==hgPagerMark;
}

static int hgPagerGetJournalMode(Pager *pPager){
  return hgIsLent(pPager) ? PAGER_JOURNALMODE_WAL : sqlite3PagerGetJournalMode(pPager);
}
static int hgPagerOkToChangeJournalMode(Pager *pPager){
  return hgIsLent(pPager) ? 0 : sqlite3PagerOkToChangeJournalMode(pPager);
}
static int hgPagerSetJournalMode(Pager *pPager, int eMode){
  return hgIsLent(pPager) ? PAGER_JOURNALMODE_WAL : sqlite3PagerSetJournalMode(pPager, eMode);
}
static int hgPagerExclusiveLock(Pager *pPager){
  return hgIsLent(pPager) ? SQLITE_OK : sqlite3PagerExclusiveLock(pPager);
}
static int hgPagerIsMemdb(Pager *pPager){
  return hgIsLent(pPager) ? 0 : sqlite3PagerIsMemdb(pPager);
}
static int hgPagerLockingMode(Pager *pPager, int eMode){
  HgBtree *p;
  if( !hgIsLent(pPager) ) return sqlite3PagerLockingMode(pPager, eMode);
  p = (HgBtree*)pPager->pBusyHandlerArg;
  if( eMode>=0 ) p->exclusive = (u8)eMode;
  return p->exclusive;
}
static u32 hgPagerDataVersion(Pager *pPager){
  return hgIsLent(pPager) ? hg_seen(((HgBtree*)pPager->pBusyHandlerArg)->conn)
                          : sqlite3PagerDataVersion(pPager);
}
/* The version of SQLite that the library says it is: some programs refuse to run with another one
** than they were compiled with, though it would serve. HEDGEROW_SQLITE_SOURCE_ID says it for them. */
SQLITE_API const char *native_sqlite3_sourceid(void);
SQLITE_API const char *sqlite3_sourceid(void){
  const char *zAsked = getenv("HEDGEROW_SQLITE_SOURCE_ID");
  return zAsked && zAsked[0] ? zAsked : native_sqlite3_sourceid();
}
#define sqlite3_sourceid native_sqlite3_sourceid

#define sqlite3PagerGetJournalMode hgPagerGetJournalMode
#define sqlite3PagerOkToChangeJournalMode hgPagerOkToChangeJournalMode
#define sqlite3PagerSetJournalMode hgPagerSetJournalMode
#define sqlite3PagerExclusiveLock hgPagerExclusiveLock
#define sqlite3PagerIsMemdb hgPagerIsMemdb
#define sqlite3PagerLockingMode hgPagerLockingMode
#define sqlite3PagerDataVersion hgPagerDataVersion
