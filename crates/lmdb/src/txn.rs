//! Transactions: what they may do, and how they are nested. What a handle means in one is in
//! `tables`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use hedgerow::tree::AnyTxn as Body;
use hedgerow::tree::{Interrupt, Savepoint};
use hedgerow::{Error, on_txn};

use crate::abi::*;
use crate::arena::Arena;
use crate::code::{Answer, Code, code_of, is_harmless};
use crate::env::Env;
use crate::ffi::tracked::Tracked;
use crate::handles::View;
use crate::main_db::Names;
use crate::readers::{Slot, Taken};

mod tables;

/// `MDB_txn`.
pub(crate) struct Txn {
    pub(crate) env: Arc<Env>,
    /// MDB_RDONLY, MDB_NOSYNC, MDB_NOMETASYNC, and what follows.
    pub(crate) flags: u32,
    /// The engine's transaction; none where it is over, or where a child has borrowed it.
    pub(crate) body: Body,
    pub(crate) arena: Arena,
    /// What its handles mean; empty when it has ended or was reset.
    pub(crate) views: Vec<View>,
    known: Known,
    pub(crate) interrupt: Interrupt,
    pub(crate) cursors: Tracked,
    pub(crate) family: Family,
    pub(crate) names: Names,
    /// Copies of a write's arguments, which may lie where it writes.
    pub(crate) scratch: Vec<u8>,
    reader: Option<Arc<Slot>>,
}

/// It was reset, or is over.
pub(crate) const FINISHED: u32 = 0x01;
/// A write failed: it can only be aborted.
pub(crate) const FAILED: u32 = 0x02;
/// It has ended, and waits in its slot for the next one to begin.
const WAITS: u32 = 0x04;
/// It has a child, which has to end first.
pub(crate) const HAS_CHILD: u32 = 0x10;
/// It may do nothing.
pub(crate) const BLOCKED: u32 = FINISHED | FAILED | HAS_CHILD;

/// What a read transaction knows of the handles, for when it goes on after a reset or its end.
struct Known {
    /// The version of the handles that its views are of.
    version: u64,
    /// The views, until it goes on.
    views: Vec<View>,
}

/// Parent and child of a write transaction. The addresses are followed by the functions of the
/// interface only.
pub(crate) struct Family {
    pub(crate) parent: *mut Txn,
    pub(crate) child: *mut Txn,
    /// Where a child began.
    pub(crate) savepoint: Option<Savepoint>,
}

impl Family {
    const NONE: Self =
        Self { parent: std::ptr::null_mut(), child: std::ptr::null_mut(), savepoint: None };
}

/// Runs an expression on the engine's transaction, whichever kind it is.
macro_rules! on_body {
    ($body:expr, $txn:ident => $run:expr) => {
        hedgerow::on_txn!($body, $txn => $run, else return Err(MDB_BAD_TXN.into()))
    };
}
pub(crate) use on_body;

impl Txn {
    fn new(env: Arc<Env>, flags: u32, body: Body) -> Answer<Self> {
        let mut views = Vec::new();
        let version = env.handles.views(&mut views);
        let interrupt = env.opened()?.interrupt.clone();
        Ok(Self {
            env,
            flags,
            body,
            arena: Arena::new(),
            views,
            known: Known { version, views: Vec::new() },
            interrupt,
            cursors: Tracked::default(),
            family: Family::NONE,
            names: Names::default(),
            scratch: Vec::new(),
            reader: None,
        })
    }

    /// Begins a transaction without a parent.
    pub(crate) fn begin(env: &Arc<Env>, flags: u32) -> Answer<Box<Self>> {
        if flags & MDB_RDONLY == 0 {
            let txn = env.begin_write(flags)?;
            env.is_writing.store(true, Ordering::Release);
            let txn = Self::new(Arc::clone(env), flags, Body::Write(Box::new(txn)))?;
            return Ok(Box::new(txn));
        }
        let (reader, waiting) = take_reader(env)?;
        let begun = match waiting {
            Some(mut txn) => txn.go_on(flags).map(|()| txn),
            None => Self::begin_read(env, flags),
        };
        match begun {
            Ok(mut txn) => {
                reader.reads(txn.id());
                txn.reader = Some(reader);
                Ok(txn)
            }
            Err(code) => {
                reader.rest(None);
                give_reader(env, &reader);
                Err(code)
            }
        }
    }

    fn begin_read(env: &Arc<Env>, flags: u32) -> Answer<Box<Self>> {
        let txn = env.opened()?.store.begin_read().map_err(|e| code_of(&e))?;
        Ok(Box::new(Self::new(Arc::clone(env), flags, Body::Read(Box::new(txn)))?))
    }

