# Makes the target leveldb::leveldb, as LevelDB's own package does.
get_filename_component(_leveldb_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET leveldb::leveldb)
  add_library(leveldb::leveldb SHARED IMPORTED)
  set_target_properties(leveldb::leveldb PROPERTIES
    IMPORTED_LOCATION "${_leveldb_prefix}/lib/libleveldb.so.1d"
    IMPORTED_SONAME "libleveldb.so.1d"
    INTERFACE_INCLUDE_DIRECTORIES "${_leveldb_prefix}/include")
endif()

unset(_leveldb_prefix)
