//! Makes a failing list of operations short: leaves out chunks, from large to single operations,
//! as long as what is left still fails.

use std::time::{Duration, Instant};

/// The shortest list that was found in `time`, for a list that makes `fails` true.
///
/// A chunk is left out if the rest still fails; chunks are halved when none can be left out.
pub fn shrink<O: Copy>(
    mut ops: Vec<O>,
    time: Duration,
    mut fails: impl FnMut(&[O]) -> bool,
) -> Vec<O> {
    let end = Instant::now() + time;
    let mut chunk = ops.len().div_ceil(2);
    while chunk > 0 {
        let mut removed = false;
        // From the back: what comes last matters most, and what it needs is found by leaving out
        // what comes before.
        let mut at = ops.len();
        while at > 0 {
            if Instant::now() > end {
                return ops;
            }
            let start = at.saturating_sub(chunk);
            let shorter: Vec<O> = ops[..start].iter().chain(&ops[at..]).copied().collect();
            if fails(&shorter) {
                ops = shorter;
                removed = true;
            }
            at = start;
        }
        if chunk > 1 {
            chunk /= 2;
        } else if !removed {
            break;
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Control, Op, Write};

    #[test]
    fn what_is_needed_is_what_is_left() {
        let needed = [
            Op::Control(Control::BeginWrite),
            Op::Write(0, Write::Put(7, 7)),
            Op::Write(0, Write::Delete(7)),
        ];
        let mut ops: Vec<Op> = (0..1000).map(|i| Op::Write(1, Write::Put(i, i))).collect();
        for (i, op) in needed.iter().enumerate() {
            ops.insert(100 + 300 * i, *op);
        }
        let fails = |ops: &[Op]| {
            let mut left = needed.iter();
            let mut next = left.next();
            for op in ops {
                if Some(op) == next {
                    next = left.next();
                }
            }
            next.is_none()
        };
        assert!(fails(&ops));
        assert_eq!(shrink(ops, Duration::from_secs(60), fails), needed);
    }
}
