//! What writers wait for, and how long.

use super::*;
use crate::lsm::levels::compact::tests::version;
use crate::lsm::levels::version::Edit;
use crate::lsm::log::segment::Identity;
use crate::lsm::table::Reference;

/// Beyond the bound by this many thousandths.
fn space(space: u64) -> Behind {
    Behind { space, ..Behind::default() }
}

#[test]
fn writers_wait_longer_the_more_is_behind() {
    let rate = Rate::default();
    assert_eq!(Behind::default().price(rate), 0);
    let by_space: Vec<u64> = (0..400).map(|mille| space(mille).price(rate)).collect();
    let by_tables = (0..40).map(|level0| Behind { level0, space: 0 }.price(rate)).collect();
    for prices in [by_space, by_tables] {
        assert!(prices.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(prices[0] == 0 && prices[2] > prices[1] && prices[1] > 0);
    }
    let most = Behind { level0: u64::MAX, space: u64::MAX }.price(rate);
    assert!(delay_us(most, u64::MAX) <= WAIT_US_MAX && delay_us(most, 1) > 0);
}

/// There is no step at which writers stop: a thousandth more is never much more.
#[test]
fn prices_have_no_steps() {
    let rate = Rate::default();
    for mille in 1..200 {
        let (here, next) = (space(mille).price(rate), space(mille + 1).price(rate));
        assert!(next <= here + here / 10 + 1, "{mille}: {here}, {next}");
    }
}

/// Filling a buffer takes over twice as long as writing one to a table, although its first half
/// takes less.
#[test]
fn writers_leave_the_time_to_make_room() {
    let flushing = Rate::default();
    let spent = |to: u64| (0..to).map(|mille| room_price(flushing, mille)).sum::<u64>();
    let flush = 1000 * flushing.ns_per_kib();
    assert!(spent(500) < flush && spent(1000) > 2 * flush && spent(1000) < 4 * flush);
    assert_eq!(room_price(flushing, u64::MAX), room_price(flushing, 1000));
}

#[test]
fn writers_make_as_much_garbage_as_is_removed() {
    let mut rate = Rate::default();
    for _ in 0..20 {
        rate = rate.after(20 << 20, Duration::from_secs(2));
    }
    // 10 MiB a second.
    let price = space(LEVEL_MILLE).price(rate);
    assert!((95_000..105_000).contains(&price), "{price}");
    assert_eq!(space(LEVEL_MILLE + HALF_MILLE).price(rate), 2 * price);
    for _ in 0..100 {
        rate = rate.after(0, Duration::from_secs(5));
    }
    assert_eq!(space(LEVEL_MILLE).price(rate), 1_000_000_000 / 1024, "a mebibyte a second");
}

#[test]
fn behind_is_what_waits_for_merges_and_what_takes_too_much_space() {
    let level0 = |count| {
        let tables: Vec<_> = (0..count).map(|n| (0, n + 1, 50, "a", "m")).collect();
        let standing = Standing::new(&version(&tables), 10, &Standing::default());
        standing.behind(Unmerged::default())
    };
    assert_eq!(level0(15), Behind::default());
    assert_eq!(level0(18), Behind { level0: 3, space: 0 });
    let with_garbage = |garbage: u64, flushed| {
        let identity = Identity { number: 500, salt: 0, first_seq: 1 };
        let sealed = Sealed { len: 900 + garbage, last_seq: 9, remap_len: 0 };
        let version = version(&[(6, 1, 100, "a", "m")]);
        let mut meta = version.tables().next().unwrap().1.meta.clone();
        meta.number = 2;
        meta.bounds.first = b"n".to_vec();
        meta.bounds.last = b"z".to_vec();
        meta.references = vec![Reference { segment: 500, bytes: 900 }];
        let edits = [
            Edit::AddSegment(identity),
            Edit::SealSegment { number: 500, sealed },
            Edit::AddTable { level: 6, meta },
            Edit::Flushed { seq: flushed },
        ];
        let version = version.apply(&edits).unwrap();
        Standing::new(&version, 10, &Standing::default()).behind(Unmerged::default())
    };
    assert_eq!(with_garbage(150, 9), space(0));
    assert!(with_garbage(400, 9).space > with_garbage(300, 9).space);
    assert_eq!(with_garbage(300, 8), space(0), "no table points to it: nobody knows what it is");
}

#[test]
fn what_is_in_no_table_hides_as_much_as_what_came_before_it() {
    let standing = |hidden| {
        let version = version(&[(6, 1, 100_000, "a", "z"), (0, 2, 1000, "a", "m")]);
        let newest = version.level(0).first().unwrap();
        newest.set_hidden(hidden);
        Standing::new(&version, 10_000, &Standing::default())
    };
    let unmerged = |operations| Unmerged { operations, bytes: 0 };
    let (new, half) = (standing(0), standing(50));
    assert_eq!((new.behind(unmerged(9000)), half.behind(unmerged(10))), (space(0), space(0)));
    assert!(half.behind(unmerged(9000)).space > half.behind(unmerged(6000)).space);
    assert!(half.may_hide_much(2000) && !half.may_hide_much(100));
    // What hid nothing before, or was not looked at, may be followed by what hides much.
    for other in [new, Standing { hiding: None, ..new }] {
        assert!(other.may_hide_much(9000) && !other.may_hide_much(2000));
    }
    assert_eq!((new.weight(100, 1000), half.weight(100, 1000)), (100, 5000));
}

#[test]
fn who_gives_room_back_may_use_what_others_leave_free() {
    let options = Options::new().memory_limit(16 << 20).settled();
    let most = 16 * (options.table_bytes + options.memtable_bytes as u64) + options.segment_bytes;
    let kept = |bytes: u64| {
        let standing =
            Standing::new(&version(&[(6, 1, bytes, "a", "z")]), 10, &Standing::default());
        standing.kept_free(0, &options)
    };
    for bytes in [0, 1 << 20, 20 << 20, 1 << 40] {
        let KeptFree { by_puts, by_merges, by_deletes } = kept(bytes);
        assert_eq!(by_puts, (bytes / 4).min(most));
        assert!(bytes == 0 || by_puts > by_merges && by_merges > by_deletes && by_deletes > 0);
    }
    assert_eq!(Standing::default().kept_free(4000, &options).by_puts, 1000, "of the log alone");
}
