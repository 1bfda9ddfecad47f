// A cache of which what was not used for the longest time goes first.

#include "leveldb/cache.h"

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "inside.h"

namespace leveldb {

Cache::~Cache() = default;

namespace {

struct Entry : Cache::Handle {
  std::string key;
  void* value;
  size_t charge;
  void (*deleter)(const Slice&, void*);
  // Users, and the cache as long as it is in it.
  size_t users;
  bool is_cached;
  // Its place among the entries that nobody uses; the newest one is last.
  std::list<Entry*>::iterator place;
};

class LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  ~LruCache() override {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!entries_.empty()) Drop(entries_.begin()->second);
  }

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice&, void*)) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry* entry = new Entry;
    entry->key = key.ToString();
    entry->value = value;
    entry->charge = charge;
    entry->deleter = deleter;
    entry->users = 1;
    entry->is_cached = false;
    if (capacity_ > 0) {
      const auto there = entries_.find(entry->key);
      if (there != entries_.end()) Drop(there->second);
      entry->users = 2;
      entry->is_cached = true;
      entries_.emplace(entry->key, entry);
      usage_ += charge;
    }
    while (usage_ > capacity_ && !unused_.empty()) Drop(unused_.front());
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto there = entries_.find(key.ToString());
    if (there == entries_.end()) return nullptr;
    Entry* entry = there->second;
    if (entry->users == 1) unused_.erase(entry->place);
    entry->users++;
    return entry;
  }

  void Release(Handle* handle) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Leave(static_cast<Entry*>(handle));
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto there = entries_.find(key.ToString());
    if (there != entries_.end()) Drop(there->second);
  }

  uint64_t NewId() override { return ++last_id_; }

  void Prune() override {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!unused_.empty()) Drop(unused_.front());
  }

  size_t TotalCharge() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return usage_;
  }

  size_t capacity() const { return capacity_; }

 private:
  // One user less; the last one deletes it.
  void Leave(Entry* entry) {
    entry->users--;
    if (entry->users == 0) {
      entry->deleter(Slice(entry->key), entry->value);
      delete entry;
    } else if (entry->users == 1 && entry->is_cached) {
      entry->place = unused_.insert(unused_.end(), entry);
    }
  }

  // Takes an entry out of the cache.
  void Drop(Entry* entry) {
    if (entry->users == 1) unused_.erase(entry->place);
    entries_.erase(entry->key);
    usage_ -= entry->charge;
    entry->is_cached = false;
    Leave(entry);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  size_t usage_ = 0;
  std::unordered_map<std::string, Entry*> entries_;
  std::list<Entry*> unused_;
  std::atomic<uint64_t> last_id_{0};
};

}  // namespace

size_t CapacityOf(Cache* cache) {
  const LruCache* own = dynamic_cast<LruCache*>(cache);
  return own != nullptr ? own->capacity() : 0;
}

Cache* NewLRUCache(size_t capacity) { return new LruCache(capacity); }

}  // namespace leveldb
