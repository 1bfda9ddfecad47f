// The environment of the system: files, locks, threads and time of POSIX.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <queue>
#include <thread>

#include "inside.h"
#include "leveldb/env.h"

namespace leveldb {

namespace {

const size_t kBufferSize = 64 * 1024;

// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  int get() const { return fd_; }

  int Close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 ? 0 : close(fd);
  }

 private:
  int fd_;
};

class SystemSequentialFile final : public SequentialFile {
 public:
  SystemSequentialFile(const std::string& name, int fd) : name_(name), fd_(fd) {}

  Status Read(size_t n, Slice* result, char* scratch) override {
    ssize_t got;
    do {
      got = read(fd_.get(), scratch, n);
    } while (got < 0 && errno == EINTR);
    *result = Slice(scratch, got < 0 ? 0 : static_cast<size_t>(got));
    return got < 0 ? SystemError(name_, errno) : Status::OK();
  }

  Status Skip(uint64_t n) override {
    const bool moved = lseek(fd_.get(), static_cast<off_t>(n), SEEK_CUR) >= 0;
    return moved ? Status::OK() : SystemError(name_, errno);
  }

 private:
  const std::string name_;
  Descriptor fd_;
};

class SystemRandomAccessFile final : public RandomAccessFile {
 public:
  SystemRandomAccessFile(const std::string& name, int fd) : name_(name), fd_(fd) {}

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    const ssize_t got = pread(fd_.get(), scratch, n, static_cast<off_t>(offset));
    *result = Slice(scratch, got < 0 ? 0 : static_cast<size_t>(got));
    if (got < 0) return SystemError(name_, errno);
    return got == 0 && n > 0 && IsBeyond(offset) ? SystemError(name_, EINVAL) : Status::OK();
  }

 private:
  // Whether a place lies beyond the end of the file, where LevelDB reads nothing.
  bool IsBeyond(uint64_t offset) const {
    struct stat status;
    return fstat(fd_.get(), &status) == 0 && offset > static_cast<uint64_t>(status.st_size);
  }

  const std::string name_;
  Descriptor fd_;
};

class SystemWritableFile final : public WritableFile {
 public:
  SystemWritableFile(const std::string& name, int fd) : name_(name), fd_(fd) {}
  ~SystemWritableFile() override { Close(); }

  Status Append(const Slice& data) override {
    if (buffer_.size() + data.size() <= kBufferSize) {
      buffer_.append(data.data(), data.size());
      return Status::OK();
    }
    Status status = Flush();
    if (!status.ok()) return status;
    return WriteOut(data);
  }

  Status Close() override {
    if (fd_.get() < 0) return Status::OK();
    Status status = Flush();
    if (fd_.Close() < 0 && status.ok()) status = SystemError(name_, errno);
    return status;
  }

  Status Flush() override {
    Status status = WriteOut(Slice(buffer_));
    buffer_.clear();
    return status;
  }

  Status Sync() override {
    Status status = Flush();
    if (status.ok() && fdatasync(fd_.get()) != 0) status = SystemError(name_, errno);
    return status;
  }

 private:
  Status WriteOut(Slice left) {
    while (!left.empty()) {
      const ssize_t written = write(fd_.get(), left.data(), left.size());
      if (written < 0 && errno != EINTR) return SystemError(name_, errno);
      if (written > 0) left.remove_prefix(static_cast<size_t>(written));
    }
    return Status::OK();
  }

  const std::string name_;
  Descriptor fd_;
  std::string buffer_;
};

class SystemLogger final : public Logger {
 public:
  explicit SystemLogger(std::FILE* file) : file_(file) {}
  ~SystemLogger() override { std::fclose(file_); }

  void Logv(const char* format, std::va_list ap) override {
    struct timeval now;
    gettimeofday(&now, nullptr);
    const std::time_t seconds = now.tv_sec;
    struct tm parts;
    localtime_r(&seconds, &parts);
    char stamp[64];
    const size_t length = std::strftime(stamp, sizeof stamp, "%Y/%m/%d-%H:%M:%S", &parts);
    std::lock_guard<std::mutex> lock(mutex_);
    std::fprintf(file_, "%.*s.%06d ", static_cast<int>(length), stamp,
                 static_cast<int>(now.tv_usec));
    std::vfprintf(file_, format, ap);
    std::fputc('\n', file_);
    std::fflush(file_);
  }

 private:
  std::mutex mutex_;
  std::FILE* const file_;
};

class SystemLock final : public FileLock {
 public:
  explicit SystemLock(FileLockInside* inside) : inside_(inside) {}
  ~SystemLock() override { inside_unlock(inside_); }

