// What a compiler made of LevelDB's own source beside its interface, and Debian's library therefore
// exports: functions of templates of the standard library, and the tables of classes inside of two
// functions. No program needs them of this library, but a list of names is to be complete.

#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "leveldb/iterator.h"
#include "leveldb/slice.h"

#if defined(__GLIBCXX__) && _GLIBCXX_RELEASE < 14

namespace std {

using Strings = vector<string>;
using StringTree = _Rb_tree<string, string, _Identity<string>, less<string>>;
using NumberTree = _Rb_tree<unsigned long, unsigned long, _Identity<unsigned long>,
                            less<unsigned long>>;
using LevelFile = pair<int, unsigned long>;
using LevelFileTree = _Rb_tree<LevelFile, LevelFile, _Identity<LevelFile>, less<LevelFile>>;

template void vector<leveldb::Slice>::_M_default_append(size_type);
template void Strings::_M_realloc_insert<char (&)[256]>(Strings::iterator, char (&)[256]);
template void Strings::_M_realloc_insert<const string&>(Strings::iterator, const string&);
template void Strings::_M_realloc_insert<string>(Strings::iterator, string&&);
template void vector<leveldb::Iterator*>::_M_realloc_insert<leveldb::Iterator*>(
    vector<leveldb::Iterator*>::iterator, leveldb::Iterator*&&);
template void vector<char*>::_M_realloc_insert<char* const&>(vector<char*>::iterator,
                                                             char* const&);
template void vector<char*>::_M_realloc_insert<char*>(vector<char*>::iterator, char*&&);
template void vector<unsigned>::_M_realloc_insert<unsigned>(vector<unsigned>::iterator,
                                                            unsigned&&);
template void vector<unsigned long>::_M_realloc_insert<const unsigned long&>(
    vector<unsigned long>::iterator, const unsigned long&);
template void vector<unsigned long>::_M_realloc_insert<unsigned long>(
    vector<unsigned long>::iterator, unsigned long&&);

template pair<StringTree::iterator, StringTree::iterator> StringTree::equal_range(const string&);
template void StringTree::_M_erase_aux(StringTree::const_iterator, StringTree::const_iterator);
template pair<StringTree::iterator, bool> StringTree::_M_insert_unique<const string&>(
    const string&);
template pair<LevelFileTree::iterator, bool> LevelFileTree::_M_insert_unique<LevelFile>(
    LevelFile&&);
template pair<NumberTree::iterator, bool> NumberTree::_M_insert_unique<const unsigned long&>(
    const unsigned long&);

template string operator+(const char*, const string&);

template struct thread::_State_impl<thread::_Invoker<tuple<void (*)(void*), void*>>>;

}  // namespace std

#endif

extern "C" {

#define EMPTY_TABLE(number, name)                                    \
  extern const void* const artefact_##number[8] __asm__(name);       \
  const void* const artefact_##number[8] = {}

EMPTY_TABLE(1, "_ZTVZ26leveldb_writebatch_iterateE1H");
EMPTY_TABLE(2, "_ZTIZ26leveldb_writebatch_iterateE1H");
EMPTY_TABLE(3, "_ZTVZ33leveldb_filterpolicy_create_bloomE7Wrapper");
EMPTY_TABLE(4, "_ZTIZ33leveldb_filterpolicy_create_bloomE7Wrapper");

}  // extern "C"
