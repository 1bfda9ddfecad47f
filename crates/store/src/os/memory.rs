//! How much memory this process may use, and how many files it may have open.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::OnceLock;

/// The least of the machine's memory and of what the control groups of this process may use, in
/// bytes, as of the first call; `u64::MAX` if the system does not say.
pub(crate) fn memory() -> u64 {
    static MEMORY: OnceLock<u64> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
        let limit = |file: &Path| read_to_string(file).ok()?.trim().parse().ok();
        [machine, least_limit(&groups, limit)].into_iter().flatten().min().unwrap_or(u64::MAX)
    })
}

/// How many files this process may have open, as of the call; a usual number if the system does not
/// limit it.
pub(crate) fn open_files_max() -> usize {
    const USUAL: u64 = 65_536;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.unwrap_or(USUAL).min(USUAL) as usize
}

/// The machine's memory as `/proc/meminfo` tells it.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the groups that `/proc/self/cgroup` names, of both versions, and of those
/// around them. `limit` reads a file; a group without a limit has a word in it, or no file.
fn least_limit(groups: &str, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(root).join(path.trim_start_matches('/'));
        let around = group.ancestors().take_while(|folder| folder.starts_with(root));
        around.filter_map(|folder| limit(&folder.join(file))).min()
    };
    groups.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_some() {
        assert!(memory() > 1 << 20);
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24650188 kB\n"), Some(24_650_188 << 10));
        assert_eq!(total("MemTotal: many"), None);
    }

    #[test]
    fn the_least_limit_around_the_process_counts() {
        let limit = |file: &Path| match file.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some(300),
            "/sys/fs/cgroup/a/memory.max" => Some(200),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some(100),
            _ => None,
        };
        assert_eq!(least_limit("0::/a/b\n", limit), Some(200));
        assert_eq!(least_limit("4:cpu,memory:/c\n0::/a\n", limit), Some(100));
        assert_eq!(least_limit("4:cpu:/c\n0::/\n", limit), None);
        assert_eq!(least_limit("nonsense", limit), None);
    }
}
