//! Small cases, computed by hand: shared links, uneven ranks, what is hidden behind computing.

use super::*;
use crate::cluster_file::{ClusterFile, Host, Link};
use crate::cost::Processes;
use crate::key::{BufferKey, BufferRole, SegmentKey};
use crate::schedule::{Await, Phase, PhaseKind, Schedule, Segment, Task, TaskKind};
use paceline_base::collective::Collective;
use paceline_base::kernel::Elements;
use paceline_base::kernel::{Call, Kernel};
use paceline_base::optim::Rule;
use paceline_base::region::Region;
use paceline_base::units::DType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds of `zero`ing 1000 elements on a host of speed 1.
const SECOND: f64 = 1.0;

/// A host on whose cores clearing 1000 elements takes a second, or `slower` times as long.
fn host(name: &str, cores: usize, slower: f64) -> Host {
    let second = SECOND * slower;
    Host {
        name: name.into(),
        cpu: "made up".into(),
        isa: "none".into(),
        cores,
        peak_flops_per_core: None,
        flops_per_core: 1e9,
        flops: 1e9 * cores as f64,
        memory_bytes: 1 << 30,
        memory_bandwidth_per_core: 1e9,
        memory_bandwidth: 1e9 * cores as f64,
        disk_write: None,
        disk_read: None,
        disk_sync_s: None,
        step_s: Some(1e-9),
        // 4000 bytes take a second; nothing less does.
        threads_exchange: Some(vec![[4000.0, 1.0], [8000.0, 2.0]]),
        processes: None,
        kernels: BTreeMap::from([("zero 1000".into(), [0.0, 4000.0, second, 1.5 * second, second / 2.0])]),
    }
}

/// 4000 bytes a second, no latency to speak of; an exchange of 4000 bytes takes two seconds.
fn link(a: &str, b: &str, slows: f64) -> Link {
    Link {
        hosts: [a.into(), b.into()],
        latency_s: 1e-9,
        bandwidth: 4000.0,
        exchange: Some(vec![[0.0, 1e-9], [4000.0, 2.0]]),
        slows: Some(slows),
    }
}

fn buffer(rank: usize) -> BufferKey {
    BufferKey::new(SegmentKey::Metrics, BufferRole::Metrics, rank)
}

struct Steps {
    ranks: usize,
    tasks: Vec<Task>,
}

impl Steps {
    fn new(ranks: usize) -> Self {
        Self { ranks, tasks: Vec::new() }
    }

    fn push(mut self, rank: usize, size: usize, kind: TaskKind, waits: usize) -> Self {
        let index = self.tasks.len() as u32;
        let awaited = vec![Await::StepEnd; waits];
        self.tasks.push(Task { index, rank, part: 0, kind, size, stage: 0, awaited });
        self
    }

    /// A second of computing, on a host of speed 1.
    fn compute(self, rank: usize) -> Self {
        let call = Call { kernel: Kernel::Zero { len: 1000 }, args: vec![buffer(rank)] };
        self.push(rank, 1000, TaskKind::Compute(call), 0)
    }

    fn send(self, from: usize, to: usize, elements: usize) -> Self {
        let region = Region::whole(&[elements]);
        let kind =
            TaskKind::Transfer { to, source: buffer(from), target: buffer(to), region, elements: Elements::Float };
        self.push(from, elements, kind, 2)
    }

    fn all_reduce(self, group: &[usize], elements: usize) -> Self {
        let kind = TaskKind::Collective {
            what: Collective::AllReduce.into(),
            group: group.into(),
            buffers: group.iter().map(|&r| buffer(r)).collect(),
        };
        self.push(group[0], elements, kind, group.len())
    }

    fn simulate(self, hosts: Vec<Host>, links: Vec<Link>, processes: &[&str], replicas: usize) -> Prediction {
        let messages = self.tasks.iter().filter(|t| t.is_message()).count() as u32;
        let segment = Segment { key: SegmentKey::Metrics, tasks: self.tasks, buffers: Vec::new(), messages };
        let phase =
            Phase { kind: PhaseKind::Train, samples: 1, segments: vec![Arc::new(segment)], first_uses: Vec::new() };
        let schedule = Schedule {
            ranks: self.ranks,
            dtypes: vec![DType::F32; self.ranks],
            rule: Rule::Sgd,
            metrics: [].into(),
            buckets: Vec::new(),
            phases: vec![phase],
            memory: Vec::new(),
        };
        let file = ClusterFile::new(hosts, links).unwrap();
        let hosts = processes.iter().map(ToString::to_string).collect();
        let cluster = Cluster::of(&file, &Processes { hosts, replicas, threads: 1 }).unwrap();
        simulate(&schedule, 0, &cluster)
    }
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
}

fn two_hosts(slows: f64) -> (Vec<Host>, Vec<Link>) {
    (vec![host("a", 2, 1.0), host("b", 2, 1.0)], vec![link("a", "b", slows)])
}

