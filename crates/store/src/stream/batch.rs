//! Many pairs in one piece of memory.

use super::pairs::Pairs;
use super::source::Source;
use super::token::Token;
use crate::Result;
use crate::tree::Bytes;

/// Copies of pairs, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// How many pairs it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes its pairs have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A pair, by its number from 0 on.
    #[inline]
    pub fn get(&self, n: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(n)?;
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.len()).map(|n| self.get(n).unwrap_or_default())
    }

    /// Without pairs, but with the memory that it has.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Makes room for that many pairs and bytes, if it has less.
    pub(super) fn reserve(&mut self, pairs: usize, bytes: usize) {
        self.ends.reserve(pairs);
        self.bytes.reserve(bytes);
    }

    /// Adds a copy of a pair.
    #[inline]
    pub(super) fn push(&mut self, key: Bytes<'_>, value: Bytes<'_>) {
        key.append_to(&mut self.bytes);
        let key_end = self.bytes.len();
        value.append_to(&mut self.bytes);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Fills it with the next pairs of a stream: at most this many, and no further one after this
    /// many bytes.
    ///
    /// # Errors
    /// As [`Pairs::event`]; it has the pairs before the failure.
    pub fn fill<S: Source>(
        &mut self,
        from: &mut Pairs<S>,
        pairs: usize,
        bytes: usize,
    ) -> Result<()> {
        self.clear();
        while self.len() < pairs && (self.is_empty() || self.bytes.len() < bytes) {
            let taken = from.see(|key, value| self.push(key, value))?;
            if taken.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// The pairs of a store in batches: an iterator, made by [`Scan::batches`](super::Scan::batches).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let mut sink = hedgerow::stream::Sink::new(&store, "n")?;
/// # for n in 0..5_u8 { sink.put(&[n], &[n; 9])?; }
/// # sink.finish()?;
/// let mut bytes = 0;
/// for batch in hedgerow::stream::Scan::new("n").batches(&store, 3, 1 << 20)? {
///     bytes += batch?.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
/// }
/// assert_eq!(bytes, 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches<S: Source> {
    pairs: Pairs<S>,
    pairs_max: usize,
    bytes_max: usize,
    /// How many pairs and bytes the last batch had.
    room: (usize, usize),
}

impl<S: Source> Batches<S> {
    pub(super) fn new(pairs: Pairs<S>, pairs_max: usize, bytes_max: usize) -> Self {
        Self { pairs, pairs_max: pairs_max.max(1), bytes_max, room: (0, 0) }
    }

    /// Fills a batch again, in the memory that it has; false after the last pair.
    ///
    /// # Errors
    /// As [`Pairs::event`].
    pub fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        // A new one gets memory once, and not in steps that each copy what is there.
        batch.clear();
        batch.reserve(self.room.0, self.room.1);
        batch.fill(&mut self.pairs, self.pairs_max, self.bytes_max)?;
        self.room = (batch.len(), batch.bytes.len());
        Ok(!batch.is_empty())
    }

    /// How far it came, as [`Pairs::token`].
    ///
    /// # Errors
    /// As [`Pairs::token`].
    pub fn token(&self) -> Result<Token> {
        self.pairs.token()
    }
}

impl<S: Source> Iterator for Batches<S> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Batch::default();
        match self.fill(&mut batch) {
            Ok(true) => Some(Ok(batch)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
