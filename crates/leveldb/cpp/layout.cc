// What programs that were compiled for LevelDB 1.23 rely on: sizes, offsets, and where functions
// stand in tables of virtual ones. None of it may change.

#include <cstddef>
#include <type_traits>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

namespace leveldb {

#define AT(type, member, offset) \
  static_assert(offsetof(type, member) == (offset), #type "::" #member " stands elsewhere")
#define BYTES(type, size) static_assert(sizeof(type) == (size), #type " has another size")

#if defined(__x86_64__) && defined(__LP64__)

BYTES(Options, 96);
AT(Options, comparator, 0);
AT(Options, create_if_missing, 8);
AT(Options, error_if_exists, 9);
AT(Options, paranoid_checks, 10);
AT(Options, env, 16);
AT(Options, info_log, 24);
AT(Options, write_buffer_size, 32);
AT(Options, max_open_files, 40);
AT(Options, block_cache, 48);
AT(Options, block_size, 56);
AT(Options, block_restart_interval, 64);
AT(Options, max_file_size, 72);
AT(Options, compression, 80);
AT(Options, reuse_logs, 84);
AT(Options, filter_policy, 88);

BYTES(ReadOptions, 16);
AT(ReadOptions, verify_checksums, 0);
AT(ReadOptions, fill_cache, 1);
AT(ReadOptions, snapshot, 8);
BYTES(WriteOptions, 1);
AT(WriteOptions, sync, 0);

BYTES(Status, 8);
BYTES(Slice, 16);
BYTES(Range, 32);
AT(Range, start, 0);
AT(Range, limit, 16);
BYTES(std::string, 32);
BYTES(WriteBatch, 32);
BYTES(WriteBatch::Handler, 8);
BYTES(Iterator, 40);
BYTES(DB, 8);
BYTES(Snapshot, 8);
BYTES(Env, 8);
BYTES(EnvWrapper, 16);
BYTES(Table, 8);
BYTES(TableBuilder, 8);
BYTES(Cache, 8);
BYTES(Comparator, 8);
BYTES(FilterPolicy, 8);
BYTES(SequentialFile, 8);
BYTES(RandomAccessFile, 8);
BYTES(WritableFile, 8);
BYTES(Logger, 8);
BYTES(FileLock, 8);

#endif

// What classes with virtual functions inherit from the tables above; the order of those functions
// is looked at by tests/cpp/slots.cc, in a program of its own.
static_assert(std::has_virtual_destructor<DB>::value, "DB");
static_assert(std::has_virtual_destructor<Iterator>::value, "Iterator");
static_assert(std::has_virtual_destructor<Env>::value, "Env");
static_assert(std::has_virtual_destructor<Cache>::value, "Cache");
static_assert(std::has_virtual_destructor<Comparator>::value, "Comparator");
static_assert(std::has_virtual_destructor<FilterPolicy>::value, "FilterPolicy");
static_assert(std::has_virtual_destructor<Logger>::value, "Logger");
static_assert(std::has_virtual_destructor<WriteBatch::Handler>::value, "WriteBatch::Handler");

// Handed over in registers or by address: part of the interface, too.
static_assert(std::is_trivially_copyable<Slice>::value, "Slice is passed in registers");
static_assert(!std::is_trivially_copyable<Status>::value, "Status is passed by address");

}  // namespace leveldb
