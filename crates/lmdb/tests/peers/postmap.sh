#!/bin/sh
# Makes a map with postmap and asks it; prints the answers. The map grows past its first size.
set -eu
mkdir config
printf 'compatibility_level=3.6\nlmdb_map_size=65536\n' > config/main.cf
i=0
while [ $i -lt 3000 ]; do
    echo "user$i@example.com target-$i-with-a-longer-text-so-that-the-map-has-to-grow"
    i=$((i + 1))
done > table
export MAIL_CONFIG="$PWD/config"
postmap -c config lmdb:table
# With MDB_NOLOCK this library makes its lock file all the same.
ls table table.lmdb
for user in 0 42 2999 3000; do
    postmap -c config -q "user$user@example.com" lmdb:table || echo "user$user is not there"
done
postmap -c config -s lmdb:table | sort | cksum
postmap -c config -d user42@example.com lmdb:table
postmap -c config -q user42@example.com lmdb:table || echo "deleted"
