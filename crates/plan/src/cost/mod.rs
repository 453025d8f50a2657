//! What things cost where they run: kernels on a host, messages between ranks. The simulator asks; a cluster file answers.

mod collective;
mod exchange;
mod kernel;
mod place;
mod shape;

pub use kernel::KernelTime;
pub use place::Processes;
pub use shape::KernelShape;

pub(crate) use exchange::{ExchangeCosts, LinkCosts};
pub(crate) use kernel::{Crowd, KernelCosts};
pub(crate) use place::Place;

use crate::schedule::{Task, TaskKind};

/// One host, for the cost model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostCosts {
    pub kernels: KernelCosts,
    /// Threads of all its ranks, against its cores.
    pub crowd: Crowd,
    /// Seconds of a step beside its tasks.
    pub step: f64,
    /// Ranks of one process.
    pub threads: ExchangeCosts,
    /// Processes of this host.
    pub processes: LinkCosts,
}

/// What the ranks of a schedule run on, and what things cost there.
///
/// ```
/// use paceline_plan::{Cluster, ClusterFile, Processes};
/// let text = r#"
/// format = 1
/// [[host]]
/// name = "a"
/// cpu = "Xeon"
/// isa = "avx512"
/// cores = 2
/// flops_per_core = 1.2e11
/// flops = 2.3e11
/// memory_bytes = 16000000000
/// memory_bandwidth_per_core = 1.1e10
/// memory_bandwidth = 1.6e10
/// "#;
/// let file = ClusterFile::parse(text, "cluster.toml")?;
/// let cluster = Cluster::of(&file, &Processes::one_process("a", 2, 1))?;
/// assert!(cluster.notes()[0].contains("no kernels"));
/// # Ok::<(), paceline_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub(crate) hosts: Vec<HostCosts>,
    /// By rank.
    pub(crate) places: Vec<Place>,
    /// By pair of hosts.
    pub(crate) links: Vec<Vec<Option<LinkCosts>>>,
    /// Bytes of an element.
    pub(crate) element: usize,
    notes: Vec<String>,
}

impl Cluster {
    /// Threads of one process on a machine that nobody measured: for bytes and memory, which do not depend on it, and for comparisons.
    pub fn guess(ranks: usize) -> Self {
        let kernels = KernelCosts::new(60e9, 30e9, std::iter::empty()).expect("no kernels are none that are wrong");
        let memory = ExchangeCosts::line(1e-6, 8e9);
        let processes = LinkCosts { latency: 1e-6, bandwidth: 8e9, exchange: memory.clone(), slows: 0.0 };
        let crowd = Crowd { threads: 1, all: ranks, cores: ranks.max(1) };
        Self {
            hosts: vec![HostCosts { kernels, crowd, step: 0.0, threads: memory, processes }],
            places: vec![Place { host: 0, process: 0 }; ranks],
            links: vec![vec![None]],
            element: 4,
            notes: Vec::new(),
        }
    }

    /// What had to be assumed, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many ranks it has a place for.
    pub fn ranks(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn host(&self, rank: usize) -> &HostCosts {
        &self.hosts[self.places[rank].host]
    }

    /// Seconds of a task that its rank does by itself.
    pub(crate) fn seconds(&self, task: &Task) -> f64 {
        let host = self.host(task.rank);
        let (shape, flops, elements) = match &task.kind {
            TaskKind::Compute(call) | TaskKind::Update(call) => {
                (KernelShape::of(&call.kernel), call.kernel.flops(), call.kernel.traffic())
            }
            TaskKind::Load { .. } | TaskKind::LoadLists { .. } => (KernelShape::load(task.size), 0.0, task.size as f64),
            // A few numbers; what it costs is in every step, and measured with it.
            _ => return 0.0,
        };
        host.kernels.seconds(&shape, flops, elements * self.element as f64, host.crowd)
    }

    /// The connection of two ranks of different processes.
    pub(crate) fn link(&self, a: usize, b: usize) -> &LinkCosts {
        let (a, b) = (self.places[a].host, self.places[b].host);
        match &self.links[a][b] {
            Some(link) => link,
            None => &self.hosts[a].processes,
        }
    }
}
