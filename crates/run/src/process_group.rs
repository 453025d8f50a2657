//! The processes of a run: who they are, what they must agree on before the first step, and the line to `launch`.
//!
//! Every process opens the data and builds the model; process 0 decides what is left to decide (kernels, buckets, where the
//! run is) and tells the others. From the first step on they meet only through `Comm`.

use crate::resolve::Opened;
use crate::train::Finished;
use paceline_base::text::counted;
use paceline_base::{Error, Result};
use paceline_comm::{Started, World, world};
use paceline_config::{Auto, Config, PlacementName, StrategyName};
use paceline_engine::Ended;
use paceline_kernels::cpu::Isa;
use paceline_launch::{Doing, Facts, LaunchClient, OnLost};
use paceline_system::threads::cores;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The processes that train one run together, from the first that each knows of the others to the end of the run.
pub struct ProcessGroup {
    client: Option<LaunchClient>,
    /// Processes that a launcher says there are.
    expected: usize,
    world: Option<World>,
    /// What `launch` says of earlier attempts and of the hosts.
    told: Vec<String>,
    /// The cluster file that steps are predicted from, if one was given.
    cluster_file: Option<PathBuf>,
}

/// How a run's ranks lie in its processes.
#[derive(Clone, Debug)]
pub struct Workers {
    /// This process.
    pub process: usize,
    /// The host of each process.
    pub hosts: Vec<String>,
    /// Ranks in each process.
    pub replicas: usize,
    /// Threads that a rank may have, so that all hosts have a core for each.
    pub threads: usize,
    /// The best instruction set that all hosts have.
    pub isa: Isa,
    /// Elements of a bucket.
    pub bucket: usize,
    /// Decisions in words.
    pub reasons: Vec<String>,
}

impl Workers {
    /// Number of processes.
    pub fn processes(&self) -> usize {
        self.hosts.len()
    }

    /// Ranks in all.
    pub fn ranks(&self) -> usize {
        self.processes() * self.replicas
    }

    /// The number of ranks in each process.
    pub fn by_process(&self) -> Vec<usize> {
        vec![self.replicas; self.processes()]
    }

    /// The ranks that this process holds.
    pub fn local(&self) -> Range<usize> {
        self.process * self.replicas..(self.process + 1) * self.replicas
    }

    /// Ranks on this process's host.
    pub fn on_this_host(&self) -> usize {
        self.replicas * self.hosts.iter().filter(|h| **h == self.hosts[self.process]).count()
    }
}

/// What one process tells the others of itself.
#[derive(Serialize, serde::Deserialize)]
struct Own {
    cores: usize,
    isa: Isa,
    configuration: String,
    data: Option<String>,
    version: String,
}

impl ProcessGroup {
    /// A run in this process alone.
    pub fn alone() -> Self {
        Self { client: None, expected: 1, world: Some(World::alone()), told: Vec::new(), cluster_file: None }
    }

    /// The processes that a launcher started this one with; alone if none did. Nothing is connected yet but the line to
    /// `paceline launch`.
    pub fn from_env(on_lost: OnLost) -> Result<Self> {
        let started = Started::from_env();
        let expected = started.map_or(1, |s| s.processes);
        if expected > 1 && !world::has_mpi() {
            World::from_env()?; // says what is missing
        }
        Ok(Self {
            client: LaunchClient::from_env(on_lost)?,
            expected,
            world: None,
            told: Vec::new(),
            cluster_file: None,
        })
    }

    /// Steps are predicted from this file, in place of this machine's last `doctor`.
    pub fn set_cluster_file(&mut self, file: Option<PathBuf>) {
        self.cluster_file = file;
    }

    /// The cluster file that was given.
    pub(crate) fn cluster_file(&self) -> Option<&Path> {
        self.cluster_file.as_deref()
    }

    /// Whether this process shows and records for all.
    pub fn leads(&self) -> bool {
        match &self.world {
            Some(world) => world.process() == 0,
            None => Started::from_env().is_none_or(|s| s.process == 0),
        }
    }

    /// The line to `launch`.
    pub fn client(&self) -> Option<&LaunchClient> {
        self.client.as_ref()
    }

    /// What `launch` says of earlier attempts and of the hosts.
    pub(crate) fn told(&self) -> &[String] {
        &self.told
    }

