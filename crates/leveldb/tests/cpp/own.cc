// What only this library has: functions of leveldb/hedgerow.h, and refusals.

#include "leveldb/hedgerow.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "leveldb/db.h"
#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

void Check(bool holds, const char* what) {
  if (holds) return;
  std::printf("it does not hold that %s\n", what);
  std::exit(1);
}

#define CHECK(condition) Check(condition, #condition)

// An environment of the program's own from the ground up.
class Foreign : public Env {
 public:
  Status NewSequentialFile(const std::string&, SequentialFile**) override { return Status::OK(); }
  Status NewRandomAccessFile(const std::string&, RandomAccessFile**) override {
    return Status::OK();
  }
  Status NewWritableFile(const std::string&, WritableFile**) override { return Status::OK(); }
  bool FileExists(const std::string&) override { return false; }
  Status GetChildren(const std::string&, std::vector<std::string>*) override {
    return Status::OK();
  }
  Status CreateDir(const std::string&) override { return Status::OK(); }
  Status RemoveFile(const std::string&) override { return Status::OK(); }
  Status RemoveDir(const std::string&) override { return Status::OK(); }
  Status GetFileSize(const std::string&, uint64_t*) override { return Status::OK(); }
  Status RenameFile(const std::string&, const std::string&) override { return Status::OK(); }
  Status LockFile(const std::string&, FileLock**) override { return Status::OK(); }
  Status UnlockFile(FileLock*) override { return Status::OK(); }
  void Schedule(void (*)(void*), void*) override {}
  void StartThread(void (*)(void*), void*) override {}
  Status GetTestDirectory(std::string*) override { return Status::OK(); }
  Status NewLogger(const std::string&, Logger**) override { return Status::OK(); }
  uint64_t NowMicros() override { return 0; }
  void SleepForMicroseconds(int) override {}
};

void Own() {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  CHECK(DB::Open(options, "db", &db).ok());
  leveldb_t* handle = HedgerowDB(db);
  CHECK(handle != nullptr && HedgerowDB(nullptr) == nullptr);
  std::printf("engine %s\n", hedgerow_leveldb_engine(handle));
  for (int i = 0; i < 1000; i++) {
    CHECK(db->Put(WriteOptions(), std::to_string(i % 500), "value").ok());
  }
  char* error = nullptr;
  CHECK(hedgerow_leveldb_count(handle, &error) == 500 && error == nullptr);
  hedgerow_leveldb_check(handle, &error);
  CHECK(error == nullptr);
  hedgerow_leveldb_backup(handle, "copy", &error);
  CHECK(error == nullptr);
  hedgerow_leveldb_backup(handle, "copy", &error);
  CHECK(error != nullptr);
  leveldb_free(error);
  error = nullptr;
  DB* copy = nullptr;
  CHECK(DB::Open(Options(), "copy", &copy).ok());
  CHECK(hedgerow_leveldb_count(HedgerowDB(copy), &error) == 500);
  delete copy;
  delete db;
}

void Engines() {
  for (const char* engine : {"tree", "lsm"}) {
    leveldb_options_t* options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    CHECK(hedgerow_leveldb_options_set_engine(options, "other") == 0);
    CHECK(hedgerow_leveldb_options_set_engine(options, engine) == 1);
    char* error = nullptr;
    leveldb_t* db = leveldb_open(options, engine, &error);
    CHECK(db != nullptr && error == nullptr);
    CHECK(std::string(hedgerow_leveldb_engine(db)) == engine);
    leveldb_close(db);
    leveldb_options_destroy(options);
  }
}

