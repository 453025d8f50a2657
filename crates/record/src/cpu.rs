//! What a process got of the machine's cores, and who had the rest.
//!
//! A thread that computes and one that another program pushed aside look alike to a clock on the wall. Linux counts, for each
//! thread, the time it ran and the time it was ready to run and did not (`schedstat`); beside that stand the time of all programs
//! on each core (`/proc/stat`) and what a container's limit held back (`cpu.stat`). A thread of its own reads them a few times a
//! second: nothing is added to the threads that work.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paceline_base::number;
use serde::{Deserialize, Serialize};

/// `/proc` counts in hundredths of a second, whatever the kernel's own clock.
const TICK: f64 = 0.01;
/// Between two looks: often at first, so that short work is seen too.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(500);

/// What a process got of the cores that it may use, over some time. Times are seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuUse {
    /// How long it was looked at, by the clock on the wall.
    #[serde(with = "number")]
    pub wall: f64,
    /// Time on a core, summed over all threads of the process.
    #[serde(with = "number")]
    pub cpu: f64,
    /// Time in which threads were ready to run and did not, summed over them. None where the system does not say.
    #[serde(with = "number::option")]
    pub delayed: Option<f64>,
    /// Time of all other programs on the cores that this process may use. None where the system does not say.
    #[serde(with = "number::option")]
    pub others: Option<f64>,
    /// Time in which a hypervisor gave these cores to other machines.
    #[serde(with = "number")]
    pub stolen: f64,
    /// Cores that the process may use.
    pub cores: usize,
    /// Periods in which the process's group had used up the time that a container's limit allows, and all periods.
    pub throttled: u64,
    /// All periods of the limit.
    pub periods: u64,
    /// The limit, in cores.
    #[serde(with = "number::option")]
    pub limit: Option<f64>,
}

impl CpuUse {
    /// The time in which other programs ran on this process's cores while its threads were ready to: no more than these ran at
    /// all, because threads of one process also wait for each other.
    pub fn taken(&self) -> Option<f64> {
        self.delayed.map(|delayed| delayed.min(self.others.unwrap_or(delayed)))
    }

    /// The time in which threads were ready to run, whether they ran or not.
    pub fn wanted(&self) -> f64 {
        self.cpu + self.delayed.unwrap_or(0.0)
    }
}

/// What one process of a job got of its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// What it got.
    pub used: CpuUse,
    /// The cores that it may use, by number.
    pub cores: Vec<usize>,
}

/// What the processes of a job got, those of one host and the same cores together: to each of them the others are other programs, to
/// the job they are not.
pub fn cpu_of_job(shares: &[CpuShare], hosts: &[String]) -> Vec<CpuUse> {
    let place = |number: usize| (&hosts[number], &shares[number].cores);
    let first = |number: usize| (0..number).all(|before| place(before) != place(number));
    let members = |number: usize| -> Vec<&CpuUse> {
        (number..shares.len()).filter(|&n| place(n) == place(number)).map(|n| &shares[n].used).collect()
    };
    (0..shares.len()).filter(|&number| first(number)).map(|number| joined(&members(number))).collect()
}

/// Several looks at the same cores.
fn joined(members: &[&CpuUse]) -> CpuUse {
    let sum = |value: fn(&CpuUse) -> f64| members.iter().map(|m| value(m)).sum::<f64>();
    let most = |value: fn(&CpuUse) -> f64| members.iter().map(|m| value(m)).fold(0.0, f64::max);
    let cpu = sum(|m| m.cpu);
    // Each saw the cores busy for its own time and that of all others.
    let busy = members.iter().map(|m| Some(m.others? + m.cpu)).sum::<Option<f64>>();
    let worst = members.iter().max_by_key(|m| m.throttled);
    CpuUse {
        wall: most(|m| m.wall),
        cpu,
        delayed: members.iter().map(|m| m.delayed).sum(),
        others: busy.map(|busy| (busy / members.len() as f64 - cpu).max(0.0)),
        stolen: most(|m| m.stolen),
        cores: members.iter().map(|m| m.cores).max().unwrap_or(0),
        throttled: worst.map_or(0, |m| m.throttled),
        periods: worst.map_or(0, |m| m.periods),
        limit: worst.and_then(|m| m.limit),
    }
}

