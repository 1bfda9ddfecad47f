"""Numbers of LMDB's interface."""

from __future__ import annotations

_FLAGS_OF_ENV = {
    # The name, whether the flag says the contrary, and the flag.
    "subdir": (True, 0x4000),
    "readonly": (False, 0x20000),
    "metasync": (True, 0x40000),
    "sync": (True, 0x10000),
    "map_async": (False, 0x100000),
    "readahead": (True, 0x800000),
    "writemap": (False, 0x80000),
    "meminit": (True, 0x1000000),
    "lock": (True, 0x400000),
}
_NOTLS = 0x200000
_FLAGS_OF_DB = {
    "reverse_key": 0x02,
    "dupsort": 0x04,
    "integerkey": 0x08,
    "integerdup": 0x20,
    "dupfixed": 0x10,
}
_CREATE = 0x40000
_NOOVERWRITE, _NODUPDATA, _APPEND, _APPENDDUP = 0x10, 0x20, 0x20000, 0x40000
_CP_COMPACT = 1

(
    _FIRST,
    _FIRST_DUP,
    _GET_BOTH,
    _GET_BOTH_RANGE,
    _GET_CURRENT,
    _GET_MULTIPLE,
    _LAST,
    _LAST_DUP,
    _NEXT,
    _NEXT_DUP,
    _NEXT_MULTIPLE,
    _NEXT_NODUP,
    _PREV,
    _PREV_DUP,
    _PREV_NODUP,
    _SET,
    _SET_KEY,
    _SET_RANGE,
) = range(18)

# What a call of a cursor tells: that there is a pair, its key, its value, both.
_IS_THERE, _KEY, _VALUE, _PAIR = range(4)

_EINVAL = 22
_WAIT_SECONDS = 1.0
