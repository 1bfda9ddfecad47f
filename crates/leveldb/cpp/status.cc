// Status: the parts that are not in the header.

#include "leveldb/status.h"

#include <cstdint>
#include <cstdlib>

#include "inside.h"

namespace leveldb {

namespace {

// Length and code stand before the message.
const size_t kMessageOffset = 5;

uint32_t LengthOf(const char* state) {
  uint32_t length;
  std::memcpy(&length, state, sizeof length);
  return length;
}

}  // namespace

Status::Status(Code code, const Slice& message, const Slice& more) {
  const size_t second = more.empty() ? 0 : 2 + more.size();
  const uint32_t length = static_cast<uint32_t>(message.size() + second);
  char* state = new char[kMessageOffset + length];
  std::memcpy(state, &length, sizeof length);
  state[4] = static_cast<char>(code);
  char* at = state + kMessageOffset;
  if (!message.empty()) std::memcpy(at, message.data(), message.size());
  if (second != 0) {
    at += message.size();
    std::memcpy(at, ": ", 2);
    std::memcpy(at + 2, more.data(), more.size());
  }
  state_ = state;
}

const char* Status::CopyState(const char* state) {
  const size_t size = kMessageOffset + LengthOf(state);
  char* copy = new char[size];
  std::memcpy(copy, state, size);
  return copy;
}

std::string Status::ToString() const {
  if (state_ == nullptr) return "OK";
  static const char* const kinds[] = {
      "OK", "NotFound: ", "Corruption: ", "Not implemented: ", "Invalid argument: ", "IO error: "};
  const int kind = code();
  std::string text = kind >= 0 && kind <= kIOError
                         ? std::string(kinds[kind])
                         : "Unknown code(" + std::to_string(kind) + "): ";
  return text.append(state_ + kMessageOffset, LengthOf(state_));
}

Status StatusOf(char* error, bool is_freed) {
  if (error == nullptr) return Status::OK();
  const Slice text(error);
  Status status;
  const auto is = [&text](const char* front, Slice* message) {
    const Slice kind(front);
    if (!text.starts_with(kind)) return false;
    *message = Slice(text.data() + kind.size(), text.size() - kind.size());
    return true;
  };
  Slice message;
  if (is("NotFound: ", &message)) {
    status = Status::NotFound(message);
  } else if (is("Corruption: ", &message)) {
    status = Status::Corruption(message);
  } else if (is("Not implemented: ", &message)) {
    status = Status::NotSupported(message);
  } else if (is("Invalid argument: ", &message)) {
    status = Status::InvalidArgument(message);
  } else {
    status = Status::IOError(is("IO error: ", &message) ? message : text);
  }
  if (is_freed) leveldb_free(error);
  return status;
}

}  // namespace leveldb
