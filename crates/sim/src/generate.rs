//! The stream of operations of a seed: phases that grow, shrink, churn, read and measure tables,
//! inside transactions of every length.
//!
//! The stream depends on seed and configuration only, never on the state of a run, so that any
//! part of it may be left out.

use crate::config::Config;
use crate::op::{
    Change, Commit, Control, CursorWrite, Edge, Misuse, Move, Op, PairEdge, Read, View, Write,
};
use crate::rng::Rng;

/// How many readers may be held.
pub const READERS: u8 = 4;
/// How many cursors a transaction may have.
pub const CURSORS: u8 = 6;

/// What a phase is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Grow,
    Append,
    Shrink,
    Churn,
    Cursors,
    Statistics,
    Scans,
}

/// How long things take in a stream.
#[derive(Debug)]
struct Pace {
    /// Operations of a phase, at least and at most.
    phase: (usize, usize),
    /// One operation in this many ends a transaction.
    txn_every: &'static [u64],
    /// One operation in this many outside of a transaction begins one.
    begin_every: u64,
    /// One operation in this many is about transactions, readers and the store: inside of a
    /// transaction, and outside.
    control_every: (u64, u64),
    /// Nothing is asked that changes nothing.
    only_writes: bool,
}

/// Tables of every size, and every question about them.
static THOROUGH: Pace = Pace {
    phase: (200, 12_000),
    txn_every: &[12, 60, 300, 1500, 6000],
    begin_every: 6,
    control_every: (150, 12),
    only_writes: false,
};

/// Many small transactions of all kinds in few operations.
static BRISK: Pace = Pace {
    phase: (8, 50),
    txn_every: &[2, 4, 8, 30],
    begin_every: 2,
    control_every: (9, 3),
    only_writes: true,
};

/// The operations of a seed, without end.
#[derive(Debug)]
pub struct Generator<'c> {
    config: &'c Config,
    pace: &'static Pace,
    rng: Rng,
    theme: Theme,
    /// Operations left in this phase.
    left: u32,
    /// The table that this phase is about.
    table: u8,
    /// One operation in this many ends or begins a transaction.
    txn_every: u64,
    /// Where a run of neighbouring keys has got to.
    next_key: u32,
    /// Whether the last operation that began or ended a transaction began it.
    in_txn: bool,
}

impl<'c> Generator<'c> {
    /// The operations of a configuration's seed.
    pub fn new(config: &'c Config) -> Self {
        Self::at(config, &THOROUGH, Rng::new(config.seed, 2))
    }

    /// Few operations that change much, in many small transactions.
    pub fn brisk(config: &'c Config, rng: Rng) -> Self {
        Self::at(config, &BRISK, rng)
    }

    /// As [`Generator::brisk`], beginning inside of a transaction that is open already.
    pub fn brisk_inside(config: &'c Config, rng: Rng) -> Self {
        Self { in_txn: true, ..Self::brisk(config, rng) }
    }

    fn at(config: &'c Config, pace: &'static Pace, rng: Rng) -> Self {
        Self {
            config,
            pace,
            rng,
            theme: Theme::Grow,
            left: 0,
            table: 0,
            txn_every: 1,
            next_key: 0,
            in_txn: false,
        }
    }

    fn begin_phase(&mut self) {
        self.theme = self.rng.weighted(&[
            (6, Theme::Grow),
            (2, Theme::Append),
            (4, Theme::Shrink),
            (6, Theme::Churn),
            (4, Theme::Cursors),
            (3, Theme::Statistics),
            (2, Theme::Scans),
        ]);
        self.left = self.rng.between(self.pace.phase.0, self.pace.phase.1) as u32;
        self.table = self.rng.index(self.config.tables.len()) as u8;
        self.txn_every = self.rng.pick(self.pace.txn_every);
        self.next_key = self.key(self.table);
    }

    fn any_table(&mut self) -> u8 {
        if self.rng.chance(4, 5) {
            self.table
        } else {
            self.rng.index(self.config.tables.len()) as u8
        }
    }

    /// A key: half of the time any key, otherwise one near the last such key, so that neighbours
    /// meet.
    fn key(&mut self, table: u8) -> u32 {
        let keys = self.config.tables[usize::from(table)].keys.len() as u32;
        if table == self.table && self.rng.chance(1, 2) {
            self.next_key = (self.next_key + self.rng.below(4) as u32) % keys;
            self.next_key
        } else {
            self.rng.below(u64::from(keys)) as u32
        }
    }

