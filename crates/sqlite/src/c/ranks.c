/*
** Order statistics in SQL, for tables, indexes and plain tables of stores:
**
**    hedgerow_count(NAME [, VALUE...])   how many entries there are, or have these values
**    hedgerow_rank(NAME, VALUE...)       how many come before these values
**    hedgerow_nth(NAME, N [, COLUMN])    the entry with N before it: its rowid, or a column
**    hedgerow_row_checksum(NAME, VALUE...)  the checksum of the entry with these values
**
** NAME is that of a table or an index, with its database before it if needed. Entries of a table are
** those of its rowids, or of its primary key WITHOUT ROWID. Each answer takes a walk or two from the
** root to a leaf.
*/
#define HG_ASK_COUNT 0
#define HG_ASK_RANK  1
#define HG_ASK_NTH   2
#define HG_ASK_SUM   3

/* What a name stands for. */
typedef struct HgNamed HgNamed;
struct HgNamed {
  Table *pTab;
  Index *pIdx;             /* null for a table with rowids */
  int iDb;                 /* the database that has it */
};

/* The connection to the store of a database; null if it has none. */
HgConn *hg_conn(sqlite3 *db, const char *zDb){
  int iDb = sqlite3FindDbName(db, zDb);
  Btree *p = iDb<0 ? 0 : db->aDb[iDb].pBt;
  return p && isStore(p) ? storeOf(p)->conn : 0;
}

/* Whether a connection compares texts as UTF-8, in the order of their bytes. */
int hg_is_utf8(sqlite3 *db){
  return ENC(db)==SQLITE_UTF8;
}

/* Looks a name up in the schemas that are loaded; zDb may be null. */
static int hgFindNamed(sqlite3 *db, const char *zName, const char *zDb, HgNamed *pNamed){
  Schema *pSchema;
  memset(pNamed, 0, sizeof(*pNamed));
  pNamed->pTab = sqlite3FindTable(db, zName, zDb);
  if( pNamed->pTab==0 ){
    pNamed->pIdx = sqlite3FindIndex(db, zName, zDb);
    if( pNamed->pIdx==0 ) return 0;
    pNamed->pTab = pNamed->pIdx->pTable;
  }else if( IsOrdinaryTable(pNamed->pTab) && !HasRowid(pNamed->pTab) ){
    pNamed->pIdx = sqlite3PrimaryKeyIndex(pNamed->pTab);
  }
  pSchema = pNamed->pIdx ? pNamed->pIdx->pSchema : pNamed->pTab->pSchema;
  pNamed->iDb = sqlite3SchemaToIndex(db, pSchema);
  return 1;
}

/* Whether a database is being read, and its schema is the one that is known. */
static int hgIsHeld(sqlite3 *db, int iDb){
  Btree *p = iDb<0 ? 0 : db->aDb[iDb].pBt;
  return p && isStore(p) && p->inTrans!=TRANS_NONE && DbHasProperty(db, iDb, DB_SchemaLoaded)
      && (u32)db->aDb[iDb].pSchema->schema_cookie==hg_schema_version(storeOf(p)->conn);
}

/* Begins to read a database, which brings its schema up to date; the statement holds both. */
static int hgHold(sqlite3 *db, const char *zDb, sqlite3_stmt **ppStmt){
  char *zSql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema", zDb);
  int rc;
  if( zSql==0 ) return SQLITE_NOMEM_BKPT;
  rc = sqlite3_prepare_v2(db, zSql, -1, ppStmt, 0);
  sqlite3_free(zSql);
  if( rc==SQLITE_OK ){
    rc = sqlite3_step(*ppStmt);
    if( rc==SQLITE_ROW || rc==SQLITE_DONE ) rc = SQLITE_OK;
  }
  return rc;
}

/* Fills in a record with the values that are looked for, as they would stand in the index. */
static int hgFill(
  sqlite3 *db,
  Index *pIdx,
  UnpackedRecord *pRec,
  int nVal,
  sqlite3_value **apVal
){
  const char *zAff = sqlite3IndexAffinityStr(db, pIdx);
  int i, rc = SQLITE_OK;
  if( zAff==0 ) return SQLITE_NOMEM_BKPT;
  for(i=0; rc==SQLITE_OK && i<nVal; i++){
    Mem *pMem = &pRec->aMem[i];
    sqlite3VdbeMemInit(pMem, db, MEM_Null);
    rc = sqlite3VdbeMemCopy(pMem, apVal[i]);
    if( rc==SQLITE_OK ) sqlite3ValueApplyAffinity(pMem, (u8)zAff[i], ENC(db));
    pRec->nField = (u16)(i+1);
  }
  return rc;
}

