//! What a run ran on, and how much memory it took: read from `/proc` where there is one.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine of a run. Unknown values are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Operating system and kernel.
    pub os: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
}

/// Describes this machine.
pub fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Machine {
        cpu: cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| std::env::consts::ARCH.to_string()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        os: os_name(&read("/etc/os-release"), &read("/proc/sys/kernel/osrelease")),
        memory_bytes: kib_field(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0),
    }
}

/// The largest resident memory of this process so far; 0 where the system does not say.
pub fn peak_rss_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| kib_field(&text, "VmHWM:")).unwrap_or(0)
}

/// Memory that can be taken without driving anything else out, as far as the system and the process's group allow it.
pub fn free_memory_bytes() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let free = kib_field(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(0);
    // A container's limit (cgroup v2, then v1); without one the files say `max` or a number beyond the machine.
    let number = |path: &str| read(path).trim().parse::<u64>().ok();
    let group = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ]
    .iter()
    .find_map(|(limit, used)| Some(number(limit)?.saturating_sub(number(used).unwrap_or(0))));
    group.map_or(free, |group| group.min(free))
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 says "model name", some ARM kernels "Hardware" or "Model".
    ["model name", "Hardware", "Model"].iter().find_map(|key| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == *key))?;
        let value = line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" ");
        (!value.is_empty()).then_some(value)
    })
}

fn os_name(os_release: &str, kernel: &str) -> String {
    let pretty = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| std::env::consts::OS.to_string(), |name| name.trim_matches('"').to_string());
    match kernel.trim() {
        "" => pretty,
        kernel => format!("{pretty}, {} {kernel}", std::env::consts::OS),
    }
}

/// A field of `/proc` that is given in kB, as bytes.
fn kib_field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R)  Xeon(R) CPU @ 2.00GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Intel(R) Xeon(R) CPU @ 2.00GHz"));
        assert_eq!(cpu_model("processor : 0\n"), None);
        assert_eq!(kib_field("MemTotal:       2048 kB\n", "MemTotal:"), Some(2048 * 1024));
        assert!(os_name("PRETTY_NAME=\"Debian GNU/Linux 13\"\n", "6.1.0\n").starts_with("Debian GNU/Linux 13, "));
        assert_eq!(os_name("", ""), std::env::consts::OS);
    }

    #[test]
    fn describes_this_machine() {
        let machine = describe();
        assert!(machine.cores >= 1 && !machine.cpu.is_empty() && !machine.os.is_empty());
        if cfg!(target_os = "linux") {
            assert!(peak_rss_bytes() > 100_000);
            assert!(free_memory_bytes() > 100_000);
        }
    }
}
