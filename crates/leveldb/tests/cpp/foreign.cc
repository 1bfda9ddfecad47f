// Makes a database, uses one that another library has made, or reads one.

#include <cstdio>
#include <string>

#include "leveldb/db.h"

using namespace leveldb;

int main(int, char** arguments) {
  const std::string what = arguments[1];
  Options options;
  options.create_if_missing = true;
  DB* db = nullptr;
  if (what == "use") {
    std::puts(DB::Open(options, "db", &db).ToString().c_str());
    std::puts(RepairDB("db", options).ToString().c_str());
    std::puts(DestroyDB("db", options).ToString().c_str());
    return db != nullptr;
  }
  if (!DB::Open(options, "db", &db).ok()) return 1;
  std::string value;
  Status status = what == "make" ? db->Put(WriteOptions(), "key", "value")
                                 : db->Get(ReadOptions(), "key", &value);
  if (what == "read") std::puts(value.c_str());
  delete db;
  return !status.ok();
}
