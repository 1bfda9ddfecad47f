/*
** Counting and skipping by the counters of a store. Included by hedgerow.c.
**
** SQLite's programs count and skip rows one by one: a loop over a table or an index whose body does
** nothing but to count, or that leaves its first rows out (OFFSET). Such loops are recognised when a
** program is made ready, by their instructions, and instead of the rows the ranks of the first and
** of the last one are looked up. Every instruction besides the usual ones leaves a loop as it is.
**
**   loop:  IdxGT C .. | Rowid C r; Gt .. r    whether the range ends; or neither
**          AggStep count(*)                   becomes
**          Next C loop                        left_in_range: adds the rows that are left
**
**   loop:  IdxGT .. | Rowid; Gt               as above
**          DeferredSeek C                     or not
**          Noop                               becomes skip_in_range: moves C near the last row that
**          IfPos offset next 1                is left out, and lowers the offset
**          ...
**   next:  Next C loop
**
** The other way (Prev, IdxLT, Lt) is recognised likewise.
*/

/* So many rows are counted or left out one by one. */
#define HG_FEW 4

/* SQLite's: makes a number of a text that is one. */
static void applyNumericAffinity(Mem*, int);

/* What ends a range of rowids, as the comparison takes it: a text that is a number counts as one. */
static const Mem *hgEndOf(Vdbe *p, const VdbeOp *pEnd, Mem *pRoom){
  const Mem *pMem = &p->aMem[pEnd->p1];
  int isText = (pMem->flags & (MEM_Str|MEM_Int|MEM_IntReal|MEM_Real))==MEM_Str;
  if( !isText || (pEnd->p5 & SQLITE_AFF_MASK)<SQLITE_AFF_NUMERIC ) return pMem;
  memset(pRoom, 0, sizeof(*pRoom));
  pRoom->db = p->db;
  sqlite3VdbeMemShallowCopy(pRoom, pMem, MEM_Ephem);
  applyNumericAffinity(pRoom, 0);
  return pRoom;
}

/* What ends a range of an index, to be looked for. */
static void hgProbeEnd(
  Vdbe *p,
  VdbeCursor *pC,
  const VdbeOp *pEnd,
  UnpackedRecord *pRec,
  HgProbe *pProbe
){
  memset(pRec, 0, sizeof(*pRec));
  pRec->pKeyInfo = pC->pKeyInfo;
  pRec->nField = (u16)pEnd->p4.i;
  pRec->aMem = &p->aMem[pEnd->p3];
  /* Entries that begin with the end are before it, or after it; none equals it. */
  pRec->default_rc = pEnd->opcode==OP_IdxGT || pEnd->opcode==OP_IdxLE ? -1 : 1;
  hgProbe(pProbe, pRec, pC->pKeyInfo, 0, 0);
}

/* How far a loop goes: the entries before the end of its range. */
static int hgRankOfEnd(Vdbe *p, VdbeCursor *pC, const VdbeOp *pEnd, int isBack, i64 *pRank){
  BtCursor *pCur = pC->uc.pCursor;
  HgConn *conn = connOf(pCur);
  HgPosition *position = cursorOf(pCur)->position;
  int op = pEnd ? pEnd->opcode : OP_Noop;
  const Mem *pMem;
  Mem room;
  i64 rowid;
  int isWithin;                /* the end itself is no entry of the range */
  if( pEnd==0 && isBack ){
    *pRank = 0;
    return SQLITE_OK;
  }
  if( pEnd==0 ) return hg_count(conn, position, pRank);
  if( op==OP_IdxGT || op==OP_IdxGE || op==OP_IdxLT || op==OP_IdxLE ){
    UnpackedRecord r;
    HgProbe probe;
    int rc;
    hgProbeEnd(p, pC, pEnd, &r, &probe);
    rc = hg_rank_of_key(conn, position, &probe, pRank);
    return rc==SQLITE_OK && r.errCode ? r.errCode : rc;
  }
  isWithin = op==OP_Gt || op==OP_Le;
  pMem = hgEndOf(p, pEnd, &room);
  if( pMem->flags & (MEM_Int|MEM_IntReal) ){
    rowid = pMem->u.i;
  }else if( pMem->flags & MEM_Real ){
    double r = pMem->u.r;
    if( r>=9223372036854775808.0 ) return hg_count(conn, position, pRank);
    if( r<-9223372036854775808.0 ){
      *pRank = 0;
      return SQLITE_OK;
    }
    rowid = (i64)r;
    if( (double)rowid>r ) rowid--;
    if( (double)rowid<r ) isWithin = 1;
  }else{
    /* Texts and blobs are after all numbers; a loop whose range ends with NULL has no rows. */
    return hg_count(conn, position, pRank);
  }
  if( isWithin && rowid==LARGEST_INT64 ) return hg_count(conn, position, pRank);
  return hg_rank_of_row(conn, position, rowid + isWithin, pRank);
}

