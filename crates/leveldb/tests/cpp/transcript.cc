// Calls of the C++ interface, a line each: what a library prints is to be what LevelDB prints. It
// runs in an empty folder. What depends on how a library keeps its entries is not printed.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

std::string Shown(const Slice& bytes) {
  std::string text = "\"";
  for (size_t i = 0; i < bytes.size(); i++) {
    const unsigned char byte = static_cast<unsigned char>(bytes[i]);
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", byte);
    if (byte >= ' ' && byte < 127) {
      text.push_back(static_cast<char>(byte));
    } else {
      text.append(hex);
    }
  }
  return text + "\"";
}

void Say(const std::string& call, const std::string& answer) {
  std::printf("%s: %s\n", call.c_str(), answer.c_str());
}

void Say(const std::string& call, const Status& status) { Say(call, status.ToString()); }

void Say(const std::string& call, bool answer) { Say(call, std::string(answer ? "yes" : "no")); }

void Say(const std::string& call, long number) { Say(call, std::to_string(number)); }

void Statuses() {
  const Status all[] = {Status::OK(),
                        Status::NotFound("a"),
                        Status::NotFound(Slice(), "b"),
                        Status::Corruption("a", "b"),
                        Status::NotSupported("a", ""),
                        Status::InvalidArgument(Slice("a\0b", 3), Slice("c", 1)),
                        Status::IOError("")};
  for (const Status& status : all) {
    Say("status", Shown(status.ToString()));
    std::string kinds;
    for (const bool is : {status.ok(), status.IsNotFound(), status.IsCorruption(),
                          status.IsNotSupportedError(), status.IsInvalidArgument(),
                          status.IsIOError()}) {
      kinds.push_back(is ? '1' : '0');
    }
    Say("kinds", kinds);
    Status copy = status;
    copy = Status::Corruption("other");
    copy = status;
    Status moved = std::move(copy);
    Say("moved", Shown(moved.ToString()));
  }
}

void Slices() {
  Slice slice("abc");
  Say("compare", static_cast<long>(slice.compare("abd") < 0) + (slice.compare("ab") > 0) +
                     (slice.compare("abc") == 0) + (Slice("").compare(Slice("\0", 1)) < 0));
  Say("starts with", slice.starts_with("ab"));
  Say("starts with", slice.starts_with("abcd"));
  slice.remove_prefix(1);
  Say("rest", Shown(slice));
  Say("equal", slice == Slice(std::string("bc")));
  Say("differs", slice != Slice());
  slice.clear();
  Say("empty", slice.empty());
}

struct Printer : public WriteBatch::Handler {
  void Put(const Slice& key, const Slice& value) override { Say("put " + Shown(key), Shown(value)); }
  void Delete(const Slice& key) override { Say("delete", Shown(key)); }
};

// Throws where it is told of a deletion.
struct Thrower : public Printer {
  void Delete(const Slice& key) override {
    Printer::Delete(key);
    throw std::runtime_error("of the handler");
  }
};

void Thrown(const WriteBatch& batch) {
  Thrower thrower;
  try {
    Say("iterate", batch.Iterate(&thrower));
  } catch (const std::runtime_error& error) {
    Say("thrown", std::string(error.what()));
  }
}

void Batches() {
  WriteBatch batch;
  Printer printer;
  Say("size", static_cast<long>(batch.ApproximateSize()));
  batch.Put("key", "value");
  Say("size", static_cast<long>(batch.ApproximateSize()));
  batch.Delete(std::string(200, 'd'));
  Say("size", static_cast<long>(batch.ApproximateSize()));
  batch.Put("", std::string(20000, 'v'));
  Say("size", static_cast<long>(batch.ApproximateSize()));
  WriteBatch copy = batch;
  copy.Clear();
  Say("size", static_cast<long>(copy.ApproximateSize()));
  copy.Put(Slice("\0\xff", 2), "");
  copy.Append(copy);
  batch.Clear();
  batch.Append(copy);
  batch.Append(WriteBatch());
  Say("size", static_cast<long>(batch.ApproximateSize()));
  Say("iterate", batch.Iterate(&printer));
  Say("iterate over nothing", WriteBatch().Iterate(&printer));
  batch.Clear();
  batch.Put("put", "before");
  batch.Delete("deleted");
  batch.Put("put", "not told of");
  Thrown(batch);
}

