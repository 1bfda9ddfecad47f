// Threads that write, read and iterate at once. A writer puts the same number under several keys in
// one batch: a reader must see one number under all of them, in a snapshot and by an iterator.

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "leveldb/db.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

namespace {

const int kWriters = 3;
const int kKeys = 20;
const int kCommits = 300;

std::atomic<bool> has_failed{false};
std::atomic<int> writing{kWriters};

void Fail(const std::string& what) {
  if (!has_failed.exchange(true)) std::puts(what.c_str());
}

std::string Key(int writer, int key) {
  return std::to_string(writer) + "/" + std::to_string(100 + key);
}

void Write(DB* db, int writer) {
  for (int commit = 0; commit < kCommits; commit++) {
    WriteBatch batch;
    for (int key = 0; key < kKeys; key++) batch.Put(Key(writer, key), std::to_string(commit));
    WriteOptions options;
    options.sync = commit % 50 == 0;
    const Status status = db->Write(options, &batch);
    if (!status.ok()) Fail(status.ToString());
  }
  writing--;
}

void Read(DB* db, int writer) {
  while (writing > 0 && !has_failed) {
    ReadOptions then;
    then.snapshot = db->GetSnapshot();
    std::unique_ptr<Iterator> iterator(db->NewIterator(writer % 2 == 0 ? then : ReadOptions()));
    std::string first;
    int found = 0;
    for (iterator->Seek(Key(writer, 0)); iterator->Valid(); iterator->Next()) {
      if (!iterator->key().starts_with(std::to_string(writer) + "/")) break;
      if (found++ == 0) first = iterator->value().ToString();
      if (iterator->value() != first) Fail("an iterator sees half a batch");
    }
    if (found != 0 && found != kKeys) Fail("an iterator sees some keys of a batch");
    std::string value, other;
    const Status status = db->Get(then, Key(writer, 3), &value);
    if (status.ok()) {
      db->Get(then, Key(writer, kKeys - 1), &other);
      if (value != other) Fail("a snapshot changes");
    }
    iterator.reset();
    db->ReleaseSnapshot(then.snapshot);
  }
}

}  // namespace

int main() {
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  if (!DB::Open(options, "db", &db).ok()) return 1;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; writer++) {
    threads.emplace_back(Write, db, writer);
    threads.emplace_back(Read, db, writer);
  }
  for (std::thread& thread : threads) thread.join();
  std::string value;
  for (int writer = 0; writer < kWriters; writer++) {
    db->Get(ReadOptions(), Key(writer, 0), &value);
    if (value != std::to_string(kCommits - 1)) Fail("a commit is lost");
  }
  delete db;
  return has_failed;
}
