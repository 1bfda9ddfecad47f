//! Random numbers for tests: the same in each run, and not good ones.

/// A generator; holds its seed at first.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// Gives numbers below what it is called with.
pub(crate) fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = Random(seed);
    move |end| random.below(end)
}

/// The same for places in slices.
pub(crate) fn indexes(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = Random(seed);
    move |len| random.below(len as u64) as usize
}
