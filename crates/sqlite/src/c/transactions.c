/*
** Settings, transactions, and a database's trees and numbers. Included by hedgerow.c.
*/

/*
** Settings.
*/
SQLITE_PRIVATE int sqlite3BtreeSetPagerFlags(Btree *p, unsigned pgFlags){
  if( !isStore(p) ) return native_sqlite3BtreeSetPagerFlags(p, pgFlags);
  return hg_set_synchronous(storeOf(p)->conn, pgFlags & PAGER_SYNCHRONOUS_MASK);
}

SQLITE_PRIVATE int sqlite3BtreeSetPageSize(Btree *p, int pageSize, int nReserve, int iFix){
  if( !isStore(p) ) return native_sqlite3BtreeSetPageSize(p, pageSize, nReserve, iFix);
  p->pBt->nReserveWanted = (u8)nReserve;
  return SQLITE_OK;
}

/* A store gives free pages back with VACUUM only; what is asked for is kept all the same, so that
** it is there in a copy, and says which pages are counted. */
SQLITE_PRIVATE int sqlite3BtreeSetAutoVacuum(Btree *p, int autoVacuum){
  int old;
  if( !isStore(p) ) return native_sqlite3BtreeSetAutoVacuum(p, autoVacuum);
  old = sqlite3BtreeGetAutoVacuum(p);
  if( hg_page_count(storeOf(p)->conn)>0 && (autoVacuum!=0)!=(old!=0) ){
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
  if( hg_page_count(conn)>0 ){
    p->pBt->autoVacuum = hg_number(conn, BTREE_LARGEST_ROOT_PAGE)!=0;
    p->pBt->incrVacuum = hg_number(conn, BTREE_INCR_VACUUM)!=0;
  }
  return p->pBt->autoVacuum ? 1 + p->pBt->incrVacuum : 0;
}

SQLITE_PRIVATE Pgno sqlite3BtreeLastPage(Btree *p){
  if( !isStore(p) ) return native_sqlite3BtreeLastPage(p);
  return hg_page_count(storeOf(p)->conn);
}

/* The most pages are kept by the lent pager. SQLite's pager sees to it itself that a file has no
** more, a store is told when it is set. */
SQLITE_PRIVATE Pgno sqlite3BtreeMaxPageCount(Btree *p, Pgno mxPage){
  Pgno n = native_sqlite3BtreeMaxPageCount(p, mxPage);
  if( isStore(p) && mxPage>0 ) hg_set_max_pages(storeOf(p)->conn, n);
  return n;
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
  if( eMode==SQLITE_CHECKPOINT_NOOP ) return SQLITE_OK;
  storeOf(p)->nCommit = 0;
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

/* Commits. A transaction that has changed nothing is no commit. */
static int hgCommit(HgBtree *p, int goesOn){
  u32 seen = hg_seen(p->conn);
  int rc = hg_commit(p->conn, goesOn);
  if( rc==SQLITE_OK && hg_seen(p->conn)!=seen ){
    p->isNew = 1;
    if( p->nCommit<0x7fffffff ) p->nCommit++;
  }
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCommitPhaseOne(Btree *p, const char *zSuperJrnl){
  int rc;
  if( !isStore(p) ) return native_sqlite3BtreeCommitPhaseOne(p, zSuperJrnl);
  if( p->inTrans!=TRANS_WRITE ) return SQLITE_OK;
  rc = hgSaveAll(p);
  if( rc==SQLITE_OK ){
    int goesOn = hgGoesOn(p);
    rc = hgCommit(storeOf(p), goesOn);
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
