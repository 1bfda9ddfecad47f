//! Control groups of the kernel that keep a process and the system's cache of its files small.
//!
//! Both versions of the kernel's interface are served, by writing to the files under
//! `/sys/fs/cgroup`, for which one has to be root. Below version 2 the group is one of the topmost,
//! since a group with processes may not have groups with limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{Result, Unsupported};

const MOUNT: &str = "/sys/fs/cgroup";

/// A control group that is removed when it is dropped.
pub(crate) struct Group {
    path: PathBuf,
    is_second: bool,
}

impl Group {
    /// A new group whose processes get at most `bytes` bytes, the cache of their files included.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        static GROUPS: AtomicU64 = AtomicU64::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{number}", std::process::id());
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.split_once(":memory:"));
        let (parent, is_second) = match own {
            Some((_, own)) => (Path::new(MOUNT).join("memory").join(own.trim_matches('/')), false),
            None => (PathBuf::from(MOUNT), true),
        };
        if is_second {
            // It is on already, or the group below lacks the file for its limit, which is said.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let group = Self { path: parent.join(name), is_second };
        let made = fs::create_dir(&group.path).and_then(|()| group.limit(bytes));
        match made {
            Ok(()) => Ok(group),
            Err(_) => Err(Unsupported("memory group that may be made here").into()),
        }
    }

    fn limit(&self, bytes: u64) -> std::io::Result<()> {
        if !self.is_second {
            return fs::write(self.path.join("memory.limit_in_bytes"), bytes.to_string());
        }
        // Without swap there is no such file.
        let _ = fs::write(self.path.join("memory.swap.max"), "0");
        fs::write(self.path.join("memory.max"), bytes.to_string())
    }

    /// Its folder, which a joining process gets as an argument.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The most bytes that its processes had so far, the cache of their files included.
    pub(crate) fn peak(&self) -> Result<u64> {
        let name = if self.is_second { "memory.peak" } else { "memory.max_usage_in_bytes" };
        Ok(fs::read_to_string(self.path.join(name))?.trim().parse()?)
    }

    /// The bytes that its processes have for themselves now, without the cache of files.
    pub(crate) fn own(&self) -> Result<u64> {
        let wanted = if self.is_second { "anon " } else { "total_rss " };
        self.number("memory.stat", wanted)
    }

    /// How many of its processes the kernel ended for want of memory.
    pub(crate) fn killed(&self) -> Result<u64> {
        let file = if self.is_second { "memory.events" } else { "memory.oom_control" };
        self.number(file, "oom_kill ")
    }

    fn number(&self, file: &str, wanted: &str) -> Result<u64> {
        let text = fs::read_to_string(self.path.join(file))?;
        let number = text.lines().find_map(|line| line.strip_prefix(wanted));
        Ok(number.ok_or("a file of the control group lacks a line")?.trim().parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that cannot be removed does no harm, and nothing can be done about it here.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Puts this process into a group.
pub(crate) fn join(path: &Path) -> Result<()> {
    Ok(fs::write(path.join("cgroup.procs"), std::process::id().to_string())?)
}
