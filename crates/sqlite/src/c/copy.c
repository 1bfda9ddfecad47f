/*
** Copies between stores and files of SQLite's: the backup interface, serialize, and VACUUM of a
** store. Included by hedgerow.c.
**
** What is copied are the trees, entry by entry in their order. In a store they keep their roots; in
** a file of SQLite's they get new ones, and the records of the schema are written accordingly.
*/

/* A record of the schema, taken apart. */
typedef struct HgSchemaRow HgSchemaRow;
struct HgSchemaRow {
  u32 header;          /* length of the header */
  u32 type[5];         /* the types of its five columns */
  u32 at[6];           /* where each begins, and where the last one ends */
  u32 root;            /* the root, 0 for none */
};

/* Takes a record of the schema apart; false if it is none. */
static int hgTakeApart(const u8 *a, u32 n, HgSchemaRow *pRow){
  u32 head, i;
  i64 root;
  head = getVarint32(a, pRow->header);
  if( n==0 || pRow->header>n ) return 0;
  pRow->at[0] = pRow->header;
  for(i=0; i<5; i++){
    if( head>=pRow->header ) return 0;
    head += getVarint32(&a[head], pRow->type[i]);
    pRow->at[i+1] = pRow->at[i] + sqlite3VdbeSerialTypeLen(pRow->type[i]);
    if( pRow->at[i+1]>n ) return 0;
  }
  a += pRow->at[3];
  switch( pRow->type[3] ){
    case 1: root = (i8)a[0]; break;
    case 2: root = (i16)(a[0]<<8 | a[1]); break;
    case 3: root = (i8)a[0]*65536 + (a[1]<<8 | a[2]); break;
    case 4: root = (int)sqlite3Get4byte(a); break;
    case 9: root = 1; break;
    default: root = 0; break;
  }
  pRow->root = root>0 ? (u32)root : 0;
  return 1;
}

/* Whether a record of the schema is that of an index: its type begins with an "i". */
static int hgIsDerived(const u8 *a, const HgSchemaRow *pRow){
  return pRow->root!=0 && pRow->at[1]>pRow->at[0] && a[pRow->at[0]]=='i';
}

/* The same record with another root; the caller frees it. */
static u8 *hgWithRoot(const u8 *a, const HgSchemaRow *pRow, u32 root, u32 *pn){
  u8 types[5*9];
  u32 nTypes = 0, nBody, header, i;
  u8 *z, *out;
  for(i=0; i<5; i++) nTypes += putVarint32(&types[nTypes], i==3 ? 4 : pRow->type[i]);
  header = nTypes + 1;              /* fewer than 128 bytes */
  nBody = pRow->at[3]-pRow->at[0] + 4 + pRow->at[5]-pRow->at[4];
  z = out = sqlite3Malloc((u64)header + nBody + 9 + 8);
  if( out==0 ) return 0;
  *z++ = (u8)header;
  memcpy(z, types, nTypes);
  z += nTypes;
  memcpy(z, &a[pRow->at[0]], pRow->at[3]-pRow->at[0]);
  z += pRow->at[3]-pRow->at[0];
  sqlite3Put4byte(z, root);
  z += 4;
  memcpy(z, &a[pRow->at[4]], pRow->at[5]-pRow->at[4]);
  *pn = header + nBody;
  return out;
}

/* A copy that is under way. */
typedef struct HgCopy HgCopy;
struct HgCopy {
  Btree *pTo;
  Btree *pFrom;
  KeyInfo *pInfo;      /* stands for the columns of any index: nothing is compared */
  u8 *buffer;          /* an entry */
  u32 room;
};

/* Says whether a tree is an index. */
static int hgIsIndex(Btree *p, u32 root, int *pIsIndex){
  MemPage *pPage = 0;
  int rc;
  if( isStore(p) ) return hg_is_index(storeOf(p)->conn, root, pIsIndex);
  rc = getAndInitPage(p->pBt, root, &pPage, 0);
  if( rc==SQLITE_OK ){
    *pIsIndex = !pPage->intKey;
    releasePage(pPage);
  }
  return rc;
}

