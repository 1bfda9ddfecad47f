/*
** The column row_checksum, which every table of a store has that has no other column of the name.
** As rowid it is not among those that * stands for. Included by hedgerow.c.
**
** Where SQLite looks up what a name stands for, it becomes a call of the function
** hedgerow_row_checksum() of ranks.c, with the table and the row's rowid or primary key.
*/

/* What is looked up. */
typedef struct HgName HgName;
struct HgName {
  const char *zDb;         /* the database that stands before it, or null */
  const char *zTab;        /* the table that does, or null */
  const char *zCol;        /* itself */
};

/* Whether an item of a FROM clause is one that a name may mean. */
static int hgMayMean(sqlite3 *db, const HgName *pName, const SrcItem *pItem){
  const Table *pTab = pItem->pSTab;
  if( pName->zTab==0 ) return 1;
  if( pName->zDb ){
    int iDb = sqlite3FindDbName(db, pName->zDb);
    if( iDb<0 || db->aDb[iDb].pSchema!=pTab->pSchema ) return 0;
  }
  return sqlite3StrICmp(pName->zTab, pItem->zAlias ? pItem->zAlias : pTab->zName)==0;
}

/* Whether it is a table that has checksums. */
static int hgMayHaveColumn(sqlite3 *db, const SrcItem *pItem){
  Table *pTab = pItem->pSTab;
  int iDb;
  if( !IsOrdinaryTable(pTab) || (pTab->tabFlags & TF_Ephemeral)!=0 || pTab->pSchema==0 ) return 0;
  iDb = sqlite3SchemaToIndex(db, pTab->pSchema);
  return iDb>=0 && db->aDb[iDb].pBt!=0 && isStore(db->aDb[iDb].pBt);
}

/* Whether a name is that of a column of a result. */
static int hgIsAlias(const NameContext *pNC, const char *zCol){
  int i;
  if( (pNC->ncFlags & NC_UEList)==0 ) return 0;
  for(i=0; i<pNC->uNC.pEList->nExpr; i++){
    const struct ExprList_item *pX = &pNC->uNC.pEList->a[i];
    if( pX->fg.eEName==ENAME_NAME && sqlite3_stricmp(pX->zEName, zCol)==0 ) return 1;
  }
  return 0;
}

/* The table whose checksum a name means, from the innermost context outwards; null if it means
** something else, or an error. */
static SrcItem *hgFindTable(Parse *pParse, const HgName *pName, NameContext *pNC){
  for(; pNC; pNC=pNC->pNext){
    SrcList *pSrc = pNC->pSrcList;
    SrcItem *pFound = 0;
    int i, n = 0;
    if( (pNC->ncFlags & (NC_IdxExpr|NC_GenCol|NC_PartIdx|NC_IsCheck))!=0 ) return 0;
    for(i=0; pSrc && i<pSrc->nSrc; i++){
      SrcItem *pItem = &pSrc->a[i];
      if( pItem->fg.isNestedFrom || pItem->pSTab==0 ) return 0;
      if( !hgMayMean(pParse->db, pName, pItem) ) continue;
      if( sqlite3ColumnIndex(pItem->pSTab, pName->zCol)>=0 ) return 0;
      if( hgMayHaveColumn(pParse->db, pItem) && n++==0 ) pFound = pItem;
    }
    if( pName->zTab==0 && hgIsAlias(pNC, pName->zCol) ) return 0;
    if( n>1 ) sqlite3ErrorMsg(pParse, "ambiguous column name: %s", pName->zCol);
    if( n>0 ) return pFound;
  }
  return 0;
}

/* A name for the rowid that no column of a table has. */
static const char *hgRowidName(Table *pTab){
  static const char *const azName[] = { "_rowid_", "rowid", "oid" };
  int i;
  for(i=0; i<ArraySize(azName); i++){
    if( sqlite3ColumnIndex(pTab, azName[i])<0 ) return azName[i];
  }
  return 0;
}

/* The name of a part of a row's key: the rowid, or a column of the primary key; null if it has no
** more of them. */
static const char *hgKeyName(Table *pTab, int i){
  Index *pPk;
  if( HasRowid(pTab) ) return i==0 ? hgRowidName(pTab) : 0;
  pPk = sqlite3PrimaryKeyIndex(pTab);
  return i<pPk->nKeyCol ? pTab->aCol[pPk->aiColumn[i]].zCnName : 0;
}

/* Makes an expression a call of hedgerow_row_checksum() for the row of a table. */
static int hgMakeSum(Parse *pParse, SrcItem *pItem, NameContext *pNC, Expr *pExpr){
  sqlite3 *db = pParse->db;
  Table *pTab = pItem->pSTab;
  const char *zDb = db->aDb[sqlite3SchemaToIndex(db, pTab->pSchema)].zDbSName;
  const char *zTab = pItem->zAlias ? pItem->zAlias : pTab->zName;
  const char *zKey;
  Token name = { "hedgerow_row_checksum", 21 };
  char *zFull = sqlite3MPrintf(db, "%s.%s", zDb, pTab->zName);
  ExprList *pList = sqlite3ExprListAppend(pParse, 0, sqlite3Expr(db, TK_STRING, zFull));
  Expr *pCall, temp;
  int i;
  sqlite3DbFree(db, zFull);
  for(i=0; (zKey = hgKeyName(pTab, i))!=0; i++){
    Expr *pArg = sqlite3Expr(db, TK_ID, zKey);
    if( pArg && native_lookupName(pParse, zDb, zTab, pArg, pNC, pArg)==WRC_Abort ) pParse->nErr++;
    pList = sqlite3ExprListAppend(pParse, pList, pArg);
  }
  pCall = sqlite3ExprFunction(pParse, pList, &name, 0);
  if( pCall==0 || pParse->nErr ){
    sqlite3ExprDelete(db, pCall);
    return WRC_Abort;
  }
  pCall->w.iOfst = pExpr->w.iOfst;
  if( ExprHasProperty(pExpr, EP_OuterON|EP_InnerON) ){
    sqlite3SetJoinExpr(pCall, pExpr->w.iJoin, pExpr->flags & (EP_OuterON|EP_InnerON));
  }
  memcpy(&temp, pCall, sizeof(temp));
  memcpy(pCall, pExpr, sizeof(temp));
  memcpy(pExpr, &temp, sizeof(temp));
  sqlite3ExprDeferredDelete(pParse, pCall);
  return WRC_Prune;
}

static int lookupName(
  Parse *pParse,
  const char *zDb,
  const char *zTab,
  const Expr *pRight,
  NameContext *pNC,
  Expr *pExpr
){
  HgName name = { zDb, zTab, pRight->u.zToken };
  SrcItem *pItem;
  Expr key;
  int rc;
  if( sqlite3_stricmp(name.zCol, "row_checksum")!=0
   || (pItem = hgFindTable(pParse, &name, pNC))==0
   || (HasRowid(pItem->pSTab) && hgRowidName(pItem->pSTab)==0) ){
    return native_lookupName(pParse, zDb, zTab, pRight, pNC, pExpr);
  }
  if( pParse->nErr ) return WRC_Abort;
  if( !IN_RENAME_OBJECT ) return hgMakeSum(pParse, pItem, pNC, pExpr);
  /* Only the names in the text count: it is a column of the table, but none that is renamed. */
  key = *pRight;
  key.u.zToken = (char*)hgKeyName(pItem->pSTab, 0);
  rc = native_lookupName(pParse, zDb, zTab, &key, pNC, pExpr);
  pExpr->iColumn = XN_EXPR;
  return rc;
}
