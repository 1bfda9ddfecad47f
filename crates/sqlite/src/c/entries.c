/*
** The entry that a cursor is on: reading and writing it; and PRAGMA integrity_check, which reads
** all. Included by hedgerow.c.
*/

/*
** What a cursor is on.
*/
SQLITE_PRIVATE i64 sqlite3BtreeIntegerKey(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIntegerKey(pCur);
  return cursorOf(pCur)->row->rowid;
}

static HG_NOINLINE u32 hgSizeOfStale(BtCursor *pCur){
  return hgLoad(pCur) ? 0 : cursorOf(pCur)->row->len;
}

SQLITE_PRIVATE HG_INLINE u32 sqlite3BtreePayloadSize(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayloadSize(pCur);
  if( cursorOf(pCur)->isStale ) return hgSizeOfStale(pCur);
  return cursorOf(pCur)->row->len;
}

/* Who fetches the bytes of an entry and gets none asks sqlite3BtreePayload() for them, which says
** what is wrong. One caller looks at the first byte before, for the length of the record's header. */
static HG_NOINLINE const void *hgFetchChecked(BtCursor *pCur, u32 *pAmt){
  static const u8 aNothing[] = { 2 };
  if( hgLoad(pCur) || (cursorOf(pCur)->row->check && hgVerify(pCur)) ){
    *pAmt = 0;
    return aNothing;
  }
  *pAmt = cursorOf(pCur)->row->local;
  return cursorOf(pCur)->row->data;
}

SQLITE_PRIVATE HG_INLINE const void *sqlite3BtreePayloadFetch(BtCursor *pCur, u32 *pAmt){
  HgCursor *c = cursorOf(pCur);
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayloadFetch(pCur, pAmt);
  if( c->isStale | c->row->check ) return hgFetchChecked(pCur, pAmt);
  *pAmt = c->row->local;
  return c->row->data;
}

SQLITE_PRIVATE i64 sqlite3BtreeMaxRecordSize(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeMaxRecordSize(pCur);
  return 0x7fffffff;
}

/* SQLite keeps a long column that does not stand in the bytes at hand, and asks here whether the row
** from which it wants it again is still the same. */
SQLITE_PRIVATE i64 sqlite3BtreeOffset(BtCursor *pCur){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeOffset(pCur);
  return cursorOf(pCur)->row->showing;
}

static HG_NOINLINE int hgPayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  const HgRow *pRow;
  if( hgLoad(pCur) ) return SQLITE_IOERR;
  if( cursorOf(pCur)->row->check ){
    int rc = hgVerify(pCur);
    if( rc!=SQLITE_OK ) return rc;
  }
  pRow = cursorOf(pCur)->row;
  if( (u64)offset+amt>pRow->len ) return SQLITE_CORRUPT_BKPT;
  if( offset+amt<=pRow->local ){
    memcpy(pBuf, pRow->data+offset, amt);
    return SQLITE_OK;
  }
  offset += pRow->nSum;
  return hg_read_row(connOf(pCur), cursorOf(pCur)->position, pRow->rowid, offset, amt, pBuf);
}

SQLITE_PRIVATE int sqlite3BtreePayload(BtCursor *pCur, u32 offset, u32 amt, void *pBuf){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePayload(pCur, offset, amt, pBuf);
  return hgPayload(pCur, offset, amt, pBuf);
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
    i64 old = cursorOf(pCur)->row->rowid;
    if( rowid==old || (rowid>old && cursorOf(pCur)->isLast) ){
      hgOwnRow(pCur)->rowid = pCur->info.nKey = rowid;
      cursorOf(pCur)->isStale = 1;
      return SQLITE_OK;
    }
  }
  return hgKeepKey(pCur, rowid, 0);
}

/* Puts an entry into an index that comes after the last one, on which the cursor is; the row then
** has a copy of its record. */
static int hgAppendKey(BtCursor *pCur, const BtreePayload *pX){
  HgProbe probe = { pX->pKey, (size_t)pX->nKey, 0, hgAlwaysLess, 0 };
  HgCursor *c = cursorOf(pCur);
  int rc = hg_append_key(connOf(pCur), c->position, &probe, hgNewRow(pCur));
  c->isStale = 1;
  return rc;
}

