//! Search in a branch.

use super::*;
use crate::tree::order::Custom;
use crate::tree::page::Layout;

/// The child of a branch below which the pair (`key`, `side`) stands or would stand.
#[inline(always)]
pub(crate) fn branch_slot<P: Extents>(
    pages: &P,
    form: &Form,
    page: Page<'_>,
    key: &[u8],
    side: Side<'_>,
) -> Result<usize> {
    let n = page.len();
    if let KeyOrder::Custom(by) = &form.keys {
        return match form.values {
            None => bisect_custom_branch(pages, form, page, key, by),
            Some(_) => bisect_branch(pages, form, page, key, key, 1..n, side),
        };
    }
    let rest = match strip(page, &form.keys, key) {
        Ok(rest) => rest,
        Err(Ordering::Less) => return Ok(0),
        Err(_) => return Ok(n - 1),
    };
    let head = head_in(&form.keys, rest);
    // Slot 0 has no separator: it takes all that is below the first one.
    let low = 1 + below(page, 1, n - 1, head);
    if low == n || page.head(low) != head {
        return Ok(low - 1);
    }
    let high =
        if low + 1 == n || page.head(low + 1) != head { low + 1 } else { ties_end(page, low) };
    bisect_branch(pages, form, page, key, rest, low..high, side)
}

/// Bisects among separators whose heads are equal.
#[inline(always)]
fn bisect_branch<P: Extents>(
    pages: &P,
    form: &Form,
    page: Page<'_>,
    key: &[u8],
    rest: &[u8],
    slots: Range<usize>,
    side: Side<'_>,
) -> Result<usize> {
    let (mut low, mut high) = (slots.start, slots.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_after(pages, form, page, middle, key, rest, side)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low - 1)
}

/// Bisects among all separators of a tree without duplicates under a custom order.
#[inline(never)]
fn bisect_custom_branch<P: Extents>(
    pages: &P,
    form: &Form,
    page: Page<'_>,
    key: &[u8],
    by: &Custom,
) -> Result<usize> {
    if let Some(search) = search_of(by)
        && let Some((slot, is_equal)) = Keys::of_branch(page).search(search, key)
    {
        return Ok(if is_equal { slot } else { slot - 1 });
    }
    // They have no values, and stand as the records of a DENSE leaf do.
    let offsets = page.address().wrapping_add(page.offsets_at());
    let (mut low, mut high) = (1, page.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let offset = offsets.wrapping_add(Layout::Dense.step() * middle);
        let is_after = match page.plain_record_in(Layout::Dense, offset) {
            Some((separator, _)) => (by.compare)(separator, key).is_gt(),
            None => is_after(pages, form, page, middle, key, key, Side::First)?,
        };
        if is_after {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low - 1)
}
