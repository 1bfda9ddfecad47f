// Writes batches that carry a number, until it is killed, and prints each number once its batch was
// written; or repairs the database again and again, until it is killed; or checks what is there,
// and prints the number: every batch up to it must be there as a whole, and nothing of a later one.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

const int kKeys = 10;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

std::string Digits(long number) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%012ld", number);
  return digits;
}

// The number of the last batch that is there.
long Check(DB* db) {
  std::string number;
  const Status status = db->Get(ReadOptions(), "key 0", &number);
  if (status.IsNotFound()) number = "0";
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  int keys = 0;
  long last = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (iterator->key().starts_with("key ")) {
      keys++;
      if (iterator->value() != number) Fail("a part of a batch is there");
    } else if (iterator->key() != "log " + Digits(++last)) {
      Fail("an earlier batch is not there");
    }
  }
  if (!iterator->status().ok()) Fail(iterator->status().ToString());
  const long found = std::atol(number.c_str());
  if (last != found || (found > 0 && keys != kKeys)) Fail("some of a batch is there");
  return found;
}

[[noreturn]] void Write(DB* db) {
  for (long number = Check(db) + 1;; number++) {
    WriteBatch batch;
    for (int key = 0; key < kKeys; key++) {
      batch.Put("key " + std::to_string(key), std::to_string(number));
    }
    batch.Put("log " + Digits(number), std::string(static_cast<size_t>(number % 900), 'v'));
    WriteOptions options;
    options.sync = number % 50 == 0;
    const Status status = db->Write(options, &batch);
    if (!status.ok()) Fail(status.ToString());
    const std::string line = std::to_string(number) + "\n";
    if (write(1, line.data(), line.size()) < 0) std::exit(1);
  }
}

}  // namespace

int main(int, char** arguments) {
  Options options;
  options.create_if_missing = true;
  while (arguments[1] == std::string("repair")) {
    const Status status = RepairDB("db", options);
    if (!status.ok()) Fail(status.ToString());
  }
  DB* db = nullptr;
  const Status status = DB::Open(options, "db", &db);
  if (!status.ok()) Fail(status.ToString());
  if (arguments[1] == std::string("write")) Write(db);
  std::printf("%ld\n", Check(db));
  delete db;
  return 0;
}
