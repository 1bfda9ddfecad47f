//! The order of index entries: searches among values of all types, in every collation and
//! direction, find what they find in a file of SQLite's.

use super::pair::{Pair, same};

/// Values around the edges of SQLite's types of storage, each in SQL.
fn values() -> Vec<String> {
    let mut all: Vec<String> =
        ["null", "''", "x''", "'a'", "'A'", "'a '", "x'61'", "'ab'", "1e300"]
            .map(str::to_owned)
            .into();
    for bits in [0, 1, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 53, 62, 63] {
        for number in [(1_i128 << bits) - 1, 1_i128 << bits, -(1_i128 << bits), -(1 << bits) - 1] {
            if let Ok(number) = i64::try_from(number) {
                all.push(number.to_string());
                all.push(format!("{number}.5"));
                all.push(format!("{number}.0"));
                all.push(format!("'{number}'"));
                all.push(format!("x'{:016x}'", number));
            }
        }
    }
    for len in [1, 56, 57, 58, 59, 120, 127, 128, 8000] {
        all.push(format!("replace(hex(zeroblob({len})),'0','k')"));
        all.push(format!("replace(hex(zeroblob({len})),'00','kK')"));
        all.push(format!("zeroblob({len})"));
        all.push(format!("cast(zeroblob({len}) as text)||'z'"));
    }
    all.push("'a'||char(0)||'b'".into());
    all.push("'a'||char(0)".into());
    all.push("char(0x10FFFF)||char(0xFFFD)||char(0xE4)".into());
    all
}

#[test]
fn an_entry_that_begins_its_leaf_may_change_besides_its_key() {
    let pair = Pair::new();
    let both = pair.both();
    same(
        &both,
        "create table t(a, b primary key) without rowid; insert into t with recursive x(i) as
         (values(0) union all select i+1 from x where i<3000) select i, i from x;
         update t set a=null where b%5=0; update t set a=b||'x' where b%3=0;
         delete from t where a is null and b%2; select count(*), sum(b), max(a) from t;
         pragma integrity_check",
    );
}

#[test]
fn values_of_all_types_are_found_in_every_order() {
    let values = values();
    for encoding in ["UTF-8", "UTF-16le", "UTF-16be"] {
        let pair = Pair::new();
        let both = pair.both();
        let rows: Vec<_> = values.iter().map(|value| format!("({value})")).collect();
        let mut sql = format!(
            "pragma encoding='{encoding}'; create table t(n integer primary key, v);
             insert into t(v) values{};
             create table w(v, n, primary key(v desc, n)) without rowid;",
            rows.join(",")
        );
        for (i, order) in ["", "desc", "collate nocase", "collate rtrim desc"].iter().enumerate() {
            sql.push_str(&format!(
                "create table t{i}(v, n); create index i{i} on t{i}(v {order});"
            ));
            sql.push_str(&format!("insert into t{i} select v, n from t order by n*7919%1009;"));
        }
        sql.push_str("insert or ignore into w select v, n from t where v is not null;");
        same(&both, &sql);
        for value in &values {
            for table in ["t0", "t1", "w"] {
                same(
                    &both,
                    &format!(
                        "select group_concat(n) from {table} where v={value};
                         select n from {table} where v<{value} order by v desc, n limit 3;
                         select n from {table} where v>={value} order by v, n limit 3;
                         select count(*) from {table} where v>{value}"
                    ),
                );
            }
            for (table, collation) in [("t2", "nocase"), ("t3", "rtrim")] {
                same(
                    &both,
                    &format!(
                        "select group_concat(n) from (select n from {table}
                         where v={value} collate {collation} order by n);
                         select count(*) from {table} where v<={value} collate {collation}"
                    ),
                );
            }
        }
        same(
            &both,
            "delete from w where n%3=0; update t0 set v=n where n%2; update t1 set v='x'||v;
                     pragma integrity_check",
        );
    }
}
