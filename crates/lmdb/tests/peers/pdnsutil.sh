#!/bin/sh
# PowerDNS' lmdb backend, whose tables are sharded over several files: zones are made, changed,
# signed, replaced and deleted by pdnsutil; writers at once.
set -eu
mkdir config
printf 'launch=lmdb\nlmdb-filename=%s/zones.lmdb\nlmdb-shards=4\n' "$PWD" > config/pdns.conf
util() {
    pdnsutil --config-dir="$PWD/config" "$@" 2>&1 || echo "$1 ended with $?"
}
util create-zone a.test ns1.a.test
util create-zone b.test ns1.b.test
util create-zone a.test
for i in 1 2 3 4; do
    (for n in 1 2 3 4 5; do util add-record a.test "h$i-$n" A 300 "192.0.2.$i" > /dev/null; done) &
done
wait
util replace-rrset a.test h1-1 A 60 192.0.2.99
util delete-rrset a.test h1-2 A
util list-zone a.test | sort
util check-all-zones
util add-record none.test www A 192.0.2.1
{
    printf '$ORIGIN big.test.\n@ 300 IN SOA ns h 1 2 3 4 5\n@ 300 IN NS ns.big.test.\n'
    i=0
    while [ $i -lt 2000 ]; do
        echo "n$i 300 IN A 10.0.$((i / 250)).$((i % 250))"
        i=$((i + 1))
    done
} > big.zone
util load-zone big.test big.zone
util load-zone big.test big.zone
util list-zone big.test | sort | cksum
util secure-zone b.test > /dev/null
util set-nsec3 b.test '1 0 1 ab'
util rectify-all-zones
util set-meta a.test ALSO-NOTIFY 192.0.2.5
util get-meta a.test
util delete-zone big.test
util list-all-zones
