/*
** Pragmas of stores. Included by hedgerow.c.
*/

/*
** PRAGMA engine: which engine a database has; and for one that has nothing in it, another one.
*/
static int hgChangeEngine(sqlite3 *db, Db *pDb, int engine, char **pzErr){
  Btree *pNew = 0, *pOld = pDb->pBt;
  const char *zFile = sqlite3BtreeGetFilename(pOld);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB;
  int rc;
  if( engine==HG_ENGINE_STORE && !isStore(pOld) ){
    const char *zVfs = sqlite3PagerVfs(sqlite3BtreePager(pOld))->zName;
    if( strncmp(zVfs, "unix", 4)!=0 ){
      *pzErr = sqlite3_mprintf("this database has the VFS \"%s\", and a store the system's only",
                               zVfs);
      return SQLITE_ERROR;
    }
  }
  if( isStore(pOld) || zFile==0 || zFile[0]==0 || hg_kind(zFile)!=0 || pOld->inTrans!=TRANS_NONE
   || sqlite3BtreeIsReadonly(pOld) || engine!=HG_ENGINE_STORE ){
    *pzErr = sqlite3_mprintf("the engine of this database cannot be changed; VACUUM INTO makes a "
                             "copy with another one");
    return SQLITE_ERROR;
  }
  rc = hgOpen(db->pVfs, zFile, zFile, db, &pNew, flags, 0);
  if( rc!=SQLITE_OK ){
    *pzErr = sqlite3_mprintf("%s", sqlite3ErrStr(rc));
    return rc;
  }
  sqlite3BtreeClose(pOld);
  pDb->pBt = pNew;
  pDb->pSchema = sqlite3SchemaGet(db, pNew);
  return sqlite3BtreeSetPagerFlags(pNew, pDb->safety_level | (db->flags & PAGER_FLAGS_MASK));
}

static int hgPragmaEngine(sqlite3 *db, const char *zDbName, char **azArg){
  int i = zDbName ? sqlite3FindDbName(db, zDbName) : 0;
  int engine;
  if( i<0 || db->aDb[i].pBt==0 ) return SQLITE_NOTFOUND;
  if( azArg[2] ){
    engine = hgEngineByName(azArg[2]);
    if( engine==HG_ENGINE_NONE || engine==HG_ENGINE_UNKNOWN ){
      azArg[0] = sqlite3_mprintf("there is no engine \"%s\": hedgerow or sqlite", azArg[2]);
      return SQLITE_ERROR;
    }
    if( (engine==HG_ENGINE_STORE)!=isStore(db->aDb[i].pBt) ){
      int rc = hgChangeEngine(db, &db->aDb[i], engine, &azArg[0]);
      if( rc!=SQLITE_OK ) return rc;
    }
  }
  azArg[0] = sqlite3_mprintf("%s", isStore(db->aDb[i].pBt) ? "hedgerow" : "sqlite");
  return azArg[0] ? SQLITE_OK : SQLITE_NOMEM_BKPT;
}
