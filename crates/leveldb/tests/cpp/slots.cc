// Where functions stand in the tables of virtual ones, which programs that were compiled for LevelDB
// call by their places: after the two destructors, in this order.

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

int failures = 0;

// A pointer to a virtual function is one more than the offset of its place (Itanium C++ ABI, 2.3).
template <typename Function>
void At(int place, Function function, const char* name) {
  std::intptr_t parts[2];
  static_assert(sizeof function == sizeof parts, "pointers to member functions are of two words");
  std::memcpy(parts, &function, sizeof parts);
  const long found = (parts[0] - 1) / static_cast<long>(sizeof(void*));
  if (found == place) return;
  std::printf("%s stands at %ld, not at %d\n", name, found, place);
  failures++;
}

#define TABLE(type) { using T = type; int place = 2;
#define HAS(function) At(place++, &T::function, #function);
#define END }

}  // namespace

int main() {
  TABLE(DB) HAS(Put) HAS(Delete) HAS(Write) HAS(Get) HAS(NewIterator) HAS(GetSnapshot)
    HAS(ReleaseSnapshot) HAS(GetProperty) HAS(GetApproximateSizes) HAS(CompactRange) END
  TABLE(Iterator) HAS(Valid) HAS(SeekToFirst) HAS(SeekToLast) HAS(Seek) HAS(Next) HAS(Prev)
    HAS(key) HAS(value) HAS(status) END
  TABLE(Env) HAS(NewSequentialFile) HAS(NewRandomAccessFile) HAS(NewWritableFile)
    HAS(NewAppendableFile) HAS(FileExists) HAS(GetChildren) HAS(RemoveFile) HAS(DeleteFile)
    HAS(CreateDir) HAS(RemoveDir) HAS(DeleteDir) HAS(GetFileSize) HAS(RenameFile) HAS(LockFile)
    HAS(UnlockFile) HAS(Schedule) HAS(StartThread) HAS(GetTestDirectory) HAS(NewLogger)
    HAS(NowMicros) HAS(SleepForMicroseconds) END
  TABLE(Cache) HAS(Insert) HAS(Lookup) HAS(Release) HAS(Value) HAS(Erase) HAS(NewId) HAS(Prune)
    HAS(TotalCharge) END
  TABLE(Comparator) HAS(Compare) HAS(Name) HAS(FindShortestSeparator) HAS(FindShortSuccessor) END
  TABLE(FilterPolicy) HAS(Name) HAS(CreateFilter) HAS(KeyMayMatch) END
  TABLE(Logger) HAS(Logv) END
  TABLE(WriteBatch::Handler) HAS(Put) HAS(Delete) END
  TABLE(SequentialFile) HAS(Read) HAS(Skip) END
  TABLE(RandomAccessFile) HAS(Read) END
  TABLE(WritableFile) HAS(Append) HAS(Close) HAS(Flush) HAS(Sync) END
  return failures;
}