    fn value(&mut self, table: u8) -> u32 {
        self.rng.index(self.config.tables[usize::from(table)].values.len()) as u32
    }

    fn edge(&mut self, table: u8) -> Edge {
        let key = self.key(table);
        self.rng.weighted(&[(1, Edge::Open), (4, Edge::Included(key)), (4, Edge::Excluded(key))])
    }

    /// Two edges that are in order most of the time.
    fn edges(&mut self, table: u8) -> (Edge, Edge) {
        let (low, high) = (self.edge(table), self.edge(table));
        let number = |edge: Edge| match edge {
            Edge::Open => None,
            Edge::Included(key) | Edge::Excluded(key) => Some(key),
        };
        match (number(low), number(high)) {
            (Some(a), Some(b)) if a > b && self.rng.chance(7, 8) => (high, low),
            _ => (low, high),
        }
    }

    fn pair_edge(&mut self, table: u8) -> PairEdge {
        let (key, value) = (self.key(table), self.value(table));
        self.rng.weighted(&[
            (1, PairEdge::Open),
            (4, PairEdge::Included(key, value)),
            (4, PairEdge::Excluded(key, value)),
        ])
    }

    fn view(&mut self) -> View {
        if self.rng.chance(4, 5) {
            View::Writer
        } else {
            View::Reader(self.rng.index(usize::from(READERS)) as u8)
        }
    }

    fn position(&mut self) -> u32 {
        self.rng.below(66_000) as u32
    }

    fn control(&mut self) -> Op {
        let slot = self.rng.index(usize::from(READERS)) as u8;
        let table = self.any_table();
        let other = self.rng.index(self.config.tables.len()) as u8;
        let small = self.rng.index(4) as u8;
        let other_name = self.rng.chance(1, 3).then_some(other);
        let view = self.view();
        let compact = self.rng.chance(1, 2);
        if self.pace.only_writes {
            return Op::Control(self.rng.weighted(&[
                (20, Control::BeginNested),
                (20, Control::Savepoint),
                (12, Control::RollbackTo(small)),
                (6, Control::Release(small)),
                (12, Control::BeginRead(slot)),
                (8, Control::EndRead(slot)),
                (3, Control::Renew(slot)),
                (6, Control::Create(table)),
                (5, Control::DropTable(table)),
                (6, Control::Rename(table, other_name)),
                (5, Control::Clear(table)),
                (12, Control::Sync),
                (8, Control::Compact),
                (1, Control::Copy(compact)),
                (10, Control::Reopen),
            ]));
        }
        Op::Control(self.rng.weighted(&[
            (60, Control::BeginNested),
            (60, Control::Savepoint),
            (30, Control::RollbackTo(small)),
            (20, Control::Release(small)),
            (8, Control::TryBeginWrite),
            (60, Control::BeginRead(slot)),
            (30, Control::EndRead(slot)),
            (12, Control::Reset(slot)),
            (20, Control::Renew(slot)),
            (20, Control::Tables(view)),
            (20, Control::Create(table)),
            (1, Control::DropTable(table)),
            (4, Control::Rename(table, other_name)),
            (2, Control::Clear(table)),
            (3, Control::Sync),
            (3, Control::Stat),
            (1, Control::Check),
            (1, Control::Compact),
            (1, Control::Copy(compact)),
            (2, Control::Reopen),
        ]))
    }

    /// The beginning or the end of a transaction, whichever is due.
    fn turn(&mut self) -> Op {
        self.in_txn = !self.in_txn;
        if self.in_txn {
            return Op::Control(Control::BeginWrite);
        }
        let group = Commit::Group(self.rng.between(1, 3) as u8, self.rng.next_u64() as u32);
        Op::Control(self.rng.weighted(&[
            (1, Control::Commit(group)),
            (8, Control::Commit(Commit::Default)),
            (3, Control::Commit(Commit::Durable)),
            (3, Control::Commit(Commit::Eventual)),
            (3, Control::Commit(Commit::None)),
            (2, Control::Abort),
            (1, Control::Drop),
        ]))
    }