static BtCursor *hgCopyCursor(HgCopy *c, Btree *p, u32 root, int wr, int isIndex, int *pRc){
  BtCursor *pCur = sqlite3MallocZero(sqlite3BtreeCursorSize());
  if( pCur==0 ){
    *pRc = SQLITE_NOMEM_BKPT;
    return 0;
  }
  sqlite3BtreeCursorZero(pCur);
  *pRc = sqlite3BtreeCursor(p, root, wr ? BTREE_WRCSR : 0, isIndex ? c->pInfo : 0, pCur);
  return pCur;
}

static void hgCopyClose(BtCursor *pCur){
  if( pCur ) sqlite3BtreeCloseCursor(pCur);
  sqlite3_free(pCur);
}

/* Reads the entry of a cursor into the buffer. */
static int hgCopyRead(HgCopy *c, BtCursor *pCur, u32 *pn){
  u32 n = *pn = sqlite3BtreePayloadSize(pCur);
  if( n>c->room || c->buffer==0 ){
    sqlite3_free(c->buffer);
    c->buffer = sqlite3Malloc((u64)n + 9 + 8);
    c->room = c->buffer ? n : 0;
    if( c->buffer==0 ) return SQLITE_NOMEM_BKPT;
  }
  memset(c->buffer+n, 0, 9 + 8);
  return sqlite3BtreePayload(pCur, 0, n, c->buffer);
}

/* Appends an entry to a tree. */
static int hgCopyWrite(BtCursor *pCur, i64 rowid, const u8 *a, u32 n, int isIndex){
  BtreePayload x;
  int isEmpty;
  int rc;
  memset(&x, 0, sizeof(x));
  if( isStoreCursor(pCur) ){
    HgProbe probe = { a, n, 0, hgAlwaysLess, 0 };
    if( !isIndex ) return hg_put_row(connOf(pCur), cursorOf(pCur)->position, rowid, a, n, 0);
    return hg_append_key(connOf(pCur), cursorOf(pCur)->position, &probe, hgNewRow(pCur));
  }
  rc = sqlite3BtreeLast(pCur, &isEmpty);
  if( rc!=SQLITE_OK ) return rc;
  if( isIndex ){
    x.pKey = a;
    x.nKey = n;
  }else{
    x.nKey = rowid;
    x.pData = a;
    x.nData = (int)n;
  }
  return native_sqlite3BtreeInsert(pCur, &x, BTREE_APPEND, -1);
}

