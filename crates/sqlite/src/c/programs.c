/*
** What is looked for in a program when it is made ready. Included by hedgerow.c.
**
** Besides the loops of count.c these are the pairs of instructions by which an UPDATE changes an
** index: one takes an entry out, another one puts an entry in. Where all that stands between them
** leaves the index alone, its cursor is told so: the entry then stays until the other one comes,
** which often has its place where that was (hg_replace_key).
*/

/* Whether an instruction goes on to the next one, leaves the tree of a cursor alone, and calls
** nothing that could look at it. */
static int hgLeavesAlone(const VdbeOp *pOp, int iCursor){
  switch( pOp->opcode ){
    case OP_Affinity:
    case OP_Copy:
    case OP_IntCopy:
    case OP_MakeRecord:
    case OP_Null:
    case OP_RealAffinity:
    case OP_SCopy:
      return 1;
    case OP_Column:
    case OP_FinishSeek:
    case OP_IdxDelete:
    case OP_IdxInsert:
    case OP_Rowid:
      return pOp->p1!=iCursor;
    case OP_Delete:
      /* One that counts calls the update hook. */
      return pOp->p1!=iCursor && (pOp->p2 & OPFLAG_NCHANGE)==0;
    default:
      return 0;
  }
}

/* Whether an entry is put in place of the one that an instruction takes out. */
static int hgIsReplaced(const Vdbe *p, int iDelete){
  int iCursor = p->aOp[iDelete].p1;
  int i;
  for(i=iDelete+1; i<p->nOp; i++){
    const VdbeOp *pOp = &p->aOp[i];
    if( pOp->opcode==OP_IdxInsert && pOp->p1==iCursor ) return 1;
    if( !hgLeavesAlone(pOp, iCursor) ) return 0;
  }
  return 0;
}

/* Tells the cursor of an index of a store if all entries that the program takes out of it are
** replaced. The hint, which is that of a cursor that fills an index, is of no use to it else. */
static void hgMarkReplacing(Vdbe *p, int iCursor){
  int i;
  for(i=0; i<p->nOp; i++){
    const VdbeOp *pOp = &p->aOp[i];
    if( pOp->p1!=iCursor ) continue;
    if( pOp->opcode==OP_Delete || (pOp->opcode==OP_IdxDelete && !hgIsReplaced(p, i)) ) return;
  }
  if( !hgIsOnStore(p, iCursor) ) return;
  for(i=0; i<p->nOp; i++){
    VdbeOp *pOp = &p->aOp[i];
    if( pOp->opcode==OP_OpenWrite && pOp->p1==iCursor ) pOp->p5 |= OPFLAG_BULKCSR;
  }
}

SQLITE_PRIVATE void sqlite3VdbeMakeReady(Vdbe *p, Parse *pParse){
  int i;
  for(i=0; i<p->nOp; i++){
    int op = p->aOp[i].opcode;
    if( op==OP_Next || op==OP_Prev ) hgImproveLoop(p, pParse, i);
    if( op==OP_IdxDelete ) hgMarkReplacing(p, p->aOp[i].p1);
  }
  native_sqlite3VdbeMakeReady(p, pParse);
}
