//! Having the processor fetch what will soon be looked at.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "instructions that the language does not have")
)]

use std::ops::Range;

/// The length of a cache line.
pub(crate) const LINE: usize = 64;

/// Prefetches the cache lines of some bytes after an address, at least one.
///
/// One after the other: two or four at a time, or all in one sequence, as the compiler makes it of
/// a number that it knows, are fewer instructions, but made gets take 1.1 times as long. The
/// processor has room for a limited number of misses at a time. Leaving lines out, or taking some
/// from several parts of the page in turn, makes scans take three times as long that read every
/// byte of a store beyond the processor's caches.
#[inline(always)]
pub(crate) fn prefetch_range(base: *const u8, bytes: Range<usize>) {
    let end = base.wrapping_add(bytes.end);
    let mut left = hidden(bytes.start as isize - bytes.end as isize);
    loop {
        prefetch_line(end.wrapping_offset(left));
        left += LINE as isize;
        if left >= 0 {
            break;
        }
    }
}

/// Prefetches many cache lines one after the other, all of which will be looked at.
///
/// The loop of [`prefetch_range`] takes as many instructions a line, but scans with it took 1.5 to
/// 2.2 times as long on a processor of type Zen 4, as if some lines had not been fetched; one
/// instruction more a line was as good as this form. It is not inlined, and aligned, because its
/// speed depends on where it stands, too.
#[inline(never)]
pub(crate) fn prefetch_lines(base: *const u8, lines: usize) {
    debug_assert!(lines > 0);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction does not fault and reads nothing that the program sees.
    unsafe {
        std::arch::asm!(
            ".p2align 5",
            "2:",
            "prefetcht0 byte ptr [{at}]",
            "add {at}, {line}",
            "loop 2b",
            line = const LINE,
            at = inout(reg) base => _,
            inout("rcx") lines => _,
            options(readonly, nostack),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    (0..lines).for_each(|line| prefetch_line(base.wrapping_add(line * LINE)));
}

/// The same number, which the compiler then knows nothing of.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn hidden(mut number: isize) -> isize {
    use std::arch::asm;
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags)) };
    number
}

/// The same number.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn hidden(number: isize) -> isize {
    number
}

/// Prefetches the cache lines of a number of bytes from an address on, whatever is there.
#[inline(always)]
pub(crate) fn prefetch<const BYTES: usize>(base: *const u8) {
    (0..BYTES).step_by(LINE).for_each(|at| prefetch_line(base.wrapping_add(at)));
}

/// Prefetches the cache line of an address, whatever is there.
#[inline(always)]
pub(crate) fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction does not fault and reads nothing that the program sees.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
