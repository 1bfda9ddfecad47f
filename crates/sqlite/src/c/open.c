/*
** Which engine a file is for; opening and closing the b-tree of a store. Included by hedgerow.c.
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

/* A copy of a database's name with the parameters of its URI, and with the names that its journal
** and its log had if it were SQLite's. */
static char *hgFilename(const char *zFilename, const char *zPath){
  const char *azParam[64];
  int n = 0;
  const char *zKey;
  char *zJournal = sqlite3_mprintf("%s-journal", zPath);
  char *zWal = sqlite3_mprintf("%s-wal", zPath);
  char *zName = 0;
  while( n<31 && (zKey = sqlite3_uri_key(zFilename, n))!=0 ){
    azParam[2*n] = zKey;
    azParam[2*n+1] = sqlite3_uri_parameter(zFilename, zKey);
    n++;
  }
  if( zJournal && zWal ){
    zName = (char*)sqlite3_create_filename(zPath, zJournal, zWal, n, azParam);
  }
  sqlite3_free(zJournal);
  sqlite3_free(zWal);
  return zName;
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

/* A VACUUM INTO that goes on. */
typedef struct HgVacuum HgVacuum;
struct HgVacuum {
  sqlite3 *db;             /* the connection; null as soon as it opens what is written to */
  u32 kind;                /* what that, if it is a store, says about checksums of rows */
  int isThere;             /* there was something in it */
};

/* That of this thread. */
static __thread HgVacuum *hgVacuum;

/* Opens the store that VACUUM INTO writes to, which must not be there. */
static int hgOpenTarget(HgVacuum *pVacuum, const char *zPath, HgConn **ppConn){
  int rc = hg_kind(zPath)==0 ? hg_open(zPath, 3, ppConn) : SQLITE_CANTOPEN;
  if( rc==SQLITE_OK ) hg_want_sums(*ppConn, pVacuum->kind);
  else pVacuum->isThere = hg_kind(zPath)!=0;
  return rc;
}

/* Opens the store of a connection; *pMode becomes 0 where it may only be read. */
static int hgOpenStore(const char *zPath, int *pMode, HgConn **ppConn){
  int rc = hg_open(zPath, *pMode, ppConn);
  if( rc==SQLITE_CANTOPEN && *pMode!=0 && hg_open(zPath, 0, ppConn)==SQLITE_OK ){
    /* As SQLite does where it may not write. */
    *pMode = 0;
    rc = SQLITE_OK;
  }
  return rc;
}

/* How a store is opened: 0 to be read, 1 to be written, 2 to be made if it is not there. A database
** that is said to be immutable is not written to. */
static int hgMode(const char *zFilename, int vfsFlags){
  if( (vfsFlags & SQLITE_OPEN_READWRITE)==0 ) return 0;
  if( sqlite3_uri_boolean(zFilename, "immutable", 0) ) return 0;
  return (vfsFlags & SQLITE_OPEN_CREATE)!=0 ? 2 : 1;
}

/* Notes what is answered about the file of a store that was just opened. */
static void hgNoteFile(HgBtree *p){
  struct stat buf;
  if( osStat(p->filename, &buf)==0 ){
    p->file.dev = buf.st_dev;
    p->file.ino = buf.st_ino;
  }
  p->file.powersafe = sqlite3_uri_boolean(p->filename, "psow", SQLITE_POWERSAFE_OVERWRITE);
}

/* Opens a store, for VACUUM INTO if that is given. */
static int hgOpen(
  sqlite3_vfs *pVfs,
  const char *zFilename,
  const char *zPath,
  sqlite3 *db,
  Btree **ppBtree,
  int vfsFlags,
  HgVacuum *pVacuum
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
  mode = hgMode(zFilename, vfsFlags);
  rc = pVacuum ? hgOpenTarget(pVacuum, zPath, &p->conn) : hgOpenStore(zPath, &mode, &p->conn);
  if( rc==SQLITE_OK ){
    if( mode==0 ) p->shared.btsFlags |= BTS_READ_ONLY;
    p->shared.pageSize = p->shared.usableSize = hg_page_size(p->conn);
    p->filename = hgFilename(zFilename, zPath);
    if( p->filename==0 ) rc = SQLITE_NOMEM_BKPT;
    else hgNoteFile(p);
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
  HgVacuum *pVacuum = hgVacuum && hgVacuum->db==db ? hgVacuum : 0;
  if( pVacuum ) pVacuum->db = 0;
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
      rc = hgOpen(pVfs, zFilename, zPath, db, ppBtree, vfsFlags, pVacuum);
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
