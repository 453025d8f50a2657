//! What this machine, or every host of a job, can do; and what will hurt.
//!
//! Each host measures itself (`speed`, `disk`, `kernels`, `step`), at the same time as the others; then every pair of hosts measures its link, and two
//! processes of one host theirs (`link`, `exchange`), one pair at a time. What follows from the figures is a pure function of them ([`warnings`]).
//!
//! ```no_run
//! use paceline_doctor::{doctor, warnings, write_cluster_file};
//!
//! let mut world = paceline_comm::World::alone(); // this machine; some seconds
//! let found = doctor("runs".as_ref(), &mut world, &|what| println!("measuring: {what}"))?;
//! println!("{:.0} GFLOP/s", found.hosts[0].host.flops / 1e9);
//! for warning in warnings(&found) {
//!     println!("{}", warning.words);
//! }
//! write_cluster_file("cluster.toml".as_ref(), &found.cluster_file()?)?;
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod disk;
mod exchange;
mod kept;
mod kernels;
mod link;
mod speed;
mod step;
mod warn;

pub use kept::{keep, kept_file, last};
pub use warn::{Topic, Warning, warnings};

use paceline_base::{Error, Result};
use paceline_comm::{World, agree};
use paceline_kernels::cpu::{Isa, peak_flops};
use paceline_plan::{ClusterFile, Host, Link, ProcessLink};
use paceline_system::{atomic, machine};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What was measured of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// What goes into the cluster file.
    #[serde(flatten)]
    pub host: Host,
    /// Operating system and kernel.
    pub os: String,
    /// Memory that could be taken before anything was measured.
    pub free_memory_bytes: u64,
    /// Memory that lies in swap.
    pub swap_used_bytes: u64,
    /// Processes that wanted a core before anything was measured, on average over a minute.
    pub load: f64,
    /// Processes of the job on this host.
    pub processes: usize,
    /// The folder whose disk was measured.
    pub disk_folder: PathBuf,
    /// What could not be measured of the disk, and why.
    pub disk_problem: Option<String>,
    /// How much this host's clock is ahead of the first host's, in seconds.
    pub clock_skew_s: f64,
}

/// What was measured of all hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Of this structure.
    pub format: u32,
    /// The hosts, in the order of their first processes.
    pub hosts: Vec<HostReport>,
    /// Every pair of hosts.
    pub links: Vec<Link>,
}

impl Diagnosis {
    /// The part that planning needs.
    pub fn cluster_file(&self) -> Result<ClusterFile> {
        ClusterFile::new(self.hosts.iter().map(|h| h.host.clone()).collect(), self.links.clone())
    }
}

/// Measures the hosts of `world`. All its processes must call it; all get the same answer. Disks are measured where `folder` is, or would
/// be made. `say` is told what is being measured.
pub fn doctor(folder: &Path, world: &mut World, say: &dyn Fn(&str)) -> Result<Diagnosis> {
    let hosts = world.hosts().to_vec();
    let leaders: Vec<usize> = (0..hosts.len()).filter(|&p| !hosts[..p].contains(&hosts[p])).collect();
    let me = world.process();
    let mut ranks = if hosts.len() > 1 { world.ranks(1)? } else { Vec::new() };
    let mine = if leaders.contains(&me) {
        let processes = hosts.iter().filter(|host| **host == hosts[me]).count();
        let report = host(&hosts[me], processes, folder, say);
        report.and_then(|r| serde_json::to_vec(&r).map_err(|e| Error::internal(e.to_string())))
    } else {
        Ok(Vec::new())
    };
    if let Some(comm) = ranks.first_mut() {
        link::meet(&mut **comm)?; // here others sleep; in what follows they would take a core from those that measure
    }
    let mine = agree(world, mine)?;
    let all = world.gather(&mine)?;
    let parse =
        |&p: &usize| serde_json::from_slice(&all[p]).map_err(|e| Error::internal(format!("of process {p}: {e}")));
    let mut reports: Vec<HostReport> = leaders.iter().map(parse).collect::<Result<_>>()?;
    let mut links = Vec::new();
    if let Some(comm) = ranks.first_mut() {
        say("links");
        let place = |process: usize| leaders.iter().position(|&l| hosts[l] == hosts[process]).unwrap_or(0);
        let mut pairs: Vec<[usize; 2]> = (0..leaders.len())
            .flat_map(|a| (a + 1..leaders.len()).map(move |b| [a, b]))
            .map(|p| p.map(|i| leaders[i]))
            .collect();
        // Of each host the first process and the next.
        pairs.extend(leaders.iter().filter_map(|&l| Some([l, (l + 1..hosts.len()).find(|&p| hosts[p] == hosts[l])?])));
        for ([a, b], figures) in link::measure(&mut **comm, &pairs)? {
            let link::Figures { latency, bandwidth, skew, exchange } = figures;
            let (points, slows) = (Some(exchange.points), Some(exchange.slows));
            let (a, b) = (place(a), place(b));
            if a == b {
                reports[a].host.processes =
                    Some(ProcessLink { latency_s: latency, bandwidth, exchange: points, slows });
                continue;
            }
            if a == 0 {
                reports[b].clock_skew_s = skew;
            }
            links.push(Link {
                hosts: [reports[a].host.name.clone(), reports[b].host.name.clone()],
                latency_s: latency,
                bandwidth,
                exchange: points,
                slows,
            });
        }
    }
    let hosts = reports;
    Ok(Diagnosis { format: 1, hosts, links })
}

