// A database: an ordered map from keys to values, both strings of bytes, in a folder.
#ifndef STORAGE_LEVELDB_INCLUDE_DB_H_
#define STORAGE_LEVELDB_INCLUDE_DB_H_

#include <cstdint>
#include <cstdio>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

struct Options;
struct ReadOptions;
struct WriteOptions;
class WriteBatch;

// A state of a database that stays readable until it is released.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// The keys from start on and before limit.
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& from, const Slice& to) : start(from), limit(to) {}

  Slice start;
  Slice limit;
};

// Any thread may use it.
class LEVELDB_EXPORT DB {
 public:
  // Opens a database; the caller deletes *dbptr, which is null after an error.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB();

  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // The key need not be there.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;
  // IsNotFound, and *value as it was, if the key is not there.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;
  // The caller deletes it, before the database.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;
  // "leveldb.num-files-at-level<N>", "leveldb.stats", "leveldb.sstables" and
  // "leveldb.approximate-memory-usage"; false for other names.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  // About how many bytes each of n ranges takes in files.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;
  // Makes the files small; null is an open end.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Removes a database, of which only this library's files go.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Brings what can be read of a damaged database over to new files.
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_DB_H_
