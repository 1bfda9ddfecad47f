// Bytewise order.

#include "leveldb/comparator.h"

#include <algorithm>
#include <cstdint>

#include "leveldb/slice.h"

namespace leveldb {

Comparator::~Comparator() = default;

namespace {

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  // The first byte that differs is raised by one, if that stays before the limit.
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    const size_t both = std::min(start->size(), limit.size());
    size_t same = 0;
    while (same < both && (*start)[same] == limit[same]) same++;
    if (same == both) return;
    const uint8_t byte = static_cast<uint8_t>((*start)[same]);
    if (byte < 0xff && byte + 1 < static_cast<uint8_t>(limit[same])) {
      (*start)[same] = static_cast<char>(byte + 1);
      start->resize(same + 1);
    }
  }

  // The first byte that can be raised is.
  void FindShortSuccessor(std::string* key) const override {
    for (size_t i = 0; i < key->size(); i++) {
      const uint8_t byte = static_cast<uint8_t>((*key)[i]);
      if (byte == 0xff) continue;
      (*key)[i] = static_cast<char>(byte + 1);
      key->resize(i + 1);
      return;
    }
  }
};

}  // namespace

const Comparator* BytewiseComparator() {
  // Never destroyed: databases may be open at the end of the program.
  static const Comparator* const bytewise = new Bytewise;
  return bytewise;
}

}  // namespace leveldb
