// Iterator: what is to be done at its end; iterators over nothing.

#include "leveldb/iterator.h"

namespace leveldb {

Iterator::Iterator() : cleanup_head_{nullptr, nullptr, nullptr, nullptr} {}

Iterator::~Iterator() {
  if (cleanup_head_.function == nullptr) return;
  cleanup_head_.function(cleanup_head_.arg1, cleanup_head_.arg2);
  for (CleanupNode* node = cleanup_head_.next; node != nullptr;) {
    CleanupNode* next = node->next;
    node->function(node->arg1, node->arg2);
    delete node;
    node = next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  if (cleanup_head_.function == nullptr) {
    cleanup_head_ = CleanupNode{function, arg1, arg2, nullptr};
  } else {
    cleanup_head_.next = new CleanupNode{function, arg1, arg2, cleanup_head_.next};
  }
}

namespace {

class NothingIterator final : public Iterator {
 public:
  explicit NothingIterator(const Status& status) : status_(status) {}

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  Status status_;
};

}  // namespace

Iterator* NewEmptyIterator() { return new NothingIterator(Status::OK()); }

Iterator* NewErrorIterator(const Status& status) { return new NothingIterator(status); }

}  // namespace leveldb