/* How many entries of an index come before some values, and before what comes after them. */
static int hgRanks(
  HgConn *conn,
  sqlite3 *db,
  Index *pIdx,
  KeyInfo *pInfo,
  int nVal,
  sqlite3_value **apVal,
  i64 aRank[2]
){
  UnpackedRecord *pRec = sqlite3VdbeAllocUnpackedRecord(pInfo);
  HgProbe probe;
  int i, rc;
  if( pRec==0 ) return SQLITE_NOMEM_BKPT;
  pRec->nField = 0;
  rc = hgFill(db, pIdx, pRec, nVal, apVal);
  for(i=0; rc==SQLITE_OK && i<2; i++){
    /* Entries with these values come after what is looked for, and then before it. */
    pRec->default_rc = i==0 ? 1 : -1;
    hgProbe(&probe, pRec, pInfo, 0, 0);
    rc = hg_root_rank(conn, pIdx->tnum, &probe, 0, &aRank[i]);
    if( rc==SQLITE_OK && pRec->errCode ) rc = pRec->errCode;
  }
  for(i=0; i<pRec->nField; i++) sqlite3VdbeMemRelease(&pRec->aMem[i]);
  sqlite3DbFree(db, pRec);
  return rc;
}

/* Answers hedgerow_nth() for an entry of an index. */
static int hgGiveColumn(sqlite3_context *ctx, KeyInfo *pInfo, HgRow *pRow, int iCol){
  UnpackedRecord *pRec = sqlite3VdbeAllocUnpackedRecord(pInfo);
  if( pRec==0 ) return SQLITE_NOMEM_BKPT;
  pRec->nField = pInfo->nKeyField + 1;
  sqlite3VdbeRecordUnpack((int)pRow->len, pRow->data, pRec);
  if( iCol<pRec->nField ) sqlite3_result_value(ctx, &pRec->aMem[iCol]);
  sqlite3DbFree(pInfo->db, pRec);
  return SQLITE_OK;
}

/* Answers with the checksum of an entry, if it has one. */
static int hgGiveSum(sqlite3_context *ctx, HgConn *conn, u32 root, int isIndex, i64 number){
  char z[80];
  int rc = hg_root_sum(conn, root, isIndex, number, z);
  if( rc==SQLITE_OK && z[0] ) sqlite3_result_text(ctx, z, -1, SQLITE_TRANSIENT);
  return rc;
}

/* Answers for an index, or a table without rowids. */
static int hgAskIndex(
  sqlite3_context *ctx,
  int ask,
  HgConn *conn,
  Index *pIdx,
  int nVal,
  sqlite3_value **apVal
){
  sqlite3 *db = sqlite3_context_db_handle(ctx);
  KeyInfo *pInfo;
  Parse sParse;
  i64 aRank[2];
  int rc;
  sqlite3ParseObjectInit(&sParse, db);
  pInfo = sqlite3KeyInfoOfIndex(&sParse, pIdx);
  sqlite3ParseObjectReset(&sParse);
  if( pInfo==0 ) return db->mallocFailed ? SQLITE_NOMEM_BKPT : SQLITE_ERROR;
  if( ask==HG_ASK_NTH ){
    int isRowidIndex = HasRowid(pIdx->pTable);
    int iCol = nVal>1 ? sqlite3_value_int(apVal[1]) : isRowidIndex ? pIdx->nColumn-1 : 0;
    HgRow row;
    int isThere = 0;
    rc = hg_root_nth(conn, pIdx->tnum, 1, sqlite3_value_int64(apVal[0]), &row, &isThere);
    if( rc==SQLITE_OK && isThere && iCol>=0 ) rc = hgGiveColumn(ctx, pInfo, &row, iCol);
  }else if( nVal>pInfo->nKeyField ){
    sqlite3_result_error(ctx, "more values than the index has columns", -1);
    rc = SQLITE_OK;
  }else{
    rc = hgRanks(conn, db, pIdx, pInfo, nVal, apVal, aRank);
    if( rc==SQLITE_OK && ask==HG_ASK_SUM ){
      if( aRank[1]-aRank[0]==1 ) rc = hgGiveSum(ctx, conn, pIdx->tnum, 1, aRank[0]);
    }else if( rc==SQLITE_OK ){
      sqlite3_result_int64(ctx, ask==HG_ASK_RANK ? aRank[0] : aRank[1]-aRank[0]);
    }
  }
  sqlite3KeyInfoUnref(pInfo);
  return rc;
}

