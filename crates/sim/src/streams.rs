//! Streams of both engines beside a model: every form, with writers between the pairs, renewals at
//! every possible place, tokens over reopenings, both directions, duplicates; sinks of every mode;
//! differences, groups, and a follower that is stopped, killed with its store and woken again.
//!
//! What a stream must give next follows from three things: what it was asked for, the pairs that it
//! gave last from either end, and the content of the commit that it says it sees. So the model
//! keeps the content of every commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::rc::Rc;

use hedgerow::stream::{
    Batch, Cut, Event, Follow, Followed, Item as _, Mark, Mode, OnReject, Pairs, Position, Scan,
    Sink, Source, Step, Token, Values,
};
use hedgerow::tree::{Store, TableChange};
use hedgerow::{Durability, lsm};

use crate::job::{Failure, SeedReport, Settings, in_folder};
use crate::rng::Rng;
use crate::run::{Disagreement, Outcome};

mod asked;
mod polled;
mod subject;

use asked::Asked;
use subject::{Subject, changes};

type Pair = (Vec<u8>, Vec<u8>);
/// The pairs of the one table in their order.
type Content = Rc<Vec<Pair>>;

const TABLE: &str = "t";
/// Streams at a time.
const STREAMS: usize = 4;
/// Keys are drawn from this many.
const KEYS: u64 = 400;

/// Runs one seed on the tree engine.
pub fn run_tree(seed: u64, settings: &Settings) -> SeedReport<()> {
    run_seed::<Store>(seed, settings)
}

/// Runs one seed on the log-structured engine.
pub fn run_lsm(seed: u64, settings: &Settings) -> SeedReport<()> {
    run_seed::<lsm::Db>(seed, settings)
}

fn run_seed<S: Subject>(seed: u64, settings: &Settings) -> SeedReport<()> {
    let begin = std::time::Instant::now();
    let mut ops = 0;
    let duplicates = S::COUNTS && seed.is_multiple_of(2);
    let result = in_folder(&settings.folder, |folder| {
        let mut run = Run::<S>::new(seed, folder.join("store"), duplicates)?;
        while ops < settings.ops {
            run.step()?;
            ops += 1;
        }
        Ok(())
    });
    let config = format!("duplicates: {duplicates}");
    let failure = result.err().map(|disagreement| {
        let shrunk = disagreement.clone();
        Failure { disagreement, config, ops: Vec::new(), shrunk }
    });
    SeedReport { seed, ops, time: begin.elapsed(), failure }
}

struct Stream<S: Source> {
    pairs: Pairs<S>,
    asked: Asked,
    /// The pairs since it was made, since it took its snapshot, and the commit of that.
    given: u64,
    since: u64,
    commit: u64,
}

struct Run<S: Subject> {
    rng: Rng,
    path: PathBuf,
    duplicates: bool,
    store: Option<S>,
    content: Content,
    /// The content of each commit.
    history: BTreeMap<u64, Content>,
    streams: Vec<Stream<S>>,
    old: Option<(<S as Source>::Snapshot, Content)>,
    follower: Follower<S>,
}

/// A follower, and what it has made of the steps.
struct Follower<S: Followed> {
    follow: Option<Follow<S>>,
    pairs: BTreeSet<Pair>,
    mark: Option<Mark>,
    /// Whether the last step may come once more.
    is_given: bool,
}

/// Applies a step, which must fit exactly unless the follower has seen it before.
fn take_step<S: Followed>(
    pairs: &mut BTreeSet<Pair>,
    step: &Step<S>,
    is_repeated: bool,
) -> Outcome<()> {
    for change in step.tables()? {
        if change.name() != TABLE.as_bytes() || matches!(change, TableChange::Removed(_)) {
            return Err(format!("a follower was told of {change:?}").into());
        }
        let (gone, come) = changes(step.changes(TABLE)?)?;
        let fits = gone.iter().all(|pair| pairs.contains(pair))
            && come.iter().all(|pair| !pairs.contains(pair) || gone.contains(pair));
        if !fits && !is_repeated {
            return Err("a step does not fit what the follower has".to_owned().into());
        }
        pairs.retain(|pair| !gone.contains(pair));
        pairs.extend(come);
    }
    Ok(())
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Outcome<()> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: found {found:?}, expected {expected:?}").into()),
    }
}