void Refusals() {
  Foreign foreign;
  Options options;
  options.create_if_missing = true;
  options.env = &foreign;
  DB* db = nullptr;
  CHECK(DB::Open(options, "foreign", &db).IsNotSupportedError() && db == nullptr);
  EnvWrapper wrapper(&foreign);
  options.env = &wrapper;
  CHECK(DB::Open(options, "foreign", &db).IsNotSupportedError());
  CHECK(DestroyDB("foreign", options).IsNotSupportedError());
  options.env = Env::Default();
  Table* table = nullptr;
  CHECK(Table::Open(options, nullptr, 0, &table).IsNotSupportedError() && table == nullptr);
  CHECK(TableBuilder(options, nullptr).Finish().IsNotSupportedError());
  CHECK(DumpFile(Env::Default(), "db/CURRENT", nullptr).IsNotSupportedError());
  DB* second = nullptr;
  CHECK(DB::Open(options, "long", &db).ok());
  CHECK(db->Put(WriteOptions(), std::string(1 << 20, 'k'), "").ok());
  CHECK(db->Put(WriteOptions(), std::string((1 << 20) + 1, 'k'), "").IsInvalidArgument());
  WriteBatch batch;
  batch.Put("a", "");
  batch.Put(std::string(2 << 20, 'k'), "");
  CHECK(db->Write(WriteOptions(), &batch).IsInvalidArgument());
  std::string value;
  CHECK(db->Get(ReadOptions(), "a", &value).IsNotFound());
  // Null pointers in place of what is to be filled.
  CHECK(DB::Open(options, "none", nullptr).IsInvalidArgument());
  CHECK(DB::Open(options, "", &second).IsInvalidArgument() && second == nullptr);
  CHECK(DestroyDB("", options).IsInvalidArgument());
  // A name is not cut at a zero.
  const std::string zero("long\0", 5);
  CHECK(DB::Open(options, zero, &second).IsInvalidArgument() && second == nullptr);
  CHECK(db->Get(ReadOptions(), "a", nullptr).IsInvalidArgument());
  CHECK(!db->GetProperty("leveldb.stats", nullptr));
  db->GetApproximateSizes(nullptr, 3, nullptr);
  CHECK(batch.Iterate(nullptr).IsInvalidArgument());
  CHECK(db->Write(WriteOptions(), nullptr).ok());
  delete db;
  CHECK(RepairDB(zero, options).IsInvalidArgument());
  CHECK(DestroyDB(zero, options).IsInvalidArgument());
  CHECK(Env::Default()->FileExists("long/CURRENT"));
  // Misuse of the C interface has an answer, too.
  char* error = nullptr;
  leveldb_put(nullptr, nullptr, "k", 1, "v", 1, &error);
  CHECK(error != nullptr);
  leveldb_free(error);
  leveldb_close(nullptr);
  leveldb_iterator_t* iterator = leveldb_create_iterator(nullptr, nullptr);
  leveldb_iter_seek_to_first(iterator);
  leveldb_iter_next(iterator);
  CHECK(leveldb_iter_valid(iterator) == 0);
  leveldb_iter_destroy(iterator);
}

// Iterators and snapshots that are left over when the database is closed.
void LeftOver() {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  CHECK(DB::Open(options, "left", &db).ok());
  CHECK(db->Put(WriteOptions(), "a", "b").ok());
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  delete db;
  CHECK(iterator->Valid() && iterator->key() == "a" && iterator->value() == "b");
}

// Changes the middle of what a file of a folder has of a value; whether there is one that has it.
bool Damage(const std::string& folder, const std::string& value) {
  Env* env = Env::Default();
  std::vector<std::string> names;
  CHECK(env->GetChildren(folder, &names).ok());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    std::string bytes;
    if (!ReadFileToString(env, path, &bytes).ok()) continue;
    const size_t at = bytes.find(value);
    if (at == std::string::npos) continue;
    bytes[at + value.size() / 2] ^= 1;
    CHECK(WriteStringToFile(env, bytes, path).ok());
    return true;
  }
  return false;
}

// A long value that is damaged: an iterator that verifies ends before it, another one when it is
// asked for the value.
void DamagedValue() {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  CHECK(DB::Open(options, "damaged", &db).ok());
  const bool is_lsm = hedgerow_leveldb_engine(HedgerowDB(db)) == std::string("lsm");
  const std::string value(20000, 'v');
  CHECK(db->Put(WriteOptions(), "a", "short").ok());
  CHECK(db->Put(WriteOptions(), "b", value).ok());
  CHECK(db->Put(WriteOptions(), "c", "short").ok());
  db->CompactRange(nullptr, nullptr);
  delete db;
  if (!is_lsm) return;
  CHECK(Damage("damaged/lsm", value));
  CHECK(DB::Open(options, "damaged", &db).ok());
  ReadOptions verifying;
  verifying.verify_checksums = true;
  std::unique_ptr<Iterator> iterator(db->NewIterator(verifying));
  iterator->SeekToFirst();
  CHECK(iterator->Valid() && iterator->key() == "a");
  iterator->Next();
  CHECK(!iterator->Valid() && iterator->status().IsCorruption());
  iterator.reset(db->NewIterator(verifying));
  iterator->Seek("c");
  CHECK(iterator->Valid() && iterator->value() == "short" && iterator->status().ok());
  iterator.reset(db->NewIterator(ReadOptions()));
  iterator->Seek("b");
  CHECK(iterator->Valid() && iterator->value().empty());
  CHECK(!iterator->Valid() && iterator->status().IsCorruption());
  iterator.reset();
  delete db;
}

void InMemory() {
  std::unique_ptr<Env> memory(NewMemEnv(Env::Default()));
  Options options;
  options.create_if_missing = true;
  options.env = memory.get();
  DB* db = nullptr;
  CHECK(DB::Open(options, "/some/where/db", &db).ok());
  DB* second = nullptr;
  CHECK(DB::Open(options, "/some/where/db", &second).IsIOError());
  CHECK(!Env::Default()->FileExists("/some/where"));
  delete db;
  CHECK(DestroyDB("/some/where/db", options).ok());
}

}  // namespace

int main() {
  Own();
  Engines();
  Refusals();
  LeftOver();
  DamagedValue();
  InMemory();
  std::puts("done");
  return 0;
}
