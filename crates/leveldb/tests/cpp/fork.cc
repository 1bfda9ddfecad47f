// A program that forks while a database is open: a child that gives back all that it inherited, and
// ends as programs do, changes nothing; the parent goes on, closes and opens again while another
// child lives. It runs in an empty folder, on the engine that its environment names.

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/hedgerow.h"
#include "leveldb/helpers/memenv.h"

using namespace leveldb;

namespace {

const int kKeys = 3000;
// A child that takes longer hangs.
const int kSeconds = 60;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::printf("it does not hold that %s\n", what);
  std::fflush(stdout);
  _exit(1);
}

#define CHECK(condition) Check((condition), #condition)

// The files of a folder, and those below it, with their lengths.
void List(const std::string& folder, std::vector<std::pair<std::string, off_t>>* files) {
  DIR* names = opendir(folder.c_str());
  CHECK(names != nullptr);
  while (const struct dirent* entry = readdir(names)) {
    // A compaction that fails says so in the log.
    if (entry->d_name[0] == '.' || std::strcmp(entry->d_name, "LOG") == 0) continue;
    const std::string path = folder + "/" + entry->d_name;
    struct stat found;
    if (stat(path.c_str(), &found) != 0) continue;
    if (S_ISDIR(found.st_mode)) {
      List(path, files);
    } else {
      files->emplace_back(path, found.st_size);
    }
  }
  closedir(names);
}

std::vector<std::pair<std::string, off_t>> Files(const std::string& folder) {
  std::vector<std::pair<std::string, off_t>> files;
  List(folder, &files);
  std::sort(files.begin(), files.end());
  return files;
}

// The same once nothing changes by itself any more.
std::vector<std::pair<std::string, off_t>> Quiet(const std::string& folder) {
  for (;;) {
    const auto files = Files(folder);
    usleep(300000);
    if (files == Files(folder)) return files;
  }
}

std::string Key(int number) {
  char key[16];
  std::snprintf(key, sizeof key, "%08d", number);
  return key;
}

void Put(DB* db, int from, int to, const std::string& value) {
  for (int i = from; i < to; i++) CHECK(db->Put(WriteOptions(), Key(i), value + Key(i)).ok());
}

int Count(Iterator* iterator, const std::string& value) {
  int count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    CHECK(iterator->value().ToString() == value + iterator->key().ToString());
    count++;
  }
  CHECK(iterator->status().ok());
  return count;
}

DB* Open(Env* env) {
  Options options;
  options.create_if_missing = true;
  options.env = env;
  options.write_buffer_size = 64 << 10;
  DB* db = nullptr;
  const Status status = DB::Open(options, "db", &db);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  CHECK(status.ok());
  return db;
}

// What a program has of a database.
struct Held {
  DB* db;
  const Snapshot* snapshot;
  Iterator* old;
  Iterator* iterator;

  explicit Held(DB* db) : db(db) {
    Put(db, 0, kKeys, "old");
    snapshot = db->GetSnapshot();
    old = db->NewIterator(ReadOptions());
    old->SeekToFirst();
    CHECK(old->Valid());
    Put(db, 0, kKeys, "new");
    // What the iterator and the snapshot see is in files that nothing else needs.
    db->CompactRange(nullptr, nullptr);
    iterator = db->NewIterator(ReadOptions());
    CHECK(Count(iterator, "new") == kKeys);
  }

  void GiveBack() {
    delete iterator;
    delete old;
    db->ReleaseSnapshot(snapshot);
    delete db;
  }
};

// What a child may do with what it inherited.
void UseInChild(const Held& held, bool is_tree) {
  DB* db = held.db;
  std::string value;
  const Status read = db->Get(ReadOptions(), Key(7), &value);
  CHECK(is_tree ? read.IsIOError() : read.ok() && value == "new" + Key(7));
  const std::unique_ptr<Iterator> made(db->NewIterator(ReadOptions()));
  if (is_tree) {
    made->SeekToFirst();
    CHECK(!made->Valid() && made->status().IsIOError());
  } else {
    CHECK(Count(made.get(), "new") == kKeys);
    CHECK(Count(held.old, "old") == kKeys);
  }
  WriteOptions sync;
  sync.sync = true;
  for (const WriteOptions& options : {WriteOptions(), sync}) {
    const Status refused = db->Put(options, "child", "value");
    CHECK(refused.IsIOError());
    CHECK(refused.ToString().find("fork") != std::string::npos);
    CHECK(db->Delete(options, Key(7)).IsIOError());
  }
  db->CompactRange(nullptr, nullptr);
  // Another one of this name is the parent's.
  DB* other = nullptr;
  CHECK(DB::Open(Options(), "db", &other).IsIOError() && other == nullptr);
}

