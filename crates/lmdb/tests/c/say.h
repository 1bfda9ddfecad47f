/* Printing calls of LMDB's interface: the text of the call, its code by name, its outputs. */
#ifndef SAY_H
#define SAY_H

#include <ctype.h>
#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a return code. */
static const char *code_name(int code)
{
	static const struct { int code; const char *name; } names[] = {
		{ 0, "ok" }, { MDB_KEYEXIST, "KEYEXIST" }, { MDB_NOTFOUND, "NOTFOUND" },
		{ MDB_PAGE_NOTFOUND, "PAGE_NOTFOUND" }, { MDB_CORRUPTED, "CORRUPTED" },
		{ MDB_PANIC, "PANIC" }, { MDB_VERSION_MISMATCH, "VERSION_MISMATCH" },
		{ MDB_INVALID, "INVALID" }, { MDB_MAP_FULL, "MAP_FULL" }, { MDB_DBS_FULL, "DBS_FULL" },
		{ MDB_READERS_FULL, "READERS_FULL" }, { MDB_TLS_FULL, "TLS_FULL" },
		{ MDB_TXN_FULL, "TXN_FULL" }, { MDB_CURSOR_FULL, "CURSOR_FULL" },
		{ MDB_PAGE_FULL, "PAGE_FULL" }, { MDB_MAP_RESIZED, "MAP_RESIZED" },
		{ MDB_INCOMPATIBLE, "INCOMPATIBLE" }, { MDB_BAD_RSLOT, "BAD_RSLOT" },
		{ MDB_BAD_TXN, "BAD_TXN" }, { MDB_BAD_VALSIZE, "BAD_VALSIZE" },
		{ MDB_BAD_DBI, "BAD_DBI" }, { EINVAL, "EINVAL" }, { EACCES, "EACCES" },
		{ ENOENT, "ENOENT" }, { EEXIST, "EEXIST" }, { ENOTDIR, "ENOTDIR" },
		{ EISDIR, "EISDIR" }, { EBADF, "EBADF" }, { ENOSPC, "ENOSPC" }, { EPERM, "EPERM" },
		{ EROFS, "EROFS" }, { ENOMEM, "ENOMEM" }, { EAGAIN, "EAGAIN" }, { EBUSY, "EBUSY" },
		{ EPIPE, "EPIPE" }, { EINTR, "EINTR" }, { EIO, "EIO" },
	};
	static char other[24];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == code)
			return names[i].name;
	snprintf(other, sizeof other, "code %d", code);
	return other;
}

/* A byte string: printable bytes as they are, long ones by their ends and their length. */
static inline void say_bytes(const char *what, const MDB_val *value)
{
	const unsigned char *bytes = value->mv_data;
	printf(" %s=", what);
	for (size_t i = 0; i < value->mv_size; i++) {
		if (value->mv_size > 24 && i == 10)
			i = value->mv_size - 4, printf("..");
		printf(isprint(bytes[i]) && bytes[i] != '\\' ? "%c" : "\\%02x", bytes[i]);
	}
	printf("(%zu)", value->mv_size);
}

#endif
