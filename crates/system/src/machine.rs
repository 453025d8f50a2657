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
    /// Memory that this process may use: the machine's, or less where a group (a container, a batch job) limits it.
    pub memory_bytes: u64,
}

/// Describes this machine.
pub fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Machine {
        cpu: cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| std::env::consts::ARCH.to_string()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        os: os_name(&read("/etc/os-release"), &read("/proc/sys/kernel/osrelease")),
        memory_bytes: memory_limit()
            .into_iter()
            .chain(kib_field(&read("/proc/meminfo"), "MemTotal:"))
            .min()
            .unwrap_or(0),
    }
}

/// Bytes that the control groups of this process allow it (a container's, a batch job's); none where they set no limit.
pub fn memory_limit() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    limit_in(&read("/proc/self/cgroup"), &read)
}

/// The tightest limit of all groups around a process.
fn limit_in(groups: &str, read: &dyn Fn(&str) -> String) -> Option<u64> {
    group_folders(groups).iter().filter_map(|group| group_limit(group, read)).min()
}

/// How many processes of this process's own control group the kernel has killed for memory; none where the group does not
/// count them. (The machine's counter would tell of anybody's.)
pub fn oom_kills() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    kills_in(&read("/proc/self/cgroup"), &read)
}

fn kills_in(groups: &str, read: &dyn Fn(&str) -> String) -> Option<u64> {
    let count =
        |path: String| read(&path).lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
    groups.lines().find_map(|line| {
        let (root, path) = memory_group(line)?;
        let file = if root.ends_with("/memory") { "memory.oom_control" } else { "memory.events" };
        // Inside a container the path need not exist; the outermost folder is then the container's own.
        count(format!("{root}{path}/{file}")).or_else(|| count(format!("{root}/{file}")))
    })
}

/// The largest resident memory of this process so far; 0 where the system does not say.
pub fn peak_rss_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| kib_field(&text, "VmHWM:")).unwrap_or(0)
}

/// Memory that can be taken without driving anything else out, as far as the system and the process's groups allow it; 0
/// where the system does not say.
pub fn free_memory_bytes() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let free = kib_field(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(0);
    group_folders(&read("/proc/self/cgroup")).iter().filter_map(|group| group_room(group, &read)).fold(free, u64::min)
}

/// How many threads this process's groups, its limits and the system let it have; none where nobody says. Root is above the
/// limit of a user.
pub fn thread_limit() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let root = read("/proc/self/status").lines().any(|line| line.starts_with("Uid:\t0\t"));
    let user = user_limit(&read("/proc/self/limits")).filter(|_| !root);
    let system = read("/proc/sys/kernel/threads-max").trim().parse().ok();
    let groups = read("/proc/self/cgroup");
    let group = task_folders(&groups).into_iter().filter_map(|folder| {
        let number = |file: &str| read(&format!("{folder}/{file}")).trim().parse::<u64>().ok();
        Some(number("pids.max")?.saturating_sub(number("pids.current").unwrap_or(0)))
    });
    group.chain(user).chain(system).min()
}

/// The soft limit of a user's processes, which counts threads.
fn user_limit(limits: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix("Max processes"))?.split_whitespace().next()?.parse().ok()
}

/// The folders in which a process's tasks are limited.
fn task_folders(groups: &str) -> Vec<String> {
    let mut folders = vec!["/sys/fs/cgroup".to_string(), "/sys/fs/cgroup/pids".to_string()];
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next(), fields.next()) {
            (Some(""), Some(path)) => folders.push(format!("/sys/fs/cgroup{path}")),
            (Some(list), Some(path)) if list.split(',').any(|c| c == "pids") => {
                folders.push(format!("/sys/fs/cgroup/pids{path}"));
            }
            _ => {}
        }
    }
    folders
}

/// The folders of a process's memory groups and of all groups around them. Inside a container the path that
/// `/proc/self/cgroup` names need not exist; the outermost folder is then the container's own.
fn group_folders(groups: &str) -> Vec<String> {
    let mut folders = vec!["/sys/fs/cgroup".to_string(), "/sys/fs/cgroup/memory".to_string()];
    for (root, mut path) in groups.lines().filter_map(memory_group) {
        while let Some((outer, _)) = path.rsplit_once('/') {
            folders.push(format!("{root}{path}"));
            path = outer;
        }
    }
    folders
}