/// Looks at the process until it is asked to stop.
pub struct CpuWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    watched: Mutex<Watched>,
    ended: Condvar,
}

struct Watched {
    begin: Instant,
    first: Reading,
    /// Time that each thread was kept waiting, when it was last seen.
    threads: HashMap<u64, u64>,
    delayed: Option<u64>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CpuWatch {
    /// Begins to look. Where the thread cannot be started, only [`sample`](CpuWatch::sample) looks.
    pub fn start() -> Self {
        let mut watched = Watched {
            begin: Instant::now(),
            first: Reading::now(),
            threads: HashMap::new(),
            delayed: None,
            ended: false,
        };
        watched.look(); // what was before does not count
        watched.delayed = watched.delayed.map(|_| 0);
        let shared = Arc::new(Shared { watched: Mutex::new(watched), ended: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("cpu-watch".into()).spawn(move || watch(&theirs)).ok();
        Self { shared, thread }
    }

    /// Looks now: before threads end, whose times go with them.
    pub fn sample(&self) {
        self.shared.lock().look();
    }

    /// What the process got so far.
    pub fn so_far(&self) -> CpuUse {
        let mut watched = self.shared.lock();
        watched.look();
        let now = Reading::now();
        let since = |now: f64, then: f64| (now - then).max(0.0);
        let first = &watched.first;
        let cpu = since(now.cpu, first.cpu);
        CpuUse {
            wall: watched.begin.elapsed().as_secs_f64(),
            cpu,
            delayed: watched.delayed.map(|nanos| nanos as f64 * 1e-9),
            others: now.busy.zip(first.busy).map(|(now, then)| since(since(now, then), cpu)),
            stolen: since(now.stolen, first.stolen),
            cores: now.cores,
            throttled: now.group.throttled.saturating_sub(first.group.throttled),
            periods: now.group.periods.saturating_sub(first.group.periods),
            limit: now.group.limit,
        }
    }
}

impl CpuWatch {
    /// [`so_far`](CpuWatch::so_far), with the cores that it speaks of.
    pub fn share(&self) -> CpuShare {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        CpuShare { used: self.so_far(), cores: allowed_cores(&status) }
    }
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say
        }
    }
}

fn watch(shared: &Shared) {
    let mut pause = FIRST_LOOK;
    let mut watched = shared.lock();
    while !watched.ended {
        watched = shared.ended.wait_timeout(watched, pause).unwrap_or_else(PoisonError::into_inner).0;
        watched.look();
        pause = (pause * 2).min(LOOK);
    }
}

impl Watched {
    /// Adds what each thread was kept waiting since it was last seen.
    fn look(&mut self) {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return };
        for task in tasks.filter_map(Result::ok) {
            let Some(number) = task.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
            let Some(waited) = kept_waiting(&text) else { continue };
            let before = self.threads.insert(number, waited).unwrap_or(0);
            // A smaller figure is that of a new thread under an old number.
            let more = if waited >= before { waited - before } else { waited };
            self.delayed = Some(self.delayed.unwrap_or(0) + more);
        }
    }
}

/// Nanoseconds that a thread was ready to run and did not: the second figure of `schedstat`.
fn kept_waiting(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// What the system counts, since it or the process began.
#[derive(Default)]
struct Reading {
    cpu: f64,
    busy: Option<f64>,
    stolen: f64,
    cores: usize,
    group: Group,
}

impl Reading {
    fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let allowed = allowed_cores(&read("/proc/self/status"));
        let (busy, stolen, cores) = core_times(&read("/proc/stat"), &allowed);
        let group = groups(&read("/proc/self/cgroup"))
            .iter()
            .filter_map(|folder| Group::of(folder, &read))
            .max_by_key(|group| group.throttled)
            .unwrap_or_default();
        Self { cpu: process_time(&read("/proc/self/stat")), busy, stolen, cores, group }
    }
}