    /// Set when `launch` asks to stop.
    pub fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        self.client.as_ref().map(LaunchClient::stop_flag)
    }

    pub(crate) fn doing(&self, what: Doing) {
        if let Some(client) = &self.client {
            client.doing(what);
        }
    }

    /// The configuration for several processes: the strategy for them, if none was named.
    pub(crate) fn fit(&self, config: &Config) -> Result<Config> {
        let mut config = config.clone();
        if self.expected == 1 {
            return Ok(config);
        }
        let strategy = &config.strategy;
        let other = strategy.plan.is_none() && strategy.name != StrategyName::MultiWorker;
        if other && config.is_given("strategy.name") {
            return Err(Error::user(format!(
                "strategy.name = \"{}\" runs in one process, but {} were started; set it to \
                 multi-worker-mirrored, or give a plan for so many ranks (strategy.plan), or start paceline train alone",
                strategy.name, self.expected
            )));
        }
        config.spread_over_processes()?;
        Ok(config)
    }

    /// Tells `launch` what this process found, and waits for its leave; then connects the processes.
    pub(crate) fn meet(&mut self, config: &Config, place: &Path, opened: &Opened) -> Result<()> {
        let text = config.to_table().to_string();
        // Where each has its own, they need not be the same; what they must agree on is compared later.
        let own = config.data.placement == PlacementName::Local;
        let data = (!own).then(|| opened.data.fingerprint());
        if let Some(client) = &self.client {
            let bytes = opened.checkpoint_bytes(config);
            let mut facts = Facts::collect(&text).with_place(place, bytes);
            facts.data = data.clone();
            self.told = client.check_in(facts)?.notes;
        }
        if self.world.is_none() {
            let world = World::from_env()?;
            if let Some(client) = &self.client {
                client.watch(world.waiting_ranks());
            }
            self.world = Some(world);
        }
        let world = self.world()?;
        if world.processes() == 1 {
            return Ok(());
        }
        let hosts = world.hosts().to_vec();
        let others = self.exchange(&Own {
            cores: cores(),
            isa: Isa::detect(),
            configuration: text,
            data,
            version: env!("CARGO_PKG_VERSION").into(),
        })?;
        let differs = |same: fn(&Own, &Own) -> bool| others.iter().position(|o| !same(o, &others[0]));
        for (what, at) in [
            ("runs another version of paceline; install the same program", differs(|a, b| a.version == b.version)),
            (
                "has another configuration; give the same file and flags to all",
                differs(|a, b| a.configuration == b.configuration),
            ),
            (
                "sees other training samples (give it the same files, or set data.placement = \"local\" if each is to train \
                 on its own)",
                differs(|a, b| a.data == b.data),
            ),
        ] {
            if let Some(process) = at {
                return Err(Error::user(format!(
                    "process {process} on {} {what} than process 0 on {}",
                    hosts[process], hosts[0]
                )));
            }
        }
        Ok(())
    }

    /// How ranks lie in processes. All processes come to the same answer.
    pub(crate) fn workers(&mut self, config: &Config, plan_ranks: Option<usize>) -> Result<Option<Workers>> {
        let processes = self.world()?.processes();
        let strategy = &config.strategy;
        if processes == 1 && (strategy.plan.is_some() || strategy.name != StrategyName::MultiWorker) {
            return Ok(None);
        }
        let (process, hosts) = (self.world()?.process(), self.world()?.hosts().to_vec());
        let replicas = match plan_ranks {
            Some(ranks) if ranks % processes == 0 => ranks / processes,
            Some(ranks) => {
                return Err(Error::user(format!(
                    "the plan has {ranks} ranks, which {processes} processes cannot hold in equal numbers; start {ranks} \
                     processes, or a number that divides it"
                )));
            }
            None => strategy.replicas.chosen().unwrap_or(1),
        };
        let isa = Isa::detect();
        let own = Own { cores: cores(), isa, configuration: String::new(), data: None, version: String::new() };
        let all = self.exchange(&own)?;
        let threads = |(p, own): (usize, &Own)| {
            let there = hosts.iter().filter(|h| **h == hosts[p]).count();
            (own.cores / (there * replicas)).max(1)
        };
        let fewest = all.iter().enumerate().map(threads).min().unwrap_or(1);
        let worst = |isa: &Isa| Isa::ALL.iter().position(|i| i == isa);
        let isa = all.iter().map(|o| o.isa).max_by_key(worst).unwrap_or(isa);
        let mut reasons = vec![format!(
            "{}: {replicas} in each of {} on {}",
            counted(processes * replicas, "rank"),
            counted(processes, "process"),
            list_hosts(&hosts)
        )];
        if all.iter().any(|o| o.isa != isa) {
            reasons.push(format!("all hosts compute with {isa}, the best that every one has, so that bits agree"));
        }
        let crowded = all
            .iter()
            .enumerate()
            .find(|(p, o)| hosts.iter().filter(|h| **h == hosts[*p]).count() * replicas > o.cores);
        if let Some((p, own)) = crowded {
            reasons.push(format!("{} has {} for more ranks: they take turns", hosts[p], counted(own.cores, "core")));
        }
        Ok(Some(Workers {
            process,
            hosts,
            replicas,
            threads: strategy.threads.chosen().unwrap_or(fewest),
            isa,
            bucket: strategy.bucket.chosen().unwrap_or(paceline_plan::Store::default().bucket),
            reasons,
        }))
    }

    /// Measures how large buckets should be, where that is left open.
    pub(crate) fn choose_bucket(&mut self, config: &Config, parameters: usize, workers: &mut Workers) -> Result<()> {
        if config.strategy.bucket != Auto::Auto || workers.processes() == 1 {
            return Ok(());
        }
        let world = self.world()?;
        let comm = world.ranks(1)?.swap_remove(0);
        let chosen = crate::tune::bucket::measure(comm, parameters)?;
        let chosen: crate::tune::bucket::Chosen = self.tell(&chosen)?;
        workers.bucket = chosen.elements;
        workers.reasons.push(chosen.reason);
        Ok(())
    }

    /// What process 0 says, on all.
    pub(crate) fn tell<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Result<T> {
        let world = self.world()?;
        let mine = if world.process() == 0 { encode(value)? } else { Vec::new() };
        decode(&world.broadcast(mine)?)
    }

    /// What every process says, on all.
    pub(crate) fn exchange<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Result<Vec<T>> {
        let mine = encode(value)?;
        self.world()?.gather(&mine)?.iter().map(|bytes| decode(bytes)).collect()
    }

    /// The connected processes.
    pub(crate) fn world(&mut self) -> Result<&mut World> {
        self.world.as_mut().ok_or_else(|| Error::internal("processes that are not connected yet"))
    }

    /// Tells `launch`, if it started this process, of an error before the run begins.
    pub fn failed(&mut self, error: &Error) {
        if let Some(client) = &self.client {
            client.failed(error);
        }
    }

    /// The last word of a run, of which the first process has what came of it.
    pub(crate) fn end(&mut self, result: &Result<Option<Finished>>) {
        match (&self.client, result) {
            (Some(client), Ok(Some(Finished { ended: Ended::Stopped, .. }))) => client.stopped(),
            (Some(client), Ok(_)) => client.done(),
            (Some(client), Err(e)) => client.failed(e),
            (None, _) => {}
        }
        if let (Some(world), Err(_)) = (&mut self.world, result) {
            world.abandon();
        }
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::internal(e.to_string()))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::internal(format!("what another process said: {e}")))
}

