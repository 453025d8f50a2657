//! The system's page cache of chosen files: dropping it and looking into it.
//!
//! `posix_fadvise(DONTNEED)` drops the clean pages of one file, without any right beyond reading it, and leaves other
//! programs' files alone. It has no effect on file systems that live in memory and on pages that someone has mapped, so
//! that what is left is looked up afterwards with `mincore`. Caches beneath the system (of a disk, of the host of a
//! virtual machine) are out of reach.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// More of a file than this is not looked up.
const LOOK: u64 = 64 << 20;
/// Pages that may stay for a file to count as dropped: the kernel drops in batches and may keep a few.
const LEFT: f64 = 0.02;

/// Whether the page cache of these files can be dropped; if not, why.
///
/// # Errors
/// The reason, in words.
pub fn can_drop(files: &[PathBuf]) -> Result<(), String> {
    let some = &files[..files.len().min(8)];
    let fail = |e: io::Error| e.to_string();
    for file in some {
        io::copy(&mut File::open(file).map_err(fail)?.take(LOOK), &mut io::sink()).map_err(fail)?;
    }
    drop_pages(some, 0).map_err(fail)?;
    match resident(some).map_err(fail)? {
        share if share <= LEFT => Ok(()),
        share => Err(format!(
            "{:.0} % of it stay in the page cache after posix_fadvise (a file system in memory, or files that another program has mapped)",
            share * 100.0
        )),
    }
}

/// Drops the pages of these files. The first `synced` of them are known to be on the disk; the others are brought there,
/// since dirty pages stay. (A sync costs milliseconds on a busy disk, and the files do not change.)
#[cfg(target_os = "linux")]
pub fn drop_pages(files: &[PathBuf], synced: usize) -> io::Result<()> {
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
pub fn resident(files: &[PathBuf]) -> io::Result<f64> {
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
pub fn drop_pages(_: &[PathBuf], _: usize) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no call to drop the page cache of a file"))
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub fn resident(_: &[PathBuf]) -> io::Result<f64> {
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
            Ok(()) => assert!(resident(&files).unwrap() <= LEFT),
            Err(reason) => {
                assert!(reason.contains("stay in the page cache"), "{reason}");
                assert!(resident(&files).unwrap() > LEFT);
            }
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
