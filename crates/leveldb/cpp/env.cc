// Env: what all environments have in common.

#include "leveldb/env.h"

#include <cerrno>

#include "inside.h"

namespace leveldb {

Env::Env() = default;

Env::~Env() = default;

Status Env::NewAppendableFile(const std::string& fname, WritableFile**) {
  return Status::NotSupported("NewAppendableFile", fname);
}

Status Env::RemoveFile(const std::string& fname) { return DeleteFile(fname); }

Status Env::DeleteFile(const std::string& fname) { return RemoveFile(fname); }

Status Env::RemoveDir(const std::string& dirname) { return DeleteDir(dirname); }

Status Env::DeleteDir(const std::string& dirname) { return RemoveDir(dirname); }

SequentialFile::~SequentialFile() = default;

RandomAccessFile::~RandomAccessFile() = default;

WritableFile::~WritableFile() = default;

Logger::~Logger() = default;

FileLock::~FileLock() = default;

EnvWrapper::~EnvWrapper() = default;

void Log(Logger* info_log, const char* format, ...) {
  if (info_log == nullptr) return;
  std::va_list arguments;
  va_start(arguments, format);
  info_log->Logv(format, arguments);
  va_end(arguments);
}

Status SystemError(const std::string& context, int error) {
  const char* reason = std::strerror(error);
  return error == ENOENT ? Status::NotFound(context, reason) : Status::IOError(context, reason);
}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname) {
  WritableFile* file;
  Status status = env->NewWritableFile(fname, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(fname);
  return status;
}

Status ReadFileToString(Env* env, const std::string& fname, std::string* data) {
  data->clear();
  SequentialFile* file;
  Status status = env->NewSequentialFile(fname, &file);
  if (!status.ok()) return status;
  std::string scratch(8192, '\0');
  Slice part;
  do {
    status = file->Read(scratch.size(), &part, &scratch[0]);
    if (status.ok()) data->append(part.data(), part.size());
  } while (status.ok() && !part.empty());
  delete file;
  return status;
}

}  // namespace leveldb
