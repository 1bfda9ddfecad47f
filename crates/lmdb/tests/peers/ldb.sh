#!/bin/sh
# Samba's ldb on a file of LMDB's: entries, indexes, changes, transactions that fail, writers at once.
set -eu
url=mdb://$PWD/entries.ldb
export LDB_MODULES_PATH="${LDB_MODULES_PATH:-$(echo /usr/lib/*/ldb/modules/ldb)}"
# entries FIRST LAST: that many users.
entries() {
    i=$1
    while [ "$i" -lt "$2" ]; do
        printf 'dn: cn=user%s,dc=example\ncn: user%s\nobjectUUID: %016d\nmail: m%s@example.com\n\n' \
            "$i" "$i" "$i" $((i % 7))
        i=$((i + 1))
    done
}
ldbadd -H "$url" << 'END'
dn: @INDEXLIST
@IDXATTR: cn
@IDXATTR: mail
@IDXGUID: objectUUID
@IDX_DN_GUID: GUID
END
entries 0 300 > first.ldif
ldbadd -H "$url" first.ldif
ldbadd -H "$url" first.ldif || echo "they are there"
ldbsearch -H "$url" '(mail=m5@example.com)' dn | sort | cksum
ldbmodify -H "$url" << 'END'
dn: cn=user5,dc=example
changetype: modify
replace: mail
mail: new@example.com

dn: cn=user6,dc=example
changetype: delete

dn: cn=user7,dc=example
changetype: modrdn
newrdn: cn=seven
deleteoldrdn: 1
END
ldbsearch -H "$url" '(mail=new@example.com)'
ldbdel -H "$url" cn=user8,dc=example
ldbdel -H "$url" cn=user8,dc=example || echo "it is gone"
ldbrename -H "$url" cn=user9,dc=example cn=nine,dc=example
ldbsearch -H "$url" '(|(cn=user6)(cn=seven)(cn=user8)(cn=nine))' dn
for writer in 1 2 3 4; do
    entries "${writer}000" "${writer}050" > "$writer.ldif"
    ldbadd -H "$url" "$writer.ldif" > "$writer.out" 2>&1 &
done
ldbsearch -H "$url" '(cn=user1)' dn
wait
cat ?.out
ldbsearch -H "$url" | sort | cksum
