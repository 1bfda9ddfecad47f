// Writes that are made together or not at all.
#ifndef STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
#define STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_

#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

// They are applied in the order in which they were added. Several threads may use a batch if only
// const methods are called.
class LEVELDB_EXPORT WriteBatch {
 public:
  // What is called for each operation of a batch.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  ~WriteBatch();

  void Put(const Slice& key, const Slice& value);
  // The key need not be there.
  void Delete(const Slice& key);
  void Clear();
  // How many bytes the batch has: exactly.
  size_t ApproximateSize() const;
  // Adds the operations of another batch.
  void Append(const WriteBatch& source);
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // 8 bytes of a sequence number, 4 of a count, and a record for each operation.
  std::string rep_;
};

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_WRITE_BATCH_H_
