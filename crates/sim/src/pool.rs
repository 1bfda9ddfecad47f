//! The keys and values that operations choose from: sorted once by the table's order, so that
//! everywhere else an operand is a number and numbers compare as the strings do.
//!
//! The orders are written down here a second time, independently of the engine.

use std::cmp::Ordering;
use std::collections::HashMap;

use hedgerow::tree::Order;

use crate::rng::Rng;

/// The orders that are tested, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// As byte strings.
    Bytewise,
    /// As byte strings from their ends.
    Reverse,
    /// As native integers of this many bytes.
    Integer(u32),
    /// A caller's function: shorter strings first, then downwards.
    ShortFirst,
    /// A caller's function: as byte strings, downwards.
    Descending,
}

impl OrderKind {
    /// Compares two strings.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Reverse => {
                let common = a.len().min(b.len());
                for i in 1..=common {
                    let unequal = a[a.len() - i].cmp(&b[b.len() - i]);
                    if unequal.is_ne() {
                        return unequal;
                    }
                }
                a.len().cmp(&b.len())
            }
            Self::Integer(_) => native(a).cmp(&native(b)),
            Self::ShortFirst => a.len().cmp(&b.len()).then_with(|| b.cmp(a)),
            Self::Descending => b.cmp(a),
        }
    }

    /// The engine's option for it.
    pub fn option(self) -> Order {
        match self {
            Self::Bytewise => Order::Bytewise,
            Self::Reverse => Order::Reverse,
            Self::Integer(_) => Order::Integer,
            Self::ShortFirst => Order::custom("sim.short-first", |a: &[u8], b: &[u8]| {
                Self::ShortFirst.compare(a, b)
            }),
            Self::Descending => {
                Order::custom("sim.descending", |a: &[u8], b: &[u8]| Self::Descending.compare(a, b))
            }
        }
    }

    /// Whether the engine needs the caller's function to open a table of this order.
    pub fn is_custom(self) -> bool {
        matches!(self, Self::ShortFirst | Self::Descending)
    }
}

/// A native integer of 4 or 8 bytes; anything else never reaches a table of integers.
fn native(bytes: &[u8]) -> u64 {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        u64::from(u32::from_le_bytes(four))
    } else {
        <[u8; 8]>::try_from(bytes).map_or(0, u64::from_le_bytes)
    }
}

/// How the strings of a pool look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 0 to 24 bytes of few letters: the empty string, strings that are prefixes of others.
    Short,
    /// All begin with the same `prefix` bytes, 1 to 12 of their own follow.
    SharedPrefix {
        /// Length of what they share.
        prefix: u32,
    },
    /// Paths of files: neighbours share much, others little.
    Paths,
    /// Lengths close to a page's bounds (a half, a third, a quarter ... of the page, a few bytes
    /// more or less), sharing about half of their bytes or nothing.
    NearBound {
        /// The page size.
        page: u32,
        /// The longest string.
        most: u32,
    },
    /// Up to `most` bytes, now and then exactly that; most of it shared between neighbours.
    Long {
        /// The longest string.
        most: u32,
    },
    /// Exactly this many bytes of few letters.
    Fixed(u32),
    /// Native integers of 4 or 8 bytes: some side by side, some far apart.
    Integers(u32),
    /// Values of a plain table: mostly short, some of many pages.
    Values {
        /// The longest string.
        most: u32,
    },
}