    fn grow(&mut self) -> Op {
        let table = self.any_table();
        let (key, value) = (self.key(table), self.value(table));
        Op::Write(
            table,
            self.rng.weighted(&[
                (20, Write::Put(key, value)),
                (3, Write::PutNew(key, value)),
                (5, Write::PutPair(key, value)),
                (2, Write::Replace(key, value)),
                (1, Write::Append(key, value)),
                (1, Write::AppendNext(1, value)),
                (2, Write::Reserve(key, value)),
                (1, Write::WriteParts(key, value)),
                (2, Write::Update(key, Change::Put(value))),
            ]),
        )
    }

    fn append(&mut self) -> Op {
        let table = self.table;
        let step = self.rng.between(1, 3) as u32;
        let value = self.value(table);
        Op::Write(table, Write::AppendNext(step, value))
    }

    fn shrink(&mut self) -> Op {
        let table = self.any_table();
        let (key, value) = (self.key(table), self.value(table));
        let (low, high) = self.edges(table);
        let position = self.position();
        Op::Write(
            table,
            self.rng.weighted(&[
                (200, Write::Delete(key)),
                (300, Write::DeleteNth(position)),
                (100, Write::DeletePair(key, value)),
                (30, Write::Update(key, Change::Delete)),
                (10, Write::Update(key, Change::Keep)),
                (1, Write::DeleteRange(low, high)),
                (20, Write::DeleteRange(Edge::Included(key), Edge::Excluded(key + 3))),
            ]),
        )
    }

    fn read(&mut self, view: View) -> Op {
        let table = self.any_table();
        let (key, value) = (self.key(table), self.value(table));
        let few = self.rng.below(40) as u32;
        let (low, high) = self.edges(table);
        let pattern = self.rng.pick(&[0, u32::MAX, 0xaaaa_aaaa, 0x0f0f_1234]);
        let limit = self.rng.between(1, 60) as u16;
        let part = self.rng.below(256) as u8;
        let range = Read::Range { low, high, pattern, limit };
        let read = self.rng.weighted(&[
            (40, Read::Get(key)),
            (10, Read::ContainsPair(key, value)),
            (3, Read::GetMany { from: key, step: 1 + few / 8, count: few }),
            (6, Read::ForEachValue(key)),
            (4, Read::ValueReader(key, part)),
            (6, range),
        ]);
        Op::Read(view, table, read)
    }

    fn statistic(&mut self, view: View) -> Op {
        let table = self.any_table();
        let (key, value) = (self.key(table), self.value(table));
        let (low, high) = self.edges(table);
        let (low_pair, high_pair) = (self.pair_edge(table), self.pair_edge(table));
        let position = self.position();
        let few = self.rng.between(0, 30) as u16;
        let seed = self.rng.next_u64() as u32;
        let read = self.rng.weighted(&[
            (40, Read::Count),
            (60, Read::CountRange(low, high)),
            (60, Read::CountPairs(low_pair, high_pair)),
            (60, Read::CountValues(key)),
            (60, Read::Nth(position)),
            (60, Read::NthKey(position)),
            (60, Read::Rank(key)),
            (60, Read::RankPair(key, value)),
            (6, Read::Sample(few)),
            (6, Read::SampleRandom(few, seed)),
            (6, Read::Split(few + 1)),
            (4, Read::Info),
        ]);
        Op::Read(view, table, read)
    }

    fn cursor(&mut self, view: View) -> Op {
        let table = self.any_table();
        let (key, value) = (self.key(table), self.value(table));
        let slot = self.rng.index(usize::from(CURSORS)) as u8;
        let other = self.rng.index(usize::from(CURSORS)) as u8;
        let position = self.position();
        let step = self.rng.weighted(&[
            (20, Move::Open(table)),
            (5, Move::CopyOf(other)),
            (10, Move::First),
            (10, Move::Last),
            (150, Move::Next),
            (100, Move::Prev),
            (30, Move::NextKey),
            (30, Move::PrevKey),
            (20, Move::NextValue),
            (20, Move::PrevValue),
            (10, Move::FirstValue),
            (10, Move::LastValue),
            (60, Move::Current),
            (30, Move::Seek(key)),
            (40, Move::SeekAtOrAfter(key)),
            (40, Move::SeekAtOrBefore(key)),
            (20, Move::SeekPair(key, value)),
            (20, Move::SeekValue(key, value)),
            (20, Move::SeekNth(position)),
            (10, Move::ValueCount),
        ]);
        Op::Cursor(view, slot, step)
    }