/// From a line of `/proc/self/cgroup`, where groups that count memory are mounted, and the group's path there.
fn memory_group(line: &str) -> Option<(&'static str, &str)> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { return None };
    let root = match controllers {
        "" => "/sys/fs/cgroup",
        list if list.split(',').any(|c| c == "memory") => "/sys/fs/cgroup/memory",
        _ => return None,
    };
    Some((root, path.trim_end_matches('/')))
}

/// A group's limit. Version 2 says `max` where there is none, version 1 a number beyond any machine.
fn group_limit(folder: &str, read: &dyn Fn(&str) -> String) -> Option<u64> {
    let number = |file: &str| read(&format!("{folder}/{file}")).trim().parse::<u64>().ok();
    number("memory.max").or_else(|| number("memory.limit_in_bytes")).filter(|&limit| limit < 1 << 60)
}

/// What a group may still take, if it has a limit: pages of files that nobody uses are given up for it.
fn group_room(folder: &str, read: &dyn Fn(&str) -> String) -> Option<u64> {
    let number = |file: &str| read(&format!("{folder}/{file}")).trim().parse::<u64>().ok();
    let limit = group_limit(folder, read)?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"));
    let stat = read(&format!("{folder}/memory.stat"));
    let idle = ["total_inactive_file ", "inactive_file "]
        .iter()
        .find_map(|key| stat.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(used.unwrap_or(0).saturating_sub(idle.unwrap_or(0))))
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
    fn the_tightest_group_counts_without_its_idle_pages() {
        assert_eq!(group_folders("0::/a/b\n")[2..], ["/sys/fs/cgroup/a/b".to_string(), "/sys/fs/cgroup/a".to_string()]);
        assert_eq!(group_folders("4:cpu,memory:/x\n3:freezer:/y\n")[2..], ["/sys/fs/cgroup/memory/x".to_string()]);
        assert_eq!(group_folders("0::/\n").len(), 2);
        let files = |path: &str| match path {
            "g/memory.max" => "1000\n".to_string(),
            "g/memory.current" => "700\n".to_string(),
            "g/memory.stat" => "anon 5\ninactive_file 200\n".to_string(),
            "open/memory.max" => "max\n".to_string(),
            _ => String::new(),
        };
        assert_eq!(group_room("g", &files), Some(500));
        assert_eq!(group_room("open", &files), None);
    }

    #[test]
    fn the_memory_is_what_groups_allow() {
        let files = |path: &str| match path {
            "/sys/fs/cgroup/job/memory.max" => "4000\n".to_string(),
            "/sys/fs/cgroup/job/step/memory.max" => "max\n".to_string(),
            "/sys/fs/cgroup/memory/old/memory.limit_in_bytes" => "3000\n".to_string(),
            "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "9223372036854771712\n".to_string(),
            _ => String::new(),
        };
        assert_eq!(limit_in("0::/job/step\n", &files), Some(4000));
        assert_eq!(limit_in("4:memory:/old\n0::/\n", &files), Some(3000));
        assert_eq!(limit_in("4:memory:/other\n0::/\n", &files), None);
        assert!(memory_limit().is_none_or(|limit| describe().memory_bytes <= limit));
    }

    #[test]
    fn kills_are_counted_in_the_own_group_only() {
        let files = |path: &str| match path {
            "/sys/fs/cgroup/job/memory.events" => "low 0\noom 3\noom_kill 2\noom_group_kill 0\n".to_string(),
            "/sys/fs/cgroup/memory/old/memory.oom_control" => "oom_kill_disable 0\noom_kill 5\n".to_string(),
            "/proc/vmstat" => "oom_kill 99\n".to_string(),
            _ => String::new(),
        };
        assert_eq!(kills_in("0::/job\n", &files), Some(2));
        assert_eq!(kills_in("9:name=systemd:/\n4:memory:/old\n0::/\n", &files), Some(5));
        assert_eq!(kills_in("0::/\n", &files), None, "the root counts nobody");
        let container =
            |path: &str| if path == "/sys/fs/cgroup/memory.events" { "oom_kill 1\n".into() } else { String::new() };
        assert_eq!(kills_in("0::/outside\n", &container), Some(1));
    }

    #[test]
    fn the_tightest_limit_of_threads_counts() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             63432                127000               processes\n";
        assert_eq!(user_limit(limits), Some(63432));
        assert_eq!(user_limit("Max processes             unlimited            unlimited            processes\n"), None);
        assert_eq!(task_folders("0::/a\n")[2..], ["/sys/fs/cgroup/a".to_string()]);
        assert_eq!(task_folders("7:pids:/x\n3:cpu:/y\n")[2..], ["/sys/fs/cgroup/pids/x".to_string()]);
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
