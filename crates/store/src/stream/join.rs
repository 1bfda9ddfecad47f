//! Joins of streams by key: what is in all of them, in any, or in the first only.
//!
//! The intersection leaps: each input seeks to the largest key that another one stands at
//! (leapfrog join: Veldhuizen, *Leapfrog Triejoin*, 2014), so keys that one input lacks are not
//! walked in the others.

use std::sync::Arc;

use super::held::Held;
use super::scan::{Ends, Renewal, Scan};
use super::source::{Snapshot as _, Source};
use crate::key::KeyRange;
use crate::tree::Interrupt;
use crate::{Error, Result};

/// Which keys a [`Join`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those of any input.
    Union,
    /// Those of every input.
    Intersection,
    /// Those of the first input that no other one has.
    Difference,
}

/// A key, and the value that each input has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The key.
    pub key: Vec<u8>,
    /// A value for each input, in their order.
    pub values: Vec<Option<Vec<u8>>>,
}

/// An input of a [`Join`]: a scan of a store, of either engine.
pub struct Input(Box<dyn Keys>);

impl Input {
    /// The pairs of a scan, in ascending order, of the store as it is now; of a key with several
    /// values the first one is taken.
    ///
    /// # Errors
    /// As [`Scan::pairs`]; [`Error::Argument`] if the scan has another direction, skips or is
    /// limited; [`Error::WrongTable`] if the table is in another order than bytewise.
    pub fn new<S: Source>(scan: &Scan, source: &S) -> Result<Self> {
        if scan.is_reverse || scan.skip > 0 || scan.limit.is_some() {
            let reason = "an input of a join goes forwards, and neither skips nor is limited";
            return Err(Error::argument(reason));
        }
        let scan = scan.clone().values(super::Values::First).renewal(Renewal::never());
        let snapshot = Arc::new(source.begin()?);
        if !snapshot.is_bytewise(&scan.table)? {
            let reason = "keys are joined in bytewise order, and the table has another one";
            return Err(Error::WrongTable { reason: reason.into() });
        }
        let held = Held::new(snapshot, &scan, &scan.ends())?;
        Ok(Self(Box::new(Way::<S> { scan, held, here: None })))
    }
}

/// A place among keys in order.
trait Keys: Send {
    /// The pair here; `None` after the last one, and before the first step.
    fn here(&self) -> Option<&(Vec<u8>, Vec<u8>)>;
    /// Moves to the next pair.
    fn step(&mut self) -> Result<()>;
    /// Moves to the first pair at or after a key, which comes after the one here.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// The value here.
    fn take_value(&mut self) -> Option<Vec<u8>>;
}

struct Way<S: Source> {
    scan: Scan,
    held: Held<S::Snapshot>,
    here: Option<(Vec<u8>, Vec<u8>)>,
}

/// This many steps are tried before a seek.
const STEPS: usize = 4;

impl<S: Source> Keys for Way<S> {
    fn here(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.here.as_ref()
    }

    fn step(&mut self) -> Result<()> {
        let copy = |key: crate::tree::Bytes<'_>, value: crate::tree::Bytes<'_>| {
            (key.to_vec(), value.to_vec())
        };
        self.here = self.held.see(false, copy).transpose()?;
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        for _ in 0..STEPS {
            self.step()?;
            if self.here.as_ref().is_none_or(|here| here.0.as_slice() >= key) {
                return Ok(());
            }
        }
        let high = self.scan.keys.high().map(<[u8]>::to_vec);
        let scan = self.scan.clone().range((std::ops::Bound::Included(key.to_vec()), high));
        let snapshot = Arc::clone(self.held.snapshot());
        let ends = Ends { low: None, ..self.scan.ends() };
        self.held = Held::new(snapshot, &scan, &ends)?;
        self.step()
    }

    fn take_value(&mut self) -> Option<Vec<u8>> {
        self.here.as_mut().map(|here| std::mem::take(&mut here.1))
    }
}