/* Whether the entry that a cursor is on is still in the range of its loop. */
static int hgIsInRange(Vdbe *p, VdbeCursor *pC, const VdbeOp *pEnd, int *pRc){
  BtCursor *pCur = pC->uc.pCursor;
  int op = pEnd ? pEnd->opcode : OP_Noop;
  int c;
  if( pEnd==0 ) return 1;
  if( op==OP_IdxGT || op==OP_IdxGE || op==OP_IdxLT || op==OP_IdxLE ){
    UnpackedRecord r;
    if( cursorOf(pCur)->row->check && (*pRc = hgVerify(pCur))!=SQLITE_OK ) return 0;
    memset(&r, 0, sizeof(r));
    r.pKeyInfo = pC->pKeyInfo;
    r.nField = (u16)pEnd->p4.i;
    r.aMem = &p->aMem[pEnd->p3];
    c = sqlite3VdbeRecordCompare((int)cursorOf(pCur)->row->len, cursorOf(pCur)->row->data, &r);
    if( r.errCode ) *pRc = r.errCode;
  }else{
    Mem row, room;
    memset(&row, 0, sizeof(row));
    row.flags = MEM_Int;
    row.u.i = cursorOf(pCur)->row->rowid;
    c = sqlite3MemCompare(&row, hgEndOf(p, pEnd, &room), 0);
  }
  switch( op ){
    case OP_IdxGT: case OP_Gt: return c<=0;
    case OP_IdxGE: case OP_Ge: return c<0;
    case OP_IdxLT: case OP_Lt: return c>=0;
    default: return c>0;
  }
}

/* How many rows a loop has from the one on that its cursor is on, and the rank of that one. */
static int hgLeftInRange(Vdbe *p, const VdbeOp *pOp, int isBack, i64 *pAt, i64 *pLeft){
  VdbeCursor *pC = p->apCsr[pOp->p1];
  BtCursor *pCur = pC->uc.pCursor;
  const VdbeOp *pEnd = pOp->p2 ? &p->aOp[pOp->p2] : 0;
  HgProbe probe;
  i64 end = 0;
  int rc;
  /* The program was made for a store, and an instruction before this one has moved the cursor. */
  if( pC->eCurType!=CURTYPE_BTREE || !isStoreCursor(pCur) ) return SQLITE_SCHEMA;
  if( pCur->eState!=CURSOR_VALID ) return SQLITE_ABORT;
  rc = hgLoad(pCur);
  if( rc==SQLITE_OK ) rc = hgComeBack(pCur);
  if( rc==SQLITE_OK ){
    rc = hg_rank(connOf(pCur), cursorOf(pCur)->position, hgOrder(pCur, &probe), pAt);
  }
  if( rc==SQLITE_OK ) rc = hgRankOfEnd(p, pC, pEnd, isBack, &end);
  *pLeft = isBack ? *pAt + 1 - end : end - *pAt;
  if( rc==SQLITE_OK && *pLeft<1 ) rc = SQLITE_CORRUPT_BKPT;
  return rc;
}

/* How many rows a loop over an index has from the one on that its cursor is on, if its range ends
** in the leaf of that one; else 0. */
static i64 hgLeftInLeaf(Vdbe *p, VdbeCursor *pC, const VdbeOp *pEnd, int *pRc){
  BtCursor *pCur = pC->uc.pCursor;
  UnpackedRecord r;
  HgProbe probe;
  i64 n = 0;
  int rc;
  if( pEnd==0 || (pEnd->opcode!=OP_IdxGT && pEnd->opcode!=OP_IdxGE) ) return 0;
  if( pCur->eState!=CURSOR_VALID || cursorOf(pCur)->isStale ) return 0;
  rc = hgComeBack(pCur);
  hgProbeEnd(p, pC, pEnd, &r, &probe);
  if( rc==SQLITE_OK ) rc = hg_count_to(connOf(pCur), cursorOf(pCur)->position, &probe, &n);
  *pRc = rc==SQLITE_OK && r.errCode ? r.errCode : rc;
  return MAX(n, 0);
}

