//! Groups of values that change in place, beside leaves that are built.

use super::super::build::build_leaf;
use super::super::size::Pair;
use super::super::{KeyCell, checked, seal};
use super::*;
use crate::random;
use crate::tree::order::Leaves;

const PAGE_SIZE: usize = 4096;
const PAGE: u32 = 5;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A leaf of sorted pairs.
fn leaf(pairs: &Entries, form: &Form) -> Vec<u8> {
    let pairs: Vec<_> = pairs
        .iter()
        .enumerate()
        .map(|(i, (key, value))| Pair {
            key: KeyCell { known: Bytes::from(&key[..]), extent: None },
            value: ValueCell::Inline(Bytes::from(&value[..])),
            starts: i == 0 || pairs[i - 1].0 != *key,
        })
        .collect();
    let mut bytes = vec![0; PAGE_SIZE];
    build_leaf(&mut bytes, &pairs, form).unwrap();
    bytes
}

fn read(page: Page<'_>) -> Entries {
    let value = |record: &Record<'_>, i| match record.value(i) {
        ValueCell::Inline(bytes) => bytes.to_vec(),
        ValueCell::Extent(_) => panic!("a value in an extent"),
    };
    let records = (0..page.len()).map(|slot| page.leaf_record(slot));
    let pairs = records.flat_map(|record| {
        (0..record.value_count())
            .map(move |i| (record.key_cell().known.to_vec(), value(&record, i)))
    });
    pairs.collect()
}

/// Values of one length and of several, which share much or little, on both sides.
fn value(random: &mut impl FnMut(usize) -> usize, kind: usize) -> Vec<u8> {
    let len = if kind & 1 == 0 { 6 - (kind >> 2 & 1) } else { 4 + random(4) };
    let own: Vec<u8> = (0..len).map(|_| b'a' + random(3) as u8).collect();
    if kind & 2 == 0 { own } else { [b"shared", &own[..], b"shared"].concat() }
}

#[test]
fn values_put_in_place_are_as_those_of_a_leaf_built_with_them() {
    let mut random = random::indexes(7);
    let (mut in_place, mut aside) = (0, Vec::new());
    for round in 0..400 {
        let order = if round % 2 == 0 { KeyOrder::Bytewise } else { KeyOrder::Reverse };
        let (keys, values) = (KeyOrder::Bytewise, Some(order.clone()));
        let leaves = [Leaves::Whole, Leaves::Aligned, Leaves::Compressed][round / 4 % 3];
        let form = Form { keys, values, leaves };
        let mut pairs: Entries = (0..2 + random(20))
            .map(|_| (vec![b'k', random(4) as u8], value(&mut random, round / 2)))
            .collect();
        let sort = |pairs: &mut Entries| {
            pairs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| order.compare(&a.1, &b.1)));
            pairs.dedup();
        };
        sort(&mut pairs);
        let mut bytes = leaf(&pairs, &form);
        for _ in 0..20 {
            let key = pairs[random(pairs.len())].0.clone();
            let new = value(&mut random, round / 2);
            if pairs.contains(&(key.clone(), new.clone())) {
                continue;
            }
            let of_key = pairs.iter().filter(|pair| pair.0 == key);
            let at = of_key.filter(|pair| order.compare(&pair.1, &new).is_lt()).count();
            let mut keys: Vec<_> = pairs.iter().map(|pair| pair.0.clone()).collect();
            keys.dedup();
            let slot = keys.iter().position(|one| *one == key).unwrap();
            let mut page = PageMut::new(&mut bytes);
            in_place += usize::from(page.put_in_group(slot, at, &new, &order));
            let is_done = read(page.view()).len() > pairs.len();
            if !is_done {
                assert!(page.edit_group(slot, GroupEdit::Put(at, &new), &form, &mut aside));
            }
            pairs.push((key, new));
            sort(&mut pairs);
            PageMut::new(&mut bytes).tidy();
            seal(&mut bytes, PAGE);
            let page = checked(&bytes, PAGE, 10).unwrap();
            assert_eq!(read(page), pairs);
            let built = leaf(&pairs, &form);
            assert_eq!(page.used(), checked_len(&built), "as compact as one that is built");
        }
    }
    assert!(in_place > 2000, "{in_place}");
}

fn checked_len(bytes: &[u8]) -> usize {
    PageMut::new(&mut bytes.to_vec()).view().used()
}