/// The keys that several streams have together, in order: an iterator. An error ends it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::stream::{Input, Join, Kind, Scan, Sink};
///
/// let mut trees = Sink::new(&store, "trees")?;
/// let mut known = Sink::new(&db, "known")?;
/// for word in ["ash", "birch", "elm"] {
///     trees.put(word.as_bytes(), b"tree")?;
/// }
/// for word in ["birch", "oak"] {
///     known.put(word.as_bytes(), b"yes")?;
/// }
/// (trees.finish()?, known.finish()?);
///
/// let inputs = vec![Input::new(&Scan::new("trees"), &store)?, Input::new(&Scan::new("known"), &db)?];
/// let both: Vec<_> = Join::new(Kind::Intersection, inputs)?.collect::<Result<_, _>>()?;
/// assert_eq!(both.len(), 1);
/// assert_eq!(both[0].key, b"birch");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Join {
    kind: Kind,
    inputs: Vec<Input>,
    interrupt: Interrupt,
    is_over: bool,
}

impl Join {
    /// A join of at least one input.
    ///
    /// # Errors
    /// If an input cannot be read; [`Error::Argument`] if there is none.
    pub fn new(kind: Kind, mut inputs: Vec<Input>) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::argument("a join needs an input"));
        }
        inputs.iter_mut().try_for_each(|input| input.0.step())?;
        Ok(Self { kind, inputs, interrupt: Interrupt::default(), is_over: false })
    }

    /// A flag that ends the join with [`Error::Interrupted`], also while it looks for the next key:
    /// raised by any thread or a handler of a signal.
    pub fn interrupt(mut self, flag: Interrupt) -> Self {
        self.interrupt = flag;
        self
    }

    fn uninterrupted(&self) -> Result<()> {
        if self.interrupt.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn key(&self, n: usize) -> Option<&[u8]> {
        self.inputs[n].0.here().map(|here| here.0.as_slice())
    }

    /// The next key of the join, to which every input that has it has moved.
    fn find(&mut self) -> Result<Option<Vec<u8>>> {
        match self.kind {
            Kind::Union => {
                let keys = (0..self.inputs.len()).filter_map(|n| self.key(n));
                Ok(keys.min().map(<[u8]>::to_vec))
            }
            Kind::Intersection => self.leap(),
            Kind::Difference => loop {
                self.uninterrupted()?;
                let Some(key) = self.key(0).map(<[u8]>::to_vec) else { return Ok(None) };
                let mut is_alone = true;
                for n in 1..self.inputs.len() {
                    if self.key(n).is_some_and(|other| other < key.as_slice()) {
                        self.inputs[n].0.seek(&key)?;
                    }
                    is_alone &= self.key(n) != Some(&key);
                }
                if is_alone {
                    return Ok(Some(key));
                }
                self.inputs[0].0.step()?;
            },
        }
    }

    /// Seeks in turns until all inputs stand at one key.
    fn leap(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(mut key) = self.key(0).map(<[u8]>::to_vec) else { return Ok(None) };
        let (mut agreed, mut n) = (0, 0);
        while agreed < self.inputs.len() {
            self.uninterrupted()?;
            if self.key(n).is_some_and(|other| other < key.as_slice()) {
                self.inputs[n].0.seek(&key)?;
            }
            match self.key(n) {
                None => return Ok(None),
                Some(other) if other == key.as_slice() => agreed += 1,
                Some(other) => (key, agreed) = (other.to_vec(), 1),
            }
            n = (n + 1) % self.inputs.len();
        }
        Ok(Some(key))
    }

    fn step(&mut self) -> Result<Option<Joined>> {
        let Some(key) = self.find()? else { return Ok(None) };
        let mut values = Vec::with_capacity(self.inputs.len());
        for input in &mut self.inputs {
            let is_here = input.0.here().is_some_and(|here| here.0 == key);
            values.push(if is_here { input.0.take_value() } else { None });
            if is_here {
                input.0.step()?;
            }
        }
        Ok(Some(Joined { key, values }))
    }
}

impl Iterator for Join {
    type Item = Result<Joined>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.step();
        self.is_over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}