/* Answers for a table with rowids. */
static int hgAskRows(
  sqlite3_context *ctx,
  int ask,
  HgConn *conn,
  u32 root,
  int nVal,
  sqlite3_value **apVal
){
  i64 rowid, rank, after = 0;
  int rc;
  if( ask==HG_ASK_NTH ){
    HgRow row;
    int isThere = 0;
    rc = hg_root_nth(conn, root, 0, sqlite3_value_int64(apVal[0]), &row, &isThere);
    if( rc==SQLITE_OK && isThere ) sqlite3_result_int64(ctx, row.rowid);
    return rc;
  }
  if( nVal!=1 || sqlite3_value_numeric_type(apVal[0])!=SQLITE_INTEGER ){
    sqlite3_result_error(ctx, "a row of this table is known by one integer, its rowid", -1);
    return SQLITE_OK;
  }
  rowid = sqlite3_value_int64(apVal[0]);
  if( ask==HG_ASK_SUM ) return hgGiveSum(ctx, conn, root, 0, rowid);
  rc = hg_root_rank(conn, root, 0, rowid, &rank);
  if( rc==SQLITE_OK && ask==HG_ASK_COUNT ){
    if( rowid<LARGEST_INT64 ){
      rc = hg_root_rank(conn, root, 0, rowid+1, &after);
    }else{
      rc = hg_root_count(conn, root, &after);
    }
    rank = after - rank;
  }
  if( rc==SQLITE_OK ) sqlite3_result_int64(ctx, rank);
  return rc;
}

/* Answers for a virtual table. */
static int hgAskVirtual(
  sqlite3_context *ctx,
  int ask,
  Table *pTab,
  int nVal,
  sqlite3_value **apVal
){
  sqlite3 *db = sqlite3_context_db_handle(ctx);
  VTable *pVTab;
  if( sqlite3_stricmp(pTab->u.vtab.azArg[0], "hedgerow")!=0 ){
    sqlite3_result_error(ctx, "the virtual table is not one of a store", -1);
    return SQLITE_OK;
  }
  pVTab = sqlite3GetVTable(db, pTab);
  if( pVTab==0 ){
    Parse sParse;
    int rc;
    sqlite3ParseObjectInit(&sParse, db);
    rc = sqlite3VtabCallConnect(&sParse, pTab);
    if( rc && sParse.zErrMsg ) sqlite3_result_error(ctx, sParse.zErrMsg, -1);
    sqlite3DbFree(db, sParse.zErrMsg);
    sqlite3ParseObjectReset(&sParse);
    pVTab = sqlite3GetVTable(db, pTab);
    if( pVTab==0 ) return rc ? SQLITE_OK : SQLITE_ERROR;
  }
  hg_plain_ask(pVTab->pVtab, ask, ctx, nVal, apVal);
  return SQLITE_OK;
}

/* Answers for what a name stands for; its database is held. */
static int hgAnswer(
  sqlite3_context *ctx,
  int ask,
  HgNamed *pNamed,
  int nVal,
  sqlite3_value **apVal
){
  sqlite3 *db = sqlite3_context_db_handle(ctx);
  Btree *p = db->aDb[pNamed->iDb].pBt;
  i64 n = 0;
  int rc;
  if( IsVirtual(pNamed->pTab) && ask!=HG_ASK_SUM ){
    return hgAskVirtual(ctx, ask, pNamed->pTab, nVal, apVal);
  }
  if( p==0 || !isStore(p) || !IsOrdinaryTable(pNamed->pTab) ){
    sqlite3_result_error(ctx, "the name is not that of a table or an index in a store", -1);
    return SQLITE_OK;
  }
  if( ask==HG_ASK_COUNT && nVal==0 ){
    u32 root = pNamed->pIdx ? pNamed->pIdx->tnum : pNamed->pTab->tnum;
    rc = hg_root_count(storeOf(p)->conn, root, &n);
    if( rc==SQLITE_OK ) sqlite3_result_int64(ctx, n);
    return rc;
  }
  if( pNamed->pIdx ) return hgAskIndex(ctx, ask, storeOf(p)->conn, pNamed->pIdx, nVal, apVal);
  return hgAskRows(ctx, ask, storeOf(p)->conn, pNamed->pTab->tnum, nVal, apVal);
}

