//! What will hurt, in words: a pure function of what was measured.

use crate::{Diagnosis, HostReport};
use paceline_base::text::{bytes, duration, si};
use serde::Serialize;

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// One host computes much more slowly than the others.
    SlowHost,
    /// Processors of different kinds.
    Kinds,
    /// A link on which gradients take long.
    SlowLink,
    /// A link on which every message takes long.
    Latency,
    /// Memory lies in swap.
    Swap,
    /// Clocks disagree.
    Clock,
    /// More processes than cores.
    Oversubscribed,
    /// Others compute, too.
    Busy,
    /// Little memory is free.
    Memory,
    /// Checkpoints take long, or cannot be written.
    Disk,
}

/// Something that will hurt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// What it is about.
    pub topic: Topic,
    /// What is wrong, what follows, and what to do.
    pub words: String,
}

/// The gradients of AlexNet, the largest model that comes with the program: what an all-reduce has to move.
const GRADIENTS: f64 = 240e6;
/// Its checkpoint: parameters and two states of Adam.
const CHECKPOINT: f64 = 3.0 * GRADIENTS;

/// Everything that will hurt, hosts before links.
pub fn warnings(diagnosis: &Diagnosis) -> Vec<Warning> {
    let mut all = Vec::new();
    slow_hosts(&diagnosis.hosts, &mut all);
    kinds(&diagnosis.hosts, &mut all);
    for host in &diagnosis.hosts {
        one_host(host, &mut all);
    }
    links(diagnosis, &mut all);
    all
}

fn warn(all: &mut Vec<Warning>, topic: Topic, words: String) {
    all.push(Warning { topic, words });
}

fn slow_hosts(hosts: &[HostReport], all: &mut Vec<Warning>) {
    let per_core = |h: &HostReport| h.host.flops / h.host.cores as f64;
    let Some(fastest) = hosts.iter().max_by(|a, b| per_core(a).total_cmp(&per_core(b))) else { return };
    for host in hosts {
        let share = per_core(host) / per_core(fastest);
        if share < 0.75 {
            warn(
                all,
                Topic::SlowHost,
                format!(
                    "a core of {} computes at {:.0} % of the speed of one of {}: where all ranks wait for each other, all become as slow; \
                     give it a smaller share of the samples, or leave it out",
                    host.host.name,
                    100.0 * share,
                    fastest.host.name
                ),
            );
        }
    }
}

fn kinds(hosts: &[HostReport], all: &mut Vec<Warning>) {
    let Some(first) = hosts.first() else { return };
    if let Some(other) = hosts.iter().find(|h| h.host.isa != first.host.isa) {
        warn(
            all,
            Topic::Kinds,
            format!(
                "{} computes with {} and {} with {}: results agree to rounding, not in bits, and a run resumed elsewhere is not \
                 repeated exactly",
                first.host.name, first.host.isa, other.host.name, other.host.isa
            ),
        );
    }
}

fn one_host(host: &HostReport, all: &mut Vec<Warning>) {
    let name = &host.host.name;
    let cores = host.host.cores;
    if host.processes > cores {
        warn(
            all,
            Topic::Oversubscribed,
            format!(
                "{name} has {} processes and {cores} core{}: they take turns, and whoever waits for another waits for its turn, too; start \
                 at most {cores}",
                host.processes,
                if cores == 1 { "" } else { "s" }
            ),
        );
    }
    if host.load > 0.5 * cores as f64 && host.load > 0.7 {
        warn(
            all,
            Topic::Busy,
            format!(
                "{name} was busy before (load {:.1} on {cores} core{}): its figures are too low, and so will be the speed of a run; end \
                 what else runs there, and measure again",
                host.load,
                if cores == 1 { "" } else { "s" }
            ),
        );
    }
    if host.swap_used_bytes > (64 << 20).max(host.host.memory_bytes / 100) {
        warn(
            all,
            Topic::Swap,
            format!(
                "{name} has {} in swap: memory was short, and what comes back from the disk is a thousand times slower; free memory, \
                 or switch swap off (swapoff -a)",
                bytes(host.swap_used_bytes)
            ),
        );
    }
    let free = host.free_memory_bytes;
    if free > 0 && (free < 1 << 30 || free < host.host.memory_bytes / 10) {
        warn(
            all,
            Topic::Memory,
            format!(
                "{name} has only {} of {} free: AlexNet alone takes {} for parameters, gradients and Adam's states; end what else runs there",
                bytes(free),
                bytes(host.host.memory_bytes),
                bytes((4.0 * GRADIENTS) as u64)
            ),
        );
    }
    disk(host, all);
    if host.clock_skew_s.abs() > 0.05 {
        let ahead = if host.clock_skew_s > 0.0 { "ahead of" } else { "behind" };
        warn(
            all,
            Topic::Clock,
            format!(
                "the clock of {name} is {} {ahead} the first host's: times of records and files will not fit together; let all hosts \
                 follow one time server (chrony, ntp)",
                duration(host.clock_skew_s.abs())
            ),
        );
    }
}

