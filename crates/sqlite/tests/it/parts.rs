//! Long values of which only parts are read.

use super::pair::{Pair, same};

/// Rows that a transaction has written: SQLite keeps a long column that it has read, and has to be
/// told when another row, or the same one with other bytes, has taken its place.
#[test]
fn long_columns_of_rows_that_a_transaction_has_written_are_told_apart() {
    let pair = Pair::new();
    let both = pair.both();
    let ask = "
        select group_concat(substr(b,1,1)) from t;
        select group_concat(substr(a,1,1)||substr(b,-1)||substr(c,1,1)) from t;
        select max(b)=(select b from t where id=4),min(c)=(select c from t where id=1) from t;
        select count(distinct b),count(distinct c) from t;
        select count(*) from t x join t y on x.b=y.b;
        select sum((select substr(y.b,1,1)=char(96+x.id) from t y where y.id=x.id)) from t x;";
    same(
        &both,
        "create table t(id integer primary key,a,b,c); create table v(b); begin;
         insert into t with recursive n(i) as (values(1) union all select i+1 from n where i<4)
           select i,'x',replace(hex(zeroblob(50000)),'0',char(96+i)),
             cast(replace(hex(zeroblob(25000)),'0',char(64+i)) as blob) from n",
    );
    same(&both, ask);
    same(
        &both,
        "insert into v select b from t; select group_concat(substr(b,1,1)) from v;
         update t set a=b; select group_concat(substr(a,1,1)) from t;
         update t set b=replace(b,'b','y') where id=2;
         update t set a=c,c=b where (select count(distinct substr(b,1,1)) from t)=4;
         create temp trigger r after update on t begin
           insert into v select old.b||new.b||(select b from t where id=new.id); end;
         update t set b=b||'!'; select rowid,length(b),substr(b,100000,3),substr(b,-2) from v",
    );
    same(&both, ask);
    same(&both, "commit");
    same(&both, ask);
    same(&both, "select group_concat(substr(b,1,1)) from v; pragma integrity_check");
}
