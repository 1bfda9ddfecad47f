// DB: every call is one of a C function.

#include "leveldb/db.h"

#include <memory>

#include "inside.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/hedgerow.h"
#include "leveldb/write_batch.h"
#include "write_batch_internal.h"

namespace leveldb {

Snapshot::~Snapshot() = default;

DB::~DB() = default;

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

namespace {

int Compare(void* comparator, const char* a, size_t alen, const char* b, size_t blen) {
  return static_cast<const Comparator*>(comparator)->Compare(Slice(a, alen), Slice(b, blen));
}

const char* NameOf(void* comparator) { return static_cast<const Comparator*>(comparator)->Name(); }

void KeepState(void*) {}

void LogLine(void* logger, const char* line, size_t len) {
  Log(static_cast<Logger*>(logger), "%.*s", static_cast<int>(len), line);
}

void AssignTo(void* string, const char* value, size_t len) {
  static_cast<std::string*>(string)->assign(value, len);
}

// Where there is a null pointer in place of something.
Status NothingGiven(const char* what) {
  return Status::InvalidArgument(std::string("no ") + what + " was given");
}

// Whether a string would be another, shorter one for the C functions.
bool HasZero(const std::string& text) { return text.find('\0') != std::string::npos; }

// Options for the C functions; the comparator is to outlive databases opened with them.
struct COptions {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_comparator_t* comparator = nullptr;

  COptions(const Options& given, bool in_memory) {
    leveldb_options_set_create_if_missing(options, given.create_if_missing);
    leveldb_options_set_error_if_exists(options, given.error_if_exists);
    leveldb_options_set_write_buffer_size(options, given.write_buffer_size);
    if (given.comparator != nullptr && given.comparator != BytewiseComparator()) {
      void* state = const_cast<Comparator*>(given.comparator);
      comparator = leveldb_comparator_create(state, KeepState, Compare, NameOf);
      leveldb_options_set_comparator(options, comparator);
    }
    if (given.info_log != nullptr) inside_set_log(options, given.info_log, LogLine);
    inside_set_hints(options, in_memory, CapacityOf(given.block_cache));
  }

  ~COptions() {
    leveldb_options_destroy(options);
    if (comparator != nullptr) leveldb_comparator_destroy(comparator);
  }
};

// Options of writing, which are only read once they are made.
const leveldb_writeoptions_t* CWriteOptions(const WriteOptions& options) {
  static const leveldb_writeoptions_t* const lazy = leveldb_writeoptions_create();
  static const leveldb_writeoptions_t* const durable = [] {
    leveldb_writeoptions_t* made = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(made, 1);
    return made;
  }();
  return options.sync ? durable : lazy;
}

class HeldSnapshot final : public Snapshot {
 public:
  explicit HeldSnapshot(const leveldb_snapshot_t* held) : held(held) {}
  ~HeldSnapshot() override { leveldb_release_snapshot(nullptr, held); }

  const leveldb_snapshot_t* const held;
};

const leveldb_snapshot_t* HeldBy(const ReadOptions& options) {
  if (options.snapshot == nullptr) return nullptr;
  return static_cast<const HeldSnapshot*>(options.snapshot)->held;
}

class DBIterator final : public Iterator {
 public:
  explicit DBIterator(leveldb_iterator_t* inside) : inside_(inside) {}
  ~DBIterator() override { leveldb_iter_destroy(inside_); }

  bool Valid() const override { return shown().is_valid; }
  void SeekToFirst() override { leveldb_iter_seek_to_first(inside_); }
  void SeekToLast() override { leveldb_iter_seek_to_last(inside_); }
  void Seek(const Slice& target) override {
    leveldb_iter_seek(inside_, target.data(), target.size());
  }
  void Next() override { leveldb_iter_next(inside_); }
  void Prev() override { leveldb_iter_prev(inside_); }
  Slice key() const override { return Slice(shown().key, shown().key_size); }

  Slice value() const override {
    if (shown().has_value) return Slice(shown().value, shown().value_size);
    size_t size = 0;
    const char* value = leveldb_iter_value(inside_, &size);
    return Slice(value, size);
  }

  Status status() const override {
    char* error = nullptr;
    leveldb_iter_get_error(inside_, &error);
    return StatusOf(error);
  }

 private:
  const Shown& shown() const { return *reinterpret_cast<const Shown*>(inside_); }

  leveldb_iterator_t* const inside_;
};

class OpenDB final : public DB {
 public:
  OpenDB(leveldb_t* inside, std::unique_ptr<COptions> options)
      : inside(inside), options_(std::move(options)) {}
  ~OpenDB() override { leveldb_close(inside); }

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    char* error = nullptr;
    leveldb_put(inside, CWriteOptions(options), key.data(), key.size(), value.data(),
                value.size(), &error);
    return StatusOf(error);
  }

  Status Delete(const WriteOptions& options, const Slice& key) override {
    char* error = nullptr;
    leveldb_delete(inside, CWriteOptions(options), key.data(), key.size(), &error);
    return StatusOf(error);
  }