// Waits for a child, which must end well.
void Wait(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) std::printf("the child ended by signal %d\n", WTERMSIG(status));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A child that sleeps as long as its parent lives, or until that one lets it go.
struct Sleeper {
  int ends[2];
  pid_t child;

  Sleeper() {
    CHECK(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
      char byte;
      close(ends[1]);
      _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
  }

  void LetGo() {
    close(ends[1]);
    Wait(child);
  }
};

void Forks(bool is_tree) {
  Held held(Open(Env::Default()));
  Sleeper sleeper;
  const auto before = Quiet("db");
  for (int use = 0; use < 2; use++) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      // A child that hangs ends by a signal.
      alarm(kSeconds);
      if (use == 1) UseInChild(held, is_tree);
      held.GiveBack();
      std::exit(0);
    }
    Wait(child);
    CHECK(Files("db") == before);
  }
  // The parent has lost nothing.
  CHECK(Count(held.old, "old") == kKeys);
  CHECK(Count(held.iterator, "new") == kKeys);
  std::string value;
  ReadOptions then;
  then.snapshot = held.snapshot;
  CHECK(held.db->Get(then, Key(1), &value).ok() && value == "old" + Key(1));
  Put(held.db, kKeys, 2 * kKeys, "new");
  DB* other = nullptr;
  CHECK(DB::Open(Options(), "db", &other).IsIOError() && other == nullptr);
  held.GiveBack();
  // The first child lives and has inherited everything.
  for (int round = 0; round < 2; round++) {
    DB* db = Open(Env::Default());
    std::unique_ptr<Iterator> all(db->NewIterator(ReadOptions()));
    CHECK(Count(all.get(), "new") == 2 * kKeys);
    all.reset();
    CHECK(db->Get(ReadOptions(), "child", &value).IsNotFound());
    char* error = nullptr;
    hedgerow_leveldb_check(HedgerowDB(db), &error);
    CHECK(error == nullptr);
    delete db;
  }
  sleeper.LetGo();
}

// A child that was made before anything was written, so that there are few threads, and one that
// opens the database itself once its parent has closed it.
void Handover() {
  DB* db = Open(Env::Default());
  pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    delete db;
    std::exit(0);
  }
  Wait(child);
  int ready[2];
  CHECK(pipe(ready) == 0);
  child = fork();
  if (child == 0) {
    alarm(kSeconds);
    char byte;
    delete db;
    CHECK(read(ready[0], &byte, 1) == 1);
    DB* own = Open(Env::Default());
    CHECK(own->Put(WriteOptions(), "child", "its own").ok());
    delete own;
    std::exit(0);
  }
  CHECK(db->Put(WriteOptions(), "parent", "value").ok());
  delete db;
  CHECK(write(ready[1], "x", 1) == 1);
  Wait(child);
  db = Open(Env::Default());
  std::string value;
  CHECK(db->Get(ReadOptions(), "child", &value).ok() && value == "its own");
  CHECK(db->Get(ReadOptions(), "parent", &value).ok() && value == "value");
  delete db;
}

// A child that gives an environment in memory back leaves it to its parent.
void InMemory() {
  std::unique_ptr<Env> env(NewMemEnv(Env::Default()));
  std::unique_ptr<DB> db(Open(env.get()));
  CHECK(db->Put(WriteOptions(), "key", "value").ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    db.reset();
    env.reset();
    std::exit(0);
  }
  Wait(child);
  db.reset();
  db.reset(Open(env.get()));
  std::string value;
  CHECK(db->Get(ReadOptions(), "key", &value).ok() && value == "value");
}

}  // namespace

int main() {
  const char* engine = std::getenv("HEDGEROW_LEVELDB_ENGINE");
  Forks(engine != nullptr && std::strcmp(engine, "tree") == 0);
  Handover();
  InMemory();
  std::printf("done\n");
  return 0;
}
