// The environment in memory: that of the system, in a folder of a file system in memory which is
// removed with it. Where there is no such file system, it is the folder for temporary files.
//
// A folder of a process that was killed stays, until another one makes such an environment: a file
// in the folder is locked as long as it is in use, and folders without that lock are removed.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "inside.h"
#include "leveldb/env.h"
#include "leveldb/helpers/memenv.h"

namespace leveldb {

namespace {

const char kPrefix[] = "hedgerow-leveldb.";
const char kInUse[] = "/in-use";

// Where folders can be made.
std::string Home() {
  if (access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm/";
  const char* told = std::getenv("TMPDIR");
  return std::string(told != nullptr && *told != '\0' ? told : "/tmp") + "/";
}

// The lock of a folder; -1 if it cannot be had.
int TakeLock(const std::string& folder, int flags) {
  const int fd = open((folder + kInUse).c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Removes folders of processes that were killed.
void RemoveLeft(const std::string& home) {
  DIR* folders = opendir(home.c_str());
  if (folders == nullptr) return;
  while (const struct dirent* entry = readdir(folders)) {
    const std::string name = entry->d_name;
    if (name.compare(0, sizeof kPrefix - 1, kPrefix) != 0) continue;
    // One that is just being made has no such file yet.
    const int lock = TakeLock(home + name, 0);
    if (lock < 0) continue;
    RemoveAll(home + name);
    close(lock);
  }
  closedir(folders);
}

class MemEnv final : public EnvWrapper {
 public:
  explicit MemEnv(Env* base) : EnvWrapper(base) {
    const std::string home = Home();
    RemoveLeft(home);
    std::string folder = home + kPrefix + "XXXXXX";
    if (mkdtemp(&folder[0]) == nullptr) return;
    folder_ = folder;
    lock_ = TakeLock(folder_, O_CREAT);
  }

  ~MemEnv() override {
    // A child after a fork leaves it to its parent.
    if (!folder_.empty() && getpid() == process_) RemoveAll(folder_);
    if (lock_ >= 0) close(lock_);
  }

  // Where a file lies; the folders above it are there then.
  std::string At(const std::string& name) const {
    const std::string path = folder_ + "/files/" + name;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    return path;
  }

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return System()->NewSequentialFile(At(f), r);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return System()->NewRandomAccessFile(At(f), r);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return System()->NewWritableFile(At(f), r);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override {
    return System()->NewAppendableFile(At(f), r);
  }
  bool FileExists(const std::string& f) override { return System()->FileExists(At(f)); }

  Status GetChildren(const std::string& dir, std::vector<std::string>* r) override {
    std::vector<std::string> all;
    r->clear();
    // A folder without files need not be there.
    if (!System()->GetChildren(At(dir), &all).ok()) return Status::OK();
    for (std::string& name : all) {
      if (name != "." && name != "..") r->push_back(std::move(name));
    }
    return Status::OK();
  }

  Status RemoveFile(const std::string& f) override { return System()->RemoveFile(At(f)); }

  // Folders come and go with their files.
  Status CreateDir(const std::string& d) override {
    System()->CreateDir(At(d));
    return Status::OK();
  }
  Status RemoveDir(const std::string& d) override {
    System()->RemoveDir(At(d));
    return Status::OK();
  }

  Status GetFileSize(const std::string& f, uint64_t* s) override {
    return System()->GetFileSize(At(f), s);
  }
  Status RenameFile(const std::string& s, const std::string& t) override {
    return System()->RenameFile(At(s), At(t));
  }
  Status LockFile(const std::string& f, FileLock** l) override {
    return System()->LockFile(At(f), l);
  }
  Status UnlockFile(FileLock* l) override { return System()->UnlockFile(l); }
  Status GetTestDirectory(std::string* path) override {
    *path = "/test";
    return Status::OK();
  }
  Status NewLogger(const std::string& f, Logger** r) override {
    return System()->NewLogger(At(f), r);
  }

 private:
  static Env* System() { return Env::Default(); }

  // "" if it could not be made: then nothing can be opened.
  std::string folder_;
  int lock_ = -1;
  const pid_t process_ = getpid();
};

}  // namespace

void RemoveAll(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

Env* NewMemEnv(Env* base_env) { return new MemEnv(base_env); }

Env* Underlying(Env* env) {
  while (env != Env::Default() && dynamic_cast<MemEnv*>(env) == nullptr) {
    const EnvWrapper* wrapper = dynamic_cast<EnvWrapper*>(env);
    if (wrapper == nullptr) return nullptr;
    env = wrapper->target();
  }
  return env;
}

std::string InMemory(Env* env, const std::string& name) {
  const MemEnv* memory = dynamic_cast<MemEnv*>(env);
  return memory != nullptr ? memory->At(name) : std::string();
}

}  // namespace leveldb
