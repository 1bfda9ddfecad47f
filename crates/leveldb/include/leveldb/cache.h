// A cache of things with a charge each.
#ifndef STORAGE_LEVELDB_INCLUDE_CACHE_H_
#define STORAGE_LEVELDB_INCLUDE_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// A cache whose charges sum up to at most a capacity: what was not used for the longest time goes.
// As the block_cache of a database only its capacity counts.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

// Any thread may use it.
class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Everything that is still in it is deleted by its deleter.
  virtual ~Cache();

  // An entry that is in use.
  struct Handle {};

  // Puts a value under a key, in place of the one before; the caller releases the handle.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;
  // The entry of a key, to be released; null if there is none.
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  // Takes an entry out; it goes when it is no longer in use.
  virtual void Erase(const Slice& key) = 0;
  // A number that it gives only once.
  virtual uint64_t NewId() = 0;
  // Takes out everything that is not in use.
  virtual void Prune() {}
  // The sum of the charges of what is in it.
  virtual size_t TotalCharge() const = 0;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_CACHE_H_