/* Puts an entry into an index. If seekResult is not 0 the cursor is on a neighbour of it. */
static int hgInsertKey(BtCursor *pCur, const BtreePayload *pX, int flags, int seekResult){
  UnpackedRecord r;
  UnpackedRecord *pRec = &r;
  HgProbe probe;
  int rc;
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
    /* With 1 a search ended on that neighbour, the first one after the new entry. */
    int isPut = seekResult>0 && !cursorOf(pCur)->isStale;
    rc = hg_put_key_near(connOf(pCur), cursorOf(pCur)->position, &probe, &isPut);
    if( rc==SQLITE_OK && isPut ){
      cursorOf(pCur)->isLast = 0;
      cursorOf(pCur)->isStale = 1;
      return SQLITE_OK;
    }
    if( rc!=SQLITE_OK ) return rc;
  }
  if( cursorOf(pCur)->isDoomed ){
    cursorOf(pCur)->isDoomed = 0;
    rc = hg_replace_key(connOf(pCur), cursorOf(pCur)->position, &probe);
  }else{
    rc = hg_put_key(connOf(pCur), cursorOf(pCur)->position, &probe);
  }
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

/* Puts an entry into a store, or what sqlite3BtreeTransferRow() has read into either kind. */
static HG_NOINLINE int hgInsert(
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
    if( !cursorOf(pCur)->isKnown ) hgKnowTree(pCur);
    if( seekResult<0 && pCur->eState==CURSOR_VALID && cursorOf(pCur)->isLast ){
      return hgAppendKey(pCur, pX);
    }
    return hgInsertKey(pCur, pX, flags, seekResult);
  }
  return hgInsertRow(pCur, pX->nKey, pX->pData, (u32)pX->nData, (u32)pX->nZero);
}

SQLITE_PRIVATE int sqlite3BtreeInsert(
  BtCursor *pCur,
  const BtreePayload *pX,
  int flags,
  int seekResult
){
  if( isStoreCursor(pCur) || (flags & BTREE_PREFORMAT)!=0 ){
    return hgInsert(pCur, pX, flags, seekResult);
  }
  return native_sqlite3BtreeInsert(pCur, pX, flags, seekResult);
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
** none to the one before. An engine's cursor whose entry is gone stays at the next one. */
static int hgStepOff(BtCursor *pCur){
  int isThere, sign = 1;
  int rc = hgStep(pCur, cursorOf(pCur)->isDoomed ? HG_NEXT : HG_STAY, &isThere);
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

/* Whether an entry that is deleted may stay until another one takes its place (programs.c). */
static int hgMayStay(BtCursor *pCur, u8 flags){
  return (flags & BTREE_AUXDELETE)!=0 && (pCur->hints & BTREE_BULKLOAD)!=0
      && pCur->pBtree->db->xPreUpdateCallback==0;
}

static HG_NOINLINE int hgDelete(BtCursor *pCur, u8 flags){
  Btree *p = pCur->pBtree;
  int rc;
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
    if( p->hasIncrblobCur ) invalidateIncrblobCursors(p, pCur->pgnoRoot, cursorOf(pCur)->row->rowid, 0);
    rc = hg_delete(connOf(pCur), cursorOf(pCur)->position, 0);
  }else if( hgMayStay(pCur, flags) ){
    cursorOf(pCur)->isDoomed = 1;
  }else{
    HgProbe probe;
    rc = hg_delete(connOf(pCur), cursorOf(pCur)->position, hgOrder(pCur, &probe));
  }
  if( rc==SQLITE_OK && (flags & BTREE_SAVEPOSITION)!=0 ) return hgStepOff(pCur);
  sqlite3BtreeClearCursor(pCur);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeDelete(BtCursor *pCur, u8 flags){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeDelete(pCur, flags);
  return hgDelete(pCur, flags);
}

SQLITE_PRIVATE int sqlite3BtreePutData(BtCursor *pCur, u32 offset, u32 amt, void *z){
  i64 rowid;
  int rc;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePutData(pCur, offset, amt, z);
  rc = restoreCursorPosition(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  saveAllCursors(pCur->pBt, pCur->pgnoRoot, pCur);
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  rowid = cursorOf(pCur)->row->rowid;
  rc = hg_write_part(connOf(pCur), cursorOf(pCur)->position, rowid, offset, z, amt);
  if( rc==SQLITE_OK ) rc = hgKeepKey(pCur, rowid, 0);
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
