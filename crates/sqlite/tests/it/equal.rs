//! Searches of an index for values that its entries no longer have: the branches of the store keep
//! keys of entries that are gone.

use super::pair::{Pair, same};

const SCHEMA: &str = "
    create table t(a integer primary key, b, c text); create index tb on t(b);
    create index tc on t(c desc, b); create table w(k text, b, primary key(k, b)) without rowid;
    insert into t with recursive x(i) as (values(0) union all select i+1 from x where i<3999)
      select i, i, 'text '||i from x;
    insert into w select c, b%7 from t";

/// What has the values of 0 to 4,100, as numbers and texts, in both directions and from lists.
const LOOK: &str = "
    create temp view if not exists n as
      with recursive x(i) as (values(0) union all select i+1 from x where i<4100) select i from x;
    select i, (select a from t where b=i), (select a from t where b=i order by a desc limit 1),
      (select count(*) from t where b=i), (select a from t where c='text '||i),
      (select b from t where c='text '||i order by b desc limit 1),
      (select count(*) from w where k='text '||i), (select b from w where k='text '||i),
      (select max(a) from t where b in (i, i+1)), (select a from t where c='text '||i and b=i)
    from n;
    select count(*) from n cross join t on t.b=n.i; select count(*) from n join w on k='text '||i;
    pragma integrity_check";

#[test]
fn values_that_are_gone_are_not_found() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, SCHEMA);
    for sql in [
        "delete from t where a%2=1; delete from w where b%2=1",
        "update t set b=b+1 where b%3=0; update w set b=b+7 where b=2",
        "delete from t where a between 100 and 3000 and a%64<>1; update w set k=k||'!' where b=4",
        "insert into t select a+5000, b+1, c||'.' from t where a%5=0",
        "begin; update t set c=c||'!', b=b+1 where a%4=0; delete from w where b<5",
    ] {
        same(&both, sql);
        same(&both, LOOK);
    }
    same(&both, &format!("rollback; {LOOK}"));
}

/// Whether values are there is asked by the first columns of an index, in an order that leads from
/// leaf to leaf.
const ASK: &str = "
    create temp table if not exists s as select distinct u, a from t order by id*7919%5000;
    select count(*) from s where u in (select u from t); select count(*) from s where u not in
      (select u from t where u is not null);
    select count(*) from s where (u, a) in (select u, a from t);
    select count(*) from s where u in (select k from w); select count(*) from s where exists
      (select 1 from w where k=u); pragma integrity_check";

#[test]
fn entries_are_found_by_their_first_columns() {
    let pair = Pair::new();
    let both = pair.both();
    same(
        &both,
        "create table t(id integer primary key, u text unique, a, b); create index ta on t(u, a, b);
         create index tu on t(u); create table w(k, v, primary key(k, v)) without rowid;
         create table p(id integer primary key, u unique);
         create table c(u references p(u) on update cascade);
         insert into t with recursive x(i) as (values(1) union all select i+1 from x where i<2500)
           select i+10000, 'u'||i, i%71, i/71 from x;
         insert into w select u, id from t; insert into p select id, u from t",
    );
    same(&both, ASK);
    for sql in [
        // The entries come to stand before the separators that were made of them.
        "update t set id=id-10000, b=b-100; update w set v=v-10000; update p set id=id-10000",
        "insert or ignore into t select id+50000, u, 1, 1 from t order by id desc",
        "insert or replace into t(u, a, b) select u, a, 2 from s",
        "insert into t(u) select u from s where true on conflict(u) do update set b=b+1",
        "pragma foreign_keys=on; insert into c select u from s; update p set u=u||'.'",
        "delete from t where id%10>=3; delete from w where v%10>=3",
    ] {
        same(&both, sql);
        same(&both, "select count(*), count(distinct u), sum(a), sum(b) from t");
        same(&both, "select count(*), count(distinct u) from c");
        same(&both, ASK);
    }
}