 private:
  FileLockInside* const inside_;
};

class SystemEnv final : public Env {
 public:
  Status NewSequentialFile(const std::string& fname, SequentialFile** result) override {
    return Opened(fname, O_RDONLY, result, [&](int fd) -> SequentialFile* {
      return new SystemSequentialFile(fname, fd);
    });
  }

  Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) override {
    return Opened(fname, O_RDONLY, result, [&](int fd) -> RandomAccessFile* {
      return new SystemRandomAccessFile(fname, fd);
    });
  }

  Status NewWritableFile(const std::string& fname, WritableFile** result) override {
    return Opened(fname, O_WRONLY | O_CREAT | O_TRUNC, result, [&](int fd) -> WritableFile* {
      return new SystemWritableFile(fname, fd);
    });
  }

  Status NewAppendableFile(const std::string& fname, WritableFile** result) override {
    return Opened(fname, O_WRONLY | O_CREAT | O_APPEND, result, [&](int fd) -> WritableFile* {
      return new SystemWritableFile(fname, fd);
    });
  }

  bool FileExists(const std::string& fname) override { return access(fname.c_str(), F_OK) == 0; }

  Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    result->clear();
    DIR* folder = opendir(dir.c_str());
    if (folder == nullptr) return SystemError(dir, errno);
    while (const struct dirent* entry = readdir(folder)) result->emplace_back(entry->d_name);
    closedir(folder);
    return Status::OK();
  }

  Status RemoveFile(const std::string& fname) override {
    return Answer(fname, unlink(fname.c_str()));
  }

  Status CreateDir(const std::string& dirname) override {
    return Answer(dirname, mkdir(dirname.c_str(), 0755));
  }

  Status RemoveDir(const std::string& dirname) override {
    return Answer(dirname, rmdir(dirname.c_str()));
  }

  Status GetFileSize(const std::string& fname, uint64_t* file_size) override {
    struct stat found;
    const int failed = stat(fname.c_str(), &found);
    *file_size = failed != 0 ? 0 : static_cast<uint64_t>(found.st_size);
    return Answer(fname, failed);
  }

  Status RenameFile(const std::string& src, const std::string& target) override {
    return Answer(src, std::rename(src.c_str(), target.c_str()));
  }

  Status LockFile(const std::string& fname, FileLock** lock) override {
    char* error = nullptr;
    FileLockInside* inside = inside_lock(fname.c_str(), &error);
    *lock = inside != nullptr ? new SystemLock(inside) : nullptr;
    return StatusOf(error);
  }

  Status UnlockFile(FileLock* lock) override {
    delete lock;
    return Status::OK();
  }

  void Schedule(void (*function)(void*), void* arg) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!has_thread_) {
      has_thread_ = true;
      std::thread([this] { RunScheduled(); }).detach();
    }
    work_.emplace(function, arg);
    arrived_.notify_one();
  }

  void StartThread(void (*function)(void*), void* arg) override {
    std::thread(function, arg).detach();
  }

  Status GetTestDirectory(std::string* path) override {
    char* name = leveldb_env_get_test_directory(nullptr);
    path->assign(name != nullptr ? name : "");
    leveldb_free(name);
    return Status::OK();
  }

  Status NewLogger(const std::string& fname, Logger** result) override {
    std::FILE* file = std::fopen(fname.c_str(), "we");
    *result = file != nullptr ? new SystemLogger(file) : nullptr;
    return file != nullptr ? Status::OK() : SystemError(fname, errno);
  }

  uint64_t NowMicros() override {
    struct timeval now;
    gettimeofday(&now, nullptr);
    return static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_usec);
  }

  void SleepForMicroseconds(int micros) override {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }

 private:
  static Status Answer(const std::string& name, int failed) {
    return failed == 0 ? Status::OK() : SystemError(name, errno);
  }

  template <typename File, typename Make>
  static Status Opened(const std::string& name, int flags, File** result, Make make) {
    const int fd = open(name.c_str(), flags | O_CLOEXEC, 0644);
    *result = fd < 0 ? nullptr : make(fd);
    return fd < 0 ? SystemError(name, errno) : Status::OK();
  }

  [[noreturn]] void RunScheduled() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      arrived_.wait(lock, [this] { return !work_.empty(); });
      const std::pair<void (*)(void*), void*> next = work_.front();
      work_.pop();
      lock.unlock();
      next.first(next.second);
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool has_thread_ = false;
  std::queue<std::pair<void (*)(void*), void*>> work_;
};

}  // namespace

Env* Env::Default() {
  // Never destroyed: threads may use it at the end of the program.
  static Env* const system = new SystemEnv;
  return system;
}

}  // namespace leveldb
