//! A child after a fork neither uses nor releases what its parent has. Here and not with the
//! other tests, because forking is unsafe.
#![expect(unsafe_code, reason = "forking")]

use super::super::*;

#[test]
fn a_child_leaves_its_parents_things_alone() {
    let folder = tempfile::tempdir().unwrap();
    let lock = open(&folder.path().join("lock"), false, 0o600).unwrap();
    lock.publish_opened();
    assert!(lock.lock_writer(None).unwrap());
    let slot = lock.take_slot().unwrap();
    lock.slot_word(slot).store(7, Ordering::SeqCst);
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
    let mut status = 0;
    // SAFETY: `status` is a place for the result.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    assert!(lock.is_same_process());
    let other = open(&folder.path().join("lock"), false, 0o600).unwrap();
    assert!(!other.is_first());
    assert!(!other.lock_writer(Some(Duration::ZERO)).unwrap());
    assert_eq!(other.readers().0.len(), 1);
}

/// Makes a child that inherits all open files and sleeps for a while.
pub(super) fn leave_a_child() {
    // SAFETY: the child only sleeps and ends.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: both calls take a plain number and touch nothing of this process.
        unsafe {
            libc::sleep(2);
            libc::_exit(0)
        }
    }
}
