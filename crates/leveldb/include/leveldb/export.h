// Marks what the shared library exports.
#ifndef STORAGE_LEVELDB_INCLUDE_EXPORT_H_
#define STORAGE_LEVELDB_INCLUDE_EXPORT_H_

#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif

#endif  // STORAGE_LEVELDB_INCLUDE_EXPORT_H_
