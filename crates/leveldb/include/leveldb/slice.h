// A string of bytes that somebody else keeps: an address and a length.
#ifndef STORAGE_LEVELDB_INCLUDE_SLICE_H_
#define STORAGE_LEVELDB_INCLUDE_SLICE_H_

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

// It does not own its bytes: they have to stay as long as it is used. Bytes may be zero.
class LEVELDB_EXPORT Slice {
 public:
  Slice() : data_(""), size_(0) {}
  Slice(const char* data, size_t size) : data_(data), size_(size) {}
  Slice(const std::string& string) : data_(string.data()), size_(string.size()) {}
  // Up to the first zero.
  Slice(const char* text) : data_(text), size_(std::strlen(text)) {}
  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  char operator[](size_t index) const {
    assert(index < size_);
    return data_[index];
  }

  void clear() { *this = Slice(); }

  void remove_prefix(size_t count) {
    assert(count <= size_);
    data_ += count;
    size_ -= count;
  }

  std::string ToString() const { return std::string(data_, size_); }

  // Less than, equal to or greater than 0, as this one comes before, is equal to or comes after the
  // other one in bytewise order.
  int compare(const Slice& other) const {
    const size_t both = size_ < other.size_ ? size_ : other.size_;
    const int order = both == 0 ? 0 : std::memcmp(data_, other.data_, both);
    if (order != 0) return order;
    return size_ == other.size_ ? 0 : size_ < other.size_ ? -1 : 1;
  }

  bool starts_with(const Slice& front) const {
    return size_ >= front.size_ && std::memcmp(data_, front.data_, front.size_) == 0;
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& a, const Slice& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

inline bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_SLICE_H_
