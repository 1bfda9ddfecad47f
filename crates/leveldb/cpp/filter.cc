// Bloom filters in LevelDB's encoding: the bits, and one byte with the number of probes. The probes
// are made of one hash by double hashing (Kirsch, Mitzenmacher: Less hashing, same performance,
// ESA 2006).

#include "leveldb/filter_policy.h"

#include <algorithm>
#include <cstdint>

#include "leveldb/slice.h"

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

namespace {

const int kProbesMax = 30;

// The hash of keys in LevelDB's filters.
uint32_t Hash(const Slice& key) {
  const uint32_t factor = 0xc6a4a793;
  const uint8_t* at = reinterpret_cast<const uint8_t*>(key.data());
  size_t left = key.size();
  uint32_t hash = 0xbc9f1d34 ^ (static_cast<uint32_t>(left) * factor);
  for (; left >= 4; left -= 4, at += 4) {
    const uint32_t word = at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24;
    hash = (hash + word) * factor;
    hash ^= hash >> 16;
  }
  for (size_t i = 0; i < left; i++) hash += static_cast<uint32_t>(at[i]) << (8 * i);
  if (left > 0) {
    hash *= factor;
    hash ^= hash >> 24;
  }
  return hash;
}

class Bloom final : public FilterPolicy {
 public:
  explicit Bloom(int bits_per_key)
      : bits_per_key_(static_cast<size_t>(std::max(bits_per_key, 0))),
        probes_(std::min(std::max(static_cast<int>(bits_per_key_ * 0.69), 1), kProbesMax)) {}

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }

  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    const size_t wanted = std::max<size_t>(static_cast<size_t>(n) * bits_per_key_, 64);
    const size_t bytes = (wanted + 7) / 8;
    const size_t begin = dst->size();
    dst->resize(begin + bytes);
    dst->push_back(static_cast<char>(probes_));
    for (int i = 0; i < n; i++) {
      uint32_t hash = Hash(keys[i]);
      const uint32_t step = (hash >> 17) | (hash << 15);
      for (int probe = 0; probe < probes_; probe++, hash += step) {
        const size_t bit = hash % (bytes * 8);
        (*dst)[begin + bit / 8] |= static_cast<char>(1 << (bit % 8));
      }
    }
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.size() < 2) return false;
    const size_t bits = (filter.size() - 1) * 8;
    const int probes = static_cast<uint8_t>(filter[filter.size() - 1]);
    // Left for other encodings.
    if (probes > kProbesMax) return true;
    uint32_t hash = Hash(key);
    const uint32_t step = (hash >> 17) | (hash << 15);
    for (int probe = 0; probe < probes; probe++, hash += step) {
      const size_t bit = hash % bits;
      if ((filter[bit / 8] & (1 << (bit % 8))) == 0) return false;
    }
    return true;
  }

 private:
  const size_t bits_per_key_;
  const int probes_;
};

}  // namespace

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) { return new Bloom(bits_per_key); }

}  // namespace leveldb
