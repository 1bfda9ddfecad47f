//! The locks and atomic integers through which threads and processes share state: those of the
//! standard library or, in a build with `--cfg shuttle`, those of a scheduler that switches threads
//! at each access.
//!
//! In such a build all threads are run by [shuttle](https://docs.rs/shuttle) on one thread of the
//! system, which goes on with a thread chosen by a seed at each access to what they share. So the
//! code itself is explored, not a copy of it. Only the models (`tests/it/schedules.rs`) work in
//! such a build: a store that is opened outside of a model panics.

use std::sync::PoisonError;

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(not(shuttle))]
pub(crate) mod atomic {
    //! The standard library's.

    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
}

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Locks, also after a panic: the data is consistent, since no lock is held while it changes in
/// several steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, beside other readers. The same holds.
#[inline]
pub(crate) fn read_locked<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, which one thread does at a time. The same holds.
pub(crate) fn write_locked<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(shuttle)]
pub(crate) mod atomic {
    //! The standard library's, with a switch before each access. Of the same layout, since they lie
    //! in shared memory.

    use std::sync::atomic as real;
    use std::sync::atomic::Ordering;

    use super::switch;

    /// An atomic integer with the calls that are in use, those that change and answer by name.
    macro_rules! atomic {
        ($name:ident, $value:ty, $($change:ident)*) => {
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub(crate) struct $name(real::$name);

            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    switch();
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    switch();
                    self.0.store(value, order);
                }

                $(pub(crate) fn $change(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.$change(value, order)
                })*
            }
        };
    }

    /// For those that do not only lie in shared memory.
    macro_rules! made {
        ($name:ident, $value:ty) => {
            impl $name {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(real::$name::new(value))
                }
            }
        };
    }

    macro_rules! exchange {
        ($name:ident, $value:ty) => {
            impl $name {
                pub(crate) fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    switch();
                    self.0.compare_exchange(current, new, success, failure)
                }
            }
        };
    }

    atomic!(AtomicBool, bool, swap);
    atomic!(AtomicU32, u32, fetch_add fetch_sub fetch_max fetch_min);
    atomic!(AtomicU64, u64, fetch_max fetch_or fetch_and fetch_add);
    made!(AtomicBool, bool);
    made!(AtomicU32, u32);
    made!(AtomicU64, u64);
    exchange!(AtomicU32, u32);
    exchange!(AtomicU64, u64);

    impl AtomicU64 {
        pub(crate) fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            change: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            switch();
            self.0.fetch_update(set, fetch, change)
        }
    }

    /// A pointer; the same calls.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct AtomicPtr<T>(real::AtomicPtr<T>);

    impl<T> AtomicPtr<T> {
        pub(crate) const fn new(value: *mut T) -> Self {
            Self(real::AtomicPtr::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> *mut T {
            switch();
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: *mut T, order: Ordering) {
            switch();
            self.0.store(value, order);
        }

        pub(crate) fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
            switch();
            self.0.swap(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: *mut T,
            new: *mut T,
            success: Ordering,
            failure: Ordering,
        ) -> Result<*mut T, *mut T> {
            switch();
            self.0.compare_exchange(current, new, success, failure)
        }
    }
}

#[cfg(shuttle)]
type Death = (u64, Box<dyn FnOnce()>);

#[cfg(shuttle)]
shuttle::thread_local! {
    /// After how many accesses this thread dies, and what happens then.
    static DEATH: std::cell::RefCell<Option<Death>> = const { std::cell::RefCell::new(None) };
    /// An access to it is what the scheduler takes for one to ours. (To yield would tell it that
    /// this thread has nothing to do.)
    static ACCESS: shuttle::sync::atomic::AtomicBool = const {
        shuttle::sync::atomic::AtomicBool::new(false)
    };
}

/// Lets the calling thread die before its access of this number, from now on, to an atomic integer:
/// `last` is called, then the thread unwinds, which the caller has to catch.
#[cfg(shuttle)]
pub(crate) fn die_at(access: u64, last: impl FnOnce() + 'static) {
    DEATH.with(|death| *death.borrow_mut() = Some((access, Box::new(last))));
}

/// Before each access to an atomic integer: this thread may die here, or another one go on.
#[cfg(shuttle)]
fn switch() {
    let is_due = |death: &mut Option<Death>| match death {
        Some((left, _)) if *left > 0 => {
            *left -= 1;
            None
        }
        _ => death.take(),
    };
    if let Ok(Some((_, last))) = DEATH.try_with(|death| is_due(&mut death.borrow_mut())) {
        last();
        std::panic::resume_unwind(Box::new("died"));
    }
    // A thread that ends has no such place any more.
    let _ = ACCESS.try_with(|access| access.load(std::sync::atomic::Ordering::SeqCst));
}

/// Lets others go on for a while.
#[cfg(not(target_os = "linux"))]
#[cfg(not(shuttle))]
pub(crate) use std::thread::sleep;

/// Lets others go on for a while.
#[cfg(shuttle)]
pub(crate) fn sleep(_most: std::time::Duration) {
    shuttle::thread::yield_now();
}

/// The present moment; in a model, where no thread waits for time to pass, always the same one.
#[cfg(not(shuttle))]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// The present moment; in a model, where no thread waits for time to pass, always the same one.
#[cfg(shuttle)]
pub(crate) fn now() -> std::time::Instant {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    *START
}