void Comparators() {
  const Comparator* bytewise = BytewiseComparator();
  Say("name", std::string(bytewise->Name()));
  Say("compare", bytewise->Compare("a", "b") < 0 && bytewise->Compare("b", "a") > 0);
  const char* pairs[][2] = {{"foo", "hello"}, {"helloworld", "helloz"}, {"a", "b"}, {"a", "c"},
                            {"ab", "abc"},    {"abc", "ab"},            {"", "a"},  {"b", "a"},
                            {"a\xff", "c"},   {"a\xfe", "a\xff"}};
  for (const auto& pair : pairs) {
    std::string start = pair[0];
    bytewise->FindShortestSeparator(&start, pair[1]);
    Say("separator", Shown(start));
  }
  for (const char* key : {"", "a", "abc", "\xff", "\xff\xff", "\xffz\xff"}) {
    std::string successor = key;
    bytewise->FindShortSuccessor(&successor);
    Say("successor", Shown(successor));
  }
}

void Filters() {
  for (const int bits : {10, 1, 0, 100}) {
    std::unique_ptr<const FilterPolicy> policy(NewBloomFilterPolicy(bits));
    Say("name", std::string(policy->Name()));
    const std::vector<Slice> keys = {"hello", "world", "", "a", "ab", "abc", Slice("\0\xff\x80", 3)};
    std::string filter = "before";
    policy->CreateFilter(keys.data(), static_cast<int>(keys.size()), &filter);
    Say("filter", Shown(filter));
    std::string none;
    policy->CreateFilter(nullptr, 0, &none);
    Say("filter of none", Shown(none));
    const Slice made(filter.data() + 6, filter.size() - 6);
    for (const char* key : {"hello", "ab", "x", "foo", "wor"}) {
      Say(std::string("may match ") + key, policy->KeyMayMatch(key, made));
    }
    Say("may match in nothing", policy->KeyMayMatch("hello", ""));
  }
}

void Forget(const Slice& key, void* value) {
  Say("deleter of " + key.ToString(), static_cast<long>(reinterpret_cast<intptr_t>(value)));
}

void* Number(intptr_t number) { return reinterpret_cast<void*>(number); }

void Caches() {
  std::unique_ptr<Cache> cache(NewLRUCache(0));
  Cache::Handle* handle = cache->Insert("none", Number(1), 1, Forget);
  Say("in a cache of nothing", cache->Lookup("none") != nullptr);
  cache->Release(handle);
  cache.reset(NewLRUCache(1000));
  Say("other ids", cache->NewId() != cache->NewId());
  cache->Release(cache->Insert("a", Number(1), 1, Forget));
  cache->Release(cache->Insert("a", Number(2), 3, Forget));
  handle = cache->Lookup("a");
  Say("value", static_cast<long>(reinterpret_cast<intptr_t>(cache->Value(handle))));
  Say("charge", static_cast<long>(cache->TotalCharge()));
  cache->Erase("a");
  Say("after erase", cache->Lookup("a") != nullptr);
  cache->Release(handle);
  cache->Erase("a");
  cache->Release(cache->Insert("b", Number(3), 1, Forget));
  handle = cache->Insert("c", Number(4), 1, Forget);
  cache->Prune();
  cache->Release(handle);
  Say("charge", static_cast<long>(cache->TotalCharge()));
}

class Numbers : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    const long x = std::strtol(a.ToString().c_str(), nullptr, 0);
    const long y = std::strtol(b.ToString().c_str(), nullptr, 0);
    return x < y ? -1 : x > y;
  }
  const char* Name() const override { return "test.Numbers"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

void Get(DB* db, const ReadOptions& options, const Slice& key) {
  std::string value = "before";
  Status status = db->Get(options, key, &value);
  Say("get " + Shown(key), status.ToString() + " " + Shown(value));
}

void Here(const std::string& call, Iterator* iterator) {
  Say(call, !iterator->Valid() ? "nowhere, " + iterator->status().ToString()
                               : Shown(iterator->key()) + " = " + Shown(iterator->value()));
}

void Walk(DB* db, const ReadOptions& options) {
  std::unique_ptr<Iterator> iterator(db->NewIterator(options));
  Here("new", iterator.get());
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) Here("->", iterator.get());
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) Here("<-", iterator.get());
  Here("end", iterator.get());
}

