//! The progress thread before those that compute: it works for microseconds at a time, and while it waits for a core, the link is idle.

/// What the kernel reads and writes of a thread's scheduling: `struct sched_attr`, first version.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The shortest slice that Linux takes, in nanoseconds.
#[cfg(target_os = "linux")]
const SLICE: u64 = 100_000;

/// Asks that this thread be run soon after it wakes. Threads with short slices come first (Linux 6.12 and later, no privilege needed); where the system
/// refuses, or knows nothing of it, all is as before.
#[cfg(target_os = "linux")]
pub(super) fn run_soon() {
    let mut attributes = Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
    let size = attributes.size;
    // SAFETY: thread 0 is the calling one; the kernel writes at most `size` bytes, which are there and may hold anything.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
        return; // whoever chose another policy knows better
    }
    attributes.runtime = SLICE;
    // SAFETY: as above; the kernel only reads.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Nothing to ask for.
#[cfg(not(target_os = "linux"))]
pub(super) fn run_soon() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_knows_slices_takes_the_short_one() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map(|n| n.trim().parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        run_soon();
        let mut attributes = Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
        let size = attributes.size;
        // SAFETY: as above.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        assert_eq!(got, 0);
        assert_eq!(attributes.policy, libc::SCHED_OTHER as u32);
        assert_eq!(attributes.runtime == SLICE, version >= (6, 12), "Linux {version:?}, slice {}", attributes.runtime);
    }
}