#[test]
fn two_messages_over_one_link_share_it() {
    let (hosts, links) = two_hosts(0.0);
    // Ranks 0 and 1 are on a, 2 and 3 on b. A message of 1000 elements has the link for a second.
    let one = Steps::new(4).send(0, 2, 1000).simulate(hosts.clone(), links.clone(), &["a", "b"], 2);
    near(one.seconds, 1.0);
    let two = Steps::new(4).send(0, 2, 1000).send(1, 3, 1000);
    let two = two.simulate(hosts.clone(), links.clone(), &["a", "b"], 2);
    near(two.seconds, 2.0);
    // In the other direction there is a link of its own.
    let there_and_back = Steps::new(4).send(0, 2, 1000).send(3, 1, 1000).simulate(hosts, links, &["a", "b"], 2);
    near(there_and_back.seconds, 1.0);
    assert_eq!((two.bytes[0][2], two.bytes[1][3], two.bytes[2][0]), (4000, 4000, 0));
}

#[test]
fn what_two_hosts_send_to_a_third_shares_its_port() {
    let hosts = vec![host("a", 1, 1.0), host("b", 1, 1.0), host("c", 1, 1.0)];
    let links = vec![link("a", "b", 0.0), link("a", "c", 0.0), link("b", "c", 0.0)];
    let to_one = Steps::new(3).send(0, 2, 1000).send(1, 2, 1000);
    near(to_one.simulate(hosts.clone(), links.clone(), &["a", "b", "c"], 1).seconds, 2.0);
    let in_a_ring = Steps::new(3).send(0, 1, 1000).send(1, 2, 1000);
    near(in_a_ring.simulate(hosts, links, &["a", "b", "c"], 1).seconds, 1.0);
}

#[test]
fn a_slow_host_is_waited_for_and_is_the_critical_path() {
    let hosts = vec![host("a", 1, 1.0), host("b", 1, 3.0)];
    let step = Steps::new(2).compute(0).compute(1).all_reduce(&[0, 1], 1000);
    let p = step.simulate(hosts, vec![link("a", "b", 0.0)], &["a", "b"], 1);
    near(p.seconds, 3.0 + 2.0);
    near(p.split[0].compute, 1.0);
    near(p.split[0].wait, 4.0);
    near(p.split[1].compute, 3.0);
    near(p.split[1].wait, 2.0);
    let told: Vec<_> = p.critical.iter().filter(|s| s.seconds > 1e-6).map(|s| (s.rank, s.what)).collect();
    assert_eq!(told, [(1, What::Compute("zero")), (1, What::Communicate("all-reduce"))]);
}

#[test]
fn what_travels_while_ranks_compute_is_hidden_but_takes_some_of_the_cores() {
    let step =
        || Steps::new(2).all_reduce(&[0, 1], 1000).compute(0).compute(1).compute(0).compute(1).compute(0).compute(1);
    let (hosts, links) = two_hosts(0.0);
    near(step().simulate(hosts, links, &["a", "b"], 1).seconds, 3.0);
    // For two seconds a quarter of computing is lost: half a second.
    let (hosts, links) = two_hosts(0.25);
    near(step().simulate(hosts, links, &["a", "b"], 1).seconds, 3.5);
}

#[test]
fn exchanges_of_two_buckets_follow_each_other() {
    let (hosts, links) = two_hosts(0.0);
    // Each takes two seconds, and has the link for one: the second one begins when the first has left it.
    let step = Steps::new(2).all_reduce(&[0, 1], 1000).all_reduce(&[0, 1], 1000).compute(0).compute(1);
    near(step.simulate(hosts, links, &["a", "b"], 1).seconds, 3.0);
}

#[test]
fn ranks_of_one_host_share_its_cores_and_add_up_on_their_own_threads() {
    // Clearing takes half as long again while the other core does the same; the sum is done by both, after the last has come.
    let step = Steps::new(2).compute(0).compute(1).all_reduce(&[0, 1], 1000);
    let p = step.simulate(vec![host("a", 2, 1.0)], vec![], &["a"], 2);
    near(p.seconds, 1.5 + 1.0);
    near(p.split[0].transfer, 1.0);
    // Four ranks on two cores take turns.
    let step = Steps::new(4).compute(0).compute(1).compute(2).compute(3);
    near(step.simulate(vec![host("a", 2, 1.0)], vec![], &["a"], 4).seconds, 3.0);
}

#[test]
fn hosts_that_a_file_does_not_know_are_named() {
    let file = ClusterFile::new(vec![host("a", 2, 1.0), host("b", 2, 1.0)], vec![link("a", "b", 0.0)]).unwrap();
    let of = |hosts: &[&str]| {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        Cluster::of(&file, &Processes { hosts, replicas: 1, threads: 1 })
    };
    let words = of(&["a", "b", "c"]).unwrap_err().to_string();
    assert!(
        words.contains("host c, where process 2 runs") && words.contains("paceline doctor --hosts a,b,c"),
        "{words}"
    );
    let words = of(&["elsewhere"]).unwrap_err().to_string();
    assert!(words.contains("measured on a, b") && words.contains("paceline doctor there"), "{words}");
    let words = Processes::over(&file, 3, 1).unwrap_err().to_string();
    assert!(words.contains("3 ranks cannot lie on 2 hosts in equal numbers"), "{words}");
    assert!(of(&["b"]).unwrap().notes().is_empty());
    assert!(of(&["a", "a"]).unwrap().notes()[0].contains("was not measured"), "two processes of one host");
}
