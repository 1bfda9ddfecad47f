/*
** Cursors: opening and moving them, and how records are compared. Included by hedgerow.c.
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
  cursorOf(pCur)->position = hg_cursor(connOf(pCur), iTable, pKeyInfo!=0,
                                       &cursorOf(pCur)->aAhead);
  cursorOf(pCur)->isLast = cursorOf(pCur)->isStale = 0;
  cursorOf(pCur)->row = &cursorOf(pCur)->own;
  cursorOf(pCur)->nAhead = cursorOf(pCur)->nMost = 0;
  cursorOf(pCur)->isKnown = cursorOf(pCur)->isBack = cursorOf(pCur)->isDoomed = 0;
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

/* Stands for a record that is looked for and is not known as it is stored. */
static const u8 aHgUnpacked[] = { 0 };

/* What is looked for: an unpacked record, and if it is known the record as it is stored. */
static void hgProbe(HgProbe *pProbe, UnpackedRecord *pRec, KeyInfo *pInfo, const void *pKey, i64 n){
  pProbe->key = pKey ? pKey : aHgUnpacked;
  pProbe->len = pKey ? (size_t)n : 1;
  pProbe->record = pRec;
  pProbe->compare = (int(*)(int,const void*,UnpackedRecord*))sqlite3VdbeFindCompare(pRec);
  pProbe->info = pInfo;
  pProbe->isEqual = 0;
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
  pCur->info.nKey = pCur->curIntKey ? cursorOf(pCur)->row->rowid : (i64)cursorOf(pCur)->row->len;
}

/* Takes over the result of a search. */
static int hgFound(BtCursor *pCur, int rc, int result, int *pRes){
  if( rc!=SQLITE_OK ) return rc;
  if( result==2 ){
    *pRes = -1;
    pCur->eState = CURSOR_INVALID;
  }else{
    *pRes = result==3 ? -1 : result;
    hgStand(pCur);
    /* A search ends before what was looked for only at the end of the tree. With 3, the engine's
    ** cursor is not there. */
    cursorOf(pCur)->isLast = *pRes<0;
    cursorOf(pCur)->isStale = result==3;
  }
  return SQLITE_OK;
}

/* Steps of a cursor, as hg_step() knows them. */
#define HG_FIRST    0
#define HG_LAST     1
#define HG_NEXT     2
#define HG_PREVIOUS 3
#define HG_LAST_NUMBER 4  /* the last row, of which only the number is shown; or none */
#define HG_STAY     5

/* The rows ahead are no longer wanted; the engine's cursor is somewhere. */
static void hgForget(BtCursor *pCur){
  cursorOf(pCur)->nAhead = cursorOf(pCur)->nMost = 0;
}

/* Where the row is stored that a cursor moves to. */
static HgRow *hgNewRow(BtCursor *pCur){
  cursorOf(pCur)->row = &cursorOf(pCur)->own;
  return &cursorOf(pCur)->own;
}

/* The row of a cursor, which may be changed. */
static HgRow *hgOwnRow(BtCursor *pCur){
  if( cursorOf(pCur)->row!=&cursorOf(pCur)->own ) cursorOf(pCur)->own = *cursorOf(pCur)->row;
  return hgNewRow(pCur);
}

/* How the place of a cursor is looked for again, where it may have to be; else null. */
static const HgProbe *hgOrder(BtCursor *pCur, HgProbe *pProbe){
  if( pCur->pKeyInfo==0 || pCur->pBtree->inTrans!=TRANS_WRITE ) return 0;
  pProbe->key = aHgUnpacked;
  pProbe->len = 1;
  pProbe->record = 0;
  pProbe->compare = 0;
  pProbe->info = pCur->pKeyInfo;
  pProbe->isEqual = 0;
  pProbe->first.kind = HG_FIRST_OTHER;
  return pProbe;
}

/* Deletes an entry for which no other one has come: the program has stopped in between, by an error
** that undoes the statement. */
static int hgDeleteDoomed(BtCursor *pCur){
  HgProbe probe;
  if( !cursorOf(pCur)->isDoomed ) return SQLITE_OK;
  cursorOf(pCur)->isDoomed = 0;
  return hg_delete(connOf(pCur), cursorOf(pCur)->position, hgOrder(pCur, &probe));
}

SQLITE_PRIVATE int sqlite3BtreeCloseCursor(BtCursor *pCur){
  BtCursor **pp;
  if( pCur->pBtree==0 || !isStoreCursor(pCur) ) return native_sqlite3BtreeCloseCursor(pCur);
  for(pp=&pCur->pBt->pCursor; *pp && *pp!=pCur; pp=&(*pp)->pNext){}
  if( *pp ) *pp = pCur->pNext;
  hgDeleteDoomed(pCur);
  hg_cursor_close(connOf(pCur), cursorOf(pCur)->position);
  sqlite3_free(pCur->pKey);
  pCur->pBtree = 0;
  return SQLITE_OK;
}

