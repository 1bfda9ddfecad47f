// Filters, which say whether a key may be among others. The engines of this library have their own
// and do not ask these.
#ifndef STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
#define STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  virtual const char* Name() const = 0;
  // Appends a filter of n keys to *dst.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;
  // True if the key is one of those of which the filter was made; mostly false for others.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// A Bloom filter with so many bits for each key; the caller deletes it.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_FILTER_POLICY_H_
