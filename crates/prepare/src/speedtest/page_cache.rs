//! The system's page cache of chosen files: dropping it and looking into it.
//!
//! `posix_fadvise(DONTNEED)` drops the clean pages of one file, without any right beyond reading it, and leaves other
//! programs' files alone. It has no effect on file systems that live in memory and on pages that someone has mapped, and
//! some file systems have a cache of their own beneath. So two things are asked before a measurement is called cold: what
//! is left (`mincore`), and, when it is over, how much the system counted as read from a disk (`/proc/self/io`). Caches
//! beneath the system (of a disk, of the host of a virtual machine) are out of reach.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More of a file than this is not looked up.
const LOOK: u64 = 64 << 20;
/// Pages that may stay for a file to count as dropped: the kernel drops in batches and may keep a few.
const LEFT: f64 = 0.02;
/// The share of the bytes that must have come from a disk: some come twice, or packed.
const FROM_DISK: f64 = 0.25;

/// Whether the page cache of these files can be dropped; if not, why.
///
/// # Errors
/// The reason, in words.
pub fn can_drop(files: &[PathBuf]) -> Result<(), String> {
    let some = &files[..files.len().min(8)];
    let fail = |e: io::Error| e.to_string();
    let read = || -> io::Result<u64> {
        some.iter().map(|file| io::copy(&mut File::open(file)?.take(LOOK), &mut io::sink())).sum()
    };
    read().map_err(fail)?;
    drop_pages(some, 0).map_err(fail)?;
    let left = resident(some).map_err(fail)?;
    let before = read_from_disk();
    let bytes = read().map_err(fail)?;
    let from_disk = before.zip(read_from_disk()).map(|(before, after)| after.saturating_sub(before));
    was_cold(left, from_disk, bytes).map_err(|why| match some.first().and_then(|file| in_memory(file)) {
        Some(system) => format!("{why} ({system} is a file system in memory)"),
        None => why,
    })
}

/// Whether what was measured was cold: `left` is the share that was in the page cache before, `from_disk` what the system
/// counted as read from a disk since (where it tells), of `bytes` that were read.
///
/// # Errors
/// Why it was not, in words.
pub(crate) fn was_cold(left: f64, from_disk: Option<u64>, bytes: u64) -> Result<(), String> {
    if left > LEFT {
        return Err(format!(
            "{:.0} % of it stay in the page cache after posix_fadvise (a file system in memory, files that another program has mapped, or files of others, of which the system does not tell)",
            left * 100.0
        ));
    }
    match from_disk {
        Some(read) if (read as f64) < FROM_DISK * bytes as f64 => Err(format!(
            "{:.0} % of what was read came from a disk, the rest from some other cache in memory",
            read as f64 / bytes as f64 * 100.0
        )),
        _ => Ok(()),
    }
}

/// Bytes that this process has caused to be read from disks, where the system tells.
pub(crate) fn read_from_disk() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.trim().parse().ok())
}

/// The name of the file system that a file is on, if it lives in memory.
#[cfg(target_os = "linux")]
fn in_memory(path: &Path) -> Option<&'static str> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a path that ends in 0, and room for the answer, which is read only if there is one.
    let kind = unsafe {
        if libc::statfs(path.as_ptr(), about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init().f_type
    };
    match kind as u64 & 0xFFFF_FFFF {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58F6 => Some("ramfs"),
        _ => None,
    }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn in_memory(_: &Path) -> Option<&'static str> {
    None
}

/// Drops the pages of these files. The first `synced` of them are known to be on the disk; the others are brought there,
/// since dirty pages stay. (A sync costs milliseconds on a busy disk, and the files do not change.)
#[cfg(target_os = "linux")]
pub(crate) fn drop_pages(files: &[PathBuf], synced: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    for (number, path) in files.iter().enumerate() {
        let file = File::open(path)?;
        if number >= synced {
            file.sync_data()?;
        }
        // SAFETY: the descriptor is open for the time of the call; no memory is passed.
        let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    Ok(())
}

/// The share of the bytes of these files (of the beginning of large ones) that is in the page cache.
#[cfg(target_os = "linux")]
pub(crate) fn resident(files: &[PathBuf]) -> io::Result<f64> {
    use std::os::fd::AsRawFd;
    // SAFETY: takes a number, gives a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let (mut there, mut all) = (0, 0);
    let mut pages: Vec<u8> = Vec::new();
    for path in files {
        let file = File::open(path)?;
        let length = file.metadata()?.len().min(LOOK) as usize;
        if length == 0 {
            continue;
        }
        let count = length.div_ceil(page);
        pages.clear();
        pages.resize(count, 0);
        // SAFETY: a new mapping at an address of the system's choice; it is never read through, only asked about, and
        // `pages` has a byte for each of its pages.
        let code = unsafe {
            let address =
                libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let code = libc::mincore(address, length, pages.as_mut_ptr());
            let error = io::Error::last_os_error();
            libc::munmap(address, length);
            if code == 0 { Ok(()) } else { Err(error) }
        };
        code?;
        there += pages.iter().filter(|&&flags| flags & 1 == 1).count();
        all += count;
    }
    Ok(if all == 0 { 0.0 } else { there as f64 / all as f64 })
}

/// Other systems have no way to drop the pages of one file.
#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_pages(_: &[PathBuf], _: usize) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no call to drop the page cache of a file"))
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn resident(_: &[PathBuf]) -> io::Result<f64> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system is not asked what its page cache holds"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_resident_and_dropping_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        std::fs::write(&file, vec![7; 1 << 20]).unwrap();
        let files = [file];
        assert!(resident(&files).unwrap() > 0.9);
        // On a disk the pages go; in memory (tmpfs) they stay, and the reason says so.
        match can_drop(&files) {
            Ok(()) => {}
            Err(reason) => assert!(reason.contains("page cache") || reason.contains("cache in memory"), "{reason}"),
        }
    }

    /// Before, what `mincore` said was written down and called cold whatever it was.
    #[test]
    fn cold_is_what_was_not_in_memory() {
        const MB: u64 = 1 << 20;
        for (left, from_disk, cold) in [
            (0.0, Some(64 * MB), true),
            (0.01, Some(64 * MB), true),
            // Some files are read in larger pieces than asked for, some are packed.
            (0.0, Some(90 * MB), true),
            (0.0, Some(20 * MB), true),
            // The system does not tell: pages are all there is to go by.
            (0.0, None, true),
            (0.3, Some(64 * MB), false),
            (1.0, None, false),
            (0.0, Some(0), false),
            (0.0, Some(MB), false),
        ] {
            assert_eq!(was_cold(left, from_disk, 64 * MB).is_ok(), cold, "{left} {from_disk:?}");
        }
        assert!(was_cold(0.0, Some(0), 0).is_ok(), "nothing was read");
    }

    #[test]
    fn a_file_system_in_memory_is_named() {
        let shared = Path::new("/dev/shm");
        if let Some(system) = in_memory(shared) {
            assert_eq!(system, "tmpfs");
            let folder = tempfile::tempdir_in(shared).unwrap();
            let file = folder.path().join("data");
            std::fs::write(&file, vec![7; 1 << 20]).unwrap();
            let why = can_drop(&[file]).unwrap_err();
            assert!(why.contains("tmpfs is a file system in memory"), "{why}");
        } else {
            println!("not run: /dev/shm is no file system in memory here");
        }
    }

    #[test]
    fn an_empty_file_and_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        std::fs::write(&file, b"").unwrap();
        assert_eq!(resident(&[file]).unwrap(), 0.0);
        assert!(can_drop(&[folder.path().join("absent")]).is_err());
    }
}