    /// Takes the newest snapshot for one that reads and is at rest. Where nothing was committed and
    /// no handle has changed, what it knows of its tables stays.
    fn go_on(&mut self, flags: u32) -> Answer {
        let Body::Read(txn) = &mut self.body else { return Err(libc::EINVAL) };
        let is_same = match self.known.version == self.env.handles.version() {
            true => txn.refresh(),
            false => txn.renew().map(|()| false),
        };
        let is_same = is_same.map_err(|e| code_of(&e))?;
        std::mem::swap(&mut self.views, &mut self.known.views);
        if !is_same {
            self.known.version = self.env.handles.views(&mut self.views);
        }
        self.flags = flags;
        Ok(())
    }

    /// Begins a child. The parent's body goes over to it.
    pub(crate) fn begin_child(&mut self, flags: u32) -> Answer<Self> {
        let Body::Write(txn) = &mut self.body else { return Err(MDB_BAD_TXN) };
        let savepoint = txn.savepoint().map_err(|e| code_of(&e))?;
        let body = std::mem::take(&mut self.body);
        let mut child = Self::new(Arc::clone(&self.env), flags, body)?;
        child.views.clone_from(&self.views);
        for view in &mut child.views {
            view.state &= !View::NEW;
        }
        child.cursors = std::mem::take(&mut self.cursors);
        child.cursors.save();
        child.arena.note_given(self.arena.has_given());
        child.family.savepoint = Some(savepoint);
        self.flags |= HAS_CHILD;
        Ok(child)
    }

    /// Gives body and cursors of a child, which has ended, back.
    pub(crate) fn take_back(&mut self, child: &mut Self) {
        self.body = std::mem::take(&mut child.body);
        self.cursors = std::mem::take(&mut child.cursors);
        self.arena.note_given(child.arena.has_given());
        self.family.child = std::ptr::null_mut();
        self.flags &= !HAS_CHILD;
        self.names.forget();
    }

    /// Keeps what a child did. The caller then hands its parent what [`Txn::take_back`] takes.
    pub(crate) fn commit_child(&mut self, parent: &mut Self) -> Answer {
        if self.flags & (FINISHED | FAILED) != 0 {
            parent.flags |= FAILED;
            return Err(MDB_BAD_TXN);
        }
        if self.interrupt.is_set() {
            return Err(libc::EINTR);
        }
        if let (Body::Write(txn), Some(savepoint)) = (&mut self.body, self.family.savepoint.take())
        {
            txn.release(savepoint).map_err(|e| code_of(&e))?;
        }
        for (dbi, view) in self.views.iter().enumerate() {
            match parent.views.get_mut(dbi) {
                Some(old) => *old = View { state: view.state | old.state & View::NEW, ..*view },
                None => parent.views.push(*view),
            }
        }
        // They are the parent's now.
        self.views.clear();
        Ok(())
    }

    /// Undoes what a child did.
    pub(crate) fn abort_child(&mut self) -> Answer {
        self.close_new_handles();
        if let (Body::Write(txn), Some(savepoint)) = (&mut self.body, self.family.savepoint.take())
        {
            let undone = txn.rollback_to(savepoint).and_then(|()| txn.release(savepoint));
            undone.map_err(|e| code_of(&e))?;
        }
        Ok(())
    }

    /// Commits a transaction without a parent; the transaction has ended, whatever the result.
    pub(crate) fn commit(&mut self) -> Answer {
        let refused = self.flags & (FINISHED | FAILED) != 0;
        match std::mem::take(&mut self.body) {
            Body::Write(_) if refused => {
                self.end(false);
                Err(MDB_BAD_TXN)
            }
            Body::Write(txn) => {
                let durability = self.env.durability(self.flags);
                let done = txn.commit_with(durability).map_err(|e| code_of(&e));
                self.end(done.is_ok());
                done
            }
            body => {
                self.body = body;
                self.end(true);
                Ok(())
            }
        }
    }

    /// Ends a transaction without a parent; with `keep` the handles that it opened stay open.
    pub(crate) fn end(&mut self, keep: bool) {
        if keep {
            self.keep_new_handles();
        } else {
            self.close_new_handles();
        }
        if self.flags & MDB_RDONLY == 0 {
            self.body = Body::None;
            self.env.is_writing.store(false, Ordering::Release);
        }
        self.rest();
    }

    /// Lets its snapshot go, and what it has handed out.
    fn rest(&mut self) {
        if self.flags & FINISHED != 0 {
            return;
        }
        if let Body::Read(txn) = &mut self.body {
            self.cursors.rest(txn);
            txn.reset();
        }
        std::mem::swap(&mut self.views, &mut self.known.views);
        self.views.clear();
        self.env.keep_newest(&mut self.arena);
        self.arena.clear();
        self.names.forget();
        self.flags |= FINISHED;
    }