/// User and system time of a process, all threads, from its `stat`; its name, in parentheses, may hold anything.
fn process_time(stat: &str) -> f64 {
    let fields: Vec<&str> = stat.rsplit_once(')').map_or(stat, |(_, rest)| rest).split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) as f64 * TICK
}

/// The cores of `Cpus_allowed_list: 0-3,8`.
fn allowed_cores(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Busy and stolen time of these cores, summed, and how many of them are there. A system that counts nothing says so.
fn core_times(stat: &str, allowed: &[usize]) -> (Option<f64>, f64, usize) {
    let (mut busy, mut stolen, mut idle, mut cores) = (0, 0, 0, 0);
    for line in stat.lines() {
        let Some((name, times)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        if !name.parse().is_ok_and(|core: usize| allowed.contains(&core)) {
            continue; // also the sum of all
        }
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as users
        let ticks: Vec<u64> = times.split_whitespace().map(|t| t.parse().unwrap_or(0)).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        busy += at(0) + at(1) + at(2) + at(5) + at(6);
        idle += at(3) + at(4);
        stolen += at(7);
        cores += 1;
    }
    ((busy + idle > 0).then_some(busy as f64 * TICK), stolen as f64 * TICK, cores)
}

/// A control group's limit on CPU time, and how often it was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Group {
    limit: Option<f64>,
    throttled: u64,
    periods: u64,
}

impl Group {
    /// None for a group without a limit.
    fn of(folder: &str, read: &dyn Fn(&str) -> String) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let file = |name: &str| read(&format!("{folder}/{name}"));
        // Version 2 has both in one file and says `max` where there is no limit, version 1 says -1.
        let (quota, period) = match file("cpu.max").split_once(' ') {
            Some((quota, period)) => (number(quota), number(period)),
            None => (number(&file("cpu.cfs_quota_us")).filter(|&q| q > 0.0), number(&file("cpu.cfs_period_us"))),
        };
        let limit = quota? / period.filter(|&p| p > 0.0)?;
        let stat = file("cpu.stat");
        let count = |key: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Some(Self { limit: Some(limit), throttled: count("nr_throttled "), periods: count("nr_periods ") })
    }
}

