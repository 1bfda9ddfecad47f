#!/bin/sh
# Runs Entries.java, compiled in the folder that is given, with lmdbjava over the library that
# LD_LIBRARY_PATH leads to, or else the original, which is given.
set -eu

library=$2
[ ! -e "$LD_LIBRARY_PATH/liblmdb.so.0" ] || library=$LD_LIBRARY_PATH/liblmdb.so.0
timeout 120 java -cp "$1:$1/jars/*" -Dlmdbjava.native.lib="$library" \
    --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED Entries