  Status Write(const WriteOptions& options, WriteBatch* updates) override {
    // LevelDB takes no batch for an empty one, with which it may wait for the disk.
    const WriteBatch empty;
    const std::string& bytes = WriteBatchInternal::Bytes(updates != nullptr ? *updates : empty);
    char* error = nullptr;
    inside_write(inside, options.sync, bytes.data(), bytes.size(), &error);
    return StatusOf(error);
  }

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override {
    if (value == nullptr) return NothingGiven("place for the value");
    char* error = nullptr;
    const leveldb_snapshot_t* snapshot = HeldBy(options);
    if (inside_get(inside, snapshot, key.data(), key.size(), value, AssignTo, &error) != 0) {
      return Status::OK();
    }
    return error == nullptr ? Status::NotFound(Slice()) : StatusOf(error);
  }

  Iterator* NewIterator(const ReadOptions& options) override {
    return new DBIterator(inside_iterate(inside, HeldBy(options), options.verify_checksums));
  }

  const Snapshot* GetSnapshot() override {
    return new HeldSnapshot(leveldb_create_snapshot(inside));
  }

  void ReleaseSnapshot(const Snapshot* snapshot) override {
    delete static_cast<const HeldSnapshot*>(snapshot);
  }

  bool GetProperty(const Slice& property, std::string* value) override {
    if (value == nullptr) return false;
    value->clear();
    const std::string name = property.ToString();
    if (HasZero(name)) return false;
    char* text = leveldb_property_value(inside, name.c_str());
    if (text == nullptr) return false;
    value->assign(text);
    leveldb_free(text);
    return true;
  }

  void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) override {
    if (range == nullptr || sizes == nullptr) return;
    for (int i = 0; i < n; i++) {
      const char* start = range[i].start.data();
      const char* limit = range[i].limit.data();
      const size_t start_size = range[i].start.size();
      const size_t limit_size = range[i].limit.size();
      leveldb_approximate_sizes(inside, 1, &start, &start_size, &limit, &limit_size, &sizes[i]);
    }
  }

  void CompactRange(const Slice* begin, const Slice* end) override {
    leveldb_compact_range(inside, begin != nullptr ? begin->data() : nullptr,
                          begin != nullptr ? begin->size() : 0,
                          end != nullptr ? end->data() : nullptr,
                          end != nullptr ? end->size() : 0);
  }

  leveldb_t* const inside;

 private:
  std::unique_ptr<COptions> options_;
};

// Where a database is.
struct Place {
  Place(const Options& options, const std::string& name) : name(name), folder(name) {
    if (HasZero(name)) {
      status = Status::InvalidArgument(name, "a name with a zero byte");
      return;
    }
    Env* env = options.env != nullptr ? Underlying(options.env) : Env::Default();
    if (env == nullptr) {
      status = Status::NotSupported(
          name, "an environment of the program's own; it can wrap Env::Default() or NewMemEnv()");
      return;
    }
    const std::string there = InMemory(env, name);
    in_memory = !there.empty();
    if (in_memory) folder = there;
  }

  // An error of a C function, which names the folder.
  Status StatusHere(char* error) const {
    if (error == nullptr || !in_memory) return StatusOf(error);
    std::string text = error;
    leveldb_free(error);
    for (size_t at; (at = text.find(folder)) != std::string::npos;) {
      text.replace(at, folder.size(), name);
    }
    return StatusOf(&text[0], false);
  }

  // Why it cannot be there.
  Status status;
  const std::string name;
  std::string folder;
  bool in_memory = false;
};

}  // namespace

Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  if (dbptr == nullptr) return NothingGiven("place for the database");
  *dbptr = nullptr;
  const Place place(options, name);
  if (!place.status.ok()) return place.status;
  std::unique_ptr<COptions> given(new COptions(options, place.in_memory));
  char* error = nullptr;
  leveldb_t* inside = leveldb_open(given->options, place.folder.c_str(), &error);
  if (inside != nullptr) *dbptr = new OpenDB(inside, std::move(given));
  return place.StatusHere(error);
}

Status DestroyDB(const std::string& name, const Options& options) {
  const Place place(options, name);
  if (!place.status.ok()) return place.status;
  char* error = nullptr;
  leveldb_destroy_db(nullptr, place.folder.c_str(), &error);
  return place.StatusHere(error);
}

Status RepairDB(const std::string& dbname, const Options& options) {
  const Place place(options, dbname);
  if (!place.status.ok()) return place.status;
  const COptions given(options, place.in_memory);
  char* error = nullptr;
  leveldb_repair_db(given.options, place.folder.c_str(), &error);
  return place.StatusHere(error);
}

leveldb_t* HedgerowDB(DB* db) {
  OpenDB* open = dynamic_cast<OpenDB*>(db);
  return open != nullptr ? open->inside : nullptr;
}

}  // namespace leveldb