/* Copies a tree into one that is empty. */
static int hgCopyTree(HgCopy *c, u32 from, u32 to, int isIndex, int isDerived){
  BtCursor *pRead = 0, *pWrite = 0;
  int rc, isEmpty = 0;
  pRead = hgCopyCursor(c, c->pFrom, from, 0, isIndex, &rc);
  if( rc==SQLITE_OK ) pWrite = hgCopyCursor(c, c->pTo, to, 1, isIndex, &rc);
  if( rc==SQLITE_OK && isDerived && isStore(c->pTo) ){
    hg_cursor_derived(cursorOf(pWrite)->position);
  }
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(pRead, &isEmpty);
  while( rc==SQLITE_OK && !isEmpty ){
    u32 n;
    i64 rowid = isIndex ? 0 : sqlite3BtreeIntegerKey(pRead);
    rc = hgCopyRead(c, pRead, &n);
    if( rc==SQLITE_OK ) rc = hgCopyWrite(pWrite, rowid, c->buffer, n, isIndex);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(pRead, 0);
  }
  hgCopyClose(pWrite);
  hgCopyClose(pRead);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Copies a tree that a record of the schema names, and the record. */
static int hgCopySchemaRow(HgCopy *c, BtCursor *pWrite, i64 rowid, u32 n){
  HgSchemaRow row;
  u8 *record = 0;
  u32 to = 0;
  int isIndex = 0, isDerived;
  int rc = SQLITE_OK;
  u8 *a = c->buffer;
  if( !hgTakeApart(a, n, &row) ) return SQLITE_CORRUPT_BKPT;
  isDerived = hgIsDerived(a, &row);
  if( row.root ){
    rc = hgIsIndex(c->pFrom, row.root, &isIndex);
    to = row.root;
    if( rc==SQLITE_OK && isStore(c->pTo) ){
      rc = hg_create_at(storeOf(c->pTo)->conn, isIndex, to);
    }else if( rc==SQLITE_OK ){
      int flags = isIndex ? BTREE_BLOBKEY : BTREE_INTKEY;
      rc = native_sqlite3BtreeCreateTable(c->pTo, &to, flags);
    }
    if( rc==SQLITE_OK && to!=row.root ){
      record = hgWithRoot(a, &row, to, &n);
      if( record==0 ) rc = SQLITE_NOMEM_BKPT;
    }
  }
  if( rc==SQLITE_OK ) rc = hgCopyWrite(pWrite, rowid, record ? record : a, n, 0);
  sqlite3_free(record);
  if( rc==SQLITE_OK && row.root ) rc = hgCopyTree(c, row.root, to, isIndex, isDerived);
  return rc;
}

/* Copies the schema with all its trees into a database that is empty. */
static int hgCopyAll(HgCopy *c){
  BtCursor *pRead = 0, *pWrite = 0;
  int rc, isEmpty = 0;
  pRead = hgCopyCursor(c, c->pFrom, SCHEMA_ROOT, 0, 0, &rc);
  if( rc==SQLITE_OK ) pWrite = hgCopyCursor(c, c->pTo, SCHEMA_ROOT, 1, 0, &rc);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(pRead, &isEmpty);
  while( rc==SQLITE_OK && !isEmpty ){
    u32 n;
    rc = hgCopyRead(c, pRead, &n);
    if( rc==SQLITE_OK ) rc = hgCopySchemaRow(c, pWrite, sqlite3BtreeIntegerKey(pRead), n);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(pRead, 0);
  }
  hgCopyClose(pWrite);
  hgCopyClose(pRead);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Removes everything from a database, in a transaction that writes. */
static int hgEmpty(Btree *p){
  if( isStore(p) ) return hg_empty(storeOf(p)->conn);
  return sqlite3BtreeNewDb(p);
}

/* Makes a database that is being written the same as one that is being read. */
static int hgCopy(Btree *pTo, Btree *pFrom){
  static const u8 aNumber[] = {
    BTREE_FILE_FORMAT, BTREE_TEXT_ENCODING, BTREE_USER_VERSION, BTREE_APPLICATION_ID,
    BTREE_DEFAULT_CACHE_SIZE
  };
  HgCopy copy;
  u32 version = 0, number, kind;
  int rc, i;
  memset(&copy, 0, sizeof(copy));
  copy.pTo = pTo;
  copy.pFrom = pFrom;
  copy.pInfo = sqlite3KeyInfoAlloc(pTo->db, 1, 0);
  if( copy.pInfo==0 ) return SQLITE_NOMEM_BKPT;
  sqlite3BtreeGetMeta(pTo, BTREE_SCHEMA_VERSION, &version);
  /* What is said about checksums comes along from a store; a file of SQLite's says nothing. */
  kind = hgKind(isStore(pFrom) ? pFrom : pTo);
  rc = hgEmpty(pTo);
  if( rc==SQLITE_OK && isStore(pTo) ) rc = sqlite3BtreeUpdateMeta(pTo, HG_ROW_CHECKSUM, kind);
  for(i=0; rc==SQLITE_OK && i<ArraySize(aNumber); i++){
    sqlite3BtreeGetMeta(pFrom, aNumber[i], &number);
    rc = sqlite3BtreeUpdateMeta(pTo, aNumber[i], number);
  }
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(pTo, BTREE_SCHEMA_VERSION, version+1);
  if( rc==SQLITE_OK ) rc = hgCopyAll(&copy);
  if( rc==SQLITE_OK && !isStore(pTo) ){
    sqlite3PagerTruncateImage(pTo->pBt->pPager, pTo->pBt->nPage);
  }
  sqlite3_free(copy.buffer);
  sqlite3KeyInfoUnref(copy.pInfo);
  return rc;
}

SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *pTo, Btree *pFrom){
  int rc;
  if( !isStore(pTo) && !isStore(pFrom) ) return native_sqlite3BtreeCopyFile(pTo, pFrom);
  rc = sqlite3BtreeBeginTrans(pTo, 2, 0);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeBeginTrans(pFrom, 0, 0);
  if( rc==SQLITE_OK ) rc = hgCopy(pTo, pFrom);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pTo);
  return rc;
}