/* Makes a step; the cursor is on an entry then, or invalid. */
static int hgStep(BtCursor *pCur, int step, int *pIsThere){
  HgProbe probe;
  int rc = hgDeleteDoomed(pCur);
  if( rc!=SQLITE_OK ) return rc;
  hgForget(pCur);
  rc = hg_step(connOf(pCur), cursorOf(pCur)->position, step, hgOrder(pCur, &probe),
               hgNewRow(pCur), pIsThere);
  if( rc==SQLITE_OK && *pIsThere ){
    hgStand(pCur);
  }else{
    pCur->eState = CURSOR_INVALID;
  }
  return rc;
}

/* The engine's cursor comes back to where the cursor is. */
static int hgComeBack(BtCursor *pCur){
  HgCursor *c = cursorOf(pCur);
  HgProbe probe;
  int n = c->nAhead;
  hgForget(pCur);
  if( n==0 ) return SQLITE_OK;
  return hg_back(connOf(pCur), c->position, hgOrder(pCur, &probe), c->isBack, n);
}

/* A step to the next entry, or with isBack to the one before: several are fetched. */
static int hgStepAhead(BtCursor *pCur, int isBack, int *pIsThere){
  HgCursor *c = cursorOf(pCur);
  HgProbe probe;
  int rc, n = 0;
  if( c->isBack!=isBack ){
    rc = hgComeBack(pCur);
    if( rc!=SQLITE_OK ) return rc;
    c->isBack = (u8)isBack;
  }
  if( c->nAhead>0 ){
    c->nAhead--;
    c->row = c->ahead++;
    *pIsThere = 1;
    hgStand(pCur);
    return SQLITE_OK;
  }
  /* The first step gets one row, and each time after that four times as many are fetched: to ask
  ** costs as much as ten rows, which costs less if they are not wanted. */
  c->nMost = c->nMost ? MIN(4*c->nMost, HG_AHEAD) : 1;
  rc = hg_next_rows(connOf(pCur), c->position, hgOrder(pCur, &probe), isBack, c->nMost, &n);
  if( rc==SQLITE_OK && n>0 ){
    c->nAhead = (u8)(n-1);
    c->row = c->aAhead;
    c->ahead = c->aAhead + 1;
    *pIsThere = 1;
    hgStand(pCur);
  }else{
    *pIsThere = 0;
    pCur->eState = CURSOR_INVALID;
  }
  return rc;
}

/* Reads the entry that the cursor is on, if its row does not show it. */
static int hgLoad(BtCursor *pCur){
  int isThere;
  if( !cursorOf(pCur)->isStale ) return SQLITE_OK;
  return hgStep(pCur, cursorOf(pCur)->isLast ? HG_LAST : HG_STAY, &isThere);
}

/* A step from a place that may have to be found again: to the next entry, or with -1 to the one
** before. */
static HG_NOINLINE int hgMove(BtCursor *pCur, int sign){
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
  rc = hgStepAhead(pCur, sign<0, &isThere);
  if( rc==SQLITE_OK && !isThere ) rc = SQLITE_DONE;
  return rc;
}

