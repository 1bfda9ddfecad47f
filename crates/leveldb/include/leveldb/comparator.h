// Orders of keys.
#ifndef STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
#define STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// Any thread may call it at any time.
class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Less than, equal to or greater than 0, as a comes before, is equal to or comes after b.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;
  // A database can only be opened with a comparator of the name that it was made with. Names that
  // begin with "leveldb." are the library's.
  virtual const char* Name() const = 0;
  // May make *start a shorter string that comes before limit and not before *start.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;
  // May make *key a shorter string that does not come before *key.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Bytewise order; not to be deleted.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_COMPARATOR_H_
