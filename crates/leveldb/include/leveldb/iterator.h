// A way through the entries of one state of a database.
#ifndef STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
#define STORAGE_LEVELDB_INCLUDE_ITERATOR_H_

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

// Several threads may use one if only const methods are called.
class LEVELDB_EXPORT Iterator {
 public:
  Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator();

  // Whether it stands at an entry.
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first entry at or after a key.
  virtual void Seek(const Slice& target) = 0;
  // Only while it is valid.
  virtual void Next() = 0;
  virtual void Prev() = 0;
  // These stand where they are until the iterator moves. Only while it is valid.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;
  // The error that it met, if it met one.
  virtual Status status() const = 0;

  using CleanupFunction = void (*)(void* arg1, void* arg2);
  // Has a function called when the iterator is destroyed.
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  struct CleanupNode {
    CleanupFunction function;
    void* arg1;
    void* arg2;
    CleanupNode* next;
  };
  CleanupNode cleanup_head_;
};

LEVELDB_EXPORT Iterator* NewEmptyIterator();
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb

#endif  // STORAGE_LEVELDB_INCLUDE_ITERATOR_H_