/// "a (0, 1), b (2, 3)", or only the number of hosts where they are many.
fn list_hosts(hosts: &[String]) -> String {
    let mut names: Vec<(&str, Vec<String>)> = Vec::new();
    for (process, host) in hosts.iter().enumerate() {
        match names.iter_mut().find(|(name, _)| name == host) {
            Some((_, list)) => list.push(process.to_string()),
            None => names.push((host, vec![process.to_string()])),
        }
    }
    if names.len() > 8 {
        return format!("{} hosts", names.len());
    }
    names.iter().map(|(name, list)| format!("{name} ({})", list.join(", "))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_with_their_processes() {
        let of = |hosts: &[&str]| list_hosts(&hosts.iter().map(|h| h.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["a", "b", "a"]), "a (0, 2), b (1)");
        assert_eq!(of(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]), "9 hosts");
    }

    #[test]
    fn a_strategy_for_one_process_is_refused_where_there_are_several() {
        let group = ProcessGroup { client: None, expected: 3, world: None, told: Vec::new(), cluster_file: None };
        let mut config = Config::default();
        assert_eq!(group.fit(&config).unwrap().strategy.name, StrategyName::MultiWorker);
        config.set("strategy.name", "mirrored").unwrap();
        let error = group.fit(&config).unwrap_err();
        assert!(error.message().contains("3 were started"), "{error}");
        assert_eq!(ProcessGroup::alone().fit(&config).unwrap().strategy.name, StrategyName::Mirrored);
    }
}
