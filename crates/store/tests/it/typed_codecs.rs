//! Values as JSON and in the format Postcard, in stores of both engines.

use std::collections::BTreeMap;

use hedgerow::Error;
use hedgerow::key::{Json, Postcard, ValueCode};
use hedgerow::lsm::{Batch, Db, Options, Readable, TypedKeyspace};
use hedgerow::tree::{Snapshot, TypedTable};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    born: Option<i32>,
    friends: Vec<u64>,
}

fn person(n: u64) -> Person {
    let born = n.is_multiple_of(3).then_some(1_800 - n as i32);
    Person { name: format!("person \"{n}\" \u{e4}\n"), born, friends: (0..n % 7).collect() }
}

/// A value that no JSON text is.
type Unnamed = Json<BTreeMap<(u8, u8), u8>>;

fn db() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    (folder, db)
}

/// What is put comes back, from a table and from a keyspace.
fn comes_back<V>(wrap: fn(Person) -> V)
where
    V: for<'a> ValueCode<Ref<'a> = &'a Person> + std::fmt::Debug + PartialEq,
{
    let scratch = super::Scratch::new();
    let (_folder, db) = db();
    let space = TypedKeyspace::<u64, V>::create(&db, "people", Default::default()).unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = TypedTable::<u64, V>::create(&mut txn, "people").unwrap();
    let mut batch = Batch::new();
    for n in 0..100 {
        table.put(&mut txn, n, &person(n)).unwrap();
        space.put(&mut batch, n, &person(n)).unwrap();
    }
    db.write(batch).unwrap();
    assert_eq!(table.replace(&mut txn, 5, &person(6)).unwrap(), Some(wrap(person(5))));
    assert_eq!(table.put_new(&mut txn, 5, &person(7)).unwrap(), Some(wrap(person(6))));
    table.put(&mut txn, 5, &person(5)).unwrap();
    for n in 0..100 {
        let expected = Some(wrap(person(n)));
        assert_eq!(table.get(&txn, n).unwrap(), expected);
        assert_eq!(space.get(&db, n).unwrap(), expected);
        let bytes = db.get(space.keyspace(), &n.to_be_bytes()).unwrap().unwrap();
        let same = txn.get(table.table(), &n.to_be_bytes()).unwrap();
        assert!(same.is_some_and(|same| same == bytes[..]), "both engines hold the same bytes");
    }
    let last = (99, wrap(person(99)));
    assert_eq!(space.iter(&db).unwrap().next_back().transpose().unwrap(), Some(last));
}

#[test]
fn json_comes_back() {
    comes_back(Json);
}

#[test]
fn postcard_comes_back() {
    comes_back(Postcard);
}

#[test]
fn what_cannot_be_written_leaves_all_as_it_was() {
    let bad = BTreeMap::from([((1, 2), 3)]);
    let refused = |result: hedgerow::Result<()>| match result {
        Err(Error::Argument { reason }) => {
            assert_eq!(reason, "no value as json: key must be a string");
        }
        other => panic!("{other:?}"),
    };
    let scratch = super::Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = TypedTable::<u8, Unnamed>::create(&mut txn, "table").unwrap();
    table.put(&mut txn, 1, &BTreeMap::new()).unwrap();
    refused(table.put(&mut txn, 1, &bad));
    refused(table.put(&mut txn, 2, &bad));
    assert_eq!(table.iter(&txn).unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 1);
    assert_eq!(table.get(&txn, 1).unwrap(), Some(Json(BTreeMap::new())));

    let (_folder, db) = db();
    let space = TypedKeyspace::<u8, Unnamed>::create(&db, "space", Default::default()).unwrap();
    let mut batch = Batch::new();
    refused(space.put(&mut batch, 1, &bad));
    assert!(batch.is_empty());
}

#[test]
fn what_cannot_be_read_is_told_in_the_words_of_the_codec() {
    let scratch = super::Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let json = TypedTable::<u8, Json<Person>>::create(&mut txn, "json").unwrap();
    txn.put(json.table(), &[1], br#"{"name":7}"#).unwrap();
    let error = json.get(&txn, 1).unwrap_err();
    assert!(matches!(error, Error::WrongTable { .. }));
    let expected = "wrong kind of table: no json: invalid type: integer `7`, expected a string at \
                    line 1 column 9";
    assert_eq!(error.to_string(), expected);
    let other = TypedTable::<u8, Postcard<Person>>::open(&txn, "json");
    assert!(matches!(other, Err(Error::TableOptions { .. })));

    let postcard = TypedTable::<u8, Postcard<Person>>::create(&mut txn, "postcard").unwrap();
    txn.put(postcard.table(), &[1], &[1, 0xFF, 0, 0]).unwrap();
    assert!(matches!(postcard.get(&txn, 1), Err(Error::WrongTable { .. })));
    assert!(postcard.first(&txn).is_err());
}
