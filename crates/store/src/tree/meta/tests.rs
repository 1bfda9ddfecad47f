//! Holds the layout of a meta record to a golden dump, and decoding to never panic.

use super::*;
use crate::tree::page_ref::PageRef;

fn root(page: u32) -> Root {
    Root { page: PageRef(page), level: 1, leaf_pages: 2, ..Root::EMPTY }
}

fn sample(kind: Kind) -> Meta {
    Meta {
        page_size: 8192,
        id: *b"0123456789abcdef",
        txn: 0x0102_0304,
        end: 4711,
        max_pages: 0x0506_0708,
        catalog: root(17),
        ready: root(18),
        pending: Root::EMPTY,
        free: FreePages { ready: 5, pending: 6, pins: Root::EMPTY },
        kind,
        recent: vec![
            FreeRun { run: Run { start: 20, len: 3 }, birth: 0, freed: 0 },
            FreeRun { run: Run { start: 30, len: 1 }, birth: 7, freed: 9 },
        ],
        log: None,
    }
}

#[test]
fn the_place_of_the_log_comes_back() {
    let run = Run { start: 100, len: 16 };
    for (chained, open) in [(false, false), (true, false), (false, true), (true, true)] {
        let log = Some(LogPlace { run, at: 5 << 12, sum: 0x0102_0304_0506_0708, chained, open });
        let meta = Meta { log, ..sample(Kind::Flushed) };
        let bytes = meta.encode(1);
        assert_eq!(Meta::decode(&bytes, 1), Ok(meta));
        assert_eq!(u64_at(&bytes, FEATURES_OFFSET) & FEATURE_LOG, FEATURE_LOG);
    }
}

#[test]
fn the_tree_of_pins_comes_back_and_takes_a_feature_bit() {
    let full = |count| vec![FreeRun { run: Run { start: 20, len: 3 }, birth: 0, freed: 0 }; count];
    let plain = sample(Kind::Flushed);
    assert_eq!(u64_at(&plain.encode(0), FEATURES_OFFSET) & FEATURE_PINS, 0);
    let free = FreePages { pins: root(33), ..plain.free };
    let pinned = Meta { free, recent: full(RECENT_MAX_WITH_PINS), ..plain.clone() };
    let bytes = pinned.encode(0);
    assert_eq!(u64_at(&bytes, FEATURES_OFFSET) & FEATURE_PINS, FEATURE_PINS);
    assert_eq!(Meta::decode(&bytes, 0), Ok(pinned));
    let most = Meta { recent: full(RECENT_MAX), ..plain };
    assert_eq!(Meta::decode(&most.encode(0), 0), Ok(most));
}

fn kinds() -> [Kind; 4] {
    let runs = vec![Run { start: 40, len: 2 }, Run { start: 50, len: 1 }];
    [
        Kind::Flushed,
        Kind::OneFlush { runs, digest: 0x1122_3344_5566_7788 },
        Kind::Unsynced { evidence: Some([0xEE; 24]) },
        Kind::Unsynced { evidence: None },
    ]
}

/// Lines of 16 bytes; those of zeros are left out.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{:04} {}\n", i * 16, hex.join("")));
        }
    }
    text
}

#[test]
fn the_layout_is_the_one_described() {
    assert_eq!(RECENT_MAX, 137);
    assert_eq!([CORE_SUM_OFFSET, RUNS_OFFSET, RECENT_OFFSET], [256, 264, 776]);
    let golden = include_str!("golden.txt");
    assert_eq!(dump(&sample(kinds()[1].clone()).encode(2)), golden);
}

#[test]
fn a_store_without_a_maximum_size_uses_no_feature() {
    let features = |meta: &Meta| u64_at(&meta.encode(0), FEATURES_OFFSET);
    let bounded = sample(Kind::Flushed);
    let free = Meta { max_pages: 0, ..bounded.clone() };
    assert_eq!((features(&bounded), features(&free)), (FEATURE_MAX_PAGES, 0));
    assert_eq!(Meta::decode(&free.encode(0), 0), Ok(free));
}

#[test]
fn every_kind_comes_back() {
    for kind in kinds() {
        let meta = sample(kind);
        assert_eq!(Meta::decode(&meta.encode(1), 1), Ok(meta));
    }
}

