#!/bin/sh
# BIND keeps zones that are added while it runs in a database: rndc adds, changes and deletes some,
# named is stopped, killed and started again, and named-nzd2nzf reads beside it.
set -eu
trap 'kill -9 ${pid:-} 2> /dev/null || true' EXIT
port=$((20000 + $$ % 10000))
rndc-confgen -a -c "$PWD/rndc.key" -k key > /dev/null 2>&1
cat > named.conf << END
include "$PWD/rndc.key";
options {
    directory "$PWD"; listen-on { none; }; listen-on-v6 { none; }; pid-file "$PWD/named.pid";
    session-keyfile "$PWD/session.key"; lock-file none; recursion no; notify no;
};
controls { inet 127.0.0.1 port $port allow { 127.0.0.1; } keys { key; }; };
view "v" { match-clients { any; }; allow-new-zones yes; lmdb-mapsize 4M; };
END
printf '$TTL 300\n@ SOA ns.test. h.test. 1 3600 600 86400 300\n@ NS ns.test.\n' > zone.db
control() {
    rndc -k "$PWD/rndc.key" -p $port "$@" 2>&1
}
start() {
    named -g -c "$PWD/named.conf" > named.log 2>&1 &
    pid=$!
    i=0
    while [ $i -lt 100 ] && ! control status > status; do
        sleep 0.1
        i=$((i + 1))
    done
    grep zones: status
}
# gone ZONE: waits until it is removed from the database, which named does after it has answered.
gone() {
    i=0
    while [ $i -lt 100 ] && named-nzd2nzf v.nzd | grep -q "$1"; do
        sleep 0.05
        i=$((i + 1))
    done
}
start
for i in 1 2 3 4 5 1; do
    control addzone "z$i.test" in v '{ type master; file "zone.db"; };' || echo "it is there"
done
control modzone z2.test in v '{ type master; file "zone.db"; allow-transfer { none; }; };'
control delzone z3.test in v
gone z3.test
named-nzd2nzf v.nzd
control reload
control stop
wait $pid || true
named-nzd2nzf v.nzd
start
control showzone z2.test in v
control delzone z4.test in v
gone z4.test
control addzone z6.test in v '{ type master; file "zone.db"; };'
kill -9 $pid
{ wait $pid || true; } 2> /dev/null
start
control showzone z4.test in v || true
named-nzd2nzf v.nzd
control stop
wait $pid || true