/*
** The backup interface. A backup between files of SQLite's is SQLite's own; every other one is made
** in one step.
*/
typedef struct HgBackup HgBackup;
struct HgBackup {
  sqlite3 *pDestDb;    /* as in sqlite3_backup; hgBackupMark stands in pDest's place */
  Btree *mark;
  sqlite3 *pSrcDb;
  Btree *pTo;
  Btree *pFrom;
  int rc;              /* of the last step */
  int nPage;           /* pages of the source, once a step has looked */
  int nRemaining;      /* those that are not copied: all, or none */
};

static Btree hgBackupMark;

static int hgIsOurBackup(sqlite3_backup *p){
  return p!=0 && ((HgBackup*)p)->mark==&hgBackupMark;
}

/* The b-tree of a database of a connection, with an error in another one if there is none. */
static Btree *hgDatabase(sqlite3 *pErrorDb, sqlite3 *db, const char *zDb){
  int i = sqlite3FindDbName(db, zDb);
  if( i<0 ) sqlite3ErrorWithMsg(pErrorDb, SQLITE_ERROR, "unknown database %s", zDb);
  return i<0 ? 0 : db->aDb[i].pBt;
}

SQLITE_API sqlite3_backup *sqlite3_backup_init(
  sqlite3 *pDestDb,
  const char *zDestDb,
  sqlite3 *pSrcDb,
  const char *zSrcDb
){
  HgBackup *p = 0;
  Btree *pTo, *pFrom;
  int isOurs;
#ifdef SQLITE_ENABLE_API_ARMOR
  if( !sqlite3SafetyCheckOk(pSrcDb) || !sqlite3SafetyCheckOk(pDestDb) ){
    (void)SQLITE_MISUSE_BKPT;
    return 0;
  }
#endif
  if( pSrcDb==pDestDb || zDestDb==0 || zSrcDb==0 ){
    return native_sqlite3_backup_init(pDestDb, zDestDb, pSrcDb, zSrcDb);
  }
  sqlite3_mutex_enter(pSrcDb->mutex);
  sqlite3_mutex_enter(pDestDb->mutex);
  pTo = sqlite3FindDbName(pDestDb, zDestDb)<0 ? 0 : hgDatabase(pDestDb, pDestDb, zDestDb);
  pFrom = sqlite3FindDbName(pSrcDb, zSrcDb)<0 ? 0 : hgDatabase(pDestDb, pSrcDb, zSrcDb);
  isOurs = pTo && pFrom && (isStore(pTo) || isStore(pFrom));
  if( isOurs ){
    if( pTo->inTrans!=TRANS_NONE ){
      sqlite3ErrorWithMsg(pDestDb, SQLITE_ERROR, "destination database is in use");
    }else{
      p = sqlite3MallocZero(sizeof(*p));
      if( p==0 ) sqlite3Error(pDestDb, SQLITE_NOMEM_BKPT);
    }
    if( p ){
      p->pDestDb = pDestDb;
      p->mark = &hgBackupMark;
      p->pSrcDb = pSrcDb;
      p->pTo = pTo;
      p->pFrom = pFrom;
      pFrom->nBackup++;
    }
  }
  sqlite3_mutex_leave(pDestDb->mutex);
  sqlite3_mutex_leave(pSrcDb->mutex);
  if( isOurs ) return (sqlite3_backup*)p;
  return native_sqlite3_backup_init(pDestDb, zDestDb, pSrcDb, zSrcDb);
}

