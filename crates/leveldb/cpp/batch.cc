// WriteBatch: filling it. Its bytes are described and read in src/batch.rs.

#include <cstdint>
#include <exception>

#include "inside.h"
#include "leveldb/slice.h"
#include "leveldb/write_batch.h"
#include "write_batch_internal.h"

namespace leveldb {

namespace {

const size_t kCountOffset = 8;
const size_t kRecordsOffset = 12;

uint32_t CountOf(const std::string& bytes) {
  uint32_t count = 0;
  for (size_t i = 0; i < 4; i++) {
    count |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[kCountOffset + i])) << (8 * i);
  }
  return count;
}

void SetCount(std::string* bytes, uint32_t count) {
  for (size_t i = 0; i < 4; i++) {
    (*bytes)[kCountOffset + i] = static_cast<char>(count >> (8 * i));
  }
}

void AddString(std::string* bytes, const Slice& string) {
  uint32_t left = static_cast<uint32_t>(string.size());
  for (; left >= 0x80; left >>= 7) bytes->push_back(static_cast<char>(left | 0x80));
  bytes->push_back(static_cast<char>(left));
  bytes->append(string.data(), string.size());
}

// A handler that is told of operations, and what it threw: no exception may pass through the code
// that reads the batch, so that it goes on to the caller once that has ended.
struct Told {
  WriteBatch::Handler* handler;
  std::exception_ptr thrown;
};

template <typename Tell>
void TellUnlessItThrew(void* state, Tell tell) {
  Told* told = static_cast<Told*>(state);
  if (told->thrown != nullptr) return;
  try {
    tell(told->handler);
  } catch (...) {
    told->thrown = std::current_exception();
  }
}

void PutTo(void* told, const char* key, size_t keylen, const char* value, size_t vallen) {
  TellUnlessItThrew(told, [&](WriteBatch::Handler* handler) {
    handler->Put(Slice(key, keylen), Slice(value, vallen));
  });
}

void DeleteFrom(void* told, const char* key, size_t keylen) {
  TellUnlessItThrew(told,
                    [&](WriteBatch::Handler* handler) { handler->Delete(Slice(key, keylen)); });
}

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() {
  rep_.clear();
  rep_.resize(kRecordsOffset);
}

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  SetCount(&rep_, CountOf(rep_) + 1);
  rep_.push_back(1);
  AddString(&rep_, key);
  AddString(&rep_, value);
}

void WriteBatch::Delete(const Slice& key) {
  SetCount(&rep_, CountOf(rep_) + 1);
  rep_.push_back(0);
  AddString(&rep_, key);
}

void WriteBatch::Append(const WriteBatch& source) {
  SetCount(&rep_, CountOf(rep_) + CountOf(source.rep_));
  // What is appended may be the batch itself.
  rep_.append(source.rep_, kRecordsOffset, source.rep_.size() - kRecordsOffset);
}

Status WriteBatch::Iterate(Handler* handler) const {
  if (handler == nullptr) return Status::InvalidArgument("no handler was given");
  Told told = {handler, nullptr};
  char* error = nullptr;
  inside_each(rep_.data(), rep_.size(), &told, PutTo, DeleteFrom, &error);
  const Status status = StatusOf(error);
  if (told.thrown != nullptr) std::rethrow_exception(told.thrown);
  return status;
}

}  // namespace leveldb