/* After the first row of a loop was counted: adds the others, the next few of which are looked at,
** as most ranges are short. */
static void hgCountLeft(sqlite3_context *pCtx, int nArg, sqlite3_value **apArg){
  Vdbe *p = pCtx->pVdbe;
  VdbeOp *pOp = &p->aOp[pCtx->iOp];
  Mem *pCount = &p->aMem[pOp[-1].p3];
  VdbeCursor *pC = p->apCsr[pOp->p1];
  const VdbeOp *pEnd = pOp->p2 ? &p->aOp[pOp->p2] : 0;
  int isBack = SQLITE_PTR_TO_INT(sqlite3_user_data(pCtx));
  i64 at = 0, left = 0;
  int rc = SQLITE_OK, n = 0;
  UNUSED_PARAMETER2(nArg, apArg);
  if( pC->eCurType!=CURTYPE_BTREE || !isStoreCursor(pC->uc.pCursor) ) rc = SQLITE_SCHEMA;
  if( rc==SQLITE_OK && !isBack ) left = hgLeftInLeaf(p, pC, pEnd, &rc);
  while( rc==SQLITE_OK && left==0 && n<HG_FEW ){
    rc = isBack ? sqlite3BtreePrevious(pC->uc.pCursor, 0) : sqlite3BtreeNext(pC->uc.pCursor, 0);
    if( rc!=SQLITE_OK ) break;
    rc = hgLoad(pC->uc.pCursor);
    if( rc==SQLITE_OK && !hgIsInRange(p, pC, pEnd, &rc) && rc==SQLITE_OK ) rc = SQLITE_DONE;
    if( rc==SQLITE_OK ) n++;
  }
  if( rc==SQLITE_OK && left==0 ) rc = hgLeftInRange(p, pOp, isBack, &at, &left);
  /* The row that the cursor is on is one of those that were counted. */
  left = rc==SQLITE_OK ? n + left - 1 : n;
  if( rc==SQLITE_DONE ) rc = SQLITE_OK;
  if( rc!=SQLITE_OK ){
    sqlite3_result_error_code(pCtx, rc);
  }else if( (pCount->flags & MEM_Agg)==0 || pCount->z==0 ){
    sqlite3_result_error_code(pCtx, SQLITE_INTERNAL);
  }else{
    /* What countStep() keeps begins with the count. */
    *(i64*)pCount->z += left;
    pCount->n += (int)left;
    pC->cacheStatus = CACHE_STALE;
  }
}

/* Before the first row of a loop that is left out: goes to the last one, or as far as the loop does.
** The instructions that follow leave out the row that the cursor is on. */
static void hgSkip(sqlite3_context *pCtx, int nArg, sqlite3_value **apArg){
  Vdbe *p = pCtx->pVdbe;
  VdbeOp *pOp = &p->aOp[pCtx->iOp];
  Mem *pOffset = &p->aMem[pOp[1].p1];
  VdbeCursor *pC = p->apCsr[pOp->p1];
  int isBack = SQLITE_PTR_TO_INT(sqlite3_user_data(pCtx));
  i64 at = 0, left = 0, skip;
  int rc, isThere = 0;
  UNUSED_PARAMETER2(nArg, apArg);
  if( (pOffset->flags & MEM_Int)==0 || pOffset->u.i<=HG_FEW ) return;
  rc = hgLeftInRange(p, pOp, isBack, &at, &left);
  skip = MIN(left, pOffset->u.i) - 1;
  if( rc==SQLITE_OK && skip>0 ){
    BtCursor *pCur = pC->uc.pCursor;
    rc = hg_seek_nth(connOf(pCur), cursorOf(pCur)->position, isBack ? at-skip : at+skip,
                     hgNewRow(pCur), &isThere);
    if( rc==SQLITE_OK && !isThere ) rc = SQLITE_CORRUPT_BKPT;
    if( rc==SQLITE_OK ){
      hgStand(pCur);
      pC->cacheStatus = CACHE_STALE;
      pOffset->u.i -= skip;
    }
  }
  if( rc!=SQLITE_OK ) sqlite3_result_error_code(pCtx, rc);
}

#define HG_FUNCTION(NAME, FUNCTION, IS_BACK) \
  { 0, SQLITE_UTF8, SQLITE_INT_TO_PTR(IS_BACK), 0, FUNCTION, 0, 0, 0, NAME, {0} }
static FuncDef hgCountLeftDef[2] = {
  HG_FUNCTION("left_in_range", hgCountLeft, 0),
  HG_FUNCTION("left_in_range", hgCountLeft, 1),
};
static FuncDef hgSkipDef[2] = {
  HG_FUNCTION("skip_in_range", hgSkip, 0),
  HG_FUNCTION("skip_in_range", hgSkip, 1),
};

/* Whether a cursor of a program is on a tree of a store wherever it is opened. */
static int hgIsOnStore(Vdbe *p, int iCursor){
  int i, n = 0;
  for(i=0; i<p->nOp; i++){
    const VdbeOp *pOp = &p->aOp[i];
    if( pOp->p1!=iCursor ) continue;
    switch( pOp->opcode ){
      case OP_OpenRead:
      case OP_OpenWrite:
      case OP_ReopenIdx: {
        Btree *pBtree = pOp->p3>=0 && pOp->p3<p->db->nDb ? p->db->aDb[pOp->p3].pBt : 0;
        if( pBtree==0 || !isStore(pBtree) ) return 0;
        n++;
        break;
      }
      case OP_OpenAutoindex:
      case OP_OpenDup:
      case OP_OpenEphemeral:
      case OP_OpenPseudo:
      case OP_SorterOpen:
      case OP_VOpen:
        return 0;
    }
  }
  return n>0;
}