    /// After the end: one that read waits in its slot for the next one to begin.
    pub(crate) fn wait(mut self: Box<Self>) {
        let Some(reader) = self.reader.take() else { return };
        let (is_closed, gives) = (self.env.is_closed(), self.env.has_slots_of_transactions());
        let env = gives.then(|| Arc::clone(&self.env));
        self.flags |= WAITS;
        reader.rest((!is_closed).then_some(self));
        if let Some(env) = env {
            give_reader(&env, &reader);
        }
    }

    /// Whether it waits, which its program takes for gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.flags & WAITS != 0
    }

    /// Whether it has nothing that is one thread's alone.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_alone = self.family.parent.is_null() && self.family.child.is_null();
        self.flags & FINISHED != 0 && is_alone && self.cursors.is_empty()
    }

    /// Lets the snapshot of a read transaction go.
    pub(crate) fn reset(&mut self) {
        if self.flags & FINISHED != 0 {
            return;
        }
        self.close_new_handles();
        self.rest();
        self.leave_reader();
    }

    /// Its slot is at rest. A thread's slot may belong to another transaction by now.
    fn leave_reader(&mut self) {
        if let Some(reader) = &self.reader {
            reader.rest(None);
            if !self.env.has_slots_of_transactions() {
                self.reader = None;
            }
        }
    }

    /// Takes the newest snapshot after a reset.
    pub(crate) fn renew(&mut self) -> Answer {
        if self.flags & (MDB_RDONLY | FINISHED) != MDB_RDONLY | FINISHED {
            return Err(libc::EINVAL);
        }
        match &self.reader {
            Some(reader) => drop(reader.wake()?),
            None => self.reader = Some(take_reader(&self.env)?.0),
        }
        self.go_on(self.flags & !BLOCKED).inspect_err(|_| self.leave_reader())?;
        if let Some(reader) = &self.reader {
            reader.reads(self.id());
        }
        Ok(())
    }

    /// The number of the commit that it reads, or that its own will have.
    pub(crate) fn id(&self) -> u64 {
        on_txn!(&self.body, txn => shown_id(txn.id()), else 0)
    }

    /// The code of a failure; one that is not about arguments leaves the transaction failed.
    #[cold]
    pub(crate) fn fail(&mut self, error: &Error) -> Code {
        if !is_harmless(error) {
            self.flags |= FAILED;
        }
        code_of(error)
    }

    /// As [`Txn::fail`], and lets the error go.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_by(&mut self, error: Error) -> Code {
        self.fail(&error)
    }

    /// Refuses what a transaction may not do that has failed, has ended or has a child; and stops
    /// at the interruption flag.
    #[inline(always)]
    pub(crate) fn check(&mut self) -> Answer {
        if self.flags & BLOCKED != 0 {
            return Err(MDB_BAD_TXN);
        }
        if self.interrupt.is_set() {
            self.flags |= FAILED;
            return Err(libc::EINTR);
        }
        Ok(())
    }

    /// Whether [`Txn::check`] has nothing to refuse.
    #[inline(always)]
    pub(crate) fn goes_on(&self) -> bool {
        self.flags & BLOCKED == 0 && !self.interrupt.is_set()
    }

    /// As [`Txn::check`], and refuses writing where it is not allowed.
    #[inline(always)]
    pub(crate) fn check_write(&mut self) -> Answer {
        if self.flags & MDB_RDONLY != 0 {
            return Err(libc::EACCES);
        }
        self.check()
    }

    /// Runs a call that hands out strings which `memory`, if there is one, keeps in place of the
    /// transaction's own until the next such call.
    pub(crate) fn with_memory<R>(
        &mut self,
        memory: Option<&mut Arena>,
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let Some(memory) = memory else { return run(self) };
        memory.rewind();
        std::mem::swap(&mut self.arena, memory);
        let result = run(self);
        std::mem::swap(&mut self.arena, memory);
        self.arena.note_given(memory.has_given());
        result
    }
}

/// The number of a commit as LMDB counts: 0 is the empty store, whose making took three numbers.
pub(crate) fn shown_id(number: u64) -> u64 {
    number.saturating_sub(3)
}

/// A slot for a reader. Where the program does without the table of readers there may be any number
/// of them.
fn take_reader(env: &Env) -> Answer<Taken> {
    let (most, readers) = (env.readers_max() as usize, &env.opened()?.readers);
    match env.has_slots_of_transactions() {
        true if env.flags() & MDB_NOLOCK != 0 => readers.take(usize::MAX),
        true => readers.take(most),
        false => readers.take_mine(most),
    }
}

/// The slot of a thread stays with it, that of a transaction is given back.
fn give_reader(env: &Env, reader: &Arc<Slot>) {
    if env.has_slots_of_transactions()
        && let Some(opened) = env.open.get()
    {
        opened.newest().readers.give(reader, false);
    }
}
