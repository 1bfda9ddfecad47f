/*
** What a store answers in place of a file of the unix VFS. Included by hedgerow.c.
*/

/* Whether the name of a store stands for another file than when it was opened, or for none. */
static int hgHasMoved(HgBtree *p){
  struct stat buf;
  return osStat(p->filename, &buf)!=0 || buf.st_dev!=p->file.dev || buf.st_ino!=p->file.ino;
}

/* Says what a switch is if it is asked, by a negative number; sets it otherwise. */
static void hgSwitch(int *pSwitch, int *pArg){
  if( *pArg<0 ){
    *pArg = *pSwitch;
  }else{
    *pSwitch = *pArg!=0;
  }
}

/* Says what the limit of the map was and sets it, unless it is negative: a store is mapped whole,
** and the lent pager keeps the limit. */
static void hgMapLimit(Pager *pPager, i64 *pLimit){
  i64 limit = *pLimit;
  *pLimit = MIN(pPager->szMmap, sqlite3GlobalConfig.mxMmap);
  if( limit>=0 ) pPager->szMmap = MIN(limit, sqlite3GlobalConfig.mxMmap);
}

/* A name for a file of temporary content, which the caller frees. */
static char *hgTempName(sqlite3_vfs *pVfs){
  char *zName = sqlite3_malloc64(pVfs->mxPathname);
  if( zName ) unixGetTempname(pVfs->mxPathname, zName);
  return zName;
}

static int hgStoreControl(HgBtree *p, int op, void *pArg){
  Pager *pPager = p->shared.pPager;
  sqlite3_vfs *pVfs = sqlite3PagerVfs(pPager);
  switch( op ){
    case SQLITE_FCNTL_LOCKSTATE:
      *(int*)pArg = p->base.inTrans;
      return SQLITE_OK;
    case SQLITE_FCNTL_LAST_ERRNO:
      *(int*)pArg = 0;
      return SQLITE_OK;
    case SQLITE_FCNTL_SIZE_HINT:
    case SQLITE_FCNTL_CHUNK_SIZE:
      /* A store grows as it sees fit. */
      return SQLITE_OK;
    case SQLITE_FCNTL_PERSIST_WAL:
      hgSwitch(&p->file.persistWal, (int*)pArg);
      return SQLITE_OK;
    case SQLITE_FCNTL_POWERSAFE_OVERWRITE:
      hgSwitch(&p->file.powersafe, (int*)pArg);
      return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
      *(char**)pArg = sqlite3_mprintf("%s", pVfs->zName);
      return SQLITE_OK;
    case SQLITE_FCNTL_TEMPFILENAME:
      *(char**)pArg = hgTempName(pVfs);
      return SQLITE_OK;
    case SQLITE_FCNTL_MMAP_SIZE:
      hgMapLimit(pPager, (i64*)pArg);
      return SQLITE_OK;
    case SQLITE_FCNTL_HAS_MOVED:
      *(int*)pArg = hgHasMoved(p);
      return SQLITE_OK;
    case SQLITE_FCNTL_EXTERNAL_READER:
      *(int*)pArg = (int)hg_others_read(p->conn);
      return SQLITE_OK;
    default:
      return SQLITE_NOTFOUND;
  }
}

/* What is answered here; SQLITE_NOTFOUND for everything else. */
static int hgFileControl(sqlite3 *db, const char *zDbName, int op, void *pArg){
  Btree *p;
  if( op==SQLITE_FCNTL_PRAGMA && sqlite3_stricmp(((char**)pArg)[1], "engine")==0 ){
    return hgPragmaEngine(db, zDbName, (char**)pArg);
  }
  if( op==SQLITE_FCNTL_PRAGMA && sqlite3_stricmp(((char**)pArg)[1], "row_checksum")==0 ){
    return hgPragmaSums(db, zDbName, (char**)pArg);
  }
  p = sqlite3DbNameToBtree(db, zDbName);
  return p && isStore(p) ? hgStoreControl(storeOf(p), op, pArg) : SQLITE_NOTFOUND;
}

SQLITE_API int sqlite3_file_control(sqlite3 *db, const char *zDbName, int op, void *pArg){
#ifdef SQLITE_ENABLE_API_ARMOR
  if( !sqlite3SafetyCheckOk(db) ) return SQLITE_MISUSE_BKPT;
#endif
  if( pArg ){
    int rc;
    sqlite3_mutex_enter(db->mutex);
    rc = hgFileControl(db, zDbName, op, pArg);
    sqlite3_mutex_leave(db->mutex);
    if( rc!=SQLITE_NOTFOUND ) return rc;
  }
  return native_sqlite3_file_control(db, zDbName, op, pArg);
}
