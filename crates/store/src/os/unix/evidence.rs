//! Evidence that neither the machine nor the mount of a file was restarted.

use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags};

pub(super) fn evidence_of(file: BorrowedFd<'_>) -> Option<[u8; 24]> {
    let boot = boot_id(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)?;
    let (mount, inode) = mount_and_inode(file)?;
    let mut evidence = [0; 24];
    evidence[..16].copy_from_slice(&boot);
    evidence[16..].copy_from_slice(&mix(mix(mount).wrapping_add(inode)).to_le_bytes());
    Some(evidence)
}

/// Parses the 32 hexadecimal digits of a boot identity, dashes left out.
pub(super) fn boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|&digit| digit != '-').collect();
    (digits.len() == 32).then_some(())?;
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// What tells this mount of the file system from another one, and the file's number in it.
#[cfg(target_os = "linux")]
fn mount_and_inode(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    use rustix::fs::StatxFlags;
    /// STATX_MNT_ID_UNIQUE (Linux 6.8): unlike the older number it is never used again.
    const UNIQUE: u32 = 0x4000;
    for (wanted, tag) in [(UNIQUE, 1 << 63), (StatxFlags::MNT_ID.bits(), 1 << 62)] {
        let flags = StatxFlags::from_bits_retain(wanted) | StatxFlags::INO;
        match fs::statx(file, c"", AtFlags::EMPTY_PATH, flags) {
            Ok(found) if found.stx_mask & wanted != 0 => {
                return Some((found.stx_mnt_id ^ tag, found.stx_ino));
            }
            _ => {}
        }
    }
    let found = fs::fstat(file).ok()?;
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// What tells this mount of the file system from another one, and the file's number in it.
#[cfg(not(target_os = "linux"))]
fn mount_and_inode(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = fs::fstat(file).ok()?;
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// Spreads a number over 64 bits (the finaliser of SplitMix64).
pub(in crate::os) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
