//! Whose a temporary file is, and whether its writer still lives.
//!
//! The name of a temporary file says who writes it: host, boot of the host's kernel, process, and a random number, so that
//! neither two caches of one process nor two containers whose processes have the same number can have the same one. The
//! writer holds a lock on it, which the system takes away from a dead process.
//!
//! Whether somebody else's file may be removed:
//!
//! | lock | written under this kernel | elsewhere, or by nobody knows whom |
//! |---|---|---|
//! | held | no | no |
//! | free | yes: its writer is gone | after [`ABANDONED`] without a sign of life |
//! | cannot be asked | after [`ABANDONED`] | after [`ABANDONED`] |
//!
//! A lock that looks free proves nothing about another host: network file systems may keep locks to each host, or have
//! none. A living writer therefore touches its file every [`SIGN`], and only one that was not touched for a week is taken for dead. Containers share
//! the kernel, and with it the locks.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What temporary files end in.
pub(super) const PART: &str = "part";
/// How long a file whose writer cannot be asked must have been left alone before it is removed.
pub(crate) const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often a cache in use is touched.
pub(super) const SIGN: Duration = Duration::from_secs(3600);
/// Stands for the boot where locks do not work: files of such a name are nobody's to judge.
const NO_BOOT: &str = "none";

/// Who writes a temporary file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Owner {
    /// Name of the host, without what cannot stand in the name of a file.
    pub host: String,
    /// Which start of the host's kernel it was; `none` where locks do not work.
    #[serde(skip)]
    boot: String,
    /// Number of the process, as it sees itself.
    pub process: u32,
}

impl Owner {
    pub(crate) fn here() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let plain = |text: String, most: usize| {
            let name: String =
                text.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(most).collect();
            if name.is_empty() { NO_BOOT.to_string() } else { name }
        };
        Self { host: plain(read("hostname"), 48), boot: plain(read("random/boot_id"), 36), process: std::process::id() }
    }

    /// This one, where its locks do not work.
    fn without_locks(&self) -> Self {
        Self { boot: NO_BOOT.into(), ..self.clone() }
    }

    /// The one that the name of a temporary file states.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let [_, host, boot, process, _, PART] = name.split('.').collect::<Vec<_>>()[..] else { return None };
        Some(Self { host: host.into(), boot: boot.into(), process: process.parse().ok()? })
    }

    /// A name for a temporary file that becomes `path`. Every call gives another.
    fn temporary(&self, path: &Path) -> PathBuf {
        // The keys of a hasher are random, and differ from those before.
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        path.with_extension(format!("{}.{}.{}.{random:016x}.{PART}", self.host, self.boot, self.process))
    }

    /// Whether its locks can be seen from here: the same kernel keeps them.
    fn shares_locks_with(&self, other: &Self) -> bool {
        self.boot != NO_BOOT && self.boot == other.boot
    }
}

/// A new file that nobody else has, locked, with its name.
pub(super) fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut owner = Owner::here();
    loop {
        let temporary = owner.temporary(path);
        let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        };
        // Nobody holds it for longer than a look takes: the name is new.
        if file.lock().is_err() && owner.boot != NO_BOOT {
            let _ = fs::remove_file(&temporary);
            owner = owner.without_locks();
            continue;
        }
        // Somebody may have taken it for a dead one's before it was locked.
        if is_at(&file, &temporary) {
            return Ok((file, temporary));
        }
    }
}

/// Whether the file still has this name.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => number(&a) == number(&b),
        _ => false,
    }
}

/// What tells a file from all others of a machine.
pub(super) fn number(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// What was found when a lock was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// It is ours now, until the file is closed.
    Free,
    Held,
    /// The file system has no locks, or does not let us ask.
    Unknown,
}

/// Opens a file and tries to lock it against everybody.
pub(super) fn try_lock(path: &Path) -> io::Result<(File, Lock)> {
    // NFS gives such a lock only to those who may write.
    let file = OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path))?;
    let lock = match file.try_lock() {
        Ok(()) => Lock::Free,
        Err(TryLockError::WouldBlock) => Lock::Held,
        Err(TryLockError::Error(_)) => Lock::Unknown,
    };
    Ok((file, lock))
}

/// Time since a file was last written or touched.
pub(super) fn idle(meta: &fs::Metadata) -> Duration {
    // A clock that goes ahead of ours is a sign of life.
    meta.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or_default()
}

/// Whether a temporary file is a dead process's; the module's table.
pub(super) fn is_dead(owner: Option<&Owner>, here: &Owner, lock: Lock, idle: Duration) -> bool {
    match lock {
        Lock::Held => false,
        Lock::Free if owner.is_some_and(|owner| owner.shares_locks_with(here)) => true,
        Lock::Free | Lock::Unknown => idle > ABANDONED,
    }
}

/// Removes what dead processes left in a folder of caches.
pub(super) fn remove_dead(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let here = Owner::here();
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == PART)) {
        let Ok((file, lock)) = try_lock(&path) else { continue };
        let Ok(meta) = file.metadata() else { continue };
        if is_dead(Owner::of(&path).as_ref(), &here, lock, idle(&meta)) {
            // While it is locked, so that nobody can take it up meanwhile.
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_the_same_and_say_whose_they_are() {
        let (owner, path) = (Owner::here(), Path::new("cache/2-abc-5x4x3.decoded"));
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| owner.temporary(path)).collect();
        assert_eq!(names.len(), 1000);
        for name in names {
            assert_eq!(Owner::of(&name).as_ref(), Some(&owner), "{}", name.display());
            assert!(name.starts_with("cache") && name.to_str().unwrap().contains("2-abc-5x4x3."));
        }
        assert_eq!(Owner::of(Path::new("a.17.part")), None);
    }

    #[test]
    fn only_what_is_surely_dead_is_removed() {
        let owner = |host: &str, boot: &str| Owner { host: host.into(), boot: boot.into(), process: 7 };
        let (here, day) = (owner("a", "boot-1"), Duration::from_secs(24 * 3600));
        let dead = |owner: Option<Owner>, lock, days| is_dead(owner.as_ref(), &here, lock, days * day);
        for whose in [Some(owner("a", "boot-1")), Some(owner("b", "boot-2")), None] {
            assert!(!dead(whose.clone(), Lock::Held, 1000), "{whose:?}");
            assert!(!dead(whose.clone(), Lock::Unknown, 6));
            assert!(dead(whose, Lock::Unknown, 8));
        }
        assert!(dead(Some(owner("container", "boot-1")), Lock::Free, 0), "the same kernel, so the lock says all");
        for foreign in [Some(owner("b", "boot-2")), Some(owner("a", "boot-2")), Some(owner("a", NO_BOOT)), None] {
            assert!(!dead(foreign.clone(), Lock::Free, 6), "{foreign:?}");
            assert!(dead(foreign, Lock::Free, 8));
        }
        let nowhere = owner("a", NO_BOOT);
        assert!(!is_dead(Some(&nowhere), &nowhere, Lock::Free, day), "without a boot nobody is the same");
    }

    #[test]
    fn a_file_that_was_renamed_or_removed_is_not_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (file, temporary) = create(&folder.path().join("x.decoded")).unwrap();
        assert!(is_at(&file, &temporary));
        assert_eq!(try_lock(&temporary).unwrap().1, Lock::Held);
        fs::remove_file(&temporary).unwrap();
        assert!(!is_at(&file, &temporary));
        fs::write(&temporary, "another").unwrap();
        assert!(!is_at(&file, &temporary));
    }
}
