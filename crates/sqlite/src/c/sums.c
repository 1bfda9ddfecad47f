/*
** Checksums of rows: PRAGMA row_checksum, and what a mismatch says. Included by hedgerow.c.
**
** src/sums.rs stores a checksum before a row's record, or in the value of an index entry, and shows
** the record without it. Once for each row that a cursor comes to, before its record is read, the
** two are compared; a row of which nothing but its number is read is not looked at.
*/

/* What PRAGMA row_checksum can say, by the numbers of sums.rs. */
static const char *const azHgKind[] = { "off", "fast", "sha3", "blake3" };

/* Where it stands: beyond SQLite's own numbers (conn.rs). */
#define HG_ROW_CHECKSUM 16

/* A row that is not what its checksum says (sums.rs); for who masks the code, SQLITE_CORRUPT. */
#define HG_CORRUPT_ROW (SQLITE_CORRUPT | (0x72<<8))

/* What was said about the last such row of this thread. */
static __thread char zHgCorruptRow[300];

/* The name of the table or index of a root, if its schema is known. */
static const char *hgNameOfTree(Schema *pSchema, u32 root){
  HashElem *k;
  if( pSchema==0 ) return 0;
  for(k=sqliteHashFirst(&pSchema->idxHash); k; k=sqliteHashNext(k)){
    Index *pIdx = sqliteHashData(k);
    if( pIdx->tnum==root ) return IsPrimaryKeyIndex(pIdx) ? pIdx->pTable->zName : pIdx->zName;
  }
  for(k=sqliteHashFirst(&pSchema->tblHash); k; k=sqliteHashNext(k)){
    Table *pTab = sqliteHashData(k);
    if( pTab->tnum==root ) return pTab->zName;
  }
  return 0;
}

/* What PRAGMA row_checksum says of a database in a transaction; of a file of SQLite's "off". */
static u32 hgKind(Btree *p){
  return isStore(p) ? hg_number(storeOf(p)->conn, HG_ROW_CHECKSUM) : 0;
}

/* Before the first entry is put into an index: those that are derived from the rows of a table
** carry the fast checksum, whichever rows carry. The rows of a table WITHOUT ROWID are not derived;
** nor is what the schema does not know, but for an index that is just being filled. */
static void hgKnowTree(BtCursor *pCur){
  Schema *pSchema = (Schema*)pCur->pBt->pSchema;
  HashElem *k;
  int isDerived = (pCur->hints & BTREE_BULKLOAD)!=0;
  cursorOf(pCur)->isKnown = 1;
  if( pSchema==0 || hgKind(pCur->pBtree)<2 ) return;
  for(k=sqliteHashFirst(&pSchema->idxHash); k; k=sqliteHashNext(k)){
    Index *pIdx = sqliteHashData(k);
    if( pIdx->tnum!=pCur->pgnoRoot ) continue;
    isDerived = HasRowid(pIdx->pTable) || !IsPrimaryKeyIndex(pIdx);
    break;
  }
  if( isDerived ) hg_cursor_derived(cursorOf(pCur)->position);
}

/* Compares the row that a cursor is on with its checksum. */
static SQLITE_NOINLINE int hgVerify(BtCursor *pCur){
  HgRow *pRow = hgOwnRow(pCur);
  int rc = hg_verify(connOf(pCur), cursorOf(pCur)->position, pRow);
  if( rc==SQLITE_OK ){
    pRow->check = 0;
  }else if( rc==HG_CORRUPT_ROW ){
    const char *zName = hgNameOfTree((Schema*)pCur->pBt->pSchema, pCur->pgnoRoot);
    if( zName==0 ) zName = "?";
    if( pCur->pKeyInfo==0 ){
      sqlite3_snprintf(sizeof(zHgCorruptRow), zHgCorruptRow,
          "row %lld of %.100s (tree %u) does not match its checksum",
          pRow->rowid, zName, pCur->pgnoRoot);
    }else{
      sqlite3_snprintf(sizeof(zHgCorruptRow), zHgCorruptRow,
          "an entry of %.100s (tree %u) does not match its checksum", zName, pCur->pgnoRoot);
    }
  }
  return rc;
}

/* The text of an error: of a row that is not what its checksum says which one it is. */
SQLITE_PRIVATE const char *sqlite3ErrStr(int rc){
  if( rc==HG_CORRUPT_ROW && zHgCorruptRow[0] ) return zHgCorruptRow;
  return native_sqlite3ErrStr(rc);
}

/* PRAGMA row_checksum: the program that asks for it, or sets it first. */
static int hgPragmaSums(sqlite3 *db, const char *zDbName, char **azArg){
  int iDb = zDbName ? sqlite3FindDbName(db, zDbName) : 0;
  Vdbe *v = db->pParse ? db->pParse->pVdbe : 0;
  int i, kind = -1, iEnd;
  if( iDb<0 || db->aDb[iDb].pBt==0 || v==0 ) return SQLITE_NOTFOUND;
  if( azArg[2] ){
    for(i=0; i<ArraySize(azHgKind); i++){
      if( sqlite3_stricmp(azArg[2], azHgKind[i])==0 ) kind = i;
    }
    if( kind<0 ){
      azArg[0] = sqlite3_mprintf("there is no row checksum \"%s\": off, fast, sha3 or blake3",
                                 azArg[2]);
      return SQLITE_ERROR;
    }
  }
  if( !isStore(db->aDb[iDb].pBt) ){
    azArg[0] = sqlite3_mprintf(kind>0 ? "only a store keeps checksums of rows" : "off");
    return kind>0 ? SQLITE_ERROR : SQLITE_OK;
  }
  sqlite3VdbeUsesBtree(v, iDb);
  sqlite3VdbeAddOp3(v, OP_Transaction, iDb, kind>=0, 0);
  if( kind>=0 ) sqlite3VdbeAddOp3(v, OP_SetCookie, iDb, HG_ROW_CHECKSUM, kind);
  sqlite3VdbeAddOp3(v, OP_ReadCookie, iDb, 1, HG_ROW_CHECKSUM);
  iEnd = sqlite3VdbeMakeLabel(db->pParse);
  for(i=0; i<ArraySize(azHgKind); i++){
    sqlite3VdbeAddOp4(v, OP_String8, 0, 2, 0, azHgKind[i], P4_STATIC);
    sqlite3VdbeAddOp2(v, OP_Integer, i, 3);
    sqlite3VdbeAddOp3(v, OP_Eq, 1, iEnd, 3);
  }
  sqlite3VdbeResolveLabel(v, iEnd);
  sqlite3VdbeAddOp2(v, OP_ResultRow, 2, 1);
  /* What is answered names the column. The row of it that SQLite adds is not reached. */
  sqlite3VdbeAddOp0(v, OP_Halt);
  azArg[0] = sqlite3_mprintf("row_checksum");
  if( db->pParse->nMem<3 ) db->pParse->nMem = 3;
  return SQLITE_OK;
}