/* Notes how much there is to copy, which is what a step of no pages is for. */
static int hgBackupCount(HgBackup *p){
  int ends = p->pFrom->inTrans==TRANS_NONE;
  int rc = sqlite3BtreeBeginTrans(p->pFrom, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  p->nPage = p->nRemaining = (int)sqlite3BtreeLastPage(p->pFrom);
  if( ends ) sqlite3BtreeCommit(p->pFrom);
  return SQLITE_OK;
}

/* Copies everything. */
static int hgBackupAll(HgBackup *p){
  int ends = p->pFrom->inTrans==TRANS_NONE;
  int rc;
  rc = sqlite3BtreeBeginTrans(p->pFrom, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  rc = sqlite3BtreeBeginTrans(p->pTo, 2, 0);
  if( rc==SQLITE_OK ) rc = hgCopy(p->pTo, p->pFrom);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(p->pTo);
  if( rc==SQLITE_OK ){
    p->nPage = (int)sqlite3BtreeLastPage(p->pFrom);
    p->nRemaining = 0;
    rc = SQLITE_DONE;
  }else{
    sqlite3BtreeRollback(p->pTo, SQLITE_OK, 0);
  }
  if( ends ) sqlite3BtreeCommit(p->pFrom);
  sqlite3ResetAllSchemasOfConnection(p->pDestDb);
  return rc;
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *pBackup, int nPage){
  HgBackup *p = (HgBackup*)pBackup;
  int rc;
  if( !hgIsOurBackup(pBackup) ) return native_sqlite3_backup_step(pBackup, nPage);
  sqlite3_mutex_enter(p->pSrcDb->mutex);
  sqlite3_mutex_enter(p->pDestDb->mutex);
  if( p->rc!=SQLITE_OK && p->rc!=SQLITE_BUSY && p->rc!=SQLITE_LOCKED ){
    rc = p->rc;
  }else if( p->pFrom->inTrans==TRANS_WRITE ){
    /* What the source has not committed may be taken back: it is waited for, as SQLite does. */
    rc = p->rc = SQLITE_BUSY;
  }else{
    rc = p->rc = nPage==0 ? hgBackupCount(p) : hgBackupAll(p);
  }
  sqlite3_mutex_leave(p->pDestDb->mutex);
  sqlite3_mutex_leave(p->pSrcDb->mutex);
  return rc;
}

SQLITE_API int sqlite3_backup_finish(sqlite3_backup *pBackup){
  HgBackup *p = (HgBackup*)pBackup;
  sqlite3 *pSrcDb, *pDestDb;
  int rc;
  if( !hgIsOurBackup(pBackup) ) return native_sqlite3_backup_finish(pBackup);
  pSrcDb = p->pSrcDb;
  pDestDb = p->pDestDb;
  sqlite3_mutex_enter(pSrcDb->mutex);
  sqlite3_mutex_enter(pDestDb->mutex);
  p->pFrom->nBackup--;
  rc = p->rc==SQLITE_DONE ? SQLITE_OK : p->rc;
  sqlite3Error(pDestDb, rc);
  sqlite3_free(p);
  sqlite3LeaveMutexAndCloseZombie(pDestDb);
  sqlite3LeaveMutexAndCloseZombie(pSrcDb);
  return rc;
}

SQLITE_API int sqlite3_backup_remaining(sqlite3_backup *p){
  return hgIsOurBackup(p) ? ((HgBackup*)p)->nRemaining : native_sqlite3_backup_remaining(p);
}

SQLITE_API int sqlite3_backup_pagecount(sqlite3_backup *p){
  return hgIsOurBackup(p) ? ((HgBackup*)p)->nPage : native_sqlite3_backup_pagecount(p);
}

/*
** A store is serialized as the file of SQLite's that it would be, with what its connection has not
** committed yet.
*/
SQLITE_API unsigned char *sqlite3_serialize(
  sqlite3 *db,
  const char *zSchema,
  sqlite3_int64 *piSize,
  unsigned int mFlags
){
  sqlite3 *pMemory = 0;
  sqlite3_backup *pBackup = 0;
  unsigned char *pOut = 0;
  int i, isOurs, isCopied;
#ifdef SQLITE_ENABLE_API_ARMOR
  if( !sqlite3SafetyCheckOk(db) ){
    (void)SQLITE_MISUSE_BKPT;
    return 0;
  }
#endif
  sqlite3_mutex_enter(db->mutex);
  if( zSchema==0 ) zSchema = db->aDb[0].zDbSName;
  i = sqlite3FindDbName(db, zSchema);
  isOurs = i>=0 && db->aDb[i].pBt && isStore(db->aDb[i].pBt);
  sqlite3_mutex_leave(db->mutex);
  if( !isOurs ) return native_sqlite3_serialize(db, zSchema, piSize, mFlags);
  if( piSize ) *piSize = -1;
  if( sqlite3_open(":memory:", &pMemory)==SQLITE_OK ){
    pBackup = sqlite3_backup_init(pMemory, "main", db, zSchema);
    sqlite3_mutex_enter(db->mutex);
    isCopied = pBackup && hgBackupAll((HgBackup*)pBackup)==SQLITE_DONE;
    sqlite3_mutex_leave(db->mutex);
    if( isCopied ) pOut = native_sqlite3_serialize(pMemory, "main", piSize, mFlags);
    if( pBackup ) sqlite3_backup_finish(pBackup);
  }
  sqlite3_close(pMemory);
  return pOut;
}

/* The roots of the indexes whose entries are derived from rows, as the schema's tree has them. */
static int hgDerived(Btree *p, u32 **paRoot, int *pn){
  HgCopy copy;
  BtCursor *pRead;
  i64 count = 0;
  int rc, isEmpty = 0;
  *pn = 0;
  memset(&copy, 0, sizeof(copy));
  pRead = hgCopyCursor(&copy, p, SCHEMA_ROOT, 0, 0, &rc);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCount(p->db, pRead, &count);
  *paRoot = sqlite3Malloc(sizeof(u32)*((u64)count+1));
  if( rc==SQLITE_OK && *paRoot==0 ) rc = SQLITE_NOMEM_BKPT;
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(pRead, &isEmpty);
  while( rc==SQLITE_OK && !isEmpty && *pn<count ){
    HgSchemaRow row;
    u32 n;
    rc = hgCopyRead(&copy, pRead, &n);
    if( rc==SQLITE_OK && hgTakeApart(copy.buffer, n, &row) && hgIsDerived(copy.buffer, &row) ){
      (*paRoot)[(*pn)++] = row.root;
    }
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(pRead, 0);
  }
  hgCopyClose(pRead);
  sqlite3_free(copy.buffer);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Gives all rows the checksum that rows get now, if some may carry one. */
static int hgRenewRows(Btree *p){
  u32 *aDerived = 0;
  int n = 0;
  int rc;
  if( !hg_may_have_sums(storeOf(p)->conn) ) return SQLITE_OK;
  rc = hgDerived(p, &aDerived, &n);
  if( rc==SQLITE_OK ) rc = hg_renew_rows(storeOf(p)->conn, aDerived, n);
  sqlite3_free(aDerived);
  return rc;
}

/* What VACUUM changes before it moves pages: checksums of rows, and the version of the schema, which
** it raises as it does for a file of SQLite's. */
static int hgRenew(sqlite3 *db, Btree *p){
  u32 version = 0;
  int rc = sqlite3BtreeBeginTrans(p, 2, 0);
  if( rc!=SQLITE_OK ) return rc;
  rc = hgRenewRows(p);
  sqlite3BtreeGetMeta(p, BTREE_SCHEMA_VERSION, &version);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(p, BTREE_SCHEMA_VERSION, version+1);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(p);
  if( rc!=SQLITE_OK ) sqlite3BtreeRollback(p, SQLITE_OK, 0);
  sqlite3ResetAllSchemasOfConnection(db);
  return rc;
}

/* What a store says about checksums of rows. */
static int hgReadKind(Btree *p, u32 *pKind){
  int isOurs = p->inTrans==TRANS_NONE;
  int rc = sqlite3BtreeBeginTrans(p, 0, 0);
  if( rc==SQLITE_OK ){
    *pKind = hgKind(p);
    if( isOurs ) rc = sqlite3BtreeCommit(p);
  }
  return rc;
}

/* VACUUM INTO: SQLite copies row by row. A store that it makes for this has the setting of the store
** that is copied, and one that is there is refused: SQLite asks the length of the file that its
** pager has open, which for a store is none. */
static int hgVacuumInto(char **pzErrMsg, sqlite3 *db, int iDb, sqlite3_value *pOut){
  Btree *p = db->aDb[iDb].pBt;
  HgVacuum *pOuter = hgVacuum;
  HgVacuum vacuum = {db, 0, 0};
  int rc = p && isStore(p) ? hgReadKind(p, &vacuum.kind) : SQLITE_OK;
  if( rc!=SQLITE_OK ) return rc;
  hgVacuum = &vacuum;
  rc = native_sqlite3RunVacuum(pzErrMsg, db, iDb, pOut);
  hgVacuum = pOuter;
  if( rc!=SQLITE_OK && vacuum.isThere ){
    rc = SQLITE_ERROR;
    sqlite3SetString(pzErrMsg, db, "output file already exists");
  }
  return rc;
}

/* Waits for the writer's turn as the busy handler says. What moves pages would wait for it without
** end, also for a connection of the same thread. */
static int hgWaitForTurn(Btree *p){
  int rc = sqlite3BtreeBeginTrans(p, 2, 0);
  return rc==SQLITE_OK ? sqlite3BtreeRollback(p, SQLITE_OK, 0) : rc;
}

/* VACUUM while SQLITE_DBCONFIG_RESET_DATABASE is on: everything of SQLite's goes. What is said
** about checksums stays, and the version of the schema tells other connections. */
static int hgReset(sqlite3 *db, Btree *p){
  u32 version = 0, kind;
  int rc = sqlite3BtreeBeginTrans(p, 2, 0);
  if( rc!=SQLITE_OK ) return rc;
  sqlite3BtreeGetMeta(p, BTREE_SCHEMA_VERSION, &version);
  kind = hgKind(p);
  rc = hgEmpty(p);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(p, HG_ROW_CHECKSUM, kind);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(p, BTREE_SCHEMA_VERSION, version+1);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(p);
  if( rc!=SQLITE_OK ) sqlite3BtreeRollback(p, SQLITE_OK, 0);
  sqlite3ResetAllSchemasOfConnection(db);
  return rc;
}

/* VACUUM of a store sees to the checksums of its rows and gives free pages at the end of the file
** back. */
SQLITE_PRIVATE SQLITE_NOINLINE int sqlite3RunVacuum(
  char **pzErrMsg,
  sqlite3 *db,
  int iDb,
  sqlite3_value *pOut
){
  Btree *p = db->aDb[iDb].pBt;
  int rc;
  if( pOut ) return hgVacuumInto(pzErrMsg, db, iDb, pOut);
  if( p==0 || !isStore(p) ) return native_sqlite3RunVacuum(pzErrMsg, db, iDb, pOut);
  if( !db->autoCommit ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM from within a transaction");
    return SQLITE_ERROR;
  }
  if( db->nVdbeActive>1 ){
    sqlite3SetString(pzErrMsg, db, "cannot VACUUM - SQL statements in progress");
    return SQLITE_ERROR;
  }
  if( (p->pBt->btsFlags & BTS_READ_ONLY)!=0 ) return SQLITE_READONLY;
  rc = hgWaitForTurn(p);
  if( rc!=SQLITE_OK ) return rc;
  rc = (db->flags & SQLITE_ResetDatabase)!=0 ? hgReset(db, p) : hgRenew(db, p);
  return rc==SQLITE_OK ? hg_compact(storeOf(p)->conn) : rc;
}