#[test]
fn a_record_of_another_slot_is_refused() {
    let bytes = sample(Kind::Flushed).encode(1);
    assert!(matches!(Meta::decode(&bytes, 0), Err(Refusal::Damaged { txn: None, .. })));
}

#[test]
fn any_flipped_byte_is_found() {
    let bytes = sample(kinds()[1].clone()).encode(0);
    for at in 0..META_LEN {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert!(Meta::decode(&bad, 0).is_err(), "byte {at}");
    }
}

#[test]
fn a_torn_record_still_tells_its_number() {
    let mut bytes = sample(Kind::Flushed).encode(0);
    bytes[2000] ^= 1;
    let refusal = Meta::decode(&bytes, 0);
    assert!(matches!(refusal, Err(Refusal::Damaged { txn: Some(0x0102_0304), .. })));
}

/// Every mixture of sectors of an older and a newer record in the same meta page is found out.
#[test]
fn a_record_torn_between_sectors_is_refused() {
    let (old, new) = (sample(kinds()[1].clone()), sample(kinds()[2].clone()));
    let new = Meta { txn: old.txn + 2, recent: Vec::new(), ..new };
    let (old, new) = (old.encode(1), new.encode(1));
    for kept in 1..255_u32 {
        let mut torn = old.clone();
        for sector in (0..8).filter(|sector| kept >> sector & 1 == 1) {
            let range = sector * 512..(sector + 1) * 512;
            torn[range.clone()].copy_from_slice(&new[range]);
        }
        let whole = torn == old || torn == new;
        assert_eq!(Meta::decode(&torn, 1).is_ok(), whole, "sectors {kept:08b}");
    }
}

#[test]
fn impossible_values_with_right_sums_are_refused() {
    let cases: [(usize, &[u8]); 7] = [
        (PAGE_SHIFT_OFFSET, &[40]),
        (KIND_OFFSET, &[0]),
        (END_OFFSET, &[2, 0, 0, 0]),
        (RECENT_COUNT_OFFSET, &[0xFF, 0xFF, 0xFF, 0xFF]),
        (RUN_COUNT_OFFSET, &[65, 0, 0, 0]),
        (RECENT_OFFSET, &[1, 0, 0, 0]),
        (CATALOG_OFFSET, &[0xFF, 0xFF, 0, 0]),
    ];
    for (at, value) in cases {
        let mut bytes = sample(kinds()[1].clone()).encode(0);
        bytes[at..at + value.len()].copy_from_slice(value);
        put_sums(&mut bytes, 0);
        assert!(matches!(Meta::decode(&bytes, 0), Err(Refusal::Damaged { .. })), "offset {at}");
    }
}

#[test]
fn foreign_files_are_named() {
    let reason = |bytes: &[u8]| match Meta::decode(bytes, 0) {
        Err(Refusal::NotAStore(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let mut lmdb = vec![0; META_LEN];
    put_u32(&mut lmdb, LMDB_MAGIC_AT, LMDB_MAGIC);
    assert!(reason(&lmdb).contains("--from-lmdb"));
    assert!(reason(&[]).contains("empty"));
    assert!(reason(b"text").contains("4 bytes"));
    assert!(reason(&[0; META_LEN]).contains("zeros"));
    assert!(reason(&[b'x'; META_LEN]).contains("meta record"));
}

#[test]
fn another_version_and_unknown_features_are_unsupported() {
    let mut bytes = sample(Kind::Flushed).encode(0);
    put_u32(&mut bytes, VERSION_OFFSET, 9);
    assert!(matches!(Meta::decode(&bytes, 0), Err(Refusal::Unsupported(_))));
    put_u32(&mut bytes, VERSION_OFFSET, 0x10_0001);
    assert!(matches!(Meta::decode(&bytes, 0), Err(Refusal::Damaged { .. })));
    let mut bytes = sample(Kind::Flushed).encode(0);
    put_u64(&mut bytes, FEATURES_OFFSET, 1 << 40);
    put_sums(&mut bytes, 0);
    assert!(matches!(Meta::decode(&bytes, 0), Err(Refusal::Unsupported(_))));
}
