//! Where ranks run: a cluster file and a layout of processes become a [`Cluster`], or a sentence that says what does not fit.

use super::{Cluster, Crowd, ExchangeCosts, HostCosts, KernelCosts, LinkCosts};
use crate::cluster_file::{ClusterFile, Host, ProcessLink};
use paceline_base::text::{counted, did_you_mean};
use paceline_base::{Error, Result};

/// Where a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the host.
    pub host: usize,
    /// Number of the process, over all hosts.
    pub process: usize,
}

/// How the ranks of a run lie in processes and on hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The host of each process, by name.
    pub hosts: Vec<String>,
    /// Ranks in each process.
    pub replicas: usize,
    /// Threads of each rank's kernels.
    pub threads: usize,
}

/// Seconds of a step beside its tasks where that was not measured.
const STEP: f64 = 2e-6;
/// Seconds until two threads that wait for each other have met, where that was not measured.
const MEET: f64 = 1e-6;
/// The same of two processes of a host.
const PROCESSES_MEET: f64 = 4e-6;
/// Seconds of computing that are lost for each second of an exchange between processes, where that was not measured.
const SLOWS: f64 = 0.3;

impl Processes {
    /// Ranks in one process.
    pub fn one_process(host: &str, ranks: usize, threads: usize) -> Self {
        Self { hosts: vec![host.into()], replicas: ranks, threads }
    }

    /// Ranks spread evenly over the hosts of a file, a process on each; of a file with one host, all there.
    ///
    /// # Errors
    /// If the hosts cannot have the same number of ranks, or there are fewer ranks than hosts.
    pub fn over(file: &ClusterFile, ranks: usize, threads: usize) -> Result<Self> {
        let hosts = file.hosts.len();
        if ranks < hosts || !ranks.is_multiple_of(hosts) {
            return Err(Error::user(format!(
                "{} cannot lie on {} in equal numbers; give a plan or strategy.replicas for {} ranks or a multiple of it, or a cluster \
                 file with other hosts",
                counted(ranks, "rank"),
                counted(hosts, "host"),
                hosts
            )));
        }
        Ok(Self { hosts: file.hosts.iter().map(|h| h.name.clone()).collect(), replicas: ranks / hosts, threads })
    }

    /// Ranks in all.
    pub fn ranks(&self) -> usize {
        self.hosts.len() * self.replicas
    }
}

impl Cluster {
    /// What a file says of the hosts that the ranks are on.
    ///
    /// # Errors
    /// If a process is on a host that the file does not know: it is another machine's, or has fewer hosts than the run.
    pub fn of(file: &ClusterFile, run: &Processes) -> Result<Self> {
        let mut used: Vec<&Host> = Vec::new();
        let mut places = Vec::with_capacity(run.ranks());
        for (process, name) in run.hosts.iter().enumerate() {
            let host = file.hosts.iter().find(|h| h.name == *name).ok_or_else(|| unknown(file, run, process))?;
            let at = used.iter().position(|h| h.name == host.name).unwrap_or_else(|| {
                used.push(host);
                used.len() - 1
            });
            places.extend(std::iter::repeat_n(Place { host: at, process }, run.replicas));
        }
        let mut notes = Vec::new();
        let mut hosts = Vec::with_capacity(used.len());
        for (at, host) in used.iter().enumerate() {
            let processes = run.hosts.iter().filter(|name| **name == host.name).count();
            let ranks = places.iter().filter(|p| p.host == at).count();
            hosts.push(of_host(host, run, ranks, processes, &mut notes)?);
        }
        let of_link = |a: &Host, b: &Host| {
            let link = file.link(&a.name, &b.name)?;
            Some(link_costs(link.latency_s, link.bandwidth, link.exchange.as_deref(), link.slows))
        };
        let links = used.iter().map(|a| used.iter().map(|b| of_link(a, b)).collect()).collect();
        Ok(Self { hosts, places, links, element: 4, notes })
    }
}

/// A process is on a host that the file does not have.
fn unknown(file: &ClusterFile, run: &Processes, process: usize) -> Error {
    let name = &run.hosts[process];
    let known: Vec<&str> = file.hosts.iter().map(|h| &h.name[..]).collect();
    let mut all: Vec<&str> = Vec::new();
    run.hosts.iter().for_each(|h| {
        if !all.contains(&&h[..]) {
            all.push(h)
        }
    });
    let again = if all.len() > 1 {
        format!("paceline doctor --hosts {}", all.join(","))
    } else {
        "paceline doctor there".into()
    };
    Error::user(format!(
        "it was measured on {}, and says nothing of host {name}, where process {process} runs{}; measure again with {again}",
        known.join(", "),
        did_you_mean(name, known.iter().copied())
    ))
}

fn of_host(host: &Host, run: &Processes, ranks: usize, processes: usize, notes: &mut Vec<String>) -> Result<HostCosts> {
    let kernels = KernelCosts::new(host.flops_per_core, host.memory_bandwidth_per_core, host.kernels.iter());
    let kernels = kernels.map_err(|e| Error::user(format!("host {}: {e}", host.name)))?;
    if kernels.is_empty() {
        notes.push(format!(
            "no kernels were measured on {}: usual efficiencies are taken (dense 67 %, convolutions 50 % of the product's speed); \
             paceline doctor of this version measures them",
            host.name
        ));
    }
    let all = ranks * run.threads;
    if all > host.cores {
        notes.push(format!(
            "{} of {} on {}: they take turns",
            counted(all, "thread"),
            counted(ranks, "rank"),
            format_args!("the {} of {}", counted(host.cores, "core"), host.name)
        ));
    }
    // An all-reduce in memory reads and writes every byte.
    let memory = host.memory_bandwidth_per_core.min(host.memory_bandwidth / ranks.clamp(1, host.cores) as f64);
    let threads = match &host.threads_exchange {
        Some(points) => ExchangeCosts::new(points),
        None => ExchangeCosts::line(MEET, memory / 2.0),
    };
    let process_link = match &host.processes {
        Some(ProcessLink { latency_s, bandwidth, exchange, slows }) => {
            link_costs(*latency_s, *bandwidth, exchange.as_deref(), *slows)
        }
        None => {
            if processes > 1 {
                notes.push(format!(
                    "what processes of {} exchange was not measured: taken as copies in memory; measure with paceline launch --np {processes} \
                     -- doctor",
                    host.name
                ));
            }
            link_costs(PROCESSES_MEET, memory / 4.0, None, None)
        }
    };
    Ok(HostCosts {
        kernels,
        crowd: Crowd { threads: run.threads, all, cores: host.cores },
        step: host.step_s.unwrap_or(STEP),
        threads,
        processes: process_link,
    })
}

fn link_costs(latency: f64, bandwidth: f64, exchange: Option<&[[f64; 2]]>, slows: Option<f64>) -> LinkCosts {
    LinkCosts {
        latency,
        bandwidth,
        exchange: exchange.map_or_else(|| ExchangeCosts::line(2.0 * latency, bandwidth), ExchangeCosts::new),
        slows: slows.unwrap_or(SLOWS),
    }
}