/* The functions; which one it is, its user data says. */
static void hgAskFunc(sqlite3_context *ctx, int argc, sqlite3_value **argv){
  sqlite3 *db = sqlite3_context_db_handle(ctx);
  int ask = SQLITE_PTR_TO_INT(sqlite3_user_data(ctx));
  const char *zName = argc>0 ? (const char*)sqlite3_value_text(argv[0]) : 0;
  const char *zTail = zName;
  char *zDb = 0;
  sqlite3_stmt *pStmt = 0;
  HgNamed named;
  int rc, isFound, iHeld, i;
  for(i=1; i<argc && ask==HG_ASK_SUM; i++){
    if( sqlite3_value_type(argv[i])==SQLITE_NULL ) return;
  }
  if( zName==0 || (ask!=HG_ASK_COUNT && argc<2) ){
    sqlite3_result_error(ctx, "a name and a value are needed", -1);
    return;
  }
  if( ask==HG_ASK_NTH && (argc>3 || sqlite3_value_numeric_type(argv[1])!=SQLITE_INTEGER) ){
    if( argc>3 || sqlite3_value_type(argv[1])!=SQLITE_NULL ){
      sqlite3_result_error(ctx, "a place is an integer, counted from 0", -1);
    }
    return;
  }
  if( strchr(zName, '.')!=0 ){
    zDb = sqlite3_mprintf("%.*s", (int)(strchr(zName, '.')-zName), zName);
    if( zDb && sqlite3FindDbName(db, zDb)>=0 ){
      zTail = strchr(zName, '.') + 1;
    }else{
      sqlite3_free(zDb);
      zDb = 0;
    }
  }
  iHeld = sqlite3FindDbName(db, zDb ? zDb : "main");
  rc = hgIsHeld(db, iHeld) ? SQLITE_OK : hgHold(db, zDb ? zDb : "main", &pStmt);
  isFound = rc==SQLITE_OK && hgFindNamed(db, zTail, zDb, &named);
  if( isFound && named.iDb!=iHeld ){
    sqlite3_finalize(pStmt);
    pStmt = 0;
    iHeld = named.iDb;
    rc = hgHold(db, db->aDb[iHeld].zDbSName, &pStmt);
    isFound = rc==SQLITE_OK && hgFindNamed(db, zTail, db->aDb[iHeld].zDbSName, &named);
  }
  if( isFound ){
    rc = hgAnswer(ctx, ask, &named, argc-1, argv+1);
  }else if( rc==SQLITE_OK ){
    char *zErr = sqlite3_mprintf("no such table or index: %s", zName);
    sqlite3_result_error(ctx, zErr ? zErr : "out of memory", -1);
    sqlite3_free(zErr);
  }
  if( rc!=SQLITE_OK ) sqlite3_result_error_code(ctx, rc);
  sqlite3_finalize(pStmt);
  sqlite3_free(zDb);
}

/* Every connection has these functions, and plain tables as virtual ones. */
int hg_register(sqlite3 *db){
  static const char *const azName[4] = {
    "hedgerow_count", "hedgerow_rank", "hedgerow_nth", "hedgerow_row_checksum"
  };
  int i, rc = SQLITE_OK;
  for(i=0; rc==SQLITE_OK && i<4; i++){
    int flags = SQLITE_UTF8 | (i==HG_ASK_SUM ? SQLITE_INNOCUOUS : 0);
    rc = sqlite3_create_function(db, azName[i], -1, flags, SQLITE_INT_TO_PTR(i), hgAskFunc, 0, 0);
  }
  if( rc==SQLITE_OK ) rc = sqlite3_create_module(db, "hedgerow", hg_plain_module(), 0);
  return rc;
}
