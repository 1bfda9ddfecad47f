/*
** The functions of src/ffi.rs.
*/
typedef struct HgConn HgConn;
typedef struct HgPosition HgPosition;

/* The entry under a cursor. */
typedef struct HgRow {
  const u8 *data;       /* its first bytes, until the cursor moves */
  u32 local;            /* how many of them there are */
  u32 len;              /* how many bytes it has */
  i64 rowid;            /* the number of the row, in a table */
  const u8 *sum;        /* its checksum as it is stored */
  u8 nSum;              /* how many bytes that has, which may be 0 */
  u8 check;             /* not 0: it has to be compared before it is read */
  u32 showing;          /* if local<len: a number that no other row has, nor this one shown again */
} HgRow;

/* The first column of what is looked for, if that alone decides most comparisons. */
typedef struct HgFirst {
  int kind;             /* HG_FIRST_... */
  int below, above;     /* what a comparison says of lower and of higher values */
  int len;              /* length of a text in bytes */
  union {
    i64 number;
    const char *text;
  } u;
} HgFirst;
#define HG_FIRST_OTHER  0
#define HG_FIRST_NUMBER 1   /* an integer */
#define HG_FIRST_TEXT   2   /* a text that is compared bytewise */

/* What is looked for in an index, and how it is compared. */
typedef struct HgProbe {
  const void *key;      /* the record as it is stored, or aHgUnpacked */
  size_t len;           /* its length, or 1 */
  UnpackedRecord *record;
  int (*compare)(int, const void*, UnpackedRecord*);
  KeyInfo *info;
  HgFirst first;
  u8 *isEqual;          /* eqSeen of the record, or null if nobody asks which entry is equal to it */
  const u8 **equal;     /* where the address of the equal entry that was compared last is stored */
} HgProbe;

int hg_kind(const char*);
int hg_open(const char*, int mode, HgConn**);
void hg_close(HgConn*);
int hg_begin_read(HgConn*);
int hg_begin_write(HgConn*);
int hg_commit(HgConn*, int goesOn);
int hg_roll_back(HgConn*, int goesOn);
int hg_end_read(HgConn*);
int hg_set_synchronous(HgConn*, int level);
int hg_set_max_pages(HgConn*, u32 pages);
int hg_sync(HgConn*);
int hg_compact(HgConn*);
int hg_open_savepoints(HgConn*, int count);
int hg_savepoint(HgConn*, int rollsBack, int index);
int hg_set_number(HgConn*, int index, u32 value);
u32 hg_number(HgConn*, int index);
u32 hg_schema_version(HgConn*);
u32 hg_data_version(HgConn*);
u32 hg_seen(HgConn*);
u32 hg_others_read(HgConn*);
u32 hg_page_count(HgConn*);
u32 hg_free_pages(HgConn*);
u32 hg_page_size(HgConn*);
int hg_create(HgConn*, int isIndex, u32 *root);
int hg_is_index(HgConn*, u32 root, int *isIndex);
int hg_empty(HgConn*);
int hg_create_at(HgConn*, int isIndex, u32 root);
int hg_drop(HgConn*, u32 root);
int hg_clear(HgConn*, u32 root, i64 *count);
int hg_count(HgConn*, HgPosition*, i64 *count);
int hg_rank(HgConn*, HgPosition*, const HgProbe*, i64 *before);
int hg_rank_of_row(HgConn*, HgPosition*, i64 rowid, i64 *before);
int hg_rank_of_key(HgConn*, HgPosition*, const HgProbe*, i64 *before);
int hg_count_to(HgConn*, HgPosition*, const HgProbe*, i64 *count);
int hg_seek_nth(HgConn*, HgPosition*, i64 n, HgRow*, int *isThere);
int hg_put_row(HgConn*, HgPosition*, i64 rowid, const void*, u32 len, u32 zeros);
int hg_put_key(HgConn*, HgPosition*, const HgProbe*);
int hg_replace_key(HgConn*, HgPosition*, const HgProbe*);
int hg_put_key_near(HgConn*, HgPosition*, const HgProbe*, int *isPut);
int hg_append_key(HgConn*, HgPosition*, const HgProbe*, HgRow*);
int hg_delete(HgConn*, HgPosition*, const HgProbe*);
int hg_write_part(HgConn*, HgPosition*, i64 rowid, u32 from, const void*, u32 len);
HgPosition *hg_cursor(HgConn*, u32 root, int isIndex, const HgRow **paAhead);
void hg_cursor_derived(HgPosition*);
void hg_cursor_close(HgConn*, HgPosition*);
int hg_step(HgConn*, HgPosition*, int step, const HgProbe*, HgRow*, int *isThere);
int hg_back(HgConn*, HgPosition*, const HgProbe*, int isBack, int steps);
int hg_next_rows(HgConn*, HgPosition*, const HgProbe*, int isBack, int most, int *n);
int hg_seek_row(HgConn*, HgPosition*, i64 rowid, HgRow*, int *result);
int hg_seek_key(HgConn*, HgPosition*, const HgProbe*, HgRow*, int *result);
int hg_is_empty(HgConn*, HgPosition*, int *isEmpty);
int hg_verify(HgConn*, HgPosition*, HgRow*);
int hg_renew_rows(HgConn*, const u32 *derived, int n);
u32 hg_may_have_sums(HgConn*);
void hg_want_sums(HgConn*, u32 kind);
int hg_root_sum(HgConn*, u32 root, int isIndex, i64 number, char *z);
int hg_read_row(HgConn*, HgPosition*, i64 rowid, u32 from, u32 len, void *out);
int hg_check(HgConn*, const u32 *roots, i64 *counts, int n,
             void (*report)(void*, const char*, int), void*);
int hg_root_count(HgConn*, u32 root, i64 *count);
int hg_root_rank(HgConn*, u32 root, const HgProbe*, i64 rowid, i64 *rank);
int hg_root_nth(HgConn*, u32 root, int isIndex, i64 n, HgRow*, int *isThere);
const sqlite3_module *hg_plain_module(void);
void hg_plain_ask(sqlite3_vtab*, int question, sqlite3_context*, int n, sqlite3_value**);