/* Makes an instruction a call. */
static void hgMakeCall(Vdbe *p, Parse *pParse, int at, FuncDef *pDef, int iCursor, int iEnd){
  VdbeOp *pOp = &p->aOp[at];
  sqlite3_context *pCtx = sqlite3DbMallocZero(p->db, SZ_CONTEXT(1));
  if( pCtx==0 ) return;
  pCtx->pFunc = pDef;
  pCtx->iOp = at;
  pOp->opcode = OP_PureFunc;
  pOp->p1 = iCursor;
  pOp->p2 = iEnd;
  pOp->p3 = ++pParse->nMem;
  pOp->p4type = P4_FUNCCTX;
  pOp->p4.pCtx = pCtx;
  pOp->p5 = 0;
}

/* Whether an instruction ends a loop over an index, or over a table, in a direction. */
static int hgEndsIndex(const VdbeOp *pOp, int iCursor, int isBack){
  if( pOp->p1!=iCursor || pOp->p4type!=P4_INT32 ) return 0;
  return isBack ? pOp->opcode==OP_IdxLT || pOp->opcode==OP_IdxLE
                : pOp->opcode==OP_IdxGT || pOp->opcode==OP_IdxGE;
}
static int hgEndsTable(const VdbeOp *pOp, int iCursor, int isBack){
  const VdbeOp *pTest = &pOp[1];
  if( pOp->opcode!=OP_Rowid || pOp->p1!=iCursor || pTest->p3!=pOp->p2 ) return 0;
  if( pTest->p5!=(SQLITE_AFF_NUMERIC|SQLITE_JUMPIFNULL) ) return 0;
  return isBack ? pTest->opcode==OP_Lt || pTest->opcode==OP_Le
                : pTest->opcode==OP_Gt || pTest->opcode==OP_Ge;
}

/* Whether an instruction counts rows, whatever is in them. */
static int hgCounts(const VdbeOp *pOp){
  return pOp->opcode==OP_AggStep && pOp->p1==0 && pOp->p5==0 && pOp->p4type==P4_FUNCDEF
      && pOp->p4.pFunc->nArg==0 && (pOp->p4.pFunc->funcFlags & SQLITE_FUNC_COUNT)!=0;
}

/* Looks at the loop that ends with an instruction. */
static void hgImproveLoop(Vdbe *p, Parse *pParse, int iNext){
  const VdbeOp *pNext = &p->aOp[iNext];
  int isBack = pNext->opcode==OP_Prev;
  int iCursor = pNext->p1;
  int i = pNext->p2;                  /* where the loop begins */
  int iEnd = 0;                       /* the instruction that ends it */
  if( i<1 || i>=iNext || pNext->p4type!=P4_NOTUSED ) return;
  if( hgEndsIndex(&p->aOp[i], iCursor, isBack) ){
    iEnd = i++;
  }else if( hgEndsTable(&p->aOp[i], iCursor, isBack) ){
    iEnd = i+1;
    i += 2;
  }
  if( i+1==iNext ){
    if( hgCounts(&p->aOp[i]) && hgIsOnStore(p, iCursor) ){
      hgMakeCall(p, pParse, iNext, &hgCountLeftDef[isBack], iCursor, iEnd);
    }
    return;
  }
  if( p->aOp[i].opcode==OP_DeferredSeek && p->aOp[i].p1==iCursor ) i++;
  if( i+2<iNext && p->aOp[i].opcode==OP_Noop && p->aOp[i+1].opcode==OP_IfPos ){
    const VdbeOp *pIfPos = &p->aOp[i+1];
    int iLabel = ADDR(pIfPos->p2);
    if( pIfPos->p3==1 && pIfPos->p2<0 && iLabel<-pParse->nLabel && pParse->aLabel
     && pParse->aLabel[iLabel]==iNext && hgIsOnStore(p, iCursor) ){
      hgMakeCall(p, pParse, i, &hgSkipDef[isBack], iCursor, iEnd);
    }
  }
}

/* SQLite's code of OFFSET, with an instruction before it that may become a call. */
static void codeOffset(Vdbe *v, int iOffset, int iContinue){
  if( iOffset>0 ) sqlite3VdbeAddOp0(v, OP_Noop);
  native_codeOffset(v, iOffset, iContinue);
}
