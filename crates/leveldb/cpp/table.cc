// Single files of LevelDB: the names are there, and say that this library does not read or write
// them.

#include "leveldb/table.h"

#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/table_builder.h"

namespace leveldb {

namespace {

Status Refusal() {
  return Status::NotSupported("single tables of LevelDB", "`hedgerow convert` reads and writes them");
}

}  // namespace

Status Table::Open(const Options&, RandomAccessFile*, uint64_t, Table** table) {
  *table = nullptr;
  return Refusal();
}

Table::~Table() = default;

Iterator* Table::NewIterator(const ReadOptions&) const { return NewErrorIterator(Refusal()); }

uint64_t Table::ApproximateOffsetOf(const Slice&) const { return 0; }

Iterator* Table::BlockReader(void*, const ReadOptions&, const Slice&) {
  return NewErrorIterator(Refusal());
}

Status Table::InternalGet(const ReadOptions&, const Slice&, void*,
                          void (*)(void*, const Slice&, const Slice&)) {
  return Refusal();
}

void Table::ReadMeta(const Footer&) {}

void Table::ReadFilter(const Slice&) {}

TableBuilder::TableBuilder(const Options&, WritableFile*) : rep_(nullptr) {}

TableBuilder::~TableBuilder() = default;

Status TableBuilder::ChangeOptions(const Options&) { return Refusal(); }

void TableBuilder::Add(const Slice&, const Slice&) {}

void TableBuilder::Flush() {}

Status TableBuilder::status() const { return Refusal(); }

Status TableBuilder::Finish() { return Refusal(); }

void TableBuilder::Abandon() {}

uint64_t TableBuilder::NumEntries() const { return 0; }

uint64_t TableBuilder::FileSize() const { return 0; }

void TableBuilder::WriteBlock(BlockBuilder*, BlockHandle*) {}

void TableBuilder::WriteRawBlock(const Slice&, CompressionType, BlockHandle*) {}

Status DumpFile(Env*, const std::string&, WritableFile*) { return Refusal(); }

}  // namespace leveldb