    fn cursor_write(&mut self) -> Op {
        // The table of the slot's cursor is not known here: operands may lie outside of its pools
        // and are brought inside by the runner.
        let (key, value) = (self.key(self.table), self.value(self.table));
        let slot = self.rng.index(usize::from(CURSORS)) as u8;
        let write = self.rng.weighted(&[
            (30, CursorWrite::Put(key, value)),
            (20, CursorWrite::PutCurrent(value)),
            (30, CursorWrite::Delete),
            (5, CursorWrite::DeleteKey),
        ]);
        Op::CursorWrite(slot, write)
    }

    fn misuse(&mut self) -> Op {
        let table = self.any_table();
        let misuse = self.rng.pick(&[
            Misuse::LongKey,
            Misuse::IntegerKey,
            Misuse::DuplicateValue,
            Misuse::WrongKind,
            Misuse::StaleTable,
            Misuse::StaleCursor,
            Misuse::NoTable,
            Misuse::OtherOptions,
        ]);
        Op::Misuse(table, misuse)
    }

    /// The weights of a theme: grow, append, shrink, read, statistic, cursor, write by cursor.
    fn kinds(&self) -> [u32; 7] {
        if self.pace.only_writes {
            return match self.theme {
                Theme::Grow => [70, 0, 6, 0, 0, 3, 2],
                Theme::Append => [4, 80, 2, 0, 0, 2, 1],
                Theme::Shrink => [8, 0, 70, 0, 0, 4, 5],
                _ => [35, 2, 33, 0, 0, 8, 6],
            };
        }
        match self.theme {
            Theme::Grow => [70, 0, 6, 8, 4, 5, 2],
            Theme::Append => [4, 80, 2, 4, 4, 4, 1],
            Theme::Shrink => [5, 0, 70, 6, 4, 5, 5],
            Theme::Churn => [35, 2, 33, 12, 6, 8, 4],
            Theme::Cursors => [10, 0, 10, 3, 2, 60, 20],
            Theme::Statistics => [12, 0, 12, 5, 60, 4, 2],
            Theme::Scans => [6, 0, 6, 30, 4, 54, 2],
        }
    }
}

impl Iterator for Generator<'_> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.left == 0 {
            self.begin_phase();
        }
        self.left -= 1;
        // Outside of a transaction little happens, so the way in is short.
        let due = if self.in_txn { self.txn_every } else { self.pace.begin_every };
        if self.rng.chance(1, due) {
            return Some(self.turn());
        }
        let (inside, outside) = self.pace.control_every;
        if self.rng.chance(1, if self.in_txn { inside } else { outside }) {
            return Some(self.control());
        }
        if !self.pace.only_writes && self.rng.chance(1, 800) {
            return Some(self.misuse());
        }
        if !self.pace.only_writes && self.rng.chance(1, 20_000) {
            let (view, table) = (self.view(), self.any_table());
            return Some(Op::Read(view, table, Read::Scan));
        }
        let [grow, append, shrink, read, statistic, cursor, cursor_write] = self.kinds();
        let view = self.view();
        let kind = self.rng.weighted(&[
            (grow, 0),
            (append, 1),
            (shrink, 2),
            (read, 3),
            (statistic, 4),
            (cursor, 5),
            (cursor_write, 6),
        ]);
        Some(match kind {
            0 => self.grow(),
            1 => self.append(),
            2 => self.shrink(),
            3 => self.read(view),
            4 => self.statistic(view),
            5 => self.cursor(view),
            _ => self.cursor_write(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brisk_stream_changes_and_commits() {
        let config = Config::small(4);
        let ops: Vec<Op> = Generator::brisk(&config, Rng::new(4, 12)).take(2000).collect();
        assert!(!ops.iter().any(|op| matches!(op, Op::Read(..) | Op::Misuse(..))));
        let commits = ops.iter().filter(|op| matches!(op, Op::Control(Control::Commit(_))));
        assert!(commits.count() > 100);
        for wanted in [Control::Sync, Control::Compact, Control::Reopen, Control::BeginNested] {
            assert!(ops.contains(&Op::Control(wanted)), "{wanted:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_operations_again() {
        let config = Config::new(4);
        let first: Vec<Op> = Generator::new(&config).take(5000).collect();
        let second: Vec<Op> = Generator::new(&config).take(5000).collect();
        assert_eq!(first, second);
        assert!(first.contains(&Op::Control(Control::BeginWrite)));
        assert!(first.iter().any(|op| matches!(op, Op::Write(..))));
        assert!(first.iter().any(|op| matches!(op, Op::Cursor(..))));
    }
}
