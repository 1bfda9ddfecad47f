//! A child after a fork neither uses nor releases what its parent has. Here and not with the
//! other tests, because forking is unsafe.
#![expect(unsafe_code, reason = "forking")]

use std::io::Read as _;

use super::super::*;
use crate::os::{RealSystem, System as _, children};

#[test]
fn a_child_leaves_its_parents_things_alone() {
    let folder = tempfile::tempdir().unwrap();
    let lock = open(&folder.path().join("lock"), false, super::PRIVATE).unwrap();
    lock.publish_opened();
    assert!(lock.lock_writer(None).unwrap());
    let slot = lock.take_slot().unwrap();
    lock.slot_word(slot).store(7, Ordering::SeqCst);
    let making = children::making();
    // SAFETY: the child only reads memory, unmaps it, closes a file and ends at once; it takes
    // no lock that another thread may have held at the fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = !lock.is_same_process() && lock.lock_writer(None).is_err();
        lock.unlock_writer();
        lock.give_slot(slot);
        drop(lock);
        // SAFETY: ends this process without running anything else.
        unsafe { libc::_exit(i32::from(!refused)) }
    }
    drop(making);
    let mut status = 0;
    // SAFETY: `status` is a place for the result.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    assert!(lock.is_same_process());
    let other = open(&folder.path().join("lock"), false, super::PRIVATE).unwrap();
    assert!(!other.is_first());
    assert!(!other.lock_writer(Some(Duration::ZERO)).unwrap());
    assert_eq!(other.readers().0.len(), 1);
}

/// The lock of one opener is free once the process that took it lets go of it, whoever has
/// inherited the open file; what a child lets go of stays its parent's.
#[test]
fn a_lock_goes_with_the_process_that_took_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let take = || RealSystem.lock_exclusive(&path, 0o600).unwrap();
    let lock = take().unwrap();
    let making = children::making();
    // SAFETY: the child closes a file and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(lock);
        // SAFETY: ends this process without running anything else.
        unsafe { libc::_exit(0) }
    }
    drop(making);
    // SAFETY: there is no place for a result to be written to.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert!(take().is_none());
    let (mut told, lives) = std::io::pipe().unwrap();
    let mut lives = Some(lives);
    // Children that live until the end of this test.
    let mut leave_one = || {
        leave_a_child(|| {
            drop(lives.take());
            let _ = told.read_exact(&mut [0]);
        });
    };
    leave_one();
    drop(lock);
    let lock = take();
    assert!(lock.is_some() && take().is_none());
    drop(lock);
    let share = || RealSystem.lock_shared(&path).unwrap();
    let shared = [share(), share()];
    assert!(shared.iter().all(Option::is_some) && take().is_none());
    leave_one();
    drop(shared);
    assert!(take().is_some());
}

/// Makes a child that inherits all open files, does something and ends.
pub(super) fn leave_a_child(life: impl FnOnce()) {
    let _making = children::making();
    // SAFETY: the child only does what tests give it, which is to close and to read a file.
    if unsafe { libc::fork() } == 0 {
        life();
        // SAFETY: ends this process without running anything else.
        unsafe { libc::_exit(0) }
    }
}
