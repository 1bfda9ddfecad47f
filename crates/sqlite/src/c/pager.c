/*
** What SQLite asks the pager of a store: it is one with a log, which cannot be changed. And the
** version that the library says it has. Included last by hedgerow.c: from here on the names of the
** pager's functions stand for those here.
*/
static int hgIsLent(Pager *pPager){
  return pPager->xBusyHandler==hgPagerMark;
}

static int hgPagerGetJournalMode(Pager *pPager){
  return hgIsLent(pPager) ? PAGER_JOURNALMODE_WAL : sqlite3PagerGetJournalMode(pPager);
}
static int hgPagerOkToChangeJournalMode(Pager *pPager){
  return hgIsLent(pPager) ? 0 : sqlite3PagerOkToChangeJournalMode(pPager);
}
static int hgPagerSetJournalMode(Pager *pPager, int eMode){
  return hgIsLent(pPager) ? PAGER_JOURNALMODE_WAL : sqlite3PagerSetJournalMode(pPager, eMode);
}
static int hgPagerExclusiveLock(Pager *pPager){
  return hgIsLent(pPager) ? SQLITE_OK : sqlite3PagerExclusiveLock(pPager);
}
static int hgPagerIsMemdb(Pager *pPager){
  return hgIsLent(pPager) ? 0 : sqlite3PagerIsMemdb(pPager);
}
static int hgPagerLockingMode(Pager *pPager, int eMode){
  HgBtree *p;
  if( !hgIsLent(pPager) ) return sqlite3PagerLockingMode(pPager, eMode);
  p = (HgBtree*)pPager->pBusyHandlerArg;
  if( eMode>=0 ) p->exclusive = (u8)eMode;
  return p->exclusive;
}
/* It changes with every commit, and never is 0. */
static u32 hgPagerDataVersion(Pager *pPager){
  u32 seen;
  if( !hgIsLent(pPager) ) return sqlite3PagerDataVersion(pPager);
  seen = hg_seen(((HgBtree*)pPager->pBusyHandlerArg)->conn);
  return seen==0xffffffff ? 1 : seen + 1;
}
/* What the hook of the log is told after a commit. A store has no log that grows, and so none for
** SQLite's own hook to copy back. */
static int hgPagerWalCallback(Pager *pPager){
  HgBtree *p;
  if( !hgIsLent(pPager) ) return sqlite3PagerWalCallback(pPager);
  p = (HgBtree*)pPager->pBusyHandlerArg;
  if( !p->isNew ) return 0;
  p->isNew = 0;
  return p->base.db->xWalCallback==sqlite3WalDefaultHook ? 0 : p->nCommit;
}

/* The version of SQLite that the library says it is: some programs refuse to run with another one
** than they were compiled with, though it would serve. HEDGEROW_SQLITE_SOURCE_ID says it for them. */
SQLITE_API const char *native_sqlite3_sourceid(void);
SQLITE_API const char *sqlite3_sourceid(void){
  const char *zAsked = getenv("HEDGEROW_SQLITE_SOURCE_ID");
  return zAsked && zAsked[0] ? zAsked : native_sqlite3_sourceid();
}
#define sqlite3_sourceid native_sqlite3_sourceid

#define sqlite3PagerGetJournalMode hgPagerGetJournalMode
#define sqlite3PagerOkToChangeJournalMode hgPagerOkToChangeJournalMode
#define sqlite3PagerSetJournalMode hgPagerSetJournalMode
#define sqlite3PagerExclusiveLock hgPagerExclusiveLock
#define sqlite3PagerIsMemdb hgPagerIsMemdb
#define sqlite3PagerLockingMode hgPagerLockingMode
#define sqlite3PagerDataVersion hgPagerDataVersion
#define sqlite3PagerWalCallback hgPagerWalCallback
