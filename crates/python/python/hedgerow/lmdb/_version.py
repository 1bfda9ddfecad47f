"""The version of LMDB whose interface this is."""

from __future__ import annotations

from .._hedgerow import mdb_version_of
from ._errors import Error


def version(subpatch: bool = False, lib_version: int | None = None) -> tuple[int, ...]:
    """The version of LMDB whose interface this is; with ``subpatch`` a fourth number, 0, since
    py-lmdb's changes to LMDB are not there."""
    _check_library(lib_version)
    return (*mdb_version_of(), 0) if subpatch else mdb_version_of()


def _check_library(lib_version: int | None) -> None:
    if lib_version is None:
        return
    if lib_version < 0:
        raise OverflowError("lib_version cannot be negative")
    if lib_version != mdb_version_of()[0]:
        raise Error(f"there is no LMDB {lib_version} here")