fn host(name: &str, processes: usize, folder: &Path, say: &dyn Fn(&str)) -> Result<HostReport> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (load, swap) = (load(&read("/proc/loadavg")), swap_used(&read("/proc/meminfo")));
    let about = machine::describe();
    let free = machine::free_memory_bytes();
    let isa = Isa::detect();
    say("processor");
    let peak = peak_flops(isa);
    let flops_per_core = speed::flops(1)?;
    let flops = if about.cores > 1 { speed::flops(about.cores)? } else { flops_per_core };
    say("memory");
    let memory_bandwidth_per_core = speed::memory(1, free);
    let memory_bandwidth = if about.cores > 1 { speed::memory(about.cores, free) } else { memory_bandwidth_per_core };
    say("kernels");
    let kernels = kernels::measure(about.cores, flops_per_core, free)?;
    let threads_exchange = (about.cores > 1).then(exchange::of_threads).transpose()?;
    let step = step::measure(&kernels)?;
    say("disk");
    let folder = disk::existing(folder);
    let disk = disk::measure(&folder);
    let (figures, disk_problem) = match disk {
        Ok(figures) => (Some(figures.clone()), figures.no_read),
        Err(why) => (None, Some(why)),
    };
    Ok(HostReport {
        host: Host {
            name: name.into(),
            cpu: about.cpu,
            isa: isa.to_string(),
            cores: about.cores,
            peak_flops_per_core: peak,
            flops_per_core,
            flops,
            memory_bytes: about.memory_bytes.max(1),
            memory_bandwidth_per_core,
            memory_bandwidth,
            disk_write: figures.as_ref().map(|d| d.write),
            disk_read: figures.as_ref().and_then(|d| d.read),
            disk_sync_s: figures.as_ref().map(|d| d.sync),
            step_s: Some(step),
            threads_exchange,
            processes: None,
            kernels,
        },
        os: about.os,
        free_memory_bytes: free,
        swap_used_bytes: swap,
        load,
        processes,
        disk_folder: folder,
        disk_problem,
        clock_skew_s: 0.0,
    })
}

/// The first figure of `/proc/loadavg`; 0 where there is none.
fn load(text: &str) -> f64 {
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Swap in use, from `/proc/meminfo`; 0 where the system does not say.
fn swap_used(text: &str) -> u64 {
    let field = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, free) = (field("SwapTotal:").unwrap_or(0), field("SwapFree:").unwrap_or(0));
    total.saturating_sub(free) * 1024
}

/// Writes a cluster file whole or not at all; one that was there before is kept beside it, and its new name is given.
pub fn write_cluster_file(path: &Path, file: &ClusterFile) -> Result<Option<PathBuf>> {
    let text = file.to_toml();
    let mut kept = None;
    match std::fs::read(path) {
        Ok(before) if before == text.as_bytes() => return Ok(None),
        Ok(before) => {
            let mut name = path.as_os_str().to_owned();
            name.push(".bak");
            atomic::write(Path::new(&name), &before)?;
            kept = Some(PathBuf::from(name));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("replace", path, &e)),
    }
    atomic::write(path, text.as_bytes())?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        assert_eq!(load("8.81 9.69 7.55 3/400 1234\n"), 8.81);
        assert_eq!(load(""), 0.0);
        assert_eq!(swap_used("MemTotal: 5 kB\nSwapTotal:  100 kB\nSwapFree:  40 kB\n"), 60 * 1024);
        assert_eq!(swap_used(""), 0);
    }

    #[test]
    fn this_machine_is_measured_and_the_file_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        let diagnosis =
            doctor(&folder.path().join("runs"), &mut World::alone(), &|what| said.borrow_mut().push(what.to_string()))
                .unwrap();
        assert_eq!(*said.borrow(), ["processor", "memory", "kernels", "disk"]);
        let host = &diagnosis.hosts[0];
        assert_eq!((diagnosis.hosts.len(), diagnosis.links.len(), host.processes), (1, 0, 1));
        assert!(host.disk_problem.as_ref().is_none_or(|p| p.contains("page cache")), "{host:?}");
        assert!(host.host.flops_per_core > 1e7 && host.host.memory_bandwidth > 1e7, "{host:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the disk is left as it was");
        let path = folder.path().join("cluster.toml");
        let file = diagnosis.cluster_file().unwrap();
        assert_eq!(write_cluster_file(&path, &file).unwrap(), None);
        assert_eq!(write_cluster_file(&path, &file).unwrap(), None, "the same again is no change");
        let read = ClusterFile::parse(&std::fs::read_to_string(&path).unwrap(), "cluster.toml").unwrap();
        assert_eq!(read, file);
        let mut other = diagnosis.clone();
        other.hosts[0].host.cores += 1;
        let kept = write_cluster_file(&path, &other.cluster_file().unwrap()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), file.to_toml(), "the one before is kept");
    }
}
