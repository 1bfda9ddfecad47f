// The system as LevelDB sees it: files, locks, threads, time.
#ifndef STORAGE_LEVELDB_INCLUDE_ENV_H_
#define STORAGE_LEVELDB_INCLUDE_ENV_H_

#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class Slice;
class WritableFile;

// Any thread may use it. A database can be opened with Env::Default(), with what NewMemEnv makes,
// and with wrappers over either of them; its own files do not go through the wrapper.
class LEVELDB_EXPORT Env {
 public:
  Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();

  // That of the system; not to be deleted.
  static Env* Default();

  // The caller deletes what these make; it is null after an error.
  virtual Status NewSequentialFile(const std::string& fname, SequentialFile** result) = 0;
  virtual Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) = 0;
  // An empty file, in place of one that is there.
  virtual Status NewWritableFile(const std::string& fname, WritableFile** result) = 0;
  // One that is written to at its end.
  virtual Status NewAppendableFile(const std::string& fname, WritableFile** result);
  virtual bool FileExists(const std::string& fname) = 0;
  // The names in a folder.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* result) = 0;
  // Each of these two calls the other one: an environment has one of them of its own.
  virtual Status RemoveFile(const std::string& fname);
  virtual Status DeleteFile(const std::string& fname);
  virtual Status CreateDir(const std::string& dirname) = 0;
  // As above.
  virtual Status RemoveDir(const std::string& dirname);
  virtual Status DeleteDir(const std::string& dirname);
  virtual Status GetFileSize(const std::string& fname, uint64_t* file_size) = 0;
  virtual Status RenameFile(const std::string& src, const std::string& target) = 0;
  // Does not wait: an error if it is locked. The file is made if it is not there.
  virtual Status LockFile(const std::string& fname, FileLock** lock) = 0;
  virtual Status UnlockFile(FileLock* lock) = 0;
  // Runs a function later, on a thread of the environment.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;
  // Runs a function on a new thread.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;
  // A folder for tests, which is there.
  virtual Status GetTestDirectory(std::string* path) = 0;
  // A log file, in place of one that is there.
  virtual Status NewLogger(const std::string& fname, Logger** result) = 0;
  // Differences of these are times.
  virtual uint64_t NowMicros() = 0;
  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file that is read from its beginning; one thread at a time.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  virtual ~SequentialFile();

  // Up to n bytes, which may stand in scratch; none at the end.
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;
  virtual Status Skip(uint64_t n) = 0;
};

// A file that is read anywhere, by any thread.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  virtual ~RandomAccessFile();

  // Up to n bytes, which may stand in scratch.
  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file that is written to at its end; one thread at a time.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile();

  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;
  // Hands everything to the system.
  virtual Status Flush() = 0;
  // Hands everything to stable storage.
  virtual Status Sync() = 0;
};

// Takes lines of any thread.
class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  virtual ~Logger();

  virtual void Logv(const char* format, std::va_list ap) = 0;
};

// A file that is locked.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  virtual ~FileLock();
};

// Writes a line to a log, unless that is null.
LEVELDB_EXPORT void Log(Logger* info_log, const char* format, ...)
#if defined(__GNUC__)
    __attribute__((__format__(__printf__, 2, 3)))
#endif
    ;

// Makes a file of some bytes.
LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname);

// The bytes of a file.
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& fname, std::string* data);

// Hands every call on to another environment; what inherits from it changes some of them.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  explicit EnvWrapper(Env* target) : target_(target) {}
  virtual ~EnvWrapper();

  // That other environment.
  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return target_->NewSequentialFile(f, r);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return target_->NewRandomAccessFile(f, r);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return target_->NewWritableFile(f, r);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override {
    return target_->NewAppendableFile(f, r);
  }
  bool FileExists(const std::string& f) override { return target_->FileExists(f); }
  Status GetChildren(const std::string& dir, std::vector<std::string>* r) override {
    return target_->GetChildren(dir, r);
  }
  Status RemoveFile(const std::string& f) override { return target_->RemoveFile(f); }
  Status CreateDir(const std::string& d) override { return target_->CreateDir(d); }
  Status RemoveDir(const std::string& d) override { return target_->RemoveDir(d); }
  Status GetFileSize(const std::string& f, uint64_t* s) override {
    return target_->GetFileSize(f, s);
  }
  Status RenameFile(const std::string& s, const std::string& t) override {
    return target_->RenameFile(s, t);
  }
  Status LockFile(const std::string& f, FileLock** l) override { return target_->LockFile(f, l); }
  Status UnlockFile(FileLock* l) override { return target_->UnlockFile(l); }
  void Schedule(void (*f)(void*), void* a) override { return target_->Schedule(f, a); }
  void StartThread(void (*f)(void*), void* a) override { return target_->StartThread(f, a); }
  Status GetTestDirectory(std::string* path) override { return target_->GetTestDirectory(path); }
  Status NewLogger(const std::string& fname, Logger** result) override {
    return target_->NewLogger(fname, result);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(micros); }

 private:
  Env* target_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_ENV_H_