impl Shape {
    fn string(self, rng: &mut Rng, shared: &[u8]) -> Vec<u8> {
        match self {
            Self::Short => {
                let len = rng.index(25);
                letters(rng, len, 3)
            }
            Self::SharedPrefix { prefix } => {
                let mut s = shared[..prefix as usize].to_vec();
                let len = rng.between(1, 12);
                s.extend(letters(rng, len, 20));
                s
            }
            Self::Paths => path(rng),
            Self::NearBound { page, most } => {
                let part = page / rng.between(1, 9) as u32;
                let len = (part + rng.below(48) as u32).saturating_sub(40).min(most) as usize;
                let own = if rng.chance(1, 2) { len.min(8) } else { len };
                let mut s = shared[..len - own].to_vec();
                s.extend(letters(rng, own, 200));
                s
            }
            Self::Long { most } => {
                let len = match rng.index(8) {
                    0 => most as usize,
                    1..5 => rng.index(most as usize + 1),
                    _ => rng.index(400.min(most as usize + 1)),
                };
                let own = len.min(rng.between(0, 16));
                let mut s = shared[..len - own].to_vec();
                s.extend(letters(rng, own, 26));
                s
            }
            Self::Fixed(len) => {
                let own = (len as usize).min(5);
                let mut s = shared[..len as usize - own].to_vec();
                s.extend(letters(rng, own, 40));
                s
            }
            Self::Integers(size) => integer(rng, size),
            Self::Values { most } => {
                let len = match rng.index(40) {
                    0 => rng.index(most as usize + 1),
                    1..3 => rng.index(6000.min(most as usize + 1)),
                    3..6 => 0,
                    _ => rng.index(90.min(most as usize + 1)),
                };
                rng.bytes(len)
            }
        }
    }
}

fn letters(rng: &mut Rng, len: usize, different: u64) -> Vec<u8> {
    // Letters at both ends of the alphabet: 0x00 and 0xff are where orders and heads go wrong.
    (0..len)
        .map(|_| match rng.below(different) as u8 {
            0 => 0,
            1 => 0xff,
            other => b'a'.wrapping_add(other),
        })
        .collect()
}

fn path(rng: &mut Rng) -> Vec<u8> {
    let mut s = b"/usr/share".to_vec();
    for _ in 0..rng.between(1, 4) {
        let word: &[u8] = rng.pick(&[
            b"/doc".as_slice(),
            b"/locale",
            b"/icons/hicolor",
            b"/python3/dist-packages",
            b"/man",
            b"/x",
        ]);
        s.extend_from_slice(word);
    }
    s.extend_from_slice(format!("/{}", rng.below(400)).as_bytes());
    s
}

fn integer(rng: &mut Rng, size: u32) -> Vec<u8> {
    let number = match rng.index(4) {
        0 => rng.below(3000),
        1 => rng.below(3000) << 16,
        2 => u64::MAX - rng.below(500),
        _ => rng.next_u64(),
    };
    if size == 4 { (number as u32).to_le_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
}

/// Distinct strings, sorted.
#[derive(Debug)]
pub struct Pool {
    strings: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Pool {
    /// About `count` strings (fewer, if the shape does not have that many).
    pub fn new(rng: &mut Rng, shape: Shape, order: OrderKind, count: usize) -> Self {
        let shared = letters(rng, 1 << 16, 4);
        let mut strings: Vec<Vec<u8>> = (0..count).map(|_| shape.string(rng, &shared)).collect();
        strings.sort_by(|a, b| order.compare(a, b));
        strings.dedup();
        let numbers = strings.iter().cloned().zip(0..).collect();
        Self { strings, numbers }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// The string of a number.
    pub fn get(&self, number: u32) -> &[u8] {
        &self.strings[number as usize]
    }

    /// The number of a string, if it is one of the pool.
    pub fn find(&self, string: &[u8]) -> Option<u32> {
        self.numbers.get(string).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_the_strings_do() {
        let orders = [
            (OrderKind::Bytewise, Shape::Short),
            (OrderKind::Reverse, Shape::Paths),
            (OrderKind::Integer(4), Shape::Integers(4)),
            (OrderKind::Integer(8), Shape::Integers(8)),
            (OrderKind::ShortFirst, Shape::Long { most: 900 }),
            (OrderKind::Descending, Shape::NearBound { page: 4096, most: 4096 }),
        ];
        for (order, shape) in orders {
            let pool = Pool::new(&mut Rng::new(3, 0), shape, order, 500);
            assert!(pool.len() > 100, "{shape:?} has only {} strings", pool.len());
            for i in 1..pool.len() as u32 {
                assert!(order.compare(pool.get(i - 1), pool.get(i)).is_lt());
                assert_eq!(pool.find(pool.get(i)), Some(i));
            }
        }
    }

    #[test]
    fn reverse_compares_from_the_ends() {
        assert!(OrderKind::Reverse.compare(b"za", b"ab").is_lt());
        assert!(OrderKind::Reverse.compare(b"b", b"ab").is_lt());
        assert!(OrderKind::Reverse.compare(b"", b"a").is_lt());
    }
}
