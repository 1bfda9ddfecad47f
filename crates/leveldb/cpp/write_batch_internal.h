// The bytes of a batch, for the class that writes them to a database.
#ifndef HEDGEROW_LEVELDB_WRITE_BATCH_INTERNAL_H_
#define HEDGEROW_LEVELDB_WRITE_BATCH_INTERNAL_H_

#include "leveldb/write_batch.h"

namespace leveldb {

class WriteBatchInternal {
 public:
  static const std::string& Bytes(const WriteBatch& batch) { return batch.rep_; }
};

}  // namespace leveldb

#endif  // HEDGEROW_LEVELDB_WRITE_BATCH_INTERNAL_H_
