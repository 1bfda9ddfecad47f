/* What this library has beyond LevelDB. For C and C++. */
#ifndef HEDGEROW_LEVELDB_H_
#define HEDGEROW_LEVELDB_H_

#include <stdint.h>

#include "leveldb/c.h"
#include "leveldb/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses the engine of a database that is made with these options: "lsm" (a folder of logs and
   sorted tables, the default) or "tree" (one file). 0 for another name. The environment variable
   HEDGEROW_LEVELDB_ENGINE does the same for programs that do not call this. A database with a
   comparator of its own is on the tree in any case. */
LEVELDB_EXPORT int hedgerow_leveldb_options_set_engine(leveldb_options_t* options,
                                                       const char* name);

/* The name of a database's engine. */
LEVELDB_EXPORT const char* hedgerow_leveldb_engine(leveldb_t* db);

/* How many entries there are: at once on the tree, by a scan of all keys on the other engine. */
LEVELDB_EXPORT uint64_t hedgerow_leveldb_count(leveldb_t* db, char** errptr);

/* Reads and verifies everything; the first problem is the error, and all go to the log. */
LEVELDB_EXPORT void hedgerow_leveldb_check(leveldb_t* db, char** errptr);

/* Makes a copy of the newest state, a database of its own, in a folder that is not there yet. The
   database may be in use. */
LEVELDB_EXPORT void hedgerow_leveldb_backup(leveldb_t* db, const char* name, char** errptr);

#ifdef __cplusplus
} /* extern "C" */

namespace leveldb {

class DB;

/* The database of a C++ object, for the functions above; null for an object of another library. It
   lives as long as the object. */
LEVELDB_EXPORT leveldb_t* HedgerowDB(DB* db);

}  // namespace leveldb
#endif

#endif /* HEDGEROW_LEVELDB_H_ */
