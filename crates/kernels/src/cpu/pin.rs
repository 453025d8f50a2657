//! Pinning threads to cores.

use paceline_base::{Error, Result};

/// Refuses cores that this process may not run on.
pub(crate) fn check(cores: &[usize]) -> Result<()> {
    if cores.is_empty() {
        return Err(Error::user("the list of cores is empty: name at least one, or leave it out"));
    }
    let allowed = allowed_cores();
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(()),
        Some(core) => Err(Error::user(format!("core {core} does not exist here: choose from {allowed:?}"))),
    }
}

/// The cores that the calling thread may run on; empty where the system does not say.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> Vec<usize> {
    // SAFETY: a cpu set is plain bits; the call fills at most its size, and `CPU_ISSET` is given indices below that.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &set)).collect()
    }
}

/// The cores that the calling thread may run on; empty where the system does not say.
#[cfg(not(target_os = "linux"))]
pub fn allowed_cores() -> Vec<usize> {
    Vec::new()
}

/// Keeps the calling thread on one core, which `check` has accepted.
#[cfg(target_os = "linux")]
pub(crate) fn pin(core: usize) -> Result<()> {
    // SAFETY: a cpu set is plain bits; `check` saw that `core` lies within it.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    if failed {
        let why = std::io::Error::last_os_error();
        return Err(Error::failure(format!("cannot pin a thread to core {core}: {why}")));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_core: usize) -> Result<()> {
    Err(Error::user("pinning to cores works on Linux only: leave the list of cores out"))
}