// The calls of a database, in an environment, in an order.
void Database(Env* env, const Comparator* comparator) {
  Options options;
  options.env = env;
  options.comparator = comparator;
  DB* db = reinterpret_cast<DB*>(1);
  Say("open", DB::Open(options, "db", &db));
  Say("nothing", db == nullptr);
  options.create_if_missing = true;
  Say("open", DB::Open(options, "db", &db));
  Say("CURRENT", env->FileExists("db/CURRENT"));
  // In memory LevelDB has no locks.
  const bool locks = env == Env::Default();
  if (locks) Say("LOCK", env->FileExists("db/LOCK"));
  WriteOptions lazy, durable;
  durable.sync = true;
  Say("put", db->Put(lazy, "1", "one"));
  Say("put", db->Put(durable, "2", ""));
  Say("delete", db->Delete(lazy, "3"));
  Get(db, ReadOptions(), "1");
  Get(db, ReadOptions(), "2");
  Get(db, ReadOptions(), "3");
  ReadOptions then;
  then.snapshot = db->GetSnapshot();
  then.verify_checksums = true;
  then.fill_cache = false;
  WriteBatch batch;
  for (int i = 12; i > 0; i--) batch.Put(std::to_string(i), "batch " + std::to_string(i));
  batch.Delete("5");
  batch.Put("6", "twice");
  Say("write", db->Write(lazy, &batch));
  batch.Clear();
  Say("write nothing", db->Write(durable, &batch));
  Walk(db, then);
  Walk(db, ReadOptions());
  Get(db, then, "1");
  std::unique_ptr<Iterator> iterator(db->NewIterator(then));
  db->ReleaseSnapshot(then.snapshot);
  iterator->Seek("2");
  Here("seek", iterator.get());
  iterator->Next();
  Here("next", iterator.get());
  iterator.reset(db->NewIterator(ReadOptions()));
  iterator->RegisterCleanup([](void* a, void*) { std::puts(static_cast<char*>(a)); },
                            const_cast<char*>("first clean-up"), nullptr);
  iterator->RegisterCleanup([](void* a, void*) { std::puts(static_cast<char*>(a)); },
                            const_cast<char*>("second clean-up"), nullptr);
  iterator->RegisterCleanup([](void* a, void*) { std::puts(static_cast<char*>(a)); },
                            const_cast<char*>("third clean-up"), nullptr);
  iterator->Seek("7");
  Here("seek", iterator.get());
  iterator.reset();
  std::string value = "before";
  Say("property", db->GetProperty("leveldb.nothing", &value));
  Say("value", Shown(value));
  Say("property", db->GetProperty("leveldb.stats", &value));
  Say("property", db->GetProperty(Slice("leveldb.stats\0", 14), &value));
  const Slice from("1"), to("6");
  db->CompactRange(&from, &to);
  db->CompactRange(nullptr, nullptr);
  const Range ranges[] = {Range("2", "2"), Range("9", "3")};
  uint64_t sizes[] = {7, 7};
  db->GetApproximateSizes(ranges, 2, sizes);
  Say("sizes", static_cast<long>(sizes[0] + sizes[1]));
  DB* second = nullptr;
  if (locks) Say("open twice", DB::Open(options, "db", &second));
  delete db;
  options.error_if_exists = true;
  Say("open", DB::Open(options, "db", &db));
  options.error_if_exists = false;
  Say("open", DB::Open(options, "db", &db));
  Get(db, ReadOptions(), "6");
  delete db;
  Options other = options;
  const Numbers numbers;
  other.comparator = comparator == BytewiseComparator() ? &numbers : BytewiseComparator();
  Say("another order", DB::Open(other, "db", &db));
  Say("repair", RepairDB("db", options));
  Say("open", DB::Open(options, "db", &db));
  Get(db, ReadOptions(), "12");
  delete db;
  Say("destroy", DestroyDB("db", options));
  Say("CURRENT", env->FileExists("db/CURRENT"));
}

// A wrapper that notes one of the calls.
class Noting : public EnvWrapper {
 public:
  explicit Noting(Env* target) : EnvWrapper(target) {}
  bool FileExists(const std::string& name) override {
    Say("looks for", name);
    return EnvWrapper::FileExists(name);
  }
};

class Lines : public Logger {
 public:
  void Logv(const char* format, std::va_list) override { is_used = is_used || *format != '\0'; }
  bool is_used = false;
};

void Sorted(Env* env, const std::string& folder) {
  std::vector<std::string> names;
  Say("children", env->GetChildren(folder, &names));
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) {
    if (name != "." && name != "..") all += name + " ";
  }
  Say("names", all);
}

