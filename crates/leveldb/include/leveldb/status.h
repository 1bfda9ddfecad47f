// What a call answers: that it worked, or why it did not.
#ifndef STORAGE_LEVELDB_INCLUDE_STATUS_H_
#define STORAGE_LEVELDB_INCLUDE_STATUS_H_

#include <string>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  Status() noexcept : state_(nullptr) {}
  ~Status() { delete[] state_; }

  Status(const Status& other) : state_(other.Copied()) {}
  Status& operator=(const Status& other) {
    if (state_ != other.state_) {
      delete[] state_;
      state_ = other.Copied();
    }
    return *this;
  }
  Status(Status&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Status& operator=(Status&& other) noexcept {
    const char* state = state_;
    state_ = other.state_;
    other.state_ = state;
    return *this;
  }

  static Status OK() { return Status(); }
  // The message, or two of them with ": " between them.
  static Status NotFound(const Slice& message, const Slice& more = Slice()) {
    return Status(kNotFound, message, more);
  }
  static Status Corruption(const Slice& message, const Slice& more = Slice()) {
    return Status(kCorruption, message, more);
  }
  static Status NotSupported(const Slice& message, const Slice& more = Slice()) {
    return Status(kNotSupported, message, more);
  }
  static Status InvalidArgument(const Slice& message, const Slice& more = Slice()) {
    return Status(kInvalidArgument, message, more);
  }
  static Status IOError(const Slice& message, const Slice& more = Slice()) {
    return Status(kIOError, message, more);
  }

  bool ok() const { return state_ == nullptr; }
  bool IsNotFound() const { return code() == kNotFound; }
  bool IsCorruption() const { return code() == kCorruption; }
  bool IsIOError() const { return code() == kIOError; }
  bool IsNotSupportedError() const { return code() == kNotSupported; }
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // For people: "OK", or the kind of error and the message.
  std::string ToString() const;

 private:
  enum Code {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5
  };

  Status(Code code, const Slice& message, const Slice& more);
  static const char* CopyState(const char* state);

  Code code() const { return state_ == nullptr ? kOk : static_cast<Code>(state_[4]); }
  const char* Copied() const { return state_ == nullptr ? nullptr : CopyState(state_); }

  // Null if all is well; else the message's length (four bytes), the code (one) and the message, in
  // memory of new[].
  const char* state_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_STATUS_H_
