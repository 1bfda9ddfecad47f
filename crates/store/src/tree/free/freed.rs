//! Lists of the runs that a transaction has freed, in the order of their places.

use crate::tree::page_ref::{Freed, PageNo};

/// From how many on freed runs are sorted digit by digit.
pub(super) const MANY_FREED: usize = 512;
/// The bits of such a digit.
const DIGIT: u32 = 11;

/// Sorts freed runs by where they start; many of them, as a range or a table leaves them, by the
/// digits of that number, the lowest first.
pub(super) fn sort_freed(freed: &mut Vec<Freed>) {
    if freed.is_sorted_by_key(|freed| freed.run.start) {
        return;
    }
    if freed.len() < MANY_FREED {
        return freed.sort_unstable_by_key(|freed| freed.run.start);
    }
    let most = freed.iter().map(|freed| freed.run.start).max().unwrap_or(0);
    let mut sorted = freed.clone();
    for shift in (0..PageNo::BITS).step_by(DIGIT as usize).take_while(|shift| most >> shift > 0) {
        let digit = |freed: &Freed| (freed.run.start >> shift) as usize & ((1 << DIGIT) - 1);
        let mut places = [0_u32; 1 << DIGIT];
        freed.iter().for_each(|freed| places[digit(freed)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for freed in freed.iter() {
            let place = &mut places[digit(freed)];
            sorted[*place as usize] = *freed;
            *place += 1;
        }
        std::mem::swap(freed, &mut sorted);
    }
}

/// Sorts freed runs and joins neighbours of the same birth.
pub(super) fn join_freed(freed: &mut Vec<Freed>) {
    sort_freed(freed);
    freed.dedup_by(|next, before| {
        let joins =
            before.run.start + before.run.len == next.run.start && before.birth == next.birth;
        if joins {
            before.run.len += next.run.len;
        }
        joins
    });
}