fn disk(host: &HostReport, all: &mut Vec<Warning>) {
    let (name, folder) = (&host.host.name, host.disk_folder.display());
    match host.host.disk_write {
        None => {
            let why = host.disk_problem.as_deref().unwrap_or("it was not measured");
            warn(
                all,
                Topic::Disk,
                format!(
                    "no checkpoint can be written on {name}: {why}; choose another folder (run.dir), or change its owner"
                ),
            );
        }
        Some(speed) if CHECKPOINT / speed > 10.0 => warn(
            all,
            Topic::Disk,
            format!(
                "the disk of {name} at {folder} takes {}B/s: a checkpoint of AlexNet with Adam ({}B) takes {}; write checkpoints \
                 seldom (checkpoint.every), or to another disk (run.dir)",
                si(speed),
                si(CHECKPOINT),
                duration(CHECKPOINT / speed)
            ),
        ),
        Some(_) => {}
    }
    if let Some(sync) = host.host.disk_sync_s.filter(|s| *s > 0.05) {
        warn(
            all,
            Topic::Disk,
            format!(
                "a small write takes {} to be safe on the disk of {name} at {folder}: checkpoints and records of short steps will wait \
                 for it; a local disk is quicker than one behind a network",
                duration(sync)
            ),
        );
    }
}

fn links(diagnosis: &Diagnosis, all: &mut Vec<Warning>) {
    let ranks = diagnosis.hosts.len() as f64;
    let Some(slowest) = diagnosis.links.iter().min_by(|a, b| a.bandwidth.total_cmp(&b.bandwidth)) else { return };
    // A ring moves 2·(p − 1)/p of the gradients through every link.
    let seconds = |bandwidth: f64| 2.0 * (ranks - 1.0) / ranks * GRADIENTS / bandwidth;
    if seconds(slowest.bandwidth) > 1.0 {
        let alike = diagnosis.links.iter().filter(|l| l.bandwidth < 1.5 * slowest.bandwidth).count();
        let [a, b] = &slowest.hosts;
        let others = match alike {
            1 if diagnosis.links.len() > 1 => {
                let rest = diagnosis.links.iter().filter(|l| *l != slowest).map(|l| l.bandwidth);
                format!(" (the others carry at least {})", bits(rest.fold(f64::INFINITY, f64::min)))
            }
            _ => String::new(),
        };
        warn(
            all,
            Topic::SlowLink,
            format!(
                "the link between {a} and {b} carries {}{others}: one all-reduce of AlexNet's {}B of gradients takes {}, in every step; \
                 use fewer hosts, larger batches or smaller gradients, or mend the link",
                bits(slowest.bandwidth),
                si(GRADIENTS),
                duration(seconds(slowest.bandwidth))
            ),
        );
    }
    if let Some(late) =
        diagnosis.links.iter().max_by(|a, b| a.latency_s.total_cmp(&b.latency_s)).filter(|l| l.latency_s > 1e-3)
    {
        let [a, b] = &late.hosts;
        warn(
            all,
            Topic::Latency,
            format!(
                "a small message between {a} and {b} takes {}: steps of small models will take at least {}; use larger batches, or hosts \
                 nearer to each other",
                duration(late.latency_s),
                duration(2.0 * late.latency_s * (ranks - 1.0).max(1.0))
            ),
        );
    }
}