/// The folders of the groups that may limit this process's CPU time, and of those around them. Inside a container the path that
/// `/proc/self/cgroup` names need not exist; the outermost folder is then the container's own.
fn groups(cgroup: &str) -> Vec<String> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let mut folders: Vec<String> = roots.map(String::from).into();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let root = match controllers {
            "" => roots[0],
            list if list.split(',').any(|c| c == "cpu") => roots[1],
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        while let Some((outer, _)) = path.rsplit_once('/') {
            folders.push(format!("{root}{path}"));
            path = outer;
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        assert_eq!(kept_waiting("123456 789 12\n"), Some(789));
        assert_eq!(kept_waiting(""), None);
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 100 200 3 4";
        assert_eq!(process_time(stat), 2.0);
        assert_eq!(allowed_cores("Name:\tx\nCpus_allowed_list:\t0-1,4\n"), [0, 1, 4]);
        let stat = "cpu  9 9 9 9\ncpu0 100 20 30 1000 5 1 2 40 0 0\ncpu1 7 0 0 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(core_times(stat, &[0]), (Some(1.53), 0.4, 1));
        assert_eq!(core_times("cpu0 0 0 0 0\n", &[0]), (None, 0.0, 1), "nothing is counted");
    }

    #[test]
    fn limits_of_containers_are_read_in_both_versions() {
        let files = |path: &str| match path {
            "two/cpu.max" => "150000 100000\n".to_string(),
            "two/cpu.stat" => "usage_usec 9\nnr_periods 100\nnr_throttled 62\nthrottled_usec 5\n".into(),
            "open/cpu.max" => "max 100000\n".into(),
            "one/cpu.cfs_quota_us" => "50000\n".into(),
            "one/cpu.cfs_period_us" => "100000\n".into(),
            "free/cpu.cfs_quota_us" => "-1\n".into(),
            "free/cpu.cfs_period_us" => "100000\n".into(),
            _ => String::new(),
        };
        assert_eq!(Group::of("two", &files), Some(Group { limit: Some(1.5), throttled: 62, periods: 100 }));
        assert_eq!(Group::of("one", &files).and_then(|group| group.limit), Some(0.5));
        assert_eq!((Group::of("open", &files), Group::of("free", &files)), (None, None));
        assert_eq!(groups("0::/a/b\n")[3..], ["/sys/fs/cgroup/a/b".to_string(), "/sys/fs/cgroup/a".to_string()]);
        assert_eq!(groups("4:cpu,cpuacct:/x\n3:freezer:/y\n")[3..], ["/sys/fs/cgroup/cpu/x".to_string()]);
    }

    #[test]
    fn processes_of_one_job_are_not_other_programs_to_each_other() {
        // Two processes on two cores, each for half of the time, and a stranger with a fifth of a core.
        let one = CpuUse {
            wall: 10.0,
            cpu: 9.0,
            delayed: Some(4.0),
            others: Some(11.0),
            cores: 2,
            throttled: 1,
            periods: 5,
            ..CpuUse::default()
        };
        let share = |cores: &[usize]| CpuShare { used: one, cores: cores.into() };
        let hosts = ["a", "a", "b"].map(String::from);
        let both = cpu_of_job(&[share(&[0, 1]), share(&[0, 1]), share(&[0, 1])], &hosts);
        assert_eq!(both.len(), 2, "one for each host");
        let expected = CpuUse { cpu: 18.0, delayed: Some(8.0), others: Some(2.0), ..one };
        assert_eq!((both[0], both[1]), (expected, one));
        assert_eq!((both[0].taken(), one.taken()), (Some(2.0), Some(4.0)));
        // Bound to cores of their own they do not see each other.
        assert_eq!(cpu_of_job(&[share(&[0]), share(&[1])], &hosts), [one, one]);
        let unknown = CpuShare { used: CpuUse { delayed: None, others: None, ..one }, cores: vec![0, 1] };
        let both = cpu_of_job(&[share(&[0, 1]), unknown], &hosts);
        assert_eq!((both[0].delayed, both[0].others), (None, None));
    }

    #[test]
    fn threads_that_wait_for_their_own_are_not_robbed() {
        let own = CpuUse { cpu: 10.0, delayed: Some(30.0), others: Some(0.5), ..CpuUse::default() };
        assert_eq!((own.taken(), own.wanted()), (Some(0.5), 40.0));
        let robbed = CpuUse { others: Some(90.0), ..own };
        assert_eq!(robbed.taken(), Some(30.0));
        assert_eq!(CpuUse::default().taken(), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_works_is_seen() {
        let watch = CpuWatch::start();
        let begin = Instant::now();
        let mut x = 1u64;
        // Until the system has counted something: however busy the machine is, that comes.
        while watch.so_far().cpu < 0.05 && begin.elapsed() < Duration::from_secs(120) {
            (0..1_000_000u64).for_each(|i| x = std::hint::black_box(x.wrapping_mul(i | 1)));
        }
        let seen = watch.so_far();
        assert!(seen.cpu >= 0.05 && seen.wall > 0.0 && seen.cores >= 1, "{seen:?}");
        assert!(seen.delayed.is_none_or(|d| d.is_finite() && d >= 0.0), "{seen:?}");
    }
}
