//! The queue for the writer's turn of a process: its waiters, in order, and what each is given.
//! It knows nothing of what a group is.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::Result;
use crate::sync::{Condvar, Mutex, locked};

/// At most this often other threads take the turn before the thread that has waited longest.
pub(super) const PASSED_MAX: u32 = 64;
/// The interval in which a waiter looks at the interruption flag, which a signal handler may raise
/// and which therefore wakes no thread.
pub(super) const ROUND: Duration = Duration::from_millis(20);

/// The threads of this process that wait for the writer's turn.
pub(crate) struct Queue<G> {
    seats: Mutex<Seats<G>>,
}

struct Seats<G> {
    /// A thread has the turn.
    taken: bool,
    /// It, or one of this group before it, has it for a transaction.
    is_writing: bool,
    waiting: VecDeque<Arc<Seat<G>>>,
    /// Whether the first of them was told that the turn is free, and did not look yet.
    told: bool,
    /// How often others took the turn since the first of them has been told so.
    passed: u32,
}

/// Where a thread waits, and where it finds the turn.
struct Seat<G> {
    /// Whether it may be handed a group.
    joins: bool,
    call: Mutex<Call<G>>,
    called: Condvar,
}

/// The message to a waiter.
enum Call<G> {
    Nothing,
    /// The turn is free, unless another thread takes it.
    Free,
    /// It has the turn.
    Turn(Entry<G>),
}

/// How a thread came to its turn.
pub(crate) enum Entry<G> {
    /// With nothing.
    Alone,
    /// With the changed pages of those before.
    Joined(G),
}

impl<G> Queue<G> {
    pub(crate) fn new() -> Self {
        let (taken, is_writing, waiting) = (false, false, VecDeque::new());
        let seats = Seats { taken, is_writing, waiting, told: false, passed: 0 };
        Self { seats: Mutex::new(seats) }
    }

    /// Takes the turn if it is free.
    pub(crate) fn try_enter(&self) -> bool {
        let mut seats = locked(&self.seats);
        !std::mem::replace(&mut seats.taken, true)
    }

    /// Waits for the turn as long as `patience` is true; `None` if it ends. Only a thread that
    /// `joins` is handed a group.
    pub(crate) fn enter(
        &self,
        joins: bool,
        mut patience: impl FnMut() -> Result<bool>,
    ) -> Result<Option<Entry<G>>> {
        let seat = {
            let mut seats = locked(&self.seats);
            if !std::mem::replace(&mut seats.taken, true) {
                return Ok(Some(Entry::Alone));
            }
            let call = Mutex::new(Call::Nothing);
            let seat = Arc::new(Seat { joins, call, called: Condvar::new() });
            seats.waiting.push_back(Arc::clone(&seat));
            seat
        };
        loop {
            match seat.wait() {
                Call::Turn(entry) => return Ok(Some(entry)),
                Call::Free if self.take_free(&seat) => return Ok(Some(Entry::Alone)),
                Call::Free | Call::Nothing => {}
            }
            let goes_on = patience();
            if !matches!(goes_on, Ok(true)) && self.give_up(&seat) {
                return goes_on.map(|_| None);
            }
        }
    }

    /// Takes the turn from the seat that was told that it is free; false if another was faster.
    fn take_free(&self, seat: &Arc<Seat<G>>) -> bool {
        let mut seats = locked(&self.seats);
        let is_first = seats.waiting.front().is_some_and(|first| Arc::ptr_eq(first, seat));
        if !is_first {
            return false;
        }
        seats.told = false;
        if std::mem::replace(&mut seats.taken, true) {
            return false;
        }
        seats.next();
        true
    }

    /// Leaves the seat; false if its thread has just been called, so that it has the turn.
    fn give_up(&self, seat: &Arc<Seat<G>>) -> bool {
        let mut seats = locked(&self.seats);
        let at = seats.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, seat));
        let Some(at) = at else { return false };
        if at > 0 {
            seats.waiting.remove(at);
            return true;
        }
        seats.next();
        if !seats.taken {
            // The next waiter was not told that the turn is free.
            seats.tell_first();
        }
        true
    }

    /// Notes that the thread that has the turn has it for a transaction.
    pub(crate) fn note_writing(&self) {
        locked(&self.seats).is_writing = true;
    }

    /// Whether the turn is taken for a transaction, and not for a flush.
    pub(crate) fn is_writing(&self) -> bool {
        locked(&self.seats).is_writing
    }

    /// How many threads wait for the turn.
    #[cfg(feature = "testing")]
    pub(crate) fn waiting(&self) -> usize {
        locked(&self.seats).waiting.len()
    }

    /// Whether the thread that comes next would join a group.
    pub(crate) fn next_joins(&self) -> bool {
        locked(&self.seats).waiting.front().is_some_and(|seat| seat.joins)
    }

    /// Gives the turn and a group to the next thread; gives the group back if there is none that
    /// joins.
    pub(crate) fn hand_over(&self, group: G) -> Option<G> {
        let mut seats = locked(&self.seats);
        if !seats.waiting.front().is_some_and(|seat| seat.joins) {
            return Some(group);
        }
        match seats.next() {
            Some(seat) => {
                seat.call(Call::Turn(Entry::Joined(group)));
                None
            }
            None => Some(group),
        }
    }

    /// Frees the turn for any thread, and calls the next waiter; a waiter that was passed by too
    /// often gets the turn itself.
    pub(crate) fn leave(&self) {
        let mut seats = locked(&self.seats);
        seats.is_writing = false;
        if seats.passed >= PASSED_MAX
            && let Some(seat) = seats.next()
        {
            seat.call(Call::Turn(Entry::Alone));
            return;
        }
        seats.taken = false;
        seats.tell_first();
    }
}