impl<S: Subject> Run<S> {
    fn new(seed: u64, path: PathBuf, duplicates: bool) -> Outcome<Self> {
        let store = S::open(&path, duplicates)?;
        let content = Content::default();
        let history = BTreeMap::from([(store.newest_commit(), Rc::clone(&content))]);
        let (store, streams) = (Some(store), Vec::new());
        let rng = Rng::new(seed, 51);
        let follower =
            Follower { follow: None, pairs: BTreeSet::new(), mark: None, is_given: false };
        let old = None;
        Ok(Self { rng, path, duplicates, store, content, history, streams, old, follower })
    }

    fn store(&self) -> Outcome<S> {
        self.store.clone().ok_or_else(|| Disagreement::from("no store".to_owned()))
    }

    fn step(&mut self) -> Outcome<()> {
        match self.rng.below(100) {
            0..8 => self.write(),
            8..11 => self.sink(),
            11 => self.differ(),
            12 if self.rng.chance(1, 20) => self.reopen(),
            13 | 14 => self.follow(),
            15 if self.rng.chance(1, 30) => {
                let how = self.rng.below(16);
                Ok(self.store()?.settle(how)?)
            }
            12..20 => self.begin(),
            20..24 => self.walk(),
            _ if self.streams.is_empty() => self.begin(),
            _ => {
                let n = self.rng.index(self.streams.len());
                self.advance(n)
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(KEYS);
        // Some keys are prefixes of others.
        format!("{number:x}").into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.duplicates { self.rng.index(3) } else { self.rng.index(60) };
        vec![b'a' + self.rng.below(4) as u8; len]
    }

    /// A commit of the model.
    fn committed(&mut self, pairs: BTreeSet<Pair>) -> Outcome<()> {
        self.content = Rc::new(pairs.into_iter().collect());
        self.history.insert(self.store()?.newest_commit(), Rc::clone(&self.content));
        let needed = self.streams.iter().map(|stream| stream.commit).min();
        if let Some(needed) = needed {
            self.history = self.history.split_off(&needed);
        }
        Ok(())
    }

    fn put(&self, pairs: &mut BTreeSet<Pair>, key: &[u8], value: &[u8]) {
        if !self.duplicates {
            pairs.retain(|pair| pair.0 != key);
        }
        pairs.insert((key.to_vec(), value.to_vec()));
    }

    fn write(&mut self) -> Outcome<()> {
        let mut pairs: BTreeSet<Pair> = self.content.iter().cloned().collect();
        let mut writes = Vec::new();
        let grows = pairs.len() < 500;
        for _ in 0..self.rng.between(1, 12) {
            let key = self.key();
            let puts = self.rng.chance(if grows { 3 } else { 1 }, 4);
            let value = if puts { Some(self.value()) } else { None };
            match &value {
                Some(value) => self.put(&mut pairs, &key, value),
                None => pairs.retain(|pair| pair.0 != key),
            }
            writes.push((key, value));
        }
        self.store()?.write(&writes)?;
        self.committed(pairs)
    }

    /// A sink that takes pairs, some of which it must reject.
    fn sink(&mut self) -> Outcome<()> {
        let mut pairs: BTreeSet<Pair> = self.content.iter().cloned().collect();
        let kind = self.rng.below(if self.duplicates { 2 } else { 4 });
        let mode = match kind {
            0 => Mode::Put,
            1 => Mode::New,
            2 => Mode::Replace,
            _ => Mode::Merge(Box::new(|_, old, new| match new.len() % 3 {
                0 => None,
                _ => Some([old.unwrap_or_default(), new].concat().into_iter().take(80).collect()),
            })),
        };
        let cut = self.rng.below(6) + 1;
        let mut sink = Sink::new(&self.store()?, TABLE)?
            .mode(mode)
            .on_reject(OnReject::Ignore)
            .cut(Cut::never().pairs(cut))
            .durability(Durability::None);
        let (mut rejected, mut stored) = (0, 0);
        let mut last = self.key();
        for _ in 0..self.rng.index(30) {
            let (key, value) = (self.key(), self.value());
            // Runs in order are appended.
            let key = if self.rng.chance(2, 3) { [&last[..], b"0"].concat() } else { key };
            let key: Vec<u8> = key.into_iter().take(40).collect();
            let there = |pairs: &BTreeSet<Pair>| {
                let mut of_key = pairs.iter().filter(|pair| pair.0 == key);
                of_key.next().map(|pair| pair.1.clone())
            };
            let takes = match kind {
                0 => true,
                1 if self.duplicates => !pairs.contains(&(key.clone(), value.clone())),
                1 => there(&pairs).is_none(),
                2 => there(&pairs).is_some(),
                _ => true,
            };
            agree("a sink's answer", &sink.put(&key, &value)?, &takes)?;
            match (takes, kind) {
                (false, _) => rejected += 1,
                (true, 3) if value.len().is_multiple_of(3) => pairs.retain(|pair| pair.0 != key),
                (true, 3) => {
                    let old = there(&pairs).unwrap_or_default();
                    let merged: Vec<u8> = [old, value].concat().into_iter().take(80).collect();
                    self.put(&mut pairs, &key, &merged);
                }
                (true, _) => self.put(&mut pairs, &key, &value),
            }
            stored += u64::from(takes);
            last = key;
        }
        let report = sink.finish()?;
        agree("what a sink reports", &(report.pairs, report.rejected), &(stored, rejected))?;
        // Its commits in between are seen by nobody: nothing else ran.
        self.committed(pairs)
    }

    /// The newest moment beside an older one.
    fn differ(&mut self) -> Outcome<()> {
        let new = Source::begin(&self.store()?)?;
        if let Some((old, content)) = &self.old {
            let (gone, come) = S::compare(old, &new)?;
            let before: BTreeSet<Pair> = content.iter().cloned().collect();
            let after: BTreeSet<Pair> = self.content.iter().cloned().collect();
            agree("removed pairs", &gone, &before.difference(&after).cloned().collect())?;
            agree("added pairs", &come, &after.difference(&before).cloned().collect())?;
        }
        if self.rng.chance(1, 3) {
            self.old = Some((new, Rc::clone(&self.content)));
        }
        Ok(())
    }

    /// A step of the follower, which may have been stopped.
    fn follow(&mut self) -> Outcome<()> {
        let store = self.store()?;
        let Follower { follow, pairs, mark, is_given } = &mut self.follower;
        // Whether what was given last is given again, unless it was dealt with.
        let mut begins_again = follow.is_none();
        let follower = match follow {
            Some(follower) => follower,
            None => {
                let mut begun = Follow::named(&store, "follower")?;
                // A consumer that has kept its mark sees each change once.
                if let Some(mark) = mark
                    && self.rng.chance(1, 2)
                {
                    (begun, begins_again) = (begun.resume(mark)?, false);
                }
                follow.insert(begun)
            }
        };
        if let Some(step) = follower.step(Some(std::time::Duration::ZERO))? {
            let is_repeated = std::mem::take(is_given) && begins_again;
            take_step(pairs, &step, is_repeated)?;
            let now: BTreeSet<Pair> = match is_repeated {
                // It leads to where it led before.
                true => pairs.clone(),
                false => self.content.iter().cloned().collect(),
            };
            agree("what a follower has", pairs, &now)?;
            (*mark, *is_given) = (Some(step.mark()), true);
        }
        if self.rng.chance(1, 6) {
            follower.done()?;
            *is_given = false;
        }
        if self.rng.chance(1, 6) {
            self.follower.follow = None;
        }
        // A commit that moves pins changes nothing else.
        self.history.insert(store.newest_commit(), Rc::clone(&self.content));
        Ok(())
    }

    /// Streams outlive this by their tokens.
    fn reopen(&mut self) -> Outcome<()> {
        let mut tokens = Vec::new();
        for stream in self.streams.drain(..) {
            tokens.push((stream.pairs.token()?.to_string(), stream.asked));
        }
        (self.old, self.store, self.follower.follow) = (None, None, None);
        self.store = Some(S::open(&self.path, self.duplicates)?);
        self.history = BTreeMap::from([(self.store()?.newest_commit(), Rc::clone(&self.content))]);
        for (token, asked) in tokens {
            let token: Token = token.parse()?;
            self.resume(&token, asked)?;
        }
        Ok(())
    }

    fn resume(&mut self, token: &Token, asked: Asked) -> Outcome<()> {
        let store = self.store()?;
        let pairs = asked.renewed(Scan::resume(token, &store)?).pairs(&store)?;
        let commit = pairs.commit();
        self.streams.push(Stream { pairs, asked, given: 0, since: 0, commit });
        Ok(())
    }

    fn ask(&mut self) -> Asked {
        let mut bound = || match self.rng.below(4) {
            0 => Bound::Included(format!("{:x}", self.rng.below(KEYS)).into_bytes()),
            1 => Bound::Excluded(format!("{:x}", self.rng.below(KEYS)).into_bytes()),
            _ => Bound::Unbounded,
        };
        let keys = (bound(), bound());
        let rng = &mut self.rng;
        let values = if self.duplicates {
            [Values::Each, Values::First, Values::Last]
        } else {
            [Values::Each; 3]
        };
        Asked {
            keys,
            is_reverse: rng.chance(1, 2),
            skip: if rng.chance(1, 4) { rng.below(40) } else { 0 },
            limit: rng.chance(1, 4).then(|| rng.below(60)),
            keys_only: rng.chance(1, 8),
            values: rng.pick(&values),
            renewal: rng.chance(1, 2).then(|| 1 + rng.below(8)),
            low: None,
            high: None,
            taken: 0,
        }
    }

    fn begin(&mut self) -> Outcome<()> {
        let mut asked = self.ask();
        if self.streams.len() == STREAMS {
            let at = self.rng.index(STREAMS);
            self.streams.swap_remove(at);
        }
        let pairs = asked.scan().pairs(&self.store()?)?;
        let commit = pairs.commit();
        asked.pass(&self.content, self.duplicates);
        self.streams.push(Stream { pairs, asked, given: 0, since: 0, commit });
        Ok(())
    }

    /// The borrowed form, from both ends, and batches, of a moment.
    fn walk(&mut self) -> Outcome<()> {
        let asked = Asked { renewal: None, ..self.ask() };
        let mut passed = asked.clone();
        passed.pass(&self.content, self.duplicates);
        let mut expected = passed.left(&self.content, self.duplicates);
        if asked.is_reverse {
            expected.reverse();
        }
        expected.truncate(asked.allowed().min(usize::MAX as u64) as usize);
        if asked.keys_only {
            expected.iter_mut().for_each(|pair| pair.1.clear());
        }
        let store = self.store()?;
        let snapshot = Source::begin(&store)?;
        let mut walker = asked.scan().walk(&snapshot)?;
        if S::COUNTS {
            agree("what is left", &walker.remaining(), &Some(expected.len() as u64))?;
        }
        let mut found = (Vec::new(), Vec::new());
        loop {
            let is_front = asked.limit.is_some() || self.rng.chance(1, 2);
            let entry = if is_front { walker.next() } else { walker.next_back() };
            let Some(entry) = entry.transpose()? else { break };
            let pair = (entry.key().to_vec(), entry.value().to_vec());
            if is_front { found.0.push(pair) } else { found.1.push(pair) }
        }
        found.0.extend(found.1.into_iter().rev());
        agree("a borrowed stream", &found.0, &expected)?;
        let mut found = Vec::new();
        let mut batches = asked.scan().batches(&store, self.rng.between(1, 50), 1 << 12)?;
        let mut batch = Batch::default();
        while batches.fill(&mut batch)? {
            found.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        }
        agree("batches", &found, &expected)?;
        if self.rng.chance(1, 4) {
            agree("an asynchronous stream", &polled::pairs(&asked.scan(), &store)?, &expected)?;
        }
        self.group(&asked, &store)
    }

    /// Keys with all their values.
    fn group(&mut self, asked: &Asked, store: &S) -> Outcome<()> {
        let asked = Asked { values: Values::First, keys_only: false, ..asked.clone() };
        let mut passed = asked.clone();
        passed.pass(&self.content, self.duplicates);
        let mut keys = passed.left(&self.content, self.duplicates);
        if asked.is_reverse {
            keys.reverse();
        }
        keys.truncate(asked.allowed().min(usize::MAX as u64) as usize);
        let is_of =
            |key: &[u8]| self.content.iter().filter(|pair| pair.0 == key).cloned().collect();
        let expected: Vec<Pair> =
            keys.iter().flat_map(|(key, _)| -> Vec<Pair> { is_of(key) }).collect();
        let mut found = Vec::new();
        for group in asked.scan().groups(store)? {
            let group = group?;
            for value in group.values()? {
                found.push((group.key().to_vec(), value?.to_vec()));
            }
        }
        agree("groups", &found, &expected)
    }

    /// One step of a stream.
    fn advance(&mut self, n: usize) -> Outcome<()> {
        match self.rng.below(12) {
            0 => self.streams[n].pairs.park()?,
            1 => {
                let stream = self.streams.swap_remove(n);
                let token = stream.pairs.token()?;
                drop(stream.pairs);
                let token = Token::from_bytes(&token.to_bytes())?;
                return self.resume(&token, stream.asked);
            }
            how => return self.take(n, how),
        }
        Ok(())
    }

    /// Takes the next pair in some way.
    fn take(&mut self, n: usize, how: u64) -> Outcome<()> {
        let newest = self.store()?.newest_commit();
        let stream = &mut self.streams[n];
        let at_back = how < 4;
        let leaves_out = if how == 4 { self.rng.below(20) } else { 0 };
        let before = stream.commit;
        // A parked or old stream takes the newest moment first.
        let is_due = stream.asked.renewal.is_some_and(|pairs| stream.since >= pairs);
        let was_parked = stream.pairs.is_parked();
        let mut told = None;
        let found = match how {
            0..4 => stream.pairs.next_back().transpose()?,
            4 => stream.pairs.nth(leaves_out as usize).transpose()?,
            5 => {
                let pair = stream.pairs.see(|key, value| (key.to_vec(), value.to_vec()))?;
                return self.check(n, (false, 0), (is_due, was_parked, newest), pair);
            }
            6 => loop {
                match stream.pairs.event()? {
                    None => break None,
                    Some(Event::Pair(pair)) => break Some(pair),
                    Some(Event::Renewed { from, to }) => told = Some((from, to)),
                }
            },
            _ => stream.pairs.next().transpose()?,
        };
        if let Some((from, to)) = told {
            let now = stream.pairs.commit();
            agree("the commit after a renewal", &to, &now)?;
            if from > before {
                return Err(format!("renewed from {from}, which came after {before}").into());
            }
        }
        let found = found.map(|pair| (pair.key().to_vec(), pair.value().to_vec()));
        self.check(n, (at_back, leaves_out), (is_due, was_parked, newest), found)
    }

    /// Holds what a stream gave beside what it must give.
    fn check(
        &mut self,
        n: usize,
        (at_back, leaves_out): (bool, u64),
        (is_due, was_parked, newest): (bool, bool, u64),
        found: Option<Pair>,
    ) -> Outcome<()> {
        let stream = &mut self.streams[n];
        let now = stream.pairs.commit();
        if is_due || was_parked {
            stream.since = 0;
            // A stream that is over takes no moment any more.
            if found.is_some() {
                agree("the commit after a renewal", &now, &newest)?;
            }
        } else {
            agree("the commit without a renewal", &now, &stream.commit)?;
        }
        stream.commit = now;
        let content = self.history.get(&now);
        let content = content.ok_or_else(|| format!("commit {now} was never the newest"))?;
        let left = stream.asked.left(content, self.duplicates);
        let is_last = stream.asked.is_reverse != at_back;
        let allowed = stream.asked.allowed().min(left.len() as u64);
        let expected = (leaves_out < allowed).then(|| match is_last {
            false => &left[leaves_out as usize],
            true => &left[left.len() - 1 - leaves_out as usize],
        });
        let shown = |pair: &Pair| match stream.asked.keys_only {
            true => (pair.0.clone(), Vec::new()),
            false => pair.clone(),
        };
        agree("the next pair", &found, &expected.map(shown))?;
        let Some(pair) = expected else {
            self.streams.swap_remove(n);
            return Ok(());
        };
        let asked = &mut stream.asked;
        if is_last {
            asked.high = Some(pair.clone())
        } else {
            asked.low = Some(pair.clone())
        }
        asked.taken += leaves_out + 1;
        stream.since += leaves_out + 1;
        stream.given += leaves_out + 1;
        if S::COUNTS {
            let expected = allowed - leaves_out - 1;
            agree("what is left", &stream.pairs.remaining(), &Some(expected))?;
        }
        agree("how many were given", &stream.pairs.given(), &stream.given)?;
        let token = stream.pairs.token()?;
        let end = if stream.asked.is_reverse { &stream.asked.high } else { &stream.asked.low };
        let key = |position: &Position| position.key.clone();
        let expected = end.as_ref().map(|pair| pair.0.clone());
        agree("the key of a token", &token.after().map(key), &expected)
    }
}
