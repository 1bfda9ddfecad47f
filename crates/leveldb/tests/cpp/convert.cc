// Makes a database, reads one, or holds one open: for convert.sh.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

uint64_t seed = 7;

uint64_t Next() {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 20;
}

DB* Open(const char* name, bool make, int compression) {
  Options options;
  options.create_if_missing = make;
  options.compression = static_cast<CompressionType>(compression);
  DB* db = nullptr;
  const Status status = DB::Open(options, name, &db);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
  return db;
}

// Random puts and deletions, so that all levels and the log have something, and the empty key.
void Make(const char* name, long entries, int compression) {
  std::unique_ptr<DB> db(Open(name, true, compression));
  WriteBatch batch;
  for (long n = 0; n < entries; n++) {
    const uint64_t key = Next() % static_cast<uint64_t>(entries);
    const std::string text(reinterpret_cast<const char*>(&key), 1 + key % 8);
    if (Next() % 8 == 0) {
      batch.Delete(text);
    } else {
      const std::string part = std::to_string(Next());
      std::string value;
      for (uint64_t i = Next() % 20; i > 0; i--) value += part;
      if (n % 1000 == 0) value.assign(20000, 'v');
      batch.Put(text, value);
    }
    if (n % 100 == 0) {
      db->Write(WriteOptions(), &batch);
      batch.Clear();
    }
  }
  batch.Put("", "of the empty key");
  db->Write(WriteOptions(), &batch);
}

// The number of entries, and a sum over them in their order.
void Read(const char* name) {
  std::unique_ptr<DB> db(Open(name, false, 0));
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  uint64_t sum = 14695981039346656037u;
  long count = 0;
  const auto add = [&sum](const Slice& bytes) {
    sum = (sum ^ bytes.size()) * 1099511628211u;
    for (size_t i = 0; i < bytes.size(); i++) {
      sum = (sum ^ static_cast<uint8_t>(bytes[i])) * 1099511628211u;
    }
  };
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), count++) {
    add(iterator->key());
    add(iterator->value());
  }
  if (!iterator->status().ok()) std::exit(1);
  std::printf("%ld %016lx\n", count, static_cast<unsigned long>(sum));
}

}  // namespace

int main(int, char** arguments) {
  const std::string what = arguments[1];
  if (what == "make") {
    Make(arguments[2], std::atol(arguments[3]), std::atoi(arguments[4]));
  } else if (what == "read") {
    Read(arguments[2]);
  } else {
    std::unique_ptr<DB> db(Open(arguments[2], false, 0));
    std::puts("held");
    std::fflush(stdout);
    sleep(60);
  }
  return 0;
}