impl<G> Seats<G> {
    /// Takes the first seat out of the queue.
    fn next(&mut self) -> Option<Arc<Seat<G>>> {
        (self.told, self.passed) = (false, 0);
        self.waiting.pop_front()
    }

    /// Tells the first waiter that the turn is free; only once, until it looks.
    fn tell_first(&mut self) {
        let Some(first) = self.waiting.front() else { return };
        self.passed += 1;
        if !std::mem::replace(&mut self.told, true) {
            first.call(Call::Free);
        }
    }
}

impl<G> Seat<G> {
    /// Waits a round for a call.
    fn wait(&self) -> Call<G> {
        let nothing = |call: &mut Call<G>| matches!(call, Call::Nothing);
        let waited = self.called.wait_timeout_while(locked(&self.call), ROUND, nothing);
        let mut call = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::replace(&mut *call, Call::Nothing)
    }

    fn call(&self, call: Call<G>) {
        *locked(&self.call) = call;
        self.called.notify_one();
    }
}

#[cfg(test)]
mod tests {
    //! The queue: order, handing over, and waiters that do not join.

    use super::*;
    use crate::Error;

    #[test]
    fn the_turn_is_taken_once() {
        let queue = Queue::<u32>::new();
        assert!(queue.try_enter());
        assert!(!queue.try_enter());
        queue.leave();
        assert!(queue.try_enter());
    }

    /// Starts a thread and returns when it waits as the `n`-th.
    fn wait_as<'s>(
        scope: &'s std::thread::Scope<'s, '_>,
        queue: &'s Queue<u32>,
        joins: bool,
        n: usize,
    ) -> std::thread::ScopedJoinHandle<'s, Option<u32>> {
        let thread = scope.spawn(move || match queue.enter(joins, || Ok(true)).ok()?? {
            Entry::Alone => None,
            Entry::Joined(group) => Some(group),
        });
        while locked(&queue.seats).waiting.len() < n {
            std::thread::yield_now();
        }
        thread
    }

    #[test]
    fn waiters_come_in_order_and_only_those_who_join_get_the_group() {
        let queue = Queue::new();
        assert!(queue.try_enter());
        assert_eq!(queue.hand_over(1), Some(1), "nobody waits");
        std::thread::scope(|scope| {
            let first = wait_as(scope, &queue, true, 1);
            let second = wait_as(scope, &queue, false, 2);
            let third = wait_as(scope, &queue, true, 3);
            assert!(queue.next_joins());
            assert_eq!(queue.hand_over(7), None);
            assert_eq!(first.join().ok(), Some(Some(7)));
            assert!(!queue.next_joins());
            assert_eq!(queue.hand_over(8), Some(8), "the second one flushes only");
            queue.leave();
            assert_eq!(second.join().ok(), Some(None));
            queue.leave();
            assert_eq!(third.join().ok(), Some(None));
        });
        queue.leave();
        assert!(queue.try_enter());
    }

    #[test]
    fn who_gives_up_leaves_the_queue_and_who_was_called_does_not() {
        let queue = Queue::<u32>::new();
        assert!(queue.try_enter());
        let impatient = || Err(Error::Interrupted);
        assert!(matches!(queue.enter(true, impatient), Err(Error::Interrupted)));
        assert_eq!(queue.hand_over(1), Some(1), "nobody waits any more");
        // Called at the very moment at which it gives up.
        let called = queue.enter(true, || {
            assert_eq!(queue.hand_over(2), None);
            Err(Error::Interrupted)
        });
        assert!(matches!(called, Ok(Some(Entry::Joined(2)))));
        // The turn is left free at that moment: it stays so.
        let told = queue.enter(true, || {
            queue.leave();
            Err(Error::Interrupted)
        });
        assert!(matches!(told, Err(Error::Interrupted)));
        assert!(queue.try_enter());
    }

    #[test]
    fn who_gives_up_leaves_a_free_turn_to_the_next() {
        let queue = Queue::<u32>::new();
        assert!(queue.try_enter());
        std::thread::scope(|scope| {
            let mut next = None;
            let gave_up = queue.enter(true, || {
                next = Some(wait_as(scope, &queue, true, 2));
                queue.leave();
                Err(Error::Interrupted)
            });
            assert!(matches!(gave_up, Err(Error::Interrupted)));
            assert_eq!(next.map(|thread| thread.join().ok()), Some(Some(None)));
        });
    }

    #[test]
    fn who_was_passed_by_too_often_gets_the_turn() {
        let queue = Queue::<u32>::new();
        assert!(queue.try_enter());
        let mut passed = 0;
        // The thread that waits is kept from looking, while others come and go.
        let entry = queue.enter(true, || {
            loop {
                queue.leave();
                if !queue.try_enter() {
                    return Ok(true);
                }
                passed += 1;
            }
        });
        assert!(matches!(entry, Ok(Some(Entry::Alone))));
        assert_eq!(passed, PASSED_MAX);
    }
}
