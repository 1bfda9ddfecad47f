// The functions that the C++ classes use and the library does not export; they are in
// src/ffi/inside.rs. Errors are those of leveldb/c.h.
#ifndef HEDGEROW_LEVELDB_INSIDE_H_
#define HEDGEROW_LEVELDB_INSIDE_H_

#include <cstddef>

#include "leveldb/c.h"
#include "leveldb/status.h"

namespace leveldb {

class Cache;
class Env;

}  // namespace leveldb

#pragma GCC visibility push(hidden)

extern "C" {

// An iterator begins with this: the entry that it stands at.
struct Shown {
  bool is_valid;
  bool has_value;
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
};

struct FileLockInside;

int inside_get(const leveldb_t* db, const leveldb_snapshot_t* snapshot, const char* key,
               size_t keylen, void* state, void (*give)(void*, const char*, size_t),
               char** errptr);
leveldb_iterator_t* inside_iterate(const leveldb_t* db, const leveldb_snapshot_t* snapshot,
                                   bool verifies);
void inside_write(const leveldb_t* db, bool sync, const char* batch, size_t len, char** errptr);
void inside_each(const char* batch, size_t len, void* state,
                 void (*put)(void*, const char*, size_t, const char*, size_t),
                 void (*deleted)(void*, const char*, size_t), char** errptr);
void inside_set_log(leveldb_options_t* options, void* state,
                    void (*give)(void*, const char*, size_t));
void inside_set_hints(leveldb_options_t* options, bool in_memory, size_t cache);
FileLockInside* inside_lock(const char* name, char** errptr);
void inside_unlock(FileLockInside* lock);

}  // extern "C"

namespace leveldb {

// An error of a C function; null is none. It is freed, unless it is kept by somebody else.
Status StatusOf(char* error, bool is_freed = true);

// What a cache of this library was made for; 0 for null and others.
size_t CapacityOf(Cache* cache);

// The environment below all wrappers, if it is one of this library's, and else null.
Env* Underlying(Env* env);

// Where a file of an environment in memory lies; "" for other environments.
std::string InMemory(Env* env, const std::string& name);

// A failure of the system.
Status SystemError(const std::string& context, int error);

// Removes a folder with everything in it, as far as that is possible.
void RemoveAll(const std::string& folder);

}  // namespace leveldb

#pragma GCC visibility pop

#endif  // HEDGEROW_LEVELDB_INSIDE_H_