static HG_NOINLINE int hgTableMoveto(BtCursor *pCur, i64 intKey, int *pRes){
  int rc, result;
  if( pCur->eState==CURSOR_VALID ){
    i64 rowid = cursorOf(pCur)->row->rowid;
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
      rc = hgMove(pCur, 1);
      if( rc!=SQLITE_DONE && (rc!=SQLITE_OK || cursorOf(pCur)->row->rowid==intKey) ) return rc;
    }
  }
  pCur->eState = CURSOR_INVALID;
  hgForget(pCur);
  rc = hg_seek_row(connOf(pCur), cursorOf(pCur)->position, intKey, hgNewRow(pCur), &result);
  return hgFound(pCur, rc, result, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeTableMoveto(BtCursor *pCur, i64 intKey, int bias, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeTableMoveto(pCur, intKey, bias, pRes);
  return hgTableMoveto(pCur, intKey, pRes);
}

/* Whether what is looked for comes after the last entry of an index, on which the cursor is. Of one
** that was appended the row has a copy. */
static int hgIsBehindLast(BtCursor *pCur, UnpackedRecord *pRec){
  const HgRow *pRow = cursorOf(pCur)->row;
  if( pRow->check ) return 0;
  pRec->errCode = 0;
  return sqlite3VdbeRecordCompare((int)pRow->len, pRow->data, pRec)<0 && pRec->errCode==0;
}

/* Whether the entry that the cursor is on is equal to what is looked for, is left in eqSeen. */
static int hgCompareHere(BtCursor *pCur, UnpackedRecord *pRec){
  u32 n = 0, len = sqlite3BtreePayloadSize(pCur);
  const void *pData = sqlite3BtreePayloadFetch(pCur, &n);
  u8 *pCopy;
  int rc;
  if( n==len ){
    sqlite3VdbeRecordCompare((int)n, pData, pRec);
    return pRec->errCode;
  }
  pCopy = sqlite3Malloc(len + 8);
  if( pCopy==0 ) return SQLITE_NOMEM_BKPT;
  memset(&pCopy[len], 0, 8);
  rc = sqlite3BtreePayload(pCur, 0, len, pCopy);
  if( rc==SQLITE_OK ){
    sqlite3VdbeRecordCompare((int)len, pCopy, pRec);
    rc = pRec->errCode;
  }
  sqlite3_free(pCopy);
  return rc;
}

/*
** A search of SQLite's own trees compares entries only, so that it has seen an equal one if and only
** if there is one; SQLite then takes the entry where the search ended, or if equal ones count as
** lower the one before, without comparing it. The branches of a store keep keys of entries that are
** gone: here that entry is compared, unless it is the one that the search has seen to be equal.
*/
static int hgHasEqual(BtCursor *pCur, UnpackedRecord *pRec, const u8 *pEqual, int *pRes){
  int isThere = 1;
  if( pRec->default_rc<0 && *pRes>0 ){
    int rc = hgStepAhead(pCur, 1, &isThere);
    if( rc!=SQLITE_OK ) return rc;
    *pRes = -1;
  }
  if( !isThere ) return SQLITE_OK;
  if( cursorOf(pCur)->row->data==pEqual && !cursorOf(pCur)->isStale ){
    pRec->eqSeen = 1;
    return SQLITE_OK;
  }
  return hgCompareHere(pCur, pRec);
}

SQLITE_PRIVATE int sqlite3BtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pRec, int *pRes){
  HgProbe probe;
  const u8 *pEqual = 0;
  int rc, result;
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIndexMoveto(pCur, pRec, pRes);
  if( pCur->eState==CURSOR_VALID && cursorOf(pCur)->isLast && hgIsBehindLast(pCur, pRec) ){
    *pRes = -1;
    return SQLITE_OK;
  }
  rc = hgDeleteDoomed(pCur);
  if( rc!=SQLITE_OK ) return rc;
  pCur->eState = CURSOR_INVALID;
  hgForget(pCur);
  hgProbe(&probe, pRec, pCur->pKeyInfo, 0, 0);
  if( pCur->hints & BTREE_SEEK_EQ ){
    pRec->eqSeen = 0;
    probe.isEqual = &pRec->eqSeen;
    probe.equal = &pEqual;
  }
  rc = hg_seek_key(connOf(pCur), cursorOf(pCur)->position, &probe, hgNewRow(pCur), &result);
  if( rc==SQLITE_OK && pRec->errCode ) rc = pRec->errCode;
  rc = hgFound(pCur, rc, result, pRes);
  if( rc==SQLITE_OK && pEqual && pCur->eState==CURSOR_VALID ){
    rc = hgHasEqual(pCur, pRec, pEqual, pRes);
  }
  return rc;
}

/* Moves to the last row of a table that is being appended to, whose number is known; the rest of it
** is read when it is asked for. */
static int hgIsOnLastNumber(BtCursor *pCur){
  int isThere = 0;
  if( pCur->pKeyInfo || pCur->pBtree->inTrans!=TRANS_WRITE ) return 0;
  if( hgStep(pCur, HG_LAST_NUMBER, &isThere)!=SQLITE_OK ) return 0;
  cursorOf(pCur)->isLast = cursorOf(pCur)->isStale = (u8)isThere;
  return isThere;
}

/* Moves to an end. */
static HG_NOINLINE int hgEnd(BtCursor *pCur, int step, int *pRes){
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

static HG_NOINLINE int hgLast(BtCursor *pCur, int *pRes){
  if( pCur->eState==CURSOR_VALID && cursorOf(pCur)->isLast ){
    *pRes = 0;
    return SQLITE_OK;
  }
  if( pCur->eState!=CURSOR_FAULT && hgIsOnLastNumber(pCur) ){
    *pRes = 0;
    return SQLITE_OK;
  }
  return hgEnd(pCur, HG_LAST, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeLast(BtCursor *pCur, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeLast(pCur, pRes);
  return hgLast(pCur, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeIsEmpty(pCur, pRes);
  return hg_is_empty(connOf(pCur), cursorOf(pCur)->position, pRes);
}

SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor *pCur, int flags){
  HgCursor *c = cursorOf(pCur);
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreeNext(pCur, flags);
  if( pCur->eState==CURSOR_VALID && c->nAhead>0 && !c->isBack ){
    /* info.nKey is asked for of blobs that are open only, whose cursors do not come here. */
    c->nAhead--;
    c->row = c->ahead++;
    return SQLITE_OK;
  }
  return hgMove(pCur, 1);
}

SQLITE_PRIVATE int sqlite3BtreePrevious(BtCursor *pCur, int flags){
  HgCursor *c = cursorOf(pCur);
  if( !isStoreCursor(pCur) ) return native_sqlite3BtreePrevious(pCur, flags);
  if( pCur->eState==CURSOR_VALID && c->nAhead>0 && c->isBack ){
    c->nAhead--;
    c->row = c->ahead++;
    return SQLITE_OK;
  }
  return hgMove(pCur, -1);
}
