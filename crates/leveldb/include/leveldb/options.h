// How a database is opened, read and written. What shapes LevelDB's files is accepted and has no
// meaning in this library; docs/leveldb-compat.md has the list.
#ifndef STORAGE_LEVELDB_INCLUDE_OPTIONS_H_
#define STORAGE_LEVELDB_INCLUDE_OPTIONS_H_

#include <cstddef>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

enum CompressionType { kNoCompression = 0x0, kSnappyCompression = 0x1 };

struct LEVELDB_EXPORT Options {
  Options();

  // The order of keys. A database can only be opened with the comparator of that name with which it
  // was made. Default: bytewise.
  const Comparator* comparator;
  // Whether a database that is not there is made. Default: no.
  bool create_if_missing = false;
  // Whether one that is there is refused. Default: no.
  bool error_if_exists = false;
  // Everything is checked when it is first read, whatever is said here.
  bool paranoid_checks = false;
  // Default: Env::Default(). NewMemEnv and wrappers over either of them work too.
  Env* env;
  // Where lines about the database go; null is a file LOG in its folder.
  Logger* info_log = nullptr;
  // A hint for the memory that the log-structured engine takes.
  size_t write_buffer_size = 4 * 1024 * 1024;
  int max_open_files = 1000;
  // A hint for the memory that the log-structured engine takes.
  Cache* block_cache = nullptr;
  size_t block_size = 4 * 1024;
  int block_restart_interval = 16;
  size_t max_file_size = 2 * 1024 * 1024;
  CompressionType compression = kSnappyCompression;
  bool reuse_logs = false;
  const FilterPolicy* filter_policy = nullptr;
};

struct LEVELDB_EXPORT ReadOptions {
  // Checksums are verified whenever something is first read, whatever is said here.
  bool verify_checksums = false;
  bool fill_cache = true;
  // The state that is read; null is the newest one.
  const Snapshot* snapshot = nullptr;
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Whether the write is on stable storage when it returns. Without it, writes survive the death of
  // the process, and after a power loss the first ones of them do.
  bool sync = false;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_OPTIONS_H_