/// Bytes per second as networks are sold.
fn bits(bandwidth: f64) -> String {
    format!("{}bit/s", si(8.0 * bandwidth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_plan::{Host, Link};
    use std::path::PathBuf;

    fn host(name: &str) -> HostReport {
        HostReport {
            host: Host {
                name: name.into(),
                cpu: "Xeon".into(),
                isa: "avx512".into(),
                cores: 4,
                peak_flops_per_core: None,
                flops_per_core: 1e11,
                flops: 4e11,
                memory_bytes: 64 << 30,
                memory_bandwidth_per_core: 1e10,
                memory_bandwidth: 3e10,
                disk_write: Some(5e8),
                disk_read: Some(1e9),
                disk_sync_s: Some(1e-3),
                step_s: None,
                threads_exchange: None,
                processes: None,
                kernels: std::collections::BTreeMap::new(),
            },
            os: "Linux".into(),
            free_memory_bytes: 50 << 30,
            swap_used_bytes: 0,
            load: 0.1,
            processes: 1,
            disk_folder: PathBuf::from("/runs"),
            disk_problem: None,
            clock_skew_s: 0.0,
        }
    }

    fn cluster() -> Diagnosis {
        let link = |a: &str, b: &str| Link {
            hosts: [a.into(), b.into()],
            latency_s: 5e-5,
            bandwidth: 1.2e9,
            exchange: None,
            slows: None,
        };
        let links = vec![link("a", "b"), link("a", "c"), link("b", "c")];
        Diagnosis { format: 1, hosts: vec![host("a"), host("b"), host("c")], links }
    }

    fn check(change: impl FnOnce(&mut Diagnosis), topic: Topic, words: &[&str]) {
        let mut diagnosis = cluster();
        change(&mut diagnosis);
        let found = warnings(&diagnosis);
        assert_eq!(found.iter().map(|w| w.topic).collect::<Vec<_>>(), [topic], "{found:?}");
        for part in words {
            assert!(found[0].words.contains(part), "{part:?} in {:?}", found[0].words);
        }
    }

    #[test]
    fn a_healthy_cluster_hears_nothing() {
        assert_eq!(warnings(&cluster()), []);
    }

    #[test]
    fn each_trouble_is_named_once_with_its_host_and_its_price() {
        check(|d| d.hosts[1].host.flops = 2e11, Topic::SlowHost, &["core of b", "50 %", "one of"]);
        check(|d| d.hosts[2].host.isa = "avx2".into(), Topic::Kinds, &["a computes with avx512 and c with avx2"]);
        // 100 Mbit/s: 2 · 2/3 · 240 MB at 12.5 MB/s.
        check(|d| d.links[2].bandwidth = 12.5e6, Topic::SlowLink, &["b and c", "100 Mbit/s", "25.6 s", "9.60 Gbit/s"]);
        check(|d| d.links[0].latency_s = 4e-3, Topic::Latency, &["a and b", "4 ms", "16 ms"]);
        check(|d| d.hosts[0].swap_used_bytes = 2 << 30, Topic::Swap, &["a has 2.0 GiB in swap"]);
        check(|d| d.hosts[1].clock_skew_s = -2.5, Topic::Clock, &["clock of b is 2.5 s behind"]);
        check(|d| d.hosts[1].clock_skew_s = 0.2, Topic::Clock, &["200 ms ahead of"]);
        check(|d| d.hosts[1].processes = 6, Topic::Oversubscribed, &["b has 6 processes and 4 cores", "at most 4"]);
        check(|d| d.hosts[2].load = 3.2, Topic::Busy, &["c was busy", "3.2 on 4"]);
        check(|d| d.hosts[0].free_memory_bytes = 500 << 20, Topic::Memory, &["a has only 500 MiB of 64.0 GiB"]);
        check(|d| d.hosts[0].host.disk_write = Some(20e6), Topic::Disk, &["20.0 MB/s", "36.0 s"]);
        check(|d| d.hosts[0].host.disk_sync_s = Some(0.3), Topic::Disk, &["300 ms", "/runs"]);
        let broken = |d: &mut Diagnosis| {
            d.hosts[0].host.disk_write = None;
            d.hosts[0].disk_problem = Some("cannot write to /runs: permission denied".into());
        };
        check(broken, Topic::Disk, &["no checkpoint", "permission denied"]);
    }

    #[test]
    fn troubles_come_together() {
        let mut diagnosis = cluster();
        diagnosis.hosts[1].load = 9.0;
        diagnosis.hosts[1].swap_used_bytes = 9 << 30;
        for link in &mut diagnosis.links {
            link.bandwidth = 100e6;
        }
        let topics: Vec<Topic> = warnings(&diagnosis).iter().map(|w| w.topic).collect();
        assert_eq!(topics, [Topic::Busy, Topic::Swap, Topic::SlowLink]);
        assert_eq!(warnings(&Diagnosis { format: 1, hosts: vec![], links: vec![] }), []);
    }
}
