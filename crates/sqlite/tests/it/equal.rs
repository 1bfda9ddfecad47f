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