// The calls of an environment; in_memory leaves out what has no meaning there.
void Files(Env* env, bool in_memory) {
  Say("create folder", env->CreateDir("folder"));
  if (!in_memory) Say("create folder", env->CreateDir("folder"));
  uint64_t size = 7;
  Say("size", env->GetFileSize("folder/none", &size).ok());
  SequentialFile* sequential = nullptr;
  Say("open none", env->NewSequentialFile("folder/none", &sequential).ok());
  RandomAccessFile* random = nullptr;
  Say("open none", env->NewRandomAccessFile("folder/none", &random).ok());
  Say("write", WriteStringToFile(env, "hello world", "folder/f"));
  WritableFile* file = nullptr;
  Say("append to it", env->NewAppendableFile("folder/f", &file));
  Say("append", file->Append(std::string(100000, 'x')));
  Say("flush", file->Flush());
  Say("sync", file->Sync());
  Say("close", file->Close());
  delete file;
  Say("size", env->GetFileSize("folder/f", &size));
  Say("is", static_cast<long>(size));
  std::string data = "before";
  Say("read", ReadFileToString(env, "folder/f", &data));
  Say("read", static_cast<long>(data.size()) + (data.compare(0, 12, "hello worldx") == 0));
  Say("sequential", env->NewSequentialFile("folder/f", &sequential));
  char scratch[100];
  Slice part;
  Say("read", sequential->Read(5, &part, scratch));
  Say("part", Shown(part));
  Say("skip", sequential->Skip(1));
  Say("read", sequential->Read(5, &part, scratch));
  Say("part", Shown(part));
  Say("skip", sequential->Skip(99990));
  Say("read", sequential->Read(100, &part, scratch));
  Say("part", Shown(part));
  Say("read", sequential->Read(100, &part, scratch));
  Say("part", Shown(part));
  delete sequential;
  Say("random", env->NewRandomAccessFile("folder/f", &random));
  Say("read", random->Read(6, 5, &part, scratch));
  Say("part", Shown(part));
  Say("read beyond the end", random->Read(1 << 20, 5, &part, scratch).ok());
  delete random;
  Sorted(env, "folder");
  Say("rename", env->RenameFile("folder/f", "folder/g"));
  Say("rename none", env->RenameFile("folder/f", "folder/g").ok());
  Say("exists", env->FileExists("folder/f"));
  Say("exists", env->FileExists("folder/g"));
  Sorted(env, "folder");
  FileLock* lock = nullptr;
  Say("lock", env->LockFile("folder/lock", &lock));
  Say("unlock", env->UnlockFile(lock));
  Say("remove", env->RemoveFile("folder/g"));
  Say("remove none", env->RemoveFile("folder/g").ok());
  if (!in_memory) {
    Say("delete", env->DeleteFile("folder/lock"));
    Say("remove none", env->RemoveFile("folder/g"));
    Say("open none", env->NewSequentialFile("folder/none", &sequential));
    Say("write in none", WriteStringToFile(env, "", "none/f"));
    Say("delete folder", env->DeleteDir("folder"));
    Say("delete folder", env->RemoveDir("folder"));
    Logger* logger = nullptr;
    Say("logger", env->NewLogger("log", &logger));
    delete logger;
    Say("lock", env->LockFile("held", &lock));
    FileLock* second = nullptr;
    Say("lock", env->LockFile("held", &second));
    Say("unlock", env->UnlockFile(lock));
  }
  Say("time goes on", env->NowMicros() <= env->NowMicros());
  env->SleepForMicroseconds(1);
}

void Others() {
  std::unique_ptr<Iterator> nothing(NewEmptyIterator());
  nothing->SeekToFirst();
  nothing->Seek("a");
  Here("empty", nothing.get());
  nothing.reset(NewErrorIterator(Status::Corruption("planted")));
  nothing->SeekToLast();
  Here("error", nothing.get());
  const Options options;
  Say("defaults", std::to_string(options.write_buffer_size) + " " +
                      std::to_string(options.max_open_files) + " " +
                      std::to_string(options.block_size) + " " +
                      std::to_string(options.block_restart_interval) + " " +
                      std::to_string(options.max_file_size) + " " +
                      std::to_string(options.compression));
  Say("defaults", options.comparator == BytewiseComparator() && options.env == Env::Default() &&
                      options.block_cache == nullptr && options.filter_policy == nullptr &&
                      options.info_log == nullptr && !options.create_if_missing);
}

}  // namespace

int main() {
  Statuses();
  Slices();
  Batches();
  Comparators();
  Filters();
  Caches();
  Others();
  Files(Env::Default(), false);
  Database(Env::Default(), BytewiseComparator());
  const Numbers numbers;
  Database(Env::Default(), &numbers);
  std::unique_ptr<Env> memory(NewMemEnv(Env::Default()));
  Files(memory.get(), true);
  Database(memory.get(), BytewiseComparator());
  Noting noting(memory.get());
  Say("exists", noting.FileExists("none"));
  Options options;
  options.create_if_missing = true;
  EnvWrapper wrapper(memory.get());
  options.env = &wrapper;
  Lines lines;
  options.info_log = &lines;
  DB* db = nullptr;
  Say("open in a wrapper", DB::Open(options, "wrapped", &db));
  Say("put", db->Put(WriteOptions(), "a", "b"));
  Say("says something", lines.is_used);
  delete db;
  options.env = memory.get();
  Say("open what is below", DB::Open(options, "wrapped", &db));
  Get(db, ReadOptions(), "a");
  delete db;
  return 0;
}
