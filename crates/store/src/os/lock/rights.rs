//! Who may open a lock file: all who may open the data file beside it.
//!
//! An error here is none of the opening: the lock file serves this process as it is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::fchown;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, Stat};

use super::super::system::Rights;
use super::super::unix::calls;

/// What the owner of a lock file may do in any case: one who may only read the store has to write
/// into it, too.
const OWNERS: u32 = 0o600;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o777;

fn permissions(stat: &Stat) -> u32 {
    #[allow(clippy::unnecessary_cast, reason = "systems have different types for it")]
    let mode = stat.st_mode as u32;
    mode & PERMISSIONS
}

/// The data file that a lock file is to be like.
fn model(rights: Rights<'_>) -> Option<Stat> {
    match rights {
        Rights::Mode(_) => None,
        Rights::Like(file) => fs::fstat(file.descriptor()?).ok(),
    }
}

/// Opens a lock file, or makes one: only that one gets another owner, since what has the name
/// already may be a link to any other file.
pub(super) fn open_or_make(path: &Path, rights: Rights<'_>) -> io::Result<OwnedFd> {
    let model = model(rights);
    let mode = match (&model, rights) {
        (Some(model), _) => permissions(model) | OWNERS,
        (None, Rights::Mode(mode)) => mode,
        (None, Rights::Like(_)) => OWNERS,
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    match calls::open_regular(path, flags | OFlags::EXCL, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            calls::open_regular(path, flags, mode)
        }
        Ok(file) => {
            if let Some(model) = model {
                hand_over(&file, &model, mode);
            }
            Ok(file)
        }
        other => other,
    }
}

/// Gives a new file the group of another one and, where this process may do that, its owner; and
/// then permissions, whatever the process' mask says.
fn hand_over(file: &OwnedFd, model: &Stat, mode: u32) {
    let Ok(own) = fs::fstat(file) else { return };
    if (own.st_uid, own.st_gid) != (model.st_uid, model.st_gid) {
        let user = rustix::process::geteuid().is_root().then_some(model.st_uid);
        let _ = fchown(file.as_fd(), user, Some(model.st_gid));
    }
    if permissions(&own) != mode {
        let _ = fs::fchmod(file, Mode::from_raw_mode(mode as _));
    }
}

/// Gives a file that is known to be a lock file, and has no other name, the permissions that the
/// data file has and it lacks. It may have more: others may then read the store beside a writer.
pub(super) fn widen(file: &OwnedFd, rights: Rights<'_>) {
    let (Some(model), Ok(own)) = (model(rights), fs::fstat(file)) else { return };
    let (has, wanted) = (permissions(&own), permissions(&model));
    if has | wanted != has && own.st_nlink == 1 {
        let _ = fs::fchmod(file, Mode::from_raw_mode((has | wanted) as _));
    }
}
